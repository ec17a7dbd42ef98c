"""Sets of keys: which there are, and how many records agree on one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes
from sfumato.errors import NotApplicable
from sfumato.kernels.classes import classes

MOST_SETS = 250_000
"""So many sets of keys are looked through at most: all sets of 17 keys, or all of up to five out of 30."""
MOST_KEYS = 62


def check_sets(keys: int, size: int, lower: str) -> None:
    """Refuse, in words, more sets than can be looked through; `lower` says which parameter makes them fewer."""
    count = sum(math.comb(keys, k) for k in range(1, min(size, keys) + 1))
    if keys > MOST_KEYS or count > MOST_SETS:
        raise NotApplicable(
            f"{keys} keys have {count:,} sets of up to {size} keys, but no more than {MOST_SETS:,} sets of {MOST_KEYS} keys are "
            f"looked through. Name fewer keys with Snooper(keys=...), or lower {lower}."
        )


def sets_of(keys: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of up to `size` keys as places, the small ones first."""
    for k in range(1, min(size, keys) + 1):
        yield from combinations(range(keys), k)


def named(names: Sequence[str], places: Sequence[int]) -> str:
    """Return a set of keys in words: "age × sex"."""
    return " × ".join(names[i] for i in places)


@dataclass(frozen=True, eq=False)
class SetCounts:
    """What occurs on a set of keys: g combinations among the c classes by all keys."""

    labels: NDArray[np.int64]
    """Combination of each class, shape (c,)."""
    sizes: NDArray[np.float64]
    """Amount of each combination, shape (g,): its records, or the sum of their weights."""
    matches: NDArray[np.float64]
    """Amount that matches each combination under the rule for missing keys, shape (g,)."""
    complete: NDArray[np.bool_]
    """Whether a combination has a value of every key, shape (g,)."""


def set_counts(found: Classes, places: Sequence[int], amounts: NDArray[Any]) -> SetCounts:
    """Return how the records agree on some of the keys; `amounts` (c,) are the classes' sizes or weights."""
    columns = [found.codes[i] for i in places]
    labels, joined = classes(columns, len(found))
    sizes = np.asarray(np.bincount(labels, amounts, len(joined)), np.float64)
    first = np.empty(len(joined), np.int64)
    first[labels] = np.arange(len(labels))
    codes = np.column_stack([column[first] for column in columns])
    complete: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
    if found.rule != "wildcard" or complete.all():
        return SetCounts(labels, sizes, sizes, np.ones(len(sizes), bool))
    from sfumato.kernels.wildcards import wildcard_sums

    return SetCounts(labels, sizes, wildcard_sums(codes, sizes[:, None])[:, 0], complete)
