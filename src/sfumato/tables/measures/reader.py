"""A reader's best estimate of every cell: what is published, and for the rest the table that fits it most evenly."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]
_STEPS = 2_000
_CLOSE = 1e-6
_KEPT: WeakKeyDictionary[PublishedTable, Numbers] = WeakKeyDictionary()


def reader_estimate(published: PublishedTable) -> Numbers:
    """Return an estimate of every cell from what is published alone, shape (cells,).

    A published value stands for itself. The leaves below cells that are not published are fitted to the published cells above
    them by iterative proportional fitting from equal leaves, the table of largest entropy; where values may be negative, by
    least squares.
    """
    if published not in _KEPT:
        _KEPT[published] = _estimate(published)
    return _KEPT[published]


def _estimate(published: PublishedTable) -> Numbers:
    values, incidence = published.values, published.cells.incidence
    gone = np.isnan(values)
    if not gone.any():
        return values
    known = np.full(incidence.shape[1], np.nan)
    alone = np.flatnonzero((published.cells.sizes == 1) & ~gone)
    known[incidence.indices[incidence.indptr[alone]]] = values[alone]
    free = np.flatnonzero(np.isnan(known))
    shown = np.flatnonzero(~gone)
    rows = sparse.csr_array(incidence[shown][:, free])
    target = values[shown] - incidence[shown] @ np.nan_to_num(known)
    use = np.diff(rows.indptr) > 0
    leaves = np.nan_to_num(known)
    fit = _proportional if (values[shown] >= 0).all() else _least_squares
    leaves[free] = fit(sparse.csr_array(rows[use]), target[use])
    return np.where(gone, incidence @ leaves, values)


def _proportional(rows: sparse.csr_array, target: Numbers) -> Numbers:
    """Fit leaves of equal size to sums of them: simultaneous proportional fitting (Darroch and Ratcliff, 1972)."""
    count = rows.shape[1]
    if not rows.shape[0]:
        return np.zeros(count)
    x = np.full(count, max(float(target.max()), 0.0) / count)
    zero = np.asarray(rows.T @ (target <= 0)).ravel() > 0
    x[zero] = 0.0
    rows = sparse.csr_array(rows[target > 0])
    target = target[target > 0]
    x[np.asarray(rows.sum(axis=0)).ravel() == 0] = 0.0  # nothing is said of it: nothing is expected
    step = max(float(np.asarray(rows.sum(axis=0)).max(initial=1.0)), 1.0)
    back = rows.T.tocsr()
    for _ in range(_STEPS):
        with np.errstate(divide="ignore"):
            sums = rows @ x
            ratio = np.log(target / np.where(sums > 0, sums, target))
        if np.abs(ratio).max(initial=0.0) < _CLOSE:
            break
        x = x * np.exp(back @ ratio / step)
    return np.asarray(x)


def _least_squares(rows: sparse.csr_array, target: Numbers) -> Numbers:
    from scipy.sparse.linalg import lsqr

    return np.asarray(lsqr(rows, target, atol=1e-10, btol=1e-10)[0], np.float64)
