"""Small cells for the tests of sensitivity rules, and the example files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.tables import Table

DATA = Path(__file__).parents[2] / "shared" / "data" / "tables"
LABELS = ("region", "owner", "waiver")

Cell = list[tuple[str, int, int, bool]]
"""Records: owner, value, weight, whether the owner waived protection."""


def table_of(cells: Sequence[Cell], weighted: bool = False) -> Table:
    """Return a table with one row per cell, each a region of its own."""
    rows = [(f"r{i}", *record) for i, cell in enumerate(cells) for record in cell]
    frame = pd.DataFrame(rows, columns=["region", "owner", "value", "weight", "waiver"])
    return of_frame(frame, weighted=weighted)


def of_frame(frame: pd.DataFrame, weighted: bool = False, **more: Any) -> Table:
    schema = Schema(
        tuple(
            Attribute(
                n,
                scale="unordered" if n in LABELS else "ordered",
                role="weight" if n == "weight" and weighted else "contributor" if n == "owner" else "other",
            )
            for n in frame
        )
    )
    more = {"waiver": "waiver", **more} if "waiver" in frame else more
    return Table.of(Microdata(frame, schema), "region - 1", "value", **more)


def random_cells(
    count: int, seed: int, weights: Iterable[int] = (1,), waivers: bool = True, most: int = 5
) -> list[Cell]:
    """Return small cells with ties, zeros, holdings with several records, and waivers that hold for an owner everywhere."""
    g = np.random.default_rng(seed)
    found = []
    for i in range(count):
        cell: Cell = []
        for owner in range(g.integers(1, most + 1)):
            weight, free = int(g.choice(list(weights))), bool(waivers and g.random() < 0.3)
            cell += [
                (f"{i}-{owner}", int(g.choice([0, 1, 2, 3, 5, 10, 20, 40])), weight, free)
                for _ in range(g.integers(1, 4))
            ]
        found.append(cell)
    return found


def in_order(table: Table, cells: Sequence[Cell]) -> list[Cell]:
    return [cells[int(label[1:])] for label in table.cells.labels[:, 0]]


def example(name: str, **kwargs: Any) -> pd.DataFrame:
    if not (DATA / name).exists():
        pytest.skip(f"the shared reference file {DATA / name} is not here")
    return pd.read_csv(DATA / name, **kwargs)
