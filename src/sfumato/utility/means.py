"""Means kept: how far the means of the released columns are from the original ones."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, Snooper
from sfumato.contract.score import digits
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.schema import Schema
from sfumato.utility.each_column import ColumnMeasure

Numbers = NDArray[np.float64]


class MeansKept(ColumnMeasure):
    """U = 1 - the mean over columns of |mean released - mean original| / sd, the sd being that of the original column.

    The loss is the standardised difference in means, in absolute value; it does not depend on units. A column that was not
    released loses 1, one standard deviation; so does each value that was suppressed, or as much as the mean of the others is off
    where that is more. Records that were dropped are missed as far as the mean moves: that of a sample is still a mean.
    """

    noun: ClassVar[str] = "means"
    difference: ClassVar[str] = "difference of means"
    companion: ClassVar[str] = "shift"

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference."""
        return f"means are off by {digits(1 - value)} standard deviations on average"

    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return how far each mean has moved, in standard deviations."""
        return after.mean

    def off(self, own: Numbers) -> Numbers:
        """Return the distances."""
        return np.abs(own)

    def amount(self, loss: float) -> str:
        """Return standard deviations."""
        return digits(loss)

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the value under additive noise: the mean of n draws is N(0, ω/n), and E|N(0, 1)| = √(2/π)."""
        names = self.before.names if self.before is not None else self.over or ()
        if self.weighted or not names or any(n not in model.names for n in names):
            return None
        used = [model.at(n) for n in names]
        variance, noise = np.diag(model.covariance)[used], np.diag(model.noise)[used]
        if not (variance > 0).all():
            return None
        return 1 - float(np.sqrt(2 * noise / (math.pi * model.n * variance)).mean())
