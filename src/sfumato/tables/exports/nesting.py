"""Which labels of a dimension stand under which, read off the cells themselves."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL


def order_of(cells: Cells, dimension: int) -> list[str]:
    """Return the labels of a dimension in the order in which they first stand in the table, the total first."""
    labels = dict.fromkeys(str(v) for v in cells.labels[:, dimension])
    return [*([TOTAL] if TOTAL in labels else []), *(v for v in labels if v != TOTAL)]


def children_of(cells: Cells, dimension: int) -> dict[str, list[str]]:
    """Return for each label that has others directly under it, which they are.

    A label stands under another if all its leaves are among the other's. Labels with the same leaves, such as a group with one
    member, are taken to stand side by side.
    """
    labels = order_of(cells, dimension)
    place = {label: i for i, label in enumerate(labels)}
    code = np.array([place[str(v)] for v in cells.labels[:, dimension]])
    pick = sparse.csr_array((np.ones(len(code)), (code, np.arange(len(code)))), shape=(len(labels), len(code)))
    leaves = sparse.csr_array(pick @ cells.incidence)
    leaves.data[:] = 1.0
    common = np.asarray((leaves @ leaves.T).todense())
    size = np.diag(common)
    under = (common == size[None, :]) & (size[:, None] > size[None, :])  # under[a, b]: b stands under a
    found: dict[str, list[str]] = {}
    for b, label in enumerate(labels):
        above = np.flatnonzero(under[:, b])
        if len(above):
            parent = labels[int(above[np.argmin(size[above])])]
            found.setdefault(parent, []).append(label)
    return found
