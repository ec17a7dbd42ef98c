"""Synthetic residuals: a picture with the pattern of the real residuals and none of their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.contract import Draws, Parametric, param
from sfumato.errors import DataError
from sfumato.mas.diagnostics.axis import Places, places_among, places_on
from sfumato.mas.diagnostics.picture import ResidualPicture
from sfumato.mas.diagnostics.smooth import CURVE, SPREAD, Numbers, smooth

MOST = 200_000
"""Records used at most; of more, so many are drawn by key."""
SPREAD_DEGREE = 4
_FLOOR = 0.1


class Diagnostic(Parametric, family="diagnostic", abstract=True):
    """A picture of how well a model fits that shows no record."""


class SyntheticResiduals(Diagnostic):
    """Synthetic residuals against a synthetic axis: what a plot of the real ones would show, without their points.

    Places xˢ are drawn from a trimmed density estimate of x. The real residuals t are smoothed along x to b, their spread to s.
    Each place takes a random near neighbour j, and tˢ = b*(xˢ) + s*(xˢ) e_j + N(0, τ²), e_j = (t_j − b(x_j)) / s(x_j), where b*
    and s* are what of b and s is more than chance. The `guard` largest and smallest e are never used: beyond the next ones tails
    are drawn anew from a half-normal distribution with the median excess. Curves are fitted to residuals cut off at the same
    ranks. So the picture is the same whether the largest residual is 5 or 5,000,000.

    Reiter, Model diagnostics for remote-access regression servers, Statistics and Computing 13 (2003); MAS.md, "Diagnostics".
    """

    points: int = param(
        default=1000,
        doc="synthetic points, at most; never more than 4 for 5 records",
        low=50,
        high=20_000,
        integer=True,
    )
    tau: float = param(default=0.3, doc="noise, in standard deviations of the residuals", low=0.05, high=2)
    guard: int = param(default=20, doc="records that lie beyond everything shown, on every side", low=5, integer=True)

    def picture(self, x: Any, residuals: Any, draws: Draws, axis: str = "fitted value") -> ResidualPicture:
        """Return the picture.

        Parameters
        ----------
        x
            Shape (n,): fitted values or a predictor; numbers, or names of levels (of a pandas categorical, in its order).
        residuals
            Shape (n,): standardised residuals, in the same order. Pairs with a missing part are left out.
        draws
            Keyed by model and set of records, so that whoever asks again gets the same picture. The order of the records does not
            matter.
        axis
            What x is, for the title.
        """
        t = np.asarray(residuals, np.float64)
        place, names = _axis_values(x)
        if t.ndim != 1 or len(place) != len(t):
            raise DataError("there must be one residual for each value of the axis.")
        fine = np.isfinite(place) & np.isfinite(t)
        place, t = place[fine], t[fine]
        if len(t) < 10 * self.guard:
            raise DataError("there are too few records for a picture of residuals. Choose a larger universe.")
        own = draws.child("synthetic residuals", axis)
        order = np.lexsort((t, place))  # by value, so that the order of the rows means nothing
        place, t = _drawn(place[order], t[order], own)
        order = np.lexsort((own.uniforms(np.arange(len(t)), "ties"), place))  # equal places in no order of residuals
        place, t = place[order], t[order]
        m = min(self.points, len(t) * 4 // 5 // 50 * 50)
        codes = place.astype(np.int64) if names is not None else None
        on = places_on(place, m, self.guard, own) if codes is None else places_among(codes, m, self.guard, own)
        made = self._residuals(on, t, own)
        taken = on.x if names is not None else _clear_of(on.x, place, float(on.x.max() - on.x.min()) * 1e-5)
        return ResidualPicture.of(axis, taken, _clear_of(made, t, float(made.std()) * 1e-4), names)

    def _residuals(self, on: Places, t: Numbers, draws: Draws) -> Numbers:
        """Return the synthetic residual at every place."""
        g, ids = self.guard, np.arange(len(on.x))
        low, high = np.partition(t, (g, -g - 1))[[g, -g - 1]]
        cut = np.clip(t, low, high)
        if not cut.std() > 1e-12 * max(abs(low), abs(high)):
            raise DataError("the residuals do not vary: the model fits all but a few records without error.")
        curve, curve_kept = smooth(on.at_records, on.at_places, cut, CURVE)
        rest = t - curve
        size = np.abs(rest)
        size = np.minimum(size, np.partition(size, -g - 1)[-g - 1])
        columns = slice(0, None if on.unordered else SPREAD_DEGREE)
        spread, spread_kept = smooth(on.at_records[:, columns], on.at_places[:, columns], size, SPREAD)
        least = _FLOOR * float(size.mean())
        e = rest / np.maximum(spread, least)
        j = on.first + np.minimum((draws.uniforms(ids, "near") * on.near).astype(np.int64), on.near - 1)
        e = self._tails_anew(e, e[j], np.abs(draws.normals(ids, "tail")))
        noise = self.tau * float(cut.std()) * draws.normals(ids, "noise")
        return np.asarray(curve_kept + np.maximum(spread_kept, least) * e + noise)

    def _tails_anew(self, e: Numbers, picked: Numbers, excess: Numbers) -> Numbers:
        """Replace what lies beyond the guard: by the next value and a half-normal excess with the median of those beyond."""
        g = self.guard
        ordered = np.partition(e, (g, -g - 1))
        low, high = ordered[g], ordered[-g - 1]
        below, above = np.median(low - ordered[:g]), np.median(ordered[-g:] - high)
        scaled = excess / 0.6744897501960817
        picked = np.where(picked > high, high + above * scaled, picked)
        return np.where(picked < low, low - below * scaled, picked)


def _axis_values(x: Any) -> tuple[Numbers, tuple[str, ...] | None]:
    """Return the axis as numbers; of levels their positions, with NaN for missing, and their names."""
    import pandas as pd

    column = pd.Series(x)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan), None
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy(np.float64)
        return np.where(codes < 0, np.nan, codes), tuple(map(str, column.cat.categories))
    text = column.astype("string")
    names = sorted(text.dropna().unique())
    place = {name: i for i, name in enumerate(names)}
    return text.map(place).to_numpy(np.float64, na_value=np.nan), tuple(names)


def _drawn(place: Numbers, t: Numbers, draws: Draws) -> tuple[Numbers, Numbers]:
    """Return at most MOST records, drawn by key, in the same order."""
    if len(t) <= MOST:
        return place, t
    kept = np.sort(np.argpartition(draws.uniforms(np.arange(len(t)), "subsample"), MOST)[:MOST])
    return place[kept], t[kept]


def _clear_of(made: Numbers, real: Numbers, fineness: float) -> Numbers:
    """Round to half steps of a power of ten, so that engines agree, and move on what hits a real number by chance."""
    least = 16 * float(np.spacing(np.abs(made).max()))  # finer steps are none, for numbers of this size
    power = int(np.ceil(np.log10(max(fineness, least)))) if fineness > 0 else -6
    step = 10.0**power
    cells = np.floor(made / step)
    out = np.round((cells + 0.5) * step, 1 - power)
    while (hit := np.isin(out, real)).any():
        cells[hit] += 1
        out = np.round((cells + 0.5) * step, 1 - power)
    return out
