"""Diagnostics without a single real residual: synthetic points for linear models, binned means for logistic ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parametric, param
from sfumato.errors import DataError
from sfumato.mas.cutpoint_strategies import Minimum
from sfumato.mas.cutpoints import ValueCounts
from sfumato.mas.models.residual_pictures import BinnedPicture, ResidualPicture
from sfumato.typing import Numbers, Whole

# --- axis
# The horizontal axis of a synthetic picture: places drawn from a trimmed density, or levels.

FEW = 12
"""Numbers with at most so many different values are drawn as levels, a little apart."""
TRIM = 0.01
_NEAR = (25, 1000)
"""The least and the most near neighbours; between them a tenth of the records."""


@dataclass(frozen=True)
class Places:
    """Where the synthetic points are, and where among the records each looks for a neighbour. Confidential but for `x`."""

    x: Numbers
    """Shape (m,): drawn places; positions of levels, from 0, where the axis has names."""
    at_records: Numbers
    """Shape (n, p): the basis for smoothing, at the records."""
    at_places: Numbers
    """Shape (m, p): the same at the drawn places."""
    first: Whole
    """Shape (m,): the first of the near neighbours, records being in order along the axis."""
    near: Whole
    """Shape (m,): how many near neighbours there are."""
    unordered: bool
    """Whether the columns of the basis are levels; otherwise they go from broad bends to narrow ones."""


def places_on(x: Numbers, m: int, guard: int, draws: Draws) -> Places:
    """Draw m places along a numerical axis; `x` (n,) is ascending.

    Beyond the outermost places lie at least `guard` records, and 1 %, on either side.
    """
    values, first, counts = np.unique(x, return_index=True, return_counts=True)
    shown = counts >= guard
    if len(values) <= FEW and counts[shown].sum() >= 0.9 * len(x):
        return _few(np.repeat(np.arange(len(values)), counts), shown, values, draws, m)
    return _continuous(x, values, (first + counts / 2) / len(x), m, guard, draws)


def places_among(codes: Whole, m: int, guard: int, draws: Draws) -> Places:
    """Draw m places among levels; `codes` (n,) is ascending. Levels with fewer than `guard` records are left out."""
    counts = np.bincount(codes)
    if not (counts >= guard).any():
        raise DataError("every level of the axis is too rare to be shown. Group the levels, or choose another axis.")
    return _few(codes, counts >= guard, None, draws, m)


def _few(codes: Whole, shown: NDArray[np.bool_], values: Numbers | None, draws: Draws, m: int) -> Places:
    counts = np.bincount(codes, minlength=len(shown))
    levels = np.flatnonzero(shown)
    share = np.cumsum(counts[levels]) / counts[levels].sum()
    ids = np.arange(m)
    level = levels[np.minimum(np.searchsorted(share, draws.uniforms(ids, "x")), len(levels) - 1)]
    basis: Basis = level_basis(codes, len(counts))
    where, position = level.astype(float), level.astype(float)
    if values is not None:
        ranks = (np.cumsum(counts) - counts / 2) / len(codes)
        basis, where = (
            rank_basis(ranks[codes]),
            ranks[level],
        )  # in order, so that a trend over many levels counts as one
        gap = float(np.diff(values).min()) if len(values) > 1 else max(1.0, abs(float(values[0])) * 1e-3)
        position = values[level] + 0.5 * gap * (draws.uniforms(ids, "apart") - 0.5)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return Places(position, basis[0], basis[1](where), starts[level], counts[level], values is None)


def _continuous(x: Numbers, values: Numbers, ranks: Numbers, m: int, guard: int, draws: Draws) -> Places:
    n, ids = len(x), np.arange(m)
    cut = max(guard, int(np.ceil(TRIM * n)))
    inner = x[cut : n - cut]
    low, high = float(inner[0]), float(inner[-1])
    quarter, three = np.quantile(inner, [0.25, 0.75])
    spread = min(s for s in (float(inner.std()), float(three - quarter) / 1.34, np.inf) if s > 0)
    width = 0.9 * (spread if np.isfinite(spread) else max(1.0, abs(low) * 1e-3)) * n**-0.2  # Silverman (1986), (3.31)
    base = inner[np.minimum((draws.uniforms(ids, "x") * len(inner)).astype(np.int64), len(inner) - 1)]
    drawn = base + width * draws.normals(ids, "apart")
    if high > low:
        turn = np.mod(drawn - low, 2 * (high - low))  # what falls outside is folded back in
        drawn = low + np.minimum(turn, 2 * (high - low) - turn)
    basis, at = rank_basis(np.interp(x, values, ranks))
    count = int(np.clip(n // 10, *_NEAR))
    after = np.clip(np.searchsorted(values, drawn), 1, len(values) - 1)
    nearest = after - (drawn - values[after - 1] < values[after] - drawn)
    first = np.clip(np.searchsorted(x, drawn) - count // 2, 0, n - count)
    # the curve is taken at the nearest value: between a frequent value and the next there are ranks that no record has
    return Places(drawn, basis, at(ranks[nearest]), first, np.full(m, count), False)


# --- smooth
# Smoothing residuals along an axis: all that is there, and of it what is more than chance.


Basis = tuple[Numbers, Callable[[Numbers], Numbers]]
"""Columns at the records, and a function that gives them elsewhere."""

DEGREE = 8
CURVE = (2.2, 3.0)
SPREAD = (2.5, 3.5)
"""In standard errors: a part of the curve, or of the spread, below the first is chance, above the second certain."""


def rank_basis(u: Numbers, degree: int = DEGREE) -> Basis:
    """Return orthonormal polynomials of the rank u in (0, 1), without the constant: B'B = n I and B'1 = 0.

    Ranks rather than values, so that no record far out pulls the curve. Of one value alone there are none: p = 0.
    """
    from numpy.polynomial.legendre import legvander

    most = min(degree, len(np.unique(u)) - 1)
    corner = np.linalg.qr(legvander(2 * u - 1, most), mode="r")
    turn = np.linalg.inv(corner)[:, 1:] * np.sqrt(len(u))

    def at(places: Numbers) -> Numbers:
        return np.asarray(legvander(2 * places - 1, most) @ turn)

    return at(u), at


def level_basis(codes: Whole, count: int) -> Basis:
    """Return an indicator of each level, scaled so that B'B = n I."""
    scale = np.sqrt(len(codes) / np.maximum(np.bincount(codes, minlength=count), 1))

    def at(places: Numbers) -> Numbers:
        columns = np.zeros((len(places), count))
        columns[np.arange(len(places)), places.astype(np.int64)] = scale[places.astype(np.int64)]
        return columns

    return at(codes.astype(float)), at


def smooth(basis: Numbers, elsewhere: Numbers, y: Numbers, limits: tuple[float, float]) -> tuple[Numbers, Numbers]:
    """Return the curve through y at the records, and at other places what of it is more than chance.

    Each coefficient is judged by itself. One below the first limit, in standard errors, is dropped, one above the second stays
    as it is, and those between are shrunk so that nothing jumps (firm thresholding: Gao and Bruce 1997). Without that a picture
    would show the chance bends of the real residuals beside those of its own points, and right models would look wrong two to
    five times too often.
    """
    n, mean = len(y), float(y.mean())
    coefficients = basis.T @ (y - mean) / n
    full = mean + basis @ coefficients
    error = float(np.sqrt(np.mean((y - full) ** 2) / n))
    return full, mean + elsewhere @ beyond_chance(coefficients, np.full(len(coefficients), error), limits)


def beyond_chance(coefficients: Numbers, errors: Numbers, limits: tuple[float, float]) -> Numbers:
    """Return what of each coefficient is more than chance, by firm thresholds in its standard errors."""
    size = np.abs(coefficients)
    chance, certain = limits
    kept = np.clip((size - chance * errors) / (certain - chance) * certain, 0, size)
    return np.asarray(np.sign(coefficients) * kept)


# --- synthetic
# Synthetic residuals: a picture with the pattern of the real residuals and none of their points.


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


# --- binned
# Binned residuals for binary and multinomial logistic models.


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
        edges = self.edges(ValueCounts.of(along, whole=False))
        codes, count = np.searchsorted(np.asarray(edges), along, side="left"), len(edges) + 1
        sums = np.stack([np.bincount(codes, w, count).astype(float) for w in (np.ones(len(p)), y - p, p * (1 - p))])
        middles = np.array([np.median(along[codes == i]) for i in range(count)])
        return self.of_sums(sums, middles, draws, name, axis)

    def edges(self, tally: ValueCounts) -> list[float]:
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
