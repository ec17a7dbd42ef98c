"""Check a class of your own against the contract: what every mask, measure, protection and rule of sfumato promises.

`check_mask(MyMask)` builds instances from the declared parameters and tries every promise on generated files: ordinary ones
and extreme ones (no records, no answers, infinite values). A promise is a function that takes an instance and data, and its
docstring is the promise; sfumato's own tests call the same functions for every registered class.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa

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
)
from sfumato.contract.parameters import Parameter, snake
from sfumato.data import RECORD_ID, Batch, Kind, Microdata
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.masks import KimNoise, TopCode
from sfumato.schema import Attribute, Schema, TreeHierarchy
from sfumato.tables import (
    MinimumFrequency,
    PPercent,
    Protection,
    PublishedTable,
    Sensitivity,
    SensitivityRule,
    Status,
    Table,
)
from sfumato.toml import dump, parse
from sfumato.utility import Estimator

__all__ = ["check_estimator", "check_mask", "check_measure", "check_protection", "check_rule"]

T = TypeVar("T", bound=Parametric)
Values = Mapping[str, Any]
Promises = tuple[Callable[..., None], ...]

# --- microdata
# A file with everything in it, and its extreme forms.

RECORDS = 480
NUMBERS = ("pay", "rent", "hours")
CATEGORIES = ("region", "sex")
CODES = {"pay": (99_999.0,), "hours": (999,)}
"""Codes for "no answer", declared in the schema."""

_COUNTRY = TreeHierarchy([["Uppsala", "Svealand", "*"], ["Malmö", "Götaland", "*"], ["Kiruna", "Norrland", "*"]])
SCHEMA = Schema(
    (
        Attribute("tag", "identifier", "unordered"),  # type: ignore[arg-type]
        Attribute("age", "key", integer=True, bounds=(0, 110)),  # type: ignore[arg-type]
        Attribute("region", "key", "unordered", hierarchy=_COUNTRY),  # type: ignore[arg-type]
        Attribute("sex", "key", "unordered"),  # type: ignore[arg-type]
        Attribute("home", "household"),  # type: ignore[arg-type]
        Attribute("rent", "confidential", level="household", bounds=(0, None)),  # type: ignore[arg-type]
        Attribute("pay", "confidential", missing=CODES["pay"], unit="pounds"),  # type: ignore[arg-type]
        Attribute("hours", "confidential", integer=True, missing=CODES["hours"], bounds=(0, 168)),  # type: ignore[arg-type]
        Attribute("weight", "weight"),  # type: ignore[arg-type]
    )
)
DRAWS = Draws("contract")
RECIPE = KimNoise(lambda2=0.3) >> TopCode(quantile=0.95)


def arrow_table(n: int = RECORDS, seed: int = 1986) -> pa.Table:
    """Return people in households: gaps of every kind, codes for no answer, whole numbers, bounds, ties."""
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


def with_column(name: str, values: Callable[[int], Any]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that replaces a column by values; `values` gets the number of rows."""
    return lambda t: t.set_column(t.column_names.index(name), name, pa.array(values(t.num_rows)))


def _without_answers(t: pa.Table) -> pa.Table:
    for name in NUMBERS:
        t = with_column(name, lambda n: pa.array([None] * n, pa.float64()))(t)
    return t


EXTREMES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "no records": lambda t: t.slice(0, 0),
    "one record": lambda t: t.slice(0, 1),
    "two records": lambda t: t.slice(0, 2),
    "a column all null": with_column("pay", lambda n: pa.array([None] * n, pa.float64())),
    "a column all NaN": with_column("pay", lambda n: np.full(n, np.nan)),
    "a column all coded as missing": with_column("pay", lambda n: np.full(n, 99_999.0)),
    "a constant column": with_column("pay", lambda n: np.full(n, 31_337.1)),
    "a constant whole number": with_column("hours", lambda n: np.full(n, 41)),
    "no answers at all": _without_answers,
    "no answers, one record": lambda t: _without_answers(t.slice(0, 1)),
    "infinite values": with_column("pay", lambda n: np.where(np.arange(n) == 3, np.inf, 31_337.1 + np.arange(n))),
    "huge values": with_column("pay", lambda n: (31_337.1 + np.arange(n)) * 1e290),
}


def microdata(extreme: str | None = None) -> Microdata:
    """Return the generated file, or one of its extreme forms."""
    return Microdata(arrow_table() if extreme is None else EXTREMES[extreme](arrow_table()), SCHEMA)


# --- instances
# Built from the parameters' declarations.


def number_for(parameter: Parameter) -> float | int:
    """Return a number in the middle of a parameter's range."""
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


def needs_value(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is a parameter without a default."""
    missing = dataclasses.MISSING
    return "param" in field.metadata and field.default is missing and field.default_factory is missing


def required(cls: type[Parametric], values: Values | None = None) -> dict[str, Any]:
    """Return values for the parameters that have no default: those in `values`, and guesses from the declarations."""
    found = dict(values or {})
    columns = iter(NUMBERS)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in found or not needs_value(field):
            continue
        parameter: Parameter = field.metadata["param"]
        if parameter.columns == "one":
            found[field.name] = next(columns) if parameter.holds == "numbers" else CATEGORIES[0]
        elif parameter.columns == "many":
            found[field.name] = NUMBERS if parameter.holds == "numbers" else CATEGORIES
        elif parameter.columns == "weights":
            found[field.name] = {"pay": 1.0, "rent": -0.5}
        elif parameter.choices:
            found[field.name] = parameter.choices[0]
        elif parameter.numeric:
            found[field.name] = number_for(parameter)
        else:
            raise AssertionError(
                f"no value for {field.name} of {cls.name} follows from its declaration. "
                f"Give one: values={{'{field.name}': ...}}."
            )
    return found


def variants(
    cls: type[T], values: Values | None = None, beside: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[T]:
    """Yield the class with its defaults, then with each parameter set to something else.

    A parameter in `values` keeps that value. `beside` says, for a parameter that is set to something else, which other ones
    must then be set too.
    """
    base, beside = required(cls, values), beside or {}
    first = cls(**base)
    yield first
    parameters = cls.parameters()
    for name, parameter in parameters.items():
        if name in (values or {}):
            continue
        others = {**base, **beside.get(name, {})}
        if parameter.columns == "many" and name not in base:
            yield cls(**{**others, name: NUMBERS[:2] if parameter.holds == "numbers" else CATEGORIES[:1]})
        for choice in parameter.choices:
            if choice != getattr(first, name):
                yield cls(**{**others, name: choice})
        if parameter.per_column and "columns" in parameters:
            level = number_for(parameter)
            yield cls(**{**others, "columns": NUMBERS[:2], name: dict.fromkeys(NUMBERS[:2], level)})


def round_trip(thing: T) -> T:
    """Write an instance to TOML and read it back."""
    text = dump({}, "step", [{thing.family: thing.name, **thing.to_dict()}])
    again: T = build(thing.family, parse(text)["step"][0])
    return again


# --- comparisons


def require(holds: object, sentence: str) -> None:
    """Raise an AssertionError with a sentence unless something holds; unlike `assert`, under ``python -O`` too."""
    if not holds:
        raise AssertionError(sentence)


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


def require_same(one: Microdata, two: Microdata, tolerance: float = 0.0) -> None:
    """Require the same columns with the same values; numbers up to a relative tolerance."""
    a, b = rows(one), rows(two)
    require(list(a) == list(b), f"The columns are {list(a)[1:]} in one and {list(b)[1:]} in the other.")
    for name in a:
        same = (
            a[name].tolist() == b[name].tolist()
            if object in (a[name].dtype, b[name].dtype)
            else a[name].shape == b[name].shape
            and np.allclose(a[name], b[name], rtol=tolerance, atol=0, equal_nan=True)
        )
        require(same, f"Column '{name}' differs." if name != RECORD_ID else "The records differ.")


def require_sentence(error: SfumatoError, data: Microdata) -> None:
    """Require that a refusal is a sentence for people, and quotes no record."""
    text = str(error)
    require(re.fullmatch(r".*[.?]", text, re.DOTALL), f"The refusal does not end like a sentence: {text}")
    require(len(text.split()) > 4, f"The refusal is too short to help: {text}")
    for word in ("NoneType", "Traceback", "object has no", "ndarray", "dtype", "nan", "Error:", "line "):
        require(word not in text, f"The refusal says '{word}', which is no word for people: {text}")
    require(error.__cause__ is None, "The refusal carries the error that caused it. Raise it with 'from None'.")
    for name, column in data.batch().rows.columns.items():
        for value in {str(v) for v in column.arrow.to_pylist() if v is not None}:
            if len(value) > 4:  # a shorter one may be a count
                require(value not in text, f"The refusal quotes a value of column '{name}'.")


def require_valid(data: Microdata) -> None:
    """Require that the data observe the bounds and whole numbers of their schema."""
    for attribute in data.schema:
        name = attribute.name
        if data.kind(name) is not Kind.NUMBER:
            continue
        numbers = data.numbers(name)
        numbers = numbers[~np.isnan(numbers)]
        low, high = attribute.bounds
        require(low is None or (numbers >= low).all(), f"Column '{name}' has values below its bound.")
        require(high is None or (numbers <= high).all(), f"Column '{name}' has values above its bound.")
        whole = not attribute.integer or (numbers == np.round(numbers)).all()
        require(whole, f"Column '{name}' has values that are not whole numbers.")


def require_refusal(make: Callable[[], object], pattern: str, what: str) -> None:
    """Require a ParameterError whose message matches a pattern."""
    try:
        make()
    except ParameterError as error:
        require(re.search(pattern, str(error)), f"The refusal of {what} does not say what is allowed: {error}")
        return
    raise AssertionError(f"There is no ParameterError for {what}.")


# --- promises of every class


def is_described(thing: Parametric) -> None:
    """The class and each of its parameters are described."""
    cls = type(thing)
    own = cls.__dict__.get("__doc__") and not str(inspect.getdoc(cls)).startswith(f"{cls.__name__}(")
    require(own, f"{cls.__name__} has no docstring of its own.")
    require(thing.name == snake(cls.__name__), f"The name '{thing.name}' is not that of the class.")
    for name, parameter in cls.parameters().items():
        require(parameter.doc, f"Parameter {name} has no doc.")
        require(name not in ("name", "step", thing.family), f"{name} means something else in a recipe file.")
        ordered = parameter.low is None or parameter.high is None or parameter.low < parameter.high
        require(ordered, f"The bounds of {name} are not in order.")
        require(all(isinstance(c, str) for c in parameter.choices), f"The choices of {name} are not texts.")


def survives_toml(thing: Parametric) -> None:
    """Written to TOML and read back, it is the same; a function as parameter is refused in a sentence."""
    if _holds_function(thing):
        require_refusal(thing.to_dict, "cannot be written to a file", "a function as parameter")
    else:
        require(round_trip(thing) == thing, "What is read back differs.")


def _holds_function(thing: Parametric) -> bool:
    values = [getattr(thing, name) for name in thing.parameters()]
    return any(callable(v) or (isinstance(v, Parametric) and _holds_function(v)) for v in values)


def copies_itself(thing: Parametric) -> None:
    """A copy with nothing changed is the same, and an unknown parameter is refused."""
    require(thing.with_() == thing, "The copy differs.")
    require_refusal(lambda: thing.with_(no_such_parameter=1), "is not in", "an unknown parameter")


def refuses_wrong_parameters(thing: Parametric) -> None:
    """A parameter out of its range is refused at once, with the values that are allowed."""
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
            change = functools.partial(thing.with_, **{name: value})
            require_refusal(change, rf"{name} .*must be .*\.$", f"{name} = {value!r}")


GENERAL_PROMISES: Promises = (is_described, survives_toml, copies_itself, refuses_wrong_parameters)


# --- promises of masks


def leaves_the_original_untouched(mask: Mask, data: Microdata) -> None:
    """Masking leaves the original untouched."""
    source = arrow_table()
    data = Microdata(source, SCHEMA)
    made = mask.apply(data, DRAWS)
    rows(made.masked)  # columns are worked out when looked at
    untouched = Microdata(source, SCHEMA).digest() == data.digest() == microdata().digest()
    require(untouched, "The original file has changed.")
    require_same(Microdata(source, SCHEMA), microdata())
    require(made.original is data, "The release names another file as its original.")


def masks_alike_with_the_same_seed(mask: Mask, data: Microdata) -> None:
    """The same seed gives the same release."""
    one, two = (mask.apply(data, Draws(5)).masked for _ in range(2))
    require_same(one, two)
    require(one.digest() == two.digest(), "The digests of the two releases differ.")


def depends_on_the_seed_if_it_draws(mask: Mask, data: Microdata) -> None:
    """Another seed gives another release if the mask draws at all, and the same one if not."""
    with mock.patch.object(Draws, "_stream", autospec=True, side_effect=Draws._stream) as stream:
        made = [mask.apply(data, Draws(seed)).masked for seed in (5, 6)]
        one, two = ((m.digest(), m.batch([]).ids.tolist()) for m in made)  # a digest is the same in any order
    if stream.called:
        require(one != two, "It draws random numbers, but the release is the same for another seed.")
    else:
        require(one == two, "It takes no random numbers from draws, but the release differs.")


def announces_its_schema(mask: Mask, data: Microdata) -> None:
    """What comes out fits the schema that `schema_after` announced, its bounds and whole numbers."""
    made = mask.apply(data, DRAWS)
    announced = mask.schema_after(made.recipe.steps[0].mask.schema_after(SCHEMA))  # type: ignore[union-attr]
    require(made.masked.schema == announced, "The schema of the release is another one.")
    require(list(made.masked.engine.kinds) == list(announced.names()), "The columns are not those of the schema.")
    require_valid(made.masked)
    require(all(g.says and g.verified for g in made.guarantees), "A guarantee does not say what holds, or why.")


def releases_no_identifier(mask: Mask, data: Microdata) -> None:
    """Identifiers and record ids are not released."""
    made = mask.apply(data, DRAWS).masked
    require("tag" not in made.engine.kinds, "The column of identifiers is in the release.")
    require("Zebra" not in str(made.to_native().to_pylist()), "A value of an identifier is in the release.")
    require(RECORD_ID not in made.to_native().column_names, "The hidden ids are in the release.")


def keeps_other_columns(mask: Mask, data: Microdata) -> None:
    """Records and columns that a mask does not touch stay as they were."""
    if not mask.keeps_records:
        return
    made = mask.apply(data, DRAWS)
    before = data.batch([]).ids
    require(np.array_equal(np.sort(made.align), np.sort(before)), "keeps_records is true, but other records come out.")
    if made.masked.batch([]).ids.tolist() == before.tolist():
        for name in set(made.masked.schema.names()) & set(data.schema.names()) - set(mask.touches(data.schema)):
            same = made.masked.batch([name]).column(name).equals(data.batch([name]).column(name))
            require(same, f"Column '{name}' has changed, but `touches` does not name it.")


def keeps_missing_values(mask: Mask, data: Microdata) -> None:
    """Missing values and their codes stay where they are, unless `keeps_missing` is false."""
    if not (mask.keeps_missing and mask.keeps_records):
        return
    made = mask.apply(data, DRAWS)
    for name in NUMBERS:
        before, after = made.pair(name)
        same = np.array_equal(np.isnan(before), np.isnan(after))
        require(same, f"Other values of column '{name}' are missing than before.")
    old, new = rows(data), rows(made.masked)
    for name, codes in CODES.items():
        coded = np.isin(old[name], codes)
        require(np.array_equal(np.isin(new[name], codes), coded), f"The codes for no answer in '{name}' have moved.")


def keeps_households_together(mask: Mask, data: Microdata) -> None:
    """A household has one value in a column that describes households."""
    made = mask.apply(data, DRAWS).masked
    if not {"home", "rent"} <= set(made.schema.names()) or made.kind("rent") is not Kind.NUMBER:
        return
    homes, rent = made.numbers("home"), made.numbers("rent")
    one = all(len(np.unique(rent[homes == home])) == 1 for home in np.unique(homes))
    require(one, "The members of a household have different values. Draw by batch.units(name).")


def preserves_order_if_it_says_so(mask: Mask, data: Microdata) -> None:
    """A mask with `preserves_order` never reverses the order of two records."""
    if not mask.preserves_order:
        return
    made = mask.apply(data, DRAWS)
    for name in made.masked.schema.names():
        if made.masked.kind(name) is Kind.NUMBER:
            before, after = made.pair(name)
            reversed_ = ((before[:, None] < before) & (after[:, None] > after)).any()
            require(not reversed_, f"Two records have changed their order in column '{name}'.")


def masks_rows_one_by_one(mask: Mask, data: Microdata) -> None:
    """A mask of scope ROW gives the same for any part of the records, in any order."""
    if mask.scope is not Scope.ROW:
        return
    fitted = mask if mask.is_fitted else mask.fit(data, DRAWS)
    whole = fitted.transform(data.batch(), DRAWS)
    place = {i: k for k, i in enumerate(whole.ids.tolist())}
    order = np.random.default_rng(0).permutation(len(data))
    for piece in (order[:1], order[1:100], order[100:], order[:0]):
        part = fitted.transform(Batch(data.batch().rows.take(piece), data.schema), DRAWS)
        require(list(part.rows.columns) == list(whole.rows.columns), "A part of the records has other columns.")
        expected = set(data.batch().ids[piece].tolist()) & set(place)
        require(set(part.ids.tolist()) == expected, "Which records are kept depends on the part.")
        at = np.array([place[i] for i in part.ids.tolist()], np.int64)
        for name, column in part.rows.columns.items():
            same = column.equals(whole.rows.columns[name].take(at))
            require(same, f"Column '{name}' depends on which other records are masked. Use fit, or another scope.")


def hides_what_it_learned(mask: Mask, data: Microdata) -> None:
    """What a mask learned is neither shown nor written, and travels with it."""
    fitted = mask.fit(data, DRAWS)
    require(fitted.is_fitted, "After fit, something is still to be learned.")
    require(fitted == mask, "Fitted, it is no longer equal to itself.")
    require(repr(fitted) == repr(mask), "Its repr shows what it learned.")
    require(fitted.to_dict() == mask.to_dict(), "to_dict writes what it learned.")
    try:
        sent: Mask = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - it was written in this line
    except (AttributeError, pickle.PicklingError):
        raise AssertionError("It cannot be pickled. Define the class in a module, not in a function.") from None
    require(sent.is_fitted, "Sent to another process, it has forgotten what it learned.")
    require_same(sent.apply(data, DRAWS).masked, fitted.apply(data, DRAWS).masked)


def masks_alike_when_fitted_first(mask: Mask, data: Microdata) -> None:
    """A fitted recipe masks like one that fits as it goes."""
    recipe = Recipe.of(step=mask)
    require_same(recipe.fit(data, DRAWS).apply(data, DRAWS).masked, recipe.apply(data, DRAWS).masked)


def states_a_covariance(mask: Mask, data: Microdata) -> None:
    """`noise` returns a covariance matrix, or None."""
    sigma = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    noise = mask.noise(NUMBERS, sigma, data.schema)
    if noise is not None:
        require(noise.shape == (3, 3), f"For three columns its shape is {noise.shape}.")
        require(np.allclose(noise, noise.T, rtol=1e-7, atol=0), "The matrix is not symmetric.")
        require(np.linalg.eigvalsh(noise).min() >= -1e-12, "The matrix has a negative eigenvalue.")


def equals_its_matrices(mask: Mask, data: Microdata) -> None:
    """A matrix mask is its matrices, and any other says why not."""
    plain = data.with_schema(Schema(tuple(a.with_(bounds=(None, None), integer=False) for a in data.schema)))
    try:
        form = mask.as_matrix(plain, DRAWS)
    except NotApplicable as reason:
        require_sentence(reason, data)
        return
    made = mask.apply(plain, DRAWS).masked
    m = form.apply(np.column_stack([plain.numbers(n) for n in form.names]))
    released = np.column_stack([made.numbers(n) for n in form.released])
    require(np.allclose(m, released, rtol=1e-9, atol=0, equal_nan=True), "AXB + C is not what is released.")


def masks_extreme_data(mask: Mask, data: Microdata) -> None:
    """Extreme data are masked, or refused in a sentence that quotes no record."""
    try:
        made = mask.apply(data, DRAWS)
        rows(made.masked)
    except SfumatoError as error:
        require_sentence(error, data)
        return
    require_valid(made.masked)
    if not (mask.keeps_records and mask.keeps_missing):
        return
    require(len(made.masked) == len(data), "The number of records has changed.")
    for name in NUMBERS:
        before, after = (np.isnan(d.numbers(name))[np.argsort(d.batch([]).ids)] for d in (data, made.masked))
        require(np.array_equal(before, after), f"Other values of column '{name}' are missing than before.")


MASK_PROMISES = (
    leaves_the_original_untouched, masks_alike_with_the_same_seed, depends_on_the_seed_if_it_draws, announces_its_schema,
    releases_no_identifier, keeps_other_columns, keeps_missing_values, keeps_households_together,
    preserves_order_if_it_says_so, masks_rows_one_by_one, hides_what_it_learned, masks_alike_when_fitted_first,
    states_a_covariance, equals_its_matrices,
)  # fmt: skip
"""On the ordinary file; `masks_extreme_data` on the extreme ones."""


# --- promises of measures


def snooper_for(measure: Measure) -> Snooper:
    """Return a snooper who has what the measure needs: a table of the population, where it needs one."""
    return Snooper().learn(population=microdata()) if Need.POPULATION in measure.needs else Snooper()


def with_holdout(measure: Measure, release: Release) -> Release:
    """Return the release with other people's records, which no mask has seen, where the measure needs them."""
    if Need.HOLDOUT not in measure.needs:
        return release
    return release.with_holdout(Holdout.of(Microdata(arrow_table(seed=2014), SCHEMA)))


def score_of(measure: Measure, release: Release) -> Score:
    """Score a release, with what the measure needs beside it."""
    return measure.score(with_holdout(measure, release), snooper_for(measure))


def require_score(score: Score, measure: Measure) -> None:
    """Require a score that says what it is, and shows no record."""
    require(isinstance(score, Score), "It returns no Score.")
    require(not math.isnan(score.value), "The value is not a number.")
    require(score.words and "nan" not in score.words, f"The words do not say what the value means: '{score.words}'")
    require(score.measure == measure.label() != "", "The score has not the label of the measure.")
    require(score.side is measure.side in Side, "The score has not the side of the measure.")
    direction = "lower is safer" if measure.side is Side.RISK else "higher is more useful"
    require(score.direction == direction, f"The direction must be '{direction}'.")
    inside = score.interval is None or score.interval[0] <= score.value <= score.interval[1]
    require(inside, "The value is outside its interval.")
    require(measure.label() in str(score), "The text of the score does not name the measure.")
    json.dumps(score.to_dict(), allow_nan=False)
    hidden = "records" not in score.to_dict() and "records=" not in repr(score)
    require(hidden, "The score shows its values of single records.")


def scores_a_release(measure: Measure, release: Release) -> None:
    """A release has a score, and the values of its records agree with it."""
    found = score_of(measure, release)
    require_score(found, measure)
    if found.records is not None:
        require(len(found.records) == len(release.original), "There is not one value for each original record.")
        of_all = measure.of_records(found.records[~np.isnan(found.records)])
        same = of_all is None or math.isclose(of_all, found.value, rel_tol=1e-9, abs_tol=1e-12)
        require(same, "The values of the records give another score.")


def scores_alike_twice(measure: Measure, release: Release) -> None:
    """The same release has the same score."""
    recipe = KimNoise() >> TopCode()
    one, two = (score_of(measure, recipe.apply(release.original, Draws(3))) for _ in range(2))
    require(one == two, "The score differs the next time.")


def leaves_both_files_untouched(measure: Measure, release: Release) -> None:
    """Measuring leaves both files untouched."""
    made = KimNoise().apply(release.original, DRAWS)
    before = made.original.digest(), made.masked.digest()
    score_of(measure, made)
    fresh = KimNoise().apply(microdata(), DRAWS)
    after, again = ((r.original.digest(), r.masked.digest()) for r in (made, fresh))
    require(after == before == again, "A file has changed.")


def learns_nothing_into_itself(measure: Measure, release: Release) -> None:
    """A measure keeps nothing of what it saw: prepared and used, it is what it was."""
    shown, written = repr(measure), None if _holds_function(measure) else measure.to_dict()
    ready = measure.prepare(release.original)
    score_of(measure, release)
    require(ready == measure, "Prepared, it is no longer equal to itself.")
    require(repr(ready) == repr(measure) == shown, "Its repr shows what it learned.")
    same = written is None or ready.to_dict() == measure.to_dict() == written
    require(same, "to_dict writes what it learned.")


def observes_what_it_declares(measure: Measure, release: Release) -> None:
    """Observations have the declared size, and their average has a value."""
    ready = measure.prepare(release.original)
    recipe = KimNoise(lambda2=0.3) >> TopCode()
    made = [with_holdout(measure, recipe.apply(release.original, Draws(s))) for s in range(3)]
    snooper = snooper_for(measure)
    observations = np.stack([ready.observe(r, snooper) for r in made])
    require(observations.shape == (3, measure.size), f"Three observations have the shape {observations.shape}.")
    require(ready.value(observations).shape == (3,), "`value` does not give one number for each observation.")
    same = float(ready.value(observations.mean(axis=0))) == ready.estimate(observations)[0]
    require(same, "The value of the mean is not the estimate.")


def applies_without_alignment_or_says_not(measure: Measure, release: Release) -> None:
    """Without alignment of records a measure scores, or says in a sentence why it does not apply."""
    try:
        require_score(score_of(measure, Release.of(release.original, release.masked)), measure)
    except NotApplicable as reason:
        require_sentence(reason, release.original)


def names_its_columns(measure: Measure, release: Release) -> None:
    """A measure names the columns it looks at: without the others, the score is the same."""
    columns = measure.columns(release.original.schema)
    if columns is None:
        return
    require(set(columns) <= set(release.masked.schema.names()), "It names columns that are not in the release.")
    part = RECIPE.apply(release.original.local({*columns, *NUMBERS, "home"}), DRAWS)
    require(
        score_of(measure, part).value == score_of(measure, release).value, "Without other columns the score differs."
    )


def scores_extreme_data(measure: Measure, release: Release) -> None:
    """Extreme data are scored, or refused in a sentence that quotes no record."""
    try:
        with np.errstate(invalid="ignore"):  # a warning on the way to a refusal does no harm
            found = measure.score(release, snooper_for(measure))
    except SfumatoError as error:
        require_sentence(error, release.original)
        return
    require_score(found, measure)


MEASURE_PROMISES = (
    leaves_both_files_untouched, scores_a_release, scores_alike_twice, learns_nothing_into_itself, observes_what_it_declares,
    applies_without_alignment_or_says_not, names_its_columns,
)  # fmt: skip
"""On a masked form of the ordinary file (`RECIPE`); `scores_extreme_data` on the extreme ones, unmasked."""


# --- promises of estimators


def estimates_a_number(estimator: Estimator, data: Microdata) -> None:
    """An estimator gives the same finite number each time, and describes itself."""
    estimator.check(data)
    value = estimator.estimate(data, {})
    require(isinstance(value, float) and math.isfinite(value), "The estimate is no finite number.")
    require(estimator.estimate(data, {}) == value, "The estimate differs the next time.")
    require(estimator.label(), "The label is empty.")
    require(isinstance(estimator.unit(data.schema), str), "The unit is no text.")
    columns = estimator.columns()
    require(columns is None or set(columns) <= set(data.schema.names()), "It names columns that are not in the data.")


def refuses_data_without_its_column(estimator: Estimator, data: Microdata) -> None:
    """An estimator refuses data that lack its column, and names the column."""
    columns = estimator.columns()
    if not columns:
        return
    try:
        estimator.check(data.local(set(data.schema.names()) - {columns[0]}))
    except SfumatoError as error:
        require(columns[0] in str(error), f"The refusal does not name column '{columns[0]}': {error}")
        require_sentence(error, data)
        return
    raise AssertionError(f"It does not notice that column '{columns[0]}' is not there.")


def estimates_extreme_data(estimator: Estimator, data: Microdata) -> None:
    """Extreme data have an estimate, or are refused in a sentence that quotes no record."""
    try:
        estimator.check(data)
        value = estimator.estimate(data, {})
    except SfumatoError as error:
        require_sentence(error, data)
        return
    require(not math.isnan(value), "The estimate is not a number.")


ESTIMATOR_PROMISES = (estimates_a_number, refuses_data_without_its_column)


# --- promises of protections and rules of tables


def firms(n: int = 150, seed: int = 6) -> pd.DataFrame:
    """Return firms with a region, a sector, a turnover and an owner."""
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(["N", "S", "W", "E"], n), "sector": g.choice(["a", "b", "c"], n), "staff": g.integers(1, 90, n),
        "turnover": np.round(g.lognormal(4, 1.3, n)), "owner": [f"o{k}" for k in g.integers(0, n, n)],
    })  # fmt: skip


def tabulate(
    frame: pd.DataFrame, variable: str | None = "turnover", formula: str = "region * sector", **options: Any
) -> Table:
    """Tabulate firms, by region and sector."""
    text = ("region", "sector", "owner")
    schema = Schema(tuple(
        Attribute(c, scale="unordered" if c in text else "ordered", role="contributor" if c == "owner" else "other",  # type: ignore[arg-type]
                  integer=c in ("turnover", "staff")) for c in frame
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), formula, variable, **options)


TABLES: dict[str, Callable[[], Table]] = {
    "magnitudes": lambda: tabulate(firms(45), size="staff"),
    "counts": lambda: tabulate(firms().drop(columns="owner"), None),
    "counts with empty cells": lambda: tabulate(firms(25).drop(columns="owner"), None, empty=True),
    "one cell": lambda: tabulate(firms(30).assign(region="N"), formula="region - 1"),
    "one record": lambda: tabulate(firms(1)),
    "all equal": lambda: tabulate(firms().assign(turnover=7.0, staff=3)),
    "zeros": lambda: tabulate(firms().assign(turnover=0.0)),
    "some zeros": lambda: tabulate(firms().assign(turnover=lambda f: np.where(f.index % 3 == 0, 0.0, f.turnover))),
}
"""Tables that a method may refuse, but must not stumble over."""

ProtectionFor = Callable[[Table], Protection]
"""A protection with a rule that suits the table: one of magnitudes, or one of counts."""


def protection_for(cls: type[Protection], table: Table, values: Values | None = None) -> Protection:
    """Build a protection from its declarations, with a rule that suits the table where it takes one."""
    rule = MinimumFrequency(n=3) if table.is_count else PPercent(p=10)
    if "rules" in cls.parameters() and "rules" not in (values or {}):
        try:
            return cls(**required(cls, {**(values or {}), "rules": rule}))
        except ParameterError:  # it takes a rule only together with something else
            pass
    return cls(**required(cls, values))


def protect(make: ProtectionFor, table: Table, draws: Draws | None = None) -> PublishedTable | None:
    """Return the protected table; None where the method refuses it."""
    try:
        return make(table).protect(table, draws or Draws(20_061))
    except SfumatoError:
        return None


def protects_some_table(make: ProtectionFor) -> None:
    """There is a table of magnitudes or of counts that it protects; a label and public cells without secrets go with it."""
    tables = [TABLES[kind]() for kind in ("magnitudes", "counts")]
    published = [p for p in (protect(make, t) for t in tables) if p is not None]
    require(published, "It refuses both.")
    for p in published:
        require(p.protection is not None and 3 < len(p.protection.label()) < 90, "The label is no few words.")
        frame = p.frame()
        require(len(frame) == len(p), "The public frame has not one row for each cell.")
        require(set(frame["status"]) <= {"", "suppressed", "changed"}, "The public frame says why cells are hidden.")


def draws_only_if_it_says_so(make: ProtectionFor) -> None:
    """A method with `random = False` does not depend on the seed."""
    for kind in ("magnitudes", "counts"):
        table = TABLES[kind]()
        one, two = protect(make, table, Draws(1)), protect(make, table, Draws(2))
        require((one is None) == (two is None), "Whether it refuses depends on the seed.")
        if one is not None and two is not None:
            same = np.array_equal(one.values, two.values, equal_nan=True)
            require(same or make(table).random, "random is false, but another seed gives other values.")


def survives_toml_with_its_rule(make: ProtectionFor) -> None:
    """Its parameters survive TOML, and so does its label."""
    for kind in ("magnitudes", "counts"):
        made = make(TABLES[kind]())
        again = round_trip(made)
        require(again == made and again.label() == made.label(), "What is read back differs.")


def protects_records_in_any_order(make: ProtectionFor) -> None:
    """The order of the records does not matter, unless `keyed_by_record` is true."""
    frame = firms()
    for variable in ("turnover", None):
        tables = (
            tabulate(f.drop(columns=[] if variable else "owner"), variable)
            for f in (frame, frame.sample(frac=1, random_state=5))
        )
        one, two = (protect(make, t) for t in tables)
        require((one is None) == (two is None), "Whether it refuses depends on the order.")
        if one is not None and two is not None:
            require(np.array_equal(one.cells.labels, two.cells.labels), "The cells differ.")
            same = np.allclose(one.values, two.values, equal_nan=True, rtol=1e-9)
            require(same or make(one.original).keyed_by_record, "The values differ.")  # type: ignore[arg-type]


def publishes_what_it_says(make: ProtectionFor, table: Table) -> None:
    """What is published has the shape of the table, and every true value lies between `low` and `high`."""
    p = protect(make, table)
    if p is None:
        return
    shape = (len(table),)
    require(p.values.shape == p.low.shape == p.high.shape == p.status.shape == shape, "An array has another shape.")
    require(p.original is table and p.protection is not None, "It does not carry its original and its protection.")
    slack = 1e-6 * np.maximum(np.abs(table.value), 1.0)
    inside = (p.low <= table.value + slack).all() and (table.value <= p.high + slack).all()
    require(inside, "A true value is outside its interval.")
    hidden = np.isin(p.status, (Status.PRIMARY, Status.SECONDARY))
    require(np.array_equal(np.isnan(p.values), hidden), "Cells without a value are not those with the status hidden.")
    shown = p.status == Status.SHOWN
    require(np.allclose(p.values[shown], table.value[shown]), "A cell with the status shown has another value.")
    if table.nonnegative and table.integer:
        require((p.values[~hidden] == np.round(p.values[~hidden])).all(), "A count is no whole number.")
    if p.variance is not None:
        require(p.variance.shape == shape, "The variances have another shape.")
        require((p.variance[~np.isnan(p.variance)] >= 0).all(), "A variance is negative.")


def protects_alike_with_the_same_seed(make: ProtectionFor, table: Table) -> None:
    """The same seed gives the same table, and the table that came in is left alone."""
    before = table.value.copy(), table.totals.copy(), table.counts.copy()
    one, two = protect(make, table), protect(make, table)
    require((one is None) == (two is None), "It refuses only one of two times.")
    if one is not None and two is not None:
        same = np.array_equal(one.values, two.values, equal_nan=True) and np.array_equal(one.status, two.status)
        require(same, "The published cells differ the next time.")
    for then, now in zip(before, (table.value, table.totals, table.counts), strict=True):
        require(np.array_equal(then, now), "The table that came in has changed.")


def adds_up_if_it_says_so(make: ProtectionFor, table: Table) -> None:
    """Where a guarantee says that cells add up, they do."""
    p = protect(make, table)
    if p is None or not any("add up" in g.says and "not add up" not in g.says for g in p.guarantees):
        return
    leaves = p.values[table.cells.of_leaf]
    if (table.cells.of_leaf < 0).any() or np.isnan(leaves).any():
        return
    full = ~np.isnan(p.values)
    sums = table.cells.sums(leaves)[full]
    require(np.allclose(sums, p.values[full], rtol=1e-9, atol=1e-6), "A sum differs from its published value.")


def refuses_without_values(make: ProtectionFor, table: Table) -> None:
    """A refusal is a sentence that quotes no value of a cell."""
    try:
        make(table).protect(table, Draws(20_061))
    except SfumatoError as error:
        said = str(error)
        words = {w.strip(".,;:()") for w in said.replace(",", "").split()}
        require(not {f"{v:.0f}" for v in table.totals if v > 100} & words, "The refusal quotes a value.")
        require(len(said) > 20, f"The refusal is too short to help: {said}")


PROTECTION_PROMISES = (
    protects_some_table, draws_only_if_it_says_so, survives_toml_with_its_rule, protects_records_in_any_order,
)  # fmt: skip
TABLE_PROMISES = (
    publishes_what_it_says, protects_alike_with_the_same_seed, adds_up_if_it_says_so, refuses_without_values,
)  # fmt: skip
"""On each of `TABLES`."""


def assess(rule: SensitivityRule, table: Table) -> Sensitivity | None:
    """Return which cells are unsafe; None where the rule refuses the table."""
    try:
        return rule.assess(table)
    except SfumatoError:
        return None


def has_a_label(rule: SensitivityRule) -> None:
    """A rule has a label, and the same one after TOML."""
    require(round_trip(rule).label() == rule.label() != "", "The label is empty, or another one.")


def assesses_records_in_any_order(rule: SensitivityRule) -> None:
    """The order of the records does not matter."""
    frame = firms()
    one, two = (assess(rule, tabulate(f)) for f in (frame, frame.sample(frac=1, random_state=2)))
    require((one is None) == (two is None), "Whether it refuses depends on the order.")
    if one is not None and two is not None:
        require(np.array_equal(one.unsafe, two.unsafe), "Other cells are unsafe.")
        require(np.allclose(one.upper, two.upper, rtol=1e-6, atol=1e-12), "The protection levels differ.")


def says_which_cells_are_unsafe(rule: SensitivityRule, table: Table) -> None:
    """A rule says of each cell whether it is unsafe, why, and by how much it must be hidden."""
    found = assess(rule, table)
    if found is None:
        return
    require(found.unsafe.shape == (len(table),), "There is not one answer for each cell.")
    for level in (found.upper, found.lower, found.width):
        require(level.shape == (len(table),), "There is not one protection level for each cell.")
        require(np.isfinite(level).all() and (level >= 0).all(), "A protection level is negative or infinite.")
        require((level[~found.unsafe] == 0).all(), "A safe cell has a protection level.")
    explained = all(bool(found.reasons[i]) == bool(found.unsafe[i]) for i in range(len(table)))
    require(explained, "An unsafe cell has no reason, or a safe one has.")


RULE_PROMISES = (has_a_label, assesses_records_in_any_order)
"""`says_which_cells_are_unsafe` on each of `TABLES`."""


# --- checks


def _keep(promise: Callable[..., None], thing: Parametric, *arguments: Any, on: str = "") -> None:
    """Try a promise; where it is broken, raise an error that names the instance, the promise and the data."""
    try:
        promise(*arguments)
    except Exception as error:
        sentence = str(promise.__doc__).splitlines()[0]
        data = f" Data: {on}." if on else ""
        said = str(error) if isinstance(error, AssertionError) else f"It raised {type(error).__name__}: {error}"
        if isinstance(error, SfumatoError):
            said += " If these parameters do not suit the data of this check, give others: values={'parameter': value}."
        raise AssertionError(f"{thing!r} breaks a promise. {sentence}{data} {said}") from error


def _keep_all(
    thing: Parametric, promises: Promises, data: object, extreme: Callable[..., None], extremes: Mapping[str, object]
) -> None:
    """Try the general promises, those about ordinary data, and the one about extreme data."""
    for promise in GENERAL_PROMISES:
        _keep(promise, thing, thing)
    for promise in promises:
        _keep(promise, thing, thing, data)
    for name, other in extremes.items():
        _keep(extreme, thing, thing, other, on=name)


def _check_type(family: type[T], given: T | type[T], values: Values | None) -> None:
    if not isinstance(given, family) and not (isinstance(given, type) and issubclass(given, family)):
        raise TypeError(f"a class derived from {family.__name__}, or an instance of one, can be checked here.")
    if values and isinstance(given, family):
        raise TypeError("values are for a class; this is an instance, which has its own.")


def _instances(family: type[T], given: T | type[T], values: Values | None) -> list[T]:
    _check_type(family, given, values)
    if not isinstance(given, type):
        return [given]
    try:
        return list(variants(given, values))
    except SfumatoError as error:
        raise AssertionError(f"{given.__name__} cannot be built from its declarations: {error}") from error


def check_mask(mask: Mask | type[Mask], values: Values | None = None) -> None:
    """Check a mask against every promise of the contract; raise an AssertionError that names the first one that it breaks.

    A class is built from its declared parameters: with its defaults, then with each other choice. `values` gives the
    parameters that cannot be guessed, and those that must keep one value. An instance is checked as it is.

    The file has 480 people in 240 households. Columns of numbers are pay, hours, age and rent (one for each household),
    columns of categories region and sex; see `sfumato.testing.SCHEMA`.

    Examples
    --------
    >>> from sfumato.masks import KimNoise, TopCode
    >>> check_mask(TopCode(["pay"], quantile=0.9))
    >>> check_mask(KimNoise, values={"columns": ("pay", "hours")})
    """
    extremes = {name: microdata(name) for name in EXTREMES}
    for thing in _instances(Mask, mask, values):  # type: ignore[type-abstract]
        _keep_all(thing, MASK_PROMISES, microdata(), masks_extreme_data, extremes)


def check_measure(measure: Measure | type[Measure], values: Values | None = None) -> None:
    """Check a measure of risk or utility against every promise of the contract, on releases of the file of `check_mask`.

    Examples
    --------
    >>> from sfumato.risk import AttributeRisk
    >>> check_measure(AttributeRisk("pay"))
    """
    extremes = {name: Recipe(()).apply(microdata(name), DRAWS) for name in EXTREMES}
    for thing in _instances(Measure, measure, values):  # type: ignore[type-abstract]
        _keep_all(thing, MEASURE_PROMISES, RECIPE.apply(microdata(), DRAWS), scores_extreme_data, extremes)


def check_estimator(estimator: Estimator | type[Estimator], values: Values | None = None) -> None:
    """Check an estimator against every promise of the contract, on the file of `check_mask`.

    Examples
    --------
    >>> from sfumato.utility import Mean
    >>> check_estimator(Mean)
    """
    # sums of infinite or huge values have no limit to keep
    extremes = {name: microdata(name) for name in EXTREMES if not name.endswith("values")}
    for thing in _instances(Estimator, estimator, values):  # type: ignore[type-abstract]
        _keep_all(thing, ESTIMATOR_PROMISES, microdata(), estimates_extreme_data, extremes)


def check_protection(protection: Protection | type[Protection], values: Values | None = None) -> None:
    """Check a protection of tables against every promise of the contract, on small tables of firms.

    A class is built with its defaults; if it has a parameter `rules`, with a rule that suits the table.

    Examples
    --------
    >>> from sfumato.tables import RandomRounding
    >>> check_protection(RandomRounding)
    """
    _check_type(Protection, protection, values)  # type: ignore[type-abstract]

    def make(table: Table) -> Protection:
        return protection if isinstance(protection, Protection) else protection_for(protection, table, values)

    thing = make(TABLES["magnitudes"]())
    for general in GENERAL_PROMISES:
        _keep(general, thing, thing)
    for promise in PROTECTION_PROMISES:
        _keep(promise, thing, make)
    for kind, tabulated in TABLES.items():
        table = tabulated()
        for promise_ in TABLE_PROMISES:
            _keep(promise_, thing, make, table, on=kind)


def check_rule(rule: SensitivityRule | type[SensitivityRule], values: Values | None = None) -> None:
    """Check a sensitivity rule against every promise of the contract, on small tables of firms.

    Examples
    --------
    >>> from sfumato.tables import PPercent
    >>> check_rule(PPercent)
    """
    tables = {kind: table() for kind, table in TABLES.items()}
    for thing in _instances(SensitivityRule, rule, values):  # type: ignore[type-abstract]
        for general in (*GENERAL_PROMISES, *RULE_PROMISES):
            _keep(general, thing, thing)
        for kind, table in tables.items():
            _keep(says_which_cells_are_unsafe, thing, thing, table, on=kind)
