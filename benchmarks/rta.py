"""Random tabular adjustment of 40,000 contributors in 10,000 cells with hierarchies, audited: under 10 s and 2 GB.

Three dimensions, two with hierarchies; from the records to the published, audited table. Once with every enterprise a
contributor of its own, once with holdings that are in several leaves, and once with two thirds of all contributors in several
leaves, so that nearly all leaves hang together.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.files import baseline, peak

RECORDS, REGIONS, SECTORS, LEAST_CELLS = 40_000, 130, 18, 10_000
SECONDS, MEGABYTES = 10.0, 2048.0


def data(records: int = RECORDS) -> Any:
    from sfumato.datasets import business

    return business(records, regions=REGIONS, sectors=SECTORS)


def protect(records: Any, contributor: str) -> tuple[Any, float]:
    """Return the published table, and the CPU seconds it took from the records."""
    from sfumato import Draws
    from sfumato.tables import RTA, Table

    start = time.process_time()
    table = Table.of(
        records, "region * sector * kind", "turnover", contributor=contributor, size="employees", per_size="ratio"
    )
    published = RTA().protect(table, Draws(1))
    return published, time.process_time() - start


def spread(records: Any) -> Any:
    """Return records of which three and a half belong to a contributor, wherever they are: most are in several leaves."""
    import numpy as np
    from sfumato import Microdata

    frame = records.to_pandas().copy()
    frame["holding"] = np.random.default_rng(1).integers(0, int(len(frame) / 2.9), len(frame))
    return Microdata(frame, records.schema)


def run() -> dict[str, float]:
    ways = {"each on its own": "enterprise", "holdings": "holding"}
    small = data(2_000)
    for contributor in ways.values():
        protect(small, contributor)  # imports, and what is compiled
    records, before, result = data(), baseline(), {}
    for name, contributor in ways.items():
        published, seconds = protect(records, contributor)
        result[f"cells, {name}"] = float(len(published))
        result[f"contributors, {name}"] = float(len(published.original.contributions))
        result[f"CPU seconds, {name}"] = seconds
    result["megabytes"] = peak() - before
    return result


def holds(result: dict[str, float]) -> bool:
    sizes = all(v >= LEAST_CELLS for k, v in result.items() if k.startswith("cells"))
    return (
        sizes and result["megabytes"] < MEGABYTES and all(v < SECONDS for k, v in result.items() if k.startswith("CPU"))
    )
