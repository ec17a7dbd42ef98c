"""Rules about the cells of a table of amounts: dominance and the p% rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.mas.aggregate import CellAggregates
from sfumato.mas.answer import Refusal
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage
from sfumato.mas.universe import condition
from sfumato.typing import Flags, Numbers

# --- cell rule
# The shape of rules about the cells of a table of amounts: who contributes how much to a sum.


class CellRule(ConfidentialityRule, abstract=True):
    """A rule that hides single cells, and never refuses a table.

    It looks at the sizes of contributions as they enter the sum: of records that are kept, top-coded, weighted if the sum is.
    """

    stage: ClassVar[Stage] = "result"

    def check(self, question: Question) -> Refusal | None:
        """Allow the table: its cells are looked at one by one."""
        return None

    @property
    @abstractmethod
    def several(self) -> int:
        """How many of the largest contributions the rule looks at."""

    @abstractmethod
    def doubtful(self, largest: Numbers, total: Numbers) -> Flags:
        """Return which cells could be unsafe, if the others of the largest were all as large as the largest."""

    @abstractmethod
    def unsafe(self, largest: Numbers, top: Numbers, total: Numbers) -> Flags:
        """Return which cells are unsafe; `top` is the sum of the several largest."""


def unsafe_cells(table: CellAggregates, value: str, rules: Sequence[CellRule], total: Numbers) -> Flags:
    """Return which cells some rule hides, with the shape of the table.

    `value` is SQL for the size of a record's contribution, and `total` their sums. The largest is known from the pass that made
    the table, which clears most cells; only for the others the several largest are asked for. Where records belong to
    establishments, these are the contributors.
    """
    unsafe = np.zeros(table.counts.shape, bool)
    if not rules:
        return unsafe
    linked = "e" in table.question.dataset.units
    doubtful = (table.kept > 0) & (linked | np.logical_or.reduce([r.doubtful(table.largest, total) for r in rules]))
    if not doubtful.any():
        return unsafe
    first, tops = _largest(table, value, doubtful, sorted({rule.several for rule in rules}), linked)
    for rule in rules:
        unsafe |= doubtful & rule.unsafe(first, tops[rule.several], total)
    return unsafe


def _largest(
    table: CellAggregates, value: str, cells: Flags, several: Sequence[int], linked: bool
) -> tuple[Numbers, dict[int, Numbers]]:
    """Return the largest contribution to each of some cells, and the sums of several largest; 0 in other cells."""
    question, variables = table.question, table.variables
    names = [f"c{i}" for i in range(len(variables))]
    where = " AND ".join(
        f"({part})" for part in (question.selection.where(), question.kept, condition(variables, cells))
    )
    coded = "".join(f"{v.codes} AS {name}, " for v, name in zip(variables, names, strict=True))
    listed = "".join(f"{name}, " for name in names)
    source = f"SELECT {coded}{'e, ' if linked else ''}{value} AS v FROM records WHERE {where}"  # noqa: S608 - our own names
    if linked:
        source = f"SELECT {listed}sum(v) AS v FROM ({source}) AS single GROUP BY {listed}e"  # noqa: S608
    split = f"PARTITION BY {', '.join(names)} " if names else ""
    ranked = (
        f"SELECT {listed}v, row_number() OVER ({split}ORDER BY v DESC) AS place FROM ({source}) AS given "  # noqa: S608
        "WHERE v IS NOT NULL"
    )
    tops = ", ".join(f"sum(CASE WHEN place <= {n} THEN v ELSE 0 END) AS top{n}" for n in several)
    by = f" GROUP BY {', '.join(names)}" if names else ""
    found = question.dataset.warehouse.ask(
        f"SELECT {listed}max(v) AS first, {tops} FROM ({ranked}) AS ranked WHERE place <= {max(several)}{by}"  # noqa: S608
    )
    at = tuple(np.asarray(found[name], np.int64) for name in names)

    def placed(name: str) -> Numbers:
        out = np.zeros(cells.shape)
        out[at or ...] = np.nan_to_num(found[name]) if names else np.nan_to_num(found[name])[0]
        return out

    return placed("first"), {n: placed(f"top{n}") for n in several}


# --- dominance
# The dominance rule, also called (n, k): no few records may make up most of a sum.


class Dominance(CellRule):
    """A sum is hidden if its n largest contributions are more than k percent of it (Hundepool et al. 2012, section 4.2.2)."""

    n: int = param(default=2, doc="how many of the largest are looked at together", low=1, high=10, integer=True)
    k: float = param(default=90.0, doc="most percent of a sum that they may make up", low=0, above=True, high=100)

    @override
    @property
    def several(self) -> int:
        return self.n

    @override
    def words(self) -> str:
        return f"A sum or mean of which {self.n} records make up more than {self.k:g} % is not shown."

    def doubtful(self, largest: Numbers, total: Numbers) -> Flags:
        """Return which cells could be unsafe, if n were as large as the largest."""
        return self.unsafe(largest, self.n * largest, total)

    def unsafe(self, largest: Numbers, top: Numbers, total: Numbers) -> Flags:
        """Return which cells are unsafe."""
        return top > self.k / 100 * total


# --- p percent
# The p% rule for sums of the analysis system: nobody in a cell may estimate another's value too closely.


class AmountPPercent(CellRule, name="p_percent"):
    """A sum is hidden if the second largest contributor can estimate the largest to within p percent.

    It takes its own value from the sum, and what it has then is too high by what all others gave: the cell is unsafe if that is
    less than p percent of the largest (Hundepool et al. 2012, section 4.2.2).
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True)

    @override
    @property
    def several(self) -> int:
        return 2

    @override
    def words(self) -> str:
        return f"A sum or mean from which a record's value could be estimated to within {self.p:g} % is not shown."

    def doubtful(self, largest: Numbers, total: Numbers) -> Flags:
        """Return which cells could be unsafe, if the second largest were as large as the largest."""
        return self.unsafe(largest, 2 * largest, total)

    def unsafe(self, largest: Numbers, top: Numbers, total: Numbers) -> Flags:
        """Return which cells are unsafe."""
        return total - top < self.p / 100 * largest
