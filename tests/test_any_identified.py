"""The probability that anybody is identified: the product by hand, risks near 0 and 1, and where they come from."""

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
from small_files import as_it_is, microdata

from sfumato import Release, Snooper
from sfumato.datasets import five
from sfumato.errors import NotApplicable
from sfumato.risk import AnyIdentified, IndividualRisk


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.sampled_from("abcd"), min_size=1, max_size=14),
    extra=st.lists(st.integers(0, 9), min_size=4, max_size=4),
)
def test_small_files_have_the_probability_multiplied_out(values: list[str], extra: list[int]) -> None:
    release = as_it_is(microdata(x=values))
    f = {v: values.count(v) for v in values}
    total = {v: f.get(v, 0) + more for v, more in zip("abcd", extra, strict=True)}
    table = microdata({"n": {"role": "weight", "scale": "ordered"}}, x=[*"abcd"], n=[max(total[v], 1) for v in "abcd"])
    prosecutor = 1 - math.prod(1 - Fraction(1, f[v]) for v in values)
    journalist = 1 - math.prod(1 - Fraction(1, total[v]) for v in values)
    assert AnyIdentified("prosecutor").score(release).value == pytest.approx(float(prosecutor), rel=1e-12)
    score = AnyIdentified("journalist").score(release, Snooper(population=table))
    assert score.value == pytest.approx(float(journalist), rel=1e-12)
    assert score.details["expected number identified"] == pytest.approx(sum(1 / total[v] for v in values))
    assert score.variant.startswith("F counted in the population table")


def test_francdat_is_likely_to_have_somebody_identified() -> None:
    release = as_it_is(microdata(WEIGHT, **FRANCDAT))
    risks = IndividualRisk().score(release)
    score = AnyIdentified().score(release)
    assert score.value == pytest.approx(1 - math.prod(1 - risks.records))  # type: ignore[arg-type, operator]
    np.testing.assert_array_equal(score.records, risks.records)  # type: ignore[arg-type]
    assert risks.interval is not None
    assert (score.details["expected number, low"], score.details["expected number, high"]) == pytest.approx(
        [8 * limit for limit in risks.interval]
    )


def test_tiny_risks_are_not_lost() -> None:
    """1 - (1 - r) is 0 for r below 1e-16."""
    table = microdata({"n": {"role": "weight", "scale": "ordered"}}, x=["a"], n=[1e18])
    score = AnyIdentified().score(as_it_is(microdata(x=["a", "a", "a"])), Snooper(population=table))
    assert score.value == pytest.approx(3e-18, rel=1e-12)


def test_many_records_make_it_certain_and_one_unique_record_does() -> None:
    many = AnyIdentified(fraction=0.01).score(as_it_is(microdata(x=np.arange(5_000))))
    assert many.value == 1
    assert "more than 99.9 %" in many.words
    assert AnyIdentified("prosecutor").score(as_it_is(microdata(x=["a", "b", "b"]))).value == 1


def test_nobody_is_identified_by_a_snooper_who_finds_no_class() -> None:
    for attacker in ("prosecutor", "journalist"):
        assert AnyIdentified(attacker).score(as_it_is(five()), Snooper(match_probability=0)).value == 0


def test_a_release_without_weights_or_table_is_a_sentence() -> None:
    with pytest.raises(NotApplicable, match="the released file has none"):
        AnyIdentified().score(as_it_is(microdata(x=["a"])))


def test_an_empty_file_is_a_sentence_and_a_loose_one_has_no_records() -> None:
    with pytest.raises(NotApplicable, match="no records"):
        AnyIdentified("prosecutor").score(as_it_is(microdata(x=pa.array([], pa.string()))))
    data: Any = five()
    assert AnyIdentified().score(Release.of(data, data)).records is None
