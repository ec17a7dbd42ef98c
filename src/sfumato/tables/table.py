"""A table of magnitudes or counts before protection: made from records, with its cells, leaves and contributors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.lazy import pd
from sfumato.tables.cells import Cells, make_cells, terms, with_empty
from sfumato.tables.contributions import Contributions, Largest, Records, largest_of
from sfumato.tables.record_source import (
    EngineContributions,
    EngineRecords,
    LeafFinder,
    RecordSource,
    sum_by_leaf,
    summing_order,
)
from sfumato.tables.record_source import Marks as Marks
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.tables.label_tree import Nested


def from_records(
    data: Microdata, formula: str, variable: str | None, contributor: str | None, count: str | None, size: str | None,
    per_size: float | str | None, empty: bool, missing: str, decimals: int | None, marks: Marks,
) -> Table:  # fmt: skip
    """Make a table from records; see `Table.of`."""
    wanted = terms(formula)
    if variable is not None and count is not None:
        raise ParameterError("a table is one of magnitudes (variable) or of counts (count), not both.")
    if missing not in ("refuse", "leave out"):
        raise ParameterError(f"missing must be 'refuse' or 'leave out'; got '{missing}'.")
    names = list(dict.fromkeys(n for term in wanted for n in term))
    contributor = contributor or data.schema.one("contributor")
    source = RecordSource(data, names, variable or count, contributor, size, per_size, marks, missing == "leave out")
    facts, rows = source.facts, source.rows()
    finder = LeafFinder(rows.batch, names)
    cells, finder.leaves = make_cells(finder.dimensions, with_empty(finder.codes) if empty else finder.codes, wanted)
    leaf = finder.leaves[finder.combination]
    order = summing_order(leaf, rows)
    totals, own = (sum_by_leaf(leaf[order], values[order], cells.leaves) for values in (rows.grossed, rows.own))
    records = source.records(finder, leaf) if source.local else EngineRecords(source, finder)
    weighted = source.weight is not None
    if count is not None:
        if facts.low < 0 or not facts.whole:
            raise DataError(f"column '{count}' holds counts, so it must hold whole numbers of at least 0.")
        return Table(cells, totals, own, integer=not weighted, decimals=decimals, records=records)
    counts = sum_by_leaf(leaf, rows.records, cells.leaves)
    contributions = (
        source.contributions(rows, leaf, cells.leaves)
        if source.local
        else EngineContributions(source, finder, (counts, own, totals))
    )
    attribute = None if variable is None else data.schema[variable]
    return Table(
        cells,
        totals,
        counts,
        variable or "",
        contributions,
        unit="" if attribute is None else attribute.unit,
        integer=not weighted if attribute is None else attribute.integer and not weighted,
        decimals=decimals,
        nonnegative=attribute is None or facts.low >= 0,
        records=records,
    )


@dataclass(frozen=True, eq=False)
class Table:
    """One table, or several linked ones, of one variable: confidential, to be protected.

    `Table.of` makes one from microdata, `Table.from_cells` from a table that exists already. Every cell is a sum of leaves (see
    `Cells`); `totals` are those of the leaves, grossed up by the survey weights if there are any.

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
    """Number of records of each leaf, unweighted; shape (leaves,). NaN where a table was read without."""
    variable: str = ""
    """The summed variable; empty for counts of records."""
    contributions: Contributions | None = None
    """None where a table was read without them."""
    given: Largest | None = None
    """The largest contributions to each cell as a file gave them, where the contributors are not known."""
    unit: str = ""
    integer: bool = False
    """Whether only whole numbers make sense."""
    decimals: int | None = None
    """Number of published digits after the decimal point; None for unrounded values."""
    nonnegative: bool = True
    """Whether everybody knows that no contribution is below zero."""
    records: Records | None = None
    """The records, for noise that depends on them; None where a table was read without them."""

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
            The cells to make: ``region * sector`` with all margins; ``region * sector + region_group * sector`` for linked
            tables. A column with a hierarchy adds the cells of all its levels. ``region : sector`` has the inner cells and the
            grand total, ``- 1`` leaves that out, and a name with spaces is put in backticks.
        variable
            The column to sum; None for a table of counts.
        contributor
            The column of the contributor of each record; that with the role "contributor" if not given. Records without one,
            and all records where there is no such column, are contributors of their own.
        count
            For counts: a column with the number that each row represents, in data that are already aggregated.
        size
            A column with a public measure of the contributor's size, for the priors of random adjustment. It is in the
            variable's own unit (last year's turnover, for turnover), unless `per_size` converts it. A contributor's size is the
            sum over its records: where each record repeats that of the whole, divide it first.
        per_size
            For a size in another unit (employees, for turnover): the amount of the variable per unit of size, a public figure;
            or "ratio" for that of these records, to one digit.
        empty
            Whether combinations that could occur and do not are cells too, with the value 0.
        missing
            What to do with records that have no value of the variable: "refuse", or "leave out".
        decimals
            Number of published digits after the decimal point.
        waiver
            A column that says yes where a contributor allows its value to be found out: it has waived protection if all its
            records say so.
        request
            A column with the code of a contributor's request for protection (1 or 2; 0 for none), for the request rule.
        record_key
            A column with keys of the records in [0, 1), for cell keys; drawn if there is none.
        """
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
            The column with the number of records of each cell.
        contributors
            The column with the number of contributors of each cell, where it is not the number of records.
        top
            The columns of the largest contributions to each cell.
        total
            The label of the total, one for all dimensions or one for each (None for a dimension without). If not given it is
            the top of the hierarchy, or the label with a usual name such as "Total"; a missing label is a total too.
        margins
            "check": given margins must add up, and all others are computed; "compute": given margins are replaced by sums;
            "given": given margins must add up, and the table has no others.
        decimals
            Number of digits after the decimal point of the given and published values. Each may have been rounded by itself: a
            margin of n cells may then differ from their sum by (n + 1) / 2 units of the last digit. None: not rounded.
        nonnegative
            Whether everybody knows that no contribution is below zero.
        unit
            Unit of the values, in words.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"region": ["N", "S", "Total"], "turnover": [10.0, 20.0, 30.0]})
        >>> Table.from_cells(frame, ["region"], "turnover")
        Table('turnover', 3 cells of 2 leaves)
        """
        from sfumato.tables.from_cells import from_cells

        return from_cells(
            cls, frame, dimensions, value, count, contributors, top, total, margins, decimals, nonnegative, unit
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
        """Number of records of every cell, unweighted; shape (cells,). Refused where it is not known."""
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
        """Return the `count` largest contributions to every cell, unweighted, with their survey weights."""
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
        named = {d: self.cells.labels[:, i] for i, d in enumerate(self.cells.dimensions)}
        records = {} if np.isnan(self.counts).any() else {"records": self.frequency}
        return pd.DataFrame({**named, "value": self.value, **records, **columns})


# --- canonical
# Canonical order and rounding, so that results do not depend on the order of the input.


def in_order(cells: Cells) -> tuple[Whole, Whole]:
    """Return cells and leaves in an order that depends on labels alone, each by its position in the table."""
    order = np.lexsort(tuple(cells.labels[:, i].astype(str) for i in reversed(range(cells.labels.shape[1]))))
    by_leaf = sparse.csc_array(cells.incidence[order])
    by_leaf.sort_indices()
    size = np.diff(by_leaf.indptr)
    members = np.full((cells.leaves, int(size.max(initial=1))), -1, np.int64)
    leaf = np.repeat(np.arange(cells.leaves), size)
    members[leaf, np.arange(len(leaf)) - by_leaf.indptr[leaf]] = by_leaf.indices
    return order, np.lexsort(members.T[::-1])


def table_in_order(table: Table) -> tuple[Table, Whole]:
    """Return a table's values with cells and leaves in that order, without what only rules need, and the order of the cells."""
    order, leaf_order = in_order(table.cells)
    incidence = sparse.csr_array(table.cells.incidence[order][:, leaf_order])
    incidence.sort_indices()
    cells = Cells(table.cells.dimensions, table.cells.labels[order], incidence)
    ordered = table.with_(
        cells=cells, totals=table.totals[leaf_order], counts=table.counts[leaf_order], contributions=None, given=None,
        records=None,
    )  # fmt: skip
    return ordered, order


def significant(values: Numbers, digits: int = 12) -> Numbers:
    """Round numbers to `digits` significant digits: further ones are floating-point error.

    >>> significant(np.array([0.1 + 0.2, 1 / 3, np.inf, 0.0])).tolist()
    [0.3, 0.333333333333, inf, 0.0]
    """
    usual = np.isfinite(values) & (values != 0)
    places = digits - 1 - np.floor(np.log10(np.abs(np.where(usual, values, 1.0))))
    up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
    return np.where(usual, np.rint(np.where(usual, values, 1.0) * up / down) * down / up, values)
