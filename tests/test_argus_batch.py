"""What strangers' τ-ARGUS files hold besides: recodings, statuses of all sorts, keywords in any order, and batch files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import document, run

from sfumato import Draws, Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.tables import (
    APriori,
    ByHand,
    Suppression,
    Table,
    audit,
    read_argus_batch,
    read_argus_hierarchy,
    read_argus_metadata,
    read_argus_table,
    recode_by_argus,
    rules_of,
    run_argus_batch,
)

RDA = """<SEPARATOR> ","
<SAFE> "S"
<UNSAFE> "U"
<PROTECT> "Z"
region
   <RECODEABLE> <TOTCODE> "Total"
gender
   <RECODEABLE>
   <TOTCODE> "Total"
freq
   <NUMERIC>
status
   <STATUS>
lpl
   <NUMERIC> <LOWERPL>
upl
   <LOWERPL> <NUMERIC> <UPPERPL>
"""
TAB = """Total, Total,48,S,1,1
Total,  male,27,S,1,1
Total,female,21,S,1,1
    A, Total,20,S,1,1
    A,  male,17,S,1,1
    A,female, 3,{},1,1
    B, Total,28,S,1,1
    B,  male,10,S,1,1
    B,female,18,S,1,1
"""
BATCH = """// made by hand
<LOGBOOK> "log.txt"
<OPENTABLEDATA> "T.TAB"
<OPENMETADATA> "t.rda"
<SPECIFYTABLE> "region""gender"|"freq"|""|""
<SAFETYRULE> MAN(20)|NK(0,0)|
<READTABLE>
<SOLVER> FREE
<SUPPRESS> OPT(1,1)
<WRITETABLE> (1, 3, AS+FL+, "C:\\out\\safe.txt")
<GOINTERACTIVE>
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "t.rda").write_text(RDA)
    (tmp_path / "t.tab").write_text(TAB.format("U"))
    (tmp_path / "t.arb").write_text(BATCH)
    return tmp_path


# ------------------------------------------------------------------------------------------------- metadata and statuses


def test_keywords_may_stand_on_one_line_and_in_any_order(here: Path) -> None:
    found = read_argus_metadata(here / "t.rda", table=True)
    assert found["region"].total == "Total"
    assert (found["lpl"].role, found["upl"].role) == ("lower level", "upper level")
    (here / "m.rda").write_text('"Size class" 1 2 99\n<RECODABLE>\n<MISSING> "98" "99"\nW 3 2\n<WEIGHT>\n<NUMERIC>\n')
    micro = read_argus_metadata(here / "m.rda")
    assert micro["Size class"].missing == ("99", "98")
    assert micro["W"].role == "weight"


@pytest.mark.parametrize(("word", "meaning"), [
    ("U", "unsafe"), ("u", "unsafe"), ("Z", "protected"), ("S", None), ("", None), ("E", None), ("M", "unsafe"),
    ("1", None), ("5", "unsafe"), ("9", "unsafe"), ("10", "protected"), ("11", "unsafe"), ("14", None),
])  # fmt: skip
def test_every_status_that_argus_writes_is_understood(here: Path, word: str, meaning: str | None) -> None:
    (here / "t.tab").write_text(TAB.format(word))
    _, wanted = read_argus_table(here / "t.tab")
    assert wanted.statuses == ({} if meaning is None else {("A", "female"): meaning})


def test_a_status_that_nobody_explains_is_refused(here: Path) -> None:
    (here / "t.tab").write_text(TAB.format("V"))
    with pytest.raises(
        DataError, match=r"has the status 'V' for A, female, which is none that the metadata name: S, U, Z"
    ):
        read_argus_table(here / "t.tab")


def test_metadata_that_are_not_beside_the_table_are_asked_for(here: Path) -> None:
    (here / "t.rda").rename(here / "other.rda")
    with pytest.raises(DataError, match=r"is no metadata file t\.rda"):
        read_argus_table(here / "t.tab")


# ------------------------------------------------------------------------------------------------- rules


def test_rules_that_are_switched_off_and_a_bar_at_the_end_are_no_rules() -> None:
    assert rules_of("NK(2,75)|NK(0,0)|FREQ(0,0)|") == rules_of("nk 2 75")
    assert rules_of("P(10,1)|MAN(20)").label() == "p% rule, p = 10; cells marked by hand, margin 20 %"


@pytest.mark.parametrize("margin", [10.0, 40.0])
def test_cells_marked_by_hand_are_as_wide_as_the_margin_says(margin: float) -> None:
    values = [[30.0, 21.0, 44.0], [25.0, 12.0, 33.0], [18.0, 27.0, 9.0]]
    frame = pd.DataFrame(
        [(r, s, values[i][j]) for i, r in enumerate("abc") for j, s in enumerate("xyz")], columns=["r", "s", "v"]
    )
    table = Table.from_cells(frame, ["r", "s"], "v")
    wanted = APriori(statuses={("a", "x"): "unsafe"})
    published = Suppression(rules=ByHand(margin=margin), a_priori=wanted).protect(table, Draws(1))
    found = audit(published)
    at = table.cells.find(r="a", s="x")
    assert np.isnan(published.values[at])
    assert found.low[at] <= 30 * (1 - margin / 100) + 1e-9
    assert found.high[at] >= 30 * (1 + margin / 100) - 1e-9


# ------------------------------------------------------------------------------------------------- recodings


def records(codes: list[object]) -> Microdata:
    return Microdata(pd.DataFrame({"a": codes, "v": np.arange(1.0, len(codes) + 1)}))


@pytest.mark.parametrize(("codes", "text", "expected"), [
    ([1, 2, 3, 4, 5, 6, 10], "small: 1-3, 5\nbig: 6-\n", ["small", "small", "small", "4", "small", "big", "big"]),
    (["01", "02", "10"], "x: -02\ny: 03-\n", ["x", "x", "y"]),
    (["a", "b", "c"], '"1" : a, c\n<CODELIST> "new.cdl"\n', ["1", "b", "1"]),
    (["01", "02", "ab"], "x: 01-02\n", ["x", "x", "ab"]),
])  # fmt: skip
def test_codes_are_put_together(tmp_path: Path, codes: list[object], text: str, expected: list[str]) -> None:
    (tmp_path / "a.grc").write_text(text)
    assert recode_by_argus(records(codes), "a", tmp_path / "a.grc").to_native()["a"].tolist() == expected


def test_branches_of_a_hierarchy_are_folded_or_cut_at_a_level(tmp_path: Path) -> None:
    (tmp_path / "a.hrc").write_text("N\n@N1\n@@N11\n@@N12\n@N2\nS\n")
    data = records(["N11", "N12", "N2", "S"])
    data = data.with_schema(
        data.schema.change("a", hierarchy=read_argus_hierarchy(tmp_path / "a.hrc"), scale="partially ordered")
    )
    (tmp_path / "a.grc").write_text("<TREERECODE>\nN1\n")

    def table(recoded: Microdata) -> dict[str, float]:
        made = Table.of(recoded, "a", "v")
        return dict(zip(made.cells.labels[:, 0], made.value.tolist(), strict=True))

    assert table(recode_by_argus(data, "a", tmp_path / "a.grc")) == {"Total": 10, "N": 6, "N1": 3, "N2": 3, "S": 4}
    assert table(recode_by_argus(data, "a", 1)) == {"Total": 10, "N": 6, "S": 4}
    assert table(recode_by_argus(data, "a", 2)) == {"Total": 10, "N": 6, "N1": 3, "N2": 3, "S": 4}
    (tmp_path / "a.grc").write_text("<TREERECODE>\nN3\n")
    with pytest.raises(DataError, match="does not have: N3"):
        recode_by_argus(data, "a", tmp_path / "a.grc")


@pytest.mark.parametrize(("text", "message"), [
    ("small 1-3\n", "line 1 of the recoding file"),
    ("small: 1-2-3\n", "line 1 of the recoding file"),
    ("\n// nothing\n", "says nothing"),
    ("x: 1-3\ny: 3-4\n", "into both x and y"),
    ("x: 77\n", "names no code of 'a'"),
    ("<TREERECODE>\nN\n", "has no hierarchy to fold"),
])  # fmt: skip
def test_recodings_that_are_none_say_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.grc").write_text(text)
    with pytest.raises(DataError, match=message):
        recode_by_argus(records([1, 2, 3]), "a", tmp_path / "a.grc")


# ------------------------------------------------------------------------------------------------- batch files


def test_a_batch_file_does_what_the_same_calls_do(here: Path) -> None:
    (result,) = run_argus_batch(here / "t.arb")
    table, wanted = read_argus_table(here / "t.tab", here / "t.rda")
    expected = Suppression(rules=ByHand(margin=20), a_priori=wanted).protect(table, Draws(1))
    assert np.array_equal(result.published.values, expected.values, equal_nan=True)
    written = pd.read_csv(here / "safe.txt", keep_default_na=False)
    assert (written["value"] == "").sum() == 4  # a square around 3
    assert "without the values" in result.notes[0]  # AS+ would publish what is hidden


MICRO = """<OPENMICRODATA> "m.asc"
<OPENMETADATA> "m.rda"
<SPECIFYTABLE> "Region""Size"|"V"||-2
<SAFETYRULE> P(10)|FREQ(2,10){more}
<SPECIFYTABLE> "Size"|<freq>||
<SAFETYRULE> FREQ(2,10)
<READMICRODATA>
<RECODE> 1, Size, "size.grc"
<APRIORI> "w.hst",1,";",1,0
<SUPPRESS> {method}
<SUPPRESS> RND(2,3)
<WRITETABLE> (1,1,,"one.csv")
<WRITETABLE> (2,1,,"two.csv")
"""


@pytest.fixture
def micro(tmp_path: Path) -> Path:
    (tmp_path / "m.rda").write_text(
        "Region 1 1\n<RECODEABLE>\nSize 2 1\n<RECODEABLE>\nV 3 3\n<NUMERIC>\nW 6 1\n<WEIGHT>\n"
    )
    rows = [
        f"{r}{s}{10 * (i + j + 3):>3}2" for i, r in enumerate("ABC") for j, s in enumerate("12345") for _ in range(4)
    ]
    (tmp_path / "m.asc").write_text("\n".join(rows))
    (tmp_path / "size.grc").write_text("s: 1-2\nm: 3\nl: 4-\n")
    (tmp_path / "w.hst").write_text("A;s;u\nA;9;u\n")
    (tmp_path / "m.arb").write_text(MICRO.format(method="GH(1,75)", more=""))
    return tmp_path


def test_microdata_are_recoded_weighted_as_asked_and_each_table_goes_its_way(micro: Path) -> None:
    with pytest.raises(ParameterError, match="the seed must be kept"):
        run_argus_batch(micro / "m.arb")
    assert not (micro / "one.csv").exists()
    one, two = run_argus_batch(micro / "m.arb", Draws(1))
    assert set(one.published.cells.labels[:, 1]) == {"Total", "s", "m", "l"}
    assert one.published.suppressed[one.published.cells.find(Region="A", Size="s")]
    total = 4 * sum(10 * (i + j + 3) for i in range(3) for j in range(5))
    assert one.published.source("the test").value[0] == total  # WGT is 0 if not given
    (micro / "m.arb").write_text(MICRO.format(method="MOD(1)", more="|WGT(1)|MIS(1)"))
    assert run_argus_batch(micro / "m.arb", write=False)[0].published.source("the test").value[0] == 2 * total
    counts = pd.read_csv(micro / "two.csv")
    assert (counts["value"] % 3 == 0).all()
    assert two.job.response is None


def test_a_batch_file_runs_on_the_command_line(micro: Path) -> None:
    bare = run("table", micro / "m.arb")
    assert bare.exit_code == 2
    assert "--seed-file where to keep the secret seed" in bare.stderr
    assert not (micro / "one.csv").exists()
    found = document(run("table", micro / "m.arb", "--json", "--seed-file", micro / "seed.toml"))
    assert [t["out"] for t in found["tables"]] == [str(micro / "one.csv"), str(micro / "two.csv")]
    again = run("table", micro / "m.arb", "--seed-from", micro / "seed.toml")
    assert again.exit_code == 1
    assert "one.csv is there already" in again.stderr
    mixed = run("table", micro / "m.arb", "--method", "rta")
    assert mixed.exit_code == 2
    assert "says itself" in mixed.stderr
    (micro / "m.arb").write_text(MICRO.format(method="MOD(1)", more="").replace("one.csv", "m.asc"))
    assert "which it reads" in run("table", micro / "m.arb", "--replace").stderr


def test_tables_of_one_variable_that_are_protected_one_by_one_are_noted(micro: Path) -> None:
    text = MICRO.format(method="MOD(1)", more="").replace("<freq>", '"V"').replace("RND(2,3)", "CTA(2)")
    (micro / "m.arb").write_text(text)
    assert "may not be so in all together" in run_argus_batch(micro / "m.arb", write=False)[0].notes[-1]


@pytest.mark.parametrize(("change", "message"), [
    (("<SUPPRESS> OPT(1,1)", "<SUPPRES> OPT(1,1)"), "line 9 of the batch file .* Did you mean 'SUPPRESS'"),
    (("<SUPPRESS> OPT(1,1)", "<SUPPRESS> BEST(1)"), "line 9 .* one of GH, MOD, OPT, NET, RND, CTA"),
    (("<SUPPRESS> OPT(1,1)", "<SUPPRESS> OPT(2,1)"), "line 9 .* cannot be understood"),
    (("<SUPPRESS> OPT(1,1)", ""), "protects no table"),
    (("<SUPPRESS> OPT(1,1)", "<SUPPRESS> RND(1)"), "RND needs a base"),
    (('"T.TAB"', '"none.tab"'), "none.tab, which the batch file .* names, is not there"),
    (('"region""gender"|"freq"', "region, gender"), "line 5 .* variables in quotes"),
    (('"region""gender"', '"region""sex"'), "'sex'"),
    (("hello", ""), None),
])  # fmt: skip
def test_batch_files_that_are_wrong_say_where(here: Path, change: tuple[str, str], message: str | None) -> None:
    (here / "t.arb").write_text(BATCH.replace(*change))
    if message is None:
        assert len(read_argus_batch(here / "t.arb")) == 1
        return
    with pytest.raises(DataError, match=message):
        run_argus_batch(here / "t.arb")
    assert not (here / "safe.txt").exists()
