"""Files as people send them: titles above the header, marks between thousands, folders of parts, odd separators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from sfumato import Draws, Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.formats.data_files import read_file
from sfumato.masks import RandomOrder
from sfumato.schema import Schema


def staff(n: int = 37, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "branch": rng.choice(["Öl", "Stahl", "Holz"], n),
            "age": rng.integers(20, 66, n),
            "pay": np.round(rng.lognormal(8.7, 1, n), 2),
            "posts": rng.integers(900, 12_000, n),
        }
    )


def grouped(x: float, mark: str, decimal: str) -> str:
    return f"{x:,}".translate(str.maketrans({",": mark, ".": decimal}))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(("mark", "decimal"), [(".", ","), (",", "."), ("'", "."), ("\u202f", ","), (" ", ",")])
def test_numbers_with_marks_between_thousands_are_read_as_they_were_meant(
    engine: str, mark: str, decimal: str, tmp_path: Path
) -> None:
    frame = staff()
    written = frame.assign(**{c: [grouped(x, mark, decimal) for x in frame[c].tolist()] for c in ("pay", "posts")})
    written.to_csv(tmp_path / "staff.csv", sep=";", index=False)
    data = Microdata.read(tmp_path / "staff.csv", engine=engine, thousands=mark, decimal=decimal)
    assert data.numbers("pay").tolist() == frame["pay"].tolist()
    assert data.numbers("posts").tolist() == frame["posts"].tolist()
    told = Schema.guess(read_file(tmp_path / "staff.csv").table)["pay"].reason
    assert "marks between thousands" in told


def test_a_cell_that_is_no_group_of_three_digits_leaves_the_column_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a;b\n1.234;x\n1.5;y\n")
    assert read_file(tmp_path / "x.csv", thousands=".", decimal=",").table["a"].to_pylist() == ["1.234", "1.5"]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_lines_above_the_header_are_skipped_and_the_message_says_how_many_there_are(
    engine: str, tmp_path: Path
) -> None:
    frame = staff()
    path = tmp_path / "report.csv"
    path.write_text("Report, second draft\n\nSource: own\n" + frame.to_csv(index=False), encoding="utf-8")
    with pytest.raises(DataError, match="If the header stands in line 4, say skip=3"):
        Microdata.read(path, engine=engine)
    data = Microdata.read(path, engine=engine, skip="3")
    assert data.schema.names() == tuple(frame.columns)
    assert len(data) == len(frame)
    path.write_text("Report;;;\n" + frame.to_csv(index=False, sep=";"), encoding="utf-8")
    with pytest.raises(DataError, match="The header seems to stand in row 2: say skip=1"):
        Microdata.read(path, engine=engine)
    path.write_text("a,b\n1,2\n3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3 of .* has 1 cell, but the header has 2"):
        Microdata.read(path, engine=engine)
    with pytest.raises(ParameterError, match="skip must be a whole number"):
        Microdata.read(path, engine=engine, skip="two")


def test_a_merged_header_in_excel_gets_advice_about_titles_and_not_about_r(tmp_path: Path) -> None:
    frame = staff()
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["Person", None, "Money", None])
    sheet.merge_cells("A1:B1")
    for row in [list(frame.columns), *frame.values.tolist()]:
        sheet.append(row)
    book.save(tmp_path / "staff.xlsx")
    with pytest.raises(DataError, match=r"merged over several columns.*row 2: say skip=1") as refused:
        Microdata.read(tmp_path / "staff.xlsx")
    assert "pandas" not in str(refused.value)
    assert Microdata.read(tmp_path / "staff.xlsx", skip=1).numbers("posts").tolist() == frame["posts"].tolist()


def test_row_names_of_r_still_get_the_advice_about_r(tmp_path: Path) -> None:
    staff().to_csv(tmp_path / "staff.csv")
    with pytest.raises(DataError, match=r"row.names = FALSE"):
        read_file(tmp_path / "staff.csv")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_folder_of_parquet_files_is_one_file_and_its_folders_are_a_column(engine: str, tmp_path: Path) -> None:
    frame = staff()
    for branch, part in frame.groupby("branch"):
        folder = tmp_path / "parts" / f"branch={branch}" / "year=2023"
        folder.mkdir(parents=True)
        part.drop(columns="branch").to_parquet(folder / "part-0.parquet", index=False)
    (tmp_path / "parts" / "_SUCCESS").write_text("")
    data = Microdata.read(tmp_path / "parts", engine=engine)
    assert data.schema.names() == ("age", "pay", "posts", "branch", "year")
    assert set(data.numbers("year")) == {2023.0}
    expected = frame.sort_values(["branch"], kind="stable", key=lambda s: s.map(lambda b: f"branch={b}"))
    assert data.numbers("pay").tolist() == expected["pay"].tolist()


def test_a_pattern_stands_for_its_files_and_different_columns_or_forms_are_refused(tmp_path: Path) -> None:
    frame = staff()
    frame[:10].to_csv(tmp_path / "a.csv", index=False)
    frame[10:].assign(age=lambda d: d["age"] + 0.5).to_csv(tmp_path / "b.csv", index=False)
    assert Microdata.read(tmp_path / "*.csv").numbers("pay").tolist() == frame["pay"].tolist()
    frame.assign(more=1).to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(DataError, match=r"c.csv has other columns than .*a.csv"):
        Microdata.read(tmp_path / "*.csv")
    frame.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(DataError, match="is a folder of files of several forms"):
        Microdata.read(tmp_path)
    with pytest.raises(DataError, match="a pattern that no file fits"):
        Microdata.read(tmp_path / "*.sav")


def test_the_schema_keeps_how_a_file_is_read_and_a_release_does_not(tmp_path: Path) -> None:
    frame = staff()
    frame.to_csv(tmp_path / "staff.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    schema = Schema.guess(frame)
    kept = Schema.from_toml(Schema(schema.attributes, {"decimal": ",", "encoding": "cp1252"}).to_toml())
    data = Microdata.read(tmp_path / "staff.csv", kept.change("age", integer=True))
    assert data.numbers("pay").tolist() == frame["pay"].tolist()
    draws = Draws(3)
    RandomOrder().apply(data, draws).write(tmp_path / "out", draws, seed_file=tmp_path / "seed.toml")
    assert "read" not in Schema.read(tmp_path / "out" / "schema.toml").to_toml().split("[[attribute]]")[0]


@pytest.mark.parametrize("separator", ["~", "^", "|"])
def test_less_usual_separators_are_found(separator: str, tmp_path: Path) -> None:
    staff().to_csv(tmp_path / "staff.csv", sep=separator, index=False)
    assert Microdata.read(tmp_path / "staff.csv").schema.names() == tuple(staff().columns)


@pytest.mark.parametrize("separator", [";", " ", ":", "#"])
def test_a_file_that_was_read_as_one_column_is_not_released(separator: str, tmp_path: Path) -> None:
    staff().to_csv(tmp_path / "staff.csv", sep=separator, index=False)
    data = Microdata.read(tmp_path / "staff.csv", separator="|")
    assert "another separator" in data.schema[data.schema.names()[0]].reason
    with pytest.raises(DataError, match="another separator"):
        RandomOrder().apply(data, Draws(1))


def test_a_list_of_full_names_or_of_sentences_is_no_file_with_another_separator(tmp_path: Path) -> None:
    pd.DataFrame({"full name": ["Ann Lee", "Bo Fry", "Cy Dee"] * 9}).to_csv(tmp_path / "names.csv", index=False)
    data = Microdata.read(tmp_path / "names.csv")
    assert "another separator" not in data.schema["full name"].reason
