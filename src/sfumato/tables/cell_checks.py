"""What the cells of a table cannot be, each refused with the cells named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing, some
from sfumato.tables.dimension import TOTAL

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CellChecks:
    """Checks of rows that are cells, by the rows' labels."""

    labels: NDArray[np.object_]
    """Shape (rows, dimensions)."""
    dimensions: Sequence[str]

    def once(self, table: Whole, cell: Whole) -> None:
        """Refuse the same cell twice in one table."""
        _, at, times = np.unique(np.column_stack([table, cell]), axis=0, return_index=True, return_counts=True)
        self._refuse(
            at[times > 1], "stands more than once in the table", "stand more than once in the table",
            "Keep one row for each cell; are there columns of labels that are not named as dimensions?",
        )  # fmt: skip

    def known(self, name: str, column: Numbers, optional: bool) -> None:
        """Refuse cells without a number."""
        words = f"no number in column '{name}'"
        self._refuse(
            np.flatnonzero(np.isinf(column) if optional else ~np.isfinite(column)), f"has {words}", f"have {words}",
            "A table is protected from its true values: fill them in, or leave out the rows of empty cells.",
        )  # fmt: skip

    def agree(self, name: str, column: Numbers, first: Whole, cell: Whole, half: float) -> None:
        """Refuse a cell that linked tables give different numbers for; each may be rounded by `half`."""
        expected = column[first][cell]
        words = f"another number in column '{name}' in one linked table than in the next"
        self._refuse(
            np.flatnonzero(np.abs(column - expected) > 2 * half + 1e-9 * np.abs(expected)), f"has {words}", f"have {words}",
            "Correct one of the tables.",
        )  # fmt: skip

    def whole(self, name: str, counts: Numbers) -> None:
        """Refuse numbers of records or contributors that cannot be numbers of anything."""
        words = f"something else than a whole number of at least 0 in column '{name}'"
        self._refuse(
            np.flatnonzero((counts < 0) | (counts != np.round(counts))), f"has {words}", f"have {words}",
            "It says how many records or contributors there are.",
        )  # fmt: skip

    def has_contributors(self, name: str, values: Numbers, counts: Numbers) -> None:
        """Refuse a value that nobody contributed to."""
        self._refuse(
            np.flatnonzero((counts == 0) & (values != 0)), "has a value but no contributors", "have a value but no contributors",
            f"Correct column '{name}', or leave it out if it says something else.",
        )  # fmt: skip

    def not_negative(self, values: Numbers) -> None:
        """Refuse values below zero."""
        self._refuse(
            np.flatnonzero(values < 0), "is below zero", "are below zero",
            "Where contributions can be negative (profits, changes), say nonnegative=False: everybody then knows less about "
            "the cells; else correct them.",
        )  # fmt: skip

    def _refuse(self, rows: Whole, one: str, several: str, then: str) -> None:
        if len(rows):
            names = [name_of(self.labels[r], self.dimensions) for r in rows[:6]] + [""] * (len(rows) - 6)
            raise DataError(
                f"{some(len(rows), 'cell')} {one if len(rows) == 1 else several}: {listing(names, 5)}. {then}"
            )


def name_of(labels: Sequence[object] | NDArray[np.object_], dimensions: Sequence[str]) -> str:
    """Return labels in words, as `Cells.name` does."""
    parts = [f"{d} {v}" for d, v in zip(dimensions, labels, strict=True) if v != TOTAL]
    return ", ".join(parts) or "the grand total"
