"""Sets as sums of smaller sets: for each set a few of the others that make it up without overlap."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def partitions(ptr: Whole, members: Whole, inner_ptr: Whole, inner: Whole, size: int) -> tuple[Whole, Whole]:
    """Return for each set of more than one member the sets that it is the disjoint union of, as pointers and entries.

    Set c has members[ptr[c]:ptr[c + 1]], numbers below `size`; inner[inner_ptr[c]:inner_ptr[c + 1]] are the sets within it,
    those to be preferred first. Each is taken if it overlaps none taken before. What is left uncovered is given member by
    member, as -1 - member.
    """
    count = len(ptr) - 1
    covered = np.full(size, -1, np.int64)
    starts = np.zeros(count + 1, np.int64)
    found = np.empty(len(members), np.int64)
    at = 0
    for c in range(count):
        left = ptr[c + 1] - ptr[c]
        if left > 1:
            for k in range(inner_ptr[c], inner_ptr[c + 1]):
                j = inner[k]
                free = True
                for p in range(ptr[j], ptr[j + 1]):
                    if covered[members[p]] == c:
                        free = False
                        break
                if not free:
                    continue
                for p in range(ptr[j], ptr[j + 1]):
                    covered[members[p]] = c
                found[at] = j
                at += 1
                left -= ptr[j + 1] - ptr[j]
                if left == 0:
                    break
            if left > 0:
                for p in range(ptr[c], ptr[c + 1]):
                    if covered[members[p]] != c:
                        found[at] = -1 - members[p]
                        at += 1
        starts[c + 1] = at
    return starts, found[:at].copy()
