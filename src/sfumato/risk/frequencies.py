"""The frequencies of frequencies: how many keys are shared by one record, by two, by three."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """n_i, the number of keys that occur i times, for every i that occurs.

    Where a missing key matches anything, a record counts in i the records that match it, and n_i is the number of such
    records over i: without missing keys that is the number of classes of i records.
    """

    sizes: Numbers
    """i, rising, shape (m,)."""
    counts: Numbers
    """n_i, shape (m,)."""

    @property
    def records(self) -> float:
        """n = Σ i·n_i."""
        return float(self.sizes @ self.counts)

    @property
    def classes(self) -> float:
        """Σ n_i, the number of keys that occur."""
        return float(self.counts.sum())

    def at(self, size: int) -> float:
        """Return n_i of one i.

        >>> Frequencies(np.array([1.0, 3.0]), np.array([5.0, 2.0])).at(3)
        2.0
        """
        return float(self.counts[self.sizes == size].sum())


def frequencies_of(found: Classes) -> Frequencies:
    """Return the frequencies of frequencies of a file's classes."""
    sizes, place = np.unique(found.matches, return_inverse=True)
    records = np.bincount(place, found.sizes, len(sizes))
    return Frequencies(sizes.astype(np.float64), records / sizes)
