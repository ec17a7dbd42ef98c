"""Which of the keys serve a snooper best: the subset with the largest product of two numbers.

A subset S of the keys has the value Π(1 - icf_k) · base(S): keys that were changed cost a factor each, and make classes smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Subset = tuple[int, ...]
"""Numbers of the keys, in order."""


@dataclass
class KeySubsets:
    """The values of the subsets of p keys, each worked out once."""

    factors: Sequence[float]
    """icf of each key, from 0 to 1."""
    base: Callable[[Subset], float]
    """What a subset would be worth if no key had been changed."""
    ceiling: Callable[[Subset], float]
    """At least the base of this subset and of all its subsets."""
    growing: bool
    """Whether the base never falls when a key is added."""
    seen: dict[Subset, float] = field(default_factory=dict)
    bounds: dict[Subset, float] = field(default_factory=dict)

    def kept(self, subset: Subset) -> float:
        """Return Π(1 - icf_k) over the subset."""
        return math.prod(1 - self.factors[k] for k in subset)

    def value(self, subset: Subset) -> float:
        """Return what a subset is worth."""
        if subset not in self.seen:
            kept = self.kept(subset)
            self.seen[subset] = kept * self.base(subset) if kept > 0 else 0.0
        return self.seen[subset]

    def bound(self, chosen: Subset, open_: Subset) -> float:
        """Return at least the value of all subsets that have the chosen keys, and any of the open ones."""
        union = tuple(sorted(chosen + open_))
        if union not in self.bounds:
            self.bounds[union] = self.ceiling(union)
        return self.kept(chosen) * self.bounds[union]

    @property
    def useful(self) -> Subset:
        """Keys that were not changed throughout: with one that was, every subset is worth nothing."""
        return tuple(k for k, factor in enumerate(self.factors) if factor < 1)

    def all(self) -> list[Subset]:
        """Return every subset but the empty one."""
        keys = range(len(self.factors))
        return [subset for size in range(1, len(keys) + 1) for subset in itertools.combinations(keys, size)]


def greedy(subsets: KeySubsets) -> Subset:
    """Return a good subset: from all useful keys drop one as long as that helps; or from the best single key add one; the better.

    About p² values are worked out. What is found is the best among its neighbours, not always of all.
    """
    useful = subsets.useful
    if not useful:
        return ()
    down = _climb(subsets, useful, lambda s: [tuple(k for k in s if k != gone) for gone in s] if len(s) > 1 else [])
    best_one = max(((k,) for k in useful), key=subsets.value)
    up = _climb(subsets, best_one, lambda s: [tuple(sorted((*s, k))) for k in useful if k not in s])
    return max(down, up, key=subsets.value)


def _climb(subsets: KeySubsets, start: Subset, neighbours: Callable[[Subset], list[Subset]]) -> Subset:
    here = start
    while steps := neighbours(here):
        best = max(steps, key=subsets.value)
        if subsets.value(best) <= subsets.value(here):
            break
        here = best
    return here


def exact(subsets: KeySubsets) -> Subset:
    """Return a subset of the largest value, by branch and bound; () if all are worth nothing.

    A key with factor 1 is never used. One with factor 0 is always used, but only if the base grows with every key; the paper
    says "for any weights", which is wrong for weights that depend on more than the larger class.
    """
    useful = subsets.useful
    fixed = tuple(k for k in useful if subsets.growing and subsets.factors[k] == 0)
    # keys that cost most are decided first: leaving them in or out changes the bound most
    rest = tuple(sorted((k for k in useful if k not in fixed), key=lambda k: -subsets.factors[k]))
    best = greedy(subsets)

    def explore(chosen: Subset, open_: Subset) -> None:
        nonlocal best
        if not chosen and not open_:
            return
        if subsets.bound(chosen, open_) <= (subsets.value(best) if best else 0.0):
            return
        if not open_:
            if subsets.value(tuple(sorted(chosen))) > (subsets.value(best) if best else 0.0):
                best = tuple(sorted(chosen))
            return
        explore((*chosen, open_[0]), open_[1:])
        explore(chosen, open_[1:])

    explore(fixed, rest)
    return best if best and subsets.value(best) > 0 else ()


def at_most(subsets: KeySubsets) -> float:
    """Return a bound on the value of every subset that needs no search: each uses some key, and pays for it."""
    useful = subsets.useful
    return max((subsets.bound((k,), tuple(o for o in useful if o != k)) for k in useful), default=0.0)
