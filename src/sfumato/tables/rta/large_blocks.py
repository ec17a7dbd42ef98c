"""Lower bounds of posterior variances: large blocks of linked leaves, and contributors in very many leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.lazy import csgraph
from sfumato.tables.rta.priors import AttackerKnowledge, conjugate_gradients
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.kernels.near_sums import NearSums

_CLOSE = 1e-4


class Hubs(NamedTuple):
    """Lower bounds of each hub's posterior variance, for any attacker and for an outsider; the helper; S⁻¹m, hubs × leaves."""

    variance: Numbers
    outsider: Numbers
    helper: Whole
    column: Numbers


def hubs_left(known: AttackerKnowledge, sums: NearSums, own: Numbers, hubs: Whole) -> Hubs:
    """Bound the posterior variance of unknowns in several leaves; `own` are variances of independent noise, at most the true ones.

    With D the variance that each leaf has by itself and U the other unknowns in several leaves, with variances V, m'(D +
    UVU')⁻¹m = min over c of (m - Uc)'D⁻¹(m - Uc) + c'V⁻¹c. Any c gives an upper bound on the added precision: here one from
    conjugate gradients, which need not be exact. For an attacker who knows g, g is removed from D or U; c stays.
    """
    v, by, side = known.variance, known.by_unknown, known.side
    leaves = known.loading.shape[0]
    links = np.flatnonzero((known.leaves_of > 1) & (v > 0))
    alone = np.flatnonzero((known.leaves_of == 1) & (v > 0) & (side >= 0))
    d = sums.single + own
    floor = np.maximum(d, 1e-300)
    s = known.covariance(own)
    x = conjugate_gradients(s, by[:, hubs].toarray(), _CLOSE)
    link = by[:, links].tocoo()
    entry_leaf, entry_unknown = link.row.astype(np.int64), links[link.col]
    single_leaf = by.indices[by.indptr[alone]]
    single = by.data[by.indptr[alone]] ** 2 * v[alone]
    made = Hubs(
        np.zeros(len(hubs)), np.zeros(len(hubs)), np.full(len(hubs), -1, np.int64), np.zeros((len(hubs), leaves))
    )
    for i, h in enumerate(hubs):
        m = by[:, [h]].toarray().ravel()
        c = v * np.asarray(by.T @ (x[:, i] / max(1.0 - v[h] * float(m @ x[:, i]), 1e-9)))
        c[h] = 0.0
        part = link.data * c[entry_unknown]
        r = m - np.bincount(entry_leaf, part, leaves)
        if ((d <= 1e-12 * sums.total) & (np.abs(r) * np.sqrt(v[h]) > 1e-12 * np.sqrt(sums.total))).any():
            continue  # a leaf without variance of its own: no bound
        q = float(r @ (r / floor) + (c[links] ** 2 / v[links]).sum())
        # what each side knows: entries of U and of D, leaf by leaf
        theirs = (side[entry_unknown] >= 0) & (side[entry_unknown] != side[h])
        who = np.concatenate([side[entry_unknown[theirs]], side[alone]])
        leaf = np.concatenate([entry_leaf[theirs], single_leaf])
        none = np.zeros(len(alone))
        shift, gone = np.concatenate([part[theirs], none]), np.concatenate([np.zeros(int(theirs.sum())), single])
        key, at = np.unique(who * leaves + leaf, return_inverse=True)
        shift, gone = np.bincount(at.ravel(), shift, len(key)), np.bincount(at.ravel(), gone, len(key))
        leaf, who = key % leaves, key // leaves
        left = np.where(d[leaf] - gone > 1e-12 * d[leaf], d[leaf] - gone, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            now = np.where((r[leaf] + shift) ** 2 > 0, (r[leaf] + shift) ** 2 / left, 0.0)
        more = np.bincount(who, now - r[leaf] ** 2 / floor[leaf], int(side.max(initial=0)) + 1)
        mine = links[(side[links] >= 0) & (links != h)]
        np.subtract.at(more, side[mine], c[mine] ** 2 / v[mine])
        more[side[h] if side[h] >= 0 else slice(0, 0)] = 0.0
        best = int(np.argmax(more)) if len(more) else -1
        made.outsider[i] = 1.0 / (1.0 / v[h] + max(q, 0.0))
        made.variance[i] = 1.0 / (1.0 / v[h] + max(q + max(float(more.max(initial=0.0)), 0.0), 0.0))
        if best >= 0 and more[best] > 0:
            made.helper[i] = int(np.flatnonzero(side == best)[0])
        made.column[i] = r / floor
    return made


CAP = 8
"""Number of leaves examined together for each contributor, unless that is not enough."""
WIDER = (CAP, 40, 120)
_CLUSTER, _EIGEN = 60, 2_000


def near_of(known: AttackerKnowledge, omega: Numbers | sparse.csr_array) -> kernels.near_sums.NearSums:
    """Return the arrays for `kernels.near_sums`, for noise with these variances or this covariance."""
    m, by, v, side = known.loading, known.by_unknown, known.variance, known.side
    leaves, unknowns = m.shape
    noise, own = _independent(omega)
    rows = np.repeat(np.arange(leaves), np.diff(m.indptr))
    varies, several = v > 0, known.leaves_of > 1
    spread = m.data**2 * v[m.indices]
    alone = (varies & ~several)[m.indices]
    attacks = (side >= 0)[m.indices]
    present = np.flatnonzero(varies & (known.leaves_of > 0) & (side >= 0))
    team = np.bincount(side[present], minlength=1)
    grouped = varies & (side >= 0) & (np.append(team, 0)[np.minimum(np.maximum(side, -1), len(team))] > 1)
    single = np.bincount(rows[alone], spread[alone], leaves)
    linked = np.bincount(rows[~alone], spread[~alone], leaves)
    rest = np.maximum(single - _largest_side(rows, side[m.indices], spread, alone & attacks, leaves), 0.0) + own
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(linked > 0, linked / rest, 0.0)
    first, second = _two_largest(
        rows, m.indices.astype(np.int64), spread, alone & attacks & ~grouped[m.indices], leaves
    )
    links, groups = (varies & several)[m.indices], alone & grouped[m.indices]
    return kernels.noisy_sums.kernel_arguments(
        kernels.near_sums.NearSums,
        link_start=_starts(rows[links], leaves), link_unknown=m.indices[links], link_value=m.data[links],
        group_start=_starts(rows[groups], leaves), group_unknown=m.indices[groups], group_value=m.data[groups],
        unknown_start=by.indptr, unknown_row=by.indices, unknown_value=by.data, variance=v, side=side, grouped=grouped,
        single=single, first=first, second=second, rest=rest, tau=tau,
        tau_all=np.bincount(m.indices, tau[rows], unknowns),
        noise_start=noise.indptr, noise_row=noise.indices, noise_value=noise.data,
        total=single + linked + noise.diagonal(),
    )  # fmt: skip


def left_near(
    known: AttackerKnowledge,
    omega: Numbers | sparse.csr_array,
    targets: Whole,
    enough: Numbers,
    caps: tuple[int, ...] = WIDER,
) -> tuple[Numbers, Numbers, Whole]:
    """Bound each target's posterior variance for any attacker and for an outsider; and an unknown of the best helper, or -1.

    Targets whose bound is below `enough` are examined with larger and larger neighbourhoods.
    """
    sums = near_of(known, omega)
    variance, outsider, helper = kernels.near_sums.near_bounds(sums, targets, 1)
    hubs = np.flatnonzero((known.leaves_of[targets] > kernels.near_sums.MOST) & (variance < enough))
    if len(hubs):
        found = hubs_left(known, sums, _independent(omega)[1], targets[hubs])
        variance[hubs] = np.maximum(variance[hubs], found.variance)
        outsider[hubs], helper[hubs] = np.maximum(outsider[hubs], found.outsider), found.helper
    for cap in caps:
        again = np.flatnonzero((variance < enough) & (known.leaves_of[targets] <= kernels.near_sums.MOST))
        if not len(again):
            break
        more, more_outsider, by = kernels.near_sums.near_bounds(sums, targets[again], cap)
        better = more > variance[again]
        helper[again[better]] = by[better]
        variance[again] = np.maximum(variance[again], more)
        outsider[again] = np.maximum(outsider[again], more_outsider)
    return variance, outsider, helper


def gradients_near(
    known: AttackerKnowledge, omega: Numbers, targets: Whole, helpers: Whole
) -> tuple[Numbers, sparse.csr_array]:
    """Return the bound for each pair of target and helper under independent noise, and z, pairs × leaves."""
    sums = near_of(known, omega)
    left, start, row, value = kernels.near_sums.near_gradients(sums, targets, helpers, CAP)
    z = sparse.csr_array((value, row, start), shape=(len(targets), known.loading.shape[0]))
    at = np.flatnonzero(known.leaves_of[targets] > kernels.near_sums.MOST)
    if len(at):
        hubs, which = np.unique(targets[at], return_inverse=True)
        found = hubs_left(known, sums, omega, hubs)
        better = found.variance[which.ravel()] > left[at]
        at, which = at[better], which.ravel()[better]
        left[at] = found.variance[which]
        kept = np.ones(len(targets))
        kept[at] = 0.0
        part = sparse.csr_array(found.column[which] * found.variance[which][:, None])
        place = sparse.csr_array((np.ones(len(at)), (at, np.arange(len(at)))), shape=(len(targets), len(at)))
        z = sparse.csr_array(sparse.diags_array(kept) @ z + place @ part)
        z.eliminate_zeros()
    return left, z


def _starts(rows: Whole, leaves: int) -> Whole:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=leaves))])


def _largest_side(rows: Whole, side: Whole, spread: Numbers, which: Flags, leaves: int) -> Numbers:
    """Return the largest part of each leaf's variance that one side knows, by unknowns in no other leaf."""
    row, who = rows[which], side[which]
    key, part = np.unique(row * (int(side.max(initial=0)) + 1) + who, return_inverse=True)
    known = np.bincount(part.ravel(), spread[which], len(key))
    most = np.zeros(leaves)
    np.maximum.at(most, key // (int(side.max(initial=0)) + 1), known)
    return most


def _two_largest(rows: Whole, unknown: Whole, spread: Numbers, which: Flags, leaves: int) -> tuple[Whole, Whole]:
    """Return the two unknowns of each leaf that vary most, among those in `which`; -1 for none."""
    at = np.flatnonzero(which & (spread > 0))
    at = at[np.lexsort((-spread[at], rows[at]))]
    start = _starts(rows[at], leaves)
    padded = np.append(unknown[at], [-1, -1])
    first = np.where(start[:-1] < start[1:], padded[start[:-1]], -1)
    return first, np.where(start[:-1] + 1 < start[1:], padded[np.minimum(start[:-1] + 1, len(at))], -1)


def _independent(omega: Numbers | sparse.csr_array) -> tuple[sparse.csr_array, Numbers]:
    """Return the covariance of the noise, without correlations within large clusters, and variances D with Ω - D ⪰ 0."""
    if isinstance(omega, np.ndarray):
        return sparse.csr_array(sparse.diags_array(omega)), omega
    cluster = csgraph.connected_components(omega, directed=False)[1]
    size = np.bincount(cluster)
    own, order = omega.diagonal().copy(), np.argsort(cluster, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)])
    for part in np.flatnonzero(size > 1):
        at = order[start[part] : start[part + 1]]
        own[at] *= _smallest_share(omega[at][:, at].toarray()) if len(at) <= _EIGEN else 0.0
    wide = (size > _CLUSTER)[cluster]
    entries = omega.tocoo()
    kept = ~wide[entries.row]
    row = np.concatenate([entries.row[kept], np.flatnonzero(wide)])
    col = np.concatenate([entries.col[kept], np.flatnonzero(wide)])
    data = np.concatenate([entries.data[kept], own[wide]])
    return sparse.csr_array((data, (row, col)), shape=omega.shape), own


def _smallest_share(noise: Numbers) -> float:
    """Return the largest c for which noise - c × its diagonal has no negative eigenvalue."""
    scale = np.sqrt(np.diag(noise))
    scale = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    scaled = noise * scale[:, None] * scale
    varies = scale > 0
    least = float(np.linalg.eigvalsh(scaled[np.ix_(varies, varies)])[0]) if varies.any() else 0.0
    return max(least - 1e-12 * len(noise), 0.0)
