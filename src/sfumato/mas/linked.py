"""Households and establishments: how many different ones the records of a set belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.warehouse import Warehouse
from sfumato.mas.cube import in_cells
from sfumato.mas.selection import Selection
from sfumato.mas.variable import Variable

UNITS = {"h": "households", "e": "establishments"}
"""Columns of the prepared records that say who belongs together, in words."""
_KEPT = 100_000


class Linked:
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
