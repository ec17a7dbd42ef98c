"""The global risk the slow way: loops as the paper prints them, all subsets of the keys, no shortcuts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

Record = Sequence[object]
Weight = Callable[[int, int], float]


def alike(a: Record, b: Record, keys: Sequence[int], rule: str) -> bool:
    """Whether two records look the same on some keys; None is a missing value."""
    if rule == "wildcard":
        return all(a[k] is None or b[k] is None or a[k] == b[k] for k in keys)
    return all(a[k] == b[k] for k in keys)


def matrix(
    original: Sequence[Record], masked: Sequence[Record], align: Sequence[int], keys: Sequence[int], rule: str = "value"
) -> dict[tuple[int, int], int]:
    """The algorithm of section 3: for each masked record that came from an original one."""
    c: dict[tuple[int, int], int] = {}
    for s, origin in enumerate(align):
        if origin < 0:
            continue
        i = sum(alike(masked[s], other, keys, rule) for other in masked)
        j = sum(alike(original[origin], other, keys, rule) for other in original)
        c[i, j] = c.get((i, j), 0) + 1
    return c


def printed_sum(c: dict[tuple[int, int], int], t: int, n: int, w: Weight) -> float:
    """The double sums of (3.3); with w = 1 those of (3.2). A matrix with more rows than columns has no entry past the last."""
    total = 0.0
    for k in range(1, t + 1):
        inner = sum(w(i, k) * c.get((i, k), 0) for i in range(1, k + 1)) if k <= n else 0.0
        inner += sum(w(k, j) * c.get((k, j), 0) for j in range(1, min(k - 1, n) + 1))
        total += inner / k
    for k in range(t + 1, n + 1):
        total += sum(w(i, k) * c.get((i, k), 0) for i in range(1, t + 1)) / k
    return total


def every_subset(
    original: Sequence[Record],
    masked: Sequence[Record],
    align: Sequence[int],
    icf: Sequence[float],
    w: Weight,
    rule: str = "value",
) -> dict[tuple[int, ...], float]:
    """DR_W^v of (3.8) for every non-empty v."""
    n, t = len(original), len(masked)
    keys = range(len(icf))
    out = {}
    for v in (s for size in range(1, len(icf) + 1) for s in itertools.combinations(keys, size)):
        kept = 1.0
        for k in v:
            kept *= 1 - icf[k]
        out[v] = kept * printed_sum(matrix(original, masked, align, v, rule), t, n, w) / (n * w(1, 1))
    return out


def ordered_factor(x: Sequence[float | None], y: Sequence[float | None]) -> float:
    """(2.3) and (2.5) by a double loop; a value that was lost or put in counts 1, one missing in both counts 0."""
    if not x:
        return 0.0
    both = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    lost = sum((a is None) != (b is None) for a, b in zip(x, y, strict=True))
    r = len(both)
    inv = sum(a[0] < b[0] and a[1] > b[1] for a in both for b in both)
    factor = 0.0 if r <= 1 else min(1.0, 4 * inv / (r * (r - 1)))
    return (lost + r * factor) / len(x)


def changed_share(x: Sequence[object], y: Sequence[object]) -> float:
    """(2.6) and (2.7)."""
    return sum(a != b for a, b in zip(x, y, strict=True)) / len(x) if x else 0.0


def zip_factor(x: Sequence[str | None], y: Sequence[str | None], length: int) -> float:
    """(2.8) with the rule for zip codes; missing is the root, and a star stands for a dropped digit."""

    def one(a: str | None, b: str | None) -> float:
        a, b = a or "*" * length, b or "*" * length
        if a == b:
            return 0.0
        k = 0
        while k < length and a[k] == b[k] and a[k] != "*":
            k += 1
        return (length - k) / length

    return sum(one(a, b) for a, b in zip(x, y, strict=True)) / len(x) if x else 0.0


def span(value: object) -> tuple[float, float, bool] | None:
    """Where a number or the label of an interval begins and ends, and whether its end is not in it; None for a missing value."""
    if value is None or value == "*":
        return None
    text = str(value)
    if text.startswith("["):
        low, high = text[1:-1].split(",")
        return float(low), float(high), True
    if text.startswith("<"):
        return -math.inf, float(text[1:]), True
    if text.startswith("≥"):
        return float(text[1:]), math.inf, True
    return float(text), float(text), False


def interval_factor(x: Sequence[object], y: Sequence[object]) -> float:
    """(2.3) and (2.5) by a double loop where released values may be intervals: one is above another if all of it is."""

    def above(p: tuple[float, float, bool], q: tuple[float, float, bool]) -> bool:
        return p[0] >= q[1] if q[2] else p[0] > q[1]

    spans = [(span(a), span(b)) for a, b in zip(x, y, strict=True)]
    both = [(a[0], b) for a, b in spans if a and b]
    lost = sum((a is None) != (b is None) for a, b in spans)
    r = len(both)
    inv = sum(a < b and above(p, q) for a, p in both for b, q in both)
    factor = 0.0 if r <= 1 else min(1.0, 4 * inv / (r * (r - 1)))
    return (lost + r * factor) / len(x) if x else 0.0


def tree_factor(x: Sequence[str | None], y: Sequence[str | None], above: Mapping[str, str]) -> float:
    """(2.8) for a tree whose leaves are all on level 0, given by the label above each label: level where two meet / height."""

    def chain(label: str | None) -> list[str]:
        path = [label or "*"]
        while path[-1] in above:
            path.append(above[path[-1]])
        return path

    height = max(len(chain(label)) for label in above) - 1

    def one(a: str | None, b: str | None) -> float:
        if (a or "*") == (b or "*"):
            return 0.0
        shared = [label for label in chain(a) if label in chain(b)]
        return (height + 1 - len(chain(shared[0]))) / height

    return sum(one(a, b) for a, b in zip(x, y, strict=True)) / len(x) if x else 0.0
