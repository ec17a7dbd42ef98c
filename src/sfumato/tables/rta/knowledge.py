"""Attackers' prior knowledge, as unknowns that enter the leaves of a table, and the covariance of what is published."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError
from sfumato.typing import Numbers, Whole


def conjugate_gradients(s: sparse.csr_array, b: Numbers, tolerance: float = 1e-12) -> Numbers:
    """Return S⁻¹b for a symmetric positive definite S, all columns of b at once, to a relative tolerance."""
    diagonal = s.diagonal()
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)[:, None]
    x, r = np.zeros_like(b), scale * b
    p, size = r.copy(), (r * r).sum(axis=0)
    goal = tolerance**2 * size
    for _ in range(10 * len(b) + 100):
        if (size <= goal).all():
            break
        ap = scale * (s @ (scale * p))
        step = _over(size, (p * ap).sum(axis=0))
        x += step * p
        r -= step * ap
        new = (r * r).sum(axis=0)
        p = r + _over(new, size) * p
        size = new
    return np.asarray(scale * x)


def _over(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))


_LARGE = 1e6
"""An infinite prior variance becomes this times the largest finite one: less is safer, and the difference does not matter."""


@dataclass(frozen=True, eq=False, repr=False)
class AttackerKnowledge:
    """Unknowns d with prior variances, seen in the leaves as loading @ d + noise: confidential.

    An unknown is the total of a contributor or, where contributions are unknowns of their own, one contribution to a leaf.
    """

    loading: sparse.csr_array
    """M, leaves × unknowns: weight × share."""
    given_variance: Numbers
    """v, shape (unknowns,); may be infinite."""
    required: Numbers
    """w²/r: the smallest posterior variance that is allowed, shape (unknowns,); 0 for what is not confidential."""
    means: Numbers | None
    owner: Whole
    """The owner, who knows the unknown: contributors under one control share a number. Shape (unknowns,)."""
    attacks: NDArray[np.bool_]
    """Whether the unknown's contributor is an attacker."""
    contributor: Whole
    """The contributor of each unknown, by position."""
    threshold: float
    public: bool
    """Whether variances come from public information; if not, publishing them exactly may disclose a contribution."""
    position: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    """For a part of the knowledge: the positions of its unknowns in the whole."""

    def __len__(self) -> int:
        return len(self.required)

    def __repr__(self) -> str:
        return f"Knowledge({len(self):,} unknowns in {self.loading.shape[0]:,} leaves)"

    @cached_property
    def variance(self) -> Numbers:
        """The prior variances v, finite."""
        v = self.given_variance
        gone = np.isinf(v)
        if not gone.any():
            return v
        largest = max(float(v[~gone].max(initial=0.0)), float(self.required.max(initial=0.0)), 1e-300)
        return np.where(gone, _LARGE * largest, v)

    @cached_property
    def by_unknown(self) -> sparse.csc_array:
        """The loadings by unknown."""
        made = sparse.csc_array(self.loading)
        made.sort_indices()
        return made

    @cached_property
    def leaves_of(self) -> Whole:
        """Number of leaves of each unknown, shape (unknowns,)."""
        return np.diff(self.by_unknown.indptr).astype(np.int64)

    @cached_property
    def side(self) -> Whole:
        """The attacking side that knows each unknown: its owner, or a distinct negative number if he does not attack."""
        attacking = np.zeros(int(self.owner.max(initial=0)) + 1, bool)
        np.logical_or.at(attacking, self.owner, self.attacks)
        return np.where(attacking[self.owner], self.owner, -1 - np.arange(len(self)))

    @cached_property
    def spread(self) -> Numbers:
        """The prior variance of every leaf's total, shape (leaves,)."""
        return np.asarray(self.loading.power(2) @ self.variance)

    @cached_property
    def block(self) -> Whole:
        """The block of each leaf: leaves are linked through contributors in several of them."""
        return blocks_of(self)

    def part(self, leaves: Whole) -> AttackerKnowledge:
        """Restrict the knowledge to some leaves, which must be whole blocks."""
        loading = self.loading[leaves]
        inside = np.unique(loading.indices[loading.data != 0])
        made = sparse.csr_array(loading[:, inside])
        made.sort_indices()
        return replace(
            self, loading=made, given_variance=self.variance[inside], required=self.required[inside],
            means=None if self.means is None else self.means[inside], owner=self.owner[inside],
            attacks=self.attacks[inside], contributor=self.contributor[inside], position=inside,
        )  # fmt: skip

    def known_before(self) -> NDArray[np.bool_]:
        """Return which unknowns nobody can protect: the prior variance is no larger than the required one."""
        return (self.required > 0) & (self.given_variance <= self.required)

    def covariance(self, omega: Numbers | sparse.csr_array, but: Whole | None = None) -> sparse.csr_array:
        """Return the covariance of what is published, M V M' + Ω, leaves × leaves; unknowns in `but` do not vary."""
        v = self.variance
        if but is not None and len(but):
            v = v.copy()
            v[but] = 0.0
        scaled = self.loading.multiply(np.sqrt(v)[None, :]).tocsr()
        single = (self.leaves_of == 1)[scaled.indices]
        rows = np.repeat(np.arange(scaled.shape[0]), np.diff(scaled.indptr))
        own = np.bincount(rows[single], scaled.data[single] ** 2, scaled.shape[0])
        multi = sparse.csr_array((scaled.data[~single], (rows[~single], scaled.indices[~single])), shape=scaled.shape)
        noise = sparse.diags_array(omega) if isinstance(omega, np.ndarray) else omega
        return sparse.csr_array(multi @ multi.T + sparse.diags_array(own.astype(np.float64)) + noise)


def blocks_of(known: AttackerKnowledge, noise: sparse.csr_array | None = None) -> Whole:
    """Return the block of each leaf: leaves that share an unknown, or correlated noise, are in one block."""
    from scipy.sparse.csgraph import connected_components

    loading = known.loading
    leaves, unknowns = loading.shape
    rows = np.repeat(np.arange(leaves), np.diff(loading.indptr))
    several = ((known.leaves_of > 1) & (known.variance > 0))[loading.indices]
    start, end = rows[several], leaves + loading.indices[several]
    if noise is not None:
        entries = noise.tocoo()
        start, end = np.concatenate([start, entries.row]), np.concatenate([end, entries.col])
    graph = sparse.csr_array((np.ones(len(start)), (start, end)), shape=(leaves + unknowns,) * 2)
    found = connected_components(graph, directed=False)[1][:leaves]
    return np.unique(found, return_inverse=True)[1].ravel().astype(np.int64)


def checked_noise(noise: Numbers | sparse.csr_array, leaves: int) -> Numbers | sparse.csr_array:
    """Check Ω, variances per leaf or a covariance matrix, and return it."""
    if isinstance(noise, np.ndarray) and noise.ndim == 1:
        if noise.shape != (leaves,) or not (noise >= 0).all() or not np.isfinite(noise).all():
            raise DataError(f"the noise must have one finite variance of at least 0 for each of the {leaves:,} leaves.")
        return noise
    matrix = sparse.csr_array(noise)
    if (
        matrix.shape != (leaves, leaves)
        or not np.isfinite(matrix.data).all()
        or abs(matrix - matrix.T).max() > 1e-9 * abs(matrix).max()
    ):
        raise DataError(f"the covariance of the noise must be symmetric, with a row for each of the {leaves:,} leaves.")
    if (matrix.diagonal() < 0).any():
        raise DataError("the covariance of the noise has negative variances.")
    return matrix
