"""Knowledge of readers and attackers after publication: intervals, best estimates, variances, and contributions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from sfumato.errors import NotApplicable
from sfumato.lazy import linalg
from sfumato.tables.cells import Status
from sfumato.tables.published import PublishedTable
from sfumato.tables.rta.priors import Prior
from sfumato.typing import Flags, Numbers, Whole

_FOUND: WeakKeyDictionary[PublishedTable, tuple[Numbers, Numbers]] = WeakKeyDictionary()


def attacker_intervals(published: PublishedTable) -> tuple[Numbers, Numbers]:
    """Return certain bounds of each cell, after all arithmetic; two arrays of shape (cells,).

    Published cells, and tables without certain bounds because of a random adjustment, need no arithmetic.
    """
    if published not in _FOUND:
        low, high = published.low.copy(), published.high.copy()
        open_ = np.flatnonzero(~(low == high))
        if len(open_) and not _nothing_sure(published):
            from sfumato.tables.attacker import Attacker

            low[open_], high[open_] = Attacker.of(published).intervals(open_)
        _FOUND[published] = (low, high)
    return _FOUND[published]


def _nothing_sure(published: PublishedTable) -> bool:
    """Whether values were adjusted without bounds: then no cell has an interval."""
    random = published.variance is not None or published.leaf_variance is not None
    changed = published.status == Status.CHANGED
    return random and not (np.isfinite(published.low) | np.isfinite(published.high))[changed].any()


_STEPS = 2_000
_CLOSE = 1e-6
_KEPT: WeakKeyDictionary[PublishedTable, Numbers] = WeakKeyDictionary()


def reader_estimate(published: PublishedTable) -> Numbers:
    """Return an estimate of every cell from the published table alone, shape (cells,).

    A published value is its own estimate. The leaves below unpublished cells are fitted to the published cells above them by
    iterative proportional fitting from equal leaves, the table of largest entropy; where values may be negative, by least
    squares.
    """
    if published not in _KEPT:
        _KEPT[published] = _estimate(published)
    return _KEPT[published]


def _estimate(published: PublishedTable) -> Numbers:
    values, incidence = published.values, published.cells.incidence
    gone = np.isnan(values)
    if not gone.any():
        return values
    known = np.full(incidence.shape[1], np.nan)
    alone = np.flatnonzero((published.cells.sizes == 1) & ~gone)
    known[incidence.indices[incidence.indptr[alone]]] = values[alone]
    free = np.flatnonzero(np.isnan(known))
    shown = np.flatnonzero(~gone)
    rows = sparse.csr_array(incidence[shown][:, free])
    target = values[shown] - incidence[shown] @ np.nan_to_num(known)
    use = np.diff(rows.indptr) > 0
    leaves = np.nan_to_num(known)
    fit = _proportional if (values[shown] >= 0).all() else _least_squares
    leaves[free] = fit(sparse.csr_array(rows[use]), target[use])
    return np.where(gone, incidence @ leaves, values)


def _proportional(rows: sparse.csr_array, target: Numbers) -> Numbers:
    """Fit leaves of equal size to sums of them: simultaneous proportional fitting (Darroch and Ratcliff, 1972)."""
    count = rows.shape[1]
    if not rows.shape[0]:
        return np.zeros(count)
    x = np.full(count, max(float(target.max()), 0.0) / count)
    zero = np.asarray(rows.T @ (target <= 0)).ravel() > 0
    x[zero] = 0.0
    rows = sparse.csr_array(rows[target > 0])
    target = target[target > 0]
    x[np.asarray(rows.sum(axis=0)).ravel() == 0] = 0.0  # leaves without information are estimated as 0
    step = max(float(np.asarray(rows.sum(axis=0)).max(initial=1.0)), 1.0)
    back = rows.T.tocsr()
    for _ in range(_STEPS):
        with np.errstate(divide="ignore"):
            sums = rows @ x
            ratio = np.log(target / np.where(sums > 0, sums, target))
        if np.abs(ratio).max(initial=0.0) < _CLOSE:
            break
        x = x * np.exp(back @ ratio / step)
    return np.asarray(x)


def _least_squares(rows: sparse.csr_array, target: Numbers) -> Numbers:
    from scipy.sparse.linalg import lsqr

    return np.asarray(lsqr(rows, target, atol=1e-10, btol=1e-10)[0], np.float64)


@dataclass(frozen=True, eq=False)
class Observed:
    """Measurements of sums of leaves: ``rows @ leaves`` is known with an error of variance `error`, 0 where it is exact."""

    rows: sparse.csr_array
    """Shape (measurements, leaves)."""
    error: Numbers
    """Shape (measurements,)."""


def leaf_noise(published: PublishedTable) -> Numbers | sparse.csr_array | None:
    """Return the noise that was added to the leaves: variances, or their covariance where it is correlated.

    None where no noise was added, or its size is not known. Noise of a later table is correlated: sums that were published
    before are known better than their parts.
    """
    if published.record is None:
        return published.leaf_variance
    covariance, own = published.record.covariance, published.record.covariance.diagonal()
    return covariance if abs(covariance - sparse.diags_array(own)).max() > 0 else np.asarray(own, np.float64)


def noise_variance(published: PublishedTable) -> Numbers | None:
    """Return the variance of random adjustments without bounds, shape (cells,), published or not; None where there are none."""
    noise = leaf_noise(published)
    if published.variance is not None or noise is None:
        return published.variance
    if isinstance(noise, np.ndarray):
        return published.cells.sums(noise)
    r = published.cells.incidence
    return np.maximum(np.asarray((r @ noise).multiply(r).sum(axis=1), np.float64).ravel(), 0.0)


def interval_variance(published: PublishedTable) -> Numbers:
    """Return (high - low)²/12 for every cell: the variance of a value of which only an interval is known.

    It is 0 where the value is published, and NaN where there are no bounds; shape (cells,).
    """
    with np.errstate(invalid="ignore"):
        width = published.high - published.low
        return np.where(np.isfinite(width), width**2 / 12, np.nan)


def error_variance(published: PublishedTable) -> Numbers:
    """Return the error variance of every published cell; NaN where nothing is published, shape (cells,).

    It is 0 where the value is published exactly, and that of the adjustment where there is a random one. Where a value was
    changed within bounds (rounding, cell keys), most changes may be much smaller than the bounds, and attackers know the
    method: the variance is that of the interval times the mean, over all such cells, of the squared change as a share of it, at
    most 1; without bounds, the squared value times the mean of the squared change as a share of it.
    """
    found, noise = interval_variance(published), noise_variance(published)
    changed = published.status == Status.CHANGED
    if published.original is not None:
        off2 = (published.values - published.original.value) ** 2
        for here, scale in ((changed & (found > 0), found), (changed & np.isnan(found), published.values**2)):
            here = here & (scale > 0) & (noise is None)
            if here.any():
                found = np.where(here, scale * min(1.0, float(np.mean(off2[here] / scale[here]))), found)
    return found if noise is None else np.fmin(found, np.where(published.suppressed, np.nan, noise))


def observed(published: PublishedTable) -> Observed:
    """Return the published table as measurements of the leaves, each with an error of its own.

    Noise that was added to the leaves is not included, since cells share it (`leaf_noise`).
    """
    error = error_variance(published)
    said = np.flatnonzero(~np.isnan(error))
    return _without_known(published.cells.incidence[said], error[said])


def _without_known(rows: sparse.csr_array, error: Numbers) -> Observed:
    """Remove exactly known leaves from the other measurements: the result is equivalent, and much smaller."""
    size = np.diff(rows.indptr)
    alone = np.flatnonzero((size == 1) & (error == 0))
    known = np.zeros(rows.shape[1], bool)
    known[rows.indices[rows.indptr[alone]]] = True
    first = np.unique(rows.indices[rows.indptr[alone]], return_index=True)[1]
    rest = np.setdiff1d(np.flatnonzero(size > 0), alone)
    keep = sparse.diags_array(np.where(known, 0.0, 1.0), format="csr")
    left = sparse.csr_array(rows[rest] @ keep)
    left.eliminate_zeros()
    use = np.flatnonzero(np.diff(left.indptr) > 0)
    return Observed(
        sparse.csr_array(sparse.vstack([rows[alone[first]], left[use]], format="csr")),
        np.concatenate([np.zeros(len(first)), error[rest][use]]),
    )


_MOST = 4_000
_EXACT = 1e-9


def reader_variance(published: PublishedTable) -> Numbers:
    """Return the variance of every cell after all arithmetic, shape (cells,); infinite if nothing is known.

    Intervals of length W count as W²/12. Where cells were perturbed one by one, so that they do not add up, sums of other cells
    add information about a cell: then the variance is that of the best linear unbiased estimate.
    """
    low, high = attacker_intervals(published)
    with np.errstate(invalid="ignore"):
        width = high - low
    found = np.where(np.isfinite(width), width**2 / 12, np.inf)
    own = error_variance(published)
    found = np.fmin(found, np.where(np.isnan(own), np.inf, own))
    if leaf_noise(published) is None and published.cells.leaves <= _MOST and not _adds_up(published):
        found = np.minimum(found, _best_linear(published.cells.incidence, own))
    return found


def _adds_up(published: PublishedTable) -> bool:
    """Whether published cells are the sums of published leaves, as far as both are published."""
    cells = published.cells
    leaves = np.where(cells.of_leaf >= 0, published.values[cells.of_leaf], np.nan)
    off = np.abs(cells.sums(leaves) - published.values)
    return not (off > 1e-9 * max(float(np.nanmax(np.abs(published.values), initial=0.0)), 1.0)).any()


def _best_linear(incidence: sparse.csr_array, error: Numbers) -> Numbers:
    """Return the variances of R S Rᵀ, S = (Rᵀ T⁻¹ R)⁻¹: independent errors T of cells, and nothing else known."""
    said = np.flatnonzero(~np.isnan(error) & np.isfinite(error))
    floor = _EXACT * max(float(error[said].max(initial=0.0)), 1e-300)
    rows = incidence[said]
    precision = (rows.T @ sparse.diags_array(1 / np.maximum(error[said], floor)) @ rows).toarray()
    level, axes = np.linalg.eigh(precision)
    known = level > 1e-12 * max(float(level.max(initial=0.0)), 1e-300)
    reach = incidence @ axes
    unknown = (reach[:, ~known] ** 2).sum(axis=1) > 1e-9
    variance = (reach[:, known] ** 2 / level[known]).sum(axis=1)
    return np.where(unknown, np.inf, np.where(variance <= 2 * floor * incidence.shape[1], 0.0, variance))


# Attackers' knowledge of each contribution after publication: the same question for every method.
#
# Contributions have independent normal priors with standard deviation ε times their size; a published table is a list of
# measurements of sums of leaves (`observed`). An attacker knows a contribution of its own. The posterior variance of another
# contribution h, for the attacker g with the smallest one, is
#
#     v_h − a_hᵀ Γ a_h − (a_hᵀ Γ a_g)² / (v_g − a_gᵀ Γ a_g),     a_h = M v_h e_h,     Γ = Hᵀ (H K Hᵀ + T)⁻¹ H,     K = M V Mᵀ,
#
# with M the leaves × contributors, H the measurements and T their errors (RTA-TABLES; Stinner, section 3.2, for one cell).


_RIDGE = 1e-10
"""Error of an exact measurement, as a share of its variance: redundant sums would make the equations singular."""
_NOTHING = 1e-8
"""A posterior variance below this share of the prior's counts as 0: the contribution is known."""
_MOST_CONTRIBUTIONS = 8_000
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class ContributorPosterior:
    """Posterior variance of every contribution for the best attacker; shapes (contributors,)."""

    prior: Numbers
    """Variance before publication."""
    variance: Numbers
    """Variance after it, for the attacker who knows most; 0 for a contribution that is known exactly."""
    attacker: Whole
    """That attacker; -1 for an outsider, or for one who uses intervals."""


def contributor_posterior(
    published: PublishedTable, prior: Prior | float, intervals: bool = True
) -> ContributorPosterior:
    """Return the posterior of every contribution, for contributors who attack each other and for outsiders.

    `prior` is the knowledge before publication, or the coefficient of variation to within which sizes are known. Contributors
    who do not attack in the prior are assumed to attack, which errs on the safe side; coalitions are not examined.

    With `intervals`, attackers who compute the interval of a cell (no contribution is negative; a rounded value is within its
    base) are examined too: an interval of length W is a variance of W²/12, and the smaller one counts.
    """
    table = published.source("what attackers know of contributions")
    if not isinstance(prior, Prior):  # the second number is the requirement, which is not used here
        prior = Prior.from_sizes(prior, prior / 2)
    known = prior.of(table)
    noise = leaf_noise(published)
    if noise is not None:
        from sfumato.tables.rta.posterior_audit import audit_pairs

        found = audit_pairs(table, known, noise)
        return _result(known.variance, found.variance, found.attacker)
    m, v = sparse.csr_array(known.loading), known.variance
    a = sparse.csr_array(m @ sparse.diags_array(v))
    best, who = v.copy(), np.full(len(v), -1, np.int64)
    seen = observed(published)
    block_of = _tied(seen, m)
    for leaves, people, gamma in _blocks(seen, m, v, block_of):
        block = sparse.csc_array(a[leaves][:, people])
        left, g = _least(block, gamma, v[people])
        better = left < best[people]
        best[people[better]], who[people[better]] = left[better], np.where(g >= 0, people[g], -1)[better]
    alone, left, g = _single_leaves(seen, m, a, v, np.bincount(block_of)[block_of] == 1)
    best[alone], who[alone] = left, g
    if intervals:
        left = _from_intervals(published, m, v)
        better = left < best * (1 - 1e-9)
        best, who = np.where(better, left, best), np.where(better, -1, who)
    return _result(v, best, who)


def _result(prior: Numbers, left: Numbers, who: Whole) -> ContributorPosterior:
    return ContributorPosterior(prior, np.where(left < _NOTHING * prior, 0.0, np.maximum(left, 0.0)), who)


def _tied(seen: Observed, m: sparse.csr_array) -> Whole:
    """Return the block of each leaf: leaves that a measurement or a contributor links."""
    ties = sparse.vstack([abs(seen.rows), abs(m).T.tocsr()], format="csr")
    graph = sparse.block_array([[None, ties.T], [ties, None]], format="csr")
    found = csgraph.connected_components(graph, directed=False)[1][: m.shape[0]]
    return np.unique(found, return_inverse=True)[1].ravel().astype(np.int64)


def _prior(m: sparse.csr_array, v: Numbers) -> sparse.csr_array:
    return sparse.csr_array(m @ sparse.diags_array(v) @ m.T)


def _blocks(seen: Observed, m: sparse.csr_array, v: Numbers, block: Whole) -> Iterator[tuple[Whole, Whole, Numbers]]:
    """Yield leaves, contributors and Γ of every block of several leaves."""
    size = np.bincount(block)
    k = _prior(m, v)
    first = seen.rows.indptr[:-1]
    of_row = block[seen.rows.indices[first]]
    entry = m.tocoo()
    for b in np.flatnonzero(size > 1):
        rows, leaves = np.flatnonzero(of_row == b), np.flatnonzero(block == b)
        people = np.unique(entry.col[block[entry.row] == b])
        if not len(rows) or not len(people):
            continue
        if len(rows) > _MOST_CONTRIBUTIONS:
            raise NotApplicable(
                f"{len(rows):,} published cells hang together, and what attackers know of every contribution is worked out for "
                f"at most {_MOST_CONTRIBUTIONS:,}. Ask for a smaller table, or for a measure of cells."
            )
        h = seen.rows[rows][:, leaves].toarray()
        system = h @ (k[leaves][:, leaves] @ h.T)
        diagonal = np.diag(system).copy()
        system[np.diag_indices_from(system)] += np.maximum(seen.error[rows], _RIDGE * np.maximum(diagonal, 1e-300))
        use = diagonal > 0
        half = linalg.solve_triangular(np.linalg.cholesky(system[np.ix_(use, use)]), h[use], lower=True)
        yield leaves, people, half.T @ half


def _least(a: sparse.csc_array, gamma: Numbers, v: Numbers) -> tuple[Numbers, Whole]:
    """Return the smallest posterior variance of each contributor over all attackers, and the attacker; -1 for none."""
    count = a.shape[1]
    left = np.empty(count)
    for start in range(0, count, _CHUNK):
        part = sparse.csr_array(a[:, start : start + _CHUNK].T)  # sparse throughout: most contribute to one leaf
        left[start : start + _CHUNK] = v[start : start + _CHUNK] - part.multiply(part @ gamma).sum(axis=1)
    left = np.maximum(left, 0.0)
    attackers = _strongest(a, left, v)
    reach = np.asarray(sparse.csr_array(a[:, attackers].T) @ gamma).T
    known = left[attackers] > _NOTHING * v[attackers]
    best, who = left.copy(), np.full(count, -1, np.int64)
    for start in range(0, count, _CHUNK):
        mine = slice(start, min(start + _CHUNK, count))
        shared = np.asarray(a[:, mine].T @ reach)
        gain = np.where(known, shared**2 / np.where(known, left[attackers], 1.0), 0.0)
        gain[np.arange(mine.start, mine.stop)[:, None] == attackers] = 0.0  # nobody attacks himself
        top = gain.argmax(axis=1) if len(attackers) else np.zeros(mine.stop - mine.start, np.int64)
        most = gain[np.arange(len(top)), top] if len(attackers) else np.zeros(len(top))
        best[mine] = np.maximum(left[mine] - most, 0.0)
        who[mine] = np.where(most > 0, attackers[top] if len(attackers) else -1, -1)
    return best, who


def _strongest(a: sparse.csc_array, left: Numbers, v: Numbers) -> Whole:
    """Return the contributors that can be the best attackers: in each leaf the two whose knowledge removes most variance.

    Among those who contribute to one leaf, attackers differ only in a_g²/(posterior variance of g), so two of them are enough
    (one may be the target itself); all who contribute to several leaves are examined.
    """
    one = np.flatnonzero(np.diff(a.indptr) == 1)
    leaf, share = a.indices[a.indptr[one]], a.data[a.indptr[one]]
    ok = left[one] > _NOTHING * v[one]
    strength = np.where(ok, share**2 / np.where(ok, left[one], 1.0), 0.0)
    order = np.lexsort((-strength, leaf))
    place = np.arange(len(order))
    start = np.r_[True, leaf[order][1:] != leaf[order][:-1]][: len(order)]
    rank = place - np.maximum.accumulate(np.where(start, place, 0))
    return np.union1d(one[order][rank < 2], np.flatnonzero(np.diff(a.indptr) > 1))


def _single_leaves(
    seen: Observed, m: sparse.csr_array, a: sparse.csr_array, v: Numbers, alone: Flags
) -> tuple[Whole, Numbers, Whole]:
    """Return the contributors to leaves that are not linked to others, with the smallest posterior variance and the attacker."""
    information = np.zeros(m.shape[0])
    known = np.zeros(m.shape[0], bool)
    rows = np.repeat(np.arange(seen.rows.shape[0]), np.diff(seen.rows.indptr))
    leaf, error = seen.rows.indices, seen.error[rows]
    known[leaf[error == 0]] = True
    np.add.at(information, leaf[error > 0], 1 / error[error > 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(known, 0.0, 1 / information)
        k = _prior(m, v).diagonal()
        gamma = np.where((known | (information > 0)) & (k > 0), 1 / (k + noise), 0.0)
    entry = a.tocoo()
    inside = alone[entry.row] & (v[entry.col] > 0)
    row, person, share = entry.row[inside], entry.col[inside].astype(np.int64), entry.data[inside]
    left = np.maximum(v[person] - share**2 * gamma[row], 0.0)
    ok = left > _NOTHING * v[person]
    strength = np.where(ok, share**2 / np.where(ok, left, 1.0), 0.0)
    order = np.lexsort((-strength, row))
    row, person, share = row[order], person[order], share[order]
    left, strength = left[order], strength[order]
    place = np.arange(len(row))
    start = np.maximum.accumulate(np.where(np.r_[True, row[1:] != row[:-1]], place, 0)) if len(row) else place
    other = np.where(place == start, start + 1, start)
    exists = other < len(row)
    other = np.where(exists, other, 0)
    exists &= (row[other] == row) if len(row) else exists
    gain = np.where(exists, (share * gamma[row]) ** 2 * strength[other], 0.0)
    return person, np.maximum(left - gain, 0.0), np.where(gain > 0, person[other], -1)


def _from_intervals(published: PublishedTable, m: sparse.csr_array, v: Numbers) -> Numbers:
    """Return the variance of each contribution that is left for attackers who know each cell to within its interval.

    If the cell has the prior variance k for the attacker (who knows his own contribution) and s² is left, then v_h − (m_h
    v_h)²/k · (1 − s²/k) is left of the contribution.
    """
    low, high = attacker_intervals(published)
    width = high - low
    cells = np.flatnonzero(np.isfinite(width))
    inside = sparse.csr_array(published.cells.incidence[cells] @ m)
    row = np.repeat(np.arange(len(cells)), np.diff(inside.indptr))
    part = inside.data**2 * v[inside.indices]  # each contribution's part of the cell's prior variance
    k = np.bincount(row, part, len(cells))
    order = np.lexsort((-part, row))
    first = np.zeros((len(cells), 2))
    rank = np.arange(len(row)) - inside.indptr[row[order]]
    for place in (0, 1):
        first[row[order][rank == place], place] = part[order][rank == place]
    mine = part >= first[row, 0]
    attacker = np.where(mine, first[row, 1], first[row, 0])  # the largest of the others
    before = np.maximum(k[row] - attacker, part)
    s2 = np.minimum(width[cells][row] ** 2 / 12, before)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = v[inside.indices] * (1 - np.where(before > 0, part / before * (1 - s2 / before), 0.0))
    least = v.copy()
    np.minimum.at(least, inside.indices, left)
    return least
