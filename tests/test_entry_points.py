"""A mask of somebody else's package comes to the command line by `pip install`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from commands import shell

MODULE = '''"""Masks of the office."""

import numpy as np

from sfumato.contract import Mask, param


class OfficeRounding(Mask):
    """Round values to multiples of a base."""

    columns: tuple[str, ...] = param(doc="columns to round", columns="many")
    base: float = param(5.0, doc="round to multiples of this", low=0, above=True, high=1e6)

    def transform(self, batch, draws):
        for name in self.columns:
            batch = batch.replace(name, lambda x=batch.numbers(name): np.round(x / self.base) * self.base)
        return batch
'''
PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "office-masks"
version = "1.0"

[project.entry-points."sfumato.mask"]
office = "office_masks"

[tool.setuptools]
py-modules = ["office_masks"]
"""


def environment(site: Path) -> dict[str, str]:
    """Return the environment in which what a folder holds is installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a package with one mask is installed."""
    folder = tmp_path_factory.mktemp("office")
    (folder / "office_masks.py").write_text(MODULE)
    (folder / "pyproject.toml").write_text(PROJECT)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_an_installed_mask_is_listed_with_its_parameters(site: Path) -> None:
    assert "office_rounding" in shell("mask", "--list", env=environment(site)).stdout
    assert "office_rounding" not in shell("mask", "--list").stdout
    one = shell("mask", "--list", "--mask", "office_rounding", env=environment(site))
    assert "round to multiples of this" in one.stdout


def test_an_installed_mask_masks_a_file(site: Path, tmp_path: Path) -> None:
    pd.DataFrame({"pay": [1203.0, 1518.0, 1690.0, None], "town": list("abab")}).to_csv(
        tmp_path / "people.csv", index=False
    )
    done = shell(
        "mask", tmp_path / "people.csv", "--mask", "office_rounding", "--set", "columns=pay", "--set", "base=100",
        "--out", tmp_path / "release", "--form", "csv", "--seed-file", tmp_path / "seed.toml", "--json", env=environment(site),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    pay = pd.read_csv(tmp_path / "release" / "masked.csv")["pay"]
    assert pay[:3].tolist() == [1200.0, 1500.0, 1700.0]
    assert pay.isna().tolist() == [False, False, False, True]
    assert 'mask = "office_rounding"' in (tmp_path / "release" / "recipe.toml").read_text("utf-8")


def test_an_installed_mask_that_cannot_be_imported_is_named(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / "office_masks.py").unlink()
    done = shell("mask", "--list", env=environment(tmp_path / "site"))
    assert done.returncode == 1
    assert "'office_masks', which is installed as a mask for sfumato, cannot be imported." in done.stderr
