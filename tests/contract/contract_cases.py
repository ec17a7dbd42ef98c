"""What the promises are tested on: a file with everything in it, its extreme forms, and every class that is registered.

Instances are built from the parameters' own declarations, so a new class is tested by being registered.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sfumato.contract import Draws, Parametric, build, registered
from sfumato.contract.parameters import Parameter
from sfumato.data import RECORD_ID, Kind
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.masks import KimNoise, TopCode
from sfumato.risk import AttributeRisk
from sfumato.schema import Attribute, Schema, TreeHierarchy
from sfumato.toml import dump
from sfumato.utility import Mean

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


RECIPE = KimNoise(lambda2=0.3) >> TopCode(quantile=0.95)


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
