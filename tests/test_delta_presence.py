"""δ-presence and k-map: the paper's table, comparing every record with every person, and populations that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from by_class import RULES, Row, file, matches
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import as_it_is

from sfumato import Snooper
from sfumato.data.classes import Missing
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError
from sfumato.risk import DeltaPresence, KMap
from sfumato.schema import Attribute, Schema

PUBLIC: list[Row] = [("47*", "America")] * 6 + [("48*", "Europe")] * 3
"""Nergiz et al. 2007: nine persons, generalised; six of them are in the private table, four Americans and two Europeans."""
PRIVATE: list[Row] = [("47*", "America")] * 4 + [("48*", "Europe")] * 2


def test_the_generalised_table_of_the_paper_is_present_between_a_half_and_two_thirds() -> None:
    snooper = Snooper(population=file(PUBLIC))
    score = DeltaPresence(delta_min=1 / 2, delta_max=2 / 3).score(as_it_is(file(PRIVATE)), snooper)
    assert score.value == pytest.approx(2 / 3)
    assert score.details["smallest probability"] == pytest.approx(2 / 3)
    assert score.details["persons above delta_max"] == score.details["persons below delta_min"] == 0
    assert score.records is not None
    np.testing.assert_allclose(score.records, 2 / 3)
    assert DeltaPresence(delta_max=0.6).score(as_it_is(file(PRIVATE)), snooper).details["persons above delta_max"] == 9


def test_somebody_who_is_surely_not_in_the_file_is_below_every_lower_bound() -> None:
    """ARX and the paper both count persons whose class has nobody released: their probability is 0."""
    snooper = Snooper(population=file([*PUBLIC, ("49*", "Asia")]))
    score = DeltaPresence(delta_min=0.1).score(as_it_is(file(PRIVATE)), snooper)
    assert score.details["persons below delta_min"] == 1
    assert score.details["smallest probability"] == 0


def test_a_table_of_counts_is_a_population() -> None:
    schema = Schema((*file(PUBLIC).schema, Attribute("count", "weight")))  # type: ignore[arg-type]
    table = Microdata(pa.table({"k0": ["47*", "48*"], "k1": ["America", "Europe"], "count": [6.0, 3.0]}), schema)
    release = as_it_is(file(PRIVATE))
    for measure in (DeltaPresence(), KMap(k=4)):
        one, two = (measure.score(release, Snooper(population=p)) for p in (table, file(PUBLIC)))
        assert one.details == two.details
        assert one.value == pytest.approx(two.value)


def test_a_record_that_may_be_one_of_two_persons_shows_each_of_them_with_a_half() -> None:
    snooper = Snooper(population=file([("a", 1), ("a", 2), ("b", 1)]))
    score = DeltaPresence().score(as_it_is(file([("a", None)])), snooper)
    assert score.value == 0.5
    assert score.details["persons in the population"] == 3
    assert KMap(k=3).score(as_it_is(file([("a", None)])), snooper).records.tolist() == [2]  # type: ignore[union-attr]


keys = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))


@given(st.lists(keys, min_size=1, max_size=10), st.lists(keys, min_size=1, max_size=20), st.sampled_from(RULES))
@settings(max_examples=120, deadline=None)
def test_they_are_what_comparing_every_record_with_every_person_gives(
    released: list[Row], persons: list[Row], rule: Missing
) -> None:
    def kept(rows: list[Row]) -> list[int]:
        return [i for i, row in enumerate(rows) if not (rule == "ignored" and None in row)]

    records, everybody = kept(released), kept(persons)
    f = np.array([sum(matches(released[i], persons[j], rule) for j in everybody) for i in records], float)
    snooper, release = Snooper(population=file(persons)), as_it_is(file(released))
    if not f.any():
        with pytest.raises(NotApplicable):
            KMap(missing=rule).score(release, snooper)
        return
    below = KMap(k=2, missing=rule).score(release, snooper)
    spread = np.full(len(released), np.nan)
    spread[records] = f
    np.testing.assert_array_equal(below.records, spread)  # type: ignore[arg-type]
    assert below.value == pytest.approx((f < 2).mean())
    assert below.details["records that nobody matches"] == (f == 0).sum()

    present = {
        j: min(1.0, sum(1 / n for i, n in zip(records, f, strict=True) if n and matches(released[i], persons[j], rule)))
        for j in everybody
    }
    score = DeltaPresence(delta_max=0.6, delta_min=0.2, missing=rule).score(release, snooper)
    assert score.value == pytest.approx(max(present.values()))
    assert score.details["smallest probability"] == pytest.approx(min(present.values()))
    assert score.details["persons above delta_max"] == sum(p > 0.6 + 1e-8 for p in present.values())
    assert score.details["persons below delta_min"] == sum(p < 0.2 - 1e-8 for p in present.values())
    slow = np.full(len(released), np.nan)
    for i, n in zip(records, f, strict=True):
        own = [present[j] for j in everybody if matches(released[i], persons[j], rule)]
        slow[i] = sum(own) / n if n else np.nan
    np.testing.assert_allclose(score.records, slow)  # type: ignore[arg-type]


REFUSALS: dict[str, tuple[Any, str]] = {
    "none": (None, "needs a file or table of the population"),
    "other columns": (file([("a", 1)], keys=1), "key 'k1' is not in the population table"),
    "other labels": (file([("47906", "USA")]), "nobody in the population has the keys of a released record"),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("measure", [DeltaPresence(), KMap()])
def test_populations_that_cannot_be_used_are_refused_in_a_sentence(case: str, measure: Any) -> None:
    population, says = REFUSALS[case]
    with pytest.raises(NotApplicable, match=says):
        measure.score(as_it_is(file(PRIVATE)), Snooper(population=population))


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ParameterError, match="delta_min of delta_presence must be at most delta_max"):
        DeltaPresence(delta_min=0.7, delta_max=0.5)
