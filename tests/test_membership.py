"""Membership: the curve against scikit-learn, brute force and closed forms; the attack against what must come out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score
from small_files import amounts, microdata

from sfumato.attacks import TellMembers
from sfumato.contract import Draws, Holdout, Release, Snooper, hold_out
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks import KimNoise
from sfumato.risk import DCR, Membership
from sfumato.risk.membership import RocCurve


def cloud(n: int, seed: int, columns: int = 3) -> Microdata:
    x = np.random.default_rng(seed).normal(0, 1, (n, columns))
    return amounts(**{f"x{j}": x[:, j] for j in range(columns)})


def scores(seed: int, members: int, others: int, levels: int) -> RocCurve:
    g = np.random.default_rng(seed)
    return RocCurve(g.integers(0, levels, members).astype(float), g.integers(0, levels, others).astype(float))


# -- the curve


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 30), st.integers(1, 12))
def test_the_area_is_that_of_scikit_learn_and_of_mann_and_whitney(seed: int, m: int, n: int, levels: int) -> None:
    curve = scores(seed, m, n, levels)
    truth = np.repeat([1, 0], [m, n])
    assert curve.area() == pytest.approx(roc_auc_score(truth, np.concatenate(curve)))
    assert curve.area() == pytest.approx(mannwhitneyu(curve.members, curve.others).statistic / (m * n))


@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 20), st.integers(1, 8), st.floats(0, 1))
def test_members_found_are_those_of_the_best_test_with_so_many_false_alarms(
    seed: int, m: int, n: int, levels: int, allowed: float
) -> None:
    """Every threshold, with every share of those who tie there: the one whose false alarms are exactly the allowed share."""
    curve = scores(seed, m, n, levels)
    limits = sorted(set(np.concatenate(curve).tolist()), reverse=True)
    points = [(float((curve.others >= v).mean()), float((curve.members >= v).mean())) for v in (math.inf, *limits)]
    found = 1.0 if allowed >= 1 else None
    for (a, b), (c, d) in itertools.pairwise(points):
        if found is None and a <= allowed < c:
            found = b + (d - b) * (allowed - a) / (c - a)
    assert curve.true_positives(allowed) == pytest.approx(found)


def test_ties_are_worth_what_breaking_them_at_random_is_worth() -> None:
    g = np.random.default_rng(4)
    curve = scores(3, 200, 100, 6)
    broken = []
    for _ in range(800):
        a, b = curve.members + g.uniform(0, 0.5, 200), curve.others + g.uniform(0, 0.5, 100)
        broken.append((RocCurve(a, b).area(), float((a > np.sort(b)[::-1][7]).mean())))
    area, found = np.mean(broken, axis=0)
    assert curve.area() == pytest.approx(area, abs=0.003)
    # seven of a hundred others lie above the eighth; the best of the eighth's gap is between 7 % and 8 %
    assert curve.true_positives(0.07) - 0.004 <= found <= curve.true_positives(0.08) + 0.004


def test_placements_average_to_the_area() -> None:
    curve = scores(9, 37, 23, 5)
    assert curve.placements().mean() == pytest.approx(curve.area())
    slow = [(np.sum(curve.others < s) + np.sum(curve.others == s) / 2) / 23 for s in curve.members]
    np.testing.assert_allclose(curve.placements(), slow)


def test_the_intervals_cover_the_truth_of_two_normal_scores() -> None:
    """Scores N(d, 1) and N(0, 1): AUC = Φ(d/√2), and TPR at FPR a is Φ(d - Φ⁻¹(1-a))."""
    g = np.random.default_rng(11)
    for shift, m, n in ((0.0, 60, 60), (1.0, 200, 100), (2.5, 40, 300)):
        area, rate = float(ndtr(shift / math.sqrt(2))), float(ndtr(shift - ndtri(0.95)))
        missed = np.zeros(2)
        for _ in range(300):
            curve = RocCurve(g.normal(shift, 1, m), g.normal(0, 1, n))
            for i, (truth, (low, high)) in enumerate(
                ((area, curve.area_interval()), (rate, curve.true_positives_interval(0.05)))
            ):
                missed[i] += not low <= truth <= high
        assert (missed <= 27).all()  # 5 % of 300 is 15; 27 or more have probability 0.002


def test_intervals_hold_at_the_ends() -> None:
    perfect = RocCurve(np.ones(20), np.zeros(20))
    assert perfect.area() == 1
    assert perfect.true_positives(0.01) == 1
    assert 0.7 < perfect.area_interval()[0] < 1 == perfect.area_interval()[1]
    assert 0.7 < perfect.true_positives_interval(0.01)[0] < 1
    reverse = RocCurve(np.zeros(20), np.ones(20))
    assert reverse.area() == reverse.area_interval()[0] == reverse.true_positives(0.5) == 0


# -- the attack


@pytest.mark.parametrize("evidence", ["distance", "relative distance"])
def test_copies_give_every_member_away(evidence: str) -> None:
    kept, held = hold_out(cloud(400, 1), 0.5, Draws(1))
    outcome = Release.of(kept, kept).with_holdout(held)
    score = Membership(evidence=evidence).score(outcome)  # type: ignore[arg-type]
    assert score.value == score.details["AUC"] == 1
    assert Membership(evidence=evidence, report="advantage").score(outcome).value == 1  # type: ignore[arg-type]
    np.testing.assert_array_equal(score.records, np.ones(200))


@pytest.mark.parametrize("evidence", ["distance", "relative distance"])
def test_an_independent_release_tells_nothing(evidence: str) -> None:
    outside = 0
    for seed in range(40):
        files = [cloud(150, 3 * seed + i) for i in range(3)]
        outcome = Release.of(files[0], files[1]).with_holdout(Holdout.of(files[2]))
        score = Membership(evidence=evidence, report="advantage").score(outcome)  # type: ignore[arg-type]
        low, high = score.interval  # type: ignore[misc]
        outside += not low <= 0 <= high
        assert abs(score.value) < 0.3
    assert outside <= 7


def test_the_distance_is_that_to_the_closest_released_record() -> None:
    kept, held = hold_out(cloud(60, 2), 0.5, Draws(1))
    made = KimNoise(lambda2=0.2).apply(kept, Draws(2)).with_holdout(held)

    def matrix(data: Microdata) -> np.ndarray:
        return np.column_stack([data.numbers(n) for n in ("x0", "x1", "x2")])

    released = matrix(made.masked)
    sd = released.std(axis=0, ddof=1)

    def nearest(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d = np.sqrt((((x[:, None] - released) / sd) ** 2).sum(axis=2))
        return d.min(axis=1), d.argmin(axis=1)

    among = np.sqrt((((released[:, None] - released) / sd) ** 2).sum(axis=2)) + np.diag(np.full(len(released), np.inf))
    guesses = TellMembers().run(made, Snooper(), Draws(3))
    relative = TellMembers(evidence="relative distance").run(made, Snooper(), Draws(3))
    far, row = nearest(np.vstack([matrix(kept), matrix(held)]))
    np.testing.assert_allclose(guesses.sure, -far)  # type: ignore[arg-type]
    np.testing.assert_allclose(relative.sure, -far / among.min(axis=1)[row])  # type: ignore[arg-type]
    np.testing.assert_array_equal(guesses.truth, np.repeat([1, 0], 30))
    assert guesses.target.tolist() == [*kept.batch([]).ids, *held.batch([]).ids]


def test_a_guess_names_as_many_members_as_there_are_and_shares_ties() -> None:
    data = microdata(c=["a", "b", "c", "d"])
    outcome = Release.of(data, microdata(c=["a", "b"])).with_holdout(Holdout.of(microdata(c=["a", "z"])))
    guesses = TellMembers().run(outcome, Snooper(), Draws(1))
    # at distance 0: a, b, and the other a; of the three at distance 1 one more is named
    np.testing.assert_allclose(guesses.right, [1, 1, 1 / 3, 1 / 3, 0, 2 / 3])
    np.testing.assert_allclose(guesses.baseline, [4 / 6] * 4 + [2 / 6] * 2)


def test_passing_dcr_says_nothing_of_membership() -> None:
    """A tenth of the records are copied and the rest are drawn afresh: DCR hardly sees it, those people are found."""
    kept, held = hold_out(cloud(2_000, 5, 6), 0.5, Draws(1))
    fresh, g = cloud(1_000, 6, 6), np.random.default_rng(0)
    copied = g.permutation(1_000)[:100]
    columns = {}
    for name in fresh.schema.names():
        mixed = fresh.numbers(name).copy()
        mixed[copied] = kept.numbers(name)[copied]
        columns[name] = mixed
    outcome = Release.of(kept, amounts(**columns)).with_holdout(held)
    dcr, found = DCR().score(outcome), Membership().score(outcome)
    assert dcr.value < 0.08
    assert found.value == pytest.approx(0.11, abs=0.02)  # the tenth that was copied, and 1 % of the rest
    assert found.interval is not None
    assert found.interval[0] > 0.05


def test_the_value_is_a_choice_and_both_numbers_stand_in_the_details() -> None:
    kept, held = hold_out(cloud(300, 8), 0.5, Draws(1))
    made = KimNoise(lambda2=0.5).apply(kept, Draws(2)).with_holdout(held)
    rate, advantage = Membership().score(made), Membership(report="advantage").score(made)
    assert rate.details == advantage.details
    assert rate.value == rate.details["true positive rate"]
    assert advantage.value == pytest.approx(2 * rate.details["AUC"] - 1)
    assert "TPR at 1 % FPR" in rate.variant
    assert "2·AUC" in advantage.variant
    assert rate.records is not None
    assert rate.records.mean() == pytest.approx(rate.details["AUC"])


def test_targets_are_drawn_where_there_are_too_many() -> None:
    kept, held = hold_out(cloud(300, 8), 0.5, Draws(1))
    made = KimNoise().apply(kept, Draws(2)).with_holdout(held)
    one, two, other = (Membership(targets=40, seed=s).score(made) for s in (1, 1, 2))
    assert one == two != other
    assert one.records is not None
    assert np.isnan(one.records).sum() == 110


def test_wrong_parameters_and_no_holdout_are_refused() -> None:
    for wrong in (0, 1.5, float("nan")):
        with pytest.raises(ParameterError, match="false_positives"):
            Membership(false_positives=wrong)
    with pytest.raises(NotApplicable, match="records set aside before masking"):
        Membership().score(Release.of(cloud(5, 1), cloud(5, 2)))
    with pytest.raises(NotApplicable, match="hold_out"):
        TellMembers().run(Release.of(cloud(5, 1), cloud(5, 2)), Snooper(), Draws(1))
