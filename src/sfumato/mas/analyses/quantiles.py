"""Quantiles: the values that given shares of the records do not exceed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.contract import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses.cross_tab import TOTAL
from sfumato.mas.analysis import Analysis, Findings, levels_of, numbers_in
from sfumato.mas.curves import Curve, looked_up, read_off
from sfumato.mas.dataset import Dataset, Weight
from sfumato.mas.grouped import Grouped
from sfumato.mas.models.errors import usual
from sfumato.mas.perturbation import significant
from sfumato.mas.published import plain_numbers, weight_of
from sfumato.mas.question import Question
from sfumato.mas.variable import Variable
from sfumato.mas.woodruff import design_squares

Row = dict[str, Any]


class Quantiles(Analysis):
    """Quantiles of a variable of numbers, by groups if asked for.

    Under a policy with noise they are read off noisy counts of bins that were frozen with the data set, on a straight line
    within a bin: they tell no more than a histogram does, and none is the value of a record. Without noise a quantile is the
    smallest value that at least the share p of the records, or of their weights, does not exceed. Standard errors are
    Woodruff's; they allow for drops and noise.
    """

    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    p: tuple[float, ...] = param(default=(0.25, 0.5, 0.75), doc="shares, each above 0 and below 1")
    by: tuple[str, ...] = param(default=(), doc="quantiles for each cell of these", columns="many", holds="categories")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")
    errors: str = param(
        default="usual", choices=("usual", "hc1", "design"),
        doc="standard errors: of records drawn one by one (hc1), of the survey's design, or the usual ones for the weights",
    )  # fmt: skip

    def validate(self) -> None:
        """Refuse shares that are none, and a side that is named twice; put the shares in order."""
        given: Any = self.p if isinstance(self.p, tuple | list) else (self.p,)
        try:
            shares = sorted({math.nan if isinstance(p, bool) else float(p) for p in given})  # "0.5" on the command line
        except (TypeError, ValueError):
            shares = []
        if not shares or not all(0 < p < 1 for p in shares):
            raise ParameterError("p of quantiles must be numbers above 0 and below 1, such as 0.25, 0.5 and 0.75.")
        object.__setattr__(self, "p", tuple(shares))
        if len(set(self.by)) < len(self.by):
            raise ParameterError("quantiles name a variable twice. Name each side once.")

    def wording(self) -> str:
        """Return the canonical wording."""
        return f"quantiles:{self.of}:{self.p}:{self.by}:{self.weighted}:{self.errors}"

    def wording_for(self, dataset: Dataset) -> str:
        """Return the canonical wording."""
        return self.with_(errors="design" if self._design(dataset) else "hc1").wording()

    def _design(self, dataset: Dataset) -> bool:
        return usual(self.errors, self.weighted, dataset) == "design"

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variable of numbers and the sides."""
        return (numbers_in(self.of, known), *levels_of(self.by, known))

    def run(self, question: Question) -> Findings:
        """Find quantiles of the records that are kept."""
        variable, *sides = self.variables(question.dataset.variables)
        weight = weight_of(question, self.weighted)
        if variable.top is None:
            raise DataError(f"variable '{variable.name}' has no values. Choose another one.")
        find = read_off if question.policy.counts.sd else looked_up
        tables, used = find(question, variable, sides, weight)
        design = self._design(question.dataset)
        rows = [row for table, curves in tables for row in self._rows(table, curves, variable, weight, design)]
        sets = [table.sets() for table in used]
        if weight is not None:
            sets += [table.sets("weighted count") for table in used]
        if design:
            named = [f"quantile {p!r} of {variable.name}, design" for p in self.p]
            sets += [table.sets(about) for table, _ in tables for about in named]
        return Findings({"quantiles": rows}, notes=tuple(_notes(question, variable, design)), sets=tuple(sets))

    def _rows(
        self, table: Grouped, curves: Sequence[Curve], variable: Variable, weight: Weight | None, design: bool
    ) -> Iterator[Row]:
        """Yield the rows of a table; quantiles and errors are empty where they are not shown."""
        policy, p = table.question.policy, np.array(self.p)
        cuts = [[curve.at(share) for share in self.p] for curve in curves]
        n, total = (np.maximum([getattr(curve, name) for curve in curves], 1.0)[:, None] for name in ("n", "weight"))
        variance = (weight.effect if weight else 1.0) * p * (1 - p) / n
        if design:
            squares = design_squares(table, variable, weight, self.p, cuts) * table.factor().reshape(-1, 1)
            # with noise, no less than of records drawn one by one: households rarely vary less, and noise may have hidden all
            variance = np.maximum(squares / total**2, variance if policy.counts.sd else 0.0)
        for place, curve, row, of_sample in zip(np.ndindex(table.counts.shape), curves, cuts, variance, strict=True):
            values = np.array([cut.value for cut in row])
            errors = [
                curve.error(share, policy.variance_inflation * v) for share, v in zip(self.p, of_sample, strict=True)
            ]
            shown = np.ceil(values) if variable.integer else values
            told = significant(np.where(np.isnan(values), np.nan, errors), policy.amounts.error_digits)
            levels = {v.name: v.levels[i] for v, i in zip(table.variables, place, strict=True)}
            where = {name: levels.get(name, TOTAL) for name in self.by}
            for share, value, error in zip(
                self.p, plain_numbers(significant(shown, policy.amounts.digits)), plain_numbers(told), strict=True
            ):
                yield where | {"p": share, "value": value, "standard error": error}


def _notes(question: Question, variable: Variable, design: bool) -> Iterator[str]:
    counts = question.policy.counts
    if counts.sd:
        yield f"Quantiles are read off counts of bins that have random noise (standard deviation {counts.sd:g})."
    if counts.beyond:
        yield f"Quantiles with fewer than about {counts.beyond} records beyond them, or in an open bin at an end, are not shown."
    drawn = "strata and households drawn with replacement" if design else "records drawn one by one"
    yield f"Standard errors are Woodruff's, for {drawn}."
    if variable.gaps:
        yield f"Records without a value of {variable.title} are left out."
