"""Non-uniform entropy: bits of the original that recoding and suppression lose (de Waal and Willenborg 1999)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import DirectMeasure, Need, Release, Score, Side, Snooper
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, SchemaError, listing
from sfumato.schema import Hierarchy, Schema
from sfumato.schema.hierarchy import IntervalHierarchy
from sfumato.schema.hierarchy.base import label_of
from sfumato.utility.compared import Numbers, over_columns, weighted_flag, weights_of
from sfumato.utility.leaves import (
    Codes,
    distinct_pairs,
    each_implicate,
    hierarchies_of,
    key_columns,
    known_mass,
    labels_on,
    paired_codes,
)


class NonUniformEntropy(DirectMeasure):
    """The share of the file's bits that recoding keeps: a value a released as g loses log2(n(g)/n(a)) bits.

    n(a) is how many original records have the value, n(g) how many have one that g stands for, so that merging rare values with
    a frequent one costs little (de Waal and Willenborg 1999; for local recoding Gionis and Tassa 2009). A value that is
    suppressed, or whose record or column is not released, loses log2(n/n(a)); so does a released value that is not true of its
    record, after noise or swapping. A value that was missing before is left out. U = 1 - bits lost / bits in the file, the sum
    over the columns of n times the entropy.
    """

    side: ClassVar[Side] = Side.UTILITY
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "entropy kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """The definition, and whether weights are used."""
        return "non-uniform entropy" + (", weighted" if self.weighted else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss in percent."""
        return f"{digits(100 * (1 - value))} % of the bits lost"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the recoded columns, and the weights where they are used."""
        weight = schema.one("weight")
        return (*(self.over or schema.names(role="key")), *((weight,) if self.weighted and weight else ()))

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Add up the bits that each record loses."""
        names = key_columns(outcome.original, self.over)
        releases = list(each_implicate(outcome))
        if len(outcome.original) and any(
            len(one.masked) and one.matched[0] is not None and not len(one.matched[0]) for one in releases
        ):
            raise NotApplicable(
                "no released record came from an original one, so none can be compared with its own value."
            )
        weights = weights_of(outcome.original, self.weighted)
        count = float(len(outcome.original) if weights is None else weights.sum())
        there = {name: _bits(known_mass(outcome.original, name, self.weighted)) for name in names}
        total = sum(float(bits @ mass) for bits, mass in there.values())
        if not total > 0:
            raise NotApplicable(f"{listing(names)}: nothing varies, so there are no bits to lose.")
        lost = {name: float(np.mean([_lost(one, name, self.weighted) for one in releases])) for name in names}
        value = 1.0 - min(sum(lost.values()) / total, 1.0)  # more is the computer's rounding
        return self.result(
            value,
            f"{digits(sum(lost.values()) / count)} of {digits(total / count)} bits per record lost "
            f"({digits(100 * (1 - value))} %)",
            details={
                "bits per record": total / count,
                "bits lost per record": sum(lost.values()) / count,
                **{f"bits lost of {name}": bits / count for name, bits in lost.items()},
            },
        )


def _bits(mass: Numbers) -> tuple[Numbers, Numbers]:
    """Return how many bits each value tells, log2(n/n(a)), and how many records have it."""
    total = float(mass.sum()) or 1.0
    return np.log2(total / np.where(mass > 0, mass, total)), mass


def _lost(outcome: Release, name: str, weighted: bool) -> float:
    """Return the bits that one column loses."""
    bits, mass = _bits(known_mass(outcome.original, name, weighted))
    if name not in outcome.masked.engine.kinds:
        return float(bits @ mass)
    before, after = paired_codes(outcome, name)
    weights = weights_of(outcome.original, weighted)
    known = before >= 0
    if weights is not None:
        known &= weights > 0
    before, after = before[known], after[known]
    if _both_numbers(outcome, name):
        covered, true = _same(outcome, name, before, after, mass)
    else:
        covered, true = _covered(outcome, name, before, after, mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(true, np.log2(covered[after] / mass[before]), bits[before])
    return float(loss.sum() if weights is None else loss @ weights[known])


def _both_numbers(outcome: Release, name: str) -> bool:
    """Whether a released number stands for itself alone: there is no label to look up."""
    kinds = {data.kind(name) for data in (outcome.original, outcome.masked)}
    return kinds == {Kind.NUMBER} and all(isinstance(h, IntervalHierarchy) for h in hierarchies_of(outcome, name))


def _same(outcome: Release, name: str, before: Codes, after: Codes, mass: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """As `_covered`, where a released number stands for itself."""
    old, new = (
        np.append(np.asarray(data.batch([name]).column(name).ranks[1], np.float64), np.nan)
        for data in (outcome.original, outcome.masked)
    )
    true, covered = old[before] == new[after], np.zeros(len(new))
    covered[after[true]] = mass[before[true]]
    return covered, true


def _levels(hierarchy: Hierarchy | None, released: Sequence[Any]) -> Sequence[int]:
    """Return the levels on which released labels stand; of intervals of many numbers, those that were used."""
    if hierarchy is None:
        return [0]
    if not isinstance(hierarchy, IntervalHierarchy):
        return range(hierarchy.height + 1)
    used = set()
    for label in released:
        with suppress(SchemaError):
            used.add(hierarchy.level_of(label))
    return sorted(used)


def _covered(
    outcome: Release, name: str, before: Codes, after: Codes, mass: Numbers
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return n(g) for each released value, 0 last for missing, and for each record whether its released value is true of it."""
    _, values = outcome.original.batch([name]).column(name).codes
    _, released = outcome.masked.batch([name]).column(name).codes
    covered, true, left = np.zeros(len(released) + 1), np.zeros(len(before), bool), np.ones(len(released), bool)
    for hierarchy in (*hierarchies_of(outcome, name), None):  # the first that knows a label decides
        if not left.any():
            break
        labels = labels_on(hierarchy, released, 0)
        kept = set(labels) - {None} if hierarchy is not None else {label_of(value) for value in values}
        mine = left & np.array([label in kept for label in labels], bool)
        number = {label: i for i, label in enumerate(dict.fromkeys(np.array(labels, object)[mine]))}
        at = np.array([*(number[v] if m else -1 for v, m in zip(labels, mine, strict=True)), -1])
        found, below = np.zeros(len(number)), np.full(len(values), -2)
        for level in _levels(hierarchy, [v for v, m in zip(released, mine, strict=True) if m]):
            here = np.array([number.get(label, -2) for label in labels_on(hierarchy, values, level)], np.int64)
            new = (here >= 0) & (here != below)  # a label may stand on several levels
            found += np.bincount(here[new], mass[new], len(number))
            true |= here[before] == at[after]
            below = here
        covered[:-1][mine] = found[at[:-1][mine]]
        left &= ~mine
    if outcome.masked.kind(name) is Kind.CATEGORY and left.any():
        # labels of a list of old and new values stand for what was released under them
        under = np.append(left, False)[after]
        old, label = distinct_pairs(before[under], after[under], len(released))
        np.add.at(covered, label, mass[old])
        true |= under
    return covered, true
