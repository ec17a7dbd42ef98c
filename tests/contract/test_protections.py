"""What every protection of tables and every sensitivity rule must do, whoever wrote it: the promises of sfumato.testing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata, Table
from sfumato.contract import registered
from sfumato.errors import ParameterError
from sfumato.tables import MinimumFrequency, PPercent, RandomRounding, SensitivityRule
from sfumato.testing import (
    GENERAL_PROMISES,
    PROTECTION_PROMISES,
    RULE_PROMISES,
    TABLE_PROMISES,
    TABLES,
    ProtectionFor,
    protect,
    protection_for,
    says_which_cells_are_unsafe,
    variants,
)

PROTECTIONS = {n: cls for n, cls in sorted(registered("protection").items()) if cls.__module__.startswith("sfumato.")}
RULES = {n: cls for n, cls in sorted(registered("rule").items()) if cls.__module__.startswith("sfumato.")}
SMALL = {kind: make() for kind, make in TABLES.items()}
VALUES = {"together": {"rules": (PPercent(p=10), MinimumFrequency(n=3))}}
EVERY_RULE = [
    pytest.param(v, id=f"{n}-{i}") for n, cls in RULES.items() for i, v in enumerate(variants(cls, VALUES.get(n)))
]
each = pytest.mark.parametrize("name", list(PROTECTIONS))
each_rule = pytest.mark.parametrize("rule", EVERY_RULE)
each_kind = pytest.mark.parametrize("kind", list(SMALL))


def maker(name: str) -> ProtectionFor:
    cls: Any = PROTECTIONS[name]
    return lambda table: protection_for(cls, table)


def rule(name: str) -> SensitivityRule:
    cls: Any = RULES[name]
    made: SensitivityRule = next(variants(cls, VALUES.get(name)))
    return made


def test_there_are_protections_and_rules() -> None:
    assert {"rta", "suppression", "controlled_rounding", "random_rounding", "cell_key"} <= set(PROTECTIONS)
    assert {"p_percent", "pq", "nk", "minimum_frequency", "minimum_contributors", "ptn", "request"} <= set(RULES)


@each
@pytest.mark.parametrize("promise", GENERAL_PROMISES)
def test_a_protection_keeps_every_general_promise(promise: Callable[[Any], None], name: str) -> None:
    promise(maker(name)(SMALL["magnitudes"]))


@each
@pytest.mark.parametrize("promise", PROTECTION_PROMISES)
def test_a_protection_keeps_every_promise(promise: Callable[[ProtectionFor], None], name: str) -> None:
    promise(maker(name))


@each
@each_kind
@pytest.mark.parametrize("promise", TABLE_PROMISES)
def test_a_protection_keeps_its_promises_on_every_table(
    promise: Callable[[ProtectionFor, Table], None], kind: str, name: str
) -> None:
    promise(maker(name), SMALL[kind])


@pytest.mark.parametrize("name", ["rta", "random_rounding", "cell_key"])
def test_another_seed_gives_other_values(name: str) -> None:
    one, two = (protect(maker(name), SMALL["counts"], Draws(seed)) for seed in (1, 2))
    assert one is not None
    assert two is not None
    assert not np.array_equal(one.values, two.values, equal_nan=True)


@each_rule
@pytest.mark.parametrize("promise", [*GENERAL_PROMISES, *RULE_PROMISES])
def test_a_rule_keeps_every_promise(promise: Callable[[SensitivityRule], None], rule: SensitivityRule) -> None:
    promise(rule)


@each_rule
@each_kind
def test_a_rule_says_which_cells_are_unsafe_and_by_how_much(rule: SensitivityRule, kind: str) -> None:
    says_which_cells_are_unsafe(rule, SMALL[kind])


def test_a_plain_number_in_place_of_draws_and_a_frame_in_place_of_a_table_are_refused_in_a_sentence() -> None:
    frame = pd.DataFrame({"r": ["a", "b"], "v": [1.0, 2.0]})
    with pytest.raises(ParameterError, match="must be given as Draws"):
        RandomRounding().protect(Table.of(Microdata(frame), "r", "v"), 5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a table is protected"):
        RandomRounding().protect(frame, Draws(1))  # type: ignore[arg-type]
