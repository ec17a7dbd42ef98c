"""Drop q by definition: every choice of records to drop is written out, in fractions. Slow, and obviously right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, factorial, prod

Drops = Callable[[int], Iterable[tuple[tuple[int, ...], Fraction]]]
"""From n, the sets of records that may be dropped, each with its probability."""
Tables = dict[tuple[int, ...], Fraction]


@dataclass
class Outcome:
    """What an intruder concludes, as probabilities."""

    right: Fraction = Fraction(0)
    wrong: Fraction = Fraction(0)
    largest: Fraction = Fraction(0)


def compositions(total: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Every way to take `total` from so many cells."""
    if cells == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, cells - 1):
            yield (first, *rest)


def printed_4_3_4(proportions: Sequence[Fraction], q: int) -> Fraction:
    """The sum over all sequences, as it is printed."""
    total = Fraction(0)
    for x in compositions(q, len(proportions)):
        ways = Fraction(factorial(q), prod(map(factorial, x)))
        total += ways**2 * prod(p ** (2 * k) for p, k in zip(proportions, x, strict=True))
    return total


def records_of(counts: Sequence[int]) -> list[int]:
    """The cell of each record."""
    return [cell for cell, count in enumerate(counts) for _ in range(count)]


def fixed(q: int) -> Drops:
    """Every set of q records, all alike likely."""

    def drops(n: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        return ((kept, Fraction(1, comb(n, q))) for kept in combinations(range(n), q))

    return drops


def drawn(low: int, high: int) -> Drops:
    """First a number from the range, then as many records."""

    def drops(n: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        for q in range(low, high + 1):
            for kept in combinations(range(n), q):
                yield kept, Fraction(1, comb(n, q) * (high - low + 1))

    return drops


def share(p: Fraction) -> Drops:
    """Each record on its own."""

    def drops(n: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        for q in range(n + 1):
            for kept in combinations(range(n), q):
                yield kept, p**q * (1 - p) ** (n - q)

    return drops


def cell_losses(records: Sequence[int], cells: int, drops: Drops) -> Tables:
    """What each cell loses, with its probability."""
    losses: Tables = defaultdict(Fraction)
    for taken, chance in drops(len(records)):
        lost = [0] * cells
        for record in taken:
            lost[records[record]] += 1
        losses[tuple(lost)] += chance
    return losses


def differences(counts: Sequence[int], sensitive: int, drops: Drops) -> Tables:
    """Every difference table T[U(n) less its drops] − T[U(n − 1) less its drops], with its probability."""
    cells = len(counts)
    fewer = [c - (i == sensitive) for i, c in enumerate(counts)]
    all_losses, fewer_losses = (cell_losses(records_of(c), cells, drops) for c in (counts, fewer))
    found: Tables = defaultdict(Fraction)
    for x, px in all_losses.items():
        for y, py in fewer_losses.items():
            table = tuple((counts[i] - x[i]) - (fewer[i] - y[i]) for i in range(cells))
            found[table] += px * py
    return found


def outcome(counts: Sequence[int], sensitive: int, drops: Drops, pairs: int = 1) -> Outcome:
    """What the intruder concludes about a target in one cell."""
    one = differences(counts, sensitive, drops)
    tables = one
    for _ in range(pairs - 1):
        more: Tables = defaultdict(Fraction)
        for a, pa in tables.items():
            for b, pb in one.items():
                more[tuple(x + y for x, y in zip(a, b, strict=True))] += pa * pb
        tables = more
    result = Outcome()
    occupied = [i for i, c in enumerate(counts) if c]
    for table, chance in tables.items():
        if sorted(table) == [0] * (len(table) - 1) + [1]:
            if table[sensitive] == 1:
                result.right += chance
            else:
                result.wrong += chance
        most = max(table[i] for i in occupied)
        level = [i for i in occupied if table[i] == most]
        result.largest += chance * Fraction(sensitive in level, len(level))
    return result
