"""The 75 Rule: every part of a universe is large enough."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.selection import Flags, Selection


class UniverseSize(ConfidentialityRule):
    """At least Γ records in every part of a universe (section 3.2; ERRATA 1.14).

    The parts of a disjoint universe are its pieces; those of a joint one are the intersections of pieces that are not empty,
    and the pieces that are in none. Levels are combined within a part.
    """

    gamma: int = param(default=75, doc="fewest records of each part (Γ)", low=1, integer=True)
    shared: str = param(
        default="records", choices=("records", "levels"),
        doc="what pieces must have in common to be joint: records, as printed, or levels, which tells nothing of who is there",
    )  # fmt: skip

    def words(self) -> str:
        """Return what the rule demands."""
        return f"Every piece of a universe, and what pieces share, has at least {self.gamma} records."

    def check(self, question: Question) -> Refusal | None:
        """Count every part."""
        if question.any_small(self.parts(question), self.gamma):
            return self.refuse("A part of the universe is too small.", "Choose more levels, or fewer conditions.")
        return None

    def parts(self, question: Question) -> Iterator[Selection]:
        """Yield the smallest intersections of pieces, and the pieces that are in none."""
        selection = question.selection
        matters: Flags = selection.chosen
        if self.shared == "records":
            matters = matters & (question.dataset.cubes.of(selection.variables).counts > 0)
        return parts_of(selection, matters)


def parts_of(selection: Selection, matters: Flags) -> Iterator[Selection]:
    """Yield the parts to be counted, where some cells matter (those that hold records).

    Every cell is in certain pieces: its pattern. An intersection of pieces is not empty if some cell's pattern contains these
    pieces, and the fewer cells it has the more pieces it is of. So only patterns that no other contains need be counted: every
    other intersection contains one of them, and has as many records or more. There are no more of them than cells.
    """
    members = np.stack([piece[matters] for piece in selection.pieces], axis=-1)
    patterns = np.unique(members, axis=0)
    patterns = patterns[np.argsort(-patterns.sum(axis=1), kind="stable")]
    largest: list[Flags] = []
    for pattern in patterns[patterns.sum(axis=1) > 1]:
        if not any((pattern <= other).all() for other in largest):
            largest.append(pattern)
    for pattern in largest:
        shared = np.logical_and.reduce([p for p, inside in zip(selection.pieces, pattern, strict=True) if inside])
        yield Selection(selection.variables, (shared,))
    joined = np.logical_or.reduce([np.zeros(len(selection.pieces), bool), *largest])
    for piece, inside in zip(selection.pieces, joined, strict=True):
        if not inside:
            yield Selection(selection.variables, (piece,))
