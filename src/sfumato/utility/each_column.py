"""What the comparisons of means and of variances share: column by column, and the worst in words."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release, Score, Snooper
from sfumato.errors import listing
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.utility.moments import MomentMeasure, not_released, with_gaps, worst_of

Numbers = NDArray[np.float64]


class ColumnMeasure(MomentMeasure, abstract=True):
    """U = 1 - the mean over columns of how far a moment of the column is off."""

    noun: ClassVar[str]
    """What is kept."""
    difference: ClassVar[str]
    """What the loss is called."""
    companion: ClassVar[str]
    """What each column's own number in the details is called."""

    @abstractmethod
    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return each column's own number for the details, shape (k,)."""

    @abstractmethod
    def off(self, own: Numbers) -> Numbers:
        """Return the losses, without what is not released, from the columns' own numbers; shape (k,)."""

    @abstractmethod
    def amount(self, loss: float) -> str:
        """Return a loss with its unit, in brief."""

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"{self.noun} kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare column by column."""
        before, after = self.compared(outcome)
        kept = [np.diag(before.kept(file)) for file in after]
        own = [self.own(before.moments, file) for file in after]
        losses = np.mean([with_gaps(self.off(x), k) for x, k in zip(own, kept, strict=True)], axis=0)
        worst, loss, (share, gone) = int(losses.argmax()), float(losses.mean()), not_released(kept)
        more = worst_of(before.names[worst], self.amount(losses[worst]), len(losses)) if losses[worst] else ""
        each = zip(before.names, np.mean(own, axis=0), strict=True)
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                f"mean {self.difference}": loss,
                f"largest {self.difference}": float(losses[worst]),
                "share of values not released": share,
                **{f"{self.companion} of {n}": float(x) for n, x in each if math.isfinite(x)},
            },
        )
