"""Minimal sets of columns on which a row is unique, and the reciprocal of a negative binomial count."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.lazy import special
from sfumato.typing import Codes, Flags, Numbers, Whole

_MOST_BITS = 2**31
"""Largest number of bits that are kept, one for every candidate and set of columns: they save a look through all sets of a row."""


@numba.njit(cache=True, nogil=True)
def _covered(row, chosen, first, sets, after, bits, slot):  # type: ignore[no-untyped-def]
    """Whether one of the sets found for a row lies within the chosen columns."""
    at = first[row]
    if at >= 0 and bits.shape[1]:
        return bits[slot[row], chosen >> 6] >> np.uint64(chosen & 63) & np.uint64(1) == 1
    while at >= 0:
        if sets[at] & ~chosen == 0:
            return True
        at = after[at]
    return False


@numba.njit(cache=True, nogil=True)
def _refine(rows, live, begins, column, levels, sizes, wildcard, chosen, deeper, found, state):  # type: ignore[no-untyped-def]
    """Split groups of rows by one more column; note the rows that become unique, keep the groups that still have any to find.

    A group holds rows that agree (or may agree) on the columns chosen so far. Only its `live` rows are looked at: those that
    may be unique and have values in all these columns; the others are there to be counted.
    """
    first, rows_of, sets, after, bits, slot, above = state
    count, living, total = np.zeros(levels, np.int64), np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    place, touched = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    alive = np.zeros(rows.size, np.bool_)
    out, out_live = np.empty(rows.size if deeper else 0, np.int32), np.empty(rows.size if deeper else 0, np.bool_)
    out_begins, groups, top = np.zeros(16, np.int64), 0, 0
    for g in range(begins.size - 1):
        start, end = begins[g], begins[g + 1]
        used, absent, absent_total = 0, 0, 0
        for e in range(start, end):
            row = rows[e]
            v = column[row]
            if v == 0 and wildcard:
                absent += 1
                absent_total += sizes[row]
                continue
            if count[v] == 0:
                touched[used] = v
                used += 1
            count[v] += 1
            total[v] += sizes[row]
            alive[e] = live[e] and not _covered(row, chosen, first, sets, after, bits, slot)
            living[v] += alive[e]
        for t in range(used):
            v = touched[t]
            place[v] = -1
            if living[v]:
                if total[v] + absent_total == 1:
                    place[v] = -2
                elif deeper:
                    need = top + count[v] + absent
                    if need > out.size:  # rows without a value belong to every group
                        bigger, bigger_live = np.empty(2 * need, np.int32), np.empty(2 * need, np.bool_)
                        bigger[:top], bigger_live[:top] = out[:top], out_live[:top]
                        out, out_live = bigger, bigger_live
                    if groups + 1 == out_begins.size:
                        more = np.zeros(2 * out_begins.size, np.int64)
                        more[: groups + 1] = out_begins[: groups + 1]
                        out_begins = more
                    place[v] = top
                    top = need
                    groups += 1
                    out_begins[groups] = top
        for e in range(start, end):
            row = rows[e]
            v = column[row]
            if v == 0 and wildcard:
                continue
            if place[v] == -2:
                rows_of[found], sets[found], after[found] = row, chosen, first[row]
                first[row] = found
                found += 1
                for w in range(bits.shape[1]):
                    bits[slot[row], w] |= above[chosen, w]
            elif place[v] >= 0:
                out[place[v]], out_live[place[v]] = row, alive[e]
                place[v] += 1
        for t in range(used):
            v = touched[t]
            if absent and place[v] >= 0:
                for e in range(start, end):
                    if column[rows[e]] == 0:
                        out[place[v]], out_live[place[v]] = rows[e], False
                        place[v] += 1
            count[v] = living[v] = total[v] = 0
    return out[:top], out_live[:top], out_begins[: groups + 1], found


class _UniqueSearch:
    """The sets found so far, and the walk that finds them."""

    def __init__(self, codes: NDArray[np.int32], sizes: Whole, wildcard: bool, live: Flags) -> None:
        columns = [np.ascontiguousarray(codes[:, j] + 1, np.int32) for j in range(codes.shape[1])]
        levels = [int(column.max(initial=0)) + 1 for column in columns]
        # columns of many values come last, hence first on the way down: they leave the smallest groups
        order = np.argsort([len(np.unique(column)) for column in columns], kind="stable")
        self.columns = [(int(j), columns[j], levels[j]) for j in order]
        self.sizes, self.wildcard = sizes, wildcard
        self.first = np.full(len(codes), -1, np.int64)
        self.rows, self.sets, self.after = (np.empty(0, np.int64) for _ in range(3))
        self.found = 0
        self.bits, self.slot, self.above = _bits(live, len(columns))

    def visit(self, group: tuple[Codes, Flags, Whole], chosen: int, below: int, left: int) -> None:
        """Add each column before the `below`-th to the chosen ones, then others before it: every set comes after its subsets."""
        for place in range(below):
            j, column, levels = self.columns[place]
            self._make_room(int(group[1].sum()))
            with_j = chosen | 1 << j
            state = self.first, self.rows, self.sets, self.after, self.bits, self.slot, self.above
            *finer, self.found = _refine(
                *group, column, levels, self.sizes, self.wildcard, with_j, left > 1 and place > 0, self.found, state
            )
            if len(finer[0]):
                self.visit((finer[0], finer[1], finer[2]), with_j, place, left - 1)

    def _make_room(self, more: int) -> None:
        if self.found + more > len(self.sets):
            room = np.empty(2 * (self.found + more), np.int64)
            for name in ("rows", "sets", "after"):
                setattr(self, name, np.concatenate([getattr(self, name)[: self.found], room]))


def _bits(live: Flags, columns: int) -> tuple[NDArray[np.uint64], Whole, NDArray[np.uint64]]:
    """Return room for a bit per live row and set of columns, each row's place in it, and the bits of every set's supersets."""
    slot, count = np.cumsum(live) - 1, int(live.sum())
    if columns > 12 or count << columns > _MOST_BITS:
        return np.zeros((0, 0), np.uint64), slot, np.zeros((0, 0), np.uint64)
    words = max((1 << columns) // 64, 1)
    every = np.arange(1 << columns)
    above = np.zeros((1 << columns, 64 * words), bool)
    above[:, : 1 << columns] = every & every[:, None] == every[:, None]
    packed = np.packbits(above, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return np.zeros((count, words), np.uint64), slot, packed


def minimal_uniques(
    codes: NDArray[np.int32],
    sizes: Whole,
    most: int,
    wildcard: bool = False,
    candidates: Flags | None = None,
) -> tuple[Whole, Whole]:
    """Return all minimal sets of up to `most` columns on which a row is unique: the row and the set of each, shape (m,).

    `codes` (c, p) has distinct rows, -1 for missing, and `sizes` (c,) how often each stands in the file; a set is a whole
    number whose bit j is column j (p up to 62). A row is unique on a set if no other matches it there, minimal if that holds
    on no smaller set within. Missing is a value like others; or, under `wildcard`, it matches anything, and a row is unique
    only where it has values. `candidates` (c,) names the rows that are unique on all columns together, if that is known: no
    other row can be unique on some of them.

    Exact: a walk down the sets on which each comes after its subsets; groups of rows with nothing left to find are dropped.

    Examples
    --------
    >>> rows, sets = minimal_uniques(np.array([[0, 0], [0, 1], [1, 1]], np.int32), np.array([1, 5, 1]), 2)
    >>> sorted(zip(rows.tolist(), sets.tolist()))
    [(0, 2), (2, 1)]
    """
    if codes.shape[1] > 62:
        raise ValueError("at most 62 columns")
    single = sizes == 1
    live = single if candidates is None else single & candidates
    search = _UniqueSearch(codes, np.asarray(sizes, np.int64), wildcard, live)
    if live.any() and most > 0:
        whole = np.arange(len(codes), dtype=np.int32), live, np.array([0, len(codes)], np.int64)
        search.visit(whole, 0, codes.shape[1], most)
    return search.rows[: search.found].copy(), search.sets[: search.found].copy()


_MANY = 20
"""From this number of successes on, both series end soon, whatever p."""


@numba.njit(cache=True, nogil=True)
def _series(f, p):  # type: ignore[no-untyped-def]
    """Add up both integrals in powers of 1 - u: all terms are positive, so nothing cancels.

    p / (p + q u) gives p Σ q^m b_m, and with the logarithm p Σ c_m b_m, where b_m = m! / (f (f + 1) ... (f + m)) is the
    integral of u^(f-1) (1 - u)^m and c_m = q c_(m-1) + (1 - q^m) / m.
    """
    q, b, power, gap, c = 1.0 - p, 1.0 / f, 1.0, 0.0, 0.0
    mean, square = b, 0.0
    for m in range(1, 1000):
        b *= m / (f + m)
        power *= q
        gap = q * gap + p  # 1 - q^m, exact also for tiny p
        c = q * c + gap / m
        mean += power * b
        square += c * b
        if b * m < 1e-17 * square:  # no c is larger than its m
            break
    return p * mean, p * square


@numba.njit(cache=True, nogil=True)
def _moments(counts, shares, dilogarithms, mean, square):  # type: ignore[no-untyped-def]
    for i in range(len(counts)):
        f, p = counts[i], shares[i]
        if f >= _MANY:
            mean[i], square[i] = _series(f, p)
        elif p < 0.5:
            odds = p / (1.0 - p)
            r, s = -odds * np.log(p), odds * dilogarithms[i]
            for k in range(1, f):
                r, s = odds * (1.0 / k - r), odds * (r / k - s)
            mean[i], square[i] = r, s
        else:
            odds = (1.0 - p) / p
            r, s = _series(_MANY, p)
            for k in range(_MANY - 1, f - 1, -1):
                r = 1.0 / k - odds * r
                s = r / k - odds * s
            mean[i], square[i] = r, s


def reciprocal_moments(successes: NDArray[Any], p: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return E[1/F] and E[1/F²] for the number of trials F up to the f-th success, each trial one with probability p.

    `successes` (whole numbers f of at least 1) and `p` (in (0, 1]) have shape (c,), the results too. E[t^F] =
    (p t / (1 - q t))^f with q = 1 - p; dividing by t, integrating over (0, 1), and putting u = p t / (1 - q t) gives

        r_f = E[1/F] = ∫ p u^(f-1) / (p + q u) du = p^f / f · 2F1(f, f; f + 1; q)
        s_f = E[1/F²] = ∫ ln((p + q u) / u) p u^(f-1) / (p + q u) du

    with r_1 = p/q ln(1/p), s_1 = p/q Li2(q), r_(f+1) = p/q (1/f - r_f) and s_(f+1) = p/q (r_f / f - s_f). The steps are
    taken upwards where p/q < 1 and downwards otherwise, so that each shrinks the error; for many successes the series are
    added up. The mean is exact to 15 digits, the mean square to 11 or more.

    >>> mean, _ = reciprocal_moments(np.array([1, 2]), np.array([0.5, 1.0]))
    >>> mean.round(4).tolist()
    [0.6931, 0.5]
    """
    counts = np.ascontiguousarray(successes, dtype=np.int64)
    shares = np.ascontiguousarray(p, dtype=np.float64)
    mean, square = np.empty(len(counts)), np.empty(len(counts))
    _moments(counts, shares, special.spence(shares), mean, square)
    return mean, square
