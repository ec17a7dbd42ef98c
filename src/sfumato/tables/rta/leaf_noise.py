"""How much noise each leaf needs: the closed form, a safe start, and the convex problem of linked leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.errors import DataError, join_names, plural
from sfumato.tables.rta import posterior_audit
from sfumato.tables.rta.large_blocks import CAP, gradients_near, near_of
from sfumato.tables.rta.posterior_audit import in_large_block, left_of, sums_of
from sfumato.tables.rta.priors import AttackerKnowledge, Prior
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole


def one_leaf(known: AttackerKnowledge) -> tuple[Numbers, Whole, Whole]:
    """Return the noise that each leaf needs alone (negative: a surplus), and the binding target and attacker; -1 for none.

    Target and attacker are unknowns. The noise is the largest over unknowns h and attackers g not of h's side of m_h²v_h²/(v_h
    - w_h²) - Σ_{i not g's} m_i²v_i, written as m_h²w_h²v_h/(v_h - w_h²) - Σ_{i not g's, i≠h} m_i²v_i, which is finite unless an
    infinite variance is part of the cover. For each h only the two sides with the largest Σ m²v in the leaf matter: the
    largest, or the second if the largest is h's own (the pair shortcut of the RTA paper, section 3.3, with weights and
    coalitions).
    """
    leaves = known.loading.shape[0]
    rows = np.repeat(np.arange(leaves), np.diff(known.loading.indptr))
    who, m2 = known.loading.indices.astype(np.int64), known.loading.data**2
    v, w = known.given_variance[who], known.required[who]
    unlimited = np.isinf(v) & (m2 > 0)
    cover = np.where(np.isinf(v), 0.0, m2 * np.where(np.isinf(v), 0.0, v))
    side = known.side[who]
    # what each side knows in each leaf: infinite variances are counted separately from finite ones
    order = np.lexsort((side, rows))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(rows[order]) != 0) | (np.diff(side[order]) != 0)
    part = np.empty(len(order), np.int64)
    part[order] = np.cumsum(new) - 1
    first = order[new]
    part_row, part_side, parts = rows[first], side[first], len(first)
    endless, finite = np.bincount(part, unlimited, parts), np.bincount(part, cover, parts)
    endless[part_side < 0] = finite[part_side < 0] = 0.0  # a side that does not attack removes no cover
    ranked = np.lexsort((-finite, -endless, part_row))
    start = np.searchsorted(part_row[ranked], np.arange(leaves + 1))
    top = np.append(ranked, -1)[np.minimum(start[:-1], len(ranked))]
    runner = np.where(
        start[:-1] + 1 < start[1:], np.append(ranked, [-1, -1])[np.minimum(start[:-1] + 1, len(ranked))], -1
    )
    by = np.where(top[rows] == part, runner[rows], top[rows])
    takes = (by >= 0) & (np.append(part_side, -1)[by] >= 0)
    gone_endless, gone_finite = np.append(endless, 0.0)[by] * takes, np.append(finite, 0.0)[by] * takes
    all_endless, all_finite = np.bincount(rows, unlimited, leaves), np.bincount(rows, cover, leaves)
    left_endless = all_endless[rows] - gone_endless - unlimited
    left = np.maximum(all_finite[rows] - gone_finite - cover, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(np.isinf(v), 1.0, v / (v - w))
        need = np.where(w > 0, m2 * w * factor, -np.inf) - np.where(left_endless > 0, np.inf, left)
    need[(w == 0) | (m2 == 0) | (left_endless > 0)] = -np.inf
    last = np.lexsort((need, rows))
    end = np.cumsum(np.diff(known.loading.indptr)) - 1
    some_in = np.diff(known.loading.indptr) > 0
    best = np.where(some_in, last[end] if len(last) else -1, -1)
    found = np.where(some_in, np.append(need, -np.inf)[best], -np.inf)
    target = np.where(found > -np.inf, np.append(who, -1)[best], -1)
    attack = np.append(np.where(takes, who[np.append(first, 0)[by]], -1), -1)[best]
    return found, target, np.where(target >= 0, attack, -1)


_MARGIN = 1e-9


def first_noise(known: AttackerKnowledge, required: Numbers, least: Numbers, price: Numbers) -> Numbers:
    """Return cheap noise, at least `least`, that nearly protects unknowns in several leaves from one who knows all others.

    He learns Σ m²/(cover + noise) of h over its leaves, linear in u = 1/(cover + noise); Σ price/u is minimised.
    """
    spread = np.maximum(known.spread, 1e-300)
    cover = np.maximum(_own_cover(known), 0.02 * spread)
    several = np.flatnonzero((required > 0) & (known.leaves_of > 1))
    part = known.by_unknown[:, several]
    high = 1.0 / (cover + least)
    start, row = kernels.noisy_sums.typed(part.indptr, part.indices)
    room = 1.0 / required[several] - 1.0 / known.variance[several]
    u = kernels.noisy_sums.pack(start, row, part.data**2, room, price, 1e-9 * high, high, np.zeros(len(several)), 20)
    return np.where(known.spread > 0, np.maximum(1.0 / u - cover, least), 0.0)


def surely_enough(known: AttackerKnowledge, required: Numbers, omega: Numbers) -> Numbers:
    """Return noise, raised where necessary, that protects everybody from one who knows all other unknowns in several leaves.

    Leaves then share no unknown, and the precision of h is 1/v + Σ m²/(cover + noise): cover + noise is multiplied where
    necessary. More knowledge only lowers the posterior variance, so everybody is protected from every real attacker.
    """
    several, spread = known.leaves_of > 1, np.maximum(known.spread, 1e-300)
    apart = replace(
        known, given_variance=np.where(several, 0.0, known.variance), required=np.where(several, 0.0, required)
    )
    omega = np.maximum(omega, (1.0 + _MARGIN) * one_leaf(apart)[0])
    targets = np.flatnonzero((required > 0) & several)
    part, cover = known.by_unknown[:, targets], _own_cover(known)
    most = np.where(known.spread > 0, np.maximum(cover + omega, 1e-9 * spread), 1.0)
    room = 1.0 / required[targets] - 1.0 / known.variance[targets]
    times = np.maximum(np.asarray(part.power(2).T @ (1.0 / most)) / room * (1.0 + _MARGIN), 1.0)
    factor = np.ones(len(omega))
    np.maximum.at(factor, part.indices, np.repeat(times, np.diff(part.indptr)))
    return np.maximum(omega, np.where(factor > 1.0, factor * most - cover, 0.0))


def _own_cover(known: AttackerKnowledge) -> Numbers:
    """Return the prior variance of each leaf from unknowns in no other leaf, without the side that knows most of it."""
    return near_of(known, np.zeros(known.loading.shape[0])).rest


_ROUNDS, _FEWER, _IDLE, _REACH, _NEARER = 40, 4, 5, 4.0, 2.0
_SMALL, _ROUGHLY, _GAP, _SETTLED = 60, 0.05, 1e-3, 0.01
"""Tolerances before the last repair. In blocks of more leaves than the first: distance from protection and from the optimum; in
blocks too large to invert: the decrease of cost in a round."""
_LEAST, _COVER = 0.4, 0.02
_REPAIRS = 30
_NEAR = 1.2
"""Unknowns with a posterior variance below this times the required one are watched."""


class LinkedNoise(NamedTuple):
    """Noise of all leaves; who needs it (unknowns, -1 for none), and a lower bound on the cost of the linked leaves."""

    variance: Numbers
    target: Whole
    attacker: Whole
    lower: float
    rounds: int


@dataclass
class _Pairs:
    """Watched pairs of unknown and helper, in the order of their blocks, with a multiplier each."""

    target: Whole
    helper: Whole
    dual: Numbers

    @classmethod
    def none(cls) -> _Pairs:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def joined(self, target: Whole, helper: Whole, of_block: Whole, unknowns: int) -> _Pairs:
        """Add new pairs; those that are watched already keep their multipliers."""
        t, g = np.concatenate([self.target, target]), np.concatenate([self.helper, helper])
        dual = np.concatenate([self.dual, np.zeros(len(target))])
        key = t * (unknowns + 1) + g + 1
        _, first = np.unique(key, return_index=True)
        order = first[np.lexsort((key[first], of_block[t[first]]))]
        return _Pairs(t[order], g[order], dual[order])

    def kept(self, mask: Flags) -> _Pairs:
        return _Pairs(self.target[mask], self.helper[mask], self.dual[mask])


def linked_noise(known: AttackerKnowledge, alone: Numbers, price: Numbers, linked: Flags) -> LinkedNoise:
    """Return noise that protects everybody, close to the smallest, for leaves that share contributors.

    `alone` is the noise that every leaf needs by itself: no leaf can do with less. The posterior variance F of a pair is
    concave and increases with the noise, so the problem is convex. Each round linearises 1/F in u = 1/(prior variance + noise),
    in which it is nearly linear (exactly so where leaves share no contributors), and minimises Σ price/u. Multipliers of the
    pairs give a lower bound on the optimum (the dual of the semidefinite program in RTA-TABLES).
    """
    whole, lower, rounds = alone.copy(), 0.0, 0
    target, attacker = np.full(len(alone), -1, np.int64), np.full(len(alone), -1, np.int64)
    large = (np.bincount(known.block) > posterior_audit.DENSE)[known.block]
    for part in (np.flatnonzero(linked & ~large), np.flatnonzero(linked & large)):
        if not len(part):
            continue
        small = known.part(part)
        solver = _Solver(small, alone[part], price[part])
        whole[part], bound, count = solver.solve()
        lower, rounds = lower + bound, max(rounds, count)
        where = np.append(small.position, -1)
        target[part], attacker[part] = where[solver.binding[0]], where[solver.binding[1]]
    return LinkedNoise(whole, target, attacker, lower, rounds)


class _Solver:
    def __init__(self, known: AttackerKnowledge, least: Numbers, price: Numbers) -> None:
        self.known, self.least, self.price = known, least, price
        self.large = in_large_block(known, least)
        self.required = known.required * (1.0 + _MARGIN)
        self.wanted = known.required > 0
        self.spread = np.maximum(known.spread, 1e-300)
        _, target, attacker = one_leaf(known)
        self.binding = (target.copy(), attacker.copy())
        self.of_block = np.full(len(known), -1, np.int64)
        seen = (known.leaves_of > 0) & (known.variance > 0)
        by = known.by_unknown
        self.of_block[seen] = known.block[by.indices[by.indptr[:-1][seen]]]

    def solve(self) -> tuple[Numbers, float, int]:
        """Return the noise, a lower bound on its cost, and the number of rounds."""
        if self.large.any():
            return self._solve_large()
        omega = first_noise(self.known, self.required, self.least, self.price)
        best, lower, step, worst = np.inf, 0.0, 1.0, 1.0
        pairs, answer, last, idle, rounds = _Pairs.none(), omega, np.inf, 0, 0
        rough = int(np.bincount(self.known.block).max(initial=0)) > _SMALL
        for rounds in range(1, _ROUNDS + 1):
            pairs = self._watched(omega, pairs, _NEAR if rounds > 1 else 2.0)
            new, pairs, violation, bound = self._round(omega, pairs, step)
            lower, cost = max(lower, bound), float(self.price @ omega)
            if violation < 1e-6 and cost < best:
                best, answer = cost, omega
            idle = idle + 1 if abs(cost - last) <= 1e-5 * cost and violation < 1e-3 else 0
            last = cost
            if rough and violation < _ROUGHLY and cost - lower <= _GAP * cost:
                answer = new
                break
            if (violation < 1e-5 and cost - lower <= 1e-5 * cost) or idle >= _IDLE:
                answer = omega
                break
            if violation > 0.8 * worst and rounds > 2:
                step = max(0.7 * step, 0.25)
            elif violation < 0.4 * worst:
                step = min(1.2 * step, 1.0)
            worst, omega = violation, new
        else:
            answer = omega if best == np.inf else answer
        return self._repair(answer), lower, rounds

    def _solve_large(self) -> tuple[Numbers, float, int]:
        """Solve where posterior variances are bounds: iterate while the cost decreases, then repair."""
        first = first_noise(self.known, self.required, self.least, self.price)
        safe = surely_enough(self.known, self.required, first)
        omega, lower, rounds, pairs = safe, 0.0, 0, _Pairs.none()
        for rounds in range(1, _FEWER + 1):
            pairs = self._watched(omega, pairs, _NEAR if rounds > 1 else 2.0)
            new, pairs, _, bound = self._round(omega, pairs, 1.0)
            lower, cost, now = max(lower, bound), float(self.price @ omega), float(self.price @ new)
            if rounds > 1 and now > (1.0 - _SETTLED) * cost:
                break
            omega = new
        repaired = self._repair(omega)
        return repaired if self.price @ repaired < self.price @ safe else safe, lower, rounds

    def _watched(self, omega: Numbers, pairs: _Pairs, near: float) -> _Pairs:
        """Add the pairs that have come near their requirement to the watched ones."""
        left, helper = self._left(omega, near)
        close = np.flatnonzero(self.wanted & (left < near * self.required))
        return pairs.joined(close, helper[close], self.of_block, len(self.known))

    def _left(self, omega: Numbers, near: float) -> tuple[Numbers, Whole]:
        """Return every unknown's posterior variance, and the helper who learns most of it."""
        found = left_of(self.known, omega, near * self.required, (CAP,))
        return found.variance, found.helper

    def _z(self, omega: Numbers, pairs: _Pairs) -> tuple[Numbers, sparse.csr_array]:
        """Return the posterior variance of every pair, and z, pairs × leaves."""
        near = self.large[pairs.target]
        left, shape = np.zeros(len(near)), (len(near), len(self.least))
        z = sparse.csr_array(shape)
        for which in (False, True):
            at = np.flatnonzero(near == which)
            if not len(at):
                continue
            target, helper = pairs.target[at], pairs.helper[at]
            if which:
                left[at], part = gradients_near(self.known, omega, target, helper)
            else:
                sums = sums_of(self.known, omega)
                group = np.full(len(self.known), -1, np.int64)
                group[sums.group_unknown] = np.repeat(np.arange(len(sums.group_start) - 1), np.diff(sums.group_start))
                left[at], start, row, value = kernels.noisy_sums.gradients(sums, self.of_block, target, helper, group)
                part = sparse.csr_array((value, row, start), shape=(len(at), shape[1]))
            rows = at[np.repeat(np.arange(len(at)), np.diff(part.indptr))]
            z = z + sparse.csr_array((part.data, (rows, part.indices)), shape=shape)
        return left, sparse.csr_array(z)

    def _round(self, omega: Numbers, pairs: _Pairs, step: float) -> tuple[Numbers, _Pairs, float, float]:
        left, z = self._z(omega, pairs)
        required = self.required[pairs.target]
        left = np.maximum(left, 1e-9 * required)
        bound = self._bound(pairs, left, z, omega)
        violation = float((1.0 - left / required).max(initial=0.0))
        cover = self._cover(pairs, left)
        u = 1.0 / (cover + omega)
        slope = z.copy()
        rows = np.repeat(np.arange(len(left)), np.diff(z.indptr))
        slope.data = (z.data / (left[rows] * u[z.indices])) ** 2
        # limit the step: otherwise a pair far from protected would be paid for with noise where it hardly helps
        room = np.maximum(1.0 / required - 1.0 / left + slope @ u, _LEAST * (slope @ u))
        reach = _REACH if not self.large.any() else _NEARER
        low, high = u / reach, np.minimum(u * reach, 1.0 / (cover + self.least))
        start, index = kernels.noisy_sums.typed(slope.indptr, slope.indices)
        dual = pairs.dual * 1.0
        new = kernels.noisy_sums.pack(start, index, slope.data, room, self.price, np.minimum(low, high), high, dual, 30)
        pairs = _Pairs(pairs.target, pairs.helper, dual)
        bound = max(bound, self._bound(pairs, left, z, omega))
        self._note(pairs, slope, dual)
        keep = (left < 3.0 * required) | (dual > 0)
        u = u ** (1.0 - step) * new**step
        noise = np.where(self.known.spread > 0, np.maximum(1.0 / u - cover, self.least), 0.0)
        return noise, pairs.kept(keep), violation, bound

    def _cover(self, pairs: _Pairs, left: Numbers) -> Numbers:
        """Return each leaf's prior variance without the pair that presses most on it: 1/F is linear in 1/(this + noise)."""
        known, cover = self.known, self.spread.copy()
        entry = known.by_unknown
        for kept in self.binding:
            leaf = np.flatnonzero(kept >= 0)
            m = np.asarray(entry[leaf, kept[leaf]]).ravel() if len(leaf) else np.zeros(0)
            cover[leaf] -= m**2 * known.variance[kept[leaf]]
        return np.maximum(cover, _COVER * self.spread)

    def _note(self, pairs: _Pairs, slope: sparse.csr_array, dual: Numbers) -> None:
        """Record which pair presses most on each leaf."""
        press = slope.multiply(dual[:, None]).tocoo()
        order = np.lexsort((press.data, press.col))
        col = press.col[order]
        last = np.flatnonzero(np.append(np.diff(col) != 0, True)) if len(col) else np.zeros(0, np.int64)
        at = order[last]
        at = at[press.data[at] > 0]
        for kept, whose in zip(self.binding, (pairs.target, pairs.helper), strict=True):
            kept[:] = -1
            kept[press.col[at]] = whose[press.row[at]]

    def _bound(self, pairs: _Pairs, left: Numbers, z: sparse.csr_array, omega: Numbers) -> float:
        """Return a lower bound on the smallest cost: Σ (a'z)²/(v - w²) - z'K_g z for any z with Σ z² ≤ price in every leaf."""
        known = self.known
        power = pairs.dual / left**2  # multipliers of F from those of 1/F
        if not (power > 0).any():
            return float(self.price @ self.least)
        active = power > 0
        z, t, g, power = z[active], pairs.target[active], pairs.helper[active], power[active]
        load = np.asarray(z.power(2).T @ power)
        # in each leaf no more than the price: z is scaled down where a leaf is over-used
        with np.errstate(divide="ignore"):
            fit = np.sqrt(np.minimum(1.0, self.price / np.maximum(load, 1e-300)))
        z = sparse.csr_array(z.multiply(fit[None, :]))
        through = sparse.csr_array(z @ known.loading)  # pairs × unknowns
        v = known.variance
        square = through.power(2) @ v
        rows = np.repeat(np.arange(len(t)), np.diff(through.indptr))
        own_side = known.side[through.indices] == np.where(g >= 0, known.side[g], -(10**15))[rows]
        square -= np.bincount(rows[own_side], through.data[own_side] ** 2 * v[through.indices[own_side]], len(t))
        hit = through.indices == t[rows]
        along = np.bincount(rows[hit], through.data[hit] * v[t[rows[hit]]], len(t))
        worth = power * (along**2 / (v[t] - known.required[t]) - square)
        worth, power = np.maximum(worth, 0.0), np.where(worth > 0, power, 0.0)  # any choice of pairs gives a bound
        # the price that no pair uses: a leaf's own need bounds the cost of the remainder
        used = np.asarray(z.power(2).T @ power)
        spare = np.maximum(self.price - used, 0.0)
        return float(worth.sum() + spare @ self.least)

    def _repair(self, omega: Numbers) -> Numbers:
        """Raise the noise until every pair is protected: more noise never harms anybody's protection."""
        for turn in range(_REPAIRS):
            left, helper = self._left(omega, 1.0)
            bad = np.flatnonzero(self.wanted & (left < self.known.required * (1.0 + 0.5 * _MARGIN)))
            if not len(bad):
                return omega
            order = bad[np.argsort(self.of_block[bad], kind="stable")]
            pairs = _Pairs(order, helper[order], np.zeros(len(order)))
            found, z = self._z(omega, pairs)
            found = np.minimum(
                np.maximum(found, 1e-9 * self.required[order]), left[order].clip(1e-9 * self.required[order])
            )
            u = 1.0 / (self.spread + omega)
            rows = np.repeat(np.arange(len(order)), np.diff(z.indptr))
            slope = (z.data / (found[rows] * u[z.indices])) ** 2
            inside = np.bincount(rows, slope * u[z.indices], len(order))
            over = 1.0 / found - 1.0 / self.required[order]
            share = np.minimum(over / np.maximum(inside, 1e-300) * (1.3 + 0.2 * turn), 0.8)
            cut = np.zeros(len(omega))
            part = slope * u[z.indices]
            most = np.zeros(len(order))
            np.maximum.at(most, rows, part)
            big = part >= 1e-3 * most[rows]  # where it helps
            np.maximum.at(cut, z.indices[big], share[rows[big]])
            omega = np.where(cut > 0, (self.spread + omega) / (1.0 - cut) - self.spread, omega)
        return surely_enough(self.known, self.required, omega)


_ULPS = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class LeafNoise:
    """The variance of the noise in every leaf: confidential, unless variances are published."""

    variance: Numbers
    """Shape (leaves,)."""
    target: Whole
    """The contributor who needs the noise most, by position, shape (leaves,); -1 where none is needed."""
    attacker: Whole
    """The attacker against whom it is needed; -1 for an outsider."""
    lower: float
    """A proven lower bound on the objective: no independent leaf noise that protects everybody costs less."""
    objective: float
    """The objective: the sum of the variances, weighted if a `cost` was given."""
    how: str
    """How it was found, in words."""

    def __repr__(self) -> str:
        noised = int((self.variance > 0).sum())
        return f"LeafNoise({noised:,} of {len(self.variance):,} leaves, {self.how}, gap {self.gap:.2g})"

    @property
    def gap(self) -> float:
        """Share by which the objective may be above the smallest possible one."""
        return 0.0 if self.objective <= self.lower or self.objective == 0 else 1.0 - self.lower / self.objective


def leaf_noise(table: Table, prior: Prior | AttackerKnowledge, *, cost: Numbers | None = None) -> LeafNoise:
    """Return the smallest independent noise of the leaves under which every contributor stays protected.

    Smallest means the sum of the variances, each times its `cost`, shape (leaves,), 1 if not given. It has a closed form where
    every contributor is in one leaf; otherwise it is a convex problem, solved with a certificate of how far from the optimum it
    may be. Refused where somebody knows a contribution too well before publication.
    """
    known = prior if isinstance(prior, AttackerKnowledge) else prior.of(table)
    check_possible(table, known)
    price = np.ones(table.cells.leaves) if cost is None else np.asarray(cost, np.float64)
    if price.shape != (table.cells.leaves,) or not (price > 0).all() or not np.isfinite(price).all():
        raise DataError("`cost` must have one finite number above 0 for each leaf.")
    need, target, attacker = one_leaf(known)
    variance = np.where(need > 0, need + _ULPS * np.minimum(known.spread + need, 1e4 * need), 0.0)
    target, attacker = np.where(need > 0, target, -1), np.where(need > 0, attacker, -1)
    linked = np.bincount(known.block)[known.block] > 1
    lower, how = float(price @ np.maximum(need, 0.0)), "a closed form"
    if linked.any():
        found = linked_noise(known, variance, price, linked)
        lower = float(price[~linked] @ np.maximum(need, 0.0)[~linked]) + found.lower
        variance, how = found.variance, f"{plural(found.rounds, 'round')} of a convex iteration"
        better = found.target >= 0
        target, attacker = np.where(better, found.target, target), np.where(better, found.attacker, attacker)
    of = np.append(known.contributor, -1)
    return LeafNoise(variance, of[target], of[attacker], lower, float(price @ variance), how)


def check_possible(table: Table, known: AttackerKnowledge) -> None:
    """Refuse where a contribution is known too well beforehand: no noise helps. Name the cells, and what would help."""
    bad = np.flatnonzero(known.known_before())
    if not len(bad):
        return
    by_unknown = known.by_unknown
    leaves = np.unique(
        np.concatenate([by_unknown.indices[by_unknown.indptr[u] : by_unknown.indptr[u + 1]] for u in bad[:200]])
    )
    names = [leaf_name(table, int(leaf)) for leaf in leaves]
    limit = relaxation(known)
    ways = (
        f"It works with a threshold r above {limit:.6g}, or with base variances below {known.threshold / limit:.6g} times these "
        f"(a base cv below {np.sqrt(known.threshold / limit):.6g} times this one)."
        if np.isfinite(limit)
        else "Somebody is known exactly: only a base variance of 0 for those contributors works."
    )
    raise DataError(
        f"{plural(len(bad), 'contributor')} cannot be protected: their contributions are known beforehand as well as anybody may "
        f"know them afterwards, in {join_names(names, 5)}. {ways}"
    )


def relaxation(known: AttackerKnowledge) -> float:
    """Return the threshold above which there is a solution: the largest w²/v, the relative certainty before publication."""
    guarded = known.required > 0
    with np.errstate(divide="ignore"):
        ratio = known.threshold * known.required[guarded] / known.given_variance[guarded]
    return float(ratio.max(initial=0.0))


def leaf_name(table: Table, leaf: int) -> str:
    """Return the leaf as a cell, or as a part of the smallest cell that holds it."""
    cell = int(table.cells.of_leaf[leaf])
    if cell >= 0:
        return table.cells.name(cell)
    holding = table.cells.incidence[:, [leaf]].nonzero()[0]
    return "a part of " + table.cells.name(int(holding[np.argmin(table.cells.sizes[holding])]))
