"""Matrix masks M = AXB + C: given matrices, random factors, displacement (section IV), and random orthogonal matrices (ROMM)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    MatrixForm,
    Scope,
    check_numbers,
    check_values,
    learned,
    numeric_targets,
    param,
)
from sfumato.data import Batch, Column, Microdata, Rows
from sfumato.data.microdata import by_level
from sfumato.errors import DataError, NotApplicable, ParameterError, SchemaError, join_names
from sfumato.kernels.classes import classes
from sfumato.kernels.moments import Moments
from sfumato.masks.column_settings import check_by_column, limited_columns, numeric_columns, replace_numbers
from sfumato.masks.noise import NoiseLevel, moments_kept, needed, spread_of
from sfumato.schema import Attribute, Level, Role, Scale, Schema
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TRIPLETS = ("shape", "rows", "columns", "values")


class MatrixMask(Mask):
    """Release M = AXB + C, where X holds the numbers of chosen columns, one row per record in the order of the data.

    A, of shape (r, n), transforms records; B, of shape (p, c), transforms attributes; C, of shape (r, c) or one row for all,
    displaces. A matrix that is not given is the identity or zero. Without A, every record keeps its id and its other columns. With A
    the file holds only the released columns, since other columns cannot be transformed. A released record made from one
    original record alone still belongs to it; any other is a new record. Source: matrix-masking paper, section IV.

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

    @override
    def validate(self) -> None:
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
                f"M would have the columns {join_names(clash)}, which the data have already. Choose other names with released=."
            )
        made = {name: self._attribute(j, name, schema) for j, name in enumerate(self.out)}
        if self.A is not None:
            return Schema(tuple(made.values()))
        if self.out == self.columns:
            return Schema(tuple(made.get(a.name, a) for a in schema))
        gone = schema.with_followers(self.columns)
        kept = schema.keep(lambda a: a.name not in gone)
        return Schema((*kept, *made.values()))

    def _attribute(self, j: int, name: str, schema: Schema) -> Attribute:
        """Return the attribute of column j of M; if it keeps its name, it keeps its role and its description."""
        used = [n for i, n in enumerate(self.columns) if (self.B[i][j] if self.B is not None else i == j)]
        whole = self.scope is Scope.ROW and all(schema[n].level is Level.HOUSEHOLD for n in used)
        level = Level.HOUSEHOLD if whole and used else Level.PERSON
        if name not in self.columns:
            return Attribute(name, Role.CONFIDENTIAL, level=level)
        old = schema[name]
        return Attribute(name, old.role, Scale.ORDERED, label=old.label, unit=old.unit, level=level)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
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
            raise DataError(f"{join_names(self.columns)}: some values are too large to be transformed.")
        made = {name: Column.from_numbers(m[:, j], np.isnan(m[:, j])) for j, name in enumerate(self.out)}
        after = self.schema_after(batch.schema)
        if A is not None:
            return Batch(Rows(_ids(A, batch.ids), made), after)
        columns = {**batch.rows.columns, **made}
        return Batch(Rows(batch.ids, {name: columns[name] for name in after.names()}), after)

    def _check(self, x: Numbers, A: csr_array | None) -> None:
        """Refuse infinite values, and missing ones that would spread to other records."""
        if wild := [n for n, column in zip(self.columns, x.T, strict=True) if np.isinf(column).any()]:
            raise DataError(f"{join_names(wild)}: some values are infinite. Set them to missing.")
        if A is None:
            return
        several = abs(A[np.diff(A.indptr) > 1])
        spread = several @ np.isnan(x).astype(np.float64) > 0
        if gaps := [n for n, column in zip(self.columns, spread.T, strict=True) if column.any()]:
            raise DataError(
                f"{join_names(gaps)}: A combines records of which some have no value there, so that their gaps would spread. Leave "
                "those records or columns out, or fill the gaps first."
            )

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """State the shapes, and the values that the matrices reveal to whoever knows them."""
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
            which = f"{join_names(open_)} of {count:,} of the {len(before):,} records"
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
    """Return a sparse matrix as its non-zero entries, with indices from 0."""
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


def _ids(A: csr_array, ids: Whole) -> Whole:
    """Return the id of each released record: that of the one record it is made from, or a new, negative one."""
    out = -1 - np.arange(A.shape[0], dtype=np.int64)
    single = np.flatnonzero(np.diff(A.indptr) == 1)
    source = A.indices[A.indptr[single]]
    once = np.bincount(source, minlength=A.shape[1])[source] == 1
    out[single[once]] = ids[source[once]]
    return out


def _words(matrix: Any) -> str:
    """Return a shape as text, with the rank if it is quick to compute."""
    r, n = matrix.shape
    if max(r, n) > 1_000:
        return f"of {r:,} × {n:,}"
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    return f"of {r:,} × {n:,} (rank {np.linalg.matrix_rank(dense)})"


# --- Multiplication of records by random noise: M = AX with A diagonal and random (matrix-masking paper, section IV).


class RandomFactors(Mask, abstract=True):
    """Values times random factors that are positive (lognormal) and have mean 1: signs and zeros stay."""

    columns: tuple[str, ...] | None = numeric_columns("multiply")
    factor_variance: float = param(
        default=0.05, doc="variance of the factor, whose mean is 1", low=0, high=1e3, scale="log", usual=(0.001, 0.5)
    )
    names: Any = learned("columns", default=None)

    @abstractmethod
    def factors(self, batch: Batch, draws: Draws) -> list[Any]:
        """Return for each column its factor, or a factor for each record."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the columns, and refuse those that cannot be multiplied."""
        names = numeric_targets(self.columns, data)
        check_values(data, names)
        return self.learn(names=names)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Multiply the values by their factors."""
        return replace_numbers(batch, self.names, partial(_times, batch), self.factors(batch, draws))

    def unit_mean(self, normals: Numbers) -> Numbers:
        """Return lognormal factors of mean 1 and variance v from standard normals: exp(sz - s²/2) with s² = ln(1 + v)."""
        s2 = np.log1p(self.factor_variance)
        return np.asarray(np.exp(np.sqrt(s2) * normals - s2 / 2))

    def check_signs(self, before: Microdata, after: Microdata) -> None:
        """Refuse a release in which a value changed its sign or is infinite."""
        for name in self.names:
            y = after.numbers(name)
            if (np.sign(before.numbers(name)) * np.sign(y) < 0).any():
                raise DataError(f"column '{name}' has values whose sign changed; nothing is released.")
            if np.isinf(y).any():
                raise DataError(f"some values of '{name}' are too large to be multiplied; nothing is released.")


def _times(batch: Batch, name: str, factor: Any) -> Numbers:
    with np.errstate(over="ignore"):  # infinite values are refused at the end
        return np.asarray(batch.numbers(name) * factor)


class MultiplyRecords(RandomFactors):
    """All chosen numbers of a record are multiplied by one random factor, its own.

    The factor is positive (lognormal) with mean 1: totals stay the same on average, and signs, zeros and the ratios between
    the columns of a record stay. If one of the columns describes the household, all its members share one factor, so that
    the household keeps one value and A stays one matrix.
    """

    def factors(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return the diagonal of A, shape (n,), for every column."""
        return [self._diagonal(batch, draws)] * len(self.names)

    def _diagonal(self, batch: Batch, draws: Draws) -> Numbers:
        shared = [n for n in self.names if batch.schema[n].level is Level.HOUSEHOLD]
        return self.unit_mean(draws.normals(batch.units([*shared, *self.names][0]), "factor"))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A, the diagonal matrix of the factors."""
        from scipy.sparse import diags_array

        factors = self._diagonal(data.batch(), draws)
        return MatrixForm(self.names, self.names, A=diags_array(factors).tocsr(), random=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value changed its sign, and say that factors do not hide ratios."""
        self.check_signs(before, after)
        factor = f"a positive factor of its own, with mean 1 and variance {self.factor_variance:g}"
        says = f"{join_names(self.names)}: each record is multiplied by {factor}; zeros and signs stay as they are"
        said = [Guarantee(step, says, "no released value has the other sign")]
        if len(self.names) > 1:
            says = (
                f"the ratios between {join_names(self.names)} are not masked: whoever knows one value knows the others"
            )
            said.append(Guarantee(step, says, "by construction, apart from rounding and bounds of the schema"))
        return tuple(said)


class MultiplyColumns(RandomFactors):
    """Each chosen column is multiplied by one random factor, the same for all records.

    The factor is positive (lognormal) with mean 1. It does not protect against a snooper who knows one true value: that value
    reveals the factor, and the factor the whole column. Order and correlations are kept.
    Source: matrix-masking paper, section IV.
    """

    preserves_order: ClassVar[bool] = True

    def factors(self, batch: Batch, draws: Draws) -> list[float]:
        """Return the diagonal of B, drawn once for the whole file."""
        return [float(factor) for factor in self._diagonal(draws)]

    def _diagonal(self, draws: Draws) -> Numbers:
        file = np.zeros(1, np.int64)
        return self.unit_mean(np.concatenate([draws.normals(file, name) for name in self.names]))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B, the diagonal matrix of the factors."""
        return MatrixForm(self.names, self.names, B=np.diag(self._diagonal(draws)), random=("B",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value changed its sign, and say how little a common factor hides."""
        self.check_signs(before, after)
        factor = f"a secret positive factor of its own, with mean 1 and variance {self.factor_variance:g}"
        says = (
            f"{join_names(self.names)}: each column is multiplied by {factor}; order, zeros and signs stay as they are"
        )
        known = "one true value that somebody knows gives away the factor, and with it the whole column"
        return (
            Guarantee(step, says, "no released value has the other sign"),
            Guarantee(step, f"{join_names(self.names)}: {known}", "by construction: all records share the factor"),
        )


class Displace(Mask):
    """A specified quantity is added to every value of a column.

    It limits disclosure only while the quantity is secret, as the paper says, and one known true value reveals it.
    Differences between records, order, variances and correlations are kept. Source: matrix-masking paper, section IV.
    """

    preserves_order: ClassVar[bool] = True

    amount: float | Mapping[str, float] = param(
        doc="what is added, in the column's unit; may differ by column",
        low=-1e300,
        high=1e300,
        per_column=True,
        published=False,
    )
    columns: tuple[str, ...] | None = numeric_columns("displace")
    amounts: Any = learned("columns", "amount", default=None)

    @override
    def validate(self) -> None:
        if self.columns is not None:
            check_by_column("amount", "amount", self.amount, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the columns and the amount of each."""
        by_column = isinstance(self.amount, Mapping)
        named = tuple(self.amount) if isinstance(self.amount, Mapping) and self.columns is None else self.columns
        names = numeric_targets(named, data)
        check_values(data, names)
        return self.learn(amounts={n: self.amount[n] if by_column else self.amount for n in names})  # type: ignore[index]

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the amounts."""
        return replace_numbers(batch, self.amounts, lambda name: batch.numbers(name) + self.amounts[name])

    @override
    def touches(self, schema: Any) -> tuple[str, ...]:
        if self.columns is None and isinstance(self.amount, Mapping):
            return tuple(self.amount)
        return super().touches(schema)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return C: one row, the same for every record."""
        amounts = self.amounts
        return MatrixForm(tuple(amounts), tuple(amounts), C=np.array([list(amounts.values())]))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what a fixed displacement does not hide, and how the schema's bounds change it."""
        names = join_names(self.amounts)
        says = (
            f"{names}: a secret amount, the same for all records, is added to the values of each column; differences "
            "between records are released as they are"
        )
        how = "by construction; whoever knows one true value knows the amount, and with it the whole column"
        said = [Guarantee(step, says, how)]
        if kept := limited_columns(self.amounts, before.schema):
            says = "values are whole where the schema says so, and moved to its bounds where the amount passes them"
            said.append(Guarantee(step, f"{join_names(kept)}: {says}", "by construction"))
        return tuple(said)


FEWEST = 5
"""Records in the smallest block: among three there are only two rotations of the kind used here."""
AT_ONCE = 1 << 21
"""Numbers drawn at a time."""


class ROMM(NoiseLevel):
    """Random orthogonal matrix masking: Y = TX, T orthogonal with T1 = 1 (Ting, Fienberg and Trottini 2008).

    Mean vector and covariance matrix are kept exactly, for any data. T consists of random blocks of records. Within a block
    of deviations from its mean, T = (I + λJ)/√(1+λ²), where J is a random rotation by a right angle (JᵀJ = I, Jᵀ = -J): the
    block's noise λJ(X - x̄) has λ² times its covariance, and the correlation of a masked column with its original is 1/√(1+λ²),
    as for corrected noise of the same level. λ² = 0 is the identity. Columns of households are mixed among households.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL

    block: int = param(
        default=33,
        doc="number of records that are mixed with each other",
        low=FEWEST,
        high=501,
        integer=True,
        scale="log",
    )
    names: Any = learned("columns", default=None)

    @override
    def validate(self) -> None:
        super().validate()
        if not isinstance(self.lambda2, int | float) and len(set(self.lambda2.values())) > 1:
            raise ParameterError(
                "romm mixes all columns with one matrix, so lambda2 is the same number for all of them."
            )

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check that each column has a spread."""
        names = self.targets(data)
        spread_of(data, names)
        return self.learn(names=names)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Mix the records of each block."""
        check_numbers(batch, self.names)
        out = batch
        for names in by_level(batch.schema, self.names):
            key = (batch.ids, *(batch.column(name) for name in names))
            x, turned, member = draws.remember(key, lambda names=names: self._turned(batch, names, draws))  # type: ignore[misc]
            level = float(self._level(names)[0])
            cosine, sine = 1 / np.hypot(1, level), level / np.hypot(1, level)
            for j, name in enumerate(names):
                kept, across = turned[0][:, j], turned[1][:, j]
                out = out.replace(name, lambda v=(x[:, j] + (cosine - 1) * kept + sine * across)[member]: v)  # type: ignore[misc]
        return out

    def _turned(
        self, batch: Batch, names: tuple[str, ...], draws: Draws
    ) -> tuple[Numbers, tuple[Numbers, Numbers], Whole]:
        """Return X of the units, the part that T moves and that part rotated by J, (n, p) each; and the unit of each record."""
        first, member = batch.members(names)
        x = np.column_stack([batch.numbers(name)[first] for name in names])
        kept, across = np.zeros_like(x), np.zeros_like(x)
        for rows, even, odd in self._planes(x, names, batch.units(names[0])[first], draws):
            part = x[rows]
            part = part - part.mean(axis=1, keepdims=True)  # J ignores the mean, but rounding errors would not
            a, b = np.swapaxes(even, 1, 2) @ part, np.swapaxes(odd, 1, 2) @ part
            kept[rows] = even @ a + odd @ b
            across[rows] = even @ b - odd @ a
        return x, (kept, across), member

    def _planes(
        self, x: Numbers, names: tuple[str, ...], units: Whole, draws: Draws
    ) -> Iterator[tuple[Whole, Numbers, Numbers]]:
        """Yield rows of blocks, shape (b, m), with orthonormal pairs of vectors that J rotates into each other, (b, m, h) each."""
        order = np.argsort(draws.uniforms(units, "order"), kind="stable")
        label, sizes = classes([np.isnan(column).astype(np.int64)[order] for column in x.T], len(x))
        for pattern, size in enumerate(sizes):
            rows = order[label == pattern]
            if np.isnan(x[rows[0]]).all():
                continue
            if size < FEWEST:
                raise DataError(
                    f"{size:,} records have the same answers missing among {join_names(names)}: too few to mix with each other. "
                    f"At least {FEWEST} are needed. Mask the columns in separate steps, or leave these records out."
                )
            for blocks in _blocks(rows, self.block | 1):
                yield blocks, *_pairs(units[blocks], draws)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = AX: A is T, block by block; refused if household and person columns are mixed by different matrices."""
        names = self.names
        if len(by_level(data.schema, names)) > 1:
            raise NotApplicable(
                "romm mixes columns of households and columns of persons by different matrices, so there is no one A. "
                "Mask them in separate steps."
            )
        batch = needed(data, names)
        return MatrixForm(names, names, A=self._rotation(batch, draws), random=("A",))

    def _rotation(self, batch: Batch, draws: Draws) -> csr_array:
        from scipy.sparse import csr_array, eye_array

        first, member = batch.members(self.names)
        x = np.column_stack([batch.numbers(name)[first] for name in self.names])
        level = float(self._level(self.names)[0])
        cosine, sine = 1 / np.hypot(1, level), level / np.hypot(1, level)
        t = csr_array(eye_array(len(first)))
        for rows, even, odd in self._planes(x, self.names, batch.units(self.names[0])[first], draws):
            e, o = np.swapaxes(even, 1, 2), np.swapaxes(odd, 1, 2)
            blocks = (cosine - 1) * (even @ e + odd @ o) + sine * (even @ o - odd @ e)
            m = rows.shape[1]
            places = np.repeat(rows, m, axis=1).ravel(), np.tile(rows, (1, m)).ravel()
            t = t + csr_array((blocks.ravel(), places), shape=t.shape)
        pick = csr_array((np.ones(len(first)), (np.arange(len(first)), first)), shape=(len(first), len(member)))
        return csr_array(t[member] @ pick)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that mean and covariance are the original's, over all records, or households, with an answer."""
        for names in by_level(before.schema, self.names):
            one, two = (_moments(source, names) for source in (before, after))
            over = "households" if before.schema[names[0]].level is Level.HOUSEHOLD else "records"
            over += " that have all of them" if len(names) > 1 else " that have it"
            yield moments_kept(step, one, two, f"the {over}", before.schema, refit=False)


def _blocks(rows: Whole, size: int) -> Iterator[Whole]:
    """Yield the rows in blocks of one size, as many at a time as memory allows; the last block takes the remaining rows."""
    whole = max(len(rows) // size - 1, 0)
    many = max(AT_ONCE // size**2, 1)
    for start in range(0, whole, many):
        yield rows[start * size : min(start + many, whole) * size].reshape(-1, size)
    yield rows[whole * size :].reshape(1, -1)


def _pairs(units: Whole, draws: Draws) -> tuple[Numbers, Numbers]:
    """Return h random orthonormal pairs per block, orthogonal to the vector of ones, shape (b, m, h) each, h = (m - 1) // 2.

    The columns of Q after the first, which is that of ones, are uniformly distributed (Stewart 1980). In a block of even size,
    which only the last one can have, one direction is in no pair, and stays.
    """
    size = units.shape[1]
    start = np.stack([np.ones(units.shape), *(draws.normals(units, f"axis {k}") for k in range(1, size))], axis=2)
    q, r = np.linalg.qr(start)
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    half = (size - 1) // 2
    return q[:, :, 1 : 2 * half : 2], q[:, :, 2 : 2 * half + 1 : 2]


def _moments(data: Microdata, names: tuple[str, ...]) -> Moments:
    batch = needed(data, names)
    first, _ = batch.members(names)
    x = np.column_stack([batch.numbers(name)[first] for name in names])
    x = x[~np.isnan(x).any(axis=1)]
    mean = x.mean(axis=0) if len(x) else np.zeros(len(names))
    return Moments(names, len(x), mean, (x - mean).T @ (x - mean) / max(len(x) - 1, 1))
