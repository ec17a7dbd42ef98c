"""How far the published table is from the original: the usual utility of rounding and adjustment."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.reader import reader_estimate
from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]


class TableDistance(TableMeasure):
    """One minus the distance of the published table from the original; 1 where nothing changed.

    The distance is a share: absolute, Σ|z − x| / Σ|x|; relative, the mean of |z − x| / |x|; squares, √(Σ(z − x)² / Σx²);
    Hellinger, √(½ Σ(√z − √x)² / Σx). Cells that are not published are estimated from those that are.
    """

    side: ClassVar[Side] = Side.UTILITY

    kind: str = param(
        default="absolute", doc="the distance: absolute, relative, of squares, or Hellinger",
        choices=("absolute", "relative", "squares", "hellinger"),
    )  # fmt: skip

    def assess(self, outcome: PublishedTable) -> Score:
        """Return one minus the distance; it can be negative where the change is larger than the table."""
        original = outcome.source(self.label()).value
        loss = distance(original, reader_estimate(outcome), self.kind)
        off = np.abs(reader_estimate(outcome) - original)
        return self.result(1 - loss, self.words(1 - loss), details={"mean change": float(off.mean()), "loss": loss})

    def words(self, value: float) -> str:
        """Return the distance in words."""
        return f"the published table is {digits(100 * (1 - value))} % away from the original ({self.kind} distance)"

    @property
    def variant(self) -> str:
        """Which distance."""
        return self.kind

    def label(self) -> str:
        """Return "closeness to the original"."""
        return "closeness to the original"


def distance(x: Numbers, z: Numbers, kind: str) -> float:
    """Return the distance of z from x as a share; cells of value 0 count in the relative one only where they changed, as 1."""
    if kind == "relative":
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(x != 0, np.abs(z - x) / np.abs(x), (z != 0).astype(np.float64))
        return float(each.mean())
    if kind == "hellinger":
        a, b = np.sqrt(np.maximum(x, 0.0)), np.sqrt(np.maximum(z, 0.0))
        over, under = ((b - a) ** 2).sum() / 2, (a**2).sum()
    elif kind == "squares":
        over, under = ((z - x) ** 2).sum(), (x**2).sum()
    else:
        over, under = np.abs(z - x).sum(), np.abs(x).sum()
    share = float(over / under) if under > 0 else float(over > 0)
    return share if kind == "absolute" else float(np.sqrt(share))
