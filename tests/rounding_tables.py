"""Small tables for the tests of rounding and adjustment, and what brute force says about them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.contract import param
from sfumato.schema import TreeHierarchy
from sfumato.tables import Sensitivity, SensitivityRule, Table

FILES = Path(__file__).parents[2] / "shared" / "data" / "tables"


class SmallValues(SensitivityRule):
    """Cells of up to `most`, zeros apart, are unsafe and need `level` on both sides: a rule for these tests."""

    most: float = param(3, doc="largest unsafe value", low=0)
    level: float = param(2, doc="protection on both sides", low=0)

    def label(self) -> str:
        return f"up to {self.most:g}"

    def assess(self, table: Table) -> Sensitivity:
        unsafe = (table.value > 0) & (table.value <= self.most)
        level = np.full(len(table), self.level)
        return Sensitivity.of(unsafe, level, np.minimum(level, table.value), self.label())


def counted(counts: Any, names: str = "abc") -> Table:
    """Return a table of counts with all margins, from an array with an axis for each dimension."""
    counts = np.asarray(counts)
    rows = [
        {**{names[d]: f"{names[d]}{i}" for d, i in enumerate(place)}, "n": int(counts[place])}
        for place in np.ndindex(*counts.shape)
    ]
    return Table.of(Microdata(pd.DataFrame(rows)), " * ".join(names[: counts.ndim]), count="n")


def linked(seed: int, records: int = 60, formula: str = "region * sector + kind * sector") -> Table:
    """Return linked tables of counts, with a hierarchy of regions."""
    g = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "region": g.choice(list("pqrs"), records), "sector": g.choice(["x", "y", "z"], records),
        "kind": g.choice(["k1", "k2"], records),
    })  # fmt: skip
    tree = TreeHierarchy.from_levels({"p": ["north"], "q": ["north"], "r": ["south"], "s": ["south"]})
    schema = Schema(tuple(
        Attribute(n, scale="unordered", role="other", hierarchy=tree if n == "region" else None) for n in frame
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), formula)


def shared(name: str, formula: str, count: str = "ant") -> Table:
    """Return a table of one of the shared frequency files."""
    path = FILES / f"ssbtools_{name}.csv"
    if not path.exists():
        pytest.skip(f"the shared file {path} is not here")
    frame = pd.read_csv(path)
    labels = [c for c in frame if c != count]
    return Table.of(Microdata(frame.astype(dict.fromkeys(labels, str))), formula, count=count)


def adds_up(table: Table, values: np.ndarray[Any, Any]) -> bool:
    """Whether values are sums of some leaves: the least-squares leaves give them back exactly."""
    R = table.cells.incidence.toarray()
    leaves = np.linalg.lstsq(R, values, rcond=None)[0]
    return bool(np.allclose(R @ leaves, values, atol=1e-6 * max(1.0, np.abs(values).max())))


def all_roundings(table: Table, base: int, steps: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    """Yield every additive table of multiples that is within so many steps of the two multiples beside each value."""
    R, value = table.cells.incidence.toarray(), table.value
    low = np.maximum(np.floor(value / base) - steps, 0)
    high = np.ceil(value / base) + steps
    own = table.totals / base
    options = [range(max(int(np.floor(v)) - steps, 0), int(np.ceil(v)) + steps + 1) for v in own]
    for pick in itertools.product(*options):
        times = R @ np.array(pick, float)
        if ((times >= low) & (times <= high)).all():
            yield base * times
