"""One set of promises, kept by every registered mask, measure and estimator.

Instances are built from the parameters' own declarations, so a new class is tested here by being registered.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import pickle
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sfumato.contract import (
    Draws,
    Holdout,
    Mask,
    Measure,
    Need,
    Parametric,
    Recipe,
    Release,
    Scope,
    Score,
    Side,
    Snooper,
    build,
    registered,
)
from sfumato.contract.parameters import Parameter, snake
from sfumato.engines import RECORD_ID, Kind
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.masks import KimNoise, TopCode
from sfumato.microdata import Batch, Microdata
from sfumato.risk import AttributeRisk
from sfumato.schema import Attribute, Schema
from sfumato.schema.hierarchy import TreeHierarchy
from sfumato.toml import dump
from sfumato.utility import Estimator, Mean

N = 480
NUMBERS = ("pay", "rent", "hours")
CATEGORIES = ("region", "sex")
CODES = {"pay": (99_999.0,), "hours": (999,)}
"""Codes for "no answer", declared in the schema."""

COUNTRY = TreeHierarchy([["Uppsala", "Svealand", "*"], ["Malmö", "Götaland", "*"], ["Kiruna", "Norrland", "*"]])
SCHEMA = Schema(
    (
        Attribute("tag", "identifier", "unordered"),  # type: ignore[arg-type]
        Attribute("age", "key", integer=True, bounds=(0, 110)),  # type: ignore[arg-type]
        Attribute("region", "key", "unordered", hierarchy=COUNTRY),  # type: ignore[arg-type]
        Attribute("sex", "key", "unordered"),  # type: ignore[arg-type]
        Attribute("home", "household"),  # type: ignore[arg-type]
        Attribute("rent", "confidential", level="household", bounds=(0, None)),  # type: ignore[arg-type]
        Attribute("pay", "confidential", missing=CODES["pay"], unit="pounds"),  # type: ignore[arg-type]
        Attribute("hours", "confidential", integer=True, missing=CODES["hours"], bounds=(0, 168)),  # type: ignore[arg-type]
        Attribute("weight", "weight"),  # type: ignore[arg-type]
    )
)


def table(n: int = N, seed: int = 1986) -> pa.Table:
    """People in households: gaps of every kind, codes for no answer, whole numbers, bounds, ties."""
    g = np.random.default_rng(seed)
    i = np.arange(n)
    rent = np.repeat(g.gamma(4, 212.5, n // 2 + 1), 2)[:n]
    pay = np.round(20_117.25 + 11.5 * rent + g.normal(0, 4000, n), 2)
    hours = np.clip(g.normal(36, 9, n).round(), 5, 70).astype(np.int64)
    pay[i % 13 == 4] = np.nan
    pay[i % 17 == 5] = 99_999.0
    hours[i % 11 == 6] = 999
    return pa.table(
        {
            "tag": [f"Zebra-{k:05d}" for k in g.permutation(n)],
            "age": pa.array(g.integers(18, 90, n), mask=i % 19 == 7),
            "region": pa.array(np.array(["Uppsala", "Malmö", "Kiruna"], object)[g.integers(0, 3, n)], mask=i % 23 == 8),
            "sex": pa.array(np.array(["f", "m"], object)[g.integers(0, 2, n)]),
            "home": i // 2,
            "rent": rent,
            "pay": pa.array(pay, mask=i % 29 == 9, from_pandas=False),
            "hours": pa.array(hours, mask=i % 31 == 10),
            "weight": g.uniform(100, 200, n),
        }
    )


def with_column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda t: t.set_column(t.column_names.index(name), name, pa.array(values(t.num_rows)))


def nothing_known(t: pa.Table) -> pa.Table:
    for name in NUMBERS:
        t = with_column(name, lambda n: pa.array([None] * n, pa.float64()))(t)
    return t


EDGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "no records": lambda t: t.slice(0, 0),
    "one record": lambda t: t.slice(0, 1),
    "two records": lambda t: t.slice(0, 2),
    "a column all null": with_column("pay", lambda n: pa.array([None] * n, pa.float64())),
    "a column all NaN": with_column("pay", lambda n: np.full(n, np.nan)),
    "a column all coded as missing": with_column("pay", lambda n: np.full(n, 99_999.0)),
    "a constant column": with_column("pay", lambda n: np.full(n, 31_337.1)),
    "a constant whole number": with_column("hours", lambda n: np.full(n, 41)),
    "no answers at all": nothing_known,
    "no answers, one record": lambda t: nothing_known(t.slice(0, 1)),
    "infinite values": with_column("pay", lambda n: np.where(np.arange(n) == 3, np.inf, 31_337.1 + np.arange(n))),
    "huge values": with_column("pay", lambda n: (31_337.1 + np.arange(n)) * 1e290),
}


def local(edge: str | None = None) -> Microdata:
    return Microdata(table() if edge is None else EDGES[edge](table()), SCHEMA)


# Building instances from declarations


def constant(frame: object) -> float:
    return 1.5


FILLED: dict[str, Callable[[], Any]] = {
    "estimator": lambda: Mean("pay"),
    "parts": lambda: (AttributeRisk("pay"), AttributeRisk("rent")),
    "formula": lambda: "pay ~ rent",
    "function": lambda: constant,
    "where": lambda: "age > 80",
    "covariance": lambda: ((4e6, 3e4, -900.0), (3e4, 1e4, 0.0), (-900.0, 0.0, 9.0)),
    "rules": lambda: {
        "region": {"Uppsala": "south", "Malmö": "south", "Kiruna": "north"},
        "age": [30, 50, 65],
        "sex": {"f": "x", "m": "x"},
    },
}
"""How to fill parameters that are required and are neither columns, choices nor numbers."""

BESIDE: dict[str, dict[str, Any]] = {
    "stratified_sample": {"unit": "record", "within": ("region",)},
    "tcap": {"missing": "value"},  # as wildcards, records without an age leave nobody certain
    "matrix_mask": {"B": ((0.9, 0.0, 0.1), (0.2, 1.1, 0.0), (0.0, 0.0, 0.8))},
    "match_risk": {"missing": "value"},
    "train_on_masked": {"column": "pay"},
    "population_uniques": {"missing": "value"},
    "prediction_risk": {"column": "pay", "given": ("rent",)},
}
"""What classes that need one of several optional parameters are given."""
UNFIT = {
    ("match_risk", "missing"),
    ("population_uniques", "missing"),
    ("stratified_sample", "unit"),
    ("t_closeness", "distance"),
    *((name, "against") for name in ("cap", "disco", "rapid", "tcap")),
    ("tcap", "missing"),
}
"""Choices that these data rule out: the table has no strata of households (tests/test_masks_records.py has them), no column
that has both an order and a hierarchy (tests/test_t_closeness.py), the release no holdout (tests/test_cap.py and its like).
Where missing ages match anybody, no record is unique (tests/test_match_risk.py)."""

WITH: dict[tuple[str, str], dict[str, Any]] = {
    ("top_code", "replace"): {"quantile": 0.9},
    ("bottom_code", "replace"): {"quantile": 0.1},
    ("coefficient_difference", "model"): {"formula": "sex ~ rent"},
    ("interval_overlap", "model"): {"formula": "sex ~ rent"},
}
"""What goes with another choice of a parameter: a mean is released of three households at least, and 1 % of them is fewer; a
logistic regression has a response of two values."""


def number_for(parameter: Parameter) -> float | int:
    low = max(parameter.low if parameter.low is not None else -1e9, -1e9)
    high = min(parameter.high if parameter.high is not None else 1e9, 1e9)
    middle = (
        math.sqrt(max(low, 0.01) * high)
        if parameter.scale == "log"
        else 50.0
        if (low, high) == (-1e9, 1e9)
        else (low + high) / 2
    )
    return math.floor(middle) if parameter.integer else middle


def required(cls: type[Parametric]) -> dict[str, Any]:
    """Return values for the parameters that have no default."""
    values: dict[str, Any] = dict(BESIDE.get(cls.name, {}))
    columns = iter(NUMBERS)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        parameter = field.metadata.get("param")
        if (
            parameter is None
            or field.name in values
            or field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        ):
            continue
        if parameter.columns == "one":
            values[field.name] = next(columns) if parameter.holds == "numbers" else CATEGORIES[0]
        elif parameter.columns == "many":
            values[field.name] = NUMBERS if parameter.holds == "numbers" else CATEGORIES
        elif parameter.columns == "weights":
            values[field.name] = {"pay": 1.0, "rent": -0.5}
        elif parameter.choices:
            values[field.name] = parameter.choices[0]
        elif parameter.numeric:
            values[field.name] = number_for(parameter)
        else:
            assert field.name in FILLED, f"say in FILLED how to fill {field.name} of {cls.name}"
            values[field.name] = FILLED[field.name]()
    return values


def variants(cls: type[Parametric]) -> Iterator[Any]:
    """Yield the class with its defaults, then with each parameter set to something else."""
    base = required(cls)
    yield cls(**base)
    parameters = cls.parameters()
    for name, parameter in parameters.items():
        if parameter.columns == "many" and name not in base:
            beside = {"rare": "suppress"} if name == "within" and "rare" in parameters else {}  # a stratum has gaps too
            yield cls(**base, **beside, **{name: NUMBERS[:2] if parameter.holds == "numbers" else CATEGORIES[:1]})
        for choice in parameter.choices if (cls.name, name) not in UNFIT else ():
            if choice != getattr(cls(**base), name):
                yield cls(**{**base, **WITH.get((cls.name, name), {}), name: choice})
        if parameter.per_column and "columns" in parameters:
            first, second = NUMBERS[:2]
            level = number_for(parameter)
            yield cls(**{**base, "columns": (first, second), name: {first: level, second: level}})


def instances(family: str) -> list[Any]:
    classes = [c for c in registered(family).values() if c.__module__.startswith("sfumato.")]
    assert classes
    return [pytest.param(v, id=f"{c.name}-{i}") for c in classes for i, v in enumerate(variants(c))]


MASKS, MEASURES, ESTIMATORS = instances("mask"), instances("measure"), instances("estimator")
ANYTHING = [*MASKS, *MEASURES, *ESTIMATORS]
DRAWS = Draws("contract")


@pytest.fixture(scope="module")
def data() -> Microdata:
    return local()


RECIPE = KimNoise(lambda2=0.3) >> TopCode(quantile=0.95)


@pytest.fixture(scope="module")
def release(data: Microdata) -> Release:
    return RECIPE.apply(data, DRAWS)


@pytest.fixture(scope="module")
def on_duckdb() -> Microdata:
    connection = duckdb.connect()
    connection.from_arrow(table()).create("people")
    return Microdata(connection.table("people"), SCHEMA)


@pytest.fixture(scope="module")
def on_spark(spark: Any) -> Microdata:
    return Microdata(spark.createDataFrame(table()), SCHEMA)


@pytest.fixture(scope="module", params=["on_duckdb", "on_spark"])
def elsewhere(request: pytest.FixtureRequest) -> Microdata:
    """The same records on another engine."""
    data: Microdata = request.getfixturevalue(request.param)
    return data


@pytest.fixture(scope="module")
def release_on_duckdb(on_duckdb: Microdata) -> Release:
    return RECIPE.apply(on_duckdb, DRAWS)


@pytest.fixture(scope="module")
def release_on_spark(on_spark: Microdata) -> Release:
    return RECIPE.apply(on_spark, DRAWS)


# What is checked again and again


def rows(data: Microdata) -> dict[str, Any]:
    """Return every column as an array, in id order; text as objects."""
    batch = data.batch()
    order = np.argsort(batch.ids, kind="stable")
    out: dict[str, Any] = {RECORD_ID: batch.ids[order]}
    for name, column in batch.rows.columns.items():
        out[name] = (
            column.numbers[order]
            if column.kind in (Kind.NUMBER, Kind.BOOLEAN)
            else np.array(column.arrow.to_pylist(), object)[order]
        )
    return out


def assert_same(one: Microdata, two: Microdata, tolerance: float = 0.0) -> None:
    a, b = rows(one), rows(two)
    assert list(a) == list(b)
    for name in a:
        if a[name].dtype == object:
            assert a[name].tolist() == b[name].tolist(), name
        else:
            np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=0, equal_nan=True, err_msg=name)


def assert_sentence(error: SfumatoError, data: Microdata) -> None:
    """A refusal is a sentence for people, and quotes no record."""
    text = str(error)
    assert re.fullmatch(r".*[.?]", text, re.DOTALL), text
    assert len(text.split()) > 4, text
    for word in ("NoneType", "Traceback", "object has no", "ndarray", "dtype", "nan", "Error:", "line "):
        assert word not in text, text
    assert error.__cause__ is None
    for name, column in data.batch().rows.columns.items():
        for value in {str(v) for v in column.arrow.to_pylist() if v is not None}:
            if len(value) > 4:  # a shorter one may be a count
                assert value not in text, f"the error quotes a value of {name}"


def known(data: Microdata, name: str) -> NDArray[np.float64]:
    numbers = data.numbers(name)
    return numbers[~np.isnan(numbers)]


def assert_valid(data: Microdata) -> None:
    """The data are what their schema says."""
    for attribute in data.schema:
        if data.kind(attribute.name) is not Kind.NUMBER:
            continue
        numbers = known(data, attribute.name)
        low, high = attribute.bounds
        assert low is None or (numbers >= low).all(), attribute.name
        assert high is None or (numbers <= high).all(), attribute.name
        assert not attribute.integer or (numbers == np.round(numbers)).all(), attribute.name


def round_trip(thing: Parametric) -> Any:
    text = dump({thing.family: thing.name, **thing.to_dict()}, "nothing", [])
    return build(thing.family, tomllib.loads(text))


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


# Masks


@pytest.mark.parametrize("mask", MASKS)
def test_the_same_seed_gives_the_same_release(mask: Mask, data: Microdata) -> None:
    one, two = (mask.apply(data, Draws(5)).masked for _ in range(2))
    assert one.digest() == two.digest()
    assert_same(one, two)


@pytest.mark.parametrize("mask", MASKS)
def test_another_seed_gives_another_release_if_the_mask_draws_at_all(
    mask: Mask, data: Microdata, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stream = Draws._stream
    monkeypatch.setattr(Draws, "_stream", lambda self, name: asked.append(name) or stream(self, name))
    made = [mask.apply(data, Draws(seed)).masked for seed in (5, 6)]
    one, two = ((m.digest(), m.batch([]).ids.tolist()) for m in made)  # a digest is the same in any order
    assert (one != two) is bool(asked)


@pytest.mark.parametrize("mask", MASKS)
def test_masking_leaves_the_original_untouched(mask: Mask) -> None:
    source = table()
    data = Microdata(source, SCHEMA)
    made = mask.apply(data, DRAWS)
    rows(made.masked)  # columns are worked out when looked at
    assert Microdata(source, SCHEMA).digest() == data.digest() == local().digest()
    assert_same(Microdata(source, SCHEMA), local())
    assert made.original is data


@pytest.mark.parametrize("mask", MASKS)
def test_what_comes_out_fits_the_schema_that_was_announced(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    announced = mask.schema_after(made.recipe.steps[0].mask.schema_after(SCHEMA))  # type: ignore[union-attr]
    assert made.masked.schema == announced
    assert list(made.masked.engine.kinds) == list(announced.names())
    assert_valid(made.masked)
    assert all(g.says and g.verified for g in made.guarantees)


@pytest.mark.parametrize("mask", MASKS)
def test_identifiers_are_gone(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS).masked
    assert "tag" not in made.engine.kinds
    assert "Zebra" not in str(made.to_native().to_pylist())
    assert RECORD_ID not in made.to_native().column_names


@pytest.mark.parametrize("mask", MASKS)
def test_columns_that_a_mask_does_not_touch_stay_as_they_were(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    touched = mask.touches(data.schema)
    if mask.keeps_records:
        np.testing.assert_array_equal(np.sort(made.align), np.sort(data.batch([]).ids))
        in_order = made.masked.batch([]).ids.tolist() == data.batch([]).ids.tolist()
    if mask.keeps_records and in_order:
        for name in set(made.masked.schema.names()) & set(data.schema.names()) - set(touched):
            assert made.masked.batch([name]).column(name).equals(data.batch([name]).column(name)), name


@pytest.mark.parametrize("mask", MASKS)
def test_missing_values_and_their_codes_stay_where_they_are(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    if not (mask.keeps_missing and mask.keeps_records):
        return
    for name in NUMBERS:
        before, after = made.pair(name)
        np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
    for name, codes in CODES.items():
        coded = np.isin(rows(data)[name], codes)
        assert coded.sum() > 10
        np.testing.assert_array_equal(np.isin(rows(made.masked)[name], codes), coded)


@pytest.mark.parametrize("mask", MASKS)
def test_a_household_has_one_value_in_a_household_column(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS).masked
    if not {"home", "rent"} <= set(made.schema.names()) or made.kind("rent") is not Kind.NUMBER:
        return
    homes, rent = made.numbers("home"), made.numbers("rent")
    assert all(len(np.unique(rent[homes == home])) == 1 for home in np.unique(homes))


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_that_says_it_preserves_order_turns_no_two_records_round(mask: Mask, data: Microdata) -> None:
    if not mask.preserves_order:
        return
    made = mask.apply(data, DRAWS)
    for name in made.masked.schema.names():
        if made.masked.kind(name) is Kind.NUMBER:
            before, after = made.pair(name)
            assert not ((before[:, None] < before) & (after[:, None] > after)).any(), name


@pytest.mark.parametrize("mask", MASKS)
def test_a_row_mask_gives_the_same_in_any_pieces_and_order(mask: Mask, data: Microdata) -> None:
    if mask.scope is not Scope.ROW:
        return
    fitted = mask if mask.is_fitted else mask.fit(data, DRAWS)
    whole = fitted.transform(data.batch(), DRAWS)
    place = {i: k for k, i in enumerate(whole.ids.tolist())}
    order = np.random.default_rng(0).permutation(N)
    for piece in (order[:1], order[1:100], order[100:], order[:0]):
        part = fitted.transform(Batch(data.batch().rows.take(piece), data.schema), DRAWS)
        assert list(part.rows.columns) == list(whole.rows.columns)
        at = np.array([place[i] for i in part.ids.tolist()], np.int64)
        if not mask.keeps_records:  # which records stay must not hang on the piece
            assert set(part.ids.tolist()) == set(data.batch().ids[piece].tolist()) & set(place)
        for name, column in part.rows.columns.items():
            assert column.equals(whole.rows.columns[name].take(at)), name


def assert_same_release(mask: Mask, one: Microdata, two: Microdata) -> None:
    here, there = mask.apply(one, DRAWS), mask.apply(two, DRAWS)
    # covariances are summed in another order there, so the last digits may differ
    assert_same(here.masked, there.masked, tolerance=1e-9)
    assert [(g.step, g.says) for g in here.guarantees] == [(g.step, g.says) for g in there.guarantees]


@pytest.mark.parametrize("mask", MASKS)
def test_duckdb_gives_the_same_release(mask: Mask, data: Microdata, on_duckdb: Microdata) -> None:
    assert_same_release(mask, data, on_duckdb)


@pytest.mark.parametrize("mask", [m for m in MASKS if str(m.id).endswith("-0")])  # Spark takes seconds for each
def test_spark_gives_the_same_release(mask: Mask, data: Microdata, on_spark: Microdata) -> None:
    assert_same_release(mask, data, on_spark)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("edge", EDGES)
def test_a_mask_masks_extreme_data_or_refuses_them_in_a_sentence(mask: Mask, edge: str) -> None:
    data = local(edge)
    try:
        made = mask.apply(data, DRAWS)
        rows(made.masked)
    except SfumatoError as error:
        assert_sentence(error, data)
        return
    assert_valid(made.masked)
    if not (mask.keeps_records and mask.keeps_missing):
        return
    assert len(made.masked) == len(data)
    for name in NUMBERS:
        before, after = (np.isnan(d.numbers(name))[np.argsort(d.batch([]).ids)] for d in (data, made.masked))
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("mask", MASKS)
def test_what_a_mask_learned_is_not_shown_and_travels_with_it(mask: Mask, data: Microdata) -> None:
    fitted = mask.fit(data, DRAWS)
    assert fitted.is_fitted
    assert fitted == mask
    assert repr(fitted) == repr(mask)
    assert fitted.to_dict() == mask.to_dict()
    sent: Mask = pickle.loads(pickle.dumps(fitted))
    assert sent.is_fitted
    assert_same(sent.apply(data, DRAWS).masked, fitted.apply(data, DRAWS).masked)


@pytest.mark.parametrize("mask", MASKS)
def test_a_fitted_recipe_masks_like_one_that_fits_as_it_goes(mask: Mask, data: Microdata) -> None:
    recipe = Recipe.of(step=mask)
    assert_same(recipe.fit(data, DRAWS).apply(data, DRAWS).masked, recipe.apply(data, DRAWS).masked)


@pytest.mark.parametrize("mask", MASKS)
def test_the_noise_a_mask_speaks_of_is_a_covariance(mask: Mask) -> None:
    sigma = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    noise = mask.noise(NUMBERS, sigma, SCHEMA)
    if noise is not None:
        assert noise.shape == (3, 3)
        np.testing.assert_allclose(noise, noise.T)
        assert np.linalg.eigvalsh(noise).min() >= -1e-12


@pytest.mark.parametrize("mask", MASKS)
def test_a_matrix_mask_is_its_matrices_and_any_other_says_why_not(mask: Mask, data: Microdata) -> None:
    plain = data.with_schema(Schema(tuple(a.with_(bounds=(None, None), integer=False) for a in data.schema)))
    try:
        form = mask.as_matrix(plain, DRAWS)
    except NotApplicable as reason:
        assert_sentence(reason, data)
        return
    made = mask.run(plain, DRAWS) if mask.is_fitted else mask.fit(plain, DRAWS).run(plain, DRAWS)
    m = form.apply(np.column_stack([plain.numbers(n) for n in form.names]))
    released = np.column_stack([made.numbers(n) for n in form.released])
    np.testing.assert_allclose(m, released, rtol=1e-9, equal_nan=True)


# Measures


def snooper_for(measure: Measure) -> Snooper:
    """Return a snooper who has what the measure needs: a table of the population, where it needs one."""
    return Snooper().learn(population=local()) if Need.POPULATION in measure.needs else Snooper()


def beside_others(made: Release, measure: Measure) -> Release:
    """Return the release with other people's records, which no mask has seen, where the measure needs them."""
    others = Holdout.of(Microdata(table(seed=2014), SCHEMA))
    return made.with_holdout(others) if Need.HOLDOUT in measure.needs else made


def assert_score(score: Score, measure: Measure) -> None:
    assert isinstance(score, Score)
    assert not math.isnan(score.value)
    assert score.words
    assert "nan" not in score.words
    assert score.measure == measure.label() != ""
    assert score.side is measure.side in Side
    assert score.direction == ("lower is safer" if measure.side is Side.RISK else "higher is more useful")
    assert score.interval is None or score.interval[0] <= score.value <= score.interval[1]
    assert measure.label() in str(score)
    json.dumps(score.to_dict(), allow_nan=False)
    assert "records" not in score.to_dict()
    assert "records=" not in repr(score)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_scores_a_release(measure: Measure, release: Release) -> None:
    score = measure.score(beside_others(release, measure), snooper_for(measure))
    assert_score(score, measure)
    if score.records is not None:
        assert len(score.records) == len(release.original)
        of_all = measure.of_records(score.records[~np.isnan(score.records)])
        assert of_all is None or of_all == pytest.approx(score.value, rel=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_same_release_has_the_same_score(measure: Measure, data: Microdata) -> None:
    recipe = KimNoise() >> TopCode()
    one, two = (
        measure.score(beside_others(recipe.apply(data, Draws(3)), measure), snooper_for(measure)) for _ in range(2)
    )
    assert one == two
    assert measure.score(beside_others(recipe.apply(data, Draws(3)), measure), snooper_for(measure)) == one


@pytest.mark.parametrize("measure", MEASURES)
def test_measuring_leaves_both_files_untouched(measure: Measure, data: Microdata) -> None:
    made = KimNoise().apply(data, DRAWS)
    before = made.original.digest(), made.masked.digest()
    measure.score(beside_others(made, measure), snooper_for(measure))
    fresh = KimNoise().apply(local(), DRAWS)
    assert (made.original.digest(), made.masked.digest()) == before == (fresh.original.digest(), fresh.masked.digest())


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_learns_nothing_into_itself(measure: Measure, release: Release) -> None:
    shown, written = repr(measure), None if "function" in str(measure) else measure.to_dict()
    ready = measure.prepare(release.original)
    measure.score(beside_others(release, measure), snooper_for(measure))
    assert ready == measure
    assert repr(ready) == repr(measure) == shown
    assert written is None or ready.to_dict() == measure.to_dict() == written


@pytest.mark.parametrize("measure", MEASURES)
def test_observations_have_the_declared_size_and_average_to_a_value(measure: Measure, data: Microdata) -> None:
    ready = measure.prepare(data)
    recipe = KimNoise(lambda2=0.3) >> TopCode()
    made = [beside_others(recipe.apply(data, Draws(s)), measure) for s in range(3)]
    observations = np.stack([ready.observe(release, snooper_for(measure)) for release in made])
    assert observations.shape == (3, measure.size)
    values = ready.value(observations)
    assert values.shape == (3,)
    assert float(ready.value(observations.mean(axis=0))) == ready.estimate(observations)[0]


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_without_alignment_says_whether_it_applies(measure: Measure, release: Release) -> None:
    loose = Release.of(release.original, release.masked)
    try:
        assert_score(measure.score(beside_others(loose, measure), snooper_for(measure)), measure)
    except NotApplicable as reason:
        assert_sentence(reason, release.original)


def assert_same_score(measure: Measure, here: Release, there: Release) -> None:
    one, two = (measure.score(beside_others(r, measure), snooper_for(measure)) for r in (here, there))
    assert two.value == pytest.approx(one.value, rel=1e-6)
    assert two.measure == one.measure


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_scores_the_same_on_duckdb(measure: Measure, release: Release, release_on_duckdb: Release) -> None:
    assert_same_score(measure, release, release_on_duckdb)


@pytest.mark.parametrize("measure", [m for m in MEASURES if str(m.id).endswith("-0")])  # Spark takes seconds for each
def test_a_measure_scores_the_same_on_spark(measure: Measure, release: Release, release_on_spark: Release) -> None:
    assert_same_score(measure, release, release_on_spark)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("edge", EDGES)
def test_a_measure_scores_extreme_data_or_says_in_a_sentence_why_not(measure: Measure, edge: str) -> None:
    data = local(edge)
    made = Recipe(()).apply(data, DRAWS)
    try:
        with np.errstate(invalid="ignore"):  # a warning on the way to a refusal does no harm
            score = measure.score(made, snooper_for(measure))
    except SfumatoError as error:
        assert_sentence(error, data)
        return
    assert_score(score, measure)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_names_the_columns_it_looks_at(measure: Measure, release: Release) -> None:
    columns = measure.columns(release.original.schema)
    if columns is None:
        return
    assert set(columns) <= set(release.masked.schema.names())
    part = RECIPE.apply(release.original.local({*columns, *NUMBERS, "home"}), DRAWS)
    assert (
        measure.score(beside_others(part, measure), snooper_for(measure)).value
        == measure.score(beside_others(release, measure), snooper_for(measure)).value
    )


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
