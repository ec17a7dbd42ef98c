"""What users of τ-ARGUS have: texts in its documented syntax (manual 4.1, chapter 5), and its own example files."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Role, Scale
from sfumato.tables import (
    Table,
    read_argus_a_priori,
    read_argus_hierarchy,
    read_argus_metadata,
    read_argus_microdata,
    read_argus_table,
)
from sfumato.tables.argus.hierarchy_files import levels_hierarchy, numbers

DATA = Path(__file__).parents[2] / "shared" / "data" / "tables" / "tauargus"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the examples of τ-ARGUS are not here (../shared/data/tables/tauargus)"
)

PP = """   <SEPARATOR> ";"
Size "99"
    <RECODEABLE>
    <TOTCODE> "Total"
Region "99"
    <RECODEABLE>
    <TOTCODE> "Total"
    <DISTANCE> 2 4 4 4 4
    <CODELIST> "REGION.CDL"
    <HIERARCHICAL>
    <HIERCODELIST> "C:\\TauArgus\\data\\REGION2.HRC"
    <HIERLEADSTRING> "@"
Var2
    <NUMERIC>
    <DECIMALS> 2
FreqVar
    <FREQUENCY>
Var2_Shadow
    <NUMERIC> <SHADOW>
Var2_Cost
    <NUMERIC> <COSTVAR>
Top1
    <MAXSCORE>
Top2
    <MAXSCORE>
StatusVar
    <STATUS>
LowerProtLevel
    <NUMERIC> <LOWERPL>
UpperProtLevel
    <NUMERIC> <UPPERPL>
"""
PLACES = "Nr\n@ 1\n@ 2\n@ 3\nOs \n@ 4\n@ 5\n@ 6\n@ 7\nWs\n@ 8\n@ 9\n@10\nZd\n@11\n@12"


def write(folder: Path, **files: str | bytes) -> Path:
    """Write files named like pp_tab for pp.tab."""
    for name, text in files.items():
        target = folder / name.replace("_", ".")
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


# Hierarchies


def test_an_hrc_file_is_a_tree_of_labels_without_their_spaces(tmp_path: Path) -> None:
    tree = read_argus_hierarchy(write(tmp_path, r_hrc=PLACES) / "r.hrc")
    assert tree.path("10") == ("10", "Ws", "Total")
    assert tree.path("4") == ("4", "Os", "Total")
    assert tree.values == tuple(str(i) for i in range(1, 13))


def test_labels_may_stand_at_different_depths(tmp_path: Path) -> None:
    text = "A\n@A1\n@@A1a\n@@A1b\n@A2\nB\nC\n@C1\n"
    tree = read_argus_hierarchy(write(tmp_path, r_hrc=text) / "r.hrc", total="All")
    assert tree.path("A1b") == ("A1b", "A1", "A", "All")
    assert tree.path("B")[-2:] == ("B", "All")
    assert tree.path("A2")[-3:] == ("A2", "A", "All")
    assert tree.leaves("A") == 3
    assert tree.leaves("All") == 5


@pytest.mark.parametrize("leader", ["@", "@@", ".", "  ", "->"])
def test_any_leader_marks_the_levels(leader: str, tmp_path: Path) -> None:
    text = f"A\n{leader}A1\n{leader * 2}A1a\nB\n"
    tree = read_argus_hierarchy(write(tmp_path, r_hrc=text) / "r.hrc", leader=leader)
    assert tree.path("A1a") == ("A1a", "A1", "A", "Total")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends_do_not_matter(encoding: str, end: str, tmp_path: Path) -> None:
    text = end.join(["Île-de-France", "@75", "@77", "Bretagne", "@Côtes", ""])
    tree = read_argus_hierarchy(write(tmp_path, r_hrc=text.encode(encoding)) / "r.hrc")
    assert tree.path("75") == ("75", "Île-de-France", "Total")
    assert tree.path("Côtes") == ("Côtes", "Bretagne", "Total")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\n@@A1\n", r"line 2 of .* \('A1'\) is 2 levels deep, but the line before it is only 0"),
        ("@A\n", "line 1 of .* begins with '@', but the first label stands directly below the total"),
        ("A\n@B\n@@A\n", "goes in a circle: 'A' stands under itself"),
        ("A\n@A\n", "goes in a circle: 'A' stands under itself"),
        ("A\n@x\nB\n@x\n", "line 4 of .* has the label 'x' again: it stands under 'A' already"),
        ("A\n@\n", "line 2 of .* has no label after '@'"),
        ("\n\n", "has no labels"),
        ("A\n@Total\nB\n", "has the label 'Total', which is that of the total"),
    ],
)
def test_hierarchies_that_are_none_say_where(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_argus_hierarchy(write(tmp_path, r_hrc=text) / "r.hrc")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"cannot read the hierarchy file nowhere\.hrc: No such file"):
        read_argus_hierarchy("nowhere.hrc")
    with pytest.raises(ParameterError, match="at least one sign"):
        read_argus_hierarchy("nowhere.hrc", leader="")


def test_the_total_in_a_hierarchy_file_is_the_top(tmp_path: Path) -> None:
    tree = read_argus_hierarchy(write(tmp_path, r_hrc="Total\n@A\n@@A1\n@B\n") / "r.hrc")
    assert tree.path("A1") == ("A1", "A", "Total")


def test_codes_have_their_levels_in_their_digits() -> None:
    tree = levels_hierarchy(["24131", "24132", "2414 ", "25100", "999"], [2, 1, 1, 1, 0])
    assert tree.path("24131") == ("24131", "2413", "241", "24", "Total")
    assert tree.path("2414")[-4:] == ("2414", "241", "24", "Total")
    assert tree.path("999")[-3:] == ("999", "99", "Total")  # as long as the second level: it stands there
    assert levels_hierarchy([" 1 2"], [2, 2]).path("1 2")[-2:] == ("1", "Total")
    with pytest.raises(DataError, match="numbers of digits"):
        levels_hierarchy(["1"], [0])


# Metadata


def test_every_keyword_of_microdata_is_understood(tmp_path: Path) -> None:
    text = """// a comment
Year 1 2 "99"
\t<RECODABLE>
  <DISTANCE> 1 2 3 4 5
Industry 4 5 99999 "  x"
  <recodeable>
  <TOTCODE> "All industries"
  <HIERARCHICAL>
  <HIERLEVELS>  3 1 1 0 0
Region 12 2 99
  <RECODEABLE>
  <CODELIST> "region.cdl"
  <HIERARCHICAL>
  <HIERCODELIST> "region2.hrc"
  <HIERLEADSTRING> "@"
Wgt 15 4 9999
  <DECIMALS> 1
  <WEIGHT>
Var2 28 10 9999999999
  <NUMERIC>
  <DECIMALS> 2
Owner 40 4
  <HOLDING>
Request 99 1
  <REQUEST> "1" "2"
Key 100 17
  <RECORDKEY>
  <DECIMALS> 15
  <PFILE> "ptable.txt"
"""
    found = read_argus_metadata(write(tmp_path, t_rda=text) / "t.rda")
    assert found.separator is None
    year, industry, region = found.variables[:3]
    assert (year.position, year.width, year.missing, year.recodeable) == (1, 2, ("99",), True)
    assert year.distance == (1, 2, 3, 4, 5)
    assert (industry.levels, industry.missing, industry.total) == ((3, 1, 1, 0, 0), ("99999", "x"), "All industries")
    assert (region.hierarchy_file, region.leader, region.codelist) == ("region2.hrc", "@", "region.cdl")
    roles = {v.name: v.role for v in found.variables[3:]}
    assert roles == {"Wgt": "weight", "Var2": "numeric", "Owner": "holding", "Request": "request", "Key": "record key"}
    assert found["VAR2"].decimals == 2
    assert found["request"].requests == ("1", "2")
    with pytest.raises(DataError, match="Did you mean 'Region'"):
        found["Regio"]


def test_every_keyword_of_a_table_is_understood(tmp_path: Path) -> None:
    text = PP + "Extra\n  <NUMERIC>\n  <COST>\n<SAFE> ok\n<UNSAFE> bad\n<PROTECT> keep\n"
    found = read_argus_metadata(write(tmp_path, t_rda=text) / "t.rda", table=True)
    assert [v.role for v in found.variables] == [
        "", "", "numeric", "frequency", "shadow", "cost", "top", "top", "status", "lower level", "upper level", "cost",
    ]  # fmt: skip
    assert (found.separator, found.safe, found.unsafe, found.protect) == (";", "ok", "bad", "keep")
    assert found["Size"].missing == ("99",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Size 1 2\n  <RECODEBLE>\n", "line 2 of .*Did you mean '<RECODEABLE>'"),
        ("Size\n  <RECODEABLE>\n", "must be followed by where it starts and how wide it is, such as: Size 12 4"),
        ("Size 0 2\n", "line 1 of .* cannot be understood"),
        ('<SEPARATOR> ","\nSize\n', "must be followed by its width, such as: Size 4"),
        ("Nace 1 5\n<RECODEABLE>\n<HIERLEVELS> 3 1\n", "must add up to the width of the code"),
        ("<RECODEABLE>\n", "stands before any variable"),
        ("Size 1 2\n<TOTCODE>\n", "does not have what must follow it"),
        ("Size 1 2\n<DECIMALS> two\n", "does not have what must follow it"),
        ("// nothing\n", "describe no variables"),
        ("<SPSS>\nSize\n", "read it with Microdata.read"),
        ("Size 1 2\nsize 3 2\n", "describe 'size' twice"),
    ],
)
def test_metadata_that_are_wrong_say_where(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_argus_metadata(write(tmp_path, t_rda=text) / "t.rda")


# Microdata

FIXED = """Industry 1 5 99999
  <RECODEABLE>
  <HIERARCHICAL>
  <HIERLEVELS> 3 1 1
Region 7 2 "99"
  <RECODEABLE>
  <CODELIST> "region.cdl"
  <HIERARCHICAL>
  <HIERCODELIST> "region2.hrc"
  <HIERLEADSTRING> "@"
Wgt 10 4
  <DECIMALS> 1
  <WEIGHT>
Var2 14 8 99999999
  <NUMERIC>
  <DECIMALS> 2
Owner 23 3
  <HOLDING>
Request 26 1
  <REQUEST> "h" "m"
"""
RECORDS = [
    ("24131", " 1", 1.0, 10.5, "o1", "h"), ("24131", "12", 2.5, 20.25, "o2", "m"), ("24140", "10", 1.0, 5.0, "o1", " "),
    ("99999", "99", 4.0, 1.0, "", "x"), ("25110", " 2", 1.5, 99999999, "o3", "h"),
]  # fmt: skip
ASC = "".join(f"{a:5} {b:2} {w:4.1f}{v:8.8g} {o:3}{r}\n" for a, b, w, v, o, r in RECORDS)


def test_fixed_format_microdata_are_read_with_their_roles(tmp_path: Path) -> None:
    write(tmp_path, t_rda=FIXED, t_asc=ASC, region2_hrc=PLACES, region_cdl=" 1,Groningen\n12,Limburg\n")
    data = read_argus_microdata(tmp_path / "t.asc")
    frame = data.to_native()
    assert frame["Industry"].tolist() == [r[0] for r in RECORDS]
    assert frame["Region"].tolist() == ["1", "12", "10", "99", "2"]
    assert frame["Wgt"].tolist() == [r[2] for r in RECORDS]
    assert frame["Request"].tolist() == [1, 2, 0, 0, 1]
    assert [data.schema[n].role for n in frame] == [
        Role.KEY, Role.KEY, Role.WEIGHT, Role.CONFIDENTIAL, Role.CONTRIBUTOR, Role.OTHER,
    ]  # fmt: skip
    assert np.isnan(data.numbers("Var2")).tolist() == [False] * 4 + [True]
    assert data.schema["Region"].scale is Scale.PARTIALLY_ORDERED
    assert data.schema["Region"].labels["12"] == "Limburg"
    assert data.schema["Industry"].hierarchy is not None
    assert data.schema["Industry"].hierarchy.path("24140") == ("24140", "2414", "241", "Total")


def test_a_table_of_them_counts_holdings_weights_and_missing_codes(tmp_path: Path) -> None:
    write(tmp_path, t_rda=FIXED, t_asc=ASC, region2_hrc=PLACES)
    table = Table.of(read_argus_microdata(tmp_path / "t.asc"), "Industry * Region", "Var2", missing="leave out")
    find = table.cells.find
    assert table.value[find()] == pytest.approx(10.5 + 2.5 * 20.25 + 5 + 4 * 1)
    assert table.value[find(Industry="241")] == pytest.approx(10.5 + 2.5 * 20.25 + 5)
    assert table.value[find(Region="missing")] == pytest.approx(4)
    assert table.largest(2).values[find(Industry="241")].tolist() == [20.25, 15.5]  # o1 gave 10.5 and 5


@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
@pytest.mark.parametrize("header", [False, True])
def test_free_format_microdata_are_read_with_any_separator(separator: str, header: bool, tmp_path: Path) -> None:
    rda = f'<SEPARATOR> "{separator}"\nRegion 2 "99"\n<RECODEABLE>\nVar 8\n<NUMERIC>\n'
    lines = [["Region", "Var"]] * header + [['" 1"', "1.5"], ["12", " 2"], ["99", ""]]
    write(tmp_path, t_rda=rda, t_csv="\r\n".join(separator.join(x) for x in lines))
    data = read_argus_microdata(tmp_path / "t.csv", tmp_path / "t.rda")
    assert data.to_native()["Region"].tolist() == ["1", "12", "99"]
    assert np.array_equal(data.numbers("Var"), [1.5, 2, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    ("rda", "text", "message"),
    [
        ("Region 1 2\n<RECODEABLE>\nVar 9 4\n<NUMERIC>\n", "12 3\n", "'Var' starts at position 9, but no line of"),
        (
            "Region 1 2\n<RECODEABLE>\nVar 3 4\n<NUMERIC>\n",
            "12 3,5\n13 3x5\n",
            "'Var' of .* other than a number in 1 line: 2",
        ),
        (
            '<SEPARATOR> ";"\nRegion 2\n<RECODEABLE>\nVar 4\n<NUMERIC>\n',
            "12,3\n",
            "fewer than 2 fields, the first is line 1",
        ),
        ("Region 1 2\n<RECODEABLE>\n", "\n\n", "has no records"),
        ("Region 1 2\n<RECODEABLE>\n<HIERARCHICAL>\n", "12\n", "say neither how many digits its levels have"),
        (
            'Region 1 2\n<RECODEABLE>\n<HIERCODELIST> "x.hrc"\n',
            "12\n",
            "the hierarchy file x.hrc of 'Region' is not there",
        ),
    ],
)
def test_microdata_that_do_not_fit_their_metadata_say_where(rda: str, text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, t_rda=rda, t_asc=text)
    with pytest.raises(DataError, match=message):
        read_argus_microdata(tmp_path / "t.asc")


def test_numbers_may_be_written_in_any_of_the_usual_ways() -> None:
    written = ["1.5", "1,5", " 2 ", "1.234,5", "1,234.5", "1 234,5", "", ".", "-3", "1e3"]
    read = numbers(written, "v", "a file", range(1, 11))
    assert np.array_equal(read, [1.5, 1.5, 2, 1234.5, 1234.5, 1234.5, np.nan, np.nan, -3, 1000], equal_nan=True)


# Tables

SMALL = """<SEPARATOR> ","
<SAFE> s
<UNSAFE> u
<PROTECT> p
Region
  <RECODEABLE>
  <TOTCODE> T
Size
  <RECODEABLE>
  <TOTCODE> T
Value
  <NUMERIC>
Frequency
  <FREQUENCY>
Status
  <STATUS>
Lower
  <NUMERIC> <LOWERPL>
Upper
  <NUMERIC> <UPPERPL>
Cost
  <NUMERIC> <COST>
"""
CELLS = """T,T,100,10,s,0,0,1
T,Small,40,4,s,0,0,1
T,Large,60,6,p,0,0,1
North,T,30,3,s,0,0,1
North,Small,10,1,u,2,3,1
North,Large,20,2,s,0,0,1
South,T,70,7,s,0,0,1
South,Small,30,3,s,0,0,7
South,Large,40,4,s,0,0,1
"""


def test_a_table_is_read_with_what_its_file_says_of_single_cells(tmp_path: Path) -> None:
    table, wanted = read_argus_table(write(tmp_path, t_rda=SMALL, t_tab=CELLS) / "t.tab")
    assert len(table) == 9
    assert table.value[table.cells.find(Region="South")] == 70
    assert table.frequency[table.cells.find(Size="Large")] == 6
    assert wanted.statuses == {("North", "Small"): "unsafe", ("Total", "Large"): "protected"}
    assert wanted.lower_level == {("North", "Small"): 2}
    assert wanted.upper_level == {("North", "Small"): 3}
    assert wanted.costs[("South", "Small")] == 7
    assert wanted.on(table.cells, "costs").tolist().count(1) == 8


def test_quotes_a_line_of_names_latin_letters_and_empty_totals_are_understood(tmp_path: Path) -> None:
    text = "Region,Size,Value,Frequency,Status,Lower,Upper,Cost\r\n" + CELLS.replace("\n", "\r\n").replace(
        "North", '"Nörd "'
    )
    text = text.replace("T,T", ",").replace("South,T", "South,")
    write(tmp_path, t_rda=SMALL, t_tab=text.encode("latin-1"))
    table, wanted = read_argus_table(tmp_path / "t.tab")
    assert table.value[table.cells.find(Region="Nörd")] == 30
    assert table.value[table.cells.find()] == 100
    assert ("Nörd", "Small") in wanted.statuses


def test_a_table_over_fewer_dimensions_is_a_slice_of_totals(tmp_path: Path) -> None:
    table, wanted = read_argus_table(write(tmp_path, t_rda=SMALL, t_tab=CELLS) / "t.tab", dimensions=["Region"])
    assert table.cells.dimensions == ("Region",)
    assert sorted(table.value) == [30, 70, 100]
    assert not wanted.statuses


def test_codes_with_levels_in_their_digits_span_a_table(tmp_path: Path) -> None:
    rda = '<SEPARATOR> ","\nNace 999\n<RECODEABLE>\n<TOTCODE> "All"\n<HIERLEVELS> 1 1 1\nV\n<NUMERIC>\n'
    text = "All,15\n1,6\n11,3\n111,1\n112,2\n121,3\n2,8\n999,1\n"
    table, _ = read_argus_table(write(tmp_path, t_rda=rda, t_tab=text) / "t.tab")
    assert table.value[table.cells.find(Nace="12")] == 3  # computed: the file has only what is below it
    assert table.value[table.cells.find(Nace="999")] == 1  # a code for missing, directly below the total
    assert table.cells.leaves == 5


@pytest.mark.parametrize(
    ("rda", "text", "message"),
    [
        (SMALL, CELLS.replace("100", "101"), "does not add up: 1 cell .* the grand total"),
        (SMALL, CELLS + CELLS[:20], "fewer fields than the metadata have variables"),
        (SMALL.replace('","', '";"'), CELLS, r"fewer fields .* the first is line 1. Check the separator \(';'\)"),
        (SMALL.replace("<RECODEABLE>", "<DECIMALS> 1"), CELLS, "name no variable that the table is broken down by"),
        (SMALL, CELLS.replace("40,4,s", "4o,4,s", 1), "'Value' of .* other than a number in 1 line: 2"),
        (SMALL, CELLS.replace("10,1,u,2", "10,1,u,-2"), "a protection level below 0 for North, Small"),
        (SMALL.replace("<FREQUENCY>", "<NUMERIC>"), CELLS, "several variables: Value, Frequency. Say which"),
        (SMALL.replace("<FREQUENCY>", "<STATUS>").replace("<NUMERIC>\nF", "<STATUS>\nF"), CELLS, "neither values"),
        (SMALL, "\n", "has no cells"),
    ],
)
def test_tables_that_do_not_fit_say_where(rda: str, text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, t_rda=rda, t_tab=text)
    with pytest.raises(DataError, match=message):
        read_argus_table(tmp_path / "t.tab")


# A-priori files


@pytest.fixture
def small(tmp_path: Path) -> Table:
    return read_argus_table(write(tmp_path, t_rda=SMALL, t_tab=CELLS) / "t.tab").table


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_every_action_on_a_cell_is_understood(separator: str, small: Table, tmp_path: Path) -> None:
    lines = [
        "North,Small,u", "North,Large,pl,100,200", "South,Large,C,5", "South,Small,w,0", "T,Large,p", "South,T,s",
        "T,T,ab,50,150", '"North", Small ,ml', "T,Small,M", "// nothing",
    ]  # fmt: skip
    write(tmp_path, a_hst="\r\n".join(line.replace(",", separator) for line in lines))
    wanted = read_argus_a_priori(tmp_path / "a.hst", small, total="T")
    assert wanted.statuses == {
        ("North", "Small"): "unsafe", ("Total", "Large"): "protected", ("South", "Total"): "safe", ("Total", "Small"): "unsafe",
    }  # fmt: skip
    assert wanted.costs == {("South", "Large"): 5, ("South", "Small"): 1}  # τ-ARGUS takes 1 for a cost of 0
    assert wanted.lower_level == {("North", "Large"): 100}
    assert wanted.upper_level[("North", "Large")] == 200
    assert (wanted.lower, wanted.upper) == ({("Total", "Total"): 50}, {("Total", "Total"): 150})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Nort,Small,u", "line 1 of .* has the label 'Nort', which is not in dimension 'Region'. Did you mean 'North'"),
        ("North,Small,x", "wants 'x' of a cell, which is none of: S, U, P"),
        ("North,u", "has 2 fields; it needs 2 labels and what is wanted"),
        ("North,Small,c", "needs a cost at its end"),
        ("North,Small,c,much", "needs a cost at its end"),
        ("North,Small,pl,1", "needs two protection levels at its end"),
        ("North,Small,pl,-1,1", "a protection level below 0"),
        ("North,Small,ab,3,2", "bounds the wrong way round"),
    ],
)
def test_lines_that_mean_nothing_say_why(line: str, message: str, small: Table, tmp_path: Path) -> None:
    write(tmp_path, a_hst=line + "\nT,Large,p\n")
    with pytest.raises(DataError, match=message):
        read_argus_a_priori(tmp_path / "a.hst", small, separator=",", total="T")
    if "Nort," in line:
        kept = read_argus_a_priori(tmp_path / "a.hst", small, separator=",", total="T", ignore_errors=True)
        assert kept.statuses == {("Total", "Large"): "protected"}


# The examples of τ-ARGUS


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for name in ("pp.tab", "region2.hrc", "dim_age.hrc", "dim_sex.hrc", "microdata.csv"):
        shutil.copy(DATA / name, tmp_path / name)
    return write(tmp_path, pp_rda=PP)


def cells_of(column: int) -> dict[tuple[str, ...], float]:
    """Return a column of pp.tab, read without our code."""
    with (DATA / "pp.tab").open(encoding="latin-1") as file:
        rows = list(csv.reader(file, delimiter=";"))
    return {(r[0].strip(), r[1].strip()): float(r[column].replace(",", ".")) for r in rows}


def wrong_sums(values: dict[tuple[str, ...], float]) -> set[tuple[str, str, str]]:
    """Return the cells of pp.tab that are not the sum of those directly below, each with the dimension."""
    regions = {"Nr": "1 2 3", "Os": "4 5 6 7", "Ws": "8 9 10", "Zd": "11 12", "Total": "Nr Os Ws Zd 99"}
    frame = pd.Series(values).unstack()
    wrong = {
        (str(size), region, "Region")
        for region, below in regions.items()
        for size, off in (frame[below.split()].sum(axis=1) - frame[region]).items()
        if abs(off) > 0.005
    }
    over = frame.drop(index="Total").sum() - frame.loc["Total"]
    return wrong | {("Total", str(region), "Size") for region, off in over.items() if abs(off) > 0.005}


@needs_data
def test_pp_tab_is_refused_for_exactly_the_cells_that_do_not_add_up(examples: Path) -> None:
    wrong = wrong_sums(cells_of(2))
    assert wrong == {("4", "Total", "Region"), ("Total", "Os", "Size"), ("Total", "4", "Size")}
    with pytest.raises(DataError, match="3 cells are not the sum of the cells below") as error:
        read_argus_table(examples / "pp.tab")
    for name in ("Size 4 (over Region)", "Region Os (over Size)", "Region 4 (over Size)"):
        assert name in str(error.value)


@needs_data
def test_the_shadow_variable_of_pp_tab_adds_up_and_every_cell_is_right(examples: Path) -> None:
    assert not wrong_sums(cells_of(4))
    assert not wrong_sums(cells_of(3))
    table, wanted = read_argus_table(examples / "pp.tab", value="Var2_Shadow")
    values, counts, first, second = (cells_of(c) for c in (4, 3, 6, 7))
    assert len(table) == len(values) == 162
    assert table.cells.leaves == 8 * 13
    largest = table.largest(2)
    for i, labels in enumerate(table.cells.labels.tolist()):
        assert table.value[i] == pytest.approx(values[tuple(labels)])
        assert table.frequency[i] == counts[tuple(labels)]
        assert largest.values[i].tolist() == [first[tuple(labels)], second[tuple(labels)]]
    with (DATA / "pp.tab").open() as file:
        rows = list(csv.reader(file, delimiter=";"))
    assert set(wanted.statuses) == {(r[0].strip(), r[1].strip()) for r in rows if r[8] == "U"}
    levels = [cells_of(c) for c in (9, 10)]
    assert wanted.lower_level == {c: levels[0][c] for c in wanted.statuses}
    assert wanted.upper_level == {c: levels[1][c] for c in wanted.statuses}


@needs_data
def test_pp_tab_can_be_read_by_pandas_and_its_hierarchy_by_its_file() -> None:
    columns = ["Size", "Region", "Value", "Count", "Shadow", "Cost", "Top1", "Top2", "Status", "Lower", "Upper"]
    frame = pd.read_csv(DATA / "pp.tab", sep=";", decimal=",", names=columns)
    dimensions = {"Size": None, "Region": read_argus_hierarchy(DATA / "region2.hrc", more=["99"])}
    table = Table.from_cells(frame, dimensions, "Shadow", count="Count", top=["Top1", "Top2"], decimals=2)
    assert len(table) == 162
    with pytest.raises(DataError, match="1 label of 'Region' is not in its hierarchy: 99"):
        Table.from_cells(frame, {"Size": None, "Region": DATA / "region2.hrc"}, "Shadow")


@needs_data
def test_margins_of_pp_tab_can_be_computed_or_taken_as_rounded(examples: Path) -> None:
    computed = read_argus_table(examples / "pp.tab", margins="compute").table
    assert computed.value[computed.cells.find(Size="4")] == 24  # 5 + 4 + 15
    rounded = read_argus_table(examples / "pp.tab", decimals=0).table
    assert np.array_equal(rounded.value, computed.value)


@needs_data
def test_the_microdata_of_the_cell_key_example_make_its_table(examples: Path) -> None:
    rda = """<SEPARATOR> ";"
Sex 1
  <RECODEABLE>
  <HIERARCHICAL>
  <HIERCODELIST> "dim_sex.hrc"
  <HIERLEADSTRING> "@"
Age 1
  <RECODEABLE>
  <HIERARCHICAL>
  <HIERCODELIST> "dim_age.hrc"
  <HIERLEADSTRING> "@"
HighIncome 1
  <NUMERIC>
  <CKM> N
Savings 4
  <NUMERIC>
  <CKM> T(3)
  <INCLUDEZEROS> N
  <SEPARATION> Y
  <PARITY> N
  <SCALING> F(0.03,0.30,1000,3,0.5,0.2)
Weight 3
  <WEIGHT>
Key 10
  <RECORDKEY>
  <DECIMALS> 8
  <PFILE> "ptab_freq.txt"
"""
    write(examples, microdata_rda=rda)
    data = read_argus_microdata(examples / "microdata.csv")
    raw = pd.read_csv(
        DATA / "microdata.csv", sep=";", header=None, names=["Sex", "Age", "High", "Savings", "Weight", "Key"]
    )
    assert isinstance(data, Microdata)
    assert len(data) == len(raw) == 4580
    table = Table.of(data, "Sex * Age", "Savings")
    worth = raw.Savings * raw.Weight
    assert table.value[table.cells.find()] == pytest.approx(worth.sum())
    assert table.value[table.cells.find(Sex="male", Age="A2")] == pytest.approx(
        worth[(raw.Sex == 2) & (raw.Age == 2)].sum()
    )
    assert table.frequency[table.cells.find(Sex="female", Age="6")] == ((raw.Sex == 1) & (raw.Age == 6)).sum()
    # 2 sexes under 2 labels and the total; 6 ages, of which 2 stand under a label
    assert len(table) == (1 + 2 + 2) * (1 + 6 + 2)
    assert data.numbers("Key") == pytest.approx(raw.Key.to_numpy())


@needs_data
def test_the_hierarchies_of_the_examples_are_trees() -> None:
    age = read_argus_hierarchy(DATA / "dim_age.hrc")
    sex = read_argus_hierarchy(DATA / "dim_sex.hrc")
    region = read_argus_hierarchy(DATA / "region2.hrc")
    assert [age.path(v)[-2] for v in "123456"] == ["A1", "A2", "3", "4", "5", "6"]
    assert [sex.path(v)[1] for v in "12"] == ["female", "male"]
    assert region.leaves("Os") == 4
    assert region.rows == read_argus_hierarchy(DATA / "region2.hrc", total="Total").rows


def test_front_doors_take_metadata_that_were_read_already(tmp_path: Path) -> None:
    write(tmp_path, t_rda=SMALL, t_tab=CELLS)
    read: dict[str, Any] = {"metadata": read_argus_metadata(tmp_path / "t.rda", table=True)}
    assert len(read_argus_table(tmp_path / "t.tab", **read).table) == 9
