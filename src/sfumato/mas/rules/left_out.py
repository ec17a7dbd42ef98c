"""What each condition leaves out is large enough."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.selection import Selection


class LeftOut(ConfidentialityRule):
    """A condition that leaves few records out gives a universe whose answers differ from those without it by these few.

    Conditions are those of the chosen cells, however they were written: the same universe, the same decision.
    """

    least: int = param(default=20, doc="fewest records that a condition leaves out", low=1, integer=True)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"What each condition of a universe leaves out has at least {self.least} records."

    def check(self, question: Question) -> Refusal | None:
        """Count what the universe would have more without a condition."""
        if question.any_small(left_out_by(question.selection.plain), self.least):
            return self.refuse(
                "A condition of the universe leaves too few records out.",
                "Leave that condition out, or choose fewer levels in it.",
            )
        return None


def left_out_by(selection: Selection) -> Iterator[Selection]:
    """Yield what each condition leaves out.

    Given the levels of the other variables, a universe chooses some levels of one: where that is the same choice, it is one
    condition, and leaves out the other levels.
    """
    chosen = selection.chosen
    for axis in range(chosen.ndim):
        lines = np.moveaxis(chosen, axis, 0).reshape(chosen.shape[axis], -1)
        choices, which = np.unique(lines, axis=1, return_inverse=True)
        others = [size for i, size in enumerate(chosen.shape) if i != axis]
        for i, choice in enumerate(choices.T):
            if choice.any() and not choice.all():
                here = (which.ravel() == i).reshape(others)
                left = np.expand_dims(here, 0) & (~choice).reshape([-1, *(1 for _ in others)])
                yield Selection(selection.variables, (np.moveaxis(left, 0, axis),))
