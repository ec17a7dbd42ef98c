"""(α, k)-anonymity: small tables, and comparing every pair of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from by_class import RULES, Row, file, matches, people, values_by_record
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import as_it_is

from sfumato import Draws, Release
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks import SuppressValues
from sfumato.risk import AlphaK, KAnonymity

JOBS: list[Row] = [
    *(
        (job, zip_code, illness)
        for job, zip_code in (("clerk", "4350"), ("clerk", "4351"))
        for illness in ("hiv", "flu")
    ),
    *[("cook", "4350", "flu")] * 2,
]
"""In the manner of Wong et al. 2006: everybody is in a class of two; a class of clerks has one patient with hiv."""


def test_a_value_may_have_half_of_a_class_but_not_more() -> None:
    score = AlphaK("s0", alpha=0.5, k=2).score(as_it_is(file(JOBS)))
    assert score.value == 2 / 6  # the cooks all have flu
    assert score.records is not None
    assert score.records.tolist() == [0.5] * 4 + [1] * 2
    assert AlphaK("s0", alpha=0.49, k=2).score(as_it_is(file(JOBS))).value == 1
    assert AlphaK("s0", alpha=0.5, k=3).score(as_it_is(file(JOBS))).value == 1


def test_only_the_named_values_count() -> None:
    """Flu is of no concern: every class is (.5, 2)-anonymous with respect to hiv."""
    score = AlphaK("s0", alpha=0.5, k=2, values="hiv").score(as_it_is(file(JOBS)))  # type: ignore[arg-type]
    assert score.value == 0
    assert score.records is not None
    assert score.records.tolist() == [0.5] * 4 + [0] * 2
    assert "1 named value" in score.variant


def test_a_named_value_that_was_masked_away_is_no_danger_but_one_that_never_was_is_a_slip() -> None:
    data = file(JOBS)
    release = SuppressValues(["s0"], where="s0 == 'hiv'").apply(data, Draws(1))
    assert AlphaK("s0", alpha=0.5, k=2, values=("hiv",)).score(release).details["largest share"] == 0
    with pytest.raises(NotApplicable, match="no record has the value 'HIV'"):
        AlphaK("s0", values=("HIV",)).score(release)


def test_a_value_of_a_column_that_only_the_release_has_may_be_misspelt_too() -> None:
    rows = [("a", 1, "flu"), ("a", 1, "hiv")]
    original = file([row[:2] for row in rows])
    release = Release.of(original, file(rows), align="rows")
    assert AlphaK("s0", k=1, values=["flu"]).score(release).details["largest share"] == 0.5
    with pytest.raises(NotApplicable, match="no record has the value 'flue' in 's0'"):
        AlphaK("s0", values=["flue"]).score(release)


def test_numbers_are_named_as_people_write_them() -> None:
    data = file([("a", 1, 7.0), ("a", 1, 8.0), ("a", 1, 7.0)])
    assert AlphaK("s0", alpha=0.4, values=(8,)).score(as_it_is(data)).value == 0  # type: ignore[arg-type]
    assert AlphaK("s0", alpha=0.4, values=("7",)).score(as_it_is(data)).value == 1
    with pytest.raises(ParameterError, match="must be a list of values"):
        AlphaK("s0", values=7)  # type: ignore[arg-type]


@given(
    people, st.sampled_from(RULES), st.sampled_from([(), ("flu",), ("hiv", "gout")]), st.sampled_from([0.3, 0.5, 0.9])
)
@settings(max_examples=120, deadline=None)
def test_it_is_what_comparing_every_pair_of_records_gives(
    rows: list[Row], rule: Missing, values: Any, alpha: float
) -> None:
    keys, ill = [r[:2] for r in rows], [r[2] for r in rows]
    if not set(values) <= set(ill):
        return
    found = values_by_record(keys, ill, rule)
    if all(v is None for v in found):
        return
    here = [i for i in range(len(rows)) if not (rule == "ignored" and None in keys[i])]
    slow, broken = np.full(len(rows), np.nan), 0
    for i in here:
        size = sum(matches(keys[i], keys[j], rule) for j in here)
        known = found[i]
        if known is not None:
            slow[i] = max(known.count(v) / len(known) if not values or v in values else 0 for v in known)
        broken += size < 2 or slow[i] > alpha + 1e-9
    score = AlphaK("s0", alpha=alpha, k=2, values=values, missing=rule).score(as_it_is(file(rows)))
    assert score.records is not None
    np.testing.assert_allclose(score.records, slow)
    assert score.value == pytest.approx(broken / len(here))
    below = KAnonymity(k=2, missing=rule).score(as_it_is(file(rows))).details["records below k"]
    assert score.details["records below k"] == below


def test_without_alignment_the_file_has_its_score_but_no_record_has_one() -> None:
    data = file(JOBS)
    score = AlphaK("s0", k=2).score(Release.of(data, data.take(np.arange(4))))
    assert (score.value, score.records) == (0, None)
