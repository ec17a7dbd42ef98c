"""Measures by subgroup: which records belong to a group, and what is measured of the parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_files import in_pieces

from sfumato import Draws, Microdata, Release, Schema, Snooper
from sfumato.contract import Recipe, subgroups
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable
from sfumato.masks import PRAM, FullNormalSynthesis, KimNoise, RandomOrder, SuppressRecords
from sfumato.risk import AttributeRisk, DistanceLinkage, KAnonymity, Reidentification, UnsafeCombinations
from sfumato.schema import Attribute
from sfumato.utility import VarianceKept

SCHEMA = Schema((Attribute("place", "key", "unordered"), Attribute("pay", "confidential")))  # type: ignore[arg-type]


def by_hand(x: np.ndarray, y: np.ndarray) -> float:
    return 1 - float(((x - y) ** 2).sum() / ((x - x.mean()) ** 2).sum())


def test_each_group_is_measured_as_a_file_of_its_own() -> None:
    data = teachers(900)
    release = KimNoise(columns="salary", lambda2=0.3).apply(data, Draws(3))
    score = VarianceKept("salary").score_by(release, "region")
    frame = pd.DataFrame({"region": data.batch().column("region").arrow.to_pylist(), "x": data.numbers("salary")})
    frame["y"] = release.masked.numbers("salary")
    want = {str(k): by_hand(g["x"].to_numpy(), g["y"].to_numpy()) for k, g in frame.groupby("region")}
    assert score.groups == pytest.approx(want)
    assert score.value == VarianceKept("salary").score(release).value


def test_a_record_stays_in_the_group_of_its_original_however_its_value_and_place_were_changed() -> None:
    data = teachers(900)
    plain = KimNoise(columns="salary", lambda2=0.3)
    still = VarianceKept("salary").score_by(plain.apply(data, Draws(3)), "region").groups
    moved = VarianceKept("salary").score_by(
        (plain >> PRAM("region", pd=0.2) >> RandomOrder()).apply(data, Draws(3)), "region"
    )
    assert moved.groups == pytest.approx(still)


def test_dropped_records_are_missed_in_their_own_group() -> None:
    data = Microdata(pd.DataFrame({"place": ["a"] * 4 + ["b"] * 4, "pay": [1.0, 2, 3, 4, 1, 2, 3, 40]}), SCHEMA)
    release = Recipe.of(SuppressRecords("pay > 10")).apply(data, Draws(1))
    groups = VarianceKept("pay").score_by(release, "place").groups
    assert groups["a"] == 1
    assert groups["b"] < 0.5


def test_files_that_are_not_aligned_and_new_records_go_by_the_released_value() -> None:
    before = pd.DataFrame({"place": ["a", "a", "b", None], "pay": [1.0, 2, 3, 4]})
    after = pd.DataFrame({"place": ["b", "a", "c"], "pay": [5.0, 6, 7]})
    parts = dict(subgroups(Release.of(Microdata(before, SCHEMA), Microdata(after, SCHEMA)), "place"))
    assert list(parts) == ["a", "b", "missing"]
    assert [(len(p.original), len(p.masked)) for p in parts.values()] == [(2, 1), (1, 1), (1, 0)]
    data = teachers(300)
    made = Recipe.of(FullNormalSynthesis(columns=("salary", "income"))).apply(data, Draws(1))
    with pytest.raises(DataError, match="region"):
        list(subgroups(made, "region"))


def test_a_group_in_which_the_measure_has_no_value_is_nan() -> None:
    data = Microdata(pd.DataFrame({"place": ["a", "b", "b"], "pay": [1.0, 2, 3]}), SCHEMA)
    groups = VarianceKept("pay").score_by(Release.of(data, data, "rows"), "place").groups
    assert math.isnan(groups["a"])
    assert groups["b"] == 1


def test_columns_that_make_no_subgroups_are_refused_in_words() -> None:
    data = teachers(300)
    release = Release.as_it_is(data)
    with pytest.raises(DataError, match="Did you mean 'region'"):
        list(subgroups(release, "regin"))
    with pytest.raises(NotApplicable, match="too many for subgroups"):
        list(subgroups(release, "salary"))


def test_groups_of_numbers_come_in_their_order_and_neighbouring_numbers_are_not_one_group() -> None:
    schema = Schema((Attribute("place", "key"), Attribute("pay", "confidential")))  # type: ignore[arg-type]
    frame = pd.DataFrame({"place": [1_000_001.0, 1_000_002, 10, 9, 2, 2, np.nan], "pay": np.arange(7.0)})
    parts = dict(subgroups(Release.as_it_is(Microdata(frame, schema)), "place"))
    assert [(name, len(part.original)) for name, part in parts.items()] == [
        ("2", 2), ("9", 1), ("10", 1), ("1000001", 1), ("1000002", 1), ("missing", 1),
    ]  # fmt: skip


def test_a_category_called_missing_is_not_taken_for_a_missing_value() -> None:
    data = Microdata(pd.DataFrame({"place": ["missing", None, "a", "missing"], "pay": [1.0, 2, 3, 4]}), SCHEMA)
    for release in (Release.as_it_is(data), Release.of(data, data)):
        parts = {name: (len(p.original), len(p.masked)) for name, p in subgroups(release, "place")}
        assert parts == {"a": (1, 1), "missing": (2, 2), "(missing)": (1, 1)}


def test_a_recoded_column_cannot_sort_records_that_are_not_aligned() -> None:
    before, after = (
        Microdata(pd.DataFrame({"place": places, "pay": [1.0, 2, 3]}), SCHEMA) for places in (list("aab"), ["ab"] * 3)
    )
    with pytest.raises(NotApplicable, match="none of the original's values of 'place'"):
        list(subgroups(Release.of(before, after), "place"))
    assert [len(p.masked) for _, p in subgroups(Release.of(before, after, "rows"), "place")] == [2, 1]
    nothing = Microdata(pa.table({"place": pa.nulls(3, pa.string()), "pay": [1.0, 2, 3]}), SCHEMA)
    assert [len(p.masked) for _, p in subgroups(Release.of(before, nothing), "place")] == [0, 0]


def test_a_file_elsewhere_is_fetched_once_whatever_the_number_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    data = in_pieces(teachers(300), monkeypatch, rows=50)
    release = KimNoise(columns="salary", lambda2=0.3).apply(data, Draws(3))
    fetched: list[int] = []
    plain = type(data.engine).collect

    def collect(self: Any, columns: Any) -> Any:
        fetched.append(len(columns))
        return plain(self, columns)

    monkeypatch.setattr(type(data.engine), "collect", collect)
    parts = list(subgroups(release, "region"))
    assert len(parts) > 2
    assert sum(columns > 5 for columns in fetched) == 2  # the original and the release


def test_the_risk_of_a_subgroup_is_that_of_its_records_in_the_whole_file() -> None:
    g = np.random.default_rng(11)
    frame = pd.DataFrame({
        "place": g.choice(["a", "b", "c"], 300), "age": g.integers(20, 60, 300), "sex": g.choice(["f", "m"], 300),
        "pay": g.normal(50, 9, 300),
    }).sample(frac=1, random_state=3)  # fmt: skip
    keys = Schema((
        Attribute("place", "other", "unordered"), Attribute("age", "key"), Attribute("sex", "key", "unordered"),  # type: ignore[arg-type]
        Attribute("pay", "confidential"),  # type: ignore[arg-type]
    ))  # fmt: skip
    release = (KimNoise(columns="pay") >> RandomOrder()).apply(Microdata(frame, keys), Draws(3))
    alike = frame.groupby(["age", "sex"])["pay"].transform("size")  # in the whole file, whatever the place
    assert KAnonymity(k=4).score_by(release, "place").groups == pytest.approx(
        (alike < 4).groupby(frame["place"]).mean().to_dict()
    )
    assert Reidentification().score_by(release, "place").groups == pytest.approx(
        (1 / alike).groupby(frame["place"]).mean().to_dict()
    )
    largest = Reidentification(summary="largest").score_by(release, "place").groups
    assert largest == pytest.approx((1 / alike).groupby(frame["place"]).max().to_dict())
    x, y = release.pair("pay")
    places = release.original.batch(["place"]).column("place").arrow.to_pylist()
    error = pd.Series((x - y) ** 2).groupby(pd.Series(places)).mean()
    assert AttributeRisk("pay").score_by(release, "place").groups == pytest.approx((1 / error).to_dict())


def test_the_risks_of_subgroups_average_to_that_of_the_file() -> None:
    data = teachers(700)
    release = KimNoise(columns="salary", lambda2=0.3).apply(data, Draws(3))
    known = Snooper(keys=("age", "sex"))
    share = pd.Series(data.batch(["region"]).column("region").arrow.to_pylist()).value_counts(normalize=True)
    for measure in (KAnonymity(k=15), Reidentification(), DistanceLinkage(), UnsafeCombinations()):
        score = measure.score_by(release, "region", known)
        assert sum(share[name] * value for name, value in score.groups.items()) == pytest.approx(score.value)


def test_risks_of_records_that_were_not_released_or_are_not_aligned() -> None:
    frame = pd.DataFrame({"place": ["a", "a", "b", "b"], "pay": [1.0, 2, 30, 40]})
    data = Microdata(frame, SCHEMA)
    dropped = Recipe.of(SuppressRecords("pay > 10")).apply(data, Draws(1))
    groups = KAnonymity(k=3).score_by(dropped, "place").groups
    assert groups["a"] == 1  # two match on place, fewer than three
    assert math.isnan(groups["b"])
    alone = KAnonymity(k=3).score_by(Release.of(data, data), "place").groups  # nobody knows whose record is whose
    assert alone == {"a": 1.0, "b": 1.0}
