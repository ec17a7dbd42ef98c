"""`sfumato risk`: the page, single measures, and single columns; numbers against pandas and NumPy, not against sfumato."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run

from sfumato.datasets import census

__all__ = ["files", "folder", "frames"]  # fixtures

# -- columns


def test_risk_is_one_over_the_mean_squared_difference(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found = document(
        run("risk", *files[:2], "--measure", "attribute_risk", "--align", "rows", "--schema", files[2], "--json")
    )
    before, after = frames
    scores = {s["column"]: s for s in found["scores"]}
    for column in ("salary", "income"):
        mse = ((after[column] - before[column]) ** 2).mean()
        assert scores[column]["value"] == pytest.approx(1 / mse, rel=1e-9)
        assert scores[column]["typical_error"] == pytest.approx(np.sqrt(mse), rel=1e-9)
        assert scores[column]["error_over_sd"] == pytest.approx(np.sqrt(mse) / before[column].std(), rel=1e-9)
    assert [s["column"] for s in found["scores"]] == ["salary", "income"]  # less noise for its spread: known best
    assert found["not_applicable"] == {}


def test_the_verdict_comes_first_and_then_the_table(files: tuple[Path, Path, Path]) -> None:
    args = ("--align", "rows", "--schema", files[2], "--measure", "attribute_risk")
    lines = run("risk", *files[:2], *args).stdout.splitlines()
    assert re.match(
        r"For salary a snooper is typically off by [\d.]+ thousand dollars, \d+ % of the column's standard", lines[0]
    )
    assert lines[1].startswith("The snooper knows which record is the target's")
    assert lines[3].startswith("column  ")
    assert [line.split()[0] for line in lines[5:7]] == ["salary", "income"]


def test_risk_of_the_top_holders(files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    args = ("--align", "rows", "--schema", files[2], "--column", "salary", "--set", "low=0.9", "--json")
    score = document(run("risk", *files[:2], *args))["scores"][0]
    x, y = (f["salary"].to_numpy() for f in frames)
    top = x >= np.quantile(x, 0.9)
    assert score["value"] == pytest.approx(1 / ((y - x)[top] ** 2).mean(), rel=1e-9)


def test_a_snooper_who_is_told_the_noise_and_knows_the_age_predicts_by_regression(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    args = ("--align", "rows", "--schema", files[2], "--column", "salary", "--knows", "age", "--published", "--json")
    found = document(run("risk", *files[:2], *args))
    before, after = frames
    design = np.column_stack([np.ones(N), after["salary"], before["age"]])
    left = before["salary"] - design @ np.linalg.lstsq(design, before["salary"], rcond=None)[0]
    assert found["scores"][0]["value"] == pytest.approx(1 / (left**2).mean(), rel=1e-6)
    assert found["snooper"]["strategy"] == "bayes"
    assert found["snooper"]["covariates"] == ["age"]


def test_a_snooper_who_may_link_the_wrong_record(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    args = ("--align", "rows", "--schema", files[2], "--column", "salary", "--match-probability", "0.7", "--json")
    value = document(run("risk", *files[:2], *args))["scores"][0]["value"]
    x, y = (f["salary"].to_numpy() for f in frames)
    squares = (y[None, :] - x[:, None]) ** 2
    right = np.diag(squares)
    wrong = (squares.sum(axis=1) - right) / (N - 1)
    assert value == pytest.approx(1 / (0.7 * right + 0.3 * wrong).mean(), rel=1e-9)


def test_files_in_another_order_are_aligned_by_a_column_and_doubted_by_rows(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    before, after = frames
    shuffled = after.assign(teacher_id=before["teacher_id"]).sample(frac=1, random_state=1)
    shuffled.to_csv(tmp_path / "m.csv", index=False)
    args = ("risk", files[0], tmp_path / "m.csv", "--schema", files[2], "--column", "salary", "--json")
    mse = ((after["salary"] - before["salary"]) ** 2).mean()
    assert document(run(*args, "--align", "teacher_id"))["scores"][0]["value"] == pytest.approx(1 / mse, rel=1e-9)
    doubted = run(*args, "--align", "rows")
    assert "--align rows does not hold" in doubted.stderr
    assert document(doubted)["scores"][0]["value"] < 1 / mse
    assert "does not hold" not in run("risk", *files[:2], "--schema", files[2], "--align", "rows").stderr


def test_a_value_released_as_it_was_has_infinite_risk(files: tuple[Path, Path, Path]) -> None:
    args = ("risk", files[0], files[0], "--align", "rows", "--schema", files[2], "--column", "salary")
    assert document(run(*args, "--json"))["scores"][0]["value"] == "inf"
    assert run(*args).stdout.startswith("salary is released as it was")


def test_a_column_that_is_not_released_is_left_out_and_told(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    frames[1].drop(columns="income").to_csv(tmp_path / "m.csv", index=False)
    args = ("risk", files[0], tmp_path / "m.csv", "--align", "rows", "--schema", files[2], "--json")
    found = document(run(*args, "--measure", "attribute_risk"))
    assert [s["column"] for s in found["scores"]] == ["salary"]
    assert "not in the masked file" in found["not_applicable"]["income"]
    named = run(*args, "--column", "income")
    assert named.exit_code == 1
    assert "nothing is released of it" in named.stderr


def test_each_file_is_read_in_its_own_way(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    frames[0].to_csv(tmp_path / "euro.csv", index=False, sep=";", decimal=",")
    args = ("--read", "decimal=,", "--align", "rows", "--schema", files[2], "--column", "salary", "--json")
    mse = ((frames[1]["salary"] - frames[0]["salary"]) ** 2).mean()
    assert document(run("risk", tmp_path / "euro.csv", files[1], *args))["scores"][0]["value"] == pytest.approx(1 / mse)
    assert run("risk", tmp_path / "euro.csv", files[1], *args, "--read-masked", "decimal=,").exit_code == 1


# -- the page

KEYS = ("sex", "age", "region")


def counts(frame: pd.DataFrame) -> pd.Series:
    """How many records of a file without missing keys look the same as each."""
    return frame.groupby(list(KEYS))["salary"].transform("size")


def test_the_page_of_one_file_counts_what_pandas_counts(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found = document(run("risk", files[0], "--schema", files[2], "--keys", ",".join(KEYS), "--json"))
    f = counts(frames[0])
    unique, below = int((f == 1).sum()), int((f < 3).sum())
    assert found["records"] == N
    assert found["keys"] == list(KEYS)
    assert found["verdict"][0].startswith(f"{unique:,} of {N:,} records are unique on sex, age, region")
    score = next(s for s in found["scores"] if s["name"] == "k_anonymity")
    assert score["value"] == pytest.approx(below / N)
    assert {row["matches"]: row["records"] for row in found["class_sizes"]}["1"] == unique
    assert sum(row["records"] for row in found["risk_distribution"]) == N
    without = {row["key"]: row["without"] for row in found["contributions"]}
    for key in KEYS:
        others = [k for k in KEYS if k != key]
        assert without[key] == int((frames[0].groupby(others)["salary"].transform("size") < 3).sum())


def test_the_verdict_comes_first_then_the_measures_then_where_the_risk_comes_from(
    files: tuple[Path, Path, Path],
) -> None:
    done = run("risk", files[0], "--schema", files[2], "--keys", ",".join(KEYS))
    lines = done.stdout.splitlines()
    assert "records are unique on sex, age, region" in lines[0]
    heads = [i for i, line in enumerate(lines) if line.startswith(("measure (lower", "records that match", "key  "))]
    assert len(heads) == 3
    assert heads == sorted(heads)
    assert "The snooper knows sex, age, region of a person." in done.stdout


def test_no_record_is_shown_unless_the_riskiest_are_asked_for(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    args = ("risk", files[0], "--schema", files[2], "--keys", ",".join(KEYS), "--json")
    assert "riskiest" not in document(run(*args))
    listed = document(run(*args, "--riskiest", "7"))["riskiest"]
    f = counts(frames[0])
    assert [row["matches"] for row in listed] == sorted(f)[:7]
    assert all(f.iloc[row["row"] - 1] == row["matches"] for row in listed)
    assert all(set(row) == {"row", "matches", "risk"} for row in listed)


def test_a_masked_file_without_alignment_gets_its_own_counts_and_says_what_does_not_apply(
    files: tuple[Path, Path, Path],
) -> None:
    found = document(run("risk", *files[:2], "--schema", files[2], "--keys", ",".join(KEYS), "--json"))
    assert any(s["name"] == "k_anonymity" for s in found["scores"])
    assert any("which released record came from which" in why for why in found["not_applicable"].values())


def test_precision_and_the_rule_for_missing_keys_reach_the_measures(files: tuple[Path, Path, Path]) -> None:
    args = ("risk", files[0], "--schema", files[2], "--keys", "age,sex", "--measure", "k_anonymity", "--json")
    sharp, vague = (
        document(run(*args, *more))["scores"][0] for more in ((), ("--precision", "age=20", "--set", "missing=value"))
    )
    assert vague["value"] < sharp["value"]
    assert "value of its own" in vague["variant"]


def test_a_measure_of_one_column_is_told_in_its_own_terms_for_each_column(files: tuple[Path, Path, Path]) -> None:
    args = ("risk", files[0], "--schema", files[2], "--keys", "sex,region", "--measure", "t_closeness")
    found = document(run(*args, "--json"))["scores"]
    assert [s["parameters"]["column"] for s in found] == ["salary", "income"]
    one = run(*args, "--column", "income").stdout
    assert "t-closeness" in one
    assert "typical error" not in one


def test_the_profile_is_drawn_for_its_owner_alone(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    args = ("risk", files[0], "--schema", files[2], "--keys", "age,sex", "--chart")
    done = run(*args, tmp_path / "r.svg")
    assert done.exit_code == 0, done.stderr
    picture = (tmp_path / "r.svg").read_text("utf-8")
    assert "What each key contributes" in picture
    assert run(*args, tmp_path / "r.png").exit_code == 0
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_population_file_gives_the_share_of_right_matches(tmp_path: Path) -> None:
    data = census(400, 0.2)
    data.sample.write(tmp_path / "s.csv")
    data.population.write(tmp_path / "p.csv")
    data.sample.schema.write(tmp_path / "s.toml")
    keys = ["region", "sex", "marital"]
    args = ("--schema", tmp_path / "s.toml", "--keys", ",".join(keys), "--measure", "reidentification", "--json")
    more = ("--set", "attacker=journalist", "--population", tmp_path / "p.csv")
    found = document(run("risk", tmp_path / "s.csv", *args, *more))
    sample, people = pd.read_csv(tmp_path / "s.csv"), pd.read_csv(tmp_path / "p.csv")
    sizes = people.groupby(keys).size()
    expected = np.mean([1 / sizes[tuple(row)] for row in sample[keys].itertuples(index=False)])
    assert found["scores"][0]["value"] == pytest.approx(expected)


# -- how the page reads, and what is refused before anything takes long


@pytest.fixture
def small(tmp_path: Path) -> Path:
    pd.DataFrame({"sex": ["m", "m", "f", "f"], "age": [1, 1, 2, 3], "zip": [7, 7, 7, 8]}).to_csv(
        tmp_path / "r.csv", index=False
    )
    return tmp_path


def test_options_of_the_page_hold_for_a_single_measure_or_are_refused(small: Path) -> None:
    by_option = document(
        run("risk", small / "r.csv", "--keys", "sex", "--measure", "k_anonymity", "--k", "2", "--json")
    )
    assert by_option["scores"][0]["parameters"]["k"] == 2
    for args, says in {
        ("--measure", "suda", "--k", "5"): "suda has no parameter k, so --k would change nothing",
        ("--measure", "k_anonymity", "--k", "5", "--set", "k=4"): "give --k or --set k=..., not both",
        ("--measure", "suda", "--riskiest", "5"): "--riskiest is for the page of all measures",
        ("--measure", "suda", "--by", "sex"): "--by is for the page of all measures",
        ("--population-count", "n"): "--population-count names a column of the population's table",
    }.items():
        done = run("risk", small / "r.csv", *args)
        assert done.exit_code == 2
        assert says in done.stderr


def test_a_wrong_subgroup_and_a_list_that_cannot_be_are_told_before_measuring(small: Path) -> None:
    for args, says in {
        ("--by", "sx"): "column 'sx' is not in the data. Did you mean 'sex'?",
        (
            small / "r.csv",
            "--riskiest",
            "2",
        ): "which released record came from which original record. Give it with --align.",
    }.items():
        done = run("risk", small / "r.csv", *args)
        assert done.exit_code == 1
        assert says in done.stderr
        assert not done.stdout
        assert "Measuring" not in done.stderr


def test_the_column_that_counts_the_population_is_named(small: Path) -> None:
    pd.DataFrame({"sex": ["m", "f", "m"], "age": [1, 2, 9], "n": [50, 20, 0]}).to_csv(small / "p.csv", index=False)
    args = ("risk", small / "r.csv", "--keys", "sex", "--population", small / "p.csv", "--measure", "reidentification")
    counted = run(*args, "--set", "attacker=journalist", "--population-count", "n", "--json")
    assert document(counted)["scores"][0]["value"] == pytest.approx((2 / 50 + 2 / 20) / 4)
    assert "counted by column 'n'" in counted.stderr
    assert "counts as one person of the population" in run(*args).stderr


def test_duckdb_prints_the_same_page(small: Path) -> None:
    args = ("risk", small / "r.csv", "--keys", "sex,age", "--json")
    there = document(run(*args, "--engine", "duckdb"))
    assert there == document(run(*args))
    assert there["scores"][0]["details"]["unique records"] == 2
    both = run("risk", small / "r.csv", small / "r.csv", "--engine", "duckdb")
    assert "--engine duckdb is for one file" in both.stderr


def test_the_page_tells_each_measure_in_a_sentence_below_it_that_fits_the_screen(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = run("risk", small / "r.csv", "--keys", "sex,age,zip").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("records below 3-anonymity"))
    assert lines[at + 1] == (
        "    4 of 4 records match fewer than 3 records on the keys; the fewest that any record matches is 1"
    )
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", run("risk", small / "r.csv", "--keys", "sex,age,zip").stdout)
    told = [line for line in plain.splitlines() if line.startswith("    ")]
    assert told[:2] == [
        "    4 of 4 records match fewer than 3 records on the keys;",
        "    the fewest that any record matches is 1",
    ]


def test_a_measure_of_keys_says_how_records_are_found(small: Path) -> None:
    done = run("risk", small / "r.csv", "--keys", "sex", "--measure", "k_anonymity")
    assert "The snooper knows sex of a person. 4 records." in done.stdout


def test_small_numbers_are_printed_as_powers_of_ten(tmp_path: Path) -> None:
    """Noise of variance 10¹³ on a column: R = 1 / mean squared error = 10⁻¹³, as the noise of ±√10¹³ is exact here."""
    step = math.sqrt(1e13)
    before = pd.DataFrame({"person": range(400), "fortune": [1e8 + 1e6 * (i % 7) for i in range(400)]})
    before.to_csv(tmp_path / "before.csv", index=False)
    noise = [step if i % 2 else -step for i in range(400)]
    before.assign(fortune=before["fortune"] + noise).to_csv(tmp_path / "after.csv", index=False)
    done = run("risk", tmp_path / "before.csv", tmp_path / "after.csv", "--align", "rows", "--column", "fortune")
    assert done.exit_code == 0, done.stderr
    assert " 10⁻¹³" in done.stdout
    assert "e-13" not in done.stdout
