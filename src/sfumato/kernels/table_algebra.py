"""Sets of leaves of a table: elimination, sets as sums of smaller ones, and one of two values for every part."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.typing import Flags, Numbers, Whole

_PRIME = 2**31 - 1
"""Arithmetic is modulo this prime: exact for the small fractions that elimination of sums brings about."""


@numba.njit(cache=True, nogil=True)
def _inverse(a: int) -> int:
    """Return 1/a modulo the prime, by Fermat's little theorem."""
    result, base, power = 1, a % _PRIME, _PRIME - 2
    while power:
        if power & 1:
            result = result * base % _PRIME
        base = base * base % _PRIME
        power >>= 1
    return result


def rows_to_hide(start: Whole, columns: Whole, width: int, order: Whole, sure: int, secret: Whole) -> Flags:
    """Return which rows cannot be known if the secret rows are not to follow from those that are; shape (rows,).

    Rows (0/1, the columns of row i are columns[start[i]:start[i + 1]]) are made known in the order given, each unless a
    secret row would then be a linear combination of known ones. The first `sure` of the order are made known whatever
    follows. A row that follows from known ones is known.
    """
    return np.asarray(_eliminate(start, columns, width, order, sure, secret)[0])


def independent_rows(start: Whole, columns: Whole, width: int) -> Flags:
    """Return which rows (0/1) are no linear combination of those before them, shape (rows,)."""
    order = np.arange(len(start) - 1)
    return np.asarray(_eliminate(start, columns, width, order, len(order), np.zeros(0, np.int64))[1])


@numba.njit(cache=True, nogil=True)
def _eliminate(start: Whole, columns: Whole, width: int, order: Whole, sure: int, secret: Whole) -> tuple[Flags, Flags]:
    """Return which rows give secret ones away, and which are independent of those known before them; see `rows_to_hide`."""
    count = len(secret)
    hide, new_to_it = np.zeros(len(start) - 1, np.bool_), np.zeros(len(start) - 1, np.bool_)
    work = np.zeros((count, width), np.int32)  # the secret rows, reduced by what is known
    filled, users = np.zeros(count, np.int64), np.zeros(width, np.int64)
    for i in range(count):
        for t in range(start[secret[i]], start[secret[i] + 1]):
            work[i, columns[t]] = 1
            users[columns[t]] += 1
            filled[i] += 1
    length = np.zeros(width, np.int64)
    for t in range(len(columns)):
        length[columns[t]] += 1
    first, size = np.zeros(width + 1, np.int64), 0
    pool_at, pool = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    known = 0
    row, support = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for turn in range(len(order)):
        cell = order[turn]
        row[:] = 0
        for t in range(start[cell], start[cell + 1]):
            row[columns[t]] = 1
        for k in range(known):
            factor = row[pool_at[first[k]]]
            if factor:
                for t in range(first[k], first[k + 1]):
                    row[pool_at[t]] = (row[pool_at[t]] + (_PRIME - factor) * pool[t]) % _PRIME
        found, best = 0, -1
        for j in range(width):  # the pivot that the fewest secrets have, and of those the sparsest
            if row[j]:
                support[found] = j
                found += 1
                if best < 0 or users[j] < users[best] or (users[j] == users[best] and length[j] < length[best]):
                    best = j
        if not found:
            continue
        new_to_it[cell] = True
        inverse = _inverse(row[best])
        for s in range(found):
            row[support[s]] = row[support[s]] * inverse % _PRIME
        if turn >= sure and users[best]:
            gives_away = False
            for i in range(count):
                if filled[i] == found and work[i, best]:
                    gives_away, factor = True, work[i, best]
                    for s in range(found):
                        if work[i, support[s]] != factor * row[support[s]] % _PRIME:
                            gives_away = False
                            break
                    if gives_away:
                        break
            if gives_away:
                hide[cell] = True
                continue
        if size + found > len(pool):
            more = max(len(pool), found)
            pool_at = np.concatenate((pool_at, np.zeros(more, np.int64)))
            pool = np.concatenate((pool, np.zeros(more, np.int64)))
        pool_at[size], pool[size] = best, 1
        size += 1
        for s in range(found):
            if support[s] != best:
                pool_at[size], pool[size] = support[s], row[support[s]]
                size += 1
        known += 1
        first[known] = size
        for i in range(count):
            factor = work[i, best]
            if factor:
                for s in range(found):
                    j = support[s]
                    old = work[i, j]
                    new = (old + (_PRIME - factor) * row[j]) % _PRIME
                    if old == 0 and new != 0:
                        filled[i] += 1
                        users[j] += 1
                    elif old != 0 and new == 0:
                        filled[i] -= 1
                        users[j] -= 1
                    work[i, j] = new
    return hide, new_to_it


@numba.njit(cache=True, nogil=True)
def null_space(start: Whole, columns: Whole, width: int) -> Numbers:
    """Return a basis of the vectors that every row (0/1) takes to zero, shape (width, dimension)."""
    rows = len(start) - 1
    users = np.zeros(width, np.int64)
    for t in range(len(columns)):
        users[columns[t]] += 1
    first, size, known = np.zeros(width + 1, np.int64), 0, 0
    pool_at, pool = np.zeros(1024, np.int64), np.zeros(1024)
    row, support = np.zeros(width), np.zeros(width, np.int64)
    pivot = np.zeros(width, np.bool_)
    for i in range(rows):
        row[:] = 0.0
        for t in range(start[i], start[i + 1]):
            row[columns[t]] = 1.0
        for k in range(known):
            factor = row[pool_at[first[k]]]
            if factor != 0.0:
                for t in range(first[k], first[k + 1]):
                    j = pool_at[t]
                    row[j] -= factor * pool[t]
                    if abs(row[j]) < 1e-10:
                        row[j] = 0.0
        found, largest = 0, 0.0
        for j in range(width):
            if row[j] != 0.0:
                support[found] = j
                found += 1
                largest = max(largest, abs(row[j]))
        if not found:
            continue
        best = -1
        for s in range(found):  # the sparsest column among those that are not small
            j = support[s]
            if abs(row[j]) >= 0.5 * largest and (best < 0 or users[j] < users[best]):
                best = j
        if size + found > len(pool):
            more = max(len(pool), found)
            pool_at = np.concatenate((pool_at, np.zeros(more, np.int64)))
            pool = np.concatenate((pool, np.zeros(more)))
        pool_at[size], pool[size] = best, 1.0
        size += 1
        for s in range(found):
            j = support[s]
            if j != best:
                pool_at[size], pool[size] = j, row[j] / row[best]
                size += 1
        pivot[best] = True
        known += 1
        first[known] = size
    basis = np.zeros((width, width - known))
    place = 0
    for j in range(width):
        if not pivot[j]:
            basis[j, place] = 1.0
            place += 1
    for k in range(known - 1, -1, -1):  # later pivots are not in earlier columns, so they are settled first
        at = pool_at[first[k]]
        for t in range(first[k] + 1, first[k + 1]):
            for c in range(width - known):
                basis[at, c] -= pool[t] * basis[pool_at[t], c]
    return basis


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
    up: Flags,
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
    up: Flags,
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
def _flip(sum_ptr: Whole, sums: Whole, step: Numbers, up: Flags, error: Numbers, i: int) -> None:
    move = -step[i] if up[i] else step[i]
    up[i] = not up[i]
    for s in range(sum_ptr[i], sum_ptr[i + 1]):
        error[sums[s]] += move
