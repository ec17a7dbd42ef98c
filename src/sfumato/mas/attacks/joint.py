"""Many noisy counts of sets that overlap, taken together: the best linear guess of whether one person has an attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reading:
    """A set of records of which it can be learned how many have the attribute."""

    inside: NDArray[np.float32]
    """1 for each cell of the table of known variables that is in the set, else 0; shape (cells,)."""
    n: float
    """Records of the set."""
    holds: bool
    """Whether the target is one of them."""
    variance: float
    """Of what is learned: by noise, rounding and drops."""


@dataclass(eq=False)
class Joint:
    """Readings so far. Others have the attribute independently, with a probability that is known.

    Then the readings have the covariance share (1 - share) |S and T| and that of their noise, and whether the target has the
    attribute moves their means by 1 for the sets that hold it: Fisher's linear discriminant is the log-likelihood ratio, as far
    as counts are normal.
    """

    counts: NDArray[np.float32]
    """Records of each cell but the target, shape (cells,)."""
    share: float
    chosen: list[Reading] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    covariance: Numbers = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, reading: Reading, value: float = math.nan) -> None:
        """Add a reading, and what it said."""
        self.chosen.append(reading)
        self.values.append(value)
        row = self.shared(np.stack([r.inside for r in self.chosen]), reading)
        grown = np.zeros((len(row), len(row)))
        grown[:-1, :-1], grown[-1], grown[:, -1] = self.covariance, row, row
        grown[-1, -1] += reading.variance
        self.covariance = grown

    def shared(self, cells: NDArray[np.float32], reading: Reading) -> Numbers:
        """Return the covariances with a reading by records that sets share; cells are (sets, cells), the result is (sets,)."""
        return np.asarray(cells @ (self.counts * reading.inside), np.float64) * self.share * (1 - self.share)

    def solved(self, right: Numbers) -> Numbers:
        """Return the inverse of the covariance of all readings, times a matrix."""
        return np.asarray(np.linalg.solve(self.covariance, right))

    def signal(self) -> Numbers:
        """Return how far the target moves each reading."""
        return np.array([float(r.holds) for r in self.chosen])

    def gains(self, candidates: Sequence[Reading], across: Numbers) -> Numbers:
        """Return what each candidate would add to the information, the squared distance of yes and no.

        `across` are its overlaps with the readings so far, shape (candidates, readings).
        """
        own = np.array([(r.n - r.holds) * self.share * (1 - self.share) + r.variance for r in candidates])
        moved = np.array([float(r.holds) for r in candidates])
        if self.chosen:
            solved = self.solved(np.column_stack([self.signal(), across.T]))
            moved = moved - across @ solved[:, 0]
            own = own - np.einsum("ij,ji->i", across, solved[:, 1:])
        return np.asarray(moved**2 / np.maximum(own, 1e-9))

    def information(self) -> float:
        """Return the squared distance between the readings of a target with and of one without, in standard deviations."""
        signal = self.signal()
        return float(signal @ self.solved(signal)) if self.chosen else 0.0

    def evidence(self) -> float:
        """Return the log-likelihood ratio of yes against no, the share among all included."""
        prior = math.log(self.share / (1 - self.share))
        if not self.chosen:
            return prior
        signal = self.signal()
        weights = self.solved(signal)
        usual = np.array([(r.n - r.holds) * self.share for r in self.chosen])
        return prior + float(weights @ (np.array(self.values) - usual - signal / 2))
