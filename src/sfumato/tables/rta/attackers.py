"""The attackers' problem as arrays for the kernel: sums, unknowns, blocks and who knows which unknowns together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.rta.knowledge import Knowledge, blocks_of

if TYPE_CHECKING:
    from sfumato.kernels.sum_columns import Sums

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
DENSE = 600
"""Blocks of at most so many leaves are inverted."""
_SPREAD, _MOST = 40, 150
"""Of the contributors to a large block, those in more leaves than the first are set apart, at most the second number."""


class _Groups(NamedTuple):
    start: Whole
    unknown: Whole
    block_start: Whole
    simple: NDArray[np.bool_]


def sums_of(known: Knowledge, omega: Numbers | sparse.csr_array, dense: int = DENSE) -> Sums:
    """Return the arrays for `kernels.noisy_sums.learned`, for noise with these variances or this covariance."""
    from sfumato.kernels.sum_columns import kernel_arguments

    leaves, unknowns = known.loading.shape
    plain = isinstance(omega, np.ndarray)
    block = known.block if isinstance(omega, np.ndarray) else blocks_of(known, omega)
    order = np.argsort(block, kind="stable")
    block_start = np.concatenate([[0], np.cumsum(np.bincount(block))])
    by_unknown, count = known.by_unknown, known.leaves_of
    of_unknown = np.full(unknowns, -1, np.int64)
    seen = (count > 0) & (known.variance > 0)
    of_unknown[seen] = block[by_unknown.indices[by_unknown.indptr[:-1][seen]]]
    groups = _groups(known, of_unknown, len(block_start) - 1)
    sizes = np.diff(block_start)
    far = np.flatnonzero(seen & (sizes[of_unknown] > dense) & (count > _SPREAD) & (known.variance > 0))
    far = far[np.argsort(-count[far], kind="stable")[:_MOST]]
    s = known.covariance(omega, far)
    whole = known.spread + (omega if plain else omega.diagonal())
    diagonal = s.diagonal()
    poor = np.maximum(1e-9 * whole - diagonal, 0.0) if len(far) else np.zeros(leaves)
    if poor.any():
        s = sparse.csr_array(s + sparse.diags_array(poor))
        diagonal = diagonal + poor
    single = np.asarray(known.loading.power(2) @ np.where(count == 1, known.variance, 0.0)) + (omega if plain else 0.0)
    floor = np.maximum(np.maximum(single, 1e-3 * diagonal), 1e-300)
    row_apart, unknown_apart, reach, column = _set_apart(known, s, far)
    place = np.full(unknowns, -1, np.int64)
    place[far] = np.arange(len(far))
    return kernel_arguments(
        block_start=block_start, block_row=order, s_start=s.indptr, s_row=s.indices, s_value=s.data,
        diagonal=diagonal, floor=floor,
        row_start=known.loading.indptr, row_unknown=known.loading.indices, row_value=known.loading.data,
        unknown_start=by_unknown.indptr, unknown_row=by_unknown.indices, unknown_value=by_unknown.data,
        variance=known.variance, side=known.side, simple=groups.simple, group_start=groups.start,
        group_unknown=groups.unknown, group_block_start=groups.block_start,
        row_apart=row_apart, unknown_apart=unknown_apart, reach=reach,
        apart_place=place, apart_column=column,
    )  # fmt: skip


def _groups(known: Knowledge, block: Whole, blocks: int) -> _Groups:
    """Return which unknowns are known together, by block; those alone in one leaf are simple and stand in no group."""
    side = known.side
    placed = np.flatnonzero(block >= 0)
    order = placed[np.lexsort((side[placed], block[placed]))]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(block[order]) != 0) | (np.diff(side[order]) != 0)
    group = np.cumsum(new) - 1
    size = np.bincount(group) if len(group) else np.zeros(0, np.int64)
    alone = (size[group] == 1) & (known.leaves_of[order] == 1)
    simple = np.zeros(len(known), bool)
    simple[order[alone]] = side[order[alone]] >= 0
    kept = order[~alone]
    starts = np.flatnonzero(new[~alone])
    first = kept[starts]
    block_start = np.searchsorted(block[first], np.arange(blocks + 1))
    return _Groups(np.append(starts, len(kept)), kept, block_start, simple)


def _set_apart(known: Knowledge, s: sparse.csr_array, far: Whole) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return A (leaves × k), B (unknowns × k), `reach` and S⁻¹U, with U the unknowns that are set apart.

    (S + UVU')⁻¹ = S⁻¹ - AA' (Woodbury), and B = M'A.
    """
    reach = np.divide(1.0, known.variance, out=np.zeros(len(known)), where=known.variance > 0)
    if not len(far):
        none = np.zeros((known.loading.shape[0], 0))
        return none, np.zeros((len(known), 0)), reach, none
    u = known.by_unknown[:, far].toarray()
    w = conjugate_gradients(s, u)
    t = np.diag(1.0 / known.variance[far]) + (u.T @ w + w.T @ u) / 2
    a = np.asarray(np.linalg.solve(np.linalg.cholesky(t), w.T).T, np.float64)
    reach[far] = np.diag(t)
    return a, np.asarray(known.by_unknown.T @ a, np.float64), reach, w


def conjugate_gradients(s: sparse.csr_array, b: Numbers, tolerance: float = 1e-12) -> Numbers:
    """Return S⁻¹b for a symmetric positive definite S, all columns of b at once, to a relative tolerance."""
    diagonal = s.diagonal()
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)[:, None]
    x, r = np.zeros_like(b), scale * b
    p, size = r.copy(), (r * r).sum(axis=0)
    goal = tolerance**2 * size
    for _ in range(10 * len(b) + 100):
        if (size <= goal).all():
            break
        ap = scale * (s @ (scale * p))
        step = _over(size, (p * ap).sum(axis=0))
        x += step * p
        r -= step * ap
        new = (r * r).sum(axis=0)
        p = r + _over(new, size) * p
        size = new
    return np.asarray(scale * x)


def _over(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))
