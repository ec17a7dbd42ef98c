"""From requirements to a safe pattern: steps, time limit, guarantees, and the reasons for a refusal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.contract.release import Guarantee
from sfumato.contract.score import digits
from sfumato.errors import DataError, join_names, plural
from sfumato.tables.cells import Cells, set_codes
from sfumato.tables.knowledge import Combinations, sums_table
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.suppression.exact import Demand, Exact, demands_of
from sfumato.tables.suppression.fallback import exchange_pattern, show_superfluous
from sfumato.tables.suppression.heuristic import Clock, Impossible, OutOfTime, first_pattern, mend
from sfumato.tables.suppression.insiders import Insiders
from sfumato.tables.suppression.problem import CellRequirements, SuppressionProblem, make_problem
from sfumato.tables.suppression.proof import PatternCheck, check
from sfumato.tables.table import Table
from sfumato.typing import Flags, Whole

_SECONDS = 20.0


def refuse(
    failed: Impossible, again: Callable[[Flags, Clock], Impossible | None], names: Callable[[Flags], list[str]]
) -> DataError:
    """Return the error for secrets that cannot move far enough: with the fewest cells to release, or the levels that work.

    `again` searches with quantities that need no longer be published, and returns what then fails; `names` are those of the
    cells among them that must be published.
    """
    release = _enough(failed, again) if failed.problem.fixed.any() else None
    if release is not None:
        return DataError(
            f"{failed.problem.name(failed.target)} cannot be protected while cells that it depends on must be shown. It works if "
            f"these may be hidden: {join_names((f'[{name}]' for name in names(release)), 100)}."
        )
    return _too_close(failed.problem)


def _enough(failed: Impossible, again: Callable[[Flags, Clock], Impossible | None]) -> Flags | None:
    """Return quantities that, if they need not be published, let all secrets be protected; none of them is superfluous."""
    clock = Clock(time.monotonic() + _SECONDS)
    release = np.zeros(0, bool)
    known: Impossible | None = failed
    while known is not None:  # when more may be hidden, further sums of hidden cells may become secrets
        found = _fewest(known.problem, clock)
        if found is None:
            return None
        count = int(np.flatnonzero(found).max(initial=-1)) + 1
        release = np.concatenate([release, np.zeros(max(count - len(release), 0), bool)])
        release[:count] |= found[:count]
        known = again(release, clock)
    for one in np.flatnonzero(release) if release.sum() > 1 else ():
        fewer = release.copy()
        fewer[one] = False
        if not clock.over and again(fewer, clock) is None:
            release = fewer
    return release


def _too_close(problem: SuppressionProblem) -> DataError:
    """Return the error for a secret that attackers know too well beforehand."""
    targets = problem.targets
    low, high = problem.attacker(~problem.fixed).intervals(targets)
    up, down = high - problem.value[targets], problem.value[targets] - low
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.min([
            np.where(need[targets] > 0, got / need[targets], np.inf)
            for got, need in ((up, problem.upper), (down, problem.lower), (up + down, problem.width))
        ], axis=0)  # fmt: skip
    worst = int(np.argmin(shares))
    percent = _below(100 * max(float(shares[worst]), 0.0))
    everything = "everything hidden that may be" if problem.fixed.any() else "everything hidden"
    return DataError(
        f"{problem.name(int(targets[worst]))} cannot be protected: even with {everything}, what attackers know before "
        f"leaves it less room than the rule demands. It works with protection levels of {percent} % of those, or if attackers "
        "know less."
    )


def _fewest(problem: SuppressionProblem, clock: Clock) -> Flags | None:
    """Return the fewest quantities to release, or all if they are not found in time; None if no release helps."""
    relaxed = replace(problem, cost=np.ones(len(problem)), hidden=~problem.fixed, fixed=np.zeros(len(problem), bool))
    try:
        found = Exact(relaxed, clock).solve(demands_of(relaxed))
    except OutOfTime:
        found = np.ones(len(problem), bool)
    return None if found is None or not (found & problem.fixed).any() else found & problem.fixed


def _below(percent: float) -> str:
    """Format a number with three digits, rounded down."""
    if percent <= 0:
        return "0"
    unit = 10.0 ** (np.floor(np.log10(percent)) - 2)
    return f"{np.floor(percent / unit) * unit:.3g}"


_TIDY = 4_000
"""Up to this many quantities, superfluous suppressions are searched for."""
_SMALL = 120
"""Up to this many quantities, the cheapest pattern is searched for in any case."""
_NODES = 500
"""Nodes of the search tree after which a search that nobody asked for ends: a count, so that a slow machine gets the same."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which cells are hidden, and how it was verified that this is safe."""

    hidden: Flags
    """Shape (cells,)."""
    verified: str
    more: tuple[Guarantee, ...] = ()


def find_pattern(
    table: Table, rule: SensitivityRule, wishes: CellRequirements, method: str, insider_level: float, ends: float
) -> Pattern:
    """Return a safe pattern; refuse where there is none, or none was found in time."""
    problem, of_cell, leaf_order = make_problem(
        table, wishes.found, wishes.cost, wishes.fixed, wishes.low, wishes.high, wishes.leaf_low, wishes.leaf_high
    )
    if (clash := np.flatnonzero(problem.unsafe & problem.fixed)).size:
        raise DataError(
            f"{problem.name(int(clash[0]))} is unsafe, and a cell with the same records must be shown. Let both be hidden."
        )
    people = None
    if insider_level > 0 and table.contributions is not None:
        people = Insiders(sparse.csr_array(table.contributions.grossed[leaf_order]), insider_level)
    search = _PatternSearch(table, rule, problem, of_cell, leaf_order, Clock(ends), people)
    cheapest = False
    try:
        found, late = search.run()
        if not late and (method == "exact" or len(problem) <= _SMALL):
            found, cheapest, late = search.improve(found, None if method == "exact" else _NODES)
    except Impossible as failed:
        must = [np.flatnonzero(wishes.fixed & (of_cell == q)) for q in range(len(problem))]
        raise refuse(failed, search.without, lambda which: [
            table.cells.name(int(c)) for q in np.flatnonzero(which) for c in must[q]
        ]) from None  # fmt: skip
    secrets = len(found.problem.targets)
    verified = (
        f"an attacker's interval of {plural(secrets, 'secret')} audited: {int(found.solved.sum()):,} by linear programs, the "
        f"others by tables that could be the true one; the shortest is at least {digits(found.margin)} times as long as demanded"
    )
    if not secrets:
        verified = "no cell is unsafe, so nothing is hidden"
    if late:
        verified += "; the time limit was reached, so more may be hidden than need be"
    return Pattern(found.hidden[of_cell], verified, tuple(search.more(cheapest)))


@dataclass(eq=False)
class _PatternSearch:
    table: Table
    rule: SensitivityRule
    problem: SuppressionProblem
    of_cell: Whole
    leaf_order: Whole
    clock: Clock
    insiders: Insiders | None = None
    alone: int = -1
    """Number of contributors who know leaves because they are alone in them; negative if not examined."""
    helpless: int = 0
    """Number of pairs of such a contributor and a secret that no pattern keeps apart."""
    unions: bool = True
    """Whether sums of hidden cells could be assessed."""

    def run(self) -> tuple[PatternCheck, bool]:
        """Return a safe pattern with its audit, in the problem with added secrets, and whether time was short."""
        problem, tidy, settled, helpless = self.problem, len(self.problem) > _TIDY, 0, 0
        try:
            self.clock.look()
            hidden, sure = first_pattern(problem), None
            while True:
                found = mend(problem, hidden, self.clock, sure)
                if not tidy:
                    tidy, hidden, sure = True, show_superfluous(found, self.clock), None
                    if (hidden != found.hidden).any():
                        continue
                wider = found.hidden
                if self.insiders is not None:  # from here on more is hidden each time: proofs stay valid
                    close = self.insiders.close(found, settled)
                    wider, left = self.insiders.widen(found, close, self.clock)
                    settled, helpless = len(problem.targets), helpless + left
                more = self._unions(problem, wider)
                if more is None and (wider == found.hidden).all():
                    self._looked(found, helpless)
                    return found, False
                sure = found
                problem = problem if more is None else more
                hidden = np.concatenate([wider, np.ones(len(problem) - len(wider), bool)])
        except OutOfTime:
            return self._at_once(), True

    def without(self, release: Flags, clock: Clock) -> Impossible | None:
        """Return what cannot be protected if some quantities need not be published; None if everything can."""
        fixed = self.problem.fixed.copy()
        fixed[: len(release)] &= ~release
        try:
            replace(self, problem=replace(self.problem, fixed=fixed), clock=clock).run()
        except Impossible as failed:
            return failed
        return None

    def improve(self, safe: PatternCheck, nodes: int | None) -> tuple[PatternCheck, bool, bool]:
        """Return a cheaper pattern with its audit if there is one, whether it is the cheapest, and whether time was short.

        With more than `nodes` nodes in a search tree, if given, the search ends.
        """
        problem, demands = safe.problem, demands_of(safe.problem)
        cost, search = problem.cost[safe.hidden].sum(), Exact(problem, self.clock, nodes)
        try:
            while True:
                other = search.solve(demands)
                if other is None or problem.cost[other].sum() > cost * (1 + 1e-9):
                    return safe, False, False
                found = check(problem, other)
                more, helpless = self._unions(problem, other), 0
                new: list[Demand] = []
                if self.insiders is not None:
                    close = self.insiders.close(found)
                    new, helpless = self.insiders.demands(found, close)
                if more is None and not new:
                    if len(found.failing):
                        return safe, False, False
                    self._looked(found, helpless)
                    return found, True, False
                if more is not None:
                    demands += demands_of(more)[len(demands_of(problem)) :]
                    problem, search = more, search.with_unions(more)
                demands += new
        except OutOfTime:
            return safe, False, nodes is None or self.clock.over

    def more(self, cheapest: bool) -> list[Guarantee]:
        """Return the further guarantees, and what could not be examined."""
        found = []
        if self.unions:
            found.append((
                "the interval of every sum of hidden cells that would break the rule as a cell reaches its protection levels too",
                "looked at were all published totals less their published parts, for all levels that divide them"
                + (", and what is left when one of these is taken from another, twice over" if self.combinations.deep else ""),
            ))  # fmt: skip
        if self.insiders is not None and self.alone >= 0:
            says = (
                "no contributor that is alone in a leaf, and knows it for that, comes nearer to a secret than "
                f"{digits(100 * self.insiders.level)} % of its protection levels, as far as others are part of it"
            )
            if self.helpless:
                says += (
                    f", but for {plural(self.helpless, 'pair')} of contributor and secret that no pattern keeps apart"
                )
            found.append((
                says, f"{plural(self.alone, 'contributor')} looked at, by tables that could be the true one or by linear programs",
            ))  # fmt: skip
        if cheapest:
            found.append(("no safe pattern costs less", "the mixed-integer program was solved to optimality"))
        return [Guarantee("suppression", *one) for one in found]

    @cached_property
    def combinations(self) -> Combinations:
        cells = self.table.cells  # leaves in the order of the problem
        return Combinations.of(
            Cells(cells.dimensions, cells.labels, sparse.csr_array(cells.incidence[:, self.leaf_order]))
        )

    def _unions(self, problem: SuppressionProblem, hidden: Flags) -> SuppressionProblem | None:
        """Add sums that are no cell, can be worked out and break the rule to the problem; None if there are none."""
        rows = self.combinations.sums(hidden[self.of_cell])[0]
        found = self._assess(rows) if rows.shape[0] else None
        if found is None:
            return None
        new = np.flatnonzero(found.unsafe)
        secret = set_codes(sparse.csr_array(problem.rows[problem.targets]))[:, 0]
        new = new[~np.isin(set_codes(sparse.csr_array(rows[new]))[:, 0], secret)]
        if not len(new):
            return None
        return problem.with_unions(sparse.csr_array(rows[new]), found.upper[new], found.lower[new], found.width[new])

    def _assess(self, rows: sparse.csr_array) -> Sensitivity | None:
        """Assess sums of leaves by the rule, as if they were cells; None where their contributors are not known."""
        try:
            return self.rule.assess(sums_table(self.table, sparse.csr_array(rows[:, np.argsort(self.leaf_order)])))
        except DataError:
            self.unions = False
            return None

    def _looked(self, found: PatternCheck, helpless: int) -> None:
        """Record that contributors were examined."""
        if self.insiders is not None:
            self.alone, self.helpless = self.insiders.count(found), helpless

    def _at_once(self) -> PatternCheck:
        """Return a safe pattern in little time: by blocks, or with everything hidden that may be, which is safe if anything is."""

        def unsafe(rows: sparse.csr_array) -> Flags:
            found = self._assess(rows)
            return np.zeros(rows.shape[0], bool) if found is None else found.unsafe

        problem = self.problem
        quick = exchange_pattern(problem, unsafe, self.insiders)
        if quick is not None and self._unions(problem, quick.hidden) is None:
            self._looked(quick, 0)
            return quick
        hidden = ~problem.fixed
        if (more := self._unions(problem, hidden)) is not None:
            problem, hidden = more, np.concatenate([hidden, np.ones(len(more) - len(problem), bool)])
        found = check(problem, hidden)
        if len(found.failing):
            raise Impossible(problem, int(problem.targets[found.failing[0]]))
        return found
