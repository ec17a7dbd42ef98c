"""Attribution, slowly: every released record is compared with every target, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sfumato import Microdata, Release
from sfumato.schema import Attribute, Schema

Person = tuple[tuple[Any, ...], Any]
"""Keys and value; None is missing."""
Same = Callable[[Any, Any], bool]
"""Whether a value counts as the truth: same(value, truth)."""
KEYS = ("a", "b")


def microdata(people: Sequence[Person]) -> Microdata:
    numeric = any(isinstance(p[1], float) for p in people)
    columns = {name: pa.array([p[0][i] for p in people], pa.string()) for i, name in enumerate(KEYS)}
    columns["t"] = pa.array([p[1] for p in people], pa.float64() if numeric else pa.string())
    keys = tuple(Attribute(n, "key", "unordered") for n in KEYS)  # type: ignore[arg-type]
    return Microdata(pa.table(columns), Schema((*keys, Attribute("t", "confidential", "unordered"))))  # type: ignore[arg-type]


def release(original: Sequence[Person], released: Sequence[Person], holdout: Sequence[Person] = ()) -> Release:
    made = Release.of(microdata(original), microdata(released))
    return Release(made.original, made.implicates, holdout=microdata(holdout) if holdout else None, aligned=False)


def apart(original: Sequence[Person], released: Sequence[Person]) -> bool:
    """Whether the files have no value of some key in common, though both have some: nobody is looked up by such a key."""
    for i in range(len(KEYS)):
        here, there_ = ({p[0][i] for p in part} - {None} for part in (original, released))
        if here and there_ and not here & there_:
            return True
    return False


def differ(one: tuple[Any, ...], two: tuple[Any, ...], rule: str) -> int:
    """In how many keys two people differ under a rule for missing keys."""
    if rule == "wildcard":
        return sum(x is not None and y is not None and x != y for x, y in zip(one, two, strict=True))
    return sum(x != y for x, y in zip(one, two, strict=True))


def there(people: Sequence[Person], rule: str) -> list[Person]:
    """Those with a value, and with all keys where the rule asks for them."""
    return [p for p in people if p[1] is not None and (rule != "ignored" or None not in p[0])]


def found(keys: tuple[Any, ...], released: Sequence[Person], rule: str, nearest: bool = False) -> list[Any]:
    """The values of the released records that match, or are nearest."""
    far = [differ(keys, p[0], rule) for p in released]
    reach = min(far, default=0) if nearest else 0
    return [p[1] for p, d in zip(released, far, strict=True) if d == reach]


def drawn(truth: Any, values: Sequence[Any], same: Same) -> float:
    return sum(same(v, truth) for v in values) / len(values) if values else math.nan


def guess(values: Sequence[Any], same: Same, median: bool) -> tuple[list[Any], float]:
    """The best guesses (several tie), and the share of the values that agree with them."""
    if median:
        middle = sorted(values)[(len(values) - 1) // 2]
        return [middle], sum(same(v, middle) for v in values) / len(values)
    top = max(values.count(v) for v in values)
    return sorted({v for v in values if values.count(v) == top}), top / len(values)


def best(truth: Any, values: Sequence[Any], same: Same, median: bool) -> float:
    if not values:
        return math.nan
    guesses, _ = guess(values, same, median)
    return sum(same(g, truth) for g in guesses) / len(guesses)


def mean(values: Sequence[float]) -> float | None:
    known = [v for v in values if not math.isnan(v)]
    return sum(known) / len(known) if known else None


def excess(rate: float, baseline: float) -> float:
    return (rate - baseline) / (1 - baseline) if baseline < 1 else 0.0
