"""The command line: the utility of a release, and the map of risk and utility."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run

__all__ = ["files", "folder", "frames"]  # fixtures

# -- utility


def test_utility_is_the_error_of_each_estimate(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    asked = ("salary", "income - salary", "salary ~ age", "salary ~ age + C(region); age")
    options = [part for text in asked for part in ("--estimator", text)]
    found = document(run("utility", *files[:2], *options, "--schema", files[2], "--json"))

    def slope(frame: pd.DataFrame, dummies: bool) -> float:
        columns = [np.ones(N), frame["age"]]
        if dummies:
            columns += [frame["region"] == r for r in sorted(frame["region"].unique())[1:]]
        return float(np.linalg.lstsq(np.column_stack(columns).astype(float), frame["salary"], rcond=None)[0][1])

    computed: list[Callable[[pd.DataFrame], float]] = [
        lambda f: f["salary"].mean(), lambda f: (f["income"] - f["salary"]).mean(),
        lambda f: slope(f, False), lambda f: slope(f, True),
    ]  # fmt: skip
    for estimate, compute in zip(found["estimates"], computed, strict=True):
        before, after = (compute(f) for f in frames)
        assert estimate["error"] == pytest.approx(after - before, rel=1e-6)
        assert estimate["relative_error"] == pytest.approx((after - before) / before, rel=1e-6)
        assert estimate["utility"] == pytest.approx(1 / (after - before) ** 2, rel=1e-6)
    assert found["target"] == "file"


def test_utility_says_what_it_measures_and_what_it_cannot(files: tuple[Path, Path, Path]) -> None:
    args = ("utility", *files[:2], "--estimator", "salary", "--schema", files[2])
    lines = run(*args).stdout.splitlines()
    assert re.match(
        r"From the masked file, mean salary: off by [\d.]+ thousand dollars, [\d.]+ % of the original's", lines[0]
    )
    assert "sfumato map" in lines[1]
    refused = run(*args, "--target", "population")
    assert refused.exit_code == 1
    assert "takes many maskings of many samples: sfumato map" in refused.stderr


def test_an_unmasked_estimate_is_exact(files: tuple[Path, Path, Path]) -> None:
    args = ("utility", *files[:2], "--estimator", "age", "--schema", files[2])
    assert document(run(*args, "--json"))["estimates"][0]["utility"] == "inf"
    assert "exactly as in the original" in run(*args).stdout


# -- map


def map_args(files: tuple[Path, Path, Path], *more: object) -> tuple[object, ...]:
    method = ("--mask", "kim_noise", "--set", "columns=salary,income")
    return ("map", files[0], "--schema", files[2], *method, "--risk", "salary", "--utility", "salary", *more)


def test_the_map_by_formula_is_the_papers(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found = document(run(*map_args(files, "--over", "lambda2=0.01:1:5", "--replications", 0, "--json")))
    variance = frames[0]["salary"].var()
    levels = np.geomspace(0.01, 1, 5)
    risks = [p["value"] for p in found["points"] if p["side"] == "risk" and p["masked"]]
    gains = [p["value"] for p in found["points"] if p["side"] == "utility"]
    np.testing.assert_allclose(risks, 1 / (levels * variance), rtol=1e-9)
    np.testing.assert_allclose(gains, N / ((1 + np.append(levels, 0)) * variance), rtol=1e-9)
    assert found["choice"] is None
    assert [p["value"] for p in found["points"] if p["side"] == "risk" and not p["masked"]] == ["inf"]


def test_the_choice_keeps_the_snooper_as_far_off_as_asked(
    files: tuple[Path, Path, Path], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    args = map_args(files, "--over", "kim_noise.lambda2=0.01:1:7", "--replications", 0, "--json")
    by_error = document(run(*args, "--max-error", 5))["choice"]
    assert by_error["feasible"] is True
    assert by_error["settings"]["kim_noise.lambda2"] == pytest.approx(25 / frames[0]["salary"].var(), rel=1e-6)
    for threshold in (0.04, "salary=0.04"):
        assert document(run(*args, "--max-risk", threshold))["choice"]["settings"] == by_error["settings"]


def test_the_map_by_replication_agrees_with_the_formula(files: tuple[Path, Path, Path]) -> None:
    args = map_args(files, "--over", "lambda2=0.05,0.1,0.2", "--replications", 60, "--seed", 3, "--json")
    found = document(run(*args, "--max-error", 5))
    rows = pd.DataFrame(found["points"]).query("masked and side == 'risk'")
    by_source = rows.pivot_table(
        index="kim_noise.lambda2", columns="source", values="value", aggfunc=lambda v: float(v.iloc[0])
    )
    np.testing.assert_allclose(by_source["empirical"], by_source["analytic"], rtol=0.05)
    risk = found["choice"]["risks"][0]
    assert risk["interval"][1] <= 0.04
    assert document(run(*args, "--max-error", 5)) == found  # the same seed, the same map


def test_an_infeasible_question_is_answered_with_exit_code_3(files: tuple[Path, Path, Path]) -> None:
    args = map_args(files, "--over", "lambda2=0.01:0.1:3", "--replications", 0, "--max-error", 50)
    told = run(*args)
    assert told.exit_code == 3
    assert re.search(
        r"^infeasible: no value of kim_noise.lambda2 from 0.01 to 0.1 reaches the threshold", told.stdout, re.M
    )
    found = document(run(*args, "--json"), code=3)
    assert found["choice"]["feasible"] is False


def test_the_map_prints_a_row_per_point_and_the_choice(files: tuple[Path, Path, Path]) -> None:
    args = map_args(
        files, "--over", "lambda2=0.05,0.1,0.2", "--replications", 20, "--seed", 1, "--utility", "salary ~ age"
    )
    told = run(*args, "--max-error", 5)
    lines = told.stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("kim_noise.lambda2  R: risk for salary"))
    assert [line.split()[0] for line in lines[head + 2 : head + 6]] == ["0.05", "0.1", "0.2", "unmasked"]
    assert any(re.match(r"kim_noise.lambda2 = 0\.1\d+: the most useful release", line) for line in lines)
    assert re.search(
        r"mean salary: the estimate is typically off by .* \(8\d % of the unmasked file's precision\)", told.stdout
    )
    assert "Masking at every point" in told.stderr


def test_two_parameters_are_swept_together(files: tuple[Path, Path, Path], folder: Path) -> None:
    method = ("--recipe", folder / "release" / "recipe.toml", "--risk", "salary", "--utility", "salary")
    over = ("--over", "kim_noise.lambda2.salary=0.1,0.2", "--over", "kim_noise.lambda2.income=0.1:0.4:3")
    found = document(run("map", files[0], "--schema", files[2], *method, *over, "--replications", 0, "--json"))
    swept = [(p["kim_noise.lambda2.salary"], p["kim_noise.lambda2.income"]) for p in found["points"] if p["masked"]]
    assert sorted({(s, round(i, 9)) for s, i in swept}) == [(s, i) for s in (0.1, 0.2) for i in (0.1, 0.2, 0.4)]


def test_the_map_is_drawn_and_reported(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    args = map_args(files, "--over", "lambda2=0.05,0.1,0.2", "--replications", 0, "--max-error", 5)
    done = run(*args, "--chart", tmp_path / "m.svg", "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "m.svg").read_text("utf-8").startswith("<svg")
    assert "risk for salary" in (tmp_path / "r.html").read_text("utf-8")
    assert "is there already" in run(*args, "--chart", tmp_path / "m.svg").stderr
    assert "--replace" in run(*args, "--out", tmp_path / "r.html").stderr
    assert run(*args, "--chart", tmp_path / "m.png").exit_code == 0
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
