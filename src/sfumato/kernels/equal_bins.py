"""Equal bins: how many of them can all hold at least d observations."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

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


def most_equal_bins(values: Numbers, cumulative: Labels, d: int) -> int:
    """Return the largest k such that k equal bins on [min, max] all hold at least d observations; 1 if no larger one does.

    `values` are distinct and ascending, `cumulative` how many observations are at most each. A bin goes from above its lower edge
    up to its upper edge. Whether k bins do is not monotone in k, so every k is tried, from the largest possible one down.
    """
    total, span = int(cumulative[-1]), float(values[-1] - values[0])
    if span <= 0 or total < 2 * d:
        return 1
    most = min(total // d, _bound(values, cumulative, span, d))
    return int(_most(values, cumulative, float(values[0]), span, d, most)) if most > 1 else 1


def _bound(values: Numbers, cumulative: Labels, span: float, d: int) -> int:
    """Return a number of bins that cannot be exceeded.

    An open interval as long as two bins has a whole bin inside. So if fewer than d observations lie strictly between two
    values, twice the width of a bin is at least the distance between them.
    """
    after = np.searchsorted(cumulative, cumulative + d, side="left")
    after = np.minimum(after, len(values) - 1)
    widest = float((values[after] - values).max())
    return int(2 * span / widest) + 2 if widest > 0 else int(cumulative[-1]) // d
