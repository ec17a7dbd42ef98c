"""l-diversity: the paper's tables, comparing every pair of records, and columns that cannot be used."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from by_class import RULES, Row, file, people, values_by_record
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import as_it_is

from sfumato import Draws, Release, Snooper
from sfumato.data.classes import Missing
from sfumato.data.microdata import Microdata
from sfumato.datasets import five
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.masks import Sample
from sfumato.risk import KAnonymity, LDiversity
from sfumato.risk.diversity import DiversityKind

HEART, VIRAL, CANCER = "heart disease", "viral infection", "cancer"

INPATIENTS = [
    *(("130**", "<30", condition) for condition in (HEART, HEART, VIRAL, VIRAL)),
    *(("1485*", "≥40", condition) for condition in (CANCER, HEART, VIRAL, VIRAL)),
    *(("130**", "3*", condition) for condition in (CANCER, CANCER, CANCER, CANCER)),
]
"""Machanavajjhala et al. 2007, Figure 2: 4-anonymous, and everybody in the last class has cancer."""

DIVERSE = [
    *(("1305*", "≤40", condition) for condition in (HEART, VIRAL, CANCER, CANCER)),
    *(("1485*", ">40", condition) for condition in (CANCER, HEART, VIRAL, VIRAL)),
    *(("1306*", "≤40", condition) for condition in (HEART, VIRAL, CANCER, CANCER)),
]
"""Figure 3: the same people, 3-diverse."""


def slow_diversity(values: list[Any], kind: DiversityKind, c: float) -> float:
    """The definitions, word by word."""
    counts = sorted(Counter(values).values(), reverse=True)
    if kind == "distinct":
        return len(counts)
    if kind == "entropy":
        shares = [count / len(values) for count in counts]
        return math.exp(-sum(p * math.log(p) for p in shares))
    return max([0, *(level for level in range(1, len(counts) + 1) if counts[0] < c * sum(counts[level - 1 :]))])


def test_the_inpatients_of_the_paper_are_4_anonymous_but_everybody_in_a_class_has_cancer() -> None:
    release = as_it_is(file(INPATIENTS))
    assert KAnonymity(k=4).score(release).value == 0
    score = LDiversity(["s0"], l=2).score(release)
    assert score.value == 4 / 12
    assert score.records is not None
    assert score.records.tolist() == [2] * 4 + [3] * 4 + [1] * 4
    assert "4 of 12 records" in score.words
    assert "1 different value" in score.words


def test_the_other_table_of_the_paper_is_3_diverse() -> None:
    release = as_it_is(file(DIVERSE))
    assert LDiversity(["s0"], l=3).score(release).value == 0
    score = LDiversity(["s0"], l=4).score(release)
    assert (score.value, score.details["smallest l"]) == (1, 3)
    # shares 1/2, 1/4, 1/4 in each class: entropy 3/2 log 2
    entropy = LDiversity(["s0"], l=2.8, kind="entropy").score(release)
    assert entropy.value == 0
    assert entropy.details["smallest l"] == pytest.approx(2**1.5)
    assert LDiversity(["s0"], l=2.83, kind="entropy").score(release).value == 1


@pytest.mark.parametrize(("c", "holds"), [(2.0, False), (2.001, True), (3.0, True)])
def test_the_recursive_bound_is_strict(c: float, holds: bool) -> None:
    """Counts 2, 1, 1: (c, 3)-diverse if 2 < c · 1."""
    score = LDiversity(["s0"], l=3, kind="recursive", c=c).score(as_it_is(file(DIVERSE)))
    assert (score.value == 0) is holds


def test_the_recursive_bound_is_strict_though_the_product_is_rounded_up() -> None:
    """Counts 11 and 10: not (1.1, 2)-diverse, since 11 < 1.1 · 10 is false; in floating point 1.1 * 10 is above 11."""
    rows = [("a", 1, "flu")] * 11 + [("a", 1, "hiv")] * 10
    assert LDiversity(["s0"], l=2, kind="recursive", c=1.1).score(as_it_is(file(rows))).value == 1
    assert LDiversity(["s0"], l=2, kind="recursive", c=1.11).score(as_it_is(file(rows))).value == 0


def test_one_record_is_told_in_the_singular() -> None:
    rows = [("a", 1, "flu"), ("b", 1, "flu"), ("b", 1, "hiv")]
    score = LDiversity(["s0"]).score(as_it_is(file(rows)))
    assert score.words.startswith("1 of 3 records is in classes of k0, k1 without 2-diversity")


@given(
    people,
    st.sampled_from(RULES),
    st.sampled_from(["distinct", "entropy", "recursive"]),
    st.sampled_from([0.5, 1, 2.5]),
)
@settings(max_examples=150, deadline=None)
def test_it_is_what_comparing_every_pair_of_records_gives(
    rows: list[Row], rule: Missing, kind: DiversityKind, c: float
) -> None:
    found = values_by_record([r[:2] for r in rows], [r[2] for r in rows], rule)
    slow = np.array([np.nan if v is None else slow_diversity(v, kind, c) for v in found])
    measure = LDiversity(["s0"], l=2, kind=kind, c=c, missing=rule)
    if np.isnan(slow).all():
        with pytest.raises(NotApplicable, match=r"no released record has a value|every record with a value"):
            measure.score(as_it_is(file(rows)))
        return
    score = measure.score(as_it_is(file(rows)))
    assert score.records is not None
    np.testing.assert_allclose(score.records, slow, rtol=1e-12)
    known = slow[~np.isnan(slow)]
    assert score.value == pytest.approx((known < 2 - 1e-9).mean())
    assert score.details["smallest l"] == pytest.approx(known.min())
    assert score.details["records left out"] == np.isnan(slow).sum()


two_columns = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]), st.sampled_from([None, "x", "y"])),
    min_size=1,
    max_size=20,
)


@given(two_columns, st.sampled_from(RULES), st.sampled_from(["keys", "ignored"]))
@settings(max_examples=100, deadline=None)
def test_of_several_columns_each_is_learned_by_one_who_knows_the_others(
    rows: list[Row], rule: Missing, others: Any
) -> None:
    """The definition for several sensitive attributes: the other ones are treated as keys."""
    both = []
    for mine, other in ((1, 2), (2, 1)):
        keys = [(r[0], r[other]) if others == "keys" else (r[0],) for r in rows]
        found = values_by_record(keys, [r[mine] for r in rows], rule)
        both.append([math.nan if v is None else len(set(v)) for v in found])
    if any(all(math.isnan(v) for v in slow) for slow in both):
        return
    slow = np.fmin(*np.array(both))
    score = LDiversity(["s0", "s1"], others=others, missing=rule).score(as_it_is(file(rows, keys=1)))
    assert score.records is not None
    np.testing.assert_array_equal(score.records, slow)
    assert score.value == pytest.approx((slow[~np.isnan(slow)] < 2).mean())
    for name, one in zip(("s0", "s1"), both, strict=True):
        assert score.details[f"smallest l of {name}"] == np.nanmin(one)


def test_a_missing_value_makes_no_class_diverse_and_is_no_risk_itself() -> None:
    release = as_it_is(file([("a", 1, "flu"), ("a", 1, None), ("b", 1, None), ("b", 2, "flu"), ("b", 2, "hiv")]))
    score = LDiversity(["s0"]).score(release)
    np.testing.assert_array_equal(score.records, [1, np.nan, np.nan, 2, 2])  # type: ignore[arg-type]
    assert score.value == 1 / 3
    assert score.details["records left out"] == 2


def test_a_key_of_the_schema_can_be_what_is_learned() -> None:
    people = as_it_is(five())
    score = LDiversity(["sex"]).score(people, Snooper(keys=("zip",)))
    assert score.records is not None
    assert score.records.tolist() == [2, 2, 1, 1, 1]
    assert "classes of zip, age" in LDiversity(["sex"]).score(people).words


def test_entropy_of_equally_frequent_values_is_not_lost_to_rounding() -> None:
    for m in range(2, 60):
        release = as_it_is(file([("a", 1, f"v{i}") for i in range(m)] * 3))
        assert LDiversity(["s0"], l=m, kind="entropy").score(release).value == 0, m


def test_records_that_were_not_released_have_no_diversity() -> None:
    release = Sample(size=4).apply(file(INPATIENTS), Draws(1))
    score = LDiversity(["s0"]).score(release)
    assert score.records is not None
    assert np.isnan(score.records).sum() == 8


@pytest.mark.parametrize("rule", RULES)
def test_duckdb_finds_the_same_without_bringing_records_to_memory(
    rule: Missing, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [*INPATIENTS, (None, "<30", CANCER), ("130**", None, None), (None, None, HEART)]
    here = file(rows)
    connection = duckdb.connect()
    connection.from_arrow(here.batch().rows.to_arrow()).create("people")
    there = Microdata(connection.table("people"), here.schema)
    with monkeypatch.context() as patched:
        patched.setattr(type(there.engine), "collect", lambda *_: pytest.fail("records were brought to memory"))
        score = LDiversity(["s0"], kind="entropy", missing=rule).score(Release(there, (there,)))
    expected = LDiversity(["s0"], kind="entropy", missing=rule).score(as_it_is(here))
    assert score == expected
    np.testing.assert_allclose(score.records, expected.records)  # type: ignore[arg-type]


REFUSALS: dict[str, tuple[tuple[str, ...], Snooper, str]] = {
    "unknown": (("salry",), Snooper(), "column 'salry' is not in the released file. Did you mean 'salary'"),
    "known already": (("sex",), Snooper(keys=("sex", "age")), "the snooper knows 'sex' already"),
    "no keys left": (("zip", "sex", "age"), Snooper(), "there are no keys besides the columns"),
    "unknown key": (("salary",), Snooper(keys=("sx",)), "key 'sx' is not in the released file"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_columns_that_cannot_be_used_are_refused_in_a_sentence(case: str) -> None:
    over, snooper, says = REFUSALS[case]
    with pytest.raises(SfumatoError, match=says):
        LDiversity(over).score(as_it_is(five()), snooper)


def test_a_column_that_is_not_released_cannot_be_learned() -> None:
    data = five()
    with pytest.raises(NotApplicable, match="'salary' is not in the released file, so nobody can learn it"):
        LDiversity(["salary"]).score(Release.of(data, data.local([n for n in data.schema.names() if n != "salary"])))


def test_lists_and_files_without_records_are_refused_in_a_sentence() -> None:
    data = file([("a", 1, ["x"])])
    with pytest.raises(NotApplicable, match="values of another kind"):
        LDiversity(["s0"]).score(as_it_is(data))
    nobody = Microdata(
        pa.table({"k0": pa.array([], pa.string()), "s0": pa.array([], pa.string())}), file([("a", "x")], 1).schema
    )
    with pytest.raises(NotApplicable, match="no records"):
        LDiversity(["s0"]).score(as_it_is(nobody))


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ParameterError, match="whole number if kind is 'distinct'"):
        LDiversity(["x"], l=2.5)
    assert LDiversity(["x"], l=2.5, kind="entropy").l == 2.5
    with pytest.raises(ParameterError, match="at least one column"):
        LDiversity([])
    with pytest.raises(ParameterError, match="above 1"):
        LDiversity(["x"], l=1)
