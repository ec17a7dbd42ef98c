"""Published tables from anywhere: a frame with labels, figures, and marks where figures are not shown."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, ParameterError, listing, some, unknown_name
from sfumato.schema.hierarchy import Hierarchy
from sfumato.schema.hierarchy.base import label_of
from sfumato.tables.additivity import strides
from sfumato.tables.cell_checks import name_of
from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.finest import crossed, cut, finest, overlapping
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.published_marks import changed_by, figures, hidden_by
from sfumato.tables.total_label import find_total
from sfumato.tables.tree import Nested, Tree, hierarchy_of

if TYPE_CHECKING:
    from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MOST = 5_000_000


def from_published(
    frame: Any,
    dimensions: Sequence[str] | Mapping[str, Nested],
    value: str,
    status: str | None,
    variance: str | None,
    total: str | Mapping[str, str | None] | None,
    marks: Sequence[str],
    within: float,
    absent: Literal["empty", "suppressed"],
    nonnegative: bool | None,
    unit: str,
    original: Table | None,
) -> PublishedTable:
    """Make a published table from a frame; see `PublishedTable.from_frame`."""
    if not (within >= 0 and np.isfinite(within)):
        raise ParameterError(f"within must be a number of at least 0: how far a shown figure may be off; got {within}.")
    if absent not in ("empty", "suppressed"):
        raise ParameterError(f"absent must be 'empty' or 'suppressed'; got '{absent}'.")
    nested = _nested(dimensions)
    if not nested:
        raise ParameterError("name at least one column of labels (dimensions).")
    columns = _columns(frame, [*nested, value, *(n for n in (status, variance) if n)])
    labels = _labels(columns, nested, total)
    shown = figures(columns[value], marks, value)
    hidden = np.isnan(shown)
    changed = np.zeros(len(shown), bool)
    if status is not None:
        said = hidden_by(columns[status], marks)
        if (both := said & ~hidden).any():
            raise DataError(
                f"{some(int(both.sum()), 'cell')} of '{value}' {'has' if both.sum() == 1 else 'have'} a figure and, in "
                f"'{status}', a mark that it is not shown. If the public sees the figure, leave the column of marks out; if "
                "not, empty the figure."
            )
        changed = changed_by(columns[status]) & ~hidden
    noise = None if variance is None else figures(columns[variance], marks, variance)
    cells, at = _cells(labels, nested, absent) if original is None else _matched(labels, [*nested], original.cells)
    if nonnegative is None:
        nonnegative = not (shown < -within).any() if original is None else original.nonnegative
    return _made(cells, at, shown, changed, noise, within, nonnegative, value, unit, original)


def _made(
    cells: Cells,
    at: Whole,
    shown: Numbers,
    changed: Flags,
    noise: Numbers | None,
    within: float,
    nonnegative: bool,
    variable: str,
    unit: str,
    original: Table | None,
) -> PublishedTable:
    values = np.full(len(cells), np.nan)
    values[at] = shown
    gone = np.isnan(values)
    bottom = 0.0 if nonnegative else -np.inf
    loose = np.zeros(len(cells), bool)
    loose[at[changed]] = within == 0  # somebody changed it, and nobody says how far
    status = np.where(gone, Status.PRIMARY, Status.CHANGED if within else Status.SHOWN).astype(np.int8)
    status[at[changed]] = Status.CHANGED
    variances = None
    if noise is not None:
        variances = np.full(len(cells), np.nan)
        variances[at] = noise
        loose |= variances > 0
        status[loose & ~gone] = Status.CHANGED
    low = np.where(gone | loose, bottom, np.maximum(values - within, bottom) if within else values)
    high = np.where(gone | loose, np.inf, values + within)
    return PublishedTable(
        cells, values, status, low, high, variance=variances, variable=variable, unit=unit, original=original
    )


def _columns(frame: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    import narwhals as nw

    native = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if not isinstance(native, nw.DataFrame):
        raise DataError("a published table must be a frame (pandas, polars, Arrow): a row for each cell.")
    for name in names:
        if name not in native.columns:
            raise ParameterError(unknown_name("column", name, native.columns, "the published table"))
    if len(native) == 0:
        raise DataError("the published table has no rows.")
    return {name: [_plain(v) for v in native[name].to_list()] for name in names}


def _nested(dimensions: Sequence[str] | Mapping[str, Nested]) -> dict[str, Hierarchy | None]:
    if isinstance(dimensions, Mapping):
        return {name: hierarchy_of(nested, name) for name, nested in dimensions.items()}
    return dict.fromkeys([dimensions] if isinstance(dimensions, str) else dimensions)


def _plain(value: Any) -> Any:
    """Return a value, None where there is none: frames say NaN, NaT or NA, whose comparisons are not even true or false."""
    return None if value is None or type(value).__name__ == "NAType" or value != value else value


def _labels(
    columns: Mapping[str, list[Any]],
    nested: Mapping[str, Hierarchy | None],
    total: str | Mapping[str, str | None] | None,
) -> NDArray[np.object_]:
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


def _cells(labels: NDArray[np.object_], nested: Mapping[str, Hierarchy | None], absent: str) -> tuple[Cells, Whole]:
    """Return the cells with their leaves, and the position of each row among them."""
    trees = [Tree.of(d, [v for v in labels[:, i] if v != TOTAL], h) for i, (d, h) in enumerate(nested.items())]
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


def _left_out(codes: Whole, trees: Sequence[Tree]) -> Whole:
    """Return the finest combinations of labels that have no row, for each set of dimensions that the table breaks down by."""
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


def _leaves(codes: Whole, trees: Sequence[Tree]) -> Whole:
    """Return the labels of the leaves: the finest cells, or what those of several tables cut each other into."""
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


def _ends(label: int, tree: Tree) -> list[int]:
    """Return the labels at or under a label (-1 for the total) that have none under them."""
    ends = np.setdiff1d(np.arange(len(tree.labels)), tree.parents)
    return [int(e) for e in ends if label < 0 or label in tree.paths[e]]


def _incidence(codes: Whole, leaves: Whole, trees: Sequence[Tree]) -> sparse.csr_array:
    """Return cells × leaves, 1 where every label of the leaf is that of the cell, or stands under it."""
    stride = strides(trees)
    own = (codes + 1) @ stride
    order = np.argsort(own)
    rows, columns = [], []
    for levels in itertools.product(*(range(t.paths.shape[1] + 1) for t in trees)):
        key = np.zeros(len(leaves), np.int64)
        for i, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            if level < tree.paths.shape[1]:
                key += (tree.paths[leaves[:, i], level] + 1) * stride[i]
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        hit = own[at] == key
        rows.append(at[hit])
        columns.append(np.flatnonzero(hit))
    row, column = np.concatenate(rows), np.concatenate(columns)
    found = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(len(codes), len(leaves)))
    found.sum_duplicates()
    found.data[:] = 1.0  # a label that stands for itself on several levels
    return found


def _matched(labels: NDArray[np.object_], dimensions: Sequence[str], cells: Cells) -> tuple[Cells, Whole]:
    """Return the cells of the table it was made from, and the position of each row among them."""
    if set(dimensions) != set(cells.dimensions):
        raise ParameterError(
            f"the published table is by {listing(dimensions)}, but the one that it was made from by {listing(cells.dimensions)}."
        )
    order = [list(dimensions).index(d) for d in cells.dimensions]
    place = {tuple(row): i for i, row in enumerate(cells.labels.tolist())}
    keys = [tuple(row) for row in labels[:, order].tolist()]
    if strange := [k for k in keys if k not in place]:
        raise DataError(
            f"{some(len(strange), 'row')} of the published table {'is' if len(strange) == 1 else 'are'} not in the table that it "
            f"was made from, such as {', '.join(strange[0])}."
        )
    return cells, np.array([place[k] for k in keys], np.int64)
