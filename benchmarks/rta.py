"""Random tabular adjustment of 40,000 contributors in 10,000 cells with hierarchies, audited: under 10 s and 2 GB; linked, too.

Three dimensions, two with hierarchies; from the records to the published, audited table. Once with every enterprise a
contributor of its own, once with holdings that are in several leaves, and once with two thirds of all contributors in several
leaves, so that nearly all leaves hang together. Two linked tables of 10,000 cells each, the pair of the benchmark of suppression,
are adjusted in one go in under 30 s.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.files import baseline, peak
from benchmarks.suppression import LINKED
from benchmarks.suppression import RECORDS as LINKED_RECORDS
from benchmarks.suppression import business as enterprises

RECORDS, REGIONS, SECTORS, LEAST_CELLS = 40_000, 130, 18, 10_000
SECONDS, PAIR_SECONDS, MEGABYTES = 10.0, 30.0, 2048.0


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


def everywhere(contributors: int = RECORDS, leaves: int = 4_720) -> Any:
    """Return records; two thirds of the contributors have several, anywhere, so that nearly all leaves are linked."""
    import numpy as np
    import pandas as pd

    from sfumato import Microdata

    g = np.random.default_rng(1)
    owner = np.repeat(
        np.arange(contributors), np.where(g.random(contributors) < 0.33, 1, g.integers(2, 5, contributors))
    )
    place = g.integers(0, leaves, len(owner))
    region, sector = place // 40, place // 4 % 10
    frame = pd.DataFrame({
        "region": region, "region_group": region // 8, "sector": sector, "sector_group": sector // 3, "kind": place % 4,
        "owner": owner, "turnover": np.round(g.lognormal(3, 1.5, len(owner)), 1),
    })  # fmt: skip
    return Microdata(frame)


def protect_linked(records: Any) -> tuple[Any, float]:
    """Return the published table of `everywhere`, and the CPU seconds it took from the records."""
    from sfumato import Draws
    from sfumato.tables import RTA, Table

    start = time.process_time()
    formula = "(region + region_group) * (sector + sector_group) * kind"
    published = RTA().protect(Table.of(records, formula, "turnover", contributor="owner"), Draws(1))
    return published, time.process_time() - start


def protect_pair(records: Any) -> tuple[Any, float]:
    """Return two linked tables, published together, and the CPU seconds it took from the records."""
    from sfumato import Draws
    from sfumato.tables import RTA, Table

    start = time.process_time()
    published = RTA().protect(Table.of(records, LINKED, "value"), Draws(1))
    return published, time.process_time() - start


def least_of_pair(published: Any) -> int:
    """Return how many cells the smaller of the two linked tables has: by kind, and by size."""
    from sfumato.tables.cells import TOTAL

    cells = published.cells
    return min(int((cells.labels[:, cells.dimensions.index(d)] == TOTAL).sum()) for d in ("kind", "size"))


def run() -> dict[str, float]:
    ways = {"each on its own": "enterprise", "holdings": "holding"}
    small = data(2_000)
    for contributor in ways.values():
        protect(small, contributor)  # imports, and what is compiled
    protect_linked(everywhere(3_000, 1_200))
    records, before, result = data(), baseline(), {}
    for name, contributor in ways.items():
        published, seconds = protect(records, contributor)
        result[f"cells, {name}"] = float(len(published))
        result[f"contributors, {name}"] = float(len(published.original.contributions))
        result[f"CPU seconds, {name}"] = seconds
    published, seconds = protect_linked(everywhere())
    result["cells, two thirds in several leaves"] = float(len(published))
    result["contributors, two thirds in several leaves"] = float(len(published.original.contributions))
    result["CPU seconds, two thirds in several leaves"] = seconds
    pair, seconds = protect_pair(enterprises(54, 25, 4, LINKED_RECORDS, sizes=4))
    result["cells, the smaller of two linked tables"] = float(least_of_pair(pair))
    result["contributors, two linked tables"] = float(len(pair.original.contributions))
    result["seconds of CPU, two linked tables"] = seconds
    result["megabytes"] = peak() - before
    return result


def holds(result: dict[str, float]) -> bool:
    sizes = all(v >= LEAST_CELLS for k, v in result.items() if k.startswith("cells"))
    quick = all(v < SECONDS for k, v in result.items() if k.startswith("CPU"))
    return (
        sizes
        and quick
        and result["seconds of CPU, two linked tables"] < PAIR_SECONDS
        and result["megabytes"] < MEGABYTES
    )
