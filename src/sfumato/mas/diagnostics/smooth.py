"""Smoothing residuals along an axis: all that is there, and of it what is more than chance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]
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


def level_basis(codes: Labels, count: int) -> Basis:
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
    size = np.abs(coefficients)
    chance, certain = limits
    kept = np.clip((size - chance * error) / (certain - chance) * certain, 0, size)
    return full, mean + elsewhere @ (np.sign(coefficients) * kept)
