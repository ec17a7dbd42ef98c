"""What distances between distributions share: one loss for each column, their mean, and the worst column in words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, ParameterError, listing, some
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.compared import COMPARED, PLAIN, compared_columns, over_columns, weighted_flag


class Columnwise(DirectMeasure, abstract=True):
    """U = 1 - the mean over columns of a distance between the original's and the release's distribution of the column.

    The two files are compared as a whole, so records need not be aligned. A column that was not released loses 1, as do all of
    a release without records. Of several implicates the mean is taken.
    """

    side: ClassVar[Side] = Side.UTILITY
    distance: ClassVar[str]
    """What the loss is called."""
    unit: ClassVar[str] = ""
    kinds: ClassVar[frozenset[Kind]] = PLAIN

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    @abstractmethod
    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return the loss of one column that both files have, where the original has something to compare."""

    def has_values(self, original: Microdata, name: str) -> bool:
        """Whether the original has something to compare in a column; else the column is left out, released or not."""
        return True

    def validate(self) -> None:
        """Refuse a flag that is neither true nor false."""
        check_weighted(self.name, self.weighted)

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"1 - {self.distance}" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """Whether survey weights are used."""
        return "weighted" if self.weighted else ""

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss."""
        return f"the mean {self.distance} is {digits(1 - value)}{self.unit}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns, and the weights."""
        return looked_at(schema, self.over, self.weighted)

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare column by column."""
        names = compared_columns(outcome.original, self.over, self.kinds)
        check_files(outcome, self.weighted)
        losses = {name: self._loss(outcome, name) for name in names if self.has_values(outcome.original, name)}
        if not losses:
            raise DataError(f"{listing(names)}: no value is known in the original, so there is nothing to compare.")
        return self._score(losses)

    def _loss(self, outcome: Release, name: str) -> float:
        """Return the mean over implicates of a column's loss."""
        return float(np.mean([self._one(outcome.original, released, name) for released in outcome.implicates]))

    def _one(self, original: Microdata, released: Microdata, name: str) -> float:
        gone = name not in released.engine.kinds or not len(released)
        return 1.0 if gone else self.column_loss(original, released, name)

    def _score(self, losses: Mapping[str, float]) -> Score:
        mean, worst = float(np.mean(list(losses.values()))), max(losses, key=lambda name: losses[name])
        if len(losses) == 1:
            words = f"the {self.distance} of {worst} is {digits(mean)}{self.unit}"
        elif not losses[worst]:
            words = f"the {self.distance} of each of {some(len(losses), 'column')} is 0"
        else:
            words = (
                f"the mean {self.distance} of {some(len(losses), 'column')} is {digits(mean)}{self.unit}; the largest, "
                f"{digits(losses[worst])}{self.unit}, is that of {worst}"
            )
        details = {f"mean {self.distance}": mean, f"largest {self.distance}": losses[worst]}
        return self.result(1.0 - mean, words, details={**details, **{f"loss of {n}": x for n, x in losses.items()}})


def check_weighted(measure: str, weighted: object) -> None:
    """Refuse a flag that is neither true nor false."""
    if not isinstance(weighted, bool):
        raise ParameterError(f"weighted of {measure} must be true or false.")


def check_files(outcome: Release, weighted: bool) -> None:
    """Refuse an original without records, and a release without survey weights where they are asked for."""
    if not len(outcome.original):
        raise DataError("the original has no records, so there is nothing to compare.")
    if weighted and any(data.schema.one("weight") is None for data in outcome.implicates):
        raise NotApplicable(
            "a weighted comparison needs the survey weights of both files, and the release has none. Compare without weights "
            "(weighted=False), or release a column with the role 'weight'."
        )


def looked_at(schema: Schema, over: tuple[str, ...] | None, weighted: bool) -> tuple[str, ...]:
    """Return the columns that a comparison may look at: those named or all that are compared, and the weights if used."""
    names = tuple(a.name for a in schema if a.role in COMPARED) if over is None else over
    return (*names, *(schema.names(role="weight") if weighted else ()))
