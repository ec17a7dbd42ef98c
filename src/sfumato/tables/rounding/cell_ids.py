"""A number for every cell and every leaf that hangs on its labels alone, so that it is rounded in the same way everywhere.

Values and records do not count: if a count goes from 3 to 4, with the same draw it either stays where it was rounded to or
goes up, which tells less than a second draw about nearly the same count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.rta.drawing import leaf_labels

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
    return _numbers(texts[cell][1] for cell in stands_for)


def leaf_numbers(cells: Cells) -> Whole:
    """Return a 64-bit number for each leaf, from its labels; shape (leaves,)."""
    return _numbers(leaf_labels(cells))


def _numbers(texts: Iterable[str]) -> Whole:
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.int64).copy()
