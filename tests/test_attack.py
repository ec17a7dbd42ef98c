"""The shape of an attack: guesses, how they are scored, and the interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from statsmodels.stats.proportion import proportion_confint

from sfumato.contract import (
    Attack,
    Draws,
    Guesses,
    Release,
    Snooper,
    Success,
    build,
    param,
    registered,
    success,
    wilson,
)
from sfumato.datasets import five
from sfumato.errors import DataError, NotApplicable, ParameterError


def guesses(right: list[float], baseline: list[float]) -> Guesses:
    n = len(right)
    ids = np.arange(n)
    return Guesses(ids, ids, ids, np.array(right, float), np.array(baseline, float))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilsons_interval_is_that_of_statsmodels(n: int, share: float, level: float) -> None:
    hits = round(share * n)
    assert_allclose(wilson(hits, n, level), proportion_confint(hits, n, 1 - level, "wilson"), atol=1e-12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 200), st.integers(0, 200))
def test_wilsons_interval_holds_the_share_and_stays_between_0_and_1(n: int, hits: int) -> None:
    hits = min(hits, n)
    low, high = wilson(hits, n)
    assert 0 <= low <= hits / n + 1e-12
    assert hits / n - 1e-12 <= high <= 1
    assert (low == 0) == (hits == 0) or low < 1e-12
    assert low < high


def test_wilsons_interval_covers_about_as_often_as_it_says() -> None:
    g = np.random.default_rng(1)
    hits = g.binomial(50, 0.2, 4000)
    inside = [low <= 0.2 <= high for low, high in (wilson(int(h), 50) for h in hits)]
    assert 0.93 < np.mean(inside) < 0.97


def test_success_is_the_mean_probability_of_a_right_answer_beyond_the_baseline() -> None:
    found = success(guesses([1, 0, 0.5, 1], [0.25, 0.25, 0.25, 0.25]))
    assert found == Success(4, 0.625, wilson(2.5, 4), 0.25)
    assert_allclose(found.excess, (0.625 - 0.25) / 0.75)
    assert success(guesses([1, 1], [0.5, 0.5]), level=0.8).level == 0.8
    assert success(guesses([0, 0], [0.5, 0.5])).excess == -1  # worse than guessing
    assert success(guesses([1, 1], [1, 1])).excess == 0  # nothing was left to learn


def test_nobody_to_attack_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="nobody to attack"):
        success(guesses([], []))


@pytest.mark.parametrize("part", ["guess", "truth", "right", "baseline"])
def test_guesses_of_another_number_than_targets_are_refused(part: str) -> None:
    columns = dict.fromkeys(("target", "guess", "truth", "right", "baseline"), np.zeros(3))
    columns[part] = np.zeros(2)
    with pytest.raises(DataError, match=f"gave {part} for another number of targets"):
        Guesses(**columns)  # type: ignore[arg-type]


def test_an_attack_of_ones_own_is_registered_and_scored_like_any_other() -> None:
    class Coin(Attack):
        """Answers at random."""

        sides: int = param(default=2, doc="how many answers there are", low=2, integer=True)

        def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
            """Guess."""
            n = len(outcome.original)
            right = np.full(n, 1 / self.sides)
            return Guesses(np.arange(n), np.zeros(n), np.zeros(n), right, right)

    assert registered("attack")["coin"] is Coin
    assert {"attribution", "predict_by_model"} <= set(registered("attack"))
    coin = build("attack", {"attack": "coin", "sides": 4})
    people = five()
    found = success(coin.run(Release.of(people, people), Snooper(), Draws(1)))
    assert (found.targets, found.rate, found.excess) == (5, 0.25, 0)
    with pytest.raises(ParameterError, match="sides of coin must be a whole number of at least 2"):
        Coin(sides=1)
