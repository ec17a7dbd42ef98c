"""What one leaf needs by itself: the closed form of random tabular adjustment, with weights and coalitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.rta.knowledge import Knowledge

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def one_leaf(known: Knowledge) -> tuple[Numbers, Whole, Whole]:
    """Return what each leaf needs by itself (negative: to spare), and the unknowns of target and attacker that bind; -1 for none.

    The largest over unknowns h and attackers g not of h's side of m_h²v_h²/(v_h - w_h²) - Σ_{i not g's} m_i²v_i, written as
    m_h²w_h²v_h/(v_h - w_h²) - Σ_{i not g's, i≠h} m_i²v_i, in which nothing is infinite unless somebody is in cover. For each
    h only the two sides with the largest Σ m²v in the leaf matter: the largest, or the second if the largest is h's own (the pair
    shortcut of the RTA paper, section 3.3, with weights and coalitions).
    """
    leaves = known.loading.shape[0]
    rows = np.repeat(np.arange(leaves), np.diff(known.loading.indptr))
    who, m2 = known.loading.indices.astype(np.int64), known.loading.data**2
    v, w = known.given_variance[who], known.required[who]
    unlimited = np.isinf(v) & (m2 > 0)
    cover = np.where(np.isinf(v), 0.0, m2 * np.where(np.isinf(v), 0.0, v))
    side = known.side[who]
    # what each side knows in each leaf: endless variances are counted apart from the finite ones
    order = np.lexsort((side, rows))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(rows[order]) != 0) | (np.diff(side[order]) != 0)
    part = np.empty(len(order), np.int64)
    part[order] = np.cumsum(new) - 1
    first = order[new]
    part_row, part_side, parts = rows[first], side[first], len(first)
    endless, finite = np.bincount(part, unlimited, parts), np.bincount(part, cover, parts)
    endless[part_side < 0] = finite[part_side < 0] = 0.0  # who does not attack takes no cover away
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
