"""Published tables and what a reader can be sure of; published tables from other sources; the base class of protections."""

from __future__ import annotations

import itertools
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Draws, Guarantee, Method, check_draws
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names, plural, refuse_unknown
from sfumato.lazy import pd
from sfumato.schema.hierarchy import Hierarchy, label_of
from sfumato.tables.cells import TOTAL, Cells, Status
from sfumato.tables.common_refinement import crossed, cut, finest, keys_above, overlapping
from sfumato.tables.from_cells import name_of
from sfumato.tables.label_tree import LabelTree, Nested, find_total, hierarchy_of, strides
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Objects, Whole

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.tables.rta.publication import Record

MARKS = (
    "", "x", "X", "c", "C", "d", "D", "s", "S", ":", ":c", ": c", "..", "...", "*", "suppressed", "confidential", "NaN", "nan",
)  # fmt: skip
"""Usual marks for a figure that is not published."""
NONE = ("-", "–", "—")
"""A dash means 0, unless it is named as a mark."""
CHANGED = ("changed", "adjusted", "rounded", "perturbed")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def figures(column: Sequence[object], marks: Sequence[str], name: str) -> Numbers:
    """Return the numbers of a column, 0 for a dash, NaN for a mark or an empty field; refuse anything else.

    >>> figures(["1200", "x", 3, None, "4.5", "-"], MARKS, "turnover").tolist()
    [1200.0, nan, 3.0, nan, 4.5, 0.0]
    """
    found = np.full(len(column), np.nan)
    strange: dict[str, None] = {}
    for i, value in enumerate(column):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            text = str(value)
        elif not isinstance(value, str):
            if math.isinf(value):
                raise DataError(f"column '{name}' holds an infinite number, which no table can show.")
            found[i] = value
            continue
        else:
            text = value.strip()
        if _NUMBER.fullmatch(text):
            found[i] = float(text)
        elif text in NONE and text not in marks:
            found[i] = 0.0
        elif text not in marks:
            strange[text] = None
    if strange:
        raise DataError(
            f"column '{name}' holds {plural(len(strange), 'text')} that {'is' if len(strange) == 1 else 'are'} neither a number "
            f"nor a known mark of suppression: {join_names((repr(s) for s in strange), 5)}. Say which marks mean 'not shown' "
            "(marks), or write numbers with a point for decimals and nothing between thousands."
        )
    return found


def hidden_by(status: Sequence[object], marks: Sequence[str]) -> Flags:
    """Return where a column of flags says that the figure is not published."""
    meant = {m.casefold() for m in marks if m} | {"primary", "secondary"}
    return np.array([str(s).strip().casefold() in meant if s is not None else False for s in status], bool)


def changed_by(status: Sequence[object]) -> Flags:
    """Return where a column of flags says that the published figure is not the true one."""
    return np.array([str(s).strip().casefold() in CHANGED for s in status], bool)


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A protected table: what the public sees, and, for the custodian alone, what it was made from.

    `low` and `high` are bounds of the true value of every cell that everybody can be sure of, before any arithmetic with other
    cells: both are the value where it is published, a whole rounding base around it where it was rounded, and the a-priori
    bounds where it is not published. `variance` is that of a random adjustment, as published; where there is one, nothing is
    certain, and `low` and `high` are infinite.
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
    quality: Objects | None = None
    """A code for the quality of every cell, if published."""
    leaf_variance: Numbers | None = field(default=None, repr=False)
    """The variance that was added to every leaf, shape (leaves,): confidential unless variances are published exactly."""
    variable: str = ""
    unit: str = ""
    decimals: int | None = None
    original: Table | None = field(default=None, repr=False)
    """The original table: confidential. None for a table of which only the published form is known."""
    protection: Protection | None = None
    guarantees: tuple[Guarantee, ...] = ()
    record: Record | None = field(default=None, repr=False)
    """The record of a random adjustment, for later tables of the same data: confidential."""

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        gone = int(np.isnan(self.values).sum())
        return f"PublishedTable({len(self):,} cells, {gone:,} not published)"

    @classmethod
    def unprotected(cls, table: Table, protection: Protection | None = None) -> PublishedTable:
        """Return a table with all cells published exactly: the start of every protection."""
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
        """Return a table published by others, from a frame with a row for each cell.

        Parameters
        ----------
        frame
            Pandas, polars or Arrow; margins are rows too.
        dimensions
            The columns of labels; with subtotals, a mapping of each to how its labels nest: a `Hierarchy`, the name of an .hrc
            file, ``{label: label above it}``, or None for a single level.
        value
            The column of figures. An empty field, NaN, and marks such as x, c, : or .. mean that a figure is not published.
        status
            A column of flags with the same marks, or flags that a figure was changed.
        variance
            A column with the published variance of random noise.
        total
            The label of a margin; a mapping from dimensions to labels where they differ; usual names are recognised.
        marks
            Further marks for a figure that is not published.
        within
            How far a published figure may be from the true one: half a unit of the last digit for figures rounded one by one,
            the base for controlled or random rounding.
        absent
            The meaning of a combination of labels without a row: that it is "empty", or that its row was left out because it is
            "suppressed".
        nonnegative
            Whether everybody knows that no figure is below 0; if not given, whether none of the published ones is.
        unit
            The unit of the figures.
        original
            The original table, for the custodian: then rules and contributors can be assessed too.

        Examples
        --------
        >>> import pandas as pd
        >>> read = pd.DataFrame({"region": ["N", "S", "Total"], "turnover": ["12", "c", "20"]})
        >>> PublishedTable.from_frame(read, ["region"], "turnover")
        PublishedTable(3 cells, 1 not published)
        """
        known = (*MARKS, *marks)
        if not (within >= 0 and np.isfinite(within)):
            raise ParameterError(
                f"within must be a number of at least 0: how far a shown figure may be off; got {within}."
            )
        if absent not in ("empty", "suppressed"):
            raise ParameterError(f"absent must be 'empty' or 'suppressed'; got '{absent}'.")
        nested = _nested(dimensions)
        if not nested:
            raise ParameterError("name at least one column of labels (dimensions).")
        columns = _columns(frame, [*nested, value, *(n for n in (status, variance) if n)])
        labels = _labels(columns, nested, total)
        shown = figures(columns[value], known, value)
        hidden = np.isnan(shown)
        changed = np.zeros(len(shown), bool)
        if status is not None:
            _refuse_both(hidden_by(columns[status], known) & ~hidden, value, status)
            changed = changed_by(columns[status]) & ~hidden
        noise = None if variance is None else figures(columns[variance], known, variance)
        cells, at = _cells(labels, nested, absent) if original is None else _matched(labels, [*nested], original.cells)
        if nonnegative is None:
            nonnegative = not (shown < -within).any() if original is None else original.nonnegative
        values = np.full(len(cells), np.nan)
        values[at] = shown
        gone = np.isnan(values)
        bottom = 0.0 if nonnegative else -np.inf
        loose = np.zeros(len(cells), bool)
        loose[at[changed]] = within == 0  # it was changed, by an unknown amount
        codes = np.where(gone, Status.PRIMARY, Status.CHANGED if within else Status.SHOWN).astype(np.int8)
        codes[at[changed]] = Status.CHANGED
        variances = None
        if noise is not None:
            variances = np.full(len(cells), np.nan)
            variances[at] = noise
            loose |= variances > 0
            codes[loose & ~gone] = Status.CHANGED
        low = np.where(gone | loose, bottom, np.maximum(values - within, bottom) if within else values)
        high = np.where(gone | loose, np.inf, values + within)
        return cls(cells, values, codes, low, high, variance=variances, variable=value, unit=unit, original=original)

    @cached_property
    def suppressed(self) -> Flags:
        """Which cells are not published, shape (cells,)."""
        return np.isin(self.status, (Status.PRIMARY, Status.SECONDARY))

    def source(self, purpose: str) -> Table:
        """Return the original table; refuse where it is not known."""
        if self.original is None:
            raise NotApplicable(
                f"{purpose} needs the table as it was before protection, and only the published one is known."
            )
        return self.original

    def with_(self, **changes: Any) -> PublishedTable:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def frame(self) -> pd.DataFrame:
        """Return what may be published: labels, values, the status of each cell, variances and quality codes."""
        named: dict[str, Any] = {d: self.cells.labels[:, i] for i, d in enumerate(self.cells.dimensions)}
        if any(name in named for name in ("value", "status", "variance", "quality")):
            raise DataError("a dimension is called value, status, variance or quality. Rename it before publishing.")
        words = np.array(["", "suppressed", "suppressed", "changed"], object)  # which of the two is not public
        frame = pd.DataFrame({**named, "value": self.values, "status": words[self.status]})
        if self.variance is not None:
            frame["variance"] = np.where(np.isnan(self.values), np.nan, self.variance)
        if self.quality is not None:
            frame["quality"] = self.quality
        return frame

    def write(self, path: str | Path, form: str | None = None, **options: Any) -> Path:
        """Write what may be published to a file, completely or not at all.

        The file extension determines the form: .csv, .xlsx (needs ``pip install 'sfumato[excel]'``), .json (JSON-stat 2.0) or
        .sdmx.csv (SDMX-CSV 2.0); `form` is for other names. `options` are those of the form: see `sfumato.tables.exports`. With
        ``secrets={path: text}``, confidential files (`Draws.seed_text`, `Record.text`) are written durably before the table
        appears.
        """
        from sfumato.tables.exports import write_table

        return write_table(self, path, form, **options)


_MOST = 5_000_000


def _refuse_both(both: Flags, value: str, status: str) -> None:
    """Refuse cells with a figure, and a mark that it is not shown."""
    if both.any():
        raise DataError(
            f"{plural(int(both.sum()), 'cell')} of '{value}' {'has' if both.sum() == 1 else 'have'} a figure and, in "
            f"'{status}', a mark that it is not shown. If the public sees the figure, leave the column of marks out; if "
            "not, empty the figure."
        )


def _columns(frame: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    import narwhals as nw

    native = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if not isinstance(native, nw.DataFrame):
        raise DataError("a published table must be a frame (pandas, polars, Arrow): a row for each cell.")
    refuse_unknown("column", native.columns, "the published table", *names)
    if len(native) == 0:
        raise DataError("the published table has no rows.")
    return {name: [_plain(v) for v in native[name].to_list()] for name in names}


def _nested(dimensions: Sequence[str] | Mapping[str, Nested]) -> dict[str, Hierarchy | None]:
    if isinstance(dimensions, Mapping):
        return {name: hierarchy_of(nested, name) for name, nested in dimensions.items()}
    return dict.fromkeys([dimensions] if isinstance(dimensions, str) else dimensions)


def _plain(value: Any) -> Any:
    """Return a value, None where it is missing: frames have NaN, NaT or NA, whose comparisons are not even true or false."""
    return None if value is None or type(value).__name__ == "NAType" or value != value else value


def _labels(
    columns: Mapping[str, list[Any]],
    nested: Mapping[str, Hierarchy | None],
    total: str | Mapping[str, str | None] | None,
) -> Objects:
    """Return the labels as text, shape (rows, dimensions), with "Total" for a margin."""
    texts = {n: [None if v is None else label_of(v).strip() for v in columns[n]] for n in nested}
    margins = find_total(texts, nested, total)
    labels = np.empty((len(next(iter(texts.values()))), len(nested)), object)
    for i, (name, column) in enumerate(texts.items()):
        labels[:, i] = [TOTAL if t is None or t == margins[name] else t for t in column]
    seen: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(map(tuple, labels.tolist())):
        if seen.setdefault(key, row) != row:
            raise DataError(
                f"the published table has two rows for the same cell: {name_of(key, [*nested])}. Are there columns of "
                "labels that were not named as dimensions? If not, leave one of the rows out."
            )
    return labels


def _cells(labels: Objects, nested: Mapping[str, Hierarchy | None], absent: str) -> tuple[Cells, Whole]:
    """Return the cells with their leaves, and the position of each row among them."""
    trees = [LabelTree.of(d, [v for v in labels[:, i] if v != TOTAL], h) for i, (d, h) in enumerate(nested.items())]
    codes = np.column_stack([np.array([t.position[v] for v in labels[:, i]]) for i, t in enumerate(trees)])
    rows = len(codes)
    if absent == "suppressed":
        more = _left_out(codes, trees)
        codes = np.concatenate([codes, more])
        added = np.empty((len(more), len(trees)), object)
        for i, tree in enumerate(trees):
            added[:, i] = np.array([*tree.labels, TOTAL], object)[more[:, i]]
        labels = np.concatenate([labels, added])
    made = Cells(tuple(nested), labels, _incidence(codes, _leaves(codes, trees), trees))
    return made, np.arange(rows)


def _left_out(codes: Whole, trees: Sequence[LabelTree]) -> Whole:
    """Return the finest combinations of labels without a row, for each set of dimensions of the table."""
    ends = [_ends(-1, t) for t in trees]
    present = set(map(tuple, codes.tolist()))
    found: list[tuple[int, ...]] = []
    fine = codes[finest(codes, trees)]
    for pattern in np.unique(fine >= 0, axis=0):
        sides = [e if p else [-1] for e, p in zip(ends, pattern, strict=True)]
        if np.prod([len(s) for s in sides], dtype=np.float64) > _MOST:
            raise ParameterError("the table has too many combinations of labels to add all that were left out.")
        found += [c for c in itertools.product(*sides) if c not in present]
    return np.array(found, np.int64).reshape(len(found), len(trees))


def _leaves(codes: Whole, trees: Sequence[LabelTree]) -> Whole:
    """Return the labels of the leaves: the finest cells, or the parts into which those of several tables cut each other."""
    leaves = codes[finest(codes, trees)]
    if overlapping(leaves, trees) is not None:
        fine, patterns = leaves, np.unique(leaves >= 0, axis=0)
        pieces = crossed([fine[((fine >= 0) == p).all(axis=1)] for p in patterns], trees)
        covered = np.diff(_incidence(fine, pieces, trees).indptr) > 0
        leaves = np.unique(np.concatenate([pieces, fine[~covered]]), axis=0)
    while (broken := np.unique(cut(leaves, codes, trees))).max(initial=-1) >= 0:
        broken = broken[broken >= 0]
        parts = [c for leaf in leaves[broken] for c in itertools.product(*map(_ends, leaf.tolist(), trees))]
        leaves = np.unique(np.concatenate([np.delete(leaves, broken, axis=0), np.array(parts, np.int64)]), axis=0)
    return leaves


def _ends(label: int, tree: LabelTree) -> list[int]:
    """Return the labels at or under a label (-1 for the total) with none under them."""
    ends = np.setdiff1d(np.arange(len(tree.labels)), tree.parents)
    return [int(e) for e in ends if label < 0 or label in tree.paths[e]]


def _incidence(codes: Whole, leaves: Whole, trees: Sequence[LabelTree]) -> sparse.csr_array:
    """Return cells × leaves, 1 where every label of the leaf is that of the cell, or under it."""
    own = (codes + 1) @ strides(trees)
    order = np.argsort(own)
    rows, columns = [], []
    for key in keys_above(leaves, trees):
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        hit = own[at] == key
        rows.append(at[hit])
        columns.append(np.flatnonzero(hit))
    row, column = np.concatenate(rows), np.concatenate(columns)
    found = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(len(codes), len(leaves)))
    found.sum_duplicates()
    found.data[:] = 1.0  # a label that repeats itself on several levels
    return found


def _matched(labels: Objects, dimensions: Sequence[str], cells: Cells) -> tuple[Cells, Whole]:
    """Return the cells of the original table, and the position of each row among them."""
    if set(dimensions) != set(cells.dimensions):
        raise ParameterError(
            f"the published table is by {join_names(dimensions)}, but the one that it was made from by "
            f"{join_names(cells.dimensions)}."
        )
    order = [list(dimensions).index(d) for d in cells.dimensions]
    place = {tuple(row): i for i, row in enumerate(cells.labels.tolist())}
    keys = [tuple(row) for row in labels[:, order].tolist()]
    if strange := [k for k in keys if k not in place]:
        raise DataError(
            f"{plural(len(strange), 'row')} of the published table {'is' if len(strange) == 1 else 'are'} not in the table that it "
            f"was made from, such as {', '.join(strange[0])}."
        )
    return cells, np.array([place[k] for k in keys], np.int64)


class Protection(Method[Table, PublishedTable], family="protection", abstract=True):
    """A method that makes a table publishable: a table in, a published table out.

    To add one, subclass it in a file of its own and write `publish`. It must keep its guarantees or refuse. The returned table
    adds up, has certain bounds for a reader in `low` and `high`, and carries the verified guarantees.
    """

    title: ClassVar[str] = ""
    """Its label, in which `{self.base}` is a parameter."""
    random: ClassVar[bool] = True
    """Whether it draws random numbers: then there is a seed to be kept secret."""
    keyed_by_record: ClassVar[bool] = False
    """Whether noise depends on keys of records, which are those of the file's rows: then their order matters."""

    def protect(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the protected table."""
        if not isinstance(table, Table):
            raise ParameterError("a table is protected: make one with Table.of(data, 'region * sector', 'turnover').")
        return self.publish(table, check_draws(draws))

    @abstractmethod
    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the protected table; called by `protect`."""

    def apply(self, x: Table, draws: Draws) -> PublishedTable:
        """Protect a table."""
        return self.protect(x, draws)

    def label(self) -> str:
        """Return a short label for a legend."""
        return self.title.format(self=self)
