"""The attackers' problem as arrays for the kernel: sums, unknowns, blocks and who knows which unknowns together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.rta.knowledge import Knowledge, blocks_of
from sfumato.tables.rta.near_attackers import WIDER, left_near

if TYPE_CHECKING:
    from sfumato.kernels.sum_columns import Sums

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
DENSE = 600
"""Blocks of at most so many leaves are inverted."""
CORRELATED = 4_000
"""The same where noise is correlated: bounds are loose there."""


class _Groups(NamedTuple):
    start: Whole
    unknown: Whole
    block_start: Whole
    simple: NDArray[np.bool_]


def sums_of(known: Knowledge, omega: Numbers | sparse.csr_array) -> Sums:
    """Return the arrays for `kernels.noisy_sums.learned`, for noise with these variances or this covariance."""
    from sfumato.kernels.sum_columns import kernel_arguments

    block = known.block if isinstance(omega, np.ndarray) else blocks_of(known, omega)
    order = np.argsort(block, kind="stable")
    block_start = np.concatenate([[0], np.cumsum(np.bincount(block))])
    by_unknown, count = known.by_unknown, known.leaves_of
    of_unknown = np.full(len(known), -1, np.int64)
    seen = (count > 0) & (known.variance > 0)
    of_unknown[seen] = block[by_unknown.indices[by_unknown.indptr[:-1][seen]]]
    groups = _groups(known, of_unknown, len(block_start) - 1)
    s = known.covariance(omega)
    return kernel_arguments(
        block_start=block_start, block_row=order, s_start=s.indptr, s_row=s.indices, s_value=s.data,
        diagonal=s.diagonal(),
        row_start=known.loading.indptr, row_unknown=known.loading.indices, row_value=known.loading.data,
        unknown_start=by_unknown.indptr, unknown_row=by_unknown.indices, unknown_value=by_unknown.data,
        variance=known.variance, side=known.side, simple=groups.simple, group_start=groups.start,
        group_unknown=groups.unknown, group_block_start=groups.block_start,
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


class Left(NamedTuple):
    """What remains unknown of everybody, shapes (unknowns,)."""

    variance: Numbers
    """For the attacker who learns most; a proven lower bound in blocks too large to invert."""
    outsider: Numbers
    helper: Whole
    """An unknown of that attacker's; -1 for an outsider."""
    exact: bool


def left_of(
    known: Knowledge,
    omega: Numbers | sparse.csr_array,
    enough: Numbers | None = None,
    caps: tuple[int, ...] = WIDER,
) -> Left:
    """Return what remains unknown after publication of all leaves.

    In large blocks it is a bound, looked at more closely (by `caps`, see `left_near`) where that is below `enough`, which is
    what is required if not given.
    """
    from sfumato.kernels.noisy_sums import learned

    q, gain, helper = learned(sums_of(known, omega), known.required > 0, _dense(omega))
    v = known.variance
    outsider = np.maximum(v * (1.0 - v * q), 0.0)
    variance = np.maximum(outsider - gain, 0.0)
    large = in_large_block(known, omega)
    if large.any():
        at = np.flatnonzero(large)
        least = (known.required if enough is None else enough)[at]
        variance[at], outsider[at], helper[at] = left_near(known, omega, at, least, caps)
    return Left(variance, outsider, helper, not large.any())


def in_large_block(known: Knowledge, omega: Numbers | sparse.csr_array) -> NDArray[np.bool_]:
    """Return which unknowns that vary are in a block with too many leaves to invert, shape (unknowns,)."""
    block = known.block if isinstance(omega, np.ndarray) else blocks_of(known, omega)
    wide = (np.bincount(block) > _dense(omega))[block].astype(np.float64)
    return (abs(known.by_unknown.sign()).T @ wide > 0) & (known.variance > 0)


def _dense(omega: Numbers | sparse.csr_array) -> int:
    """Return up to how many leaves a block is inverted."""
    return DENSE if isinstance(omega, np.ndarray) else max(CORRELATED, DENSE)
