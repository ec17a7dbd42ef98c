"""How a model may be formed: not too many terms, no high interactions (section 3.3)."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.models.model import FormulaAnalysis
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class ModelForm(ConfidentialityRule):
    """At most so many independent variables, and interactions of at most three: fully interacted models are tables of means."""

    stage: ClassVar[Stage] = "analysis"
    predictors: int = param(default=20, doc="most terms of a model besides the intercept", low=1, integer=True)
    interactions: int = param(default=3, doc="most variables that are multiplied in a term", low=1, integer=True)
    intercept: bool = param(default=False, doc="whether a model must have an intercept")

    def words(self) -> str:
        """Return what the rule demands."""
        last = ", and an intercept" if self.intercept else ""
        return f"A model has at most {self.predictors} terms, with products of at most {self.interactions} variables{last}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the terms."""
        if not isinstance(question.analysis, FormulaAnalysis):
            return None
        terms = question.analysis.terms(question.dataset.variables)
        if len(terms.terms) > self.predictors:
            return self.refuse(f"The model has more than {self.predictors} terms.", "Leave some out.")
        if any(len(term) > self.interactions for term in terms.terms):
            return self.refuse(
                f"The model has an interaction of more than {self.interactions} variables.",
                "Use products of fewer variables.",
            )
        if self.intercept and not terms.intercept:
            return self.refuse("The model has no intercept.", "Leave out the 0 or -1 in the formula.")
        return None
