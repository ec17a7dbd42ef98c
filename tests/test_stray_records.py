"""Rows of a file that are no records: empty ones, totals, notes, and records that stand twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.contract import Release
from sfumato.errors import DataWarning, ParameterError
from sfumato.risk import risk_profile


def people(n: int = 240, seed: int = 19) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "town": rng.choice(["Bern", "Chur", "Genf"], n),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(16, 90, n),
            "pay": np.round(np.exp(rng.normal(8, 0.4, n)), 2),
        }
    )


def read(frame: pd.DataFrame, rows: list[dict[str, object]], folder: Path, **options: str) -> tuple[Microdata, str]:
    """Return the file with some more rows, and the warnings."""
    path = folder / "people.csv"
    pd.concat([frame, pd.DataFrame(rows)], ignore_index=True)[list(frame.columns)].to_csv(path, index=False)
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always", DataWarning)
        data = Microdata.read(path, **options)
    return data, " ".join(str(w.message) for w in noticed)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"town": "Total", "pay": 9e5}, "is a total by its label"),
        ({"town": "Summe", "pay": 9e5}, "is a total by its label"),
        ({"town": "Bern total", "pay": 9e5}, "is a total by its label"),
        ({"town": "TOTAL", "age": 11_000, "pay": 9e5}, "is a total by its label"),
        ({"town": "Source: our own survey"}, "is a single text"),
        ({}, "has no value in any column"),
    ],
)
def test_a_row_that_is_no_record_by_itself_is_left_out_with_a_warning_on_every_engine(
    engine: str, row: dict[str, object], what: str, tmp_path: Path
) -> None:
    frame = people()
    data, said = read(frame, [row], tmp_path, engine=engine)
    assert len(data) == len(frame)
    assert what in said
    assert "(record 241)" in said
    assert "Bern" not in said
    assert len(read(frame, [row], tmp_path, engine=engine, all_records="yes")[0]) == len(frame) + 1


def test_a_person_from_a_town_named_total_who_answered_everything_stays(tmp_path: Path) -> None:
    data, said = read(people(), [{"town": "Total", "sex": "f", "age": 33, "pay": 1200.5}], tmp_path)
    assert len(data) == 241
    assert said == ""


def test_sums_and_means_without_a_label_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    frame = people()
    rows: list[dict[str, object]] = [
        {"town": "Chur", "pay": round(frame.pay[frame.town == "Chur"].sum(), 2)},
        {"pay": round(frame.pay.mean(), 2), "age": round(frame.age.mean(), 1)},
        {"pay": round(frame.pay.sum(), 2)},
    ]
    data, said = read(frame, rows, tmp_path)
    assert len(data) == 243
    assert "3 records add up others, or are their means (records 241, 242, 243)" in said
    assert said.endswith("leave_out=241-243")
    assert len(read(frame, rows, tmp_path, leave_out="242")[0]) == 242
    assert len(read(frame, rows, tmp_path, leave_out=["241-243"])[0]) == 240


def test_a_record_that_stands_twice_is_named_where_records_can_be_told_apart(tmp_path: Path) -> None:
    frame = people()
    again = frame.iloc[[5, 5, 71]].to_dict("records")
    data, said = read(frame, again, tmp_path)
    assert len(data) == 243
    assert "3 records repeat earlier ones in every column (records 241, 242, 243)" in said
    many = read(frame, frame.iloc[40:62].to_dict("records"), tmp_path)[1]
    assert many.endswith("leave_out=241-262")  # what it says can be copied, however many they are
    plain = people()[["town", "sex"]].assign(vote=lambda d: d["sex"])
    assert read(plain, [], tmp_path)[1] == ""


@pytest.mark.parametrize("seed", range(6))
def test_records_with_gaps_are_no_totals(seed: int, tmp_path: Path) -> None:
    frame = people(seed=seed)
    rng = np.random.default_rng(seed)
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    data, said = read(frame, [], tmp_path)
    assert len(data) == len(frame)
    assert "total" not in said
    assert "add up" not in said


@pytest.mark.parametrize("odd", [{"pay": 1.5}, {"town": "Bern", "pay": 812.25}, {"age": 44.0}])
def test_a_verdict_does_not_rest_on_a_record_without_nearly_every_key(odd: dict[str, object], tmp_path: Path) -> None:
    frame = people()
    keys = ["town", "sex", "age"]
    unique = int((frame.groupby(keys)["pay"].transform("size") == 1).sum())
    data, _ = read(frame, [odd], tmp_path)
    schema = data.schema.roles(key=keys, confidential="pay")
    profile = risk_profile(Release.as_it_is(data.with_schema(schema)))
    assert profile.verdict[0].startswith(f"{unique} of 240 records are unique")
    assert profile.left_out == 1
    alone = risk_profile(Release.as_it_is(Microdata(frame, schema)))
    assert [s.value for s in profile.scores] == pytest.approx([s.value for s in alone.scores], nan_ok=True)


def test_a_choice_of_rows_without_a_meaning_is_refused(tmp_path: Path) -> None:
    for odd in ("last", "9-3", "0-3", "3-", "1-1000000000"):
        with pytest.raises(ParameterError, match="counted from 1"):
            read(people(), [], tmp_path, leave_out=odd)
    with pytest.raises(ParameterError, match="yes or no"):
        read(people(), [], tmp_path, all_records="maybe")
