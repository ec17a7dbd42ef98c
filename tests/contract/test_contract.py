"""One set of promises, kept by every registered mask, measure and estimator: what holds for all of them, and estimators."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
from contract_cases import ANYTHING, DRAWS, EDGES, ESTIMATORS, assert_sentence, local, round_trip

from sfumato.contract import Parametric, build
from sfumato.contract.parameters import snake
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, SfumatoError
from sfumato.masks import KimNoise
from sfumato.risk import AttributeRisk
from sfumato.utility import Estimator

# Everything


@pytest.mark.parametrize("thing", ANYTHING)
def test_a_class_and_each_of_its_parameters_are_described(thing: Parametric) -> None:
    cls = type(thing)
    assert cls.__dict__.get("__doc__"), f"{cls.__name__} only inherits its description"
    assert not inspect.getdoc(cls).startswith(f"{cls.__name__}(")  # type: ignore[union-attr]
    assert thing.name == snake(cls.__name__)
    for name, parameter in cls.parameters().items():
        assert parameter.doc, name
        assert name not in ("name", "step", thing.family), "the name stands for something else in a recipe file"
        assert "." not in name
        assert parameter.low is None or parameter.high is None or parameter.low < parameter.high
        assert set(parameter.choices) <= set(filter(lambda c: isinstance(c, str), parameter.choices))


@pytest.mark.parametrize("thing", ANYTHING)
def test_toml_gives_back_the_same_thing(thing: Parametric) -> None:
    if "function" in thing.parameters():
        with pytest.raises(ParameterError, match="cannot be written to a file"):
            thing.to_dict()
        return
    assert round_trip(thing) == thing


@pytest.mark.parametrize("thing", ANYTHING)
def test_a_copy_with_nothing_changed_is_the_same_and_an_unknown_parameter_is_refused(thing: Parametric) -> None:
    assert thing.with_() == thing
    with pytest.raises(ParameterError, match="is not in"):
        thing.with_(no_such_parameter=1)


@pytest.mark.parametrize("thing", ANYTHING)
def test_a_parameter_out_of_its_range_is_refused_at_once(thing: Parametric) -> None:
    for name, parameter in thing.parameters().items():
        wrong: list[Any] = []
        if parameter.numeric:
            wrong = [float("nan"), float("inf"), "much", True, [1]]
            wrong += [parameter.low - 1] if parameter.low is not None and parameter.low > -1e299 else []
            wrong += [parameter.high + 1] if parameter.high is not None and parameter.high < 1e299 else []
        if parameter.choices:
            wrong = ["no such choice", 5]
        if parameter.columns in ("one", "many"):
            wrong = [5, [1], b"pay", {"pay": 1}]
        for value in wrong:
            with pytest.raises(ParameterError, match=rf"{name} .*must be .*\.$"):
                thing.with_(**{name: value})


# Estimators


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_gives_a_number_and_describes_itself(estimator: Estimator, data: Microdata) -> None:
    estimator.check(data)
    value = estimator.estimate(data, {})
    assert isinstance(value, float)
    assert math.isfinite(value)
    assert estimator.label()
    assert isinstance(estimator.unit(data.schema), str)
    columns = estimator.columns()
    assert columns is None or set(columns) <= set(data.schema.names())
    assert estimator.estimate(data, {}) == value


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_gives_the_same_number_on_another_engine(
    estimator: Estimator, data: Microdata, elsewhere: Microdata
) -> None:
    assert estimator.estimate(elsewhere, {}) == pytest.approx(estimator.estimate(data, {}), rel=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("edge", [e for e in EDGES if not e.endswith("values")])
def test_an_estimator_copes_with_extreme_data_or_refuses_them_in_a_sentence(estimator: Estimator, edge: str) -> None:
    data = local(edge)
    try:
        estimator.check(data)
        value = estimator.estimate(data, {})
    except SfumatoError as error:
        assert_sentence(error, data)
        return
    assert not math.isnan(value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_refuses_a_column_that_is_not_there(estimator: Estimator, data: Microdata) -> None:
    columns = estimator.columns()
    if not columns:
        return
    without = data.local(set(data.schema.names()) - {columns[0]})
    with pytest.raises(SfumatoError) as caught:
        estimator.check(without)
    assert columns[0] in str(caught.value)
    assert_sentence(caught.value, data)


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
