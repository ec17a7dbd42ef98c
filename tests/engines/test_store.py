"""A file opened on disk means the same as the same file read into memory."""

from pathlib import Path

import pandas as pd
import pytest

from sfumato import Draws, KimNoise, Microdata, Schema
from sfumato.engines.store import open_file
from sfumato.errors import DataError, ParameterError

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
