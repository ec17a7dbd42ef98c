"""Spreads kept: how much the variances of the released columns differ from the original ones."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import Release, Score, Snooper
from sfumato.contract.score import digits
from sfumato.errors import listing
from sfumato.schema import Schema
from sfumato.utility.moments import MomentMeasure, not_released, with_gaps


class SpreadsKept(MomentMeasure):
    """U = 1 - the mean over columns of |variance released - variance original| / variance original.

    The loss is the mean relative difference of variances. A column of means only loses 1, and so does one that was not released;
    noise of λ² times the variance loses λ², without an upper end. A value that was suppressed loses 1, or the difference of the
    others where that is more. `VarianceKept` is another question: how far each record is from its original.
    """

    def label(self) -> str:
        """Return a few words for a legend."""
        return "spreads kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference in percent."""
        return f"variances are off by {digits(100 * (1 - value))} % on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the variances."""
        before, after = self.compared(outcome)
        kept = [np.diag(before.kept(file)) for file in after]
        gap = [np.abs(file.variance / before.moments.variance - 1) for file in after]
        losses = np.mean([with_gaps(g, k) for g, k in zip(gap, kept, strict=True)], axis=0)
        worst, loss, (share, gone) = int(losses.argmax()), float(losses.mean()), not_released(kept)
        more = f", most for {before.names[worst]} ({digits(100 * losses[worst])} %)" if len(losses) > 1 else ""
        ratios = np.mean([file.variance / before.moments.variance for file in after], axis=0)
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                "mean relative difference of variances": loss,
                "largest relative difference of variances": float(losses[worst]),
                "share of values not released": share,
                **{
                    f"variance ratio of {n}": float(r)
                    for n, r in zip(before.names, ratios, strict=True)
                    if math.isfinite(r)
                },
            },
        )
