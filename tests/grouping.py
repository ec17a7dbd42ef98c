"""Small files for microaggregation, and when two groupings are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.schema import Attribute, Schema


def microdata(columns: dict[str, Any], **facts: dict[str, Any]) -> Microdata:
    attributes = [Attribute(n, **{"role": "confidential", **facts.get(n, {})}) for n in columns]
    return Microdata(pa.table(columns), Schema(tuple(attributes)))


def released(mask: Any, data: Microdata, name: str) -> list[Any]:
    column = mask.apply(data, Draws(1)).masked.batch([name]).column(name)
    return list(column.arrow.to_pylist())


def same_groups(a: Any, b: Any) -> bool:
    """Whether two labellings put the same records together."""
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})
