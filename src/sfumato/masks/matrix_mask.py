"""Matrix masks, given as matrices: M = AXB + C (matrix-masking paper, section IV)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, Scope, check_numbers, param
from sfumato.engines import Column, Rows
from sfumato.errors import DataError, NotApplicable, ParameterError, SchemaError, listing
from sfumato.masks.aggregate_columns import with_followers
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Attribute, Level, Role, Scale, Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Numbers = NDArray[np.float64]
_TRIPLETS = ("shape", "rows", "columns", "values")


class MatrixMask(Mask):
    """Release M = AXB + C, where X holds the numbers of chosen columns, one row per record in the order of the data.

    A, of shape (r, n), transforms records; B, of shape (p, c), transforms attributes; C, of shape (r, c) or one row for all,
    displaces. What is not given is the identity or zero. Without A, every record keeps its id and its other columns. With A
    the file holds the released columns only, since other columns cannot be transformed; a released record that is made from
    one original record alone still belongs to it, any other is a new record.

    Examples
    --------
    >>> from sfumato import Draws
    >>> from sfumato.datasets import five
    >>> pairs = MatrixMask("salary", A=[[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0.5, 0]])
    >>> pairs.apply(five(), Draws(1)).masked.numbers("salary").tolist()
    [39.75, 59.5]
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False

    columns: tuple[str, ...] = param(doc="the columns of X, in this order", columns="many")
    A: Any = param(
        default=None,
        doc="record-transforming matrix: rows of numbers, or its entries (shape, rows, columns, values)",
        published=False,
    )
    B: Any = param(default=None, doc="attribute-transforming matrix: rows of numbers", published=False)
    C: Any = param(default=None, doc="displacing matrix: rows of numbers, or one row for all records", published=False)
    released: tuple[str, ...] | None = param(
        default=None,
        doc="names of the columns of M; those of X, or m1, m2, ... if their number changes",
        of_data="nothing",
    )

    def validate(self) -> None:
        """Turn the matrices into plain numbers, and check that their shapes fit together."""
        super().validate()
        if self.A is None and self.B is None and self.C is None:
            raise ParameterError("matrix_mask needs at least one of A, B and C: without any, nothing would be masked.")
        for letter in "ABC":
            if (given := getattr(self, letter)) is not None:
                object.__setattr__(self, letter, _plain(letter, given))
        p = len(self.columns)
        if self.B is not None and len(self.B) != p:
            raise ParameterError(
                f"B has {len(self.B)} rows, but X has {p} columns: it must have a row for each of them."
            )
        c = p if self.B is None else len(self.B[0])
        if self.C is not None and len(self.C[0]) != c:
            raise ParameterError(f"C has {len(self.C[0])} columns, but M has {c}.")
        if self.A is not None and self.C is not None and len(self.C) not in (1, _shape(self.A)[0]):
            raise ParameterError(
                f"C has {len(self.C)} rows, but M has {_shape(self.A)[0]}. Give as many, or one row for all records."
            )
        object.__setattr__(self, "released", self._names(c))
        row_by_row = self.A is None and (self.C is None or len(self.C) == 1)
        object.__setattr__(self, "scope", Scope.ROW if row_by_row else Scope.GLOBAL)
        object.__setattr__(self, "keeps_records", self.A is None)

    def _names(self, c: int) -> tuple[str, ...] | None:
        given: Any = self.released
        if given is None:
            return None
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
        if len(names) != c or not all(isinstance(n, str) and n for n in names) or len(set(names)) < c:
            raise ParameterError(f"released must be a list of {c} different names, one for each column of M.")
        return names

    @property
    def out(self) -> tuple[str, ...]:
        """The names of the columns of M."""
        if self.released is not None:
            return self.released
        c = len(self.columns if self.B is None else self.B[0])
        return self.columns if c == len(self.columns) else tuple(f"m{j}" for j in range(1, c + 1))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with the columns of M in place of those of X: no bounds, no codes, no whole numbers."""
        other = [a for a in schema if a.name not in self.columns]
        if clash := [a.name for a in other if a.name in self.out and self.A is None]:
            raise SchemaError(
                f"M would have the columns {listing(clash)}, which the data have already. Choose other names with released=."
            )
        made = {name: self._attribute(j, name, schema) for j, name in enumerate(self.out)}
        if self.A is not None:
            return Schema(tuple(made.values()))
        if self.out == self.columns:
            return Schema(tuple(made.get(a.name, a) for a in schema))
        gone = with_followers(schema, self.columns)
        kept = schema.keep(lambda a: a.name not in gone)
        return Schema((*kept, *made.values()))

    def _attribute(self, j: int, name: str, schema: Schema) -> Attribute:
        """Return what column j of M means: it keeps role and words where it keeps its name."""
        used = [n for i, n in enumerate(self.columns) if (self.B[i][j] if self.B is not None else i == j)]
        whole = self.scope is Scope.ROW and all(schema[n].level is Level.HOUSEHOLD for n in used)
        level = Level.HOUSEHOLD if whole and used else Level.PERSON
        if name not in self.columns:
            return Attribute(name, Role.CONFIDENTIAL, level=level)
        old = schema[name]
        return Attribute(name, old.role, Scale.ORDERED, label=old.label, unit=old.unit, level=level)

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the matrices themselves."""
        return self._form(len(data))

    def _form(self, n: int) -> MatrixForm:
        rows = n
        if self.A is not None:
            rows, n_of_a = _shape(self.A)
            if n_of_a != n:
                raise DataError(
                    f"A has {n_of_a:,} columns, but there are {n:,} records: it must have a column for each."
                )
        if self.C is not None and len(self.C) not in (1, rows):
            raise DataError(
                f"C has {len(self.C):,} rows, but M has {rows:,}. Give as many, or one row for all records."
            )
        A = None if self.A is None else _sparse(self.A)
        B, C = (None if m is None else np.array(m, np.float64) for m in (self.B, self.C))
        return MatrixForm(self.columns, self.out, A, B, C)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Put AXB + C in place of X."""
        check_numbers(batch, self.columns)
        form = self._form(len(batch))
        x = np.column_stack([batch.numbers(name) for name in self.columns])
        A: Any = form.A
        self._check(x, A)
        m = form.apply(x)
        if np.isinf(m).any():
            raise DataError(f"{listing(self.columns)}: some values are too large to be transformed.")
        made = {name: Column.from_numbers(m[:, j], np.isnan(m[:, j])) for j, name in enumerate(self.out)}
        after = self.schema_after(batch.schema)
        if A is not None:
            return Batch(Rows(_ids(A, batch.ids), made), after)
        columns = {**batch.rows.columns, **made}
        return Batch(Rows(batch.ids, {name: columns[name] for name in after.names()}), after)

    def _check(self, x: Numbers, A: csr_array | None) -> None:
        """Refuse infinite values, and missing ones that would spread to other records."""
        if wild := [n for n, column in zip(self.columns, x.T, strict=True) if np.isinf(column).any()]:
            raise DataError(f"{listing(wild)}: some values are infinite. Set them to missing.")
        if A is None:
            return
        several = abs(A[np.diff(A.indptr) > 1])
        spread = several @ np.isnan(x).astype(np.float64) > 0
        if gaps := [n for n, column in zip(self.columns, spread.T, strict=True) if column.any()]:
            raise DataError(
                f"{listing(gaps)}: A combines records of which some have no value there, so that their gaps would spread. Leave "
                "those records or columns out, or fill the gaps first."
            )

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """State the shapes, and what the matrices give away to whoever knows them."""
        form = self._form(len(before))
        shapes = [f"{letter} {_words(getattr(form, letter))}" for letter in "ABC" if getattr(form, letter) is not None]
        says = f"M = AXB + C with {', '.join(shapes)}; X has {len(before):,} records and {len(self.columns)} attributes"
        said = [Guarantee(step, says, "shapes checked against the data")]
        try:
            records, attributes = form.reveals()
        except NotApplicable as reason:
            return (*said, Guarantee(step, f"not known what the matrices reveal: {reason}", "not verified"))
        open_ = [n for n, known in zip(self.columns, attributes, strict=True) if known]
        count = len(before) if form.A is None else int(records.sum())
        if not count or not open_:
            says = "whoever knows A, B and C can compute no single value of X from them"
        else:
            which = f"{listing(open_)} of {count:,} of the {len(before):,} records"
            says = f"whoever knows A, B and C can compute {which} exactly: keep them secret"
        return (
            *said,
            Guarantee(step, says, "unit vectors tested against the row space of A and the column space of B"),
        )


def _plain(letter: str, given: Any) -> Any:
    """Return a matrix as rows of numbers; a sparse one (A only) as its entries."""
    if letter == "A" and hasattr(given, "tocoo"):
        entries = given.tocoo()
        row, column = entries.coords
        given = {"shape": given.shape, "rows": row, "columns": column, "values": entries.data}
    elif hasattr(given, "toarray"):
        given = given.toarray()
    if isinstance(given, Mapping):
        return _entries(letter, given)
    try:
        matrix = np.array(given, np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(())
    if letter == "C" and matrix.ndim == 1:
        matrix = matrix[None, :]
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ParameterError(
            f"{letter} of matrix_mask must be a matrix: rows of equal length, with finite numbers, such as [[1, 0], [0.5, 0.5]]."
        )
    return tuple(map(tuple, matrix.tolist()))


def _entries(letter: str, given: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return a sparse matrix as the entries that are not zero, counted from 0; all others are zero."""
    try:
        if letter != "A" or set(given) != set(_TRIPLETS):
            raise ValueError
        r, n = (int(v) for v in given["shape"])
        rows, columns = (np.array(given[key], np.int64) for key in ("rows", "columns"))
        values = np.array(given["values"], np.float64)
        fits = rows.shape == columns.shape == values.shape == (len(values),) and r > 0 and n > 0
        if not (fits and np.isfinite(values).all() and min(rows.min(initial=0), columns.min(initial=0)) >= 0):
            raise ValueError
        if rows.max(initial=-1) >= r or columns.max(initial=-1) >= n:
            raise ValueError
    except (TypeError, ValueError):
        raise ParameterError(
            f"{letter} of matrix_mask must be rows of numbers; A may also be given by its entries: shape, rows, columns and "
            "values, where rows and columns count from 0 and lie within the shape."
        ) from None
    lists = (rows.tolist(), columns.tolist(), values.tolist())
    return {"shape": (r, n), **{key: tuple(v) for key, v in zip(_TRIPLETS[1:], lists, strict=True)}}


def _shape(A: Any) -> tuple[int, int]:
    return tuple(A["shape"]) if isinstance(A, Mapping) else (len(A), len(A[0]))


def _sparse(A: Any) -> csr_array:
    from scipy.sparse import csr_array

    if isinstance(A, Mapping):
        matrix = csr_array((np.array(A["values"]), (np.array(A["rows"]), np.array(A["columns"]))), shape=_shape(A))
    else:
        matrix = csr_array(np.array(A, np.float64))
    matrix.eliminate_zeros()
    return matrix


def _ids(A: csr_array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the id of each released record: that of the one record it is made from, or a new, negative one."""
    out = -1 - np.arange(A.shape[0], dtype=np.int64)
    single = np.flatnonzero(np.diff(A.indptr) == 1)
    source = A.indices[A.indptr[single]]
    once = np.bincount(source, minlength=A.shape[1])[source] == 1
    out[single[once]] = ids[source[once]]
    return out


def _words(matrix: Any) -> str:
    """Return a shape, and the rank where it is quickly found."""
    r, n = matrix.shape
    if max(r, n) > 1_000:
        return f"of {r:,} × {n:,}"
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    return f"of {r:,} × {n:,} (rank {np.linalg.matrix_rank(dense)})"
