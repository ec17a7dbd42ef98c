"""What a data file holds: a table, its column names, and the labels of columns and codes."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import DataError, ParameterError, join_names, plural, refuse_unknown, repeated
from sfumato.lazy import pa
from sfumato.schema.attribute import RECORD_ID


@dataclass(frozen=True)
class FileContents:
    """A table and its labels; what `read_file` gives and `write_file` takes.

    Labels of columns that the table does not have are allowed, and are not written.

    Parameters
    ----------
    table
        The records, without metadata.
    labels
        Column name to variable label: ``{"inc": "monthly income"}``.
    value_labels
        Column name to the words for its codes, keyed by the text of the code: ``{"sex": {"1": "male"}}``.
    missing
        Column name to the codes that mean "no answer" and stand in the table as ordinary values: ``{"inc": (98, 99)}``.
    """

    table: pa.Table
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, tuple[float | str, ...]] = dataclasses.field(default_factory=dict)


def code_text(code: object) -> str:
    """Return the text of a code, the same for 1 and 1.0.

    >>> code_text(1.0), code_text(2.5), code_text("A")
    ('1', '2.5', 'A')
    """
    if isinstance(code, float) and math.isfinite(code) and code.is_integer():
        return str(int(code))
    return str(code)


def plain(table: pa.Table) -> pa.Table:
    """Return the table with categories as plain values and views of text as text: most files know neither."""
    for i, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        kind = pa.large_string() if pa.types.is_string_view(kind) else kind
        if kind != field.type:
            table = table.set_column(i, field.name, table.column(i).cast(kind))
    return table


def refuse_kinds(table: pa.Table, form: str) -> None:
    """Refuse columns that hold lists, bytes or durations, which only Parquet and Arrow keep."""
    for field in table.schema:
        kind = field.type
        if pa.types.is_nested(kind):
            what = "lists or records"
        elif (
            pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_binary_view(kind)
            or pa.types.is_fixed_size_binary(kind)
        ):
            what = "bytes"
        elif pa.types.is_duration(kind) or pa.types.is_interval(kind):
            what = "lengths of time"
        else:
            continue
        raise DataError(
            f"column '{field.name}' holds {what}, which {form} has no place for. "
            f"Leave the column out, turn it into numbers or text, or write .parquet."
        )


def whole_number(option: str, value: object) -> int:
    """Return an option of reading that counts something; a text of digits will do."""
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise ParameterError(f"{option} must be a whole number, such as {option}=3.")
    return int(str(value))


def checked_header(header: list[str], path: Path, names: Sequence[str] | None, above: int = 0) -> list[str]:
    """Return the column names: those asked for, else the header's, each there and each one of its kind.

    `above` says how many rows stand above the one that looks most like the header, for advice.
    """
    if names is not None:
        if len(names) != len(header):
            raise ParameterError(f"names has {len(names)} names, but {path} has {len(header)} columns.")
        header = list(names)
    if nameless := [i for i, name in enumerate(header, 1) if not name]:
        if len(nameless) > 1 or header[0]:
            where = f" The header seems to stand in row {above + 1}: say skip={above}." if above else ""
            raise DataError(
                f"column {nameless[0]} of {path} has no name in the header row{_more(nameless)}. Is it a title, or a cell that was "
                f"merged over several columns?{where} skip= leaves out rows above the header; names= gives all names."
            )
        raise DataError(
            f"column {nameless[0]} of {path} has no name in the header row. R and pandas write row names there: "
            f"write the file with row.names = FALSE (R) or index=False (pandas), or give all names with names=."
        )
    check_names(header)
    return header


def _more(nameless: Sequence[int]) -> str:
    return "" if len(nameless) == 1 else f", nor have {plural(len(nameless) - 1, 'other')}"


def chosen(columns: Sequence[str], header: Sequence[str], path: Path) -> set[str]:
    """Return the columns asked for as text, if the file has them."""
    refuse_unknown("column", header, f"{path} (asked for as text)", *columns)
    return set(columns)


def check_names(names: Iterable[object]) -> None:
    """Refuse column names that are not text, are repeated, or are taken."""
    listed = list(names)
    if not all(isinstance(n, str) for n in listed):
        raise DataError(
            "column names must be text, but some are not. In pandas, try: frame.columns = frame.columns.astype(str)"
        )
    texts = [str(n) for n in listed]
    if twice := repeated(texts):
        raise DataError(
            f"these column names stand more than once: {join_names(sorted(twice))}. Rename them to be distinct."
        )
    if RECORD_ID in texts:
        raise DataError(f"the column name {RECORD_ID} is used by sfumato itself; rename that column.")
