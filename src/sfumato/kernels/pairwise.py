"""Means, covariances and correlations of columns with gaps, weighted or not: each pair over the records that have both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.moments import is_constant

Numbers = NDArray[np.float64]

_BLOCK = 8_192
"""Records at a time: a block of ten columns stays in the processor's cache."""
_FAR = 1e-6
"""A variance below this share of the mean square has lost digits: it is found again about the mean of its own records."""


@dataclass(frozen=True, eq=False)
class PairwiseMoments:
    """Moments of k columns; NaN where too few records have the values.

    `count` (k, k) is the number of records that have both columns and a weight, `share` (k, k) their share of all records (of
    their weight), 0 in a file without any; the diagonals are those of each column. `mean` (k,) is over a column's own values,
    `covariance` and `correlation` (k, k) over the records that have both, of which there must be 2. A correlation is NaN where
    one of the columns does not vary over them.
    """

    count: Numbers
    share: Numbers
    mean: Numbers
    covariance: Numbers
    correlation: Numbers

    @property
    def variance(self) -> Numbers:
        """The variance of each column, shape (k,)."""
        return np.diag(self.covariance)

    def standardised(self, mean: Numbers, sd: Numbers) -> PairwiseMoments:
        """Return the moments of (x - mean) / sd, both of shape (k,)."""
        with np.errstate(over="ignore"):  # huge values: for the caller to refuse
            covariance, means = self.covariance / np.outer(sd, sd), (self.mean - mean) / sd
        return PairwiseMoments(self.count, self.share, means, covariance, self.correlation)


def column_moments(x: Numbers, weights: Numbers | None = None) -> tuple[float, float, int]:
    """Return mean, variance and number of the values of a column (n,) that are known and have a weight; NaN where there is none.

    The variance has the divisor n - 1; with weights it is n/(n - 1) · Σw(x - x̄)²/Σw, which estimates that of the population,
    is the same for weights that are all alike, and does not depend on their unit.
    """
    used = ~np.isnan(x)
    if weights is not None:
        used &= weights > 0
        weights = weights if used.all() else weights[used]
    x = x if used.all() else x[used]
    n = len(x)
    if not n:
        return np.nan, np.nan, 0
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        mean = float(np.average(x, weights=weights))
        variance = float(np.average(np.square(x - mean), weights=weights)) * n / (n - 1) if n > 1 else np.nan
    return mean, variance, n


def moments_of_pairs(columns: Sequence[Numbers], weights: Numbers | None = None) -> PairwiseMoments:
    """Return the moments of k columns, each of shape (n,), NaN where missing; `weights` (n,) of at least 0.

    Centred and scaled before they are multiplied, so that neither a mean far from zero nor the unit costs digits. A covariance
    has the divisor of `column_moments`.
    """
    k, n = len(columns), len(columns[0]) if columns else 0
    each = [column_moments(c, weights) for c in columns]
    mean, variance = (np.array([moment[i] for moment in each]) for i in (0, 1))
    centre = np.where(np.isfinite(mean), mean, 0.0)
    varies = ~is_constant(mean, variance)  # the rounding of a constant is no variance
    scale = np.where(varies & np.isfinite(variance), np.sqrt(variance), 1.0)
    count, weight, sums, squares, products = np.zeros((5, k, k))
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        for start in range(0, n, _BLOCK):
            part = slice(start, start + _BLOCK)
            z = (np.column_stack([c[part] for c in columns]) - centre) / scale * varies
            w = None if weights is None else weights[part, None]
            known = ~np.isnan(z) if w is None else ~np.isnan(z) & (w > 0)
            has, z = known.astype(np.float64), np.where(known, z, 0.0)
            wz, whas = (z, has) if w is None else (w * z, w * has)
            count += has.T @ has
            weight += whas.T @ has
            sums += wz.T @ has  # [i, j]: of column i over the records that have j
            squares += (wz * z).T @ has
            products += wz.T @ z
        total = float(n if weights is None else weights.sum())
        share = weight / total if total else weight
        covariance, correlation, far = _centred(count, weight, sums, squares, products)
        covariance *= np.outer(scale, scale)
    for i, j in np.argwhere(np.triu(far | far.T, 1)):
        # the records that have both lie far from the mean of one of them: an outlier is not among them
        both = ~np.isnan(columns[i]) & ~np.isnan(columns[j])
        own = moments_of_pairs([columns[i][both], columns[j][both]], None if weights is None else weights[both])
        covariance[i, j] = covariance[j, i] = own.covariance[0, 1]
        correlation[i, j] = correlation[j, i] = own.correlation[0, 1]
    return PairwiseMoments(count, share, mean, covariance, correlation)


def rank_shares(x: Numbers, weights: Numbers | None = None) -> Numbers:
    """Return the share of the known values that lie below each value, plus half of its equals; shape (n,), NaN where missing.

    Shares of the weight, if given. Without weights this is (rank - ½) / n, with the mean rank for ties: correlations of it are
    Spearman's.

    Examples
    --------
    >>> rank_shares(np.array([30.0, 10.0, np.nan, 30.0])).round(3).tolist()
    [0.667, 0.167, nan, 0.667]
    """
    from sfumato.kernels.sorting import ranks  # brings the compiler

    place, values = ranks(x)
    known = place >= 0
    at = np.bincount(place[known], None if weights is None else weights[known], len(values)).astype(np.float64)
    total = at.sum()
    shares = (np.cumsum(at) - at / 2) / total if total else at
    return np.where(known, np.append(shares, np.nan)[place], np.nan)  # the place of a missing value is -1


def _centred(
    count: Numbers, weight: Numbers, sums: Numbers, squares: Numbers, products: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Return covariances and correlations about the means of the records that have both columns, and which lost digits."""
    enough = count >= 2
    weight = np.where(enough, weight, np.nan)
    divisor = weight * (1 - 1 / np.where(enough, count, np.nan))
    covariance = (products - sums * sums.T / weight) / divisor
    variance = (squares - sums * sums / weight) / divisor  # of column i over the records that have j
    far = variance < _FAR * squares / weight
    variance = np.where(variance > 0, variance, np.nan)
    correlation = np.clip(covariance / np.sqrt(variance * variance.T), -1.0, 1.0)
    return covariance, correlation, far
