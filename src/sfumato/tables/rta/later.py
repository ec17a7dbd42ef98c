"""A later table of the same data: noise under cells already published is drawn given what they show.

Leaves of the new table (which must hold the old cells too) divide the old leaves. Each old leaf A has noise δ_A, and its
parts l get

    δ_l = b_l δ_A + ε_l,  b_l = D_l/s,  s = Σ D_l over the parts of A,  ε ~ N(0, D - DDᵀ/s),

the normal law of independent noises with variances D given that their sum is δ_A. Noise of old cells stays as it is, to the
digit. Both publications together then show all new leaves with noise of the covariance

    Ω = B Ω_old Bᵀ + blocks of (D - DDᵀ/s),

which is what the audit looks at: it bounds what an attacker has who puts both tables side by side. Where s is the old
variance of δ_A the new noises are independent, as if both tables had been published at once; where new leaves need more than
their old one has, they are correlated, since their sum is known better than its parts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Draws
from sfumato.errors import DataError, NotApplicable, listing
from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.rta.digits import round_up, unit
from sfumato.tables.rta.drawing import brownian, leaf_draws, leaf_ids
from sfumato.tables.rta.record import Record
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Exposed = Callable[[sparse.csr_array], NDArray[np.bool_]]
"""From the covariance of the noise to the leaves in which somebody is not protected, shape (leaves,)."""
_ROUNDS = 7
"""Noise is doubled one time less: at 64 times the variance a cell is of no use to anybody."""
_MOST_ENTRIES = 20_000_000


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


class Division:
    """How the noise of old leaves is divided among their parts; D is given up to a factor for each old leaf."""

    def __init__(self, record: Record, group: Whole, needed: Numbers, spread: Numbers) -> None:
        """Start from the variances that independent noise would need, shape (leaves,), and what is unknown in each leaf."""
        count = len(record.totals)
        self.record, self.group = record, group
        self.inside = group >= 0
        self.parts = np.bincount(group[self.inside], minlength=count)
        self.old = record.covariance.diagonal()
        self.variance = self._at_least_old(needed, spread)

    def _at_least_old(self, needed: Numbers, spread: Numbers) -> Numbers:
        """Raise what is needed to the noise that is there already, which must go somewhere.

        Where more is needed than there is, every part takes some of it: noise of one part alone would follow from the sum.
        """
        sums = self._sums(needed)
        weight = np.where(self._sums(spread)[self.group] > 0, spread, 1.0)
        share = np.where(self.inside, weight / np.maximum(self._sums(weight)[self.group], 1e-300), 0.0)
        lack = (self.old - sums)[self.group]
        return np.where(lack >= 0, needed + np.maximum(lack, 0.0) * share, np.maximum(needed, sums[self.group] * share))

    def _sums(self, leaves: Numbers) -> Numbers:
        return np.asarray(np.bincount(self.group[self.inside], leaves[self.inside], len(self.old)), np.float64)

    def raised(self, leaves: NDArray[np.bool_], factor: float) -> NDArray[np.bool_]:
        """Multiply D in the old leaves that hold one of these; return which leaves could be raised."""
        touched = np.zeros(len(self.old), bool)
        touched[self.group[leaves & self.inside]] = True
        touched &= (self.parts > 1) & (self._sums(self.variance) > 0)
        at = self.inside & touched[self.group]
        self.variance = np.where(at, round_up(self.variance * factor), self.variance)
        return at

    @property
    def share(self) -> Numbers:
        """b_l for each leaf, 0 for one that no published cell holds; shape (leaves,)."""
        sums = self._sums(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(sums[self.group] > 0, self.variance / sums[self.group], 1.0 / self.parts[self.group])
        return np.where(self.inside, share, 0.0)

    def covariance(self) -> sparse.csr_array:
        """Return Ω, leaves × leaves."""
        sums, leaves = self._sums(self.variance), len(self.group)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(sums > 0, (self.old - sums) / sums**2, 0.0)
        excess[np.abs(self.old - sums) <= 1e-12 * sums] = 0.0
        at = np.flatnonzero(self.inside)
        if float((self.parts[excess != 0].astype(np.float64) ** 2).sum()) > _MOST_ENTRIES:
            raise NotApplicable(
                "a published cell is divided into too many parts to draw them given its value. Publish both tables in one go."
            )
        by_group = sparse.csr_array((self.variance[at], (at, self.group[at])), shape=(leaves, len(sums)))
        share = sparse.csr_array((self.share[at], (at, self.group[at])), shape=(leaves, len(sums)))
        between = sparse.csr_array(self.record.covariance - sparse.diags_array(self.old))
        made = sparse.diags_array(self.variance) + by_group @ sparse.diags_array(excess) @ by_group.T
        made = sparse.csr_array(made + share @ between @ share.T)
        left = made.diagonal()
        made.setdiag(np.where(left > 1e-13 * self.variance, left, 0.0))  # what cancels leaves a last bit
        made.eliminate_zeros()
        return made

    def draw(self, table: Table, draws: Draws, period: str) -> Numbers:
        """Return the noise of every leaf given what is published, shape (leaves,)."""
        fresh = brownian(self.variance, leaf_ids(table), leaf_draws(draws, table.variable, period))
        error = (
            self.record.units * unit(self.record.decimals) - self.record.totals
        )  # noise, and rounding of its outcome
        rest = np.where(self.inside, (error - self._sums(fresh))[self.group], 0.0)
        return fresh + self.share * rest


def divide(record: Record, table: Table, needed: Numbers, spread: Numbers, exposed: Exposed) -> Division:
    """Return how to divide the noise so that nobody is exposed by both publications together; refused if there is no way.

    Noise within old leaves is doubled until the audit holds. As it grows, the parts tell less and less beyond what is
    published already; where even that little is too much, the first publication left no room.
    """
    division = Division(record, old_leaf(record, table), needed, spread)
    for _ in range(_ROUNDS):
        bad = exposed(division.covariance())
        if not bad.any():
            return division
        if not division.raised(bad, 2.0).any():
            break
    named = listing([f"'{table.cells.name(c)}'" for c in _cells_of(table.cells, bad)], 3)
    raise NotApplicable(
        f"what is published already leaves no room for these cells: {named}. Somebody there could work out a contribution "
        "from both tables, however they are drawn. Leave those cells out of the table, or publish both in one go before either "
        "is out."
    )


def _cells_of(cells: Cells, leaves: NDArray[np.bool_]) -> list[int]:
    """Return the smallest cell that holds each of these leaves, once."""
    inside = cells.incidence.tocsc()
    at = np.flatnonzero(leaves)
    holding = (inside.indices[inside.indptr[i] : inside.indptr[i + 1]] for i in at)
    return list(dict.fromkeys(int(c[np.argmin(cells.sizes[c])]) for c in holding if len(c)))
