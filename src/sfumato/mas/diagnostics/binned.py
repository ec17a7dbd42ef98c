"""Binned residuals for binary and multinomial logistic models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.contract import Draws, param
from sfumato.errors import DataError
from sfumato.mas.cutpoints.minimum import Minimum
from sfumato.mas.cutpoints.tally import Tally
from sfumato.mas.diagnostics.picture import BinnedPicture
from sfumato.mas.diagnostics.smooth import Numbers
from sfumato.mas.diagnostics.synthetic import Diagnostic


class BinnedResiduals(Diagnostic):
    """Means of outcome minus fitted probability in bins of the probability, with keyed noise.

    A bin holds at least `least` records, and at least one in `most` of all. The noise is normal with a standard deviation of
    `noise` residuals on each bin's sum; the band includes it. Where a bin lies is told by its median, to two digits, so that no
    record far out moves it.

    Gelman and Hill, Data Analysis Using Regression (2007), section 5.6, for binned residuals; MAS.md, "Diagnostics".
    """

    least: int = param(default=25, doc="the least number of records in a bin", low=5, integer=True)
    most: int = param(default=20, doc="the largest number of bins", low=2, high=200, integer=True)
    noise: float = param(default=2.0, doc="standard deviation of the noise on a bin's sum of residuals", low=0.5)

    def picture(
        self,
        probability: Any,
        outcome: Any,
        draws: Draws,
        name: str = "outcome",
        x: Any = None,
        axis: str = "fitted probability",
    ) -> BinnedPicture:
        """Return the picture of a binary outcome.

        Parameters
        ----------
        probability, outcome
            Shape (n,): fitted probabilities, and 1 where it happened, 0 where not.
        draws
            Keyed by model and set of records.
        name
            What the outcome is called; pictures with different names have different noise.
        x, axis
            Another axis than the probability, and its name: a numerical predictor.
        """
        p, y = np.asarray(probability, np.float64), np.asarray(outcome, np.float64)
        along = p if x is None else np.asarray(x, np.float64)
        if not (p.ndim == y.ndim == along.ndim == 1 and len(p) == len(y) == len(along)):
            raise DataError("there must be one probability and one outcome for each record.")
        fine = np.isfinite(p) & np.isfinite(y) & np.isfinite(along)
        p, y, along = p[fine], y[fine], along[fine]
        if np.any((p < 0) | (p > 1)) or np.any((y != 0) & (y != 1)):
            raise DataError("probabilities must lie between 0 and 1, and outcomes be 0 or 1.")
        if len(p) < 2 * self.least:
            raise DataError("there are too few records for a picture of residuals. Choose a larger universe.")
        edges = self.edges(Tally.of(along, whole=False))
        codes, count = np.searchsorted(np.asarray(edges), along, side="left"), len(edges) + 1
        sums = np.stack([np.bincount(codes, w, count).astype(float) for w in (np.ones(len(p)), y - p, p * (1 - p))])
        middles = np.array([np.median(along[codes == i]) for i in range(count)])
        return self.of_sums(sums, middles, draws, name, axis)

    def edges(self, tally: Tally) -> list[float]:
        """Return where bins of the axis end; equal values stay together."""
        need = max(self.least, -(-tally.total // self.most))
        return list(Minimum(d=need, rounding=False).edges(tally))

    def of_sums(self, sums: Numbers, middles: Numbers, draws: Draws, name: str, axis: str) -> BinnedPicture:
        """Return the picture of sums over bins.

        `sums` has shape (3, bins): records, outcome minus probability, and its variance under the model. `middles` (bins,) are
        the medians of the axis.
        """
        import pandas as pd

        size, total, variance = sums
        own = draws.child("binned residuals", name, axis, f"{self.noise:g}")  # other noise is not a multiple
        total = total + self.noise * own.normals(np.arange(len(size)), "bins")
        band = 2 * np.sqrt(variance + self.noise**2) / size
        points = {
            "x": _placed(middles),
            "residual": np.round(total / size, 4),
            "band": [float(f"{b:.2g}") for b in band],
        }
        return BinnedPicture(axis, name, pd.DataFrame(points))

    def pictures(
        self, probabilities: Any, outcome: Any, draws: Draws, levels: Sequence[str] | None = None
    ) -> dict[str, BinnedPicture]:
        """Return a picture for each level of a multinomial outcome.

        `probabilities` has shape (n, k); `outcome` (n,) the position of each record's level, from 0; `levels` their k names.
        """
        p, y = np.asarray(probabilities, np.float64), np.asarray(outcome, np.float64)
        if p.ndim != 2 or (levels is not None and len(levels) != p.shape[1]):
            raise DataError("there must be one column of probabilities for each level of the outcome.")
        if np.any(np.isfinite(y) & ((y < 0) | (y >= p.shape[1]) | (y % 1 != 0))):
            raise DataError("outcomes must be positions of levels, counted from 0.")
        names = [str(n) for n in levels] if levels is not None else [f"level {i}" for i in range(p.shape[1])]
        happened = np.where(np.isfinite(y)[:, None], y[:, None] == np.arange(p.shape[1]), np.nan)
        return {n: self.picture(p[:, i], happened[:, i], draws, n) for i, n in enumerate(names)}


def _placed(middles: Numbers) -> list[float]:
    """Round to two digits, or to a fiftieth of the span where that is finer: 1998 and 2007 must not both be 2000."""
    span = float(middles.max() - middles.min()) / 50
    places = [min(float(np.floor(np.log10(m))) for m in (abs(x) / 10, span) if m > 0) if x else 0.0 for x in middles]
    return [round(float(x), -int(place)) for x, place in zip(middles, places, strict=True)]
