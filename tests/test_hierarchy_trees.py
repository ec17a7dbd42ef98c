"""Trees: tables, nested lists, CSV files, and the files that ARX ships."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arx_files import HIERARCHIES
from hierarchies import AGES, WORK, ZIP
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import TreeHierarchy, read_hierarchy_csv, write_hierarchy_csv

ARX = Path(__file__).resolve().parents[2] / "shared" / "data" / "arx"
needs_arx = pytest.mark.skipif(not ARX.is_dir(), reason=f"the ARX example files are not at {ARX}")


# -- trees


def test_a_tree_generalises_by_its_table() -> None:
    assert WORK.height == 3
    assert WORK.generalise(["nurse", "fisher", None, "surgeon"], 2).tolist() == ["health", "other", None, "health"]
    assert WORK.common("nurse", "midwife") == "carer"
    assert WORK.common("nurse", "surgeon") == "health"
    assert WORK.common("nurse", "fisher") == "*"
    assert WORK.common("carer", "nurse") == "carer"
    assert not WORK.contains("carer", "surgeon")
    assert not WORK.contains("nurse", "carer")
    assert [WORK.leaves(v) for v in ("*", "health", "other", "carer", "doctor", "nurse")] == [5, 3, 2, 2, 1, 1]


def test_numbers_in_a_tree_are_known_by_their_text_whatever_their_type() -> None:
    h = TreeHierarchy.from_levels({1: ["low"], 2: ["low"], 3: ["high"]})
    for values in ([1, 3], [1.0, 3.0], ["1", "3"], np.array([1, 3], "int8"), [Decimal("1.0"), np.float32(3)]):
        assert h.generalise(values, 1).tolist() == ["low", "high"]
    assert h.generalise(pd.Series([1, None, 3], dtype="Int64"), 1).tolist() == ["low", None, "high"]


def test_a_label_that_is_not_generalised_further_keeps_its_name_on_several_levels() -> None:
    assert WORK.path("farmer") == ("farmer", "farmer", "other", "*")
    assert WORK.level_of("farmer") == 0
    assert WORK.leaves("farmer") == 1


def test_a_value_may_bear_the_name_of_its_group() -> None:
    h = TreeHierarchy([["Asia", "Asia", "*"], ["Japan", "Asia", "*"], ["Peru", "Americas", "*"]])
    assert h.path("Asia") == ("Asia", "Asia", "*")
    assert h.contains("Asia", "Japan")
    assert not h.contains("Japan", "Asia")
    assert h.common("Asia", "Japan") == h.common("Japan", "Asia") == "Asia"
    assert h.leaves("Asia") == 2


def test_the_root_may_recur_and_may_be_a_value() -> None:
    h = TreeHierarchy([["a", "A", "*"], ["b", "*", "*"], ["*", "*", "*"]])
    assert h.path("b") == ("b", "*", "*")
    assert h.path("*") == ("*",)
    assert h.level_of("*") == 2


def test_a_root_with_a_name_is_kept_and_a_star_still_means_it() -> None:
    h = TreeHierarchy([["a", "all"], ["b", "all"]])
    assert h.root == "all"
    assert h.common("a", "b") == "all"
    assert h.path("*") == ("all",)
    assert h.contains("*", "a")
    assert WORK.root == ZIP.root == "*"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["a", "A", "*"], ["a", "B", "*"]], "'a' on level 0 stands under both 'A' and 'B'"),
        ([["a", "A", "X", "*"], ["b", "A", "Y", "*"]], "'A' on level 1 stands under both 'X' and 'Y'"),
        ([["a", "b", "A", "*"], ["b", "B", "B", "*"]], "'b' stands on level 0 under 'B' and again on level 1"),
        ([["a", "b", "a", "*"]], "'a' stands on level 0 under 'b' and again on level 2"),
        ([["a", "*"], ["b", "A", "*"]], "row 2 of the hierarchy has 3 labels, but row 1 has 2"),
        ([["a", "A"], ["b", "B"]], "same root, but these end in 'A' and 'B'"),
        ([["a"]], "at least the value and the root"),
        ([["a", "", "*"]], "row 1 of the hierarchy has an empty label"),
        ([], "at least one value"),
        (["a*"], "a row of a hierarchy must be a list"),
        ("a*", "rows of a hierarchy must be a list"),
    ],
)
def test_a_table_that_is_no_tree_is_refused_with_the_label(rows: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        TreeHierarchy(rows)


def test_rows_that_say_the_same_twice_count_once() -> None:
    assert TreeHierarchy([["a", "*"], ["b", "*"], ["a", "*"]]).leaves("*") == 2


def test_a_nested_tree_is_padded_to_equal_depth() -> None:
    h = TreeHierarchy.from_tree({"Europe": {"Italy": ["Rome", "Pisa"], "Malta": None}, "Asia": ["Tokyo"], "at sea": {}})
    assert [h.path(v) for v in ("Rome", "Malta", "Tokyo", "at sea")] == [
        ("Rome", "Italy", "Europe", "*"),
        ("Malta", "Malta", "Europe", "*"),
        ("Tokyo", "Tokyo", "Asia", "*"),
        ("at sea", "at sea", "at sea", "*"),
    ]
    assert h.leaves("Europe") == 3


@pytest.mark.parametrize("wrong", [{}, {"Europe": "Italy"}, {"Europe": 3}])
def test_a_nested_tree_of_other_things_is_refused(wrong: Any) -> None:
    with pytest.raises(SchemaError):
        TreeHierarchy.from_tree(wrong)


def test_levels_get_a_root_only_if_they_have_none() -> None:
    assert TreeHierarchy.from_levels({"a": ["A"], "b": ["B"]}).path("a") == ("a", "A", "*")
    assert TreeHierarchy.from_levels({"a": ["all"], "b": ["all"]}).path("a") == ("a", "all")
    assert TreeHierarchy.from_levels({"a": [], "b": []}).path("a") == ("a", "*")


trees = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=20, unique=True)


@given(trees)
def test_the_leaves_of_a_label_are_those_of_its_children(codes: list[tuple[int, ...]]) -> None:
    # a label is the way from the root to it, so the table is a tree whatever was drawn
    rows = [["/".join(map(str, c[: 4 - level])) for level in range(4)] + ["*"] for c in codes]
    h = TreeHierarchy(rows)
    assert h.leaves("*") == len(codes)
    for level in range(1, 5):
        for label in {row[level] for row in rows}:
            children = {row[level - 1] for row in rows if row[level] == label}
            assert h.leaves(label) == sum(h.leaves(child) for child in children)


# -- CSV files


def _file(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "hierarchy.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("separator", [";", ",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separator_line_ends_and_byte_order_mark_are_found(
    tmp_path: Path, separator: str, end: str, encoding: str
) -> None:
    lines = [separator.join(row) for row in (["ä", "A", "*"], ["b", "A", "*"], ["c", "C", "*"])]
    h = read_hierarchy_csv(_file(tmp_path, (end or "\n").join(lines) + end, encoding))
    assert h == TreeHierarchy([["ä", "A", "*"], ["b", "A", "*"], ["c", "C", "*"]])


def test_commas_inside_labels_do_not_pass_for_separators(tmp_path: Path) -> None:
    h = read_hierarchy_csv(_file(tmp_path, "29;[20,30[;*\n36;[30,40[;*\n"))
    assert h.path(29) == ("29", "[20,30[", "*")


def test_a_separator_can_be_given(tmp_path: Path) -> None:
    path = _file(tmp_path, "a|A|*\nb|A|*\n")
    assert read_hierarchy_csv(path, separator="|").path("b") == ("b", "A", "*")
    with pytest.raises(SchemaError, match="must be one sign"):
        read_hierarchy_csv(path, separator="||")


def test_a_root_is_added_where_the_last_column_varies(tmp_path: Path) -> None:
    assert read_hierarchy_csv(_file(tmp_path, "a;A\nb;B\n")).path("a") == ("a", "A", "*")
    assert read_hierarchy_csv(_file(tmp_path, "a\nb\n")).path("a") == ("a", "*")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;A;*\n\nb;B\n", "line 3 of the hierarchy file .* has 2 columns, but the first line has 3 columns"),
        ("a;A;*\nb\n", "line 2 .* has 1 column,"),
        ("a;A;*\nb;;*\n", "line 2 .* has an empty cell"),
        ("a;A;*\na;B;*\n", "in the hierarchy file .*'a' on level 0 stands under both 'A' and 'B'"),
        ("", "is empty"),
        ("\n\n", "is empty"),
    ],
)
def test_a_broken_file_is_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        read_hierarchy_csv(_file(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot read the hierarchy file"):
        read_hierarchy_csv(tmp_path / "absent.csv")
    with pytest.raises(SchemaError, match="Save it as UTF-8"):
        read_hierarchy_csv(_file(tmp_path, "é;*", "latin-1"))


labels = st.text(st.sampled_from("ab;,\t\"'\n\r é*"), min_size=1, max_size=5)


@given(st.lists(labels, min_size=1, max_size=8, unique=True))
def test_a_tree_survives_its_csv_file(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "h.csv"
    h = TreeHierarchy([[name, "group", "*"] for name in names if name != "*"] or [["x", "*"]])
    write_hierarchy_csv(h, path)
    assert read_hierarchy_csv(path) == h


def test_other_kinds_are_written_for_the_values_given(tmp_path: Path) -> None:
    path = tmp_path / "ages.csv"
    write_hierarchy_csv(AGES, path, values=[22, 37, 22])
    assert path.read_bytes() == b"22;[20, 25);[20, 30);[20, 40);*\r\n37;[35, 40);[30, 40);[20, 40);*\r\n"
    assert read_hierarchy_csv(path).path(37) == AGES.path(37)
    with pytest.raises(SchemaError, match="Give the values to write"):
        write_hierarchy_csv(AGES, path)
    with pytest.raises(SchemaError, match="1 of the values are generalised already"):
        write_hierarchy_csv(AGES, path, values=[22, "[20, 30)"])
    with pytest.raises(SchemaError, match="no values to write"):
        write_hierarchy_csv(AGES, path, values=[])


# -- the files that ARX ships; values and columns as in ../shared/data/arx/README.md


@needs_arx
@pytest.mark.parametrize("name", HIERARCHIES)
def test_an_arx_file_has_the_documented_values_and_height(name: str) -> None:
    values, columns = HIERARCHIES[name]
    h = read_hierarchy_csv(ARX / f"{name}.csv")
    assert len(h.values) == h.leaves(h.root) == values
    assert h.height == columns - 1


@needs_arx
def test_every_arx_hierarchy_file_is_in_the_list() -> None:
    assert {path.stem for path in ARX.glob("*_hierarchy_*.csv")} == set(HIERARCHIES)


@needs_arx
@pytest.mark.parametrize("table", ["adult", "test", "test2"])
def test_arx_data_generalise_as_their_files_say(table: str) -> None:
    with (ARX / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file, delimiter=";"))
    paths = sorted(ARX.glob(f"{table}_hierarchy_*.csv"))
    assert paths
    for path in paths:
        column = [record[path.stem.split("_hierarchy_")[1]] for record in records]
        rows = {line.split(";")[0]: line.split(";") for line in path.read_text("utf-8").splitlines()}
        h = read_hierarchy_csv(path)
        for level in range(h.height + 1):
            assert h.generalise(column, level).tolist() == [rows[value][level] for value in column]


@needs_arx
def test_the_zip_file_of_arx_is_the_prefix_hierarchy() -> None:
    table = read_hierarchy_csv(ARX / "test_hierarchy_zipcode.csv")
    assert all(ZIP.path(value) == table.path(value) for value in table.values)


@needs_arx
def test_the_age_file_of_arx_agrees_with_intervals_of_the_age_before() -> None:
    # the file calls the ages 1 to 5 "0-4", 6 to 10 "5-9", and so on: its labels are one year behind its values
    table = read_hierarchy_csv(ARX / "adult_hierarchy_age.csv")
    for age in range(1, 101):
        bounds = [label[1:-1].split(", ") for label in AGES.path(age - 1)[1:4]]
        assert table.path(age)[1:4] == tuple(f"{low}-{int(high) - 1}" for low, high in bounds)
