"""Choosing one of two values for every part so that the errors of their sums stay small: flips and swaps until none helps."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
OUTSIDE = 1e4
"""What an error costs for each unit by which it is outside its limits."""


@numba.njit(cache=True, nogil=True)
def choose_values(
    sum_ptr: Whole,
    sums: Whole,
    part_ptr: Whole,
    parts: Whole,
    order: Whole,
    step: Numbers,
    up: NDArray[np.bool_],
    error: Numbers,
    square: Numbers,
    absolute: Numbers,
    limits: Numbers,
    near: int,
    rounds: int,
) -> int:
    """Lower a cost of errors by flipping parts between their two values, one or two at a time; return the rounds taken.

    The cost is Σ square · error² + absolute · |error|, and for errors outside their limits, shape (2, sums), OUTSIDE times by
    how much in addition.

    `step` is by how much a part's upper value is above its lower one; `up` says which it has, `error` the errors of the sums
    that this gives, and both are changed in place. The sums of part i are sums[sum_ptr[i]:sum_ptr[i + 1]], the parts of sum c
    are parts[part_ptr[c]:part_ptr[c + 1]]. Parts are tried in `order`. Two parts are tried together if they share a sum of
    at most `near` parts.
    """
    n = len(step)
    seen = np.full(n, -1, np.int64)
    for done in range(rounds):
        changed = False
        for i in order:
            if _change(sum_ptr, sums, step, up, error, square, absolute, limits, i) < -1e-9 * step[i]:
                _flip(sum_ptr, sums, step, up, error, i)
                changed = True
        if changed:
            continue  # single flips are cheap: exhaust them before looking at pairs
        for i in order:
            first = _change(sum_ptr, sums, step, up, error, square, absolute, limits, i)
            _flip(sum_ptr, sums, step, up, error, i)
            best, partner = -1e-9 * step[i], -1
            seen[i] = i
            for s in range(sum_ptr[i], sum_ptr[i + 1]):
                c = sums[s]
                if part_ptr[c + 1] - part_ptr[c] > near:
                    continue
                for p in range(part_ptr[c], part_ptr[c + 1]):
                    j = parts[p]
                    if seen[j] == i:
                        continue
                    seen[j] = i
                    both = first + _change(sum_ptr, sums, step, up, error, square, absolute, limits, j)
                    if both < best:
                        best, partner = both, j
            if partner >= 0:
                _flip(sum_ptr, sums, step, up, error, partner)
                changed = True
            else:
                _flip(sum_ptr, sums, step, up, error, i)
        seen[:] = -1
        if not changed:
            return done + 1
    return rounds


@numba.njit(cache=True, nogil=True)
def _change(
    sum_ptr: Whole,
    sums: Whole,
    step: Numbers,
    up: NDArray[np.bool_],
    error: Numbers,
    square: Numbers,
    absolute: Numbers,
    limits: Numbers,
    i: int,
) -> float:
    move = -step[i] if up[i] else step[i]
    total = 0.0
    for s in range(sum_ptr[i], sum_ptr[i + 1]):
        c = sums[s]
        old, new = error[c], error[c] + move
        total += square[c] * move * (2.0 * old + move) + absolute[c] * (abs(new) - abs(old))
        total += OUTSIDE * (
            max(limits[0, c] - new, new - limits[1, c], 0.0) - max(limits[0, c] - old, old - limits[1, c], 0.0)
        )
    return total


@numba.njit(cache=True, nogil=True)
def _flip(sum_ptr: Whole, sums: Whole, step: Numbers, up: NDArray[np.bool_], error: Numbers, i: int) -> None:
    move = -step[i] if up[i] else step[i]
    up[i] = not up[i]
    for s in range(sum_ptr[i], sum_ptr[i + 1]):
        error[sums[s]] += move
