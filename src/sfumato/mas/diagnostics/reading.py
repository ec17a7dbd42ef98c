"""Reading a picture of residuals: tests on its points alone, so that they tell nothing the picture does not."""

from __future__ import annotations

import numpy as np

from sfumato.mas.diagnostics.smooth import Numbers


def curvature(x: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that the square and the cube of x add to a straight line."""
    z = _scaled(x)
    return _f_test(np.vander(z, 2), np.vander(z, 4), t)


def changing_spread(x: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that the size of the residuals about a cubic curve changes with x, linearly."""
    z = _scaled(x)
    cubic = np.vander(z, 4)
    size = np.abs(t - cubic @ np.linalg.lstsq(cubic, t, rcond=None)[0])
    return _f_test(np.ones((len(z), 1)), np.vander(z, 2), size)


def different_levels(codes: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that levels differ in their means."""
    return _f_test(np.ones((len(t), 1)), _indicators(codes), t)


def different_spreads(codes: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that levels differ in the size of the residuals about their medians (Levene)."""
    size = np.empty(len(t))
    for level in np.unique(codes):
        mine = codes == level
        size[mine] = np.abs(t[mine] - np.median(t[mine]))
    return different_levels(codes, size)


def _indicators(codes: Numbers) -> Numbers:
    return np.asarray(codes[:, None] == np.unique(codes)[None, :], np.float64)


def _scaled(x: Numbers) -> Numbers:
    spread = float(x.std())
    return (x - x.mean()) / spread if spread > 0 else np.zeros(len(x))


def _f_test(small: Numbers, large: Numbers, y: Numbers) -> float:
    from scipy.stats import f

    rests, ranks = [], []
    for matrix in (small, large):
        coefficients, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
        rests.append(float(np.sum((y - matrix @ coefficients) ** 2)))
        ranks.append(int(rank))
    more, left = ranks[1] - ranks[0], len(y) - ranks[1]
    if more <= 0 or left <= 0 or rests[1] <= 0:
        return 1.0
    return float(f.sf((rests[0] - rests[1]) / more / (rests[1] / left), more, left))
