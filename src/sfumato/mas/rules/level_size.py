"""Every level that is chosen holds enough records of the universe."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.selection import Selection, along


class LevelSize(ConfidentialityRule):
    """A level with few records of the universe could be taken out of it, and the answers subtracted (MAS.md, "hardened")."""

    least: int = param(default=20, doc="fewest records of the universe in each chosen level", low=1, integer=True)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"Every level that is chosen holds at least {self.least} records of the universe."

    def check(self, question: Question) -> Refusal | None:
        """Count the universe's records in every chosen level."""
        if question.any_small(slices_of(question.selection.plain), self.least):
            return self.refuse(
                "A chosen level holds too few records of the universe.",
                "Leave rare levels out, or choose more of others.",
            )
        return None


def slices_of(selection: Selection) -> Iterator[Selection]:
    """Yield what a selection has of every level of its variables."""
    chosen = selection.chosen
    for axis, variable in enumerate(selection.variables):
        for level in range(len(variable.levels)):
            flags = chosen & along(np.arange(len(variable.levels)) == level, axis, chosen.ndim)
            if flags.any():
                yield Selection(selection.variables, (flags,))
