"""No record decides a coefficient."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class Leverage(ConfidentialityRule):
    """No record has a larger leverage, the diagonal element of the hat matrix; found by a second pass, rounded up to .001."""

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.25, doc="largest leverage of a record", low=0, high=1)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"No record has a leverage of more than {self.most:g}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the largest leverage."""
        find = question.results.get("leverage")
        if find is None or find() <= self.most:
            return None
        return self.refuse(
            "A single record would decide a coefficient.",
            "Leave out a term that is large for very few records, or take its logarithm.",
        )
