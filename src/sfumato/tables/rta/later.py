"""A later table of the same data: noise under cells already published is drawn given what they show.

Leaves of the new table (which must hold the old cells too) divide the old leaves, and so does their noise (`division`). What an
attacker has who puts both tables side by side is audited as the new leaves with the joint covariance of their noise. Where the
first table left a contributor room, noise within its leaves is raised until the audit holds; where it left none, parts are
drawn such that they tell nothing new of him, as far as that can be (`rivals`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, NotApplicable, listing
from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.rta.digits import round_up, unit
from sfumato.tables.rta.division import Division
from sfumato.tables.rta.knowledge import Knowledge
from sfumato.tables.rta.posterior_audit import PairAudit, audit_pairs
from sfumato.tables.rta.record import Record
from sfumato.tables.rta.rivals import Rivals
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_ROUNDS, _PATIENCE, _SLOW = 40, 8, 0.8
"""It goes on as long as one of so many rounds lowers the excess over what is allowed by a fifth."""


def old_leaf(record: Record, table: Table) -> Whole:
    """Return for each leaf of a later table the leaf of the record that it is a part of, -1 for none; shape (leaves,).

    Refused if the table lacks a cell that is published already, or if the data are not those of the record.
    """
    positions = _old_cells(record.cells, table.cells)
    pattern = sparse.csc_array(table.cells.incidence[positions])
    old = sparse.csc_array(record.cells.incidence)
    known = {members: leaf for leaf, members in enumerate(_columns(old))}
    found = np.array([known.get(members, -1) if members else -1 for members in _columns(pattern)], np.int64)
    strange = np.flatnonzero((found < 0) & (np.diff(pattern.indptr) > 0))
    totals = np.bincount(np.maximum(found, 0), np.where(found < 0, 0.0, table.totals), len(record.totals))
    off = np.abs(totals - record.totals) > 1e-9 * np.maximum(np.abs(record.totals), unit(record.decimals))
    if len(strange) or off.any():
        raise DataError(
            f"the data are not those that were published: {int(off.sum()) + len(strange):,} parts of the table have changed. "
            "Differences between the two would disclose what changed; publish revised data as a period of their own."
        )
    return found


def _old_cells(old: Cells, new: Cells) -> Whole:
    """Return where the cells of the record are among those of the table."""
    if absent := [d for d in old.dimensions if d not in new.dimensions]:
        raise DataError(
            f"the table is not broken down by {listing(absent)}, as the published one is. Ask for both in one formula."
        )
    labels = np.full((len(old), len(new.dimensions)), TOTAL, object)
    for i, d in enumerate(old.dimensions):
        labels[:, new.dimensions.index(d)] = old.labels[:, i]
    places = {tuple(row): i for i, row in enumerate(new.labels.tolist())}
    found = np.array([places.get(tuple(row), -1) for row in labels.tolist()], np.int64)
    if gone := [f"'{old.name(int(i))}'" for i in np.flatnonzero(found < 0)]:
        raise DataError(
            f"the table lacks cells that are published already ({listing(gone, 3)}). Ask for both in one formula: "
            "'region * sector + region * kind'."
        )
    return found


def _columns(matrix: sparse.csc_array) -> list[tuple[int, ...]]:
    return [
        tuple(sorted(matrix.indices[a:b].tolist())) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]


def divide(record: Record, table: Table, known: Knowledge, needed: Numbers) -> Division:
    """Return how to divide the noise so that both publications together expose nobody; refused where no way was found.

    `needed` are the variances that independent noise would need, shape (leaves,). Each round audits all pairs and raises noise
    for those who are exposed, where that costs least. It stops where nothing more comes of it.
    """
    division = Division(record, old_leaf(record, table), needed, known.spread)
    rivals, best, idle = Rivals(known, division), np.inf, 0
    for _ in range(_ROUNDS):
        omega = division.covariance()
        audit = audit_pairs(table, known, omega)
        if audit.holds:
            return division
        excess = audit.risk / known.threshold - 1
        idle = 0 if excess < _SLOW * best else idle + 1
        best = min(best, excess)
        rivals.add(audit.failing, audit.attacker[audit.failing])
        if idle == _PATIENCE or rivals.least < 1 - 1e-9 or not rivals.raise_noise(omega):
            break
        rivals.tilt()
    raise NotApplicable(_refusal(table, known, audit, best, rivals.least))


def _refusal(table: Table, known: Knowledge, audit: PairAudit, excess: float, least: float) -> str:
    """Return which cells, why, and the smallest relaxation that works."""
    leaves = np.zeros(table.cells.leaves, bool)
    leaves[known.by_unknown[:, audit.failing].indices] = True
    named = listing([f"'{table.cells.name(c)}'" for c in _cells_of(table.cells, leaves)], 3)
    if least < 1 - 1e-9:
        why = (
            "The published table alone tells more of a contribution than is allowed now, whatever is published besides."
        )
    else:
        sure = "would" if audit.exact else "might"
        why = f"Somebody there {sure} know a contribution too well from both tables, in every way of drawing that was tried."
    most = known.threshold * (1 + excess if least >= 1 else 1 / max(least, 1e-12))
    limit = float(round_up(np.array([most * (1 + 1e-3)]), 3)[0])
    share = np.floor(1e3 * np.sqrt(known.threshold / limit)) / 1e3
    return (
        f"what is published already leaves no room for these cells: {named}. {why} It works with a threshold of {limit:g} (or a "
        f"base_cv of {share:g} times this one); or leave those cells out, or publish both in one go before either is out."
    )


def _cells_of(cells: Cells, leaves: NDArray[np.bool_]) -> list[int]:
    """Return the smallest cell that holds each of these leaves, once."""
    inside = cells.incidence.tocsc()
    at = np.flatnonzero(leaves)
    holding = (inside.indices[inside.indptr[i] : inside.indptr[i + 1]] for i in at)
    return list(dict.fromkeys(int(c[np.argmin(cells.sizes[c])]) for c in holding if len(c)))
