"""Files that were damaged on their way: each is read, or refused in a sentence; nothing else is ever raised."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run

from sfumato import Draws, Microdata
from sfumato.contract import Recipe
from sfumato.data.classes import classes_of
from sfumato.errors import DataError, SfumatoError
from sfumato.formats.codebook import read_ddi
from sfumato.masks import PRAM, IndependentNoise, Recode
from sfumato.schema import Schema
from sfumato.schema.hierarchy import read_hierarchy_csv
from sfumato.tables import (
    RTA,
    PerturbationTable,
    PPercent,
    Record,
    Suppression,
    Table,
    read_argus_a_priori,
    read_argus_hierarchy,
    read_argus_microdata,
    read_argus_table,
    run_argus_batch,
)
from sfumato.tables.argus.cell_files import read_argus_recoding
from sfumato.tables.exports import read_json_stat, read_sdmx_csv, write_table

ODD = [
    b"1e999", b"99999999999999999999999", b"", b"nan", b"-", b"\x00", b"\xff\xfe", b"\xe9", b'"', b"\r", b"\n\n", b"\t", b";",
    b"|", b"1,5", b"2020-13-45", b"<", b"{", b"]", b"\xef\xbb\xbf", b"-1", b"99999", b"\xc2\xa0", b"TRUE", "😀".encode(),
]  # fmt: skip

TEXTS = {
    "t.rda": '<SEPARATOR> ","\n<SAFE> "S"\n<UNSAFE> "U"\n<PROTECT> "Z"\nregion\n<RECODEABLE> <TOTCODE> "Total"\n'
    'gender\n<RECODEABLE>\n<TOTCODE> "Total"\nfreq\n<NUMERIC>\nstatus\n<STATUS>\n',
    "t.tab": "Total,Total,9,S\nTotal,m,6,S\nTotal,f,3,S\nA,Total,5,S\nA,m,4,S\nA,f,1,U\nB,Total,4,S\nB,m,2,S\nB,f,2,S\n",
    "t.arb": '<OPENTABLEDATA> "t.tab"\n<OPENMETADATA> "t.rda"\n<SPECIFYTABLE> "region""gender"|"freq"|""|""\n'
    '<SAFETYRULE> MAN(20)|\n<READTABLE>\n<SUPPRESS> OPT(1,1)\n<WRITETABLE> (1, 3, AS+, "safe.txt")\n',
    "t.hst": "A;f;u\nB;m;s\nA;m;c;3\nB;f;pl;2;3\n",
    "t.hrc": "A\n@A1\n@A2\nB\n@B1\n@@B11\n@@B12\n",
    "t.grc": "A:1,2-3\nB:4-\n<MISSING> 99\n",
    "m.rda": "region 1 3\n<RECODEABLE>\nsize 4 2 99\n<RECODEABLE>\nv 6 8\n<NUMERIC>\n<DECIMALS> 2\nw 14 5\n<NUMERIC>\n<WEIGHT>\n",
    "m.asc": "".join(f"{'AB'[i % 2]:<3}{i % 3:>2}{7.25 * i:8.2f}{1 + i % 4:5}\n" for i in range(20)),
    "h.csv": "a,A,Total\nb,A,Total\nc,B,Total\n",
    "keys.csv": "i;j;p;v;p_int_ub\n0;0;1;0;1\n1;0;0.5;-1;0.5\n1;2;0.5;1;1\n",
    "ddi.xml": '<codeBook xmlns="ddi:codebook:2_5"><dataDscr><var name="sex"><catgry><catValu>1</catValu></catgry><invalrng>'
    '<item VALUE="9"/><range min="97" max="99"/></invalrng></var></dataDscr></codeBook>',
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a sound file of each kind."""
    folder = tmp_path_factory.mktemp("sound")
    g = np.random.default_rng(4)
    frame = pd.DataFrame({
        "sex": g.choice(["m", "f"], 40), "age": g.integers(18, 90, 40), "region": g.choice(["Nörd", "Süd"], 40),
        "day": pd.date_range("2020-01-01", periods=40), "income": g.lognormal(8, 1, 40).round(2),
    })  # fmt: skip
    frame.loc[3, "income"] = np.nan
    frame.to_csv(folder / "d.csv", index=False)
    frame.to_csv(folder / "latin.csv", index=False, encoding="latin-1", sep=";")
    frame.to_csv(folder / "wide.csv", index=False, encoding="utf-16")
    data = Microdata(frame)
    for name in ("d.parquet", "d.arrow", "d.dta", "d.sav", "d.xlsx"):
        data.write(folder / name)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    (folder / "schema.toml").write_text(data.schema.to_toml())
    (folder / "recipe.toml").write_text(
        (IndependentNoise(("income",), lambda2=0.1) >> Recode({"age": [30, 60]}) >> PRAM(("sex",), pd=0.8)).to_toml()
    )
    table = Table.of(data, "sex * region", "income", missing="leave out")
    published = Suppression(rules=PPercent(10)).protect(table, Draws(1))
    write_table(published, folder / "p.json")
    write_table(published, folder / "p.sdmx.csv")
    record = RTA(base_cv=0.2).protect(table, Draws(1)).record
    assert record is not None
    (folder / "record.json").write_text(record.text())
    return folder


def microdata(engine: str = "memory") -> Callable[[Path], object]:
    return lambda path: classes_of(Microdata.read(path, engine=engine), ["sex", "age"])


READERS: dict[str, Callable[[Path], object]] = {
    "d.csv": microdata(), "latin.csv": microdata(), "wide.csv": microdata(), "d.parquet": microdata(), "d.arrow": microdata(),
    "d.dta": microdata(), "d.sav": microdata(), "d.xlsx": microdata(), "duckdb d.csv": microdata("duckdb"),
    "duckdb d.parquet": microdata("duckdb"), "t.tab": read_argus_table,
    "t.rda": lambda path: read_argus_table(path.parent / "t.tab", path),
    "t.arb": run_argus_batch, "t.hst": lambda path: read_argus_a_priori(path, read_argus_table(path.parent / "t.tab")[0]),
    "t.hrc": read_argus_hierarchy, "t.grc": read_argus_recoding,
    "m.asc": lambda path: read_argus_microdata(path, path.parent / "m.rda"),
    "m.rda": lambda path: read_argus_microdata(path.parent / "m.asc", path), "h.csv": read_hierarchy_csv,
    "keys.csv": PerturbationTable.read, "ddi.xml": read_ddi, "schema.toml": Schema.read, "recipe.toml": Recipe.read,
    "p.json": read_json_stat, "p.sdmx.csv": read_sdmx_csv, "record.json": Record.read,
}  # fmt: skip


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Return a file with bits flipped, bytes replaced, pieces lost or repeated, or odd words in place of its own."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at, words = rng.randrange(len(out)), [m.span() for m in re.finditer(rb"[\w.-]+", out)]
        match rng.randrange(6):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.randrange(256)
            case 2:
                del out[max(at, 1) :]
            case 3:
                out[at : at + rng.choice([1, 16])] = rng.choice(ODD) or b" "
            case 4:
                out[at:at] = out[rng.randrange(len(out)) :][: rng.choice([1, 40])]
            case 5 if words:
                first, last = rng.choice(words)
                out[first:last] = rng.choice(ODD)
        out = out or bytearray(b" ")
    return bytes(out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name: str, sound: Path, tmp_path: Path) -> None:
    for file in sound.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path, rng = tmp_path / name.split()[-1], random.Random(f"damaged {name}")
    refusals = []
    if name not in ("latin.csv", "t.grc"):  # they need an option, or are for other codes
        READERS[name](path)
    raw = path.read_bytes()
    for _ in range(30):
        path.write_bytes(damaged(raw, rng))
        try:
            READERS[name](path)
        except SfumatoError as error:
            refusals.append(str(error))
    assert refusals
    assert [said for said in refusals if " " not in said or not said.endswith((".", "?"))] == []


@pytest.mark.parametrize("name", ["d.csv", "latin.csv", "d.parquet", "d.arrow", "d.dta", "d.xlsx"])
def test_a_command_never_says_unexpected_of_a_damaged_file(name: str, sound: Path, tmp_path: Path) -> None:
    path, rng = tmp_path / name, random.Random(f"command {name}")
    engines = ("memory", "duckdb") if name.endswith(("d.csv", "parquet")) else ("memory",)
    for engine in engines * 3:
        path.write_bytes(damaged((sound / name).read_bytes(), rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = run("risk", path, "--keys", "sex,age", "--engine", engine)
        assert said.exit_code in (0, 1, 3), said.stderr
        assert "unexpected" not in said.stderr
        assert "Traceback" not in said.stderr


def test_places_of_json_stat_that_are_no_numbers_and_lines_of_sdmx_that_are_too_long_are_refused(
    sound: Path, tmp_path: Path
) -> None:
    document = json.loads((sound / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps({**document, "status": {"1,5": "c"}}))
    with pytest.raises(DataError, match="is not a dataset of JSON-stat"):
        read_json_stat(tmp_path / "p.json")
    first, *lines = (sound / "p.sdmx.csv").read_text().splitlines()
    (tmp_path / "p.sdmx.csv").write_text("\n".join([first, *(f"{line},1" for line in lines)]))
    with pytest.raises(DataError, match="lines with more cells than the first line names"):
        read_sdmx_csv(tmp_path / "p.sdmx.csv")
