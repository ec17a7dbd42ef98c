"""Small files with three keys, of which some records are released in another order, changed, and among simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from sfumato import Microdata, Release
from sfumato.risk.classification import (
    EqualWeights,
    GeometricWeights,
    GivenWeights,
    PowerWeights,
    StabilityWeights,
    ThresholdWeights,
    UniqueWeights,
    WeightMatrix,
)
from sfumato.schema import Attribute, PrefixHierarchy, Schema
from tests.global_risk_twin import changed_share, ordered_factor, zip_factor

KEYS = ("age", "sex", "zip")
FAMILIES: list[WeightMatrix] = [
    UniqueWeights(),
    EqualWeights(),
    ThresholdWeights(2),
    PowerWeights(0.7),
    GeometricWeights(0.4),
    StabilityWeights(0.9, 0.3),
    GivenWeights([[1, 0.1], [0.1, 0.8]]),
]
File = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[int]]


def schema(**changes: Any) -> Schema:
    return Schema(
        (
            Attribute("age", "key", integer=True),
            Attribute("sex", "key", "unordered"),
            Attribute("zip", "key", "partially ordered", hierarchy=PrefixHierarchy(3)),
        )
    )


def microdata(records: Sequence[tuple[Any, ...]]) -> Microdata:
    columns = list(zip(*records, strict=True)) if records else [(), (), ()]
    frame = pd.DataFrame(
        {
            "age": pd.array(columns[0], "Int64"),
            "sex": pd.Series(list(columns[1]), dtype="str"),
            "zip": pd.Series(list(columns[2]), dtype="str"),
        }
    )
    return Microdata(frame, schema())


def release(file: File) -> Release:
    original, masked, align = file
    return Release.of(microdata(original), microdata(masked), align=np.array(align, np.int64))


def records(missing: bool) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    gap = [st.none()] if missing else []
    record = st.tuples(
        st.one_of(st.integers(30, 33), *gap), st.one_of(st.sampled_from("fm"), *gap),
        st.one_of(st.sampled_from(["111", "112", "121", "211", "11*"]), *gap),
    )  # fmt: skip
    return st.lists(record, min_size=1, max_size=7)


@st.composite
def files(draw: st.DrawFn, missing: bool = False) -> File:
    """A small original, some of its records released in another order and with other values, some simulated ones beside them."""
    original = draw(records(missing))
    align = draw(st.lists(st.integers(-1, len(original) - 1), min_size=1, max_size=9))
    seen: set[int] = set()
    align = [a if a < 0 or (a not in seen and not seen.add(a)) else -1 for a in align]  # type: ignore[func-returns-value]
    values = draw(st.lists(records(missing).map(lambda r: r[0]), min_size=len(align), max_size=len(align)))
    keep = draw(st.lists(st.booleans(), min_size=len(align), max_size=len(align)))
    masked = [original[a] if a >= 0 and k else v for a, v, k in zip(align, values, keep, strict=True)]
    return original, masked, align


def factors(file: File) -> list[float]:
    original, masked, align = file
    pairs = [(original[a], m) for a, m in zip(align, masked, strict=True) if a >= 0]
    (ages, sexes, zips) = ([(b[k], a[k]) for b, a in pairs] for k in range(3))

    def split(values: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        return [v[0] for v in values], [v[1] for v in values]

    return [ordered_factor(*split(ages)), changed_share(*split(sexes)), zip_factor(*split(zips), length=3)]
