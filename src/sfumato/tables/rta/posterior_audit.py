"""Posterior variances of every contributor for every attacker: unknowns, blocks, and the joint audit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.errors import NotApplicable, ParameterError
from sfumato.lazy import csgraph
from sfumato.tables.rta.large_blocks import WIDER, left_near
from sfumato.tables.rta.priors import AttackerKnowledge, Prior, blocks_of, checked_noise, conjugate_gradients
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    pass

DENSE = 600
"""Blocks of at most this many leaves are inverted."""
CORRELATED = 4_000
"""The same limit for correlated noise, where bounds are loose."""


class _Groups(NamedTuple):
    start: Whole
    unknown: Whole
    block_start: Whole
    simple: Flags


def sums_of(known: AttackerKnowledge, omega: Numbers | sparse.csr_array) -> kernels.noisy_sums.NoisySums:
    """Return the arrays for `kernels.noisy_sums.learned`, for noise with these variances or this covariance."""
    block = known.block if isinstance(omega, np.ndarray) else blocks_of(known, omega)
    order = np.argsort(block, kind="stable")
    block_start = np.concatenate([[0], np.cumsum(np.bincount(block))])
    by_unknown, count = known.by_unknown, known.leaves_of
    of_unknown = np.full(len(known), -1, np.int64)
    seen = (count > 0) & (known.variance > 0)
    of_unknown[seen] = block[by_unknown.indices[by_unknown.indptr[:-1][seen]]]
    groups = _groups(known, of_unknown, len(block_start) - 1)
    s = known.covariance(omega)
    return kernels.noisy_sums.kernel_arguments(
        kernels.noisy_sums.NoisySums,
        block_start=block_start, block_row=order, s_start=s.indptr, s_row=s.indices, s_value=s.data,
        diagonal=s.diagonal(),
        row_start=known.loading.indptr, row_unknown=known.loading.indices, row_value=known.loading.data,
        unknown_start=by_unknown.indptr, unknown_row=by_unknown.indices, unknown_value=by_unknown.data,
        variance=known.variance, side=known.side, simple=groups.simple, group_start=groups.start,
        group_unknown=groups.unknown, group_block_start=groups.block_start,
    )  # fmt: skip


def _groups(known: AttackerKnowledge, block: Whole, blocks: int) -> _Groups:
    """Group the unknowns that are known together, by block; those alone in one leaf are simple and in no group."""
    side = known.side
    placed = np.flatnonzero(block >= 0)
    order = placed[np.lexsort((side[placed], block[placed]))]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(block[order]) != 0) | (np.diff(side[order]) != 0)
    group = np.cumsum(new) - 1
    size = np.bincount(group) if len(group) else np.zeros(0, np.int64)
    alone = (size[group] == 1) & (known.leaves_of[order] == 1)
    simple = np.zeros(len(known), bool)
    simple[order[alone]] = side[order[alone]] >= 0
    kept = order[~alone]
    starts = np.flatnonzero(new[~alone])
    first = kept[starts]
    block_start = np.searchsorted(block[first], np.arange(blocks + 1))
    return _Groups(np.append(starts, len(kept)), kept, block_start, simple)


class PosteriorVariances(NamedTuple):
    """Posterior variances of all unknowns, shapes (unknowns,)."""

    variance: Numbers
    """For the attacker who learns most; a proven lower bound in blocks too large to invert."""
    outsider: Numbers
    helper: Whole
    """An unknown of that attacker; -1 for an outsider."""
    exact: bool


def left_of(
    known: AttackerKnowledge,
    omega: Numbers | sparse.csr_array,
    enough: Numbers | None = None,
    caps: tuple[int, ...] = WIDER,
) -> PosteriorVariances:
    """Return the posterior variances after publication of all leaves.

    In large blocks they are lower bounds, refined (by `caps`, see `left_near`) where they are below `enough`, which is the
    required variance if not given.
    """
    q, gain, helper = kernels.noisy_sums.learned(sums_of(known, omega), known.required > 0, _dense(omega))
    v = known.variance
    outsider = np.maximum(v * (1.0 - v * q), 0.0)
    variance = np.maximum(outsider - gain, 0.0)
    large = in_large_block(known, omega)
    if large.any():
        at = np.flatnonzero(large)
        least = (known.required if enough is None else enough)[at]
        variance[at], outsider[at], helper[at] = left_near(known, omega, at, least, caps)
    return PosteriorVariances(variance, outsider, helper, not large.any())


def in_large_block(known: AttackerKnowledge, omega: Numbers | sparse.csr_array) -> Flags:
    """Return which varying unknowns are in a block with too many leaves to invert, shape (unknowns,)."""
    block = known.block if isinstance(omega, np.ndarray) else blocks_of(known, omega)
    wide = (np.bincount(block) > _dense(omega))[block].astype(np.float64)
    return (abs(known.by_unknown.sign()).T @ wide > 0) & (known.variance > 0)


def _dense(omega: Numbers | sparse.csr_array) -> int:
    """Return the largest number of leaves of a block that is inverted."""
    return DENSE if isinstance(omega, np.ndarray) else max(CORRELATED, DENSE)


_SLACK = 1e-9
_MOST_CELLS, _MOST_UNKNOWNS = 3_000, 6_000


@dataclass(frozen=True, eq=False, repr=False)
class PairAudit:
    """For every unknown the smallest posterior variance that any attacker reaches: confidential.

    An unknown is a contributor's total, unless the prior makes contributions to leaves unknowns of their own.
    """

    contributor: Whole
    """The contributor of each unknown, by position; shape (unknowns,)."""
    variance: Numbers
    """The smallest posterior variance over all attackers, shape (unknowns,)."""
    attacker: Whole
    """A contributor who reaches it, by position; -1 for an outsider."""
    required: Numbers
    """w²/r: the smallest variance that is allowed, shape (unknowns,); 0 for what is not confidential."""
    threshold: float
    outsider: Numbers
    """The posterior variance for an outsider, shape (unknowns,)."""
    exact: bool
    """Whether variances are exact; otherwise some are proven lower bounds, and the risk is an upper bound."""
    measured: bool = False
    """Whether cells were treated as measurements with a normal error, as rounded ones are: variances are then approximate."""

    def __repr__(self) -> str:
        return f"PairAudit({len(self.required):,} unknowns, risk {self.risk:.6g}, allowed {self.threshold:g})"

    @cached_property
    def ratio(self) -> Numbers:
        """Posterior over required variance: at least 1 where the guarantee holds, infinite where nothing is required."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.required > 0, self.variance / self.required, np.inf)

    @cached_property
    def certainty(self) -> Numbers:
        """The relative certainty w²/posterior variance of every unknown, for its best attacker; 0 where w = 0."""
        with np.errstate(divide="ignore"):
            return np.where(self.required > 0, self.threshold / np.maximum(self.ratio, 0.0), 0.0)

    @property
    def risk(self) -> float:
        """R: the largest relative certainty; at most the threshold where the guarantee holds."""
        return float(self.certainty.max(initial=0.0))

    @property
    def holds(self) -> bool:
        """Whether no attacker learns more of anybody than is allowed."""
        return bool((self.ratio >= 1.0 - _SLACK).all())

    @cached_property
    def failing(self) -> Whole:
        """Unknowns of which an attacker learns too much, the worst first."""
        bad = np.flatnonzero(self.ratio < 1.0 - _SLACK)
        return bad[np.argsort(self.ratio[bad], kind="stable")]


def audit_pairs(
    table: Table,
    prior: Prior | AttackerKnowledge,
    leaf_variance: Numbers | sparse.csr_array,
    *,
    published: Flags | None = None,
) -> PairAudit:
    """Audit every pair of attacker and contributor, over all cells and linked tables at once.

    Parameters
    ----------
    table, prior
        The table to publish, and the attackers' prior knowledge.
    leaf_variance
        The variance of the noise in every leaf, or the covariance matrix of the noise, leaves × leaves.
    published
        Which cells are published. If not given, attackers are assumed to see all leaves: exact where leaves are cells,
        conservative otherwise, since every cell is a sum of leaves. If given, they see these cells and nothing else: exact, by
        dense linear algebra, for tables of moderate size.

    Notes
    -----
    Where more than 600 leaves are linked through contributors in several of them, variances are proven lower bounds
    (`PairAudit.exact` is False): attackers are assumed to know more about leaves far from a contributor's own.
    """
    known = prior if isinstance(prior, AttackerKnowledge) else prior.of(table)
    omega = checked_noise(leaf_variance, table.cells.leaves)
    if published is not None:
        return _seen_cells(table, known, omega, published)
    found = left_of(known, omega)
    attacker = np.where(found.helper >= 0, known.contributor[found.helper], -1)
    return PairAudit(
        known.contributor, found.variance, attacker, known.required, known.threshold, found.outsider, found.exact
    )


def _seen_cells(
    table: Table, known: AttackerKnowledge, omega: Numbers | sparse.csr_array, published: Flags
) -> PairAudit:
    """Audit what is learned from the published cells alone."""
    published = np.asarray(published, bool)
    if published.shape != (len(table),):
        raise ParameterError(f"`published` must say yes or no for each of the {len(table):,} cells.")
    if published.sum() > _MOST_CELLS or len(known) > _MOST_UNKNOWNS:
        raise NotApplicable(
            f"an audit of the published cells alone is for at most {_MOST_CELLS:,} cells and {_MOST_UNKNOWNS:,} contributors. "
            "Leave `published` out: to audit the leaves is safe for every table."
        )
    r = table.cells.incidence[published]
    m, s = (r @ known.loading).toarray(), (r @ known.covariance(omega) @ r.T).toarray()
    root = _root(s)
    a = (root @ m) * known.variance  # B = a'a = V M'S⁺M V
    c = np.diag(known.variance) - a.T @ a
    outsider = np.maximum(np.diag(c).copy(), 0.0)
    gain, best = np.zeros(len(known)), np.full(len(known), -1, np.int64)
    for side in np.unique(known.side[known.side >= 0]):
        own = np.flatnonzero(known.side == side)
        inverse = np.linalg.pinv(c[np.ix_(own, own)], rcond=1e-12, hermitian=True)
        here = np.einsum("ij,ik,kj->j", c[own], inverse, c[own])
        better = (here > gain) & (known.side != side)
        gain[better], best[better] = here[better], own[0]
    attacker = np.where(best >= 0, known.contributor[best], -1)
    return PairAudit(
        known.contributor, np.maximum(outsider - gain, 0.0), attacker, known.required, known.threshold, outsider, True
    )


def _root(s: Numbers) -> Numbers:
    """Return A with A'A the generalised inverse of s: cells that are sums of others add nothing."""
    scale = np.sqrt(np.diag(s))
    scale = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(s * scale[:, None] * scale)
    kept = values > 1e-11 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * scale)


class Belief(NamedTuple):
    """An attacker's posterior of a number: normal, with this mean and variance."""

    mean: float
    variance: float


def posterior(
    table: Table,
    prior: Prior | AttackerKnowledge,
    leaf_variance: Numbers | sparse.csr_array,
    *,
    attacker: int | None = None,
    unknown: int | None = None,
    cell: int | None = None,
    leaf: int | None = None,
    leaves: Numbers | None = None,
) -> Belief:
    """Return one attacker's posterior of one unknown, or of the true total of a cell or leaf.

    Parameters
    ----------
    attacker
        A contributor, by position, who knows his own contribution and those under the same control; None for an outsider.
    unknown, cell, leaf
        The target: one of the three. An unknown is a contributor, by position, unless contributions are unknowns.
    leaves
        The published values of the leaves, for the mean; NaN without them, or without prior means. The attacker's own
        contribution is assumed to equal its prior mean.
    """
    known = prior if isinstance(prior, AttackerKnowledge) else prior.of(table)
    omega = checked_noise(leaf_variance, table.cells.leaves)
    if sum(x is not None for x in (unknown, cell, leaf)) != 1:
        raise ParameterError("say what the attacker wants to know: one of unknown, cell and leaf.")
    own = np.zeros(0, np.int64) if attacker is None else _unknowns_of(known, attacker)
    v = known.variance.copy()
    v[own] = 0.0
    weights = np.zeros(len(known))
    if unknown is not None:
        weights[unknown] = 1.0
    elif cell is not None:
        weights = np.asarray(known.loading.T @ table.cells.incidence[[cell]].toarray().ravel())
    elif leaf is not None:
        weights = known.loading[[leaf]].toarray().ravel()
    a = known.loading @ (v * weights)
    x = _solved(known.covariance(omega, own), a)
    mean = float("nan")
    if known.means is not None and leaves is not None:
        mean = float(weights @ known.means + x @ (leaves - known.loading @ known.means))
    return Belief(mean, max(float(weights @ (v * weights) - a @ x), 0.0))


def _unknowns_of(known: AttackerKnowledge, contributor: int) -> Whole:
    owners = known.owner[known.contributor == contributor]
    return np.flatnonzero(np.isin(known.owner, owners))


def _solved(s: sparse.csr_array, b: Numbers) -> Numbers:
    """Return S⁺b, by the part of S that b reaches."""
    part = csgraph.connected_components(s, directed=False)[1]
    rows = np.flatnonzero(np.isin(part, part[b != 0]))
    x = np.zeros(len(b))
    small = s[rows][:, rows]
    if len(rows) > 2_000:
        x[rows] = conjugate_gradients(small, b[rows, None], 1e-13).ravel()
    elif len(rows):
        root = _root(small.toarray())
        x[rows] = root.T @ (root @ b[rows])
    return x
