"""What tests of the command line share: how a command is run, and files to run it on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from sfumato.cli import app
from sfumato.datasets import teachers

N = 600


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def document(result: Result, code: int = 0) -> Any:
    """The one JSON document on stdout, refusing NaN and Infinity."""
    assert result.exit_code == code, result.stderr

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(result.stdout, parse_constant=refuse)


def shell(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sfumato", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey and its schema; masked with Kim noise, λ² = 0.15 on salary and 0.3 on income."""
    folder = tmp_path_factory.mktemp("cli")
    survey = teachers(N, seed=5)
    survey.write(folder / "survey.csv")
    survey.schema.write(folder / "schema.toml")
    done = run(
        "mask", folder / "survey.csv", "--schema", folder / "schema.toml", "--out", folder / "release", "--mask", "kim_noise",
        "--set", "columns=salary,income", "--set", "lambda2=salary:0.15,income:0.3", "--seed-file", folder / "seed.toml",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture
def files(folder: Path) -> tuple[Path, Path, Path]:
    return folder / "survey.csv", folder / "release" / "masked.csv", folder / "schema.toml"


@pytest.fixture
def frames(files: tuple[Path, Path, Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.read_csv(files[0]), pd.read_csv(files[1])
