"""The strategies of cutpoints: fixed, minimum, increasing, partitioned, the hybrid, and the custodian's preview."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError, unknown_name
from sfumato.mas.cutpoints import Cutpoints, CutpointStrategy, Edges, NoisyCounts, RoundStep, ValueCounts, steps

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# --- fixed
# Fixed width: as many equal bins as possible.

_FINEST = 50


class Fixed(CutpointStrategy):
    """All bins are equally wide: the most equal bins that all hold d observations.

    Every number of bins is tried, from the largest possible one down, since fewer bins may fail where more pass. With a long tail
    few bins remain, or one.

    With round edges, start and width are multiples of a round step of at least a fiftieth of the width; so the smallest and the
    largest value cannot be found by continuing the edges. The narrowest such bins that hold d are taken.

    Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    def exact(self, tally: ValueCounts) -> Edges:
        """Return the inner edges of k equal bins on [min, max], k as large as possible."""
        k = _most_bins(tally, self.d)
        return [tally.low + tally.span * i / k for i in range(1, k)]

    def rounded(self, tally: ValueCounts) -> Edges:
        """Return equal bins with a round width and a round start: the narrowest that hold d."""
        k = _most_bins(tally, self.d)
        if k == 1:
            return []
        for step, wide in _widths(tally.span / k, 2 * tally.span, tally.whole):
            edges = _equal(tally, step, wide)
            if edges and self.enough(tally, edges):
                return edges
        return []


def _most_bins(tally: ValueCounts, d: int) -> int:
    from sfumato.kernels.boxes import most_equal_bins  # numba: imported only when cutpoints are chosen

    return most_equal_bins(tally.values, tally.cumulative, d)


def _widths(least: float, most: float, whole: bool) -> list[tuple[RoundStep, int]]:
    """Return round widths, ascending, as numbers of steps of a size; among equal widths the one with the coarsest step first."""
    found = [
        (step.times(j), -step.size, step, j)
        for step in steps(most, max(least / _FINEST, 1.0 if whole else 0.0), whole)
        for j in range(max(step.ceil(least), 1), min(step.floor(most), _FINEST) + 1)
    ]
    return [(step, j) for *_, step, j in sorted(found, key=lambda f: f[:2])]


def _equal(tally: ValueCounts, step: RoundStep, wide: int) -> Edges:
    """Return the inner edges of bins that begin at a multiple of a step, `wide` steps each."""
    shift = 1 if tally.whole and step.begins else 0
    start = step.floor(tally.low)
    count = -(-(step.ceil(tally.high + shift) - start) // wide)
    return [step.times(start + i * wide) - shift for i in range(1, count)]


# --- minimum
# Minimum width: bins as close to d observations as values allow.


_FINEST_MINIMUM = 1e-3


class Minimum(CutpointStrategy):
    """Each bin is as narrow as d observations allow: no other cutpoints have more bins.

    From the smallest value up, a bin is closed as soon as it holds d; the remainder joins the last bin. Values are never split. It
    has the most bins: by induction the i-th greedy edge is at or below the i-th edge of any other cutpoints whose bins hold d, so
    that at least as many observations remain.

    Lucero, Singh and Zayatz (2009), section 5.1.
    """

    joins: ClassVar[bool] = True

    def exact(self, tally: ValueCounts) -> Edges:
        """Return edges midway between the last value of a bin and the first of the next."""
        edges: Edges = []
        base = 0
        while tally.total - base >= 2 * self.d:
            i = int(np.searchsorted(tally.cumulative, base + self.d, side="left"))
            base = int(tally.cumulative[i])
            if tally.total - base < self.d:
                break
            a, b = float(tally.values[i]), float(tally.values[i + 1])
            middle = a + (b - a) / 2
            edges.append(middle if middle < b else a)
        return edges

    def rounded(self, tally: ValueCounts) -> Edges:
        """Return edges on the coarsest round steps that lose at most one bin in twenty, or on the roundest numbers nearby."""
        exact = self.exact(tally)
        if not exact:
            return []
        widths = np.diff([tally.low, *exact])
        for step in steps(tally.span, max(float(np.median(widths)) * _FINEST_MINIMUM, tally.span * 1e-12), tally.whole):
            edges = self._on_steps(tally, step)
            if len(edges) + 1 >= self.spared(len(exact) + 1):
                return edges
        return self.settled(tally, exact)

    def _on_steps(self, tally: ValueCounts, step: RoundStep) -> Edges:
        """Return the greedy edges among multiples of a step: the most bins possible with such edges."""
        shift = 1 if tally.whole and step.begins else 0
        edges: Edges = []
        base = 0
        while tally.total - base >= 2 * self.d:
            i = int(np.searchsorted(tally.cumulative, base + self.d, side="left"))
            value = float(tally.values[i])
            # nothing is rounder than 0, and a bin for persons without any stays separate
            edge = step.times(step.ceil(value + shift)) - shift if value else 0.0
            base = tally.up_to(edge)
            if tally.total - base < self.d:
                break
            edges.append(edge)
        return edges


# --- increasing
# Increasing width: narrow bins where values are small and frequent, wider bins further up.


class Increasing(CutpointStrategy):
    """Bins start narrow and grow wider with the values: never narrower again.

    Where a bin holds fewer than d observations its width is multiplied by `growth` until it holds them, and later bins keep that
    width; the remainder joins the last bin. The first width is `width`, or else the round number that gives the most bins. With
    round edges the first bin begins at a multiple of it, and then all edges are multiples.

    Steel and Zayatz (2006), as reported by Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    joins: ClassVar[bool] = True

    width: float | None = param(
        default=None, doc="the width of the first bin; the best round number if left out", low=0, above=True
    )
    growth: float = param(
        default=2.0, doc="what a width is multiplied by where it is too narrow", low=1, above=True, high=1000
    )

    @override
    def validate(self) -> None:
        if self.growth < 1.01:
            raise ParameterError("growth of increasing must be at least 1.01: 2 doubles the width.")

    def exact(self, tally: ValueCounts) -> Edges:
        """Return the edges counted from the smallest value."""
        widths = [self.width] if self.width is not None else [s.size for s in self._widths(tally)]
        return max((self._from(tally, tally.low, w) for w in widths), key=len, default=[])

    def rounded(self, tally: ValueCounts) -> Edges:
        """Return the edges counted from a round number at or below the smallest value."""
        if self.width is not None:
            w = max(math.ceil(self.width), 1) if tally.whole else self.width
            shift = 1 if tally.whole and w < 100 else 0
            edges = self._from(tally, math.floor(tally.low / w) * w - shift, w)
            return [float(math.floor(e)) for e in edges] if tally.whole else [float(f"{e:.12g}") for e in edges]
        return max((self._on_steps(tally, step) for step in self._widths(tally)), key=len, default=[])

    def _widths(self, tally: ValueCounts) -> list[RoundStep]:
        """Return the first widths worth trying: from the whole range down to less than the narrowest d observations."""
        reach = np.searchsorted(tally.cumulative, tally.cumulative - tally.counts + self.d, side="left")
        full = reach < len(tally.values)
        narrowest = float((tally.values[reach[full]] - tally.values[full]).min())
        return list(steps(tally.span, max(narrowest / 2, tally.span * 1e-9), tally.whole))

    def _from(self, tally: ValueCounts, start: float, width: float) -> Edges:
        edges: Edges = []
        base, left = 0, start
        while tally.total - base >= 2 * self.d:
            right = left + width
            while tally.up_to(right) - base < self.d:
                width *= self.growth
                right = left + width
            base = tally.up_to(right)
            if tally.total - base < self.d:
                break
            edges.append(right)
            left = right
        return edges

    def _on_steps(self, tally: ValueCounts, step: RoundStep) -> Edges:
        """Return the edges, all multiples of a step (one lower where groups of whole numbers begin there)."""
        shift = 1 if tally.whole and step.begins else 0
        edges: Edges = []
        base, left, wide = 0, step.floor(tally.low), 1
        while tally.total - base >= 2 * self.d:
            while tally.up_to(step.times(left + wide) - shift) - base < self.d:
                wide = max(wide + 1, round(wide * self.growth))
            left += wide
            edge = step.times(left) - shift
            base = tally.up_to(edge)
            if tally.total - base < self.d:
                break
            edges.append(edge)
        return edges


# --- partitioned
# Partitioned: halves of halves.


_MANTISSAS = (1, 15, 2, 25, 3, 4, 5, 6, 75, 8)
_DEPTH = 12


class Partitioned(CutpointStrategy):
    """The range is halved again and again, wherever both halves hold d observations: widths are multiples of each other.

    A range is split at its midpoint, so that widths are multiples; a split at the median would not give that. With a long tail all
    observations may lie in one half, and then there is one bin.

    With round edges the whole range is a round number times a power of two, and begins at a round number; so every edge is round,
    and the smallest and the largest value cannot be derived from the edges. Where no such range splits half as often, the midpoints
    of [min, max] are moved to round numbers nearby, and widths are multiples of each other only roughly.

    Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    def exact(self, tally: ValueCounts) -> Edges:
        """Return the midpoints, from [min, max] down."""
        edges: Edges = []
        todo = [(tally.low, tally.high, 0, tally.total)]
        while todo:
            low, high, below, upto = todo.pop()
            middle = low + (high - low) / 2
            here = tally.up_to(middle)
            if here - below >= self.d and upto - here >= self.d:
                edges.append(middle)
                todo += [(low, middle, below, here), (middle, high, here, upto)]
        return sorted(edges)

    def rounded(self, tally: ValueCounts) -> Edges:
        """Return the midpoints on the coarsest round units that lose at most one bin in twenty, or else the most bins."""
        exact = self.exact(tally)
        found = []
        for step in self._units(tally):
            found.append(self._halves(tally, step))
            if exact and len(found[-1]) + 1 >= self.spared(len(exact) + 1):
                return found[-1]
        best = max(found, key=len, default=[])
        # where a round range collapses and [min, max] does not, its midpoints are moved to round numbers nearby
        return best if len(best) >= len(exact) / 2 else self.settled(tally, exact)

    def _units(self, tally: ValueCounts) -> list[RoundStep]:
        return list(
            steps(max(tally.span, 1.0 if tally.whole else 0.0), tally.span / 2**_DEPTH, tally.whole, _MANTISSAS)
        )

    def _halves(self, tally: ValueCounts, step: RoundStep) -> Edges:
        """Return the midpoints of a range that is a power of two of steps; nothing is split below one step."""
        shift = 1 if tally.whole and step.begins else 0
        start, size = step.floor(tally.low), 1
        while step.times(start + size) - shift < tally.high:
            size *= 2
        edges: Edges = []
        todo = [(start, size, 0, tally.total)]
        while todo:
            left, size, below, upto = todo.pop()
            if size == 1:
                continue
            middle = left + size // 2
            edge = step.times(middle) - shift
            here = tally.up_to(edge)
            if here - below >= self.d and upto - here >= self.d:
                edges.append(edge)
                todo += [(left, size // 2, below, here), (middle, size // 2, here, upto)]
        return sorted(edges)


# --- hybrid
# The hybrid: the strategy that suits the variable's shape.


FEW = 25
TIED = 0.15
EVEN = 1.6
SKEWED = 0.2
COARSE = 0.25
_HIDDEN_TAILS = 1.28
"""Noise hides the tails of a variable: by noisy counts the range of 20,000 normal values is 1.5 times P95 - P5, not 2.4 times."""


@dataclass(frozen=True)
class Shape:
    """The statistics on which the hybrid decides; confidential."""

    distinct: int
    """Number of different values."""
    tied: float
    """The share of the records that have the most frequent value."""
    skewness: float
    """(P90 + P10 − 2 P50) / (P90 − P10): 0 if symmetric, 1 if everything lies to the right of the median."""
    reach: float
    """The whole range over P95 − P5: 1.1 for evenly spread values, 2.4 for ten thousand normal ones."""

    @classmethod
    def of(cls, tally: ValueCounts) -> Shape:
        """Return the shape of a variable."""
        p5, p10, p50, p90, p95 = (tally.quantile(q) for q in (0.05, 0.1, 0.5, 0.9, 0.95))
        skewness = (p90 + p10 - 2 * p50) / (p90 - p10) if p90 > p10 else 0.0
        reach = tally.span / (p95 - p5) if p95 > p5 else float("inf")
        reach *= _HIDDEN_TAILS if isinstance(tally, NoisyCounts) and tally.sd else 1.0
        return cls(len(tally.values), float(tally.counts.max()) / tally.total, skewness, reach)

    def suits(self) -> tuple[str, str]:
        """Return the strategy that suits the shape, and the reason in words."""
        if self.distinct <= FEW:
            return "minimum", "the variable has few different values, so a bin may be a single value: minimum width"
        if self.tied >= TIED:
            return "minimum", "one value is very frequent, and minimum width keeps bins narrow around it"
        if self.reach <= EVEN:
            return (
                "fixed",
                "values are spread evenly and without long tails, so equal bins are fine enough and easiest to read",
            )
        if self.skewness >= SKEWED:
            return "increasing", "values crowd at the lower end and thin out upward, and bins widen as they do"
        return (
            "partitioned",
            "values crowd in places and thin out on both sides, and halving makes bins narrow where they crowd",
        )


class Hybrid(CutpointStrategy):
    """The strategy that suits the variable's shape.

    Few different values, or one that many records have: minimum width. Spread evenly, without long tails: fixed width. A long
    right tail: increasing width. Anything else: partitioned. If the bins are coarse (two records taken at random share a bin
    with a probability above a quarter, and more than twice as often as with minimum width), partitioned is tried, then minimum.

    Lucero, Singh and Zayatz (2009), section 5.1, consider such a hybrid; ERRATA 1.18.
    """

    def chosen(self, tally: ValueCounts) -> tuple[CutpointStrategy, str]:
        """Return the strategy that is used, and the reason."""
        makers: dict[str, type[CutpointStrategy]] = {c.name: c for c in (Fixed, Increasing, Partitioned, Minimum)}
        first, why = Shape.of(tally).suits()
        narrow = makers["minimum"](d=self.d, rounding=self.rounding)
        if first == "minimum":
            return narrow, why
        limit = max(COARSE, 2 * alike(tally, narrow.safe_edges(tally)))
        for name in dict.fromkeys((first, "partitioned")):
            strategy = makers[name](d=self.d, rounding=self.rounding)
            if alike(tally, strategy.safe_edges(tally)) <= limit:
                return strategy, why if name == first else f"{why}; but those bins are coarse here: {name}"
        return narrow, f"{why}; but those bins are coarse here: minimum width"

    @override
    def safe_edges(self, tally: ValueCounts) -> Edges:
        return self.chosen(tally)[0].safe_edges(tally)

    def exact(self, tally: ValueCounts) -> Edges:
        """Return the edges of the chosen strategy."""
        return self.chosen(tally)[0].exact(tally)

    def rounded(self, tally: ValueCounts) -> Edges:
        """Return the round edges of the chosen strategy."""
        return self.chosen(tally)[0].rounded(tally)

    def why(self, tally: ValueCounts) -> str:
        """Return the chosen strategy, and the reason."""
        return self.chosen(tally)[1] if self.edges(tally) else super().why(tally)


def alike(tally: ValueCounts, edges: Edges) -> float:
    """Return the probability that two records, drawn with replacement, share a bin: 1 / k for k equally full bins."""
    share = tally.bins(edges) / tally.total
    return float((share**2).sum())


# --- preview
# The custodian's preview: the bins of each strategy for a variable. Confidential.


STRATEGIES: tuple[type[CutpointStrategy], ...] = (Fixed, Minimum, Increasing, Partitioned)
_SHOWN = 12


@dataclass(frozen=True)
class Preview:
    """A variable under every strategy, for the custodian to choose from; confidential."""

    variable: str
    tally: ValueCounts
    cutpoints: Mapping[str, Cutpoints]
    """By strategy; "hybrid" is what the shape suggests, "own" the custodian's own cutpoints."""
    chosen: str = "hybrid"
    """The strategy whose bins are shown."""

    def frame(self) -> pd.DataFrame:
        """Return a row for each strategy.

        `bins`; `smallest` and `largest`, the counts of the emptiest and the fullest bin; `narrowest` and `widest`, widths of the
        inner bins (NaN with fewer than three bins, since the end bins are open); `loss`, the share of the variance that is lost
        if every value is replaced by the mean of its bin; `alike`, the probability that two records share a bin.
        """
        import pandas as pd

        rows = []
        for name, cut in self.cutpoints.items():
            held, widths = self.tally.bins(cut.edges), np.diff(cut.edges)
            rows.append(
                {
                    "strategy": name, "bins": len(cut), "smallest": int(held.min()), "largest": int(held.max()),
                    "narrowest": float(widths.min()) if len(widths) else np.nan,
                    "widest": float(widths.max()) if len(widths) else np.nan,
                    "loss": loss(self.tally, cut), "alike": alike(self.tally, list(cut.edges)),
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def choose(self, strategy: str = "hybrid") -> Cutpoints:
        """Return the cutpoints of one strategy, to be frozen."""
        if strategy not in self.cutpoints:
            raise ParameterError(unknown_name("strategy", strategy, self.cutpoints, "the preview"))
        return self.cutpoints[strategy]

    def own(self, edges: Sequence[float]) -> Cutpoints:
        """Return cutpoints at the custodian's own edges, in the unit and within the bounds of the variable."""
        return replace(self.choose(), edges=tuple(edges), strategy="own", why="", source="", counts=None)

    def bins(self, strategy: str = "hybrid") -> pd.DataFrame:
        """Return the bins of one strategy, with label and count."""
        import pandas as pd

        cut = self.choose(strategy)
        return pd.DataFrame({"bin": cut.labels, "count": self.tally.bins(cut.edges)})

    def __str__(self) -> str:
        chosen = self.choose(self.chosen)
        lines = [
            f"{self.variable}: at least {self.choose().d} observations in each bin. CONFIDENTIAL: for the custodian.",
            "",
        ]
        if isinstance(self.tally, NoisyCounts):
            lines[1] = (
                f"The variable is confidential, so counts have noise: a standard deviation of {self.tally.sd:g} in each of "
                f"{len(self.tally.noisy)} parts of the range. Bins hold so many after a margin for it.\n"
            )
        table = self.frame().assign(
            loss=lambda f: f["loss"].map("{:.1%}".format), alike=lambda f: f["alike"].map("{:.1%}".format)
        )
        lines += [table.to_string(index=False, float_format=lambda v: f"{v:,.6g}", na_rep="–"), ""]
        lines.append(f"The bins of {self.chosen}: {chosen.why}." if chosen.why else f"The bins of {self.chosen}:")
        bins = self.bins(self.chosen)
        if self.tally.missing:
            bins.loc[len(bins)] = ("missing", self.tally.missing)
        shown = bins if len(bins) <= _SHOWN else bins.iloc[[*range(_SHOWN // 2), *range(-_SHOWN // 2, 0)]]
        wide = max(len(label) for label in shown["bin"])
        for place, (label, count) in enumerate(zip(shown["bin"], shown["count"], strict=True)):
            if len(bins) > _SHOWN and place == _SHOWN // 2:
                lines.append(f"  {'…':<{wide}}")
            lines.append(f"  {label:<{wide}}  {count:>9,}")
        return "\n".join(lines)

    def chart(self) -> alt.VConcatChart:
        """Draw the histogram with the cutpoints of every strategy; confidential."""
        from sfumato.charts.analysis_charts import cutpoints_chart

        return cutpoints_chart(
            self.histogram(),
            self.frame(),
            {k: c.edges for k, c in self.cutpoints.items()},
            self.axis_title,
            self.chosen,
        )

    @property
    def axis_title(self) -> str:
        """The variable with its unit."""
        unit = self.choose().unit
        return f"{self.variable} ({unit})" if unit else self.variable

    def histogram(self, bars: int = 80) -> pd.DataFrame:
        """Return counts in equal bars from the 0.5th to the 99.5th percentile: columns low, high, count.

        For whole numbers a bar spans a whole number of them. The first bar includes its lower end, too.
        """
        import pandas as pd

        low, high = self.tally.quantile(0.005), self.tally.quantile(0.995)
        if isinstance(self.tally, NoisyCounts):
            ends = self.tally.edges[(self.tally.edges >= low) & (self.tally.edges <= high)]
            held = self.tally.bins(ends.tolist())[1:-1]
            return pd.DataFrame({"low": ends[:-1], "high": ends[1:], "count": held})
        if low == high:
            low, high = low - 0.5, high + 0.5
        if self.tally.whole:
            wide = max(1, int(np.ceil((high - low + 1) / bars)))
            ends = np.arange(np.floor(low) - 0.5, np.ceil(high) + wide + 0.4, wide)
        else:
            ends = np.linspace(low, high, bars + 1)
        upto = np.array([self.tally.up_to(e) for e in ends])
        upto[0] = self.tally.up_to(
            np.nextafter(ends[0], -np.inf)
        )  # many records may have the least value, such as no income
        return pd.DataFrame({"low": ends[:-1], "high": ends[1:], "count": np.diff(upto)})


def preview(
    values: Any, counts: Any = None, d: int = 75, *, variable: str = "value", rounding: bool = True,
    unit: str = "", whole: bool | None = None, low: float | None = None, high: float | None = None,
) -> Preview:  # fmt: skip
    """Return the bins of every strategy for a variable; arguments as for `CutpointStrategy.cut`."""
    return preview_counts(
        variable, ValueCounts.of(values, counts, whole), d, rounding=rounding, unit=unit, low=low, high=high
    )


def preview_counts(
    variable: str, tally: ValueCounts, d: int = 75, *, rounding: bool = True, unit: str = "", low: float | None = None,
    high: float | None = None,
) -> Preview:  # fmt: skip
    """Return the bins of every strategy for value counts, exact or noisy ones."""
    made = [strategy(d=d, rounding=rounding) for strategy in (*STRATEGIES, Hybrid)]
    return Preview(variable, tally, {s.name: s.cut_tally(tally, unit=unit, low=low, high=high) for s in made})


def loss(tally: ValueCounts, cut: Cutpoints) -> float:
    """Return the share of the variance lost if values are replaced by the means of their bins; 0 if there is no variance."""
    scale = max(abs(tally.low), abs(tally.high), 1e-300)
    x, n = tally.values / scale, tally.counts.astype(float)
    x = x - np.average(x, weights=n)
    total = float((n * x**2).sum())
    if total == 0:
        return 0.0
    codes = cut.codes(tally.values)
    size = np.bincount(codes, n, len(cut))
    means = np.bincount(codes, n * x, len(cut)) / np.maximum(size, 1)
    return float((n * (x - means[codes]) ** 2).sum()) / total
