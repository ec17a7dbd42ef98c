"""One set of promises, kept by every registered attack: built from its parameters' declarations, as masks and measures are."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from contract_cases import extreme_data, instances, on_spark

from sfumato.contract import Attack, Draws, Guesses, Parametric, Recipe, Release, Snooper, success
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.testing import DRAWS, EXTREMES, RECIPE, SCHEMA, arrow_table, microdata, require_sentence, round_trip

ATTACKS = instances("attack")
SNOOPER = Snooper(coverage=0.5, errors=0.2)


def masked(data: Microdata, recipe: Recipe = RECIPE) -> Release:
    """Mask a file, with other people beside it who were set aside."""
    others = arrow_table()
    if len(data) == others.num_rows:
        others = others.take(np.arange(len(data) - 1, -1, -1))
    return dataclasses.replace(recipe.apply(data, DRAWS), holdout=Microdata(others, SCHEMA))


def guessed(attack: Attack, outcome: Release, snooper: Snooper = SNOOPER, seed: int = 1) -> Guesses | None:
    """Run an attack; None if it says that it does not apply."""
    try:
        guesses = attack.run(outcome, snooper, Draws(seed))
    except NotApplicable as reason:
        require_sentence(reason, outcome.original)
        return None
    return guesses


def assert_same_guesses(one: Guesses | None, two: Guesses | None) -> None:
    assert (one is None) is (two is None)
    if one is None or two is None:
        return
    order = np.argsort(one.target, kind="stable"), np.argsort(two.target, kind="stable")
    for field in ("target", "truth", "right", "baseline"):
        a, b = (np.asarray(getattr(g, field))[o] for g, o in zip((one, two), order, strict=True))
        if a.dtype.kind in "iufb":
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=field)
        else:
            assert a.tolist() == b.tolist(), field


def assert_guesses(guesses: Guesses) -> None:
    assert ((guesses.right >= 0) & (guesses.right <= 1)).all()
    assert ((guesses.baseline >= 0) & (guesses.baseline <= 1)).all()
    assert guesses.sure is None or len(guesses.sure) == len(guesses)
    if len(guesses):
        found = success(guesses)
        assert found.interval[0] <= found.rate <= found.interval[1]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_described_and_written_like_everything_else(attack: Parametric) -> None:
    assert type(attack).__dict__.get("__doc__")
    assert all(p.doc for p in attack.parameters().values())
    assert round_trip(attack) == attack
    assert attack.with_() == attack


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_same_draws_give_the_same_guesses(attack: Attack, data: Microdata) -> None:
    outcome = masked(data)
    one, two = guessed(attack, outcome), guessed(attack, masked(data))
    assert_same_guesses(one, two)
    if one is not None and two is not None:
        assert np.array_equal(np.asarray(one.guess), np.asarray(two.guess))
        assert_guesses(one)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_leaves_both_files_untouched(attack: Attack, data: Microdata) -> None:
    outcome = masked(data)
    before = outcome.original.digest(), outcome.masked.digest()
    guessed(attack, outcome)
    assert (outcome.original.digest(), outcome.masked.digest()) == before == (microdata().digest(), before[1])


def guessed_unmasked(attack: Attack, data: Microdata) -> Guesses | None:
    """Nothing is drawn by a mask here: its last digits may differ on another engine."""
    return guessed(attack, masked(data, Recipe(())))


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_guesses_the_same_on_duckdb(attack: Attack, data: Microdata, data_on_duckdb: Microdata) -> None:
    assert_same_guesses(guessed_unmasked(attack, data), guessed_unmasked(attack, data_on_duckdb))


@pytest.mark.parametrize("attack", on_spark(ATTACKS))
def test_an_attack_guesses_the_same_on_spark(attack: Attack, data: Microdata, data_on_spark: Microdata) -> None:
    assert_same_guesses(guessed_unmasked(attack, data), guessed_unmasked(attack, data_on_spark))


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_an_attack_on_extreme_data_gives_guesses_or_a_sentence(attack: Attack, extreme: str) -> None:
    data = extreme_data(extreme)
    outcome = masked(data, Recipe(()))
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            guesses = attack.run(outcome, Snooper(keys=("age", "region", "pay")), DRAWS)
    except SfumatoError as error:
        require_sentence(error, data)
        return
    assert_guesses(guesses)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_without_alignment_guesses_or_says_what_it_needs(attack: Attack, data: Microdata) -> None:
    outcome = masked(data)
    loose: Any = dataclasses.replace(Release.of(outcome.original, outcome.masked), holdout=outcome.holdout)
    found = guessed(attack, loose)
    if found is not None:
        assert_guesses(found)
