"""How a universe may be formed: not too many variables, levels of each, and pieces."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.variable import need_variable


class UniverseForm(ConfidentialityRule):
    """At most m variables with at most j selected levels each, counted over the whole universe (section 3.2; ERRATA 1.17)."""

    variables: int = param(default=4, doc="most variables that form a universe (m)", low=1, integer=True)
    levels: int = param(default=8, doc="most levels that are selected of a variable (j)", low=1, integer=True)
    pieces: int | None = param(default=None, doc="most pieces that a universe is a union of", low=1, integer=True)

    def words(self) -> str:
        """Return what the rule demands."""
        pieces = f", in at most {self.pieces} pieces" if self.pieces else ""
        return (
            f"A universe is formed with at most {self.variables} variables, and at most {self.levels} selected levels of "
            f"each{pieces}."
        )

    def check(self, question: Question) -> Refusal | None:
        """Count variables, selected levels and pieces; nothing of the records is looked at."""
        universe, known = question.universe, question.dataset.variables
        for name in universe.variables:
            need_variable(name, known)
        if len(universe.variables) > self.variables:
            return self.refuse(
                f"The universe is formed with more than {self.variables} variables.", "Use fewer variables to form it."
            )
        if self.pieces is not None and len(universe.pieces) > self.pieces:
            return self.refuse(
                f"The universe is a union of more than {self.pieces} pieces.",
                "List several levels of a variable in one piece, or ask about each piece on its own.",
            )
        for name in universe.variables:
            chosen = (choice.among(known[name]) for piece in universe.pieces if (choice := piece.get(name)) is not None)
            if len(set[int]().union(*chosen)) > self.levels:
                return self.refuse(
                    f"More than {self.levels} levels of '{name}' are selected.",
                    "Select fewer levels, use a recode that groups them, or leave the variable out.",
                )
        return None
