"""The experiments of the global-risk paper on generated bills and on other files, and its advice on where to start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata, Snooper
from sfumato.charts.theme import to_svg
from sfumato.datasets import billing, census, teachers
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks import ChangeRare
from sfumato.papers import KeyExperiments, key_experiments, masking_floors
from sfumato.risk import GlobalRisk
from sfumato.schema import Attribute, Schema

SIZES = (1_000, 5_000)


@pytest.fixture(scope="module")
def found() -> KeyExperiments:
    files = {f"{n:,} records": billing(n) for n in SIZES}
    return key_experiments(
        files, noise=[0, 0.05, 0.2, 1], shares=[0, 0.02, 0.05, 0.1, 0.3, 0.5], least=[1, 5, 50, 600, 5_000]
    )


def curve(found: KeyExperiments, experiment: str, n: int, kind: str = "maximal", column: str = "value") -> list[Any]:
    rows = found.frame().query("experiment == @experiment and kind == @kind and records == @n")
    assert rows["setting"].is_monotonic_increasing
    return list(rows[column])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["minimal", "maximal"])
def test_noise_on_age_lowers_the_risk_at_a_falling_rate(found: KeyExperiments, n: int, kind: str) -> None:
    risk, factor = (curve(found, "noise on age", n, kind, column) for column in ("value", "change"))
    assert factor[0] == 0
    assert factor == sorted(factor)
    assert risk == sorted(risk, reverse=True)
    slopes = np.diff(factor) / np.diff([0, 0.05, 0.2, 1])
    assert (np.diff(slopes) < 0).all()


@pytest.mark.parametrize("n", SIZES)
def test_changing_sex_helps_only_until_a_snooper_does_better_without_it(found: KeyExperiments, n: int) -> None:
    risk, keys = curve(found, "sex changed", n), curve(found, "sex changed", n, column="keys")
    assert risk[1] < risk[0]
    assert keys[0] == "age, sex, zip"
    assert keys[-1] == "age, zip"
    first = keys.index("age, zip")
    assert len(set(risk[first:])) == 1  # not one record is better protected from there on
    without = masking_floors(billing(n)).set_index("key")["floor"]["sex"]
    assert risk[-1] == pytest.approx(without)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["minimal", "maximal"])
def test_recoding_zip_has_the_largest_fall_and_ends_when_every_code_is_cut(
    found: KeyExperiments, n: int, kind: str
) -> None:
    risk, factor = (curve(found, "zip recoded", n, kind, column) for column in ("value", "change"))
    others = [curve(found, other, n, kind) for other in ("noise on age", "sex changed")]
    assert risk[0] == others[0][0] == others[1][0]
    assert risk[-1] < others[1][-1]
    if n == 5_000:  # among 1,000 records noise of the whole variance of age does as much
        assert risk[-1] < others[0][-1]
    assert risk == sorted(risk, reverse=True)
    assert risk[-2] == risk[-1]  # no code has 600 records: all have three digits
    assert factor[-1] == pytest.approx(2 / 5)


def test_every_risk_is_that_of_the_measure_itself(found: KeyExperiments) -> None:
    data = billing(1_000)
    outcome = ChangeRare("sex", share=0.1).apply(data, Draws(1))
    for kind in ("min", "max"):
        row = found.frame().query(
            f"experiment == 'sex changed' and records == 1000 and setting == 0.1 and kind == '{kind}imal'"
        )
        assert row["value"].item() == GlobalRisk(kind=kind).score(outcome).value  # type: ignore[arg-type]


def test_the_chart_is_drawn_from_the_numbers_of_the_frame(found: KeyExperiments) -> None:
    spec = found.chart().to_dict()
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["noise on age", "sex changed", "zip recoded"]
    for panel in spec["hconcat"]:
        for layer in panel["layer"]:
            drawn = pd.DataFrame(spec["datasets"][layer["data"]["name"]])
            rows = found.frame()[found.frame()["experiment"] == panel["title"]["text"]]
            pd.testing.assert_frame_equal(drawn, rows[drawn.columns].reset_index(drop=True))
            low, high = layer["encoding"]["y"]["scale"]["domain"]
            assert low == 0
            assert high > drawn["value"].max()
    svg = to_svg(spec)
    assert "5,000 records" in svg
    assert "minimal" in svg


def test_a_file_without_a_key_of_some_scale_goes_without_its_experiment() -> None:
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u"] * 30 + ["v"] * 10})
    data = Microdata(frame, Schema((Attribute("a", "key", "unordered"), Attribute("b", "key", "unordered"))))
    found = key_experiments(data, unordered="b", shares=[0, 0.01, 0.5])
    assert found.frame()["experiment"].unique().tolist() == ["b changed"]
    assert found.frame()["setting"].unique().tolist() == [0, 0.5]  # a hundredth of 40 records is nobody
    assert found.chart().to_dict()["hconcat"][0]["title"]["text"] == "b changed"


def test_a_key_of_another_scale_no_key_and_no_file_are_refused() -> None:
    with pytest.raises(ParameterError, match="'sex' is unordered"):
        key_experiments(billing(50), tree="sex")
    with pytest.raises(NotApplicable, match="there are no keys"):
        key_experiments(Microdata(pd.DataFrame({"x": [1.0]}), Schema((Attribute("x"),))))
    with pytest.raises(ParameterError, match="at least one file"):
        key_experiments({})


# -- where to start: the paper's advice


def floors(columns: dict[str, Any]) -> pd.DataFrame:
    schema = Schema(tuple(Attribute(name, "key", "unordered") for name in columns))
    return masking_floors(Microdata(pd.DataFrame(columns), schema))


def test_a_floor_is_the_share_of_classes_without_the_key() -> None:
    """Four records: six pairs of keys; without a there are 2 classes of b, without b 3 of a."""
    table = floors({"a": ["x", "y", "z", "z"], "b": ["u", "u", "u", "v"]}).set_index("key")
    assert table["floor"].to_dict() == {"a": 2 / 4, "b": 3 / 4}
    assert table["fall"].to_dict() == {"a": 2 / 4, "b": 1 / 4}
    assert floors({"a": ["x", "y"]})["floor"].tolist() == [0]


def first_is_largest(table: pd.DataFrame) -> bool:
    return bool(table["floor"][table["values"].idxmax()] == table["floor"].min())


def test_the_advice_holds_for_keys_that_are_spread_evenly_and_do_not_depend_on_each_other() -> None:
    g = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        sizes = g.permutation([2, 5, 12, 40])
        held += first_is_largest(floors({f"k{d}": g.integers(0, d, 400).astype(str) for d in sizes}))
    assert held == 100
    for seed in range(5):
        assert first_is_largest(masking_floors(billing(1_000, seed)))
        assert first_is_largest(masking_floors(teachers(1_000, seed)))


def test_the_advice_fails_for_a_key_of_many_rare_values_and_for_one_that_follows_from_another() -> None:
    g = np.random.default_rng(2)
    skewed = nested = 0
    for _ in range(100):
        age = g.integers(0, 30, 400)
        job = np.where(g.random(400) < 0.85, 0, g.integers(1, 60, 400))  # 60 jobs, but most people have the same
        skewed += first_is_largest(
            floors({"age": age.astype(str), "sex": g.integers(0, 2, 400).astype(str), "job": job.astype(str)})
        )
        tract = g.integers(0, 50, 400)
        places = {"tract": tract.astype(str), "street": (tract * 2 + g.integers(0, 2, 400)).astype(str)}
        nested += first_is_largest(floors({"age": age.astype(str), **places}))
    assert skewed <= 5
    assert nested == 0


def test_among_persons_of_a_census_age_comes_first_though_tracts_are_more() -> None:
    """Whoever knows the district knows most of what the tract would tell him."""
    people = masking_floors(census(10_000).sample, Snooper(keys=("district", "tract", "sex", "age")))
    assert people["key"].tolist()[:2] == ["age", "tract"]
    assert people["values"][1] > people["values"][0]
    assert people.set_index("key")["fall"]["district"] == 0


def test_the_keys_that_serve_best_may_differ_between_minimal_and_maximal_risk(found: KeyExperiments) -> None:
    best = found.frame().pivot(index=["file", "experiment", "setting"], columns="kind", values="keys")
    assert (best["minimal"] != best["maximal"]).any()


def test_a_snooper_with_keys_of_his_own_has_experiments_with_those_alone() -> None:
    found = key_experiments(billing(100), shares=[0, 0.5], least=[1, 10], snooper=Snooper(keys=("sex", "zip")))
    assert found.frame()["key"].unique().tolist() == ["sex", "zip"]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"ordered": "amount_billed"}, "'amount_billed' is not in the keys that the snooper looks for"),
        ({"ordered": "aeg"}, "Did you mean 'age'"),
        ({"noise": [], "shares": [], "least": []}, "at least one setting"),
    ],
)
def test_an_experiment_on_what_is_no_key_or_without_settings_is_refused_in_a_sentence(named: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        key_experiments(billing(50), **named)
