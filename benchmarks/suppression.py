"""Suppression with the audit of every interval: business_8000 in 4 s; 10,000 cells, 40,000 contributors in 60 s; linked ones."""

from __future__ import annotations

import time
from typing import Any

P = 10
FORMULA = "(region + region_group) * (sector + sector_group) * kind"
LINKED = f"{FORMULA} + (region + region_group) * (sector + sector_group) * size"
TOLERANCE = 1e-6


def business(regions: int, sectors: int, kinds: int, n: int, sizes: int = 0) -> Any:
    """Return the records of the business files that peers were measured with: 40 regions, 15 sectors, 4 kinds for 8,000."""
    import numpy as np
    import pandas as pd

    from sfumato import Attribute, Microdata, Schema
    from sfumato.schema import Role, Scale

    rng = np.random.default_rng(1)
    p = 1 / np.arange(1, regions + 1)
    region = rng.choice(regions, n, p=p / p.sum())
    sector = rng.integers(0, sectors, n)
    frame = pd.DataFrame({
        "region": [f"r{i + 1:03d}" for i in region], "region_group": [f"R{i // 5:02d}" for i in region],
        "sector": [f"s{i + 1:02d}" for i in sector], "sector_group": [f"S{i // 5}" for i in sector],
        "kind": [f"k{i + 1}" for i in rng.integers(0, kinds, n)],
        "contributor": [f"e{i + 1:05d}" for i in rng.integers(0, n // 2, n)],
        "value": np.round(rng.lognormal(3, 1.5, n)),
    })  # fmt: skip
    if sizes:
        frame["size"] = [f"z{i + 1:03d}" for i in rng.integers(0, sizes, n)]
    return Microdata(frame, Schema(tuple(
        Attribute(str(c), role=Role.CONTRIBUTOR if c == "contributor" else Role.OTHER,
                  scale=Scale.ORDERED if c == "value" else Scale.UNORDERED) for c in frame
    )))  # fmt: skip


def too_short(published: Any, rule: Any) -> int:
    """Return how many unsafe cells have an interval that is too short, all by linear programs."""
    import numpy as np

    from sfumato.tables.attacker import Attacker

    table = published.original
    found = rule.assess(table)
    cells = np.flatnonzero(found.unsafe)
    attacker = Attacker(table.cells, published.low, published.high, 0.0, near=table.totals)
    low, high = attacker.intervals(cells)
    slack = TOLERANCE * np.abs(table.value[cells])
    short = (high < table.value[cells] + found.upper[cells] - slack) | (
        low > table.value[cells] - found.lower[cells] + slack
    )
    return int(short.sum())


def measured(table: Any, rule: Any) -> tuple[Any, float]:
    """Return the protected table and the CPU seconds it took."""
    from sfumato import Draws
    from sfumato.tables.suppression import Suppression

    start = time.process_time()
    published = Suppression.from_dict({"rules": rule}).protect(table, Draws(1))
    return published, time.process_time() - start


def run() -> dict[str, float]:
    from sfumato.tables import PPercent, Table

    rule = PPercent(P)
    measured(Table.of(business(10, 10, 2, 400), FORMULA, "value"), rule)  # compiles
    result: dict[str, float] = {}
    start = time.process_time()
    table = Table.of(business(40, 15, 4, 8000), FORMULA, "value", empty=True)
    result["business_8000: seconds to make the table"] = time.process_time() - start
    result["cells"] = float(len(table))
    published, seconds = measured(table, rule)
    result["unsafe"] = float((published.status == 1).sum())
    result["hidden"] = float(published.suppressed.sum())
    result["CPU seconds, with the audit"] = seconds
    result["intervals too short"] = float(too_short(published, rule))
    large = Table.of(business(54, 25, 4, 80_000), FORMULA, "value", empty=True)
    result["40,000 contributors: cells"] = float(len(large))
    published, seconds = measured(large, rule)
    result["large: unsafe"] = float((published.status == 1).sum())
    result["large: hidden"] = float(published.suppressed.sum())
    result["large: CPU seconds, with the audit"] = seconds
    result["large: intervals too short"] = float(too_short(published, rule))
    linked = Table.of(business(54, 25, 4, 80_000, sizes=4), LINKED, "value")
    result["linked tables: cells"] = float(len(linked))
    published, seconds = measured(linked, rule)
    result["linked: hidden"] = float(published.suppressed.sum())
    result["linked: CPU seconds, with the audit"] = seconds
    return result


def holds(result: dict[str, float]) -> bool:
    return bool(
        result["CPU seconds, with the audit"] <= 4
        and result["intervals too short"] == 0
        and result["large: CPU seconds, with the audit"] <= 60
        and result["large: intervals too short"] == 0
    )
