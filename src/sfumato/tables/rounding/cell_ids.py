"""A number for every cell that hangs on its labels alone, so that a cell is rounded in the same way wherever it is shown."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL

Whole = NDArray[np.int64]


def cell_ids(cells: Cells) -> Whole:
    """Return a 64-bit number for each cell, from its labels without the totals; shape (cells,).

    Two cells that are made of the same leaves (a region, and the only sector in it) are one number under two names: both
    get that of the cell with fewer labels. Rounded apart, they would be two draws about one value.
    """
    order = np.argsort(cells.dimensions, kind="stable")
    texts = []
    for row in cells.labels[:, order].tolist():
        pairs = [(cells.dimensions[d], label) for d, label in zip(order, row, strict=True) if label != TOTAL]
        texts.append((len(pairs), "\x1f".join(f"{name}\x1e{label}" for name, label in pairs)))
    first: dict[bytes, int] = {}
    stands_for = [0] * len(texts)
    incidence = cells.incidence
    for cell in sorted(range(len(texts)), key=texts.__getitem__):
        leaves = np.sort(incidence.indices[incidence.indptr[cell] : incidence.indptr[cell + 1]]).tobytes()
        stands_for[cell] = first.setdefault(leaves, cell)
    digests = (hashlib.blake2b(texts[cell][1].encode(), digest_size=8).digest() for cell in stands_for)
    return np.frombuffer(b"".join(digests), np.int64).copy()
