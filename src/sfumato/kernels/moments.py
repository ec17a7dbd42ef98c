"""Means, covariances and correlations: in pieces, with gaps, and robust ones."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sfumato.lazy import stats
from sfumato.typing import Flags, Numbers, Whole

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy's matrix products use one thread inside; several callers may be inside at the same time.

    Threads that share the cores wait for each other: products of narrow matrices took three times the processor's time.
    """
    global _inside, _limit
    with _lock:
        if not _inside:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _limit.restore_original_limits()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean (k,) and covariance (k, k; divisor n - 1) of complete cases."""

    names: tuple[str, ...]
    count: int
    mean: Numbers
    covariance: Numbers


def complete(matrix: Numbers) -> Numbers:
    """Return the rows without NaN."""
    whole = ~np.isnan(matrix).any(axis=1)
    return matrix if whole.all() else matrix[whole]


def first_pass(matrix: Numbers) -> Numbers:
    """Return count and sums of the complete rows, shape (1 + k,)."""
    rows = complete(matrix)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        return np.concatenate([[len(rows)], rows.sum(axis=0)])


def centred_products(matrix: Numbers, mean: Numbers) -> Numbers:
    """Return the cross-products of the complete rows about a given mean, shape (k, k)."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        rows = complete(matrix) - mean
        return rows.T @ rows


def is_constant(mean: Numbers, variance: Numbers) -> Flags:
    """Return which columns do not vary, up to the rounding of their mean; shape as given.

    The mean of a million times 0.1 is not quite 0.1, so the variance of a constant need not come out as zero.
    """
    return np.asarray(~(np.sqrt(np.maximum(variance, 0.0)) > 1e-13 * np.abs(mean)))


def covariance_root(covariance: Numbers) -> Numbers:
    """Return a lower-triangular L with L Lᵀ = covariance; works for singular (positive semi-definite) ones too.

    Cholesky without pivoting: a pivot that vanishes (relative to its variance) leaves a column of zeros, so that
    column j of the result depends on columns 1..j only.
    """
    size = len(covariance)
    root = np.zeros((size, size))
    for j in range(size):
        rest = covariance[j:, j] - root[j:, :j] @ root[j, :j]
        if rest[0] > 1e-12 * max(covariance[j, j], 0.0):
            root[j:, j] = rest / np.sqrt(rest[0])
    return root


# --- Means, covariances and correlations of columns with gaps, weighted or not: each pair over the records that have both.

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
) -> tuple[Numbers, Numbers, Flags]:
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


# --- Location and scatter that a minority of wild records cannot move: the orthogonalised Gnanadesikan–Kettenring estimator.
#
# Deterministic, positive semi-definite, and O(n p²): Maronna and Zamar (2002), with medians and median absolute deviations.


MAD = 1.482602218505602
"""1 / Φ⁻¹(3/4): the median absolute deviation of a normal column, times this, is its standard deviation."""
KEPT = 0.9
"""Share of normal records that the reweighting keeps."""


def robust_location_scatter(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return the centre (p,) and the scatter (p, p) of the complete rows of x (n, p), n >= 1.

    For normal records they estimate mean and covariance; just under half of the records may lie anywhere.
    A column of which more than half is one value has no median absolute deviation: its standard deviation is used.
    """
    x = complete(x)
    middle = np.median(x, axis=0)
    x = x - middle  # a constant column is then exactly zero
    centre, scatter = _orthogonalised(x)
    z = whitened(x, centre, scatter)
    distance, rank = np.einsum("ij,ij->i", z, z), z.shape[1]
    if rank == 0 or np.median(distance) == 0:  # more than half of the records are one point
        return middle + centre, scatter
    # one step of reweighting: records within the 90 % ellipsoid, scaled so that half of the records lie within the 50 % one
    kept = x[distance <= np.median(distance) * stats.chi2.ppf(KEPT, rank) / stats.chi2.ppf(0.5, rank)]
    # the covariance within that ellipsoid is too small by this factor (Croux and Haesbroeck 1999)
    factor = KEPT / float(stats.chi2.cdf(stats.chi2.ppf(KEPT, rank), rank + 2))
    location = kept.mean(axis=0)
    again = factor * (kept - location).T @ (kept - location) / max(len(kept) - 1, 1)
    flat = _axes(again)[0].size
    if flat < rank and flat < _axes(np.atleast_2d(np.cov(x.T, ddof=0)))[0].size:
        return middle + centre, scatter  # the kept records lie in a plane and others do not: these must still count
    return middle + location, again


def determinant_scatter(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return the centre (p,) and the scatter (p, p) of the complete rows of x (n, p) by the minimum covariance determinant.

    Of the halves of the records, (n + p + 1) // 2 each, the one whose covariance has the smallest determinant, scaled for normal
    records; then the mean and covariance of all records within its 97.5 % ellipsoid, scaled again (Rousseeuw 1985; Rousseeuw and
    Van Driessen 1999, with the deterministic starts of Hubert, Rousseeuw and Verdonck 2012). In one column it is exact; in
    several the best of four starts, in small files of 500 more, improved until it stays. The corrections for small samples of
    Pison et al. (2002) are left out. A scatter of 0 in some direction is returned where half of the records lie in a plane.
    """
    from scipy.stats import chi2

    x = complete(x)
    n, p = x.shape
    size = min((n + p + 1) // 2, n)

    def scaled(half: Numbers) -> tuple[Numbers, Numbers]:
        """Return mean and covariance; the scale makes that of the nearest share of normal records unbiased."""
        share = len(half) / n
        factor = share / float(chi2.cdf(chi2.ppf(share, p), p + 2)) if share < 1 else 1.0
        away = half - half.mean(axis=0)
        return half.mean(axis=0), factor * away.T @ away / max(len(half) - 1, 1)

    def volume(rows: Whole) -> float:
        return float(np.linalg.det(np.cov(x[rows].T, ddof=0).reshape(p, p)))

    if p == 1:
        best = _densest(x[:, 0], size)
    else:
        begun = sorted((_concentrated(x, start, size, 2) for start in _starts(x)), key=volume)
        best = min((_improved(x, rows, size, 200) for rows in begun[:10]), key=volume)
    centre, scatter = scaled(x[best])
    if np.linalg.matrix_rank(scatter) < p:
        return centre, scatter
    z = whitened(x, centre, scatter)
    return scaled(x[np.einsum("ij,ij->i", z, z) <= chi2.ppf(0.975, p)])


def _densest(column: Numbers, size: int) -> Whole:
    """Return the rows of the `size` values in a row that have the smallest variance, shape (size,)."""
    order = np.argsort(column, kind="stable")
    ordered = column[order] - np.median(column)
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (ordered, ordered**2))
    within = squares[size:] - squares[:-size] - (sums[size:] - sums[:-size]) ** 2 / size
    first = int(np.argmin(within))
    return order[first : first + size]


_SMALL, _TRIED = 600, 500
"""Records up to which a search begins with p + 1 of them, too, and how often."""


def _starts(x: Numbers) -> Iterator[Numbers]:
    """Yield distances of the records from a centre, by four scatters that wild records hardly move, and by few records; (n,)."""
    from scipy.stats import norm, rankdata

    z = whitened(x, *robust_location_scatter(x))
    yield np.einsum("ij,ij->i", z, z)
    n, p = x.shape
    if n <= _SMALL:
        whole = math.comb(n, p + 1) <= _TRIED  # every p + 1 records, or some from everywhere
        some = ((k + np.arange(p + 1) * (1 + k // n)) % n for k in range(_TRIED))
        for few in itertools.combinations(range(n), p + 1) if whole else some:
            scatter = np.cov(x[list(few)].T, ddof=0).reshape(p, p)
            if np.linalg.matrix_rank(scatter) == p:
                z = whitened(x, x[list(few)].mean(axis=0), scatter)
                yield np.einsum("ij,ij->i", z, z)
    spread = MAD * np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    z = (x - np.median(x, axis=0)) / np.where(spread > 0, spread, x.std(axis=0) + (x.std(axis=0) == 0))
    length = np.sqrt(np.einsum("ij,ij->i", z, z))[:, None]
    scores = norm.ppf((rankdata(x, axis=0) - 1 / 3) / (len(x) + 1 / 3))
    for shape in (np.tanh(z), scores, z / np.where(length > 0, length, 1)):
        _, axes = np.linalg.eigh(np.atleast_2d(np.cov(shape.T)))
        turned = z @ axes
        turned = turned - np.median(turned, axis=0)
        size = np.median(np.abs(turned), axis=0)
        yield ((turned / np.where(size > 0, size, 1)) ** 2).sum(axis=1)


def _concentrated(x: Numbers, distance: Numbers, size: int, steps: int) -> Whole:
    """Return a half of the records that begins with the nearest by some distance, after some steps; rows, shape (size,)."""
    return _improved(x, np.argsort(distance, kind="stable")[:size], size, steps)


def _improved(x: Numbers, rows: Whole, size: int, steps: int) -> Whole:
    """Return the half of the records nearest to the mean of another half in its scatter, and so on; shape (size,).

    Each step lowers the determinant of their covariance, until they stay the same.
    """
    rows = np.sort(rows)
    for _ in range(steps):
        half = x[rows]
        scatter = np.cov(half.T, ddof=0).reshape(x.shape[1], x.shape[1])
        if np.linalg.matrix_rank(scatter) < x.shape[1]:
            return rows
        z = whitened(x, half.mean(axis=0), scatter)
        nearer = np.sort(np.argsort(np.einsum("ij,ij->i", z, z), kind="stable")[:size])
        if np.array_equal(nearer, rows):
            break
        rows = nearer
    return rows


def whitened(x: Numbers, centre: Numbers, scatter: Numbers) -> Numbers:
    """Return x in axes where the scatter is the identity, shape (n, rank): lengths are Mahalanobis distances.

    Directions without scatter are left out (the pseudo-inverse). The sign of each axis is fixed, so the result is too.
    """
    roots, axes = _axes(scatter)
    return np.asarray((x - centre) @ (axes / roots))


def principal_axes(scatter: Numbers) -> tuple[Numbers, Numbers]:
    """Return the variances along the principal axes, largest first (p,), and the axes as columns (p, p).

    An axis has two directions: the one whose largest entry (the first, of equals) is positive is taken.
    """
    values, vectors = np.linalg.eigh(scatter)
    values, vectors = values[::-1], vectors[:, ::-1]
    # entries that are equal but for rounding count as equal, or the choice would depend on the machine
    largest = np.argmax(np.abs(vectors) > np.abs(vectors).max(axis=0) * (1 - 1e-9), axis=0)
    signs = np.sign(vectors[largest, np.arange(len(scatter))])
    return values, vectors * np.where(signs == 0, 1.0, signs)


def _axes(scatter: Numbers) -> tuple[Numbers, Numbers]:
    """Return the standard deviations (r,) along the axes that have any, and the axes in the original units (p, r)."""
    size = np.sqrt(np.maximum(np.diag(scatter), 0.0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = principal_axes(scatter / np.outer(unit, unit))  # as correlations: no column's unit matters
    real = values > 1e-10 * len(scatter)
    return np.sqrt(values[real]), vectors[:, real] / unit[:, None]


def _scale(x: Numbers) -> float:
    """Return the scaled median absolute deviation, or the standard deviation if that is zero."""
    middle = float(np.median(x))
    spread = MAD * float(np.median(np.abs(x - middle)))
    if spread > 1e-12 * abs(middle):
        return spread
    mean, variance = np.asarray(np.mean(x)), np.asarray(np.var(x))
    return 0.0 if is_constant(mean, variance) else float(np.sqrt(variance))


def _orthogonalised(x: Numbers) -> tuple[Numbers, Numbers]:
    scale = np.array([_scale(column) for column in x.T])
    unit = np.where(scale > 0, scale, 1.0)
    y = (x - np.median(x, axis=0)) / unit
    count = x.shape[1]
    pairs = np.diag((scale > 0).astype(np.float64))
    for i in range(count):
        for j in range(i):
            # Gnanadesikan and Kettenring (1972): cov(a, b) = (var(a + b) - var(a - b)) / 4
            pairs[i, j] = pairs[j, i] = (_scale(y[:, i] + y[:, j]) ** 2 - _scale(y[:, i] - y[:, j]) ** 2) / 4
    _, axes = principal_axes(pairs)
    z = y @ axes
    spread = np.array([_scale(column) for column in z.T])
    root = unit[:, None] * axes
    centre = np.median(x, axis=0) + root @ np.median(z, axis=0)
    return centre, (root * spread**2) @ root.T
