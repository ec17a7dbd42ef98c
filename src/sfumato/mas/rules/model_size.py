"""A model needs enough records."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class ModelSize(ConfidentialityRule):
    """At least so many complete records, by their noisy count, and so many for each coefficient."""

    stage: ClassVar[Stage] = "result"
    least: int = param(default=500, doc="fewest complete records", low=1, integer=True)
    per_coefficient: float = param(default=10.0, doc="fewest complete records for each coefficient", low=1)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"A model has at least {self.least} complete records, and {self.per_coefficient:g} for each coefficient."

    def check(self, question: Question) -> Refusal | None:
        """Look at the noisy number of complete records."""
        n, coefficients = question.results.get("n"), question.results.get("coefficients", 0)
        if n is None or n >= max(self.least, self.per_coefficient * coefficients):
            return None
        return self.refuse(
            "There are too few records with all variables of the model.",
            "Choose a larger universe, or leave terms out.",
        )
