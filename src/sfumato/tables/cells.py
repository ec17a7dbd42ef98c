"""The cells of a table, or of several linked ones: formulas, dimensions, leaves, empty cells, and one canonical order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, ParameterError, join_names, plural, refuse_unknown
from sfumato.schema.hierarchy import Hierarchy, label_of
from sfumato.typing import Numbers, Objects, Whole

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def set_codes(rows: sparse.csr_array) -> NDArray[np.uint64]:
    """Return two numbers for each row of whole numbers, shape (rows, 2), equal only for rows with the same entries.

    Each leaf has two fixed numbers of 64 bits (splitmix64 of its position), and a row the sums of those of its leaves, times
    its entries: different rows have different sums, except for one pair in 10^38.
    """
    keys = np.arange(1, 2 * rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _STEPS:
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    keys = (keys ^ (keys >> np.uint64(31))).reshape(-1, 2)
    keys = keys[rows.indices] * rows.data.astype(np.uint64)[:, None]
    total = np.concatenate([np.zeros((1, 2), np.uint64), np.cumsum(keys, axis=0, dtype=np.uint64)])
    return np.asarray(total[rows.indptr[1:]] - total[rows.indptr[:-1]])


Term = tuple[str, ...]


@lru_cache(maxsize=256)
def terms(formula: str) -> tuple[Term, ...]:
    """Return the sets of columns that a formula breaks down by; () is the grand total.

    ``a * b`` has the cells of a by b and every margin, ``a : b`` the cells alone; ``+`` joins tables, which are then protected
    together; ``- 1`` leaves the grand total out. Put a name with spaces in backticks.

    >>> terms("region * sector")
    ((), ('region',), ('sector',), ('region', 'sector'))
    >>> terms("region : sector - 1")
    (('region', 'sector'),)
    """
    from formulaic.errors import FormulaicError

    from sfumato.utility.estimators import expand

    if not isinstance(formula, str) or not formula.strip():
        raise ParameterError("say which table is wanted, with a formula such as 'region * sector'.")
    try:
        parsed = list(expand(formula))
    except (FormulaicError, SyntaxError, TypeError, ValueError, AttributeError):
        raise ParameterError(
            f"'{formula}' cannot be read as a formula. Use the names of columns with *, : and +, such as 'region * sector'; "
            "a name with spaces or signs in it stands in backticks: '`size class` * sector'."
        ) from None
    found: list[Term] = []
    for term in parsed:
        names = []
        factors: tuple[Any, ...] = getattr(term, "factors", (None,))
        for factor in factors:
            kind = getattr(factor, "eval_method", None)
            if kind is not None and kind.value == "literal" and factor.expr == "1":
                continue
            if kind is None or kind.value != "lookup":
                raise ParameterError(
                    f"'{formula}' is not the formula of a table. Use the names of columns with *, : and +, such as "
                    "'region * sector + region_group * sector'."
                )
            names.append(str(factor.expr))
        found.append(tuple(names))
    if not any(found):
        raise ParameterError(f"'{formula}' breaks nothing down. Name at least one column, such as 'region * sector'.")
    return tuple(dict.fromkeys(found))


TOTAL = "Total"
MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Dimension:
    """One column that a table is broken down by.

    `above` has a row for each value of the column and a column for each level below the total, finest first; its entries point
    into `labels`. A value that is not grouped on some level has its own label there.

    Examples
    --------
    >>> from sfumato.schema import TreeHierarchy
    >>> d = Dimension.of("town", ["Oslo", "Pisa", "Rome"], TreeHierarchy.from_levels(
    ...     {"Oslo": ["Norway"], "Pisa": ["Italy"], "Rome": ["Italy"]}))
    >>> d.labels, d.above.tolist()
    (('Oslo', 'Pisa', 'Rome', 'Norway', 'Italy'), [[0, 3], [1, 4], [2, 4]])
    """

    name: str
    labels: tuple[str, ...]
    above: Whole

    @classmethod
    def of(cls, name: str, values: Sequence[object], hierarchy: Hierarchy | None = None) -> Dimension:
        """Return the dimension of a column with these distinct values; None becomes "missing"."""
        own = [MISSING if v is None else label_of(v) for v in values]
        if TOTAL in own:
            raise DataError(
                f"column '{name}' has the value '{TOTAL}', which is the name of a margin here. Are there totals among the "
                "records? Leave them out, or read the file as a table (Table.from_cells)."
            )
        if len(set(own)) < len(own):
            raise DataError(
                f"column '{name}' has different values that read the same. Make its values text or numbers."
            )
        columns = [own]
        if hierarchy is not None:
            for level in range(1, hierarchy.height):
                raised = hierarchy.generalise(values, level)
                columns.append([MISSING if label is None else str(label) for label in raised])
        labels: dict[str, int] = {}
        above = np.array([[labels.setdefault(v, len(labels)) for v in column] for column in columns], np.int64)
        _refuse_mixed(name, tuple(labels), above)
        return cls(name, tuple(labels), above.reshape(len(columns), len(own)).T)


def _refuse_mixed(name: str, labels: Sequence[str], above: Whole) -> None:
    """Refuse a label that covers more values on one level than on another: one cell would hide the other.

    The smaller one could then be worked out as a difference, and no rule would assess it.
    """
    held = np.array([np.bincount(level, minlength=len(labels)) for level in above.reshape(len(above), -1)])
    fewest = np.where(held > 0, held, np.iinfo(np.int64).max).min(axis=0)
    if (mixed := np.flatnonzero(held.max(axis=0) > fewest)).size:
        names = join_names((labels[i] for i in mixed.tolist()), 5)
        raise DataError(
            f"{plural(len(mixed), 'label')} of '{name}' {'is' if len(mixed) == 1 else 'are'} a group of others and a value of its "
            f"own: {names}. Give the records that have the group as their value a label of their own below it, such as "
            f"'{labels[int(mixed[0])]}, other', in the data and in the hierarchy."
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells, and the leaves whose sum each cell is.

    Leaves are the atoms of the partition that all cells together generate: records in the same leaf are in the same cells.
    `incidence` is cells × leaves, 1 where a leaf belongs to a cell; every published table is incidence @ leaves, so it adds up
    for any leaves. Cells of linked tables are in one list; a cell that two of them share is there once.
    """

    dimensions: tuple[str, ...]
    labels: Objects
    """Shape (cells, dimensions); "Total" where a cell is not broken down by a dimension."""
    incidence: sparse.csr_array
    """Shape (cells, leaves), 0 or 1."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int(self.incidence.shape[1])

    def sums(self, leaves: Numbers) -> Numbers:
        """Return the value of every cell from those of the leaves, shape (leaves,) or (leaves, k)."""
        return np.asarray(self.incidence @ leaves)

    @cached_property
    def sizes(self) -> Whole:
        """Number of leaves of each cell, shape (cells,)."""
        return np.diff(self.incidence.indptr).astype(np.int64)

    @cached_property
    def of_leaf(self) -> Whole:
        """The cell that equals each leaf; -1 for a leaf that is no cell."""
        found = np.full(self.leaves, -1, np.int64)
        alone = np.flatnonzero(self.sizes == 1)[::-1]  # the first of several wins
        found[self.incidence.indices[self.incidence.indptr[alone]]] = alone
        return found

    def name(self, cell: int) -> str:
        """Return a cell's labels in words.

        A cell that is broken down by nothing is "the grand total".
        """
        parts = [f"{d} {v}" for d, v in zip(self.dimensions, self.labels[cell], strict=True) if v != TOTAL]
        return ", ".join(parts) or "the grand total"

    def find(self, labels: Mapping[str, str] | None = None, **more: str) -> int:
        """Return the position of a cell: ``find(region="North")`` is its total over the other dimensions."""
        wanted = {**(labels or {}), **more}
        refuse_unknown("dimension", self.dimensions, "the table", *wanted)
        key = tuple(str(wanted.get(d, TOTAL)) for d in self.dimensions)
        if key not in self._positions:
            for d, label in zip(self.dimensions, key, strict=True):
                known = sorted(set(self.labels[:, self.dimensions.index(d)]))
                refuse_unknown("label", known, f"dimension '{d}'", label)
            raise ParameterError("the table has no such cell: these labels do not occur together in it.")
        return self._positions[key]

    @cached_property
    def _positions(self) -> dict[tuple[str, ...], int]:
        return {tuple(row): i for i, row in enumerate(self.labels.tolist())}


TOO_LARGE = "the table has too many dimensions with too many labels. Ask for fewer at a time."


def make_cells(dimensions: Sequence[Dimension], codes: Whole, terms: Iterable[Term]) -> tuple[Cells, Whole]:
    """Return the cells of the terms, and the leaf of each row of `codes`.

    `codes` has a row for each combination of values that may occur, shape (combinations, dimensions).
    """
    names = [d.name for d in dimensions]
    sizes = [len(d.labels) + 1 for d in dimensions]
    stride = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if math.prod(sizes) >= 2**62:
        raise ParameterError(TOO_LARGE)
    columns = []
    for term in terms:
        levels = [range(dimensions[names.index(n)].above.shape[1]) for n in term]
        for combination in itertools.product(*levels):
            key = np.zeros(len(codes), np.int64)
            for name, level in zip(term, combination, strict=True):
                i = names.index(name)
                key += (dimensions[i].above[codes[:, i], level] + 1) * stride[i]
            columns.append(key)
    keys = np.column_stack(columns) if columns else np.zeros((len(codes), 0), np.int64)
    distinct, flat = np.unique(keys, return_inverse=True)
    members = np.sort(flat.reshape(keys.shape), axis=1)
    rows, leaf = np.unique(members, axis=0, return_inverse=True)
    cell, column = rows.ravel(), np.repeat(np.arange(len(rows)), rows.shape[1])
    incidence = sparse.csr_array((np.ones(len(cell)), (cell, column)), shape=(len(distinct), len(rows)))
    incidence.sum_duplicates()
    incidence.data[:] = 1.0  # a label that repeats on two levels is one cell
    labels = np.empty((len(distinct), len(dimensions)), object)
    for i, d in enumerate(dimensions):
        node = distinct // stride[i] % sizes[i]
        labels[:, i] = np.array([TOTAL, *d.labels], object)[node]
    return Cells(tuple(names), labels, incidence), leaf.ravel().astype(np.int64)


class Status(IntEnum):
    """The status of a published cell."""

    SHOWN = 0
    """The value is published as it is."""
    PRIMARY = 1
    """Not published, because it would disclose a contributor."""
    SECONDARY = 2
    """Not published, because other cells could be worked out from it."""
    CHANGED = 3
    """Another value is published: adjusted, rounded or perturbed."""


_MOST = 5_000_000


def with_empty(codes: Whole) -> Whole:
    """Return the combinations of codes, shape (combinations, dimensions), followed by those that could also occur.

    A column that another determines (a region its group of regions) occurs with it as it does in the data; columns that do
    not determine each other occur in every combination.

    >>> with_empty(np.array([[0, 0, 0], [1, 0, 1]])).tolist()  # the second column is constant, the third follows the first
    [[0, 0, 0], [1, 0, 1]]
    """
    groups = _bound(codes)
    blocks = [np.unique(codes[:, group], axis=0) for group in groups]
    count = int(np.prod([len(b) for b in blocks], dtype=np.float64))
    if count > _MOST:
        raise ParameterError(
            f"with its empty cells the table would have {count:,} leaves. Leave empty cells out, or ask for fewer dimensions."
        )
    picks = np.indices([len(b) for b in blocks]).reshape(len(blocks), -1)
    everything = np.empty((picks.shape[1], codes.shape[1]), np.int64)
    for group, block, pick in zip(groups, blocks, picks, strict=True):
        everything[:, group] = block[pick]
    joined = np.concatenate([codes, everything])
    _, first = np.unique(joined, axis=0, return_index=True)
    return joined[np.sort(first)]


def _bound(codes: Whole) -> list[list[int]]:
    """Group the columns: those in one group are linked because one determines the other."""
    columns = range(codes.shape[1])
    group = list(columns)
    for a in columns:
        for b in columns:
            if a != b and _determines(codes[:, a], codes[:, b]):
                group = [group[a] if g == group[b] else g for g in group]
    return [[c for c in columns if group[c] == g] for g in dict.fromkeys(group)]


def _determines(a: Whole, b: Whole) -> bool:
    return len(np.unique(np.column_stack([a, b]), axis=0)) == len(np.unique(a))
