"""One question to one data set under one policy, and the shape of every analysis."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sfumato.contract.parameters import Parametric
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.policy import Policy
from sfumato.mas.register import Register
from sfumato.mas.rule import Evidence
from sfumato.mas.sums import ProtectedSums, SumsRequest
from sfumato.mas.universe import Selection, Universe
from sfumato.mas.variable import Variable, need_variable

if TYPE_CHECKING:
    import altair as alt

# --- question


@dataclass(frozen=True, eq=False)
class Question:
    """A universe and an analysis, as the policy sees them. It holds metadata alone: no way leads from it to a record."""

    codebook: Codebook
    policy: Policy
    universe: Universe
    analysis: Analysis

    @cached_property
    def selection(self) -> Selection:
        """The cells that the universe chooses."""
        return Selection.of(self.universe, self.codebook.variables)

    @property
    def wording(self) -> str:
        """The canonical wording: the same for the same question, however it was written."""
        return f"{self.selection.words()}|{self.analysis.wording_for(self.codebook)}"

    def to_json(self) -> Mapping[str, Any]:
        """Return the question as the log keeps it."""
        return {
            "dataset": self.codebook.label, "universe": self.universe.to_json(),
            "analysis": self.analysis.name, **self.analysis.to_dict(),
        }  # fmt: skip


# --- analysis


@dataclass(frozen=True)
class Result:
    """What an analysis makes of protected sums: tables of rows, single numbers, notes, and evidence for rules."""

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


Steps = Generator[SumsRequest, ProtectedSums, Result | Refusal]
"""What an analysis does: it yields requests, receives protected sums, and returns a result."""


class Analysis(Parametric, family="analysis", abstract=True):
    """What a user asks of a universe: a frozen set of parameters, the same in Python, JSON and on the command line.

    `steps` yields a request for bounded sums, receives them protected, may do so a fixed number of times, and returns a result.
    It sees the question, the register of known variables, and protected sums; never a record.
    """

    kind: ClassVar[Literal["table", "model", "correlation", "distribution", "test", "check"]]
    """What rules it falls under."""
    drawn: ClassVar[bool] = False
    """Whether answers have a chart."""

    def __post_init__(self) -> None:
        """Check the parameters; "no" would otherwise be true, and 1 another wording of the same question."""
        super().__post_init__()
        for one in dataclasses.fields(self):
            if one.type == "bool" and not isinstance(getattr(self, one.name), bool):
                raise ParameterError(f"{one.name} of {self.name} is true or false.")

    @abstractmethod
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables that it uses; refuse names that are not there."""

    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables whose levels a table has cells for; none for what is no table."""
        return ()

    @abstractmethod
    def steps(self, question: Question, register: Register) -> Steps:
        """Ask for sums, and make the result of them."""

    @abstractmethod
    def wording(self) -> str:
        """Return the canonical wording: the same for the same question, however it was written."""

    @classmethod
    def chart(cls, answer: Answer) -> alt.TopLevelMixin:
        """Draw an answer of this analysis; refuse, if it has no chart."""
        raise DataError(f"an answer of {cls.name} has no chart. Take its table: answer.frame().")

    def wording_for(self, codebook: Codebook) -> str:
        """Return the canonical wording, where the codebook decides what is the same."""
        return self.wording()


def levels_of(names: Sequence[str], known: Mapping[str, Variable]) -> tuple[Variable, ...]:
    """Return variables that have levels, in the order that is asked for."""
    found = []
    for name in names:
        variable = need_variable(name, known)
        if not variable.levels:
            others = [v.name for v in known.values() if v.levels]
            raise DataError(
                f"variable '{name}' has no levels for a side of a table. Those that do: {join_names(others)}."
            )
        found.append(variable)
    return tuple(found)


def numbers_in(name: str, known: Mapping[str, Variable]) -> Variable:
    """Return a variable of numbers."""
    variable = need_variable(name, known)
    if not variable.numeric:
        others = [v.name for v in known.values() if v.numeric]
        raise DataError(f"variable '{name}' does not hold numbers. Those that do: {join_names(others)}.")
    return variable
