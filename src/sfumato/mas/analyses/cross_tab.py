"""Cross-tabulations: counts of records by the levels of some variables, means and sums, with totals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.mas.amounts import Amount
from sfumato.mas.analysis import Analysis, Findings, levels_of, numbers_in
from sfumato.mas.cell_rule import CellRule
from sfumato.mas.dataset import Dataset, Weight
from sfumato.mas.grouped import Asked, Grouped, weight_sum
from sfumato.mas.models.errors import usual
from sfumato.mas.published import cell_counts, count_notes, plain_numbers, weight_of
from sfumato.mas.question import Question
from sfumato.mas.variable import Variable

TOTAL = "Total"


def _others(amount: Amount | None, weight: Weight | None) -> list[str]:
    """Return what the numbers beside counts are, of the same records: each is charged."""
    found = [] if weight is None else ["weighted count"]
    if amount is not None:
        found.append(amount.about)
        if amount.variable.gaps:  # a sum over a mean is how many records have a value
            found.append(f"{amount.variable.name} has a value")
    return found


class CrossTab(Analysis):
    """A table of counts, and of means and sums if asked for, with all its totals.

    Each cell has noise of its own, which hangs on the records that it counts, and on the universe where records are dropped: a
    total is not the sum of its cells, and the same cell has the same number in every table of a universe.
    """

    by: tuple[str, ...] = param(doc="the variables of the sides of the table", columns="many", holds="categories")
    of: str | None = param(
        default=None, doc="a variable of numbers whose means and sums are asked for", columns="one", holds="numbers"
    )
    weighted: bool = param(default=False, doc="whether survey weights are added up in place of records")
    errors: str = param(
        default="usual", choices=("usual", "hc1", "design"),
        doc="standard errors of means: robust (hc1), of the survey's design, or the usual ones for the weights",
    )  # fmt: skip

    def validate(self) -> None:
        """Refuse a table without sides, and a side that is named twice."""
        if not self.by:
            raise ParameterError("a cross_tab needs at least one variable.")
        if len(set(self.by)) < len(self.by):
            raise ParameterError("a cross_tab names a variable twice. Name each side once.")

    def wording(self) -> str:
        """Return the canonical wording; the order of the sides is part of the answer's form, so it stays."""
        return f"cross_tab:{self.by}:{self.of}:{self.weighted}:{self.errors}"

    def wording_for(self, dataset: Dataset) -> str:
        """Return the canonical wording; counts have no standard errors."""
        return self.with_(errors="design" if self._design(dataset) else "hc1").wording()

    def _design(self, dataset: Dataset) -> bool:
        return self.of is not None and usual(self.errors, self.weighted, dataset) == "design"

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the sides of the table, and the variable of numbers."""
        return self.sides(known) + (() if self.of is None else (numbers_in(self.of, known),))

    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the sides of the table."""
        return levels_of(self.by, known)

    def run(self, question: Question) -> Findings:
        """Add up the records that are kept, scale back, perturb and round."""
        variables = self.variables(question.dataset.variables)
        sides = variables[: len(self.by)]
        weight = weight_of(question, self.weighted)
        design = self._design(question.dataset)
        amount = Amount(question, variables[-1], weight, design) if self.of is not None else None
        if amount is not None:
            asked = amount.asked()
        else:
            asked = Asked({"w": "w"}, {"records": weight_sum(question, weight)}) if weight else Asked()
        tables = Grouped.of(question, sides, asked).margins()
        rows = [row for table in tables for row in self._rows(table, amount, weight)]
        least = question.policy.counts.least
        sets = [table.sets(least=least) for table in tables]
        for about in _others(amount, weight):
            sets += [table.sets(about, least) for table in tables]
            sets += [table.sets(f"{about}, design", least) for table in tables] if design else []
        return Findings({"cells": rows}, notes=tuple(self._notes(question, amount, weight)), sets=tuple(sets))

    def _rows(self, table: Grouped, amount: Amount | None, weight: Weight | None) -> Iterator[dict[str, Any]]:
        columns = {"count": cell_counts(table, weight)}
        if amount is not None:
            columns |= amount.of(table).shown()
        levels = {v.name: v.levels for v in table.variables}
        cells = itertools.product(*(levels.get(name, (TOTAL,)) for name in self.by))
        names, untold = (*self.by, *columns), table.untold().ravel()
        shown = (plain_numbers(np.where(untold, np.nan, values)) for values in columns.values())
        for cell, *values in zip(cells, *shown, strict=True):
            yield dict(zip(names, (*cell, *values), strict=True))

    def _notes(self, question: Question, amount: Amount | None, weight: Weight | None) -> Iterator[str]:
        yield from count_notes(question, weight)
        if amount is None:
            return
        policy, name = question.policy, amount.variable.title
        if amount.variable.gaps:
            yield f"Records without a value of {name} are counted, but are in no mean and no sum."
        if amount.design:
            yield "Standard errors are linearised, for strata and households drawn with replacement."
        if policy.amounts.top_coded:
            ends = "The largest values" if amount.variable.bottom is None else "The largest and the smallest values"
            yield f"{ends} of {name} are replaced by their mean before anything is added up."
        if policy.amounts.sd:
            yield "Each sum has random noise. A mean is a noisy sum over a noisy count; its standard error allows for both."
        yield from (rule.words() for rule in policy.rules if isinstance(rule, CellRule))
