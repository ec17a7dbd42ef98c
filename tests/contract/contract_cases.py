"""Every class that is registered, in every variant that its declarations give: a new class is tested by being registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from sfumato.contract import Parametric, Recipe, Release, registered
from sfumato.data.microdata import Microdata
from sfumato.risk import AttributeRisk
from sfumato.testing import DRAWS, microdata, needs_value, variants
from sfumato.utility import Mean


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

VALUES: dict[str, dict[str, Any]] = {
    "copula_synthesis": {"columns": ("age", "region", "sex", "rent", "pay", "hours", "weight")},  # it takes no dates
    "full_tree_synthesis": {"columns": ("age", "region", "sex", "rent", "pay", "hours", "weight")},  # nor does it
    "stratified_sample": {"unit": "record", "within": ("region",)},
    "mondrian": {"ranges": ()},  # regions have no order
    "tcap": {"missing": "value"},  # as wildcards, records without an age leave nobody certain
    "matrix_mask": {"B": ((0.9, 0.0, 0.1), (0.2, 1.1, 0.0), (0.0, 0.0, 0.8))},
    "marginal_synthesis": {
        "columns": ("age", "region", "hours")
    },  # the schema has no bounds of pay, and no list of sexes
    "match_risk": {"missing": "value"},
    "train_on_masked": {"column": "pay"},
    "population_uniques": {"missing": "value"},
    "prediction_risk": {"column": "pay", "given": ("rent",)},
    "record_swap": {"areas": ("rent",), "keys": ("age", "sex"), "carry": None},
}
"""What classes are given that need one of several optional parameters, or that have choices which these data rule out: the file
has no strata of households (tests/test_masks_records.py has them), and of its columns only the rent is the same in a household, as
an area is (tests/test_record_swap.py). Where missing ages match anybody, no record is unique
(tests/test_match_risk.py)."""

AS_DECLARED = {("t_closeness", "distance"), *((name, "against") for name in ("cap", "disco", "rapid", "tcap"))}
"""Parameters that keep their default: the file has no column with both an order and a hierarchy (tests/test_t_closeness.py),
the release no holdout (tests/test_cap.py and its like)."""

BESIDE: dict[str, dict[str, dict[str, Any]]] = {
    "top_code": {"replace": {"quantile": 0.9}},
    "bottom_code": {"replace": {"quantile": 0.1}},
    "tree_synthesis": {"visit": {"columns": ("sex", "region")}},
    "coefficient_difference": {"model": {"formula": "sex ~ rent"}},
    "interval_overlap": {"model": {"formula": "sex ~ rent"}},
}
"""What goes with another choice of a parameter: a mean is released of three households at least, and 1 % of them is fewer; a
logistic regression has a response of two values."""


def values_for(cls: type[Parametric]) -> dict[str, Any]:
    """Return the parameters of a class that cannot be guessed, and those that must keep one value."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    filled = {name: make() for name, make in FILLED.items() if name in fields and needs_value(fields[name])}
    declared = {name: fields[name].default for who, name in AS_DECLARED if who == cls.name}
    return {**filled, **declared, **VALUES.get(cls.name, {})}


def cases(cls: type[Parametric]) -> list[Any]:
    strata = {"within": {"rare": "suppress"}} if "rare" in cls.parameters() else {}  # a stratum has gaps too
    found = variants(cls, values_for(cls), {**strata, **BESIDE.get(cls.name, {})})
    return [pytest.param(v, id=f"{cls.name}-{i}") for i, v in enumerate(found)]


def instances(family: str) -> list[Any]:
    classes = [c for c in registered(family).values() if c.__module__.startswith("sfumato.")]
    assert classes
    return [case for c in classes for case in cases(c)]


MASKS, MEASURES, ESTIMATORS = instances("mask"), instances("measure"), instances("estimator")
ANYTHING = [*MASKS, *MEASURES, *ESTIMATORS]

ON_SPARK = {
    "aggregate_records", "kim_noise", "random_order", "attribute_risk", "global_risk", "l_diversity", "population_uniques",
    "attribution",
}  # fmt: skip
"""Masks, measures and attacks that between them ask an engine for every operation that any of their family asks for (test_contract
looks after it). These run on Spark with `make test`, the others with `make verify`."""


def on_spark(cases: list[Any]) -> list[Any]:
    """Return the first variant of every class: Spark takes a second for each."""
    firsts = [case for case in cases if str(case.id).endswith("-0")]
    return [
        pytest.param(*c.values, id=c.id, marks=() if c.values[0].name in ON_SPARK else (pytest.mark.verify,))
        for c in firsts
    ]


@cache
def extreme_data(extreme: str) -> Microdata:
    """Return an extreme form of the file; all classes are given the same one, as none may change it."""
    return microdata(extreme)


@cache
def extreme_release(extreme: str) -> Release:
    """Return an extreme form of the file, released as it is."""
    return Recipe(()).apply(extreme_data(extreme), DRAWS)
