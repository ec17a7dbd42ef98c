"""Promises kept by every registered measure."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from contract_cases import DRAWS, EDGES, MEASURES, NUMBERS, RECIPE, SCHEMA, assert_sentence, local, table

from sfumato.contract import Draws, Holdout, Measure, Need, Recipe, Release, Score, Side, Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.masks import KimNoise, TopCode

# Measures


def snooper_for(measure: Measure) -> Snooper:
    """Return a snooper who has what the measure needs: a table of the population, where it needs one."""
    return Snooper().learn(population=local()) if Need.POPULATION in measure.needs else Snooper()


def beside_others(made: Release, measure: Measure) -> Release:
    """Return the release with other people's records, which no mask has seen, where the measure needs them."""
    others = Holdout.of(Microdata(table(seed=2014), SCHEMA))
    return made.with_holdout(others) if Need.HOLDOUT in measure.needs else made


def assert_score(score: Score, measure: Measure) -> None:
    assert isinstance(score, Score)
    assert not math.isnan(score.value)
    assert score.words
    assert "nan" not in score.words
    assert score.measure == measure.label() != ""
    assert score.side is measure.side in Side
    assert score.direction == ("lower is safer" if measure.side is Side.RISK else "higher is more useful")
    assert score.interval is None or score.interval[0] <= score.value <= score.interval[1]
    assert measure.label() in str(score)
    json.dumps(score.to_dict(), allow_nan=False)
    assert "records" not in score.to_dict()
    assert "records=" not in repr(score)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_scores_a_release(measure: Measure, release: Release) -> None:
    score = measure.score(beside_others(release, measure), snooper_for(measure))
    assert_score(score, measure)
    if score.records is not None:
        assert len(score.records) == len(release.original)
        of_all = measure.of_records(score.records[~np.isnan(score.records)])
        assert of_all is None or of_all == pytest.approx(score.value, rel=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_same_release_has_the_same_score(measure: Measure, data: Microdata) -> None:
    recipe = KimNoise() >> TopCode()
    one, two = (
        measure.score(beside_others(recipe.apply(data, Draws(3)), measure), snooper_for(measure)) for _ in range(2)
    )
    assert one == two
    assert measure.score(beside_others(recipe.apply(data, Draws(3)), measure), snooper_for(measure)) == one


@pytest.mark.parametrize("measure", MEASURES)
def test_measuring_leaves_both_files_untouched(measure: Measure, data: Microdata) -> None:
    made = KimNoise().apply(data, DRAWS)
    before = made.original.digest(), made.masked.digest()
    measure.score(beside_others(made, measure), snooper_for(measure))
    fresh = KimNoise().apply(local(), DRAWS)
    assert (made.original.digest(), made.masked.digest()) == before == (fresh.original.digest(), fresh.masked.digest())


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_learns_nothing_into_itself(measure: Measure, release: Release) -> None:
    shown, written = repr(measure), None if "function" in str(measure) else measure.to_dict()
    ready = measure.prepare(release.original)
    measure.score(beside_others(release, measure), snooper_for(measure))
    assert ready == measure
    assert repr(ready) == repr(measure) == shown
    assert written is None or ready.to_dict() == measure.to_dict() == written


@pytest.mark.parametrize("measure", MEASURES)
def test_observations_have_the_declared_size_and_average_to_a_value(measure: Measure, data: Microdata) -> None:
    ready = measure.prepare(data)
    recipe = KimNoise(lambda2=0.3) >> TopCode()
    made = [beside_others(recipe.apply(data, Draws(s)), measure) for s in range(3)]
    observations = np.stack([ready.observe(release, snooper_for(measure)) for release in made])
    assert observations.shape == (3, measure.size)
    values = ready.value(observations)
    assert values.shape == (3,)
    assert float(ready.value(observations.mean(axis=0))) == ready.estimate(observations)[0]


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_without_alignment_says_whether_it_applies(measure: Measure, release: Release) -> None:
    loose = Release.of(release.original, release.masked)
    try:
        assert_score(measure.score(beside_others(loose, measure), snooper_for(measure)), measure)
    except NotApplicable as reason:
        assert_sentence(reason, release.original)


def assert_same_score(measure: Measure, here: Release, there: Release) -> None:
    one, two = (measure.score(beside_others(r, measure), snooper_for(measure)) for r in (here, there))
    assert two.value == pytest.approx(one.value, rel=1e-6)
    assert two.measure == one.measure


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_scores_the_same_on_duckdb(measure: Measure, release: Release, release_on_duckdb: Release) -> None:
    assert_same_score(measure, release, release_on_duckdb)


@pytest.mark.parametrize("measure", [m for m in MEASURES if str(m.id).endswith("-0")])  # Spark takes seconds for each
def test_a_measure_scores_the_same_on_spark(measure: Measure, release: Release, release_on_spark: Release) -> None:
    assert_same_score(measure, release, release_on_spark)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("edge", EDGES)
def test_a_measure_scores_extreme_data_or_says_in_a_sentence_why_not(measure: Measure, edge: str) -> None:
    data = local(edge)
    made = Recipe(()).apply(data, DRAWS)
    try:
        with np.errstate(invalid="ignore"):  # a warning on the way to a refusal does no harm
            score = measure.score(made, snooper_for(measure))
    except SfumatoError as error:
        assert_sentence(error, data)
        return
    assert_score(score, measure)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_names_the_columns_it_looks_at(measure: Measure, release: Release) -> None:
    columns = measure.columns(release.original.schema)
    if columns is None:
        return
    assert set(columns) <= set(release.masked.schema.names())
    part = RECIPE.apply(release.original.local({*columns, *NUMBERS, "home"}), DRAWS)
    assert (
        measure.score(beside_others(part, measure), snooper_for(measure)).value
        == measure.score(beside_others(release, measure), snooper_for(measure)).value
    )
