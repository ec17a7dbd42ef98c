"""Reading pieces of the records for a model: complete records, moved and scaled numbers, weights and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.models.design import Design, expanded
from sfumato.mas.models.numbers import Number, Numbers

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
class Reading:
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

    def read(self, piece: Piece) -> Reading:
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
        return Reading(int(complete.sum()), numbers, codes, weights, levels)

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

    def matrix(self, reading: Reading) -> Numbers:
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
