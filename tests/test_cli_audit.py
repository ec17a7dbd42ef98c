"""`sfumato audit`: published tables from anywhere, on the command line; messages read as a newcomer reads them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from commands import document, run

from sfumato.datasets import business
from sfumato.tables import PublishedTable, Table

TABLE = """region,sector,value
N,01,x
N,02,x
N,Total,30
S,01,4
S,02,8
S,Total,12
Total,01,14
Total,02,28
Total,Total,42
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_a_broken_pattern_is_told_with_its_equations_and_the_exit_code_is_3(table: Path) -> None:
    said = run("audit", table)
    assert said.exit_code == 3
    lines = said.stdout.splitlines()
    assert lines[0] == "Not safe: 2 cells are exactly disclosed."
    assert "      [region N, sector 01] = [sector 01] − [region S, sector 01]" in lines
    assert " 10" not in said.stdout.replace("10 %", "")  # no value that is not shown


def test_json_has_the_counts_and_the_cells_of_each_equation(table: Path) -> None:
    found = document(run("audit", table, "--json"), 3)
    assert found["safe"] is False
    assert found["counts"]["exactly disclosed"] == 2
    because = found["disclosed"][0]["because"][0]
    assert because["cells"] == [
        {"region": "Total", "sector": "01", "times": "1"}, {"region": "S", "sector": "01", "times": "-1"},
    ]  # fmt: skip


def test_a_safe_table_has_exit_code_0(table: Path) -> None:
    table.write_text(TABLE.replace("S,01,4", "S,01,x").replace("S,02,8", "S,02,x"))
    said = run("audit", table)
    assert said.exit_code == 0, said.stderr
    assert said.stdout.startswith("Nothing sensitive can be worked out")


def test_hierarchies_totals_marks_and_separators_are_options(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("place;n\nWorld;60,5\nItaly;30,5\nRome;secret\nPisa;10\nNorway;secret\n")
    (tmp_path / "places.hrc").write_text("Italy\n@Rome\n@Pisa\nNorway\n")
    said = run(
        "audit", path, "--dimensions", "place", "--value", "n", "--hierarchy", f"place={tmp_path / 'places.hrc'}",
        "--total", "World", "--mark", "secret", "--read", "decimal=,", "--json",
    )  # fmt: skip
    found = document(said, 3)
    assert {d["place"] for d in found["disclosed"]} == {"Rome", "Norway"}
    (tmp_path / "places.csv").write_text("Rome;Italy;*\nPisa;Italy;*\nNorway;Norway;*\n")
    again = run(
        "audit", path, "--dimensions", "place", "--value", "n", "--hierarchy", f"place={tmp_path / 'places.csv'}",
        "--total", "place=World", "--mark", "secret", "--read", "decimal=,", "--json",
    )  # fmt: skip
    assert document(again, 3)["counts"] == found["counts"]


def test_rounded_counts_and_rows_that_were_left_out(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,value\np,3\nq,3\nTotal,12\n")
    found = document(run("audit", path, "--within", 2, "--whole", "--json"), 3)
    assert found["counts"]["exactly disclosed"] == 3  # 5, 5 and 10
    path.write_text("a,b,value\np,x,3\nq,x,3\nq,y,4\np,Total,9\nq,Total,7\nTotal,x,6\nTotal,y,10\nTotal,Total,16\n")
    wrong = run("audit", path)
    assert wrong.exit_code == 1
    assert "--absent suppressed" in wrong.stderr
    assert document(run("audit", path, "--absent", "suppressed", "--json"), 3)["disclosed"][0]["a"] == "p"


def test_the_cells_are_written_and_never_over_another_file(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "cells.csv"
    assert run("audit", table, "--out", out).exit_code == 3
    read = pd.read_csv(out)
    assert read.verdict.value_counts().to_dict() == {"shown": 7, "exactly disclosed": 2}
    assert out.stat().st_mode & 0o077 == 0  # for its owner alone
    assert run("audit", table, "--out", out).exit_code == 1
    assert run("audit", table, "--out", out, "--replace").exit_code == 3


def test_with_the_records_rules_and_contributors_are_looked_at(tmp_path: Path) -> None:
    data = business(400, regions=4, sectors=4, hierarchies=False)
    data.write(tmp_path / "firms.csv")
    data.schema.write(tmp_path / "firms.toml")
    made = Table.of(data, "region * sector", "turnover")
    shown = PublishedTable.unprotected(made)
    shown.write(tmp_path / "table.csv")
    common = (
        "audit", tmp_path / "table.csv", "--original", tmp_path / "firms.csv", "--schema", tmp_path / "firms.toml",
        "--variable", "turnover", "--json",
    )  # fmt: skip
    found = document(run(*common), 0)
    assert found["headline"].startswith("Every cell is shown")
    ruled = document(run(*common, "--rule", "minimum 40"), 3)
    few = int((made.frequency < 40).sum())
    assert few > 0
    assert ruled["counts"]["exactly disclosed"] == few
    assert ruled["rules"] == ["fewer than 40 records"]
    prior = document(
        run(*common, "--prior-cv", 0.5, "--base-cv", 0.49, "--size", "employees", "--per-size", "ratio"), 3
    )
    assert prior["posterior"]["contributions"] > 300
    assert prior["posterior"]["known better than allowed"] > 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--value", "turnover"), 1, "--value names the column of figures"),
        (("--dimensions", "regio,sector"), 1, "Did you mean 'region'"),
        (("--rule", "p% 10"), 2, "give the records with --original"),
        (("--prior-cv", "0.5"), 2, "belong together"),
        (("--hierarchy", "area=x.hrc"), 2, "which is not a column of labels"),
        (("--hierarchy", "region=none.hrc"), 2, "there is no file none.hrc"),
        (("--total", "Gesamt"), 1, "--total 'region=Total'"),
        (("--absent", "lost"), 2, "absent"),
        (("--tolerance", "-1"), 2, "tolerance"),
    ],
)
def test_mistakes_are_told_in_a_sentence(table: Path, options: tuple[str, ...], code: int, message: str) -> None:
    said = run("audit", table, *options)
    assert said.exit_code == code, said.stdout
    assert message in said.stderr
    assert said.stdout == ""


def test_the_hierarchy_of_the_published_table_is_also_that_of_the_records(tmp_path: Path) -> None:
    records = pd.DataFrame({
        "town": ["Rome", "Rome", "Pisa", "Pisa", "Oslo", "Oslo", "Oslo"], "firm": list("abcdefg"),
        "turnover": [300, 5, 160, 150, 70, 80, 90],
    })  # fmt: skip
    records.to_csv(tmp_path / "records.csv", index=False)
    (tmp_path / "towns.hrc").write_text("Italy\n@Rome\n@Pisa\nNorway\n@Oslo\n")
    (tmp_path / "table.csv").write_text("town,value\nRome,\nPisa,\nOslo,240\nItaly,615\nNorway,240\nTotal,855\n")
    asked = (
        "--original",
        tmp_path / "records.csv",
        "--variable",
        "turnover",
        "--contributor",
        "firm",
        "--rule",
        "p% 10",
    )
    said = run("audit", tmp_path / "table.csv", "--hierarchy", f"town={tmp_path / 'towns.hrc'}", *asked)
    # Rome and Pisa, of two firms each, are unsafe and hidden; Italy is safe, since 160 + 150 - 160 + 5 is more than 30
    assert said.exit_code == 0, said.stderr
    assert "2 of 6 cells are hidden or changed." in said.stdout


def test_a_guessed_weight_and_contributor_are_told(tmp_path: Path) -> None:
    business(60, regions=2, sectors=2, hierarchies=False).write(tmp_path / "records.csv")
    (tmp_path / "table.csv").write_text("region,value\nN,\nS,\nTotal,12\n")
    said = run("audit", tmp_path / "table.csv", "--original", tmp_path / "records.csv", "--variable", "turnover")
    assert "contributor: holding; weight: weight" in said.stderr


SQUARE = TABLE.replace("S,01,4", "S,01,x").replace("S,02,8", "S,02,x")


@pytest.mark.parametrize(
    ("known", "exactly", "nearly"),
    [
        ((), 0, 0),
        (("N,01=10",), 3, 0),  # N 02 = 30 - 10, S 01 = 14 - 10, S 02 = 28 - 20
        (("N,01=9:10.2",), 0, 1),  # N 02 lies between 19.8 and 21, within 10 % of its middle; S 02 between 7 and 8.2
        (("known.csv",), 3, 0),
        (("bounds.csv",), 0, 2),
        (("N,01=9:40", "N,Total=30"), 0, 0),
    ],
)
def test_what_a_reader_knows_besides_counts(
    table: Path, monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...], exactly: int, nearly: int
) -> None:
    monkeypatch.chdir(table.parent)
    table.write_text(SQUARE)
    Path("known.csv").write_text("region,sector,value\nN,01,10\n")
    Path("bounds.csv").write_text("region,sector,low,high\nN,01,10,11\n")  # N 01 itself, and N 02 from 19 to 20
    found = document(
        run("audit", table, "--json", *(a for k in known for a in ("--known", k))), 3 if exactly + nearly else 0
    )
    assert (found["counts"]["exactly disclosed"], found["counts"]["approximately disclosed"]) == (exactly, nearly)


@pytest.mark.parametrize(
    ("known", "code", "message"),
    [
        ("N,03=10", 1, "'03', which is not a label of 'sector'"),
        ("N=10", 1, "a label for each of region, sector"),
        ("N,01=ten", 2, "'ten' is neither"),
        ("N,01", 2, "'North,coal=100:150'"),
        ("none.csv", 1, "there is no file none.csv"),
        ("N,01=50", 1, "what is published does not add up"),
        ("N,01=5:3", 1, "a low and a high one"),
    ],
)
def test_what_cannot_be_known_is_told(table: Path, known: str, code: int, message: str) -> None:
    table.write_text(SQUARE)
    said = run("audit", table, "--known", known)
    assert (said.exit_code, message in said.stderr) == (code, True), said.stderr


@pytest.mark.parametrize("name", ["t.json", "t.sdmx.csv"])
def test_tables_in_standard_forms_need_no_options(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"a": ["p", "q", "r", "Total"], "v": ["3", "x", "4", "9"]})
    PublishedTable.from_frame(frame, ["a"], "v").write(tmp_path / name)
    found = document(run("audit", tmp_path / name, "--json"), 3)
    assert found["counts"]["exactly disclosed"] == 1
    assert run("audit", tmp_path / name, "--value", "v").exit_code == 2
    assert run("audit", tmp_path / f"no{name}").exit_code == 1


def test_columns_that_may_be_nested_are_named_where_no_row_says_how(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    apart = (
        "geo,eu,value\nSpain,Total,c\nPortugal,Total,c\nIceland,Total,c\nTotal,EU,50\nTotal,nonEU,10\nTotal,Total,60\n"
    )
    path.write_text(apart)
    told = run("audit", path, "--dimensions", "geo,eu", "--value", "value").stdout
    assert "No row is broken down by both geo and eu." in told
    whole = apart.replace("Iceland,Total", "Iceland,nonEU").replace("Spain,Total", "Spain,EU")
    path.write_text(whole.replace("Portugal,Total", "Portugal,EU"))
    told = run("audit", path, "--dimensions", "geo,eu", "--value", "value").stdout
    assert "No row is broken down by both" not in told
    assert "[geo Iceland, eu nonEU] = [eu nonEU]" in told


def test_records_may_be_written_otherwise_than_the_table(tmp_path: Path) -> None:
    records, table = tmp_path / "firms.csv", tmp_path / "table.csv"
    records.write_text("r;x\nN;1,5\nN;2,5\nN;2\nS;3,5\nS;3\nS;4\n")
    table.write_text("r,value\nN,6\nS,10.5\nTotal,16.5\n")
    asked = ("audit", table, "--dimensions", "r", "--value", "value", "--original", records, "--variable", "x")
    told = run(*asked, "--rule", "p% 10", "--read-original", "decimal=,")
    assert told.exit_code == 0, told.stderr
    assert run(*asked, "--rule", "p% 10").exit_code == 1
