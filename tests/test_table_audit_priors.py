"""Audits under a prior: posterior variances are those of dense linear algebra."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from audited_tables import hide

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import NotApplicable
from sfumato.tables import RTA, PublishedTable, Status, Table
from sfumato.tables.rta import posterior_audit as attackers
from sfumato.tables.rta.leaf_noise import leaf_noise
from sfumato.tables.rta.priors import Prior
from sfumato.tables.table_audit import audit


def holdings() -> Table:
    g = np.random.default_rng(4)
    n = 30
    frame = pd.DataFrame({
        "a": g.choice(list("pqr"), n), "b": g.choice(list("xy"), n), "who": g.integers(0, 12, n), "v": g.lognormal(3, 1, n),
    })  # fmt: skip
    return Table.of(Microdata(frame), "a * b", "v", contributor="who")


def test_posterior_variances_of_a_suppressed_table_under_a_prior_are_those_of_dense_linear_algebra() -> None:
    table = holdings()
    assert table.contributions is not None
    published = hide(table, (table.cells.sizes == 1) & (table.cells.labels[:, 0] != "r"))
    v = 0.25 * table.contributions.totals**2
    found = audit(published, Prior.from_sizes(0.5, 0.1, sizes=table.contributions.totals), insiders="none")
    assert found.pairs is not None
    # what each contributor gave to each leaf is a fixed share of its total, which is the unknown
    shares = table.contributions.own.toarray() / table.contributions.totals
    seen = (table.cells.incidence.toarray() @ shares)[~published.suppressed]
    for h in range(len(v)):
        best = np.inf
        for g in range(-1, len(v)):
            if g == h:
                continue
            prior = np.diag(np.where(np.arange(len(v)) == g, 0.0, v))
            k = seen @ prior @ seen.T
            best = min(best, v[h] - prior[h] @ seen.T @ np.linalg.pinv(k, rcond=1e-12) @ seen @ prior[h])
        assert found.pairs.variance[h] == pytest.approx(best, rel=1e-5, abs=1e-6 * v[h])
    assert found.safe == found.pairs.holds
    assert "with a prior" in str(found)


def test_noise_that_was_made_for_a_prior_passes_its_audit_and_fails_a_stricter_one() -> None:
    table = holdings()
    assert table.contributions is not None
    sizes = table.contributions.totals
    made_for = Prior.from_sizes(0.5, 0.2, sizes=sizes)
    variance = leaf_noise(table, made_for).variance
    value = table.value
    noisy = PublishedTable.unprotected(table).with_(
        values=value + 1.0, status=np.full(len(table), Status.CHANGED, np.int8), low=np.full(len(table), -np.inf),
        high=np.full(len(table), np.inf), variance=table.cells.sums(variance), leaf_variance=variance,
    )  # fmt: skip
    kept = audit(noisy, made_for)
    assert kept.pairs is not None
    assert kept.pairs.ratio.min() == pytest.approx(1, abs=1e-3) or kept.pairs.ratio.min() > 1
    assert kept.safe
    broken = audit(noisy, Prior.from_sizes(0.5, 0.4, sizes=sizes))
    assert not broken.safe
    assert broken.headline == "Not safe: some contributors learn more of others than they may."
    assert broken.to_dict()["posterior"]["known better than allowed"] == len(
        broken.pairs.failing if broken.pairs else ()
    )
    assert any("needs a prior" in note for note in audit(noisy).notes)
    assert "for want of a prior" in audit(noisy).headline
    read = audit(noisy.with_(leaf_variance=None), made_for)  # the variances of leaves are read off the published ones
    assert read.pairs is not None
    assert read.pairs.ratio == pytest.approx(kept.pairs.ratio)


def test_a_rounded_table_is_audited_under_a_prior_too() -> None:
    table = holdings()
    assert table.contributions is not None
    base = 5.0
    rounded = base * np.round(table.value / base)
    published = PublishedTable.unprotected(table).with_(
        values=rounded, status=np.full(len(table), Status.CHANGED, np.int8), low=rounded - base, high=rounded + base
    )
    found = audit(published, Prior.from_sizes(0.5, 0.01, sizes=table.contributions.totals), insiders="none")
    assert found.pairs is not None
    assert (found.pairs.variance <= 0.25 * table.contributions.totals**2 + 1e-9).all()
    assert "posterior variance is about" in str(found)
    # the sizes that are given count, not the table's: known to within nothing before, known to within nothing after
    little = audit(published, Prior.from_sizes(0.5, 0.01, sizes=table.contributions.totals * 1e-3), insiders="none")
    assert little.pairs is not None
    assert (little.pairs.variance <= 0.25e-6 * table.contributions.totals**2 + 1e-9).all()
    given = audit(published, Prior.from_variances(0.25 * table.contributions.totals**2, 1.0), insiders="none")
    assert given.pairs is not None
    assert given.pairs.variance == pytest.approx(found.pairs.variance)
    together = Prior.from_sizes(0.5, 0.01, controllers=np.zeros(len(table.contributions), int))
    with pytest.raises(NotApplicable, match="attack one by one"):
        audit(published, together)


def test_an_audit_by_bounds_says_at_least_and_that_normal_priors_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    table = holdings()
    noisy = RTA().protect(table, Draws(1))
    prior = Prior.from_sizes(0.5, 0.15)
    exact = str(audit(noisy, prior))
    assert "posterior variance is 1" in exact
    assert "normal priors" in exact
    monkeypatch.setattr(attackers, "DENSE", 1)
    bounded = audit(noisy, prior)
    assert bounded.pairs is not None
    assert not bounded.pairs.exact
    assert "posterior variance is at least" in str(bounded)
    strict = audit(noisy, Prior.from_sizes(0.5, 0.4))
    assert strict.headline.endswith("some contributors perhaps learn more of others than they may.")
    assert "may be known better than is allowed" in str(strict)
    assert strict.to_dict()["posterior"]["exact"] is False
