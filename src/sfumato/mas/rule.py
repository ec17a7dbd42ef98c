"""The shape of every confidentiality rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from sfumato.contract.parameters import Parametric
from sfumato.mas.answer import Refusal

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset
    from sfumato.mas.policy import Policy
    from sfumato.mas.question import Question
    from sfumato.mas.variable import Variable

Stage = Literal["universe", "analysis", "result"]


class ConfidentialityRule(Parametric, family="confidentiality rule", abstract=True):
    """A small object with a decision and a reason.

    Rules of the stages "universe" and "analysis" look before anything is computed, through the counts that the policy lets them
    see; those of the stage "result" look at what was computed, before it is perturbed. A refusal has one wording for each
    kind, and tells no count.
    """

    stage: ClassVar[Stage] = "universe"

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return self.name.replace("_", " ")

    @abstractmethod
    def check(self, question: Question) -> Refusal | None:
        """Return why the question is refused, or None if this rule allows it."""

    def allows(self, dataset: Dataset, policy: Policy, variables: Sequence[Variable]) -> bool:
        """Return whether variables may form universes together: decided once for a version of the data, and published."""
        return True

    @abstractmethod
    def words(self) -> str:
        """Return what the rule demands, in a sentence for users."""

    def refuse(self, reason: str, suggestion: str) -> Refusal:
        """Return a refusal by this rule."""
        return Refusal(self.name, reason, suggestion)
