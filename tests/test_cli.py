"""The command line: what it prints, where, with which exit code; numbers against pandas and NumPy, not against sfumato."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run, shell
from typer.main import get_command

import sfumato
from sfumato.cli import app
from sfumato.cli.screen import clean, plain_table
from sfumato.schema import Schema

__all__ = ["files", "folder", "frames"]  # fixtures

COMMANDS = ("demo", "schema", "mask", "risk", "utility", "map", "papers")
# -- help and version


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"sfumato {sfumato.__version__}\n"


def test_the_help_groups_the_commands_and_explains_the_exit_codes() -> None:
    text = " ".join(run("--help").stdout.split())
    for words in (
        "Start here",
        "Protect",
        "Measure and decide",
        "About",
        *COMMANDS,
        "infeasible",
        "--install-completion",
    ):
        assert words in text


def test_every_command_and_every_option_is_explained() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert command.help
        assert [p.name for p in command.params if not getattr(p, "help", "")] == [], name
        assert run(name, "--help").exit_code == 0


def test_the_names_of_masks_and_measures_are_completed() -> None:
    from sfumato.cli.options import mask_names, measure_names
    from sfumato.cli.papers import paper_names

    assert mask_names("kim") == ["kim_noise", "kim_transformation"]
    assert measure_names("attr") == ["attribute_risk"]
    assert paper_names("m") == ["matrix_masking", "mas"]


def test_importing_the_command_line_stays_light() -> None:
    heavy = ("pandas", "scipy", "pyarrow", "numba", "altair", "duckdb", "formulaic")
    code = f"import sfumato.cli, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- schema


def test_schema_names_every_column_with_its_role_and_reason(files: tuple[Path, Path, Path]) -> None:
    found = document(run("schema", files[0], "--json"))
    assert found["records"] == N
    assert [c["name"] for c in found["columns"]] == list(pd.read_csv(files[0], nrows=0).columns)
    assert {c["name"]: c["role"] for c in found["columns"]}["salary"] == "confidential"
    assert all(c["reason"] for c in found["columns"])


def test_schema_prints_a_table_and_how_to_correct_it(files: tuple[Path, Path, Path]) -> None:
    text = run("schema", files[0]).stdout
    assert re.search(r"^column +role +scale +reason$", text, re.MULTILINE)
    assert "--out schema.toml" in text
    assert "--schema schema.toml" in text


def test_schema_writes_toml_once_and_again_only_if_asked(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "s.toml"
    assert run("schema", files[0], "--out", out).exit_code == 0
    assert Schema.read(out).names() == tuple(pd.read_csv(files[0], nrows=0).columns)
    out.write_text("mine")
    again = run("schema", files[0], "--out", out)
    assert again.exit_code == 1
    assert again.stderr == f"sfumato: {out} is there already. Choose another name for the schema, or add --replace.\n"
    assert out.read_text() == "mine"
    assert run("schema", files[0], "--out", out, "--replace").exit_code == 0
    assert len(Schema.read(out)) == 10


def test_reading_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "euro.csv"
    path.write_bytes("größe;pay\n1,5;2\n2,5;3\n".encode("latin-1"))
    wrong = run("schema", path)
    assert wrong.exit_code == 1
    assert "is not UTF-8 text" in wrong.stderr
    assert "--read NAME=VALUE" in wrong.stderr
    found = document(run("schema", path, "--json", "--read", "encoding=latin-1", "--read", "decimal=,"))
    assert [c["name"] for c in found["columns"]] == ["größe", "pay"]
    assert {c["name"]: c["scale"] for c in found["columns"]}["größe"] == "ordered"


# -- mask


def test_masking_adds_the_noise_that_was_asked_for(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    before, after = frames
    noise = after[["salary", "income"]] - before[["salary", "income"]]
    ratio = noise.var() / before[["salary", "income"]].var()
    assert ratio["salary"] == pytest.approx(0.15, rel=0.2)
    assert ratio["income"] == pytest.approx(0.30, rel=0.2)
    pd.testing.assert_frame_equal(after[["age", "zip", "region"]], before[["age", "zip", "region"]])


def test_the_release_has_no_identifier_and_no_seed(folder: Path) -> None:
    seed = tomllib.loads((folder / "seed.toml").read_text())["seed"]
    assert stat.S_IMODE((folder / "seed.toml").stat().st_mode) == 0o600
    release = sorted((folder / "release").iterdir())
    assert [p.name for p in release] == ["masked.csv", "masked.parquet", "recipe.toml", "schema.toml"]
    for path in release:
        for secret in (seed.encode(), bytes.fromhex(seed), b"teacher_id"):
            assert secret not in path.read_bytes(), path.name


def test_the_same_seed_makes_the_same_release_and_a_fresh_one_another(folder: Path, tmp_path: Path) -> None:
    given = ("--schema", folder / "schema.toml", "--recipe", folder / "release" / "recipe.toml", "--form", "csv")
    again = run("mask", folder / "survey.csv", *given, "--out", tmp_path / "a", "--seed-from", folder / "seed.toml")
    fresh = run("mask", folder / "survey.csv", *given, "--out", tmp_path / "b", "--seed-file", tmp_path / "seed.toml")
    assert (again.exit_code, fresh.exit_code) == (0, 0)
    first = (folder / "release" / "masked.csv").read_bytes()
    assert (tmp_path / "a" / "masked.csv").read_bytes() == first
    assert (tmp_path / "b" / "masked.csv").read_bytes() != first
    assert (tmp_path / "a" / "recipe.toml").read_bytes() == (folder / "release" / "recipe.toml").read_bytes()


def test_duckdb_masks_as_memory_does(folder: Path, tmp_path: Path) -> None:
    given = ("--schema", folder / "schema.toml", "--recipe", folder / "release" / "recipe.toml", "--form", "parquet")
    seed = ("--seed-from", folder / "seed.toml")
    done = run("mask", folder / "survey.csv", *given, *seed, "--out", tmp_path / "d", "--engine", "duckdb")
    assert done.exit_code == 0, done.stderr
    there, here = (pd.read_parquet(p / "masked.parquet") for p in (tmp_path / "d", folder / "release"))
    np.testing.assert_allclose(there["salary"], here["salary"], rtol=1e-12)


def test_mask_tells_the_guarantees_and_where_the_seed_is(folder: Path, tmp_path: Path) -> None:
    args = (
        "mask",
        folder / "survey.csv",
        "--schema",
        folder / "schema.toml",
        "--out",
        tmp_path / "o",
        "--mask",
        "top_code",
    )
    found = document(
        run(*args, "--set", "quantile=0.9", "--set", "columns=salary", "--seed-file", tmp_path / "s.toml", "--json")
    )
    assert found["records"] == N
    assert "teacher_id" not in found["columns"]
    assert found["files"] == ["masked.csv", "masked.parquet", "recipe.toml", "schema.toml"]
    assert found["seed_file"] == str(tmp_path / "s.toml")
    assert [g["step"] for g in found["guarantees"]] == ["identifiers", "top_code"]
    assert "teacher_id" in found["guarantees"][0]["says"]
    before, after = pd.read_csv(folder / "survey.csv"), pd.read_csv(tmp_path / "o" / "masked.csv")
    code = np.quantile(before["salary"], 0.9, method="inverted_cdf")
    np.testing.assert_allclose(after["salary"], before["salary"].clip(upper=code))


def test_a_recipes_parameters_can_be_changed(folder: Path, tmp_path: Path) -> None:
    args = ("--recipe", folder / "release" / "recipe.toml", "--set", "kim_noise.lambda2=0.5", "--out", tmp_path / "o")
    done = run("mask", folder / "survey.csv", "--schema", folder / "schema.toml", *args, "--seed-file", tmp_path / "s")
    assert done.exit_code == 0, done.stderr
    steps = tomllib.loads((tmp_path / "o" / "recipe.toml").read_text())["step"]
    assert steps[1]["lambda2"] == 0.5


def test_a_guessed_schema_is_told_on_stderr(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    args = ("--mask", "kim_noise", "--out", tmp_path / "o", "--seed-file", tmp_path / "s")
    done = run("mask", files[0], *args)
    assert done.exit_code == 0
    assert "the roles of the columns are guesses" in done.stderr
    assert "guesses" not in done.stdout


def test_every_mask_and_measure_is_listed_with_its_parameters() -> None:
    from sfumato.contract import registered

    masks = document(run("mask", "--list", "--json"))["masks"]
    assert {m["name"] for m in masks} == set(registered("mask"))
    noise = next(m for m in masks if m["name"] == "kim_noise")
    assert {p["name"]: p["default"] for p in noise["parameters"]} == {"columns": "none", "lambda2": "0.15"}
    one = run("mask", "--list", "--mask", "kim_noise").stdout
    assert "a number of at least 0" in one
    assert "mdav" not in one
    measures = document(run("risk", "--list", "--json"))["measures"]
    assert {"attribute_risk", "coded_value_risk", "k_anonymity"} <= {m["name"] for m in measures}
    lines = run("risk", "--list").stdout.splitlines()
    assert all(sum(line.split()[:1] == [m["name"]] for line in lines) == 1 for m in measures)
    assert "how many records must look the same" in run("risk", "--list", "--measure", "k_anonymity").stdout


def test_the_list_of_masks_has_a_line_for_each_under_one_heading() -> None:
    from sfumato.cli.listing import KINDS, masks

    placed = [name for names in KINDS.values() for name in names.split()]
    ours = {name for name, cls in masks().items() if cls.__module__.startswith("sfumato.")}
    assert sorted(placed) == sorted(ours)
    lines = run("mask", "--list").stdout.splitlines()
    assert all(sum(line.split()[:1] == [name] for line in lines) == 1 for name in placed)


@pytest.mark.parametrize(
    ("given", "next_"),
    [
        (("kim_noise",), "sfumato risk"),
        (("random_order",), "sfumato utility"),
        (("sample", "--set", "fraction=0.5"), "sfumato utility"),
        (("aggregate_records",), "sfumato utility"),
    ],
)
def test_the_next_command_that_is_offered_fits_the_release(
    files: tuple[Path, Path, Path], tmp_path: Path, given: tuple[str, ...], next_: str
) -> None:
    done = run(
        "mask", files[0], "--schema", files[2], "--mask", *given, "--out", tmp_path / "o", "--seed-file", tmp_path / "s"
    )
    assert done.exit_code == 0, done.stderr
    offered = next(line for line in done.stdout.splitlines() if line.startswith("Next, "))
    command = offered.partition(": ")[2].partition(" (")[0].replace("COLUMN.", "salary")
    assert command.startswith(next_)
    again = run(*shlex.split(command)[1:])
    assert again.exit_code == 0, again.stderr
    assert "note:" not in again.stderr


def test_numbers_by_column_are_read_where_a_parameter_maps_columns_to_numbers(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    args = ("mask", files[0], "--mask", "aggregate_columns", "--set", "columns=salary,income", "--form", "csv")
    done = run(*args, "--set", "weights=salary:2,income:-1", "--out", tmp_path / "o", "--seed-file", tmp_path / "s")
    assert done.exit_code == 0, done.stderr
    before, after = pd.read_csv(files[0]), pd.read_csv(tmp_path / "o" / "masked.csv")
    np.testing.assert_allclose(after["total"], 2 * before["salary"] - before["income"])
    wrong = run(*args, "--set", "weights=salary", "--out", tmp_path / "p", "--seed-file", tmp_path / "t")
    assert wrong.exit_code == 1
    assert "weights of aggregate_columns must be a number for each column" in wrong.stderr


def test_the_variance_kept_is_measured_and_mapped_by_its_name(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    args = ("--mask", "individual_ranking", "--set", "columns=salary,income")
    assert run("mask", files[0], *args, "--out", tmp_path / "o", "--seed-file", tmp_path / "s").exit_code == 0
    masked = tmp_path / "o" / "masked.csv"
    said = document(
        run("utility", files[0], masked, "--measure", "variance_kept; over=salary", "--align", "rows", "--json")
    )
    x, y = (pd.read_csv(path)["salary"].to_numpy() for path in (files[0], masked))
    expected = 1 - np.square(x - y).sum() / np.square(x - x.mean()).sum()
    assert said["measures"][0]["value"] == pytest.approx(expected, rel=1e-9)
    told = run("utility", files[0], masked, "--measure", "variance_kept")
    assert (told.exit_code, "--align" in told.stderr) == (2, True)
    of_map = ("--over", "k=3,10", "--risk", "salary", "--utility", "variance_kept; over=salary", "--replications", "2")
    found = run("map", files[0], *args, *of_map, "--max-error", "0.001")
    assert found.exit_code == 0, found.stderr
    assert "U: variance kept of salary" in found.stdout
    assert "precision" not in found.stdout
    bare = run("map", files[0], *args, "--over", "k", "--risk", "salary", "--utility", "salary")
    assert (bare.exit_code, "says no values" in bare.stderr) == (2, True)


def test_a_map_says_infeasible_where_the_data_do_not_allow_the_ends_of_a_parameter(
    files: tuple[Path, Path, Path],
) -> None:
    args = ("--mask", "mdav", "--set", "columns=salary", "--over", "k=2,3", "--risk", "salary", "--utility", "salary")
    done = run("map", files[0], *args, "--replications", "2", "--max-error", "1000")
    assert done.exit_code == 3, done.stderr
    assert "is not known: widen the grid" in done.stdout


def test_a_folder_that_holds_anything_else_is_never_replaced(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    args = ("mask", files[0], "--mask", "kim_noise", "--out", out, "--seed-file", tmp_path / "s")
    assert "already holds files" in run(*args).stderr
    done = run(*args, "--replace")
    assert done.exit_code == 1
    assert "what sfumato did not write (thesis.txt)" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    assert (out / "thesis.txt").read_text() == "years of work"


def test_a_release_can_be_replaced_and_its_old_seed_is_not_lost_unasked(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    args = (
        "mask",
        files[0],
        "--mask",
        "kim_noise",
        "--form",
        "csv",
        "--out",
        tmp_path / "o",
        "--seed-file",
        tmp_path / "s",
    )
    assert run(*args).exit_code == 0
    seed = (tmp_path / "s").read_bytes()
    assert "a new seed would take the place of an old one" in run(*args).stderr
    assert (tmp_path / "s").read_bytes() == seed
    assert run(*args, "--replace").exit_code == 0
    assert (tmp_path / "s").read_bytes() != seed


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


# -- papers


def test_papers_shows_the_rows_of_the_toml_files() -> None:
    home = Path(sfumato.__file__).parent / "papers"
    rows = {key: tomllib.loads((home / f"{key}.toml").read_text("utf-8"))["row"] for key in ("ru_map", "rta")}
    found = document(run("papers", "--paper", "ru_map", "--json"))
    assert [r["id"] for r in found["rows"]] == [r["id"] for r in rows["ru_map"]]
    built = document(run("papers", "--paper", "ru_map", "--status", "built", "--json"))
    assert [r["id"] for r in built["rows"]] == [r["id"] for r in rows["ru_map"] if r["status"] == "built"]
    assert len(document(run("papers", "--json"))["rows"]) > len(rows["ru_map"]) + len(rows["rta"])
    assert rows["rta"][0]["id"] in run("papers", "--paper", "rta").stdout


# -- what goes wrong

WRONG = [
    ("schema nofile.csv", 1, "there is no file nofile.csv."),
    ("schema survey.cvs", 1, "there is no file survey.cvs. Did you mean 'survey.csv'?"),
    ("schema release", 1, "release is a folder"),
    ("schema", 2, "missing argument 'FILE'"),
    ("schmea survey.csv", 2, "no such command 'schmea'. Did you mean 'schema'?"),
    ("--nonsense", 2, "no such option: --nonsense"),
    ("demo --records 5", 2, "greater than or equal to 100"),
    ("mask", 2, "the name of the file to mask is missing"),
    ("mask survey.csv", 2, "--out is missing"),
    ("mask survey.csv --out o", 2, "a recipe file (--recipe) or a mask (--mask)"),
    ("mask survey.csv --out o --recipe r.toml --mask kim_noise", 2, "not both"),
    ("mask survey.csv --out o --mask kim_noise", 2, "--seed-file is missing"),
    ("mask survey.csv --out o --mask kimnoise --seed-file s", 1, "Did you mean 'kim_noise'?"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lamda2=1", 1, "Did you mean 'lambda2'?"),
    (
        "mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2=-1",
        1,
        "at least 0 and at most 1e+06; got -1",
    ),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2=x", 1, "got 'x'"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2", 2, "--set takes NAME=VALUE"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set columns=salry", 1, "Did you mean 'salary'?"),
    ("mask survey.csv --out o --mask kim_noise --seed-file o/s", 1, "kept apart from what is published"),
    ("mask survey.csv --out . --mask kim_noise --seed-file ../s --replace", 1, "the original, survey.csv, lies in ."),
    ("mask survey.csv --out o --mask kim_noise --seed-from survey.csv", 1, "not a seed file of sfumato"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --form xyz", 1, "form 'xyz' is not in the list"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --engine spark", 2, "not one of 'memory', 'duckdb'"),
    ("mask survey.csv --out o --recipe no.toml --seed-file s", 1, "there is no recipe file at no.toml."),
    ("mask survey.csv --out o --recipe release --seed-file s", 1, "release is a folder"),
    (
        "mask survey.csv --out o --recipe release/masked.parquet --seed-file s",
        1,
        "release/masked.parquet cannot be read as a recipe",
    ),
    (
        "mask survey.csv --out o --recipe schema.toml --seed-file s",
        1,
        "schema.toml: a recipe file holds one [[step]] table",
    ),
    (
        "mask survey.csv --out o --mask kim_noise --seed-file s --schema no.toml",
        1,
        "there is no schema file at no.toml",
    ),
    ("mask survey.csv --out seed.toml --mask kim_noise --seed-file s", 1, "seed.toml is a file"),
    ("risk", 2, "a file is needed"),
    ("risk survey.csv --align rows", 2, "it needs two files"),
    ("risk survey.csv --set k=3", 2, "name it with --measure"),
    ("risk survey.csv --keys age,regoin", 1, "Did you mean 'region'?"),
    ("risk survey.csv --measure k_anonymity --set k=1", 1, "a whole number of at least 2"),
    ("risk survey.csv --measure k_anonymity --column age", 2, "does not look at single columns"),
    ("risk survey.csv --precision age", 2, "--precision takes NAME=VALUE"),
    ("risk survey.csv --precision age=wide", 1, "must be a number above 0"),
    ("risk survey.csv --chart r.pdf", 1, "drawn as .svg or .png"),
    ("risk survey.csv release/masked.csv --align region", 1, "cannot align the files"),
    ("risk survey.csv release/masked.csv --align rows --column salry", 1, "Did you mean 'salary'?"),
    ("risk survey.csv release/masked.csv --align rows --column region", 1, "where numbers are needed"),
    ("risk survey.csv release/masked.csv --align rows --measure guess", 1, "not in the list of risk measures"),
    ("risk survey.csv release/masked.csv --align rows --column salary --set low=2", 1, "at least 0 and at most 1"),
    ("risk survey.csv release/masked.csv --align rows --strategy clever", 2, "not one of 'naive', 'bayes'"),
    ("risk survey.csv release/masked.csv --align rows --strategy naive --knows age", 2, "would change nothing"),
    ("risk survey.csv release/masked.csv --align rows --match-probability 3", 2, "less than or equal to 1"),
    ("utility survey.csv", 2, "two files are needed: the original, then the masked one"),
    ("utility survey.csv release/masked.csv --by region", 2, "name one with --measure or --estimator"),
    ("utility survey.csv release/masked.csv --measure helinger", 1, "Did you mean 'hellinger'?"),
    ("utility survey.csv release/masked.csv --measure hellinger;ovr=age", 1, "Did you mean 'over'?"),
    ("utility survey.csv release/masked.csv --measure il1s", 2, "say with --align which masked record is whose"),
    ("utility survey.csv release/masked.csv --measure interval_overlap", 1, "interval_overlap needs formula"),
    ("utility survey.csv release/masked.csv --measure hellinger --by regin", 1, "Did you mean 'region'?"),
    ("utility survey.csv release/masked.csv --chart u.pdf", 1, "drawn as .svg or .png"),
    ("utility --list --measure il1", 1, "Did you mean 'il1s'?"),
    ("utility --list --measure il1s --measure pmse", 2, "give --measure once"),
    ("utility survey.csv release/masked.csv --estimator salry", 1, "Did you mean 'salary'?"),
    ("utility survey.csv release/masked.csv --estimator teacher_id", 1, "where numbers are needed"),
    (
        "utility survey.csv release/masked.csv --estimator salary~age+sex",
        1,
        "Name one after a semicolon: 'salary~age+sex; age'",
    ),
    ("map survey.csv --mask kim_noise --risk salary --utility salary", 2, "missing option '--over'"),
    ("map survey.csv --mask kim_noise --over lambda --risk salary --utility salary", 1, "is not in the recipe"),
    ("map survey.csv --mask kim_noise --over columns=1 --risk salary --utility salary", 1, "is not a number"),
    (
        "map survey.csv --mask kim_noise --over lambda2=1:2 --risk salary --utility salary",
        1,
        "neither a range LOW:HIGH:COUNT",
    ),
    ("map survey.csv --mask kim_noise --over lambda2=0:1:5 --risk salary --utility salary", 1, "must start above 0"),
    ("map survey.csv --mask kim_noise --over lambda2=1:0.1:5 --risk salary --utility salary", 1, "LOW below HIGH"),
    ("map survey.csv --mask kim_noise --over lambda2=-1 --risk salary --utility salary", 1, "at least 0"),
    ("map survey.csv --mask kim_noise --over lambda2 --over lambda2 --risk salary --utility salary", 1, "twice"),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-risk 1 --max-error 2",
        2,
        "not both",
    ),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-error -5",
        1,
        "a number above 0",
    ),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-risk age=1",
        1,
        "those of salary",
    ),
    ("map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --replications 1", 1, "at least 2"),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --chart m.jpg",
        1,
        "drawn as .svg or .png",
    ),
    ("papers --paper ru", 1, "paper 'ru' is not in the list of papers"),
    ("papers --status done", 2, "not one of 'built', 'planned'"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_mistake_is_told_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, words: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(p for p in folder.rglob("*"))
    result = run(*line.split())
    told = [part for part in result.stderr.splitlines() if part.startswith("sfumato: ")]
    assert (result.exit_code, len(told)) == (code, 1), result.stderr
    assert words in told[0]
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert sorted(p for p in folder.rglob("*")) == before  # nothing was written


def test_json_is_not_printed_for_an_error(files: tuple[Path, Path, Path]) -> None:
    result = run("risk", *files[:2], "--align", "rows", "--column", "salry", "--json")
    assert (result.exit_code, result.stdout) == (1, "")


def broken(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def read(*args: object, **options: object) -> None:
        address = "12 Rosewood Lane"  # noqa: F841 - a local variable, which a rich traceback would show
        raise error

    monkeypatch.setattr("sfumato.microdata.Microdata.read", read)


def test_an_unexpected_error_names_its_type_and_quotes_nothing(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]
) -> None:
    broken(monkeypatch, ValueError("could not convert '12 Rosewood Lane'"))
    result = run("schema", files[0])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "an unexpected ValueError" in result.stderr
    assert "--debug" in result.stderr
    assert "Rosewood" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("first", [True, False], ids=["before the command", "after it"])
def test_debug_shows_the_traceback_without_local_variables(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path], first: bool
) -> None:
    broken(monkeypatch, ValueError("a column is odd"))
    args: tuple[object, ...] = ("--debug", "schema", files[0]) if first else ("schema", files[0], "--debug")
    result = run(*args)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "ValueError: a column is odd" in result.stderr
    assert not re.search(r"address\s*=\s*'12 Rosewood Lane'\s*[│|]", result.stderr)
    assert "locals" not in result.stderr
    assert "read it before you send it" in result.stderr


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]) -> None:
    broken(monkeypatch, KeyboardInterrupt())
    result = run("schema", files[0])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "sfumato: stopped.\n")


def test_a_refusal_of_the_operating_system_is_told(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]
) -> None:
    broken(monkeypatch, PermissionError(13, "Permission denied", "survey.csv"))
    assert run("schema", files[0]).stderr == "sfumato: the operating system refused: permission denied (survey.csv).\n"
    broken(monkeypatch, MemoryError())
    assert "memory of this machine does not suffice" in run("schema", files[0]).stderr


# -- in a shell


def test_a_piped_table_is_whole_and_plain(files: tuple[Path, Path, Path]) -> None:
    done = shell("papers", "--paper", "rta", env={**os.environ, "COLUMNS": "40", "TERM": "xterm-256color"})
    assert done.returncode == 0
    assert "…" not in done.stdout
    assert "\x1b" not in done.stdout
    rows = tomllib.loads((Path(sfumato.__file__).parent / "papers" / "rta.toml").read_text("utf-8"))["row"]
    assert all(row["says"] in done.stdout for row in rows)


def test_names_with_spaces_and_letters_of_any_alphabet(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    survey = tmp_path / "lönë data λ.csv"
    survey.write_bytes(files[0].read_bytes())
    args = ("--mask", "kim_noise", "--out", "out λ", "--seed-file", "geheim λ/seed.toml")
    done = shell("mask", survey.name, *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sfumato risk 'lönë data λ.csv' 'out λ/masked.csv' --align rows" in done.stdout
    told = shell("risk", survey.name, "out λ/masked.csv", "--align", "rows", cwd=tmp_path)
    assert told.returncode == 0, told.stderr


def test_a_terminal_without_greek_letters_gets_question_marks(files: tuple[Path, Path, Path]) -> None:
    done = shell("mask", "--list", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "? times" not in done.stderr
    assert "kim_noise" in done.stdout
    found = shell("mask", "--list", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert any("λ" in m["summary"] for m in json.loads(found.stdout)["masks"])


def test_a_reader_who_leaves_early_hears_no_complaint() -> None:
    command = [sys.executable, "-m", "sfumato", "papers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_progress_and_notes_keep_off_stdout(files: tuple[Path, Path, Path]) -> None:
    method = ("--mask", "kim_noise", "--over", "lambda2=0.1,0.2", "--risk", "salary", "--utility", "salary")
    done = shell("map", files[0], *method, "--replications", 5, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert "guesses" in done.stderr
    assert "Masking at every point" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "\r" not in done.stderr


# -- the parts


def test_a_plain_table_aligns_wide_letters() -> None:
    assert plain_table(("a", "n"), (("東京", "1"), ("x", "20")), (1,)) == [
        "a      n",
        "----  --",
        "東京   1",
        "x     20",
    ]


def test_json_holds_no_number_that_json_does_not_know() -> None:
    value = {
        "a": float("nan"),
        "b": (float("inf"), -float("inf")),
        "c": np.int64(3),
        "d": np.float64(2.5),
        "e": Path("x"),
    }
    assert clean(value) == {"a": None, "b": ["inf", "-inf"], "c": 3, "d": 2.5, "e": "x"}
