"""What is left of a shown cell when a shown cell inside it is taken away: in linked tables that may be no cell, and unsafe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError
from sfumato.tables.cells import Cells
from sfumato.tables.leaf_sets import set_codes
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.suppression.unions import differences, remainders
from sfumato.tables.table import Table

Pair = tuple[int, int]


def unsafe_differences(table: Table, shown: NDArray[np.bool_], rules: Sequence[SensitivityRule]) -> tuple[Pair, ...]:
    """Return pairs of shown cells, the second inside the first, whose difference no cell shows and a rule calls unsafe."""
    if table.contributions is None:
        return ()
    whole, part = remainders(table.cells)
    both = shown[whole] & shown[part]
    whole, part = whole[both], part[both]
    rows = differences(table.cells, whole, part)
    codes = set_codes(sparse.csr_array(sparse.vstack([table.cells.incidence, rows])))
    _, first = np.unique(codes, axis=0, return_index=True)
    new = np.sort(first[first >= len(table)]) - len(table)
    if not len(new):
        return ()
    labels = np.array([[str(i)] for i in new], object)
    left = table.with_(cells=Cells(("difference",), labels, sparse.csr_array(rows[new])), given=None)
    unsafe = np.zeros(len(new), bool)
    for rule in rules:
        try:
            unsafe |= rule.assess(left).unsafe
        except DataError:
            continue  # the rule needs what is known of cells alone
    return tuple((int(whole[i]), int(part[i])) for i in new[unsafe])
