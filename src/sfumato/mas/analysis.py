"""The shape of every analysis."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.contract import Parametric
from sfumato.errors import DataError, ParameterError, listing
from sfumato.mas.accounts import Sets
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.variable import Variable, need_variable

if TYPE_CHECKING:
    import altair as alt

    from sfumato.mas.dataset import Dataset
    from sfumato.mas.question import Question


@dataclass(frozen=True)
class Findings:
    """What an analysis gives back: tables of rows, single numbers, and notes; perturbed and rounded."""

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sets: tuple[Sets, ...] = ()
    """The sets of records that the numbers are about, for the accounts."""


class Analysis(Parametric, family="analysis", abstract=True):
    """What a user asks of a universe: a frozen set of parameters, the same in Python, JSON and on the command line."""

    def __post_init__(self) -> None:
        """Check the parameters; "no" would otherwise be true, and 1 another wording of the same question."""
        super().__post_init__()
        for one in dataclasses.fields(self):
            if one.type == "bool" and not isinstance(getattr(self, one.name), bool):
                raise ParameterError(f"{one.name} of {self.name} is true or false.")

    drawn: ClassVar[bool] = False
    """Whether answers have a chart."""

    @abstractmethod
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables that it uses; refuse names that are not there."""

    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables whose levels a table has cells for; none for what is no table."""
        return ()

    @abstractmethod
    def run(self, question: Question) -> Findings | Refusal:
        """Compute on the records that are kept, apply the rules that look at results, perturb and round."""

    @abstractmethod
    def wording(self) -> str:
        """Return the canonical wording: the same for the same question, however it was written."""

    @classmethod
    def chart(cls, answer: Answer) -> alt.TopLevelMixin:
        """Draw an answer of this analysis; refuse, if it has no chart."""
        raise DataError(f"an answer of {cls.name} has no chart. Take its table: answer.frame().")

    def wording_for(self, dataset: Dataset) -> str:
        """Return the canonical wording, where what a data set holds decides what is the same."""
        return self.wording()


def levels_of(names: Sequence[str], known: Mapping[str, Variable]) -> tuple[Variable, ...]:
    """Return variables that have levels, in the order that is asked for."""
    found = []
    for name in names:
        variable = need_variable(name, known)
        if not variable.levels:
            others = [v.name for v in known.values() if v.levels]
            raise DataError(f"variable '{name}' has no levels for a side of a table. Those that do: {listing(others)}.")
        found.append(variable)
    return tuple(found)


def numbers_in(name: str, known: Mapping[str, Variable]) -> Variable:
    """Return a variable of numbers."""
    variable = need_variable(name, known)
    if not variable.numeric:
        others = [v.name for v in known.values() if v.numeric]
        raise DataError(f"variable '{name}' does not hold numbers. Those that do: {listing(others)}.")
    return variable
