"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Section
from sfumato.errors import ParameterError
from sfumato.tables.audit.certificate import Certificate, bound, equation
from sfumato.tables.audit.insiders import Insider
from sfumato.tables.audit.knowledge import Knowledge
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rule import Sensitivity

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.tables.rta.posterior_audit import PairAudit

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
EXPLAINED = 20
"""How many disclosed cells are explained without being asked for."""


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What a reader of a published table works out: for the custodian, who decides whether it can be published.

    Its words and `frame()` hold what follows from the published table alone, and no contributor's value; `frame(custodian=True)`
    adds true values and protection levels.
    """

    published: PublishedTable
    known: Knowledge = field(repr=False)
    """What the reader was taken to know."""
    examined: Flags
    """Which cells were looked at: those that are not shown as they are; shape (cells,). So are the next five."""
    low: Numbers
    """The smallest value that fits everything published."""
    high: Numbers
    exact: Flags
    """Cells whose value follows exactly, or that are shown although a rule calls them unsafe."""
    near: Flags
    """Cells whose value follows nearly: the interval is shorter than it must be."""
    sensitive: Flags
    """Cells that must not be worked out: those that the rules call unsafe, else the primary suppressions, else all."""
    tolerance: float
    rules: tuple[str, ...] = ()
    """The sensitivity rules in words, where there are any."""
    sensitivity: Sensitivity | None = field(default=None, repr=False)
    insiders: tuple[Insider, ...] = field(default=(), repr=False)
    """Contributors who, knowing their own figures, work out a sensitive cell: confidential."""
    pairs: PairAudit | None = None
    """What every contributor learns of every other, where noise was added and a prior was given."""
    notes: tuple[str, ...] = ()
    """What was not looked at."""
    bounds: tuple[Numbers, Numbers] | None = field(default=None, repr=False)
    """`low` and `high` before whole numbers were looked for."""
    differences: tuple[tuple[int, int], ...] = ()
    """Pairs of shown cells, the second inside the first, whose difference is in no cell and unsafe by a rule."""

    def __repr__(self) -> str:
        return f"Audit({self.headline})"

    def __str__(self) -> str:
        from sfumato.tables.audit.words import page

        return page(self)

    @property
    def shown(self) -> Flags:
        """Cells that are published as they are, or that the reader was said to know; shape (cells,)."""
        return np.asarray(self.known.shown | (self.published.status == Status.SHOWN))

    @property
    def disclosed(self) -> Flags:
        """Sensitive cells that are disclosed to everybody, exactly or nearly; shape (cells,)."""
        return (self.exact | self.near) & self.sensitive

    @property
    def safe(self) -> bool:
        """Whether nothing sensitive was found to be disclosed, to everybody or to a contributor."""
        learned = self.pairs is not None and not self.pairs.holds
        return not (self.disclosed.any() or self.insiders or self.differences or learned)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many cells there are of every sort."""
        insiders = {i.cell for i in self.insiders if not self.disclosed[i.cell]}
        return {
            "cells": len(self.published),
            "not shown": int(self.examined.sum()),
            "exactly disclosed": int((self.exact & self.sensitive).sum()),
            "approximately disclosed": int((self.near & self.sensitive).sum()),
            "known to a contributor": len(insiders),
            "harmless": int(((self.exact | self.near) & ~self.sensitive).sum()),
            "protected": int((self.examined & ~self.exact & ~self.near).sum()) - len(insiders),
        }

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        from sfumato.tables.audit.words import headline

        return headline(self)

    @cached_property
    def relative_width(self) -> Numbers:
        """How long the interval of each cell is, relative to the value (to its middle where that is not known)."""
        original = self.published.original
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = (self.low + self.high) / 2 if original is None else original.value
            width = np.where(np.isinf(self.high) | np.isinf(self.low), np.inf, self.high - self.low)
            return np.asarray(np.where(width == 0, 0.0, width / np.abs(middle)))

    @property
    def worst(self) -> int | None:
        """The sensitive cell that was looked at and has the shortest interval relative to its value; None if there is none."""
        here = np.flatnonzero((self.examined | self.exact) & self.sensitive)
        if not len(here):
            return None
        return int(here[np.lexsort((self.relative_width[here], ~self.exact[here]))[0]])

    def explain(self, cell: int) -> tuple[Certificate, ...]:
        """Return the equations from which a cell follows: one, or two where bounds are needed, above and below.

        Cells that are protected have them too: why their interval is no longer than it is. None for a cell that is shown,
        and where nothing is known.
        """
        if not 0 <= cell < len(self.published):
            raise ParameterError(f"there is no cell {cell}: the table has {len(self.published):,}, counted from 0.")
        if self.shown[cell]:
            return ()
        if self.exact[cell] and (found := equation(self.known, cell)) is not None:
            return (found,)
        low, high = (self.low, self.high) if self.bounds is None else self.bounds
        sides = (
            bound(self.known, cell, "≥", float(low[cell])) if np.isfinite(low[cell]) else None,
            bound(self.known, cell, "≤", float(high[cell])) if np.isfinite(high[cell]) else None,
        )
        return tuple(side for side in sides if side is not None)

    @cached_property
    def certificates(self) -> tuple[Certificate, ...]:
        """Why the first disclosed cells are: exactly disclosed ones first; `explain` tells of any other."""
        at = np.flatnonzero(self.disclosed)
        order = at[np.lexsort((at, ~self.exact[at]))][:EXPLAINED]
        return tuple(found for cell in order.tolist() for found in self.explain(cell))

    @property
    def verdicts(self) -> NDArray[np.object_]:
        """For every cell: "shown", "exactly disclosed", "approximately disclosed", "known to a contributor" or "protected"."""
        said = np.where(self.examined, "protected", np.where(self.shown, "shown", "not examined")).astype(object)
        said[list({i.cell for i in self.insiders})] = "known to a contributor"
        said[self.near] = "approximately disclosed"
        said[self.exact] = "exactly disclosed"
        return said

    def frame(self, custodian: bool = False) -> pd.DataFrame:
        """Return every cell with its interval and verdict; `custodian` adds true values and what the rules ask for."""
        import pandas as pd

        cells = self.published.cells
        why: dict[int, str] = {}
        for found in self.certificates:
            why[found.cell] = "; ".join(filter(None, (why.get(found.cell, ""), found.words)))
        columns: dict[str, Any] = {d: cells.labels[:, i] for i, d in enumerate(cells.dimensions)}
        columns |= {
            "low": self.low, "high": self.high, "relative_width": self.relative_width if custodian else self._public_width,
            "verdict": self.verdicts, "sensitive": self.sensitive & (self.examined | self.exact),
            "because": [why.get(i, "") for i in range(len(cells))],
        }  # fmt: skip
        if custodian:
            columns["value"] = self.published.source("the custodian's frame").value
            if self.sensitivity is not None:
                names = ("upper", "lower", "width")
                columns |= {f"required_{name}": getattr(self.sensitivity, name) for name in names}
                columns["rule"] = self.sensitivity.reasons
        return pd.DataFrame(columns)

    @property
    def _public_width(self) -> Numbers:
        """Relative to the middle of the interval, which everybody can compute."""
        with np.errstate(invalid="ignore", divide="ignore"):
            width = np.where(np.isinf(self.high) | np.isinf(self.low), np.inf, self.high - self.low)
            return np.asarray(np.where(width == 0, 0.0, width / np.abs((self.low + self.high) / 2)))

    def to_dict(self) -> dict[str, Any]:
        """Return the findings for machines: counts, and the disclosed cells with their equations; no values."""
        from sfumato.tables.audit.words import findings

        return findings(self)

    def section(self) -> Section:
        """Return the audit as a section of a report."""
        from sfumato.tables.audit.words import section

        return section(self)
