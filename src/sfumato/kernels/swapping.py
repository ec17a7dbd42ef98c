"""Partners for swapping, draws from transition matrices, and how far rank partners lie apart."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.typing import Integers, Numbers


@numba.njit(cache=True, nogil=True)
def _pairs(queue, label, cell, pool, begins, left, uniforms, pairs, partner):  # type: ignore[no-untyped-def]
    place = np.empty(pool.size, np.int64)
    sizes = np.empty(begins.size - 1, np.int64)
    for c in range(sizes.size):
        sizes[c] = begins[c + 1] - begins[c]
    for i in range(pool.size):
        place[pool[i]] = i
    done = 0
    for i in queue:
        if done == pairs:
            break
        c = label[i]
        if partner[i] != i or sizes[c] == left[cell[i]]:
            continue
        _drop(pool, place, i, begins[c], sizes, c)
        at = int(uniforms[i] * sizes[c])
        while cell[pool[begins[c] + at]] == cell[i]:
            at = (at + 1) % sizes[c]
        j = pool[begins[c] + at]
        _drop(pool, place, j, begins[c], sizes, c)
        left[cell[i]] -= 1
        left[cell[j]] -= 1
        partner[i], partner[j] = j, i
        done += 1


@numba.njit(cache=True, nogil=True, inline="always")
def _drop(pool, place, i, begin, sizes, c):  # type: ignore[no-untyped-def]
    last = pool[begin + sizes[c] - 1]
    pool[place[i]], place[last] = last, place[i]
    sizes[c] -= 1


def pairs_of_different(
    queue: Integers, label: Integers, cell: Integers, pool: Integers, uniforms: Numbers, pairs: int
) -> Integers:
    """Return for each unit the one it is paired with, itself if none; make at most `pairs` pairs.

    Units come in the order of `queue`. Each that is still free is paired with a free unit of the same class (`label`, from 0)
    whose `cell` (class and value, from 0) is another. `pool` holds all units class by class, in random order inside a class:
    the search starts at a random place and goes round, so every candidate has the same chance.
    """
    begins = np.concatenate([[0], np.cumsum(np.bincount(label))]).astype(np.int64)
    partner = np.arange(len(label))
    _pairs(queue, label, cell, pool.copy(), begins, np.bincount(cell), uniforms, pairs, partner)
    return partner


# --- Partners for values in order of rank, none further away than a limit.


@numba.njit(cache=True, nogil=True)
def _shuffle_ties(order, ties, uniforms, shuffled):  # type: ignore[no-untyped-def]
    for r in range(ties.size - 1):
        end = ties[r + 1]
        for i in range(ties[r], end - 1):
            j = i + int(uniforms[order[i]] * (end - i))
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]


def shuffled_ties(order: Integers, ties: Integers, uniforms: Numbers) -> Integers:
    """Return the order with each run of equal values shuffled (Fisher and Yates 1938).

    Run r lies at positions ties[r] to ties[r + 1]; step i of the shuffle takes the number in (0, 1) of unit order[i].
    """
    shuffled = order.copy()
    _shuffle_ties(order, ties, uniforms, shuffled)
    return shuffled


@numba.njit(cache=True, nogil=True)
def _partners(order, begins, limits, uniforms, partner):  # type: ignore[no-untyped-def]
    n = order.size
    # numbers are brought into the order of ranks first, and partners back at the end: memory is then read in streams
    u, other = np.empty(n, np.float64), np.arange(n).astype(np.int32)
    for i in range(n):
        u[i] = uniforms[order[i]]
    pool, place = np.empty(n, np.int32), np.empty(n, np.int32)
    for b in range(begins.size - 1):
        start, count, limit = begins[b], begins[b + 1] - begins[b], limits[b]
        if limit < 1 or count < 2:
            continue
        alone = count  # among an odd number one is left over: any of them, not always the largest
        if count % 2:
            alone = 2 * int(u[start + count - 1] * ((count + 1) // 2))
            count -= 1
            limit = max(limit - 1, 1)  # a window may reach over the one left out; pairs of neighbours never do
        size = 0
        for k in range(min(limit, count)):
            pool[size], place[k] = k, size
            size += 1
        for k in range(count):
            if k + limit < count:
                pool[size], place[k + limit] = k + limit, size
                size += 1
            if place[k] < 0:
                continue
            size = _drop_rank(pool, place, k, size)
            one = start + k + (k >= alone)
            j = pool[int(u[one] * size)]
            size = _drop_rank(pool, place, j, size)
            two = start + j + (j >= alone)
            other[one], other[two] = two, one
    for i in range(n):
        partner[order[i]] = order[other[i]]


@numba.njit(cache=True, nogil=True, inline="always")
def _drop_rank(pool, place, k, size):  # type: ignore[no-untyped-def]
    last = pool[size - 1]
    pool[place[k]], place[last] = last, place[k]
    place[k] = -1
    return size - 1


def partners(order: Integers, begins: Integers, limits: Integers, uniforms: Numbers) -> Integers:
    """Return for each unit the one it exchanges values with (itself if none), at most limits[b] ranks away in its block.

    `order` gives the units from the lowest rank up; block b has the ranks begins[b] to begins[b + 1]. Going up, each unit that
    has no partner yet draws one, by its own number in (0, 1), with equal chances from those above it that have none and are
    within the limit (Moore 1996). The candidates are kept in a pool that each enters and leaves once, so the time is in
    proportion to the number of units. The candidate at the far end of the window is always free, so all units of a block find
    a partner, but one if their number is odd.
    """
    partner = np.arange(len(uniforms))
    _partners(order, begins, limits, uniforms, partner)
    return partner


@numba.njit(cache=True, nogil=True)
def _largest_moves(before, after, ties, begins, run_of, largest):  # type: ignore[no-untyped-def]
    n, changed = before.size, 0
    run = np.empty(n, np.int32)
    for r in range(ties.size - 1):
        run[ties[r] : ties[r + 1]] = r
    for i in range(n):
        run_of[before[i]] = run[i]
    for b in range(begins.size - 1):
        most = 0
        for i in range(begins[b], begins[b + 1]):
            low, high = min(run_of[after[i]], run[i]), max(run_of[after[i]], run[i])
            if low < high:
                changed += 1
                most = max(most, ties[high] - ties[low + 1] + 1)
        largest[b] = most
    return changed


def largest_moves(before: Integers, after: Integers, ties: Integers, begins: Integers) -> tuple[Integers, int]:
    """Return the largest rank move in each block, and how many values moved from one run of equal values to another.

    `before` and `after` are units from the lowest rank up; run r of equal values has the ranks ties[r] to ties[r + 1], block b
    the ranks begins[b] to begins[b + 1], in both. A move from run to run is the distance between the nearest of their ranks, zero
    for a value that stays.
    """
    largest = np.zeros(len(begins) - 1, np.int64)
    run_of = np.empty(int(before.max(initial=-1)) + 1, np.int32)
    changed = _largest_moves(before, after, ties, begins, run_of, largest)
    return largest, int(changed)


@numba.njit(cache=True, nogil=True)
def _sums(m, v, left, right, limit, gradient):  # type: ignore[no-untyped-def]
    n = m.size
    free = np.ones(n)
    apart = pairing = second = third = 0.0
    for k in range(n - 1):
        end = min(k + limit + 1, n)
        total = 0.0
        for s in range(k + 1, end):
            total += free[s]
        if total <= 0.0:
            continue
        chance, keep = free[k], max(1.0 - free[k] / total, 0.0)
        one = two = 0.0
        for s in range(k + 1, end):
            q = free[s] / total
            d = m[k] - m[s]
            spread = max(v[k] + v[s] - 2.0 * left[k] * right[s], 0.0)
            apart += chance * q * (d * d + spread)
            one += q * d * d
            two += q * d * d * d * d
            gradient[k] += 2.0 * chance * q * d
            gradient[s] -= 2.0 * chance * q * d
            # E[X' He_j(X)] over both ends of the pair
            second += chance * q * (m[s] * (m[k] * m[k] - 1.0) + m[k] * (m[s] * m[s] - 1.0))
            third += chance * q * m[k] * m[s] * (m[k] * m[k] + m[s] * m[s] - 6.0)
            free[s] *= keep
        pairing += chance * (two - one * one)
    return apart, pairing, second, third


def partner_sums(m: Numbers, v: Numbers, left: Numbers, right: Numbers, limit: int) -> tuple[Numbers, Numbers]:
    """Return sums over pairs of ranks, and the gradient of the sum of squared distances by rank.

    Going up, each rank that is still free draws a partner with equal chances from the free ones at most `limit` above it. The
    chance that a rank is still free is followed from rank to rank, as if ranks were independent. `m` and `v` are means and
    variances of the ordered values, the covariance of r < s is left[r]·right[s]. The sums are of E(x - x')², of the
    variance of (m - m')² given the lower rank, of x'(x² - 1), and of x'(x³ - 3x).
    """
    gradient = np.zeros(len(m))
    sums = _sums(m, v, left, right, limit, gradient)
    return np.array(sums), gradient


@numba.njit(cache=True, nogil=True)
def _moved(cells, rows, stay, begins, members, cumulative, uniforms, out):  # type: ignore[no-untyped-def]
    for i in range(cells.size):
        out[i] = cells[i]
        if cells[i] < 0:
            continue
        row = rows[i]
        if uniforms[i] < stay[row]:
            continue
        v = (uniforms[i] - stay[row]) / (1.0 - stay[row])
        low, high = begins[row], begins[row + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if v < cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        out[i] = members[low]


def moved(
    cells: Integers,
    rows: Integers,
    stay: Numbers,
    begins: Integers,
    members: Integers,
    cumulative: Numbers,
    uniforms: Numbers,
) -> Integers:
    """Return each record's new cell; a negative cell stays.

    With chance stay[row] a record keeps its cell; else it gets one of members[begins[row]:begins[row + 1]], whose chances add up,
    one after the other, to `cumulative`.
    """
    out = np.empty(len(cells), np.int64)
    _moved(cells, rows, stay, begins, members, cumulative, uniforms, out)
    return out
