"""What is published of a table, and what anybody can be sure of when they read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Guarantee
from sfumato.errors import DataError, NotApplicable
from sfumato.tables.cells import Cells

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from sfumato.tables.protection import Protection
    from sfumato.tables.rta.record import Record
    from sfumato.tables.table import Table
    from sfumato.tables.tree import Nested

Numbers = NDArray[np.float64]


class Status(IntEnum):
    """What happened to a cell."""

    SHOWN = 0
    """The value is published as it is."""
    PRIMARY = 1
    """Not published, because it would disclose a contributor."""
    SECONDARY = 2
    """Not published, because other cells could be worked out from it."""
    CHANGED = 3
    """Another value is published: adjusted, rounded or perturbed."""


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A protected table: what the public sees, and beside it, for the custodian alone, what it was made from.

    `low` and `high` say for every cell between which values everybody can be sure that the true one lies, before any
    arithmetic with other cells: both are the value where it is shown, a whole rounding base around it where it was rounded,
    and the a-priori bounds where it is not published. `variance` is that of a random adjustment, as published; where there is
    one, nothing is sure, and `low` and `high` are infinite.
    """

    cells: Cells
    values: Numbers
    """Shape (cells,), NaN where nothing is published."""
    status: NDArray[np.int8]
    """A `Status` for every cell."""
    low: Numbers
    high: Numbers
    variance: Numbers | None = None
    """The published variance of the adjustment of every cell, shape (cells,); None for a method without one."""
    quality: NDArray[np.object_] | None = None
    """A code for the quality of every cell, where one is published."""
    leaf_variance: Numbers | None = field(default=None, repr=False)
    """The variance that was added to every leaf, shape (leaves,): confidential unless variances are published exactly."""
    variable: str = ""
    unit: str = ""
    decimals: int | None = None
    original: Table | None = field(default=None, repr=False)
    """What it was made from: confidential. None for a table of which only the published form is known."""
    protection: Protection | None = None
    guarantees: tuple[Guarantee, ...] = ()
    record: Record | None = field(default=None, repr=False)
    """What random adjustment must remember for later tables of the same data: confidential."""

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        gone = int(np.isnan(self.values).sum())
        return f"PublishedTable({len(self):,} cells, {gone:,} not published)"

    @classmethod
    def shown(cls, table: Table, protection: Protection | None = None) -> PublishedTable:
        """Return a table with all cells published as they are: where every protection starts."""
        value = table.value
        return cls(
            table.cells, value.copy(), np.zeros(len(table), np.int8), value.copy(), value.copy(),
            variable=table.variable, unit=table.unit, decimals=table.decimals, original=table, protection=protection,
        )  # fmt: skip

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        dimensions: Sequence[str] | Mapping[str, Nested],
        value: str,
        *,
        status: str | None = None,
        variance: str | None = None,
        total: str | Mapping[str, str | None] | None = None,
        marks: Sequence[str] = (),
        within: float = 0.0,
        absent: Literal["empty", "suppressed"] = "empty",
        nonnegative: bool | None = None,
        unit: str = "",
        original: Table | None = None,
    ) -> PublishedTable:
        """Return a table that somebody published, from a frame with a row for each cell.

        Parameters
        ----------
        frame
            Pandas, polars or Arrow; margins are rows as well.
        dimensions
            The columns of labels; with subtotals, a mapping of each to how its labels nest: a `Hierarchy`, the name of an .hrc
            file, ``{label: label above it}``, or None for a single level.
        value
            The column of figures. Nothing, NaN, and marks such as x, c, : or .. stand for figures that are not shown.
        status
            A column of flags that may also say so, with the same marks, or that a figure was changed.
        variance
            A column with the published variance of random noise.
        total
            The label of a margin; a mapping from dimensions to labels where they differ; usual names are found by themselves.
        marks
            Marks that stand for a figure that is not shown, besides the usual ones.
        within
            How far a shown figure may be from the true one: half a unit of the last digit for figures rounded one by one, the
            base for controlled or random rounding.
        absent
            What it means that a combination of labels has no row: that it is "empty", or that its row was left out because it
            is "suppressed".
        nonnegative
            Whether everybody knows that no figure is below 0; if not given, whether none of the shown ones is.
        unit
            In which unit the figures are.
        original
            The table that it was made from, for the custodian: then rules and contributors can be looked at too.

        Examples
        --------
        >>> import pandas as pd
        >>> read = pd.DataFrame({"region": ["N", "S", "Total"], "turnover": ["12", "c", "20"]})
        >>> PublishedTable.from_frame(read, ["region"], "turnover")
        PublishedTable(3 cells, 1 not published)
        """
        from sfumato.tables.from_published import from_published
        from sfumato.tables.published_marks import MARKS

        return from_published(
            frame, dimensions, value, status, variance, total, (*MARKS, *marks), within, absent,
            nonnegative, unit, original,
        )  # fmt: skip

    @cached_property
    def suppressed(self) -> NDArray[np.bool_]:
        """Which cells are not published, shape (cells,)."""
        return np.isin(self.status, (Status.PRIMARY, Status.SECONDARY))

    def source(self, purpose: str) -> Table:
        """Return the table it was made from; refused where it is not known."""
        if self.original is None:
            raise NotApplicable(
                f"{purpose} needs the table as it was before protection, and only the published one is known."
            )
        return self.original

    def with_(self, **changes: Any) -> PublishedTable:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def frame(self) -> pd.DataFrame:
        """Return what may be published: labels, values, what happened to each cell, variances and quality codes."""
        import pandas as pd

        named: dict[str, Any] = {d: self.cells.labels[:, i] for i, d in enumerate(self.cells.dimensions)}
        if any(name in named for name in ("value", "status", "variance", "quality")):
            raise DataError("a dimension is called value, status, variance or quality. Rename it before publishing.")
        words = np.array(["", "suppressed", "suppressed", "changed"], object)  # which of the two is not for the public
        frame = pd.DataFrame({**named, "value": self.values, "status": words[self.status]})
        if self.variance is not None:
            frame["variance"] = np.where(np.isnan(self.values), np.nan, self.variance)
        if self.quality is not None:
            frame["quality"] = self.quality
        return frame

    def write(self, path: str | Path, form: str | None = None, **options: Any) -> Path:
        """Write what may be published to a file, whole or not at all.

        The ending of the name says in which form: .csv, .xlsx (needs ``pip install 'sfumato[excel]'``), .json (JSON-stat 2.0) or
        .sdmx.csv (SDMX-CSV 2.0); `form` says so where the name does not. `options` are those of the form: see
        `sfumato.tables.exports`. With ``secrets={path: text}``, confidential files (`Draws.seed_text`, `Record.text`) are kept
        durably before the table appears.
        """
        from sfumato.tables.exports import write_table

        return write_table(self, path, form, **options)
