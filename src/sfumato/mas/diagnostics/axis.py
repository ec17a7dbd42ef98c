"""The horizontal axis of a synthetic picture: places drawn from a trimmed density, or levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.errors import DataError
from sfumato.mas.diagnostics.smooth import Basis, Labels, Numbers, level_basis, rank_basis

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
    first: Labels
    """Shape (m,): the first of the near neighbours, records being in order along the axis."""
    near: Labels
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


def places_among(codes: Labels, m: int, guard: int, draws: Draws) -> Places:
    """Draw m places among levels; `codes` (n,) is ascending. Levels with fewer than `guard` records are left out."""
    counts = np.bincount(codes)
    if not (counts >= guard).any():
        raise DataError("every level of the axis is too rare to be shown. Group the levels, or choose another axis.")
    return _few(codes, counts >= guard, None, draws, m)


def _few(codes: Labels, shown: NDArray[np.bool_], values: Numbers | None, draws: Draws, m: int) -> Places:
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
