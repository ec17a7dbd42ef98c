"""Cross-tabulations, histograms and quantiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.aggregate import (
    AggregateRequest,
    CellAggregates,
    cell_counts,
    count_notes,
    plain_numbers,
    weight_of,
    weight_sum,
)
from sfumato.mas.amount_rules import CellRule
from sfumato.mas.amounts import Amount
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset, Weight
from sfumato.mas.models.influence import default_covariance_type
from sfumato.mas.perturbation import significant
from sfumato.mas.quantile_estimation import (
    DistributionCurve,
    coarser,
    design_squares,
    looked_up,
    read_off,
    spread_over,
    spreads,
)
from sfumato.mas.question import Analysis, Findings, Question, levels_of, numbers_in
from sfumato.mas.variable import MISSING, Variable

# --- cross tab
# Cross-tabulations: counts of records by the levels of some variables, means and sums, with totals.

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

    @override
    def validate(self) -> None:
        if not self.by:
            raise ParameterError("a cross_tab needs at least one variable.")
        if len(set(self.by)) < len(self.by):
            raise ParameterError("a cross_tab names a variable twice. Name each side once.")

    @override
    def wording(self) -> str:
        return f"cross_tab:{self.by}:{self.of}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        return self.with_(errors="design" if self._design(dataset) else "hc1").wording()

    def _design(self, dataset: Dataset) -> bool:
        return self.of is not None and default_covariance_type(self.errors, self.weighted, dataset) == "design"

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
            asked = (
                AggregateRequest({"w": "w"}, {"records": weight_sum(question, weight)})
                if weight
                else AggregateRequest()
            )
        tables = CellAggregates.of(question, sides, asked).margins()
        rows = [row for table in tables for row in self._rows(table, amount, weight)]
        least = question.policy.counts.least
        sets = [table.sets(least=least) for table in tables]
        for about in _others(amount, weight):
            sets += [table.sets(about, least) for table in tables]
            sets += [table.sets(f"{about}, design", least) for table in tables] if design else []
        return Findings({"cells": rows}, notes=tuple(self._notes(question, amount, weight)), sets=tuple(sets))

    def _rows(self, table: CellAggregates, amount: Amount | None, weight: Weight | None) -> Iterator[dict[str, Any]]:
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


# --- histogram
# Histograms: how many records lie in each bin of a variable.


class Histogram(Analysis):
    """Counts of the bins of a variable of numbers, whose edges were frozen with the data set.

    The edges are the custodian's cutpoints, or round numbers that cut the whole data set into bins of about the same number of
    records. The bins at the ends are open: no smallest and no largest value is shown, and enough records lie beyond each edge.
    """

    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    by: tuple[str, ...] = param(
        default=(), doc="a histogram for each cell of these", columns="many", holds="categories"
    )
    bins: int | None = param(
        default=None, low=2, high=64, integer=True, doc="most bins; none for the cutpoints, or 16 where there are none"
    )
    weighted: bool = param(default=False, doc="whether survey weights are added up in place of records")

    @override
    def validate(self) -> None:
        if len(set(self.by)) < len(self.by):
            raise ParameterError("a histogram names a variable twice. Name each side once.")

    @override
    def wording(self) -> str:
        return f"histogram:{self.of}:{self.by}:{self.bins}:{self.weighted}"

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variable of numbers and the sides."""
        return (numbers_in(self.of, known), *levels_of(self.by, known))

    def run(self, question: Question) -> Findings:
        """Count the records of each bin that are kept, scale back, perturb and round."""
        variable, *sides = self.variables(question.dataset.variables)
        weight = weight_of(question, self.weighted)
        if self.bins is None and variable.cutpoints is not None:
            table = spread_over(question, sides, variable, weight)
        else:
            if not variable.grid:
                raise DataError(f"variable '{variable.name}' has too few values for a histogram. Choose another one.")
            table = spread_over(question, sides, coarser(variable, self.bins or 16)[0], weight)
        tables = table.margins(keep=1)
        rows = [row for margin in tables for row in self._rows(margin, variable, weight)]
        sets = [margin.sets() for margin in tables]
        if weight is not None:
            sets += [margin.sets("weighted count") for margin in tables]
        return Findings({"bins": rows}, notes=tuple(_notes(question, variable, weight)), sets=tuple(sets))

    def _rows(self, table: CellAggregates, variable: Variable, weight: Weight | None) -> Iterator[dict[str, Any]]:
        counts, cut = table.question.policy.counts, table.variables[-1].cutpoints or Cutpoints(())
        for place, spread in spreads(table, weight):
            levels = {v.name: v.levels[i] for v, i in zip(table.variables, place, strict=False)}
            kept = spread.without_thin_ends(counts.beyond)
            shown = counts.shown(kept.counts)
            if weight is not None:
                shown = np.where(np.isnan(shown), np.nan, counts.shown_weighted(kept.weights, weight.mean))
            labels = replace(cut, edges=kept.edges).labels
            ends = zip((None, *kept.edges), (*kept.edges, None), strict=True)
            for label, (low, high), count in zip(labels, ends, plain_numbers(shown), strict=True):
                where = {name: levels.get(name, TOTAL) for name in self.by}
                yield where | {variable.name: label, "over": low, "up to": high, "count": count}


def _notes(question: Question, variable: Variable, weight: Weight | None) -> Iterator[str]:
    yield from count_notes(question, weight)
    beyond = question.policy.counts.beyond
    if beyond:
        yield f"Bins at the ends are merged until about {beyond} records lie beyond each edge."
    if variable.gaps or MISSING in variable.levels:
        yield f"Records without a value of {variable.title} are left out."


# --- quantiles
# Quantiles: the values that given shares of the records do not exceed.


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

    @override
    def validate(self) -> None:
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

    @override
    def wording(self) -> str:
        return f"quantiles:{self.of}:{self.p}:{self.by}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        return self.with_(errors="design" if self._design(dataset) else "hc1").wording()

    def _design(self, dataset: Dataset) -> bool:
        return default_covariance_type(self.errors, self.weighted, dataset) == "design"

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
        return Findings({"quantiles": rows}, notes=tuple(_quantile_notes(question, variable, design)), sets=tuple(sets))

    def _rows(
        self,
        table: CellAggregates,
        curves: Sequence[DistributionCurve],
        variable: Variable,
        weight: Weight | None,
        design: bool,
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


def _quantile_notes(question: Question, variable: Variable, design: bool) -> Iterator[str]:
    counts = question.policy.counts
    if counts.sd:
        yield f"Quantiles are read off counts of bins that have random noise (standard deviation {counts.sd:g})."
    if counts.beyond:
        yield f"Quantiles with fewer than about {counts.beyond} records beyond them, or in an open bin at an end, are not shown."
    drawn = "strata and households drawn with replacement" if design else "records drawn one by one"
    yield f"Standard errors are Woodruff's, for {drawn}."
    if variable.gaps:
        yield f"Records without a value of {variable.title} are left out."
