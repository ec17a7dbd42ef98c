"""How well readers know the true totals of cells after random tabular adjustment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.rta.attackers import DENSE
from sfumato.tables.rta.knowledge import Knowledge, blocks_of, checked_noise
from sfumato.tables.rta.priors import Prior
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]


def cell_variances(table: Table, prior: Prior | Knowledge, leaf_variance: Numbers | sparse.csr_array) -> Numbers:
    """Return the posterior variance of every cell's true total for an outsider, who knows least of all users; shape (cells,).

    Exact where the leaves that hang together are few; otherwise an upper bound: the error of an estimate that looks at each leaf
    by itself.
    """
    known = prior if isinstance(prior, Knowledge) else prior.of(table)
    left = _leaf_posterior(known, checked_noise(leaf_variance, table.cells.leaves))
    r = table.cells.incidence
    return np.asarray(np.maximum(np.asarray((r @ left).multiply(r).sum(axis=1)).ravel(), 0.0), np.float64)


def cell_certainty(table: Table, prior: Prior | Knowledge, leaf_variance: Numbers | sparse.csr_array) -> Numbers:
    """Return the relative certainty w*²/posterior variance of every cell's total, shape (cells,): the smallest over all users.

    w*² is the base variance of the total, Σ m²w² over contributors; the smallest entry is the utility U of the RTA paper
    (section 3.2). Infinite where the total is known exactly (ERRATA 3.12).
    """
    known = prior if isinstance(prior, Knowledge) else prior.of(table)
    variance = cell_variances(table, known, leaf_variance)
    base = np.asarray((table.cells.incidence @ known.loading).power(2) @ (known.required * known.threshold))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, base / variance, np.inf)


def _leaf_posterior(known: Knowledge, omega: Numbers | sparse.csr_array) -> sparse.csr_array:
    """Return the posterior covariance of the leaves' true totals: K - K(K + Ω)⁺K, or a bound on it for large blocks."""
    plain = isinstance(omega, np.ndarray)
    noise = sparse.csr_array(sparse.diags_array(omega) if isinstance(omega, np.ndarray) else omega)
    k = known.covariance(np.zeros(known.loading.shape[0]))
    s = sparse.csr_array(k + noise)
    total, own = s.diagonal(), k.diagonal()
    shrink = np.divide(own, total, out=np.zeros_like(own), where=total > 0)
    b, rest = sparse.diags_array(shrink), sparse.diags_array(1.0 - shrink)
    bound = sparse.csr_array(rest @ k @ rest + b @ noise @ b)
    block = known.block if plain else blocks_of(known, noise)
    size = np.bincount(block)
    parts = np.flatnonzero((size > 1) & (size <= DENSE))
    keep = np.isin(block, parts, invert=True)
    order = np.argsort(block, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)])
    rows, cols, data = [], [], []
    for part in parts:
        at = order[start[part] : start[part + 1]]
        kk, ss = k[at][:, at].toarray(), s[at][:, at].toarray()
        exact = kk - kk @ np.linalg.pinv(ss, rcond=1e-12, hermitian=True) @ kk
        rows.append(np.repeat(at, len(at)))
        cols.append(np.tile(at, len(at)))
        data.append(exact.ravel())
    kept = sparse.diags_array(keep.astype(np.float64))
    made = sparse.csr_array(kept @ bound)
    if rows:
        made = made + sparse.csr_array(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))), shape=made.shape
        )
    return sparse.csr_array(made)
