"""What strangers' τ-ARGUS files hold besides: recodings, statuses of all sorts, keywords in any order, and batch files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import document, run

from sfumato import Draws, Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.tables import (
    RTA,
    APriori,
    ByHand,
    Record,
    Suppression,
    Table,
    audit,
    read_argus_a_priori,
    read_argus_batch,
    read_argus_hierarchy,
    read_argus_metadata,
    read_argus_microdata,
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


# ------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize(
    "name",
    ["../safe.csv", "/tmp/safe.csv", "\\\\tmp\\\\safe.csv", "deep/../../safe.csv", "link/safe.csv", "..", "C:\\.."],
)
def test_a_batch_file_writes_nothing_outside_its_folder(tmp_path: Path, name: str) -> None:
    (inside := tmp_path / "batch").mkdir()
    (inside / "link").symlink_to(tmp_path)
    (inside / "t.rda").write_text(RDA)
    (inside / "t.tab").write_text(TAB.format("U"))
    (inside / "t.arb").write_text(BATCH.replace("C:\\out\\safe.txt", name.replace("\\\\", "\\")))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="outside its own folder"):
        run_argus_batch(inside / "t.arb")
    done = run("table", inside / "t.arb", "--replace")
    assert done.exit_code == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_two_tables_of_a_batch_do_not_go_to_one_file(micro: Path) -> None:
    (micro / "m.arb").write_text(MICRO.format(method="MOD(1)", more="").replace("two.csv", "one.csv"))
    with pytest.raises(DataError, match="two tables to one file"):
        run_argus_batch(micro / "m.arb", Draws(1))
    assert not (micro / "one.csv").exists()


@pytest.mark.parametrize(("file", "old", "new", "message"), [
    ("t.arb", "OPT(1,1)", "OPT 1", "line 9 .* one of GH"),
    ("t.arb", "OPT(1,1)", "RND(1,1e400)", "line 9 .* cannot be understood"),
    ("t.rda", '<SEPARATOR> ","', '<SEPARATOR> "ab"', "must be one sign"),
    ("t.rda", "freq\n", "freq\n<DECIMALS> 400\n", "line 11 .* cannot be understood"),
    ("t.rda", "freq\n", "freq\n<HIERLEVELS> 99999999999\n", "line 11 .* digits of the levels"),
    ("t.rda", "   <RECODEABLE> <TOTCODE>", "   <NUMERIC> <RECODEABLE> <TOTCODE>", "cannot be broken down by 'region'"),
    ("t.rda", "   <NUMERIC>\nstatus", "status", "do not say that 'freq' holds numbers"),
])  # fmt: skip
def test_damaged_files_of_argus_are_refused_in_a_sentence(
    here: Path, file: str, old: str, new: str, message: str
) -> None:
    text = (here / file).read_text()
    assert old in text
    (here / file).write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        run_argus_batch(here / "t.arb", Draws(1), write=False)


def test_half_a_character_at_the_end_of_a_file_is_refused_without_quoting_the_file(here: Path) -> None:
    (here / "t.tab").write_bytes(TAB.format("U").encode("utf-16")[:-1])
    with pytest.raises(DataError, match="begins as UTF-16 text does, but is damaged") as refused:
        read_argus_table(here / "t.tab")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


_PARTS = [
    '"', "<", ">", ",", ";", "|", "(", ")", "-", "1", "99999999999999999999", "1e400", "nan", "inf", "-1", "\0", "\x1b", "é", "@",
    "\n", "\t", "Total", "..", "//", "<NUMERIC>", "<STATUS>", "<RECODEABLE>", "<HIERLEVELS> 1 1", "<FREQUENCY>", "<MAXSCORE>",
    "<COST>", "<LOWERPL>", "<SHADOW>", "<TOTCODE>", '<SEPARATOR> ""', '<SEPARATOR> "ab"', "<DECIMALS> 400", "<DECIMALS> -3",
]  # fmt: skip


def _damaged(text: str, chance: random.Random) -> bytes:
    """Return a text with signs or lines removed, exchanged, repeated or put in; now and then in UTF-16, cut short."""
    end = chance.choice(["", "\n"])
    parts = text.split(end) if end else list(text)
    for _ in range(chance.choice([1, 1, 2, 4])):
        i, j = chance.randrange(len(parts)), chance.randrange(len(parts))
        parts[i : i + 1] = chance.choice([
            [], [chance.choice(_PARTS), parts[i]], [chance.choice(_PARTS)], [parts[j]], [*parts[i : i + 3], parts[i]],
        ])  # fmt: skip
        parts = parts or [""]
    found = end.join(parts)
    return found.encode("utf-16")[: chance.choice([None, -1])] if chance.random() < 0.1 else found.encode()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_damage_is_done_to_files_of_argus_they_are_read_or_refused_in_words(micro: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = {
        "t.rda": RDA, "t.tab": TAB.format("U"), "t.arb": BATCH, "h.hrc": "A\n@A1\n@A2\nB\n@B1\n@@B11\n",
        "t.hst": "A;female;u\nTotal;male;C;5\nB;male;PL;2;3\nB;Total;AB;1;90\n",
        **{name: (micro / name).read_text() for name in ("m.rda", "m.asc", "size.grc")},
    }  # fmt: skip
    for name, text in whole.items():
        (micro / name).write_text(text)
    table = read_argus_table(micro / "t.tab").table
    records_ = read_argus_microdata(micro / "m.asc")
    reading: dict[str, Callable[[], object]] = {
        "t.rda": lambda: read_argus_table(micro / "t.tab"), "t.tab": lambda: read_argus_table(micro / "t.tab"),
        "t.arb": lambda: read_argus_batch(micro / "t.arb"), "h.hrc": lambda: read_argus_hierarchy(micro / "h.hrc"),
        "t.hst": lambda: read_argus_a_priori(micro / "t.hst", table), "m.rda": lambda: read_argus_microdata(micro / "m.asc"),
        "m.asc": lambda: read_argus_microdata(micro / "m.asc"),
        "size.grc": lambda: recode_by_argus(records_, "Size", micro / "size.grc"),
    }  # fmt: skip
    read = 0
    for _ in range(120):
        name = chance.choice(list(whole))
        (micro / name).write_bytes(damaged := _damaged(whole[name], chance))
        try:
            reading[name]()
            read += 1
        except SfumatoError:
            pass
        except Exception as error:
            raise AssertionError(f"{name} with {damaged!r}: {type(error).__name__}") from error
        (micro / name).write_text(whole[name])
    assert 10 < read < 110


def test_a_record_file_that_was_damaged_is_refused_in_words(tmp_path: Path) -> None:
    data = Microdata(pd.DataFrame({"region": list("aabbcc") * 5, "v": np.arange(30.0) + 5}))
    record = RTA(base_cv=0.2).protect(Table.of(data, "region", "v"), Draws(1)).record
    assert record is not None
    record.write(tmp_path / "r.json")
    assert Record.read(tmp_path / "r.json").units.tolist() == record.units.tolist()
    good = json.loads((tmp_path / "r.json").read_text("utf-8"))
    earlier = {key: value for key, value in good.items() if key != "digest"}  # as before records had one
    (tmp_path / "r.json").write_text(json.dumps(earlier))
    assert Record.read(tmp_path / "r.json").units.tolist() == record.units.tolist()
    damages: list[Any] = [
        {**good, "units": [good["units"][0] + 1, *good["units"][1:]]},
        [],
        None,
        "x",
    ]  # one digit, too
    values: list[Any] = [None, 10**30, 1e400, [], {}, "x", [[None]], [[1e400]]]
    checked = [key for key in earlier if key not in ("warning", "variable", "period")]
    damages += [{**earlier, key: bad} for key in checked for bad in values]
    for damaged in damages:
        (tmp_path / "r.json").write_text(json.dumps(damaged))
        with pytest.raises(ParameterError, match="is not the record of a published table, or is damaged"):
            Record.read(tmp_path / "r.json")
    (tmp_path / "r.json").write_text("[" * 100_000)
    with pytest.raises(ParameterError, match="or is damaged"):
        Record.read(tmp_path / "r.json")
