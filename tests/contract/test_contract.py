"""One set of promises, kept by every registered mask, measure and estimator: what holds for all of them, and estimators."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from contract_cases import ANYTHING, ESTIMATORS, ON_SPARK, extreme_data, instances

from sfumato.contract import Parametric, Recipe, Snooper, build
from sfumato.data.duckdb_engine import DuckDBEngine
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks import KimNoise
from sfumato.risk import AttributeRisk
from sfumato.testing import (
    DRAWS,
    ESTIMATOR_PROMISES,
    EXTREMES,
    GENERAL_PROMISES,
    RECIPE,
    estimates_extreme_data,
    microdata,
    round_trip,
    score_of,
)
from sfumato.utility import Estimator


@pytest.mark.parametrize("thing", ANYTHING)
@pytest.mark.parametrize("promise", GENERAL_PROMISES)
def test_a_class_keeps_every_general_promise(promise: Callable[[Parametric], None], thing: Parametric) -> None:
    promise(thing)


# Estimators


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("promise", ESTIMATOR_PROMISES)
def test_an_estimator_keeps_every_promise(
    promise: Callable[[Estimator, Microdata], None], estimator: Estimator, data: Microdata
) -> None:
    promise(estimator, data)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("engine", ["data_on_duckdb", "data_on_spark"])
def test_an_estimator_gives_the_same_number_on_another_engine(
    engine: str, estimator: Estimator, data: Microdata, request: pytest.FixtureRequest
) -> None:
    elsewhere: Microdata = request.getfixturevalue(engine)
    assert estimator.estimate(elsewhere, {}) == pytest.approx(estimator.estimate(data, {}), rel=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("extreme", [e for e in EXTREMES if not e.endswith("values")])
def test_an_estimator_copes_with_extreme_data_or_refuses_them_in_a_sentence(estimator: Estimator, extreme: str) -> None:
    estimates_extreme_data(estimator, extreme_data(extreme))


# Combinations of combinations


def test_a_combination_of_combinations_keeps_every_observation(data: Microdata) -> None:
    inner = build(
        "measure", {"measure": "weighted", "parts": (AttributeRisk("pay"), AttributeRisk("rent")), "weights": [1, 3]}
    )
    outer = build("measure", {"measure": "worst", "parts": [AttributeRisk("pay"), inner]})
    made = KimNoise().apply(data, DRAWS)
    pay, rent = (AttributeRisk(c).score(made).value for c in ("pay", "rent"))
    assert inner.score(made).value == pytest.approx(pay + 3 * rent)
    assert outer.score(made).value == pytest.approx(max(pay, pay + 3 * rent))
    assert outer.size == 3
    assert round_trip(outer) == outer


@pytest.mark.parametrize(
    ("table_", "sentence"),
    [
        ({"measure": "worst", "parts": []}, "worst needs a list of measures, at least one"),
        ({"measure": "worst", "parts": 5}, "worst needs a list of measures"),
        ({"measure": "worst", "parts": "pay"}, "worst needs a list of measures"),
        ({"measure": "worst"}, "worst needs parts"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": [1, 2]}, "one weight of at least 0 for each"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": [-1]}, "one weight of at least 0"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": [0]}, "one weight of at least 0"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": [math.inf]}, "one weight of at least 0"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": 3}, "one weight of at least 0"),
        ({"measure": "weighted", "parts": [AttributeRisk("pay")], "weights": "much"}, "one weight of at least 0"),
        ({"measure": "worst", "parts": [AttributeRisk("pay")], "scales": [0]}, "one positive scale for each of its 1 parts"),
        ({"measure": "worst", "parts": [AttributeRisk("pay")], "scales": [math.nan]}, "one positive scale"),
        ({"measure": "worst", "parts": [AttributeRisk("pay")], "scales": 2}, "one positive scale"),
    ],
)  # fmt: skip
def test_a_combination_that_makes_no_sense_is_refused(table_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        build("measure", table_)


@pytest.mark.verify
@pytest.mark.parametrize("family", ["mask", "measure", "attack"])
def test_every_operation_of_an_engine_that_a_class_asks_for_is_tried_on_spark_by_a_class_of_its_family(
    family: str, data_on_duckdb: Microdata, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations: set[str] = set()

    def noted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(engine: DuckDBEngine, *arguments: Any, **options: Any) -> Any:
            operations.add(name)
            return plain(engine, *arguments, **options)

        return call

    for name, plain in inspect.getmembers(DuckDBEngine, inspect.isfunction):
        if not name.startswith("_"):
            monkeypatch.setattr(DuckDBEngine, name, noted(name, plain))
    sets: dict[str, frozenset[str]] = {}
    for case in instances(family):
        (one,) = case.values
        if str(case.id).endswith("-0"):
            release = (Recipe(()) if family == "attack" else RECIPE).apply(data_on_duckdb, DRAWS)
            operations.clear()
            if family == "mask":
                one.apply(data_on_duckdb, DRAWS).masked.batch()
            elif family == "measure":
                score_of(one, release)
            else:
                with suppress(NotApplicable):
                    one.run(replace(release, holdout=microdata()), Snooper(coverage=0.5, errors=0.2), DRAWS)
            sets[one.name] = frozenset(operations)
    tried = set().union(*(sets[name] for name in ON_SPARK & set(sets)))
    assert tried
    assert {name: found - tried for name, found in sets.items() if found - tried} == {}
