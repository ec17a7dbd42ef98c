"""Pairs of contributor and attacker who could learn too much from a later table, and noise that keeps them from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import NotApplicable
from sfumato.tables.rta.digits import round_up
from sfumato.tables.rta.division import MOST_ENTRIES, Division
from sfumato.tables.rta.knowledge import Knowledge

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_MOST_OLD, _MOST_LEAVES = 2_500, 5_000
"""Old leaves, and leaves that hang together, up to which dense linear algebra is used."""
_NEAR = 0.1
"""Pairs that the first table leaves less room than this, relative to what is required, are hidden by B too."""
_COST = 0.03
"""What the noise of a larger B costs, relative to what it hides."""
_REACH, _LEAST, _MARGIN = 6.0, 0.25, 3e-4
"""By how much 1/(prior variance + D) may fall in a round, the information of a pair at most, and what is left above the need."""
_TRACE = 1e-6
"""Leaves that tell a pair less than this share of what it learns are left alone."""


class _First(NamedTuple):
    """What the first table alone tells an attacker of a target."""

    left: float
    """The posterior variance, relative to what is required."""
    q: Numbers
    """Ω_old u for the old leaves with noise."""
    t: Numbers
    """a - K_g Cᵀ u: what B q must be for the parts to tell nothing; shape (leaves,)."""


class Rivals:
    """Pairs that are watched while noise is divided."""

    def __init__(self, known: Knowledge, division: Division) -> None:
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
        """What the first table leaves of a watched target at least, relative to what is required; infinite if not looked at."""

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
        """Raise D as far as the watched pairs need, at least cost, by one round of the convex iteration of `linked_noise`.

        The posterior variance F of a pair rises with D_l by (x_l - x̄)², x = (K_g + Ω)⁻¹a, x̄ the mean over the parts of the old
        leaf, by D: what all parts have in common is known. 1/F is nearly linear in 1/(prior variance + D). Returned is whether
        anything was raised.
        """
        from sfumato.kernels.noisy_pairs import pack, typed

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
        start, index = typed(slope.indptr, slope.indices)
        dual = np.array([self._dual[key] for key in keys])
        new = pack(start, index, slope.data, room, np.ones(len(d)), u / _REACH, u, dual, 30)
        self._dual.update(zip(keys, dual.tolist(), strict=True))
        division.variance = np.where(new < u * (1 - 1e-9), round_up(np.maximum(1.0 / new - cover, d)), d)
        return bool((division.variance > d).any())

    def _regressions(self, keys: list[tuple[int, int]], omega: sparse.csr_array) -> tuple[Numbers, sparse.csr_array]:
        """Return what is left of each target now, and x = (K_g + Ω)⁻¹a, pairs × leaves; by leaves that hang together."""
        from scipy.linalg import cho_factor, cho_solve
        from scipy.sparse.csgraph import connected_components

        known, v, by = self.known, self.known.variance, self.known.by_unknown
        s = known.covariance(omega)
        part = connected_components(s, directed=False)[1]
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
            solved = cho_solve(cho_factor(dense, lower=True), loads)
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
        """Choose B so that the parts tell pairs with little room nothing, or little, of each other.

        Least squares over those pairs: the less room, the more a pair counts, against the noise that a larger B means.
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
        else:  # each part with the noise of its own old leaf alone
            place = np.full(old, -1)
            place[self._noisy] = np.arange(len(self._noisy))
            rows = np.flatnonzero(division.inside & (place[division.group] >= 0))
            at, before = place[division.group[rows]], division.share[rows]
            found = (wanted[rows, at] + hold[at] * before) / (np.diag(system) + hold)[at]
            extra = sparse.csr_array((found - before, (rows, at)), shape=share.shape)
        division.tilt = sparse.csr_array((extra.data, self._noisy[extra.indices], extra.indptr), shape=(count, old))


def _known_too(x: Numbers, reach: Numbers, gone: Numbers, a: Numbers) -> Numbers:
    """Return (S - gone goneᵀ)⁻¹ a from x = S⁻¹a and reach = S⁻¹ gone (Woodbury): what enters from an attacker does not vary."""
    if not reach.shape[1]:
        return x
    inner = np.eye(reach.shape[1]) - gone.T @ reach
    return np.asarray(x + reach @ (np.linalg.pinv(inner, rcond=1e-10, hermitian=True) @ (reach.T @ a)))
