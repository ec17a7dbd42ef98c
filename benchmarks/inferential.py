"""Inferential disclosure of 100,000 records × 20 columns: every target of every record in under 1 CPU second, each mask.

From numbers in memory to the worst target and the verdict: moments, the mask's matrices and the disclosure. Nothing of the
size of np × np is made, so memory stays within 3 × the file + 300 MB.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.files import TIMES, baseline, peak, within_limits

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.contract import Mask

RECORDS, COLUMNS = 100_000, 20
LIMIT = 1.0


def run() -> dict[str, float]:
    frame = generated()
    for mask in masks().values():
        seconds(frame.head(1_000), mask)  # imports, and what is compiled
    before = baseline()
    result: dict[str, float] = {}
    for name, mask in masks().items():
        best = min(seconds(frame, mask) for _ in range(TIMES))
        result[f"CPU seconds, {name}"] = best
        result[f"ratio, {name}"] = best / LIMIT
    result["ratio to the memory allowed"] = (peak() - before) / (3 * RECORDS * COLUMNS * 8 / 2**20 + 300)
    return result


def masks() -> dict[str, Mask]:
    """Return one mask of each kind of matrix."""
    from sfumato.masks import AggregateColumns, Identity, KimNoise, MultiplyRecords, RandomAggregation, Sample

    names = tuple(f"x{j}" for j in range(COLUMNS))
    return {
        "as it is": Identity(),
        "noise (C)": KimNoise(names),
        "total of five columns (B)": AggregateColumns(names[:5]),
        "sample (A)": Sample(fraction=0.1),
        "random groups of three (A)": RandomAggregation(names, k=3),
        "factors of records (A)": MultiplyRecords(names),
    }


def generated() -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    g = np.random.default_rng(0)
    x = g.normal(size=(RECORDS, COLUMNS)) @ g.normal(size=(COLUMNS, COLUMNS))
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(COLUMNS)])


def seconds(frame: pd.DataFrame, mask: Mask) -> float:
    """Judge a file that nothing has been worked out of."""
    from sfumato.data.microdata import Microdata
    from sfumato.papers import inferential_risk
    from sfumato.schema import Attribute, Role, Schema

    data = Microdata(frame, Schema(tuple(Attribute(n, Role.CONFIDENTIAL) for n in frame.columns)))
    start = time.process_time()
    risk = inferential_risk(data, mask=mask, between=0.01)
    assert risk.per_record().shape == (len(frame), COLUMNS)
    assert risk.worst in frame.columns
    risk.acceptable(0.5, "largest eigenvalue", relative=True)
    return time.process_time() - start


def holds(result: dict[str, float]) -> bool:
    return within_limits(result)
