"""The normal copula: normal scores, rank correlations, and the conditional normal distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sfumato.lazy import special
from sfumato.typing import Numbers

Pieces = Callable[[], Iterator[Numbers]]
"""Rows in pieces, so that a million records with a hundred columns never stand in memory at once."""


def midranks(x: Numbers) -> Numbers:
    """Return ranks 1..n among the known values, ties sharing their mean rank; NaN where x is NaN."""
    ranks = np.full(len(x), np.nan)  # scipy.stats.rankdata takes three times as long
    known = np.flatnonzero(~np.isnan(x))
    if len(known):
        order = known[np.argsort(x[known])]
        values = x[order]
        starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
        sizes = np.diff(np.r_[starts, len(values)])
        ranks[order] = np.repeat(starts + (sizes + 1) / 2, sizes)
    return ranks


def normal_scores(ranks: Numbers) -> Numbers:
    """Return Φ⁻¹((rank - ½) / n), n being the number of ranks that are known."""
    scores: Numbers = special.ndtri((ranks - 0.5) / max(int((~np.isnan(ranks)).sum()), 1))
    return scores


def pairwise_moments(pieces: Pieces) -> tuple[Numbers, Numbers]:
    """Return sums of products of each two columns about their means, over the rows that have both, and of squares; per row.

    That is Cov(i, j) and Var(i) over the rows that have i and j, shape (p, p) each, divisor n; zero where a column is
    constant up to rounding, or fewer than three rows have both. Columns should be roughly centred.
    """
    count = total = squares = products = np.zeros((0, 0))
    for piece in pieces():
        if not count.size:
            count, total, squares, products = (np.zeros((piece.shape[1],) * 2) for _ in range(4))
        gap = np.isnan(piece)
        if not gap.any():  # nothing is missing: plain sums
            count += len(piece)
            total += piece.sum(axis=0)[:, None]
            squares += (piece * piece).sum(axis=0)[:, None]
            products += piece.T @ piece
            continue
        known, x = (~gap).astype(np.float64), np.where(gap, 0.0, piece)
        count += known.T @ known
        total += x.T @ known  # of column i over the rows that have column j too
        squares += (x * x).T @ known
        products += x.T @ x
    n = np.maximum(count, 1)
    variance = squares - total**2 / n
    usable = (variance > 1e-12 * squares) & (count > 2)
    covariance = np.where(usable & usable.T, products - total * total.T / n, 0.0)
    return covariance / n, np.where(usable, variance, 0.0) / n


def pairwise_correlation(pieces: Pieces) -> Numbers:
    """Return the correlation of each two columns over the rows that have both, shape (p, p); zero where there is none."""
    covariance, variance = pairwise_moments(pieces)
    spread = np.sqrt(variance * variance.T)
    found = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)
    np.fill_diagonal(found, 1.0)
    return np.clip(found, -1.0, 1.0)


def latent_from_spearman(correlation: Numbers) -> Numbers:
    """Return the correlation of a bivariate normal whose rank correlation is given: 2 sin(πρ/6) (Pearson 1907)."""
    return np.asarray(2 * np.sin(np.pi * correlation / 6))


def repaired(correlation: Numbers, floor: float = 0.0) -> Numbers:
    """Return the matrix itself if no eigenvalue is below the floor; else with those raised to it, and ones on the diagonal."""
    values, vectors = np.linalg.eigh(correlation)
    if values.min(initial=floor) >= floor - 1e-12:
        return correlation
    fixed = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = np.sqrt(np.diag(fixed))
    return np.asarray(fixed / np.outer(scale, scale))


class CovarianceRegression(NamedTuple):
    """Regression of p columns on q others, from a covariance C; regressors that depend on each other share their weight."""

    beta: Numbers
    """C₁₁⁺C₁₂, shape (q, p)."""
    residual: Numbers
    """C₂₂ - β'C₁₂, shape (p, p)."""
    half: Numbers
    """H with HH' = C₁₁⁺, shape (q, q). Draws are multiplied by it, so rounding must not change it: see `regress`."""
    rank: int
    """The rank of C₁₁."""


def regress(covariance: Numbers, q: int) -> CovarianceRegression:
    """Return the regression of the last p columns on the first q, given the covariance of all, shape (q + p, q + p).

    H is the symmetric root of the inverse of the correlations, divided by the standard deviations. Eigenvectors alone would be
    a root too, but their signs, and with equal eigenvalues (a balanced design) their directions, depend on rounding.
    """
    scale = np.sqrt(np.diag(covariance)[:q])
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance[:q, :q] / np.outer(scale, scale))
    kept = values > 1e-9 * max(q, 1)
    vectors = vectors[:, kept]
    turned = vectors / np.sqrt(values[kept]) / scale[:, None]
    cross = covariance[:q, q:]
    beta = turned @ (turned.T @ cross)
    residual = covariance[q:, q:] - beta.T @ cross
    return CovarianceRegression(beta, (residual + residual.T) / 2, turned @ vectors.T, int(kept.sum()))


TERMS = 100
"""Terms of a Hermite series: up to a correlation of 0.95 the rest does not show."""


def hermite_weights(thresholds: Numbers, values: Numbers) -> Numbers:
    """Return the Hermite coefficients 1..TERMS of a step function of a standard normal number, over its standard deviation.

    The function has values[l] between thresholds[l - 1] and thresholds[l]. If two such functions have weights a and b, their
    correlation is Σ aₙ bₙ ρⁿ, where ρ is that of the normal numbers (Mehler's formula).
    """
    jumps = np.diff(values)
    share = np.diff(np.concatenate([[0.0], special.ndtr(thresholds), [1.0]]))
    mean = share @ values
    spread = np.sqrt(share @ (values - mean) ** 2)
    density = np.exp(-(thresholds**2) / 2) / np.sqrt(2 * np.pi)
    weights = np.empty(TERMS)
    before, now = np.zeros_like(thresholds), np.ones_like(thresholds)  # normalised Hermite polynomials
    for n in range(1, TERMS + 1):
        weights[n - 1] = jumps @ (now * density) / np.sqrt(n)
        before, now = now, (thresholds * now - np.sqrt(n - 1) * before) / np.sqrt(n)
    return weights / spread


def latent_correlation(observed: Numbers, weights: Numbers, limit: float = 0.995) -> Numbers:
    """Return the correlations of normal numbers, shape (p, p), whose step functions have the observed correlations.

    `weights` are the functions' Hermite weights, shape (p, TERMS). Each correlation rises with ρ, so it is looked up in a table
    of Σ aₙ bₙ ρⁿ. An observed correlation out of reach gives ±limit.
    """
    grid = np.linspace(-limit, limit, 399)
    powers = grid[:, None] ** np.arange(1, weights.shape[1] + 1)
    rho = np.eye(len(observed))
    for i, row in enumerate(observed):
        table = powers @ (weights[i] * weights).T  # (len(grid), p)
        at = np.clip((table < row).sum(axis=0), 1, len(grid) - 1)
        low, high = np.take_along_axis(table, np.stack([at - 1, at]), axis=0)
        step = np.divide(row - low, high - low, out=np.zeros_like(row), where=high > low)
        rho[i] = grid[at - 1] + np.clip(step, 0, 1) * (grid[1] - grid[0])
    rho = (rho + rho.T) / 2
    np.fill_diagonal(rho, 1.0)
    return rho
