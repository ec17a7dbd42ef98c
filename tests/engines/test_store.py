"""A file opened on disk means the same as the same file read into memory."""

import gzip
import random
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from sfumato import Draws, Microdata, Schema
from sfumato.data.spark_engine import SparkEngine, read_folder
from sfumato.data.store import open_file
from sfumato.data.warehouse import build, open_warehouse
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.formats import csv_files
from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import write_file
from sfumato.masks import KimNoise

CSV = """zip,n,f,b,d,t,na,ts,e
01234,1,1.5,true,2020-01-02,x,NA,2020-01-02 10:11:12,
99999,-20,NaN,false,2021-12-31,"a,b",3,2020-01-02 10:11:12.5,
00001,,2e5,true,,"",4.5,,
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "a file.csv"
    path.write_text(CSV)
    return path


def test_a_csv_on_disk_has_the_types_and_values_of_the_same_csv_in_memory(csv: Path):
    on_disk, in_memory = Microdata.read(csv, engine="duckdb"), Microdata.read(csv)
    assert on_disk.engine.name == "DuckDB"
    assert dict(on_disk.engine.kinds) == dict(in_memory.engine.kinds)
    assert on_disk.digest() == in_memory.digest()


def test_zip_codes_on_disk_keep_their_leading_zeros(csv: Path):
    assert Microdata.read(csv, engine="duckdb").to_native().df()["zip"].tolist() == ["01234", "99999", "00001"]


def test_masking_on_disk_gives_the_numbers_of_masking_in_memory(tmp_path: Path):
    frame = pd.DataFrame({"who": range(1000), "pay": [float(i % 97) for i in range(1000)]})
    frame.to_csv(tmp_path / "pay.csv", index=False)
    schema = Schema.guess(frame).roles(identifier="who", confidential="pay").change("pay", integer=False)
    masked = [
        KimNoise(columns=("pay",)).apply(Microdata.read(tmp_path / "pay.csv", schema, engine=engine), Draws(1)).masked
        for engine in ("memory", "duckdb")
    ]
    assert masked[0].numbers("pay") == pytest.approx(masked[1].numbers("pay"), rel=1e-12)
    masked[1].write(tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet").columns.tolist() == ["pay"]


@pytest.mark.parametrize(
    ("name", "engine", "error"), [("x.sav", "duckdb", DataError), ("x.csv", "abacus", ParameterError)]
)
def test_an_engine_that_does_not_suit_the_file_is_refused_with_a_sentence(tmp_path: Path, name, engine, error):
    (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(error, match=r"\.$"):
        open_file(tmp_path / name, engine=engine)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path):
    with pytest.raises(DataError, match="no file"):
        open_file(tmp_path / "none.csv", engine="duckdb")


def both(path: Path, **options: object) -> list[tuple[str, str]]:
    """What memory and DuckDB make of a file: its records and their types, or the sentence that refuses it."""
    found = []
    for engine in ("memory", "duckdb"):
        try:
            opened, _ = open_file(path, engine, **options)
            table = opened.collect(list(opened.kinds)).to_arrow()
            found.append(("read", repr((table.schema.names, table.schema.types, table.to_pylist()))))
        except SfumatoError as error:
            found.append(("refused", str(error)))
    return found


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a,b\n1,2\n3,4\n5\n", "line 4 of .* has 1 cell,"),
        (b'a,b\n1,"2\n3,4\n', "quote that is not closed"),
        (b"a,b\n1,\xff\n", "is not UTF-8"),
        (b"a,b\n1,2\n\0\0\0\0", "zero bytes"),
        ("id;naïve\n1;é\n".encode("utf-16-le"), "UTF-16 text without a byte-order mark"),
        ("id;naive\n1;e\n".encode("utf-16-be"), "UTF-16 text without a byte-order mark"),
        (b"a,,b\n1,2,3\n", "column 2 .* has no name"),
    ],
)
def test_a_damaged_csv_is_refused_by_every_engine_with_the_same_sentence(tmp_path: Path, raw: bytes, words: str):
    (tmp_path / "s.csv").write_bytes(raw)
    memory, disk = both(tmp_path / "s.csv")
    assert memory == disk
    assert memory[0] == "refused"
    assert re.search(words, memory[1])


@pytest.mark.parametrize(
    "raw",
    [
        b"n,x\n-9223372036854775809,nan\n1,2\n",
        b"n,x\n-9223372036854775808,NaN\n9223372036854775807,-inf\n",
        b"n,x\n1,true\n" * 2 + b"9007199254740993,TRUE\n",
        b"n,x\n" + b"9" * 5000 + b",1e999\n1,.5\n",
        b"when,x\n0000-01-01,2020-02-29\n2020-01-01,0001-01-01\n",
        b"when,x\n2020-01-01T10:00:00.123456789,2020-01-01 10:00Z\n2020-01-01,2020-01-02 10:00+02:00\n",
        b"\n\none\n1\n\n2\n",
        b"\r\none;two\r\n 1;NA\r\n2 ;\r\n",
        b'a|b\n"x\ny"|""\n|" "\n',
        b"alone",
        b"alone\n",
        ("x" * 700_000 + ",b\n1,2\n").encode(),
        "straße;n\nä;1\n".encode("utf-16"),
    ],
)
def test_a_csv_means_the_same_to_every_engine(tmp_path: Path, raw: bytes):
    (tmp_path / "s.csv").write_bytes(raw)
    memory, disk = both(tmp_path / "s.csv")
    assert memory == disk
    assert memory[0] == "read"


def test_reading_options_and_packed_files_mean_the_same_to_every_engine(tmp_path: Path):
    (tmp_path / "s.txt.gz").write_bytes(gzip.compress("a_ñ\n1,5_x\n.._y\n".encode("latin-1")))
    options = {"separator": "_", "decimal": ",", "encoding": "latin-1", "null_values": "..", "names": ["p", "q"]}
    memory, disk = both(tmp_path / "s.txt.gz", **options)
    assert memory == disk
    assert "'p': 1.5" in memory[1]


def test_types_are_found_over_all_pieces_of_a_long_csv_and_over_records_longer_than_a_piece(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(csv_files, "_BLOCK", 4096)
    lines = [f"{i},{i},{i}" for i in range(3000)]
    lines[2500] = f"1.5,x,{'9' * 20_000}"
    (tmp_path / "s.csv").write_text("a,b,c\n" + "\n".join(lines))
    memory, disk = both(tmp_path / "s.csv")
    assert memory == disk
    assert "DataType(double), DataType(string), DataType(string)" in memory[1]


def test_a_randomly_damaged_csv_is_refused_by_every_engine_or_read_alike(tmp_path: Path):
    rng = random.Random(23)
    sound = (
        b'name,zip,pay,born\r\n"Smith, J",01234,1.5,2001-02-03\r\n"O""Neil",99999,NA,1990-12-31\r\nLi,00001,-7e3,\r\n'
    )
    bits = [
        b'"',
        b",",
        b"\n",
        b"\r",
        b";",
        b"\t",
        b"|",
        b"'",
        b"\\",
        b"\xff",
        b"\0",
        b"#",
        b" ",
        b"9" * 30,
        b"nan",
        b"-",
    ]
    seen = Counter()
    for _ in range(100):
        raw = sound
        for _ in range(rng.randint(1, 3)):
            at, length = rng.randrange(len(raw)), rng.choice([0, 0, 1, 1, 7, 60])
            raw = raw[:at] + rng.choice([b"", *bits]) + raw[at + length :]
            raw = raw or b"x"
        (tmp_path / "s.csv").write_bytes(raw)
        memory, disk = both(tmp_path / "s.csv")
        assert memory == disk, raw
        seen[memory[0]] += 1
    assert min(seen["read"], seen["refused"]) > 20


@pytest.mark.parametrize("name", ["data[1]", "data*", "data?", "d[a]ta'", "{data1,b}", "x\\y", "a=1", "~", "#%20"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_name_with_signs_of_a_pattern_means_that_file_alone(tmp_path: Path, name: str, form: str):
    for other in ("data1", "data2", "data", "b"):
        folder = tmp_path / other
        folder.mkdir()
        Microdata(pd.DataFrame({"v": [0]})).write(folder / f"data1.{form}")
    mine = tmp_path / name
    mine.mkdir()
    Microdata(pd.DataFrame({"v": [0]})).write(mine / f"data1.{form}")
    Microdata(pd.DataFrame({"v": [7]})).write(mine / f"{name}.{form}")
    read = Microdata.read(mine / f"{name}.{form}", engine="duckdb")
    assert read.engine.native().fetchall() == [(7,)]
    assert read.engine.map_batches(lambda rows: rows).native().fetchall() == [(7,)]


def test_a_name_that_cannot_be_told_from_a_pattern_is_refused(tmp_path: Path):
    Microdata(pd.DataFrame({"v": [7]})).write(tmp_path / "a\\[1].parquet")
    with pytest.raises(DataError, match="Rename it"):
        open_file(tmp_path / "a\\[1].parquet", "duckdb")


def test_columns_that_duckdb_does_not_tell_apart_are_refused(tmp_path: Path):
    for form in ("csv", "parquet"):
        Microdata(pd.DataFrame({"pay": [1], "Pay": [2]})).write(tmp_path / f"s.{form}")
        with pytest.raises(DataError, match="differ only in capitals"):
            open_file(tmp_path / f"s.{form}", "duckdb")


def test_labels_missing_codes_and_row_numbers_of_a_parquet_file_mean_the_same_to_every_engine(tmp_path: Path):
    frame = pd.DataFrame({"sex": [1, -9]}, index=[41, 42])
    frame.to_parquet(tmp_path / "rows.parquet")
    assert both(tmp_path / "rows.parquet")[0] == both(tmp_path / "rows.parquet")[1]
    contents = FileContents(pa.table({"sex": [1, -9]}), {"sex": "Sex"}, {"sex": {"1": "male"}}, {"sex": (-9,)})
    write_file(contents, tmp_path / "labels.parquet")
    notes = [open_file(tmp_path / "labels.parquet", engine)[1] for engine in ("memory", "duckdb")]
    assert notes[0] == notes[1] == {"sex": {"label": "Sex", "labels": {"1": "male"}, "missing": (-9,)}}


def test_a_csv_that_changes_while_it_is_read_is_refused(tmp_path: Path):
    path = tmp_path / "s.csv"
    path.write_text("a\n1\n2\n")
    _, pieces = csv_files.stream_csv(path)
    path.write_text("a\n1\n2\nMiller\n")
    with pytest.raises(DataError, match="was changed while it was read"):
        list(pieces)


@pytest.mark.parametrize("where", ["DuckDB", "Spark"])
def test_records_in_a_folder_with_signs_of_a_pattern_are_never_those_of_its_sibling(
    tmp_path: Path, where: str, request
):
    spark = request.getfixturevalue("spark") if where == "Spark" else None
    for folder, value in (("x1", 1), ("x[1]", 2), ("{x1,y}", 3)):
        home, frame = tmp_path / folder, pd.DataFrame({"v": [value] * 3})
        home.mkdir()
        engine = Microdata(frame if spark is None else spark.createDataFrame(frame)).engine
        build(engine, lambda rows: rows, ["v"], home / "records")
        if spark is not None:
            SparkEngine.from_frame(spark.createDataFrame(frame)).write(str(home / "data"), "parquet")
    for folder, value in (("x1", 1), ("x[1]", 2), ("{x1,y}", 3)):
        warehouse = open_warehouse(tmp_path / folder / "records", spark)
        assert warehouse.ask("SELECT v, count(*) AS n FROM records GROUP BY v")["v"].tolist() == [value]
        if spark is not None:
            assert read_folder(spark, tmp_path / folder / "data").first()["v"] == value


def test_a_file_of_very_many_columns_is_guessed_at_in_duckdb_as_in_memory(tmp_path: Path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(2_001)) + "\n" + ",".join("1" * 2_001) + "\n")
    guessed = [Microdata.read(tmp_path / "wide.csv", engine=engine).schema for engine in ("memory", "duckdb")]
    assert guessed[0] == guessed[1]


def test_facts_of_more_columns_than_one_query_asks_for_are_those_of_memory(tmp_path: Path):
    frame = pd.DataFrame({f"c{i}": [i, i + 1, None] for i in range(30)} | {"text": ["01", "x", None]})
    frame.to_parquet(tmp_path / "s.parquet")
    guessed = [Microdata.read(tmp_path / "s.parquet", engine=engine).schema for engine in ("memory", "duckdb")]
    assert guessed[0] == guessed[1]
