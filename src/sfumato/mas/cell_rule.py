"""The shape of rules about the cells of a table of amounts: who contributes how much to a sum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.answer import Refusal
from sfumato.mas.grouped import Grouped, Numbers
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule, Stage
from sfumato.mas.selection import condition

Flags = NDArray[np.bool_]


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


def unsafe_cells(table: Grouped, value: str, rules: Sequence[CellRule], total: Numbers) -> Flags:
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
    table: Grouped, value: str, cells: Flags, several: Sequence[int], linked: bool
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
