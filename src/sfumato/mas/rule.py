"""The shape of every confidentiality rule, and the evidence that rules look at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.contract.parameters import Parametric
from sfumato.mas.answer import Refusal
from sfumato.mas.register import Register
from sfumato.mas.sums import ProtectedCells
from sfumato.mas.universe import Selection
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

if TYPE_CHECKING:
    from sfumato.mas.question import Question


NO_EVIDENCE = "The analysis gave nothing by which this rule can be checked."
"""Why a rule refuses where the evidence that it needs is absent."""


@dataclass(frozen=True)
class Evidence:
    """What a rule looks at after computing: functions of protected sums and known variables, under a type that rules name."""


@dataclass(frozen=True, eq=False)
class UniverseEvidence(Evidence):
    """Noisy counts of the sets that form a universe, where its conditions are confidential; from protected sums."""

    question: Question
    table: ProtectedCells | None
    """Cells of variables of the universe within its known part; None where all its variables are known."""
    units: Mapping[str, float] = field(default_factory=dict)
    """Households and establishments for each record of the known part: a part of it has more for each of its records, not fewer,
    where confidential values do not go by household."""

    def count(self, selection: Selection, unit: str = "") -> float:
        """Return the noisy number of records of a set of the universe's variables, or how many units it has at least."""
        if self.table is None:
            return 0.0
        if unit:
            return self.count(selection) * self.units.get(unit, 0.0)
        plain = selection.plain
        names = [v.name for v in self.table.sides]
        chosen = plain.chosen
        for axis in reversed(
            range(chosen.ndim)
        ):  # a variable that the table has not: the set asks the same of it everywhere
            if plain.variables[axis].name not in names:
                chosen = np.asarray(chosen.any(axis=axis), bool)
        inside = [v.name for v in plain.variables if v.name in names]
        shape = [len(v.levels) if v.name in inside else 1 for v in self.table.sides]
        order = [inside.index(name) for name in names if name in inside]
        return float((self.table.n * chosen.transpose(order).reshape(shape)).sum())

    def cells(self, variables: Sequence[Variable]) -> Numbers | None:
        """Return the noisy table of some variables, recodes among them; None where the evidence has not all of them."""
        if self.table is None or {(v.base or v).name for v in variables} != {v.name for v in self.table.sides}:
            return None
        found = self.table.n
        for v in variables:
            if v.base is not None and all(v.base.name != other.name for other in variables):
                axis = [side.name for side in self.table.sides].index(v.base.name)
                groups = np.arange(len(v.levels))[:, None] == np.array(v.groups)
                found = np.moveaxis(np.tensordot(groups.astype(np.float64), found, (1, axis)), 0, axis)
        return np.asarray(found)


@dataclass(frozen=True)
class ModelEvidence(Evidence):
    """What is known of a model once it is fitted."""

    n: float
    """Noisy number of records."""
    coefficients: int
    """Number of coefficients."""
    levels: Mapping[str, float]
    """Noisy numbers of records behind indicators that have a coefficient, by title."""
    outcomes: float
    """Noisy number of records with the rarest modelled outcome; infinite where the outcome is a number."""
    fit: float
    """R² or pseudo-R², less what noise may add."""
    leverage: float
    """Largest leverage of a record by known predictors; 0 where none is known."""


@dataclass(frozen=True)
class CorrelationEvidence(Evidence):
    """The largest size of a correlation that would be told."""

    correlation: float
    n: float


class ConfidentialityRule(Parametric, family="confidentiality rule", abstract=True):
    """A small object with a decision and a reason.

    A rule looks before anything is computed, at known variables alone (`before`), or after, at evidence (`after`): functions of
    protected sums. So a refusal tells no more than an answer would. A rule that needs evidence refuses where it is absent.
    A refusal has one wording for each kind, and tells no count.
    """

    needs: ClassVar[type[Evidence] | None] = None
    """The evidence that it looks at; the question is refused where an analysis that it is about gives none."""
    about: ClassVar[tuple[str, ...]] = ("table", "model", "correlation", "distribution", "test", "check")
    """The kinds of analysis that it is about."""

    needs_noise: ClassVar[bool] = False
    """Whether it can only be part of a policy with noise on amounts."""

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return self.name.replace("_", " ")

    def before(self, question: Question, register: Register) -> Refusal | None:
        """Return why the question is refused, from known variables alone; None if this rule allows it."""
        return None

    def after(self, evidence: Evidence) -> Refusal | None:
        """Return why the answer is refused, or None; called with the evidence that it needs."""
        return None

    def judged(self, kind: str, evidence: Sequence[Evidence]) -> Refusal | None:
        """Return why an answer of an analysis of some kind is refused; without the evidence that is needed, it always is."""
        if self.needs is None or kind not in self.about:
            return None
        found = [one for one in evidence if isinstance(one, self.needs)]
        if not found:
            return self.refuse(NO_EVIDENCE, "Ask the custodian; another analysis may be answered.")
        return next((refusal for one in found if (refusal := self.after(one)) is not None), None)

    def allows(self, register: Register, units: Sequence[str], variables: Sequence[Variable]) -> bool:
        """Return whether variables may form universes together: a function of known variables, and published."""
        return True

    @abstractmethod
    def words(self) -> str:
        """Return what the rule demands, in a sentence for users."""

    def refuse(self, reason: str, suggestion: str) -> Refusal:
        """Return a refusal by this rule."""
        return Refusal(self.name, reason, suggestion)
