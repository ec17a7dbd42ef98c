"""How uncertain a reader, or an attacker without prior knowledge, is about each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.measures.intervals import attacker_intervals
from sfumato.tables.measures.observed import error_variance, leaf_noise
from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]
_MOST = 4_000
_EXACT = 1e-9


def reader_variance(published: PublishedTable) -> Numbers:
    """Return for every cell the variance that remains after all arithmetic, shape (cells,); infinite if nothing is known.

    Intervals of length W count as W²/12. Where cells were perturbed one by one, so that they do not add up, sums of other
    cells say more about a cell than it says itself: then the variance is that of the best linear unbiased estimate.
    """
    low, high = attacker_intervals(published)
    with np.errstate(invalid="ignore"):
        width = high - low
    found = np.where(np.isfinite(width), width**2 / 12, np.inf)
    own = error_variance(published)
    found = np.fmin(found, np.where(np.isnan(own), np.inf, own))
    if leaf_noise(published) is None and published.cells.leaves <= _MOST and not _adds_up(published):
        found = np.minimum(found, _best_linear(published.cells.incidence, own))
    return found


def _adds_up(published: PublishedTable) -> bool:
    """Whether published cells are the sums of published leaves, as far as both are published."""
    cells = published.cells
    leaves = np.where(cells.of_leaf >= 0, published.values[cells.of_leaf], np.nan)
    off = np.abs(cells.sums(leaves) - published.values)
    return not (off > 1e-9 * max(float(np.nanmax(np.abs(published.values), initial=0.0)), 1.0)).any()


def _best_linear(incidence: sparse.csr_array, error: Numbers) -> Numbers:
    """Return the variances of R S Rᵀ, S = (Rᵀ T⁻¹ R)⁻¹: independent errors T of cells, and nothing else known."""
    said = np.flatnonzero(~np.isnan(error) & np.isfinite(error))
    floor = _EXACT * max(float(error[said].max(initial=0.0)), 1e-300)
    rows = incidence[said]
    precision = (rows.T @ sparse.diags_array(1 / np.maximum(error[said], floor)) @ rows).toarray()
    level, axes = np.linalg.eigh(precision)
    known = level > 1e-12 * max(float(level.max(initial=0.0)), 1e-300)
    reach = incidence @ axes
    unknown = (reach[:, ~known] ** 2).sum(axis=1) > 1e-9
    variance = (reach[:, known] ** 2 / level[known]).sum(axis=1)
    return np.where(unknown, np.inf, np.where(variance <= 2 * floor * incidence.shape[1], 0.0, variance))
