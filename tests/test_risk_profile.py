"""The risk profile: its counts against pandas, its words, its chart's numbers, and what it keeps to itself."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato import Draws, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, five
from sfumato.errors import NotApplicable
from sfumato.masks import KimNoise, Sample
from sfumato.risk import AttributeRisk, risk_profile
from sfumato.schema import Attribute, Schema

KEYS = ("region", "sex", "age", "marital")


@pytest.fixture(scope="module")
def sample() -> Microdata:
    """A sample whose keys have no gaps."""
    data = census(1_500, 0.2).sample
    batch = data.batch(list(KEYS))
    return data.take(~np.any([batch.missing(name) for name in KEYS], axis=0))


@pytest.fixture(scope="module")
def frame(sample: Microdata) -> pd.DataFrame:
    return pd.DataFrame({n: sample.batch([n]).column(n).arrow.to_pylist() for n in (*KEYS, "weight")})


def sizes(frame: pd.DataFrame, keys: list[str]) -> pd.Series:
    return frame.groupby(keys)["weight"].transform("size")


def test_records_are_told_by_how_many_match(sample: Microdata, frame: pd.DataFrame) -> None:
    found = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS)).class_sizes()
    f = sizes(frame, list(KEYS))
    bins = pd.cut(f, [0, 1, 2, 4, 9, 19, 99, np.inf], labels=list(found["matches"]))
    assert found["records"].tolist() == bins.value_counts(sort=False).tolist()
    assert found["share"].sum() == pytest.approx(1)


def test_a_key_contributes_what_leaving_it_out_would_spare(sample: Microdata, frame: pd.DataFrame) -> None:
    found = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS), k=4).contributions
    below = int((sizes(frame, list(KEYS)) < 4).sum())
    for row in found.to_dict("records"):
        without = int((sizes(frame, [k for k in KEYS if k != row["key"]]) < 4).sum())
        assert (row["without"], row["less"]) == (without, below - without)
    assert found["less"].is_monotonic_decreasing


def test_the_riskiest_records_come_first_by_row_number_and_without_their_values(
    sample: Microdata, frame: pd.DataFrame
) -> None:
    found = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS)).riskiest(15)
    assert list(found.columns) == ["row", "matches", "risk"]
    assert found["risk"].is_monotonic_decreasing
    f = sizes(frame, list(KEYS)).to_numpy()
    assert (found["matches"] == f[found["row"] - 1]).all()
    weights = frame.groupby(list(KEYS))["weight"].transform("sum").to_numpy()
    p = (f / weights)[found["row"] - 1]
    assert (found["matches"] == 1).all()
    np.testing.assert_allclose(found["risk"], p / (1 - p) * np.log(1 / p))  # the closed form for f = 1


def test_subgroups_add_up_to_the_file_and_the_riskiest_comes_first(sample: Microdata, frame: pd.DataFrame) -> None:
    profile = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS))
    found = profile.by_group("marital").set_index("marital")
    f = sizes(frame, list(KEYS))
    for group, rows in frame.groupby("marital"):
        assert found.loc[group, "records"] == len(rows)
        assert found.loc[group, "unique"] == (f[rows.index] == 1).sum()
        assert found.loc[group, "below_k"] == (f[rows.index] < 3).sum()
    assert found["expected"].sum() == pytest.approx(profile.risks.expected)
    assert found["mean_risk"].is_monotonic_decreasing
    assert found["largest_risk"].max() == pytest.approx(profile.risks.largest)


def test_a_column_of_many_values_makes_no_subgroups(sample: Microdata) -> None:
    with pytest.raises(NotApplicable, match="too many for a table of subgroups"):
        risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS)).by_group("salary")


def test_every_record_has_a_place_in_the_distribution_of_risk(sample: Microdata) -> None:
    profile = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS))
    found = profile.risk_distribution()
    assert found["records"].sum() == len(sample)
    r = profile.risks.classes.per_record(profile.risks.risk)
    for row in found.itertuples():
        low = (r > row.above) if row.above else np.ones(len(r), bool)
        assert row.records == (low & (r <= row.up_to)).sum()


def test_the_chart_has_the_numbers_of_the_profile(sample: Microdata) -> None:
    profile = risk_profile(Release.as_it_is(sample), Snooper(keys=KEYS))
    panels = profile.chart().to_dict()["hconcat"]
    drawn = [[row["records"] for row in panel["data"]["values"]] for panel in panels]
    assert drawn[0] == profile.class_sizes()["records"].tolist()
    assert drawn[1] == profile.risk_distribution()["records"].tolist()[::-1]
    assert drawn[2] == profile.contributions["less"].tolist()


def file(**columns: list[object]) -> Microdata:
    schema = Schema(tuple(Attribute(n, "key", "unordered") for n in columns))  # type: ignore[arg-type]
    return Microdata(pa.table(columns), schema)


VERDICTS = {
    "unique": (file(x=["a", "b", "b"]), "1 of 3 records is unique on x: who knows this of a person finds one record."),
    "rare": (file(x=["a", "a", "b", "b"]), "No record is unique on x, but 4 of 4 records match fewer than 3 records."),
    "safe": (file(x=["a"] * 5), "Every record matches at least 5 records on x, itself included."),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_first_sentence_says_whether_anybody_can_be_found(case: str) -> None:
    data, says = VERDICTS[case]
    assert risk_profile(Release.as_it_is(data)).verdict[0] == says


def test_a_record_without_any_key_does_not_hide_that_others_are_unique() -> None:
    """It matches everybody, so that by the plain rule nobody is unique."""
    data = file(x=["a", "b", "b", None], y=["c", "c", "d", None])
    profile = risk_profile(Release.as_it_is(data))
    assert profile.verdict[0] == (
        "3 of 3 records are unique on x, y: who knows these of a person finds one record. "
        "Left out: 1 record of which nearly every key is missing, and which would match everybody."
    )
    assert (
        "The unique records depend on what a missing key means: 0 if it matches anything, 4 if it is a value of its own, "
        "3 if records with one are left out."
    ) in profile.verdict


def test_a_file_of_records_without_any_key_has_a_verdict_too() -> None:
    profile = risk_profile(Release.as_it_is(file(x=[None, None, None], y=[None, None, None])))
    assert profile.verdict[0] == "Every record matches at least 3 records on x, y, itself included."


def test_a_file_without_weights_is_not_taken_for_a_sample() -> None:
    profile = risk_profile(Release.as_it_is(VERDICTS["unique"][0]))
    assert not profile.in_population
    assert "If the file is everybody there is" in profile.verdict[1]
    assert profile.risks.expected == 1 + 0.5 + 0.5
    as_sample = risk_profile(Release.as_it_is(VERDICTS["unique"][0]), fraction=0.1)
    assert as_sample.in_population
    assert as_sample.risks.expected < 1


def test_estimates_that_disagree_are_told_with_their_range_and_the_truth_is_not_above_it() -> None:
    """The census is known: whoever plans for the largest estimate is not surprised."""
    data = census(4_000, 0.1)
    snooper = Snooper(keys=("region", "sex", "age", "marital", "occupation"))
    profile = risk_profile(Release.as_it_is(data.sample), snooper)
    said = re.search(
        r"the estimates go from ([\d.,]+) \(.+?\) to ([\d.,]+) \(.+?\): plan for the larger", profile.verdict[1]
    )
    assert said is not None
    truth = risk_profile(Release.as_it_is(data.sample), snooper.learn(population=data.population)).risks.expected
    assert float(said[1]) < truth < float(said[2])
    assert "occupation is missing for" in profile.verdict[2]
    assert "use missing = 'value'" in profile.verdict[2]


def test_a_population_table_is_used_where_the_snooper_has_one() -> None:
    data = file(x=["a", "b"])
    people = file(x=["a", "a", "a", "b"])
    profile = risk_profile(Release.as_it_is(data), Snooper(population=people))
    assert profile.in_population
    assert profile.risks.expected == pytest.approx(1 / 3 + 1)


def test_a_table_that_is_refused_is_not_said_to_have_been_counted_in() -> None:
    data = file(x=["a", "b", "b"])
    profile = risk_profile(Release.as_it_is(data), Snooper(population=file(x=["b", "b"])))
    assert profile.among == "file"
    assert profile.verdict[1].startswith("If the file is everybody there is, or the snooper knows who is in it, 2 of 3")
    assert "fewer persons than the release" in profile.refused["journalist risk, mean"]
    as_sample = risk_profile(Release.as_it_is(data), Snooper(population=file(x=["b", "b"])), fraction=0.5)
    assert as_sample.among == "sample"


def test_a_file_of_everybody_is_not_told_to_find_out_what_part_it_is() -> None:
    profile = risk_profile(Release.as_it_is(file(x=["a", "b", "b"])), fraction=1.0)
    assert profile.verdict[1] == (
        "The file is everybody there is, by its survey weights or the sampling fraction: "
        "2 of 3 records are expected to be identified."
    )


def test_one_is_told_as_one() -> None:
    profile = risk_profile(Release.as_it_is(file(x=["a"])))
    said = " ".join([*profile.verdict, *(s.words for s in profile.scores)])
    assert "1 of 1 record is unique on x: who knows this of a person finds one record." in profile.verdict
    assert "1 of 1 record is expected to be identified" in said
    assert "1 of 1 record matches fewer than 3 records on x" in said
    assert "1 records" not in said
    assert "for the reason below" in profile.verdict[-1]


def test_the_estimates_that_are_compared_are_of_the_unique_records() -> None:
    """20 of 40 records are unique; p = 1/4 gives them ln(4)/3 each, and those of two 1/3 - ln(4)/9."""
    data = file(x=[*range(20), *np.repeat(np.arange(20, 30), 2).tolist()])
    said = " ".join(risk_profile(Release.as_it_is(data), fraction=0.25).verdict)
    assert "How many of the 20 unique records would be identified" in said
    assert f"{20 * np.log(4) / 3:.3g} (individual risk)" in said
    everybody = 20 * np.log(4) / 3 + 20 * (1 / 3 - np.log(4) / 9)
    assert f"By individual risk, which counts the other records too, {everybody:.3g} of 40 records" in said


def test_without_its_only_key_a_file_of_fewer_than_k_still_has_records_below_k() -> None:
    profile = risk_profile(Release.as_it_is(file(x=["a", "b"])), k=3)
    assert profile.contributions.to_dict("list") == {"key": ["x"], "without": [2], "less": [0]}


def test_a_masked_file_is_also_compared_with_the_original() -> None:
    data = five()
    release = KimNoise(columns="salary").apply(data, Draws(1))
    names = {m.name for m in risk_profile(release).measures}
    assert "attribute_risk" in names
    assert "attribute_risk" not in {m.name for m in risk_profile(Release.as_it_is(data)).measures}


def test_measures_that_do_not_apply_are_listed_with_their_reason() -> None:
    data = five()
    loose = Release.of(data, data.take(np.arange(3)))
    profile = risk_profile(loose, measures=[AttributeRisk("rent")])
    assert "which released record came from which" in profile.refused["risk for rent"]
    with pytest.raises(NotApplicable, match="the list of the riskiest records needs to know"):
        profile.riskiest()


def test_a_sample_is_profiled_by_what_is_released() -> None:
    data = census(300, 0.5).sample
    release = Sample(fraction=0.5).apply(data, Draws(1))
    profile = risk_profile(release, Snooper(keys=KEYS))
    assert profile.class_sizes()["records"].sum() == len(release.masked)
    released = set((release.align + 1).tolist())
    assert set(profile.riskiest(10)["row"]) <= released


def test_what_is_written_for_machines_and_reports_holds_no_record() -> None:
    profile = risk_profile(Release.as_it_is(five()))
    text = json.dumps(profile.to_dict(), default=str) + str(profile.section())
    for name in ("Ada", "48201", "310"):
        assert name not in text


def test_no_keys_stop_the_profile_with_a_sentence() -> None:
    data = Microdata(pa.table({"x": [1]}), Schema((Attribute("x", "confidential"),)))  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="there are no keys"):
        risk_profile(Release.as_it_is(data))
