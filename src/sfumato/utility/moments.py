"""What the comparisons of means, variances, covariances and correlations share: the moments of both files, in one unit.

A mean and a variance are over a column's own values; a covariance and a correlation are over the records that have both columns
(pairwise), in each file by itself, so nothing has to be paired. All are in the units of the original's columns: mean 0 and
standard deviation 1 (but ranks stay ranks). What was suppressed loses: see `with_gaps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import DirectMeasure, NoiseModel, Release, Side, learned
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, listing
from sfumato.kernels.moments import is_constant
from sfumato.kernels.pairwise import PairwiseMoments, column_moments, moments_of_pairs, rank_shares
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.columnwise import check_weighted, looked_at
from sfumato.utility.compared import NUMBER, compared_columns, over_columns, weighted_flag, weights_of

Numbers = NDArray[np.float64]

_ROUNDING = 1e-9
"""Sums of weights in another order differ by less."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean, variance (0 for a constant) and number of the known values of a column of the original."""

    mean: float
    variance: float
    count: int


def spread(data: Microdata, name: str, weights: Numbers | None = None) -> Spread:
    """Return the spread of a column; refuse infinite values, and those too large to square."""
    batch = data.batch([name])
    numbers = batch.numbers(name)

    def find() -> Spread:
        check_finite(name, numbers)
        mean, variance, count = column_moments(numbers, weights)
        if count < 2:
            return Spread(0.0, 0.0, count)
        if not np.isfinite(variance):
            raise DataError(f"column '{name}' holds values too large to square. Give them another unit.")
        return Spread(mean, 0.0 if is_constant(np.array(mean), np.array(variance)) else variance, count)

    if weights is not None:
        return find()
    found: Spread = batch.column(name).remember(("spread", data.schema[name].missing), find)
    return found


def check_finite(name: str, numbers: Numbers) -> None:
    """Refuse a column with infinite values."""
    if np.isinf(numbers).any():
        raise DataError(f"column '{name}' holds infinite values, which cannot be compared. Set them to missing.")


def check_size(names: str, loss: float) -> None:
    """Refuse released values so large that the loss of some columns is no number any more."""
    if not np.isfinite(loss):
        raise DataError(f"{names}: some released values are too large to compare. Give them another unit.")


def check_numbers(outcome: Release, names: Sequence[str], measure: str) -> None:
    """Refuse columns of numbers that were released as categories: bands and groups have no moments and no distances."""
    for data in outcome.implicates:
        kinds = data.engine.kinds
        grouped = [n for n in names if kinds.get(n, Kind.NUMBER) is not Kind.NUMBER and not _is_empty(data, n)]
        if grouped:
            raise NotApplicable(
                f"{listing(grouped)}: released as categories, which cannot be compared with the original numbers. Name the "
                f"other columns: {measure}(over=[...]), or compare distributions."
            )


def released_numbers(data: Microdata, name: str) -> Numbers:
    """Return a released column as numbers, shape (t,): NaN where suppressed, and everywhere if the column was not released."""
    if data.engine.kinds.get(name) is not Kind.NUMBER:
        return np.full(len(data), np.nan)
    numbers = data.numbers(name)
    check_finite(name, numbers)
    return numbers


def with_gaps(difference: Numbers, kept: Numbers) -> Numbers:
    """Return losses from differences, where a share of the values was suppressed; shapes alike.

    A suppressed value loses 1, or the difference of those that are there, where that is more: d + (1 - kept)·max(0, 1 - d). So
    suppressing more never helps. Where there is no difference to be had (NaN: nothing was released), the loss is 1.
    """
    losses: Numbers = difference + (1 - kept) * np.maximum(0.0, 1 - difference)
    return np.where(np.isnan(losses), 1.0, losses)


def not_released(kept: Sequence[Numbers]) -> tuple[float, str]:
    """Return the share of values that is not there, from shares (k,) or (k, k) of each implicate, and what to say of it."""
    share = float(1 - np.mean([k if k.ndim == 1 else np.diag(k) for k in kept]))
    return share, f"; {digits(100 * share)} % of the values are not released, and count as lost" if share else ""


def worst_of(what: str, amount: str, compared: int) -> str:
    """Return what to say of a loss that is the largest of several."""
    return f", most for {what} ({amount})" if compared > 1 else ""


@dataclass(frozen=True, eq=False)
class Before:
    """The original's columns that vary, and their moments in units of their own mean and standard deviation."""

    data: Microdata
    names: tuple[str, ...]
    mean: Numbers
    sd: Numbers
    moments: PairwiseMoments
    ranks: bool = False
    """Whether the moments are of ranks instead of values."""

    @classmethod
    def of(cls, data: Microdata, names: Sequence[str], weighted: bool, ranks: bool = False) -> Before:
        """Find the moments; refuse a file in which nothing varies."""
        weights = weights_of(data, weighted)
        spreads = {name: spread(data, name, weights) for name in names}
        names = tuple(n for n in names if spreads[n].variance > 0)
        if not names:
            raise DataError(
                f"{listing(spreads)}: nothing varies, so there is no standard deviation to measure a difference in."
            )
        mean = np.array([spreads[n].mean for n in names])
        sd = np.sqrt(np.array([spreads[n].variance for n in names]))
        if ranks:  # which have a unit of their own
            mean, sd = np.zeros(len(names)), np.ones(len(names))
        moments = _moments([data.numbers(n) for n in names], weights, ranks).standardised(mean, sd)
        return cls(data, names, mean, sd, moments, ranks)

    def after(self, data: Microdata, weighted: bool) -> PairwiseMoments:
        """Return the moments of a released file in the same units."""
        if weighted and data.schema.one("weight") is None:
            raise NotApplicable(
                "the release has no survey weights, so nobody can weight it. Compare without weights (weighted=False)."
            )
        columns = [released_numbers(data, name) for name in self.names]
        moments = _moments(columns, weights_of(data, weighted), self.ranks).standardised(self.mean, self.sd)
        if not np.isfinite(moments.variance[np.diag(moments.count) >= 2]).all():
            raise DataError("some released values are too large to square. Give the columns another unit.")
        return moments

    def kept(self, after: PairwiseMoments) -> Numbers:
        """Return the share of the values (of the pairs of values, off the diagonal) that was not suppressed, shape (k, k).

        Shares of the records in each file: a file of fewer records is not one of suppressed values.
        """
        had = self.moments.share
        ratio = np.divide(after.share, had, out=np.ones_like(had), where=had > 0)
        return np.where(ratio > 1 - _ROUNDING, 1.0, ratio)


class MomentMeasure(DirectMeasure, abstract=True):
    """A comparison of moments of the columns of numbers in both files. Constant columns of the original are left out."""

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns("numbers")
    weighted: bool = weighted_flag()
    before: Any = learned("over", "weighted", default=None)

    @property
    def ranks(self) -> bool:
        """Whether ranks are compared instead of values."""
        return False

    def validate(self) -> None:
        """Check the flag."""
        check_weighted(self.name, self.weighted)

    @property
    def variant(self) -> str:
        """Whether survey weights are used."""
        return "weighted" if self.weighted else ""

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns, and the survey weights if they are used."""
        return looked_at(schema, self.over, self.weighted)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Find the moments of the original, once for all the releases of it."""
        names = compared_columns(data, self.over, NUMBER)
        return self.learn(before=Before.of(data, names, self.weighted, self.ranks))

    def compared(self, outcome: Release) -> tuple[Before, list[PairwiseMoments]]:
        """Return the moments of the original and of each implicate; measures of the same release share them."""
        before: Before | None = self.before
        if before is None or before.data is not outcome.original:  # another sample of a population
            before = self.prepare(outcome.original).before
            assert before is not None  # noqa: S101 - just learned
        check_numbers(outcome, before.names, type(self).__name__)
        key = ("moments", before.names, self.weighted, self.ranks)
        if key not in outcome.memory:
            outcome.memory[key] = [before.after(data, self.weighted) for data in outcome.implicates]
        return before, outcome.memory[key]


def _moments(columns: Sequence[Numbers], weights: Numbers | None, ranks: bool) -> PairwiseMoments:
    return moments_of_pairs([rank_shares(c, weights) for c in columns] if ranks else columns, weights)


def _is_empty(data: Microdata, name: str) -> bool:
    """Whether a column was released without any value in it: then it is as if it had not been released."""
    return bool(data.batch([name]).missing(name).all())
