"""How far each record shows through a record-transforming matrix A, without any n × n matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.matrix import LARGEST
from sfumato.errors import NotApplicable

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hat:
    """Entries of H(π) = A′(π AA′ + (1 - π) I)⁻ A, for c values of π at once.

    π is the share of a released direction's variance (of an A with unit rows) that is data; 1 - π is noise. Without noise H is
    the projection onto the row space of A. With A = I it is the identity, whatever π.
    """

    diagonal: Numbers
    """Hᵢᵢ, shape (n, c), or (1, c) if it is the same for every record."""
    row_sums: Numbers
    """(H1)ᵢ, shape as of the diagonal."""
    total: Numbers
    """1′H1, shape (c,)."""


def hat_of(A: Any, n: int, share: Numbers) -> Hat:
    """Return H(π) of an r × n matrix A (dense, sparse, or None for the identity) for each π in `share`, shape (c,).

    Rows of A that share no record are taken apart, so that samples, averages over groups and factors take one pass; what hangs
    together needs a singular value decomposition of its block.
    """
    c = len(share)
    if A is None:
        return Hat(np.ones((1, c)), np.ones((1, c)), np.full(c, float(n)))
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import connected_components

    a: Any = csr_array(A)
    a.eliminate_zeros()
    r = a.shape[0]
    diagonal, row_sums = np.zeros((n, c)), np.zeros((n, c))
    count, part = connected_components(block_array([[None, a], [a.T, None]]), directed=False)
    rows, columns = (np.bincount(p, minlength=count) for p in (part[:r], part[r:]))

    # a single row a over some records: H = aa′ / (π|a|² + 1 - π)
    row_of = np.repeat(np.arange(r), np.diff(a.indptr))
    alone = rows[part[row_of]] == 1
    if alone.any():
        lengths, sums = np.bincount(row_of, a.data**2, r), np.bincount(row_of, a.data, r)
        at, of, value = a.indices[alone], row_of[alone], a.data[alone][:, None]
        weight = 1 / (np.outer(lengths[of], share) + (1 - share))
        diagonal[at] = value**2 * weight
        row_sums[at] = value * sums[of][:, None] * weight

    row_sets, column_sets = (
        np.split(np.argsort(p, kind="stable"), np.cumsum(s)[:-1]) for p, s in ((part[:r], rows), (part[r:], columns))
    )
    for number in np.flatnonzero((rows > 1) & (columns > 0)):
        inside, across = row_sets[number], column_sets[number]
        if max(len(inside), len(across)) > LARGEST:
            raise NotApplicable(
                f"A combines more than {LARGEST:,} records or rows that all hang together, which is not worked out. Use groups "
                "that do not overlap, or a random sample."
            )
        block = a[inside][:, across].toarray()
        _, size, basis = np.linalg.svd(block, full_matrices=False)
        kept = size > size[0] * max(block.shape) * np.finfo(float).eps
        square = size[kept, None] ** 2
        weight = square / (square * share + (1 - share))
        diagonal[across] = (basis[kept] ** 2).T @ weight
        row_sums[across] = basis[kept].T @ (weight * basis[kept].sum(axis=1)[:, None])
    return Hat(diagonal, row_sums, row_sums.sum(axis=0))
