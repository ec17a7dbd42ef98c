"""Indicators of levels need enough records."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class DummySize(ConfidentialityRule):
    """Every indicator of a level, or of levels together, stands for so many records; so does every outcome of a logistic model.

    Smaller ones are absorbed into the intercept with the reference level (section 3.3), and the answer says so; or refused.
    """

    stage: ClassVar[Stage] = "result"
    least: int = param(default=20, doc="fewest records of a level with a coefficient of its own", low=1, integer=True)
    confidential: int | None = param(
        default=None, low=1, integer=True,
        doc="the same where the level, or a number that it is multiplied with, is confidential; none for no difference",
    )  # fmt: skip
    small: str = param(default="absorb", choices=("absorb", "refuse"), doc="what happens to smaller ones")

    def words(self) -> str:
        """Return what the rule demands."""
        what = "absorbed into the reference" if self.small == "absorb" else "refused"
        more = f" ({self.confidential} where something confidential is told by it)" if self.confidential else ""
        return f"A level in a model has at least {self.least} records{more}; smaller ones are {what}."

    def check(self, question: Question) -> Refusal | None:
        """Look at what the layout of the model found, by noisy counts."""
        if question.results.get("small outcomes"):
            return self.refuse(
                "A level of the outcome has too few records.", "Choose a larger universe, or a coarser outcome."
            )
        if question.results.get("flat numbers"):
            return self.refuse(
                "A number of the model hardly varies in this universe.", "Leave it out, or choose a larger universe."
            )
        if self.small == "refuse" and question.results.get("small levels"):
            return self.refuse(
                "A level of the model, or a combination of levels, has too few records.",
                "Use coarser levels, fewer interactions, or a larger universe.",
            )
        return None
