"""Counts and digests of the cells of a table of variables, found once and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.mas.selection import Selection, spread
from sfumato.mas.variable import Variable

_CELLS = 4_000_000
_KEPT = 16_000_000


@dataclass(frozen=True, eq=False)
class Cube:
    """Aggregates of every cell: arrays with one axis per variable. Confidential."""

    variables: tuple[Variable, ...]
    """In order of their names."""
    counts: NDArray[np.int64]
    digests: NDArray[np.int64]
    """Sums of a keyed random number of each record: the same for the same set of records, and for no other."""

    def margin(self, variables: Sequence[Variable]) -> Cube:
        """Return the cube of some of the variables."""
        kept = {v.name for v in variables}
        gone = tuple(i for i, v in enumerate(self.variables) if v.name not in kept)
        if not gone:
            return self
        left = tuple(v for v in self.variables if v.name in kept)
        return Cube(left, np.asarray(self.counts.sum(gone)), np.asarray(self.digests.sum(gone)))

    def count(self, selection: Selection) -> int:
        """Return how many records a selection has, of variables of this cube."""
        return int(self.counts[spread(selection, self.variables)].sum())

    def digest(self, selection: Selection) -> int:
        """Return the digest of the records of a selection."""
        return int(self.digests[spread(selection, self.variables)].sum())


class Cubes:
    """The cubes of one data set: asked for on first use, kept while there is room, the smaller ones made from larger ones."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._kept: OrderedDict[tuple[str, ...], Cube] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, variables: Sequence[Variable]) -> Cube:
        """Return the cube of some variables."""
        wanted = tuple(sorted({v.name: v for v in variables}.values(), key=lambda v: v.name))
        names = tuple(v.name for v in wanted)
        with self._lock:
            if names in self._kept:
                self._kept.move_to_end(names)
                return self._kept[names]
            wider = [kept for kept in self._kept if set(names) <= set(kept)]
            nearest = self._kept[min(wider, key=lambda kept: self._kept[kept].counts.size)] if wider else None
        made = self._made(wanted) if nearest is None else nearest.margin(wanted)
        with self._lock:
            self._kept[names] = made
            while sum(cube.counts.size for cube in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made

    def _made(self, variables: tuple[Variable, ...]) -> Cube:
        shape = [len(v.levels) for v in variables]
        if np.prod([float(n) for n in shape]) > _CELLS:
            raise DataError(
                f"the table of {len(variables)} variables would have more than {_CELLS:,} cells. Use fewer or coarser variables."
            )
        columns = [f"c{i}" for i in range(len(variables))]
        by = f" GROUP BY {', '.join(v.codes for v in variables)}" if columns else ""
        coded = [f"{v.codes} AS {column}" for v, column in zip(variables, columns, strict=True)]
        listed = ", ".join([*coded, "count(*) AS n", "sum(CAST(r AS BIGINT)) AS d"])
        found = self._warehouse.ask(f"SELECT {listed} FROM records{by}")  # noqa: S608 - names of our own
        shaped = [in_cells(found, columns, shape, name) for name in ("n", "d")]
        return Cube(variables, shaped[0], shaped[1])


def in_cells(
    found: Mapping[str, NDArray[Any]], columns: Sequence[str], shape: Sequence[int], name: str
) -> NDArray[Any]:
    """Return a column of an aggregate as an array with one axis per variable; 0 in cells without records."""
    values = np.nan_to_num(found[name])
    out = np.zeros(shape, values.dtype)
    at = np.ravel_multi_index([found[c] for c in columns], tuple(shape)) if columns else np.zeros(1, np.int64)
    out.reshape(-1)[at] = values
    return out
