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
from sfumato.mas.bins import Bins
from sfumato.mas.dataset import Weight
from sfumato.mas.distribution import Spread, coarser, quantile, spread_over, spreads
from sfumato.mas.evaluation.drops import DropShare
from sfumato.mas.grid import MOST
from sfumato.mas.grouped import Asked, Grouped, Sum
from sfumato.mas.order_statistic import order_statistic
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.published import noisy_counts, plain_numbers, weight_of
from sfumato.mas.question import Question
from sfumato.mas.selection import condition
from sfumato.mas.variable import Variable
from sfumato.mas.woodruff import quantile_error, share_error

_BINS = ((300, 8), (2_000, 16), (8_000, 32), (float("inf"), MOST))
"""How many bins are used for up to how many records: fine enough, and few enough that their noise does not add up."""

Row = dict[str, Any]


class Quantiles(Analysis):
    """Quantiles of a variable of numbers, by groups if asked for.

    Under a policy with noise they are read off noisy counts of bins that were frozen with the data set, on a straight line
    within a bin: they tell no more than a histogram does, and none is the value of a record. Without noise a quantile is the
    smallest value that at least the share p of the records, or of their weights, does not exceed. Standard errors are
    Woodruff's, for records drawn one by one, with Kish's design effect of the weights; they allow for drops and noise.
    """

    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    p: tuple[float, ...] = param(default=(0.25, 0.5, 0.75), doc="shares, each above 0 and below 1")
    by: tuple[str, ...] = param(default=(), doc="quantiles for each cell of these", columns="many", holds="categories")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")

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
        return f"quantiles:{self.of}:{self.p}:{self.by}:{self.weighted}"

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variable of numbers and the sides."""
        return (numbers_in(self.of, known), *levels_of(self.by, known))

    def run(self, question: Question) -> Findings:
        """Find quantiles of the records that are kept."""
        variable, *sides = self.variables(question.dataset.variables)
        weight = weight_of(question, self.weighted)
        if variable.top is None:
            raise DataError(f"variable '{variable.name}' has no values. Choose another one.")
        if not question.policy.counts.sd:
            rows, used = self._exact(question, variable, sides, weight)
        else:
            rows, used = self._noisy(question, variable, sides, weight)
        sets = [table.sets() for table in used]
        if weight is not None:
            sets += [table.sets("weighted count") for table in used]
        return Findings({"quantiles": rows}, notes=tuple(_notes(question, variable)), sets=tuple(sets))

    def _rows(self, table: Grouped, place: tuple[int, ...], found: Sequence[tuple[float, float]]) -> list[Row]:
        """Return the rows of one cell from its quantiles and their standard errors, NaN where they are not shown."""
        amounts = table.question.policy.amounts
        levels = {v.name: v.levels[i] for v, i in zip(table.variables, place, strict=False)}
        values, errors = (np.array(column, np.float64) for column in zip(*found, strict=True))
        shown = plain_numbers(significant(values, amounts.digits))
        told = plain_numbers(significant(np.where(np.isnan(values), np.nan, errors), amounts.error_digits))
        where = {name: levels.get(name, TOTAL) for name in self.by}
        return [where | {"p": p, "value": v, "standard error": e} for p, v, e in zip(self.p, shown, told, strict=True)]

    def _noisy(
        self, question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None
    ) -> tuple[list[Row], list[Grouped]]:
        policy = question.policy
        effect, noise = _effect(policy, weight), policy.counts.sd * (weight.large if weight else 1.0)
        whole = spread_over(question, sides, Bins.of(variable, variable.grid), weight)
        rows: list[Row] = []
        used: list[Grouped] = []
        for margin in whole.margins(keep=1):
            sizes = noisy_counts(margin.without_last())
            needed = [next(bins for most, bins in _BINS if size < most) for size in sizes]
            found = {}
            for most in sorted(set(needed)):
                coarse, starts = coarser(variable, most)
                table = margin.regrouped(coarse, starts)
                used.append(table)
                found[most] = dict(spreads(table, weight))
            for place, most in zip(np.ndindex(margin.counts.shape[:-1]), needed, strict=True):
                spread = found[most][place]

                def at(share: float, spread: Spread = spread, whole: bool = False) -> float:
                    return quantile(spread, share, policy.counts.beyond, whole)

                errors = [quantile_error(at, p, share_error(spread, p, effect, noise)) for p in self.p]
                rows += self._rows(
                    margin, place, [(at(p, whole=variable.integer), e) for p, e in zip(self.p, errors, strict=True)]
                )
        return rows, used

    def _exact(
        self, question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None
    ) -> tuple[list[Row], list[Grouped]]:
        x, beyond, effect = variable.numbers, question.policy.counts.beyond, _effect(question.policy, weight)
        there = f"CASE WHEN {x} IS NULL THEN NULL ELSE"
        values = {"one": f"{there} 1 END"} | ({"w": f"{there} w END"} if weight else {})
        sums = {"n": Sum("one", parts=0)} | ({"w": Sum("w", weight.scale)} if weight else {})
        rows: list[Row] = []
        tables = Grouped.of(question, sides, Asked(values, sums)).margins()
        kept = f"({question.selection.where()}) AND ({question.kept}) AND {x} IS NOT NULL"
        for table in tables:
            for place in np.ndindex(table.counts.shape):
                n = float(table.sums["n"][place])
                total = float(table.sums["w"][place]) if weight else n
                chosen = np.zeros(table.counts.shape, bool)
                chosen[place] = True
                where = f"{kept} AND ({condition(table.variables, chosen)})"

                def at(share: float, n: float = n, total: float = total, where: str = where) -> float:
                    if not n or n * share < beyond or n * (1 - share) < beyond:
                        return float("nan")
                    rank = share * total * (1 - 1e-13)  # 0.1 times 30 is not above 3
                    scale = ("w", weight.scale) if weight else None
                    return order_statistic(question.dataset.warehouse, x, rank, where, scale)

                errors = [float(np.sqrt(effect * p * (1 - p) / max(n, 1.0))) for p in self.p]
                rows += self._rows(
                    table, place, [(at(p), quantile_error(at, p, e)) for p, e in zip(self.p, errors, strict=True)]
                )
        return rows, tables


def _effect(policy: Policy, weight: Weight | None) -> float:
    """Return by what the variance of a share is larger than without weights and drops."""
    drop = policy.drop
    kept = 1 - drop.share if isinstance(drop, DropShare) and drop.share < 1 else 1.0
    return (weight.effect if weight else 1.0) / kept


def _notes(question: Question, variable: Variable) -> Iterator[str]:
    counts = question.policy.counts
    if counts.sd:
        yield f"Quantiles are read off counts of bins that have random noise (standard deviation {counts.sd:g})."
    if counts.beyond:
        yield f"Quantiles with fewer than about {counts.beyond} records beyond them, or in an open bin at an end, are not shown."
    yield "Standard errors are Woodruff's, for records drawn one by one."
    if variable.gaps:
        yield f"Records without a value of {variable.title} are left out."
