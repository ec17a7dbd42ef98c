"""Small samples for the estimators of population risk: files by their keys, and what is seen of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato import Release
from sfumato.data.microdata import Microdata
from sfumato.risk.population_uniques import Frequencies
from sfumato.schema import Attribute, Schema


def release(weights: Any = None, **keys: Any) -> Release:
    attributes = [Attribute(n, "key", "unordered") for n in keys]  # type: ignore[arg-type]
    columns = dict(keys)
    if weights is not None:
        attributes.append(Attribute("w", "weight"))  # type: ignore[arg-type]
        columns["w"] = weights
    data = Microdata(pa.table(columns), Schema(tuple(attributes)))
    return Release.of(data, data, align="rows")


def seen(f: Any) -> Frequencies:
    sizes, counts = np.unique(f[f > 0], return_counts=True)
    return Frequencies(sizes.astype(float), counts.astype(float))
