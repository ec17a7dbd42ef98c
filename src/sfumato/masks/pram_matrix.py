"""Transition matrices of PRAM: read, generated or made invariant, in sparse form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data import Column, LocalEngine, Microdata, Rows
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.schema import Attribute, Role, Scale, Schema
from sfumato.typing import Numbers, Whole

Cell = tuple[Any, ...]
"""One value per column; None is missing."""

_SHOWN = 2_000
_FLAT = 1e-10
"""Ratio of smallest to largest singular value below which a matrix is not inverted (see pram_correction)."""
_SUM = 1e-6
"""Tolerance for the sum of a typed row; rows are then scaled to sum to one exactly."""


@dataclass(frozen=True, eq=False)
class Transition:
    """Transition probabilities between categories, in each stratum; confidential until deliberately published.

    Row r keeps a record's category with probability stay[r]; otherwise it draws one of its members, with the given
    probabilities. The rows of stratum s are s·width to (s + 1)·width, and row_of gives the row of a category: the same for all,
    if the matrix is (1 - c) I + c 1 s', which is never formed.
    """

    columns: tuple[str, ...]
    categories: tuple[Cell, ...]
    strata: tuple[Cell, ...]
    seen: Whole
    """Stratum and category of each combination that the data have, shape (m, 2), sorted."""
    counts: Numbers
    """How many records have it, shape (m,)."""
    row_of: Whole
    width: int
    stay: Numbers
    begins: Whole
    members: Whole
    chances: Numbers

    @property
    def cumulative(self) -> Numbers:
        """Cumulative probabilities within each row; the last of a row is 1."""
        total = np.cumsum(self.chances)
        before = np.concatenate([[0.0], total])[self.begins[:-1]]
        out: Numbers = total - np.repeat(before, np.diff(self.begins))
        out[self.begins[1:][np.diff(self.begins) > 0] - 1] = 1.0
        return out

    def rows(self, strata: Whole, cells: Whole) -> Whole:
        """Return the row of each stratum and category."""
        rows: Whole = strata * self.width + self.row_of[cells]
        return rows

    def diagonal(self) -> Numbers:
        """Return the probability to stay of each combination of stratum and category in the data, shape (m,)."""
        rows = self.rows(*self.seen.T)
        of_row = np.repeat(np.arange(len(self.stay)), np.diff(self.begins))
        keys = of_row * len(self.categories) + self.members
        wanted = rows * len(self.categories) + self.seen[:, 1]
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        drawn = np.where(keys[at] == wanted, self.chances[at], 0.0)
        chance: Numbers = self.stay[rows] + (1 - self.stay[rows]) * drawn
        return chance

    def imbalance(self) -> float:
        """Return the largest difference between expected and observed counts, as a share of the records in the stratum."""
        rows, k = self.rows(*self.seen.T), len(self.categories)
        leaves = np.bincount(rows, self.counts * (1 - self.stay[rows]), len(self.stay))
        of_row = np.repeat(np.arange(len(self.stay)), np.diff(self.begins))
        arrives = of_row // self.width * k + self.members
        cells, place = np.unique(np.concatenate([self.seen @ [k, 1], arrives]), return_inverse=True)
        change = np.concatenate([-self.counts * (1 - self.stay[rows]), leaves[of_row] * self.chances])
        total = np.bincount(self.seen[:, 0], self.counts, len(self.strata))
        return float(np.max(np.abs(np.bincount(place, change)) / total[cells // k], initial=0.0))

    def matrix(self, *stratum: Any) -> Numbers:
        """Return the matrix of one stratum, shape (k, k): rows are the categories before, columns those after."""
        k = len(self.categories)
        if k > _SHOWN:
            raise DataError(f"{' by '.join(self.columns)} has {k:,} categories: a matrix of that size is never formed.")
        if stratum not in self.strata:
            asked = f"{len(self.strata):,} strata" if self.strata != ((),) else "one matrix, without strata"
            raise DataError(f"there is no matrix for that stratum; {' by '.join(self.columns)} has {asked}.")
        out = np.zeros((k, k))
        for cell, row in enumerate(self.rows(np.full(k, self.strata.index(stratum)), np.arange(k)).tolist()):
            at = slice(self.begins[row], self.begins[row + 1])
            out[cell, self.members[at]] = (1 - self.stay[row]) * self.chances[at]
            out[cell, cell] += self.stay[row]
        return out

    def invertible(self) -> bool:
        """Whether the matrix can be inverted, so that analysts can correct counts."""
        if self.stay.any():  # (1 - c) I + c 1 s' has the eigenvalues 1 - c and 1
            return bool(self.stay.min() > _FLAT)
        return bool(np.linalg.cond(self.matrix(*self.strata[0])) < 1 / _FLAT)

    def published(self) -> Microdata:
        """Return the matrix as a table for deliberate publication: analysts need it to correct their counts.

        One line for each positive probability: the stratum, the category before and after, and the probability. An invariant
        matrix reveals the shares of the categories in the original file; the released file already shows them, with noise.
        """
        names = (*self.columns, *(f"{c}_released" for c in self.columns), "chance")
        lines: list[list[Any]] = [[] for _ in names]
        strata: list[Cell] = []
        for stratum in self.strata:
            matrix = self.matrix(*stratum)
            for i, j in np.argwhere(matrix > 0).tolist():
                strata.append(stratum)
                entries = (*self.categories[i], *self.categories[j], matrix[i, j])
                for line, entry in zip(lines, entries, strict=True):
                    line.append(entry)
        titles = [f"stratum_{s + 1}" for s in range(len(self.strata[0]))]
        columns = {t: Column.from_values([s[i] for s in strata]) for i, t in enumerate(titles)}
        columns |= {n: Column.from_values(line) for n, line in zip(names, lines, strict=True)}
        schema = Schema(tuple(Attribute(n, Role.OTHER, Scale.UNORDERED) for n in columns))
        return Microdata(LocalEngine(Rows(np.arange(len(strata), dtype=np.int64), columns)), schema)


# Matrices


def retention(shares: Numbers, pd: float, alpha: float) -> float:
    """Return 1 - c of the matrix (1 - c) I + c 1 s', whose smallest diagonal entry is 1 - α(1 - pd), or more.

    Entry i of the diagonal is 1 - c(1 - sᵢ): the smallest one belongs to the smallest share, which gives c. With s the observed
    shares, s'R = (1 - c) s' + c s' = s': the matrix is invariant and also has the promised diagonal.
    """
    spread = 1.0 - float(shares.min())
    if spread <= 0:
        return 1.0
    c = min(alpha * (1 - pd) / spread, 1.0) * (1 - 2.0**-50)  # the last digit must not fall below the promise
    return 1.0 - c


def invariant_form(matrix: Numbers, counts: Numbers) -> Numbers:
    """Return the invariant matrix R = PQ of a matrix P: Q reverses P by Bayes' rule (Kooiman et al. 1997).

    Q_kj = p_jk t_j / Σᵢ p_ik tᵢ, so that t'R = Σ_k (t'P)_k Q_k = t'.
    """
    joint = matrix * counts[:, None]
    arrived = joint.sum(axis=0)
    back = np.where(arrived[:, None] > 0, joint.T / np.where(arrived > 0, arrived, 1.0)[:, None], np.eye(len(matrix)))
    result: Numbers = matrix @ back
    return result


def toned_down(matrix: Numbers, alpha: float, pd: float | None, counts: Numbers) -> Numbers:
    """Return αR + (1 - α) I, with the largest α up to the given one for which the diagonal is at least pd (de Wolf et al. 1998)."""
    lowest = float(np.diag(matrix)[counts > 0].min(initial=1.0))
    if pd is not None and lowest < 1:
        alpha = min(alpha, (1 - pd) / (1 - lowest) * (1 - 2.0**-50))
    return alpha * matrix + (1 - alpha) * np.eye(len(matrix))


def read_matrix(column: str, given: Any, categories: Sequence[Any] | None) -> dict[str, dict[str, float]]:
    """Return a given matrix as {from: {to: probability}}, with rows checked and scaled to sum to one; refuse other input."""
    rows = _labelled(column, given, categories)
    for label, row in rows.items():
        where = f"row '{label}' of the matrix of '{column}'"
        if strange := [to for to in row if to not in rows]:
            raise ParameterError(f"{where} leads to categories that have no row of their own: {join_names(strange)}.")
        chances = list(row.values())
        if not all(isinstance(c, float | int) and not isinstance(c, bool) and 0 <= c <= 1 for c in chances):
            raise ParameterError(f"{where} must hold chances between 0 and 1.")
        if abs(sum(chances) - 1) > _SUM:
            raise ParameterError(f"{where} sums to {sum(chances):.6g}, where chances must sum to 1.")
    return rows


def _labelled(column: str, given: Any, categories: Sequence[Any] | None) -> dict[str, dict[str, float]]:
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(given, Mapping) and all(isinstance(row, Mapping) for row in given.values()) and given:
        return {str(i): {str(j): c for j, c in row.items()} for i, row in given.items()}
    size = len(given) if isinstance(given, Sequence) and not isinstance(given, str) else 0
    if not size or any(not isinstance(row, Sequence) or len(row) != size for row in given):
        raise ParameterError(
            f"the matrix of '{column}' must be a square list of rows, or a mapping {{from: {{to: chance}}}}."
        )
    if categories is None or isinstance(categories, str) or len({str(c) for c in categories}) != size:
        raise ParameterError(
            f"the matrix of '{column}' is a list of {size} rows; say in categories which {size} categories they are, in order."
        )
    labels = [str(c) for c in categories]
    return {i: dict(zip(labels, row, strict=True)) for i, row in zip(labels, given, strict=True)}


# Transitions


def generated(
    columns: tuple[str, ...], counts: CategoryCounts, patterns: Sequence[int], invariant: bool, pd: float, alpha: float
) -> Transition:
    """Return the transition (1 - c) I + c 1 s' of each stratum: s the observed shares, or equal ones if not invariant.

    Categories with another pattern of missing values do not mix: a missing value stays missing.
    """
    pattern = np.array(patterns, np.int64)
    width = int(pattern.max(initial=0)) + 1
    row = counts.seen[:, 0] * width + pattern[counts.seen[:, 1]]
    order = np.lexsort([counts.seen[:, 1], row])
    begins = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(counts.strata) * width))])
    weight = counts.number[order] if invariant else np.ones(len(order))
    chances, stay = np.empty(len(order)), np.ones(len(begins) - 1)
    for r in np.flatnonzero(np.diff(begins)).tolist():
        at = slice(begins[r], begins[r + 1])
        chances[at] = weight[at] / weight[at].sum()
        stay[r] = retention(chances[at], pd, alpha)
    return Transition(
        columns, counts.cells, counts.strata, counts.seen, counts.number,
        pattern, width, stay, begins, counts.seen[order, 1], chances,
    )  # fmt: skip


def matrix_from_rows(
    column: str,
    counts: CategoryCounts,
    rows: Mapping[str, Mapping[str, float]],
    invariant: bool,
    pd: float | None,
    alpha: float,
) -> Transition:
    """Return the transition of a given matrix, the same in every stratum unless it is made invariant there."""
    values = [cell[0] for cell in counts.cells]
    named = {label: _category(label, values) for label in rows}
    if absent := len(set(values) - set(named.values())):
        raise DataError(
            f"{absent:,} categories of '{column}' have no row in its matrix. Add a row for each category in the data."
        )
    kinds = {type(v) for v in values}
    if strange := [label for label, v in named.items() if type(v) not in kinds]:
        raise DataError(
            f"the matrix of '{column}' has rows for what it cannot hold: {join_names(strange)}. Leave them out."
        )
    if len(set(named.values())) < len(named):
        raise DataError(f"the matrix of '{column}' has two rows for one category.")
    extra = [v for v in named.values() if v not in set(values)]
    place, k = {v: i for i, v in enumerate([*values, *extra])}, len(values) + len(extra)
    matrix = np.zeros((k, k))
    for label, row in rows.items():
        for to, chance in row.items():
            matrix[place[named[label]], place[named[to]]] = chance
    matrix /= matrix.sum(axis=1, keepdims=True)
    dense = []
    for _, number in counts.by_stratum(k):
        one = invariant_form(matrix, number) if invariant else matrix
        dense.append(toned_down(one, alpha, pd if invariant else None, number))
    every = np.concatenate(dense) if dense else np.zeros((0, k))
    cells = (*counts.cells, *((v,) for v in extra))
    at, member = np.nonzero(every)
    begins = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(every)))])
    return Transition(
        (column,), cells, counts.strata, counts.seen, counts.number,
        np.arange(k), k, np.zeros(len(every)), begins, member, every[at, member],
    )  # fmt: skip


def _category(label: str, values: Sequence[Any]) -> Any:
    """Return the category that a label stands for: 1, 1.0 and "1" are one number, whatever the column's type."""
    for value in values:
        if str(value) == label or (isinstance(value, bool) and str(value).lower() == label.lower()):
            return value
    try:
        number = float(label)
    except ValueError:
        return label
    if all(isinstance(v, float) for v in values):
        return number
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values) and number.is_integer()
    return int(number) if whole else label


@dataclass(frozen=True, eq=False)
class CategoryCounts:
    """Number of records of each stratum and category; transitions are computed from these."""

    strata: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    seen: Whole
    number: Numbers

    @classmethod
    def of(cls, table: Mapping[tuple[Cell, Cell], int]) -> CategoryCounts:
        """Number the strata and the categories in order, missing ones first."""
        strata, cells = ({pair[i] for pair in table} for i in (0, 1))
        ordered = [sorted(some, key=lambda cell: [(v is not None, v) for v in cell]) for some in (strata, cells)]
        at = [{cell: i for i, cell in enumerate(some)} for some in ordered]
        entries = sorted((at[0][s], at[1][c], number) for (s, c), number in table.items())
        seen = np.array([entry[:2] for entry in entries], np.int64).reshape(-1, 2)
        return cls(tuple(ordered[0]), tuple(ordered[1]), seen, np.array([e[2] for e in entries], np.float64))

    def by_stratum(self, k: int) -> Iterator[tuple[Cell, Numbers]]:
        """Yield each stratum with its number of records per category, shape (k,)."""
        for s, stratum in enumerate(self.strata):
            inside = self.seen[:, 0] == s
            yield stratum, np.bincount(self.seen[inside, 1], self.number[inside], k).astype(np.float64)
