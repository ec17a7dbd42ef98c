"""β-likeness and δ-disclosure privacy: closed forms, and comparing every pair of records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from by_class import RULES, Row, file, people, values_by_record
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import as_it_is

from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable
from sfumato.risk import BetaLikeness, DeltaDisclosure

RARE: list[Row] = [*[("a", 1, "flu")] * 6, *[("a", 1, "hiv")] * 2, *[("b", 1, "flu")] * 10, *[("b", 1, "gout")] * 2]
"""Of 20: flu .8, hiv .1, gout .1. In a: flu .75, hiv .25. In b: flu 10/12, gout 2/12."""


def test_the_gain_is_how_much_more_frequent_a_value_is_in_a_class() -> None:
    score = BetaLikeness("s0", beta=1, kind="basic").score(as_it_is(file(RARE)))
    assert score.records is not None
    np.testing.assert_allclose(score.records, [1.5] * 8 + [2 / 3] * 12)
    assert score.value == 8 / 20
    assert score.details["largest gain"] == pytest.approx(1.5)
    assert BetaLikeness("s0", beta=1.5, kind="basic").score(as_it_is(file(RARE))).value == 0


def test_an_enhanced_gain_stays_below_the_logarithm_so_that_a_frequent_value_is_not_certain() -> None:
    """A value with share .8 may become certain under β ≥ .25, but its gain, .25, is above -ln .8 = .223."""
    rows: list[Row] = [*[("a", 1, "flu")] * 4, *[("b", 1, "flu")] * 4, *[("b", 1, "gout")] * 2]
    assert BetaLikeness("s0", beta=1, kind="basic").score(as_it_is(file(rows))).value == 0
    assert -math.log(0.8) < 0.25
    assert BetaLikeness("s0", beta=1, kind="enhanced").score(as_it_is(file(rows))).value == 4 / 10


@given(people, st.sampled_from(RULES), st.sampled_from(["basic", "enhanced"]), st.sampled_from([0.2, 0.7, 2.0]))
@settings(max_examples=120, deadline=None)
def test_likeness_is_what_comparing_every_pair_of_records_gives(
    rows: list[Row], rule: Missing, kind: Any, beta: float
) -> None:
    found = values_by_record([r[:2] for r in rows], [r[2] for r in rows], rule)
    known = [r[2] for r, v in zip(rows, found, strict=True) if v is not None]
    measure = BetaLikeness("s0", beta=beta, kind=kind, missing=rule)
    if not known:
        with pytest.raises(NotApplicable):
            measure.score(as_it_is(file(rows)))
        return
    slow, broken = np.full(len(rows), np.nan), 0
    for i, here in enumerate(found):
        if here is None:
            continue
        gains = {}
        for value in set(here):
            p, q = known.count(value) / len(known), here.count(value) / len(here)
            gains[value] = (q - p) / p
        slow[i] = max(gains.values())
        bounds = {v: min(beta, -math.log(known.count(v) / len(known))) if kind == "enhanced" else beta for v in gains}
        broken += any(gains[v] > bounds[v] + 1e-9 for v in gains)
    score = measure.score(as_it_is(file(rows)))
    assert score.records is not None
    np.testing.assert_allclose(score.records, slow, atol=1e-9)
    assert score.value == pytest.approx(broken / len(known))


def test_a_class_that_lacks_a_value_is_not_disclosure_private_unless_absent_values_are_ignored() -> None:
    release = as_it_is(file(RARE))
    assert DeltaDisclosure("s0", delta=50).score(release).value == 1
    assert "lacks a value" in DeltaDisclosure("s0").score(release).words
    score = DeltaDisclosure("s0", delta=1, absent="ignored").score(release)
    assert score.records is not None
    np.testing.assert_allclose(score.records, [math.log2(2.5)] * 8 + [math.log2(5 / 3)] * 12)
    assert score.value == 8 / 20


def test_the_bound_on_the_ratio_is_strict() -> None:
    """Half a class against a quarter of the file is a ratio of 2: not below δ = 1."""
    rows: list[Row] = [("a", 1, "x"), ("a", 1, "y"), *[("b", 1, "y")] * 2]
    assert DeltaDisclosure("s0", delta=1, absent="ignored").score(as_it_is(file(rows))).value == 2 / 4
    assert DeltaDisclosure("s0", delta=1.01, absent="ignored").score(as_it_is(file(rows))).value == 0


@given(people, st.sampled_from(RULES), st.sampled_from(["counts", "ignored"]))
@settings(max_examples=80, deadline=None)
def test_disclosure_privacy_is_what_comparing_every_pair_of_records_gives(
    rows: list[Row], rule: Missing, absent: Any
) -> None:
    found = values_by_record([r[:2] for r in rows], [r[2] for r in rows], rule)
    known = [r[2] for r, v in zip(rows, found, strict=True) if v is not None]
    if not known:
        return
    slow = np.full(len(rows), np.nan)
    for i, here in enumerate(found):
        if here is None:
            continue
        ratios = {v: here.count(v) / len(here) / (known.count(v) / len(known)) for v in set(known)}
        logs = [abs(math.log2(r)) if r else math.inf for r in ratios.values()]
        slow[i] = max(v for v in logs if absent == "counts" or math.isfinite(v))
    score = DeltaDisclosure("s0", delta=0.6, absent=absent, missing=rule).score(as_it_is(file(rows)))
    assert score.records is not None
    np.testing.assert_allclose(score.records, slow, atol=1e-9)
    assert score.value == pytest.approx((slow[~np.isnan(slow)] >= 0.6 - 1e-9).mean())
