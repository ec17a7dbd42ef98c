"""MDAV of 6 columns, k = 3: 50,000 records in 1.2 CPU seconds with the groups of a full scan, 100,000 in 4, 1M in 120."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.files import baseline, peak, table

LIMITS = {50_000: 1.2, 100_000: 4.0, 1_000_000: 120.0}
"""CPU seconds for all of it: standardise, group, aggregate, verify. sdcMicro 5.8 takes 12.6 and 65 for the first two."""
TIMES = {50_000: 3, 100_000: 3, 1_000_000: 1}
"""Best of so many runs, as the peers were timed."""
SCANNED = 50_000
STRATA = 10_000
COPIES, MEGABYTES = 3, 300
"""Memory above the imports: three times the Arrow size and 300 MB, as for every method."""


def full_scan(x: Any, k: int) -> Any:
    """MDAV without an index: every distance, every time."""
    labels, free, made = np.full(len(x), -1), np.arange(len(x)), 0
    while len(free) >= 2 * k:
        left, q = len(free), x[free].mean(axis=0)
        for _ in range(2 if left >= 3 * k else 1):
            r = free[np.argmax(((x[free] - q) ** 2).sum(axis=1))]
            q = x[r]
            apart = ((x[free] - q) ** 2).sum(axis=1)
            apart[free == r] = -1
            labels[free[np.argpartition(apart, k - 1)[:k]]] = made
            free, made = free[labels[free] < 0], made + 1
    labels[free] = made
    return labels


def run() -> dict[str, float]:
    from sfumato.contract import Draws
    from sfumato.data.microdata import Microdata
    from sfumato.kernels.microaggregation import mdav
    from sfumato.masks import MDAV, VMDAV
    from sfumato.schema import Attribute, Role, Schema

    frame = table("numeric6_1000000")
    names = tuple(frame.column_names)
    schema = Schema(tuple(Attribute(n, Role.CONFIDENTIAL) for n in names))

    def seconds(mask: Any, records: int) -> float:
        part = table("numeric6_100000").slice(0, records) if records <= 100_000 else frame
        start = time.process_time()
        mask.apply(Microdata(part, schema), Draws(1)).masked.digest()
        return time.process_time() - start

    seconds(MDAV(), 300), seconds(VMDAV(), 300)  # compile
    before = baseline()
    result: dict[str, float] = {}
    for records, limit in LIMITS.items():
        best = min(seconds(MDAV(), records) for _ in range(TIMES[records]))
        result[f"CPU seconds, {records:,} records"] = best
        result[f"ratio to the limit, {records:,} records"] = best / limit
    result["peak memory above the imports, MB"] = peak() - before
    allowed = COPIES * frame.nbytes / 2**20 + MEGABYTES
    result["ratio to the memory allowed"] = (peak() - before) / allowed
    result["V-MDAV, CPU seconds, 100,000 records"] = seconds(VMDAV(), 100_000)

    strata = frame.append_column("stratum", [np.arange(len(frame)) % STRATA])
    data = Microdata(strata, Schema((*schema, Attribute("stratum", Role.KEY))))
    start = time.process_time()
    MDAV(columns=names, within=("stratum",)).apply(data, Draws(1)).masked.digest()
    result["CPU seconds, 10,000 strata of 100"] = time.process_time() - start

    x = np.column_stack([table("numeric6_100000")[n].to_numpy()[:SCANNED] for n in names])
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    start = time.process_time()
    scanned = full_scan(x, 3)
    result["full scan, CPU seconds, 50,000 records"] = time.process_time() - start
    result["records in another group than by scan"] = float((scanned != mdav(x, 3)).sum())
    return result


def holds(result: dict[str, float]) -> bool:
    within = all(value <= 1 for what, value in result.items() if what.startswith("ratio"))
    return within and result["records in another group than by scan"] == 0
