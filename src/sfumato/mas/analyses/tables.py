"""Cross-tabulations: counts of records by the levels of some variables, means and sums, with totals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.codebook import Codebook, Weight
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Result, Steps, levels_of, numbers_in
from sfumato.mas.register import Register
from sfumato.mas.rules import CellRule
from sfumato.mas.sums import Moment, ProtectedCells, SumsRequest, TableSums
from sfumato.mas.survey_design import SurveyCorrelation, design_notes
from sfumato.mas.variable import Variable
from sfumato.typing import Flags, Numbers

TOTAL = "Total"


class CrossTab(Analysis):
    """A table of counts, and of means and sums if asked for, with all its totals.

    Noise is added to cells, and totals are sums of cells, so that the table adds up.
    """

    kind = "table"
    by: tuple[str, ...] = param(doc="the variables of the sides of the table", columns="many", holds="categories")
    of: str | None = param(
        default=None, doc="a variable of numbers whose means and sums are asked for", columns="one", holds="numbers"
    )
    weighted: bool = param(default=False, doc="whether survey weights are added up in place of records")

    @override
    def validate(self) -> None:
        if not self.by:
            raise ParameterError("a cross_tab needs at least one variable.")
        if len(set(self.by)) < len(self.by):
            raise ParameterError("a cross_tab names a variable twice. Name each side once.")

    @override
    def wording(self) -> str:
        return f"cross_tab:{self.by}:{self.of}:{self.weighted}"

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return self.sides(known) + (() if self.of is None else (numbers_in(self.of, known),))

    @override
    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of(self.by, known)

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        known = question.codebook.variables
        weight = weight_of(question.codebook, self.weighted)
        amount = None if self.of is None else Amount(numbers_in(self.of, known), weight)
        moments = amount.moments() if amount is not None else {"w": Moment(weights=1)} if weight else {}
        sums = yield SumsRequest({"cells": TableSums(self.sides(known), moments, "amounts" if amount else "counts")})
        rows: list[dict[str, Any]] = []
        for table in sums.cells("cells").margins():
            effects = amount.effects(question, register, table.sides) if amount is not None else None
            rows += self._rows(table, amount, weight, question.policy, effects)
        return Result({"cells": rows}, notes=tuple(self._notes(question, amount, weight)))

    def _rows(
        self,
        table: ProtectedCells,
        amount: Amount | None,
        weight: Weight | None,
        policy: Policy,
        effects: Numbers | None,
    ) -> Iterator[dict[str, Any]]:
        columns = {"count": shown_counts(table, policy, weight)}
        if amount is not None and effects is not None:
            columns |= amount.shown(table, policy, effects)
        levels = {v.name: v.levels for v in table.sides}
        cells = itertools.product(*(levels.get(name, (TOTAL,)) for name in self.by))
        names, untold = (*self.by, *columns), too_small(table, policy)
        shown = (plain_numbers(np.where(untold, np.nan, values).ravel()) for values in columns.values())
        for cell, *values in zip(cells, *shown, strict=True):
            yield dict(zip(names, (*cell, *values), strict=True))

    def _notes(self, question: Question, amount: Amount | None, weight: Weight | None) -> Iterator[str]:
        yield from count_notes(question.policy, weight)
        if amount is None:
            return
        policy, name = question.policy, amount.variable.title
        if amount.variable.gaps:
            yield f"Records without a value of {name} are counted, but are in no mean and no sum."
        if policy.amounts.clip and amount.variable.bounds is not None:
            low, high = amount.variable.bounds
            yield f"Values of {name} are clipped to {low:g} and {high:g} before anything is added up."
        if policy.amounts.sd:
            yield "Each sum has random noise. A mean is a noisy sum over a noisy count; its standard error allows for both."
        yield from design_notes(question.codebook.design)
        yield from (rule.words() for rule in policy.rules if isinstance(rule, CellRule))


# --- counts


def weight_of(codebook: Codebook, weighted: bool) -> Weight | None:
    """Return the survey weights if they are asked for; refuse if there are none."""
    if weighted and codebook.weight is None:
        raise ParameterError("this data set has no survey weights. Ask for plain counts.")
    return codebook.weight if weighted else None


def too_small(table: ProtectedCells, policy: Policy) -> Flags:
    """Return which cells are part of a known one that is too small to be shown; nothing is told of these."""
    return np.broadcast_to(table.sizes < policy.counts.least, table.n.shape)


def shown_counts(table: ProtectedCells, policy: Policy, weight: Weight | None = None) -> Numbers:
    """Return the counts of cells as they are published, weighted if there are weights; NaN where too small."""
    shown = policy.counts.shown(table.n)
    if weight is not None:
        rounded = policy.counts.shown_weighted(table.sums["w"].ravel(), weight.mean).reshape(table.n.shape)
        shown = np.where(np.isnan(shown), np.nan, rounded)
    return shown


def count_notes(policy: Policy, weight: Weight | None = None) -> Iterator[str]:
    """Yield what is done to counts, in sentences."""
    counts = policy.counts
    if counts.sd and weight is None:
        yield f"Each count has random noise (standard deviation {counts.sd:g}, more in large sets); totals are sums of cells."
    elif counts.sd:
        yield "Each weighted count has random noise to the scale of the weights; totals are sums of cells."
    if counts.base > 1:
        yield f"Counts are rounded to multiples of {counts.base}." if weight is None else "Weighted counts are rounded."
    if counts.least:
        yield f"Counts below {counts.least}{'' if weight is None else ' records'} are not shown."


def plain_numbers(values: Numbers) -> list[float | None]:
    """Return numbers as rows of an answer have them: None for NaN."""
    return [None if np.isnan(v) else v for v in values.tolist()]


# --- amounts


@dataclass(frozen=True)
class Amount:
    """A variable of numbers whose sums are asked for, with or without survey weights."""

    variable: Variable
    weight: Weight | None

    def __post_init__(self) -> None:
        if self.variable.bounds is None:
            raise DataError(
                f"variable '{self.variable.name}' has no values to add up, or no public bounds. Choose another one; the custodian "
                "can give it bounds in the schema."
            )

    @property
    def centre(self) -> float:
        """The public number that is taken off before adding."""
        assert self.variable.bounds is not None  # noqa: S101 - checked at construction
        low, high = self.variable.bounds
        return (low + high) / 2

    def moments(self) -> dict[str, Moment]:
        """Return what is added up: values and their squares, and how many there are; the weights with each."""
        x, c = self.variable, self.centre
        if self.weight is None:
            found = {"s": Moment(x, 1, 0, c), "ss": Moment(x, 2, 0, c)}
            return found | ({"values": Moment(x, 0)} if x.gaps else {})
        there = x if x.gaps else None
        return {
            "w": Moment(weights=1), "values": Moment(there, 0), "vw": Moment(there, 0, 1), "s": Moment(x, 1, 1, c),
            "ww": Moment(there, 0, 2), "ws": Moment(x, 1, 2, c), "ss": Moment(x, 2, 2, c),
        }  # fmt: skip

    def effects(self, question: Question, register: Register, sides: Sequence[Variable]) -> Numbers:
        """Return the design effects of the means of cells, beyond that of unequal weights."""
        correlation = SurveyCorrelation.of(self.variable)
        return register.design_effects(question.selection, sides, correlation, self.weight is not None)

    def means(self, table: ProtectedCells, effects: Numbers) -> CellMeans:
        """Return the means of cells, and what their variances are made of, with the effects of the survey's design.

        By linearisation the variance of Σwv / Σw is n / (n − 1) Σ w²(v − m)² / (Σw)²; without weights that is s² / n. The noise
        adds its own: that of the sum, and of the number of values times the mean.
        """
        sums, noise = table.sums, table.variances
        counts = np.asarray(sums.get("values", sums["n"]))
        weights = sums["vw"] if self.weight is not None else counts
        divided = np.where(weights > 0, weights, np.nan)
        mean = sums["s"] / divided  # above the centre
        ws, ww = (sums["ws"], sums["ww"]) if self.weight is not None else (sums["s"], counts)
        squares = np.maximum(sums["ss"] - 2 * mean * ws + mean**2 * ww, 0.0)
        n = np.where(counts > 1, counts, np.nan)
        of_weights = noise["vw"] if self.weight is not None else noise.get("values", noise["n"])
        return CellMeans(
            mean + self.centre, counts, divided, squares * n / (n - 1), noise["s"] + of_weights * mean**2,
            np.broadcast_to(effects, mean.shape),
        )  # fmt: skip

    def shown(self, table: ProtectedCells, policy: Policy, effects: Numbers) -> dict[str, Numbers]:
        """Return means, their standard errors and sums as they are published; NaN where they are not shown."""
        made = self.means(table, effects)
        errors = made.errors(policy)
        hidden = made.counts < max(policy.counts.least, 1)
        total = table.sums["s"] + self.centre * np.nan_to_num(made.weights)
        if policy.amounts.sd:
            assert self.variable.bounds is not None  # noqa: S101 - checked at construction
            most = max(abs(end) for end in self.variable.bounds) * (self.weight.large if self.weight else 1.0)
            if self.variable.bounds[0] >= 0:
                for rule in policy.rules:
                    hidden = hidden | (rule.unsafe(most, total) if isinstance(rule, CellRule) else False)
        found = {"mean": made.mean, "standard error": errors, "sum": total}
        digits = {"standard error": policy.amounts.error_digits}
        return {
            name: significant(np.where(hidden, np.nan, values), digits.get(name, policy.amounts.digits))
            for name, values in found.items()
        }


@dataclass(frozen=True, eq=False)
class CellMeans:
    """Means of the cells of a table; arrays have one axis per side."""

    mean: Numbers
    counts: Numbers
    """Of records with a value."""
    weights: Numbers
    """What sums are divided by; NaN where that is not positive."""
    sampled: Numbers
    """Variance of the sum of v − m in a sample of records drawn one by one."""
    noise: Numbers
    """Variance that noise adds to it."""
    effects: Numbers
    """By how much it is larger by the survey's design."""

    def errors(self, policy: Policy) -> Numbers:
        """Return the standard errors of the means."""
        varied = policy.variance_inflation * self.effects * self.sampled
        return np.asarray(np.sqrt(varied + self.noise) / self.weights)
