"""One question to one data set under one policy: what rules and analyses look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.accounts import Sets
from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.rule import Stage
from sfumato.mas.secrets import Secret
from sfumato.mas.selection import Selection
from sfumato.mas.set_key import known_key, records_key
from sfumato.mas.subsample import kept
from sfumato.mas.universe import Universe

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Question:
    """A universe and an analysis of a data set, as the policy sees them."""

    dataset: Dataset
    policy: Policy
    universe: Universe
    analysis: Analysis
    results: dict[str, Any] = field(default_factory=dict)
    """What was computed, for the rules that look at results."""
    looked: dict[bytes, Sets] = field(default_factory=dict)
    """The sets that rules have looked at: their checks are charged as answers are."""

    @cached_property
    def selection(self) -> Selection:
        """The cells that the universe chooses."""
        return Selection.of(self.universe, self.dataset.variables)

    @cached_property
    def secret(self) -> Secret:
        """Keyed randomness of the data set."""
        return self.dataset.secret

    @cached_property
    def key(self) -> bytes:
        """What the drops and the noise of the universe hang on."""
        return self.key_of(self.selection)

    def key_of(self, selection: Selection) -> bytes:
        """Return what the noise of any set hangs on, as the policy says."""
        make = records_key if self.policy.keyed == "records" else known_key
        return make(self.dataset.cubes, selection)

    def count(self, selection: Selection) -> float:
        """Return the count of a set as rules may see it: with the noise that an answer about it would have."""
        return self._size(self.key_of(selection), selection.plain)

    def _size(self, key: bytes, plain: Selection) -> float:
        if key not in self.looked:
            true = np.array(float(self.dataset.cubes.of(plain.variables).count(plain)))
            noisy = self.policy.counts.noisy(true.reshape(1), [key], self.secret).reshape(())
            self.looked[key] = self._counted(key, plain, noisy)
        return float(self.looked[key].sizes)

    def _counted(self, key: bytes, plain: Selection, noisy: NDArray[np.float64]) -> Sets:
        """Return one set, as the accounts see a count of it."""
        hidden = any(not v.known for v in plain.variables)
        return Sets(plain, (), (key,), noisy, loss=self.policy.counts.loss, confidential=hidden)

    def any_small(self, sets: Iterable[Selection], least: float) -> bool:
        """Return whether any of some sets has too few records, households or establishments, as rules may see them."""
        listed: dict[bytes, Selection] = {}
        for one in sets:
            key = self.key_of(one)
            listed[key] = one.plain
            if self._size(key, one.plain) < least:
                return True
        return any((self._units(listed, unit) < least).any() for unit in self.dataset.units)

    def _units(self, sets: Mapping[bytes, Selection], unit: str) -> NDArray[np.float64]:
        """Return the noisy numbers of distinct households or establishments of some sets; they are charged as counts are."""
        true = self.dataset.linked.counts(sets, unit)
        noisy = self.policy.counts.noisy(true, list(sets), self.secret, f"count of {unit}")
        for (key, plain), size in zip(sets.items(), noisy, strict=True):
            own = key + unit.encode()
            self.looked[own] = self._counted(own, plain, np.array(size))
        return noisy

    def refused(self, stage: Stage) -> Refusal | None:
        """Return the first refusal of the rules of one stage, or None."""
        for rule in self.policy.rules:
            if rule.stage == stage and (refusal := rule.check(self)) is not None:
                return refusal
        return None

    @cached_property
    def kept(self) -> str:
        """The SQL condition that a record of the universe is kept by the subsample."""
        return kept(self.policy.drop, self)

    @property
    def records(self) -> str:
        """The SQL condition of the records that are computed on: those of the universe that are kept."""
        return f"({self.selection.where()}) AND ({self.kept})"

    @property
    def wording(self) -> str:
        """What the answer is known by: the set of records, as far as drops and noise hang on it, and what is asked of it."""
        return f"{self.key.hex()}|{self.analysis.wording_for(self.dataset)}"

    def to_json(self) -> Mapping[str, Any]:
        """Return the question as the log keeps it."""
        return {
            "dataset": self.dataset.label, "universe": self.universe.to_json(),
            "analysis": self.analysis.name, **self.analysis.to_dict(),
        }  # fmt: skip
