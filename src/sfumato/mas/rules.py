"""The confidentiality rules: how a universe and a model may be formed, and how large their parts must be."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.mas.answer import Refusal
from sfumato.mas.models.design import FormulaAnalysis
from sfumato.mas.question import Question
from sfumato.mas.register import Register
from sfumato.mas.rule import ConfidentialityRule, CorrelationEvidence, Evidence, ModelEvidence, UniverseEvidence
from sfumato.mas.universe import Selection, along
from sfumato.mas.variable import Variable, need_variable
from sfumato.typing import Flags, Numbers

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

    @override
    def before(self, question: Question, register: Register) -> Refusal | None:
        universe, known = question.universe, question.codebook.variables
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


class SetRule(ConfidentialityRule, abstract=True):
    """A rule that some sets which a universe is made of are large enough.

    Sets of known variables are counted before anything is computed; those with confidential conditions afterwards, by protected
    sums.
    """

    needs: ClassVar[type[Evidence] | None] = UniverseEvidence
    reason: ClassVar[str]
    suggestion: ClassVar[str]
    """The one wording of its refusals."""

    @property
    @abstractmethod
    def fewest(self) -> int:
        """Fewest records, households and establishments of each set."""

    @abstractmethod
    def sets(self, selection: Selection, there: Flags) -> Iterable[Selection]:
        """Return the sets; `there` says which cells of the universe's variables may hold records."""

    def refusal(self) -> Refusal:
        """Return why a universe is refused."""
        return self.refuse(self.reason, self.suggestion)

    @override
    def before(self, question: Question, register: Register) -> Refusal | None:
        selection = question.selection
        there = np.ones(selection.chosen.shape, bool)
        if all(v.known for v in selection.variables) and self._counts_records:
            there = np.asarray(register.cells(selection.variables, Selection((), (np.ones((), bool),)))[0] > 0, bool)
        for one in self.sets(selection, there):
            plain = one.plain
            if all(v.known for v in plain.variables) and any(
                register.count(plain, unit) < self.fewest for unit in ("", *question.codebook.units)
            ):
                return self.refusal()
        return None

    @property
    def _counts_records(self) -> bool:
        """Whether what matters of a universe depends on which cells hold records."""
        return False

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, UniverseEvidence)  # noqa: S101 - what it needs
        selection = evidence.question.selection
        there = np.ones(selection.chosen.shape, bool)
        cells = evidence.cells(selection.variables) if self._counts_records else None
        if cells is not None and cells.shape == there.shape:
            there = np.asarray(cells > 0, bool)
        for one in self.sets(selection, there):
            plain = one.plain
            if not all(v.known for v in plain.variables) and any(
                evidence.count(plain, unit) < self.fewest for unit in ("", *evidence.question.codebook.units)
            ):
                return self.refusal()
        return None


class DifferenceSize(SetRule, abstract=True):
    """A rule about sets by which two universes differ: answers about both could be subtracted."""

    least: int = param(default=20, doc="fewest records of such a set", low=1, integer=True)

    @override
    @property
    def fewest(self) -> int:
        return self.least


class UniverseSize(SetRule):
    """At least Γ records in every part of a universe (section 3.2; ERRATA 1.14).

    The parts of a disjoint universe are its pieces; those of a joint one are the intersections of pieces that are not empty,
    and the pieces that are in none. Levels are combined within a part.
    """

    reason = "A part of the universe is too small."
    suggestion = "Choose more levels, or fewer conditions."
    gamma: int = param(default=75, doc="fewest records of each part (Γ)", low=1, integer=True)
    shared: str = param(
        default="records", choices=("records", "levels"),
        doc="what pieces must have in common to be joint: records, as printed, or levels, which tells nothing of who is there",
    )  # fmt: skip

    @override
    def words(self) -> str:
        return f"Every piece of a universe, and what pieces share, has at least {self.gamma} records."

    @override
    @property
    def fewest(self) -> int:
        return self.gamma

    @override
    def sets(self, selection: Selection, there: Flags) -> Iterator[Selection]:
        return parts_of(selection, selection.chosen & there)

    @override
    @property
    def _counts_records(self) -> bool:
        return self.shared == "records"


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


class LevelSize(DifferenceSize):
    """A level with few records of the universe could be taken out of it, and the answers subtracted (MAS.md, "hardened")."""

    reason = "A chosen level holds too few records of the universe."
    suggestion = "Leave rare levels out, or choose more of others."
    least: int = param(default=20, doc="fewest records of the universe in each chosen level", low=1, integer=True)

    @override
    def words(self) -> str:
        return f"Every level that is chosen holds at least {self.least} records of the universe."

    @override
    def sets(self, selection: Selection, there: Flags) -> Iterator[Selection]:
        return slices_of(selection.plain)


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


class LeftOut(DifferenceSize):
    """A condition that leaves few records out gives a universe whose answers differ from those without it by these few.

    Conditions are those of the chosen cells, however they were written: the same universe, the same decision.
    """

    reason = "A condition of the universe leaves too few records out."
    suggestion = "Leave that condition out, or choose fewer levels in it."
    least: int = param(default=20, doc="fewest records that a condition leaves out", low=1, integer=True)

    @override
    def words(self) -> str:
        return f"What each condition of a universe leaves out has at least {self.least} records."

    @override
    def sets(self, selection: Selection, there: Flags) -> Iterator[Selection]:
        return left_out_by(selection.plain)


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


class PieceDifference(DifferenceSize):
    """Each piece minus any other is large enough, where it is not empty: the hole that the 75 Rule leaves (ERRATA 1.15).

    Whether it is empty is judged by the levels alone. By the records it would be told who is there: a difference that only one
    known person could be in would be refused if that person is in the data, and allowed if not.
    """

    reason = "Two pieces of the universe differ by too few records."
    suggestion = "Ask about one of them, or write them as one piece."
    least: int = param(default=20, doc="fewest records of a piece that are not in another", low=1, integer=True)

    @override
    def words(self) -> str:
        return f"What a piece of a universe has more than another is nothing, or at least {self.least} records."

    @override
    def sets(self, selection: Selection, there: Flags) -> Iterator[Selection]:
        return differences_of(selection)


def differences_of(selection: Selection) -> Iterator[Selection]:
    """Yield what each piece has that another has not."""
    for one, other in itertools.permutations(selection.pieces, 2):
        if (left := one & ~other).any():
            yield Selection(selection.variables, (left,))


# --- no marginal
# The No Marginal 1 or 2 Rule.


class NoMarginal(ConfidentialityRule):
    """No (m-1)-dimensional total of the table of all levels of a universe's m variables is 1 or 2 (section 3.2; ERRATA 1.13).

    With `cells`, neither a cell of the table of the known variables nor of any of its margins is small, by noisy counts: 0 is
    small as well. Then whether variables may be used together depends on nothing that a user chooses, and is published
    (`Dataset.combinations`).
    """

    needs: ClassVar[type[Evidence] | None] = UniverseEvidence
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

    @override
    def before(self, question: Question, register: Register) -> Refusal | None:
        selection = question.selection.plain if self.cells else question.selection
        fine = self.allows(register, question.codebook.units, selection.variables)
        return None if fine else self._refusal()

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, UniverseEvidence)  # noqa: S101 - what it needs
        table = None if self.cells else evidence.cells(evidence.question.selection.variables)
        if table is None:
            return None  # the known part was looked at before; confidential variables have noise of their own
        small = any(self._small(np.asarray(table.sum(axis=gone))) for gone in range(table.ndim))
        return self._refusal() if small else None

    @override
    def allows(self, register: Register, units: Sequence[str], variables: Sequence[Variable]) -> bool:
        known = tuple(v for v in variables if v.known)
        if not self.cells and len(known) < len(variables):
            return True  # decided by the whole table, afterwards
        sizes = range(len(known) + 1) if self.cells else range(max(len(known) - 1, 0), len(known))
        everybody = Selection((), (np.ones((), bool),))
        for table in (some for size in sizes for some in itertools.combinations(known, size)):
            counts, digests = register.cells(table, everybody)
            if self._small(register.noisy(counts, digests)):
                return False
            if any(self._small(register.units(table, unit)) for unit in units):
                return False
        return True

    def _small(self, noisy: Numbers) -> bool:
        small = noisy < self.most + 0.5
        return bool((small if self.cells else small & (noisy > 0.5)).any())

    def _refusal(self) -> Refusal:
        return self.refuse(
            "These variables together have combinations of levels that too few records share.",
            "Form the universe with fewer variables, or with coarser ones.",
        )


# --- model form
# How a model may be formed: not too many terms, no high interactions (section 3.3).


class ModelForm(ConfidentialityRule):
    """At most so many independent variables, and interactions of at most three: fully interacted models are tables of means."""

    about: ClassVar[tuple[str, ...]] = ("model",)
    predictors: int = param(default=20, doc="most terms of a model besides the intercept", low=1, integer=True)
    interactions: int = param(default=3, doc="most variables that are multiplied in a term", low=1, integer=True)
    intercept: bool = param(default=False, doc="whether a model must have an intercept")

    @override
    def words(self) -> str:
        last = ", and an intercept" if self.intercept else ""
        return f"A model has at most {self.predictors} terms, with products of at most {self.interactions} variables{last}."

    @override
    def before(self, question: Question, register: Register) -> Refusal | None:
        if not isinstance(question.analysis, FormulaAnalysis):
            return None
        terms = question.analysis.terms(question.codebook.variables)
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

    needs: ClassVar[type[Evidence] | None] = ModelEvidence
    about: ClassVar[tuple[str, ...]] = ("model",)
    least: int = param(default=500, doc="fewest complete records", low=1, integer=True)
    per_coefficient: float = param(default=10.0, doc="fewest complete records for each coefficient", low=1)

    @override
    def words(self) -> str:
        return f"A model has at least {self.least} complete records, and {self.per_coefficient:g} for each coefficient."

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, ModelEvidence)  # noqa: S101 - what it needs
        if evidence.n >= max(self.least, self.per_coefficient * evidence.coefficients):
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

    needs: ClassVar[type[Evidence] | None] = ModelEvidence
    about: ClassVar[tuple[str, ...]] = ("model",)
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

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, ModelEvidence)  # noqa: S101 - what it needs
        if not evidence.outcomes >= self.least:
            return self.refuse(
                "A level of the outcome has too few records.", "Choose a larger universe, or a coarser outcome."
            )
        if self.small == "refuse" and not all(n >= self.least for n in evidence.levels.values()):
            return self.refuse(
                "A level of the model, or a combination of levels, has too few records.",
                "Use coarser levels, fewer interactions, or a larger universe.",
            )
        return None


# --- high correlation
# Columns that are nearly the same.


class HighCorrelation(ConfidentialityRule):
    """No two columns of a model, or variables, are correlated more than this: a few records would make the difference."""

    needs: ClassVar[type[Evidence] | None] = CorrelationEvidence
    about: ClassVar[tuple[str, ...]] = ("model", "correlation")
    most: float = param(default=0.99, doc="largest size of a correlation", low=0, high=1)

    @override
    def words(self) -> str:
        return f"No two terms or variables have a correlation of more than {self.most:g}."

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, CorrelationEvidence)  # noqa: S101 - what it needs
        if evidence.correlation <= self.most:
            return None
        return self.refuse("Two terms are nearly the same.", "Leave one of them out.")


# --- leverage
# No record decides a coefficient.


class Leverage(ConfidentialityRule):
    """No record has a larger leverage by the predictors that others may know, rounded up to .001.

    By confidential predictors none is looked at: clipping and noise limit what they can add.
    """

    needs: ClassVar[type[Evidence] | None] = ModelEvidence
    about: ClassVar[tuple[str, ...]] = ("model",)
    most: float = param(default=0.25, doc="largest leverage of a record", low=0, high=1)

    @override
    def words(self) -> str:
        return f"No record has a leverage of more than {self.most:g}."

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, ModelEvidence)  # noqa: S101 - what it needs
        if evidence.leverage <= self.most:
            return None
        return self.refuse(
            "A single record would decide a coefficient.",
            "Leave out a term that is large for very few records, take its logarithm, or choose a larger universe.",
        )


# --- close fit
# A model that fits too well predicts records.


class CloseFit(ConfidentialityRule):
    """R², or McFadden's pseudo-R² of a logistic model, is not too near 1 (section 3.3)."""

    needs: ClassVar[type[Evidence] | None] = ModelEvidence
    about: ClassVar[tuple[str, ...]] = ("model",)
    most: float = param(default=0.95, doc="largest R² or pseudo-R²", low=0, high=1)

    @override
    def words(self) -> str:
        return f"R², or pseudo-R², is at most {self.most:g}."

    @override
    def after(self, evidence: Evidence) -> Refusal | None:
        assert isinstance(evidence, ModelEvidence)  # noqa: S101 - what it needs
        if evidence.fit <= self.most:
            return None
        return self.refuse(
            "The model fits too well: it would predict the outcome of records.",
            "Leave out the terms that predict it nearly exactly.",
        )


# --- amounts
# The cells of a table of amounts: dominance and the p% rule, by noisy sums and public bounds.


class CellRule(ConfidentialityRule, abstract=True):
    """A rule that hides single cells, and never refuses a table.

    It looks at noisy sums, and at the most that a record can add to one. By the contributions themselves, that a sum is hidden
    would tell that somebody in the cell has a large one.
    """

    needs_noise: ClassVar[bool] = True

    @abstractmethod
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        """Return which noisy sums are hidden, if the largest contributions were as large as the bounds allow."""


class Dominance(CellRule):
    """A sum is hidden if its n largest contributions may be more than k percent of it (Hundepool et al. 2012, section 4.2.2)."""

    n: int = param(default=2, doc="how many of the largest are looked at together", low=1, high=10, integer=True)
    k: float = param(default=90.0, doc="most percent of a sum that they may make up", low=0, above=True, high=100)

    @override
    def words(self) -> str:
        return f"A sum or mean of which {self.n} records could make up more than {self.k:g} % is not shown."

    @override
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        return self.n * most > self.k / 100 * sums


class AmountPPercent(CellRule, name="p_percent"):
    """A sum is hidden if the second largest contributor could estimate the largest to within p percent.

    It takes its own value from the sum, and what it has then is too high by what all others gave: the cell is unsafe if that is
    less than p percent of the largest (Hundepool et al. 2012, section 4.2.2).
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True)

    @override
    def words(self) -> str:
        return f"A sum or mean from which a record's value could be estimated to within {self.p:g} % is not shown."

    @override
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        return sums - 2 * most < self.p / 100 * most
