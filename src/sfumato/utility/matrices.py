"""What the comparisons of covariances and of correlations share: entry by entry, and the worst pair in words."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release, Score, Snooper
from sfumato.contract.score import digits
from sfumato.errors import DataError, listing
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.schema import Schema
from sfumato.utility.moments import MomentMeasure, not_released, with_gaps, worst_of

Numbers = NDArray[np.float64]


class MatrixMeasure(MomentMeasure, abstract=True):
    """U = 1 - the mean absolute difference of the entries of a matrix with a row and a column for each column of the file."""

    noun: ClassVar[str]
    """What the entries are called."""
    diagonal: ClassVar[bool]
    """Whether a column's entry with itself counts."""

    @abstractmethod
    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the matrix, shape (k, k); NaN where there is no entry."""

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"{self.noun} kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference."""
        return f"{self.noun} are off by {digits(1 - value)} on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare entry by entry, on one side of the diagonal."""
        before, after = self.compared(outcome)
        one = self.matrix(before.moments)
        there = np.triu(np.isfinite(one), 0 if self.diagonal else 1)
        if not there.any():
            raise DataError(
                f"{listing(before.names)}: {self.noun} need two columns that vary over the records that have both. "
                "Name others with over=[...]."
            )
        kept = [before.kept(file) for file in after]
        each = [with_gaps(np.abs(self.matrix(f) - one), k) for f, k in zip(after, kept, strict=True)]
        losses = np.where(there, np.mean(each, axis=0), -np.inf)
        loss, most = float(losses[there].mean()), float(losses.max())
        i, j = np.unravel_index(int(losses.argmax()), losses.shape)
        pair = before.names[i] if i == j else f"{before.names[i]} and {before.names[j]}"
        more = worst_of(pair, digits(most), int(there.sum())) if most else ""
        share, gone = not_released(kept)
        values = {"original": float(one[i, j]), "released": float(np.mean([self.matrix(f)[i, j] for f in after]))}
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                f"mean absolute difference of {self.noun}": loss,
                f"largest absolute difference of {self.noun}": most,
                **{f"entry that differs most, {which}": v for which, v in values.items() if np.isfinite(v)},
                "entries compared": float(there.sum()),
                "share of values not released": share,
            },
        )
