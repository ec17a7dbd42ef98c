"""What a class is, by comparing every pair of records: for the tests of measures that look at values within classes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sfumato.data.classes import Missing
from sfumato.data.microdata import Microdata
from sfumato.schema import Attribute, Schema

RULES: tuple[Missing, ...] = ("wildcard", "value", "ignored")
Row = tuple[Any, ...]

people = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, "flu", "flu", "hiv", "gout", "scurvy"]),
    ),
    min_size=1,
    max_size=24,
)
"""Two keys and a diagnosis, any of them missing."""


def file(rows: list[Row], keys: int = 2, **facts: dict[str, Any]) -> Microdata:
    """Return records as a file: columns k0, k1, ... are keys, the others s0, s1, ... confidential."""
    names = [f"k{i}" if i < keys else f"s{i - keys}" for i in range(len(rows[0]))]
    plain = {n: {"role": "key" if n[0] == "k" else "confidential", "scale": "unordered"} for n in names}
    schema = Schema(tuple(Attribute(n, **{**plain[n], **facts.get(n, {})}) for n in names))  # type: ignore[arg-type]
    columns = [pa.array([row[i] for row in rows]) for i in range(len(names))]
    columns = [c.cast(pa.string()) if pa.types.is_null(c.type) else c for c in columns]
    return Microdata(pa.table(dict(zip(names, columns, strict=True))), schema)


def matches(a: Row, b: Row, rule: Missing) -> bool:
    return all(x == y or (rule == "wildcard" and (x is None or y is None)) for x, y in zip(a, b, strict=True))


def values_by_record(keys: list[Row], values: list[Any], rule: Missing) -> list[list[Any] | None]:
    """Return for each record the known values of all records that match it; None for a record that is left out."""

    def counted(i: int) -> bool:
        return values[i] is not None and not (rule == "ignored" and None in keys[i])

    here = [i for i in range(len(keys)) if counted(i)]
    return [
        [values[j] for j in here if matches(keys[i], keys[j], rule)] if counted(i) else None for i in range(len(keys))
    ]
