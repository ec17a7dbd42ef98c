"""The confidentiality rules: how a universe and a model may be formed, and how large their parts must be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.keying import NOBODY, cell_keys, hashed_key
from sfumato.mas.models.model import FormulaAnalysis
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage
from sfumato.mas.universe import Selection, along
from sfumato.mas.variable import Variable, need_variable
from sfumato.typing import Flags

# --- universe form
# How a universe may be formed: not too many variables, levels of each, and pieces.


class UniverseForm(ConfidentialityRule):
    """At most m variables with at most j selected levels each, counted over the whole universe (section 3.2; ERRATA 1.17)."""

    variables: int = param(default=4, doc="most variables that form a universe (m)", low=1, integer=True)
    levels: int = param(default=8, doc="most levels that are selected of a variable (j)", low=1, integer=True)
    pieces: int | None = param(default=None, doc="most pieces that a universe is a union of", low=1, integer=True)

    @override
    def words(self) -> str:
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


# --- universe size
# The 75 Rule: every part of a universe is large enough.


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

    @override
    def words(self) -> str:
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


# --- level size
# Every level that is chosen holds enough records of the universe.


class LevelSize(ConfidentialityRule):
    """A level with few records of the universe could be taken out of it, and the answers subtracted (MAS.md, "hardened")."""

    least: int = param(default=20, doc="fewest records of the universe in each chosen level", low=1, integer=True)

    @override
    def words(self) -> str:
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


# --- left out
# What each condition leaves out is large enough.


class LeftOut(ConfidentialityRule):
    """A condition that leaves few records out gives a universe whose answers differ from those without it by these few.

    Conditions are those of the chosen cells, however they were written: the same universe, the same decision.
    """

    least: int = param(default=20, doc="fewest records that a condition leaves out", low=1, integer=True)

    @override
    def words(self) -> str:
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


# --- piece difference
# Pieces of a universe that differ do so by enough records.


class PieceDifference(ConfidentialityRule):
    """Each piece minus any other is large enough, where it is not empty: the hole that the 75 Rule leaves (ERRATA 1.15).

    Whether it is empty is judged by the levels alone. By the records it would be told who is there: a difference that only one
    known person could be in would be refused if that person is in the data, and allowed if not.
    """

    least: int = param(default=20, doc="fewest records of a piece that are not in another", low=1, integer=True)

    @override
    def words(self) -> str:
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


# --- no marginal
# The No Marginal 1 or 2 Rule.


_AT_ONCE = 4096
_FAR = 10.0
"""Noise is never so many standard deviations: larger counts need not be looked at."""


class NoMarginal(ConfidentialityRule):
    """No (m-1)-dimensional total of the table of all levels of a universe's m variables is 1 or 2 (section 3.2; ERRATA 1.13).

    With `cells`, neither a cell of the table nor of any of its margins is small, by their noisy counts: 0 is small as well. Then
    whether variables may be used together depends on nothing that a user chooses, and is published (`Dataset.combinations`).
    """

    most: int = param(default=2, doc="the largest total that is forbidden", low=1, integer=True)
    cells: bool = param(
        default=False,
        doc="whether cells and margins of every order count, not only (m-1)-dimensional totals, and 0 is small",
    )

    @override
    def words(self) -> str:
        if self.cells:
            return (
                f"Variables form a universe together only if no combination of their levels has {self.most} records or fewer; "
                "which ones do is decided once for a version of the data, and published."
            )
        totals = " or ".join(str(total) for total in range(1, self.most + 1))
        return f"The table of all levels of a universe's variables has no marginal total of {totals}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the totals of the full table."""
        selection = question.selection.plain if self.cells else question.selection
        if self.allows(question.dataset, question.policy, selection.variables):
            return None
        return self.refuse(
            "These variables together have combinations of levels that too few records share.",
            "Form the universe with fewer variables, or with coarser ones.",
        )

    def allows(self, dataset: Dataset, policy: Policy, variables: Sequence[Variable]) -> bool:
        """Look at the totals of the full table, once for a version of the data."""
        dataset.cubes.of(variables)  # one look at the records: the margins come from it
        sizes = range(len(variables) + 1) if self.cells else range(max(len(variables) - 1, 0), len(variables))
        tables = (some for size in sizes for some in itertools.combinations(variables, size))
        return not any(self._small(dataset, policy, table) for table in tables)

    def _small(self, dataset: Dataset, policy: Policy, table: tuple[Variable, ...]) -> bool:
        about = (self, policy.counts, policy.keyed, tuple(v.name for v in table))
        if about not in dataset.decided:
            dataset.decided[about] = any(
                self._unit_small(dataset, policy, table, unit) for unit in ("", *dataset.units)
            )
        return dataset.decided[about]

    def _unit_small(self, dataset: Dataset, policy: Policy, table: tuple[Variable, ...], unit: str) -> bool:
        counts = dataset.linked.cells(table, unit) if unit else dataset.cubes.of(table).counts
        at = np.flatnonzero(counts <= self.most + _FAR * policy.counts.sd)
        true = counts.reshape(-1)[at].astype(np.float64)
        order = np.argsort(true, kind="stable")
        purpose = f"count of {unit}" if unit else "count"
        for start in range(0, len(order), _AT_ONCE):
            some = order[start : start + _AT_ONCE]
            places = np.array(np.unravel_index(at[some], counts.shape or (1,)), np.int64).T[:, : counts.ndim]
            keys = _keys(dataset, policy, table, places) if policy.counts.sd else [b""] * len(some)
            noisy = policy.counts.noisy(true[some], keys, dataset.secret, purpose)
            small = noisy < self.most + 0.5
            if (small if self.cells else small & (noisy > 0.5)).any():
                return True
        return False


def _keys(dataset: Dataset, policy: Policy, table: tuple[Variable, ...], places: NDArray[np.int64]) -> list[bytes]:
    """Return the keys of cells. Cells that nobody is in have keys of their own here, elsewhere one for all.

    With one key they would all be small, or none: whoever knows which it is could tell an empty cell from one with a person.
    """
    names = "\x1f".join(v.name for v in table)
    keys = cell_keys(dataset.cubes, table, places, policy.keyed)
    return [
        hashed_key(["nobody", names, *map(str, place)]) if key == NOBODY else key
        for key, place in zip(keys, places.tolist(), strict=True)
    ]


# --- model form
# How a model may be formed: not too many terms, no high interactions (section 3.3).


class ModelForm(ConfidentialityRule):
    """At most so many independent variables, and interactions of at most three: fully interacted models are tables of means."""

    stage: ClassVar[Stage] = "analysis"
    predictors: int = param(default=20, doc="most terms of a model besides the intercept", low=1, integer=True)
    interactions: int = param(default=3, doc="most variables that are multiplied in a term", low=1, integer=True)
    intercept: bool = param(default=False, doc="whether a model must have an intercept")

    @override
    def words(self) -> str:
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


# --- model size
# A model needs enough records.


class ModelSize(ConfidentialityRule):
    """At least so many complete records, by their noisy count, and so many for each coefficient."""

    stage: ClassVar[Stage] = "result"
    least: int = param(default=500, doc="fewest complete records", low=1, integer=True)
    per_coefficient: float = param(default=10.0, doc="fewest complete records for each coefficient", low=1)

    @override
    def words(self) -> str:
        return f"A model has at least {self.least} complete records, and {self.per_coefficient:g} for each coefficient."

    def check(self, question: Question) -> Refusal | None:
        """Look at the noisy number of complete records."""
        n, coefficients = question.results.get("n"), question.results.get("coefficients", 0)
        if n is None or n >= max(self.least, self.per_coefficient * coefficients):
            return None
        return self.refuse(
            "There are too few records with all variables of the model.",
            "Choose a larger universe, or leave terms out.",
        )


# --- dummy size
# Indicators of levels need enough records.


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

    @override
    def words(self) -> str:
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


# --- high correlation
# Columns that are nearly the same.


class HighCorrelation(ConfidentialityRule):
    """No two columns of a model, or variables, are correlated more than this: a few records would make the difference."""

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.99, doc="largest size of a correlation", low=0, high=1)

    @override
    def words(self) -> str:
        return f"No two terms or variables have a correlation of more than {self.most:g}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the largest correlation."""
        if question.results.get("correlation", 0.0) <= self.most:
            return None
        return self.refuse("Two terms are nearly the same.", "Leave one of them out.")


# --- leverage
# No record decides a coefficient.


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

    @override
    def words(self) -> str:
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


# --- close fit
# A model that fits too well predicts records.


class CloseFit(ConfidentialityRule):
    """R², or McFadden's pseudo-R² of a logistic model, is not too near 1 (section 3.3)."""

    stage: ClassVar[Stage] = "result"
    most: float = param(default=0.95, doc="largest R² or pseudo-R²", low=0, high=1)

    @override
    def words(self) -> str:
        return f"R², or pseudo-R², is at most {self.most:g}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the fit as rules may see it: from sums with their noise, less what that noise may add."""
        if (fit := question.results.get("fit")) is None or fit <= self.most:
            return None
        return self.refuse(
            "The model fits too well: it would predict the outcome of records.",
            "Leave out the terms that predict it nearly exactly.",
        )
