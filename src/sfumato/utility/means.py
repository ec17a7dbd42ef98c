"""Means kept: how far the means of the released columns are from the original ones."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import NoiseModel, Release, Score, Snooper
from sfumato.contract.score import digits
from sfumato.errors import listing
from sfumato.schema import Schema
from sfumato.utility.moments import MomentMeasure, not_released, with_gaps


class MeansKept(MomentMeasure):
    """U = 1 - the mean over columns of |mean released - mean original| / sd, the sd being that of the original column.

    The loss is the standardised difference in means, in absolute value; it does not depend on units. A column that was not
    released loses 1, one standard deviation; so does each value that was suppressed, or as much as the mean of the others is off
    where that is more. Records that were dropped are missed as far as the mean moves: that of a sample is still a mean.
    """

    def label(self) -> str:
        """Return a few words for a legend."""
        return "means kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference."""
        return f"means are off by {digits(1 - value)} standard deviations on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the means."""
        before, after = self.compared(outcome)
        kept = [np.diag(before.kept(file)) for file in after]
        losses = np.mean([with_gaps(np.abs(f.mean), k) for f, k in zip(after, kept, strict=True)], axis=0)
        worst, loss, (share, gone) = int(losses.argmax()), float(losses.mean()), not_released(kept)
        more = f", most for {before.names[worst]} ({digits(losses[worst])})" if len(losses) > 1 else ""
        shifts = dict(zip(before.names, np.mean([f.mean for f in after], axis=0), strict=True))
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                "mean difference of means": loss,
                "largest difference of means": float(losses[worst]),
                "share of values not released": share,
                **{f"shift of {n}": float(shift) for n, shift in shifts.items() if math.isfinite(shift)},
            },
        )

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
