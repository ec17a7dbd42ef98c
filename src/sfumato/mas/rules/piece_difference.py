"""Pieces of a universe that differ do so by enough records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.selection import Selection


class PieceDifference(ConfidentialityRule):
    """Each piece minus any other is large enough, where it is not empty: the hole that the 75 Rule leaves (ERRATA 1.15).

    Whether it is empty is judged by the levels alone. By the records it would be told who is there: a difference that only one
    known person could be in would be refused if that person is in the data, and allowed if not.
    """

    least: int = param(default=20, doc="fewest records of a piece that are not in another", low=1, integer=True)

    def words(self) -> str:
        """Return what the rule demands."""
        return f"What a piece of a universe has more than another is nothing, or at least {self.least} records."

    def check(self, question: Question) -> Refusal | None:
        """Count every piece without every other."""
        if question.any_small(differences_of(question.selection), self.least):
            return self.refuse(
                "Two pieces of the universe differ by too few records.",
                "Ask about one of them, or write them as one piece.",
            )
        return None


def differences_of(selection: Selection) -> Iterator[Selection]:
    """Yield what each piece has that another has not."""
    for one, other in itertools.permutations(selection.pieces, 2):
        if (left := one & ~other).any():
            yield Selection(selection.variables, (left,))
