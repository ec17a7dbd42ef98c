"""Synthesis under a privacy bound: the accounts, the sensitivities by enumeration, and the model against plain fitting."""

from __future__ import annotations

import math
from itertools import combinations, combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from small_files import column as values

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.kernels import graphical_model as graph
from sfumato.masks import MarginalSynthesis
from sfumato.masks.local_privacy import privacy_loss
from sfumato.masks.marginal_synthesis import (
    AdaptiveMargins,
    ZCDPAccount,
    choice_mu,
    workload_weights,
    zcdp_delta,
    zcdp_rho,
)
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


def microdata(facts: dict[str, dict[str, Any]], **columns: Any) -> Microdata:
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **facts[n]) for n in columns)))


# The accounts


@pytest.mark.parametrize(("rho", "epsilon"), [(0.01, 1.0), (0.5, 3.0), (2.0, 10.0), (0.001, 0.1)])
def test_delta_is_the_smallest_over_all_orders(rho: float, epsilon: float) -> None:
    """Corollary 13 of Canonne, Kamath and Steinke (2020), on a fine grid of α instead of by bisection."""
    a = 1 + np.geomspace(1e-6, 1e6, 400_001)
    logs = (a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
    assert zcdp_delta(rho, epsilon) == pytest.approx(math.exp(logs.min()), rel=1e-6)
    assert zcdp_delta(zcdp_rho(epsilon, 1e-6), epsilon) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_bound_is_not_below_what_normal_noise_alone_needs(epsilon: float) -> None:
    """Noise of σ is 1/2σ²-zCDP, and exactly (ε, δ)-private by theorem 8 of Balle and Wang (2018)."""
    rho = zcdp_rho(epsilon, 1e-6)
    exact = privacy_loss(math.sqrt(1 / (2 * rho)), epsilon)
    assert exact < 1e-6
    assert exact > 1e-8  # and not far above it


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_the_exponential_mechanism_is_no_easier_to_tell_than_a_normal_shift_of_its_mu(epsilon: float) -> None:
    """Its worst trade-offs have two outcomes with likelihood ratios e^t and e^(t-ε); the normal curve lies below each."""
    mu = choice_mu(epsilon)
    for t in np.linspace(0.001, 0.999, 500) * epsilon:
        p = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
        q = math.exp(t) * p
        assert stats.norm.cdf(stats.norm.ppf(1 - p) - mu) <= 1 - q + 1e-12
    assert mu**2 <= math.pi / 2 * (2 * epsilon**2 / 8) * (1 + 1e-9)  # at most π/2 times that of noise of the same ρ


def test_a_choice_among_scores_is_within_the_trade_off_of_its_mu() -> None:
    g = np.random.default_rng(1)
    for _ in range(200):
        epsilon, score = g.uniform(0.1, 3), g.normal(0, 3, 6)
        other = score + g.uniform(-1, 1, 6)  # of sensitivity 1
        p, q = (np.exp(epsilon * s / 2) / np.exp(epsilon * s / 2).sum() for s in (score, other))
        order = np.argsort(q / p)[::-1]  # the best test of every size
        for size, power in zip(np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1], strict=True):
            assert power <= stats.norm.cdf(stats.norm.ppf(size) + choice_mu(epsilon)) + 1e-12


def test_spending_adds_up_and_more_than_the_promise_is_refused() -> None:
    account = ZCDPAccount(0.5)
    account.measure((0,), 2.0)
    account.choose(1.0)
    assert account.used == pytest.approx(1 / 8 + 1 / 8)
    assert account.mu == pytest.approx(math.sqrt(1 / 4 + (2 * stats.norm.ppf(1 / (1 + math.exp(-0.5)))) ** 2))
    account.measure((1,), math.sqrt(2))
    assert account.left == pytest.approx(0)
    with pytest.raises(DataError, match="privacy budget is spent"):
        account.choose(0.01)


# What one record can move


def counts_of(records: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]) -> Any:
    def counts(group: tuple[int, ...]) -> Numbers:
        out = np.zeros([sizes[v] for v in group])
        for record in records:
            out[tuple(record[v] for v in group)] += 1
        return out

    return counts


def test_one_record_moves_one_count_by_one_and_a_score_by_its_weight_at_most() -> None:
    """All files of up to three records on a domain of 2 × 3 × 2, and all files with one record more."""
    sizes = (2, 3, 2)
    cells = list(product(*(range(s) for s in sizes)))
    workload = [(0, 1), (1, 2), (0, 1, 2)]
    weights = workload_weights(workload)
    assert weights == {(0,): 2, (1,): 3, (2,): 2, (0, 1): 5, (0, 2): 4, (1, 2): 5, (0, 1, 2): 7}
    g = np.random.default_rng(2)
    models = {group: g.gamma(1, 1, [sizes[v] for v in group]) for group in weights}

    def mechanism(records: tuple[tuple[int, ...], ...]) -> AdaptiveMargins:
        return AdaptiveMargins(counts_of(records, sizes), sizes, workload, ZCDPAccount(1.0), Draws(1), 10_000)

    for n in range(3):
        for records in combinations_with_replacement(cells, n):
            before = mechanism(records)
            for more in cells:
                after = mechanism((*records, more))
                for group, weight in weights.items():
                    assert np.linalg.norm(after.counts(group) - before.counts(group)) == 1
                    one, two = (m.score(group, weight, models[group], 3.0) for m in (before, after))
                    assert abs(one - two) <= weight + 1e-9


def test_noise_has_the_deviation_that_is_charged_and_counts_stay_on_a_grid() -> None:
    sizes = (2, 3)
    exact = counts_of(((0, 1), (1, 2), (1, 2)), sizes)
    off = []
    for seed in range(800):
        mechanism = AdaptiveMargins(exact, sizes, [(0, 1)], ZCDPAccount(1.0), Draws(seed), 10_000)
        made = mechanism._measured((0, 1), 1.7)
        assert mechanism.account.used == pytest.approx(1 / (2 * 1.7**2))
        assert (made.counts * 1024 == np.round(made.counts * 1024)).all()
        off.append((made.counts - exact((0, 1))).ravel() / 1.7)
    assert stats.kstest(np.concatenate(off), stats.norm.cdf).pvalue > 1e-4


def test_a_choice_follows_the_exponential_mechanism() -> None:
    sizes = (2, 2)
    exact = counts_of(((0, 0),) * 6 + ((1, 1),) * 4, sizes)
    tree = graph.junction_tree(sizes, [(0,), (1,)])
    margins = graph.calibrated(tree, {}, 10.0)
    weights, epsilon, chosen = workload_weights([(0, 1)]), 1.5, []
    for seed in range(3_000):
        mechanism = AdaptiveMargins(exact, sizes, [(0, 1)], ZCDPAccount(10.0), Draws(seed), 10_000)
        chosen.append(mechanism._chosen(weights, tree, margins, 0.5, epsilon))
    scores = np.array([w * (np.abs(exact(k) - graph.margin_of(tree, margins, k)).sum() - math.sqrt(2 / math.pi) * 0.5 * 2 ** len(k))
                       for k, w in weights.items()])  # fmt: skip
    share = np.exp(epsilon * scores / (2 * 2))
    expected = 3_000 * share / share.sum()
    assert stats.chisquare([chosen.count(k) for k in weights], expected).pvalue > 1e-4


# The model


def joint(sizes: tuple[int, ...], potentials: dict[tuple[int, ...], Numbers]) -> Numbers:
    out = np.zeros(sizes)
    for group, theta in potentials.items():
        out = out + theta.reshape([s if v in group else 1 for v, s in enumerate(sizes)])
    return np.exp(out)


def margin(table: Numbers, group: tuple[int, ...]) -> Numbers:
    return table.sum(axis=tuple(v for v in range(table.ndim) if v not in group))


@pytest.mark.parametrize("seed", range(6))
def test_margins_from_the_junction_tree_are_those_of_the_whole_table(seed: int) -> None:
    g = np.random.default_rng(seed)
    sizes = tuple(g.integers(2, 5, 6).tolist())
    pairs = list(combinations(range(6), 2))
    groups = [pairs[i] for i in g.choice(15, int(g.integers(2, 9)), replace=False)]
    tree = graph.junction_tree(sizes, groups)
    assert all(graph.home_of(tree, group) >= 0 for group in groups)
    for i, (clique, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
        assert set(separator) == set(clique) & set().union(*tree.cliques[:i])  # the running intersection
    potentials = {group: g.normal(size=[sizes[v] for v in group]) for group in groups}
    whole = joint(sizes, potentials)
    whole *= 50 / whole.sum()
    margins = graph.calibrated(tree, potentials, 50.0)
    for k in (1, 2, 3):
        for group in combinations(range(6), k):
            np.testing.assert_allclose(graph.margin_of(tree, margins, group), margin(whole, group), rtol=1e-8)


def test_the_fit_to_exact_margins_is_that_of_iterative_proportional_fitting() -> None:
    """Both are the table of largest entropy with these margins (here without an odd circle that has none)."""
    g = np.random.default_rng(7)
    table = g.gamma(1, 10, (2, 3, 2, 3))
    groups = [(0, 1), (1, 2), (2, 3), (0, 3)]
    fitted = np.ones_like(table)
    for _ in range(2_000):
        for group in groups:
            factor = margin(table, group) / margin(fitted, group)
            fitted = fitted * factor.reshape([s if v in group else 1 for v, s in enumerate(table.shape)])
    measured = [graph.NoisyMargin(group, margin(table, group), 1.0) for group in groups]
    tree = graph.junction_tree(table.shape, groups)
    total = graph.total_of(measured)
    assert total == pytest.approx(table.sum())
    _, margins = graph.fit_margins(tree, measured, {}, total, 5_000)
    for group in combinations(range(4), 3):
        np.testing.assert_allclose(graph.margin_of(tree, margins, group), margin(fitted, group), rtol=2e-3)


def test_the_fit_to_noisy_margins_is_the_least_squares_among_tables_without_negative_cells() -> None:
    """Of a table that is measured whole it is the projection on the simplex, which sorting finds exactly."""
    noisy = np.array([[30.0, -4.0], [9.0, 15.0]])
    total = 50.0
    ordered = np.sort(noisy.ravel())[::-1]
    k = max(j for j in range(1, 5) if ordered[j - 1] > (ordered[:j].sum() - total) / j)
    projected = np.maximum(noisy - (ordered[:k].sum() - total) / k, 0)
    tree = graph.junction_tree((2, 2), [(0, 1)])
    _, margins = graph.fit_margins(tree, [graph.NoisyMargin((0, 1), noisy, 2.0)], {}, total, 20_000)
    np.testing.assert_allclose(margins[0], projected, atol=0.02)


def test_cells_are_drawn_with_the_probabilities_of_the_model() -> None:
    g = np.random.default_rng(8)
    sizes, groups = (2, 3, 2, 2), [(0, 1), (1, 2), (0, 2)]
    tree = graph.junction_tree(sizes, groups)
    potentials = {group: g.normal(size=[sizes[v] for v in group]) for group in groups}
    whole = joint(sizes, potentials)
    margins = graph.calibrated(tree, potentials, 1.0)
    drawn = graph.drawn_cells(tree, margins, [g.random(60_000) for _ in tree.cliques])
    found = np.zeros(sizes)
    np.add.at(found, tuple(drawn), 1)
    assert stats.chisquare(found.ravel(), 60_000 * whole.ravel() / whole.sum()).pvalue > 1e-4


# The mask


def survey(n: int = 8_000) -> Microdata:
    g = np.random.default_rng(9)
    age = g.integers(18, 80, n)
    sex = np.array(["f", "m"])[g.integers(0, 2, n)]
    job = np.where(age > 65, "retired", np.where(g.random(n) < 0.1, "none", "employed"))
    pay = np.where(g.random(n) < 0.1, np.nan, np.clip(30 * age + g.normal(0, 300, n), 0, 5_000))
    facts = {
        "age": {"role": "key", "integer": True, "bounds": (18, 97)},
        "sex": {"role": "key", "scale": "unordered", "labels": {"f": "female", "m": "male"}},
        "job": {
            "role": "key",
            "scale": "unordered",
            "labels": {"retired": "", "none": "", "employed": "", "soldier": ""},
        },
        "pay": {"role": "confidential", "bounds": (0, 5_000)},
    }
    return microdata(facts, age=age, sex=sex, job=job, pay=pay)


def test_the_whole_promise_is_spent_and_stated_with_the_release() -> None:
    mask = MarginalSynthesis(epsilon=2.0, delta=1e-7)
    fitted = mask.fit(survey(), Draws(1))
    account = fitted.model.account
    assert account.used == pytest.approx(zcdp_rho(2.0, 1e-7), rel=1e-9)
    assert math.fsum(s.rho for s in account.spent) == account.used
    assert account.mu <= mask.mu
    said = fitted.apply(survey(), Draws(1)).guarantees[1]
    assert "(2, 1e-07)-differential privacy of the file, for one record more or less" in said.says
    assert f"μ at most {mask.mu:.3g}" in said.says


def test_with_much_budget_the_tables_are_those_of_the_file_and_with_little_they_are_not() -> None:
    data = survey()
    away = {}
    for epsilon in (20.0, 0.01):
        made = MarginalSynthesis(epsilon=epsilon, size=20_000).apply(data, Draws(1)).masked
        tables = []
        for source in (data, made):
            age, job = source.numbers("age") > 40, np.array(values(source, "job"), object)
            tables.append(
                [np.mean((age == a) & (job == j)) for a in (False, True) for j in ("retired", "none", "employed")]
            )
        away[epsilon] = np.abs(np.subtract(*tables)).sum() / 2
        if epsilon == 20.0:
            pay = made.numbers("pay")
            assert np.isnan(pay).mean() == pytest.approx(0.1, abs=0.02)
            low, high = (np.nanmean(pay[made.numbers("age") < 40]), np.nanmean(pay[made.numbers("age") > 60]))
            assert (low, high) == pytest.approx((870, 2_080), rel=0.1)
    assert away[20.0] < 0.03
    assert away[0.01] > 0.1


def test_the_number_of_records_is_noisy_and_the_seed_decides() -> None:
    data = survey(2_000)
    sizes = [len(MarginalSynthesis(["sex", "job"], epsilon=0.1).apply(data, Draws(seed)).masked) for seed in (1, 2, 3)]
    assert len(set(sizes)) > 1
    assert all(abs(size - 2_000) < 500 for size in sizes)
    assert len(MarginalSynthesis(["sex", "job"]).apply(survey(0), Draws(1)).masked) >= 1


def test_numbers_are_drawn_evenly_in_their_intervals_whole_ones_among_whole_ones() -> None:
    data = survey()
    made = MarginalSynthesis(["age", "pay"], bins=5, epsilon=50).apply(data, Draws(4)).masked
    age, pay = made.numbers("age"), made.numbers("pay")
    assert (age == np.round(age)).all()
    for low, high in pairwise([18, 34, 50, 66]):  # 80 whole numbers in five intervals of 16
        counts = np.bincount(age[(age >= low) & (age < high)].astype(int) - low, minlength=16)
        assert stats.chisquare(counts).pvalue > 1e-4
    inside = pay[(pay >= 1_000) & (pay < 2_000)]
    assert stats.kstest((inside - 1_000) / 1_000, stats.uniform.cdf).pvalue > 1e-4


def test_nothing_but_the_schema_says_which_values_there_can_be() -> None:
    data = survey()
    with pytest.raises(DataError, match=r"'pay' has no bounds in the schema.*bounds = \(0, 120\)"):
        MarginalSynthesis().apply(data.with_schema(data.schema.change("pay", bounds=(0, None))), Draws(1))
    bare = data.with_schema(data.schema.change("job", labels={}))
    with pytest.raises(DataError, match=r"does not list the categories of 'job'.*public="):
        MarginalSynthesis().apply(bare, Draws(1))
    release = MarginalSynthesis(["sex", "job"], public=["job"]).apply(bare, Draws(1))
    assert "job: which values occur was taken from the file as public knowledge" in release.guarantees[-1].says
    with pytest.raises(DataError, match="'sx' is not in"):
        MarginalSynthesis(["sex", "job"], public=["sx"]).apply(data, Draws(1))
    few = data.with_schema(data.schema.change("job", labels={"none": "", "employed": ""}))
    made = MarginalSynthesis(["sex", "job"], epsilon=20).apply(few, Draws(1)).masked
    assert {*values(made, "job")} == {"none", "employed", None}  # what is not listed counts as missing


def test_a_workload_says_which_tables_matter() -> None:
    data = survey()
    fitted = MarginalSynthesis(workload=[["age", "pay"], "sex"], epsilon=5).fit(data, Draws(1))  # type: ignore[list-item]
    names = [d.name for d in fitted.domains]
    chosen = {tuple(names[v] for v in s.group) for s in fitted.model.account.spent if len(s.group) > 1}
    assert chosen == {("age", "pay")}
    with pytest.raises(DataError, match="has 441 cells, and the model at most 200"):
        MarginalSynthesis(workload=[["age", "pay"]], cells=200).fit(data, Draws(1))
    with pytest.raises(DataError, match="'wage' is not in"):
        MarginalSynthesis(workload=[["age", "wage"]]).fit(data, Draws(1))
    for wrong in ("age", [[]], [["age", "age"]], {"age": "pay"}, [], [[1]]):
        with pytest.raises(ParameterError, match="workload"):
            MarginalSynthesis(workload=wrong)  # type: ignore[arg-type]


def test_the_model_stays_within_its_cells() -> None:
    fitted = MarginalSynthesis(epsilon=20, cells=700).fit(survey(), Draws(1))
    assert fitted.model.tree.cells <= 700


def test_columns_that_follow_another_are_left_out_since_they_could_only_be_learned() -> None:
    data = survey()
    schema = data.schema.change("job", follows="age")
    made = MarginalSynthesis().apply(data.with_schema(schema), Draws(1)).masked
    assert made.schema.names() == ("age", "sex", "pay")


def test_implicates_are_draws_from_one_model_and_cost_nothing_more() -> None:
    release = MarginalSynthesis(["sex", "job"], implicates=3).apply(survey(), Draws(1))
    shares = [[values(m, "job").count(j) / len(m) for j in ("retired", "employed")] for m in release.implicates]
    assert len({tuple(s) for s in shares}) == 3
    assert np.ptp(np.array(shares), axis=0).max() < 0.04


def test_too_many_columns_and_dates_are_refused() -> None:
    g = np.random.default_rng(1)
    facts = {f"x{i}": {"role": "key", "bounds": (0, 1)} for i in range(51)}
    with pytest.raises(DataError, match="between 1 and 50"):
        MarginalSynthesis().apply(microdata(facts, **{n: g.random(5) for n in facts}), Draws(1))
    dates = pa.array(np.arange(9), pa.int32()).cast(pa.date32())
    with pytest.raises(DataError, match="'x' holds dates"):
        MarginalSynthesis().apply(microdata({"x": {"role": "key"}}, x=dates), Draws(1))
    facts = {"x": {"role": "key", "scale": "unordered", "labels": {"one": ""}}}
    with pytest.raises(DataError, match="no numbers, as its values are"):
        MarginalSynthesis().apply(microdata(facts, x=np.arange(9)), Draws(1))


def test_a_file_of_the_examples_keeps_its_shares() -> None:
    data = teachers(4_000)
    schema = data.schema.change("age", bounds=(20, 75))
    made = MarginalSynthesis(["age", "sex", "school"], epsilon=5, public=["sex", "school"]).apply(
        data.with_schema(schema), Draws(2)
    )
    for name in ("sex", "school"):
        before, after = values(data, name), values(made.masked, name)
        for level in set(before):
            assert after.count(level) / len(after) == pytest.approx(before.count(level) / len(before), abs=0.03)
