"""Inversions of three keys of 10M records, and the global risk by age, sex and zip: each in 15 CPU seconds and 4 GB.

Each run in a process of its own: "distinct" counts the inversions of three keys in which no value recurs (by merging); "risk,
distinct" scores GlobalRisk of such a file; "risk" scores it of a file whose ages got noise and whose zip codes were swapped:
inversions from the joint histogram, classes by seven subsets of the keys, the best of them. "risk, DuckDB" does the same on
Parquet files.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.files import baseline, in_processes, peak

RECORDS = 10_000_000
SECONDS, MEGABYTES = 15.0, 4_096.0
RUNS = ("distinct", "risk", "risk, distinct", "risk, DuckDB")


def run() -> dict[str, float]:
    return in_processes("inversions", RUNS)


def one(name: str) -> dict[str, float]:
    import numpy as np

    from sfumato.kernels.column_pairs import inversions

    g = np.random.default_rng(1)
    start = baseline()
    if name == "distinct":
        inversions(g.random(9), g.random(9))  # compile
        pairs = [(x := g.standard_normal(RECORDS), x + g.standard_normal(RECORDS)) for _ in range(3)]
        clock = time.process_time()
        for x, y in pairs:
            inversions(x, y)
        return _measured(clock, start)
    how = name.removeprefix("risk").removeprefix(", ") or "memory"
    score(1_000, how)  # compile
    return _measured(score(RECORDS, how), start)


def _measured(clock: float, start: float) -> dict[str, float]:
    seconds, memory = time.process_time() - clock, peak() - start
    return {
        "CPU seconds": seconds, "peak memory above the imports, MB": memory, "ratio of time": seconds / SECONDS,
        "ratio of memory": memory / MEGABYTES,
    }  # fmt: skip


def score(records: int, engine: str) -> float:
    """Score a file of so many records; return when the clock was started, with the data in place."""
    from sfumato.contract import Release
    from sfumato.data.microdata import Microdata
    from sfumato.risk import GlobalRisk

    before, after, schema = _files(records, engine)
    outcome = Release(Microdata(before, schema), (Microdata(after, schema),))
    clock = time.process_time()
    GlobalRisk().score(outcome)
    return clock


def _files(records: int, engine: str) -> tuple[Any, Any, Any]:
    """Return the original and the masked file: age, sex and zip, 1,000 codes of very different size; or three distinct keys."""
    import tempfile
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    from sfumato.data.store import open_file
    from sfumato.schema import Attribute, PrefixHierarchy, Role, Scale, Schema

    g = np.random.default_rng(2)
    if engine == "distinct":
        keys = {name: g.standard_normal(records) for name in ("income", "height", "weight")}
        noisy_keys = {name: x + g.standard_normal(records) for name, x in keys.items()}
        return pa.table(keys), pa.table(noisy_keys), Schema(tuple(Attribute(name, Role.KEY) for name in keys))
    age = np.clip(g.normal(45, 24, records).round(), 0, 100)
    zips = pa.array([f"48{k:03d}" for k in range(1_000)])
    rank = (1_000 * g.random(records) ** 3).astype(np.int32)
    sex = pa.array(["female", "male"]).take(pa.array(g.integers(0, 2, records)))
    moved = np.where(g.random(records) < 0.1, g.integers(0, 1_000, records), rank)
    noisy = np.clip((age + g.normal(0, 8, records)).round(), 0, 100)
    tables = [
        pa.table({"age": a.astype(np.int64), "sex": sex, "zip": zips.take(pa.array(z))})
        for a, z in ((age, rank), (noisy, moved))
    ]
    schema = Schema((
        Attribute("age", Role.KEY, integer=True),
        Attribute("sex", Role.KEY, Scale.UNORDERED),
        Attribute("zip", Role.KEY, Scale.PARTIALLY_ORDERED, hierarchy=PrefixHierarchy(5)),
    ))  # fmt: skip
    if engine == "memory":
        return tables[0], tables[1], schema
    folder = Path(tempfile.mkdtemp())
    opened = []
    for name, table in zip(("before", "after"), tables, strict=True):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
        opened.append(open_file(folder / f"{name}.parquet", engine="duckdb")[0])
    return opened[0], opened[1], schema


def holds(result: dict[str, float]) -> bool:
    return all(value <= 1 for what, value in result.items() if "ratio" in what or "failed" in what)
