"""Distances between distributions of the original and the release: by column, by table, and joint."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from typing_extensions import override

from sfumato.contract import Draws, Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError, NotApplicable, join_names, plural
from sfumato.schema import Schema
from sfumato.typing import Numbers
from sfumato.utility.comparison import (
    CATEGORY,
    NUMBER,
    PLAIN,
    ColumnUtility,
    Columnwise,
    check_files,
    compared_columns,
    over_columns,
    weighted_flag,
    weights_of,
)
from sfumato.utility.distributions import (
    Binning,
    Shares,
    binning_parameter,
    bins_parameter,
    coded,
    gaps,
    hellinger,
    mean_difference,
    original_sample,
    released_sample,
    sample,
    shares,
    total_variation,
)
from sfumato.utility.moments import check_finite, check_size, spread, with_gaps
from sfumato.utility.recoded_values import read_numbers

if TYPE_CHECKING:
    from sfumato.kernels.column_pairs import Gaps


class NumbersApart(Columnwise, abstract=True):
    """U = 1 - the mean over columns of a distance between the known numbers of both files.

    A suppressed value loses 1, or the distance of those that are there, where that is more: d + (1 - kept) · max(0, 1 - d), where
    `kept` is the share of values known in the release divided by that in the original. A column
    without any value is as if it had not been released: it loses 1. Numbers released as intervals are spread evenly over them.
    """

    kinds: ClassVar[frozenset[Kind]] = NUMBER
    scaled: ClassVar[bool] = True
    """Whether the distance is in standard deviations of the original."""

    over: tuple[str, ...] | None = over_columns("numbers")

    @abstractmethod
    def apart(self, found: Gaps, unit: float) -> float:
        """Return the distance of the known numbers, from how far the distribution functions are apart; `unit` is the sd."""

    def has_values(self, original: Microdata, name: str) -> bool:
        """Whether a number is known in the original."""
        known, weights = ~np.isnan(original.numbers(name)), weights_of(original, self.weighted)
        return bool((known if weights is None else known & (weights > 0)).any())

    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return the loss of one column."""
        before = original_sample(original, name, self.weighted)
        after = released_sample(original, released, name, self.weighted)
        if not after.known:
            return 1.0
        found, unit = gaps(before, after), 1.0
        if self.scaled:
            check_finite(name, after.values[[0, -1]])
            unit = spread(original, name, weights_of(original, self.weighted)).variance ** 0.5
        # without a standard deviation to measure it in, any change loses all
        distance = self.apart(found, unit) if unit else float(found.area > 0.0)
        check_size(name, distance)
        return float(with_gaps(np.array(distance), np.array(min(after.known / before.known, 1.0))))


class BinnedDistance(Columnwise, abstract=True):
    """U = 1 - the mean over columns of a distance between the shares of their values.

    Categories are compared as they are, numbers and dates in bins that are fixed from the original; missing values are a category
    of their own, so that suppressing values loses. Values released as broader categories or intervals are spread evenly over what
    they cover. A column that was not released loses 1.
    """

    bins: int = bins_parameter(20)
    binning: Binning = binning_parameter()

    @staticmethod
    @abstractmethod
    def apart(s: Shares, /) -> float:
        """Return the distance of two distributions."""

    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return the distance of one column."""
        weights = weights_of(original, self.weighted)
        column = coded(original, released, name, weights, self.bins, self.binning)
        return self.apart(shares([column], weights, weights_of(released, self.weighted)))


class Hellinger(BinnedDistance):
    """U = 1 - the mean over columns of the Hellinger distance H = sqrt(½ Σ (√p - √q)²), p and q the shares of a value.

    H goes from 0 (the same distribution) to 1 (no value in common). What is compared is in `BinnedDistance`.
    """

    distance: ClassVar[str] = "Hellinger distance"
    apart = staticmethod(hellinger)


class TotalVariation(BinnedDistance):
    """U = 1 - the mean over columns of the total variation TV = ½ Σ |p - q|, p and q the shares of a value.

    TV is the share of records that would have to change their value to make one distribution the other: from 0 to 1, and
    the largest difference in the share of any set of values. What is compared is in `BinnedDistance`.
    """

    distance: ClassVar[str] = "total variation"
    apart = staticmethod(total_variation)


class KolmogorovSmirnov(NumbersApart):
    """U = 1 - the mean over columns of D, the largest |F(x) - G(x)| of the two files' distribution functions.

    D is the largest difference in the share of records that have a number of at most x, whatever x is: from 0 to 1. It does
    not depend on units, nor on how numbers are transformed. Values missing in the original are left out; with a share
    1 - kept of the others suppressed the loss is D + (1 - kept) · (1 - D). Numbers released as intervals are spread evenly over
    them. A column that was not released loses 1; one without known values in the original is left out.
    """

    distance: ClassVar[str] = "Kolmogorov-Smirnov distance"
    scaled: ClassVar[bool] = False

    def apart(self, found: Gaps, unit: float) -> float:
        """Return the largest |F - G|."""
        return found.largest


class Wasserstein(NumbersApart):
    """U = 1 - the mean over columns of the 1-Wasserstein (earth mover's) distance, in standard deviations of the original.

    W = ∫ |F(x) - G(x)| dx: how far numbers have to be moved, on average, to make one distribution the other; a shift by δ
    standard deviations has W = δ. It has no upper end. Values missing in the original are left out; a suppressed value loses
    1, as if it were one standard deviation off, or W where that is more. Numbers released as intervals are spread evenly over
    them. A column that was not released loses 1; one that does not vary loses 0 if it was not changed, else 1; one without
    known values in the original is left out.
    """

    distance: ClassVar[str] = "Wasserstein distance"
    unit: ClassVar[str] = " standard deviations"

    def apart(self, found: Gaps, unit: float) -> float:
        """Return ∫ |F - G| in standard deviations."""
        return found.area / unit


class EnergyDistance(NumbersApart):
    """U = 1 - the mean over columns of the energy distance D of numbers in standard deviations of the original.

    D² = 2 E|X - Y| - E|X - X'| - E|Y - Y'|, X and X' drawn from the original, Y and Y' from the release. For numbers it is
    2 ∫ (F(x) - G(x))² dx, worked out exactly from the sorted values. D is 0 only if both distributions are the same, and has no
    upper end. Values missing in the original are left out; a suppressed value loses 1, or D where that is more. Numbers
    released as intervals are spread evenly over them. A column that was not released loses 1; one that does not vary loses 0
    if it was not changed, else 1; one without known values in the original is left out. `JointEnergyDistance` compares
    columns together. Source: Székely, Rizzo 2013.
    """

    distance: ClassVar[str] = "energy distance"

    def apart(self, found: Gaps, unit: float) -> float:
        """Return sqrt(2 ∫ (F - G)²) of numbers in standard deviations."""
        return float((2.0 * found.square / unit) ** 0.5)


# --- Energy distance between the joint distributions of several columns of numbers (Székely, Rizzo 2013).

LEVEL = 0.95
LEAST = 4
"""The fewest systems of directions: an interval from fewer would be very wide."""


class JointEnergyDistance(ColumnUtility):
    """U = 1 - the energy distance D of columns of numbers taken together, in standard deviations of the original.

    D² = 2 E|X - Y| - E|X - X'| - E|Y - Y'| with Euclidean distances of whole records, X and X' drawn from the original, Y and
    Y' from the release. It is 0 only if the joint distributions are the same, relations between the columns included. All pairs
    of records would be too many: D² is also a known constant times the mean, over all directions, of the same distance between
    the records' shadows on a line, and each of those is exact. So D² is estimated without bias from random directions, with all
    records; the interval says what the choice of directions leaves open. An unchanged file has exactly 0.

    Records with a missing value are left out; where the share of complete records falls, each that was lost loses 1, or D where
    that is more. If a column was not released, no record is complete, and all is lost. Columns that do not vary are left out.
    The records of an interval of numbers are spread evenly over it.
    """

    title: ClassVar[str] = "1 - joint energy distance"
    sentence: ClassVar[str] = "the joint energy distance is {loss}"

    over: tuple[str, ...] | None = over_columns("numbers")
    weighted: bool = weighted_flag()
    directions: int = param(default=48, doc="how many directions are drawn", low=1, high=1_000_000, integer=True)
    seed: int = param(default=1, doc="seed of the directions", low=0, integer=True)

    @np.errstate(over="ignore", invalid="ignore")  # huge values are refused where the loss is
    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the joint distributions."""
        check_files(outcome, self.weighted)
        units = self._units(outcome.original)
        original, within = outcome.original, Draws(self.seed).generator("within intervals")
        before = _Records.of(original, original, units, self.weighted, within)
        if not before.complete:
            raise NotApplicable(
                f"no record of the original has a value in each of {join_names(units)}, so there is no joint distribution. Name "
                "fewer columns with `over`."
            )
        turns = self._directions(len(units))
        files = [_Records.of(original, d, units, self.weighted, within) for d in outcome.implicates]
        each = [_losses(before, after, turns) for after in files]
        loss, low, high = np.mean(each, axis=0).tolist()
        return self.result(
            1.0 - loss,
            f"the joint energy distance of {join_names(units, 6)} is {digits(loss)}",
            interval=None if len(turns) < 2 else (1.0 - high, 1.0 - low),
            level=LEVEL,
            details={"joint energy distance": loss, "share of complete records in the original": before.complete},
        )

    def _units(self, original: Microdata) -> dict[str, float]:
        """Return the columns that vary with their standard deviations."""
        names = compared_columns(original, self.over, NUMBER)
        weights = weights_of(original, self.weighted)
        units = {name: spread(original, name, weights).variance ** 0.5 for name in names}
        constant = [name for name in names if not units[name]]
        if constant and (self.over is not None or len(constant) == len(names)):
            raise DataError(
                f"{join_names(constant)}: nothing varies there in the original, so distances have no unit. Name other columns with "
                "`over`."
            )
        return {name: unit for name, unit in units.items() if unit}

    def _directions(self, k: int) -> Sequence[Numbers]:
        """Return random rotations, each (k, k) with orthogonal columns of length 1; a line has but one direction.

        Orthogonal directions complement each other, so that their mean varies less than that of as many drawn freely.
        """
        if k == 1:
            return [np.ones((1, 1))]
        generator, count = Draws(self.seed).generator("directions"), max(math.ceil(self.directions / k), LEAST)
        return [np.linalg.qr(generator.normal(size=(k, k)))[0] for _ in range(count)]


class _Records:
    """The complete records of a file in units of the original's columns, shape (r, k), and their weights."""

    def __init__(self, names: Sequence[str], points: Numbers, weights: Numbers | None, complete: float) -> None:
        self.names, self.points, self.weights, self.complete = names, points, weights, complete

    @classmethod
    def of(
        cls, original: Microdata, data: Microdata, units: dict[str, float], weighted: bool, generator: Generator
    ) -> _Records:
        columns = [_numbers(original, data, name, generator) / unit for name, unit in units.items()]
        points = np.column_stack(columns)
        whole = np.flatnonzero(~np.isnan(points).any(axis=1))
        weights = weights_of(data, weighted)
        if weights is None:
            return cls(list(units), points[whole], None, len(whole) / max(len(points), 1))
        share = float(weights[whole].sum() / weights.sum()) if len(whole) else 0.0
        return cls(list(units), points[whole], weights[whole], share)


def _numbers(original: Microdata, data: Microdata, name: str, generator: Generator) -> Numbers:
    """Return a column as numbers, shape (t,): the records of an interval are spread evenly over it, in random order."""
    if name not in data.engine.kinds:
        return np.full(len(data), np.nan)
    reading = read_numbers(original, data, name)
    check_finite(name, reading.numbers)
    numbers = reading.numbers.copy() if reading.spreads else reading.numbers
    for i, points in enumerate(reading.spreads):
        rows = np.flatnonzero(reading.place == i)
        numbers[rows] = generator.permutation(points[np.arange(len(rows)) * len(points) // max(len(rows), 1)])
    return numbers


def _losses(before: _Records, after: _Records, turns: Sequence[Numbers]) -> tuple[float, float, float]:
    """Return the loss and the ends of its interval."""
    if not after.complete:
        return 1.0, 1.0, 1.0
    squares = np.array([_square(before, after, turn) for turn in turns])
    mean, half = float(squares.mean()), 0.0
    if len(squares) > 1:
        from scipy.stats import t

        half = float(t.ppf(0.5 + LEVEL / 2, len(squares) - 1) * squares.std(ddof=1) / math.sqrt(len(squares)))
    check_size(join_names(after.names), mean + half)
    kept = min(after.complete / before.complete, 1.0)
    ends = np.sqrt(np.maximum([mean, mean - half, mean + half], 0.0))
    loss, low, high = with_gaps(ends, np.full(3, kept)).tolist()
    return loss, low, high


def _square(before: _Records, after: _Records, turn: Numbers) -> float:
    """Return the estimate of D² from one system of k directions.

    For a direction u drawn evenly from the sphere, E|u·v| = c |v| with c = Γ(k/2) / (√π Γ((k + 1)/2)), so that E D²(u·X, u·Y) =
    c D²(X, Y) (Huang, Huo 2017).
    """
    k = len(turn)
    c = math.exp(math.lgamma(k / 2) - math.lgamma((k + 1) / 2)) / math.sqrt(math.pi)
    apart = [
        gaps(sample(before.points @ u, before.weights), sample(after.points @ u, after.weights)).square for u in turn.T
    ]
    return 2.0 * float(np.mean(apart)) / c


Distance = Literal["total variation", "hellinger", "mean difference"]
MOST = 2_000
"""The most tables that are made."""
SHOWN = 10
"""The worst tables have their loss in the details."""
_DISTANCES = {"total variation": total_variation, "hellinger": hellinger, "mean difference": mean_difference}
_WORDS = {
    "total variation": "total variation",
    "hellinger": "Hellinger distance",
    "mean difference": "mean absolute difference of cell shares",
}


class TableDistance(ColumnUtility):
    """U = 1 - the mean distance between the tables of both files, over all tables of up to `order` of the columns.

    A table has the share of the records in each combination of values; missing is a value. The distance of two tables is half
    the sum of the absolute differences (total variation), the Hellinger distance, or the whole sum divided by how many cells
    the original fills (2 at least): the mean difference of a cell. Numbers and dates are sorted into bins that are fixed from
    the original. Values released as broader categories or intervals are spread evenly over what they cover. In a table with a
    column that was not released no record is in a cell of the original. Only combinations that occur are kept.
    """

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()
    order: int = param(default=2, doc="how many columns a table has at most", low=1, high=20, integer=True)
    distance: Distance = param(default="total variation", doc="how far apart two tables are")
    numbers: Literal["binned", "left out"] = param(
        default="binned", doc="whether columns of numbers take part, if none are named"
    )
    bins: int = bins_parameter(5)
    binning: Binning = binning_parameter()

    @override
    def label(self) -> str:
        of = f" of {join_names(self.over, 3)}" if self.over else ""
        return f"1 - {_WORDS[self.distance]} of tables of up to {plural(self.order, 'column')}{of}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"the mean {_WORDS[self.distance]} of the tables is {digits(1 - value)}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare all tables."""
        kinds = PLAIN if self.over is not None or self.numbers == "binned" else CATEGORY
        names = compared_columns(outcome.original, self.over, kinds)
        check_files(outcome, self.weighted)
        tables = self._tables(names)
        each = [self._losses(outcome.original, released, names, tables) for released in outcome.implicates]
        losses = dict(zip(tables, np.mean(each, axis=0).tolist(), strict=True))
        return self._score(losses)

    def _tables(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the columns of each table; refuse too many tables."""
        order = min(self.order, len(names))
        count = sum(math.comb(len(names), k) for k in range(1, order + 1))
        if count > MOST:
            raise NotApplicable(
                f"{plural(len(names), 'column')} make {count:,} tables of up to {order} columns, more than {MOST:,}. Name fewer "
                "columns with `over`, or lower `order`."
            )
        return [table for k in range(1, order + 1) for table in combinations(names, k)]

    def _losses(
        self, original: Microdata, released: Microdata, names: tuple[str, ...], tables: list[tuple[str, ...]]
    ) -> list[float]:
        weights, theirs = weights_of(original, self.weighted), weights_of(released, self.weighted)
        columns = {n: coded(original, released, n, weights, self.bins, self.binning) for n in names}
        find = _DISTANCES[self.distance]
        return [find(shares([columns[n] for n in table], weights, theirs)) for table in tables]

    def _score(self, losses: Mapping[tuple[str, ...], float]) -> Score:
        mean, worst = float(np.mean(list(losses.values()))), max(losses, key=lambda table: losses[table])
        what = _WORDS[self.distance]
        details = {f"mean {what}": mean, f"largest {what}": losses[worst], "tables": float(len(losses))}
        for k in sorted({len(table) for table in losses}):
            here = [loss for table, loss in losses.items() if len(table) == k]
            details[f"mean {what} of tables of {plural(k, 'column')}"] = float(np.mean(here))
        for table in sorted(losses, key=lambda t: -losses[t])[:SHOWN]:
            details[f"loss of {' × '.join(table)}"] = losses[table]
        words = f"the mean {what} of {plural(len(losses), 'table')} is {digits(mean)}"
        if losses[worst]:
            words += f"; the largest, {digits(losses[worst])}, is that of {' × '.join(worst)}"
        return self.result(1.0 - mean, words, details=details)
