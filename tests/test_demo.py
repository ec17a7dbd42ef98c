"""The demo: all of it or nothing, the seed apart, and numbers that agree with the paper."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.demo import SEED, DemoResult, run_demo
from sfumato.contract import Draws, Recipe
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Schema

RECORDS, REPLICATIONS = 2000, 20
FILES = ["masked.csv", "masked.parquet", "recipe.toml", "report.html", "schema.toml"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoResult, list[str]]:
    stages: list[str] = []
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = run_demo(folder, RECORDS, REPLICATIONS, progress=lambda stage, done, total: stages.append(stage))
    return result, stages


@pytest.fixture
def result(made: tuple[DemoResult, list[str]]) -> DemoResult:
    return made[0]


def test_it_writes_the_release_with_its_recipe_and_a_report(result: DemoResult) -> None:
    assert sorted(p.name for p in result.folder.iterdir()) == FILES
    assert sorted(p.name for p in result.folder.parent.iterdir()) == ["out", "out-confidential"]
    assert list(result.files) == FILES
    csv, parquet = pd.read_csv(result.folder / "masked.csv"), pd.read_parquet(result.folder / "masked.parquet")
    assert len(csv) == len(parquet) == RECORDS
    np.testing.assert_allclose(csv["salary"], parquet["salary"], rtol=1e-12)
    schema = Schema.read(result.folder / "schema.toml")
    assert list(schema.names()) == list(csv.columns) == list(parquet.columns)


def test_the_seed_is_beside_the_folder_for_its_owner_only_and_never_inside(result: DemoResult) -> None:
    seed_file = result.folder.with_name("out-confidential") / "seed.toml"
    assert result.seed_file == seed_file
    assert stat.S_IMODE(seed_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(seed_file.parent.stat().st_mode) == 0o700
    seed = tomllib.loads(seed_file.read_text())["seed"]
    for path in result.folder.iterdir():
        for secret in (
            seed.encode(),
            bytes.fromhex(seed),
            str(SEED).encode() if path.suffix == ".toml" else seed.encode(),
        ):
            assert secret not in path.read_bytes(), path.name


def test_no_identifier_is_released(result: DemoResult) -> None:
    for name in ("masked.csv", "masked.parquet", "schema.toml", "recipe.toml"):
        assert b"teacher_id" not in (result.folder / name).read_bytes()
    ids = teachers(RECORDS, SEED).batch(["teacher_id"]).column("teacher_id").arrow.to_pylist()
    assert len(set(ids)) == RECORDS
    for path in result.folder.iterdir():
        assert not re.search(rb"\bT\d{6}\b", path.read_bytes()), path.name


def test_the_chosen_noise_keeps_a_snooper_five_thousand_dollars_off(result: DemoResult) -> None:
    before = teachers(RECORDS, SEED).numbers("salary")
    after = pd.read_csv(result.folder / "masked.csv")["salary"].to_numpy()
    assert result.lambda2 == pytest.approx(25 / before.var(ddof=1), rel=0.05)
    assert math.sqrt(((after - before) ** 2).mean()) == pytest.approx(5, rel=0.06)  # one masking of 2,000 records
    assert result.choice.risks[0].interval is not None
    assert result.choice.risks[0].interval[1] <= 0.04
    assert 5 <= result.error < 5.2


def test_the_mean_keeps_the_share_of_its_precision_that_the_paper_gives(result: DemoResult) -> None:
    assert result.kept["mean salary"] == pytest.approx(1 / (1 + result.lambda2), rel=1e-9)
    assert result.kept["mean income − mean salary"] == pytest.approx(1 / (1 + result.lambda2), rel=1e-9)
    slope = result.kept[
        "salary ~ age + C(region): age"
    ]  # salary is masked: the residual variance grows (paper, Case 3)
    assert slope == pytest.approx(0.75 / (0.75 + result.lambda2), abs=0.25)


def test_one_line_says_what_the_numbers_mean(result: DemoResult) -> None:
    pattern = (
        r"At λ² = 0\.1\d\d a snooper who knows which record is the target's is typically off by 5\.\d thousand dollars; "
        r"the mean salary keeps 8\d % of its precision\."
    )
    assert re.fullmatch(pattern, result.sentence())


def test_the_map_has_formulas_and_replications(result: DemoResult) -> None:
    frame = result.map.frame()
    assert set(frame["source"]) == {"empirical", "analytic"}
    assert frame.query("masked")["noise.lambda2"].nunique() == 25


def test_the_release_can_be_made_again_from_recipe_and_seed(result: DemoResult) -> None:
    recipe = Recipe.read(result.folder / "recipe.toml")
    again = recipe.apply(teachers(RECORDS, SEED), Draws.read(result.seed_file)).masked
    np.testing.assert_array_equal(
        again.numbers("salary"), Microdata.read(result.folder / "masked.parquet").numbers("salary")
    )


def test_progress_is_told_stage_by_stage(made: tuple[DemoResult, list[str]]) -> None:
    assert list(dict.fromkeys(made[1])) == [
        "Generating the survey",
        "Masking at 25 levels of noise, again and again",
        "Looking for the best level that is safe",
        "Masking and writing",
    ]
    assert made[1].count("Masking at 25 levels of noise, again and again") == REPLICATIONS + 1


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("sfumato.reports.Report.write", DataError("the disk is full.")),
        ("sfumato.contract.Release.write", KeyboardInterrupt()),
        ("sfumato.files._keep", KeyboardInterrupt()),
        ("sfumato.schema.Schema.write", DataError("the disk is full.")),
    ],
)
def test_nothing_is_left_when_a_step_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: DemoResult, step: str, error: BaseException
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("sfumato.maps.rumap.ru_map", lambda *args, **options: result.map)
    monkeypatch.setattr("sfumato.maps.RUMap.choose", lambda *args, **options: result.choice)
    monkeypatch.setattr(step, fail)
    with pytest.raises(type(error)):
        run_demo(tmp_path / "out", RECORDS, REPLICATIONS)
    assert list(tmp_path.iterdir()) == []


def test_an_older_release_survives_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: DemoResult
) -> None:
    monkeypatch.setattr("sfumato.maps.rumap.ru_map", lambda *args, **options: result.map)
    monkeypatch.setattr("sfumato.maps.RUMap.choose", lambda *args, **options: result.choice)
    run_demo(tmp_path / "out", RECORDS, REPLICATIONS)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def fail(*args: object, **options: object) -> None:
        raise DataError("the disk is full.")

    monkeypatch.setattr("sfumato.reports.Report.write", fail)
    with pytest.raises(DataError, match="the disk is full"):
        run_demo(tmp_path / "out", RECORDS, REPLICATIONS, seed=7, replace=True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_it_refuses_what_is_there_before_it_starts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "masked.csv").write_text("old")
    with pytest.raises(DataError, match="is there already"):
        run_demo(out)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="did not write"):
        run_demo(out, replace=True)
    seed = tmp_path / "new-confidential" / "seed.toml"
    seed.parent.mkdir()
    seed.write_text("old")
    with pytest.raises(DataError, match=r"seed\.toml is there already"):
        run_demo(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        run_demo(tmp_path / "file")
    with pytest.raises(ParameterError, match="at least 100 records"):
        run_demo(tmp_path / "new", records=99)
    with pytest.raises(ParameterError, match="at least 10 replications"):
        run_demo(tmp_path / "new", replications=9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "new-confidential", "out"]


def test_the_command_prints_a_summary_and_says_that_the_seed_is_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--records", "500", "--replications", "20"])
    assert done.exit_code == 0, done.stderr
    assert "500 teachers, generated: nobody's real data" in done.stdout
    assert re.search(r"^At λ² = 0\.1\d\d a snooper", done.stdout, re.MULTILINE)
    assert "Wrote out/: masked.csv, masked.parquet, recipe.toml, report.html, schema.toml." in done.stdout
    assert "Here it is fixed" in done.stdout
    assert "open out/report.html in a browser" in done.stdout
    assert "Generating the survey ..." in done.stderr
    assert "\x1b" not in done.output
    again = CliRunner().invoke(app, ["demo"])
    assert again.exit_code == 1
    assert "is there already" in again.stderr
    own = CliRunner().invoke(
        app, ["demo", "--records", "500", "--replications", "20", "--seed", "9", "--replace", "--json"]
    )
    found = json.loads(own.stdout)
    assert found["fixed_seed"] is False
    assert found["records"] == 500
    assert found["files"] == FILES
    seed = tomllib.loads(Path("out-confidential/seed.toml").read_text())["seed"]
    assert seed not in own.stdout


@pytest.fixture
def as_at_a_terminal() -> Iterator[None]:
    """Where tests run in the background, Ctrl-C is ignored, and so it would be by what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.usefixtures("as_at_a_terminal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_that_is_stopped_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    command = [sys.executable, "-m", "sfumato", "demo", "--replications", "5000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Masking at"):
                break
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(timeout=300) == code
        assert "Traceback" not in process.stderr.read()
    assert list(tmp_path.iterdir()) == []
