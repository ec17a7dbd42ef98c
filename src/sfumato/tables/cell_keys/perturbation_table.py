"""Perturbation tables: for each value and each cell key, what is added."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError
from sfumato.files import write_text

Numbers = NDArray[np.float64]
KINDS = ("all", "even", "odd", "small_cells")
_ROUNDED = 1e-5  # files hold rounded probabilities


@dataclass(frozen=True, eq=False)
class Row:
    """What may be added to one value, ascending, with which probability, and up to which cell key."""

    value: float
    change: Numbers
    probability: Numbers
    bound: Numbers
    """The cell keys from the bound before up to this one, exclusive, give this change."""

    @classmethod
    def of(cls, value: float, change: Numbers, probability: Numbers) -> Row:
        """Return a row from probabilities; the last bound is 1."""
        bound = np.minimum(np.cumsum(probability), 1.0)  # a sum may end a rounding error above 1
        bound[-1] = 1.0
        return cls(float(value), change, probability, bound)

    @property
    def mean(self) -> float:
        """What is added on average."""
        return float(self.probability @ self.change)

    @property
    def variance(self) -> float:
        """The variance of what is added."""
        return float(self.probability @ self.change**2) - self.mean**2

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Which changes some cell key gives; in a file with rounded numbers, perhaps one whose probability reads 0."""
        last = np.arange(len(self.bound)) == len(self.bound) - 1
        wide = np.diff(self.bound, prepend=0.0) > 0
        return np.asarray((self.probability > 0) | wide | (last & (self.bound < 1)))

    def at(self, keys: Numbers) -> Numbers:
        """Return what is added for cell keys in [0, 1): the first change whose bound is above the key."""
        return np.asarray(
            self.change[np.minimum(np.searchsorted(self.bound, keys, side="right"), len(self.change) - 1)]
        )


@dataclass(frozen=True, eq=False)
class PerturbationTable:
    """For each value and cell key what is added: the noise of the cell-key method, laid down beforehand.

    Rows are by value; beyond the last one the last one holds. There may be one table for all cells, or one each for cells
    with an even and an odd number of contributors, and one for small cells. The files of τ-ARGUS and of the R package ptable
    (columns i;j;p;v;p_int_ub and perhaps type) are read and written; `for_counts` and `for_magnitudes` make one.

    Examples
    --------
    >>> made = PerturbationTable.for_counts(maximum=3, variance=1.5)
    >>> [round(row.variance, 6) for row in made.rows["all"]]
    [0.0, 1.5, 1.5, 1.5]
    >>> table = PerturbationTable({"all": (Row.of(0, np.zeros(1), np.ones(1)),
    ...                                    Row.of(1, np.array([-1.0, 0, 1]), np.array([0.25, 0.5, 0.25])))})
    >>> table.at(np.array([0, 1, 1, 7]), np.array([0.9, 0.1, 0.5, 0.8])).tolist()
    [0.0, -1.0, 0.0, 1.0]
    """

    rows: Mapping[str, tuple[Row, ...]]

    def __post_init__(self) -> None:
        if not self.rows or not all(self.rows.values()):
            raise DataError("a perturbation table needs at least one row.")
        for kind, rows in self.rows.items():
            _check(kind, rows)
        if ("even" in self.rows) != ("odd" in self.rows):
            raise DataError(
                "a perturbation table for even numbers of contributors needs one for odd numbers, and conversely."
            )
        if not {"all", "even"} & set(self.rows):
            raise DataError("a perturbation table needs rows of the type 'all', or of the types 'even' and 'odd'.")

    def __repr__(self) -> str:
        return f"PerturbationTable({', '.join(self.rows)}; changes by at most {self.maximum:g})"

    @cached_property
    def maximum(self) -> float:
        """The largest change, either way."""
        return max(float(np.abs(row.change).max()) for rows in self.rows.values() for row in rows)

    @property
    def whole(self) -> bool:
        """Whether it changes counts into counts: a row for each, and whole changes."""
        rows = self.rows.get("all", ())
        return [r.value for r in rows] == list(range(len(rows))) and all(
            (r.change == np.round(r.change)).all() for r in rows
        )

    def for_small(self) -> PerturbationTable | None:
        """Return the rows for small cells, as a table of their own; None if there are none."""
        return PerturbationTable({"all": self.rows["small_cells"]}) if "small_cells" in self.rows else None

    def without_small(self) -> PerturbationTable:
        """Return the table without the rows for small cells."""
        kept = {kind: rows for kind, rows in self.rows.items() if kind != "small_cells"}
        return self if len(kept) == len(self.rows) else PerturbationTable(kept)

    def at(self, counts: NDArray[np.int64] | Numbers, keys: Numbers) -> Numbers:
        """Return what is added to counts, for their cell keys; both of shape (n,)."""
        rows = self.rows["all"]
        place = np.minimum(np.asarray(counts, np.int64), len(rows) - 1)
        out = np.zeros(len(place))
        for k in np.unique(place):
            out[place == k] = rows[k].at(np.asarray(keys)[place == k])
        return out

    def between(self, values: Numbers, keys: Numbers, kind: str = "all") -> Numbers:
        """Return the change for values between rows: what the two rows give for the key, in proportion to the distance."""
        rows = self.rows[kind]
        at = np.array([row.value for row in rows])
        values = np.clip(values, at[0], at[-1])
        upper = np.minimum(np.searchsorted(at, values, side="right"), len(at) - 1)
        lower = np.maximum(upper - 1, 0)
        every = np.stack([row.at(keys) for row in rows])
        here = np.arange(len(keys))
        gap = np.where(upper == lower, 1.0, at[upper] - at[lower])
        share = np.where(upper == lower, 0.0, (values - at[lower]) / gap)
        return np.asarray((1 - share) * every[lower, here] + share * every[upper, here])

    def could_be(self, published: Numbers) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest count that can be published as each of these, both of shape (n,)."""
        rows, reach = self.rows["all"], int(self.maximum)
        least, most = np.full(len(published), np.inf), np.full(len(published), -np.inf)
        for change in range(-reach, reach + 1):
            able = np.array([row.possible[row.change == change].any() for row in rows])
            count = published - change
            fits = (count >= 0) & able[np.clip(count, 0, len(rows) - 1).astype(np.int64)]
            least[fits], most[fits] = np.minimum(least[fits], count[fits]), np.maximum(most[fits], count[fits])
        if (least > most).any():
            raise DataError("no count can be published as one of these with this perturbation table.")
        return least, most

    @classmethod
    def for_counts(
        cls, maximum: int, variance: float, smallest: int = 0, stay: float = 0.0, monotone: bool = False
    ) -> PerturbationTable:
        """Return the table that `CellKey` generates for counts with these parameters: the noise of most entropy."""
        from sfumato.tables.cell_keys.cell_key import CellKey
        from sfumato.tables.cell_keys.generated import count_table

        asked = CellKey(maximum=maximum, variance=variance, smallest=smallest, stay=stay, monotone=monotone)
        return count_table(asked.maximum, asked.variance, asked.smallest, asked.stay, asked.monotone)

    @classmethod
    def for_magnitudes(cls, maximum: int, variance: float, monotone: bool = False) -> PerturbationTable:
        """Return the table that `CellKey` generates for magnitudes: rows for 0, 1 and `maximum`, changes in halves."""
        from sfumato.tables.cell_keys.cell_key import CellKey
        from sfumato.tables.cell_keys.generated import magnitude_table

        asked = CellKey(maximum=maximum, variance=variance, monotone=monotone)
        return magnitude_table(asked.maximum, asked.variance, monotone=asked.monotone)

    @classmethod
    def read(cls, path: str | Path, kind: str | None = None) -> PerturbationTable:
        """Read a file of τ-ARGUS or ptable; `kind` puts all its rows under one type, whatever the file says."""
        try:
            text = Path(path).read_text("utf-8-sig")
        except FileNotFoundError:
            raise ParameterError(f"there is no perturbation table at {path}.") from None
        except (OSError, UnicodeDecodeError):
            raise DataError(f"{path} cannot be read as a perturbation table.") from None
        lines = [line for line in csv.reader(text.splitlines(), delimiter=";") if any(cell.strip() for cell in line)]
        names = [cell.strip().strip('"').lower() for cell in lines[0]] if lines else []
        if names[:4] != ["i", "j", "p", "v"] or len(names) not in (5, 6) or (len(names) == 6 and names[5] != "type"):
            raise DataError(
                f"{path} is not a perturbation table: its first line must be i;j;p;v;p_int_ub, and perhaps ;type after it."
            )
        gathered: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
        for number, line in enumerate(lines[1:], 2):
            try:
                i, j, p, v, bound = (float(cell.replace(",", ".")) for cell in line[:5])
            except ValueError:
                raise DataError(f"line {number} of {path} is not five numbers with ; between them.") from None
            if abs(j - i - v) > _ROUNDED:
                raise DataError(
                    f"line {number} of {path} says that a value becomes another that is not v away from it."
                )
            under = kind or (line[5].strip().strip('"') if len(line) > 5 else "all")
            if under not in KINDS:
                raise DataError(f"line {number} of {path} has an unknown type; there are {', '.join(KINDS)}.")
            gathered.setdefault(under, {}).setdefault(i, []).append((v, p, bound))
        return cls({under: tuple(_row(i, by[i]) for i in sorted(by)) for under, by in gathered.items()})

    def write(self, path: str | Path) -> None:
        """Write the table as ptable does, with a type in every line."""
        lines = ["i;j;p;v;p_int_ub;type"]
        lines += [
            f"{row.value:.12g};{row.value + v:.12g};{p:.12g};{v:.12g};{b:.12g};{kind}"
            for kind, rows in self.rows.items()
            for row in rows
            for v, p, b in zip(row.change, row.probability, row.bound, strict=True)
        ]
        write_text(path, "\n".join(lines) + "\n")


def _row(value: float, entries: list[tuple[float, float, float]]) -> Row:
    change, probability, bound = np.array(entries).T.copy()
    return Row(value, change, probability, bound)


def _check(kind: str, rows: Iterable[Row]) -> None:
    """Refuse rows that are no distributions, lead below zero, or change zeros."""
    for row in rows:
        name = f"row {row.value:g} of the perturbation table ('{kind}')"
        numbers = np.concatenate([[row.value], row.change, row.probability, row.bound])
        if not np.isfinite(numbers).all() or row.value < 0:
            raise DataError(f"{name} has a number that is missing or infinite, or a value below zero.")
        if (row.probability < 0).any() or abs(row.probability.sum() - 1) > _ROUNDED:
            raise DataError(f"{name} has probabilities that are negative or do not add up to 1.")
        if np.abs(np.cumsum(row.probability) - row.bound).max() > _ROUNDED:
            raise DataError(f"{name} has bounds that are not the running sums of its probabilities.")
        if (np.diff(row.bound) < 0).any() or abs(row.bound[-1] - 1) > _ROUNDED:
            raise DataError(f"{name} has bounds that fall, or do not end at 1.")
        if (row.value + row.change[row.possible] < 0).any():
            raise DataError(f"{name} leads below zero.")
        if row.value == 0 and row.change[row.possible].any():
            raise DataError(f"{name} changes a zero: zeros must stay, since nobody is behind them.")
