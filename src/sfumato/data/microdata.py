"""Microdata: records and what their columns mean, wherever the records live."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.data.aggregates import ColumnNumber
from sfumato.data.columns import Column, Kind, LazyColumn
from sfumato.data.columns import missing_of as missing_of
from sfumato.data.columns import numbers_of as numbers_of
from sfumato.data.engine import Engine, LocalEngine, Rows
from sfumato.data.store import open_frame
from sfumato.errors import DataError, SchemaError, did_you_mean, join_names, refuse_unknown, unknown_name
from sfumato.kernels.moments import Moments, centred_products, first_pass
from sfumato.lazy import pd
from sfumato.schema import Attribute, Level, Schema
from sfumato.typing import Coded, Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Batch:
    """Some records in memory with their schema: what a mask sees and returns."""

    rows: Rows
    schema: Schema

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> Whole:
        """Hidden record ids, shape (n,)."""
        return self.rows.ids

    def column(self, name: str) -> Column:
        """Return one column."""
        try:
            return self.rows.columns[name]
        except KeyError:
            raise DataError(unknown_name("column", name, self.rows.columns, "the data")) from None

    def numbers(self, name: str) -> Numbers:
        """Return a column as numbers, shape (n,): NaN where missing or coded as missing."""
        return numbers_of(self.column(name), self.schema[name])

    def codes(self, name: str) -> Coded:
        """Return a column's codes, shape (n,), and the values they stand for: -1 where missing or coded as missing."""
        codes, values = self.column(name).codes
        return np.where(self.missing(name), np.int32(-1), codes), values

    def units(self, name: str) -> Whole:
        """Return the id that a column's random numbers depend on: the household's for household columns, else the record's."""
        household = self.schema.one("household")
        if self.schema[name].level is not Level.HOUSEHOLD or household is None:
            return self.ids
        number = self.column(household)
        # a record whose household is not known stands for itself
        return np.where(missing_of(number, self.schema[household]), self.ids, number.hashes)

    def replace(self, name: str, numbers: Callable[[], Numbers]) -> Batch:
        """Return the batch with a column's numbers replaced by what `numbers` will give, when they are looked at.

        Missing values stay exactly as they were; NaN in place of a value suppresses it. Whole-number attributes are
        rounded; values beyond the bounds that the schema declares are set to the bound; a value that would read as a code for
        missing stops short of it.
        """
        attribute, old = self.schema[name], self.column(name)

        def make() -> Column:
            gap = _gap(old, attribute)
            low, high = attribute.bounds
            new = numbers()
            if attribute.integer:
                new = np.round(new)
                low, high = low if low is None else math.ceil(low), high if high is None else math.floor(high)
            if low is not None or high is not None:
                new = np.clip(new, low, high)
            if codes := [c for c in attribute.missing if isinstance(c, int | float)]:
                new = _off_codes(new, self.numbers(name), codes, attribute.integer)
            if gap is not None:
                kept = np.nan if old.kind is Kind.CATEGORY else old.numbers  # numbers have no room for a word
                new = np.where(gap, kept, new)
            null = None if gap is None else old.null
            if (lost := np.isnan(new) if gap is None else np.isnan(new) & ~gap).any():
                null = lost if null is None else null | lost
            return Column.from_numbers(new, null, attribute.integer)

        return self.with_columns({name: LazyColumn(len(self), make)})

    def with_codes(self, name: str, codes: NDArray[Any], values: Sequence[object] | None = None) -> Batch:
        """Return the batch with a column's categories replaced by codes (shape n) into `values`; -1 is missing.

        Without `values` the codes point into ``column(name).codes[1]`` and the column keeps its type; with them it becomes
        text.
        """
        old = self.column(name)
        if values is None:
            return self.with_columns({name: Column.from_codes(codes, old.codes[1], old)})
        return self.with_columns({name: Column.from_codes(codes, values)})

    def missing(self, name: str) -> Flags:
        """Return which values of a column of any kind are null, NaN or coded as missing, shape (n,)."""
        return missing_of(self.column(name), self.schema[name])

    def members(self, names: Sequence[str]) -> tuple[Whole, Whole]:
        """Return one row number for each unit that these columns describe, and for each record the unit it belongs to.

        Units are households, where the columns describe households, else records. Columns of one step must all have the same
        level (see `by_level`). A household whose members disagree is refused: its value cannot be masked once.
        """
        household = self.schema.one("household")
        if household is None or self.schema[names[0]].level is not Level.HOUSEHOLD:
            everyone = np.arange(len(self))
            return everyone, everyone
        _, first, member = np.unique(self.units(names[0]), return_index=True, return_inverse=True)
        for name in names:
            values = self.column(name).hashes
            if wrong := len(np.unique(member[values != values[first][member]])):
                raise DataError(
                    f"column '{name}' describes the household, but the members of {wrong:,} households have different "
                    "values there. Correct them, or set level = 'person' in the schema."
                )
        return first, member

    def with_columns(self, columns: Mapping[str, Column]) -> Batch:
        """Return the batch with some columns replaced or added."""
        return Batch(Rows(self.ids, {**self.rows.columns, **columns}), self.schema)

    def keep(self, rows: NDArray[Any]) -> Batch:
        """Return the records at row numbers, or where a mask is true."""
        return Batch(self.rows.take(rows), self.schema)

    def drop(self, names: Iterable[str]) -> Batch:
        """Return the batch without some columns."""
        gone = set(names)
        columns = {n: c for n, c in self.rows.columns.items() if n not in gone}
        return Batch(Rows(self.ids, columns), self.schema.keep(lambda a: a.name not in gone))


def by_level(schema: Schema, names: Iterable[str]) -> list[tuple[str, ...]]:
    """Split columns into those that describe households and those that describe persons: each kind is masked on its own."""
    split = [tuple(n for n in names if schema[n].level is level) for level in (Level.HOUSEHOLD, Level.PERSON)]
    return [part for part in split if part]


def _off_codes(new: Numbers, old: Numbers, codes: Sequence[float], integer: bool) -> Numbers:
    """Move values that landed on a code for missing one step back towards where they came from, until none does."""
    new = np.array(new, np.float64)
    for _ in range(len(codes) + 1):
        hit = np.isin(new, codes) & ~np.isnan(old)
        if not hit.any():
            break
        back = np.where(old[hit] < new[hit], -1.0, 1.0)
        new[hit] = new[hit] + back if integer else np.nextafter(new[hit], np.inf * back)
    return new


def _gap(column: Column, attribute: Attribute) -> Flags | None:
    """Return which values are missing or coded as missing; None if none are."""

    def find() -> Flags | None:
        gap = np.isnan(numbers_of(column, attribute))
        return gap if gap.any() else None

    found: Flags | None = column.remember(("gap", attribute.missing), find)
    return found


class Microdata:
    """An immutable frame with its schema.

    Accepts pandas, polars, Arrow, DuckDB and Spark frames and works where the data live. Every record gets a hidden
    64-bit id at load, its position in the input; after that the order of rows means nothing, and the id is never
    released.

    Examples
    --------
    >>> import pandas as pd
    >>> data = Microdata(pd.DataFrame({"age": [30, 41], "salary": [50.0, 61.5]}))
    >>> len(data), data.schema.names()
    (2, ('age', 'salary'))
    """

    __slots__ = ("_count", "_digest", "engine", "schema")

    def __init__(self, frame: Any, schema: Schema | None = None) -> None:
        engine = frame if isinstance(frame, Engine) else open_frame(frame)
        if schema is None:
            schema = engine.guess()
        check_fit(schema, engine.kinds)
        self.engine: Engine = engine
        self.schema: Schema = schema
        self._count: int | None = None
        self._digest: bytes | None = None

    @classmethod
    def read(cls, path: str | Path, schema: Schema | None = None, *, engine: str = "memory", **options: Any) -> Self:
        """Read a file: CSV, Parquet, Arrow, Stata, SPSS, SAS or Excel. Labels in the file go into the schema.

        Options of reading stand with each form in `read_file`; those that the schema keeps (``reading``) hold where no others are
        given. A folder, or a pattern such as ``parts/*.parquet``, stands for all its files.

        `engine="duckdb"` leaves a CSV or Parquet file on disk and works on it piece by piece. Records of a CSV or Excel file that
        have no value in any column are left out, with a `DataWarning` that names them.
        """
        from sfumato.data.store import open_file

        opened, notes = open_file(path, engine=engine, **{**({} if schema is None else schema.reading), **options})
        guessed = opened.guess() if schema is None else schema
        for name, facts in notes.items() if schema is None else ():
            guessed = guessed.change(name, reason=guessed[name].reason, **facts)
        return cls(opened, guessed)

    def write(self, path: str | Path, **options: Any) -> None:
        """Write a file in the form its suffix says, whole or not at all; labels go with it where the form can hold them.

        The file holds nothing but these records: no category, and no label of a code, that none of them has.
        """
        from sfumato.data.store import save_file

        save_file(self.engine, self.schema, path, **options)

    def __len__(self) -> int:
        if self._count is None:
            self._count = self.engine.count()
        return self._count

    def __repr__(self) -> str:
        return f"Microdata({len(self.schema)} columns, in {self.engine.name})"

    def _repr_html_(self) -> str:
        """Return the columns as a table for a notebook: what they mean, and no value of theirs."""
        rows = [
            {
                "column": a.name,
                "holds": self.kind(a.name).value,
                "role": a.role.value,
                "meaning": a.label,
                "unit": a.unit,
            }
            for a in self.schema
        ]
        return f"<p>{len(self):,} records</p>{pd.DataFrame(rows).to_html(index=False)}"

    # -- looking

    def kind(self, name: str) -> Kind:
        """Return what sort of values a column holds."""
        refuse_unknown("column", self.engine.kinds, "the data", name, error=DataError)
        return self.engine.kinds[name]

    def batch(self, names: Sequence[str] | None = None) -> Batch:
        """Bring some columns (all, if none are named) into memory."""
        names = list(self.engine.kinds) if names is None else list(names)
        for name in names:
            self.kind(name)
        return Batch(self.engine.collect(names), self.schema)

    def numbers(self, name: str) -> Numbers:
        """Return one column as numbers, NaN where missing."""
        return self.batch([name]).numbers(name)

    def number(self, name: str) -> ColumnNumber:
        """Return a column of numbers as an expression that any engine can aggregate."""
        kind, attribute = self.kind(name), self.schema[name]
        mapped = bool(attribute.values) and kind is Kind.CATEGORY
        if mapped or kind not in (Kind.NUMBER, Kind.BOOLEAN):
            numbers_of(self.engine.group([name]).columns[name], attribute)  # refuses what has no number
        return ColumnNumber(attribute, mapped)

    def moments(self, names: Sequence[str]) -> Moments:
        """Return count, mean and covariance over the records that have all these columns, in two passes."""
        for name in names:
            check_numeric(self, name)
        schema = self.schema

        def matrix(rows: Rows) -> Numbers:
            return np.column_stack([numbers_of(rows.columns[n], schema[n]) for n in names])

        first = self.engine.reduce(lambda rows: first_pass(matrix(rows)), names)
        count, mean = int(first[0]), first[1:] / max(first[0], 1)
        products = self.engine.reduce(lambda rows: centred_products(matrix(rows), mean), names)
        return Moments(tuple(names), count, mean, products / max(count - 1, 1))

    def digest(self) -> bytes:
        """Return a digest of the values, their order and their columns: the same on every engine."""
        if self._digest is None:
            from sfumato.kernels.classes import combine, row_digest

            names = list(self.engine.kinds)
            limbs = self.engine.reduce(lambda rows: row_digest(rows.ids, _Bare(rows.columns)), names)
            self._digest = combine(names, len(self), limbs)
        return self._digest

    # -- making another one

    def local(self, names: Iterable[str] | None = None) -> Microdata:
        """Return the data in memory, with some of the columns."""
        wanted = list(self.engine.kinds) if names is None else [n for n in self.engine.kinds if n in set(names)]
        schema = self.schema.keep(lambda a: a.name in wanted)
        return Microdata(self.engine.hold(self.engine.collect(wanted)), schema)

    def transform(self, function: Callable[[Batch], Batch], schema: Schema) -> Microdata:
        """Apply a function to every piece of the data, where the data live; `schema` is that of the result."""
        before = self.schema
        return Microdata(self.engine.map_batches(lambda rows: function(Batch(rows, before)).rows), schema)

    def reorder(self, keys: Callable[[Whole], Numbers]) -> Microdata:
        """Return the records sorted by a number that `keys` gives for their ids, where the data live."""
        return Microdata(self.engine.reorder(keys), self.schema)

    def take(self, rows: NDArray[Any]) -> Microdata:
        """Return records by row number, as new records with new ids; the data are brought into memory."""
        picked = self.batch().rows.take(rows)
        renumbered = Rows(np.arange(len(picked), dtype=np.int64), picked.columns)
        return Microdata(self.engine.hold(renumbered), self.schema)

    def resample(self, generator: np.random.Generator) -> Microdata:
        """Draw as many records as there are, with replacement; whole households, where the schema names them.

        A household drawn twice is two households: each copy gets a number of its own, hence noise of its own.
        """
        household = self.schema.one("household")
        if household is None:
            return self.take(generator.integers(0, len(self), len(self)))
        batch = self.batch([household])
        column = batch.column(household)
        alone = missing_of(column, self.schema[household])  # a record whose household is not known is its own
        _, member = np.unique(np.where(alone, -1 - np.arange(len(self)), column.hashes), return_inverse=True)
        order, sizes = np.argsort(member, kind="stable"), np.bincount(member)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        drawn = generator.integers(0, len(sizes), len(sizes)) if len(sizes) else np.zeros(0, np.int64)
        rows = np.concatenate([order[starts[h] : starts[h] + sizes[h]] for h in drawn] or [np.zeros(0, np.int64)])
        taken = self.take(rows)
        numbers = Column.from_numbers(np.repeat(np.arange(len(drawn)), sizes[drawn]).astype(np.float64), integer=True)
        columns = {**taken.batch().rows.columns, household: numbers}
        return Microdata(taken.engine.hold(Rows(taken.batch([]).ids, columns)), self.schema)

    def with_schema(self, schema: Schema) -> Microdata:
        """Return the same records with another schema."""
        return Microdata(self.engine, schema)

    def to_native(self) -> Any:
        """Return a frame of the kind that came in, without the hidden ids."""
        return self.engine.native()


class _Bare(Mapping[str, Column]):
    """Columns one after another, each without what is worked out from it: a digest leaves nothing behind in memory."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name].bare()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def check_fit(schema: Schema, kinds: Mapping[str, Kind]) -> None:
    """Refuse a schema that names absent columns, or leaves columns unexplained."""
    if not kinds:
        raise DataError("the data have no columns.")
    if absent := [n for n in schema.names() if n not in kinds]:
        hint = did_you_mean(absent[0], kinds)
        raise SchemaError(f"the schema names columns that the data do not have: {join_names(absent)}.{hint}")
    if unexplained := [n for n in kinds if n not in schema]:
        raise SchemaError(
            f"the schema says nothing about these columns: {join_names(unexplained)}. "
            "Add them to it (role = 'other' if they are harmless), or drop them from the data."
        )


def check_numeric(data: Microdata, name: str) -> None:
    """Refuse a column that does not hold numbers, with the ones that do."""
    kind = data.kind(name)
    if kind in (Kind.NUMBER, Kind.BOOLEAN) or (kind is Kind.CATEGORY and data.schema[name].values):
        return
    others = [n for n, k in data.engine.kinds.items() if k is Kind.NUMBER]
    hint = ""
    if kind is Kind.CATEGORY and isinstance(data.engine, LocalEngine) and _with_commas(data.batch([name]).column(name)):
        hint = " Its texts are numbers with a decimal comma: read the file with decimal=','."
    raise DataError(
        f"column '{name}' holds {kind}, where numbers are needed.{hint} Columns of numbers: {join_names(others)}."
    )


def _with_commas(column: Column) -> bool:
    """Return whether all texts of a column are numbers, some with a comma before the last digits."""
    texts = [str(value).strip() for value in column.codes[1]]
    written = [re.fullmatch(r"[-+]?\d+(,\d+)?", text) for text in texts]
    return all(written) and any("," in text for text in texts)
