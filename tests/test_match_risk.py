"""The probability that a unique match is correct: exact enumeration, Monte Carlo, and files it cannot be told for."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from sfumato import Release
from sfumato.classes import Classes
from sfumato.errors import DataError, NotApplicable
from sfumato.microdata import Microdata
from sfumato.risk import MatchRisk
from sfumato.risk.frequencies import Frequencies, frequencies_of
from sfumato.risk.match_risk import outside, outside_by_weight, outside_interval
from sfumato.schema import Attribute, Schema


def release(weights: Any = None, **keys: Any) -> Release:
    attributes = [Attribute(n, "key", "unordered") for n in keys]  # type: ignore[arg-type]
    columns = dict(keys)
    if weights is not None:
        attributes.append(Attribute("w", "weight"))  # type: ignore[arg-type]
        columns["w"] = weights
    data = Microdata(pa.table(columns), Schema(tuple(attributes)))
    return Release.of(data, data, align="rows")


def seen(f: Any) -> Frequencies:
    sizes, counts = np.unique(f[f > 0], return_counts=True)
    return Frequencies(sizes.astype(float), counts.astype(float))


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
