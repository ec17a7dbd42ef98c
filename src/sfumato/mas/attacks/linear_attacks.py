"""Answers that add up a confidential attribute with weights that the attacker knows: planned, asked, and combined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.data.columns import Column
from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses.correlation import Correlation
from sfumato.mas.analyses.regression import OLS
from sfumato.mas.analyses.table_analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import (
    LEVELS,
    AttackTrials,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    balanced,
    yes_no,
    yes_or_no,
)
from sfumato.mas.attacks.leaks import LeakDataset, confidential, confidential_yes_no, cycle, plant
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.question import Analysis
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.typing import Flags, Numbers

# --- planting
# A known amount of which a few have most, and a confidential attribute that half of all persons have.


LAND, YES, FLAG = "planted_land", "planted_yes", "planted_flag"
"""A known amount; a confidential attribute, as yes and no, and as a number."""
_MOST = 200_000.0
"""No amount is larger: its public bound."""
_ABOVE = 0.005
"""Share of the records that have most of the known amount: the targets."""


@dataclass(frozen=True, eq=False)
class LandTarget:
    """A person whose attribute is attacked through the known amount."""

    planted: LeakDataset
    row: int
    truths: Numbers
    """The attribute of everybody, 1 or 0; shape (n,)."""


def land(world: PlantedDataset) -> tuple[LeakDataset, Numbers]:
    """Plant the known amount and the attribute; return the data set and the attribute of everybody."""
    ground, rng = world.ground, Draws(f"world {world.number}").generator("land")
    n = len(ground.data)
    amounts = np.round(np.minimum(10.0 * (1 - rng.random(n)) ** (-1 / 0.8), _MOST), 1)  # Pareto's law
    truths = (rng.random(n) < 0.5).astype(np.float64)
    edges = np.unique(np.round(np.quantile(amounts, np.arange(1, 10) / 10)))
    columns = {LAND: Column.from_numbers(amounts), YES: yes_no(truths), FLAG: Column.from_numbers(truths)}
    marks = [
        Attribute(LAND, role=Role.KEY, scale=Scale.ORDERED, bounds=(0, _MOST)),
        confidential_yes_no(YES),
        confidential(FLAG, 1.0),
    ]
    return plant(world, "land", [(columns, marks)], {LAND: Cutpoints(tuple(edges.tolist()))}), truths


def richest(world: PlantedDataset) -> list[LandTarget]:
    """Return those who have most of the known amount as targets."""
    planted, truths = land(world)
    order = np.argsort(-planted.base.numbers[LAND], kind="stable")[: round(_ABOVE * len(truths))]
    return [LandTarget(planted, int(row), truths) for row in order]


def anybody(world: PlantedDataset) -> list[LandTarget]:
    """Return 100 persons as targets, whatever they have."""
    planted, truths = land(world)
    rows = Draws(f"world {world.number}").generator("anybody").permutation(len(truths))[:100]
    return [LandTarget(planted, int(row), truths) for row in rows]


# --- what the policy says
# Everything that the attacker reads of a policy, in one place. What a policy does not say is taken as no noise and no price.


Kind = Literal["count", "sum", "correlation", "slope"]
"""A table of the attribute, of the known amount by the attribute, their correlation, or a regression of one on the other."""
SMALLEST: dict[Kind, int] = {"count": 80, "sum": 80, "correlation": 600, "slope": 600}
"""Fewest records of a universe, a little above what policies demand."""
_LEVEL = 30
"""Fewest records of a universe in each chosen level, likewise."""
_LARGEST = 5_000
"""Larger sets reveal little."""


@dataclass(frozen=True, eq=False)
class PublishedTerms:
    """Noise, drops and prices as a policy publishes them, for sums of a known amount."""

    server: Server
    amounts: Numbers
    """The known amount of everybody, shape (n,)."""

    def _read(self, part: str, name: str, default: float) -> float:
        return float(getattr(getattr(self.server.policy, part, None), name, default))

    @cached_property
    def counted(self) -> Numbers:
        """The known amount as it enters sums: values above the top code are replaced by their mean."""
        top = getattr(self.server.dataset.variables[LAND], "top", None)
        if not self._read("amounts", "top_coded", 0.0) or top is None:
            return self.amounts
        return np.where(self.amounts >= top[0], top[1], self.amounts)

    def variance(self, kind: Kind, weights: Numbers) -> float:
        """Return the variance of what is read from an answer, by noise, rounding and drops."""
        dropped, largest = self._read("drop", "share", 0.0), float(self.counted.max())
        lost = dropped / (1 - dropped) * float(weights @ weights) / 4
        if kind == "count":
            return (self._read("counts", "sd", 0.0) ** 2 + (self._read("counts", "base", 1.0) ** 2 - 1) / 12) / 2 + lost
        if kind == "sum":
            return (self._read("amounts", "sd", 0.0) * largest) ** 2 / 2 + lost
        return 2 * (self._read("models", "sd", 0.0) * largest / 4) ** 2 + lost

    def price(self, kind: Kind, n: float) -> float:
        """Return about how much a question about n records costs each of them."""
        accounts = getattr(self.server.policy, "accounts", None) or Accounts()
        whole, half = (float(accounts.price(np.array(size))) for size in (n, n / 2))
        listed = accounts.known * whole
        return {"count": listed + half, "sum": listed + whole + 2 * half}.get(kind, listed + whole)


# --- questions
# A question whose answer is a weighted sum of the attribute: its weights, its noise, and how to read the sum from the answer.


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """A question in a universe; its answer says what Σ w y is, about, for known weights w and the attribute y."""

    universe: Piece
    kind: Kind
    weights: Numbers
    """Shape (n,); 0 outside the universe."""
    offset: float
    """Σ w of counts and sums; of correlations and slopes the sum of squares of the known amount about its mean."""
    n: float
    variance: float
    cost: float

    @classmethod
    def of(cls, terms: PublishedTerms, universe: Piece, inside: Flags, kind: Kind) -> LinearQuestion:
        """Work out the weights of a question."""
        n, x = float(inside.sum()), terms.counted
        if kind in ("count", "sum"):
            weights = np.where(inside, 1.0 if kind == "count" else x, 0.0)
            offset = float(weights.sum())
        else:
            weights = np.where(inside, x - x[inside].mean(), 0.0)
            offset = float(weights @ weights)
        return cls(universe, kind, weights, offset, n, terms.variance(kind, weights), terms.price(kind, n))

    def analysis(self) -> Analysis:
        """Return the analysis to ask for."""
        if self.kind == "correlation":
            return Correlation((LAND, FLAG))
        if self.kind == "slope":
            return OLS(f"{FLAG} ~ {LAND}")
        return CrossTab((YES,), of=LAND if self.kind == "sum" else None)

    def told(self, found: Answer) -> tuple[float, float]:
        """Return Σ w y as the answer has it, and its variance without that of the others' attributes; NaN if it is not shown."""
        if self.kind in ("count", "sum"):
            return self._of_table(found)
        if self.kind == "correlation":
            row, name = found.tables["pairs"][0], "correlation"
        else:
            row, name = found.tables["coefficients"][-1], "coefficient"
        value, error = row[name], row["standard error"]
        if not isinstance(value, int | float) or not isinstance(error, int | float) or not error > 0:
            return math.nan, self.variance
        if self.kind == "slope":
            return value * self.offset, max((error * self.offset) ** 2 - self.offset / 4, self.variance / 4)
        if abs(value) >= 1 or value == 0:  # noise made it impossible
            return math.nan, self.variance
        # the error is in proportion to the same noisy spreads as the correlation: in their ratio these cancel
        return value / error * math.sqrt(self.variance + self.offset / 4), self.variance

    def _of_table(self, found: Answer) -> tuple[float, float]:
        rows = {row[YES]: row[self.kind] for row in found.tables["cells"]}
        yes, no = (float(v) if isinstance(v := rows[level], int | float) else math.nan for level in ("yes", "no"))
        both = [v for v in (yes, self.offset - no) if not math.isnan(v)]
        return (float(np.mean(both)), self.variance * 2 / len(both)) if both else (math.nan, self.variance)


@dataclass(frozen=True, eq=False)
class LinearPlanner:
    """Plans questions about one target; the attacker has a register of the known variables of everybody."""

    target: LandTarget
    server: Server
    rng: np.random.Generator

    @cached_property
    def terms(self) -> PublishedTerms:
        """What the policy says."""
        return PublishedTerms(self.server, self.target.planted.base.numbers[LAND])

    def questions(self, kinds: Sequence[Kind], tries: int) -> list[LinearQuestion]:
        """Return questions of some kinds about different universes that hold the target."""
        found: dict[tuple[bytes, Kind], LinearQuestion] = {}
        for universe in self._universes(tries):
            inside = self.target.planted.inside(universe)
            n = int(inside.sum())
            if n < min(SMALLEST.values()) or self._rare(universe, inside):
                continue
            for kind in kinds:
                if SMALLEST[kind] <= n <= _LARGEST:
                    found.setdefault((inside.tobytes(), kind), LinearQuestion.of(self.terms, universe, inside, kind))
        return list(found.values())

    def _rare(self, universe: Piece, inside: Flags) -> bool:
        """Return whether a chosen level holds so few records of the universe that the question would be refused."""
        base = self.target.planted.base
        known = {v.name: v for v in base.variables}
        return any(
            np.bincount(base.codes[name][inside], minlength=len(known[name].levels))[
                [known[name].levels.index(text) for text in levels]
            ].min()
            < _LEVEL
            for name, levels in universe.items()
        )

    def _universes(self, tries: int) -> Iterator[Piece]:
        base, row = self.target.planted.base, self.target.row
        names = [v.name for v in base.variables]
        some = (c for size in range(1, 5) for c in itertools.combinations(names, size))
        allowed = [c for c in some if self.server.dataset.allowed(c, self.server.policy)]
        levels = {v.name: v.levels for v in base.variables}
        for _ in range(tries if allowed else 0):
            piece: Piece = {}
            for name in allowed[int(self.rng.integers(len(allowed)))]:
                own, n = int(base.codes[name][row]), len(levels[name])
                mates = self.rng.permutation(n)[: int(self.rng.integers(0, min(LEVELS, n)))]
                pick = np.unique([own, *mates])
                if len(pick) < n:
                    piece[name] = tuple(levels[name][i] for i in pick)
            if piece:
                yield piece


# --- combining
# The best order of questions, and the best guess from their answers.


def covariance(questions: Sequence[LinearQuestion], row: int, variances: Numbers, informed: bool) -> Numbers:
    """Return the covariance of the answers, given the target's attribute; shape (questions, questions).

    Others have the attribute with probability 1/2, unless the attacker knows who has it.
    """
    found = np.diag(np.maximum(variances, 1e-9))
    if informed or not questions:
        return found
    weights = np.stack([q.weights for q in questions])
    weights[:, row] = 0.0
    return np.asarray(found + weights @ weights.T / 4)


def best_order(questions: Sequence[LinearQuestion], row: int, informed: bool) -> Iterator[LinearQuestion]:
    """Yield questions, each time the one that adds most information for its price, given those before (pivoted Cholesky)."""
    if not questions:
        return
    every = covariance(questions, row, np.array([q.variance for q in questions]), informed)
    signal = np.array([q.weights[row] for q in questions])
    cost = np.array([q.cost for q in questions])
    rest, left = np.diag(every).copy(), np.ones(len(questions), bool)
    factors = np.zeros((len(questions), 0))
    while left.any():
        best = int(np.argmax(np.where(left, signal**2 / np.maximum(rest, 1e-9) / cost, -1.0)))
        yield questions[best]
        left[best] = False
        size = math.sqrt(max(rest[best], 1e-9))
        column = (every[:, best] - factors @ factors[best]) / size
        factors = np.column_stack([factors, column])
        signal = signal - column * (signal[best] / size)
        rest = np.maximum(rest - column**2, 1e-9)


def evidence(
    questions: Sequence[LinearQuestion], told: Sequence[tuple[float, float]], target: LandTarget, informed: bool
) -> float:
    """Return the log-likelihood ratio of yes against no: Fisher's linear discriminant of all answers.

    An informed attacker subtracts what everybody else contributes; answers then differ from it by noise alone.
    """
    if not questions:
        return 0.0
    signal = np.array([q.weights[target.row] for q in questions])
    others = target.truths if informed else np.full(len(target.truths), 0.5)
    usual = np.array([float(q.weights @ others) for q in questions]) - signal * others[target.row]
    every = covariance(questions, target.row, np.array([variance for _, variance in told]), informed)
    return float(np.linalg.solve(every, signal) @ (np.array([value for value, _ in told]) - usual - signal / 2))


# --- attacks


_STOP = 3
"""After this many refusals in a row the attacker considers an account spent."""


class LinearAttack(PolicyAttack, abstract=True):
    """Accounts spent on questions of some kinds about one person, in the order of what they tell for their price."""

    bar = 0.60
    kinds: ClassVar[tuple[Kind, ...]]
    informed: ClassVar[bool] = False
    """Whether the attacker knows the attribute of everybody else."""
    users: int = param(default=1, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=200, doc="most targets", low=1, integer=True)
    questions: int = param(default=60, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(default=200, doc="universes that the questions are chosen from", low=1, integer=True)

    def persons(self, world: PlantedDataset) -> list[LandTarget]:
        """Return the persons who are attacked in a world."""
        return richest(world)

    def run(self, field: AttackTrials) -> Guesses:
        """Spend the accounts on each target, and combine the answers."""
        rows, scores, truths = [], [], []
        for trial, target in cycle(field, self.persons, self.targets):
            (server,) = target.planted.servers(field, trial)
            planner = LinearPlanner(target, server, Draws("linear").child(trial).generator("universes"))
            planned = planner.questions(self.kinds, self.tries)
            rows.append(target.row)
            scores.append(self._spend(server, target, best_order(planned, target.row, self.informed)))
            truths.append(float(target.truths[target.row]))
        return balanced(yes_or_no(rows, scores, truths))

    def _spend(self, server: Server, target: LandTarget, ordered: Iterator[LinearQuestion]) -> float:
        """Ask until the accounts are spent; return the evidence of the answers."""
        user = refused = asked = 0
        one, answered, told = server.as_user("user 0"), list[LinearQuestion](), list[tuple[float, float]]()
        for question in ordered:
            found = one.ask(question.universe, question.analysis())
            asked += 1
            if isinstance(found, Answer):
                refused = 0
                if not math.isnan((reading := question.told(found))[0]):
                    answered.append(question)
                    told.append(reading)
            elif found.rule == "accounts":
                refused += 1
            if refused >= _STOP or asked >= self.questions:
                user, refused, asked = user + 1, 0, 0
                one = server.as_user(f"user {user}")
            if user >= self.users:
                break
        return evidence(answered, told, target, self.informed)


class KnownAmountSums(LinearAttack):
    """Sums of a known amount by a confidential attribute, for those who have most of the amount: noise that does not grow with
    it hides them less than others.
    """

    title = "sums of a known amount, one account"
    kinds = ("sum",)


class KnownAmountSumsEverybody(KnownAmountSums):
    """The same by many users, until the account of everybody is spent."""

    title = "sums of a known amount, all accounts"
    bar = 0.65
    users: int = param(default=20, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)
    tries: int = param(default=600, doc="universes that the questions are chosen from", low=1, integer=True)


class KnownAmountCorrelations(LinearAttack):
    """Correlations of a known amount with a confidential attribute, for those who have most of the amount."""

    title = "correlations with a known amount, one account"
    kinds = ("correlation",)
    questions: int = param(default=100, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(default=400, doc="universes that the questions are chosen from", low=1, integer=True)


class KnownAmountSlopes(LinearAttack):
    """Slopes of a confidential attribute on a known amount, for those who have most of the amount."""

    title = "slopes on a known amount, one account"
    kinds = ("slope",)


class InformedBudget(LinearAttack):
    """One account, spent by an attacker who knows the attribute of everybody but the target: counts, sums and models."""

    title = "one account, all others known"
    kinds = ("count", "sum", "correlation", "slope")
    informed = True

    def persons(self, world: PlantedDataset) -> list[LandTarget]:
        """Return persons chosen at random, and as many of those who have most of the known amount."""
        return [one for pair in zip(anybody(world), richest(world), strict=False) for one in pair]


class InformedEverybody(InformedBudget):
    """All accounts, spent by an attacker who knows the attribute of everybody but the target."""

    title = "all accounts, all others known"
    bar = 0.65
    users: int = param(default=8, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)
    tries: int = param(default=600, doc="universes that the questions are chosen from", low=1, integer=True)
