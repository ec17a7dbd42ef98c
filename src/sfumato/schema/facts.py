"""What can be said of a column without naming any of its values: counts, lengths, ends of the range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from sfumato.errors import DataError, listing, repeated

NUMBERS, TEXT, DATES, YES_NO, OTHER = "numbers", "text", "dates", "yes/no values", "values of another kind"

_CODES = [-1, *(sign * int(digit * width) for sign in (1, -1) for digit in "789" for width in range(1, 8))]
_CODES += [sign * (10**width - k) for sign in (1, -1) for width in range(2, 8) for k in (2, 3, 4)]
"""Numbers that surveys use for "no answer": 7, 8, 9, 77, 97, 98, 99, 999, …, also negative; and -1."""

_BY_CHANCE = 7
"""So many repeats expected, none is no chance: its probability is below exp(-7), one in a thousand."""

_NO_ANSWER = (
    "?|-|--|.|na|n/a|n.a.|nan|null|none|nil|missing|unknown|not known|refused|don't know|dont know|dk|not stated|"
    "no answer|unbekannt|keine angabe|k.a.|inconnu|desconocido|no sabe|sin respuesta"
)


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about one column; none of them goes into a reason as a number.

    Parameters
    ----------
    name, kind
        Column name, and what sort of values it holds, in words.
    records, missing, distinct
        How many records, null or NaN values, and different values that are neither.
    whole
        All numbers are whole.
    low, high
        Smallest and largest number.
    plain_low, plain_high
        The same among numbers that surveys do not use for "no answer".
    shortest, longest
        Lengths of text that is not blank.
    digits, iso_dates
        All text that is not blank consists of digits, or looks like 2026-11-16.
    no_answer
        Some text is blank or reads like "no answer".
    commas
        All text that is not blank is numbers, some of them with a decimal comma.
    """

    name: str
    kind: str
    records: int
    missing: int
    distinct: int = 0
    whole: bool = False
    low: float | None = None
    high: float | None = None
    plain_low: float | None = None
    plain_high: float | None = None
    shortest: int = 0
    longest: int = 0
    digits: bool = False
    iso_dates: bool = False
    no_answer: bool = False
    commas: bool = False

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.records - self.missing

    @property
    def few(self) -> bool:
        """Whether few different values repeat often, as categories do."""
        return 0 < self.distinct <= 20 and 2 * self.distinct <= self.present

    @property
    def codes(self) -> bool:
        """Whether the numbers look like the codes of categories: few, whole, small."""
        small = self.plain_high is None or -100 < (self.plain_low or 0) <= self.plain_high < 100
        return self.kind == NUMBERS and self.few and self.whole and small

    @property
    def constant(self) -> bool:
        """Whether there is one value only, in more than one record."""
        return self.distinct == 1 and self.records > 1

    @property
    def nearly_unique(self) -> bool:
        """Whether almost every record has its own value; never said of very few records."""
        return self.present >= 10 and self.distinct >= 0.9 * self.present

    @property
    def numbered(self) -> bool:
        """Whether whole numbers lie close together, and repeat far less than if each were drawn independently of the others.

        Then somebody gave each record its own: n draws from R numbers have n - R(1 - exp(-n/R)) repeats on average, and more
        where some numbers are likelier than others, as with amounts. Incomes that happen to be all different are not numbered:
        they spread over a range too wide for repeats. That at least one number in five is used keeps out amounts of a file from
        which somebody removed the repeats (the CASC project's Census file is one).
        """
        if not (self.kind == NUMBERS and self.whole and self.nearly_unique):
            return False
        low = self.low if self.plain_low is None else self.plain_low
        high = self.high if self.plain_high is None else self.plain_high
        size = float(high or 0) - float(low or 0) + 1
        repeats = self.present + size * math.expm1(-self.present / size)
        return size <= 5 * self.present and repeats >= _BY_CHANCE and self.present - self.distinct <= repeats / 10

    @property
    def stands_apart(self) -> str:
        """Which end of the range looks like a code for "no answer": "smallest", "largest", or neither."""
        if None in (self.low, self.high, self.plain_low, self.plain_high):
            return ""
        low, high, first, last = (float(x or 0) for x in (self.low, self.high, self.plain_low, self.plain_high))
        if low < 0 <= first:
            return "smallest"
        if self.whole and high - low + 1 == self.distinct:  # a run of numbers, such as a scale from 1 to 9
            return ""
        gap = max((last - first) / 10, 1.0)
        return "smallest" if first - low > gap else "largest" if high - last > gap else ""


_TOGETHER = 25
"""Columns that are asked for in one query."""
_WIDEST = 2_000
"""Columns of data in a database for which a schema is guessed."""


def facts_of(frame: object) -> list[ColumnFacts]:
    """Look at every column of a pandas, polars, Arrow, DuckDB or Spark frame.

    Data in a database or on a cluster are asked for many columns together; DuckDB's time for one question grows with the
    square of the number of columns in it.
    """
    wrapped = _wrapped(frame)
    if isinstance(wrapped, nw.DataFrame):
        return [_local_facts(wrapped, name) for name in wrapped.columns]
    schema = wrapped.collect_schema()
    if len(schema) > _WIDEST:
        raise DataError(
            f"the data have {len(schema):,} columns, and a schema is guessed for at most {_WIDEST:,} in a database: it would "
            "take very long. Read the data into memory, leave columns out, or give a schema."
        )
    dtypes = list(schema.values())
    kinds = [_kind(dtype) for dtype in dtypes]
    names = own = schema.names()
    if wrapped.implementation.is_spark_like():  # Spark reads "a.b" as a field b inside a column a
        names = [f"column_{i}" for i in range(len(names))]
        wrapped = nw.from_native(wrapped.to_native().toDF(*names))
    found = []
    for start in range(0, len(names), _TOGETHER):
        some = range(start, min(start + _TOGETHER, len(names)))
        asked = [{f"{fact}_{i}": e for fact, e in _expressions(names[i], kinds[i], dtypes[i]).items()} for i in some]
        listed = [e.alias(key) for one in asked for key, e in one.items()]
        part = wrapped.select(*names[some.start : some.stop])  # an expression's time grows with the width of its frame
        answers = part.select(nw.len().alias("records"), *listed).collect().rows(named=True)[0]
        for i, one in zip(some, asked, strict=True):
            mine = {key.rsplit("_", 1)[0]: answers[key] for key in one}
            missing = int(mine.pop("missing") or 0)
            if "distinct" in mine:  # a gap is counted as a value
                mine["distinct"] = int(mine["distinct"] or 0) - (missing > 0)
            found.append(_facts(own[i], kinds[i], int(answers["records"]), missing, mine))
    return found


def _wrapped(frame: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    try:
        wrapped: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(frame)
        names = wrapped.collect_schema().names()
    except TypeError:
        raise DataError(
            f"an object of type {type(frame).__name__} is not a frame that sfumato knows. "
            "Give a pandas, polars, Arrow, DuckDB or Spark frame."
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("some column names stand more than once. Rename them so that each is one.") from None
    if not all(isinstance(n, str) for n in names):
        raise DataError(
            "column names must be text, but some are not. In pandas, try: frame.columns = frame.columns.astype(str)"
        )
    if twice := repeated(names):
        raise DataError(f"these column names stand more than once: {listing(sorted(twice))}. Rename them.")
    return wrapped


def _local_facts(frame: nw.DataFrame[Any], name: str) -> ColumnFacts:
    """Look at a column in memory: once for the gaps, then only at its different values."""
    column = frame.get_column(name)
    if column.dtype == nw.Object:  # pandas: dates, yes/no values with gaps, or a mixture
        try:
            column = nw.new_series(name, column.to_arrow(), backend="pyarrow")
        except Exception:  # what Arrow raises quotes values
            return ColumnFacts(name, OTHER, len(frame), column.null_count())
    kind = _kind(column.dtype)
    expressions = _expressions(name, kind, column.dtype)
    gaps = column.to_frame().select(expressions["missing"].alias("missing")).item()
    if kind == OTHER:
        return ColumnFacts(name, kind, len(frame), int(gaps or 0))
    different = column.unique().to_frame()
    expressions["distinct"] = nw.len()
    answers = different.select(*(e.alias(key) for key, e in expressions.items())).rows(named=True)[0]
    answers["distinct"] -= answers.pop("missing")  # null and NaN
    return _facts(name, kind, len(frame), int(gaps or 0), answers)


def _facts(name: str, kind: str, records: int, missing: int, answers: Mapping[str, Any]) -> ColumnFacts:
    facts: dict[str, Any] = {key: value for key, value in answers.items() if value is not None}
    for key in ("low", "high", "plain_low", "plain_high"):
        if key in facts:
            facts[key] = float(facts[key])
    for key in ("whole", "digits", "iso_dates", "no_answer"):
        if key in facts:  # "all" holds for no values, too
            facts[key] = bool(facts[key]) and records > missing
    return ColumnFacts(name, kind, records, missing, **facts)


def _kind(dtype: Any) -> str:
    if dtype.is_numeric():
        return NUMBERS
    if dtype == nw.Boolean:
        return YES_NO
    if dtype in (nw.Date, nw.Datetime):
        return DATES
    return TEXT if dtype in (nw.String, nw.Categorical, nw.Enum) else OTHER


def _expressions(name: str, kind: str, dtype: Any) -> dict[str, nw.Expr]:
    """Return what to ask of a column: each expression gives one value."""
    column = nw.col(name)
    if kind == NUMBERS:
        numbers: nw.Expr = column
        codes: list[int] | list[float] = [code for code in _CODES if _fits(code, dtype)]
        if not dtype.is_integer():  # not cast for the rest: whole numbers beyond 2^53 have no exact float
            numbers = column.cast(nw.Float64)
            numbers = nw.when(~numbers.is_nan()).then(numbers)
            codes = [float(code) for code in _CODES]
        plain = nw.when(~numbers.is_in(codes)).then(numbers)
        return {
            "missing": numbers.null_count(),
            "distinct": numbers.n_unique(),
            "whole": ((numbers % 1 == 0) | numbers.is_null()).all(),  # to pandas what is missing is not whole
            "low": numbers.min(),
            "high": numbers.max(),
            "plain_low": plain.min(),
            "plain_high": plain.max(),
        }
    asked = {"missing": column.null_count()}
    if kind == OTHER:
        return asked
    asked["distinct"] = column.n_unique()
    if kind == TEXT:
        text = column.cast(nw.String).str.strip_chars()
        filled = nw.when(text != "").then(text)

        def each(pattern: str) -> nw.Expr:
            return (filled.str.contains(pattern) | filled.is_null()).all()  # to pandas what is missing does not match

        asked |= {
            "shortest": filled.str.len_chars().min(),
            "longest": filled.str.len_chars().max(),
            "digits": each("^[0-9]+$"),
            "iso_dates": each("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
            "commas": each("^-?[0-9]+,?[0-9]*$") & filled.str.contains(",").any(),
            "no_answer": ((text == "") | text.str.to_lowercase().is_in(_NO_ANSWER.split("|"))).any(),
        }
    return asked


def _fits(code: int, dtype: Any) -> bool:
    """Whether a column of this type could hold the code; some engines refuse to look for what it cannot hold."""
    bits = {nw.Int8: 7, nw.UInt8: 8, nw.Int16: 15, nw.UInt16: 16}.get(type(dtype), 31)
    return abs(code) < 2**bits and (code > 0 or not dtype.is_unsigned_integer())
