"""What attackers know about each contribution once a table is published: the same question for every method.

Contributions have independent normal priors with standard deviation ε times their size; a published table is a list of
measurements of sums of leaves (`observed`). An attacker knows a contribution of its own. What is left of the prior variance of
another contribution h, for the attacker g who leaves the least, is

    v_h − a_hᵀ Γ a_h − (a_hᵀ Γ a_g)² / (v_g − a_gᵀ Γ a_g),     a_h = M v_h e_h,     Γ = Hᵀ (H K Hᵀ + T)⁻¹ H,     K = M V Mᵀ,

with M the leaves × contributors, H the measurements and T their errors (RTA-TABLES; Stinner, section 3.2, for one cell).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from sfumato.errors import NotApplicable
from sfumato.tables.measures.intervals import attacker_intervals
from sfumato.tables.measures.observed import Observed, leaf_noise, observed
from sfumato.tables.published import PublishedTable
from sfumato.tables.rta.priors import Prior

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_RIDGE = 1e-10
"""Error of an exact measurement, as a share of its variance: sums that repeat others would make the equations singular."""
_NOTHING = 1e-8
"""A posterior variance below this share of the prior's is none: the contribution is known."""
_MOST = 8_000
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class ContributorPosterior:
    """For every contributor what the best attacker is left with; shapes (contributors,)."""

    prior: Numbers
    """Variance before publication."""
    variance: Numbers
    """Variance after it, for the attacker who knows most; 0 for a contribution that is known exactly."""
    attacker: Whole
    """Which contributor that is; -1 for somebody outside, or for whoever works out intervals."""


def contributor_posterior(
    published: PublishedTable, prior: Prior | float, intervals: bool = True
) -> ContributorPosterior:
    """Return the posterior of every contribution, for contributors who attack each other and for outsiders.

    `prior` is what everybody knew before, or the coefficient of variation to within which sizes are known. Whoever it says does
    not attack is taken to, which errs on the safe side; contributors who attack together are not looked at.

    With `intervals`, attackers who work out between which values a cell lies (nobody contributes less than nothing; a rounded
    value is within its base) are looked at too: an interval of length W is a variance of W²/12, and the smaller one counts.
    """
    table = published.source("what attackers know of contributions")
    if not isinstance(prior, Prior):  # the second number is what is demanded, which is not asked for here
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
    """Return for each leaf the number of its block: leaves that a measurement or a contributor ties together."""
    ties = sparse.vstack([abs(seen.rows), abs(m).T.tocsr()], format="csr")
    graph = sparse.block_array([[None, ties.T], [ties, None]], format="csr")
    found = csgraph.connected_components(graph, directed=False)[1][: m.shape[0]]
    return np.unique(found, return_inverse=True)[1].ravel().astype(np.int64)


def _prior(m: sparse.csr_array, v: Numbers) -> sparse.csr_array:
    return sparse.csr_array(m @ sparse.diags_array(v) @ m.T)


def _blocks(seen: Observed, m: sparse.csr_array, v: Numbers, block: Whole) -> Iterator[tuple[Whole, Whole, Numbers]]:
    """Yield leaves, contributors and Γ of every block of several leaves."""
    from scipy.linalg import solve_triangular

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
        if len(rows) > _MOST:
            raise NotApplicable(
                f"{len(rows):,} published cells hang together, and what attackers know of every contribution is worked out for "
                f"at most {_MOST:,}. Ask for a smaller table, or for a measure of cells."
            )
        h = seen.rows[rows][:, leaves].toarray()
        system = h @ (k[leaves][:, leaves] @ h.T)
        diagonal = np.diag(system).copy()
        system[np.diag_indices_from(system)] += np.maximum(seen.error[rows], _RIDGE * np.maximum(diagonal, 1e-300))
        use = diagonal > 0
        half = solve_triangular(np.linalg.cholesky(system[np.ix_(use, use)]), h[use], lower=True)
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
    """Return the contributors that can be the best attackers: in each leaf the two that take most with what they know.

    Among those who contribute to one leaf, all that differs between attackers is a_g²/(posterior variance of g), so that two
    of them are enough (one may be the target itself); of those who contribute to several leaves all are looked at.
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
    seen: Observed, m: sparse.csr_array, a: sparse.csr_array, v: Numbers, alone: NDArray[np.bool_]
) -> tuple[Whole, Numbers, Whole]:
    """Return the contributors to leaves that nothing ties to others, with the least posterior variance and the attacker."""
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
    """Return what is left of each contribution's variance for those who know each cell to within an attacker's interval.

    If the cell has the prior variance k for the attacker (his own contribution is no secret to him) and s² remains, then
    v_h − (m_h v_h)²/k · (1 − s²/k) remains of the contribution.
    """
    low, high = attacker_intervals(published)
    width = high - low
    cells = np.flatnonzero(np.isfinite(width))
    inside = sparse.csr_array(published.cells.incidence[cells] @ m)
    row = np.repeat(np.arange(len(cells)), np.diff(inside.indptr))
    part = inside.data**2 * v[inside.indices]  # each contribution's own part of the cell's prior variance
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
