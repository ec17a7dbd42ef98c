"""`sfumato utility`: the page of before and after, measures by name and by subgroup; numbers against pandas and NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run

from sfumato.cli.listing import utility_measures
from sfumato.contract import Side, registered

__all__ = ["files", "folder", "frames"]  # fixtures
Files = tuple[Path, Path, Path]
Frames = tuple[pd.DataFrame, pd.DataFrame]


def test_two_files_alone_give_the_page_of_before_and_after(files: Files, frames: Frames) -> None:
    said = run("utility", *files[:2], "--schema", files[2])
    assert said.exit_code == 0, said.stderr
    assert said.stdout.startswith(f"{N:,} original records and {N:,} released.\n")
    for part in (
        "The standard deviation that changed most",
        "Numbers, before → after",
        "Correlations that changed most",
    ):
        assert part in said.stdout
    found = document(run("utility", *files[:2], "--schema", files[2], "--align", "rows", "--json"))
    figures = {(r["column"], r["statistic"]): (r["before"], r["after"]) for r in found["statistics"]}
    for name in ("salary", "income"):
        assert figures[name, "mean"] == pytest.approx([f[name].mean() for f in frames])
        assert figures[name, "standard deviation"] == pytest.approx([f[name].std() for f in frames])
    assert found["changed"]["region"] == 0
    assert found["changed"]["salary"] == pytest.approx((frames[0]["salary"] != frames[1]["salary"]).mean())


def test_the_page_shows_no_extreme_and_no_rare_value(files: Files, frames: Frames) -> None:
    said = run("utility", *files[:2], "--schema", files[2]).stdout
    for frame in frames:
        for name in ("salary", "income"):
            assert f"{frame[name].max():.4g}" not in said
    assert "teacher_id" not in said


def test_the_page_is_drawn(files: Files, tmp_path: Path) -> None:
    args = ("utility", *files[:2], "--schema", files[2], "--chart", tmp_path / "u.svg")
    assert run(*args).exit_code == 0
    assert "Correlations" in (tmp_path / "u.svg").read_text("utf-8")
    again = run(*args)
    assert (again.exit_code, "add --replace" in again.stderr) == (1, True)
    beside = run(*args, "--replace", "--measure", "hellinger")
    assert beside.exit_code == 0
    assert "Hellinger distance" in beside.stdout
    assert "Numbers, before → after" not in beside.stdout


def test_a_measure_is_asked_for_by_name_with_its_parameters_and_for_every_subgroup(
    files: Files, frames: Frames
) -> None:
    args = ("--measure", "means_kept; over=salary", "--by", "region", "--schema", files[2])
    score = document(run("utility", *files[:2], *args, "--json"))["measures"][0]
    assert (score["name"], score["parameters"]["over"]) == ("means_kept", ["salary"])
    for region, group in frames[0].groupby("region"):
        x, y = group["salary"], frames[1].loc[frames[1]["region"] == region, "salary"]
        assert score["groups"][region] == pytest.approx(1 - abs(y.mean() - x.mean()) / x.std(), rel=1e-6)
    lines = run("utility", *files[:2], *args).stdout.splitlines()
    heads = next(line for line in lines if line.startswith("region "))
    assert [line.split()[0] for line in lines[lines.index(heads) + 2 :]] == sorted(frames[0]["region"].unique())


def test_an_estimate_is_told_for_every_subgroup(files: Files, frames: Frames) -> None:
    args = ("--estimator", "salary", "--by", "school", "--schema", files[2], "--align", "rows", "--json")
    found = document(run("utility", *files[:2], *args))["estimates"][0]
    want = frames[1].groupby("school")["salary"].mean() - frames[0].groupby("school")["salary"].mean()
    assert found["groups"] == pytest.approx(want.to_dict())


def test_only_measures_of_single_records_need_align(files: Files, frames: Frames) -> None:
    loose = run("utility", *files[:2], "--measure", "granularity", "--measure", "total_variation", "--schema", files[2])
    assert loose.exit_code == 0, loose.stderr
    paired = ("--measure", "il1s; over=salary", "--align", "rows", "--schema", files[2], "--json")
    value = document(run("utility", *files[:2], *paired))["measures"][0]["value"]
    x, y = (f["salary"].to_numpy() for f in frames)
    assert value == pytest.approx(1 - np.abs(x - y).mean() / (np.sqrt(2) * x.std(ddof=1)), rel=1e-6)


def test_a_measure_that_needs_a_formula_takes_it(files: Files) -> None:
    said = run("utility", *files[:2], "--measure", "interval_overlap; formula=salary ~ age", "--schema", files[2])
    assert said.exit_code == 0, said.stderr


def test_weights_reach_the_page_and_every_measure_that_can_be_weighted(files: Files, tmp_path: Path) -> None:
    for i, path in enumerate(files[:2]):
        pd.read_csv(path).assign(w=np.arange(1, N + 1)).to_csv(tmp_path / f"{i}.csv", index=False)
    text = files[2].read_text("utf-8") + '\n[[attribute]]\nname = "w"\nrole = "weight"\nscale = "ordered"\n'
    (tmp_path / "s.toml").write_text(text, "utf-8")
    pair = ("utility", tmp_path / "0.csv", tmp_path / "1.csv", "--schema", tmp_path / "s.toml", "--weighted", "--json")
    found = document(run(*pair))
    mean = next(r for r in found["statistics"] if (r["column"], r["statistic"]) == ("salary", "mean"))
    frame = pd.read_csv(tmp_path / "0.csv")
    assert mean["before"] == pytest.approx(np.average(frame["salary"], weights=frame["w"]))
    measured = document(run(*pair, "--measure", "granularity", "--measure", "discernibility"))["measures"]
    assert [m["parameters"].get("weighted") for m in measured] == [True, None]


def test_the_list_has_every_utility_measure_with_its_parameters() -> None:
    said = run("utility", "--list").stdout
    known = {
        n
        for n, c in registered("measure").items()
        if getattr(c, "side", None) is Side.UTILITY and c.__module__.startswith("sfumato.utility")
    }
    assert known - {"estimator_utility"} == set(utility_measures())
    for name in utility_measures():
        assert f"  {name} " in said
    one = run("utility", "--list", "--measure", "average_class_size").stdout
    assert "over " in one
    assert "k " in one
    listed = document(run("utility", "--list", "--json"))["measures"]
    assert {entry["name"] for entry in listed} == set(utility_measures())
