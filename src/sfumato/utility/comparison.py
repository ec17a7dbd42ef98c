"""Two files compared: which columns, whose weights, and one loss for each column."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract import DirectMeasure, Release, Snooper, param
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError, NotApplicable, join_names, plural, refuse_unknown
from sfumato.schema import Role, Scale, Schema
from sfumato.typing import Numbers
from sfumato.utility.estimators import WEIGHTED, survey_weights

# A utility of the house is 1 for a file that was not changed, and falls as information is lost: U = 1 - loss, where the loss is
# the number of the literature. It may fall below 0 where the loss has no upper end. The loss stands in the Score's words, and by
# its usual name in the details.

COMPARED = (Role.KEY, Role.CONFIDENTIAL, Role.OTHER)
"""The roles of columns that an analyst works with; names, weights and the like are not compared."""
FEWEST = 10
"""What is shown of fewer original records would describe persons: no figure rests on so few, no category is named."""
NUMBER = frozenset({Kind.NUMBER})
PLAIN = frozenset(set(Kind) - {Kind.OTHER})
CATEGORY = PLAIN - NUMBER


def over_columns(holds: str = "anything") -> Any:
    """Declare the parameter `over`: which columns are compared."""
    return param(default=None, doc="columns to compare; all that apply if none are named", columns="many", holds=holds)


def weighted_flag() -> Any:
    """Declare the parameter `weighted`."""
    return param(default=False, doc=WEIGHTED)


def compared_columns(data: Microdata, over: Sequence[str] | None, kinds: Collection[Kind] = PLAIN) -> tuple[str, ...]:
    """Return the columns of the original to compare: those named, or every key, confidential and other column of these kinds.

    Refused in a sentence: a name that is not there, a column of another kind, and data without any such column.
    """
    words = {NUMBER: "numbers", CATEGORY: "categories"}.get(frozenset(kinds), "plain values")
    if over is not None:
        for name in over:
            refuse_unknown("column", data.engine.kinds, "the data", name, error=DataError)
            if data.kind(name) not in kinds:
                raise DataError(f"column '{name}' does not hold {words}, so it cannot be compared this way.")
        if over:
            return tuple(over)
        raise DataError("no column is named to be compared; name at least one, or leave `over` out for all.")
    found = tuple(a.name for a in data.schema if a.role in COMPARED and data.kind(a.name) in kinds)
    if frozenset(kinds) == NUMBER:  # numbers that the schema calls unordered are codes of categories
        found = tuple(n for n in found if data.schema[n].scale is Scale.ORDERED)
    if not found:
        raise NotApplicable(f"there is no column of {words} to compare (a key, confidential or other column).")
    return found


def weights_of(data: Microdata, weighted: bool) -> Numbers | None:
    """Return the survey weights of a file, shape (n,); None where all records count alike."""
    return survey_weights(data) if weighted else None


def released_kind(outcome: Release, name: str) -> Kind | None:
    """Return what a column of the original holds in the release; None if it was not released."""
    return outcome.masked.engine.kinds.get(name)


class ColumnUtility(DirectMeasure, abstract=True):
    """A utility of the columns that `over` names, with survey weights if it has a parameter `weighted` that says so.

    What it is called and what its value means are templates, in which `{self.k}` is a parameter. In `sentence`, `{loss}` is
    1 - value, `{percent_lost}` 100 times that, and `{percent}` 100 times the value, each with three digits.
    """

    side: ClassVar[Side] = Side.UTILITY
    sentence: ClassVar[str] = ""
    definition: ClassVar[str] = ""
    """Which of several definitions this is."""
    preposition: ClassVar[str] = "of"
    """What joins the title with the names of the columns."""
    keys: ClassVar[bool] = False
    """Whether all keys are looked at where no columns are named, in place of all columns that are compared."""

    if TYPE_CHECKING:
        over: tuple[str, ...] | None

    @property
    def uses_weights(self) -> bool:
        """Whether survey weights are used."""
        return bool(getattr(self, "weighted", False))

    @override
    def label(self) -> str:
        return super().label() + (f" {self.preposition} {join_names(self.over, 3)}" if self.over else "")

    @override
    @property
    def variant(self) -> str:
        return ", ".join(filter(None, (self.definition.format(self=self), "weighted" if self.uses_weights else "")))

    @override
    def words(self, value: float, schema: Schema) -> str:
        lost = 1 - value
        return self.sentence.format(
            self=self, loss=digits(lost), percent_lost=digits(100 * lost), percent=digits(100 * value)
        )

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        roles = (Role.KEY,) if self.keys else COMPARED
        names = self.over or tuple(a.name for a in schema if a.role in roles)
        return (*names, *(schema.names(role="weight") if self.uses_weights else ()))


class Columnwise(ColumnUtility, abstract=True):
    """U = 1 - the mean over columns of a distance between the original's and the release's distribution of the column.

    The two files are compared as a whole, so records need not be aligned. A column that was not released loses 1, as do all of
    a release without records. Of several implicates the mean is taken.
    """

    title: ClassVar[str] = "1 - {self.distance}"
    sentence: ClassVar[str] = "the mean {self.distance} is {loss}{self.unit}"
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

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare column by column."""
        names = compared_columns(outcome.original, self.over, self.kinds)
        check_files(outcome, self.weighted)
        losses = {name: self._loss(outcome, name) for name in names if self.has_values(outcome.original, name)}
        if not losses:
            raise DataError(f"{join_names(names)}: no value is known in the original, so there is nothing to compare.")
        return self._score(losses)

    def _loss(self, outcome: Release, name: str) -> float:
        """Return the mean over implicates of a column's loss."""
        each = [
            self.column_loss(outcome.original, released, name)
            if name in released.engine.kinds and len(released)
            else 1.0
            for released in outcome.implicates
        ]
        return float(np.mean(each))

    def _score(self, losses: Mapping[str, float]) -> Score:
        mean, worst = float(np.mean(list(losses.values()))), max(losses, key=lambda name: losses[name])
        if len(losses) == 1:
            words = f"the {self.distance} of {worst} is {digits(mean)}{self.unit}"
        elif not losses[worst]:
            words = f"the {self.distance} of each of {plural(len(losses), 'column')} is 0"
        else:
            words = (
                f"the mean {self.distance} of {plural(len(losses), 'column')} is {digits(mean)}{self.unit}; the largest, "
                f"{digits(losses[worst])}{self.unit}, is that of {worst}"
            )
        details = {f"mean {self.distance}": mean, f"largest {self.distance}": losses[worst]}
        return self.result(1.0 - mean, words, details={**details, **{f"loss of {n}": x for n, x in losses.items()}})


def check_files(outcome: Release, weighted: bool) -> None:
    """Refuse an original without records, and a release without survey weights where they are asked for."""
    if not len(outcome.original):
        raise DataError("the original has no records, so there is nothing to compare.")
    if weighted and any(data.schema.one("weight") is None for data in outcome.implicates):
        raise NotApplicable(
            "a weighted comparison needs the survey weights of both files, and the release has none. Compare without weights "
            "(weighted=False), or release a column with the role 'weight'."
        )
