"""Anonymity models: measures of which the classes of a candidate release tell, before it is made, whether they hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.parameters import Parametric, param
from sfumato.contract.score import Score
from sfumato.data.columns import Kind
from sfumato.errors import ParameterError
from sfumato.kernels.classes import ClassCells
from sfumato.schema import Attribute
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.contract.measure import Measure

ROUNDING = 1e-9
"""How far past a bound a share may seem to be by rounding alone, relative to the bound."""


@dataclass(frozen=True, eq=False)
class ClassValues:
    """The values of one confidential column in the classes of a candidate; m values occur, missing ones are left out."""

    attribute: Attribute
    kind: Kind
    values: Sequence[Any]
    """What the m values are: for the custodian's eyes."""
    whole: Whole
    """Records of the candidate with each value, shape (m,)."""
    rows: Whole
    """The classes in which some value is known, shape (r,)."""
    cells: ClassCells
    """The distributions in those classes."""
    memory: dict[Any, Any]
    """What was worked out of the values alone, for the next candidate."""
    fixed: bool = False
    """Whether `whole` counts all records of the file, these classes being a part of what is released."""

    @property
    def column(self) -> str:
        """The column's name."""
        return self.attribute.name

    @property
    def n(self) -> int:
        """Records with a known value."""
        return int(self.whole.sum())

    def each(self, function: Callable[[ClassCells], NDArray[Any]]) -> Numbers:
        """Return what depends on the distribution of a class, for each of the r classes, shape (r, ...)."""
        return np.asarray(function(self.cells), np.float64) if len(self.rows) else np.empty(0)

    def keep(self, kept: Flags) -> ClassValues:
        """Return the same of some of the classes, shape (c,); values that occur in none of them are no values any more."""
        place = np.cumsum(kept) - 1
        inside = kept[self.rows]
        cell = np.repeat(inside, self.cells.distinct)
        values, counts = self.cells.values[cell], self.cells.counts[cell]
        whole = self.whole if self.fixed else np.bincount(values, counts, len(self.whole)).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(self.cells.distinct[inside])]).astype(np.int64)
        used = np.flatnonzero(whole)
        if len(used) == len(whole):
            standing, memory = self.values, self.memory
        else:
            standing, memory = [self.values[i] for i in used.tolist()], {}
            values = (np.cumsum(whole > 0) - 1)[values].astype(np.int32)
            whole = whole[used]
        return replace(
            self, values=standing, whole=whole, rows=place[self.rows[inside]], cells=ClassCells(starts, values, counts),
            memory=memory,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CandidateClasses:
    """The c classes of a candidate release by its keys, each with at least one record."""

    sizes: Whole
    """Records of each class, shape (c,)."""
    persons: Numbers | None = None
    """Persons of the population that look like a class, shape (c,), where a table of the population is there."""
    total: float | None = None
    """Persons of the population, where their number is there."""
    values: Mapping[str, ClassValues] | None = None
    """The confidential columns that a model looks at."""

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, column: str) -> ClassValues:
        """Return the values of a confidential column."""
        return (self.values or {})[column]

    def keep(self, kept: Flags) -> CandidateClasses:
        """Return some of the classes, shape (c,), as if the records of the others were not released."""
        persons = None if self.persons is None else self.persons[kept]
        values = None if self.values is None else {name: v.keep(kept) for name, v in self.values.items()}
        return replace(self, sizes=self.sizes[kept], persons=persons, values=values)


class ClassModel(ABC):
    """A measure that classes of records decide, so that a search over generalisations can ask for it: an anonymity model.

    Classes are those of records that are alike on all keys, a missing one counted as a value of its own. A model that holds there
    holds as well where a missing key matches anything: matching classes are unions of these.
    """

    closed: ClassVar[bool] = False
    """Whether a class that holds still holds when it is merged with any other class: then coarser keys never break more records."""
    compares: ClassVar[bool] = False
    """Whether a class is compared with the whole file, so that it depends on which records are released."""
    needs_limit: ClassVar[bool] = False
    """Whether it is one number for the whole file, which a model has to limit (`AtMost`)."""

    @property
    def confidential(self) -> tuple[str, ...]:
        """The confidential columns that it looks at."""
        return ()

    @property
    def least(self) -> int:
        """How many records a class needs at least for it to hold: what is smaller need not be looked at."""
        return 1

    @property
    def uses_population(self) -> bool:
        """Whether it looks at a table of the population."""
        return False

    @abstractmethod
    def breaks(self, table: CandidateClasses) -> Flags:
        """Return the classes that it does not allow, shape (c,)."""

    def hopeless(self, table: CandidateClasses) -> bool:
        """Whether it cannot hold, whatever further records are left out."""
        return False

    def amount(self, table: CandidateClasses) -> float:
        """Return the measure of a candidate: the share of records in classes that it does not allow."""
        return float(table.sizes[self.breaks(table)].sum() / table.sizes.sum())

    def urgency(self, table: CandidateClasses) -> Numbers:
        """Return which classes to leave out first to lower the measure: those with the smallest numbers, shape (c,)."""
        last = (table.sizes.max(initial=0) + 1.0) * ~self.breaks(table)
        return np.asarray(last + table.sizes, np.float64)

    def allows(self, score: Score) -> bool:
        """Whether the measure of a release says that the model holds."""
        return score.value == 0


class AtMost(Parametric, family="bound"):
    """A limit on a measure that classes decide: at most a tenth unique, an average risk of at most 0.05.

    Examples
    --------
    >>> from sfumato.risk import KAnonymity, Reidentification
    >>> AtMost(KAnonymity(k=2), 0.1).words
    'records below 2-anonymity at most 0.1'
    >>> AtMost(Reidentification(), 0.05).words
    'prosecutor risk, mean at most 0.05'
    """

    measure: Any = param(doc="a measure of risk that classes decide, such as reidentification")
    limit: float = param(default=0.0, doc="the largest value that is allowed", low=0, high=1)

    def validate(self) -> None:
        """Refuse what is no anonymity model."""
        if not isinstance(self.measure, ClassModel):
            raise ParameterError(
                "measure of at_most must be a measure of risk that classes of equal keys decide, such as k_anonymity or "
                "reidentification."
            )

    @property
    def words(self) -> str:
        """The limit in words."""
        return f"{self.measure.label()} at most {self.limit:g}"

    def holds(self, table: CandidateClasses) -> bool:
        """Whether the classes of a candidate keep the limit."""
        return not len(table) or bool(self.measure.amount(table) <= self.limit * (1 + ROUNDING))


Model = Any
"""A ClassModel that is a Measure, or an AtMost of one."""


def model_measure(model: Model) -> Measure:
    """Return the measure behind a model."""
    measure: Measure = model.measure if isinstance(model, AtMost) else model
    return measure


def model_words(model: Model) -> str:
    """Return a model in words."""
    return model.words if isinstance(model, AtMost) else str(model.label())


def model_allows(model: Model, score: Score) -> bool:
    """Whether the score of a release says that the model holds."""
    if isinstance(model, AtMost):
        return bool(score.value <= model.limit * (1 + ROUNDING))
    return bool(model.allows(score))


def checked_models(models: Any, where: str) -> tuple[Model, ...]:
    """Return models as a tuple; refuse anything else in a sentence."""
    listed = (models,) if isinstance(models, ClassModel | AtMost) else models
    if not isinstance(listed, list | tuple):
        raise ParameterError(f"models of {where} must be a list of measures, such as [LDiversity(['disease'], l=2)].")
    for model in listed:
        if isinstance(model, AtMost):
            continue
        if not isinstance(model, ClassModel):
            raise ParameterError(
                f"models of {where} must be measures that classes of equal keys decide: k_anonymity, k_map, delta_presence, "
                "l_diversity, alpha_k, t_closeness, beta_likeness, delta_disclosure; or limits (at_most) on one of these, on "
                "reidentification or on population_uniques."
            )
        if model.needs_limit:
            raise ParameterError(
                f"{model.name} is one number for the whole file, so say how large it may be: "  # type: ignore[attr-defined]
                f"AtMost({type(model).__name__}(...), 0.05)."
            )
    return tuple(listed)
