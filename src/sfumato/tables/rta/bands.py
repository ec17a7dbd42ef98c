"""How variances are published: exactly, or as quality bands; and what each of them would disclose by itself.

Where the priors come from the contributors' own values, so do the variances. In a leaf with one or two contributors
ω = k d², with k = ε²η²/(ε² - η²): whoever reads ω knows the largest contribution d. A third contributor's value then follows
for the first one. A band says that ω lies between two values, and so does d.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.cells import Cells
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
CUTPOINTS = (0.05, 0.10, 0.15, 0.25)
"""Coefficients of variation that separate the bands A to E."""
KEPT = 0.95
"""Which share of the promised standard deviation must remain when somebody cuts what he knows to a band."""


def letters(values: Numbers, variance: Numbers, cutpoints: tuple[float, ...] = CUTPOINTS) -> NDArray[np.object_]:
    """Return the quality band of every cell from its published value and variance: A is best.

    The coefficient of variation is that of the published value, since that of the true one would help to find it.

    >>> letters(np.array([100.0, 100, 0, 7]), np.array([9.0, 400, 4, 0])).tolist()
    ['A', 'D', 'E', 'A']
    """
    return np.array([chr(ord("A") + i) for i in range(len(cutpoints) + 1)], object)[_band(values, variance, cutpoints)]


def _band(values: Numbers, variance: Numbers, cutpoints: tuple[float, ...]) -> Whole:
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.where(variance > 0, np.sqrt(variance) / np.abs(values), 0.0)
    return np.searchsorted(np.array(cutpoints), cv, side="right")


def implied(
    cells: Cells, values: Numbers, variance: Numbers, leaf_variance: Numbers, cutpoints: tuple[float, ...]
) -> tuple[Numbers, Numbers]:
    """Return between which variances each leaf must lie, for somebody who sees the bands; two arrays of shape (leaves,).

    He is taken to know the variance of everything else in each cell, so that the bands of all cells with the leaf count.
    """
    band = _band(values, variance, cutpoints)
    edges = np.array([0.0, *cutpoints, np.inf]) ** 2
    with np.errstate(invalid="ignore"):
        low, high = edges[band] * values**2, np.where(values == 0, np.inf, edges[band + 1] * values**2)
    cell = np.repeat(np.arange(len(cells)), cells.sizes)
    leaf = cells.incidence.indices
    others = variance[cell] - leaf_variance[leaf]
    least, most = np.zeros(cells.leaves), np.full(cells.leaves, np.inf)
    np.maximum.at(least, leaf, low[cell] - others)
    np.minimum.at(most, leaf, high[cell] - others)
    return least, most


def sd_kept(
    loading: sparse.csr_array, prior: Numbers, base: Numbers, sizes: Numbers,
    leaf_variance: Numbers, least: Numbers, most: Numbers,
) -> Numbers:  # fmt: skip
    """Return which share of his standard deviation the contributor who sets a leaf's noise keeps, shape (leaves,).

    That is the contributor h with the largest m²v²/(v - w²): with v = ε²d² and w = ηd, ω = k m²d² - rest. An interval for ω
    is one for d, and what was known of d, normal with the standard deviation ηd, is cut to it. Anybody else's value moves ω
    less, in units of his own protection. `sizes` are the d, one for each unknown. 1 for a leaf without noise.
    """
    kept = np.ones(len(leaf_variance))
    leaf = np.repeat(np.arange(len(leaf_variance)), np.diff(loading.indptr))
    v, w2 = prior[loading.indices], base[loading.indices]
    guarded = (w2 > 0) & (v > w2)
    slope = np.where(guarded, loading.data**2 * v * w2 / np.where(guarded, v - w2, 1.0), 0.0)  # k m²d²
    order = np.lexsort((slope, leaf))
    top = order[np.flatnonzero(np.diff(leaf[order], append=-1))]
    top = top[(leaf_variance[leaf[top]] > 0) & (slope[top] > 0)]
    at, k = leaf[top], slope[top]
    # in units of d; the rest is taken as known
    low = np.sqrt(np.maximum(1 + (least[at] - leaf_variance[at]) / k, 0.0))
    high = np.sqrt(np.maximum(1 + (most[at] - leaf_variance[at]) / k, 0.0))
    base_cv = np.sqrt(w2[top]) / np.maximum(sizes[loading.indices[top]], 1e-300)
    kept[at] = cut_sd((low - 1) / base_cv, (high - 1) / base_cv)
    return kept


def cut_sd(low: Numbers, high: Numbers) -> Numbers:
    """Return the standard deviation of a standard normal number that is known to lie between `low` ≤ 0 and `high` ≥ 0.

    >>> cut_sd(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf])).round(4).tolist()
    [1.0, 0.6028]
    """
    from scipy.special import ndtr

    inside = ndtr(high) - ndtr(low)
    density = [np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi) for e in (low, high)]
    ends = [np.where(np.isinf(e), 0.0, e) * d for e, d in zip((low, high), density, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = 1 + (ends[0] - ends[1]) / inside - ((density[0] - density[1]) / inside) ** 2
    narrow = high - low < 1e-3  # where the formula cancels: a uniform number
    return np.sqrt(np.where(narrow, (high - low) ** 2 / 12, np.maximum(variance, 0.0)))


def bounds(published: Numbers, leaf_variance: Numbers, table: Table, factor: float) -> Numbers:
    """Return how large each leaf's variance can be, judged by its published value alone; shape (leaves,), 0 without noise.

    No leaf needs more than k times the square of its largest contribution, hence of its total.
    """
    return np.where(leaf_variance > 0, factor * published**2 + float(table.integer), 0.0)


def worked_out(cells: Cells) -> NDArray[np.bool_]:
    """Return which leaves follow from their cells by subtraction, again and again; shape (leaves,)."""
    known = np.zeros(cells.leaves, bool)
    while True:
        unknown = cells.sums((~known).astype(np.float64))
        alone = sparse.csr_array(cells.incidence[np.flatnonzero(unknown == 1)])
        found = np.unique(alone.indices[~known[alone.indices]])
        if not len(found):
            return known
        known[found] = True
