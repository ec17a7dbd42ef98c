"""Random orthogonal matrix masking: records are mixed by a random rotation that keeps the mean and the covariance exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, MatrixForm, Scope, check_numbers, learned, param
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.kernels.classes import classes
from sfumato.kernels.moments import Moments
from sfumato.masks.noise import NoiseLevel, moments_kept, needed, spread_of
from sfumato.schema import Level
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
