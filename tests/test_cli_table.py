"""`sfumato table`: what is written, what is told, where the seed goes, and what is asked wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import document, run

from sfumato import Draws, Microdata
from sfumato.datasets import business
from sfumato.schema import Schema
from sfumato.tables import RTA, PPercent, Status, Suppression, Table

RANDOM = ("--method", "rta", "--set", "base_cv=0.2")
SURE = ("--method", "suppression", "--rule", "p% 10")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    data = business(400, regions=5, sectors=4, hierarchies=False)
    data.write(folder / "firms.csv")
    data.schema.write(folder / "firms.toml")
    return folder


def asked(
    here: Path, *more: object, formula: str = "region * sector", variable: str | None = "turnover"
) -> tuple[object, ...]:
    what = ("--variable", variable) if variable else ()
    return ("table", here / "firms.csv", "--schema", here / "firms.toml", "--formula", formula, *what, *more)


def original(here: Path, **options: object) -> Table:
    data = Microdata.read(here / "firms.csv", Schema.read(here / "firms.toml"))
    return Table.of(data, "region * sector", "turnover", **options)  # type: ignore[arg-type]


def test_a_suppressed_table_is_that_of_the_library(here: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    done = run(*asked(here, *SURE, "--out", out))
    assert done.exit_code == 0, done.stderr
    p = Suppression(rules=PPercent(p=10)).protect(original(here), Draws(1))
    written = pd.read_csv(out, keep_default_na=False)
    assert (written["value"] == "").to_numpy().tolist() == p.suppressed.tolist()
    shown = ~p.suppressed
    assert np.allclose(written["value"][shown].astype(float), p.values[shown])
    assert set(written["status"]) == {"", "suppressed"}  # which of the two is not for the public
    unsafe = int((p.status == Status.PRIMARY).sum())
    assert f"not published: unsafe                      {unsafe:>6}" in done.stdout
    assert "not for the public" in done.stdout
    assert "seed" not in done.stdout.lower()  # nothing is random


def test_a_file_that_duckdb_counts_gives_the_same_table(here: Path, tmp_path: Path) -> None:
    written = []
    for engine in ("memory", "duckdb"):
        out = tmp_path / f"{engine}.csv"
        done = run(*asked(here, *SURE, "--engine", engine, "--out", out))
        assert done.exit_code == 0, done.stderr
        written.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*written, rtol=1e-11)  # fractions in memory are added one by one
    cells = run(
        "table", tmp_path / "duckdb.csv", "--dimensions", "region,sector", "--value", "value", "--engine", "duckdb"
    )
    assert cells.exit_code == 2
    assert "--engine does not go with a table that exists already" in cells.stderr


def test_a_random_table_can_be_made_again_from_its_seed(here: Path, tmp_path: Path) -> None:
    out, seed, again = tmp_path / "t.csv", tmp_path / "seed.toml", tmp_path / "again.csv"
    done = run(*asked(here, *RANDOM, "--size", "employees", "--per-size", "ratio", "--out", out, "--seed-file", seed))
    assert done.exit_code == 0, done.stderr
    assert f"The seed is in {seed}" in done.stdout
    assert (
        run(
            *asked(here, *RANDOM, "--size", "employees", "--per-size", "ratio", "--out", again, "--seed-from", seed)
        ).exit_code
        == 0
    )
    assert out.read_text("utf-8") == again.read_text("utf-8")
    p = RTA(base_cv=0.2).protect(original(here, size="employees", per_size="ratio"), Draws.read(seed))
    assert np.allclose(pd.read_csv(out)["value"], p.values)
    assert seed.stat().st_mode & 0o077 == 0


def test_counts_need_no_variable(here: Path, tmp_path: Path) -> None:
    out = tmp_path / "counts.csv"
    done = run(*asked(here, "--method", "suppression", "--rule", "minimum 3", "--out", out, variable=None))
    assert done.exit_code == 0, done.stderr
    frame = pd.read_csv(here / "firms.csv")
    total = pd.read_csv(out).query("region == 'Total' and sector == 'Total'")["value"].iloc[0]
    weighted = Schema.read(here / "firms.toml").one("weight")
    assert total == pytest.approx(frame[weighted].sum() if weighted else len(frame))


@pytest.mark.parametrize("name", ["table.xlsx", "table.json", "table.sdmx.csv"])
def test_tables_are_written_in_other_forms(here: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    done = run(*asked(here, *SURE, "--out", out))
    assert done.exit_code == 0, done.stderr
    assert out.stat().st_size > 200


def test_the_report_and_the_chart_are_written(here: Path, tmp_path: Path) -> None:
    files = [tmp_path / n for n in ("t.csv", "r.html", "c.svg")]
    done = run(*asked(here, *SURE, "--out", files[0], "--report", files[1], "--chart", files[2]))
    assert done.exit_code == 0, done.stderr
    assert "not published: unsafe" in files[2].read_text("utf-8")
    page = files[1].read_text("utf-8")
    assert "p% rule, p = 10" in page
    assert json.loads(files[1].with_suffix(".json").read_text("utf-8"))["version"] == "confidential"
    assert {path.stat().st_mode & 0o777 for path in (*files[1:], files[1].with_suffix(".json"))} == {0o600}
    public = [tmp_path / n for n in ("t2.csv", "r2.html", "c2.svg")]
    done = run(*asked(here, *SURE, "--out", public[0], "--report", public[1], "--chart", public[2], "--publishable"))
    assert done.exit_code == 0, done.stderr
    assert "not published: unsafe" not in public[2].read_text("utf-8")
    assert "p% rule" not in public[1].read_text("utf-8")
    assert {path.stat().st_mode & 0o777 for path in (*public, public[1].with_suffix(".json"))} == {0o644}


def test_the_answer_for_machines_has_no_value(here: Path, tmp_path: Path) -> None:
    found = document(run(*asked(here, *SURE, "--out", tmp_path / "t.csv", "--json")))
    assert found["protection"] == "suppression"
    assert sum(found["counts"].values()) == found["cells"]
    assert found["seed_file"] is None
    assert found["guarantees"]


def test_methods_and_rules_are_listed() -> None:
    done = run("table", "--list")
    assert done.exit_code == 0
    for name in ("rta", "suppression", "cell_key", "p_percent", "nk"):
        assert f"  {name} " in done.stdout
    assert "prior_cv" in run("table", "--list", "--method", "rta").stdout
    assert "coalition" in run("table", "--list", "--rule", "p_percent").stdout
    everything = document(run("table", "--list", "--json"))
    assert {"protections", "rules"} <= set(everything)


@pytest.mark.parametrize(("more", "says", "code"), [
    ((), "--method is missing", 2),
    (("--method", "suppresion", "--out", "t.csv"), "Did you mean 'suppression'?", 1),
    (("--method", "suppression", "--out", "t.csv"), "--rule 'p% 10'", 2),
    (("--method", "suppression", "--rule", "q% 10", "--out", "t.csv"), "is not a rule", 1),
    (("--method", "rta", "--rule", "p% 10", "--out", "t.csv"), "takes no --rule", 2),
    (("--method", "rta", "--out", "t.csv"), "--seed-file", 2),
    (("--method", "rta", "--set", "base=3", "--out", "t.csv", "--seed-file", "s.toml"), "parameter 'base'", 1),
    ((*SURE, "--out", "t.docx"), "t.docx", 1),
    ((*SURE, "--out", "t.csv", "--chart", "c.gif"), ".svg or .png", 1),
    ((*SURE, "--out", "t.csv", "--report", "r.txt"), ".html or .pdf", 2),
    ((*SURE,), "--out is missing", 2),
    ((*RANDOM, "--out", "t.csv", "--seed-file", "t.csv"), "apart from what is published", 1),
    ((*RANDOM, "--out", "t.csv", "--seed-file", "a.toml", "--seed-from", "b.toml"), "not both", 2),
])  # fmt: skip
def test_what_is_asked_wrongly_is_told_in_a_sentence(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], says: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*asked(here, *more))
    assert done.exit_code == code, done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("sfumato: ")
    assert not list(tmp_path.iterdir())  # and nothing is written


@pytest.mark.parametrize(("formula", "variable", "says"), [
    ("log(region)", "turnover", "not the formula of a table"),
    ("region * sektor", "turnover", "sektor"),
    ("region * sector", "kind", "kind"),
    ("region * sector", "turnovr", "turnovr"),
])  # fmt: skip
def test_columns_that_are_not_there_are_named(
    here: Path, tmp_path: Path, formula: str, variable: str, says: str
) -> None:
    done = run(*asked(here, *SURE, "--out", tmp_path / "t.csv", formula=formula, variable=variable))
    assert done.exit_code == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_overwritten_unless_asked(here: Path, tmp_path: Path) -> None:
    out, seed = tmp_path / "t.csv", tmp_path / "s.toml"
    out.write_text("mine", "utf-8")
    done = run(*asked(here, *SURE, "--out", out))
    assert done.exit_code == 1
    assert "--replace" in done.stderr
    assert out.read_text("utf-8") == "mine"
    assert run(*asked(here, *SURE, "--out", out, "--replace")).exit_code == 0
    seed.write_text("mine", "utf-8")
    done = run(*asked(here, *RANDOM, "--out", tmp_path / "u.csv", "--seed-file", seed))
    assert done.exit_code == 1
    assert "--seed-from" in done.stderr
    assert run(*asked(here, *SURE, "--out", here / "firms.csv", "--replace")).exit_code == 1


def test_rules_that_may_mean_something_else_are_told(here: Path, tmp_path: Path) -> None:
    suppression = ("--method", "suppression")
    tiny = run(*asked(here, *suppression, "--rule", "p% 0.1", "--out", tmp_path / "a.csv"))
    assert "p = 0.1 is less than one percent; for 10 percent write 'p% 10'" in " ".join(tiny.stderr.split())
    few = run(*asked(here, *suppression, "--rule", "minimum 3", "--out", tmp_path / "b.csv"))
    assert "'minimum 3' counts records, and several belong to one contributor" in " ".join(few.stderr.split())
    fine = ("--rule", "p% 10", "--rule", "contributors 3")
    assert "note:" not in run(*asked(here, *suppression, *fine, "--out", tmp_path / "c.csv")).stderr


def test_records_without_a_value_are_refused_or_left_out(here: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(here / "firms.csv")
    frame.loc[:4, "turnover"] = np.nan
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    args = ("table", tmp_path / "gaps.csv", "--schema", here / "firms.toml", "--formula", "region * sector", "--variable",
            "turnover", *SURE, "--out", tmp_path / "t.csv")  # fmt: skip
    done = run(*args)
    assert done.exit_code == 1
    assert "5 records of 400 have no value of 'turnover'" in done.stderr
    assert "--leave-out-missing" in done.stderr
    assert run(*args, "--leave-out-missing").exit_code == 0


def test_numbers_with_a_decimal_comma_are_recognised_and_the_option_is_named(tmp_path: Path) -> None:
    path = tmp_path / "firms.csv"
    path.write_text("région;chiffre\nNord;1,5\nSud;20\nNord;3,25\n", "utf-8")
    asked = ("table", path, "--formula", "région", "--variable", "chiffre", *SURE, "--out", tmp_path / "t.csv")
    refused = run(*asked)
    assert refused.exit_code != 0
    assert "are numbers with a decimal comma: read the file with --read 'decimal=,'." in refused.stderr
    assert "3,25" not in refused.stderr
    assert run(*asked, "--read", "decimal=,").exit_code == 0
