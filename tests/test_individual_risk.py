"""Individual risk: the exact formula, francdat, brute force, households, the interval, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from francdat import FRANCDAT, WEIGHT
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import hyp2f1
from small_files import as_it_is, in_pieces, microdata

from sfumato import Draws, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, five
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.uniques import reciprocal_moments
from sfumato.masks import Sample
from sfumato.risk import IndividualRisk
from sfumato.risk.individual_risk import ClassRisks, expected_in_population, household_risks

HOUSES = {**WEIGHT, "home": {"role": "household", "scale": "unordered"}}


def moments(f: int, p: float) -> tuple[float, float]:
    mean, square = reciprocal_moments(np.array([f]), np.array([p]))
    return float(mean[0]), float(square[0])


def added_up(f: int, p: float, power: int = 1) -> float:
    """Σ P(F = f + j) / (f + j)^power, term by term."""
    total, chance, left = 0.0, p**f, 1.0
    for j in range(10**6):
        total += chance / (f + j) ** power
        left -= chance
        if j > f / p and chance < 1e-18:
            break
        chance *= (f + j) / (j + 1) * (1 - p)
    return total


def recursion(f: int, p: float) -> float:
    """The recursion from f = 1 upwards, with so many digits that what it loses does not matter."""
    with localcontext() as context:
        context.prec = 1000
        share = Decimal(p)
        odds = share / (1 - share)
        risk = -odds * share.ln()
        for k in range(1, f):
            risk = odds * (1 / Decimal(k) - risk)
        return float(risk)


# The formula

PROBABILITIES = [1e-12, 1e-6, 0.001, 0.03, 0.2, 0.4999, 0.5, 0.5001, 0.8, 0.99, 1 - 1e-6, 1 - 1e-12]


@pytest.mark.parametrize("p", PROBABILITIES)
def test_the_mean_reciprocal_is_exact_for_few_and_many_and_rare_and_common(p: float) -> None:
    for f in (1, 2, 3, 5, 10, 19, 20, 21, 40, 60):
        assert moments(f, p)[0] == pytest.approx(recursion(f, p), rel=3e-15)


@pytest.mark.parametrize("p", [0.001, 0.03, 0.2, 0.5, 0.8, 0.99])
def test_the_mean_reciprocal_is_the_hypergeometric_function_and_the_integral(p: float) -> None:
    for f in (1, 2, 5, 20, 50):
        expected = moments(f, p)[0]
        assert p**f / f * hyp2f1(f, f, f + 1, 1 - p) == pytest.approx(expected, rel=1e-11)
        area = quad(lambda u, f=f: p * u ** (f - 1) / (p + (1 - p) * u), 0, 1, epsabs=0, epsrel=1e-11)[0]
        assert area == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [0.01, 0.2, 0.49, 0.51, 0.9, 1.0])
def test_both_moments_are_the_sums_over_all_counts(p: float) -> None:
    for f in (1, 2, 3, 7, 19, 20, 35):
        mean, square = moments(f, p)
        assert mean == pytest.approx(added_up(f, p), rel=1e-12)
        assert square == pytest.approx(added_up(f, p, 2), rel=1e-11)


def test_one_and_two_records_have_their_closed_forms() -> None:
    for p in (0.002, 0.3, 0.7):
        odds = p / (1 - p)
        assert moments(1, p)[0] == pytest.approx(odds * math.log(1 / p), rel=1e-14)
        assert moments(2, p)[0] == pytest.approx(odds - odds**2 * math.log(1 / p), rel=1e-13)


def test_a_whole_population_gives_one_over_f_and_huge_classes_a_small_risk() -> None:
    f = np.array([1, 2, 19, 20, 1000, 10**6])
    np.testing.assert_allclose(reciprocal_moments(f, np.ones(6))[0], 1 / f, rtol=1e-15)
    # 1/F is near p/f, and above it (Jensen)
    mean, square = reciprocal_moments(np.array([10**6]), np.array([0.01]))
    assert mean[0] == pytest.approx(1e-8 * (1 + 0.99e-6), rel=1e-9)
    assert square[0] == pytest.approx(mean[0] ** 2, rel=2e-6)


def test_the_risk_is_the_mean_of_drawn_populations() -> None:
    g = np.random.default_rng(5)
    for f, p in ((1, 0.05), (2, 0.3), (6, 0.02), (25, 0.6)):
        one_over = 1 / (f + g.negative_binomial(f, p, 400_000))
        mean, square = moments(f, p)
        sd = math.sqrt(square - mean**2)
        assert one_over.std() == pytest.approx(sd, rel=0.02)
        assert abs(one_over.mean() - mean) < 4 * sd / math.sqrt(400_000)


# Files


def test_francdat_has_its_counts_weights_and_exact_risks() -> None:
    release = as_it_is(microdata(WEIGHT, **FRANCDAT))
    score = IndividualRisk().score(release)
    found = expected_in_population(release, Snooper(), "wildcard").classes
    assert found.per_record(found.matches).tolist() == [2, 2, 2, 1, 1, 1, 1, 2]
    assert found.per_record(found.matched_weights).tolist() == [110, 84.5, 84.5, 17, 541, 8, 5, 110]

    def two(weights: float) -> float:
        odds = 2 / (weights - 2)
        return odds - odds**2 * math.log(weights / 2)

    ones = [math.log(w) / (w - 1) for w in (17, 541, 8, 5)]  # p/(1-p) ln(1/p) with p = 1/w
    expected = [two(110), two(84.5), two(84.5), *ones, two(110)]
    np.testing.assert_allclose(score.records, expected, rtol=1e-13)  # type: ignore[arg-type]
    assert score.value == pytest.approx(np.mean(expected), rel=1e-13)
    assert score.details["expected number identified"] == pytest.approx(sum(expected), rel=1e-13)
    assert score.details["largest risk"] == pytest.approx(math.log(5) / 4)
    assert score.details["records above the threshold"] == 3


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, None]),
        st.floats(1, 30, allow_subnormal=False),
        st.sampled_from([1, 2, 3, None]),
    ),
    min_size=1,
    max_size=12,
)


def small(rows: list[tuple[Any, ...]]) -> Microdata:
    x, y, w, home = zip(*rows, strict=True)
    typed = {
        "x": pa.array(x, pa.string()),
        "y": pa.array(y, pa.int64()),
        "w": pa.array(w),
        "home": pa.array(home, pa.int64()),
    }
    return microdata(HOUSES, **typed)


def by_hand(rows: list[tuple[Any, ...]], rule: str) -> list[float]:
    def match(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        pairs = list(zip(a[:2], b[:2], strict=True))
        if rule == "wildcard":
            return all(s is None or t is None or s == t for s, t in pairs)
        return all(s == t for s, t in pairs)

    kept = [r for r in rows if rule != "ignored" or None not in r[:2]]
    risks = []
    for row in rows:
        alike = [other for other in kept if match(row, other)]
        if row not in kept:
            risks.append(math.nan)
            continue
        risks.append(added_up(len(alike), min(1.0, len(alike) / sum(other[2] for other in alike))))
    return risks


@pytest.mark.parametrize("rule", ["wildcard", "value", "ignored"])
@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_small_files_have_the_risks_found_by_hand(rule: Any, rows: list[tuple[Any, ...]]) -> None:
    expected = np.array(by_hand(rows, rule))
    release = as_it_is(small(rows))
    if np.isnan(expected).all():
        with pytest.raises(NotApplicable, match="every record has a missing key"):
            IndividualRisk(missing=rule).score(release)
        return
    score = IndividualRisk(missing=rule).score(release)
    np.testing.assert_allclose(score.records, expected, rtol=1e-9)  # type: ignore[arg-type]
    assert score.value == pytest.approx(np.nanmean(expected), rel=1e-9)
    assert score.details["records left out"] == np.isnan(expected).sum()
    homes = [f"own {i}" if row[3] is None else row[3] for i, row in enumerate(rows)]
    kept = {h for h, r in zip(homes, expected, strict=True) if not math.isnan(r)}
    exact = {
        h: float(1 - math.prod(1 - Fraction(r) for k, r in zip(homes, expected, strict=True) if k == h and r == r))
        for h in kept
    }
    household = IndividualRisk(per="household", missing=rule).score(release)
    assert household.value == pytest.approx(np.mean(list(exact.values())), rel=1e-9)
    assert household.details["households"] == len(kept)
    seen = [exact[h] if r == r else math.nan for h, r in zip(homes, expected, strict=True)]
    np.testing.assert_allclose(household.records, seen, rtol=1e-9)  # type: ignore[arg-type]


def test_a_household_is_at_least_as_much_at_risk_as_any_of_its_members() -> None:
    sample = census(households=800).sample
    snooper = Snooper(keys=("sex", "age", "district"))
    person, household = (
        IndividualRisk(per=per).score(as_it_is(sample), snooper).records for per in ("person", "household")
    )
    assert (household >= person - 1e-15).all()  # type: ignore[operator]


def test_a_known_fraction_is_the_same_as_equal_weights() -> None:
    data = microdata(WEIGHT, x=["a", "a", "b", None], w=[20.0] * 4)
    one, two = (IndividualRisk(fraction=fraction).score(as_it_is(data)) for fraction in (None, 0.05))
    np.testing.assert_allclose(one.records, two.records, rtol=1e-13)  # type: ignore[arg-type]
    assert one.value == pytest.approx(two.value, rel=1e-13)
    assert one.variant != two.variant


def test_a_snooper_who_finds_the_right_class_half_the_time_has_half_the_risk() -> None:
    release = as_it_is(microdata(WEIGHT, **FRANCDAT))
    whole, half = (IndividualRisk().score(release, Snooper(match_probability=m)) for m in (1, 0.5))
    assert half.value == pytest.approx(whole.value / 2)
    assert half.interval is not None
    assert whole.interval is not None
    np.testing.assert_allclose(half.interval, np.array(whole.interval) / 2)
    assert IndividualRisk().score(release, Snooper(match_probability=0)).value == 0


def test_a_whole_population_has_one_over_f_and_nothing_left_to_estimate() -> None:
    data = microdata({**HOUSES}, x=["a", "a", "b"], home=[1, 2, 2], w=[1.0] * 3)
    score = IndividualRisk().score(as_it_is(data))
    assert score.records.tolist() == [0.5, 0.5, 1]  # type: ignore[union-attr]
    assert score.interval is None
    household = IndividualRisk(per="household").score(as_it_is(data))
    assert household.records.tolist() == [0.5, 1, 1]  # type: ignore[union-attr]
    assert household.interval is None


def test_records_that_are_not_released_have_no_risk() -> None:
    data = microdata(WEIGHT, x=["a"] * 30, w=[10.0] * 30)
    score = IndividualRisk(fraction=0.1).score(Sample(size=12).apply(data, Draws(1)))
    assert score.records is not None
    assert np.isnan(score.records).sum() == 18


def test_without_alignment_the_file_has_a_risk_and_no_record_does() -> None:
    data = microdata(HOUSES, x=["a", "a", "b"], home=[1, 2, 2], w=[3.0] * 3)
    for per in ("person", "household"):
        score = IndividualRisk(per=per).score(Release.of(data, data))
        assert score.value > 0
        assert score.records is None


def test_duckdb_gives_the_same_risks(monkeypatch: pytest.MonkeyPatch) -> None:
    g = np.random.default_rng(3)
    y = pa.array(g.integers(0, 3, 30), mask=g.random(30) < 0.2)
    data = microdata(HOUSES, x=[*"abc"] * 10, y=y, home=g.integers(0, 12, 30), w=g.uniform(1, 9, 30))
    there = in_pieces(data, monkeypatch)
    for per in ("person", "household"):
        one, two = (IndividualRisk(per=per).score(Release(d, (d,))) for d in (data, there))
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.interval == pytest.approx(two.interval, rel=1e-9)
        np.testing.assert_allclose(one.records, two.records, rtol=1e-12)  # type: ignore[arg-type]


# The interval


@pytest.mark.parametrize(("classes", "p"), [(5, 0.2), (40, 0.02), (400, 0.1), (400, 0.9)])
def test_the_interval_covers_the_true_mean_of_one_over_f_when_the_model_holds(classes: int, p: float) -> None:
    g = np.random.default_rng(11)
    f = g.geometric(0.4, classes)
    data = microdata(x=np.repeat(np.arange(classes), f))
    score = IndividualRisk(fraction=p).score(as_it_is(data))
    assert score.interval is not None
    low, high = score.interval
    truth = (f / (f + g.negative_binomial(f, p, (4000, classes)))).sum(axis=1) / f.sum()
    covered = ((low <= truth) & (truth <= high)).mean()
    assert 0.93 < covered < 0.99


def test_the_variance_of_households_is_that_of_their_linearised_sum() -> None:
    data = microdata(HOUSES, x=[*"aabbcdd"], home=[1, 1, 1, 2, 2, 3, None], w=[2.0, 3.5, 4, 1, 5, 2, 2.5])
    release = as_it_is(data)
    risks = expected_in_population(release, Snooper(), "wildcard")

    def total(risk: np.ndarray) -> float:
        changed = ClassRisks(risks.classes, risk, risks.variance, risks.most, risks.source)
        return float(household_risks(release, changed)[1].sum())

    step = 1e-6 * np.eye(len(risks.risk))
    slopes = np.array([(total(risks.risk + s) - total(risks.risk - s)) / 2e-6 for s in step])
    assert household_risks(release, risks)[2] == pytest.approx(slopes**2 @ risks.variance, rel=1e-6)


# What is refused


def test_a_release_without_weights_is_a_sentence() -> None:
    with pytest.raises(NotApplicable, match=r"the released file has none.*or the share of the population"):
        IndividualRisk().score(as_it_is(microdata(x=["a"])))


def test_weights_that_add_up_to_fewer_persons_than_records_are_a_sentence() -> None:
    data = microdata(WEIGHT, x=["a", "a", "b"], w=[0.5, 0.7, 3])
    with pytest.raises(NotApplicable, match="for 2 of 3 records the survey weights"):
        IndividualRisk().score(as_it_is(data))


def test_a_few_weights_below_one_give_the_largest_risk_instead_of_a_refusal() -> None:
    data = microdata(WEIGHT, x=[*range(40)], w=[0.8, *[2.0] * 39])
    score = IndividualRisk().score(as_it_is(data))
    assert score.records is not None
    np.testing.assert_allclose(score.records, [1.0, *[np.log(2)] * 39])  # p / (1 - p) ln(1 / p) at p = 1/2
    assert score.details["records with weights below 1 on average"] == 1
    assert IndividualRisk(fraction=0.5).score(as_it_is(data)).details["records with weights below 1 on average"] == 0


@pytest.mark.parametrize(("bad", "says"), [(0.0, "a weight of zero"), (-2.0, "a negative weight"), (None, "no weight")])
def test_weights_that_are_none_are_a_sentence(bad: float | None, says: str) -> None:
    data = microdata(WEIGHT, x=["a", "b"], w=pa.array([2.0, bad]))
    with pytest.raises(DataError, match=f"1 record has {says}"):
        IndividualRisk().score(as_it_is(data))
    assert IndividualRisk(fraction=0.5).score(as_it_is(data)).value > 0


def test_households_that_are_not_known_are_a_sentence() -> None:
    with pytest.raises(NotApplicable, match="needs to know who lives together"):
        IndividualRisk(per="household", fraction=0.1).score(as_it_is(microdata(x=["a"])))


def test_a_fraction_must_be_one() -> None:
    for wrong in (0, 1.5, -0.1):
        with pytest.raises(ParameterError, match="fraction of individual_risk must be"):
            IndividualRisk(fraction=wrong)


def test_a_warning_says_that_the_risk_is_too_low_where_many_records_are_unique() -> None:
    """21 of 200 records unique, then 20: more than a tenth, and not."""
    for unique, warned in ((21, True), (20, False)):
        keys = [*range(unique), *([-1] * (200 - unique))]
        data = microdata(HOUSES, x=keys, w=[5.0] * 200, home=list(range(200)))
        for per in ("person", "household"):
            words = IndividualRisk(per=per).score(Release.as_it_is(data), Snooper(keys=("x",))).words  # type: ignore[arg-type]
            assert ("too low where many records are unique, as 21 are here: compare log_linear_risk" in words) is warned
        counted = IndividualRisk(fraction=1.0).score(Release.as_it_is(data), Snooper(keys=("x",)))
        assert "too low" not in counted.words  # nothing is estimated where everybody is in the file


def test_one_record_and_no_record() -> None:
    one = five().take(np.arange(1))
    assert IndividualRisk().score(as_it_is(one)).value == pytest.approx(math.log(120) / 119)
    with pytest.raises(NotApplicable, match="no records"):
        IndividualRisk().score(as_it_is(five().take(np.arange(0))))
