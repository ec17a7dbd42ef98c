"""Counts and digests of the cells of a table of variables, found once and kept; households and establishments."""

from __future__ import annotations

import hashlib
import io
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.files import whole_file
from sfumato.mas.universe import Selection, spread
from sfumato.mas.variable import Variable, finest
from sfumato.typing import Whole

# --- linked
# Households and establishments: how many different ones the records of a set belong to.

UNITS = {"h": "households", "e": "establishments"}
"""Columns of the prepared records that say who belongs together, in words."""
_KEPT = 100_000


def largest_establishment(warehouse: Warehouse) -> int:
    """Return how many records the largest establishment has; 1 where records do not belong to any."""
    if "e" not in warehouse.columns:
        return 1
    found = warehouse.ask("SELECT max(n) AS n FROM (SELECT count(*) AS n FROM records GROUP BY e) AS establishments")
    return max(int(found["n"][0]), 1)


class UnitCounts:
    """Distinct units of sets and of cells, found by one aggregate and kept. Confidential."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._kept: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    def counts(self, sets: Mapping[bytes, Selection], unit: str) -> NDArray[np.float64]:
        """Return how many units each of some sets has, by their keys; shape (number of sets,)."""
        found = {key: self._kept[unit, key] for key in sets if (unit, key) in self._kept}
        if new := [key for key in sets if key not in found]:
            listed = ", ".join(
                f"count(DISTINCT CASE WHEN {sets[key].where()} THEN {unit} END) AS n{i}" for i, key in enumerate(new)
            )
            asked = self._warehouse.ask(f"SELECT {listed} FROM records")  # noqa: S608 - names of our own
            found |= {key: int(asked[f"n{i}"][0]) for i, key in enumerate(new)}
            self._kept.update({(unit, key): found[key] for key in new})
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return np.array([float(found[key]) for key in sets])

    def cells(self, variables: Sequence[Variable], unit: str) -> NDArray[np.int64]:
        """Return how many units each cell of a table has; one axis per variable."""
        columns = [v.codes for v in variables]
        by = f" GROUP BY {', '.join(columns)}" if columns else ""
        listed = ", ".join([*columns, f"count(DISTINCT {unit}) AS n"])
        found = self._warehouse.ask(f"SELECT {listed} FROM records{by}")  # noqa: S608 - names of our own
        return np.asarray(in_cells(found, columns, [len(v.levels) for v in variables], "n"), np.int64)


# --- cube
# Counts and digests of the cells of a table of variables, found once and kept.


_CELLS = 4_000_000
_KEPT_CUBES = 16_000_000
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
            while sum(cube.counts.size for cube in self._kept.values()) > _KEPT_CUBES and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made

    def within(self, selection: Selection, sides: Sequence[Variable]) -> tuple[Whole, Whole]:
        """Return counts and digests of the cells of some sides, of the records of a selection; axes in the order of the sides."""
        cube = self.of((*selection.variables, *sides))
        inside = spread(selection, cube.variables)
        chosen = Cube(cube.variables, np.where(inside, cube.counts, 0), np.where(inside, cube.digests, 0))
        order = sorted(sides, key=lambda v: v.name)
        found = chosen.margin(order)
        axes = [order.index(v) for v in sides]
        return found.counts.transpose(axes), found.digests.transpose(axes)

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


# --- written cube
# The cube of known variables that a frozen version keeps beside its records: what it tells needs no pass over these.
#
# Confidential, as the records are. It is a table, and not the records in other words: at most one cell for 100 of them.


_FILE = "cube.npz"
_WRITTEN_CELLS = 100_000
_RECORDS = 100
"""Records for each cell on average, at least: so it is an aggregate, also as what leaves Spark."""


def write_cube(folder: Path, warehouse: Warehouse, variables: Mapping[str, Variable]) -> str:
    """Write the cube of as many known variables as there is room for; return a digest of the file."""
    n = int(warehouse.ask("SELECT count(*) AS n FROM records")["n"][0])
    cube = Cubes(warehouse).of(finest(variables, min(_WRITTEN_CELLS, n // _RECORDS)))
    packed = io.BytesIO()
    names = np.array([v.name for v in cube.variables], np.str_)
    np.savez(packed, allow_pickle=False, names=names, counts=cube.counts, digests=cube.digests)
    with whole_file(folder / _FILE, mode=0o600) as temporary:
        temporary.write_bytes(packed.getbuffer())
    return _digest(packed.getvalue())


def read_cube(folder: Path, digest: str, variables: Mapping[str, Variable]) -> Cube | None:
    """Read the cube again; None if it is gone, for all of it can be found in the records. Another one is refused."""
    path = folder / _FILE
    if not path.exists():
        return None
    content = path.read_bytes()
    if _digest(content) != digest:
        raise DataError(
            f"{path} is damaged, or was written for other records. Remove it: counts are then taken from the records, as before, "
            "and only first questions take longer."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return Cube(tuple(variables[name] for name in found["names"].tolist()), found["counts"], found["digests"])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
