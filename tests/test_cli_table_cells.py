"""`sfumato table` on tables that exist already: cells with their largest contributions, τ-ARGUS's files, and wishes for cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import document, run

from sfumato.tables import Table

CELLS = """region,sector,turnover,firms,top1,top2
Total,Total,1000,86,120,90
Total,01,400,60,40,30
Total,02,600,26,120,90
N,Total,550,46,120,90
N,01,210,32,40,21
N,02,340,14,120,90
S,Total,450,40,80,70
S,01,190,28,30,29
S,02,260,12,80,70
"""
NAMED = ("--dimensions", "region,sector", "--value", "turnover", "--count", "firms", "--top", "top1,top2")
RULE = ("--method", "suppression", "--rule", "nk 1 34")  # 120 of 340 is more than 34 %; nothing else is

RDA = """<SEPARATOR> ","
<UNSAFE> "U"
region
  <RECODEABLE>
  <TOTCODE> "Total"
sector
  <RECODEABLE>
  <TOTCODE> "Total"
turnover
  <NUMERIC>
firms
  <FREQUENCY>
top1
  <MAXSCORE>
top2
  <MAXSCORE>
mark
  <STATUS>
"""


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    path = tmp_path / "cells.csv"
    path.write_text(CELLS)
    return path


@pytest.fixture
def argus(tmp_path: Path) -> Path:
    lines = [f"{line},{'U' if line.startswith('N,02') else 'S'}" for line in CELLS.splitlines()[1:]]
    (tmp_path / "t.tab").write_text("\n".join(lines))
    (tmp_path / "t.rda").write_text(RDA)
    return tmp_path / "t.tab"


def hidden(path: Path) -> set[tuple[str, str]]:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return {(r, s) for r, s, v in zip(frame["region"], frame["sector"], frame["value"], strict=True) if v == ""}


SQUARE = {("N", "01"), ("N", "02"), ("S", "01"), ("S", "02")}


@pytest.mark.parametrize("form", ["csv", "parquet", "xlsx"])
def test_cells_are_protected_from_any_form_and_codes_keep_their_zeros(cells: Path, form: str) -> None:
    frame, file = pd.read_csv(cells, dtype={"sector": str}), cells.with_suffix(f".{form}")
    if form == "parquet":
        frame.to_parquet(file)
    elif form == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(file, index=False)
    done = run("table", file, *NAMED, *RULE, "--out", cells.parent / "out.csv")
    assert done.exit_code == 0, done.stderr
    assert hidden(cells.parent / "out.csv") == SQUARE


def test_a_tab_file_needs_nothing_but_its_rda_and_its_statuses_count(argus: Path) -> None:
    out = argus.parent / "out.csv"
    done = run("table", argus, "--method", "suppression", "--out", out)
    assert done.exit_code == 0, done.stderr
    assert hidden(out) == SQUARE
    found = document(
        run("table", argus, "--schema", argus.with_suffix(".rda"), *RULE, "--out", out, "--replace", "--json")
    )
    assert found["counts"]["not published: unsafe"] == 1
    other = run(
        "table", argus, "--method", "random_rounding", "--out", out, "--replace", "--seed-file", argus.parent / "s"
    )
    assert other.exit_code == 0
    assert "which random_rounding does not look at" in other.stderr


@pytest.mark.parametrize("name", ["wishes.csv", "wishes.hst"])
def test_wishes_for_single_cells_are_kept(cells: Path, name: str) -> None:
    wishes = cells.parent / name
    # with 01 of S shown, the margins of the regions must be hidden to protect N 02
    wishes.write_text("region,sector,status\nN,02,unsafe\nS,01,p\n" if name.endswith("csv") else "N;02;u\nS;01;p\n")
    out = cells.parent / "out.csv"
    done = run("table", cells, *NAMED, "--method", "suppression", "--a-priori", wishes, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert ("N", "02") in hidden(out)
    assert ("S", "01") not in hidden(out)
    refused = run(
        "table", cells, *NAMED, "--method", "rta", "--a-priori", wishes, "--out", out, "--replace", "--seed-file", "s"
    )
    assert refused.exit_code == 2
    assert "--a-priori is for suppression" in refused.stderr


def test_linked_tables_of_cells_are_protected_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "region,sector,n\nN,a,1\nN,b,9\nS,a,9\nS,b,9\nN,Total,10\nS,Total,18\nTotal,a,10\nTotal,b,18\nTotal,Total,28\n"
    )
    (tmp_path / "b.csv").write_text(
        "region,size,n\nN,x,4\nN,y,6\nS,x,9\nS,y,9\nN,Total,10\nS,Total,18\nTotal,x,13\nTotal,y,15\nTotal,Total,28\n"
    )
    done = run(
        "table", tmp_path / "a.csv", tmp_path / "b.csv", "--dimensions", "region,sector,size", "--count", "n",
        "--method", "suppression", "--rule", "minimum 3", "--out", tmp_path / "out.csv",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    out = pd.read_csv(tmp_path / "out.csv").set_index(["region", "sector", "size"])["value"]
    assert np.isnan(out["N", "a", "Total"])
    assert out["N", "Total", "x"] == 4


@pytest.mark.parametrize(("change", "says"), [
    (("N,02,340", "N,02,345"), "2 cells are not the sum of the cells below: sector 02 (over region), region N (over sector)"),
    (("N,02,340", "N,02,-340"), "1 cell is below zero: region N, sector 02. "),
    (("N,02,340,14", "N,02,340,0"), "has a value but no contributors: region N, sector 02"),
    (("N,02,340,14,120", "N,02,340,14,320"), "less than its largest contributions together: region N, sector 02"),
    (("N,02,340", "N,02,"), "no number in column 'turnover': region N, sector 02"),
])  # fmt: skip
def test_cells_that_cannot_be_are_named_with_the_option_that_helps(
    cells: Path, change: tuple[str, str], says: str
) -> None:
    cells.write_text(CELLS.replace(*change))
    done = run("table", cells, *NAMED, *RULE, "--out", cells.parent / "out.csv")
    assert done.exit_code == 1
    assert says in done.stderr
    assert "340" not in done.stderr  # no value
    assert "=" not in done.stderr.replace("--", "")  # no Python
    assert not (cells.parent / "out.csv").exists()


@pytest.mark.parametrize(("options", "code", "says"), [
    (("--dimensions", "regio,sector", "--value", "turnover"), 1, "Did you mean 'region'?"),
    (("--dimensions", "region,sector", "--value", "turnovr"), 1, "Did you mean 'turnover'?"),
    (("--dimensions", "region,sector", "--variable", "turnover"), 2, "named with --value"),
    (("--dimensions", "region,sector"), 2, "name the column of figures (--value)"),
    (("--formula", "region * sector", "--value", "turnover"), 2, "named with --variable"),
    ((), 2, "--dimensions region,sector"),
    ((*NAMED, "--hierarchy", "region=circle.hrc"), 1, "goes in a circle: 'N' stands under itself"),
    ((*NAMED, "--hierarchy", "place=circle.hrc"), 2, "is not a column of labels"),
    ((*NAMED, "--a-priori", "strange.csv"), 1, "Did you mean 'status'?"),
    ((*NAMED, "--a-priori", "none.hst"), 1, "there is no file"),
    ((*NAMED, "--record-file", "r.json"), 2, "only random adjustment"),
])  # fmt: skip
def test_what_does_not_go_together_is_told(
    cells: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, says: str
) -> None:
    monkeypatch.chdir(cells.parent)
    Path("circle.hrc").write_text("N\n@a\n@@N\nS\n")
    Path("strange.csv").write_text("region,sector,statuss\nN,02,u\n")
    done = run("table", cells, *options, *RULE, "--out", "out.csv")
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr
    assert not Path("out.csv").exists()


def test_records_with_an_rda_bring_their_holdings_requests_and_hierarchies(tmp_path: Path) -> None:
    (tmp_path / "r.hrc").write_text("N\n@N1\n@N2\nS\n")
    (tmp_path / "m.rda").write_text(
        'Region 1 2\n<RECODEABLE>\n<HIERCODELIST> "r.hrc"\nV 3 4\n<NUMERIC>\nH 7 1\n<HOLDING>\nQ 8 1\n<REQUEST> "1"\n'
    )
    (tmp_path / "m.asc").write_text("N1  90a1\nN1  20b \nN2  40c \nN2  50d \nS   60e \nS   70f \n")
    out = tmp_path / "o.csv"
    asked = ("table", tmp_path / "m.asc", "--schema", tmp_path / "m.rda", "--formula", "Region", "--variable", "V",
             "--method", "suppression", "--out", out)  # fmt: skip
    found = document(run(*asked, "--rule", "request 70", "--json"))
    assert found["contributors"] == 6
    assert found["counts"]["not published: unsafe"] == 1  # a asked, and has 90 of 110
    frame = pd.read_csv(out)
    assert set(frame["Region"]) == {"Total", "N", "S", "N1", "N2"}
    (tmp_path / "r.grc").write_text("<TREERECODE>\nN\n")
    assert run(*asked, "--rule", "request 70", "--recode", f"Region={tmp_path / 'r.grc'}", "--replace").exit_code == 0
    assert set(pd.read_csv(out)["Region"]) == {"Total", "N", "S"}


def test_the_record_of_a_random_table_lets_a_later_one_agree_with_it(tmp_path: Path) -> None:
    from sfumato.datasets import business

    business(300, regions=3, sectors=3, hierarchies=False).write(tmp_path / "firms.csv")
    asked = (
        "table",
        tmp_path / "firms.csv",
        "--contributor",
        "holding",
        "--variable",
        "turnover",
        "--method",
        "rta",
        "--decimals",
        0,
    )
    record, seed = tmp_path / "record.json", tmp_path / "seed.toml"
    first = run(
        *asked, "--formula", "region", "--out", tmp_path / "a.csv", "--seed-file", seed, "--record-file", record
    )
    assert first.exit_code == 0, first.stderr
    assert record.stat().st_mode & 0o777 == 0o600
    assert "never publish it" in first.stdout
    later = (*asked, "--formula", "region * sector", "--seed-from", seed, "--record-from", record)
    done = run(*later, "--out", tmp_path / "b.csv")
    assert done.exit_code == 0, done.stderr
    a, b = (pd.read_csv(tmp_path / n) for n in ("a.csv", "b.csv"))
    margin = b[b["sector"] == "Total"].set_index("region")["value"]
    assert margin.to_dict() == a.set_index("region")["value"].to_dict()  # what is out stays as it is
    again = run(
        *asked, "--formula", "region", "--out", tmp_path / "c.csv", "--seed-from", seed, "--record-file", record
    )
    assert again.exit_code == 1
    assert "the record of an earlier table" in again.stderr
    beside = run(
        *asked,
        "--formula",
        "region",
        "--out",
        tmp_path / "c.csv",
        "--seed-from",
        seed,
        "--record-file",
        tmp_path / "c.csv",
    )
    assert "kept apart from what is published" in beside.stderr
    wrong = run(*later[:-1], seed, "--out", tmp_path / "c.csv")
    assert wrong.exit_code == 1
    assert "is not the record of a published table" in wrong.stderr


def test_hierarchies_of_records_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(
        "town,v\n" + "".join(f"{t},{v}\n" for t in ("Rome", "Pisa", "Oslo") for v in (5, 6, 7))
    )
    (tmp_path / "t.hrc").write_text("Italy\n@Rome\n@Pisa\nNorway\n@Oslo\n")
    asked = (
        "table",
        tmp_path / "r.csv",
        "--formula",
        "town",
        "--method",
        "suppression",
        "--rule",
        "minimum 2",
        "--out",
        tmp_path / "o.csv",
    )
    assert run(*asked, "--hierarchy", f"town={tmp_path / 't.hrc'}").exit_code == 0
    assert pd.read_csv(tmp_path / "o.csv").set_index("town")["value"].to_dict() == {
        "Total": 9, "Italy": 6, "Rome": 3, "Pisa": 3, "Norway": 3, "Oslo": 3,
    }  # fmt: skip
    wrong = run(*asked, "--replace", "--hierarchy", f"twon={tmp_path / 't.hrc'}")
    assert wrong.exit_code == 2
    assert "Did you mean 'town'?" in wrong.stderr


def test_a_table_of_the_library_and_that_of_the_command_are_the_same(cells: Path) -> None:
    frame = pd.read_csv(cells, dtype={"sector": str})
    table = Table.from_cells(frame, ["region", "sector"], "turnover", count="firms", top=["top1", "top2"])
    found = document(run("table", cells, *NAMED, *RULE, "--out", cells.parent / "o.csv", "--json"))
    assert found["cells"] == len(table)
