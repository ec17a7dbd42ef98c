"""Prosecutor, journalist and marketer: counts by hand, the definitions' relations, and tables that do not fit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from francdat import FRANCDAT, WEIGHT
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import as_it_is, in_pieces, microdata

from sfumato import Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, five
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.risk import IndividualRisk, KAnonymity, Reidentification

COUNTS = {"n": {"role": "weight", "scale": "ordered"}}
PERSON = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([1, 2, 3]))


def people(rows: list[tuple[Any, Any]]) -> Microdata:
    x, y = zip(*rows, strict=True)
    return microdata(x=pa.array(x, pa.string()), y=pa.array(y, pa.int64()))


def alike(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    return all(s is None or t is None or s == t for s, t in zip(a, b, strict=True))


@settings(max_examples=80, deadline=None)
@given(everybody=st.lists(PERSON, min_size=1, max_size=20), data=st.data())
def test_small_populations_have_the_risks_found_by_hand(everybody: list[tuple[Any, Any]], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.sampled_from(range(len(everybody))), min_size=1, unique=True))
    hidden = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=len(drawn), max_size=len(drawn)))
    sample = [
        tuple(None if h and i % 3 == 0 else v for v, h in zip(everybody[k], hide, strict=True))
        for i, (k, hide) in enumerate(zip(drawn, hidden, strict=True))
    ]
    release, snooper = as_it_is(people(sample)), Snooper(population=people(everybody))  # type: ignore[arg-type]
    f = [sum(alike(row, other) for other in sample) for row in sample]  # type: ignore[arg-type]
    total = [sum(alike(row, other) for other in everybody) for row in sample]  # type: ignore[arg-type]
    for attacker, counts in (("prosecutor", f), ("journalist", total), ("marketer", total)):
        score = Reidentification(attacker).score(release, snooper)  # type: ignore[arg-type]
        np.testing.assert_allclose(score.records, [1 / c for c in counts], rtol=1e-14)  # type: ignore[arg-type]
        assert score.value == pytest.approx(float(sum(Fraction(1, c) for c in counts) / len(counts)))
        assert score.interval is None
    for attacker, counts in (("prosecutor", f), ("journalist", total)):
        largest = Reidentification(attacker, "largest").score(release, snooper)  # type: ignore[arg-type]
        assert largest.value == 1 / min(counts)
        assert largest.details["records at the largest risk"] == counts.count(min(counts))
        share = Reidentification(attacker, "share at risk", threshold=0.3).score(release, snooper)  # type: ignore[arg-type]
        assert share.value == pytest.approx(sum(1 / c > 0.3 for c in counts) / len(counts))


def test_a_prosecutor_is_right_for_as_many_records_as_there_are_classes() -> None:
    """El Emam's pRc = |J| / n, and mR1 for a marketer whose file holds the released persons."""
    data = microdata(x=[*"aaabbc"])
    for attacker in ("prosecutor", "marketer"):
        score = Reidentification(attacker).score(as_it_is(data))  # type: ignore[arg-type]
        assert score.value == pytest.approx(3 / 6)
        assert score.variant.startswith("f counted in the release")


def test_the_share_at_risk_of_a_prosecutor_is_what_k_anonymity_counts() -> None:
    sample = census(households=800).sample
    snooper = Snooper(keys=("sex", "age", "region"))
    for k in (2, 3, 5, 7, 10, 49):
        share = Reidentification(summary="share at risk", threshold=1 / k).score(as_it_is(sample), snooper)
        assert share.value == KAnonymity(k=k).score(as_it_is(sample), snooper).value


def test_both_ways_of_a_journalist_are_there() -> None:
    """El Emam's jRc is the larger of |J| / ΣF (picking persons) and Σ(f/F) / n (picking records)."""
    table = microdata(COUNTS, x=[*"abcz"], n=[4, 2, 10, 7])
    score = Reidentification("journalist").score(as_it_is(microdata(x=[*"aaabbc"])), Snooper(population=table))
    assert score.value == pytest.approx((3 / 4 + 2 / 2 + 1 / 10) / 6)
    assert score.details["mean risk of the persons who match"] == pytest.approx(3 / 16)


def test_records_of_the_population_and_a_table_of_counts_say_the_same() -> None:
    generated = census(households=600)
    keys = ("sex", "age", "region")
    held = generated.population.batch(list(keys))
    columns = [held.column(k).arrow.to_pylist() for k in keys]
    counted = pa.table(dict(zip(keys, columns, strict=True))).group_by(list(keys)).aggregate([([], "count_all")])
    table = microdata(COUNTS, **{k: counted[k].combine_chunks() for k in keys}, n=counted["count_all"].combine_chunks())
    release = as_it_is(generated.sample)
    one, two = (
        Reidentification("journalist").score(release, Snooper(keys=keys, population=p))
        for p in (generated.population, table)
    )
    assert one.value == pytest.approx(two.value, rel=1e-14)
    np.testing.assert_allclose(one.records, two.records)  # type: ignore[arg-type]


def test_a_whole_population_released_leaves_no_difference() -> None:
    population = census(households=300).population
    snooper = Snooper(keys=("sex", "age", "region"), population=population)
    one, two, three = (
        Reidentification(a).score(as_it_is(population), snooper).value for a in ("prosecutor", "journalist", "marketer")
    )
    assert one == pytest.approx(two)
    assert one == pytest.approx(three)


def test_without_a_table_the_population_is_expected_from_the_weights() -> None:
    release = as_it_is(microdata(WEIGHT, **FRANCDAT))
    score, expected = Reidentification("journalist").score(release), IndividualRisk().score(release)
    assert (score.value, score.interval) == (expected.value, expected.interval)
    assert score.variant.startswith("F expected from the survey weights under a negative binomial model")
    largest = Reidentification("journalist", "largest").score(release)
    assert largest.value == pytest.approx(math.log(5) / 4)
    assert largest.interval is None
    fraction = Reidentification("journalist", fraction=0.2).score(release)
    assert fraction.value == IndividualRisk(fraction=0.2).score(release).value


def test_knowing_who_is_in_the_release_is_never_worse_for_the_snooper() -> None:
    generated = census(households=500)
    snooper = Snooper(keys=("sex", "age", "district"), population=generated.population)
    release = as_it_is(generated.sample)
    one, two = (Reidentification(a, missing="ignored").score(release, snooper) for a in ("prosecutor", "journalist"))
    known = ~np.isnan(one.records)  # type: ignore[arg-type]
    assert (one.records[known] >= two.records[known]).all()  # type: ignore[index]


def test_match_probability_scales_every_risk_and_coverage_that_of_a_marketer() -> None:
    release = as_it_is(microdata(x=[*"aab"]))
    snooper = Snooper(match_probability=0.5, coverage=0.4)
    assert Reidentification("prosecutor").score(release, snooper).value == pytest.approx(0.5 * 2 / 3)
    assert Reidentification("marketer").score(release, snooper).value == pytest.approx(0.4 * 0.5 * 2 / 3)


def test_duckdb_counts_the_same_in_release_and_population(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = people([(x, y) for x in "ab" for y in (1, 2, 3) for _ in range(y)])
    data = people([("a", 1), ("a", 3), (None, 3), ("b", 2)])
    there, table = in_pieces(data, monkeypatch), in_pieces(everybody, monkeypatch)
    one = Reidentification("journalist").score(as_it_is(data), Snooper(population=everybody))
    two = Reidentification("journalist").score(Release(there, (there,)), Snooper(population=table))
    assert one.value == pytest.approx(two.value, rel=1e-14)
    np.testing.assert_allclose(one.records, two.records)  # type: ignore[arg-type]


def test_a_table_that_lacks_released_persons_is_a_sentence() -> None:
    release = as_it_is(microdata(x=[*"aabbc"]))
    table = microdata(COUNTS, x=[*"ab"], n=[5, 1])
    with pytest.raises(NotApplicable, match="for the keys of 3 of 5 records, so it is no table of their population"):
        Reidentification("journalist").score(release, Snooper(population=table))


REFUSALS: dict[str, tuple[Reidentification, Snooper, str]] = {
    "nothing known of the population": (Reidentification("journalist"), Snooper(), "the released file has none"),
    "a table without the key": (
        Reidentification("journalist"),
        Snooper(population=microdata(y=["a"])),
        "key 'x' is not in the population table",
    ),
    "a table that counts nobody": (
        Reidentification("journalist"),
        Snooper(population=microdata(COUNTS, x=["a"], n=[0.0])),
        "the population table has nobody in it",
    ),
    "a table with a negative count": (
        Reidentification("journalist"),
        Snooper(population=microdata(COUNTS, x=["a"], n=[-1.0])),
        "the population table cannot be used: 1 record has a negative weight",
    ),
    "a table that is coded otherwise": (
        Reidentification("journalist"),
        Snooper(population=microdata(x=[1, 2])),
        "no value of key 'x' in the release is in the population table. Code it there as it is released",
    ),
    "a key that is not there": (Reidentification(), Snooper(keys=("z",)), "key 'z' is not in the released file"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_counted_is_a_sentence(case: str) -> None:
    measure, snooper, says = REFUSALS[case]
    with pytest.raises(SfumatoError, match=says):
        measure.score(as_it_is(microdata(x=["a", "b"])), snooper)


def test_a_marketer_has_a_mean_only() -> None:
    with pytest.raises(ParameterError, match="only the mean says how well he does"):
        Reidentification("marketer", "largest")


def test_one_record_and_no_record() -> None:
    one = five().take(np.arange(1))
    assert Reidentification().score(as_it_is(one)).value == 1
    assert Reidentification("journalist").score(as_it_is(one)).value == pytest.approx(math.log(120) / 119)
    with pytest.raises(NotApplicable, match="no records"):
        Reidentification().score(as_it_is(five().take(np.arange(0))))
