"""The same problem in the same order: rows, formulas and types of labels must not show in the noise.

Noise of leaves that share contributors is found by an iteration, and what that ends with may hang on the last bits of what it
starts from. Those come from the order in which records are summed, and leaves and contributors are listed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.schema.hierarchy.base import label_of
from sfumato.tables.canonical import significant
from sfumato.tables.rta.drawing import leaf_ids
from sfumato.tables.rta.knowledge import Knowledge
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def in_order(table: Table, known: Knowledge) -> tuple[Knowledge, Whole]:
    """Return what attackers know with leaves and unknowns in an order of their own, and the position of each leaf in it."""
    ids = leaf_ids(table)
    leaves = np.argsort(ids, kind="stable")
    place = np.argsort(leaves)
    unknowns = _order(table, known, place)
    loading = sparse.csr_array(known.loading[leaves][:, unknowns])
    loading.sort_indices()
    loading.data = significant(loading.data)
    return (
        replace(
            known, loading=loading, given_variance=significant(known.given_variance[unknowns]),
            required=significant(known.required[unknowns]), means=None if known.means is None else known.means[unknowns],
            owner=np.unique(known.owner[unknowns], return_inverse=True)[1].ravel(), attacks=known.attacks[unknowns],
            contributor=known.contributor[unknowns],
        ),
        place,
    )  # fmt: skip


def _order(table: Table, known: Knowledge, place: Whole) -> Whole:
    """Return unknowns by their first leaf, their contributor's name, and what is known of them."""
    by = known.by_unknown
    inside = np.diff(by.indptr) > 0
    rows = place[by.indices]
    first = np.full(len(known), len(place))
    np.minimum.at(first, np.repeat(np.arange(len(known)), np.diff(by.indptr)), rows)
    given = table.contributions
    named = np.zeros(len(known), np.int64)
    if given is not None and given.names is not None:
        texts = np.array(["" if name is None else label_of(name) for name in given.names])
        named = np.unique(texts, return_inverse=True)[1].ravel()[known.contributor]
    entry = np.zeros(len(known))
    entry[inside] = by.data[by.indptr[:-1][inside]]
    keys = [significant(a) for a in (entry, known.required, known.given_variance)]
    return np.lexsort((*keys, named, first))
