"""Reading pieces of the records for a model: complete records, means and spreads, moved and scaled numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.exact_sums import scale_of
from sfumato.mas.accounts import Sets
from sfumato.mas.models.design import Bounds, Design, Number, expanded
from sfumato.mas.question import Question
from sfumato.mas.universe import Selection
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Numbers

# --- complete
# Which records are complete: a set of its own, whose count and sums have noise of their own.
#
# With the noise of the universe, the difference of two models would have none where one has a variable more: it would tell how
# many lack a value of it, or have one of which there is no logarithm, and what their outcome is.


def restricted_to(question: Question, cells: Mapping[Variable, tuple[int, ...]]) -> Selection:
    """Return the records of the universe that have some levels of some variables."""
    found = question.selection
    for variable, levels in cells.items():
        found = found.joined(one_of(variable, levels))
    return found


def one_of(variable: Variable, levels: tuple[int, ...]) -> Selection:
    """Return the records that have one of some levels of a variable."""
    flags = np.zeros(len(variable.levels), bool)
    flags[list(levels)] = True
    return Selection((variable,), (flags,))


@dataclass(frozen=True, eq=False)
class Complete:
    """The records of a universe that have some of the levels of some variables, and a value of some numbers."""

    question: Question
    levels: Mapping[Variable, tuple[int, ...]]
    numbers: tuple[str, ...]
    """Names of numbers that not every record has."""

    @classmethod
    def of(
        cls, question: Question, numbers: Sequence[tuple[Number, Bounds]], levels: Mapping[Variable, tuple[int, ...]]
    ) -> Complete:
        """Make the set of records that have some numbers and levels; as in tables, where a variable has both."""
        used, names = dict(levels), []
        for number, bounds in numbers:
            if not bounds.gaps:
                continue
            variable = next(v for v in question.dataset.variables.values() if v.numbers == number.column and v.numeric)
            if not number.function and not variable.known and MISSING in variable.levels:
                used.setdefault(variable, non_missing_levels(variable))
            else:
                names.append(number.name)
        return cls(question, used, tuple(sorted(set(names))))

    @property
    def known(self) -> bool:
        """Whether known variables alone say who is one of them."""
        return not self.numbers and all(v.known for v in (*self.question.selection.plain.variables, *self.levels))

    @cached_property
    def key(self) -> bytes:
        """What the noise on their number hangs on."""
        return self.key_within({})

    def key_within(self, cells: Mapping[Variable, tuple[int, ...]]) -> bytes:
        """Return what the noise of those of them hangs on that have some levels, whatever universe they are taken from."""
        found = restricted_to(self.question, self.levels)
        for variable, levels in cells.items():
            found = found.joined(one_of(variable, levels))
        return self.question.key_of(found) + "".join(f"{name} has a value" for name in self.numbers).encode()

    def count(self, n: float, kept: float, about: str = "") -> Sets:
        """Return how many there are, of n that are kept out of so many, as rules and answers see it: scaled back, with noise.

        `about` names another number of records than all of them. It comes as a set for the accounts.
        """
        policy, plain = self.question.policy, self.question.selection.plain
        every = float(self.question.dataset.cubes.of(plain.variables).count(plain))
        scaled = n * (every / kept if policy.scaled and kept else 1.0)
        key = self.key + about.encode()
        noisy = policy.counts.noisy(np.array([scaled]), [key], self.question.secret)
        return Sets(plain, (), (key,), noisy.reshape(()), loss=policy.counts.loss)


def non_missing_levels(variable: Variable) -> tuple[int, ...]:
    """Return the levels of records that have a value."""
    return tuple(i for i, level in enumerate(variable.levels) if level != MISSING)


def near_constant(
    complete: Complete, design: Design, bounds: Sequence[Bounds], moments: ModelMoments, least: float
) -> bool:
    """Return whether a confidential number varies less than if a few records lay at the ends of its range, by noisy counts.

    Whether it varies at all would tell of the one record that is not like the others. Incomes of 500 do, as a rule.
    """
    question = complete.question
    known = {v.numbers for v in question.dataset.variables.values() if v.known}
    for number, bound, spread in zip(design.numbers, bounds, moments.spreads, strict=False):
        if number.column not in known and bound.half > 0:
            records = moments.n * (2 * float(spread) / (bound.high - bound.low)) ** 2
            varied = complete.count(records, moments.kept, f"variation of {number.name}")
            question.looked[varied.keys[0]] = varied
            if float(varied.sizes) < least:
                return True
    return False


def few_of_an_outcome(complete: Complete, moments: ModelMoments, least: float) -> bool:
    """Return whether few records have one of the outcomes 0 and 1, by noisy counts."""
    found = []
    for outcome, weight in enumerate(moments.outcomes):
        share = float(weight) / moments.weight if moments.weight else 0.0
        found.append(complete.count(moments.n * share, moments.kept, f"outcome {outcome}"))
        complete.question.looked[found[-1].keys[0]] = found[-1]
    return any(float(one.sizes) < least for one in found)


# --- layout
# Reading pieces of the records for a model: complete records, moved and scaled numbers, weights and outcomes.


Piece = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class LevelOutcome:
    """An outcome of a likelihood model: which of the modelled outcomes each level is."""

    column: str
    titles: tuple[str, ...]
    """Of the modelled outcomes; the first one is the base."""
    place: tuple[int, ...]
    """The outcome of each level; -1 for levels that are left out."""
    binary: Number | None = None
    """A number that is 0 or 1, in place of levels."""

    def values(self, piece: Piece) -> NDArray[np.int64]:
        """Return the outcome of each record, -1 where it has none."""
        if self.binary is None:
            found: NDArray[np.int64] = np.array(self.place, np.int64)[np.asarray(piece[self.column], np.int64)]
            return found
        y = self.binary.values(piece)
        return np.where((y == 0) | (y == 1), np.nan_to_num(y), -1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class CompleteRecords:
    """The complete records of a piece."""

    n: int
    numbers: Numbers
    """Shape (factors, n); a numerical outcome is the last one."""
    codes: tuple[NDArray[Any], ...]
    weights: Numbers | None
    levels: NDArray[np.int64] | None
    """The outcome of each record in a likelihood model."""


@dataclass(frozen=True, eq=False)
class Layout:
    """How a model reads records; small, and sent to where they live."""

    design: Design
    outcome: Number | LevelOutcome
    weighted: bool
    centre: Numbers
    """Shape (factors,), with a numerical outcome last: what is taken off."""
    scale: Numbers
    """What is divided by: powers of two, so that no digit is lost."""
    rest: Numbers
    """What is taken off besides: of a standardised number the digits of the mean that the centre does not hold."""
    turn: Numbers | None = None
    """Shape (columns, columns): applied to the columns, to make nearly dependent ones independent."""

    @property
    def factors(self) -> tuple[Number, ...]:
        """The numbers that are read."""
        return (*self.design.numbers, *([self.outcome] if isinstance(self.outcome, Number) else []))

    @property
    def columns(self) -> list[str]:
        """The columns of the prepared records that are read."""
        names = [*(x.column for x in self.factors), *(c.column for c in self.design.categories)]
        if isinstance(self.outcome, LevelOutcome):
            names.append(self.outcome.column)
        return list(dict.fromkeys([*names, *(["w"] if self.weighted else [])])) or ["r"]

    def read(self, piece: Piece) -> CompleteRecords:
        """Return the complete records of a piece."""
        numbers = self._numbers(piece)
        codes = tuple(np.asarray(piece[c.column]) for c in self.design.categories)
        levels = self.outcome.values(piece) if isinstance(self.outcome, LevelOutcome) else None
        complete = self._complete(numbers, codes, levels)
        weights = np.asarray(piece["w"], np.float64) if self.weighted else None
        if not complete.all():
            numbers, codes = numbers[:, complete], tuple(code[complete] for code in codes)
            weights = None if weights is None else weights[complete]
            levels = None if levels is None else levels[complete]
        numbers -= self.centre[:, None]
        if self.rest.any():
            numbers -= self.rest[:, None]
        numbers /= self.scale[:, None]
        return CompleteRecords(int(complete.sum()), numbers, codes, weights, levels)

    def complete(self, piece: Piece) -> NDArray[np.bool_]:
        """Return which records of a piece are complete."""
        levels = self.outcome.values(piece) if isinstance(self.outcome, LevelOutcome) else None
        codes = [np.asarray(piece[c.column]) for c in self.design.categories]
        return self._complete(self._numbers(piece), codes, levels)

    def _numbers(self, piece: Piece) -> Numbers:
        numbers = np.empty((len(self.factors), len(next(iter(piece.values())))))
        for row, factor in zip(numbers, self.factors, strict=True):
            row[:] = factor.values(piece)
        return numbers

    def _complete(
        self, numbers: Numbers, codes: Sequence[NDArray[Any]], levels: NDArray[np.int64] | None
    ) -> NDArray[np.bool_]:
        complete = np.isfinite(numbers).all(axis=0)
        for category, code in zip(self.design.categories, codes, strict=True):
            if category.missing >= 0:
                complete &= code != category.missing
        if levels is not None:
            complete &= levels >= 0
        return np.asarray(complete, bool)

    def matrix(self, reading: CompleteRecords) -> Numbers:
        """Return the columns of the model, shape (columns, n)."""
        made = self.design.matrix(reading.numbers, reading.codes, reading.n)
        return made if self.turn is None else self.turn @ made

    def only(self, kept: list[int]) -> Layout:
        """Return the layout of some of the columns."""
        return replace(self, design=self.design.only(kept), turn=None)

    def to_user(self, spreads: Numbers) -> Numbers:
        """Return the matrix that takes coefficients of the columns as read to those of the formula; shape (columns, columns).

        `spreads` are what standardise() divides numbers by; their means are taken off when they are read.
        """
        numbers = self.design.numbers
        gain = np.array(
            [s / spread if x.standardised else s for x, s, spread in zip(numbers, self.scale, spreads, strict=False)]
        )
        shift = np.array([0.0 if x.standardised else c for x, c in zip(numbers, self.centre, strict=False)])
        at = {column.key: i for i, column in enumerate(self.design.columns)}
        made = np.zeros((len(at), len(at)))
        for j, column in enumerate(self.design.columns):
            for key, weight in expanded(column, gain, shift).items():
                if weight:
                    made[at[key], j] = weight
        inverse = np.asarray(np.linalg.inv(made), np.float64)
        return inverse if self.turn is None else np.asarray(inverse @ self.turn.T)


def unscaled(design: Design, outcome: Number | LevelOutcome, weighted: bool, middles: Numbers) -> Layout:
    """Return the layout of the first pass: numbers taken from the middle of their ranges."""
    return Layout(design, outcome, weighted, middles, np.ones(len(middles)), np.zeros(len(middles)))


# --- moments
# The first pass: how many records are complete, and means and spreads of numbers, so that later passes keep their digits.


_PASSES = 3
_NEAR = 1e-5
_CONSTANT = 1e-20


@dataclass(frozen=True, eq=False)
class ModelMoments:
    """Sums over the records that are kept; confidential."""

    kept: float
    """Records of the universe that were not dropped."""
    n: float
    """Of these, complete ones."""
    weight: float
    """Sum of weights of complete records; n, where there are none."""
    means: Numbers
    """Shape (factors,); a numerical outcome is the last one."""
    spreads: Numbers
    """Standard deviations, divided by n; 0 for what does not vary."""
    outcomes: Numbers
    """Weight of each outcome of a likelihood model."""


class _FirstPass:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(self, piece: Piece) -> Numbers:
        reading = self.layout.read(piece)
        x, w = reading.numbers, reading.weights
        sums = [x.sum(axis=1), np.square(x).sum(axis=1)] if w is None else [x @ w, np.square(x) @ w]
        total = float(reading.n) if w is None else float(w.sum())
        found = np.zeros(0)
        if reading.levels is not None and isinstance(self.layout.outcome, LevelOutcome):
            found = np.bincount(reading.levels, w, len(self.layout.outcome.titles)).astype(np.float64)
        return np.concatenate([[len(next(iter(piece.values()))), reading.n, total], *sums, found])


def moments_of(question: Question, layout: Layout) -> tuple[ModelMoments, Layout]:
    """Return the moments, and the layout that moves and scales numbers by them, where the model stays the same."""
    m = len(layout.factors)
    centre = layout.centre
    constant: NDArray[np.bool_] = np.zeros(m, bool)
    for _ in range(_PASSES):
        at = replace(layout, centre=centre, scale=np.ones(m))
        sums = question.dataset.warehouse.reduce(_FirstPass(at), at.columns, question.records)
        weight = float(sums[2])
        if not weight > 0:
            break
        first, second = sums[3 : 3 + m] / weight, sums[3 + m : 3 + 2 * m] / weight
        variance = np.maximum(second - first**2, 0)
        far = variance < _NEAR * first**2  # digits were lost: once more, from the mean
        constant = variance <= _CONSTANT * (centre + first) ** 2
        means = centre + first
        if not far.any():
            break
        centre = np.where(far, means, centre)
    if not weight > 0:
        return ModelMoments(float(sums[0]), 0.0, 0.0, layout.centre, np.zeros(m), sums[3 + 2 * m :]), layout
    spreads = np.where(constant, 0.0, np.sqrt(variance))
    movable = np.r_[layout.design.centred(), [layout.design.intercept] * (m - len(layout.design.numbers))].astype(bool)
    standardised = np.array([factor.standardised for factor in layout.factors], bool)
    movable |= standardised  # what is moved by the formula itself
    size = np.where(movable, spreads, np.hypot(means, spreads))
    scale = np.array([scale_of(float(one)) for one in size])
    rest = np.where(standardised, _lost(at.centre, first), 0.0)
    scaled = replace(layout, centre=np.where(movable, means, 0.0), scale=scale, rest=rest)
    return ModelMoments(float(sums[0]), float(sums[1]), weight, means, spreads, sums[3 + 2 * m :]), scaled


def moved_outcome(layout: Layout, moments: ModelMoments) -> Layout:
    """Return a layout that takes the mean off a numerical outcome, and scales what is left."""
    centre, scale = layout.centre.copy(), layout.scale.copy()
    centre[-1], scale[-1] = moments.means[-1], scale_of(float(moments.spreads[-1]))
    return replace(layout, centre=centre, scale=scale)


def _lost(a: Numbers, b: Numbers) -> Numbers:
    """Return what rounding takes from the sum of two numbers (Knuth's two-sum).

    >>> _lost(np.array([1e9]), np.array([2.0**-30]))
    array([9.31322575e-10])
    """
    total = a + b
    of_b = total - a
    return np.asarray((a - (total - of_b)) + (b - of_b))
