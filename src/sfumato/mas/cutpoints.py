"""Cutpoints: the bins in which a numerical variable is offered, computed from distinct values and their counts."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.typing import Numbers, Whole

# --- value counts
# A variable as distinct values with their counts: cutpoints need nothing else, for any number of records.

HUGE = 1e300
"""Numbers beyond this count as infinite, so that the distance of two is always a number."""


@dataclass(frozen=True)
class ValueCounts:
    """Distinct finite values, ascending, with the number of records of each; confidential.

    Infinite values are counted with the smallest and the largest finite one: they always lie in the end bins.
    """

    values: Numbers
    """Distinct values; shape (m,)."""
    counts: Whole
    """Records with each value; shape (m,), all positive."""
    cumulative: Whole
    """Records with at most each value; shape (m,)."""
    missing: int
    whole: bool
    """Whether all values are whole numbers."""

    @classmethod
    def of(cls, values: Any, counts: Any = None, whole: bool | None = None) -> ValueCounts:
        """Count values; with `counts` the values are already distinct (counts of repeated ones are added up).

        >>> ValueCounts.of([3, 1, 3, float("nan")]).counts
        array([1, 2])
        """
        x = numbers_of(values)
        times = np.ones(len(x), np.int64) if counts is None else _counts_of(counts, len(x))
        x, times = x[times > 0], times[times > 0]
        missing = int(times[np.isnan(x)].sum())
        x, times = x[~np.isnan(x)], times[~np.isnan(x)]
        if not len(x):
            raise DataError("the variable has no values that are not missing. Leave it out of universes.")
        x = np.where(np.abs(x) > HUGE, np.copysign(np.inf, x), x)
        finite = x[np.isfinite(x)]
        x = np.clip(x, finite.min(), finite.max()) if len(finite) else np.zeros(len(x))
        distinct, place = np.unique(x, return_inverse=True)
        tally = np.zeros(len(distinct), np.int64)
        np.add.at(tally, place, times)
        all_whole = bool(np.all(distinct == np.floor(distinct)))
        if whole and not all_whole:
            raise DataError(
                "the variable is said to hold whole numbers, and does not. Say whole=False, or leave it open."
            )
        return cls(distinct, tally, np.cumsum(tally), missing, all_whole if whole is None else whole)

    @property
    def total(self) -> int:
        """Number of records with a value."""
        return int(self.cumulative[-1])

    @property
    def low(self) -> float:
        """The smallest finite value."""
        return float(self.values[0])

    @property
    def high(self) -> float:
        """The largest finite value."""
        return float(self.values[-1])

    @property
    def span(self) -> float:
        """Distance between the smallest and the largest finite value."""
        return self.high - self.low

    def up_to(self, x: float) -> int:
        """Count the records with at most x."""
        at = int(np.searchsorted(self.values, x, side="right"))
        return int(self.cumulative[at - 1]) if at else 0

    def bins(self, edges: Sequence[float]) -> Whole:
        """Count the records in each bin: up to the first edge, above it up to the second, …, above the last."""
        at = np.searchsorted(self.values, np.asarray(edges, float), side="right")
        below = np.concatenate([[0], self.cumulative])[at]
        return np.diff(np.concatenate([[0], below, [self.total]])).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Return the smallest value that at least this share of the records does not exceed."""
        at = int(np.searchsorted(self.cumulative, share * self.total, side="left"))
        return float(self.values[min(at, len(self.values) - 1)])

    def fewest(self, edges: Sequence[float]) -> float:
        """Return how many records each bin holds at least."""
        return float(self.bins(edges).min())

    @property
    def source(self) -> str:
        """The kind of counts, for `Cutpoints.source`."""
        return EXACT_COUNTS


EXACT_COUNTS = "exact"
_SURE = 2.0
"""A bin of noisy counts holds d if it does so after this many standard deviations of its noise are taken off."""
_EMPTY = 3.0
"""Bins at the ends together seem empty up to this many standard deviations of their noise."""


@dataclass(frozen=True)
class NoisyCounts(ValueCounts):
    """Counts of bins between public edges, with noise, in the form of value counts: each bin is a value, its upper end.

    Cutpoints of confidential variables are chosen from these alone. The smallest and the largest value are ends of bins.
    """

    edges: Numbers = field(default_factory=lambda: np.zeros(0))
    """Ends of the bins, ascending; shape (k,)."""
    noisy: Numbers = field(default_factory=lambda: np.zeros(0))
    """Noisy counts up to the first edge, between edges, and above the last; shape (k + 1,)."""
    sd: float = 0.0
    """Standard deviation of the noise on each."""
    digest: str = ""
    """A keyed digest of these counts: cutpoints name it, so that freezing knows what was told by choosing them."""
    tables: int = 1
    """How many tables with noise were made, those that found the ends among them."""

    @classmethod
    def of_bins(
        cls, edges: Numbers, noisy: Numbers, n: int, whole: bool, sd: float, digest: str = "", tables: int = 1
    ) -> NoisyCounts:
        """Make value counts of noisy counts of n records; the last count is that of missing values.

        The counts are made to add up to n, which is known, and their running sums to rise, by isotonic regression. Bins at the ends
        that seem empty are joined with the next.

        >>> NoisyCounts.of_bins(np.array([0.0, 10, 20, 30]), np.array([1.0, 250, 240, 4, -3, 8]), 500, True, 8.0).counts
        array([251, 244])
        """
        from scipy.optimize import isotonic_regression

        even = noisy + (n - noisy.sum()) / len(noisy)
        reached = np.maximum(isotonic_regression(np.cumsum(even[:-1])).x, 0.0)
        counts = np.diff(np.r_[0, np.round(reached)]).astype(np.int64)
        width = edges[-1] - edges[-2] if len(edges) > 1 else 1.0
        values = np.r_[edges, edges[-1] + width]
        sums = (
            np.cumsum(side) > _EMPTY * sd * np.sqrt(np.arange(1, len(values) + 1)) for side in (even[:-1], even[-2::-1])
        )
        first, last = (int(np.argmax(seen)) if seen.any() else -1 for seen in sums)
        last = len(values) - 1 - last
        if first < 0 or first > last:
            raise DataError("too few records have a value, by counts with noise. Leave the variable out of universes.")
        counts[first], counts[last] = counts[: first + 1].sum(), counts[last:].sum() if last > first else counts.sum()
        there = (counts > 0) & (np.arange(len(counts)) >= first) & (np.arange(len(counts)) <= last)
        return cls(
            values[there], counts[there], np.cumsum(counts[there]), max(round(float(even[-1])), 0), whole,
            edges, even[:-1], sd, digest, tables,
        )  # fmt: skip

    def surely(self, edges: Sequence[float]) -> Numbers:
        """Return how many records each bin holds with much probability, by the counts that lie wholly in it."""
        inner = np.asarray(edges, float)
        stop = np.r_[np.searchsorted(self.edges, inner, side="right"), len(self.noisy)]
        start = np.r_[0, np.searchsorted(self.edges, inner, side="left") + 1]
        reached = np.r_[0.0, np.cumsum(self.noisy)]
        parts = np.maximum(stop - start, 0)
        held = np.where(parts > 0, reached[np.maximum(stop, start)] - reached[start], 0.0)
        return np.asarray(held - _SURE * self.sd * np.sqrt(parts))

    @override
    def fewest(self, edges: Sequence[float]) -> float:
        return float(self.surely(edges).min())

    @property
    @override
    def source(self) -> str:
        return f"noisy {self.digest}".rstrip()


def numbers_of(values: Any) -> Numbers:
    """Return numbers, NaN where missing, from a list, an array or a column of a frame; refuse text and dates."""
    import pandas as pd

    try:
        plain = values if isinstance(values, np.ndarray) and values.dtype.kind in "iufb" else pd.Series(values)
        x = plain if isinstance(plain, np.ndarray) else plain.to_numpy(np.float64, na_value=np.nan)
        if isinstance(plain, pd.Series) and plain.dtype.kind in "OSUMm" and not _all_numbers(plain):
            raise TypeError
        x = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "cutpoints are for numbers. Give text and dates a hierarchy, or turn them into numbers."
        ) from None
    if x.ndim != 1:
        raise DataError("cutpoints need the values of one variable, as a list.")
    return x


def _all_numbers(column: Any) -> bool:
    return column.dtype.kind == "O" and not any(isinstance(v, str | bytes) for v in column)


def _counts_of(counts: Any, n: int) -> Whole:
    given = numbers_of(counts)
    if len(given) != n:
        raise DataError("there must be one count for each value.")
    if not np.all(given >= 0) or not np.all(given == np.floor(given)) or not np.all(given < 2.0**53):
        raise DataError("counts must be whole numbers of records, 0 or more. Weighted counts do not protect anybody.")
    return np.asarray(given, np.int64)


# --- cutpoints
# Cutpoints: the frozen bins in which a numerical variable is offered.


_CURRENCIES = "$€£¥"
_GROUPED = 10_000
"""Numbers from here on have their digits in groups of three; below, 1998 may be a year."""


@dataclass(frozen=True)
class Cutpoints:
    """Bins of a numerical variable. Bin i holds values above edge i − 1 and at most edge i; the end bins are open.

    The smallest and the largest value are in no edge and no label. `counts` is confidential: it is not shown, not compared and
    not written.

    >>> Cutpoints((28_500, 62_000), whole=True, unit="$").labels
    ('$28,500 or less', '$28,501 to $62,000', '$62,001 or more')
    """

    edges: tuple[float, ...]
    """Edges, ascending; one fewer than bins."""
    whole: bool = False
    """Whether the variable holds whole numbers, so that the next bin begins one higher."""
    d: int = 1
    """The least number of observations in a bin when the edges were computed."""
    strategy: str = ""
    why: str = ""
    """The reason for these bins, without numbers from the data."""
    unit: str = ""
    low: float | None = None
    """The smallest possible value, where everybody knows it; never taken from the data."""
    high: float | None = None
    source: str = field(default="", compare=False)
    """The counts that edges were computed from: "exact" ones, or "noisy" ones and a digest of these; "" if the custodian gave the
    edges."""
    counts: tuple[int, ...] | None = field(default=None, repr=False, compare=False)
    """Observations in each bin when the edges were computed; confidential, None after a round trip through a file."""
    missing: int | None = field(default=None, repr=False, compare=False)
    """Number of missing values; confidential."""

    def __post_init__(self) -> None:
        try:
            edges = tuple(float(e) for e in self.edges)
        except (TypeError, ValueError):
            edges = (math.nan,)
        if not all(np.isfinite(edges)) or any(a >= b for a, b in itertools.pairwise(edges)):
            raise ParameterError("the edges of cutpoints must be finite numbers in ascending order, each once.")
        if self.whole and any(e % 1 for e in edges):
            raise ParameterError("the edges of a variable of whole numbers must be whole numbers.")
        inside = (self.low is None or not edges or self.low <= edges[0]) and (
            self.high is None or not edges or self.high > edges[-1]
        )
        if not inside:
            raise ParameterError("the known bounds of a variable must lie outside its edges.")
        object.__setattr__(self, "edges", tuple(int(e) for e in edges) if self.whole else edges)

    def __len__(self) -> int:
        return len(self.edges) + 1

    # -- values to bins

    def codes(self, values: Any) -> NDArray[np.int64]:
        """Return the bin of each value, from 0; −1 where it is missing. It is the number of edges below the value.

        >>> Cutpoints((10, 20)).codes([10, 10.5, None, 99]).tolist()
        [0, 1, -1, 2]
        """
        x = numbers_of(values)
        found = np.searchsorted(np.asarray(self.edges, np.float64), x, side="left").astype(np.int64)
        found[np.isnan(x)] = -1
        return found

    # -- labels

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each bin."""
        if not self.edges:
            return ("all values",) if self.low is None or self.high is None else (self._range(self.low, self.high),)
        over = "" if self.whole else "over "
        begin, end = self._after(self.edges[-1]), self.edges[0]
        first = f"{self._number(end)} or less" if self.low is None else self._range(self.low, end)
        middle = (over + self._range(self._after(a), b) for a, b in itertools.pairwise(self.edges))
        more = self._number(begin) + (" or more" if self.whole else "")
        last = over + (more if self.high is None else self._range(begin, self.high))
        return (first, *middle, last)

    def _after(self, edge: float) -> float:
        return edge + 1 if self.whole else edge

    def _range(self, a: float, b: float) -> str:
        return self._number(a) if a == b else f"{self._number(a, alone=False)} to {self._number(b)}"

    def _number(self, x: float, alone: bool = True) -> str:
        ends = (self.edges[0], self.edges[-1]) if self.edges else ()
        grouped = "," if max(abs(e) for e in (*ends, self.low or 0, self.high or 0)) >= _GROUPED else ""
        text = f"{abs(x):{grouped}.0f}" if float(x).is_integer() and abs(x) < 1e15 else f"{abs(x):{grouped}.12g}"
        sign = "-" if x < 0 else ""
        if self.unit in _CURRENCIES and self.unit:
            return f"{sign}{self.unit}{text}"
        return f"{sign}{text}{f' {self.unit}' if self.unit and alone else ''}"

    # -- files

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that may be written and published: no counts."""
        out: dict[str, Any] = {"edges": list(self.edges), "whole": self.whole, "d": self.d}
        texts = {"strategy": self.strategy, "why": self.why, "unit": self.unit, "source": self.source}
        bounds = {"low": self.low, "high": self.high}
        return out | {k: v for k, v in texts.items() if v} | {k: v for k, v in bounds.items() if v is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Cutpoints:
        """Build from a TOML table; the inverse of `to_dict`."""
        known = ("edges", "whole", "d", "strategy", "why", "unit", "low", "high", "source")
        for name in table:
            if name not in known:
                raise ParameterError(unknown_name("entry", name, known, "cutpoints"))
        computed = table.get("strategy", "own") != "own"  # before there were noisy counts, all others were exact
        try:
            edges = tuple(float(e) for e in table["edges"])
            return cls(**{"source": EXACT_COUNTS if computed else "", **table, "edges": edges})
        except (KeyError, TypeError, ValueError):
            raise ParameterError("cutpoints need a list of numbers under 'edges'.") from None


# --- round numbers
# Round numbers: multiples of 1, 2 or 5 times a power of ten, as people write them.


@dataclass(frozen=True)
class RoundStep:
    """A step of `mantissa` times ten to the `power`; multiples are exact decimals, so that 3 steps of 0.1 are 0.3."""

    mantissa: int
    power: int

    @property
    def size(self) -> float:
        """The step as a number."""
        return self.times(1)

    def times(self, j: int) -> float:
        """Return j steps.

        >>> RoundStep(1, -1).times(3)
        0.3
        """
        return float(f"{self.mantissa * j}e{self.power}")

    def floor(self, x: float) -> int:
        """Return the number of whole steps at or below x."""
        j = math.floor(x / self.size)
        if self.times(j) > x:
            return j - 1
        return j + 1 if self.times(j + 1) <= x else j

    def ceil(self, x: float) -> int:
        """Return the least number of whole steps that reach x."""
        j = self.floor(x)
        return j if self.times(j) >= x else j + 1

    @property
    def begins(self) -> bool:
        """Whether groups of whole numbers begin at multiples ("20 to 29"), or end there ("28,501 to 39,500").

        Groups of ages, years and rooms are named by their beginning; groups of amounts by their end.
        """
        return self.size < 100


def steps(most: float, least: float, whole: bool, mantissas: tuple[int, ...] = (1, 2, 5)) -> Iterator[RoundStep]:
    """Yield round steps from the coarsest of at most `most` to the finest of at least `least`; only whole ones if `whole`.

    A mantissa of two digits stands for a decimal: 25 for 2.5.

    >>> [s.size for s in steps(12, 0.4, whole=True)]
    [10.0, 5.0, 2.0, 1.0]
    """
    ordered = sorted(mantissas, key=lambda m: float(f"{m}e{-(m > 9)}"), reverse=True)
    for power in range(math.floor(math.log10(most)), math.floor(math.log10(least)) - 1, -1):
        for mantissa in ordered:
            step = RoundStep(mantissa, power - (mantissa > 9))
            if least <= step.size <= most and not (whole and step.size % 1):
                yield step


def roundest(low: float, high: float, near: float, whole: bool) -> float:
    """Return the roundest number from `low` up to, but not including, `high`; among several the one nearest to `near`.

    >>> roundest(28_431.0, 28_503.7, 28_450.0, whole=False)
    28500.0
    """
    if low <= 0 < high:
        return 0.0
    if high <= low or math.nextafter(low, math.inf) >= high:
        return math.floor(low) if whole else low
    for step in steps(max(abs(low), abs(high)) * 10, (high - low) / 20, whole):
        first = step.ceil(low)
        if step.times(first) < high:
            last = step.ceil(high) - 1
            j = min(max(round(near / step.size), first), last)
            return step.times(j)
    return float(math.ceil(low)) if whole else low


# --- strategy
# Shared by all strategies: the least number of observations in a bin, and the rounding of edges.


Edges = list[float]

SPARE = 0.05
"""The share of the bins that may be lost to round edges; with fewer than twenty bins, none."""
_MOVE = 0.25


class CutpointStrategy(Parametric, family="cutpoint strategy", abstract=True):
    """A way to cut a numerical variable into bins of at least d observations each."""

    d: int = param(default=75, doc="the least number of observations in a bin", low=1, integer=True)
    rounding: bool = param(
        default=True, doc="whether edges are round numbers, as far as every bin keeps d observations"
    )

    joins: ClassVar[bool] = False
    """Whether a bin of too few observations may be joined with the next one, by the definition of the strategy."""

    @abstractmethod
    def exact(self, tally: ValueCounts) -> Edges:
        """Return the edges by the definition of the strategy, ascending."""

    @abstractmethod
    def rounded(self, tally: ValueCounts) -> Edges:
        """Return the edges on round numbers."""

    def edges(self, tally: ValueCounts) -> Edges:
        """Return the edges; empty if there is only one bin."""
        if tally.total < 2 * self.d or tally.span == 0:
            return []
        if self.rounding:
            return self.rounded(tally)
        return distinct([float(np.floor(e)) for e in self.exact(tally)] if tally.whole else self.exact(tally))

    def why(self, tally: ValueCounts) -> str:
        """Return the reason for the bins, without a number from the data."""
        line = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        first = line[:1].lower() + line[1:]
        if tally.span == 0:
            return "the variable has one value only: one bin"
        return first if tally.total >= 2 * self.d else "there are too few observations for two bins: one bin"

    def cut(
        self,
        values: Any,
        counts: Any = None,
        *,
        unit: str = "",
        whole: bool | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Cutpoints:
        """Cut a variable into bins of at least d observations.

        Parameters
        ----------
        values, counts
            Distinct values and the number of records with each, as a group-by returns them. Without counts, the records' values.
            Missing values (NaN, None) are in no bin.
        unit
            For the labels: "dollars", "$".
        whole
            Whether the variable holds whole numbers; inferred from the values by default.
        low, high
            The smallest and largest possible value, where everybody knows them (an age is not below 0). They replace the open ends
            in the labels; never give the smallest and largest value of the data.
        """
        return self.cut_tally(ValueCounts.of(values, counts, whole), unit=unit, low=low, high=high)

    def cut_tally(
        self, tally: ValueCounts, *, unit: str = "", low: float | None = None, high: float | None = None
    ) -> Cutpoints:
        """Cut a variable from its value counts."""
        if tally.total < self.d:
            raise DataError(
                "the variable has fewer observations than one bin needs. Leave it out of universes, or choose a smaller d."
            )
        edges = self.safe_edges(tally)
        held = tally.bins(edges)
        if low is not None and high is not None and low >= high:
            raise ParameterError("the low bound of a variable must be below the high bound.")
        return Cutpoints(
            tuple(edges), tally.whole, self.d, self.name, self.why(tally), unit, low, high, tally.source,
            counts=tuple(int(c) for c in held), missing=tally.missing,
        )  # fmt: skip

    def safe_edges(self, tally: ValueCounts) -> Edges:
        """Return the edges; by noisy counts every bin holds d after a margin for its noise is taken off.

        Then the strategy runs with larger and larger d, until all bins do, but for end bins, which are joined with the next.
        """
        if not isinstance(tally, NoisyCounts):
            return self.edges(tally)
        found: list[Edges] = []
        for parts in range(2 * math.isqrt(len(tally.noisy)) + 1):
            strict = replace(self, d=self.d + math.ceil(parts / 2 * _SURE * tally.sd))
            if tally.total < strict.d:
                break
            edges = strict.edges(tally)
            edges = self._joined(tally, edges) if self.joins else edges
            while edges and tally.surely(edges)[-1] < self.d:
                edges = edges[:-1]
            while edges and tally.surely(edges)[0] < self.d:
                edges = edges[1:]
            if tally.fewest(edges) >= self.d:
                found.append(edges)
        return max(found, key=len, default=[])

    def _joined(self, tally: NoisyCounts, edges: Edges) -> Edges:
        """Return edges without those that close a bin of too few records."""
        out: Edges = []
        for edge in edges:
            if tally.surely([*out, edge])[-2] >= self.d:
                out.append(edge)
        return out

    # -- for the strategies

    def enough(self, tally: ValueCounts, edges: Sequence[float]) -> bool:
        """Whether every bin holds at least d observations."""
        return bool(tally.bins(edges).min() >= self.d)

    def spared(self, bins: int) -> int:
        """Return the least number of bins to keep when edges are rounded."""
        return bins - int(SPARE * bins)

    def settled(self, tally: ValueCounts, edges: Edges) -> Edges:
        """Move edges to the roundest numbers nearby that leave every bin its d observations, from left to right.

        An edge moves by at most a quarter of the narrower of its two bins. A position always exists: the original one satisfies all
        conditions, since the edge before it was moved so that it would.
        """
        ends = [tally.low, *edges, tally.high]
        at = np.searchsorted(tally.values, edges, side="right") - 1  # the last value of each bin
        out: Edges = []
        for i, edge in enumerate(edges):
            before = tally.up_to(out[-1]) if out else 0
            after = int(tally.cumulative[at[i + 1]]) if i + 1 < len(edges) else tally.total
            first = int(np.searchsorted(tally.cumulative, before + self.d, side="left"))
            last = int(np.searchsorted(tally.cumulative, after - self.d, side="right")) - 1
            reach = _MOVE * min(edge - ends[i], ends[i + 2] - edge)
            # any edge from one value up to the next gives the same bin
            low = max(float(tally.values[first]), min(edge - reach, float(tally.values[at[i]])))
            high = min(float(tally.values[last + 1]), max(edge + reach, float(tally.values[at[i] + 1])))
            out.append(roundest(low, high, edge, tally.whole))
        return out


def distinct(edges: Sequence[float]) -> Edges:
    """Return ascending edges, each once."""
    return sorted(set(edges))
