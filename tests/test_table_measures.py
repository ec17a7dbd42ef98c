"""Measures of published tables, against dense linear algebra, Monte Carlo, scipy's linear programs and sums by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from published_tables import CellNoise, FewRecords, HideCells, LeafNoise, RoundTo, firms, table
from scipy.optimize import linprog

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.errors import NotApplicable, ParameterError
from sfumato.tables import RTA, PPercent, Protection, PublishedTable, Status, Table
from sfumato.tables.measures import (
    AnalystCertainty,
    CellCertainty,
    IntervalLengths,
    KnownClosely,
    PublishedDistance,
    PublishedValue,
    RelativeCertainty,
    TableAccuracy,
)
from sfumato.tables.reader import (
    contributor_posterior,
    error_variance,
    noise_variance,
    reader_estimate,
    reader_variance,
)
from sfumato.tables.rta.priors import Prior

DRAWS = Draws(11)


def weighted(seed: int) -> Table:
    """Return a table of holdings in several leaves, with survey weights."""
    g = np.random.default_rng(seed)
    frame = firms(seed, 36, weight=g.choice([1.0, 2.0, 3.5], 36))
    roles = {"weight": "weight", "owner": "contributor"}
    schema = Schema(tuple(
        Attribute(n, role=roles.get(n, "other"), scale="ordered" if n in ("turnover", "weight") else "unordered")
        for n in frame
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), "region * sector", "turnover")


def leaf_cells(t: Table) -> list[int]:
    return [int(c) for c in t.cells.of_leaf]


def square(t: Table) -> tuple[int, ...]:
    """Return four cells that can hide each other."""
    return tuple(t.cells.find(region=r, sector=s) for r in "NS" for s in "ab")


def dense(p: PublishedTable, cv: float) -> np.ndarray:
    """Return the least posterior variance of every contributor over all attackers and the outsider, by brute force.

    Every published cell is a measurement of its own; what they leave open is a null space.
    """
    t = p.original
    assert t is not None
    assert t.contributions is not None
    own, grossed = t.contributions.own.toarray(), t.contributions.grossed.toarray()
    size = own.sum(axis=0)
    v = (cv * size) ** 2
    incidence = t.cells.incidence.toarray()
    if p.leaf_variance is not None:
        h, error = np.eye(t.cells.leaves), p.leaf_variance
    else:
        known = np.isfinite(p.high - p.low)
        width = np.where(known, p.high - p.low, 0.0)
        error = np.where(known, width**2 / 12, np.inf)
        moved = (p.status == Status.CHANGED) & known
        if moved.any():  # what the changes of all cells turned out to be, in terms of their intervals
            error = error * min(1.0, np.mean((p.values - t.value)[moved] ** 2 * 12 / width[moved] ** 2))
        error = error if p.variance is None else np.minimum(error, p.variance)
        h, error = incidence[np.isfinite(error)], error[np.isfinite(error)]
    h = h @ (grossed / size)
    best = np.full(len(v), np.inf)
    for g in range(-1, len(v)):
        sd = np.where(np.arange(len(v)) == g, 0.0, np.sqrt(v))
        # unknown are the contributions and the errors, in units of their spread: what no measurement moves stays unknown
        both = np.hstack([h * sd, np.diag(np.sqrt(error))])
        _, s, axes = np.linalg.svd(both)
        open_ = axes[int((s > 1e-9 * s[0]).sum()) :, : len(v)]
        left = np.where(np.arange(len(v)) == g, np.inf, sd**2 * (open_**2).sum(axis=0))
        best = np.minimum(best, left)
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "method", [HideCells(), RoundTo(base=7.0), LeafNoise(sd=6.0), CellNoise(sd=6.0)], ids=lambda m: m.name
)
def test_what_is_left_of_each_contribution_is_what_dense_linear_algebra_says(method: Protection, seed: int) -> None:
    t = weighted(seed) if seed % 2 else table(firms(seed))
    method = HideCells(hidden=square(t)) if isinstance(method, HideCells) else method
    p = method.protect(t, DRAWS)
    assert t.contributions is not None
    found = contributor_posterior(p, 0.5, intervals=False)
    expected = dense(p, 0.5)
    assert found.variance == pytest.approx(expected, abs=2e-6 * found.prior.max(), rel=1e-5)
    assert (found.variance <= found.prior * (1 + 1e-12)).all()


def test_what_is_left_is_what_a_simulation_of_attackers_finds() -> None:
    """A hundred thousand worlds: the spread of a contribution around the best linear guess from the table and one's own."""
    t = table(firms(5, 14))
    p = HideCells(hidden=square(t)).protect(t, DRAWS)
    assert t.contributions is not None
    found = contributor_posterior(p, 0.5, intervals=False)
    own = t.contributions.own.toarray()
    g = np.random.default_rng(1)
    worlds = g.normal(size=(100_000, own.shape[1])) * 0.5 * own.sum(axis=0)
    seen = worlds @ (t.cells.incidence.toarray()[~p.suppressed] @ (own > 0)).T
    for h in np.argsort(found.variance / found.prior)[-6:]:
        who = int(found.attacker[h])
        known = seen if who < 0 else np.column_stack([seen, worlds[:, who]])
        guess = known @ np.linalg.lstsq(known, worlds[:, h], rcond=1e-10)[0]
        assert found.variance[h] == pytest.approx(np.mean((worlds[:, h] - guess) ** 2), rel=0.03)


def test_one_cell_of_equal_contributors_leaves_half_of_the_variance() -> None:
    """Three contribute 10 each: whoever knows his own knows the sum of two, and half of a prior variance of 25 remains."""
    t = table(pd.DataFrame({"region": ["N"] * 3, "turnover": [10.0] * 3}), "region")
    measure = RelativeCertainty(prior_cv=0.5, base_cv=0.25, intervals=False)
    score = measure.score(PublishedTable.unprotected(t))
    assert score.value == pytest.approx(2.5**2 / 12.5)
    assert score.details["contributors above 1"] == 0


def test_the_paper_s_example_of_sizes_is_just_safe() -> None:
    """Sizes 40, 30, 15, ε = 1/2, η = 1/4 need a variance of 77.08333 (Stinner, section 3.4 with ERRATA)."""
    t = table(pd.DataFrame({"region": ["N"] * 3, "turnover": [40.0, 30.0, 15.0]}), "region - 1")
    measure = RelativeCertainty(prior_cv=0.5, base_cv=0.25)
    for sigma2, safe in ((77.0834, True), (77.083, False)):
        score = measure.score(LeafNoise(sd=float(np.sqrt(sigma2))).protect(t, DRAWS))
        assert score.value == pytest.approx(1.0, abs=1e-4)
        assert (score.value <= 1) is safe


def test_a_contributor_who_stands_alone_in_a_shown_cell_is_known() -> None:
    t = table(pd.DataFrame({"region": list("NSS"), "turnover": [10.0, 4.0, 5.0]}), "region")
    score = RelativeCertainty().score(PublishedTable.unprotected(t))
    assert np.isinf(score.value)
    assert score.details["known exactly"] == 3  # and in the other cell, each of two knows the other
    assert "known exactly" in score.words


def test_a_singleton_who_knows_one_hidden_cell_knows_the_other() -> None:
    """North hides two cells of one contributor each: the total minus his own is the other's."""
    frame = pd.DataFrame(
        {"region": list("NNSSSSSS"), "sector": list("abaaabbb"), "turnover": [10.0, 4, 5, 6, 7, 8, 9, 3]}
    )
    t = table(frame)
    hidden = square(t)
    two = RelativeCertainty(intervals=False).posterior(HideCells(hidden=hidden).protect(t, DRAWS))
    assert two.variance[:2] == pytest.approx(0.0, abs=1e-6)
    assert two.attacker[:2].tolist() == [1, 0]


def test_bounds_make_attackers_surer() -> None:
    """Everybody thinks that the firms are large, but the totals are small, and nobody can have more than a total."""
    frame = pd.DataFrame({
        "region": ["N"] * 6 + ["S"] * 6, "sector": (["a"] * 3 + ["b"] * 3) * 2, "size": 100.0,
        "turnover": [5.0, 4, 3, 6, 2, 1, 5, 6, 7, 8, 9, 9],
    })  # fmt: skip
    t = table(frame, size="size", per_size=1)
    p = HideCells(hidden=square(t)).protect(t, DRAWS)
    without = RelativeCertainty(intervals=False).score(p)
    with_ = RelativeCertainty().score(p)
    assert with_.value > without.value
    # a cell in the north is from 0 to 21: of three priors of 50² two remain to an insider, and s² = 21²/12 of their sum
    k, s2 = 2 * 50.0**2, 21**2 / 12
    left = 50.0**2 * (1 - 0.5 * (1 - s2 / k))
    assert with_.value == pytest.approx(15**2 / left)


def test_contributors_at_risk_are_counted() -> None:
    t = table()
    p = LeafNoise(sd=2.0).protect(t, DRAWS)
    ratio = RelativeCertainty().ratios(p)
    share = RelativeCertainty(of="share").score(p)
    assert share.value == (ratio > 1).mean()
    assert 0 < share.value < 1


def test_counts_have_no_contributions_to_be_certain_of() -> None:
    t = table(variable=None)
    with pytest.raises(NotApplicable, match="cell_certainty"):
        RelativeCertainty().score(PublishedTable.unprotected(t))


def test_the_prior_must_leave_something_to_protect() -> None:
    with pytest.raises(ParameterError, match="below prior_cv"):
        RelativeCertainty(prior_cv=0.1, base_cv=0.2)


# -- intervals


def test_interval_lengths_are_those_of_scipy_s_linear_programs() -> None:
    t = table(firms(8, 30))
    hidden = square(t)
    p = HideCells(hidden=hidden).protect(t, DRAWS)
    measure = IntervalLengths(FewRecords(fewest=6, share=0.3))
    unsafe, ratio = measure.ratios(p)
    rows = t.cells.incidence.toarray()
    shown = ~p.suppressed
    for cell, found in zip(unsafe, ratio, strict=True):
        ends = [
            sign * linprog(sign * rows[cell], A_eq=rows[shown], b_eq=t.value[shown], bounds=(0, None)).fun
            for sign in (1, -1)
        ]
        level = 0.3 * t.value[cell]
        sides = [ends[1] - t.value[cell], t.value[cell] - ends[0]]
        expected = np.inf if max(sides) < 1e-6 else level / max(min(sides), 1e-12)
        assert found == pytest.approx(expected, rel=1e-5) or (expected > 1e6 and np.isinf(found))
    score = measure.score(p)
    assert score.value == ratio.max()
    assert score.details["too short"] == (ratio > 1).sum()
    assert IntervalLengths(FewRecords(fewest=6, share=0.3), of="share").score(p).value == (ratio > 1).mean()


def test_intervals_say_nothing_about_random_adjustment() -> None:
    p = LeafNoise().protect(table(), DRAWS)
    with pytest.raises(NotApplicable, match="relative_certainty"):
        IntervalLengths(FewRecords()).score(p)


def test_a_measure_of_rules_needs_rules() -> None:
    for cls in (IntervalLengths, CellCertainty):
        with pytest.raises(ParameterError, match="rule"):
            cls(rules=())
        with pytest.raises(ParameterError, match="not a rule"):
            cls(rules="q% 10")
        assert cls("p% 10") == cls(PPercent(p=10))
        assert cls.from_dict(cls("p% 10").to_dict()) == cls("p% 10")


@pytest.mark.parametrize("of", ["largest", "share"])
def test_certainty_about_cells_compares_variances(of: str) -> None:
    t = table()
    rule = FewRecords(fewest=4, share=0.2)
    p = LeafNoise(sd=5.0).protect(t, DRAWS)
    unsafe = rule.assess(t).unsafe
    ratio = (0.4 * t.value[unsafe]) ** 2 / 12 / (25 * t.cells.sizes[unsafe])
    found = CellCertainty(rule, of=of).score(p).value
    assert found == pytest.approx(ratio.max() if of == "largest" else (ratio > 1).mean())
    assert np.isinf(CellCertainty(rule).score(PublishedTable.unprotected(t)).value)


def test_counts_are_measured_by_their_cells() -> None:
    t = table(variable=None)
    p = RoundTo(base=3.0).protect(t, DRAWS)
    score = CellCertainty(FewRecords(fewest=5, share=1.0)).score(p)
    assert np.isfinite(score.value)


def test_a_reader_of_independent_noise_averages_the_sums() -> None:
    """Variances of weighted least squares, by its normal equations; and by simulating the estimate."""
    t = table(firms(2, 30))
    p = CellNoise(sd=2.0).protect(t, DRAWS)
    rows = t.cells.incidence.toarray()
    expected = np.diag(rows @ np.linalg.inv(rows.T @ rows / 4) @ rows.T)
    found = reader_variance(p)
    assert found == pytest.approx(expected)
    g = np.random.default_rng(3)
    noisy = t.value + 2 * g.normal(size=(20_000, len(t)))
    guess = rows @ np.linalg.lstsq(rows, noisy.T, rcond=None)[0]
    assert found == pytest.approx(guess.var(axis=1), rel=0.05)
    assert (found < 4).all()


def test_a_reader_of_rounded_cells_has_intervals() -> None:
    t = table(variable=None)
    p = RoundTo(base=4.0).protect(t, DRAWS)
    assert (reader_variance(p) <= 16 / 12 + 1e-9).all()
    wide = p.with_(low=p.values - 40, high=p.values + 40)  # nobody needs more than the method's own changes
    assert reader_variance(wide).max() <= np.mean((p.values - t.value) ** 2) + 1e-9
    assert (reader_variance(PublishedTable.unprotected(t)) == 0).all()


# -- utility


def test_all_of_a_shown_table_is_kept() -> None:
    shown = PublishedTable.unprotected(table())
    assert PublishedValue().score(shown).value == 1
    assert PublishedValue(of="cells").score(shown).value == 1
    assert TableAccuracy().score(shown).value == 1
    assert np.isinf(AnalystCertainty().score(shown).value)
    assert KnownClosely().score(shown).value == 1
    for kind in ("absolute", "relative", "squares", "hellinger"):
        assert PublishedDistance(kind).score(shown).value == 1


def test_published_value_is_the_share_of_what_is_left() -> None:
    t = table()
    hidden = square(t)
    p = HideCells(hidden=hidden).protect(t, DRAWS)
    kept = 1 - t.value[list(hidden)].sum() / t.value.sum()
    assert PublishedValue().score(p).value == pytest.approx(kept)
    score = PublishedValue(of="cells").score(p)
    assert score.value == pytest.approx(1 - 4 / len(t))
    assert f"{len(t) - 4} of {len(t)} cells are published" in score.words


def test_a_hidden_square_is_estimated_as_proportional_fitting_does() -> None:
    """With every margin of a two-by-two block shown, equal starting values fit to row × column / total."""
    frame = pd.DataFrame({"region": list("NNSS"), "sector": list("abab"), "turnover": [10.0, 30.0, 20.0, 40.0]})
    t = table(frame)
    p = HideCells(hidden=leaf_cells(t)).protect(t, DRAWS)
    estimate = reader_estimate(p)
    for r, row in (("N", 40.0), ("S", 60.0)):
        for s, column in (("a", 30.0), ("b", 70.0)):
            assert estimate[t.cells.find(region=r, sector=s)] == pytest.approx(row * column / 100, rel=1e-4)
    assert estimate[~p.suppressed] == pytest.approx(t.value[~p.suppressed])
    errors = [2 / 10, 2 / 30, 2 / 20, 2 / 40]
    assert TableAccuracy().score(p).value == pytest.approx(1 - sum(errors) / 9, rel=1e-4)
    assert PublishedDistance("absolute").score(p).value == pytest.approx(1 - 8 / 400, rel=1e-4)


def test_estimates_of_what_may_be_negative_fit_too() -> None:
    frame = pd.DataFrame({"region": list("NNSS"), "sector": list("abab"), "turnover": [10.0, -30.0, 20.0, -40.0]})
    t = table(frame)
    p = HideCells(hidden=leaf_cells(t)).protect(t, DRAWS)
    estimate = reader_estimate(p)
    assert estimate[t.cells.find(region="N", sector="a")] + estimate[
        t.cells.find(region="N", sector="b")
    ] == pytest.approx(-20)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_estimated_agrees_with_everything_published(seed: int) -> None:
    t = table(firms(seed, 60), "region * sector")
    g = np.random.default_rng(seed)
    hidden = g.choice(len(t), 6, replace=False)
    p = HideCells(hidden=tuple(int(i) for i in hidden)).protect(t, DRAWS)
    known = np.full(t.cells.leaves, np.nan)
    estimate = reader_estimate(p)
    known = estimate[t.cells.of_leaf]
    shown = ~p.suppressed
    assert t.cells.sums(known)[shown] == pytest.approx(t.value[shown], rel=1e-4)


def test_distances_are_sums_by_hand() -> None:
    t = table()
    p = RoundTo(base=20.0).protect(t, DRAWS)
    x, z = t.value, p.values
    assert PublishedDistance("absolute").score(p).value == pytest.approx(1 - np.abs(z - x).sum() / x.sum())
    assert PublishedDistance("relative").score(p).value == pytest.approx(1 - np.mean(np.abs(z - x) / x))
    assert PublishedDistance("squares").score(p).value == pytest.approx(
        1 - np.sqrt(((z - x) ** 2).sum() / (x**2).sum())
    )
    hellinger = np.sqrt(0.5 * ((np.sqrt(z) - np.sqrt(x)) ** 2).sum() / x.sum())
    assert PublishedDistance("hellinger").score(p).value == pytest.approx(1 - hellinger)


def test_a_larger_base_is_known_less_closely() -> None:
    t = table()
    shares = [
        KnownClosely(within=0.1).score(RoundTo(base=b).protect(t, DRAWS)).value for b in (1.0, 10.0, 100.0, 1000.0)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < shares[0]
    p = RoundTo(base=10.0).protect(t, DRAWS)
    assert KnownClosely(within=0.1).score(p).value == (0.1 * t.value >= 5).mean()


def test_analysts_want_a_coefficient_of_variation() -> None:
    t = table()
    p = LeafNoise(sd=3.0).protect(t, DRAWS)
    cv = np.sqrt(9 * t.cells.sizes) / t.value
    assert AnalystCertainty(cv=0.1).score(p).value == pytest.approx((0.1 / cv.max()) ** 2)
    assert AnalystCertainty(cv=0.1, quantile=1.0).score(p).value == pytest.approx((0.1 / cv.min()) ** 2)
    hidden = HideCells(hidden=tuple(range(len(t)))).protect(t, DRAWS)
    assert AnalystCertainty().score(hidden).value == 0


@pytest.mark.parametrize("measure", [
    PublishedValue(), KnownClosely(), RelativeCertainty(), RelativeCertainty(of="share"), AnalystCertainty(),
    TableAccuracy(), TableAccuracy("value"), PublishedDistance("hellinger"), CellCertainty(FewRecords()),
], ids=lambda m: m.label())  # fmt: skip
@pytest.mark.parametrize(
    "method", [HideCells(hidden=(1, 2, 5, 6)), RoundTo(), LeafNoise(), CellNoise()], ids=lambda m: m.name
)
def test_every_common_measure_applies_to_every_method(measure: Any, method: Protection) -> None:
    p = method.protect(table(), DRAWS)
    score = measure.score(p)
    assert not np.isnan(score.value)
    assert score.words
    assert score.side is measure.side
    again = measure.to_score(np.array([[score.value], [score.value]]))
    assert again.value == pytest.approx(score.value)


@pytest.mark.parametrize("measure", [TableAccuracy(), RelativeCertainty(), PublishedValue()], ids=lambda m: m.name)
def test_what_is_published_alone_cannot_be_measured_against_the_truth(measure: Any) -> None:
    p = PublishedTable.unprotected(table()).with_(original=None)
    with pytest.raises(NotApplicable, match="before protection"):
        measure.score(p)


def test_the_order_of_records_does_not_matter() -> None:
    frame = firms(4)
    one, two = (table(f) for f in (frame, frame.sample(frac=1, random_state=1)))
    scores = [RelativeCertainty().score(LeafNoise(sd=2.0).protect(t, DRAWS)).value for t in (one, two)]
    assert scores[0] == pytest.approx(scores[1])


def test_changes_without_bounds_count_with_what_they_turned_out_to_be() -> None:
    t = table()
    noisy = CellNoise(sd=6.0).protect(t, DRAWS)
    untold = noisy.with_(variance=None)  # as a method that tells neither bounds nor variances
    share = np.mean((noisy.values - t.value) ** 2 / noisy.values**2)
    assert error_variance(untold) == pytest.approx(share * noisy.values**2)
    assert np.isfinite(RelativeCertainty().score(untold).value)


# -- against simulated attackers who know an interval


def test_a_rounded_sum_leaves_what_simulated_attackers_have() -> None:
    """Two unknown contributions whose sum is rounded: the spread of one within each rounded value, by simulation."""
    g = np.random.default_rng(8)
    base, sd = 30.0, np.array([25.0, 40.0])
    worlds = g.normal([200.0, 300.0], sd, (400_000, 2))
    rounded = np.round(worlds.sum(axis=1) / base)
    inside = pd.Series(worlds[:, 0]).groupby(rounded)
    simulated = (inside.var(ddof=0) * inside.size()).sum() / len(worlds)
    formula = sd[0] ** 2 - sd[0] ** 4 / ((sd**2).sum() + base**2 / 12)
    assert formula == pytest.approx(simulated, rel=0.01)


def test_a_sum_within_an_interval_leaves_what_simulated_attackers_have() -> None:
    """The formula behind the intervals: a sum known to lie within W counts as known with the variance W²/12."""
    g = np.random.default_rng(9)
    sd, low, width = np.array([50.0, 50.0]), -4.0, 21.0
    worlds = g.normal(0.0, sd, (2_000_000, 2))
    total = worlds.sum(axis=1)
    kept = worlds[(total > low) & (total < low + width), 0]
    k = float((sd**2).sum())
    formula = sd[0] ** 2 * (1 - sd[0] ** 2 / k * (1 - width**2 / 12 / k))
    assert formula == pytest.approx(kept.var(), rel=0.02)


def test_what_is_left_after_a_later_table_is_what_dense_algebra_says_of_its_correlated_noise() -> None:
    """Parts of a cell that was published before have noise that adds up to the published one, not independent noise."""
    frame = firms(3, 60)
    rta = RTA(base_cv=0.2)
    one = rta.protect(table(frame, "region"), DRAWS)
    assert one.record is not None
    later = rta.protect_later(table(frame, "region * sector"), one.record, DRAWS)
    assert later.record is not None
    assert later.original is not None
    omega = later.record.covariance.toarray()
    assert np.abs(omega - np.diag(np.diag(omega))).max() > 1
    known = Prior.from_sizes(0.5, 0.2).of(later.original)
    m, v = known.loading.toarray(), known.variance
    expected = np.full(len(v), np.inf)
    for g in range(-1, len(v)):
        left = np.where(np.arange(len(v)) == g, 0.0, v)
        gain = (left[:, None] * m.T) @ np.linalg.pinv((m * left) @ m.T + omega, rcond=1e-13, hermitian=True)
        after = left - (gain * (left[:, None] * m.T)).sum(axis=1)
        expected = np.minimum(expected, np.where(np.arange(len(v)) == g, np.inf, after))
    found = contributor_posterior(later, 0.5)
    assert found.variance == pytest.approx(expected, rel=1e-5)
    assert RelativeCertainty(base_cv=0.2).score(later).value <= 1 + 1e-6
    r = later.cells.incidence.toarray()
    told = noise_variance(later.with_(variance=None))
    assert told == pytest.approx(np.diag(r @ omega @ r.T), abs=1e-6)
