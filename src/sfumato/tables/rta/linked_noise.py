"""Leaf noise where contributors are in several leaves: a convex problem, solved round by round, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.rta import attackers
from sfumato.tables.rta.attackers import in_large_block, left_of, sums_of
from sfumato.tables.rta.knowledge import Knowledge
from sfumato.tables.rta.near_attackers import CAP, gradients_near
from sfumato.tables.rta.one_leaf import one_leaf
from sfumato.tables.rta.safe_noise import first_noise, surely_enough

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_ROUNDS, _FEWER, _IDLE, _REACH, _NEARER = 40, 4, 5, 4.0, 2.0
_SMALL, _ROUGHLY, _GAP, _SETTLED = 60, 0.05, 1e-3, 0.01
"""With blocks of more leaves it is enough to come this close to protection and to the optimum before the last repair; with those
too large to invert, to lower the cost by no more in a round."""
_LEAST, _COVER = 0.4, 0.02
_REPAIRS = 30
_NEAR = 1.2
"""Unknowns with less than this times the required variance are watched."""
_MARGIN = 1e-9
"""By which share more variance is left than required, so that rounding does not undo it."""


class Linked(NamedTuple):
    """Noise of all leaves; who needs it (unknowns, -1 for none), and a lower bound on what the linked leaves cost."""

    variance: Numbers
    target: Whole
    attacker: Whole
    lower: float
    rounds: int


@dataclass
class _Pairs:
    """Pairs of unknown and helper that are watched, in the order of their blocks, with a multiplier each."""

    target: Whole
    helper: Whole
    dual: Numbers

    @classmethod
    def none(cls) -> _Pairs:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def joined(self, target: Whole, helper: Whole, of_block: Whole, unknowns: int) -> _Pairs:
        """Return these and new ones; those that are here already keep their multipliers."""
        t, g = np.concatenate([self.target, target]), np.concatenate([self.helper, helper])
        dual = np.concatenate([self.dual, np.zeros(len(target))])
        key = t * (unknowns + 1) + g + 1
        _, first = np.unique(key, return_index=True)
        order = first[np.lexsort((key[first], of_block[t[first]]))]
        return _Pairs(t[order], g[order], dual[order])

    def kept(self, mask: NDArray[np.bool_]) -> _Pairs:
        return _Pairs(self.target[mask], self.helper[mask], self.dual[mask])


def linked_noise(known: Knowledge, alone: Numbers, price: Numbers, linked: NDArray[np.bool_]) -> Linked:
    """Return noise that protects everybody, close to the smallest, for leaves that share contributors.

    `alone` is what every leaf needs by itself: no leaf can do with less. The posterior variance F of a pair is concave and
    rises with the noise, so what is solved is convex. Each round linearises 1/F in u = 1/(prior variance + noise), in which it
    is nearly linear (exactly so where leaves are apart), and minimises Σ price/u. Multipliers of the pairs give a lower bound
    on the optimum (the dual of the semidefinite program in RTA-TABLES).
    """
    whole, lower, rounds = alone.copy(), 0.0, 0
    target, attacker = np.full(len(alone), -1, np.int64), np.full(len(alone), -1, np.int64)
    large = (np.bincount(known.block) > attackers.DENSE)[known.block]
    for part in (np.flatnonzero(linked & ~large), np.flatnonzero(linked & large)):
        if not len(part):
            continue
        small = known.part(part)
        solver = _Solver(small, alone[part], price[part])
        whole[part], bound, count = solver.solve()
        lower, rounds = lower + bound, max(rounds, count)
        where = np.append(small.position, -1)
        target[part], attacker[part] = where[solver.binding[0]], where[solver.binding[1]]
    return Linked(whole, target, attacker, lower, rounds)


class _Solver:
    def __init__(self, known: Knowledge, least: Numbers, price: Numbers) -> None:
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
        """Return the noise, a lower bound on its cost, and how many rounds it took."""
        if self.large.any():
            return self._solve_large()
        omega, best, lower, step, worst = (
            first_noise(self.known, self.required, self.least, self.price),
            np.inf,
            0.0,
            1.0,
            1.0,
        )
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
        """Solve where what is left is a bound: go on as long as the cost falls, then repair."""
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
        """Return the pairs that are watched, with those that have come near."""
        left, helper = self._left(omega, near)
        close = np.flatnonzero(self.wanted & (left < near * self.required))
        return pairs.joined(close, helper[close], self.of_block, len(self.known))

    def _left(self, omega: Numbers, near: float) -> tuple[Numbers, Whole]:
        """Return what is left of everybody, and who learns most of him."""
        found = left_of(self.known, omega, near * self.required, (CAP,))
        return found.variance, found.helper

    def _z(self, omega: Numbers, pairs: _Pairs) -> tuple[Numbers, sparse.csr_array]:
        """Return the posterior variance of every pair, and z, pairs × leaves."""
        from sfumato.kernels.noisy_pairs import gradients

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
                left[at], start, row, value = gradients(sums, self.of_block, target, helper, group)
                part = sparse.csr_array((value, row, start), shape=(len(at), shape[1]))
            rows = at[np.repeat(np.arange(len(at)), np.diff(part.indptr))]
            z = z + sparse.csr_array((part.data, (rows, part.indices)), shape=shape)
        return left, sparse.csr_array(z)

    def _round(self, omega: Numbers, pairs: _Pairs, step: float) -> tuple[Numbers, _Pairs, float, float]:
        from sfumato.kernels.noisy_pairs import pack, typed

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
        # no more than so much at a time: a pair far from protected would else be bought with noise where it hardly helps
        room = np.maximum(1.0 / required - 1.0 / left + slope @ u, _LEAST * (slope @ u))
        reach = _REACH if not self.large.any() else _NEARER
        low, high = u / reach, np.minimum(u * reach, 1.0 / (cover + self.least))
        start, index = typed(slope.indptr, slope.indices)
        dual = pairs.dual * 1.0
        new = pack(start, index, slope.data, room, self.price, np.minimum(low, high), high, dual, 30)
        pairs = _Pairs(pairs.target, pairs.helper, dual)
        bound = max(bound, self._bound(pairs, left, z, omega))
        self._note(pairs, slope, dual)
        keep = (left < 3.0 * required) | (dual > 0)
        u = u ** (1.0 - step) * new**step
        noise = np.where(self.known.spread > 0, np.maximum(1.0 / u - cover, self.least), 0.0)
        return noise, pairs.kept(keep), violation, bound

    def _cover(self, pairs: _Pairs, left: Numbers) -> Numbers:
        """Return the prior variance of each leaf but for the pair that presses most on it: 1/F is linear in 1/(that + noise)."""
        known, cover = self.known, self.spread.copy()
        entry = known.by_unknown
        for kept in self.binding:
            leaf = np.flatnonzero(kept >= 0)
            m = np.asarray(entry[leaf, kept[leaf]]).ravel() if len(leaf) else np.zeros(0)
            cover[leaf] -= m**2 * known.variance[kept[leaf]]
        return np.maximum(cover, _COVER * self.spread)

    def _note(self, pairs: _Pairs, slope: sparse.csr_array, dual: Numbers) -> None:
        """Keep which pair presses most on each leaf."""
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
        # leaf by leaf no more than the price: some z are made smaller where their leaf is asked for too much
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
        # what no pair asks for, a leaf needs by itself: its own noise prices what is left of it
        used = np.asarray(z.power(2).T @ power)
        spare = np.maximum(self.price - used, 0.0)
        return float(worth.sum() + spare @ self.least)

    def _repair(self, omega: Numbers) -> Numbers:
        """Raise the noise until every pair is protected: noise anywhere never harms anybody."""
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
