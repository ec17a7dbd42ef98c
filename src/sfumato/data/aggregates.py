"""Aggregates of records, written once: SQL that DuckDB and Spark both understand, and the same for records in memory.

Expressions say what is taken of a record, measures what is added up over the records of a group. SQL has plain names only: an
engine says what it calls a column.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.data.columns import Kind, numbers_of
from sfumato.data.exact_sums import exact_sums, exact_total, parts_of, scale_of
from sfumato.lazy import pa, pc
from sfumato.schema.attribute import RECORD_ID, Attribute
from sfumato.typing import Flags, Numbers

if TYPE_CHECKING:
    from sfumato.data.engine import Rows

Names = Callable[[str], str]
"""From the name of a column to its plain name in SQL."""
_LARGEST = float(np.finfo(np.float64).max)
_PARTS = 4
"""Of sums of fractions: no digit is lost of numbers that differ by less than a factor of 10^20."""


class Expression(ABC):
    """A value of every record; a missing one is null."""

    @abstractmethod
    def sql(self, names: Names) -> str:
        """Return the expression in SQL."""

    @abstractmethod
    def arrow(self, rows: Rows) -> pa.Array | pa.ChunkedArray:
        """Return the values of records in memory."""


class NumberExpression(Expression):
    """A number of every record."""

    @abstractmethod
    def numbers(self, rows: Rows) -> Numbers:
        """Return the numbers of records in memory; NaN where missing."""

    @override
    def arrow(self, rows: Rows) -> pa.Array:
        numbers = self.numbers(rows)
        return pa.array(numbers, mask=np.isnan(numbers))


@dataclass(frozen=True)
class ColumnNumber(NumberExpression):
    """The number in a column, as `Batch.numbers` gives it: null where missing or coded as missing."""

    attribute: Attribute
    mapped: bool = False
    """Whether the column holds categories, which the schema gives numbers."""

    @override
    def sql(self, names: Names) -> str:
        name, codes = names(self.attribute.name), self.attribute.missing
        if self.mapped:
            mapped = {t: n for t, n in self.attribute.values.items() if t not in codes}
            cases = " ".join(f"WHEN {text_sql(t)} THEN {number_sql(n)}" for t, n in mapped.items())
            return f"CASE {name} {cases} END"
        number = f"CAST({name} AS DOUBLE)"
        missing = [f"isnan({number})", *_one_of(number, map(number_sql, numeric(codes)))]
        return f"CASE WHEN {' OR '.join(missing)} THEN NULL ELSE {number} END"

    @override
    def numbers(self, rows: Rows) -> Numbers:
        return numbers_of(rows.columns[self.attribute.name], self.attribute)


@dataclass(frozen=True)
class Product(NumberExpression):
    """The product of some numbers, perhaps without its sign: null where one is missing, 1 of none."""

    factors: tuple[ColumnNumber, ...]
    absolute: bool = False

    @override
    def sql(self, names: Names) -> str:
        product = " * ".join(f"({factor.sql(names)})" for factor in self.factors) or number_sql(1.0)
        return f"abs({product})" if self.absolute else product

    @override
    def numbers(self, rows: Rows) -> Numbers:
        product = reduce(np.multiply, (factor.numbers(rows) for factor in self.factors), np.ones(len(rows)))
        return np.abs(product) if self.absolute else product


@dataclass(frozen=True)
class Interval(NumberExpression):
    """floor(number / width): which of many intervals of equal width a number lies in."""

    number: ColumnNumber
    width: float

    @override
    def sql(self, names: Names) -> str:
        steps = f"(({self.number.sql(names)}) / {number_sql(self.width)})"
        # Spark's floor is a whole number of 64 bits; a larger number is whole already
        return f"CASE WHEN abs{steps} < {2.0**53!r} THEN CAST(floor{steps} AS DOUBLE) + 0 ELSE {steps} END"

    @override
    def numbers(self, rows: Rows) -> Numbers:
        return np.floor(self.number.numbers(rows) / self.width) + 0.0


@dataclass(frozen=True)
class Within(NumberExpression):
    """Whether some numbers are there and lie between two ends (finite, if none are named): 1 or 0, never null."""

    among: tuple[ColumnNumber, ...]
    low: float = -_LARGEST
    high: float = _LARGEST
    whole: bool = False

    @override
    def sql(self, names: Names) -> str:
        return f"CASE WHEN {self.condition(names)} THEN 1 ELSE 0 END"

    def condition(self, names: Names) -> str:
        """Return the condition in SQL."""
        parts = []
        for number in (f"({one.sql(names)})" for one in self.among):
            parts += [f"{number} >= {number_sql(self.low)}", f"{number} <= {number_sql(self.high)}"]
            parts += [f"{number} % 1 = 0"] if self.whole else []
        return " AND ".join(parts) or "TRUE"

    def flags(self, rows: Rows) -> Flags:
        """Return which records in memory meet it."""
        inside = np.ones(len(rows), bool)
        for numbers in (one.numbers(rows) for one in self.among):
            inside &= (numbers >= self.low) & (numbers <= self.high)
            inside &= (numbers % 1 == 0) if self.whole else True
        return inside

    @override
    def numbers(self, rows: Rows) -> Numbers:
        return self.flags(rows).astype(np.float64)


@dataclass(frozen=True)
class ColumnValue(Expression):
    """The value of a column as it is; null for NaN, and for codes that stand for missing."""

    column: str
    kind: Kind
    floating: bool
    codes: tuple[object, ...] = ()

    @override
    def sql(self, names: Names) -> str:
        name = names(self.column)
        missing = [f"isnan({name})"] if self.floating else []
        if self.kind is Kind.CATEGORY:
            missing += _one_of(name, (text_sql(code) for code in self.codes if isinstance(code, str)))
        elif self.kind in (Kind.NUMBER, Kind.BOOLEAN):
            missing += _one_of(f"CAST({name} AS DOUBLE)", map(number_sql, numeric(self.codes)))
        value = f"{name} + 0" if self.floating else name  # -0.0 is 0.0
        return f"CASE WHEN {' OR '.join(missing)} THEN NULL ELSE {value} END" if missing else value

    @override
    def arrow(self, rows: Rows) -> pa.Array | pa.ChunkedArray:
        column = rows.columns[self.column]
        values = column.arrow
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if self.floating:
            values = pc.add(pc.if_else(pc.is_nan(values), None, values), 0.0)
        if self.codes:
            ranks, different = column.codes
            coded = np.array([value in self.codes for value in different] + [True])
            values = pc.if_else(pa.array(coded[ranks]), None, values)
        return values


@dataclass(frozen=True)
class RecordId(Expression):
    """The hidden id of a record; null where it has a value of a category, if one is named."""

    without: ColumnValue | None = None

    @override
    def sql(self, names: Names) -> str:
        own = names(RECORD_ID)
        return own if self.without is None else f"CASE WHEN ({self.without.sql(names)}) IS NULL THEN {own} END"

    @override
    def arrow(self, rows: Rows) -> pa.Array:
        ids = pa.array(rows.ids)
        return ids if self.without is None else pc.if_else(pc.is_null(self.without.arrow(rows)), ids, None)


@dataclass(frozen=True)
class Aggregate:
    """A number for every group of records: "sum", "min", "max" or "count_distinct" of an expression.

    As text the expression is SQL for the records of a warehouse. A sum is one of floating-point numbers, in whatever order.
    """

    expression: Expression | str
    function: str = "sum"

    def text(self, names: Names = str) -> str:
        """Return the expression in SQL."""
        return self.expression if isinstance(self.expression, str) else self.expression.sql(names)

    def select(self, name: str, names: Names = str) -> list[str]:
        """Return what stands after SELECT: SQL with names that begin with `name`."""
        text = self.text(names)
        if self.function == "count_distinct":
            return [f"count(DISTINCT {text}) AS {name}"]
        return [f"{self.function}({text}) AS {name}"]

    def read(self, name: str, answer: Mapping[str, NDArray[Any]]) -> Numbers:
        """Return the numbers from the answer to `select`; NaN for a group that has none."""
        return np.asarray(answer[name], np.float64)

    def arrays(self, name: str, rows: Rows) -> dict[str, Any]:
        """Return what is aggregated of records in memory, by the names of `select`."""
        if isinstance(self.expression, str):
            raise TypeError("SQL is for the records of a warehouse; those in memory take an expression")
        return {name: self.expression.arrow(rows)}


@dataclass(frozen=True)
class Sum(Aggregate):
    """A sum that is the same whatever the order of the records: of numbers that a scale bounds, cut into whole parts."""

    function: str = field(default="sum", init=False)
    scale: float = 1.0
    parts: int = 2
    """Of the exact sum; 0 where the numbers are whole."""

    @override
    def select(self, name: str, names: Names = str) -> list[str]:
        signed = not isinstance(self.expression, str)
        return exact_sums(name, self.text(names), self.scale, self.parts, signed)

    @override
    def read(self, name: str, answer: Mapping[str, NDArray[Any]]) -> Numbers:
        parts = np.array([answer[f"{name}_{part}"] for part in range(max(self.parts, 1))], np.int64)
        return exact_total(parts, self.scale) if self.parts else parts[0].astype(np.float64)

    @override
    def arrays(self, name: str, rows: Rows) -> dict[str, pa.Array]:
        assert isinstance(self.expression, NumberExpression)  # noqa: S101 - nothing else is added up
        parts = parts_of(self.expression.numbers(rows), self.scale, self.parts)
        return {f"{name}_{place}": pa.array(part) for place, part in enumerate(parts)}


def order_free_sum(expression: Expression, largest: float, whole: bool, records: int) -> Aggregate:
    """Return the sum of numbers that are not larger in size than `largest`, the same in whatever order they are added."""
    if not math.isfinite(largest):
        return Aggregate(expression)
    if whole and largest * max(records, 1) < 2.0**62:
        return Sum(expression, parts=0)
    return Sum(expression, scale=scale_of(largest), parts=_PARTS)


@dataclass(frozen=True)
class Aggregation:
    """Every group of records that agree on some expressions: how many records it has, and measures of them.

    Records that do not meet a condition are left out.
    """

    by: Mapping[str, Expression]
    measures: Mapping[str, Aggregate]
    where: Within = Within(())

    def sql(self, names: Names) -> str:
        """Return the query; the groups are c0, c1, ..., the number of records n, the measures m0, m1, ..."""
        by = {f"c{i}": expression.sql(names) for i, expression in enumerate(self.by.values())}
        measures = [text for i, one in enumerate(self.measures.values()) for text in one.select(f"m{i}", names)]
        return aggregate_sql(by, ["count(*) AS n", *measures], "records", self.where.condition(names))

    def read(self, answer: Mapping[str, NDArray[Any]]) -> dict[str, Numbers]:
        """Return the measures from the columns of an answer to the query."""
        return {name: one.read(f"m{i}", answer) for i, (name, one) in enumerate(self.measures.items())}

    def arrow(self, rows: Rows) -> pa.Table:
        """Aggregate records in memory; the columns are named as in the query."""
        if self.where.among:
            rows = rows.take(self.where.flags(rows))
        table = {f"c{i}": expression.arrow(rows) for i, expression in enumerate(self.by.values())}
        by: list[str] = list(table)
        functions: list[tuple[Any, str]] = [([], "count_all")]
        for i, one in enumerate(self.measures.values()):
            arrays = one.arrays(f"m{i}", rows)
            table |= arrays
            functions += [(name, one.function) for name in arrays]
        table["one"] = pa.array(np.ones(len(rows), np.int8))  # a table without columns has no records
        answer = pa.table(table).group_by(by, use_threads=False).aggregate(functions)
        names = [*by, "count_all", *(f"{name}_{function}" for name, function in functions[1:])]
        return answer.select(names).rename_columns([*by, "n", *(name for name, _ in functions[1:])])


def aggregate_sql(by: Mapping[str, str], measures: Sequence[str], source: str, where: str = "TRUE") -> str:
    """Return a query for what is added up in every group; one row for all records, where there are no groups."""
    listed = ", ".join([*(f"{sql} AS {name}" for name, sql in by.items()), *measures])
    group = f" GROUP BY {', '.join(by.values())}" if by else ""
    return f"SELECT {listed} FROM {source} WHERE {where}{group}"  # noqa: S608 - our own names


def largest_sql(by: Sequence[str], value: str, own: str, kept: Mapping[str, str], count: int, where: str) -> str:
    """Return a query for what is kept of those `count` records in every group that have the largest values.

    Of equal ones the records with the smallest ids are taken: `own` is the id.
    """
    listed = ", ".join(f"{sql} AS {name}" for name, sql in kept.items())
    split = f"PARTITION BY {', '.join(by)} " if by else ""
    return (
        f"SELECT {', '.join(kept)} FROM (SELECT {listed}, row_number() OVER ({split}ORDER BY {value} DESC, {own}) AS place "  # noqa: S608
        f"FROM records WHERE {where}) AS ranked WHERE place <= {count}"
    )


def bins_sql(number: str, edges: Sequence[float]) -> str:
    """Return SQL for the bin of a number: bin i holds what is above edge i − 1 and at most edge i, a last one what is missing."""

    def bisected(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        lower, upper = bisected(low, middle), bisected(middle + 1, high)
        return f"CASE WHEN {number} <= {float(edges[middle])!r} THEN {lower} ELSE {upper} END"

    return f"CASE WHEN {number} IS NULL THEN {len(edges) + 1} ELSE {bisected(0, len(edges))} END"


def text_sql(text: str) -> str:
    """Return text as it stands in SQL. Spark takes a backslash for the beginning of a sign, so none is written."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\\")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(92), '.join(parts)})"


def number_sql(number: float) -> str:
    """Return a number as it stands in SQL, with all its digits.

    >>> number_sql(0.1)
    'CAST(0.1 AS DOUBLE)'
    """
    text = repr(float(number)) if math.isfinite(number) else f"'{'-' if number < 0 else ''}Infinity'"
    return f"CAST({text} AS DOUBLE)"


def numeric(codes: Iterable[object]) -> list[float]:
    """Return those codes that are numbers."""
    return [float(code) for code in codes if isinstance(code, int | float)]


def _one_of(expression: str, listed: Iterable[str]) -> list[str]:
    """Return the condition that an expression is one of some values; none, if there are no values."""
    joined = ", ".join(listed)
    return [f"{expression} IN ({joined})"] if joined else []
