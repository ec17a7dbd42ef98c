"""Counts and digests of the cells of a table of variables, found once and kept."""

from __future__ import annotations

import math
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
_FORESEEN = 100_000


@dataclass(frozen=True, eq=False)
class Cube:
    """Aggregates of every cell: arrays with one axis per variable. Confidential."""

    variables: tuple[Variable, ...]
    """In order of their names."""
    counts: NDArray[np.int64]
    digests: NDArray[np.int64]
    """Sums of a keyed random number of each record: the same for the same set of records, and for no other."""

    def tells(self, variables: Sequence[Variable]) -> bool:
        """Return whether the cube of some variables can be made from this one: it has them, or what they are recodes of."""
        names = {v.name for v in self.variables}
        return all(v.name in names or (v.base is not None and v.base.name in names) for v in variables)

    def margin(self, variables: Sequence[Variable]) -> Cube:
        """Return the cube of some variables that this one tells of, given in order of their names."""
        names = [v.name for v in self.variables]
        sources = [v.base if v.base is not None and v.name not in names else v for v in variables]
        axes = [names.index(v.name) for v in sources]
        gone = tuple(i for i in range(len(names)) if i not in axes)
        shape = [len(v.levels) for v in variables]
        sums = [values.sum(gone, keepdims=True) for values in (self.counts, self.digests)]
        if sources == list(variables):
            return Cube(tuple(variables), sums[0].reshape(shape), sums[1].reshape(shape))
        here = np.indices(sums[0].shape, sparse=True)
        places = tuple(
            here[axis] if source is v else np.array(v.groups)[here[axis]]
            for v, source, axis in zip(variables, sources, axes, strict=True)
        )
        grouped = [np.zeros(shape, np.int64) for _ in sums]
        for values, out in zip(sums, grouped, strict=True):
            np.add.at(out, places, values)
        return Cube(tuple(variables), grouped[0], grouped[1])

    def count(self, selection: Selection) -> int:
        """Return how many records a selection has, of variables of this cube."""
        return int(self.counts[spread(selection, self.variables)].sum())

    def digest(self, selection: Selection) -> int:
        """Return the digest of the records of a selection."""
        return int(self.digests[spread(selection, self.variables)].sum())


class Cubes:
    """The cubes of one data set: asked for on first use, kept while there is room, the smaller ones made from larger ones."""

    def __init__(self, warehouse: Warehouse, written: Cube | None = None) -> None:
        self._warehouse = warehouse
        self._written = (written,) if written is not None else ()
        self._kept: OrderedDict[tuple[str, ...], Cube] = OrderedDict()
        self._lock = threading.Lock()

    def ready(self, variables: Sequence[Variable]) -> bool:
        """Return whether the cube of some variables is there, or can be made without a look at the records."""
        sizes = {v.name: len(v.levels) for v in variables}
        return math.prod(sizes.values()) <= _CELLS and bool(self._wider(variables))

    def foresee(self, variables: Sequence[Variable]) -> None:
        """Make one cube for what rules and a table will ask for, if it is small: one pass in place of two."""
        bases = {v.name: v for v in (variable.base or variable for variable in variables)}.values()
        if math.prod(len(v.levels) for v in bases) <= _FORESEEN and not self.ready(tuple(bases)):
            self.of(tuple(bases))

    def of(self, variables: Sequence[Variable]) -> Cube:
        """Return the cube of some variables."""
        wanted = tuple(sorted({v.name: v for v in variables}.values(), key=lambda v: v.name))
        names = tuple(v.name for v in wanted)
        with self._lock:
            if names in self._kept:
                self._kept.move_to_end(names)
                return self._kept[names]
        if math.prod(len(v.levels) for v in wanted) > _CELLS:
            raise DataError(
                f"the table of {len(wanted)} variables would have more than {_CELLS:,} cells. Use fewer or coarser variables."
            )
        wider = self._wider(wanted)
        made = min(wider, key=lambda cube: cube.counts.size).margin(wanted) if wider else self._made(wanted)
        with self._lock:
            self._kept[names] = made
            while sum(cube.counts.size for cube in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made

    def _wider(self, variables: Sequence[Variable]) -> list[Cube]:
        """Return the cubes that tell of some variables."""
        with self._lock:
            return [cube for cube in (*self._kept.values(), *self._written) if cube.tells(variables)]

    def _made(self, variables: tuple[Variable, ...]) -> Cube:
        shape = [len(v.levels) for v in variables]
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
