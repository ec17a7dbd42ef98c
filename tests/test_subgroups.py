"""Measures by subgroup: which records belong to a group, and that the parts are measured as files of their own."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, KimNoise, Microdata, Release, Schema
from sfumato.contract import Recipe, subgroups
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable
from sfumato.masks import PRAM, FullNormalSynthesis, RandomOrder, SuppressRecords
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
