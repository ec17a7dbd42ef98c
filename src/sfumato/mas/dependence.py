"""Variables of which one nearly determines another: found at registration, for the custodian to decide about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Rows
from sfumato.mas.prepare import codes_of
from sfumato.mas.variable import Variable
from sfumato.microdata import Microdata

Counts = NDArray[np.float64]
NEARLY = 0.9
RARE = 20
_CELLS = 4_000_000


@dataclass(frozen=True)
class Dependence:
    """One variable that nearly determines another; confidential."""

    one: str
    other: str
    share: float
    """How much of what is wrong in guesses of the other the one puts right: see `foretold`."""
    marks: tuple[str, str] = ("known", "known")

    def __str__(self) -> str:
        first = f"'{self.one}' tells '{self.other}' of nearly every record."
        if self.marks == ("known", "confidential"):
            return (
                f"{first} Who knows the first knows the second, which is marked confidential: mark it as known, leave one "
                "out, or make the first coarser."
            )
        if self.marks == ("confidential", "known"):
            return f"{first} Answers about the second tell the first: mark it as known, or leave one out."
        return (
            f"{first} Universes formed with both differ by few records, so that the rules on universes protect less: leave one "
            "out, or group its levels by a recode."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what TOML needs."""
        return {"one": self.one, "other": self.other, "share": round(self.share, 4), "marks": list(self.marks)}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Dependence:
        """Build from a TOML table; the inverse of `to_dict`."""
        return cls(table["one"], table["other"], float(table["share"]), (table["marks"][0], table["marks"][1]))


def foretold(table: Counts) -> float:
    """Return how much of what is wrong in guesses of the column the row puts right; shape of the table (rows, columns).

    Goodman and Kruskal's λ (1954): (right with the row − right without) / (wrong without). It is 0 if the row does not help, 1 if
    it determines the column, and, unlike the share of right guesses, not high merely because nearly all records have the same
    column. Each record is guessed from the others of its row: a row of one record tells nothing of its column.

    >>> foretold(np.array([[50.0, 0.0], [0.0, 50.0]])), foretold(np.array([[97.0, 1.0], [97.0, 1.0]]))
    (1.0, 0.0)
    """
    total, most = table.sum(), table.sum(axis=0).max(initial=0)
    if total <= most or table.shape[1] < 2:
        return 0.0  # the column has one level
    two = np.sort(table, axis=1)[:, -2:]
    right = two[:, 1][two[:, 1] - 1 > two[:, 0]].sum()
    return float(max(right - most, 0.0) / (total - most))


def pair_tables(data: Microdata, variables: Sequence[Variable]) -> Iterator[tuple[Variable, Variable, Counts]]:
    """Yield the table of every two variables, added up where the data live; several in one pass."""
    pairs: list[tuple[Variable, Variable]] = []
    cells = 0
    for one, other in itertools.combinations([v for v in variables if v.levels], 2):
        size = len(one.levels) * len(other.levels)
        if pairs and cells + size > _CELLS:
            yield from _tables(data, pairs)
            pairs, cells = [], 0
        pairs.append((one, other))
        cells += size
    if pairs:
        yield from _tables(data, pairs)


def _tables(data: Microdata, pairs: Sequence[tuple[Variable, Variable]]) -> Iterator[tuple[Variable, Variable, Counts]]:
    used = list({v.name: v for pair in pairs for v in pair}.values())
    schema = data.schema

    def counted(rows: Rows) -> Counts:
        codes = {v.name: codes_of(rows.columns[v.name], schema[v.name], v).astype(np.int64) for v in used}
        return np.concatenate([
            np.bincount(codes[a.name] * len(b.levels) + codes[b.name], minlength=len(a.levels) * len(b.levels))
            for a, b in pairs
        ]).astype(np.float64)  # fmt: skip

    found = data.engine.reduce(counted, [v.name for v in used])
    start = 0
    for one, other in pairs:
        shape = (len(one.levels), len(other.levels))
        yield one, other, found[start : start + shape[0] * shape[1]].reshape(shape)
        start += shape[0] * shape[1]


def find_dependent(data: Microdata, variables: Sequence[Variable]) -> tuple[Dependence, ...]:
    """Return the pairs of which one nearly determines the other, those that do so best first."""
    found = []
    for one, other, table in pair_tables(data, variables):
        for a, b, counts in ((one, other, table), (other, one, table.T)):
            if (share := foretold(counts)) >= NEARLY:
                marks = ("known" if a.known else "confidential", "known" if b.known else "confidential")
                found.append(Dependence(a.name, b.name, share, marks))
    return tuple(sorted(found, key=lambda d: (-d.share, d.one, d.other)))


def find_rare(data: Microdata, variables: Sequence[Variable]) -> dict[str, tuple[str, ...]]:
    """Return the levels that fewer than 20 records have, by variable: their names are shown to users."""
    used = [v for v in variables if v.levels and v.cutpoints is None]
    schema = data.schema
    if not used:
        return {}

    def counted(rows: Rows) -> Counts:
        return np.concatenate([
            np.bincount(codes_of(rows.columns[v.name], schema[v.name], v), minlength=len(v.levels)) for v in used
        ]).astype(np.float64)  # fmt: skip

    found = np.split(data.engine.reduce(counted, [v.name for v in used]), np.cumsum([len(v.levels) for v in used])[:-1])
    rare = {
        v.name: tuple(level for level, n in zip(v.levels, counts, strict=True) if n < RARE)
        for v, counts in zip(used, found, strict=True)
    }
    return {name: levels for name, levels in rare.items() if levels}
