"""Large blocks of linked leaves against dense linear algebra: bounds are never on the unsafe side, and not far off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sfumato.tables import Cells, Contributions, Table
from sfumato.tables.rta import posterior_audit as attackers
from sfumato.tables.rta.leaf_noise import leaf_noise, surely_enough
from sfumato.tables.rta.posterior_audit import audit_pairs
from sfumato.tables.rta.priors import Prior
from tests.test_rta_solve import random_case, smallest_by_brute_force, table_of

Numbers = Any


def large_table(leaves: int, n: int, seed: int, hub: bool = False) -> Table:
    """Return a table in which two thirds of the contributors are in two to five leaves; with `hub`, one is in all of them."""
    g = np.random.default_rng(seed)
    entries = [
        (int(leaf), h)
        for h in range(n)
        for leaf in g.choice(leaves, 1 if g.random() < 0.33 else int(g.integers(2, 6)), replace=False)
    ]
    entries += [(leaf, n) for leaf in range(leaves)] if hub else []
    row, col = np.array(entries).T
    own = sparse.csr_array((g.lognormal(2, 1.3, len(row)), (row, col)), shape=(leaves, n + hub))
    labels = np.array([[f"c{i}"] for i in range(leaves)], object)
    cells = Cells(("cell",), labels, sparse.csr_array(sparse.eye_array(leaves)))
    counts = np.diff(own.indptr).astype(float)
    return Table(cells, np.asarray(own.sum(axis=1)).ravel(), counts, "turnover", Contributions(own, own, None))


def by_dense_algebra(m: Numbers, v: Numbers, omega: Numbers) -> Numbers:
    """Return the smallest posterior variance of everybody over an outsider and all others: that of g is C_hh - C_gh²/C_gg."""
    used = m.any(axis=1)
    m, omega = m[used], omega[np.ix_(used, used)]
    c = np.diag(v) - (v[:, None] * m.T) @ np.linalg.solve((m * v) @ m.T + omega, m * v)
    gain = c**2 / np.diag(c)[:, None]
    np.fill_diagonal(gain, 0.0)
    return np.diag(c) - gain.max(axis=0)


@pytest.mark.parametrize("hub", [False, True])
def test_a_block_too_large_for_dense_algebra_is_protected_and_audited(
    hub: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attackers, "DENSE", 80)
    table, prior = large_table(120, 240, 1, hub), Prior.from_sizes(0.5, 0.15)
    known = prior.of(table)
    assert np.bincount(known.block).max() > attackers.DENSE
    noise = leaf_noise(table, prior)
    audit = audit_pairs(table, prior, noise.variance)
    truth = by_dense_algebra(known.loading.toarray(), known.variance, np.diag(noise.variance))
    assert (truth >= known.required).all()
    assert audit.holds
    assert not audit.exact
    assert (audit.variance <= truth * (1 + 1e-9)).all()
    assert noise.lower <= noise.objective
    assert noise.gap < 0.6
    less = audit_pairs(table, prior, 0.3 * noise.variance)
    assert not less.holds
    assert (
        less.variance
        <= by_dense_algebra(known.loading.toarray(), known.variance, np.diag(0.3 * noise.variance)) * (1 + 1e-6)
    ).all()


@pytest.mark.parametrize("caps", [(1,), (3,), (3, 50)])
def test_bounds_are_never_above_what_brute_force_finds(caps: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What large blocks go through, forced on small ones: coalitions, those who do not attack, little noise and none."""
    monkeypatch.setattr(attackers, "DENSE", 0)
    g = np.random.default_rng(5)
    for trial in range(60):
        leaves, n = int(g.integers(2, 9)), int(g.integers(2, 25))
        own, weight = random_case(g, leaves, n, 0.7)
        owner = g.integers(0, n, n) if trial % 2 else np.arange(n)
        attacks = g.random(n) < 0.8 if trial % 3 == 0 else np.ones(n, bool)
        table = table_of(own, weight)
        known = Prior.from_sizes(0.5, 0.2, controllers=owner, attackers=attacks).of(table)
        omega = g.uniform(0, 1, leaves) * g.integers(0, 2, leaves) * known.spread * 10.0 ** -g.integers(0, 6)
        noise: Numbers = np.diag(omega)
        if trial % 4 == 1:  # common noise of some leaves
            common = np.sqrt(omega) * g.integers(0, 2, leaves)
            noise = noise + np.outer(common, common)
        m, attacking = known.loading.toarray(), np.isin(owner, owner[attacks])
        twin = smallest_by_brute_force(m, known.variance, noise, owner, attacking)
        found = attackers.left_of(known, sparse.csr_array(noise) if trial % 4 == 1 else omega, np.full(n, np.inf), caps)
        assert (found.variance <= twin + 1e-8 * known.variance).all()
        alone = smallest_by_brute_force(m, known.variance, noise, owner, np.zeros(n, bool))
        assert (found.outsider <= alone + 1e-8 * known.variance).all()


def test_bounds_are_exact_where_the_neighbourhood_is_the_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attackers, "DENSE", 0)
    g = np.random.default_rng(7)
    for trial in range(20):
        leaves, n = int(g.integers(2, 9)), int(g.integers(2, 25))
        own, weight = random_case(g, leaves, n, 0.7)
        owner = g.integers(0, n, n) if trial % 2 else np.arange(n)
        known = Prior.from_sizes(0.5, 0.2, controllers=owner).of(table_of(own, weight))
        omega = g.uniform(0.05, 0.3, leaves) * known.spread
        twin = smallest_by_brute_force(known.loading.toarray(), known.variance, np.diag(omega), owner)
        found = attackers.left_of(known, omega, np.full(n, np.inf), (50,)).variance
        assert found == pytest.approx(twin, rel=1e-2)
        assert np.median(found / twin) == pytest.approx(1, abs=1e-6)


def test_the_last_resort_protects_everybody_at_once() -> None:
    g = np.random.default_rng(11)
    for trial in range(20):
        leaves, n = int(g.integers(2, 9)), int(g.integers(2, 25))
        own, weight = random_case(g, leaves, n, 0.7)
        owner = g.integers(0, n, n) if trial % 2 else np.arange(n)
        known = Prior.from_sizes(0.5, 0.2, controllers=owner).of(table_of(own, weight))
        omega = surely_enough(known, known.required, np.zeros(leaves))
        twin = smallest_by_brute_force(known.loading.toarray(), known.variance, np.diag(omega), owner)
        assert (twin >= known.required * (1 - 1e-7)).all()
