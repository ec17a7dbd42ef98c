"""From wishes to a safe pattern: the steps, the time limit, and what was verified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Guarantee
from sfumato.contract.score import digits
from sfumato.errors import DataError, some
from sfumato.tables.cells import Cells
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.suppression.checking import Check, check
from sfumato.tables.suppression.fast import Clock, Impossible, OutOfTime, first_pattern, mend
from sfumato.tables.suppression.insiders import Insider, Insiders
from sfumato.tables.suppression.making import make_problem
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.refusal import refuse
from sfumato.tables.suppression.superfluous import show_superfluous
from sfumato.tables.suppression.unions import Breakdowns
from sfumato.tables.suppression.unions import codes as _codes
from sfumato.tables.suppression.wishes import Wishes
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_TIDY = 8_000
"""Up to so many quantities, cells that turn out to be superfluous are looked for."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which cells are hidden, and how it was verified that this is safe."""

    hidden: Flags
    """Shape (cells,)."""
    verified: str
    more: tuple[Guarantee, ...] = ()


def find_pattern(
    table: Table, rule: SensitivityRule, wishes: Wishes, method: str, insiders: bool, ends: float
) -> Pattern:
    """Return a safe pattern; refused where there is none, or none was found in time."""
    problem, of_cell, leaf_order = make_problem(
        table, wishes.found, wishes.cost, wishes.fixed, wishes.low, wishes.high, wishes.leaf_low, wishes.leaf_high
    )
    if (clash := np.flatnonzero(problem.unsafe & problem.fixed)).size:
        raise DataError(
            f"{problem.name(int(clash[0]))} is unsafe, and a cell with the same records must be shown. Let both be hidden."
        )
    people = None
    if insiders and table.contributions is not None:
        people = Insiders(sparse.csr_array(table.contributions.grossed[leaf_order]))
    search = _Search(table, rule, problem, of_cell, leaf_order, Clock(ends), people)
    try:
        problem, hidden, found, late = search.run()
    except Impossible as failed:
        raise refuse(problem, failed.target) from None
    margin = found.margin(problem)
    verified = (
        f"an attacker's interval of {some(len(problem.targets), 'secret')} audited: {found.programs:,} by linear programs, the "
        f"others by tables that could be the true one; the shortest is {digits(margin)} times as long as demanded"
    )
    if late:
        verified += "; the time limit was reached, so more is hidden than need be"
    return Pattern(hidden[of_cell], verified)


@dataclass(eq=False)
class _Search:
    table: Table
    rule: SensitivityRule
    problem: Problem
    of_cell: Whole
    leaf_order: Whole
    clock: Clock
    insiders: Insiders | None = None
    alone: int = 0
    """How many contributors know leaves because they are alone in them."""

    def run(self) -> tuple[Problem, Flags, Check, bool]:
        problem, best = self.problem, None
        try:
            self.clock.look()
            hidden, found = mend(problem, first_pattern(problem), self.clock)
            problem, hidden, found = self._against_all(problem, hidden, found)
            best = problem, hidden, found, False
            if len(problem) <= _TIDY:
                fewer = show_superfluous(problem, hidden, found, self.clock)
                if (fewer != hidden).any():
                    other = self._against_all(problem, *mend(problem, fewer, self.clock))
                    if _cost(other[0], other[1]) < _cost(problem, hidden):
                        best = *other, False
        except OutOfTime:
            return self._everything() if best is None else best
        return best

    def _against_all(self, problem: Problem, hidden: Flags, found: Check) -> tuple[Problem, Flags, Check]:
        """Return a pattern that also holds for sums of hidden cells, and against contributors; and its audit."""
        while True:
            self.clock.look()
            close: list[Insider] = []
            if self.insiders is not None:
                close, self.alone = self.insiders.close(problem, hidden, found.freedom)
            wider = self.insiders.widen(problem, hidden, close, self.clock) if self.insiders is not None and close else hidden
            more = self._unions(problem, wider)
            if more is None and (wider == hidden).all():
                return problem, hidden, found
            problem = problem if more is None else more
            hidden = np.concatenate([wider, np.ones(len(problem) - len(wider), bool)])
            hidden, found = mend(problem, hidden, self.clock)

    @cached_property
    def breakdowns(self) -> Breakdowns:
        return Breakdowns.of(self._cells())

    def _cells(self) -> Cells:
        """Return the table's cells with leaves in the order of the problem."""
        cells = self.table.cells
        return Cells(cells.dimensions, cells.labels, sparse.csr_array(cells.incidence[:, self.leaf_order]))

    def _unions(self, problem: Problem, hidden: Flags) -> Problem | None:
        """Return the problem with sums of hidden cells that can be worked out and break the rule; None if there are none."""
        rows = self.breakdowns.left_over(hidden[self.of_cell])
        if not rows.shape[0]:
            return None
        back = np.argsort(self.leaf_order)
        labels = np.empty((rows.shape[0], 1), object)
        labels[:, 0] = [f"union {i}" for i in range(rows.shape[0])]
        unions = Cells(("union",), labels, sparse.csr_array(rows[:, back]))
        try:
            found = self.rule.assess(self.table.with_(cells=unions, given=None))
        except DataError:
            return None  # nobody knows who contributes to a union
        new = np.flatnonzero(found.unsafe)
        new = new[~np.isin(_codes(sparse.csr_array(rows[new]))[:, 0], _codes(problem.rows)[:, 0])]
        if not len(new):
            return None
        return problem.with_unions(sparse.csr_array(rows[new]), found.upper[new], found.lower[new], found.width[new])

    def _everything(self) -> tuple[Problem, Flags, Check, bool]:
        """Return the pattern with all hidden that may be hidden: what is safe, if anything is."""
        hidden = ~self.problem.fixed
        found = check(self.problem, hidden)
        if len(found.failing):
            raise Impossible(int(self.problem.targets[found.failing[0]]))
        return self.problem, hidden, found, True


def _cost(problem: Problem, hidden: Flags) -> float:
    return float(problem.cost[hidden].sum())
