"""`sfumato table-map`: several protections of one table on the same axes, from the command line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from commands import document, run

from sfumato import Microdata
from sfumato.datasets import business
from sfumato.schema import Schema
from sfumato.tables import RandomRounding, Table, table_map

OVER = ("--method", "random_rounding", "--over", "base=5,20", "--replications", 3, "--seed", 1)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("map")
    data = business(200, regions=3, sectors=2, hierarchies=False)
    data.write(folder / "firms.csv")
    data.schema.write(folder / "firms.toml")
    return folder


def asked(here: Path, *more: object) -> tuple[object, ...]:
    return ("table-map", here / "firms.csv", "--schema", here / "firms.toml", "--formula", "region * sector", *more)


def test_the_map_is_that_of_the_library_in_every_form(here: Path, tmp_path: Path) -> None:
    done = run(*asked(here, *OVER, "--out", tmp_path / "m.csv", "--chart", tmp_path / "m.svg"))
    assert done.exit_code == 0, done.stderr
    data = Microdata.read(here / "firms.csv", Schema.read(here / "firms.toml"))
    m = table_map(
        Table.of(data, "region * sector"), RandomRounding(), {"random_rounding.base": [5, 20]}, replications=3, draws=1
    )
    written = pd.read_csv(tmp_path / "m.csv")
    assert written["value"].tolist() == pytest.approx(m.frame()["value"].tolist())
    assert (tmp_path / "m.csv").stat().st_mode & 0o077 == 0
    assert "<svg" in (tmp_path / "m.svg").read_text("utf-8")
    assert "base = 20" in done.stdout
    page = run(*asked(here, *OVER, "--out", tmp_path / "m.html"))
    assert page.exit_code == 0, page.stderr
    assert "Risk and utility of protections" in (tmp_path / "m.html").read_text("utf-8")


def test_methods_have_their_parameters_and_rules_and_the_best_safe_one_is_chosen(here: Path) -> None:
    several = ("--method", "random_rounding; base=5", "--method", "random_rounding; base=50", "--method", "suppression",
               "--rule", "minimum 3", "--over", "suppression.cost=value", "--replications", 2, "--seed", 1)  # fmt: skip
    found = document(run(*asked(here, *several, "--max-risk", 1, "--json")))
    assert found["choice"]["feasible"] is True
    assert len({p["family"] for p in found["points"]}) == 3
    nothing = run(*asked(here, *OVER, "--risk", "known_closely; within=0.9", "--max-risk", 0))
    assert nothing.exit_code == 3, nothing.stderr
    assert "infeasible" in nothing.stdout


@pytest.mark.parametrize(("options", "code", "says"), [
    ((), 2, "--method rta"),
    (("--method", "random_roundin"), 1, "Did you mean 'random_rounding'?"),
    (("--method", "suppression"), 2, "--rule 'p% 10'"),
    (("--method", "rta", "--rule", "p% 10"), 2, "none of these methods takes a --rule"),
    (("--method", "random_rounding", "--method", "random_rounding"), 2, "given twice"),
    (("--method", "random_rounding", "--over", "bas=3"), 1, "random_rounding.base"),
    (("--method", "random_rounding", "--over", "base=three"), 1, "neither a range LOW:HIGH:COUNT"),
    ((*OVER, "--risk", "known_closly"), 1, "Did you mean 'known_closely'?"),
    ((*OVER, "--max-risk", "low"), 1, "--max-risk must be a number"),
    ((*OVER, "--out", "m.txt"), 2, ".html or .pdf"),
    ((*OVER, "--chart", "m.gif"), 1, ".svg or .png"),
    (("--method", "random_rounding", "--a-priori", "w.hst"), 1, "there is no file w.hst"),
])  # fmt: skip
def test_mistakes_are_told_in_a_sentence(here: Path, options: tuple[str, ...], code: int, says: str) -> None:
    done = run(*asked(here, *options))
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr
    assert done.stdout == ""


def test_a_rule_is_for_the_methods_that_need_one_and_stays_out_of_cell_keys(here: Path) -> None:
    several = ("--variable", "turnover", "--method", "suppression", "--method", "cell_key", "--method", "random_rounding",
               "--rule", "p% 10", "--over", "base=5,20", "--over", "share=0.1,0.4", "--replications", 2, "--seed", 1)  # fmt: skip
    found = document(run(*asked(here, *several, "--json")))
    assert {p["family"] for p in found["points"]} == {"suppression", "cell_key", "random_rounding"}
