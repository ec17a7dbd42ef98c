"""A table of magnitudes or counts before protection: cells, leaves, and who contributed to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.microdata import Microdata
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions
from sfumato.tables.largest import Largest, largest_of
from sfumato.tables.marks import Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from sfumato.tables.tree import Nested

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """One table, or several linked ones, of one variable: confidential, to be protected.

    `Table.of` makes one from microdata, `Table.from_cells` from a table that exists already. Everything is the sum of leaves
    (see `Cells`); `totals` are those of the leaves, grossed up by the survey weights where there are any.

    Examples
    --------
    >>> import pandas as pd
    >>> firms = pd.DataFrame({"region": ["N", "N", "S"], "sector": ["a", "b", "a"], "turnover": [10.0, 20.0, 5.0]})
    >>> table = Table.of(Microdata(firms), "region * sector", "turnover")
    >>> len(table), table.value[table.cells.find(region="N")]
    (8, np.float64(30.0))
    """

    cells: Cells
    totals: Numbers
    """The value of each leaf, shape (leaves,)."""
    counts: Numbers
    """How many records each leaf has, not weighted; shape (leaves,). NaN where a table was read without."""
    variable: str = ""
    """What is summed; empty for counts of records."""
    contributions: Contributions | None = None
    """None where a table was read without them."""
    given: Largest | None = None
    """The largest contributions to each cell as a file gave them, where the contributors are not known."""
    unit: str = ""
    integer: bool = False
    """Whether only whole numbers make sense."""
    decimals: int | None = None
    """With how many digits after the point values are published; None for as they are."""
    nonnegative: bool = True
    """Whether everybody knows that no contribution is below zero."""
    records: Records | None = None
    """The records, for noise that hangs on them; None where a table was read without them."""

    @classmethod
    def of(
        cls,
        data: Microdata,
        formula: str,
        variable: str | None = None,
        *,
        contributor: str | None = None,
        count: str | None = None,
        size: str | None = None,
        per_size: float | Literal["ratio"] | None = None,
        empty: bool = False,
        missing: Literal["refuse", "leave out"] = "refuse",
        decimals: int | None = None,
        waiver: str | None = None,
        request: str | None = None,
        record_key: str | None = None,
    ) -> Table:
        """Make a table, or linked tables, from microdata.

        Parameters
        ----------
        data
            The records; hierarchies of the dimensions, survey weights and contributors come from its schema.
        formula
            Which cells are wanted: ``region * sector`` with all margins; ``region * sector + region_group * sector`` for
            linked tables. A column with a hierarchy brings the cells of all its levels. ``region : sector`` has the inner cells
            and the grand total, ``- 1`` leaves that out, and a name with spaces stands in backticks.
        variable
            The column to sum; None for a table of counts.
        contributor
            The column that says who contributed a record; that with the role "contributor" if not given. Records without
            one, and all records where there is none, are contributors of their own.
        count
            For counts: a column that says for how many a row stands, in data that are counted already.
        size
            A column with a public measure of the contributor's size, for the priors of random adjustment. It is in the
            variable's own unit (last year's turnover, for turnover), unless `per_size` says what one unit of it stands for.
            A contributor's size is the sum over its records: where each record repeats that of the whole, divide it first.
        per_size
            For a size in another unit (employees, for turnover): how much of the variable goes with one unit of it, a public
            figure; or "ratio" for that of these records, to one digit.
        empty
            Whether combinations that could occur and do not are cells too, with the value 0.
        missing
            What to do with records that have no value of the variable: "refuse", or "leave out".
        decimals
            With how many digits after the point values are published.
        waiver
            A column that says yes where a contributor allows that its value may be found out: it has waived protection if
            all its records say so.
        request
            A column with the code of a contributor's request for protection (1 or 2; 0 for none), for the request rule.
        record_key
            A column with keys of the records in [0, 1), for cell keys; drawn if there is none.
        """
        from sfumato.tables.from_records import Marks, from_records

        marks = Marks(waiver, request, record_key)
        return from_records(
            data, formula, variable, contributor, count, size, per_size, empty, missing, decimals, marks
        )

    @classmethod
    def from_cells(
        cls,
        frame: Any,
        dimensions: Sequence[str] | Mapping[str, Nested],
        value: str | None = None,
        *,
        count: str | None = None,
        contributors: str | None = None,
        top: Sequence[str] = (),
        total: str | Mapping[str, str | None] | None = None,
        margins: Literal["check", "compute", "given"] = "check",
        decimals: int | None = None,
        nonnegative: bool = True,
        unit: str = "",
    ) -> Table:
        """Make a table from one that exists already: a row for each cell.

        A cell that is not in the frame is empty if it is one of the finest, and the sum of the cells below it if not.

        Parameters
        ----------
        frame
            The cells: a pandas frame, anything that `Microdata` takes, or a file that it reads; a list of them for linked
            tables, where a frame without the column of a dimension is not broken down by it.
        dimensions
            The columns of labels; with hierarchies, a mapping: ``{"region": hierarchy, "sector": None}``. A hierarchy is a
            `Hierarchy`, an .hrc file, or ``{label: label above it}`` ("Total" for one right below the total); None is a single
            level below the total.
        value
            The column of the values; None for a table of counts.
        count
            The column of how many records each cell has.
        contributors
            The column of how many contributors each cell has, where that is not the number of records.
        top
            The columns of the largest contributions to each cell.
        total
            The label of the total, one for all dimensions or one for each (None for a dimension without). If not given it is
            the top of the hierarchy, or the label with a usual name such as "Total"; a missing label is a total too.
        margins
            "check": those given must add up, and all others are computed; "compute": those given are replaced by sums;
            "given": those given must add up, and the table has no others.
        decimals
            With how many digits after the point the values are given and published. Each may have been rounded on its own:
            a margin of n cells may then differ from their sum by (n + 1) / 2 units of the last digit. None: not rounded.
        nonnegative
            Whether everybody knows that no contribution is below zero.
        unit
            Of the values, in words.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"region": ["N", "S", "Total"], "turnover": [10.0, 20.0, 30.0]})
        >>> Table.from_cells(frame, ["region"], "turnover")
        Table('turnover', 3 cells of 2 leaves)
        """
        from sfumato.tables.from_cells import from_cells

        return from_cells(
            frame, dimensions, value, count, contributors, top, total, margins, decimals, nonnegative, unit
        )

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        who = "" if self.contributions is None else f", {len(self.contributions):,} contributors"
        what = f"'{self.variable}'" if self.variable else "records"
        return f"Table({what}, {len(self):,} cells of {self.cells.leaves:,} leaves{who})"

    @cached_property
    def value(self) -> Numbers:
        """The value of every cell, shape (cells,)."""
        value = self.cells.sums(self.totals)
        return np.round(value) if self.integer else value  # leaves of linked tables may be fractions

    @cached_property
    def frequency(self) -> Numbers:
        """How many records every cell has, not weighted; shape (cells,). Refused where nobody knows."""
        if np.isnan(self.counts).any():
            raise DataError(
                "the table does not say how many records its cells have. Name the column that does (count=...) when it is read."
            )
        return np.round(self.cells.sums(self.counts))  # leaves of linked tables may be fractions

    @property
    def is_count(self) -> bool:
        """Whether it counts records."""
        return not self.variable

    def largest(self, count: int) -> Largest:
        """Return the `count` largest contributions to every cell; survey weights stand beside what contributors gave."""
        if self.contributions is not None:
            return largest_of(self.cells, self.contributions, count)
        if self.given is None:
            raise DataError(
                "the table does not say who contributed to its cells. Make it from microdata, or give the largest "
                "contributions to each cell (top=...)."
            )
        return self.given.first(count)

    def with_(self, **changes: Any) -> Table:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def frame(self, **columns: NDArray[Any]) -> pd.DataFrame:
        """Return the cells with their labels, values and frequencies, and further columns of one entry per cell."""
        import pandas as pd

        named = {d: self.cells.labels[:, i] for i, d in enumerate(self.cells.dimensions)}
        records = {} if np.isnan(self.counts).any() else {"records": self.frequency}
        return pd.DataFrame({**named, "value": self.value, **records, **columns})
