"""Leaf noise against dense linear algebra, a semidefinite program, the paper's single cell and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.papers.simple_rta import SimpleRTA
from sfumato.tables import Cells, Contributions, Table
from sfumato.tables.rta.leaf_noise import leaf_noise, one_leaf, relaxation
from sfumato.tables.rta.posterior_audit import audit_pairs, posterior
from sfumato.tables.rta.priors import Prior

Numbers = Any


def table_of(own: Numbers, weight: Numbers = None, size: Numbers = None, cells: Numbers = None) -> Table:
    """Return a table with a cell for each leaf and the total, from contributions, leaves × contributors; NaN for no record."""
    own = np.asarray(own, float)
    row, col = np.nonzero(~np.isnan(own))
    made = sparse.csr_array((own[row, col], (row, col)), shape=own.shape)
    grossed = (
        made
        if weight is None
        else sparse.csr_array((own[row, col] * np.asarray(weight)[row, col], (row, col)), shape=own.shape)
    )
    incidence = np.vstack([np.eye(len(own)), np.ones(len(own))]) if cells is None else np.asarray(cells, float)
    labels = np.array([[f"c{i}"] for i in range(len(incidence))], object)
    totals = np.asarray(grossed.sum(axis=1)).ravel()
    counts = np.diff(made.indptr).astype(float)
    given = Contributions(made, grossed, None if size is None else np.asarray(size, float))
    return Table(Cells(("cell",), labels, sparse.csr_array(incidence)), totals, counts, "turnover", given)


def random_case(g: np.random.Generator, leaves: int, n: int, multi: float = 0.4) -> tuple[Numbers, Numbers]:
    own = np.full((leaves, n), np.nan)
    for h in range(n):
        k = 1 if g.random() > multi else int(g.integers(1, min(leaves, 4) + 1))
        own[g.choice(leaves, k, replace=False), h] = g.lognormal(2, 1, k)
    return own, np.where(g.random((leaves, n)) < 0.5, 1.0, g.uniform(1, 5, (leaves, n)))


def smallest_by_brute_force(m: Numbers, v: Numbers, omega: Numbers, owner: Numbers, attacks: Numbers = None) -> Numbers:
    """Return the smallest posterior variance of each unknown over all attackers and the outsider, by dense conditioning."""
    best = np.full(len(v), np.inf)
    sides = sorted(set(owner if attacks is None else owner[attacks]))
    for side in [None, *sides]:
        left = np.where(owner == side, 0.0, v) if side is not None else v
        s = (m * left) @ m.T + omega
        c = np.diag(left) - (left[:, None] * m.T) @ np.linalg.pinv(s, rcond=1e-13, hermitian=True) @ (m * left)
        best = np.where(owner == side, best, np.minimum(best, np.diag(c)))
    return best


def one_cell(v: Numbers, w: Numbers, **more: Any) -> tuple[Table, Prior]:
    return table_of([[35.0, 50.0, -5.0]]), Prior.from_variances(v, w, **more)


def test_the_papers_examples_in_a_table_of_one_cell() -> None:
    nobody = [False] * 3
    table, prior = one_cell([500, 200, 50], [100, 0, 0], means=[50, 40, 5], attackers=nobody)
    assert leaf_noise(table, prior).variance.tolist() == [0.0]  # example 3.2.0.2
    belief = posterior(table, prior, np.zeros(1), unknown=0, leaves=np.array([80.0]))
    assert belief == pytest.approx((40, 500 / 3))
    table, prior = one_cell([500, 0, 50], [100, 0, 0], means=[50, 50, 5], attackers=nobody)
    noise = leaf_noise(table, prior).variance
    assert noise == pytest.approx([75])  # example 3.2.0.3, with the mean of ERRATA 3.1
    belief = posterior(table, prior, noise, unknown=0, leaves=np.array([83.0]))
    assert belief == pytest.approx((32.4, 100))
    table = table_of([[35.0, 50.0, -5.0]], size=[40, 30, 15])
    prior = Prior.from_sizes(1 / 2, 1 / 4)
    found = leaf_noise(table, prior)
    assert found.variance == pytest.approx([77.0833333333], rel=1e-11)  # example 3.3.0.4 with ERRATA 3.2
    assert (found.target[0], found.attacker[0]) == (0, 1)
    assert audit_pairs(table, prior, np.array([77.0])).risk == pytest.approx(1.000469, abs=1e-6)


def test_weights_enter_as_their_squares() -> None:
    """The example of RTA-TABLES: v = (4, 3, 2), w² = 1, m = (3, 1, 1) needs 10."""
    table = table_of([[1.0, 1.0, 1.0]], weight=[[3.0, 1.0, 1.0]])
    assert leaf_noise(table, Prior.from_variances([4, 3, 2], 1.0)).variance == pytest.approx([10])


@pytest.mark.parametrize("seed", range(6))
def test_one_leaf_equals_the_search_over_all_pairs_and_the_single_cell(seed: int) -> None:
    g = np.random.default_rng(seed)
    for _ in range(30):
        n = int(g.integers(1, 8))
        v, w = g.choice([0.0, 1.0, 3.0, 3.0, 8.0, 50.0, np.inf], n), g.choice([0.0, 0.3, 0.9], n)
        w = np.where(v <= w, 0.0, w)
        if not w.any():
            continue
        m = g.choice([1.0, 1.0, 2.0, 5.0], n)
        owner = g.integers(0, n, n) if seed % 2 else np.arange(n)
        table = table_of([np.ones(n)], weight=[m])
        found = leaf_noise(table, Prior.from_variances(v, w, controllers=owner)).variance[0]
        need = 0.0
        for h in range(n):
            for side in [-1, *set(owner)]:
                if w[h] > 0 and side != owner[h]:
                    cover = sum(m[i] ** 2 * v[i] for i in range(n) if owner[i] != side and i != h)
                    own = m[h] ** 2 * w[h] * (1.0 if np.isinf(v[h]) else v[h] / (v[h] - w[h]))
                    need = max(need, own - cover)
        assert found == pytest.approx(need, rel=1e-9)
        if seed % 2 == 0 and np.isfinite(v).all():
            single = SimpleRTA(m**2 * v, m**2 * w, own=True).solve().parameters["sigma2"]
            assert found == pytest.approx(single, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_audit_equals_dense_conditioning_for_every_pair(seed: int) -> None:
    g = np.random.default_rng(seed)
    for trial in range(12):
        leaves, n = int(g.integers(1, 9)), int(g.integers(1, 25))
        own, weight = random_case(g, leaves, n)
        owner = g.integers(0, n, n) if trial % 2 else np.arange(n)
        attacks = g.random(n) < 0.8 if trial % 3 == 0 else np.ones(n, bool)
        table, prior = table_of(own, weight), Prior.from_sizes(0.5, 0.2, controllers=owner, attackers=attacks)
        known = prior.of(table)
        omega = g.uniform(0, 1, leaves) * known.spread * g.integers(0, 2, leaves)
        total = np.nansum(own, axis=0)
        m = np.nan_to_num(own) * weight / total
        assert known.loading.toarray() == pytest.approx(m)
        twin = smallest_by_brute_force(m, (0.5 * total) ** 2, np.diag(omega), owner, np.isin(owner, owner[attacks]))
        audit = audit_pairs(table, prior, omega)
        assert np.abs(audit.variance - twin) == pytest.approx(np.zeros(n), abs=1e-7 * known.variance.max())
        assert audit.exact


@pytest.mark.parametrize("seed", range(4))
def test_noise_for_linked_leaves_is_the_optimum_of_the_semidefinite_program(seed: int) -> None:
    pytest.importorskip("clarabel")
    from sfumato.tables.rta.blocks import smallest_covariance

    g = np.random.default_rng(seed)
    for trial in range(4):
        leaves, n = int(g.integers(2, 7)), int(g.integers(2, 14))
        own, weight = random_case(g, leaves, n)
        table, prior = table_of(own, weight), Prior.from_sizes(0.5, 0.2)
        price = np.ones(leaves) if trial % 2 else g.uniform(0.5, 2, leaves)
        found, known = leaf_noise(table, prior, cost=price), prior.of(table)
        pairs = [(h, k) for h in range(n) for k in [-1, *range(n)] if k != h]
        best = np.diag(smallest_covariance(known, pairs, np.diag(price), diagonal=True)) @ price
        assert found.objective == pytest.approx(best, rel=1e-4, abs=1e-6)
        assert found.lower <= best * (1 + 1e-6)
        assert found.gap < 1e-3
        twin = smallest_by_brute_force(known.loading.toarray(), known.variance, np.diag(found.variance), np.arange(n))
        assert (twin >= known.required * (1 - 1e-11)).all()


def test_leaf_noise_is_no_more_than_scipy_finds() -> None:
    from scipy.optimize import minimize

    own = [[10.0, 4, np.nan, np.nan, 2], [6, np.nan, 5, np.nan, np.nan], [np.nan, 7, np.nan, 9, np.nan]]
    table, prior = table_of(own), Prior.from_sizes(0.5, 0.2)
    known = prior.of(table)
    m, v, w = known.loading.toarray(), known.variance, known.required
    found = leaf_noise(table, prior)

    def slack(x: Numbers) -> Numbers:
        return (smallest_by_brute_force(m, v, np.diag(np.maximum(x, 0)), np.arange(5)) - w) / w

    starts = [np.full(3, s) for s in (20.0, 60.0)]
    tried = [
        minimize(lambda x: x.sum(), s, bounds=[(0, None)] * 3, constraints=[{"type": "ineq", "fun": slack}])
        for s in starts
    ]
    least = min(t.x.sum() for t in tried if slack(t.x).min() > -1e-7)
    assert found.objective == pytest.approx(least, rel=1e-3)
    assert slack(found.variance).min() >= -1e-12


def test_posterior_beliefs_equal_a_simulation() -> None:
    g = np.random.default_rng(2)
    own = [[10.0, 4, 3, np.nan], [6, np.nan, 5, 8]]
    table, prior = table_of(own), Prior.from_variances([9.0, 4.0, 2.0, 1.0], 0.1, means=[15.0, 4, 9, 7])
    known, noise = prior.of(table), np.array([3.0, 1.0])
    d = known.means + g.normal(size=(400_000, 4)) * np.sqrt(known.variance)
    d[:, 2] = 9.0  # attacker 2 knows his own, and it is at its mean
    y = d @ known.loading.toarray().T + g.normal(size=(len(d), 2)) * np.sqrt(noise)
    x = np.column_stack([np.ones(len(d)), y])
    for what, truth in (({"unknown": 0}, d[:, 0]), ({"leaf": 1}, d @ known.loading.toarray()[1])):
        line, residual = np.linalg.lstsq(x, truth, rcond=None)[:2]
        belief = posterior(table, prior, noise, attacker=2, leaves=np.array([18.0, 17.0]), **what)
        assert belief.variance == pytest.approx(residual[0] / len(d), rel=0.01)
        assert belief.mean == pytest.approx(line @ [1, 18, 17], abs=0.02)


def test_no_linear_estimator_of_any_attacker_beats_the_promise() -> None:
    """Brute-force attackers, by simulation from all published cells, margins included."""
    g = np.random.default_rng(4)
    own, _ = random_case(g, 5, 12, 0.5)
    table, prior = table_of(own), Prior.from_sizes(0.5, 0.25)
    known, noise = prior.of(table), leaf_noise(table, prior).variance
    d = g.normal(size=(60_000, 12)) * np.sqrt(known.variance)
    leaves = d @ known.loading.toarray().T + g.normal(size=(len(d), 5)) * np.sqrt(noise)
    cells = leaves @ table.cells.incidence.toarray().T
    moments = np.cov(np.column_stack([cells, d]), rowvar=False)
    names = np.arange(len(moments)) - cells.shape[1]  # below 0 for cells
    for attacker in range(12):  # least squares from the cells and the attacker's own
        seen, others = (names < 0) | (names == attacker), (names >= 0) & (names != attacker)
        cross = moments[np.ix_(seen, others)]
        explained = np.linalg.pinv(moments[np.ix_(seen, seen)], rcond=1e-12, hermitian=True) @ cross
        residual = np.diag(moments)[others] - (cross * explained).sum(axis=0)
        assert (residual >= known.required[names[others]] * 0.97).all()


def test_what_is_known_too_well_is_refused_with_the_smallest_relaxation() -> None:
    table = table_of([[5.0, 3, np.nan], [np.nan, np.nan, 4]])
    prior = Prior.from_sizes(0.2, 0.25)
    with pytest.raises(DataError, match=r"3 contributors cannot be protected.*cell c0, cell c1.*above 1\.5625"):
        leaf_noise(table, prior)
    limit = relaxation(prior.of(table))
    assert limit == pytest.approx(0.25**2 / 0.2**2)
    assert leaf_noise(table, prior.with_(threshold=limit * 1.01)).variance.min() > 0
    with pytest.raises(DataError, match=r"1 contributor cannot be protected.*known exactly"):
        leaf_noise(table, Prior.from_variances([1.0, 1.0, 0.0], 0.1))
    with pytest.raises(DataError, match="cannot be protected"):
        leaf_noise(table, Prior.from_variances([1.0, 1.0, 0.1], 0.1))  # equal is not enough (ERRATA 3.10)
    assert leaf_noise(table, Prior.from_variances([1.0, 1.0, 0.0], [0.1, 0.1, 0.0])).variance[1] == 0


def test_odd_cells() -> None:
    alone = table_of([[5.0]], size=[40.0])
    eps, eta = 0.5, 0.25
    expected = (eps**4 / (eps**2 - eta**2) - eps**2) * 40**2  # ERRATA 3.5
    assert leaf_noise(alone, Prior.from_sizes(eps, eta)).variance == pytest.approx([expected])
    empty = table_of([[5.0, 3.0], [np.nan, np.nan]])
    assert leaf_noise(empty, Prior.from_sizes(eps, eta)).variance[1] == 0
    assert audit_pairs(empty, Prior.from_sizes(eps, eta), leaf_noise(empty, Prior.from_sizes(eps, eta)).variance).holds
    nothing = table_of([[0.0, 3.0, 4.0], [0.0, np.nan, np.nan]])
    audit = audit_pairs(nothing, Prior.from_sizes(eps, eta), np.array([10.0, 0.0]))
    assert audit.ratio[0] == np.inf  # of size zero: nothing to protect
    both = table_of([[5.0, 2.0], [-5.0, np.nan]])  # cancels: stands for the sum of absolute values
    known = Prior.from_sizes(eps, eta).of(both)
    assert known.loading.toarray().tolist() == [[0.5, 1.0], [-0.5, 0.0]]
    assert audit_pairs(both, Prior.from_sizes(eps, eta), leaf_noise(both, Prior.from_sizes(eps, eta)).variance).holds
    unlimited = table_of([[1.0, 1.0, 1.0], [1.0, np.nan, np.nan]])
    prior = Prior.from_variances([np.inf, np.inf, np.inf], [1.0, 1.0, 1.0])
    noise = leaf_noise(unlimited, prior)
    assert audit_pairs(unlimited, prior, noise.variance).holds
    # leaf 1 alone shows half of the first, of whom nothing is known: 4ω ≥ 1; who knows the third sees the second with ω + ω'
    assert noise.variance[1] >= 0.25
    assert noise.variance.sum() == pytest.approx(1, rel=1e-4)
    with pytest.raises(NotApplicable, match="who contributed what"):
        leaf_noise(alone.with_(contributions=None), Prior.from_sizes(eps, eta))
    with pytest.raises(ParameterError, match="nothing to protect"):
        leaf_noise(alone, Prior.from_sizes(eps, 0.0))
    with pytest.raises(ParameterError, match="prior_cv must be a number"):
        Prior.from_sizes(-1, 0.1)


def test_contributions_as_unknowns_of_their_own_take_leaves_apart() -> None:
    own = [[10.0, 4, np.nan], [6, np.nan, 5]]
    table = table_of(own)
    prior = Prior.from_sizes(0.5, 0.2, unknowns="contribution")
    found = leaf_noise(table, prior)
    assert found.how == "a closed form"
    for leaf, sizes in enumerate(([10.0, 4.0], [6.0, 5.0])):
        single = SimpleRTA.from_sizes(sizes, 0.5, 0.2).solve().parameters["sigma2"]
        assert found.variance[leaf] == pytest.approx(single, rel=1e-9)
    known = prior.of(table)
    assert known.contributor.tolist() == [0, 1, 0, 2]
    assert audit_pairs(table, prior, found.variance).holds


def test_published_cells_alone_tell_no_more_than_leaves() -> None:
    g = np.random.default_rng(8)
    own, weight = random_case(g, 4, 9)
    margins = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    table, prior = table_of(own, weight, cells=margins), Prior.from_sizes(0.5, 0.2)
    known, noise = prior.of(table), np.array([3.0, 0.0, 2.0, 1.0])
    r = np.array(margins, float)
    exact = audit_pairs(table, prior, noise, published=np.ones(5, bool))
    twin = smallest_by_brute_force(r @ known.loading.toarray(), known.variance, r @ np.diag(noise) @ r.T, np.arange(9))
    assert exact.variance == pytest.approx(twin, abs=1e-8 * known.variance.max())
    assert (exact.variance >= audit_pairs(table, prior, noise).variance - 1e-9).all()
    every = table_of(own, weight)
    seen = audit_pairs(every, prior, noise, published=np.ones(5, bool))
    assert seen.variance == pytest.approx(audit_pairs(every, prior, noise).variance, abs=1e-7 * known.variance.max())


def test_a_safe_start_protects_contributors_in_many_leaves() -> None:
    """A contributor in every leaf of a table: what all leaves say of it together must not be too much."""
    g = np.random.default_rng(3)
    own = np.full((120, 241), np.nan)
    own[:, 0] = g.lognormal(3, 1, 120)
    for leaf in range(120):
        own[leaf, 1 + 2 * leaf : 3 + 2 * leaf] = g.lognormal(2, 1, 2)
    table, prior = table_of(own), Prior.from_sizes(0.5, 0.15)
    found, known = leaf_noise(table, prior), prior.of(table)
    assert found.gap < 0.02
    s = known.covariance(found.variance).toarray()
    for attacker in (None, 1, 2, 239):
        left = posterior(table, prior, found.variance, attacker=attacker, unknown=0).variance
        a = known.loading.toarray()[:, 0] * known.variance[0]
        if attacker is None:
            assert left == pytest.approx(known.variance[0] - a @ np.linalg.solve(s, a), rel=1e-6)
        assert left >= known.required[0]
    need = one_leaf(known)[0]
    assert (found.variance >= need * (1 - 1e-9)).all()


def test_correlated_noise_makes_totals_better_and_protects_every_pair() -> None:
    pytest.importorskip("clarabel")
    from sfumato.tables.rta.blocks import block_noise

    g = np.random.default_rng(6)
    own = np.full((6, 14), np.nan)
    for h in range(14):
        own[h % 6, h] = g.lognormal(2, 1)
    own[2, 0] = 9.0  # one contributor in two leaves
    own[5, :] = np.nan
    own[5, 5] = 20.0  # somebody alone in a leaf, who learns its noise
    own[4, 11] = 3.0
    table, prior = table_of(own), Prior.from_sizes(0.5, 0.2)
    omega, known = block_noise(table, prior, [range(6)]).toarray(), prior.of(table)
    alone = leaf_noise(table, prior)
    assert omega.sum() < 0.7 * alone.variance.sum()
    assert np.linalg.eigvalsh(omega).min() > -1e-9 * omega.max()
    twin = smallest_by_brute_force(known.loading.toarray(), known.variance, omega, np.arange(14))
    assert (twin >= known.required * (1 - 1e-9)).all()
    assert audit_pairs(table, prior, sparse.csr_array(omega)).holds
    with pytest.raises(NotApplicable, match="cuts through"):
        block_noise(table, prior, [[0, 1]])
    with pytest.raises(ParameterError, match="in two blocks"):
        block_noise(table, prior, [[1, 3], [3]])
