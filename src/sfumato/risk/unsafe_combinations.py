"""Unsafe combinations: values of a few keys that few records have, as μ-Argus looks for them (Willenborg and de Waal 1996)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes, Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import NotApplicable, ParameterError, out_of, unknown_name
from sfumato.risk.key_sets import check_sets, named, set_counts, sets_of
from sfumato.risk.keys import RULES, missing_rule, of_original, released_classes
from sfumato.schema import Schema


class UnsafeCombinations(DirectMeasure):
    """The share of released records that have a rare combination of values of a few keys.

    Every set of up to `dimension` keys is tabulated; a combination of values is unsafe if at most `threshold` records match it,
    or, weighted, at most so many persons by the estimate of the survey weights. With identification `levels` (1 the most
    identifying) the sets are those of μ-Argus: one key of level 1, one more of level 1 or 2, one more of level 1 to 3, and so on.

    Per record: in how many unsafe combinations it takes part. Per group: the share of records that are unsafe on a set of keys.
    """

    side: ClassVar[Side] = Side.RISK

    dimension: int = param(default=3, doc="how many keys are combined at most", low=1, integer=True)
    threshold: float = param(default=2, doc="a combination of at most so many is unsafe", low=0, above=True)
    weighted: bool = param(
        default=False, doc="whether persons are counted by the survey weights, instead of the file's records"
    )
    levels: Mapping[str, int] = param(
        default={},
        doc="identification level of keys, 1 the most identifying; keys without one are left out",
        columns="weights",
        low=1,
        integer=True,
    )
    missing: Missing = missing_rule()

    def validate(self) -> None:
        """Check the flag."""
        if not isinstance(self.weighted, bool):
            raise ParameterError("weighted of unsafe_combinations must be true or false.")

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records in unsafe combinations of {self._keys()}"

    @property
    def variant(self) -> str:
        """What is counted, and the rule for missing keys."""
        return f"{'persons by the survey weights' if self.weighted else 'records'}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records have a combination of {self._keys()} that {self._rare()}"

    def of_records(self, values: NDArray[np.float64]) -> float:
        """Return the share of some records that have an unsafe combination; their values count theirs."""
        return float((values > 0).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Tabulate the sets of keys."""
        if self.weighted and outcome.masked.schema.one("weight") is None:
            raise NotApplicable(
                "counting persons needs survey weights, and the released file has none. "
                "Give a column the role 'weight', or count records with weighted=False."
            )
        found = released_classes(outcome, snooper, self.missing, self.weighted)
        amounts = found.weights if self.weighted and found.weights is not None else found.sizes
        n, unsafe = int(found.sizes.sum()), np.zeros(len(found))
        cells: dict[int, int] = {}
        groups: dict[str, float] = {}
        for places in self._sets(found):
            counts = set_counts(found, places, amounts)
            rare = counts.complete & (counts.matches <= self.threshold * (1 + 1e-12))
            cells[len(places)] = cells.get(len(places), 0) + int(rare.sum())
            here = rare[counts.labels]
            unsafe += here
            groups[named(found.names, places)] = float(found.sizes[here].sum()) / n
        records = int(found.sizes[unsafe > 0].sum())
        return self.result(
            records / n,
            f"{out_of(records, n, ('has', 'have'))} a combination of {self._keys()} that {self._rare()}",
            details={
                "records in unsafe combinations": float(records),
                **{f"unsafe combinations of {k} key{'s' * (k > 1)}": float(count) for k, count in cells.items()},
                "sets of keys": float(len(groups)),
                "records left out": float(found.records - n),
            },
            groups=dict(sorted(groups.items(), key=lambda item: -item[1])),
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, unsafe),
        )

    def _sets(self, found: Classes) -> Iterator[tuple[int, ...]]:
        for name in self.levels:
            if name not in found.names:
                raise NotApplicable(
                    unknown_name("key", name, found.names, "the snooper's keys, which levels are about")
                )
        if not self.levels:
            check_sets(len(found.names), self.dimension, "dimension")
            return sets_of(len(found.names), self.dimension)
        check_sets(len(self.levels), len(set(self.levels.values())), "the number of levels")
        return by_level({i: self.levels[name] for i, name in enumerate(found.names) if name in self.levels})

    def _keys(self) -> str:
        if self.levels:
            return f"{len(set(self.levels.values()))} keys by identification level"
        return "1 key" if self.dimension == 1 else f"up to {self.dimension} keys"

    def _rare(self) -> str:
        whom, verb = ("person", "is estimated to have") if self.weighted else ("record", "has")
        if self.threshold != 1:
            whom, verb = whom + "s", verb.replace("is ", "are ") if self.weighted else "have"
        return f"at most {self.threshold:g} {whom} {verb}"


def by_level(levels: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the sets that identification levels ask for: as many keys as there are levels, the i-th of the i-th level or below.

    >>> list(by_level({0: 1, 1: 2, 2: 3}))
    [(0, 1, 2)]
    >>> list(by_level({0: 1, 1: 1, 2: 2}))
    [(0, 1), (0, 2), (1, 2)]
    """
    steps = sorted(set(levels.values()))
    ordered = sorted(levels, key=lambda i: (levels[i], i))
    for chosen in combinations(ordered, len(steps)):
        if all(levels[i] <= step for i, step in zip(chosen, steps, strict=True)):
            yield tuple(sorted(chosen))
