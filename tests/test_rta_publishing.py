"""Random tabular adjustment as it is published: additive, reproducible, audited, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rta_tables import firms, least_posterior, microdata, table_of
from scipy import sparse

from sfumato import Microdata
from sfumato.contract import Draws, build
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.papers import SimpleRTA
from sfumato.tables import PQ, RTA, PublishedTable, Status, Table
from sfumato.tables.rta.posterior_audit import posterior
from sfumato.tables.rta.priors import Prior

FORMULAS = ("region * sector", "region * sector + kind * sector", "region + sector : kind", "region * sector * kind")


def whole_units(published: PublishedTable) -> np.ndarray:
    """Return the values as a reader sees them, in the last digit: read back from text."""
    decimals = published.decimals
    assert decimals is not None
    text = [f"{v:.{max(decimals, 0)}f}" for v in published.values]
    return np.array([int(t.replace(".", "")) if decimals > 0 else int(t) for t in text], object)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10_000), st.sampled_from(FORMULAS), st.sampled_from([0, 12]), st.booleans(), st.booleans(),
    st.sampled_from([None, 0, 2]),
)  # fmt: skip
def test_what_is_published_adds_up_to_the_last_digit(
    seed: int, formula: str, holdings: int, weights: bool, sign: bool, decimals: int | None
) -> None:
    frame = firms(40, seed, holdings, sign)
    table = table_of(frame, formula, weights=weights)
    published = RTA(base_cv=0.2, decimals=decimals).protect(table, Draws(seed))
    units = whole_units(published)
    record = published.record
    assert record is not None
    for cell in range(len(table)):  # Python's whole numbers: nothing is lost
        members = table.cells.incidence[[cell]].indices
        assert units[cell] == sum(int(record.units[m]) for m in members)
    if not sign:
        assert (published.values >= 0).all()
    # and cell against cell: every total over sectors is the sum of its sectors
    cells = table.cells
    at = {tuple(row): units[i] for i, row in enumerate(cells.labels.tolist())}
    if formula.startswith("region * sector"):
        sector = cells.dimensions.index("sector")
        for labels, value in at.items():
            if labels[sector] == "Total" and labels[cells.dimensions.index("region")] != "Total":
                parts = [at[k] for k in at if k[:sector] + k[sector + 1 :] == labels[:sector] + labels[sector + 1 :]]
                assert sum(parts) - value == value


@pytest.mark.parametrize("holdings", [0, 12])
@pytest.mark.parametrize("weights", [False, True])
def test_no_attacker_with_dense_matrices_finds_less_than_the_promised_variance(holdings: int, weights: bool) -> None:
    frame = firms(40, 3, holdings)
    table = table_of(frame, "region * sector + kind", weights=weights)
    published = RTA(prior_cv=0.5, base_cv=0.2).protect(table, Draws(1))
    known = Prior.from_sizes(0.5, 0.2).of(table)
    assert published.leaf_variance is not None
    left = least_posterior(known.loading.toarray(), known.variance, np.diag(published.leaf_variance))
    assert (left >= known.required * (1 - 1e-6)).all()


def test_one_cell_is_the_paper_s_example_rounded_up() -> None:
    """Example 3.3.0.4: sizes 40, 30 and 15, ε = 1/2 and η = 1/4 ask for 77.08333."""
    frame = pd.DataFrame({"cell": ["c"] * 3, "size": [40.0, 30, 15], "value": [35.0, 50, -5]})
    table = Table.of(Microdata(frame), "cell", "value", size="size")
    published = RTA(prior_cv=1 / 2, base_cv=1 / 4, decimals=6).protect(table, Draws(1))
    exact = SimpleRTA.from_sizes([40, 30, 15], 1 / 2, 1 / 4).solve().parameters["sigma2"]  # type: ignore[union-attr]
    assert published.leaf_variance is not None
    assert exact <= published.leaf_variance[0] <= exact + 0.01
    assert published.leaf_variance[0] == 77.09


def test_noise_has_the_variance_that_is_published() -> None:
    table = table_of(firms(60, 2), "region * sector")
    count = 100
    runs = [RTA(base_cv=0.2, decimals=3).protect(table, Draws(i)) for i in range(count)]
    errors = np.array([p.values - table.value for p in runs])
    variance = runs[0].variance
    assert variance is not None
    noisy = variance > 1e-3
    assert noisy.sum() > 10
    raised = np.array([p.record.units for p in runs]).min(axis=0) == 0  # type: ignore[union-attr]
    clear = noisy & (table.cells.sums(raised.astype(float)) == 0)  # cells in which nothing was ever raised to zero
    assert clear.sum() > 5
    leaves = clear & (table.cells.sizes == 1)  # their noise is independent: a closer look at all of them together
    together = (errors[:, leaves] ** 2 / variance[leaves]).mean()
    assert together == pytest.approx(1, abs=5 * np.sqrt(2 / (count * leaves.sum())))
    ratio = (errors[:, clear] ** 2).mean(axis=0) / variance[clear]
    assert ratio == pytest.approx(1, abs=5 * np.sqrt(2 / count))
    assert errors[:, clear].mean(axis=0) / np.sqrt(variance[clear]) == pytest.approx(0, abs=5 / np.sqrt(count))


def test_raising_to_zero_does_not_move_the_grand_total() -> None:
    """Contributors of 0 with a public size: half of their leaves would be below zero."""
    frame = firms(60, 2)
    frame["turnover"] = np.where(frame.region == "a", 0.0, frame.turnover)
    table = table_of(frame, "region * sector")
    errors = []
    for i in range(120):
        published = RTA(base_cv=0.3, decimals=2).protect(table, Draws(i))
        assert (published.values >= 0).all()
        errors.append(published.values[table.cells.find()] - table.totals.sum())
        variance = published.variance
    assert variance is not None
    spread = np.sqrt(variance[table.cells.find()])
    assert np.mean(errors) == pytest.approx(0, abs=4.5 * spread / np.sqrt(120))
    assert np.std(errors) == pytest.approx(spread, rel=0.2)


def test_whole_numbers_stay_whole_and_small_contributors_get_enough_noise() -> None:
    frame = firms(60, 4)
    frame["turnover"] = np.ceil(frame.turnover / 20)
    table = table_of(frame, "region * sector", size=None, integer=True)
    assert table.integer
    published = RTA(variances="none").protect(table, Draws(1))
    assert np.array_equal(published.values, np.rint(published.values))
    plain = RTA(variances="none").protect(table.with_(integer=False), Draws(1))
    assert published.leaf_variance is not None
    assert plain.leaf_variance is not None
    assert (published.leaf_variance >= plain.leaf_variance).all()
    assert (published.leaf_variance > plain.leaf_variance).any()


def test_cells_without_noise_are_shown_as_they_are() -> None:
    frame = pd.DataFrame({"region": ["a"] * 30 + ["b"], "value": [*np.full(30, 10.5), 7.25], "size": np.ones(31)})
    table = Table.of(Microdata(frame), "region", "value", size="size", per_size=1)
    published = RTA().protect(table, Draws(1))
    a, b = table.cells.find(region="a"), table.cells.find(region="b")
    assert published.values[a] == 315.0
    assert published.status[a] == Status.SHOWN
    assert published.low[a] == published.high[a] == 315.0
    assert published.status[b] == Status.CHANGED
    assert np.isinf(published.low[b])
    coarse = RTA(decimals=-1).protect(table, Draws(1))
    assert coarse.values[a] in (310, 320)
    assert coarse.low[a] <= 315 <= coarse.high[a]


def test_an_outsider_alone_needs_less_noise() -> None:
    table = table_of(firms(60, 2))
    inside, outside = (RTA(attackers=a).protect(table, Draws(1)) for a in ("contributors", "outsider"))
    assert inside.leaf_variance is not None
    assert outside.leaf_variance is not None
    assert (outside.leaf_variance <= inside.leaf_variance).all()
    assert outside.leaf_variance.sum() < inside.leaf_variance.sum()


def test_who_waived_protection_gets_no_noise_but_still_attacks() -> None:
    frame = pd.DataFrame({
        "region": list("abb"), "turnover": [50.0, 40, 30], "size": [45.0, 41, 33], "agreed": ["yes", "yes", "no"],
    })  # fmt: skip
    table = Table.of(Microdata(frame), "region", "turnover", size="size", waiver="agreed")
    published = RTA(prior_cv=0.5, base_cv=0.2, decimals=3).protect(table, Draws(1))
    a, b = table.cells.find(region="a"), table.cells.find(region="b")
    assert published.values[a] == 50
    assert published.variance is not None
    # of the pair in b only the smaller is confidential, and the larger knows its own: ω = k s² (section 3.3)
    assert published.variance[b] == pytest.approx(0.25 * 0.04 / 0.21 * 33**2, rel=1e-3)


def test_priors_of_ones_own_are_the_paper_s_given_priors() -> None:
    frame = pd.DataFrame({"cell": ["c"] * 3, "value": [35.0, 50, -5]})
    table = Table.of(Microdata(frame), "cell", "value")
    prior = Prior.from_variances([500.0, 0, 50], [100.0, 0, 0], attackers=[False, False, False])
    published = RTA().protect_with(table, prior, Draws(1))
    assert published.leaf_variance == pytest.approx([75.0], rel=1e-3)  # example 3.2.0.3
    assert published.leaf_variance is not None
    assert published.leaf_variance[0] >= 75


def test_the_paper_s_first_two_examples_come_out_of_the_method_for_tables() -> None:
    """Examples 3.2.0.2 and 3.2.0.3: −125, so nothing is added to 80; then 75, with 83 published (ERRATA 3.1: 32.4, not 30)."""
    table = Table.of(Microdata(pd.DataFrame({"cell": ["c"] * 3, "value": [35.0, 50, -5]})), "cell", "value")
    for v, means, omega, z, mean, left in (
        ([500.0, 200, 50], [50.0, 40, 5], 0.0, 80.0, 40.0, 500 - 500**2 / 750),
        ([500.0, 0, 50], [50.0, 50, 5], 75.0, 83.0, 32.4, 100.0),
    ):
        prior = Prior.from_variances(v, [100.0, 0, 0], means, attackers=[False] * 3)
        published = RTA(decimals=6).protect_with(table, prior, Draws(1))
        assert published.leaf_variance is not None
        assert published.leaf_variance.tolist() == [omega]
        assert (published.values[0] == 80) == (omega == 0)
        belief = posterior(table, prior, published.leaf_variance, unknown=0, leaves=np.array([z]))
        assert belief == pytest.approx((mean, left), rel=1e-12)


@pytest.mark.parametrize(
    ("more", "who"),
    [
        ({"threshold": 3.0, "attackers": [False, False]}, "nobody outside comes"),
        ({"threshold": 2.0, "attackers": [True, False]}, "no contributor who attacks, and nobody outside,"),
        ({}, "no contributor, and nobody outside,"),
    ],
)
def test_guarantees_say_what_the_prior_asked_for(more: dict[str, Any], who: str) -> None:
    table = Table.of(Microdata(pd.DataFrame({"cell": list("ab"), "value": [35.0, 50]})), "cell", "value")
    guarantee = RTA().protect_with(table, Prior.from_variances([50.0, 60], [10.0, 5], **more), Draws(1)).guarantees[0]
    assert guarantee.says.startswith(who)
    assert f"at most {more.get('threshold', 1):g}," in guarantee.says


def test_noise_that_cancels_in_a_cell_leaves_the_rounding_of_its_leaves() -> None:
    """δ and −δ: the total is true but for two rounded leaves, and its bounds do not say how far it is off."""
    table = Table.of(Microdata(pd.DataFrame({"cell": list("ab"), "value": [300.0, 400]})), "cell", "value")
    covariance = sparse.csr_array(np.array([[30.0, -30], [-30, 30]]))
    prior = Prior.from_variances([9.0, 9], [1.0, 1], attackers=[False, False])
    for seed in range(6):
        published = RTA(decimals=0).protect_with(table, prior, Draws(seed), covariance)
        assert published.variance is not None
        assert published.variance[0] == pytest.approx(2 / 12, rel=1e-3)
        assert (published.low[0], published.high[0]) == (published.values[0] - 1, published.values[0] + 1)
        assert published.low[0] <= 700 <= published.high[0]


def test_very_large_values_add_up_to_the_last_digit_in_a_file() -> None:
    from decimal import Decimal

    from sfumato.tables.exports import csv_text

    frame = pd.DataFrame({"region": list("aabcd"), "turnover": [1.23e12, 4e11 + 0.37, 5e10, 3.33, 7e12]})
    table = Table.of(Microdata(frame), "region", "turnover")
    rows = [line.split(",") for line in csv_text(RTA(decimals=2).protect(table, Draws(1))).splitlines()[1:]]
    parts = [Decimal(row[1]) for row in rows if row[0] != "Total"]
    assert all(part.as_tuple().exponent == -2 for part in parts)
    assert sum(parts) == Decimal(next(row[1] for row in rows if row[0] == "Total"))
    assert sum(parts) > 10**12


def test_what_cannot_be_protected_is_refused_with_the_cells_and_a_way_out() -> None:
    table = table_of(firms(40, 1))
    with pytest.raises(DataError, match=r"cannot be protected.*region.*works with a threshold r above 1.44"):
        RTA(prior_cv=0.5, base_cv=0.6).protect(table, Draws(1))
    assert RTA(prior_cv=0.5, base_cv=0.6, threshold=1.45).protect(table, Draws(1)).guarantees
    with pytest.raises(NotApplicable, match="who contributed"):
        RTA().protect(table.with_(contributions=None), Draws(1))
    with pytest.raises(DataError, match="no size measure"):
        RTA(sizes="size").protect(table_of(firms(40, 1), size=None), Draws(1))


@pytest.mark.parametrize(
    "wrong", [{"cutpoints": (0.2, 0.1)}, {"cutpoints": (-0.1,)}, {"base_cv": 0}, {"variances": "all"}, {"period": 2024}]
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        RTA(**wrong)  # type: ignore[arg-type]


def test_parameters_travel_as_a_table_and_the_seed_does_not() -> None:
    rta = RTA(base_cv=0.2, period="2024", cutpoints=(0.1, 0.3))
    assert build("protection", {"protection": "rta", **rta.to_dict()}) == rta
    table = table_of(firms(60, 2))
    published = rta.protect(table, Draws("a secret seed"))
    shown = published.frame().to_csv() + repr(published) + repr(published.guarantees) + repr(published.record)
    assert "secret" not in shown
    assert Draws("a secret seed")._key.hex() not in shown
    assert "leaf_variance" not in shown


def test_many_contributors_take_little_time() -> None:
    from time import process_time

    g = np.random.default_rng(1)
    n = 40_000
    frame = pd.DataFrame({c: g.integers(0, k, n).astype(str) for c, k in (("r", 30), ("s", 30), ("k", 9))})
    frame["v"], frame["size"] = np.round(g.lognormal(3, 1.5, n), 1), g.lognormal(3, 1.5, n)
    table = Table.of(Microdata(frame), "r * s * k", "v", size="size")
    RTA().protect(table_of(firms(20)), Draws(1))  # compiled
    start = process_time()
    published = RTA().protect(table, Draws(1))
    assert process_time() - start < 5
    assert len(published) > 9_000


def test_linked_tables_in_other_runs_have_the_same_values_in_common() -> None:
    frame = firms(80, 5)
    frame["zone"] = frame.region.map({"a": "n", "b": "n", "c": "s", "d": "s", "e": "s"})
    one = table_of(frame, "region * sector")
    two = Table.of(microdata(frame), "region * sector + zone * sector", "turnover", size="staff")
    first, second = (RTA(decimals=1).protect(t, Draws(9)) for t in (one, two))
    values = {tuple(row): v for row, v in zip(two.cells.labels.tolist(), second.values, strict=True)}
    order = [two.cells.dimensions.index(d) for d in one.cells.dimensions]
    shared = {
        tuple(np.array(k, object)[order]): v
        for k, v in values.items()
        if k[two.cells.dimensions.index("zone")] == "Total"
    }
    assert first.record is not None
    assert first.record.units.min() > 0  # nothing was raised to zero
    for row, value in zip(one.cells.labels.tolist(), first.values, strict=True):
        assert shared[tuple(row)] == value


def test_correlated_noise_is_drawn_with_its_covariance_and_audited() -> None:
    table = table_of(firms(60, 2), "region * sector")
    known = Prior.from_sizes(0.5, 0.15).of(table)
    alone = RTA().protect(table, Draws(1))
    assert alone.leaf_variance is not None
    omega = np.diag(alone.leaf_variance)
    a, b = np.argsort(-alone.leaf_variance)[:2]
    omega[[a, b], [a, b]] *= 4  # room enough to take half of it back in the other
    omega[a, b] = omega[b, a] = -0.5 * np.sqrt(omega[a, a] * omega[b, b])
    assert (least_posterior(known.loading.toarray(), known.variance, omega) >= known.required * (1 - 1e-9)).all()
    covariance = sparse.csr_array(omega)
    rta, prior, count = RTA(decimals=4), Prior.from_sizes(0.5, 0.15), 250
    runs = [rta.protect_with(table.with_(nonnegative=False), prior, Draws(i), covariance) for i in range(count)]
    noise = np.array([(p.values[table.cells.of_leaf] - table.totals)[[a, b]] for p in runs])
    wanted = omega[np.ix_([a, b], [a, b])]
    assert np.cov(noise.T) == pytest.approx(wanted, abs=5 * wanted.max() * np.sqrt(2 / count))
    total = table.cells.find()
    assert runs[0].variance is not None
    assert runs[0].variance[total] == pytest.approx(omega.sum(), rel=1e-3)
    shuffled = table_of(firms(60, 2).sample(frac=1, random_state=1), "sector * region")
    with pytest.raises(NotApplicable, match="the audit found that somebody could know a contribution too well"):
        rta.protect_with(shuffled, prior, Draws(1), covariance * 0.1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([(0.5, 0.2), (0.5, 0.3), (0.4, 0.1)]))
def test_the_leaves_that_need_noise_are_those_of_a_pq_rule_on_squares(seed: int, cvs: tuple[float, float]) -> None:
    """λ²s₁² + ε²s₂² − ε²Σs² > 0 is q·Σ_{i≥3} sᵢ² < p·s₁² with p = η² and q = ε² − η² (section 3.3)."""
    epsilon, eta = cvs
    frame = firms(40, seed)
    frame["turnover"] = frame.staff**2
    squares = table_of(frame, "region : sector - 1", size=None)
    unsafe = PQ(p=100 * eta**2, q=100 * (epsilon**2 - eta**2)).assess(squares).unsafe
    frame["turnover"] = frame.staff
    table = table_of(frame, "region : sector - 1")
    published = RTA(prior_cv=epsilon, base_cv=eta, variances="none").protect(table, Draws(1))
    assert published.leaf_variance is not None
    assert np.array_equal(published.leaf_variance > 0, unsafe[table.cells.of_leaf])


def test_blocks_with_correlated_noise_are_published_and_cost_totals_less() -> None:
    pytest.importorskip("clarabel")
    from sfumato.tables.rta.blocks import block_noise

    table = table_of(firms(40, 3), "sector * kind")
    prior, rta = Prior.from_sizes(0.5, 0.3), RTA(prior_cv=0.5, base_cv=0.3)
    covariance = block_noise(table, prior, [np.arange(table.cells.leaves)])
    alone, together = rta.protect_with(table, prior, Draws(1)), rta.protect_with(table, prior, Draws(1), covariance)
    assert alone.variance is not None
    assert together.variance is not None
    total = table.cells.find()
    assert together.variance[total] <= alone.variance[total] * (1 + 1e-6)
    record = together.record
    assert record is not None
    assert np.array_equal(whole_units(together), table.cells.incidence.astype(np.int64) @ record.units)
