"""Columns that are nearly the same."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class HighCorrelation(ConfidentialityRule):
    """No two columns of a model, or variables, are correlated more than this: a few records would make the difference."""

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.99, doc="largest size of a correlation", low=0, high=1)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"No two terms or variables have a correlation of more than {self.most:g}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the largest correlation."""
        if question.results.get("correlation", 0.0) <= self.most:
            return None
        return self.refuse("Two terms are nearly the same.", "Leave one of them out.")
