"""Leaks that no noise covers: reasons of refusals, versions that differ by one value, and top codes that one person decides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.data.columns import Column
from sfumato.errors import NotApplicable
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.base import (
    AttackTrials,
    BaseData,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    numbers,
    own_sum,
    yes_no,
    yes_or_no,
)
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.linear import OLS
from sfumato.mas.models.outcome_models import Logistic
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.typing import Flags, Numbers

# --- planting
# Data sets beside the one that all recipes share: each leak needs values that are planted for it.


@dataclass(frozen=True, eq=False)
class LeakDataset:
    """Versions of a data set in which the values of one leak are planted."""

    world: PlantedDataset
    base: BaseData
    """The data of the newest version; its codes and numbers are the attacker's register."""
    versions: tuple[Dataset, ...]

    def servers(self, field: AttackTrials, trial: int) -> list[Server]:
        """Return a server for each version, with new accounts and a new secret."""
        return self.world.servers(field.policy, field.tally, trial, *self.versions)

    def inside(self, piece: Piece) -> Flags:
        """Return which records a piece selects, by the register."""
        chosen = np.ones(len(self.base.data), bool)
        known = {v.name: v for v in self.base.variables}
        for name, levels in piece.items():
            chosen &= np.isin(self.base.codes[name], [known[name].levels.index(text) for text in levels])
        return chosen


Planting = tuple[Mapping[str, Column], Sequence[Attribute]]
"""Columns and their attributes."""


def plant(
    world: PlantedDataset, name: str, plantings: Sequence[Planting], cutpoints: Mapping[str, Cutpoints] | None = None
) -> LeakDataset:
    """Freeze a version for each planting in the vault of a world; the same plantings again cost nothing."""
    cuts, vault = {**world.ground.cutpoints, **(cutpoints or {})}, world.vault
    every = [world.ground.planted(*one) for one in plantings]
    if name not in vault.names():
        for data in every:
            vault.freeze(name, data, cuts)
    versions = tuple(vault.dataset(name, version) for version in vault.versions(name))
    return LeakDataset(world, BaseData(every[-1], cuts), versions)


def confidential(name: str, largest: float, lowest: float = 0.0) -> Attribute:
    """Return a confidential number with its public bounds."""
    return Attribute(name, role=Role.CONFIDENTIAL, bounds=(lowest, largest))


def confidential_yes_no(name: str) -> Attribute:
    """Return a confidential attribute, yes or no."""
    return Attribute(name, role=Role.CONFIDENTIAL, scale=Scale.UNORDERED)


def level_sizes(ground: BaseData) -> dict[str, Numbers]:
    """Return the number of records of each level of the known variables."""
    return {
        v.name: np.bincount(ground.codes[v.name], minlength=len(v.levels)).astype(np.float64) for v in ground.variables
    }


T = TypeVar("T")


def cycle(
    field: AttackTrials, targets: Callable[[PlantedDataset], Sequence[T]], most: int | None = None
) -> Iterator[tuple[int, T]]:
    """Yield as many trials as are wanted, at most `most`, with the targets of all worlds in turn."""
    listed = [targets(world) for world in field.worlds]
    pairs = [one for some in itertools.zip_longest(*listed) for one in some if one is not None]
    if not pairs:
        raise NotApplicable("these data have no group of records that this attack needs.")
    for trial in range(min(most or field.trials, field.trials)):
        yield trial, pairs[trial % len(pairs)]


# --- refusals
# Which refusal comes for a model with a confidential predictor in a group where nobody else has a value above 0.


OUTCOME, CLAIM = "planted_outcome", "planted_claim"
_GROUP = 120
"""Fewest records of a group: levels with a coefficient need 100, by noisy counts."""
_COMPANY = 700
"""Fewest records of a universe: models need 500."""
_CLAIMS = 4
"""Number of planted claims, each with a target of its own in each group."""
_LARGEST_CLAIM = 5_000.0
_FREQUENT = 300
"""Fewest records of a level that is company: no single value decides its slope."""


@dataclass(frozen=True, eq=False)
class GroupTarget:
    """A person of a small group in which everybody else has a claim of 0."""

    planted: LeakDataset
    row: int
    claim: str
    by: str
    level: str
    company: tuple[str, ...]
    """Levels in which everybody has a claim, the largest first."""
    has: bool

    def models(self, most: int) -> list[tuple[Piece, OLS]]:
        """Return models of universes that hold the group, each with other company, so that other records are dropped."""
        sizes = dict(
            zip(_levels(self.planted.base, self.by), level_sizes(self.planted.base)[self.by].tolist(), strict=True)
        )
        formula = OLS(f"{OUTCOME} ~ C(`{self.by}`) + C(`{self.by}`):{self.claim}")
        found = []
        for number in range(1, min(len(self.company), 7) + 1):
            for some in itertools.combinations(self.company, number):
                if sum(sizes[level] for level in (self.level, *some)) >= _COMPANY:
                    found.append(({self.by: (self.level, *some)}, formula))
                if len(found) == most:
                    return found
        return found


def _levels(base: BaseData, name: str) -> tuple[str, ...]:
    return next(v.levels for v in base.variables if v.name == name)


def small_groups(ground: BaseData) -> list[tuple[str, list[int], list[int]]]:
    """Return variables with the levels that are groups to attack, and those that are company, the largest first."""
    found = []
    for name, sizes in level_sizes(ground).items():
        order = [int(i) for i in np.argsort(sizes, kind="stable") if sizes[i] >= _GROUP]
        groups = [i for i in order[: (len(order) + 1) // 2] if sizes[i] <= sizes.sum() / 8]
        company = [i for i in order[::-1] if i not in groups and sizes[i] >= _FREQUENT]
        if groups and company:
            found.append((name, groups, company))
    return found


def group_targets(world: PlantedDataset) -> list[GroupTarget]:
    """Plant claims, and return a target for each claim and group: half of the targets have a claim."""
    ground, rng = world.ground, Draws(f"world {world.number}").generator("claims")
    n = len(ground.data)
    columns = {OUTCOME: Column.from_numbers(np.round(rng.uniform(0, 100, n), 2))}
    marks = [confidential(OUTCOME, 100.0)]
    targets: list[tuple[int, str, str, int, list[int], bool]] = []
    for place, (by, groups, company) in enumerate(small_groups(ground)):
        for number in range(_CLAIMS):
            name = f"{CLAIM}_{place}_{number}"
            amounts = np.round(rng.uniform(0.0, _LARGEST_CLAIM, n))  # no value of the company decides a slope
            has = np.ones(n, bool)
            for group in groups:
                here = np.flatnonzero(ground.codes[by] == group)
                row, coin = int(rng.choice(here)), bool(rng.random() < 0.5)
                has[here] = False
                has[row] = coin
                amounts[row] = round(_LARGEST_CLAIM * rng.uniform(0.5, 1.0))
                targets.append((row, name, by, group, company, coin))
            columns[name] = Column.from_numbers(np.where(has, amounts, 0.0))
            marks.append(confidential(name, _LARGEST_CLAIM))
    planted = plant(world, "claims", [(columns, marks)]) if targets else None
    return [
        GroupTarget(
            planted, row, name, by, _levels(ground, by)[i], tuple(_levels(ground, by)[k] for k in company), coin
        )
        for row, name, by, i, company, coin in targets
        if planted is not None
    ]


class RefusalReasons(PolicyAttack):
    """A model in which a group has a slope of its own on a confidential amount that nobody else of the group has.

    If the target has none either, the slope is not defined. The attacker sees which refusal comes, or how large the standard
    error of an answer is. What that means he learns from persons whom he knows: the other half of the targets.
    """

    title = "reasons of refusals, one model"
    questions: int = param(default=1, doc="models for each target", low=1, high=20, integer=True)

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for the models about each target."""
        rows, seen, truths = [], [], []
        for trial, target in cycle(field, group_targets):
            (server,) = target.planted.servers(field, trial)
            models = target.models(self.questions)
            replies = [reply(server.ask(*one), target.level) for one in models]
            rows.append(target.row)
            seen.append([*replies, *[""] * (self.questions - len(replies))])
            truths.append(float(target.has))
        return yes_or_no(rows, learned(seen, truths), truths)


class RefusalReasonsCombined(RefusalReasons):
    """The same with three models, each with other company: a record that is dropped in one is there in another."""

    title = "reasons of refusals, three models"
    questions: int = param(default=3, doc="models for each target", low=1, high=20, integer=True)


def reply(found: Answer | Refusal, level: str) -> str:
    """Return what an attacker notices of a reply: the refusal, or the size of a standard error to the next power of two."""
    if isinstance(found, Refusal):
        return f"{found.rule}: {found.reason}"
    own = [r for r in found.tables["coefficients"] if f"[{level}]" in str(r["term"]) and CLAIM in str(r["term"])]
    error = own[0]["standard error"] if own else None
    if not isinstance(error, int | float) or not error > 0 or math.isinf(error):
        return "no slope"
    return f"answered, {round(math.log2(error))}"


def learned(seen: Sequence[Sequence[str]], truths: Sequence[float]) -> list[float]:
    """Return log-likelihood ratios of yes against no; what each reply means is learned from the other half of the trials.

    Replies that are as frequent among yes as among no add nothing, so that by chance alone half of the guesses are right.
    """
    scores = []
    for i, replies in enumerate(seen):
        score = 0.0
        for place, text in enumerate(replies):
            others = [j for j in range(len(seen)) if j % 2 != i % 2]
            yes = [seen[j][place] == text for j in others if truths[j]]
            no = [seen[j][place] == text for j in others if not truths[j]]
            score += math.log((sum(yes) + 0.5) / (len(yes) + 1)) - math.log((sum(no) + 0.5) / (len(no) + 1))
        scores.append(score if abs(score) > 1e-12 else 0.0)
    return scores


# --- versions
# One universe before and after a version in which one of its values was corrected.


CORRECTED, LATE = "planted_corrected", "planted_late"
"""An attribute that half of all persons have, and an amount that was 0 until it was corrected."""
_CHANGED = 30
"""Records that change elsewhere: a version with fewer than 20 changes is not frozen."""
_SMALLEST = 100
"""Fewest records of a universe that is asked about in both versions."""
_LARGEST_LATE = 300_000.0
_FAMILIES = 3
"""Data sets of two versions for each world, each with targets of its own."""


@dataclass(frozen=True, eq=False)
class VersionTarget:
    """The only person of a universe whose value differs between two versions."""

    planted: LeakDataset
    row: int
    by: str
    level: str
    truth: float
    """The corrected value."""

    def universes(self) -> Iterator[tuple[Piece, str | None, str]]:
        """Yield universes that hold the target, a variable of the table, and the target's level of it."""
        base = self.planted.base
        whole: Piece = {self.by: (self.level,)}
        own = {v.name: v.levels[int(base.codes[v.name][self.row])] for v in base.variables if v.name != self.by}
        yield whole, None, ""
        for name, text in sorted(own.items(), key=lambda one: len(_levels(base, one[0]))):
            yield whole, name, text
        for name, text in own.items():
            piece: Piece = {**whole, name: (text,)}
            if int(self.planted.inside(piece).sum()) >= _SMALLEST:
                yield piece, None, ""


def version_targets(world: PlantedDataset, amounts: bool) -> list[VersionTarget]:
    """Plant two versions; in each universe that is attacked one value changes, of one person."""
    return [target for family in range(_FAMILIES) for target in _family(world, family, amounts)]


def _family(world: PlantedDataset, family: int, amounts: bool) -> list[VersionTarget]:
    ground, kind = world.ground, LATE if amounts else CORRECTED
    rng = Draws(f"world {world.number}").child(family).generator(kind)
    n, sizes = len(ground.data), level_sizes(ground)
    ranked = sorted(sizes, key=lambda name: -int((sizes[name] >= _SMALLEST).sum()))
    by = ranked[family % min(2, len(ranked))]
    usable = [int(i) for i in np.argsort(-sizes[by], kind="stable") if sizes[by][i] >= _SMALLEST]
    elsewhere = np.flatnonzero(ground.codes[by] == usable[0]) if usable else np.zeros(0, np.intp)
    if len(usable) < 2 or len(elsewhere) < 2 * _CHANGED:
        return []
    rows = [int(rng.choice(np.flatnonzero(ground.codes[by] == i))) for i in usable[1:]]
    changed = np.array([*rows, *rng.permutation(elsewhere)[:_CHANGED]], np.intp)
    if amounts:
        new = np.clip(np.round(np.exp(rng.normal(10.3, 0.7, n)), 2), 1_000, _LARGEST_LATE)
        old = np.where(np.isin(np.arange(n), changed), 0.0, new)
        columns = [{kind: Column.from_numbers(values)} for values in (old, new)]
        mark = confidential(kind, _LARGEST_LATE)
    else:
        new = (rng.random(n) < 0.5).astype(np.float64)
        old = np.where(np.isin(np.arange(n), changed), 1 - new, new)
        columns = [{kind: yes_no(np.asarray(values, np.float64))} for values in (old, new)]
        mark = confidential_yes_no(kind)
    planted = plant(world, f"versions_{kind}_{family}", [(one, [mark]) for one in columns])
    levels = _levels(ground, by)
    return [
        VersionTarget(planted, row, by, levels[i], float(new[row])) for row, i in zip(rows, usable[1:], strict=True)
    ]


class VersionDifferencing(PolicyAttack):
    """A table of an attribute in one universe, before and after one of its values was corrected.

    The attacker knows whose value it is. Noise that is the same in both versions cancels in the difference.
    """

    title = "one value corrected in a version"
    questions: int = param(default=1, doc="tables of each version", low=1, integer=True)
    model: bool = param(default=False, doc="whether a model is asked for, too")

    def run(self, field: AttackTrials) -> Guesses:
        """Ask the same of both versions, and sum the differences."""
        rows, scores, truths = [], [], []
        for trial, target in cycle(field, lambda world: version_targets(world, amounts=False)):
            before, after = target.planted.servers(field, trial)
            score = 0.0
            for universe, side, own in itertools.islice(target.universes(), self.questions):
                change = excess(after, universe, side, own) - excess(before, universe, side, own)
                score += 0.0 if math.isnan(change) else change
            change = fitted_yes(after, target) - fitted_yes(before, target) if self.model else 0.0
            rows.append(target.row)
            scores.append(score + (0.0 if math.isnan(change) else change))
            truths.append(target.truth)
        return yes_or_no(rows, scores, truths)


class VersionAccount(VersionDifferencing):
    """One account, spent on tables and a model of both versions: whoever subtracts versions need not know the others."""

    title = "one value corrected, one account"
    bar = 0.60
    questions: int = param(default=40, doc="most tables of each version", low=1, integer=True)
    model: bool = param(default=True, doc="whether a model is asked for, too")


def excess(server: Server, universe: Piece, side: str | None, own: str) -> float:
    """Return "yes" less "no" of a universe, or of a level of a variable within it; NaN if nothing is shown."""
    found = server.ask(universe, CrossTab((CORRECTED,) if side is None else (side, CORRECTED)))
    if isinstance(found, Refusal):
        return math.nan
    told = {r[CORRECTED]: r["count"] for r in found.tables["cells"] if side is None or r[side] == own}
    signed = [
        sign * float(v)
        for level, sign in (("yes", 1), ("no", -1))
        if isinstance(v := told[level], int | float) and math.isfinite(v)
    ]
    return sum(signed) if signed else math.nan


def fitted_yes(server: Server, target: VersionTarget) -> float:
    """Return how many records have the attribute by the intercept of a logistic model; NaN if it is refused.

    The predictor is a known number if there is one: at its mean the fitted share is that of all, nearly.
    """
    base = target.planted.base
    piece: Piece = {target.by: (target.level,)}
    inside = target.planted.inside(piece)
    name = next((x for x in base.numbers if x != target.by), None)
    if name is None:
        return math.nan
    found = server.ask(piece, Logistic(f"{CORRECTED} ~ `{name}`", event="yes"))
    if isinstance(found, Refusal):
        return math.nan
    slopes = [row["coefficient"] for row in found.tables["coefficients"]]
    if len(slopes) != 2 or not all(isinstance(b, int | float) for b in slopes):
        return math.nan
    x = base.numbers[name][inside]
    linear = float(slopes[0] or 0) + float(slopes[1] or 0) * x
    return float((1 / (1 + np.exp(-linear))).sum())


class VersionAmounts(PolicyAttack):
    """Sums of an amount in one universe, before and after it was reported for one person: until then it was 0."""

    title = "an amount corrected in a version"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for sums in both versions; the guess is the median of the differences that are not 0."""
        rows, guessed, truths = [], [], []
        for trial, target in cycle(field, lambda world: version_targets(world, amounts=True)):
            before, after = target.planted.servers(field, trial)
            changes = []
            for universe, side, own in target.universes():
                side, own = (target.by, target.level) if side is None else (side, own)
                changes.append(own_sum(after, universe, side, own, LATE) - own_sum(before, universe, side, own, LATE))
            moved = [change for change in changes if change > 0]
            rows.append(target.row)
            guessed.append(float(np.median(moved)) if moved else math.nan)
            truths.append(target.truth)
        return numbers(rows, guessed, truths)


# --- top codes
# A table of an amount of which one person has most of what lies above the top code.


TAIL = "planted_tail"
_TAILS = 10
"""Number of planted amounts, each with a target of its own."""
_ABOVE = 0.005
"""Share of values above a top code."""


@dataclass(frozen=True, eq=False)
class TailTarget:
    """A person who has most of what lies above the top code of an amount."""

    planted: LeakDataset
    row: int
    amount: str
    value: float
    usual: float
    """The expected sum of all others."""


def tail_targets(world: PlantedDataset) -> list[TailTarget]:
    """Plant amounts, each with one person far above all others."""
    ground, rng = world.ground, Draws(f"world {world.number}").generator("tails")
    n, spread = len(ground.data), 0.6
    columns, marks, targets = {}, [], []
    for number in range(_TAILS):
        name = f"{TAIL}_{number}"
        values = np.round(np.exp(rng.normal(10.0, spread, n)), 2)
        above = float(np.sort(values)[-max(1, round(_ABOVE * n)) :].sum())
        row = int(rng.integers(n))
        values[row] = round(above * math.exp(rng.uniform(math.log(4), math.log(40))), 2)
        columns[name] = Column.from_numbers(values)
        marks.append(confidential(name, 50 * above))
        targets.append((row, name, float(values[row]), n * math.exp(10.0 + spread**2 / 2)))
    planted = plant(world, "tails", [(columns, marks)])
    return [TailTarget(planted, *one) for one in targets]


class TopCodeTable(PolicyAttack):
    """A total of everybody, less what others usually have: the values above the top code are replaced by their mean, and so
    still add up to what they were, and one of them is nearly all of that.
    """

    title = "one person above the top code"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for the total of everybody, and for those of the levels of the variable with fewest."""
        rows, guessed, truths = [], [], []
        for trial, target in cycle(field, tail_targets):
            (server,) = target.planted.servers(field, trial)
            by = min(target.planted.base.variables, key=lambda v: len(v.levels))
            whole = own_sum(server, None, by.name, "Total", target.amount)
            parts = [own_sum(server, {by.name: (level,)}, by.name, "Total", target.amount) for level in by.levels]
            totals = [total for total in (whole, sum(parts)) if not math.isnan(total)]
            guess = float(np.mean(totals)) - target.usual if totals else math.nan
            rows.append(target.row)
            guessed.append(guess if guess > 0 else math.nan)
            truths.append(target.value)
        return numbers(rows, guessed, truths)
