"""Small protections and tables for the tests of what is measured, drawn and reported about published tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.contract import Draws, Guarantee, param
from sfumato.contract.parameters import _REGISTRY
from sfumato.tables import Protection, PublishedTable, Sensitivity, SensitivityRule, Status, Table


def firms(seed: int = 3, n: int = 40, **columns: Any) -> pd.DataFrame:
    """Return n firms in three regions and three sectors; a few own several."""
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(list("NSW"), n), "sector": g.choice(list("abc"), n), "owner": g.integers(0, n // 2, n),
        "turnover": np.round(g.lognormal(3, 1.2, n), 1), **columns,
    })  # fmt: skip


def table(frame: pd.DataFrame | None = None, formula: str = "region * sector", **options: Any) -> Table:
    """Return a table of turnover."""
    return Table.of(
        Microdata(firms() if frame is None else frame), formula, options.pop("variable", "turnover"), **options
    )


class HideCells(Protection):
    """Hide the cells at given positions; nobody knows anything of them but that they are not negative."""

    hidden: Any = param((), doc="positions of the cells to hide")

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        gone = np.zeros(len(table), bool)
        gone[list(self.hidden)] = True
        shown = PublishedTable.unprotected(table, self)
        status = np.where(gone, Status.SECONDARY, Status.SHOWN).astype(np.int8)
        status[list(self.hidden)[:1]] = Status.PRIMARY
        return shown.with_(
            values=np.where(gone, np.nan, shown.values), status=status,
            low=np.where(gone, 0.0 if table.nonnegative else -np.inf, shown.low), high=np.where(gone, np.inf, shown.high),
            guarantees=(Guarantee(self.name, "the cells named are hidden", "by construction"),),
        )  # fmt: skip

    def label(self) -> str:
        return f"{len(self.hidden)} hidden"


class RoundTo(Protection):
    """Round every cell to a multiple of a base, without regard to sums."""

    base: float = param(5.0, doc="the base", low=0, above=True, usual=(2, 50))

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        values = self.base * np.round(table.value / self.base)
        changed = np.full(len(table), Status.CHANGED, np.int8)
        half = self.base / 2
        return PublishedTable.unprotected(table, self).with_(
            values=values, status=changed, low=values - half, high=values + half
        )

    def label(self) -> str:
        return f"rounded to {self.base:g}"


class LeafNoise(Protection):
    """Add normal noise of one standard deviation to every leaf."""

    sd: float = param(3.0, doc="standard deviation", low=0, above=True, usual=(1, 30), published=False)

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self.sd * draws.child("leaves").normals(np.arange(table.cells.leaves), "noise")
        endless = np.full(len(table), np.inf)
        variance = np.full(table.cells.leaves, self.sd**2)
        return PublishedTable.unprotected(table, self).with_(
            values=table.cells.sums(table.totals + noise), status=np.full(len(table), Status.CHANGED, np.int8),
            low=-endless, high=endless, variance=table.cells.sums(variance), leaf_variance=variance,
        )  # fmt: skip

    def label(self) -> str:
        return f"noise of sd {self.sd:g}"


class CellNoise(Protection):
    """Add independent noise to every cell: what is published does not add up."""

    sd: float = param(3.0, doc="standard deviation", low=0, above=True, usual=(1, 30))

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self.sd * draws.child("cells").normals(np.arange(len(table)), "noise")
        endless = np.full(len(table), np.inf)
        return PublishedTable.unprotected(table, self).with_(
            values=table.value + noise, status=np.full(len(table), Status.CHANGED, np.int8), low=-endless, high=endless,
            variance=np.full(len(table), self.sd**2),
        )  # fmt: skip

    def label(self) -> str:
        return f"cell noise of sd {self.sd:g}"


class FewRecords(SensitivityRule):
    """Cells of fewer records than so many are unsafe, and must be hidden by a share of their value."""

    fewest: int = param(3, doc="fewest records of a safe cell", low=1, integer=True)
    share: float = param(0.5, doc="levels as a share of the value", low=0)

    def assess(self, table: Table) -> Sensitivity:
        unsafe = (table.frequency < self.fewest) & (table.frequency > 0)
        level = self.share * np.abs(table.value)
        return Sensitivity.of(unsafe, level, level, f"fewer than {self.fewest} records")

    def label(self) -> str:
        return f"at least {self.fewest} records"


for _family, _classes in (("protection", (HideCells, RoundTo, LeafNoise, CellNoise)), ("rule", (FewRecords,))):
    for _cls in _classes:  # they are the tests' own: not for the lists of what comes with sfumato
        _REGISTRY[_family].pop(_cls.name, None)
