"""One question to one data set under one policy, and the shape of every analysis."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.parameters import Parametric
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.mas.accounts import Sets
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.keying import kept, known_key, records_key
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.rule import Stage
from sfumato.mas.universe import Selection, Universe
from sfumato.mas.variable import Variable, need_variable

if TYPE_CHECKING:
    import altair as alt

    from sfumato.mas.dataset import Dataset

# --- question
# One question to one data set under one policy: what rules and analyses look at.


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


# --- analysis
# The shape of every analysis.


@dataclass(frozen=True)
class Findings:
    """What an analysis gives back: tables of rows, single numbers, and notes; perturbed and rounded."""

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sets: tuple[Sets, ...] = ()
    """The sets of records that the numbers are about, for the accounts."""


class Analysis(Parametric, family="analysis", abstract=True):
    """What a user asks of a universe: a frozen set of parameters, the same in Python, JSON and on the command line."""

    def __post_init__(self) -> None:
        """Check the parameters; "no" would otherwise be true, and 1 another wording of the same question."""
        super().__post_init__()
        for one in dataclasses.fields(self):
            if one.type == "bool" and not isinstance(getattr(self, one.name), bool):
                raise ParameterError(f"{one.name} of {self.name} is true or false.")

    drawn: ClassVar[bool] = False
    """Whether answers have a chart."""

    @abstractmethod
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables that it uses; refuse names that are not there."""

    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables whose levels a table has cells for; none for what is no table."""
        return ()

    @abstractmethod
    def run(self, question: Question) -> Findings | Refusal:
        """Compute on the records that are kept, apply the rules that look at results, perturb and round."""

    @abstractmethod
    def wording(self) -> str:
        """Return the canonical wording: the same for the same question, however it was written."""

    @classmethod
    def chart(cls, answer: Answer) -> alt.TopLevelMixin:
        """Draw an answer of this analysis; refuse, if it has no chart."""
        raise DataError(f"an answer of {cls.name} has no chart. Take its table: answer.frame().")

    def wording_for(self, dataset: Dataset) -> str:
        """Return the canonical wording, where what a data set holds decides what is the same."""
        return self.wording()


def levels_of(names: Sequence[str], known: Mapping[str, Variable]) -> tuple[Variable, ...]:
    """Return variables that have levels, in the order that is asked for."""
    found = []
    for name in names:
        variable = need_variable(name, known)
        if not variable.levels:
            others = [v.name for v in known.values() if v.levels]
            raise DataError(
                f"variable '{name}' has no levels for a side of a table. Those that do: {join_names(others)}."
            )
        found.append(variable)
    return tuple(found)


def numbers_in(name: str, known: Mapping[str, Variable]) -> Variable:
    """Return a variable of numbers."""
    variable = need_variable(name, known)
    if not variable.numeric:
        others = [v.name for v in known.values() if v.numeric]
        raise DataError(f"variable '{name}' does not hold numbers. Those that do: {join_names(others)}.")
    return variable
