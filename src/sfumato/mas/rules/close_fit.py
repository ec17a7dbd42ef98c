"""A model that fits too well predicts records."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class CloseFit(ConfidentialityRule):
    """R², or McFadden's pseudo-R² of a logistic model, is not too near 1 (section 3.3)."""

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.95, doc="largest R² or pseudo-R²", low=0, high=1)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"R², or pseudo-R², is at most {self.most:g}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the fit as rules may see it: from sums with their noise, less what that noise may add."""
        if (fit := question.results.get("fit")) is None or fit <= self.most:
            return None
        return self.refuse(
            "The model fits too well: it would predict the outcome of records.",
            "Leave out the terms that predict it nearly exactly.",
        )
