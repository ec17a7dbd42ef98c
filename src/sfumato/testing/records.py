"""The file that classes are checked on: people in households, with everything in it, and its extreme forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.contract import Draws, Recipe
from sfumato.data import RECORD_ID, Kind, Microdata
from sfumato.errors import SfumatoError
from sfumato.masks import KimNoise, TopCode
from sfumato.schema import Attribute, Schema, TreeHierarchy
from sfumato.testing.instances import NUMBERS, require
from sfumato.typing import Flags, Whole

RECORDS = 480
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
        Attribute("born", "other"),  # type: ignore[arg-type]
        Attribute("arrived", "other"),  # type: ignore[arg-type]
        Attribute("seen", "other"),  # type: ignore[arg-type]
    )
)
DRAWS = Draws("contract")
RECIPE: Recipe = KimNoise(lambda2=0.3) >> TopCode(quantile=0.95)


def arrow_table(n: int = RECORDS, seed: int = 1986) -> pa.Table:
    """Return people in households: gaps of every kind, codes for no answer, whole numbers, bounds, ties, dates and times."""
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
            "born": _dates(-7_300 - 37 * i, i % 37 == 11),
            "arrived": _dates(11_000 + 7 * i, i % 41 == 12),
            "seen": _dates(19_000 + i % 365, i % 43 == 13).cast(pa.timestamp("us")),
        }
    )


def _dates(days: Whole, missing: Flags) -> pa.Array:
    return pa.array(days.astype(np.int32), pa.date32(), mask=missing)


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


# --- comparisons


def rows(data: Microdata) -> dict[str, Any]:
    """Return every column as an array, in id order; text as objects. Spark gives times a zone: those of any zone are in UTC."""
    batch = data.batch()
    order = np.argsort(batch.ids, kind="stable")
    out: dict[str, Any] = {RECORD_ID: batch.ids[order]}
    for name, column in batch.rows.columns.items():
        out[name] = (
            column.numbers[order]
            if column.kind in (Kind.NUMBER, Kind.BOOLEAN)
            else np.array([_in_utc(v) for v in column.arrow.to_pylist()], object)[order]
        )
    return out


def _in_utc(value: Any) -> Any:
    """Return a time with a zone as a time without one, in UTC; other values as they are."""
    return value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", None) else value


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


def require_words(error: SfumatoError) -> None:
    """Require that a refusal is a sentence for people."""
    text = str(error)
    require(re.fullmatch(r".*[.?]", text, re.DOTALL), f"The refusal does not end like a sentence: {text}")
    require(len(text.split()) > 4, f"The refusal is too short to help: {text}")
    for word in ("NoneType", "Traceback", "object has no", "ndarray", "dtype", "nan", "Error:", "line "):
        require(word not in text, f"The refusal says '{word}', which is no word for people: {text}")
    require(error.__cause__ is None, "The refusal carries the error that caused it. Raise it with 'from None'.")


def require_sentence(error: SfumatoError, data: Microdata) -> None:
    """Require that a refusal is a sentence for people, and quotes no record."""
    require_words(error)
    text = str(error)
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
