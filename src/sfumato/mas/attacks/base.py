"""The base of every attack on a policy: planted data, targets, the server as an attacker sees it, and the bar."""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parametric, find
from sfumato.contract.snooper import Guesses, Success, success
from sfumato.data.columns import Column
from sfumato.data.engine import Rows
from sfumato.data.microdata import Microdata
from sfumato.mas.accounts import loss_of, right_of
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger, project_account
from sfumato.mas.perturbation import Secret, ledger_key
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import codes_of, find_variables
from sfumato.mas.question import Analysis
from sfumato.mas.universe import Spec
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Vault, cell_counts
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.schema.schema import Schema

# --- target
# Targets: persons who are the difference between two universes.

Piece = dict[str, tuple[str, ...]]
Codes = Mapping[str, NDArray[np.int64]]
LEVELS = 8
"""Most levels of a variable that a universe selects: the rules as printed refuse more."""


@dataclass(frozen=True)
class AttackTarget:
    """A record that is alone in the difference of two universes."""

    row: int
    """Its row in the data, known to the custodian only."""
    universe: Piece
    """A piece that holds the target."""
    without: Piece
    """The same records without the target."""
    pads: tuple[Piece, ...]
    """Other pieces, disjoint from the universe."""

    def alone(self) -> Piece:
        """Return the cell in which the target is alone."""
        return {
            n: tuple(v for v in levels if v not in self.without[n]) or levels for n, levels in self.universe.items()
        }

    def pair(self, pad: int | None = None) -> tuple[list[Piece], list[Piece]]:
        """Return the two universes; with a pad, both include it."""
        more = [] if pad is None else [self.pads[pad]]
        return [self.universe, *more], [self.without, *more]


def find_targets(
    variables: Sequence[Variable], codes: Codes, conditions: int, smallest: int = 100, most: int = 400
) -> list[AttackTarget]:
    """Return targets of universes formed with 2 to 4 known variables, at most one for each record;
    none, if nobody is alone in the difference of two.

    A universe fixes a level of all but two variables. It takes up to eight levels of one, and includes or excludes the level of
    the last in which the target is alone: {F, S03, 60-89} against the same with race in {W, B, A}.
    """
    found: dict[int, AttackTarget] = {}
    for chosen in itertools.permutations(variables, conditions):
        if list(chosen[:-2]) == sorted(chosen[:-2], key=lambda v: v.name):
            for target in _targets(chosen, codes, smallest):
                found.setdefault(target.row, target)
        if len(found) >= 4 * most:
            break
    rows = sorted(found)
    spaced = [rows[i * len(rows) // min(most, len(rows))] for i in range(min(most, len(rows)))]
    return [found[row] for row in spaced]


def _targets(chosen: Sequence[Variable], codes: Codes, smallest: int) -> Iterator[AttackTarget]:
    """Yield targets; the last variable isolates the target, the one before it gives a range of levels."""
    shape = tuple(len(v.levels) for v in chosen)
    flat = np.ravel_multi_index([codes[v.name] for v in chosen], shape)
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(counts.size))
    for place in zip(*np.nonzero(counts == 1), strict=True):
        fixed, last = place[:-2], place[-1]
        near = counts[fixed]  # levels of the range × levels of the last
        if len(chosen) == 2:
            # one level of the first; up to eight of the last, including the target's
            others = [i for i in np.argsort(-counts[place[0]], kind="stable") if i != last][: LEVELS - 1]
            total, span = 1 + int(counts[place[0]][others].sum()), [place[0]]
        else:
            free = [i for i in np.argsort(-near.sum(1), kind="stable") if near[i, last] == 0 and i != place[-2]]
            span = [place[-2], *free[: LEVELS - 1]]
            others = [i for i in range(shape[-1]) if i != last][: LEVELS - 1]
            total = 1 + int(near[np.ix_(span, others)].sum())
        if total < smallest:
            continue
        base: Piece = {v.name: (v.levels[i],) for v, i in zip(chosen, fixed, strict=False)}
        base[chosen[-2].name] = tuple(chosen[-2].levels[i] for i in sorted(span))
        end = chosen[-1]
        without = {**base, end.name: tuple(end.levels[i] for i in sorted(others))}
        universe = {**base, end.name: tuple(end.levels[i] for i in sorted([*others, last]))}
        row = int(order[starts[np.ravel_multi_index(place, shape)]])
        yield AttackTarget(row, universe, without, tuple(_pads(chosen, base)))


def _pads(chosen: Sequence[Variable], base: Piece) -> Iterator[Piece]:
    """Yield pieces with one, two or three other levels of the fixed variable that has the most levels."""
    fixed = max((v for v in chosen if len(base.get(v.name, ())) == 1), key=lambda v: len(v.levels), default=None)
    if fixed is None:
        return
    others = [level for level in fixed.levels if level not in base[fixed.name]]
    for size in (1, 2, 3):
        for some in itertools.islice(itertools.combinations(others, size), 40):
            yield {fixed.name: some}


# --- server
# The server as an attacker sees it: questions go in, answers or refusals come out, through the vault.


@dataclass(eq=False)
class QuestionTally:
    """The outcomes of the questions of an attack."""

    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """How many questions each rule refused."""
    information: list[float] = field(default_factory=list)
    """What all answers about a target told, as the attacker calculates it: squared distances of yes and no."""
    servers: list[Server] = field(default_factory=list)
    """One for each data set with accounts of its own."""

    @property
    def asked(self) -> int:
        """Number of questions."""
        return self.answered + self.refused.total()

    @property
    def refusal_rate(self) -> float:
        """Share of questions that were refused; 0 if none was asked."""
        return self.refused.total() / self.asked if self.asked else 0.0


@dataclass(frozen=True, eq=False)
class Server:
    """A data set behind a policy. The attacker is patient, so the rate of questions is not limited."""

    vault: Vault
    dataset: Dataset
    policy: Policy
    tally: QuestionTally
    user: str = "attacker"

    def ask(self, universe: Spec, analysis: Analysis) -> Answer | Refusal:
        """Ask a question."""
        found = self.vault.ask(self.dataset, universe, analysis, self.policy, user=self.user)
        if isinstance(found, Refusal):
            self.tally.refused[found.rule] += 1
        else:
            self.tally.answered += 1
        return found

    def counts(self, universe: Spec, by: str) -> dict[str, float] | None:
        """Return the counts of a universe by the levels of a variable, NaN where not shown; None if refused."""
        found = self.ask(universe, CrossTab((by,)))
        if isinstance(found, Refusal):
            return None
        rows = next(iter(found.tables.values()))
        return {str(row[by]): _number(row["count"]) for row in rows}

    def told(self) -> float:
        """Return the largest loss of a record by all answers, for whoever knows all else: nothing limits it without noise."""
        if not min(self.policy.counts.sd, self.policy.amounts.sd, self.policy.models.sd):
            return math.inf
        found = self.vault.ledger.balance(
            project_account(None), self.dataset.name, self.dataset.variables, cell_counts(self.dataset, self.policy)
        )
        return float(found.formal.max(initial=0.0)) + self.dataset.frozen_loss

    def as_user(self, name: str) -> Server:
        """Return the same server for another user."""
        return Server(self.vault, self.dataset, self.policy, self.tally, name)


def analysis_named(name: str, **parameters: object) -> Analysis:
    """Return an analysis by its name, as everybody asks for it: "ols", "logistic", "quantiles"."""
    found = find("analysis", name).from_dict(parameters)
    assert isinstance(found, Analysis)  # noqa: S101 - of its family
    return found


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


# --- planted data
# Data for the bench with planted confidential variables, frozen in a vault, so that no real value is attacked.


HALF, THIRTY, RARE, AMOUNT = "planted_half", "planted_thirty", "planted_rare", "planted_amount"
"""Confidential variables: yes for half of all, for 30 %, for 2 % of all but half of the targets; an amount of money."""
LARGE = "planted_large"
"""An amount that is large for outliers only: in most sums one person makes up more than 90 %."""
LARGEST = 600_000.0
"""No ordinary amount is larger."""
_ACCOUNTS = itertools.count()
"""No two servers share accounts."""
SHARES = {HALF: 0.5, THIRTY: 0.3, RARE: 0.02}


@dataclass(frozen=True, eq=False)
class PlantedDataset:
    """One planting: a coin decides for every target whether it has each attribute."""

    vault: Vault
    dataset: Dataset
    number: int
    truths: Mapping[str, NDArray[np.float64]]
    """For each record: 1 for yes and 0 for no; the amount. Shape (n,)."""
    outliers: frozenset[int]
    """Rows whose amount is far above all others."""
    codes: Mapping[str, NDArray[np.int64]]
    """Level numbers of the known variables, shape (n,) each."""
    numbers: Mapping[str, NDArray[np.float64]]
    """Known numerical variables, shape (n,) each."""
    ground: BaseData
    """The data without what was planted."""

    def server(self, policy: Policy, tally: QuestionTally, trial: int) -> Server:
        """Return a server with its own secret and accounts."""
        return self.servers(policy, tally, trial, self.dataset)[0]

    def servers(self, policy: Policy, tally: QuestionTally, trial: int, *versions: Dataset) -> list[Server]:
        """Return a server for each version of a data set in this vault; they share a secret and accounts.

        The accounts are whole: facts read off at freezing are charged, but here they are mostly about what is planted for other
        recipes, and this attacker does not use them. A file with fewer confidential variables leaves him more.
        """
        secret, number = Secret(Draws(f"attack {self.number} {trial}")), next(_ACCOUNTS)
        fresh = [
            dataclasses.replace(one, name=f"{one.name}_{number}", secret=secret, frozen_loss=0.0) for one in versions
        ]
        found = [Server(self.vault, one, policy.with_(per_minute=None), tally) for one in fresh]
        tally.servers += found[-1:]
        return found


@dataclass(frozen=True, eq=False)
class BaseData:
    """Data to attack, from which worlds are planted and frozen."""

    data: Microdata
    cutpoints: Mapping[str, Cutpoints]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The known variables that have levels."""
        return tuple(v for v in find_variables(self.data, self.cutpoints) if v.known and v.levels)

    @cached_property
    def codes(self) -> dict[str, NDArray[np.int64]]:
        """Level numbers of the known variables, shape (n,) each."""
        columns, schema = self.data.batch().rows.columns, self.data.schema
        return {v.name: codes_of(columns[v.name], schema[v.name], v).astype(np.int64) for v in self.variables}

    @cached_property
    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Known numerical variables, shape (n,) each."""
        return {v.name: self.data.numbers(v.name) for v in self.variables if v.numeric}

    def world(self, folder: Path, number: int, targets: Sequence[AttackTarget]) -> PlantedDataset:
        """Plant and freeze a world."""
        n, rng = len(self.data), Draws(f"world {number}").generator("planted")
        rows = np.unique([target.row for target in targets])
        truths: dict[str, NDArray[np.float64]] = {}
        for name, share in SHARES.items():
            truths[name] = (rng.random(n) < share).astype(np.float64)
        truths[RARE][rows] = (rng.random(len(rows)) < SHARES[HALF]).astype(np.float64)
        fewest = min(len(target.universe) for target in targets)  # the universes used by the attacks on amounts
        few = rng.permutation(np.unique([t.row for t in targets if len(t.universe) == fewest]))[: max(1, n // 1000)]
        amount = np.minimum(np.exp(rng.normal(10.5, 0.7, n)), LARGEST)
        amount[few] = LARGEST * np.exp(rng.uniform(0.2, 1.6, len(few)))
        truths[AMOUNT] = np.asarray(np.round(amount, 2), np.float64)
        truths[LARGE] = np.where(amount > LARGEST, truths[AMOUNT], np.round(amount / 1e5, 2))
        columns = {name: yes_no(truths[name]) for name in SHARES}
        columns |= {name: Column.from_numbers(truths[name]) for name in (AMOUNT, LARGE)}
        marks = [Attribute(name, role=Role.CONFIDENTIAL, scale=Scale.UNORDERED) for name in SHARES]
        marks += [Attribute(name, role=Role.CONFIDENTIAL) for name in (AMOUNT, LARGE)]
        folder.mkdir(parents=True, exist_ok=True)
        secret = Draws(f"vault {number}")
        vault = Vault(folder, secret, Policy.open())
        vault.ledger = Ledger(folder / "attacks.sqlite", ledger_key(secret), lasting=False)
        dataset = vault.freeze("survey", self.planted(columns, marks), self.cutpoints)
        outliers = frozenset(int(i) for i in few)
        return PlantedDataset(vault, dataset, number, truths, outliers, self.codes, self.numbers, self)

    def planted(self, columns: Mapping[str, Column], marks: Sequence[Attribute]) -> Microdata:
        """Return the data with more columns, each with its attribute."""
        batch = self.data.batch().rows
        rows = Rows(batch.ids, {**batch.columns, **columns})
        return Microdata(self.data.engine.hold(rows), Schema((*self.data.schema, *marks)))


def yes_no(flags: NDArray[np.float64]) -> Column:
    """Return 1 as "yes" and 0 as "no"."""
    return Column.from_values(np.array(["no", "yes"], object)[flags.astype(int)])


# --- attack
# The base class of every recipe of the attack bench, and the comparison of its success with the bar.


ENOUGH = 400
"""The bar applies to at least this many targets."""
WITHIN = 0.20
"""A guess of a number is right if it is off by no more than this share."""


@dataclass(frozen=True, eq=False)
class AttackTrials:
    """The setting of a recipe: worlds, targets, one policy, and a count of refusals."""

    worlds: Sequence[PlantedDataset]
    targets: Callable[[int], Sequence[AttackTarget]]
    """Targets of universes formed with a given number of variables."""
    policy: Policy
    trials: int = 400
    tally: QuestionTally = field(default_factory=QuestionTally)

    def each(
        self, conditions: int = 2, trials: int | None = None, *, outliers: bool | None = None
    ) -> Iterator[tuple[Server, PlantedDataset, AttackTarget]]:
        """Yield a fresh server and a target for each trial, with new secrets and new coins.

        With `outliers` True, only targets with amounts far above all others; with False, all except these.
        """
        pairs = [
            (world, target)
            for target in self.targets(conditions)
            for world in self.worlds
            if outliers is None or (target.row in world.outliers) is outliers
        ]
        for i in range((trials or self.trials) if pairs else 0):
            world, target = pairs[(i * 7) % len(pairs) if len(pairs) % 7 else i % len(pairs)]
            yield world.server(self.policy, self.tally, i), world, target


class PolicyAttack(Parametric, family="attack recipe", abstract=True):
    """One attack of MAS.md, "Attacks to withstand"."""

    title: ClassVar[str] = ""
    bar: ClassVar[float] = 0.55
    """The largest share of right guesses that a policy may allow."""
    above: ClassVar[Literal["nothing", "baseline"]] = "nothing"
    """Whether the bar is measured from the baseline."""

    @abstractmethod
    def run(self, field: AttackTrials) -> Guesses:
        """Attack every target, and return the guesses."""


@dataclass(frozen=True)
class Outcome:
    """The result of a recipe against a policy."""

    recipe: str
    title: str
    success: Success
    limit: float
    """The largest share that the bar allows."""
    refusal_rate: float
    refused: dict[str, int]
    """How many questions each rule refused."""
    formal: float = 1.0
    """Guesses between two values that are right at most, by what the answers told of a record (the mean over trials of Φ(μ/2)): for
    whoever knows everything else."""
    calculated: float = math.nan
    """Guesses that are right by the attacker's own calculation, where he calculates: less subject to chance than those counted."""

    @property
    def mu(self) -> float:
        """The μ of Gaussian differential privacy at which so many guesses are right; infinite without noise."""
        return math.sqrt(loss_of(self.formal))

    @property
    def held(self) -> bool:
        """Whether the policy withstood the attack."""
        return self.success.rate <= self.limit + 1e-12

    @property
    def verdict(self) -> Literal["withstood", "not clear", "BROKEN"]:
        """The result in a word; with few targets, more than the bar allows may be right by chance, and then it is "not clear"."""
        if self.held:
            return "withstood"
        sure = self.success.targets >= ENOUGH or self.success.interval[0] > self.limit
        return "BROKEN" if sure else "not clear"


def outcome(recipe: PolicyAttack, field: AttackTrials) -> Outcome:
    """Run a recipe and compare it with its bar."""
    found = success(recipe.run(field))
    limit = recipe.bar + (found.baseline if recipe.above == "baseline" else 0.0)
    tally = field.tally
    formal = float(np.mean([right_of(one.told()) for one in tally.servers])) if tally.servers else 1.0
    calculated = float(np.mean([right_of(told) for told in tally.information])) if tally.information else math.nan
    return Outcome(
        recipe.name,
        recipe.title,
        found,
        limit,
        tally.refusal_rate,
        dict(sorted(tally.refused.items())),
        formal,
        calculated,
    )


def yes_or_no(rows: Sequence[int], scores: Sequence[float], truths: Sequence[float], baseline: float = 0.5) -> Guesses:
    """Return guesses from scores: yes above 0, no below; at 0 a coin decides."""
    score, truth = np.array(scores, np.float64), np.array(truths, np.float64)
    guess = (score > 0).astype(np.float64)
    right = np.where(score == 0, 0.5, guess == truth)
    return Guesses(np.array(rows, np.int64), guess, truth, right, np.full(len(truth), baseline), np.abs(score))


def balanced(guesses: Guesses) -> Guesses:
    """Weight right answers so that their mean is the balanced accuracy: the mean over targets with and without the attribute."""
    yes = np.asarray(guesses.truth, bool)
    share = float(yes.mean())
    if share in (0.0, 1.0):
        return guesses
    weights = np.where(yes, 0.5 / share, 0.5 / (1 - share))
    return Guesses(
        guesses.target, guesses.guess, guesses.truth, guesses.right * weights, guesses.baseline, guesses.sure
    )


def numbers(rows: Sequence[int], guessed: Sequence[float], truths: Sequence[float]) -> Guesses:
    """Return guesses of numbers; the baseline is a placebo: the server holds another target's value."""
    guess, truth = np.array(guessed, np.float64), np.array(truths, np.float64)
    placebo = np.mean(
        [_near(guess, np.roll(truth, k)) for k in range(1, min(len(truth), 8))] or [np.zeros(len(truth))], axis=0
    )
    return Guesses(np.array(rows, np.int64), guess, truth, _near(guess, truth), placebo)


def guess_amounts(
    field: AttackTrials, guess: Callable[[Server, PlantedDataset, AttackTarget], float], amount: str
) -> Guesses:
    """Return a guess at an amount of each target of two worlds that is an outlier."""
    rows, guessed, truths = [], [], []
    for server, world, target in field.each(2, outliers=True):
        rows.append(target.row)
        guessed.append(guess(server, world, target))
        truths.append(float(world.truths[amount][target.row]))
    return numbers(rows, guessed, truths)


def own_sum(server: Server, universe: Piece | None, by: str, own: str, of: str) -> float:
    """Return the sum of an amount in one level of a table; NaN if it is not shown."""
    found = server.ask(universe, CrossTab((by,), of=of))
    if isinstance(found, Refusal):
        return math.nan
    value = next(row["sum"] for row in found.tables["cells"] if row[by] == own)
    return float(value) if isinstance(value, int | float) else math.nan


def leaks(found: Sequence[bool]) -> Guesses:
    """Return events that must never happen: 1 where one did."""
    right = np.array(found, np.float64)
    return Guesses(np.arange(len(right)), right, np.ones(len(right)), right, np.zeros(len(right)))


def _near(guess: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(guess), np.abs(guess - truth) <= WITHIN * np.abs(truth), False).astype(np.float64)
