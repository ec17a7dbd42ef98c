"""A lower bound on what remains unknown, from the noisy sums near an unknown."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from sfumato.typing import Flags, Numbers, Whole

MOST = 300
"""A target in more sums than this is taken to face somebody who knows all other unknowns that are in several sums."""
MANY = 64
"""Neighbourhoods do not grow along unknowns in more sums than this."""
_FAR, _FAINT = 0.4, 1e-3
"""What an unknown matters less for each sum that lies between, and what does not matter at all."""


class NearSums(NamedTuple):
    """Sums and unknowns in arrays; `Link` is an unknown in several sums, a `grouped` one is known to somebody with others."""

    link_start: Whole
    link_unknown: Whole
    link_value: Numbers
    """Entries of M, by sum, of links that vary."""
    group_start: Whole
    group_unknown: Whole
    group_value: Numbers
    """Entries of M, by sum, of grouped unknowns in one sum."""
    unknown_start: Whole
    unknown_row: Whole
    unknown_value: Numbers
    """M by unknown."""
    variance: Numbers
    side: Whole
    """Who knows the unknown beforehand; negative for nobody."""
    grouped: Flags
    single: Numbers
    """Variance of the unknowns that are in this sum alone, shape (sums,)."""
    first: Whole
    second: Whole
    """Of these the two, not grouped, that vary most here and whose sides attack; -1 for none."""
    rest: Numbers
    """What a sum has of its own, without the side that knows most of it; with independent noise that is no more than the true."""
    tau: Numbers
    tau_all: Numbers
    """Σ τ over all sums of an unknown."""
    noise_start: Whole
    noise_row: Whole
    noise_value: Numbers
    """The covariance of the noise, by sum; sums with common noise form a cluster."""
    total: Numbers
    """The variance of each sum."""


@numba.njit(cache=True, nogil=True)
def grow(s, h, cap, pos, ring, near, upos, ent_unknown, ent_at, ent_value, ent_next, head, met):  # type: ignore[no-untyped-def]
    """Choose the neighbourhood; return how many sums, unknowns and entries it has, with n = -1 where it is too large."""
    n, links, entries = 0, 0, 0
    done = 0
    for e in range(s.unknown_start[h], s.unknown_start[h + 1]):
        row = s.unknown_row[e]
        if pos[row] < 0:
            if n >= MOST:
                return -1, n, links, entries
            pos[row], ring[row], near[n] = n, 0, row
            n += 1
    while True:
        while done < n:  # what enters new sums, and sums with common noise
            row = near[done]
            done += 1
            for e in range(s.noise_start[row], s.noise_start[row + 1]):
                other = s.noise_row[e]
                if pos[other] < 0:
                    if n >= MOST:
                        return -1, n, links, entries
                    pos[other], ring[other], near[n] = n, ring[row], other
                    n += 1
            for e in range(s.link_start[row], s.link_start[row + 1]):
                u = s.link_unknown[e]
                if u == h:
                    continue
                if upos[u] < 0:
                    upos[u], met[links], head[links] = links, u, -1
                    links += 1
                ent_unknown[entries], ent_at[entries], ent_value[entries] = upos[u], pos[row], s.link_value[e]
                ent_next[entries] = head[upos[u]]
                head[upos[u]] = entries
                entries += 1
        if n >= cap:
            return n, n, links, entries
        best, which = _FAINT, -1
        for i in range(links):
            u = met[i]
            size = s.unknown_start[u + 1] - s.unknown_start[u]
            if size > MANY:
                continue
            new, out = 0, 0.0
            for e in range(s.unknown_start[u], s.unknown_start[u + 1]):
                row = s.unknown_row[e]
                if pos[row] < 0:
                    new += max(1, s.noise_start[row + 1] - s.noise_start[row])
                    out += s.tau[row]
            if new == 0 or n + new > cap:
                continue
            share, depth, e = 0.0, 1000, head[i]
            while e >= 0:
                row = near[ent_at[e]]
                share += ent_value[e] ** 2 / s.total[row]
                depth = min(depth, ring[row])
                e = ent_next[e]
            score = s.variance[u] * share * (1.0 if out > 1e15 else out / (1.0 + out)) * _FAR**depth / new
            if score > best:
                best, which = score, i
        if which < 0:
            return n, n, links, entries
        u, depth, e = met[which], 1000, head[which]
        while e >= 0:
            depth = min(depth, ring[near[ent_at[e]]])
            e = ent_next[e]
        for e in range(s.unknown_start[u], s.unknown_start[u + 1]):
            row = s.unknown_row[e]
            if pos[row] < 0:
                pos[row], ring[row], near[n] = n, depth + 1, row
                n += 1


# --- How little may remain unknown of an unknown that is seen through noisy sums: a lower bound from the sums near it.
#
# y = M d + noise, d independent with variances v. For a target h somebody is taken to see the sums in a neighbourhood N of its own
# exactly as they are, and to know more than he can of what enters from outside: in a sum outside N the variance that is its own
# (noise, and unknowns in no other sum) is divided among the unknowns that enter it, and each is seen with its part by itself. The
# sum itself follows from those, so that this is more to know, and an unknown u of N keeps v / (1 + Σ τ) over its sums outside N,
# with τ = (variance of what enters from several sums) / (the sum's own). Given that, the posterior precision of h is
# 1/v + m'S⁻¹m, S the covariance of N without h. Whoever knows g as well adds v_g (m_h'S⁻¹m_g)² / (1 - v_g m_g'S⁻¹m_g).


_TINY = 1e-12


@numba.njit(cache=True, nogil=True)
def _factor(c, d, b, v, n, low):  # type: ignore[no-untyped-def]
    """Put the inverse of the Cholesky factor into `low`; return whether b, times √v, is found exactly.

    A sum that follows from those before it adds nothing, unless b does not follow with it.
    """
    dropped = np.zeros(n, np.bool_)
    t = np.zeros(n)
    for i in range(n):
        for j in range(i + 1):
            total = c[i, j]
            for k in range(j):
                total -= c[i, k] * c[j, k]
            if i > j:
                c[i, j] = 0.0 if dropped[j] else total / c[j, j]
            else:
                left = b[i]
                for k in range(i):
                    left -= c[i, k] * t[k]
                if total <= 1e-11 * d[i]:
                    if left * left * v > 1e-20 * d[i]:
                        return True
                    dropped[i] = True
                    c[i, i] = 1.0
                    for k in range(i):
                        c[i, k] = 0.0
                else:
                    c[i, i] = np.sqrt(total)
                    t[i] = left / c[i, i]
    for j in range(n):
        for i in range(j):
            low[i, j] = 0.0
        low[j, j] = 0.0 if dropped[j] else 1.0 / c[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= c[i, k] * low[k, j]
            low[i, j] = 0.0 if dropped[i] else total / c[i, i]
    return False


@numba.njit(cache=True, nogil=True)
def _solve(low, n, b):  # type: ignore[no-untyped-def]
    """Return S⁻¹b."""
    t, x = np.zeros(n), np.zeros(n)
    for i in range(n):
        for j in range(i + 1):
            t[i] += low[i, j] * b[j]
    for j in range(n):
        for i in range(j, n):
            x[j] += low[i, j] * t[i]
    return x


@numba.njit(cache=True, nogil=True)
def _more(c2, left, own):  # type: ignore[no-untyped-def]
    """Return c²/left: what knowing somebody adds to the precision, endless where nothing is left."""
    if left < _TINY:
        return np.inf if c2 * own > _TINY**2 else 0.0
    return c2 / left


@numba.njit(cache=True, nogil=True)
def _team(members, b, v, low, n, x):  # type: ignore[no-untyped-def]
    """Return what a side that knows several unknowns adds to the precision, and what it adds to S⁻¹m_h."""
    k = members.size
    w, c, a = np.zeros((k, n)), np.zeros((k, k)), np.zeros(k)
    for i in range(k):
        w[i] = _solve(low, n, b[i])
        for j in range(n):
            a[i] += b[i, j] * x[j]
        a[i] *= np.sqrt(v[i])
    for i in range(k):
        for j in range(k):
            for p in range(n):
                c[i, j] -= b[i, p] * w[j, p] * np.sqrt(v[i] * v[j])
        c[i, i] += 1.0
    for i in range(k):
        c[i, i] = max(c[i, i], 0.0) + _TINY
    share = np.linalg.solve(c, a)
    added = np.zeros(n)
    for i in range(k):
        added += np.sqrt(v[i]) * share[i] * w[i]
    return max(np.sum(share * a), 0.0), added


@numba.njit(cache=True, nogil=True)
def _near(s, targets, asked, cap, want, variance, outsider, helper, start, z_row, z_value):  # type: ignore[no-untyped-def]
    rows, unknowns = s.total.size, s.variance.size
    pos, ring, near = np.full(rows, -1, np.int64), np.zeros(rows, np.int64), np.zeros(MOST + 1, np.int64)
    upos = np.full(unknowns, -1, np.int64)
    room = s.link_unknown.size + 1
    ent_unknown, ent_at, ent_next = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    ent_value = np.empty(room)
    head, met = np.empty(unknowns + 1, np.int64), np.empty(unknowns + 1, np.int64)
    c_all, low_all = np.zeros((MOST, MOST)), np.zeros((MOST, MOST))
    size = 0
    for at in range(targets.size):
        h = targets[at]
        v = s.variance[h]
        start[at] = size
        helper[at] = -1
        n, used, links, _ = grow(s, h, cap, pos, ring, near, upos, ent_unknown, ent_at, ent_value, ent_next, head, met)
        if n <= 0:  # in too many sums, or in none: as if all other links were known
            precision = 1.0 / v
            for e in range(s.unknown_start[h], s.unknown_start[h + 1]):
                row, m = s.unknown_row[e], s.unknown_value[e]
                rest = s.rest[row] if n < 0 else 0.0
                if m != 0.0:
                    precision += m * m / rest if rest > _TINY * s.total[row] else np.inf
            variance[at] = outsider[at] = 1.0 / precision
            if want:
                for e in range(s.unknown_start[h], s.unknown_start[h + 1]):
                    row, m = s.unknown_row[e], s.unknown_value[e]
                    z_row[size] = row
                    z_value[size] = variance[at] * m / max(s.rest[row], _TINY * s.total[row])
                    size += 1
        else:
            c, low = c_all[:n, :n], low_all[:n, :n]
            c[:, :] = 0.0
            d, b = np.zeros(n), np.zeros(n)
            for i in range(n):
                row = near[i]
                d[i] = s.total[row] if s.total[row] > 0.0 else 1.0
                c[i, i] = s.single[row]
                for e in range(s.noise_start[row], s.noise_start[row + 1]):
                    c[i, pos[s.noise_row[e]]] += s.noise_value[e]
            alone = s.unknown_start[h + 1] - s.unknown_start[h] == 1
            for e in range(s.unknown_start[h], s.unknown_start[h + 1]):
                i = pos[s.unknown_row[e]]
                b[i] = s.unknown_value[e]
                if alone:
                    c[i, i] = max(c[i, i] - b[i] * b[i] * v, 0.0)
            left = np.zeros(links)
            for i in range(links):
                u = met[i]
                out = 0.0
                if s.unknown_start[u + 1] - s.unknown_start[u] > MANY:
                    out = s.tau_all[u]
                else:
                    for e in range(s.unknown_start[u], s.unknown_start[u + 1]):
                        if pos[s.unknown_row[e]] < 0:
                            out += s.tau[s.unknown_row[e]]
                left[i] = s.variance[u] / (1.0 + out)
                e = head[i]
                while e >= 0:
                    f = head[i]
                    while f >= 0:
                        c[ent_at[e], ent_at[f]] += left[i] * ent_value[e] * ent_value[f]
                        f = ent_next[f]
                    e = ent_next[e]
            if want:
                for i in range(n):
                    c[i, i] += 1e-9 * d[i]
            if _factor(c, d, b, v, n, low):
                variance[at] = outsider[at] = 0.0
            else:
                x = _solve(low, n, b)
                q = 0.0
                for i in range(n):
                    q += b[i] * x[i]
                outsider[at] = 1.0 / (1.0 / v + max(q, 0.0))
                best, who = 0.0, -1
                g = asked[at]
                if g == -2:
                    for i in range(n):
                        row = near[i]
                        u = s.first[row]
                        if u >= 0 and s.side[u] == s.side[h]:
                            u = s.second[row]
                        if u >= 0 and x[i] != 0.0:
                            m2 = s.unknown_value[s.unknown_start[u]] ** 2 * s.variance[u]
                            inverse = 0.0
                            for k in range(i, n):
                                inverse += low[k, i] ** 2
                            here = _more(m2 * x[i] * x[i], 1.0 - m2 * inverse, v)
                            if here > best:
                                best, who = here, u
                    t = np.zeros(n)
                    for i in range(links):
                        u = met[i]
                        if s.side[u] < 0 or s.grouped[u] or s.side[u] == s.side[h] or left[i] == 0.0:
                            continue
                        cross, e = 0.0, head[i]
                        t[:] = 0.0
                        while e >= 0:
                            j = ent_at[e]
                            cross += ent_value[e] * x[j]
                            for k in range(j, n):
                                t[k] += low[k, j] * ent_value[e]
                            e = ent_next[e]
                        if cross != 0.0:
                            here = _more(left[i] * cross * cross, 1.0 - left[i] * np.sum(t * t), v)
                            if here > best:
                                best, who = here, u
                # sides that know several, or the one that is asked about
                count = 0
                names, amounts = np.empty(0, np.int64), np.zeros((0, 0))
                for turn in range(2):
                    count = 0
                    for i in range(links):
                        u = met[i]
                        chosen = s.grouped[u] if g == -2 else (g >= 0 and s.side[u] == s.side[g])
                        if chosen and s.side[u] >= 0 and s.side[u] != s.side[h] and left[i] > 0.0:
                            if turn:
                                names[count] = u
                                e = head[i]
                                while e >= 0:
                                    amounts[count, ent_at[e]] = ent_value[e]
                                    e = ent_next[e]
                            count += 1
                    for i in range(n):
                        row = near[i]
                        for e in range(s.group_start[row], s.group_start[row + 1]):
                            u = s.group_unknown[e]
                            chosen = g == -2 or (g >= 0 and s.side[u] == s.side[g])
                            if chosen and s.side[u] >= 0 and s.side[u] != s.side[h]:
                                if turn:
                                    names[count], amounts[count, i] = u, s.group_value[e]
                                count += 1
                    if g >= 0 and not s.grouped[g] and s.unknown_start[g + 1] - s.unknown_start[g] == 1:
                        row = s.unknown_row[s.unknown_start[g]]
                        if pos[row] >= 0:
                            if turn:
                                names[count], amounts[count, pos[row]] = g, s.unknown_value[s.unknown_start[g]]
                            count += 1
                    if not turn:
                        names, amounts = np.empty(count, np.int64), np.zeros((count, n))
                added = np.zeros(n)
                if count:
                    order = np.argsort(s.side[names])
                    low_end = 0
                    while low_end < count:
                        high_end = low_end + 1
                        while high_end < count and s.side[names[order[high_end]]] == s.side[names[order[low_end]]]:
                            high_end += 1
                        members = names[order[low_end:high_end]]
                        vs = np.empty(members.size)
                        for i in range(members.size):
                            j = upos[members[i]]
                            vs[i] = left[j] if j >= 0 else s.variance[members[i]]
                        here, push = _team(members, amounts[order[low_end:high_end]], vs, low, n, x)
                        if here > best:
                            best, who, added = here, members[0], push
                        low_end = high_end
                variance[at] = 1.0 / (1.0 / outsider[at] + best)
                helper[at] = who
                if want:
                    for i in range(n):
                        value = variance[at] * (x[i] + added[i])
                        if value != 0.0:
                            z_row[size], z_value[size] = near[i], value
                            size += 1
        for i in range(used):
            pos[near[i]] = -1
        for i in range(links):
            upos[met[i]] = -1
    start[targets.size] = size
    return size


def near_bounds(sums: NearSums, targets: Whole, cap: int) -> tuple[Numbers, Numbers, Whole]:
    """Return for each target a lower bound on its posterior variance for anybody, one for an outsider, and who helps most.

    `cap` is how many sums a neighbourhood may have. The third is an unknown of the side that helps; -1 for nobody.
    """
    n = len(targets)
    variance, outsider, helper = np.zeros(n), np.zeros(n), np.full(n, -1, np.int64)
    asked, nothing = np.full(n, -2, np.int64), np.empty(0, np.int64)
    _near(sums, targets, asked, cap, False, variance, outsider, helper, np.zeros(n + 1, np.int64), nothing, np.empty(0))
    return variance, outsider, helper


def near_gradients(sums: NearSums, targets: Whole, helpers: Whole, cap: int) -> tuple[Numbers, Whole, Whole, Numbers]:
    """Return for pairs (target, helper) the bound for whoever knows the helper (-1: nobody), and z by sums.

    Noise is independent here. The bound rises by z² per unit of noise in a sum of the neighbourhood. Returns the bounds, where
    each pair's entries start, their sums and their values.
    """
    n = len(targets)
    room = int(np.maximum(np.diff(sums.unknown_start)[targets], cap).sum())
    variance, start = np.zeros(n), np.zeros(n + 1, np.int64)
    rows, values = np.empty(room, np.int64), np.empty(room)
    size = _near(sums, targets, helpers, cap, True, variance, np.zeros(n), np.zeros(n, np.int64), start, rows, values)
    return variance, start, rows[:size], values[:size]
