"""The probability that a unique match is correct: exact enumeration, Monte Carlo, and files it cannot be told for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from samples import release, seen
from scipy.stats import binom
from small_files import in_pieces, microdata

from sfumato import Release, Snooper
from sfumato.data.classes import Classes, classes_of
from sfumato.errors import DataError, NotApplicable
from sfumato.risk import LogLinearRisk, MatchRisk, PopulationUniques
from sfumato.risk.population_uniques import frequencies_of
from sfumato.risk.unique_matches import outside, outside_by_weight, outside_interval


def one_class(weights: list[float]) -> Classes:
    """A file of one class of records with these weights."""
    codes, values = (np.zeros(1, np.int32),), (["a"],)
    n = len(weights)
    labels = lambda: np.zeros(n, np.int64)  # noqa: E731
    return Classes(("x",), codes, values, np.array([n]), np.array([sum(weights)]), "value", n, labels)


def test_theta_is_the_formula_of_skinner_and_elliot() -> None:
    made = release(x=["a", "b", "c", "d", "d", "e", "e"])  # n₁ = 3, n₂ = 2
    score = MatchRisk(fraction=0.25).score(made)
    assert score.value == pytest.approx(0.25 * 3 / (0.25 * 3 + 2 * 0.75 * 2))
    assert score.interval is not None
    assert score.interval[0] < score.value < score.interval[1]
    assert "3 of 7 records are unique" in score.words


@pytest.mark.parametrize("pi", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("persons", [1, 2, 3, 5, 9])
def test_the_estimate_of_matching_persons_and_its_variance_are_unbiased(pi: float, persons: int) -> None:
    """By enumeration: one class of F persons, each in the file with probability π."""
    bias = square = variance = 0.0
    for f in range(persons + 1):
        chance = float(binom.pmf(f, persons, pi))
        others, spread = outside(seen(np.array([f])), pi) if f else (0.0, 0.0)
        error = others - (persons - 1) * (f == 1)
        bias, square, variance = bias + chance * error, square + chance * error**2, variance + chance * spread
    assert bias == pytest.approx(0, abs=1e-12)
    assert variance == pytest.approx(square)


@pytest.mark.parametrize("chances", [[0.5, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.2, 0.2], [0.9, 0.3, 0.5, 0.05]])
def test_with_unequal_weights_the_estimate_is_unbiased_and_its_variance_not_too_small(chances: list[float]) -> None:
    """By enumeration over all samples of one class whose persons are drawn with their own probabilities."""
    bias = square = variance = 0.0
    for drawn in product((False, True), repeat=len(chances)):
        chance = float(np.prod([p if d else 1 - p for p, d in zip(chances, drawn, strict=True)]))
        weights = [1 / p for p, d in zip(chances, drawn, strict=True) if d]
        others, spread = outside_by_weight(one_class(weights)) if weights else (0.0, 0.0)
        error = others - (len(chances) - 1) * (len(weights) == 1)
        bias, square, variance = bias + chance * error, square + chance * error**2, variance + chance * spread
    assert bias == pytest.approx(0, abs=1e-12)
    assert variance >= square * (1 - 1e-12)
    if len(set(chances)) == 1:
        assert variance == pytest.approx(square)


def test_with_missing_keys_the_estimate_is_unbiased_for_persons_counted_as_they_would_be_recorded() -> None:
    """By enumeration: (a, ?) matches both (a, 1) and (a, 2), which do not match each other, so that pairs are not mutual."""
    x, y = ["a", "a", "a", "b", "b"], [1, 2, None, 1, None]
    match = [[x[i] == x[j] and (None in (y[i], y[j]) or y[i] == y[j]) for j in range(5)] for i in range(5)]
    for chances in ([0.5] * 5, [0.2, 0.7, 0.4, 0.9, 0.3]):
        bias = 0.0
        for drawn in product((False, True), repeat=5):
            chance = float(np.prod([p if d else 1 - p for p, d in zip(chances, drawn, strict=True)]))
            rows = [i for i in range(5) if drawn[i]]
            true = sum(sum(match[i]) - 1 for i in rows if sum(match[i][j] for j in rows) == 1)
            if not rows:
                continue
            made = release(
                [1 / chances[i] for i in rows], x=[x[i] for i in rows], y=pa.array([y[i] for i in rows], pa.int64())
            )
            found = classes_of(made.masked, ("x", "y"), "wildcard", "w")
            bias += chance * (outside_by_weight(found)[0] - true)
            if len(set(chances)) == 1:
                assert outside(frequencies_of(found), 0.5)[0] == pytest.approx(outside_by_weight(found)[0])
        assert bias == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("pi", [0.01, 0.05])
def test_intervals_hold_theta_of_small_files_too(pi: float) -> None:
    """150 classes, most of them small: two or three keys are shared by two records."""
    g = np.random.default_rng(77)
    F = np.ceil(g.lognormal(1, 1.2, 150)).astype(int)
    held = []
    for _ in range(1500):
        f = g.binomial(F, pi)
        low, high = outside_interval(*outside(seen(f), pi), pi) if f.any() else (0, 0)
        held.append(low <= (F[f == 1] - 1).sum() <= high)
    assert np.mean(held) > 0.92


def test_keys_shared_by_three_widen_the_interval_even_where_none_is_shared_by_two() -> None:
    without = outside_interval(*outside(seen(np.array([1, 1])), 0.01), 0.01)
    many = outside_interval(*outside(seen(np.array([1, 1, *[3] * 20])), 0.01), 0.01)
    assert many[0] == 0
    assert many[1] >= 1.95 * np.sqrt(6 * 0.99**2 / 0.01**2 * 20) > without[1]


def test_where_whole_households_are_drawn_the_estimate_is_far_too_low_and_the_score_warns() -> None:
    """Households of two who look alike: pairs in the file tell nothing of the persons outside."""
    g = np.random.default_rng(20)
    household = g.integers(0, 2000, 1000)  # what the members of each of 1,000 households look like
    alone = g.integers(0, 2000, 1000)  # and of 1,000 households of one
    F = np.bincount(np.concatenate([household, household, alone]), minlength=2000)
    drawn = g.random(1000) < 0.1
    f = np.bincount(np.concatenate([household[drawn], household[drawn], alone[:100]]), minlength=2000)
    true = (f == 1).sum() / F[f == 1].sum()
    data = microdata(
        {"home": {"role": "household", "scale": "unordered"}}, x=np.repeat(np.arange(2000), f), home=np.arange(f.sum())
    )
    for measure in (MatchRisk(fraction=0.1), PopulationUniques(fraction=0.1)):
        score = measure.score(Release.as_it_is(data), Snooper(keys=("x",)))
        assert score.words.endswith("; far too low if whole households were drawn and their members look alike")
        everybody = replace(measure, fraction=1.0).score(Release.as_it_is(data), Snooper(keys=("x",)))
        assert "households" not in everybody.words
    assert MatchRisk(fraction=0.1).score(Release.as_it_is(data), Snooper(keys=("x",))).value < true / 2


@pytest.mark.parametrize(
    "measure",
    [MatchRisk(), MatchRisk(weights="mean"), PopulationUniques(), PopulationUniques("snb"), LogLinearRisk("unique")],
)
@pytest.mark.parametrize("missing", ["wildcard", "value", "ignored"])
def test_duckdb_gives_the_same_and_so_does_another_order_of_the_records(
    measure: Any, missing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = np.random.default_rng(4)
    columns = {name: pa.array(g.integers(0, 5, 200), mask=g.random(200) < 0.03) for name in "xyz"}
    columns["w"] = pa.array(g.uniform(2, 9, 200))
    data = microdata({"w": {"role": "weight", "scale": "ordered"}}, **columns)
    order = g.permutation(200)
    moved = microdata(
        {"w": {"role": "weight", "scale": "ordered"}},
        **{name: column.take(pa.array(order)) for name, column in columns.items()},
    )
    chosen = replace(measure, missing=missing)
    here, there, turned = (chosen.score(Release(d, (d,))) for d in (data, in_pieces(data, monkeypatch, 50), moved))
    for other in (there, turned):
        assert other.value == pytest.approx(here.value, rel=1e-6)
        assert other.interval == pytest.approx(here.interval, rel=1e-3)
        assert other.variant == here.variant
    if here.records is not None:
        np.testing.assert_allclose(there.records, here.records, rtol=1e-6)
        np.testing.assert_allclose(turned.records, here.records[order], rtol=1e-6)


def test_one_record_is_called_one_record() -> None:
    words = MatchRisk(fraction=0.5).score(release(x=["a"])).words
    assert words.startswith("1 of 1 record is unique; in the population about 1 person matches it")


@pytest.mark.parametrize("pi", [0.02, 0.1, 0.4])
def test_intervals_hold_theta_of_the_file_in_about_95_of_100_samples(pi: float) -> None:
    g = np.random.default_rng(2002)
    F = np.minimum(g.zipf(1.9, 4000), 500)
    held = []
    for _ in range(400):
        f = g.binomial(F, pi)
        true = (F[f == 1] - 1).sum()
        low, high = outside_interval(*outside(seen(f), pi), pi)
        held.append(low <= true <= high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_equal_weights_say_the_same_as_the_fraction_they_imply() -> None:
    keys = ["a", "b", "c", "d", "d", "e", "e", "f", "f", "f"]
    given = MatchRisk(fraction=0.2).score(release(x=keys))
    for weights in ("each", "mean"):
        told = MatchRisk(weights=weights).score(release([5.0] * 10, x=keys))
        assert told.value == pytest.approx(given.value)
        assert told.interval == pytest.approx(given.interval)


def test_each_record_counts_by_its_own_weight_unless_one_fraction_is_asked_for() -> None:
    made = release([10.0, 1.0, 1.0, 4.0], x=["a", "b", "c", "c"])
    assert MatchRisk().score(made).value == pytest.approx(2 / (2 + 0 + 3))
    pi = 4 / 16
    assert MatchRisk(weights="mean").score(made).value == pytest.approx(2 * pi / (2 * pi + 2 * (1 - pi) * 1))


def test_where_no_key_is_shared_by_two_the_interval_says_how_little_is_known() -> None:
    score = MatchRisk(fraction=0.01).score(release(x=["a", "b"]))
    assert score.value == 1
    assert score.interval is not None
    assert score.interval[0] < 0.01
    assert score.interval[1] == 1


def test_a_file_of_everybody_has_only_correct_unique_matches() -> None:
    score = MatchRisk(fraction=1.0).score(release(x=["a", "b", "b"]))
    assert (score.value, score.interval) == (1, (1, 1))


def test_a_missing_key_follows_the_rule() -> None:
    made = release(x=["a", "b", "c", "c", None])
    assert MatchRisk(fraction=0.5, missing="value").score(made).details["unique records"] == 3
    assert MatchRisk(fraction=0.5, missing="ignored").score(made).details["unique records"] == 2
    with pytest.raises(NotApplicable, match="no released record is unique"):
        MatchRisk(fraction=0.5).score(made)  # it matches everybody


def test_frequencies_count_records_over_the_number_that_match_them() -> None:
    made = MatchRisk(fraction=0.5).score(release(x=["a", "a", "b", "b"], y=[1, None, 2, 3]))
    assert made.details["unique records"] == 2
    assert made.details["keys shared by two records"] == 1  # (a, 1) and (a, ?)


def test_frequencies_without_missing_keys_are_numbers_of_classes() -> None:
    g = np.random.default_rng(5)
    x = g.integers(0, 30, 60)
    found = frequencies_of(
        Classes(
            ("x",),
            (np.arange(len(np.unique(x)), dtype=np.int32),),
            (range(30),),
            np.unique(x, return_counts=True)[1],
            None,
            "wildcard",
            60,
            lambda: x,
        )
    )
    sizes = np.bincount(x)
    for i in range(1, 8):
        assert found.at(i) == (sizes == i).sum()
    assert (found.records, found.classes) == (60, len(np.unique(x)))


def test_what_cannot_be_told_is_refused_in_a_sentence() -> None:
    with pytest.raises(NotApplicable, match="no released record is unique"):
        MatchRisk(fraction=0.1).score(release(x=["a", "a"]))
    with pytest.raises(NotApplicable, match="fraction="):
        MatchRisk().score(release(x=["a", "b"]))
    with pytest.raises(NotApplicable, match="fewer persons than there are records"):
        MatchRisk().score(release([0.5, 0.5], x=["a", "b"]))
    with pytest.raises(DataError, match="a weight of zero"):
        MatchRisk().score(release([0.0, 5.0], x=["a", "b"]))
    with pytest.raises(NotApplicable, match="no records"):
        MatchRisk(fraction=0.1).score(release(x=pa.array([], pa.string())))
