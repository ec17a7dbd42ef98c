"""Which values to leave out of rows, so that each row agrees with enough others when a missing value agrees with anything.

What is left out of a row is a set of columns: bit c of a whole number stands for column c.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.kernels.matching import wildcard_sums
from sfumato.typing import Codes, Flags, Numbers, Whole

MOST_COLUMNS = 62
"""As many bits as a whole number has."""
_TRIPLES = 12
"""With more columns than this, at most two values of a row are left out at a time."""
_ROUNDS, _WORK = 1_000, 4_000_000
"""How often a pattern is improved at most, and how many pairs of rows are looked at for it."""


@numba.njit(cache=True, nogil=True, inline="always")
def _differ(codes, a, b, most):  # type: ignore[no-untyped-def]
    """Return the set of columns in which two rows have different values, and how many; counting stops above `most`."""
    found, count = 0, 0
    for c in range(codes.shape[1]):
        one, two = codes[a, c], codes[b, c]
        if one != two and one >= 0 and two >= 0:
            found |= 1 << c
            count += 1
            if count > most:
                break
    return found, count


@numba.njit(cache=True, nogil=True, inline="always")
def _agree(codes, a, b, gaps):  # type: ignore[no-untyped-def]
    """Return whether two rows have the same values outside of a set of columns."""
    for c in range(codes.shape[1]):
        one, two = codes[a, c], codes[b, c]
        if one != two and one >= 0 and two >= 0 and not (gaps >> c) & 1:
            return False
    return True


@numba.njit(cache=True, nogil=True, inline="always")
def _place(found, p):  # type: ignore[no-untyped-def]
    """Return where the sum of a set of one to three columns is kept."""
    at, size = 0, 0
    for c in range(p):
        if (found >> c) & 1:
            at = at * p + c
            size += 1
    return at + (p if size == 2 else 0) + (p + p * p if size == 3 else 0)


@numba.njit(cache=True, nogil=True)
def _near(codes, rows, most):  # type: ignore[no-untyped-def]
    """Return for each of the first rows all others that differ in at most `most` columns, and in which.

    Those of row a are at starts[a] to starts[a + 1]; from middle[a] on they are not among the first rows.
    """
    size = codes.shape[0]
    starts, middle = np.zeros(rows + 1, np.int64), np.zeros(rows, np.int64)
    room = 64 * rows + 1024
    other, columns = np.empty(room, np.int32), np.empty(room, np.int64)
    at = 0
    for a in range(rows):
        if at + size > room:
            room = 2 * room + size
            longer, wider = np.empty(room, np.int32), np.empty(room, np.int64)
            longer[:at], wider[:at] = other[:at], columns[:at]
            other, columns = longer, wider
        for b in range(size):
            if b == rows:
                middle[a] = at
            found, count = _differ(codes, a, b, most)
            if 0 < count <= most:
                other[at], columns[at] = b, found
                at += 1
        if size == rows:
            middle[a] = at
        starts[a + 1] = at
    return starts, middle, other[:at].copy(), columns[:at].copy()


@numba.njit(cache=True, nogil=True, inline="always")
def _lacks(count, amount, limits):  # type: ignore[no-untyped-def]
    """Return by how much an amount of so many rows is below what it has to be."""
    least = limits[min(count, limits.size - 1)]
    return least - amount if amount < least - 1e-9 * abs(least) else 0.0


@numba.njit(cache=True, nogil=True, inline="always")
def _score(e, chosen, price, others, n, amount, state, limits, own, loose, spare, unit):  # type: ignore[no-untyped-def]
    """Return what leaving a set of columns out of row e does for all rows per unit of cost; 0 if row e may not lose it."""
    hidden, lack, counts, held = state
    if price > spare:
        return 0.0
    if lack[e] == 0:
        return others / price
    after = _lacks(counts[e] + n, held[e] + amount, limits)
    if after > 0 and not loose[e] and (hidden[e] | chosen) & ~own[e]:
        return 0.0
    return (others + min(lack[e], lack[e] - after) / unit) / price


@numba.njit(cache=True, nogil=True)
def _best(e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, spare, room):  # type: ignore[no-untyped-def]
    """Return what row e best leaves out too, and what that does for all rows per unit of cost.

    `gain`, `n_sum` and `a_sum` hold, by sets of one to three columns, what rows gain that differ from row e in just these.
    """
    starts, middle, other, columns = near
    hidden, lack, _, _ = state
    gain, n_sum, a_sum = room
    p = cost.size
    gain[:] = 0.0
    n_sum[:] = 0
    a_sum[:] = 0.0
    single = spare < 2 * cost.min()
    for i in range(middle[e], starts[e + 1] if lack[e] > 0 else 0):
        left = columns[i] & ~hidden[e]
        if left == 0 or (single and left & (left - 1)):
            continue
        at = _place(left, p)
        n_sum[at] += sizes[other[i]]
        a_sum[at] += amounts[other[i]]
    for i in range(starts[e], middle[e]):
        u = other[i]
        left = columns[i] & ~(hidden[e] | hidden[u])
        if left == 0 or (single and left & (left - 1)) or (lack[e] == 0 and lack[u] == 0):
            continue
        at = _place(left, p)
        if lack[u] > 0:
            gain[at] += min(lack[u], amounts[e]) / unit
        n_sum[at] += 1
        a_sum[at] += amounts[u]
    best, chosen = 0.0, 0
    square, cube = p, p + p * p
    for a in range(p):
        if (hidden[e] >> a) & 1 or cost[a] > spare:
            continue
        g1, n1, a1 = gain[a], n_sum[a], a_sum[a]
        score = _score(e, 1 << a, cost[a], g1, n1, a1, state, limits, own, loose, spare, unit)
        if score > best * (1 + 1e-12):
            best, chosen = score, 1 << a
        for b in range(a + 1, p if most > 1 else 0):
            price = cost[a] + cost[b]
            if (hidden[e] >> b) & 1 or price > spare:
                continue
            at = square + a * p + b
            g2, n2, a2 = g1 + gain[b] + gain[at], n1 + n_sum[b] + n_sum[at], a1 + a_sum[b] + a_sum[at]
            score = _score(e, 1 << a | 1 << b, price, g2, n2, a2, state, limits, own, loose, spare, unit)
            if score > best * (1 + 1e-12):
                best, chosen = score, 1 << a | 1 << b
            for c in range(b + 1, p if most > 2 else 0):
                if (hidden[e] >> c) & 1 or price + cost[c] > spare:
                    continue
                ac, bc, abc = square + a * p + c, square + b * p + c, cube + (a * p + b) * p + c
                g3 = g2 + gain[c] + gain[ac] + gain[bc] + gain[abc]
                n3 = n2 + n_sum[c] + n_sum[ac] + n_sum[bc] + n_sum[abc]
                a3 = a2 + a_sum[c] + a_sum[ac] + a_sum[bc] + a_sum[abc]
                three = 1 << a | 1 << b | 1 << c
                score = _score(e, three, price + cost[c], g3, n3, a3, state, limits, own, loose, spare, unit)
                if score > best * (1 + 1e-12):
                    best, chosen = score, three
    return best, chosen


@numba.njit(cache=True, nogil=True)
def _own_sets(codes, sizes, amounts, rows, cost, limits):  # type: ignore[no-untyped-def]
    """Return the cheapest set of columns that each of the first rows can leave out to agree with enough others by itself.

    All sets are looked through: for each, the amount of the rows that differ in no other column is the sum over its subsets.
    """
    size, p = codes.shape
    sets = 1 << p
    price = np.zeros(sets)
    for t in range(sets):
        for c in range(p):
            if (t >> c) & 1:
                price[t] += cost[c]
    order = np.argsort(price)
    own = np.zeros(rows, np.int64)
    n, total = np.zeros(sets, np.int64), np.zeros(sets)
    for e in range(rows):
        n[:] = 0
        total[:] = 0.0
        for x in range(size):
            found, _ = _differ(codes, e, x, p)
            n[found] += sizes[x]
            total[found] += amounts[x]
        for c in range(p):
            for t in range(sets):
                if (t >> c) & 1:
                    n[t] += n[t ^ (1 << c)]
                    total[t] += total[t ^ (1 << c)]
        for t in order:
            if _lacks(n[t], total[t], limits) == 0:
                own[e] = t
                break
    return own


@numba.njit(cache=True, nogil=True)
def _alone(codes, sizes, amounts, e, cost, limits):  # type: ignore[no-untyped-def]
    """Return a cheap set of columns that row e can leave out to agree with enough others: one that makes it agree with a row."""
    size, p = codes.shape
    lefts, prices = np.empty(size, np.int64), np.empty(size)
    chosen = 0
    while True:
        n, total, m = 0, 0.0, 0
        for x in range(size):
            left, price = 0, 0.0
            for c in range(p):
                one, two = codes[e, c], codes[x, c]
                if one != two and one >= 0 and two >= 0 and not (chosen >> c) & 1:
                    left |= 1 << c
                    price += cost[c]
            if left == 0:
                n += sizes[x]
                total += amounts[x]
            else:
                lefts[m], prices[m] = left, price
                m += 1
        if _lacks(n, total, limits) == 0 or m == 0:
            return chosen
        order = np.argsort(prices[:m])
        for i in range(min(m, 32)):
            attempt = lefts[order[i]]
            n, total = 0, 0.0
            for x in range(size):
                if _agree(codes, e, x, chosen | attempt):
                    n += sizes[x]
                    total += amounts[x]
            if _lacks(n, total, limits) == 0:
                return chosen | attempt
        chosen |= lefts[order[0]]


@numba.njit(cache=True, nogil=True)
def _hide(codes, sizes, amounts, rows, e, more, state, limits):  # type: ignore[no-untyped-def]
    """Leave further values out of row e, and count anew which rows agree."""
    hidden, lack, counts, held = state
    before, after = hidden[e], hidden[e] | more
    for x in range(codes.shape[0]):
        if x == e:
            continue
        gaps = hidden[x] if x < rows else 0
        if _agree(codes, e, x, after | gaps) and not _agree(codes, e, x, before | gaps):
            counts[e] += sizes[x]
            held[e] += amounts[x]
            if x < rows:
                counts[x] += sizes[e]
                held[x] += amounts[e]
                lack[x] = _lacks(counts[x], held[x], limits)
    hidden[e] = after
    lack[e] = _lacks(counts[e], held[e], limits)


@numba.njit(cache=True, nogil=True)
def _show(codes, sizes, amounts, rows, e, state, limits):  # type: ignore[no-untyped-def]
    """Bring all values of row e back, and count anew which rows agree."""
    hidden, lack, counts, held = state
    for x in range(codes.shape[0]):
        if x == e:
            continue
        gaps = hidden[x] if x < rows else 0
        if _agree(codes, e, x, hidden[e] | gaps) and not _agree(codes, e, x, gaps):
            counts[e] -= sizes[x]
            held[e] -= amounts[x]
            if x < rows:
                counts[x] -= sizes[e]
                held[x] -= amounts[e]
                lack[x] = _lacks(counts[x], held[x], limits)
    hidden[e] = 0
    lack[e] = _lacks(counts[e], held[e], limits)


@numba.njit(cache=True, nogil=True, inline="always")
def _row_price(found, cost):  # type: ignore[no-untyped-def]
    """Return what a set of columns costs."""
    total = 0.0
    for c in range(cost.size):
        if (found >> c) & 1:
            total += cost[c]
    return total


@numba.njit(cache=True, nogil=True)
def _look(e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room):  # type: ignore[no-untyped-def]
    """Return what row e best leaves out now; see `_best`."""
    spare = budget[e] * (1 + 1e-9) - _row_price(state[0][e], cost)
    if spare <= 0:
        return 0.0, 0
    return _best(e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, spare, room)


@numba.njit(cache=True, nogil=True)
def _cover(codes, sizes, amounts, rows, state, cost, unit, limits, most, near, own, budget, favour, loose):  # type: ignore[no-untyped-def]
    """Leave values out of the first rows, the most useful set for its cost first, until no row lacks anything."""
    hidden, lack, _, _ = state
    starts, middle, other, columns = near
    p = codes.shape[1]
    size = p + (p * p if most > 1 else 0) + (p * p * p if most > 2 else 0)
    room = np.zeros(size), np.zeros(size, np.int64), np.zeros(size)
    score, chosen = np.zeros(rows), np.zeros(rows, np.int64)
    for e in range(rows):
        score[e], chosen[e] = _look(e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room)
        score[e] *= favour[e]
    while True:
        while True:  # scores mostly fall: look again at the one on top until it stays there
            e = int(np.argmax(score))
            if score[e] <= 0:
                break
            before = score[e]
            score[e], chosen[e] = _look(
                e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room
            )
            score[e] *= favour[e]
            if score[e] >= before * (1 - 1e-12):
                break
        if score[e] <= 0:
            e = -1
            for u in range(rows):
                if lack[u] > 0:
                    e = u
                    break
            if e < 0:
                return
            if hidden[e] & ~own[e]:  # it took part in a pattern that did not work out
                _show(codes, sizes, amounts, rows, e, state, limits)
                _hide(codes, sizes, amounts, rows, e, own[e], state, limits)
                loose[e] = False
                for u in range(rows):
                    score[u], chosen[u] = _look(
                        u, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room
                    )
                    score[u] *= favour[u]
                continue
            chosen[e] = own[e]
        more = chosen[e]
        _hide(codes, sizes, amounts, rows, e, more, state, limits)
        score[e], chosen[e] = _look(e, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room)
        score[e] *= favour[e]
        for i in range(starts[e], middle[e]):
            u, left = other[i], columns[i] & ~(hidden[e] | hidden[other[i]])
            if left == 0 or columns[i] & more == 0 or (lack[u] == 0 and lack[e] == 0):
                continue  # its score is no better than before
            score[u], chosen[u] = _look(
                u, near, state, sizes, amounts, cost, unit, limits, most, own, loose, budget, room
            )
            score[u] *= favour[u]


@numba.njit(cache=True, nogil=True)
def _restore(codes, sizes, amounts, rows, state, cost, limits, order):  # type: ignore[no-untyped-def]
    """Bring values back that no row needs to be missing, dear columns first; `order` says which rows first."""
    hidden, _, counts, held = state
    size = codes.shape[0]
    matched = np.empty(size, np.int64)
    for c in np.argsort(-cost):
        for e in order:
            if not (hidden[e] >> c) & 1:
                continue
            m, n, total, free = 0, 0, 0.0, True
            for x in range(size):
                if x == e:
                    continue
                one, two = codes[e, c], codes[x, c]
                gaps = hidden[x] if x < rows else 0
                if one == two or one < 0 or two < 0 or (gaps >> c) & 1:
                    continue  # whether they agree does not depend on this value
                if _agree(codes, e, x, hidden[e] | gaps):
                    n += sizes[x]
                    total += amounts[x]
                    if x < rows:
                        if _lacks(counts[x] - sizes[e], held[x] - amounts[e], limits) > 0:
                            free = False
                            break
                        matched[m] = x
                        m += 1
            if free and _lacks(counts[e] - n, held[e] - total, limits) == 0:
                hidden[e] &= ~(1 << c)
                counts[e] -= n
                held[e] -= total
                for i in range(m):
                    counts[matched[i]] -= sizes[e]
                    held[matched[i]] -= amounts[e]


@numba.njit(cache=True, nogil=True, inline="always")
def _next(seed):  # type: ignore[no-untyped-def]
    """Return the next state of a small generator (Lehmer 1951), and a number in (0, 1): the same search in every run."""
    seed[0] = seed[0] * 48271 % 2147483647
    return seed[0] / 2147483647


@numba.njit(cache=True, nogil=True)
def _price(hidden, cost):  # type: ignore[no-untyped-def]
    """Return what all that is left out costs."""
    total = 0.0
    for found in hidden:
        total += _row_price(found, cost)
    return total


@numba.njit(cache=True, nogil=True)
def _improve(codes, sizes, amounts, rows, state, cost, unit, limits, most, near, own, budget, rounds):  # type: ignore[no-untyped-def]
    """Show some rows' values again, cover anew with other preferences, and keep what is no dearer (ruin and recreate)."""
    hidden, lack, counts, held = state
    seed = np.array([12345], np.int64)
    favour, loose, order = np.ones(rows), np.zeros(rows, np.bool_), np.arange(rows)
    taste, now = cost.copy(), _price(hidden, cost)
    best = now
    top = hidden.copy()
    for turn in range(rounds):
        kept = hidden.copy(), lack.copy(), counts.copy(), held.copy()
        for _ in range(1 + int(_next(seed) * max(2.0, rows * 0.5))):
            _show(codes, sizes, amounts, rows, int(_next(seed) * rows), state, limits)
        for e in range(rows):
            favour[e] = 0.5 + _next(seed)
            loose[e] = _next(seed) < 0.5
        for i in range(rows - 1, 0, -1):
            j = int(_next(seed) * (i + 1))
            order[i], order[j] = order[j], order[i]
        few = 4 if turn % 3 else 1 + 2 * rows  # now and then nearly all is drawn anew
        for _ in range(int(_next(seed) * few)):
            e, c = int(_next(seed) * rows), int(_next(seed) * cost.size)
            if not (hidden[e] >> c) & 1 and _row_price(hidden[e], cost) + cost[c] <= budget[e] * (1 + 1e-9):
                _hide(codes, sizes, amounts, rows, e, 1 << c, state, limits)
        _cover(codes, sizes, amounts, rows, state, cost, unit, limits, most, near, own, budget, favour, loose)
        for c in range(cost.size):
            taste[c] = cost[c] * (0.5 + _next(seed))
        _restore(codes, sizes, amounts, rows, state, taste, limits, order)
        price = _price(hidden, cost)
        if price < best - 1e-9:
            best = price
            top[:] = hidden
        if price <= now + (1e-9 if turn % 4 else cost.max()):
            now = price
        else:
            hidden[:], lack[:], counts[:], held[:] = kept
    hidden[:] = top


def own_sets(codes: Codes, sizes: Whole, amounts: Numbers, rows: int, cost: Numbers, limits: Numbers) -> Whole:
    """Return a cheapest set of columns that each of the first rows can leave out to agree with enough others by itself.

    Shape (rows,). With many columns it is a cheap one of those that make the row agree with some other one.
    """
    if codes.shape[1] <= _TRIPLES:
        return np.asarray(_own_sets(codes, sizes, amounts, rows, cost, limits))
    return np.array([_alone(codes, sizes, amounts, e, cost, limits) for e in range(rows)], np.int64)


def price(sets: Whole, cost: Numbers) -> Numbers:
    """Return what sets of columns cost, shape (rows,)."""
    return np.asarray(as_flags(sets, len(cost)) @ cost, np.float64)


def as_flags(sets: Whole, columns: int) -> Flags:
    """Return which columns are in each set, shape (rows, columns)."""
    return np.asarray((sets[:, None] >> np.arange(columns)) & 1, bool)


def agreeing(codes: Codes, sizes: Whole, amounts: Numbers) -> tuple[Whole, Numbers]:
    """Return how many rows agree with each row wherever both have a value, and their amount; a row agrees with itself."""
    both = wildcard_sums(codes, np.column_stack([sizes, amounts]).astype(np.float64))
    return np.round(both[:, 0]).astype(np.int64), both[:, 1]


def lacking(counts: Whole, held: Numbers, limits: Numbers) -> Numbers:
    """Return by how much amounts of so many rows are below `limits`, by number of rows; the last one holds for all above."""
    least = limits[np.minimum(counts, len(limits) - 1)]
    return np.where(held < least - 1e-9 * np.abs(least), least - held, 0.0)


def wildcard_gaps(
    codes: Codes,
    sizes: Whole,
    amounts: Numbers,
    rows: int,
    cost: Numbers,
    limits: Numbers,
    own: Whole,
    shared: bool = False,
) -> Whole:
    """Return which columns each of the first rows leaves out, so that all of them agree with enough others; shape (rows,).

    `codes` has shape (e, p), -1 is missing, and agrees with anything. Row i stands for `sizes` equal rows that weigh `amounts`
    together; the first `rows` stand for one each. What agrees with a row must weigh at least ``limits[n]``, where n rows agree
    (the last limit holds for more). A row leaves out no more than its set in `own` costs, by `cost` (p,), unless `shared`.
    Greedy: the set that does most for its cost is left out first, then values are shown again that nobody needs missing, and
    small problems are solved many times over with other preferences.
    """
    p = codes.shape[1]
    hidden = np.zeros(rows, np.int64)
    all_counts, all_held = agreeing(codes, sizes, amounts)
    counts, held = all_counts[:rows].copy(), all_held[:rows].copy()
    state = hidden, lacking(counts, held, limits), counts, held
    budget = np.full(rows, cost.sum()) if shared else price(own, cost)
    most = int(min(3 if p <= _TRIPLES else 2, p, budget.max(initial=0) / cost.min() + 1e-9))
    near = _near(codes, rows, most)
    fixed = codes, sizes, amounts, rows, state, cost
    rest = float(amounts[:rows].mean()), limits, most, near, own, budget
    _cover(*fixed, *rest, np.ones(rows), np.zeros(rows, np.bool_))
    _restore(*fixed, limits, np.arange(rows)[::-1].copy())
    _improve(*fixed, *rest, min(_ROUNDS, _WORK // (rows * len(codes))))
    return hidden
