"""PRAM, the post-randomisation method: categories change at random, with known probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, categorical_targets, learned, param
from sfumato.data import Column
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.kernels.classes import classes
from sfumato.masks.pram_matrix import CategoryCounts, Cell, Transition, generated, matrix_from_rows, read_matrix
from sfumato.schema import Level, Schema
from sfumato.typing import Whole

UNSEEN = -2
"""Cell of a record whose combination the counted file does not have."""
_ROOM = 2**62


class Coder:
    """Cells of some columns as whole numbers: learned from one file, looked up in any other."""

    def __init__(self, columns: tuple[str, ...], values: list[list[Any]], cells: Any) -> None:
        self.columns, self.values, self.cells = columns, values, cells
        self.sizes = [len(v) + 1 for v in values]

    @classmethod
    def of(cls, columns: tuple[str, ...], cells: tuple[Cell, ...]) -> Coder:
        """Learn the cells, which are numbered in their order."""
        values = [sorted({c[i] for c in cells if c[i] is not None}) for i in range(len(columns))]
        places = [{v: k for k, v in enumerate(some)} for some in values]
        table = np.array([[-1 if v is None else p[v] for v, p in zip(c, places, strict=True)] for c in cells], np.int64)
        if np.prod([len(v) + 1.0 for v in values]) > _ROOM:
            raise DataError(
                f"{join_names(columns)} have too many combinations to be randomised together. Recode some first."
            )
        return cls(columns, values, table.reshape(len(cells), len(columns)))

    def _packed(self, codes: list[Whole] | NDArray[Any], n: int) -> Whole:
        packed = np.zeros(n, np.int64)
        for column, size in zip(codes, self.sizes, strict=True):
            packed = packed * size + (column + 1)
        return packed

    def index(self, batch: Batch) -> tuple[Whole, list[Whole]]:
        """Return the cell of each record (-2 if it is new), and each column's codes (past the last value if it is new)."""
        own: list[Whole] = []
        for name, values in zip(self.columns, self.values, strict=True):
            codes, here = batch.column(name).codes
            place = {v: k for k, v in enumerate(values)}
            own.append(np.array([place.get(v, len(values) + i) for i, v in enumerate(here)] + [-1], np.int64)[codes])
        if len(self.columns) == 1:
            cells = np.full(self.sizes[0] + 1, UNSEEN)
            cells[self.cells[:, 0] + 1] = np.arange(len(self.cells))
            return cells[np.minimum(own[0], self.sizes[0] - 1) + 1], own
        new = np.any([codes >= len(v) for codes, v in zip(own, self.values, strict=True)], axis=0)
        if not self.columns:
            return np.zeros(len(batch), np.int64), own
        known = self._packed(self.cells.T, len(self.cells))
        packed = self._packed([np.where(new, -1, codes) for codes in own], len(batch))
        order = np.argsort(known)
        at = order[np.minimum(np.searchsorted(known[order], packed), len(known) - 1)]
        return np.where(new | (known[at] != packed), UNSEEN, at), own

    def columns_of(self, batch: Batch, cells: Whole, own: list[Whole]) -> dict[str, Column]:
        """Return the columns of each record's cell; a record without a cell keeps its own values."""
        out = {}
        for i, name in enumerate(self.columns):
            old = batch.column(name)
            codes = np.where(cells >= 0, self.cells[np.maximum(cells, 0), i], own[i])
            out[name] = Column.from_codes(codes, [*self.values[i], *old.codes[1]], old)
        return out


def count_cells(
    data: Microdata, variables: list[tuple[str, ...]], within: tuple[str, ...]
) -> list[dict[tuple[Cell, Cell], int]]:
    """Count the cells of each variable by stratum, in one pass over the data, on any engine."""
    tables: list[dict[tuple[Cell, Cell], int]] = [{} for _ in variables]
    needed = list(dict.fromkeys([*within, *(n for v in variables for n in v)]))
    for rows in data.engine.batches(needed):
        coded = {name: rows.columns[name].codes for name in needed}
        for table, variable in zip(tables, variables, strict=True):
            names = (*within, *variable)
            label, sizes = classes([coded[n][0] for n in names], len(rows))
            one = np.zeros(len(sizes), np.int64)
            one[label] = np.arange(len(rows))
            picked = [[None if c < 0 else coded[n][1][c] for c in coded[n][0][one].tolist()] for n in names]
            for cell, size in zip(zip(*picked, strict=True), sizes.tolist(), strict=True):
                key = cell[: len(within)], cell[len(within) :]
                table[key] = table.get(key, 0) + size
    return tables


_PD = 0.8
_STAYS = -1


class PRAM(Mask):
    """Each category is replaced by a category drawn from its row of a transition matrix (Gouweleeuw et al. 1998).

    Give the matrix, or only its smallest diagonal entry `pd`: a generated matrix is R = (1 - c) I + c 1 t' with t the
    observed shares. Expected counts then equal the observed ones (t'R = t'), and every category stays with probability at least
    pd. A given matrix is used unchanged; `invariant` makes it invariant, and `alpha` pulls any matrix towards the identity,
    αR + (1 - α)I. Missing values stay. Fitted on one file, it refuses categories that this file does not have.
    """

    columns: tuple[str, ...] | None = param(
        default=None,
        doc="columns to randomise; all keys of categories if none",
        columns="many",
        holds="categories",
    )
    pd: float | Mapping[str, float] | None = param(
        default=None,
        doc="smallest diagonal entry of the matrix; 0.8 if neither pd nor a matrix is given",
        low=0,
        high=1,
        per_column=True,
        usual=(0.99, 0.2),
    )
    alpha: float = param(
        default=1.0, doc="share of the allowed change that is made: αR + (1 - α)I", low=0, above=True, high=1
    )
    matrix: Mapping[str, Any] | None = param(
        default=None,
        doc="matrices by column: {from: {to: chance}}, or a list of rows in the order of categories",
        of_data="categories",
    )
    categories: Mapping[str, Any] | None = param(
        default=None,
        doc="by column, the categories that the rows of its matrix stand for, in order",
        of_data="categories",
    )
    invariant: bool | None = param(
        default=None, doc="whether expected counts equal observed ones; yes for generated matrices, if not said"
    )
    joint: bool = param(default=False, doc="whether the columns change together, as one variable of combinations")
    within: tuple[str, ...] | None = param(
        default=None, doc="columns of strata, each with a matrix of its own", columns="many", holds="categories"
    )
    transitions: Any = learned(
        "columns", "pd", "alpha", "matrix", "categories", "invariant", "joint", "within", default=None
    )
    codes: Any = learned("columns", "joint", "within", "matrix", "categories", default=None)

    @override
    def validate(self) -> None:
        if not isinstance(self.invariant, bool | None):
            raise ParameterError(f"invariant of {self.name} must be yes or no (True or False).")
        if both := [c for c in self.columns or () if c in (self.within or ())]:
            raise ParameterError(f"{join_names(both)}: a column cannot be randomised and be a stratum at once.")
        if self.pd == 1 or (isinstance(self.pd, Mapping) and 1 in self.pd.values()):
            raise ParameterError("pd = 1 would leave every category as it is. Choose a smaller one, such as 0.8.")
        if self.joint and (self.matrix is not None or isinstance(self.pd, Mapping)):
            raise ParameterError("joint randomises the columns as one variable: give one pd for all, and no matrix.")
        for field in ("matrix", "categories"):
            if not isinstance(getattr(self, field), Mapping | None):
                raise ParameterError(f"{field} of {self.name} must be given by column: {{column: ...}}.")
        object.__setattr__(self, "matrix", self._read() or None)
        object.__setattr__(self, "categories", None)  # the matrix is labelled by now
        if self.columns is not None:
            self._check_named(self.columns)

    def _read(self) -> dict[str, dict[str, dict[str, float]]]:
        labels = self.categories or {}
        if extra := [c for c in labels if c not in (self.matrix or {})]:
            raise ParameterError(f"categories are given for columns that have no matrix: {join_names(extra)}.")
        return {str(c): read_matrix(str(c), m, labels.get(c)) for c, m in (self.matrix or {}).items()}

    def _check_named(self, columns: tuple[str, ...]) -> None:
        levels = self.pd if isinstance(self.pd, Mapping) else {}
        for what, setting in (("pd", levels), ("matrix", self.matrix or {})):
            if extra := [c for c in setting if c not in columns]:
                raise ParameterError(f"{what} names columns that are not randomised: {join_names(extra)}.")
        if levels and (absent := [c for c in columns if c not in levels and c not in (self.matrix or {})]):
            raise ParameterError(f"pd gives no smallest diagonal for {join_names(absent)}.")

    # -- learning

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Count the categories, in each stratum, and learn the matrices."""
        within = self.within or ()
        for name in (*within, *(self.columns or ())):
            data.kind(name)
        names = tuple(n for n in categorical_targets(self.columns, data) if n not in within)
        self._check_named(names)
        self._check_levels(names, data.schema)
        variables: list[tuple[str, ...]] = [names] if self.joint else [(n,) for n in names]
        tables = count_cells(data, variables, within)
        counts = [
            CategoryCounts.of(self._known(v, table, data.schema)) for v, table in zip(variables, tables, strict=True)
        ]
        transitions = {
            " by ".join(v): self._transition(v, c, data.schema) for v, c in zip(variables, counts, strict=True)
        }
        if still := [label for label, move in transitions.items() if move.diagonal().min() >= 1]:
            raise DataError(
                f"no category of {join_names(still)} can change: each stays with a chance of 1. Give a matrix that moves some, "
                "or use coarser strata."
            )
        strata = sorted({s for table in tables for s, _ in table}, key=lambda cell: [(v is not None, v) for v in cell])
        codes = {v: Coder.of(v, transitions[" by ".join(v)].categories) for v in variables}
        return self.learn(transitions=transitions, codes=(codes, Coder.of(within, tuple(strata)), tuple(strata)))

    def _check_levels(self, names: tuple[str, ...], schema: Schema) -> None:
        if self.joint and len(by_level(schema, names)) > 1:
            raise DataError(
                f"some of {join_names(names)} describe households and some persons; these cannot change together."
            )
        persons = [w for w in self.within or () if schema[w].level is not Level.HOUSEHOLD]
        if persons and any(schema[n].level is Level.HOUSEHOLD for n in names):
            raise DataError(
                f"{join_names(persons)} describes persons, but some of {join_names(names)} describe households, whose members must "
                "stay alike. Use strata of households for these."
            )

    def _known(self, variable: tuple[str, ...], table: dict[tuple[Cell, Cell], int], schema: Schema) -> Any:
        """Return the counts without records whose values are all missing."""
        kept = {(s, c): n for (s, c), n in table.items() if not all(_gaps(variable, c, schema))}
        if not kept:
            raise DataError(f"{join_names(variable)} has no values at all, so there is nothing to randomise.")
        if len({c for _, c in kept}) < 2:
            raise DataError(f"{join_names(variable)} has one category only, so there is nothing it could become.")
        return kept

    def _transition(self, variable: tuple[str, ...], counts: CategoryCounts, schema: Schema) -> Transition:
        name = variable[0]
        pd = self.pd.get(name) if isinstance(self.pd, Mapping) else self.pd
        if rows := (self.matrix or {}).get(name):
            codes = {str(code) for code in schema[name].missing}
            if any(
                chance and to in codes
                for label, row in rows.items()
                if label not in codes
                for to, chance in row.items()
            ):
                raise DataError(
                    f"the matrix of '{name}' makes some categories missing, by a code for missing values. To suppress values use "
                    "suppress_values; leave the code out of the matrix."
                )
            return matrix_from_rows(name, counts, rows, bool(self.invariant), pd, self.alpha)
        gaps = [_pattern(variable, cell, schema) for cell in counts.cells]
        number = {pattern: i for i, pattern in enumerate(dict.fromkeys(gaps))}
        return generated(
            variable,
            counts,
            [number[g] for g in gaps],
            self.invariant is not False,
            _PD if pd is None else pd,
            self.alpha,
        )

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return (*(self.columns or schema.names(role="key")), *(self.within or ()))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the randomised columns."""
        if self.transitions is None:
            return super().changes(schema)
        return tuple(dict.fromkeys(n for move in self.transitions.values() for n in move.columns))

    # -- masking

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw a new category for each record from its row of the matrix."""
        codes, strata_coder, strata = self.codes
        stratum, _ = strata_coder.index(batch)
        columns: dict[str, Column] = {}
        for variable, coder in codes.items():
            move: Transition = self.transitions[" by ".join(variable)]
            cell, own = coder.index(batch)
            cell[np.all([batch.missing(name) for name in variable], axis=0)] = _STAYS
            place = {s: i for i, s in enumerate(move.strata)}
            at = np.array([*(place.get(s, UNSEEN) for s in strata), UNSEEN, UNSEEN])[stratum]
            self._check_seen(variable, cell, at, move)
            rows = move.rows(np.maximum(at, 0), np.maximum(cell, 0))
            uniforms = draws.uniforms(batch.units(variable[0]), " by ".join(variable))
            new = kernels.swapping.moved(cell, rows, move.stay, move.begins, move.members, move.cumulative, uniforms)
            columns |= coder.columns_of(batch, new, own)
        return batch.with_columns(columns)

    def _check_seen(self, variable: tuple[str, ...], cell: Whole, at: Whole, move: Transition) -> None:
        """Refuse categories that the fitted data do not have: their probabilities are unknown."""
        new = (cell == UNSEEN) | ((at == UNSEEN) & (cell != _STAYS))
        if self.within and move.width < len(move.categories):  # a category may be new in one stratum only
            k = len(move.categories)
            key = np.where(new | (cell < 0), -1, at * k + cell)
            known = move.seen @ [k, 1]
            new |= (key >= 0) & (known[np.minimum(np.searchsorted(known, key), len(known) - 1)] != key)
        if many := int(new.sum()):
            raise DataError(
                f"{many:,} records have a category of {join_names(variable)}, or a stratum, that was not in the data the matrix was "
                "made from. Recode them, or fit the mask on data that have it."
            )

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify the smallest diagonal entry and the invariance of each matrix."""
        where = " in each stratum" if self.within else ""
        for label, move in self.transitions.items():
            least, off = float(move.diagonal().min()), move.imbalance()
            pd = self.pd.get(label) if isinstance(self.pd, Mapping) else self.pd
            pd = _PD if pd is None and label not in (self.matrix or {}) else pd
            if pd is not None and least < pd:
                raise DataError(
                    f"the matrix of '{label}' lets a category stay with a chance of {least:.4g}, less than pd = {pd:g}; "
                    "nothing is released."
                )
            says = f"{label}: every category stays with a chance of at least {least if pd is None else pd:.4g}{where}"
            yield Guarantee(step, says, f"diagonals of the matrix: the smallest is {least:.6f}")
            wanted = bool(self.invariant) if label in (self.matrix or {}) else self.invariant is not False
            if wanted and off > 1e-9:
                raise DataError(f"the matrix of '{label}' does not keep the expected counts; nothing is released.")
            made_from = "those of the file that the matrix was made from"  # a fitted mask may be run on another file
            says = f"{label}: expected counts equal {made_from}{where}"
            if off > 1e-9:
                remedy = (
                    "correct them with pram_correction"
                    if move.invertible()
                    else "the matrix is singular: no correction"
                )
                says = f"{label}: expected counts differ from {made_from}; {remedy}"
            yield Guarantee(step, says, f"t'R against t': they differ by {max(off, 1e-15):.0e} of the records at most")
            if still := int(move.counts[move.diagonal() >= 1].sum()):
                says = f"{label}: {still:,} records cannot change, as their category stays with a chance of 1"
                yield Guarantee(step, says, "diagonals of 1 counted")


def _gaps(columns: tuple[str, ...], cell: Cell, schema: Schema) -> list[bool]:
    return [v is None or v in schema[c].missing for c, v in zip(columns, cell, strict=True)]


def _pattern(columns: tuple[str, ...], cell: Cell, schema: Schema) -> Cell:
    """Return the missing values by code; all other values count as one."""
    return tuple((gap, v if gap else None) for gap, v in zip(_gaps(columns, cell, schema), cell, strict=True))


def published_matrix(mask: PRAM, column: str) -> Microdata:
    """Return the matrix of a fitted mask as a table. Publishing it with the release is a separate decision.

    The column is named as in `mask.transitions`: "sex", or "region by sex" for columns that change together.
    """
    if mask.transitions is None:
        raise ParameterError("the mask has not been fitted, so there is no matrix yet: mask.fit(data, draws).")
    if column not in mask.transitions:
        raise ParameterError(f"there is no matrix of '{column}'. There are: {join_names(mask.transitions)}.")
    move: Transition = mask.transitions[column]
    return move.published()
