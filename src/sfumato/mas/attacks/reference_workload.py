"""200 ordinary questions, and what a policy costs the users who ask them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.data.microdata import Microdata
from sfumato.mas.accounts import right_of
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger, project_account
from sfumato.mas.perturbation import Secret, ledger_key
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault, cell_counts, question_of

# --- reference workload
# 200 ordinary questions: what a policy costs honest users.

USERS = 10
"""Number of users who share the questions, twenty each."""
_STATES = ("S01", "S02", "S03", "S04", "S05", "S08", "S12", "S16")
_UNIVERSES: tuple[dict[str, Any] | None, ...] = (
    None, {"sex": "F"}, {"sex": "M"}, {"race": "white"}, {"race": ["black", "asian"]}, {"disability": "yes"},
    {"age": ["25 to 34", "35 to 44", "45 to 54", "55 to 64"]}, {"age": ["65 to 74", "75 or more"]},
    {"age": ["18 to 24", "25 to 34"]},
    {"sex": "F", "age": ["25 to 34", "35 to 44", "45 to 54"]}, {"sex": "M", "race": "white"}, {"sex": "F", "disability": "no"},
    *({"state": state} for state in _STATES),
    {"state": ["S01", "S02", "S03"], "sex": "F"}, {"state": ["S04", "S05", "S06", "S07"]},
)  # fmt: skip
_SIDES = ("age", "sex", "race", "state", "income", "disability")
_MODELS = (
    "income ~ age + C(sex)", "log1p(income) ~ age + C(sex) + C(race)", "income ~ age + square(age)",
    "sqrt(income) ~ age + C(sex)",
    "log1p(income) ~ age + C(disability)", "income ~ C(sex) + C(race) + C(disability)",
)  # fmt: skip
_LOGITS = (
    "disability ~ age",
    "disability ~ age + C(sex)",
    "disability ~ age + C(race)",
    "disability ~ C(sex) + log1p(income)",
)


@dataclass(frozen=True)
class WorkloadQuestion:
    """One question of the workload."""

    universe: dict[str, Any] | None
    analysis: Analysis
    user: str


def ordinary_questions() -> tuple[WorkloadQuestion, ...]:
    """Return the 200 questions about `datasets.survey20k`: 160 tables of one to three dimensions, and 40 regressions.

    They are built by counting through lists, so that they are always the same.

    Examples
    --------
    >>> asked = ordinary_questions()
    >>> len(asked), sum(isinstance(q.analysis, CrossTab) for q in asked)
    (200, 160)
    """
    asked = [*itertools.islice(_tables(), 160), *itertools.islice(_regressions(), 40)]
    return tuple(
        WorkloadQuestion(universe, analysis, f"user {i % USERS}") for i, (universe, analysis) in enumerate(asked)
    )


def tables_about(names: Sequence[str], most: int = 200) -> tuple[WorkloadQuestion, ...]:
    """Return the tables of one and of two variables, of everybody: ordinary questions about your own data.

    >>> [q.analysis.by for q in tables_about(["sex", "race"])]
    [('sex',), ('race',), ('sex', 'race')]
    """
    sides = (by for size in (1, 2) for by in itertools.combinations(names, size))
    return tuple(
        WorkloadQuestion(None, CrossTab(by), f"user {i % USERS}") for i, by in enumerate(itertools.islice(sides, most))
    )


def _tables() -> Iterator[tuple[dict[str, Any] | None, Analysis]]:
    """Yield tables: a third with one dimension, half with two, the rest with three; every fifth one with means of income."""
    sides = {size: itertools.cycle(itertools.combinations(_SIDES, size)) for size in (1, 2, 3)}
    sizes = itertools.cycle((1, 2, 2, 1, 2, 3))
    for i, universe in enumerate(itertools.cycle(_UNIVERSES)):
        by = next(sides[next(sizes)])
        of = "income" if i % 5 == 4 and "income" not in by else None
        yield universe, CrossTab(by, of=of)


def _regressions() -> Iterator[tuple[dict[str, Any] | None, Analysis]]:
    """Yield regressions in universes large enough for a regression; every third one is logistic."""
    large = [
        u
        for u in _UNIVERSES
        if u is None or (set(u) <= {"sex", "race", "age", "state"} and u.get("state") not in _STATES[4:])
    ]
    formulas, logits = itertools.cycle(_MODELS), itertools.cycle(_LOGITS)
    for i, universe in enumerate(itertools.cycle(large)):
        if i % 3 == 2:
            yield universe, analysis_named("logistic", formula=next(logits), event="yes")
        else:
            yield universe, analysis_named("ols", formula=next(formulas))


# --- honest
# The cost of a policy to honest users: refusals by rule, and the errors of answers against those without protection.


SIZES = ((20, 50), (50, 100), (100, 300), (300, 1_000), (1_000, math.inf))
"""Cells are grouped by their number of records."""
OPEN = Policy.open()
"""Answers without rules, drops and noise, to compare with; for the custodian alone."""


@dataclass(frozen=True)
class Honest:
    """The results of a workload under a policy."""

    asked: int
    refused: Mapping[str, int]
    """How many questions each rule refused."""
    errors: Mapping[str, float]
    """Median relative error of the counts that are shown, by size of the cell."""
    shown: Mapping[str, float]
    """Share of the cells of each size that are shown, in the tables that were answered."""
    overlap: float
    """Median overlap of confidence intervals of coefficients with those without protection; NaN without regressions."""
    error: float = math.nan
    """Median relative error of the counts of cells and totals with 20 records or more, in the tables that were answered; one that
    is not shown counts as 1. NaN without tables."""
    tables: float = math.nan
    """Share of the tables that were answered; NaN if none was asked."""
    models: float = math.nan
    """Share of the regressions that were answered; NaN if none was asked."""
    precision: float = math.nan
    """Median ratio of the published standard errors of least squares to those without protection; NaN without such models."""
    coverage: float = math.nan
    """Share of the published 95 % intervals that hold the coefficient without protection; NaN without regressions."""
    told: float = math.nan
    """Guesses between two values of the person of whom most was told to all users, that are right at most: as limits count them."""
    formal: float = math.nan
    """The same for whoever knows everything else."""

    @property
    def answered(self) -> float:
        """Share of questions that were answered."""
        return 1 - sum(self.refused.values()) / self.asked


def honest(
    vault: Vault,
    dataset: Dataset,
    policy: Policy,
    asked: Iterable[WorkloadQuestion],
    truths: dict[int, Answer | Refusal] | None = None,
) -> Honest:
    """Ask a workload under a policy, each user with a separate account; the rate of questions is not limited.

    `truths` stores the answers without protection by the number of the question, for use under several policies.
    """
    policy, refused, number = policy.with_(per_minute=None), Counter[str](), 0
    kept = {} if truths is None else truths
    cells: list[tuple[float, float]] = []
    regressions: list[CoefficientTwins] = []
    served: dict[bool, list[bool]] = {True: [], False: []}
    for question in asked:
        number += 1
        found = vault.ask(dataset, question.universe, question.analysis, policy, user=question.user)
        tabled = isinstance(question.analysis, CrossTab)
        served[tabled].append(isinstance(found, Answer))
        if isinstance(found, Refusal):
            refused[found.rule] += 1
            continue
        if number not in kept:
            kept[number] = vault.ask(dataset, question.universe, question.analysis, OPEN)
        truth = kept[number]
        if isinstance(truth, Refusal):
            continue
        if tabled:
            cells += _cells(found, truth)
        else:
            regressions.append(CoefficientTwins.of(question.analysis, found, truth))
    every = np.array(cells or [(0.0, 0.0)])
    errors, shown = _by_size(every)
    told, formal = _told(vault, dataset, policy)
    ratios = [ratio for one in regressions if one.linear for ratio in one.ratios]
    return Honest(
        number, dict(refused.most_common()), errors, shown, _median([o for one in regressions for o in one.overlaps]), _error(every),
        _share(served[True]), _share(served[False]), _median(ratios), _share([c for one in regressions for c in one.covered]),
        told, formal,
    )  # fmt: skip


def _told(vault: Vault, dataset: Dataset, policy: Policy) -> tuple[float, float]:
    """Return guesses that are right at most by what all users were told of a person: as limits count it, and formally."""
    if not min(policy.counts.sd, policy.amounts.sd, policy.models.sd):
        return 1.0, 1.0
    counts = cell_counts(dataset, policy)
    balance = vault.ledger.balance(project_account(None), dataset.name, dataset.variables, counts)
    frozen = dataset.frozen_loss
    return right_of(float(balance.spent.max()) + frozen), right_of(float(balance.formal.max()) + frozen)


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _error(cells: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Return the median relative error of cells that are not small; a cell that is not shown has error 1."""
    large = cells[cells[:, 0] >= SIZES[0][0]]
    off = np.abs(large[:, 1] - large[:, 0]) / np.maximum(large[:, 0], 1)
    return float(np.median(np.where(np.isnan(off), 1.0, off))) if len(large) else math.nan


def _cells(found: Answer, truth: Answer) -> list[tuple[float, float]]:
    """Return the true and the published count of each cell, NaN where it is not shown."""
    rows = zip(truth.tables["cells"], found.tables["cells"], strict=True)
    return [(_number(true["count"]), _number(told["count"])) for true, told in rows]


@dataclass(frozen=True)
class CoefficientTwins:
    """The coefficients of a regression with protection and without: how far they agree."""

    linear: bool
    overlaps: list[float]
    """Overlap of the 95 % intervals of each coefficient: the mean share of either (Karr et al. 2006)."""
    ratios: list[float]
    """Of standard errors."""
    covered: list[bool]
    """Whether the published interval holds the coefficient without protection."""

    @classmethod
    def of(cls, analysis: Analysis, found: Answer, truth: Answer) -> CoefficientTwins:
        """Compare the terms that both have."""
        exact = {str(row["term"]): row for row in truth.tables["coefficients"]}
        twins = [(row, exact[str(row["term"])]) for row in found.tables["coefficients"] if str(row["term"]) in exact]
        one = cls(analysis.name == "ols", [], [], [])
        for row, twin in twins:
            (a, b), (c, d) = (_interval(r["coefficient"], r["standard error"]) for r in (row, twin))
            both = max(0.0, min(b, d) - max(a, c))
            if b > a and d > c:
                one.overlaps.append((both / (b - a) + both / (d - c)) / 2)
                one.ratios.append((b - a) / (d - c))
                one.covered.append(a <= _number(twin["coefficient"]) <= b)
        return one


def _interval(coefficient: object, error: object) -> tuple[float, float]:
    b, e = _number(coefficient), _number(error)
    return b - 1.96 * e, b + 1.96 * e


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _by_size(cells: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[dict[str, float], dict[str, float]]:
    errors, shown = {}, {}
    for low, high in SIZES:
        here = cells[(cells[:, 0] >= low) & (cells[:, 0] < high)]
        if len(here):
            name = f"{low:,} or more" if math.isinf(high) else f"{low:,} to {high:,.0f}"
            told = here[~np.isnan(here[:, 1])]
            shown[name] = len(told) / len(here)
            errors[name] = float(np.median(np.abs(told[:, 1] - told[:, 0]) / told[:, 0])) if len(told) else math.nan
    return errors, shown


# --- honest users
# Honest users: a data set in a vault, and their questions under any policy.


@dataclass(frozen=True, eq=False)
class HonestUsers:
    """Honest users: their questions to a data set, and the answers without protection to compare with."""

    data: Microdata
    cutpoints: Mapping[str, Cutpoints]
    folder: Path
    """Temporary folder for the records."""
    asked: tuple[WorkloadQuestion, ...] = field(default_factory=ordinary_questions)
    """The questions, in order; the 200 ordinary ones about `datasets.survey20k` if not given."""
    _truths: dict[int, Answer | Refusal] = field(default_factory=dict, repr=False)

    @cached_property
    def _frozen(self) -> tuple[Vault, Dataset]:
        self.folder.mkdir(parents=True, exist_ok=True)
        vault = Vault(self.folder, Draws("workload"), Policy.open())
        vault.ledger = Ledger(self.folder / "honest.sqlite", ledger_key(Draws("workload")), lasting=False)
        return vault, vault.freeze("survey", self.data, self.cutpoints)

    def served(self, policy: Policy, replication: int = 0) -> Honest:
        """Ask everything under a policy, with unused accounts.

        The secret depends on the replication alone, so that policies are compared with the same random numbers. Policies are
        distinguished by their title.
        """
        return self._served(policy, self.asked, f"{replication}", replication)

    def alone(self, policy: Policy, most: int = 100) -> Honest:
        """Ask the first questions as one user, whose account is the only one that is spent."""
        asked = tuple(dataclasses.replace(one, user="user 0") for one in self.asked[:most])
        return self._served(policy, asked, "alone")

    def _served(self, policy: Policy, asked: Sequence[WorkloadQuestion], label: str, replication: int = 0) -> Honest:
        vault, dataset = self._frozen
        secret = Secret(Draws(f"workload {replication}")) if replication else dataset.secret
        fresh = dataclasses.replace(dataset, name=f"survey_{label}_{policy.title}", secret=secret)
        return honest(vault, fresh, policy, asked, self._truths)

    def on_shelf(self, variables: int = 2) -> float:
        """Return the share of the questions that a shelf answers which holds all tables of counts by so many variables."""
        _, dataset = self._frozen
        counted = [one for one in self.asked if isinstance(one.analysis, CrossTab) and one.analysis.of is None]
        sizes = []
        for one in counted:
            question = question_of(dataset, OPEN, one.universe, one.analysis)
            sides = (
                v.base or v for v in (*question.selection.plain.variables, *question.analysis.sides(dataset.variables))
            )
            sizes.append(len({v.name for v in sides}))
        return sum(size <= variables for size in sizes) / len(self.asked)
