"""Promises kept by every registered measure: those of sfumato.testing, and the same score on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract_cases import MEASURES, extreme_release, on_spark

from sfumato.contract import Measure, Release
from sfumato.testing import EXTREMES, MEASURE_PROMISES, score_of, scores_extreme_data


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("promise", MEASURE_PROMISES)
def test_a_measure_keeps_every_promise(
    promise: Callable[[Measure, Release], None], measure: Measure, release: Release
) -> None:
    promise(measure, release)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_a_measure_scores_extreme_data_or_says_in_a_sentence_why_not(measure: Measure, extreme: str) -> None:
    scores_extreme_data(measure, extreme_release(extreme))


def assert_same_score(measure: Measure, here: Release, there: Release) -> None:
    one, two = score_of(measure, here), score_of(measure, there)
    assert two.value == pytest.approx(one.value, rel=1e-6)
    assert two.measure == one.measure


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_scores_the_same_on_duckdb(measure: Measure, release: Release, release_on_duckdb: Release) -> None:
    assert_same_score(measure, release, release_on_duckdb)


@pytest.mark.parametrize("measure", on_spark(MEASURES))
def test_a_measure_scores_the_same_on_spark(measure: Measure, release: Release, release_on_spark: Release) -> None:
    assert_same_score(measure, release, release_on_spark)
