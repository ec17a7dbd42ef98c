"""A workload of 200 ordinary questions: what a policy costs those who mean no harm."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.mas.analyses import OLS, CrossTab, Logistic
from sfumato.mas.analysis import Analysis

USERS = 10
"""The questions come from so many users, twenty from each."""
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
class Ordinary:
    """One question of the workload."""

    universe: dict[str, Any] | None
    analysis: Analysis
    user: str


def ordinary_questions() -> tuple[Ordinary, ...]:
    """Return the 200 questions about `datasets.survey20k`: 160 tables of one to three sides, and 40 regressions.

    They are made by counting through lists, so that they are always the same.

    Examples
    --------
    >>> asked = ordinary_questions()
    >>> len(asked), sum(isinstance(q.analysis, CrossTab) for q in asked)
    (200, 160)
    """
    asked = [*itertools.islice(_tables(), 160), *itertools.islice(_regressions(), 40)]
    return tuple(Ordinary(universe, analysis, f"user {i % USERS}") for i, (universe, analysis) in enumerate(asked))


def tables_about(names: Sequence[str], most: int = 200) -> tuple[Ordinary, ...]:
    """Return the tables of one and of two variables, of everybody: ordinary questions about data of one's own.

    >>> [q.analysis.by for q in tables_about(["sex", "race"])]
    [('sex',), ('race',), ('sex', 'race')]
    """
    sides = (by for size in (1, 2) for by in itertools.combinations(names, size))
    return tuple(
        Ordinary(None, CrossTab(by), f"user {i % USERS}") for i, by in enumerate(itertools.islice(sides, most))
    )


def _tables() -> Iterator[tuple[dict[str, Any] | None, Analysis]]:
    """Yield tables: a third with one side, half with two, the rest with three; every fifth one with means of income."""
    sides = {size: itertools.cycle(itertools.combinations(_SIDES, size)) for size in (1, 2, 3)}
    sizes = itertools.cycle((1, 2, 2, 1, 2, 3))
    for i, universe in enumerate(itertools.cycle(_UNIVERSES)):
        by = next(sides[next(sizes)])
        of = "income" if i % 5 == 4 and "income" not in by else None
        yield universe, CrossTab(by, of=of)


def _regressions() -> Iterator[tuple[dict[str, Any] | None, Analysis]]:
    """Yield regressions in universes that are large enough to think of one; every third one is logistic."""
    large = [
        u
        for u in _UNIVERSES
        if u is None or (set(u) <= {"sex", "race", "age", "state"} and u.get("state") not in _STATES[4:])
    ]
    formulas, logits = itertools.cycle(_MODELS), itertools.cycle(_LOGITS)
    for i, universe in enumerate(itertools.cycle(large)):
        if i % 3 == 2:
            yield universe, Logistic(next(logits), event="yes")
        else:
            yield universe, OLS(next(formulas))
