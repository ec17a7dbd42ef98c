"""The table on which an intruder would take differences: whole counts, or proportions where no counts are at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, some

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
_LARGEST = 2**53
"""Whole numbers up to here are exact in floating point."""
_TOTAL_NAMES = ("all", "total", "totals", "sum")


@dataclass(frozen=True, eq=False)
class CellTable:
    """An m-way table T[U(n)] of one universe.

    Examples
    --------
    >>> table = CellTable.of([[30, 20], [25, 25]])
    >>> table.records, table.variables, table.proportions.tolist()
    (100, ('variable 1', 'variable 2'), [[0.3, 0.2], [0.25, 0.25]])
    """

    values: Numbers
    """Counts or proportions, one axis for each variable."""
    variables: tuple[str, ...]
    records: int | None
    """n, the records of the universe; None where the table holds proportions."""

    @classmethod
    def of(cls, table: Any) -> CellTable:
        """Read an array of any number of dimensions, nested lists, or a pandas crosstab or Series (without margins)."""
        if isinstance(table, CellTable):
            return table
        raw, variables = _pandas(table) if type(table).__module__.partition(".")[0] == "pandas" else (table, None)
        values = _numbers(raw)
        total = math.fsum(values.ravel().tolist())
        if total <= 0:
            raise DataError("the table is empty: every cell is 0. It needs at least one record.")
        if total > _LARGEST:
            raise DataError("the counts of the table sum to more than 2^53, which cannot be held exactly.")
        names = variables or tuple(f"variable {i + 1}" for i in range(values.ndim))
        whole = bool((values == np.floor(values)).all())
        if whole and (total > 1 or _of_integers(raw)):
            return cls(values, names, round(total))
        if abs(total - 1) > 0.01:
            raise DataError(
                "the table must hold whole counts of records, or proportions that sum to 1. "
                "Drop q removes records: use unweighted counts, also where the data have weights."
            )
        return cls(values / total, names, None)

    @cached_property
    def total(self) -> float:
        """Return the sum of the cells: n, or 1."""
        return 1.0 if self.records is None else float(self.records)

    @cached_property
    def proportions(self) -> Numbers:
        """Return π, of the shape of the table."""
        return self.values / self.total

    @cached_property
    def counts(self) -> Counts:
        """Return whole counts, of the shape of the table; proportions have none."""
        self.need_counts()
        return self.values.astype(np.int64)

    @cached_property
    def occupied(self) -> NDArray[np.bool_]:
        """Return which cells hold records, of the shape of the table."""
        return self.values > 0

    @cached_property
    def distinct(self) -> tuple[Numbers, Counts, NDArray[np.intp]]:
        """Return the distinct positive values, how many cells have each, and which one each occupied cell has."""
        values, place, counts = np.unique(self.values[self.occupied], return_inverse=True, return_counts=True)
        return values, counts.astype(np.int64), place

    def spread(self, per_distinct: Numbers) -> Numbers:
        """Return one number per cell from one per distinct value; NaN where a cell is empty."""
        out = np.full(self.values.shape, np.nan)
        out[self.occupied] = per_distinct[self.distinct[2]]
        return out

    def alone(self, *axes: int) -> CellTable:
        """Return the table of some of the variables, summed over the others."""
        rest = tuple(i for i in range(self.values.ndim) if i not in axes)
        summed = self.values.sum(axis=rest) if rest else self.values
        return CellTable(summed, tuple(self.variables[i] for i in sorted(axes)), self.records)

    def need_counts(self) -> int:
        """Return n; refuse a table of proportions, which does not have one."""
        if self.records is None:
            raise DataError(
                "this needs whole counts of records; the table holds proportions. Multiply them by n and round."
            )
        return self.records

    def __str__(self) -> str:
        shape = " × ".join(map(str, self.values.shape))
        shape = f"{shape} = {self.values.size:,}" if self.values.ndim > 1 else shape
        size = "proportions" if self.records is None else some(self.records)
        return f"{size} in {shape} cells, {int(self.occupied.sum()):,} of them occupied"


def _of_integers(raw: Any) -> bool:
    return np.asarray(raw).dtype.kind in "iub"


def _numbers(raw: Any) -> Numbers:
    try:
        if np.iscomplexobj(raw):
            raise TypeError
        array = np.ma.filled(np.ma.asarray(raw, dtype=np.float64), np.nan)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            "the table must be an array of numbers with one axis for each variable, or a pandas crosstab of counts."
        ) from None
    if array.size == 0:
        raise DataError("the table has no cells. It needs at least one.")
    if not np.isfinite(array).all():
        raise DataError("the table has missing or infinite cells. Write 0 for a cell without records.")
    if (array < 0).any():
        raise DataError("the table has negative cells. Counts of records are 0 or more.")
    return np.atleast_1d(np.asarray(array, dtype=np.float64))


def _pandas(table: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a crosstab as an array with one axis per level of its index and of its columns, and their names."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame | pd.Series):
        return table, ()
    axes = [table.index] if isinstance(table, pd.Series) else [table.index, table.columns]
    if any(axis.duplicated().any() for axis in axes):
        raise DataError("the table has two rows or two columns of the same name. Give each cell once.")
    levels = [axis.get_level_values(i) for axis in axes for i in range(axis.nlevels)]
    if any(str(label).casefold() in _TOTAL_NAMES for level in levels for label in level.unique()):
        raise DataError(
            "the table has a row or column named as a total. Leave the margins out (pandas: margins=False), or rename it."
        )
    try:
        values = table.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError("the table must hold counts of records in every cell. Make it with pandas.crosstab.") from None
    codes = [pd.factorize(level, use_na_sentinel=False) for level in levels]
    out = np.zeros([len(unique) for _, unique in codes])
    rows = [code for code, _ in codes[: axes[0].nlevels]]
    if len(axes) == 1:
        out[tuple(rows)] = values
    else:
        columns = [code for code, _ in codes[axes[0].nlevels :]]
        out[tuple([r[:, None] for r in rows] + [c[None, :] for c in columns])] = values
    names = tuple(str(level.name) if level.name is not None else f"variable {i + 1}" for i, level in enumerate(levels))
    kinds = [table.dtype] if isinstance(table, pd.Series) else table.dtypes
    integers = np.isfinite(out).all() and all(pd.api.types.is_integer_dtype(kind) for kind in kinds)
    return (out.astype(np.int64) if integers else out), names
