"""Exchangeable records: what M = AXB + C discloses about one of them, without any np × np matrix (section III's aside).

Var(vec X) has V on the diagonal and K off it, so that it is I ⊗ (V - K) + 11′ ⊗ K, with the eigenvalues of V - K and of
V + (n - 1)K (erratum 2.9: a generalised inverse is needed if any of these is singular). With P = B′(V - K)B and Q = B′KB, and
noise of covariance N that is independent between released records,

    Var(vec M) = AA′ ⊗ P + A11′A′ ⊗ Q + I ⊗ N,        Cov(yᵢ, vec M) = Aeᵢ ⊗ d + A1 ⊗ k,

where d and k are the covariances of the target with its own record, less those with another, and with another record.
Coordinates in which P + N is the identity and P diagonal (π) take it apart into H(π) of `hat`, and a c × c problem along A1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.decision.conditional import SINGULAR, SLACK, check_flat, numbers, square, whiten
from sfumato.decision.hat import Hat, hat_of
from sfumato.errors import ParameterError, unknown_name

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExchangeableRecords:
    """n records that the spy takes for exchangeable: V within a record, K between any two.

    Examples
    --------
    >>> file = ExchangeableRecords(("salary", "rent"), [[1.0, 0.5], [0.5, 1.0]], n=1_000)
    >>> file.seen(["salary"], released=["rent"]).explained().round(2).tolist()
    [[[0.25]]]
    """

    names: tuple[str, ...]
    V: Any
    """Covariance of the attributes of one record, shape (q, q): of all that are released, and of all targets."""
    n: int
    K: Any = None
    """Covariance of the attributes of two records, shape (q, q); zero, if not given: the spy knows the population."""
    mean: Any = field(default=None)
    """Mean of the attributes, shape (q,); matters only for hidden factors. Zero, if not given."""

    def __post_init__(self) -> None:
        V = square(self.V, "V")
        q = len(self.names)
        K = np.zeros_like(V) if self.K is None else square(self.K, "K")
        mean = np.zeros(q) if self.mean is None else numbers(self.mean, "the mean")
        if V.shape != (q, q) or K.shape != (q, q) or mean.shape != (q,):
            raise ParameterError(f"{q} attributes need {q} × {q} matrices V and K, and a mean of {q} numbers.")
        if self.n < 1:
            raise ParameterError("a file needs at least one record.")
        whiten(V, "V")
        if self.n > 1 and K.any():
            _check(V - K, V, "V - K")
            _check(V + (self.n - 1) * K, V, "V + (n - 1)K")
        for name, value in (("V", V), ("K", K), ("mean", mean)):
            object.__setattr__(self, name, value)

    def at(self, names: Sequence[str]) -> list[int]:
        """Return the positions of attributes."""
        for name in names:
            if name not in self.names:
                raise ParameterError(unknown_name("attribute", name, self.names, "the model"))
        return [self.names.index(name) for name in names]

    def seen(
        self,
        targets: Sequence[str],
        released: Sequence[str],
        A: Any = None,
        B: ArrayLike | None = None,
        noise: ArrayLike | None = None,
    ) -> SeenFile:
        """Return the second moments of M = AXB + C, X being the attributes `released`, and of targets of one record.

        A, of shape (r, n), and B, of shape (p, c), are known to the spy; `noise` is the covariance (c, c) of a C that is not.
        """
        x, y = self.at(released), self.at(targets)
        b = np.eye(len(x)) if B is None else numbers(B, "B")
        if b.ndim != 2 or len(b) != len(x):
            raise ParameterError(f"B must have {len(x)} rows, one for each attribute that is released.")
        if A is not None and A.shape[1] != self.n:
            raise ParameterError(
                f"A has {A.shape[1]:,} columns, but there are {self.n:,} records: it needs one for each."
            )
        N = np.zeros((b.shape[1],) * 2) if noise is None else square(noise, "the covariance of the noise")
        if len(N) != b.shape[1]:
            raise ParameterError(f"the covariance of the noise must be {b.shape[1]} × {b.shape[1]}, as M has columns.")
        whiten(N, "the covariance of the noise")
        P, Q = (b.T @ S[np.ix_(x, x)] @ b for S in (self.V - self.K, self.K))
        d, k = (S[np.ix_(y, x)] @ b for S in (self.V - self.K, self.K))
        return SeenFile(self.V[np.ix_(y, y)], P, Q, N, d, k, self.n, A)


@dataclass(frozen=True, eq=False)
class SeenFile:
    """Second moments of a release of exchangeable records, and of u targets that belong to one record, as the spy has them."""

    prior: Numbers
    """Variance of the targets, shape (u, u)."""
    P: Numbers
    """B′(V - K)B, shape (c, c)."""
    Q: Numbers
    """B′KB, shape (c, c)."""
    N: Numbers
    """Covariance of the noise of a released record, shape (c, c)."""
    d: Numbers
    """Cov(target, its own record) - Cov(target, another one), shape (u, c)."""
    k: Numbers
    """Cov(target, another record), shape (u, c)."""
    n: int
    A: Any = None
    exact: bool = True
    """Whether Y and M are jointly normal if X is; else all is about the best linear prediction."""
    shuffled: bool = False
    """Whether the spy is not told which record is where."""

    def explained(self, outside: bool = False, kinds: slice = slice(None)) -> Numbers:
        """Return G for targets of each kind of record, those that show differently through A; shape (m, u, u).

        `outside` is about the targets of a record that is not in the file. `kinds` picks some: there may be as many as records.
        """
        diagonal, sums = self._shown(outside)
        return self._split.joint(diagonal[kinds], sums[kinds], self._also(outside))

    def variances_explained(self, outside: bool = False) -> Numbers:
        """Return the variance explained of each target alone, the diagonals of `explained`, shape (m, u)."""
        return self._split.alone(*self._shown(outside), self._also(outside))

    def classes(self) -> NDArray[np.int64]:
        """Return for every record the number of its row in `explained`, shape (n,)."""
        return np.zeros(self.n, np.int64) if self.shuffled else self._kinds[2]

    @cached_property
    def _kinds(self) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
        """Hᵢᵢ and (H1)ᵢ of each kind of record, shapes (m, c), and the kind of each record, shape (n,)."""
        hat = self._split.hat
        if len(hat.diagonal) == 1:
            return hat.diagonal, hat.row_sums, np.zeros(self.n, np.int64)
        both = np.ascontiguousarray(np.hstack([hat.diagonal, hat.row_sums]).round(12) + 0.0)
        rows = both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()  # compared as bytes
        _, first, kind = np.unique(rows, return_index=True, return_inverse=True)
        return hat.diagonal[first], hat.row_sums[first], kind.ravel()

    def _shown(self, outside: bool) -> tuple[Numbers, Numbers]:
        c = self._split.hat.diagonal.shape[1]
        return (np.zeros((1, c)), np.zeros((1, c))) if outside or self.shuffled else self._kinds[:2]

    def _also(self, outside: bool) -> float:
        """Return the share of d that the target has in common with every released record: E[A]eᵢ = A1/n if shuffled."""
        return 1 / self.n if self.shuffled and not outside else 0.0

    @cached_property
    def _split(self) -> _Split:
        """Take the release apart: P + N = I and P = diag(π) in the coordinates F; U holds what varies only between files."""
        both = self.P + self.N
        scale = np.sqrt(np.abs(np.diag(both)) + np.abs(np.diag(self.Q)))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        values, vectors = np.linalg.eigh(both * np.outer(unit, unit))
        kept = values > SINGULAR * len(values)
        F = (vectors[:, kept] / np.sqrt(values[kept])).T * unit
        share, turn = np.linalg.eigh(F @ self.P @ F.T)
        share = np.where(share > 1 - 1e-12, 1.0, share.clip(min=0.0))
        F, U = turn.T @ F, vectors[:, ~kept].T * unit
        check_flat(self.d @ U.T, np.sqrt(np.diag(self.prior)))
        hat = hat_of(self.A, self.n, share if len(share) else np.ones(1))
        total = hat.total.clip(min=0.0)[: len(share)]
        ones = float(self.n) if self.A is None else float(np.square(np.asarray(self.A.sum(axis=1))).sum())
        along = np.vstack([np.sqrt(total)[:, None] * F, np.sqrt(ones) * U])
        root = _root_along(along @ self.Q @ along.T, len(F), ones)
        return _Split(self.d @ F.T, self.k @ along.T, self.d @ along.T, total, root, hat)

    def hidden_order(self) -> SeenFile:
        """Return the file to a spy who is not told which record is where in A: A = A₀Π with a random permutation Π.

        Samples, random groups and random order. E[A]eᵢ = A1/n, the same for every record; AA′ and A1 are known.
        """
        return replace(self, shuffled=True, exact=False)

    def hidden_record_factors(self, variance: Numbers, mean: Numbers) -> SeenFile:
        """Return the file to a spy who is not told the factors of the records: mean 1, independent between records.

        `variance` is that of the factor for each column of M, the same number or zero, and `mean` that of XB, shape (c,) both:
        Var = E[A S A′] + Var(Aμ).
        """
        if self.A is not None:
            raise ParameterError("hidden factors take the place of A, which must not be given as well.")
        spread = np.sqrt(np.outer(variance, variance))
        return replace(self, P=self.P + spread * (self.P + self.Q + np.outer(mean, mean)), exact=False)

    def hidden_column_factors(self, variance: Numbers, mean: Numbers) -> SeenFile:
        """Return the file to a spy who is not told the factors of M's columns: mean 1, independent between columns.

        `variance` is that of each column's factor, and `mean` that of XB, shape (c,) both.
        """
        P, Q = (S + np.diag(variance * np.diag(S)) for S in (self.P, self.Q))
        return replace(self, P=P, Q=Q + np.diag(variance * mean**2), exact=False)


def _check(S: Numbers, V: Numbers, name: str) -> None:
    """Refuse a matrix with a negative eigenvalue; measured by V, since a difference of equals is zero only up to rounding."""
    sd = np.sqrt(np.diag(V))
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    values = np.linalg.eigvalsh(S * np.outer(unit, unit))
    if values.min() < -SLACK * max(1.0, values.max()) or S[sd == 0].any():
        raise ParameterError(
            f"{name} is not positive semi-definite: no records that are exchangeable have these covariances V within and K "
            "between them. Make K smaller."
        )


def _root_along(between: Numbers, rank: int, ones: float) -> Numbers:
    """Return W with W′W a generalised inverse of diag(1, ..., 1, 0, ...) + between: the variance of M along A1.

    Each coordinate is measured against what it is made of, so that what cancels to rounding is taken for zero.
    """
    size = np.concatenate([1 + np.abs(np.diag(between)[:rank]), np.full(len(between) - rank, ones)])
    unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > 0)
    small = between + np.diag(np.arange(len(between)) < rank)
    values, vectors = np.linalg.eigh((small + small.T) / 2 * np.outer(unit, unit))
    kept = values > SINGULAR * len(values)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * unit)


@dataclass(frozen=True, eq=False)
class _Split:
    """A release in coordinates that do not covary, but for those along A1."""

    d: Numbers
    """Shape (u, rank)."""
    k: Numbers
    """Along A1, shape (u, rank + what varies only between files)."""
    own: Numbers
    """d along A1, shape as of k."""
    total: Numbers
    root: Numbers
    hat: Hat

    def _along(self, sums: Numbers) -> tuple[Numbers, Numbers]:
        """Return the factors of d across A1 and along it, shapes (m, rank) and (m, all coordinates)."""
        rank = self.d.shape[1]
        sums = sums[:, :rank]
        length = np.sqrt(self.total)
        along = np.divide(sums, length, out=np.zeros_like(sums), where=length > 1e-150)
        return along, np.pad(along, ((0, 0), (0, self.k.shape[1] - rank)))

    def joint(self, diagonal: Numbers, sums: Numbers, also: float) -> Numbers:
        """Return G, shape (m, u, u)."""
        rank = self.d.shape[1]
        along, padded = self._along(sums)
        across = (diagonal[:, :rank] - along**2).clip(min=0.0)
        wide = np.pad(self.d, ((0, 0), (0, self.k.shape[1] - rank)))
        z = (padded[:, None, :] * wide + self.k + also * self.own) @ self.root.T
        return np.asarray((self.d * across[:, None, :]) @ self.d.T + z @ np.swapaxes(z, 1, 2))

    def alone(self, diagonal: Numbers, sums: Numbers, also: float) -> Numbers:
        """Return the diagonals of G, shape (m, u)."""
        rank = self.d.shape[1]
        along, padded = self._along(sums)
        across = (diagonal[:, :rank] - along**2).clip(min=0.0)
        wide = np.pad(self.d, ((0, 0), (0, self.k.shape[1] - rank)))
        out = across @ (self.d**2).T
        for j, (own, other) in enumerate(zip(wide, self.k + also * self.own, strict=True)):
            z = (padded * own + other) @ self.root.T
            out[:, j] += (z**2).sum(axis=1)
        return out
