"""Energy distance between the joint distributions of several columns of numbers (Székely, Rizzo 2013)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sfumato.contract import DirectMeasure, Draws, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import DataError, NotApplicable, listing
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.columnwise import check_files, check_weighted, looked_at
from sfumato.utility.compared import NUMBER, compared_columns, over_columns, weighted_flag, weights_of
from sfumato.utility.meanings import read_numbers
from sfumato.utility.moments import check_finite, check_size, spread, with_gaps
from sfumato.utility.samples import gaps, sample

Numbers = NDArray[np.float64]
LEVEL = 0.95
LEAST = 4
"""The fewest systems of directions: an interval from fewer would be very wide."""


class JointEnergyDistance(DirectMeasure):
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

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns("numbers")
    weighted: bool = weighted_flag()
    directions: int = param(default=48, doc="how many directions are drawn", low=1, high=1_000_000, integer=True)
    seed: int = param(default=1, doc="seed of the directions", low=0, integer=True)

    def validate(self) -> None:
        """Refuse a flag that is neither true nor false."""
        check_weighted(self.name, self.weighted)

    def label(self) -> str:
        """Return a few words for a legend."""
        return "1 - joint energy distance" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """Whether survey weights are used."""
        return "weighted" if self.weighted else ""

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss."""
        return f"the joint energy distance is {digits(1 - value)}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns, and the weights."""
        return looked_at(schema, self.over, self.weighted)

    @np.errstate(over="ignore", invalid="ignore")  # huge values are refused where the loss is
    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the joint distributions."""
        check_files(outcome, self.weighted)
        units = self._units(outcome.original)
        original, within = outcome.original, Draws(self.seed).generator("within intervals")
        before = _Records.of(original, original, units, self.weighted, within)
        if not before.complete:
            raise NotApplicable(
                f"no record of the original has a value in each of {listing(units)}, so there is no joint distribution. Name "
                "fewer columns with `over`."
            )
        turns = self._directions(len(units))
        files = [_Records.of(original, d, units, self.weighted, within) for d in outcome.implicates]
        each = [_losses(before, after, turns) for after in files]
        loss, low, high = np.mean(each, axis=0).tolist()
        return self.result(
            1.0 - loss,
            f"the joint energy distance of {listing(units, 6)} is {digits(loss)}",
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
                f"{listing(constant)}: nothing varies there in the original, so distances have no unit. Name other columns with "
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
    check_size(listing(after.names), mean + half)
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
