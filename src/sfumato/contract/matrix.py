"""Matrix masks: M = AXB + C (matrix-masking paper, section IV)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import NotApplicable, join_names
from sfumato.lazy import csgraph
from sfumato.typing import Flags, Numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST = 3_000
"""The most records or attributes that may hang together for `reveals`: it needs a singular value decomposition."""


@dataclass(frozen=True, eq=False)
class MatrixForm:
    """A mask as a triple (A, B, C): the released numbers are M = AXB + C.

    X holds the numbers of the original's columns `names`, shape (n, p), records in the order of the data; M has the columns
    `released`, shape (r, c). What is not given is the identity (A, B) or zero (C). Confidential: with it, X can be computed
    back in part or in whole; `reveals` says in which part.

    Examples
    --------
    >>> total = MatrixForm(("salary", "rent"), ("total",), B=np.array([[1.0], [1.0]]))
    >>> total.apply(np.array([[41.0, 9.0], [38.5, np.nan]])).ravel().tolist()
    [50.0, nan]
    """

    names: tuple[str, ...]
    released: tuple[str, ...]
    A: csr_array | Numbers | None = None
    """Record-transforming, shape (r, n)."""
    B: Numbers | None = None
    """Attribute-transforming, shape (p, c)."""
    C: Numbers | None = None
    """Displacing, shape (r, c); or (1, c), the same for every record."""
    random: tuple[str, ...] = ()
    """Which of "A", "B", "C" are random."""
    depends: tuple[str, ...] = ()
    """Which of "A", "B", "C" depend on the data; criterion (5.1) then does not apply."""

    def apply(self, x: Numbers) -> Numbers:
        """Return AXB + C for X of shape (n, p). A missing value spreads only where its factor is not zero."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
            m = _columns(_rows(self.A, x), self.B)
            return m if self.C is None else m + self.C

    def then(self, other: MatrixForm) -> MatrixForm:
        """Return the two masks one after the other: (A₂A₁, B₁B₂, A₂C₁B₂ + C₂).

        Columns that only one of the two masks are carried through the other as they are, which is possible only if that one
        leaves the records as they are (A = I). If it does not, the result is about the columns that the second mask releases.
        """
        first = self._with(n for n in other.names if n not in self.released)
        second = other if other.A is not None else other._with(n for n in first.released if n not in other.names)
        pick = np.array([[float(a == b) for b in second.names] for a in first.released])
        plain = first.B is None and second.B is None and first.released == second.names
        right = pick if second.B is None else pick @ second.B
        shift = None if first.C is None else _columns(_shifted(second.A, first.C), right)
        return MatrixForm(
            first.names,
            second.released,
            A=second.A if first.A is None else _rows(second.A, first.A),
            B=None if plain else right if first.B is None else first.B @ right,
            C=second.C if shift is None else shift if second.C is None else shift + second.C,
            random=tuple(sorted({*self.random, *other.random})),
            depends=tuple(sorted({*self.depends, *other.depends})),
        )

    def reveals(self) -> tuple[Flags, Flags]:
        """Return which records (n,) and which attributes (p,) can be computed back by whoever knows A, B and C.

        The value of record i and attribute j is revealed exactly if both are: eᵢ ⊗ eⱼ lies in the row space of A ⊗ B′ only if
        eᵢ lies in the row space of A and eⱼ in the column space of B. So A of full column rank with B of full row rank
        reveals all of X (erratum 2.15). If A is not given the first has shape (1,), for all records.
        """
        records = np.ones(1, bool) if self.A is None else _spanned(self.A)
        return records, np.ones(len(self.names), bool) if self.B is None else _spanned(self.B.T)

    def _with(self, extra: Iterable[str]) -> MatrixForm:
        """Return the form with more columns, which it leaves as they are."""
        if not (more := tuple(extra)):
            return self
        if self.A is not None:
            raise NotApplicable(
                f"the records are transformed in {join_names(self.released)}, but not in {join_names(more)}, so that the steps "
                "together are not a matrix mask M = AXB + C. Let every step that transforms records name all the columns."
            )
        inside = np.eye(len(self.names)) if self.B is None else self.B
        p, c = inside.shape
        wide = np.eye(p + len(more), c + len(more), k=c - p)
        wide[:p, :c] = inside
        shift = None if self.C is None else np.pad(self.C, ((0, 0), (0, len(more))))
        B = None if self.B is None else wide
        return MatrixForm(
            self.names + more, self.released + more, B=B, C=shift, random=self.random, depends=self.depends
        )


def _rows(A: Any, x: Any) -> Any:
    """Return AX over the entries of A that are not zero: zero times a missing value is zero."""
    if A is None:
        return x
    from scipy.sparse import csr_array

    sparse = csr_array(A)
    sparse.eliminate_zeros()
    return sparse @ x


def _columns(x: Numbers, B: Numbers | None) -> Numbers:
    """Return XB, record by record in the same order of adding, so that no record depends on which others are there."""
    if B is None:
        return x
    m = np.zeros((len(x), B.shape[1]))
    for i, j in zip(*np.nonzero(B), strict=True):
        m[:, j] += x[:, i] * B[i, j]
    return m


def _shifted(A: Any, C: Numbers) -> Numbers:
    """Return AC, where a single row of C stands for the same row for every record."""
    if A is None:
        return C
    return np.outer(np.asarray(A.sum(axis=1)), C[0]) if len(C) == 1 else np.asarray(_rows(A, C))


def _spanned(matrix: Any) -> Flags:
    """Return which unit vectors lie in the row space, shape (n,).

    Rows that share no column are looked at apart: of a single row over several columns none is spanned, a column that stands
    alone is, and what is left needs a singular value decomposition (the projection of e onto the row space has length 1).
    """
    from scipy.sparse import block_array, csr_array

    sparse: Any = csr_array(matrix)
    sparse.eliminate_zeros()
    r, _ = sparse.shape
    count, part = csgraph.connected_components(block_array([[None, sparse], [sparse.T, None]]), directed=False)
    row_part, column_part = part[:r], part[r:]
    rows, columns = np.bincount(row_part, minlength=count), np.bincount(column_part, minlength=count)
    spanned: Flags = (columns[column_part] == 1) & (rows[column_part] > 0)
    row_sets, column_sets = (
        np.split(np.argsort(p, kind="stable"), np.cumsum(s)[:-1]) for p, s in ((row_part, rows), (column_part, columns))
    )
    for number in np.flatnonzero((rows > 1) & (columns > 1)):
        inside, across = row_sets[number], column_sets[number]
        if max(len(inside), len(across)) > LARGEST:
            raise NotApplicable(
                f"what the matrix reveals is not worked out where more than {LARGEST:,} of its rows or columns hang together."
            )
        block = sparse[inside][:, across].toarray()
        _, size, basis = np.linalg.svd(block, full_matrices=False)
        basis = basis[size > size[0] * max(block.shape) * np.finfo(float).eps]
        spanned[across] = np.square(basis).sum(axis=0) > 1 - 1e-9
    return spanned
