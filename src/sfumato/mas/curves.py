"""Distribution functions of a variable in the cells of a table: read off noisy counts of bins, or looked up among the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sfumato.mas.bins import Bins
from sfumato.mas.dataset import Weight
from sfumato.mas.distribution import Cut, Spread, coarser, cut_at, spread_over, spreads
from sfumato.mas.grid import MOST
from sfumato.mas.grouped import Asked, Grouped, Sum
from sfumato.mas.order_statistic import order_statistic
from sfumato.mas.published import noisy_counts
from sfumato.mas.question import Question
from sfumato.mas.selection import condition
from sfumato.mas.variable import Variable
from sfumato.mas.woodruff import noise_variance, quantile_error

_BINS = ((300, 8), (2_000, 16), (8_000, 32), (float("inf"), MOST))
"""How many bins are used for up to how many records: fine enough, and few enough that their noise does not add up."""


@dataclass(frozen=True)
class Curve:
    """Where shares of the records of one cell lie."""

    at: Callable[[float], Cut]
    """The cut at a share; one of NaN where none may be given."""
    n: float
    """How many records have a value."""
    weight: float
    """Their weights added up."""
    noise: Callable[[float], float]
    """What noise adds to the variance of the share below the cut."""

    def error(self, share: float, variance: float) -> float:
        """Return the standard error of the quantile, where the share below it has a variance without noise."""
        return quantile_error(lambda p: self.at(p).value, share, math.sqrt(variance + self.noise(share)))


Found = tuple[list[tuple[Grouped, list[Curve]]], list[Grouped]]
"""Tables with the curves of their cells, and the tables of which counts were used."""


def read_off(question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None) -> Found:
    """Return curves of noisy counts of bins that were frozen with the data set, of the table of some sides and of its margins."""
    beyond, noise = question.policy.counts.beyond, question.policy.counts.sd * (weight.large if weight else 1.0)
    whole = spread_over(question, sides, Bins.of(variable, variable.grid), weight)

    def curve(spread: Spread) -> Curve:
        return Curve(
            lambda share: cut_at(spread, share, beyond), float(spread.counts.sum()), float(spread.weights.sum()),
            lambda share: noise_variance(spread, share, noise),
        )  # fmt: skip

    found: list[tuple[Grouped, list[Curve]]] = []
    used: list[Grouped] = []
    for margin in whole.margins(keep=1):
        table = margin.without_last()
        needed = [next(bins for most, bins in _BINS if size < most) for size in noisy_counts(table)]
        made = {}
        for most in sorted(set(needed)):
            used.append(margin.regrouped(*coarser(variable, most)))
            made[most] = dict(spreads(used[-1], weight))
        places = zip(np.ndindex(table.counts.shape), needed, strict=True)
        found.append((table, [curve(made[most][place]) for place, most in places]))
    return found, used


def looked_up(question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None) -> Found:
    """Return curves whose cuts are the values of records: each the smallest that at least the share does not exceed."""
    x, beyond = variable.numbers, question.policy.counts.beyond
    there = f"CASE WHEN {x} IS NULL THEN NULL ELSE"
    values = {"one": f"{there} 1 END"} | ({"w": f"{there} w END"} if weight else {})
    sums = {"n": Sum("one", parts=0)} | ({"w": Sum("w", weight.scale)} if weight else {})

    def curve(table: Grouped, place: tuple[int, ...]) -> Curve:
        n = float(table.sums["n"][place])
        total = float(table.sums["w"][place]) if weight else n
        chosen = np.zeros(table.counts.shape, bool)
        chosen[place] = True
        where = f"{question.records} AND {x} IS NOT NULL AND ({condition(table.variables, chosen)})"

        @cache
        def at(share: float) -> Cut:
            if not n or n * share < beyond or n * (1 - share) < beyond:
                return Cut()
            rank = share * total * (1 - 1e-13)  # 0.1 times 30 is not above 3
            scale = ("w", weight.scale) if weight else None
            value = order_statistic(question.dataset.warehouse, x, rank, where, scale)
            return Cut(value, value)

        return Curve(at, n, total, lambda _: 0.0)

    tables = Grouped.of(question, sides, Asked(values, sums)).margins()
    return [(table, [curve(table, place) for place in np.ndindex(table.counts.shape)]) for table in tables], tables
