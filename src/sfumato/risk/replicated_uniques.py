"""Replicated uniques: people unique on the keys whose keys are unique in the release as well (Raab, Nowok and Dibben 2024)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.people import check_in_common, check_keys, people_of
from sfumato.charts.words import counted
from sfumato.classes import Classes, Missing, classes_of
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper
from sfumato.errors import NotApplicable
from sfumato.risk.excess import share
from sfumato.risk.keys import RULES, key_names, missing_rule, released_classes
from sfumato.schema import Schema


class ReplicatedUniques(DirectMeasure):
    """The share of original records that are unique on the keys, and match exactly one released record (repU).

    Whoever looks such a person up finds one record, and takes it for the person's: in a synthetic file too, where it is
    nobody's. No alignment is needed. It is about identity; what the record then says is for `Disco`. The snooper knows
    everybody's keys. Per record: 1 if replicated, else 0.
    """

    side: ClassVar[Side] = Side.RISK

    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "replicated uniques"

    @property
    def variant(self) -> str:
        """The rule for missing keys."""
        return RULES[self.missing]

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{share(value)} of the original records are unique on the keys, and unique in the release"

    def of_records(self, values: NDArray[np.float64]) -> float:
        """Return the share of some records that are unique in both files."""
        return float(values.mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records that are unique in both files."""
        names = key_names(outcome, snooper)
        check_keys(outcome, snooper, names)
        released = released_classes(outcome, snooper, self.missing)
        original = self._original(outcome, snooper, names)
        n = int(original.sizes.sum())
        if not n:
            raise NotApplicable("the original file has no record with the keys, so that nobody can be looked up.")
        for i, name in enumerate(names):
            check_in_common(name, *((side.codes[i], side.values[i]) for side in (original, released)))
        found = original.counts_in(replace(released, weights=None))  # records, not what they stand for
        unique = original.matches == 1
        both = unique & (found == 1)

        def count(which: NDArray[np.bool_]) -> int:
            return int(original.sizes[which].sum())

        return self.result(
            count(both) / n,
            f"unique on {', '.join(names)} and found in one released record alone: {count(both):,} of "
            f"{counted(n, 'original record')}",
            details={
                "UiO": count(unique) / n,
                "UiOiS": count(unique & (found > 0)) / n,
                "UiS": float(released.sizes[released.matches == 1].sum()) / float(released.sizes.sum()),
                "records replicated": float(count(both)),
                "records left out": float(original.records - n),
            },
            find_records=lambda: original.per_record(np.asarray(both, np.float64)),
        )

    def _original(self, outcome: Release, snooper: Snooper, names: tuple[str, ...]) -> Classes:
        key = ("original classes", names, self.missing, tuple(sorted(snooper.precision.items())))
        if key not in outcome.memory:
            people = people_of(outcome, snooper, outcome.original, names, None, None)
            outcome.memory[key] = classes_of(people, names, self.missing, None, snooper.precision)
        found: Classes = outcome.memory[key]
        return found
