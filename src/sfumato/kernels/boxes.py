"""Points in boxes and bins: how many lie in each, and how many equal bins can all hold enough."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.typing import Flags, Numbers, Whole


@numba.njit(cache=True, nogil=True)
def _box_counts(x, low, high):  # type: ignore[no-untyped-def]
    counts, last = np.zeros(len(low), np.int64), np.full(len(low), -1, np.int64)
    rows = np.empty(x.shape[1], np.int64)
    for b in range(len(low)):
        kept = rows.size
        for i in range(kept):
            rows[i] = i
        for j in range(len(x)):  # one bounded column after the other, among the points that are left
            if low[b, j] == -np.inf and high[b, j] == np.inf:
                continue
            some = 0
            for i in range(kept):
                if low[b, j] <= x[j, rows[i]] <= high[b, j]:
                    rows[some] = rows[i]
                    some += 1
            kept = some
        counts[b] = kept
        if kept:
            last[b] = rows[kept - 1]
    return counts, last


@numba.njit(cache=True, nogil=True)
def _alone(x, low, high):  # type: ignore[no-untyped-def]
    out = np.zeros(len(low), np.bool_)
    bounded = np.empty(x.shape[1], np.int64)
    for b in range(len(low)):
        used = 0
        for j in range(x.shape[1]):
            if low[b, j] != -np.inf or high[b, j] != np.inf:
                bounded[used] = j
                used += 1
        count = 0
        for i in range(len(x)):
            inside = True
            for k in range(used):
                j = bounded[k]
                if not low[b, j] <= x[i, j] <= high[b, j]:
                    inside = False
                    break
            count += inside
            if count > 1:  # most boxes hold many points, and are done with soon
                break
        out[b] = count == 1
    return out


def holds_one(x: Numbers, low: Numbers, high: Numbers) -> Flags:
    """Return which of the closed boxes, low and high (b, p), hold exactly one point of x (n, p); shape (b,)."""
    found: Flags = _alone(np.ascontiguousarray(x), np.ascontiguousarray(low), np.ascontiguousarray(high))
    return found


def box_counts(x: Numbers, low: Numbers, high: Numbers) -> tuple[Whole, Whole]:
    """Return how many points of x (n, p) lie in each closed box, low and high (b, p), and the last of them; shape (b,) each.

    The last is -1 where there is none. A column with low -inf and high inf does not bound its box.
    """
    columns = np.ascontiguousarray(np.asarray(x, np.float64).T)
    counts, last = _box_counts(columns, np.ascontiguousarray(low), np.ascontiguousarray(high))
    return counts, last


_REMEMBERED = 16


@numba.njit(cache=True, nogil=True)
def _up_to(values, cumulative, x):  # type: ignore[no-untyped-def]
    """Return how many observations are at most x."""
    at = np.searchsorted(values, x, side="right")
    return cumulative[at - 1] if at > 0 else 0


@numba.njit(cache=True, nogil=True)
def _holds(values, cumulative, low, span, k, i, d):  # type: ignore[no-untyped-def]
    """Whether bin i of k equal bins on (low, low + span] holds d; the first has what lies below, the last what lies above."""
    under = 0 if i == 0 else _up_to(values, cumulative, low + span * i / k)
    upto = cumulative[-1] if i == k - 1 else _up_to(values, cumulative, low + span * (i + 1) / k)
    return upto - under >= d


@numba.njit(cache=True, nogil=True)
def _most(values, cumulative, low, span, d, most):  # type: ignore[no-untyped-def]
    places = np.zeros(_REMEMBERED)  # where earlier, finer bins failed: the next ones mostly fail there too
    used = 0
    for k in range(most, 1, -1):
        failed = False
        for r in range(min(used, _REMEMBERED)):
            near = int(places[r] * k)
            for i in range(max(near - 1, 0), min(near + 2, k)):
                if not _holds(values, cumulative, low, span, k, i, d):
                    failed = True
                    break
            if failed:
                break
        if failed:
            continue
        under = 0
        for i in range(k):
            upto = cumulative[-1] if i == k - 1 else _up_to(values, cumulative, low + span * (i + 1) / k)
            if upto - under < d:
                failed = True
                places[used % _REMEMBERED] = (i + 0.5) / k
                used += 1
                break
            under = upto
        if not failed:
            return k
    return 1


def most_equal_bins(values: Numbers, cumulative: Whole, d: int) -> int:
    """Return the largest k such that k equal bins on [min, max] all hold at least d observations; 1 if no larger one does.

    `values` are distinct and ascending, `cumulative` how many observations are at most each. A bin goes from above its lower edge
    up to its upper edge. Whether k bins do is not monotone in k, so every k is tried, from the largest possible one down.
    """
    total, span = int(cumulative[-1]), float(values[-1] - values[0])
    if span <= 0 or total < 2 * d:
        return 1
    most = min(total // d, _bound(values, cumulative, span, d))
    return int(_most(values, cumulative, float(values[0]), span, d, most)) if most > 1 else 1


def _bound(values: Numbers, cumulative: Whole, span: float, d: int) -> int:
    """Return a number of bins that cannot be exceeded.

    An open interval as long as two bins has a whole bin inside. So if fewer than d observations lie strictly between two
    values, twice the width of a bin is at least the distance between them.
    """
    after = np.searchsorted(cumulative, cumulative + d, side="left")
    after = np.minimum(after, len(values) - 1)
    widest = float((values[after] - values).max())
    return int(2 * span / widest) + 2 if widest > 0 else int(cumulative[-1]) // d
