"""Record keys and cell keys: a number for each record, and their sum for each cell, without what is before the point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.errors import DataError
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Keys = NDArray[np.uint64]
_BITS = 53  # what a double holds exactly
_BELOW = np.uint64(2**_BITS - 1)


def cell_keys(table: Table, draws: Draws) -> Keys:
    """Return the key of every cell in units of 2⁻⁵³, shape (cells,); 0 for a cell without records.

    A record's key is a pseudo-random number in [0, 1), a function of the secret seed and of who the record is, or what the
    file gave as its key. A cell's key is the fractional part of the sum over its records, so the same records have the same
    key in every table, in whatever order. Sums are of whole numbers: exact.
    """
    records = table.records
    if records is None:
        raise DataError(
            "cell keys hang on records, and the table was made without them. Make it from microdata (Table.of)."
        )
    keys = draws.child("cell keys").uniforms(records.ids, "record key") if records.keys is None else records.keys
    whole = np.floor(keys * 2.0**_BITS).astype(np.uint64)
    leaves = np.zeros(table.cells.leaves, np.uint64)
    np.add.at(leaves, records.leaf, whole)  # sums run over at 2⁶⁴, a multiple of 2⁵³
    incidence = table.cells.incidence
    sums = np.add.reduceat(leaves[incidence.indices], incidence.indptr[:-1].astype(np.int64))
    return np.asarray(sums & _BELOW)


def as_fractions(keys: Keys, place: int = 0) -> Numbers:
    """Return keys as numbers in [0, 1); for the second, third … use of a key with its first digits dropped.

    >>> as_fractions(np.array([2**52], np.uint64)).tolist(), as_fractions(np.array([2**52 + 2**50], np.uint64), 1).tolist()
    ([0.5], [0.25])
    """
    shifted = (keys * np.uint64(10**place)) & _BELOW
    return shifted.astype(np.float64) / 2.0**_BITS
