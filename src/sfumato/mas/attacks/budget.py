"""A whole account spent on one person: which questions to ask, and the best guess from all answers together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import (
    HALF,
    LEVELS,
    SHARES,
    AttackTarget,
    AttackTrials,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    analysis_named,
    balanced,
    yes_or_no,
)
from sfumato.mas.cube import Cube
from sfumato.mas.perturbation import Noise
from sfumato.mas.question import Analysis
from sfumato.typing import Numbers

# --- plan
# Questions about sets with and without a target: their information, and their cost to the target's account.

_SIZES = (45, 1_000)
"""Smaller sets are not shown, larger sets reveal little."""
_MODELS = (600, 20)
"""Fewest records of a model, and of a level with a coefficient, a little above what policies demand."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A question in a universe: a table of the attribute, or a logistic model of it on one variable."""

    universe: Piece
    side: str | None
    own: str
    """The target's level of that variable; empty for a plain table."""
    model: bool
    reading: SetCount
    cost: float
    """Approximate cost to the target's account."""

    def analysis(self, attribute: str) -> Analysis:
        """Return the analysis to ask for."""
        if self.model:
            return analysis_named("logistic", formula=f"{attribute} ~ C(`{self.side}`)", event="yes")
        return CrossTab((attribute,) if self.side is None else (self.side, attribute))

    def told(self, found: Answer, attribute: str) -> float:
        """Return the number of records of the set with the attribute, estimated from the answer; NaN if it cannot be."""
        if self.model:
            return self._fitted(found)
        rows = {
            row[attribute]: row["count"]
            for row in found.tables["cells"]
            if self.side is None or row[self.side] == self.own
        }
        yes, no = (float(v) if isinstance(v := rows[level], int | float) else math.nan for level in ("yes", "no"))
        return float(np.mean([yes, self.reading.n - no]))

    def _fitted(self, found: Answer) -> float:
        """Return the fitted probability of the target's level times its records."""
        linear, terms = 0.0, found.tables["coefficients"]
        for row in terms:
            term, value = str(row["term"]), row["coefficient"]
            if not isinstance(value, int | float):
                return math.nan
            if row is terms[0] or term.endswith(f"[{self.own}]"):
                linear += value
        return self.reading.n / (1 + math.exp(-linear))


@dataclass(frozen=True, eq=False)
class Planner:
    """Plans questions about one target; the attacker has a register of the known variables of everybody."""

    target: AttackTarget
    world: PlantedDataset
    server: Server
    attribute: str
    rng: np.random.Generator
    models: bool = True

    @cached_property
    def cube(self) -> Cube:
        """The table of all known variables."""
        return self.world.dataset.cubes.of([v for v in self.world.dataset.variables.values() if v.known and v.levels])

    @cached_property
    def others(self) -> NDArray[np.float32]:
        """Records of each cell except the target, shape (cells,)."""
        counts = self.cube.counts.astype(np.float32)
        counts[tuple(self._own)] -= 1
        return counts.ravel()

    @cached_property
    def _own(self) -> list[int]:
        return [int(self.world.codes[v.name][self.target.row]) for v in self.cube.variables]

    @cached_property
    def _allowed(self) -> list[tuple[int, ...]]:
        """Axes of the variables that may form universes together, by the published list."""
        names, axes = [v.name for v in self.cube.variables], range(len(self.cube.variables))
        some = (c for size in range(1, 5) for c in itertools.combinations(axes, size))
        return [c for c in some if self.server.dataset.allowed([names[i] for i in c], self.server.policy)]

    def asks(self, tries: int) -> list[Ask]:
        """Return questions with different other records: universes with some levels of some variables, plain or by a variable."""
        found: dict[str, Ask] = {}
        for _ in range(tries):
            used = self._allowed[int(self.rng.integers(len(self._allowed)))]
            pick = [np.arange(len(v.levels)) for v in self.cube.variables]
            for axis in used:
                levels = len(pick[axis])
                mates = self.rng.permutation(levels)[: int(self.rng.integers(0, min(LEVELS, levels)))]
                pick[axis] = np.unique([self._own[axis], *mates])
            for ask in self._forms(used, pick):
                found.setdefault(f"{sorted(ask.universe.items())}{ask.side}{ask.model}", ask)
        return list(found.values())

    def _forms(self, used: tuple[int, ...], pick: list[NDArray[np.intp]]) -> Iterator[Ask]:
        """Yield the questions about a universe: a table, one by a variable, a model, and a table of the rest without the target."""
        universe = {
            self.cube.variables[i].name: self._texts(i, pick[i]) for i in used if len(pick[i]) < self._levels(i)
        }
        whole = self._size(pick)
        if not universe:
            return
        if _SIZES[0] <= whole <= _SIZES[1]:
            yield self._table(universe, None, pick, whole)
            for axis in used:
                rest = pick[axis][pick[axis] != self._own[axis]]
                company = [*pick[:axis], rest, *pick[axis + 1 :]]
                n = self._size(company)
                if len(rest) and n >= _SIZES[0]:
                    name = self.cube.variables[axis].name
                    yield self._table({**universe, name: self._texts(axis, rest)}, None, company, n)
        for axis in range(len(pick)):
            if len(pick[axis]) < 2:
                continue
            cell = [*pick[:axis], np.array([self._own[axis]]), *pick[axis + 1 :]]
            n = self._size(cell)
            if _SIZES[0] <= n <= _SIZES[1]:
                yield self._table(universe, axis, cell, n)
            if self.models and whole >= _MODELS[0] and _MODELS[1] <= n <= _SIZES[1]:
                yield self._model(universe, axis, cell, n, whole)

    def _table(self, universe: Piece, axis: int | None, cells: list[NDArray[np.intp]], n: float) -> Ask:
        counts, share = self.server.policy.counts, SHARES[self.attribute]
        noise = float(counts.variance(1.0, n * share * (1 - share))) + (counts.base**2 - 1) / 12
        reading = self._reading(cells, n, noise / 2)  # of those with the attribute, and of those without
        cost = loss_of_sums(counts, [n, n], share) if reading.holds else 0.0
        return Ask(universe, *self._side(axis), False, reading, cost)

    def _model(self, universe: Piece, axis: int, cells: list[NDArray[np.intp]], n: float, whole: float) -> Ask:
        models, share = self.server.policy.models, SHARES[self.attribute]
        noise = float(models.variance(1.0, n * share * (1 - share))) / (1 - self._dropped) ** 2
        cost = loss_of_sums(models, [whole, n], share)  # the target adds to the intercept, and to its own indicator
        return Ask(universe, *self._side(axis), True, self._reading(cells, n, noise), cost)

    def _reading(self, cells: list[NDArray[np.intp]], n: float, noise: float) -> SetCount:
        share, drop = SHARES[self.attribute], self.server.policy.drop
        lost = self._dropped * n / (1 - self._dropped) if self._dropped else float(getattr(drop, "q", 0))
        inside = np.zeros(self.cube.counts.shape, np.float32)
        inside[np.ix_(*cells)] = 1
        holds = bool(inside[tuple(self._own)])
        return SetCount(inside.ravel(), n, holds, noise + share * (1 - share) * lost + 0.01)

    @property
    def _dropped(self) -> float:
        return float(getattr(self.server.policy.drop, "share", 0.0))

    def _side(self, axis: int | None) -> tuple[str | None, str]:
        if axis is None:
            return None, ""
        variable = self.cube.variables[axis]
        return variable.name, variable.levels[self._own[axis]]

    def _texts(self, axis: int, pick: NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(self.cube.variables[axis].levels[i] for i in pick)

    def _levels(self, axis: int) -> int:
        return len(self.cube.variables[axis].levels)

    def _size(self, pick: list[NDArray[np.intp]]) -> float:
        return float(self.cube.counts[np.ix_(*pick)].sum())


def loss_of_sums(noise: Noise, sizes: Sequence[float], share: float) -> float:
    """Return what sums of an attribute over some sets tell of a record in each: the sum of 1 / variance; without noise, how many.

    The mechanism charges the same: μ² is the squared change of each sum over the variance of its noise, and one record moves a
    count of those with the attribute by 1.
    """
    grown = np.array(sizes, np.float64) * share * (1 - share)
    return float((1 / noise.variance(1.0, grown)).sum()) if noise.sd else float(len(sizes))


# --- joint
# Many noisy counts of overlapping sets combined: the best linear guess of whether one person has an attribute.


@dataclass(frozen=True, eq=False)
class SetCount:
    """A set of records for which the number with the attribute can be learned."""

    inside: NDArray[np.float32]
    """1 for each cell of the table of known variables that is in the set, else 0; shape (cells,)."""
    n: float
    """Records of the set."""
    holds: bool
    """Whether the target is in the set."""
    variance: float
    """Variance of the reading, from noise, rounding and drops."""


@dataclass(eq=False)
class Joint:
    """The readings so far. Others have the attribute independently, with a known probability.

    Then the readings have the covariance share (1 - share) |S and T| plus that of their noise, and the target's attribute moves
    their means by 1 for the sets that hold it: Fisher's linear discriminant is the log-likelihood ratio, as far as counts are
    normal.
    """

    counts: NDArray[np.float32]
    """Records of each cell except the target, shape (cells,)."""
    share: float
    chosen: list[SetCount] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    covariance: Numbers = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, reading: SetCount, value: float = math.nan) -> None:
        """Add a reading and its value."""
        self.chosen.append(reading)
        self.values.append(value)
        row = self.shared(np.stack([r.inside for r in self.chosen]), reading)
        grown = np.zeros((len(row), len(row)))
        grown[:-1, :-1], grown[-1], grown[:, -1] = self.covariance, row, row
        grown[-1, -1] += reading.variance
        self.covariance = grown

    def shared(self, cells: NDArray[np.float32], reading: SetCount) -> Numbers:
        """Return the covariances with a reading due to shared records; cells are (sets, cells), the result is (sets,)."""
        return np.asarray(cells @ (self.counts * reading.inside), np.float64) * self.share * (1 - self.share)

    def solved(self, right: Numbers) -> Numbers:
        """Return the inverse of the covariance of all readings, times a matrix."""
        return np.asarray(np.linalg.solve(self.covariance, right))

    def signal(self) -> Numbers:
        """Return the shift of each reading by the target."""
        return np.array([float(r.holds) for r in self.chosen])

    def gains(self, candidates: Sequence[SetCount], across: Numbers) -> Numbers:
        """Return the information that each candidate would add: the squared distance of yes and no.

        `across` holds its overlaps with the readings so far, shape (candidates, readings).
        """
        own = np.array([(r.n - r.holds) * self.share * (1 - self.share) + r.variance for r in candidates])
        moved = np.array([float(r.holds) for r in candidates])
        if self.chosen:
            solved = self.solved(np.column_stack([self.signal(), across.T]))
            moved = moved - across @ solved[:, 0]
            own = own - np.einsum("ij,ji->i", across, solved[:, 1:])
        return np.asarray(moved**2 / np.maximum(own, 1e-9))

    def information(self) -> float:
        """Return the squared distance between the readings with and without the attribute, in standard deviations."""
        signal = self.signal()
        return float(signal @ self.solved(signal)) if self.chosen else 0.0

    def evidence(self) -> float:
        """Return the log-likelihood ratio of yes against no, including the overall share."""
        prior = math.log(self.share / (1 - self.share))
        if not self.chosen:
            return prior
        signal = self.signal()
        weights = self.solved(signal)
        usual = np.array([(r.n - r.holds) * self.share for r in self.chosen])
        return prior + float(weights @ (np.array(self.values) - usual - signal / 2))


# --- budget
# A whole account spent on one person: many sets that hold the person, each with other records, combined.


_STOP = 3
"""After this many refusals in a row the attacker considers an account spent."""
_FREE = 0.3
"""Assumed cost of a question without the target: it charges not the target's account, but those of the other records."""


class WholeBudget(PolicyAttack):
    """One account, spent on tables and models of sets that hold the target, and of the same sets without.

    The attacker has a register of the known variables of everybody. Each next question is the one that adds most information for
    its cost, given those before; all answers are combined.
    """

    title = "one account, 50/50"
    bar = 0.60
    users: int = param(default=1, doc="how many users spend their accounts together", low=1, integer=True)
    attribute: str = param(default=HALF, doc="the planted attribute", choices=(HALF, "planted_thirty"))
    targets: int = param(default=200, doc="most targets", low=1, integer=True)
    questions: int = param(default=60, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(
        default=150, doc="universes that the questions are chosen from, for each user", low=1, integer=True
    )
    models: bool = param(default=True, doc="whether models are asked for, and not only tables")

    def run(self, field: AttackTrials) -> Guesses:
        """Spend the accounts on each target, and combine the evidence of the answers."""
        share = SHARES[self.attribute]
        rows, scores, truths = [], [], []
        for trial, (server, world, target) in enumerate(field.each(4, min(self.targets, field.trials))):
            rng = Draws("company").child(trial).generator("sets")
            planner = Planner(target, world, server, self.attribute, rng, self.models)
            rows.append(target.row)
            scores.append(self._spend(server, planner, Joint(planner.others, share)).evidence())
            truths.append(float(world.truths[self.attribute][target.row]))
        if self.attribute == HALF:
            return balanced(yes_or_no(rows, scores, truths))
        return yes_or_no(rows, scores, truths, 1 - share)

    def _spend(self, server: Server, planner: Planner, joint: Joint) -> Joint:
        """Ask until the accounts are spent."""
        user, refused, asked = 0, 0, 0
        one = server.as_user("user 0")
        for ask in best_first(planner.asks(self.tries * self.users), joint):
            found = one.ask(ask.universe, ask.analysis(self.attribute))
            asked += 1
            if isinstance(found, Answer):
                refused = 0
                if not math.isnan(value := ask.told(found, self.attribute)):
                    joint.add(ask.reading, value)
            elif found.rule == "accounts" and ask.reading.holds:
                refused += 1
            if refused >= _STOP or asked >= self.questions:
                user, refused, asked = user + 1, 0, 0
                one = server.as_user(f"user {user}")
            if user >= self.users:
                break
        return joint


def best_first(asks: list[Ask], joint: Joint) -> Iterator[Ask]:
    """Yield questions, each time the one that adds most information for its cost to the readings so far."""
    costs = np.array([ask.cost or _FREE for ask in asks])
    readings = [ask.reading for ask in asks]
    cells = np.stack([reading.inside for reading in readings]) if readings else np.zeros((0, 0), np.float32)
    across = np.zeros((len(asks), 0))
    left = np.ones(len(asks), bool)
    while left.any():
        new = joint.chosen[across.shape[1] :]
        across = np.column_stack([across, *(joint.shared(cells, one)[:, None] for one in new)])
        worth = np.where(left, joint.gains(readings, across) / costs, -1.0)
        best = int(np.argmax(worth))
        left[best] = False
        yield asks[best]


class WholeBudgetSkewed(WholeBudget):
    """One account, spent on an attribute that three in ten have."""

    title = "one account, 70/30"
    bar, above = 0.05, "baseline"
    attribute: str = param(default="planted_thirty", doc="the planted attribute", choices=(HALF, "planted_thirty"))


class EverybodysBudget(WholeBudget):
    """All users together, until the account of everybody is spent."""

    title = "all accounts, 50/50"
    bar = 0.65
    users: int = param(default=8, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)
