"""A later table of the same data: noise given what is published, divided among parts, and pairs who could learn too much."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.contract.draws import Draws
from sfumato.errors import DataError, NotApplicable, join_names
from sfumato.lazy import csgraph, linalg
from sfumato.tables.cells import TOTAL, Cells
from sfumato.tables.rta.digits import round_up, unit
from sfumato.tables.rta.drawing import brownian, leaf_draws, leaf_ids
from sfumato.tables.rta.posterior_audit import PairAudit, audit_pairs
from sfumato.tables.rta.priors import AttackerKnowledge
from sfumato.tables.rta.publication import Record
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

# How the noise of published leaves is divided among their parts in a later table.
#
# Each old leaf A has noise δ_A. Its parts get noise that adds up to it,
#
#     δ = B δ_old + ξ,  B'1 = 1 in each old leaf,  ξ ~ N(0, D - DDᵀ/s),  s = Σ D over the parts of A,
#
# where ξ has the distribution of independent noises with variances D given that they add up to 0. Noise of old cells stays
# unchanged, to the digit. Both publications together show all new leaves with noise of the covariance
#
#     Ω = B Ω_old Bᵀ + blocks of (D - DDᵀ/s).
#
# With B = D/s this is the distribution of independent noises given their sums; where s is the old variance of δ_A, the new
# noises are independent, as if both tables had been published at once. As D grows, the parts reveal less and less beyond what
# is published. That is not enough where the first table already reveals to an attacker g all that he may know of h: then B is
# chosen such that the parts reveal nothing, or little, of h to g (`Rivals`). He knows h already by the regression on the old
# leaves, with coefficients u = S⁻¹ C a_h, S = C K_g Cᵀ + Ω_old, C the sums; a part adds a_h - (K_g Cᵀ + B Ω_old) u, which B can
# make zero.

MOST_ENTRIES = 20_000_000


class Division:
    """How the noise of old leaves is divided among their parts: D and B."""

    def __init__(self, record: Record, group: Whole, needed: Numbers, spread: Numbers) -> None:
        """Start from the variances that independent noise would need, shape (leaves,), and each leaf's prior variance."""
        count = len(record.totals)
        self.record, self.group, self.spread = record, group, spread
        self.inside = group >= 0
        self.parts = np.bincount(group[self.inside], minlength=count)
        self.old = record.covariance.diagonal()
        self.variance = self._at_least_old(needed)
        self.tilt: sparse.csr_array | None = None

    def _at_least_old(self, needed: Numbers) -> Numbers:
        """Raise the needed noise to the existing noise, which must be divided completely.

        Where more is needed than exists, every part takes some of it: noise of one part alone would follow from the sum.
        """
        sums = self.sums(needed)
        share = self._shares(self.spread)
        lack = (self.old - sums)[self.group]
        return np.where(lack >= 0, needed + np.maximum(lack, 0.0) * share, np.maximum(needed, sums[self.group] * share))

    def _shares(self, weight: Numbers) -> Numbers:
        """Return each leaf's share of its old leaf, by weight, or equal shares where all weights are 0."""
        weight = np.where(self.sums(weight)[self.group] > 0, weight, 1.0)
        return np.where(self.inside, weight / np.maximum(self.sums(weight)[self.group], 1e-300), 0.0)

    def sums(self, leaves: Numbers) -> Numbers:
        """Return the sums over the parts of each old leaf, shape (old leaves,)."""
        return np.asarray(np.bincount(self.group[self.inside], leaves[self.inside], len(self.old)), np.float64)

    @property
    def share(self) -> Numbers:
        """D/s for each leaf, 0 for a leaf in no published cell; shape (leaves,)."""
        sums = self.sums(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(sums[self.group] > 0, self.variance / sums[self.group], 1.0 / self.parts[self.group])
        return np.where(self.inside, share, 0.0)

    def by_old(self, values: Numbers) -> sparse.csr_array:
        """Place values of leaves in the columns of their old leaves, leaves × old leaves."""
        at = np.flatnonzero(self.inside)
        return sparse.csr_array((values[at], (at, self.group[at])), shape=(len(self.group), len(self.old)))

    def covariance(self) -> sparse.csr_array:
        """Return Ω, leaves × leaves."""
        sums = self.sums(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(sums > 0, (self.old - sums) / sums**2, 0.0)
        excess[np.abs(self.old - sums) <= 1e-12 * sums] = 0.0
        if float((self.parts[excess != 0].astype(np.float64) ** 2).sum()) > MOST_ENTRIES:
            raise NotApplicable(
                "a published cell is divided into too many parts to draw them given its value. Publish both tables in one go."
            )
        by_group, share = self.by_old(self.variance), self.by_old(self.share)
        between = sparse.csr_array(self.record.covariance - sparse.diags_array(self.old))
        made = sparse.diags_array(self.variance) + by_group @ sparse.diags_array(excess) @ by_group.T
        made = sparse.csr_array(made + share @ between @ share.T)
        if self.tilt is not None:
            moved = self.tilt @ self.record.covariance
            cross = moved @ share.T
            made = sparse.csr_array(made + cross + cross.T + moved @ self.tilt.T)
        left = made.diagonal()
        made.setdiag(np.where(left > 1e-13 * self.variance, left, 0.0))  # floating-point error of a cancellation
        made.eliminate_zeros()
        return made

    def draw(self, table: Table, draws: Draws, period: str) -> Numbers:
        """Draw the noise of every leaf given what is published, shape (leaves,)."""
        fresh = brownian(self.variance, leaf_ids(table), leaf_draws(draws, table.variable, period))
        # noise, and rounding of its outcome
        error = self.record.units * unit(self.record.decimals) - self.record.totals
        rest = np.where(self.inside, (error - self.sums(fresh))[self.group], 0.0)
        noise = fresh + self.share * rest
        return noise if self.tilt is None else noise + self.tilt @ error


_MOST_OLD, _MOST_LEAVES = 2_500, 5_000
"""Largest numbers of old leaves, and of linked leaves, for dense linear algebra."""
_NEAR = 0.1
"""Pairs whose posterior variance after the first table exceeds the required one by less than this share are hidden by B too."""
_COST = 0.03
"""Cost of the noise of a larger B, relative to what it hides."""
_REACH, _LEAST, _MARGIN = 6.0, 0.25, 3e-4
"""Largest factor by which 1/(prior variance + D) falls in a round, smallest share of a pair's information, margin above the need."""
_TRACE = 1e-6
"""Leaves that reveal less than this share of what a pair learns are left alone."""


class _First(NamedTuple):
    """An attacker's knowledge of a target from the first table alone."""

    left: float
    """The posterior variance, relative to the required one."""
    q: Numbers
    """Ω_old u for the old leaves with noise."""
    t: Numbers
    """a - K_g Cᵀ u: the value of B q for which the parts reveal nothing; shape (leaves,)."""


class Rivals:
    """Watched pairs while noise is divided."""

    def __init__(self, known: AttackerKnowledge, division: Division) -> None:
        self.known, self.division = known, division
        sums = sparse.csr_array(division.by_old(np.ones(len(division.group))).T)
        self._coarse = sparse.csc_array(sums @ known.loading)
        self._noisy = np.flatnonzero(division.old > 0)
        self._inverse: Numbers | None = None
        self._near: list[_First] = []
        self._dual: dict[tuple[int, int], float] = {}
        self._by_owner = np.argsort(known.owner, kind="stable")
        self._owner_of = np.zeros(int(known.contributor.max(initial=-1)) + 1, np.int64)
        self._owner_of[known.contributor] = known.owner
        self.least = np.inf
        """Smallest posterior variance of a watched target after the first table, over the required one; infinite if unknown."""

    def add(self, targets: Whole, attackers: Whole) -> None:
        """Watch pairs of an unknown and a contributor, -1 for an outsider."""
        for key in zip(targets.tolist(), attackers.tolist(), strict=True):
            if key in self._dual:
                continue
            self._dual[key] = 0.0
            if len(self.division.old) <= _MOST_OLD:
                first = self._told(*key)
                self.least = min(self.least, first.left)
                if 1 - 1e-9 <= first.left < 1 + _NEAR:
                    self._near.append(first)

    def _own(self, attacker: int) -> Whole:
        """Return the unknowns that an attacker knows."""
        if attacker < 0:
            return np.zeros(0, np.int64)
        ends = np.searchsorted(
            self.known.owner, [self._owner_of[attacker], self._owner_of[attacker] + 1], sorter=self._by_owner
        )
        return np.asarray(self._by_owner[ends[0] : ends[1]])

    def _told(self, target: int, attacker: int) -> _First:
        known, v, noise = self.known, self.known.variance, self.division.record.covariance
        if self._inverse is None:
            s = (self._coarse @ sparse.diags_array(v) @ self._coarse.T + noise).toarray()
            self._inverse = np.linalg.pinv(s, rcond=1e-13, hermitian=True)
        own = self._own(attacker)
        a = self._coarse[:, [target]].toarray().ravel() * v[target]
        gone = self._coarse[:, own].toarray() * np.sqrt(v[own])
        u = _known_too(self._inverse @ a, self._inverse @ gone, gone, a)
        left = max(float(v[target] - a @ u), 0.0) / known.required[target]
        if left >= 1 + _NEAR:
            return _First(left, np.zeros(0), np.zeros(0))
        rest = v.copy()
        rest[own] = 0.0
        t = known.by_unknown[:, [target]].toarray().ravel() * v[target] - known.loading @ (rest * (self._coarse.T @ u))
        return _First(left, np.asarray(noise @ u)[self._noisy], np.where(self.division.inside, t, 0.0))

    def raise_noise(self, omega: sparse.csr_array) -> bool:
        """Raise D as far as the watched pairs need, at the smallest cost, by one round of the convex iteration of `linked_noise`.

        The posterior variance F of a pair increases with D_l by (x_l - x̄)², x = (K_g + Ω)⁻¹a, x̄ the mean over the parts of
        the old leaf, weighted by D: the common part is known. 1/F is nearly linear in 1/(prior variance + D). Returns whether
        anything was raised.
        """
        division, keys, spread = self.division, list(self._dual), self.known.spread
        d = division.variance
        left, x = self._regressions(keys, omega)
        mean, into = division.by_old(division.share), division.by_old(np.ones(len(d)))
        slope = sparse.csr_array(x - (x @ mean) @ into.T)
        required = self.known.required[[t for t, _ in keys]] * (1 + _MARGIN)
        left = np.maximum(left, 1e-9 * required)
        cover = np.where(spread > 0, spread, max(float(spread.max(initial=0.0)), 1e-300))
        u = 1.0 / (cover + d)
        rows = np.repeat(np.arange(len(keys)), np.diff(slope.indptr))
        slope.data = (slope.data / (left[rows] * u[slope.indices])) ** 2
        slope.data[slope.data * u[slope.indices] < _TRACE * (slope @ u)[rows]] = 0.0
        slope.eliminate_zeros()
        learned = slope @ u
        room = np.maximum(1.0 / required - 1.0 / left + learned, _LEAST * learned)
        start, index = kernels.noisy_sums.typed(slope.indptr, slope.indices)
        dual = np.array([self._dual[key] for key in keys])
        new = kernels.noisy_sums.pack(start, index, slope.data, room, np.ones(len(d)), u / _REACH, u, dual, 30)
        self._dual.update(zip(keys, dual.tolist(), strict=True))
        division.variance = np.where(new < u * (1 - 1e-9), round_up(np.maximum(1.0 / new - cover, d)), d)
        return bool((division.variance > d).any())

    def _regressions(self, keys: list[tuple[int, int]], omega: sparse.csr_array) -> tuple[Numbers, sparse.csr_array]:
        """Return each target's current posterior variance, and x = (K_g + Ω)⁻¹a, pairs × leaves; by linked leaves."""
        known, v, by = self.known, self.known.variance, self.known.by_unknown
        s = known.covariance(omega)
        part = csgraph.connected_components(s, directed=False)[1]
        order = np.argsort(part, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(part))])
        where = part[by.indices[by.indptr[[t for t, _ in keys]]]]
        left = np.zeros(len(keys))
        rows, columns, values = [], [], []
        for p in np.unique(where):
            at = order[start[p] : start[p + 1]]
            at = at[s.diagonal()[at] > 0]
            if len(at) > _MOST_LEAVES:
                raise NotApplicable(
                    f"what two tables tell together is worked out where at most {_MOST_LEAVES:,} leaves hang together, not "
                    f"{len(at):,}. Make the later table coarser, or publish both in one go."
                )
            dense = s[at][:, at].toarray()
            dense[np.diag_indices_from(dense)] *= 1 + 1e-12
            mine = np.flatnonzero(where == p)
            owns = [self._own(keys[i][1]) for i in mine]
            who = np.unique(np.concatenate([[keys[i][0] for i in mine], *owns])).astype(np.int64)
            loads = by[:, who].tocsr()[at].toarray() * np.sqrt(v[who])
            solved = linalg.cho_solve(linalg.cho_factor(dense, lower=True), loads)
            for i, own in zip(mine, owns, strict=True):
                target = keys[i][0]
                h, others = int(np.searchsorted(who, target)), np.searchsorted(who, own)
                a = loads[:, h] * np.sqrt(v[target])
                x = _known_too(solved[:, h] * np.sqrt(v[target]), solved[:, others], loads[:, others], a)
                left[i] = v[target] - a @ x
                rows.append(np.full(len(at), i))
                columns.append(at)
                values.append(x)
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return left, sparse.csr_array(entries, shape=(len(keys), s.shape[0]))

    def tilt(self) -> None:
        """Choose B so that the parts reveal nothing, or little, to pairs with little room.

        Least squares over those pairs: the less room, the larger a pair's weight, against the noise of a larger B.
        """
        division = self.division
        if not len(self._noisy) or not self._near:
            return
        left, q, t = (np.array([first[i] for first in self._near]) for i in range(3))
        size = (t**2 / np.maximum(self.known.spread, 1e-300)).sum(axis=1)
        weight = 1.0 / np.maximum(left - 1.0, 1e-7) / np.maximum(size, 1e-300)
        system, wanted = (q.T * weight) @ q, (t.T * weight) @ q
        hold = _COST * division.old[self._noisy]
        count, old = len(division.group), len(division.old)
        share = division.by_old(division.share)[:, self._noisy]
        if count**2 <= MOST_ENTRIES:
            made = (wanted + share * hold) @ np.linalg.inv(system + np.diag(hold))
            extra = sparse.csr_array(np.where(division.inside[:, None], made - share.toarray(), 0.0))
        else:  # each part only with the noise of its own old leaf
            place = np.full(old, -1)
            place[self._noisy] = np.arange(len(self._noisy))
            rows = np.flatnonzero(division.inside & (place[division.group] >= 0))
            at, before = place[division.group[rows]], division.share[rows]
            found = (wanted[rows, at] + hold[at] * before) / (np.diag(system) + hold)[at]
            extra = sparse.csr_array((found - before, (rows, at)), shape=share.shape)
        division.tilt = sparse.csr_array((extra.data, self._noisy[extra.indices], extra.indptr), shape=(count, old))


def _known_too(x: Numbers, reach: Numbers, gone: Numbers, a: Numbers) -> Numbers:
    """Return (S - gone goneᵀ)⁻¹ a from x = S⁻¹a and reach = S⁻¹ gone (Woodbury): what an attacker knows does not vary."""
    if not reach.shape[1]:
        return x
    inner = np.eye(reach.shape[1]) - gone.T @ reach
    return np.asarray(x + reach @ (np.linalg.pinv(inner, rcond=1e-10, hermitian=True) @ (reach.T @ a)))


# A later table of the same data: noise under published cells is drawn given their published values.
#
# Leaves of the new table (which must contain the old cells too) divide the old leaves and their noise (`Division`). An attacker
# who combines both tables is audited as one who sees the new leaves with the joint covariance of their noise. Where the first
# table left a contributor room, noise within its leaves is raised until the audit holds; where it left none, parts are drawn
# such that they reveal nothing new of him, as far as possible (`Rivals`).


_ROUNDS, _PATIENCE, _SLOW = 40, 8, 0.8
"""Iterate while one of `_PATIENCE` rounds lowers the excess over the threshold by a fifth."""


def old_leaf(record: Record, table: Table) -> Whole:
    """Return the leaf of the record that contains each leaf of a later table, -1 for none; shape (leaves,).

    Refuse if the table lacks a published cell, or if the data are not those of the record.
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
    """Return the positions of the record's cells in the table."""
    if absent := [d for d in old.dimensions if d not in new.dimensions]:
        raise DataError(
            f"the table is not broken down by {join_names(absent)}, as the published one is. Ask for both in one formula."
        )
    labels = np.full((len(old), len(new.dimensions)), TOTAL, object)
    for i, d in enumerate(old.dimensions):
        labels[:, new.dimensions.index(d)] = old.labels[:, i]
    places = {tuple(row): i for i, row in enumerate(new.labels.tolist())}
    found = np.array([places.get(tuple(row), -1) for row in labels.tolist()], np.int64)
    if gone := [f"'{old.name(int(i))}'" for i in np.flatnonzero(found < 0)]:
        raise DataError(
            f"the table lacks cells that are published already ({join_names(gone, 3)}). Ask for both in one formula: "
            "'region * sector + region * kind'."
        )
    return found


def _columns(matrix: sparse.csc_array) -> list[tuple[int, ...]]:
    return [
        tuple(sorted(matrix.indices[a:b].tolist())) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]


def divide(record: Record, table: Table, known: AttackerKnowledge, needed: Numbers) -> Division:
    """Divide the noise so that both publications together protect everybody; refuse where no way was found.

    `needed` are the variances that independent noise would need, shape (leaves,). Each round audits all pairs and raises noise
    for those that fail, where that costs least. It stops when there is no more progress.
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


def _refusal(table: Table, known: AttackerKnowledge, audit: PairAudit, excess: float, least: float) -> str:
    """Return the error message: which cells, why, and the smallest relaxation that works."""
    leaves = np.zeros(table.cells.leaves, bool)
    leaves[known.by_unknown[:, audit.failing].indices] = True
    named = join_names([f"'{table.cells.name(c)}'" for c in _cells_of(table.cells, leaves)], 3)
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


def _cells_of(cells: Cells, leaves: Flags) -> list[int]:
    """Return the smallest cell that holds each of these leaves, once."""
    inside = cells.incidence.tocsc()
    at = np.flatnonzero(leaves)
    holding = (inside.indices[inside.indptr[i] : inside.indptr[i + 1]] for i in at)
    return list(dict.fromkeys(int(c[np.argmin(cells.sizes[c])]) for c in holding if len(c)))
