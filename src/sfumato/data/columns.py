"""A column in memory: Arrow outside, NumPy inside, converted only when looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.errors import DataError
from sfumato.kernels.classes import mix64
from sfumato.lazy import pa, pc
from sfumato.schema.attribute import Attribute
from sfumato.typing import Flags, Numbers, Whole

_MANY = 10_000
"""With fewer records than this it does not matter how distinct values are kept."""
_DAY = 86_400e6
"""Microseconds of a day."""


class Kind(StrEnum):
    """What sort of values a column holds."""

    NUMBER = "numbers"
    BOOLEAN = "yes/no values"
    CATEGORY = "text or categories"
    DATE = "dates"
    OTHER = "values of another kind"


def kind_of(arrow_type: pa.DataType) -> Kind:
    """Return the kind of an Arrow type."""
    if pa.types.is_dictionary(arrow_type) or pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return Kind.CATEGORY
    if pa.types.is_string_view(arrow_type):
        return Kind.CATEGORY
    if pa.types.is_boolean(arrow_type):
        return Kind.BOOLEAN
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return Kind.NUMBER
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return Kind.DATE
    return Kind.OTHER


_DAYS = (-719_162, 2_932_896)
"""The first day of the year 1 and the last of 9999, as days since 1970: the dates that Python has."""
_NANOSECOND_DAYS = (-106_751, 106_750)
"""The first and the last whole day that 64 bits of nanoseconds hold: 1677-09-22 and 2262-04-10."""


def impossible_dates(name: str) -> DataError:
    """Return the refusal of a column with dates that no calendar has."""
    return DataError(
        f"column '{name}' has dates before the year 1 or after the year 9999. If they stand for 'no answer', "
        "make them missing first; else the file is damaged."
    )


def check_dates(table: pa.Table) -> None:
    """Refuse dates that Python's calendar does not have, which fail wherever somebody looks at them."""
    for field in table.schema:
        if kind_of(field.type) is not Kind.DATE or (units := _units_of_day(field.type)) is None:
            continue
        whole = pa.int32() if pa.types.is_date32(field.type) else pa.int64()
        found = pc.min_max(table.column(field.name).cast(whole)).as_py()
        first, last = _DAYS[0] * units, (_DAYS[1] + 1) * units - 1
        if found["min"] is not None and not first <= found["min"] <= found["max"] <= last:
            raise impossible_dates(field.name)


def _units_of_day(arrow_type: pa.DataType) -> int | None:
    """Return how many units of a date's type a day has; None for nanoseconds, which do not reach that far."""
    if pa.types.is_timestamp(arrow_type):
        return {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}.get(arrow_type.unit)
    return 1 if pa.types.is_date32(arrow_type) else 86_400_000


def visible_only(values: Any) -> Any:
    """Return an Arrow array with the same values and type whose memory holds these values and nothing else.

    Arrow keeps more than it shows, and Parquet and Arrow files write it: a dictionary keeps categories that no record has any
    more, a view of text keeps the text of records that were filtered out, and a null keeps the value that it hides.

    >>> import pyarrow as pa
    >>> visible_only(pa.array(["nurse", "bishop"]).dictionary_encode().slice(0, 1)).dictionary.to_pylist()
    ['nurse']
    """
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_dictionary(kind):  # one dictionary for all chunks: an Arrow file holds one
            whole = values.unify_dictionaries().combine_chunks()
            chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        else:
            chunks = values.chunks
        return pa.chunked_array([visible_only(chunk) for chunk in chunks], kind)
    if pa.types.is_dictionary(kind):
        return _used_categories(values)
    if isinstance(values, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, visible_only(values.storage))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()).cast(kind)
    if pa.types.is_struct(kind):
        parts = [visible_only(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null()) if parts else values
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.asarray(values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        offsets = pa.array(ends, pa.int32() if pa.types.is_list(kind) else pa.int64())
        return type(values).from_arrays(offsets, visible_only(values.flatten()), type=kind, mask=values.is_null())
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        return values.take(pa.array(np.arange(len(values))))
    # taking writes zeros under nulls
    return values.take(pa.array(np.arange(len(values)))) if values.null_count and not pa.types.is_null(kind) else values


def _used_categories(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return categories without those that no value has; the others keep their order."""
    codes = np.asarray(values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    used = np.unique(codes[codes >= 0])
    place = np.full(len(values.dictionary) + 1, -1, np.int64)
    place[used] = np.arange(len(used))
    moved = place[codes]
    indices = pa.array(np.where(moved < 0, 0, moved), values.type.index_type, mask=moved < 0)
    dictionary = visible_only(values.dictionary.take(pa.array(used)))
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=values.type.ordered)


class DistinctNumbers(Sequence[Any]):
    """Distinct numbers from the smallest up, which become Python's when looked at."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        found = self.numbers[at]
        return found.item() if np.ndim(found) == 0 else DistinctNumbers(found)

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self.numbers), 65_536):
            yield from self.numbers[start : start + 65_536].tolist()


class Column:
    """One column: its Arrow form and its NumPy form, each made from the other when first needed.

    A column that no method touches keeps its Arrow form, so it leaves exactly as it came in.
    """

    def __init__(self, arrow: pa.ChunkedArray | pa.Array | None, numbers: Numbers | None = None) -> None:
        self._arrow = arrow
        self._numbers = numbers

    @classmethod
    def from_numbers(cls, values: NDArray[Any], null: Flags | None = None, integer: bool = False) -> Column:
        """Make a number column from an array; `null` marks the missing ones; `integer` stores whole numbers."""
        values = np.asarray(values, np.float64)
        if null is not None and null.any():
            values = np.where(null, np.nan, values)
        if not integer:
            column = cls(None, values)
            column._null = null
            return column
        mask = np.isnan(values)
        filled = np.round(np.where(mask, 0, values))
        if not (np.abs(filled) < 2.0**63).all():
            raise DataError("some values are infinite or too large to be stored as whole numbers.")
        whole = filled.astype(np.int64)
        return cls(pa.array(whole, mask=mask if mask.any() else None))

    _null: Flags | None = None

    @classmethod
    def from_values(cls, values: Iterable[object]) -> Column:
        """Make a column from Python or NumPy values of one kind."""
        return cls(pa.array(values))

    @classmethod
    def from_codes(cls, codes: NDArray[Any], values: Sequence[object], like: Column | None = None) -> Column:
        """Make a column from codes into `values`; -1 is null. It has the type of `like`, or holds text if none is given."""
        indices = pa.array(np.asarray(codes, np.int32), mask=np.asarray(codes) < 0)
        wanted = pa.string() if like is None else like.arrow.type
        if pa.types.is_dictionary(wanted):
            table = pa.array(values, wanted.value_type)
            return cls(pa.DictionaryArray.from_arrays(indices, table, ordered=wanted.ordered))
        return cls(pa.array(values, wanted).take(indices))

    def __len__(self) -> int:
        return len(self._numbers) if self._arrow is None else len(self._arrow)  # type: ignore[arg-type]

    @property
    def arrow(self) -> pa.ChunkedArray | pa.Array:
        """The column as Arrow, nulls as nulls and NaN as NaN."""
        if self._arrow is None:
            null = self._null if self._null is not None and self._null.any() else None
            self._arrow = pa.array(self._numbers, mask=null, from_pandas=False)
        return self._arrow

    @cached_property
    def kind(self) -> Kind:
        """What sort of values the column holds."""
        return Kind.NUMBER if self._arrow is None else kind_of(self._arrow.type)

    @property
    def plain(self) -> bool:
        """Whether each value is a single one, not a list or the like."""
        return self._arrow is None or not pa.types.is_nested(self._arrow.type)

    @cached_property
    def null(self) -> Flags:
        """Which values are null (NaN is not null)."""
        if self._arrow is None:
            return self._null if self._null is not None else np.zeros(len(self), bool)
        return np.asarray(self._arrow.is_null().to_numpy(zero_copy_only=False), bool)

    @property
    def numbers(self) -> Numbers:
        """The column as float64, NaN where missing; refused for text and dates."""
        if self._numbers is None:
            self._numbers = self._to_numbers()
        return self._numbers

    def _to_numbers(self) -> Numbers:
        if self.kind not in (Kind.NUMBER, Kind.BOOLEAN):
            raise DataError(f"the column holds {self.kind}, where numbers are needed.")
        arrow = self._arrow
        assert arrow is not None  # noqa: S101 - numbers are given when Arrow is not
        if pa.types.is_boolean(arrow.type):
            arrow = arrow.cast(pa.int8())
        floats = pc.cast(arrow, pa.float64(), safe=False)
        return np.asarray(floats.to_numpy(zero_copy_only=False), np.float64)

    @cached_property
    def days(self) -> Numbers:
        """A column of dates in days since 1970, NaN where missing; times of day are fractions."""
        zone = getattr(self.arrow.type, "tz", None)
        ticks = self.arrow.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64()).cast(pa.float64())
        return np.asarray(ticks.to_numpy(zero_copy_only=False), np.float64) / _DAY

    @cached_property
    def calendar_days(self) -> Whole:
        """A column of dates in whole days since 1970, times of day cut off; 0 where missing. A time with a zone counts by UTC."""
        found: Whole = self._ticks // self._day
        return found

    @property
    def first_and_last_day(self) -> tuple[int, int]:
        """The first and the last day that a column of dates can hold, in days since 1970."""
        return _DAYS if _units_of_day(self.arrow.type) is not None else _NANOSECOND_DAYS

    def shifted(self, days: Whole) -> Column:
        """Return a column of dates with each moved by a whole number of days, shape (n,): type, times of day and gaps stay."""
        wanted = self.arrow.type
        whole = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
        moved = (self._ticks + np.asarray(days, np.int64) * self._day).astype(whole.to_pandas_dtype())
        return Column(pa.array(moved, whole, mask=self.null if self.null.any() else None).cast(wanted))

    @property
    def _day(self) -> int:
        return _units_of_day(self.arrow.type) or 86_400_000_000_000

    @property
    def _ticks(self) -> Whole:
        """A column of dates in the units of its type, 0 where missing."""
        if self.kind is not Kind.DATE:
            raise DataError(f"the column holds {self.kind}, where dates are needed.")
        whole = pa.int32() if pa.types.is_date32(self.arrow.type) else pa.int64()
        return np.asarray(self.arrow.cast(whole).fill_null(0).to_numpy(zero_copy_only=False), np.int64)

    @cached_property
    def codes(self) -> tuple[NDArray[np.int32], list[Any]]:
        """Codes and the distinct values they stand for; missing (null or NaN) is -1. Codes follow sorted values."""
        codes, values = self.ranks
        return codes, values if isinstance(values, list) else list(values)

    @cached_property
    def ranks(self) -> tuple[NDArray[np.int32], Sequence[Any]]:
        """As `codes`, but where nearly all numbers differ the values stay in an array: a list of them takes four times more."""
        if self.kind is Kind.NUMBER and self._mostly_distinct:
            from sfumato.kernels.sorting import ranks

            codes, values = ranks(self.numbers)
            return codes, DistinctNumbers(values if self._fractional else values.astype(np.int64))
        return self._encoded()

    @property
    def _fractional(self) -> bool:
        return self._arrow is None or pa.types.is_floating(self._arrow.type)

    @property
    def _mostly_distinct(self) -> bool:
        """Whether few of some numbers throughout the column recur, and floats hold them exactly."""
        if len(self) < _MANY or not (self._fractional or pa.types.is_integer(self.arrow.type)):
            return False
        seen = self.numbers[:: len(self) // 1_000]
        few_recur = len(np.unique(seen)) > 0.9 * len(seen)
        return few_recur and (self._fractional or bool(np.nanmax(np.abs(self.numbers)) < 2.0**53))

    def _encoded(self) -> tuple[NDArray[np.int32], list[Any]]:
        arrow = self.arrow
        if pa.types.is_dictionary(arrow.type):
            arrow = arrow.cast(arrow.type.value_type)
        if pa.types.is_floating(arrow.type):
            arrow = pc.add(arrow.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0, the same value
            arrow = pc.if_else(pc.is_nan(arrow), None, arrow)
        encoded = arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
        encoded = encoded.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        raw = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), np.int32)
        order: Any
        if pa.types.is_integer(encoded.dictionary.type) or pa.types.is_floating(encoded.dictionary.type):
            numbers = encoded.dictionary.to_numpy(zero_copy_only=False)
            order = np.argsort(numbers, kind="stable")
            values = numbers[order].tolist()
        else:
            found = encoded.dictionary.to_pylist()
            order = sorted(range(len(found)), key=lambda i: found[i])
            values = [found[i] for i in order]
        rank = np.empty(len(values) + 1, np.int32)
        rank[order] = np.arange(len(values), dtype=np.int32)
        rank[-1] = -1
        return rank[raw], values

    @cached_property
    def missing(self) -> Flags:
        """Which values are null or NaN."""
        if self.kind is Kind.NUMBER:
            return np.isnan(self.numbers) | self.null
        return self.null

    @cached_property
    def hashes(self) -> Whole:
        """A 63-bit number per value, the same on every engine and in every run; 1 and 1.0 hash alike; missing is 0."""
        if self.kind is Kind.NUMBER:
            return np.where(self.missing, 0, (mix64(self._bits()) >> np.uint64(1)).astype(np.int64))
        if self.kind is Kind.OTHER:  # lists and the like, which cannot be sorted into codes
            return np.array([0 if v is None else _hash(v) for v in self.arrow.to_pylist()], np.int64)
        codes, values = self.codes
        table = np.array([_hash(v) for v in values] + [0], np.int64)
        return table[codes]

    def _bits(self) -> NDArray[np.uint64]:
        if self._arrow is not None and pa.types.is_integer(self._arrow.type):
            whole = self._arrow.fill_null(0).to_numpy(zero_copy_only=False)
            signed = pa.types.is_signed_integer(self._arrow.type)
            return np.asarray(whole, np.int64).view(np.uint64) if signed else np.asarray(whole, np.uint64)
        numbers = np.where(self.missing, 0.0, self.numbers)
        is_whole = (np.abs(numbers) < 2.0**63) & (numbers == np.floor(numbers))
        whole = np.where(is_whole, numbers, 0.0).astype(np.int64)
        return np.where(is_whole, whole.view(np.uint64), numbers.view(np.uint64))

    def remember(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` made the first time: for things derived from this column alone."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    @cached_property
    def _memory(self) -> dict[Hashable, Any]:
        return {}

    def bare(self) -> Column:
        """Return the same values without what was worked out from them: codes and hashes of a large file go when it goes."""
        if self._arrow is None:
            assert self._numbers is not None  # noqa: S101 - numbers are given when Arrow is not
            return Column.from_numbers(self._numbers, self._null)
        return Column(self._arrow)

    def take(self, rows: NDArray[Any]) -> Column:
        """Return the column at row numbers, or where a mask is true."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if self._arrow is None:
            assert self._numbers is not None  # noqa: S101
            return Column.from_numbers(self._numbers[rows], None if self._null is None else self._null[rows])
        arrow = self._arrow
        if arrow.type == pa.string_view():  # Arrow cannot take from it
            arrow = arrow.cast(pa.string())
        taken = Column(arrow.take(rows))
        if self._numbers is not None:
            taken._numbers = self._numbers[rows]
        return taken

    def equals(self, other: Column) -> bool:
        """Whether two columns hold the same values of the same type, nulls and NaN included."""

        def flat(column: Column) -> pa.Array:
            arrow = column.arrow
            if pa.types.is_dictionary(arrow.type):  # the same categories may stand in another order
                arrow = arrow.cast(arrow.type.value_type)
            return arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow

        if self.arrow.type != other.arrow.type or len(self) != len(other):
            return False
        a, b = flat(self), flat(other)
        if pa.types.is_floating(a.type):
            same_null = bool(np.array_equal(self.null, other.null))
            return same_null and bool(np.array_equal(self.numbers, other.numbers, equal_nan=True))
        return bool(a.equals(b))


class LazyColumn(Column):
    """A column of numbers that is worked out when first looked at: a map often looks at few of the masked columns."""

    def __init__(self, length: int, make: Callable[[], Column]) -> None:
        self._length = length
        self._make = make

    @cached_property
    def _made(self) -> Column:
        return self._make()

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.arrow,)  # what it is made from holds the original values: it does not travel

    def __len__(self) -> int:
        return self._length

    @cached_property
    def kind(self) -> Kind:
        """Numbers."""
        return Kind.NUMBER

    @property
    def arrow(self) -> pa.ChunkedArray | pa.Array:
        """The column as Arrow."""
        return self._made.arrow

    @property
    def numbers(self) -> Numbers:
        """The column as float64."""
        return self._made.numbers

    @cached_property
    def null(self) -> Flags:
        """Which values are null."""
        return self._made.null

    @cached_property
    def ranks(self) -> tuple[NDArray[np.int32], Sequence[Any]]:
        """Codes and the distinct values they stand for."""
        return self._made.ranks

    @cached_property
    def hashes(self) -> Whole:
        """A 63-bit number per value."""
        return self._made.hashes

    def bare(self) -> Column:
        """Return the same values without what was worked out from them."""
        return self._made.bare()

    @override
    def take(self, rows: NDArray[Any]) -> Column:
        return self._made.take(rows)


def _hash(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "little") >> 1


def missing_of(column: Column, attribute: Attribute) -> Flags:
    """Return which values of a column of any kind are null, NaN or coded as missing; a code may stand as text after recoding."""
    if not attribute.missing or column.kind in (Kind.DATE, Kind.OTHER):
        return column.missing
    codes, values = column.codes
    gaps: set[object] = {*attribute.missing}
    if column.kind is Kind.CATEGORY:
        gaps |= {f"{code:g}" for code in attribute.missing if not isinstance(code, str)}
    coded = np.array([v in gaps for v in values] + [True])  # the code of null and NaN is -1
    return coded[codes]


def numbers_of(column: Column, attribute: Attribute) -> Numbers:
    """Return a column as numbers, NaN where missing; ordered categories through the schema's value map."""
    if attribute.values and column.kind is Kind.CATEGORY:
        codes, values = column.codes
        known = {v: attribute.values.get(str(v)) for v in values if v not in attribute.missing}
        absent = [v for v in known if known[v] is None]
        if absent:
            raise DataError(f"{len(absent)} values of '{attribute.name}' have no number in the schema's value map.")
        table = np.array([known.get(v, np.nan) for v in values] + [np.nan], np.float64)
        return table[codes]
    if column.kind not in (Kind.NUMBER, Kind.BOOLEAN):
        raise DataError(
            f"column '{attribute.name}' holds {column.kind}, where numbers are needed. "
            "Choose another column, or give its values numbers in the schema (values = {...})."
        )
    numbers = column.numbers
    gaps = [c for c in attribute.missing if isinstance(c, int | float)]
    return np.where(np.isin(numbers, gaps), np.nan, numbers) if gaps else numbers
