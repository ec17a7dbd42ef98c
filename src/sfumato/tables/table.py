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

if TYPE_CHECKING:
    import pandas as pd

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
    """How many records each leaf has, not weighted; shape (leaves,)."""
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
        empty: bool = False,
        missing: Literal["refuse", "leave out"] = "refuse",
        decimals: int | None = None,
    ) -> Table:
        """Make a table, or linked tables, from microdata.

        Parameters
        ----------
        data
            The records; hierarchies of the dimensions, survey weights and contributors come from its schema.
        formula
            Which cells are wanted: ``region * sector`` with all margins; ``region * sector + region_group * sector`` for
            linked tables. A column with a hierarchy brings the cells of all its levels.
        variable
            The column to sum; None for a table of counts.
        contributor
            The column that says who contributed a record; that with the role "contributor" if not given. Records without
            one, and all records where there is none, are contributors of their own.
        count
            For counts: a column that says for how many a row stands, in data that are counted already.
        size
            A column with a public measure of the contributor's size, for the priors of random adjustment.
        empty
            Whether combinations that could occur and do not are cells too, with the value 0.
        missing
            What to do with records that have no value of the variable: "refuse", or "leave out".
        decimals
            With how many digits after the point values are published.
        """
        from sfumato.tables.from_records import from_records

        return from_records(data, formula, variable, contributor, count, size, empty, missing, decimals)

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        who = "" if self.contributions is None else f", {len(self.contributions):,} contributors"
        what = f"'{self.variable}'" if self.variable else "records"
        return f"Table({what}, {len(self):,} cells of {self.cells.leaves:,} leaves{who})"

    @cached_property
    def value(self) -> Numbers:
        """The value of every cell, shape (cells,)."""
        return self.cells.sums(self.totals)

    @cached_property
    def frequency(self) -> Numbers:
        """How many records every cell has, not weighted; shape (cells,)."""
        return self.cells.sums(self.counts)

    @property
    def is_count(self) -> bool:
        """Whether it counts records."""
        return not self.variable

    def largest(self, count: int) -> Largest:
        """Return the `count` largest contributions to every cell."""
        if self.contributions is not None:
            return largest_of(self.cells, self.contributions, count)
        if self.given is None:
            raise DataError(
                "the table does not say who contributed to its cells. Make it from microdata, or give the largest "
                "contributions to each cell."
            )
        return self.given.first(count)

    def with_(self, **changes: Any) -> Table:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def frame(self, **columns: NDArray[Any]) -> pd.DataFrame:
        """Return the cells with their labels, values and frequencies, and further columns of one entry per cell."""
        import pandas as pd

        named = {d: self.cells.labels[:, i] for i, d in enumerate(self.cells.dimensions)}
        return pd.DataFrame({**named, "value": self.value, "records": self.frequency, **columns})
