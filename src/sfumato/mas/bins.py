"""A variable of numbers as the side of a table: bins that are made while the table is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.variable import MISSING, Variable


@dataclass(frozen=True)
class Bins(Variable):
    """Bins of a variable that is not coded so in the prepared records; the last level holds records without a value.

    Bin i holds what is above edge i − 1 and at most edge i, as with cutpoints.
    """

    @classmethod
    def of(cls, variable: Variable, edges: Sequence[float]) -> Bins:
        """Return a variable cut at some edges. Its name says where, so that other edges are another variable."""
        cut = Cutpoints(tuple(edges), whole=variable.integer, unit=variable.unit)
        taken = {f.name: getattr(variable, f.name) for f in fields(variable)}
        name = f"{variable.name}\x1f{','.join(f'{e!r}' for e in cut.edges)}"
        return cls(**{**taken, "name": name, "levels": (*cut.labels, MISSING), "cutpoints": cut})

    @property
    def edges(self) -> tuple[float, ...]:
        """Where the bins end; the last one is open."""
        return self.cutpoints.edges if self.cutpoints is not None else ()

    @property
    def codes(self) -> str:
        """Return SQL for the number of a record's bin."""
        edges = self.edges
        return f"CASE WHEN {self.numbers} IS NULL THEN {len(edges) + 1} ELSE {self._bisected(0, len(edges))} END"

    def _bisected(self, low: int, high: int) -> str:
        """Return SQL for the bin, which is known to be from `low` to `high`."""
        if low == high:
            return str(low)
        middle = (low + high) // 2
        edge = float(self.edges[middle])
        return (
            f"CASE WHEN {self.numbers} <= {edge!r} THEN {self._bisected(low, middle)} "
            f"ELSE {self._bisected(middle + 1, high)} END"
        )
