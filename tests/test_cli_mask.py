"""The command line: masking a file, and what is told of it."""

from __future__ import annotations

import shlex
import shutil
import stat
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run

__all__ = ["files", "folder", "frames"]  # fixtures


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
    from sfumato.cli.listing import KINDS
    from sfumato.contract import registered

    placed = [name for names in KINDS.values() for name in names.split()]
    ours = {name for name, cls in registered("mask").items() if cls.__module__.startswith("sfumato.")}
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


def test_a_mask_without_randomness_needs_no_seed_file_and_a_random_one_does(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    common = ("mask", files[0], "--schema", files[2], "--set", "columns=salary")
    made = run(*common, "--mask", "top_code", "--out", tmp_path / "coded")
    assert made.exit_code == 0, made.stderr
    assert "Nothing in it is random" in made.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coded"]
    for engine in ("memory", "duckdb"):
        refused = run(*common, "--mask", "kim_noise", "--out", tmp_path / "noisy", "--engine", engine)
        assert refused.exit_code == 2
        assert "--seed-file is missing" in refused.stderr
        assert not (tmp_path / "noisy").exists()


def test_commands_that_are_offered_quote_names_with_spaces(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    file, seed = tmp_path / "my survey.csv", tmp_path / "the seed.toml"
    shutil.copy(files[0], file)
    assert f"sfumato schema '{file}' --out" in run("schema", file).stdout
    written = run("schema", file, "--out", tmp_path / "my schema.toml")
    assert f"--schema '{tmp_path / 'my schema.toml'}'" in written.stdout
    common = ("mask", file, "--schema", files[2], "--mask", "kim_noise", "--seed-file", seed)
    made = run(*common, "--out", tmp_path / "a release")
    assert f"sfumato risk '{file}' '{tmp_path / 'a release' / 'masked.csv'}'" in made.stdout
    assert f"--seed-from '{seed}'" in run(*common, "--out", tmp_path / "another").stderr
