"""Which noisy sums lie near an unknown: the arrays of the problem, and how a neighbourhood grows. See `near_sums`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
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
    grouped: NDArray[np.bool_]
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


def near_arguments(**arrays: Any) -> NearSums:
    """Return the arrays with the types that the kernel was compiled for."""
    kinds = {"single", "rest", "tau", "tau_all", "variance", "total", "link_value", "group_value", "unknown_value",
             "noise_value"}  # fmt: skip
    made = {}
    for name, value in arrays.items():
        kind = np.float64 if name in kinds else bool if name == "grouped" else np.int64
        made[name] = np.ascontiguousarray(value, kind)
    return NearSums(**made)
