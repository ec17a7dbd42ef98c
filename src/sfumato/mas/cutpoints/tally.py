"""A variable as distinct values with their counts: all that cutpoints need, however many records there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

HUGE = 1e300
"""Numbers beyond this count as infinite, so that the distance of two is always a number."""


@dataclass(frozen=True)
class Tally:
    """Distinct finite values, ascending, and how many records have each; confidential.

    Infinite values are counted with the smallest and the largest finite one: they lie in the end bins, wherever these begin.
    """

    values: Numbers
    """Shape (m,)."""
    counts: Counts
    """Shape (m,), all positive."""
    cumulative: Counts
    """Shape (m,): how many records are at most each value."""
    missing: int
    whole: bool
    """Whether all values are whole numbers."""

    @classmethod
    def of(cls, values: Any, counts: Any = None, whole: bool | None = None) -> Tally:
        """Count values; with `counts` the values are already distinct (if some are not, their counts are added up).

        >>> Tally.of([3, 1, 3, float("nan")]).counts
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
        """How many records have a value."""
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
        """The distance between them."""
        return self.high - self.low

    def up_to(self, x: float) -> int:
        """Return how many records have at most x."""
        at = int(np.searchsorted(self.values, x, side="right"))
        return int(self.cumulative[at - 1]) if at else 0

    def bins(self, edges: Sequence[float]) -> Counts:
        """Return how many records each bin holds: up to the first edge, above it up to the second, …, above the last."""
        at = np.searchsorted(self.values, np.asarray(edges, float), side="right")
        below = np.concatenate([[0], self.cumulative])[at]
        return np.diff(np.concatenate([[0], below, [self.total]])).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Return the smallest value that at least this share of the records reach."""
        at = int(np.searchsorted(self.cumulative, share * self.total, side="left"))
        return float(self.values[min(at, len(self.values) - 1)])


def numbers_of(values: Any) -> Numbers:
    """Return numbers with NaN for missing ones, from a list, an array or a column of a frame; text and dates are refused."""
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


def _counts_of(counts: Any, n: int) -> Counts:
    given = numbers_of(counts)
    if len(given) != n:
        raise DataError("there must be one count for each value.")
    if not np.all(given >= 0) or not np.all(given == np.floor(given)) or not np.all(given < 2.0**53):
        raise DataError("counts must be whole numbers of records, 0 or more. Weighted counts do not protect anybody.")
    return np.asarray(given, np.int64)
