"""No record decides a coefficient."""

from __future__ import annotations

from typing import ClassVar

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage


class Leverage(ConfidentialityRule):
    """No record has a larger leverage, the diagonal element of the hat matrix; rounded up to .001.

    With a limit to what a confidential value could add, it is that of the columns that others may know (`models.hat`).
    """

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.25, doc="largest leverage of a record", low=0, high=1)
    potential: float | None = param(
        default=None, low=0, high=1, above=True,
        doc="largest leverage that a record could gain by a confidential value, as noisy cross-products say; none for no limit",
    )  # fmt: skip

    def words(self) -> str:
        """Return what the rule demands."""
        more = f", or could gain {self.potential:g} by a confidential value" if self.potential else ""
        return f"No record has a leverage of more than {self.most:g}{more}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the largest leverage."""
        find = question.results.get("leverage")
        gained = question.results.get("potential", 0.0) if self.potential else 0.0
        if gained <= (self.potential or 0.0) and (find is None or find() <= self.most):
            return None
        return self.refuse(
            "A single record would decide a coefficient.",
            "Leave out a term that is large for very few records, take its logarithm, or choose a larger universe.",
        )
