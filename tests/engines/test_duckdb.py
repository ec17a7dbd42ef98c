"""What only DuckDB has: relations, connections, private files, data larger than memory."""

from __future__ import annotations

import gc
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.data import Column, Rows, open_frame
from sfumato.data.duckdb_engine import DuckDBEngine
from sfumato.data.store import open_file
from sfumato.errors import DataError


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which private files appear during a test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def same(rows: Rows) -> Rows:
    return rows


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_ids_follow_the_file_however_many_threads_read_it(form: str, tmp_path: Path) -> None:
    connection = duckdb.connect()
    path = str(tmp_path / f"data.{form}")
    option = ", ROW_GROUP_SIZE 2048" if form == "parquet" else ""
    connection.sql(f"COPY (SELECT i, i / 3 AS x FROM range(400_000) t(i)) TO '{path}' (FORMAT {form}{option})")
    connection.sql("SET threads = 8")
    relation = connection.read_parquet(path) if form == "parquet" else connection.read_csv(path)
    for each in (relation, relation.filter("i % 3 = 0")):
        engine = open_frame(each)
        rows = engine.collect(["i"])
        position = rows.columns["i"].numbers if each is relation else rows.columns["i"].numbers / 3
        np.testing.assert_array_equal(rows.ids, position)
        np.testing.assert_array_equal(rows.ids, np.concatenate([piece.ids for piece in engine.batches(["x"])]))
        np.testing.assert_array_equal(rows.ids, engine.map_batches(same).collect([]).ids)


def test_a_scan_is_read_where_it_is(private: Path) -> None:
    open_frame(duckdb.connect().sql("SELECT i, i * 2 AS twice FROM range(10) t(i) WHERE i > 3"))
    assert not list(private.iterdir())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT random() AS x, i FROM range(20_000) t(i)",
        "FROM range(20_000) t(i) WHERE random() < 0.5",
        "FROM noisy",
        "SELECT noise() AS x, i FROM range(20_000) t(i)",
        "SELECT i % 5000 AS i, count(*) AS n FROM range(20_000) t(i) GROUP BY ALL",
        "SELECT i FROM range(20_000) t(i) JOIN range(20_000) u(i) USING (i)",
        "FROM range(20_000) t(i) USING SAMPLE 1000",
        "SELECT i FROM range(20_000) t(i) ORDER BY hash(i)",
    ],
)
def test_a_query_that_may_change_between_reads_is_run_once(query: str, private: Path) -> None:
    connection = duckdb.connect()
    connection.sql("SET threads = 4")
    connection.sql("CREATE MACRO noise() AS random()")
    connection.sql("CREATE TEMP VIEW noisy AS SELECT i, RANDOM () AS x FROM range(20_000) t(i)")
    engine = open_frame(connection.sql(query))
    assert len(list(private.iterdir())) == 1
    first, second = (engine.collect(["i"]) for _ in range(2))
    assert first.columns["i"].equals(second.columns["i"])
    np.testing.assert_array_equal(first.ids, np.arange(engine.count()))
    assert engine.native().fetchall() == engine.native().fetchall()


def test_a_sorted_relation_has_its_ids_in_sorted_order() -> None:
    engine = open_frame(duckdb.connect().sql("SELECT i, i AS j FROM range(9) t(i) ORDER BY i DESC"))
    assert engine.collect(["i"]).columns["i"].numbers.tolist() == list(range(8, -1, -1))


def test_an_arrow_stream_that_can_be_read_only_once_is_kept() -> None:
    engine = open_frame(duckdb.connect().from_arrow(pa.table({"a": [1, 2, 3]}).to_reader()))
    assert engine.count() == engine.count() == 3


def test_a_connection_that_does_not_keep_order_still_gives_stable_ids(private: Path) -> None:
    connection = duckdb.connect()
    connection.sql("SET preserve_insertion_order = false")
    engine = open_frame(connection.sql("FROM range(100_000) t(i)"))
    assert engine.collect(["i"]).columns["i"].equals(engine.collect(["i"]).columns["i"])
    assert list(private.iterdir())


def test_private_files_are_private_and_go_with_their_last_user(private: Path) -> None:
    engine = open_frame(duckdb.connect().sql("FROM range(10) t(i)")).map_batches(same)
    [folder] = private.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    relation = engine.native().filter("i > 7")
    del engine
    gc.collect()
    assert relation.fetchall() == [(8,), (9,)]
    del relation
    gc.collect()
    assert not list(private.iterdir())


def test_a_file_between_two_steps_goes_before_the_last_one(private: Path) -> None:
    engine = open_frame(duckdb.connect().sql("FROM range(10) t(i)"))
    for _ in range(3):
        engine = engine.map_batches(same)
    gc.collect()
    assert len(list(private.glob("*/*"))) == 1
    assert engine.count() == 10


def test_a_function_that_fails_leaves_no_file_and_a_free_connection(private: Path) -> None:
    engine = open_frame(duckdb.connect().sql("FROM range(1_000_000) t(i)"))

    def broken(rows: Rows) -> Rows:
        if len(rows):
            raise ValueError
        return rows

    with pytest.raises(ValueError) as caught:
        engine.map_batches(broken)
    assert not list(private.iterdir())
    assert engine.count() == 1_000_000
    assert caught.value.__traceback__ is not None  # the failed pass is still referred to, and is closed all the same


def test_original_and_masked_records_can_be_read_side_by_side() -> None:
    engine = open_frame(duckdb.connect().sql("FROM range(300_000) t(i)"))
    masked = engine.map_batches(same)
    for a, b in zip(engine.batches(["i"]), masked.batches(["i"]), strict=True):
        np.testing.assert_array_equal(a.ids, b.ids)


def test_two_open_passes_on_one_connection_are_refused_in_a_sentence() -> None:
    engine = open_frame(duckdb.connect().sql("FROM range(1_000_000) t(i)"))
    first = engine.batches(["i"])
    next(first)
    with pytest.raises(DataError, match="another pass"):
        next(engine.batches(["i"]))
    first.close()
    assert engine.count() == 1_000_000


def test_pieces_are_cut_at_the_same_places_in_every_run(tmp_path: Path) -> None:
    connection = duckdb.connect()
    path = tmp_path / "x.parquet"
    connection.sql(f"COPY (SELECT i / 7 AS x FROM range(300_000) t(i)) TO '{path}' (ROW_GROUP_SIZE 10_000)")
    engine = open_frame(connection.read_parquet(str(path)))
    assert [len(rows) for rows in engine.batches(["x"])] == [2**17, 2**17, 300_000 - 2**18]
    total = [engine.reduce(lambda rows: np.array(rows.columns["x"].numbers.sum()), ["x"]) for _ in range(3)]
    assert total[0] == total[1] == total[2]


def test_a_file_may_be_written_over_the_one_the_data_come_from(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    connection = duckdb.connect()
    connection.sql("FROM range(1000) t(i)").write_parquet(path)
    open_frame(connection.read_parquet(path)).write(path, "parquet")
    assert connection.read_parquet(path).fetchall() == [(i,) for i in range(1000)]
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


def test_names_with_quotes_dots_and_blanks_work() -> None:
    names = ['a "b"', "c.d", "e f", "select"]
    engine = open_frame(duckdb.connect().from_arrow(pa.table({n: [1, 2] for n in names}))).map_batches(same)
    assert engine.native().columns == names
    assert [c.numbers.tolist() for c in engine.collect(names[::-1]).columns.values()] == [[1, 2]] * 4


def test_every_number_type_of_duckdb_is_a_number() -> None:
    types = ["TINYINT", "UTINYINT", "HUGEINT", "UBIGINT", "DECIMAL(9, 2)", "FLOAT", "DOUBLE"]
    query = "SELECT " + ", ".join(f"7::{t} AS c{i}" for i, t in enumerate(types))
    engine = open_frame(duckdb.connect().sql(query))
    for each in (engine, engine.map_batches(same)):
        assert {c.numbers.tolist()[0] for c in each.collect(list(each.kinds)).columns.values()} == {7.0}


@pytest.mark.parametrize("read", ["collect", "batches", "map_batches", "write"])
def test_errors_do_not_quote_values(read: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a\n" + "1\n" * 100_000 + "12 High Street\n")
    engine = open_frame(duckdb.connect().read_csv(str(path)))
    calls = {
        "collect": lambda: engine.collect(["a"]),
        "batches": lambda: list(engine.batches(["a"])),
        "map_batches": lambda: engine.map_batches(same),
        "write": lambda: engine.write(str(tmp_path / "out.csv"), "csv"),
    }
    with pytest.raises(DataError, match="does not fit the type of its column") as caught:
        calls[read]()
    assert "High" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]


def test_a_closed_connection_is_told_in_a_sentence() -> None:
    connection = duckdb.connect()
    engine = open_frame(connection.sql("SELECT 1 AS a"))
    masked = engine.map_batches(same)
    connection.close()
    with pytest.raises(DataError, match="connection is closed"):
        engine.count()
    assert masked.collect(["a"]).columns["a"].numbers.tolist() == [1]  # in a file of its own


def test_values_that_cannot_be_stored_are_refused_by_column() -> None:
    engine = open_frame(duckdb.connect().sql("SELECT 1 AS a, INTERVAL 1 DAY AS stay"))
    with pytest.raises(DataError, match="stay"):
        engine.map_batches(same)


def test_a_column_that_changes_type_between_pieces_is_refused() -> None:
    def unsteady(rows: Rows) -> Rows:
        column = Column(pa.array(["x"] * len(rows))) if len(rows) else rows.columns["i"]
        return Rows(rows.ids, {"i": column})

    with pytest.raises(DataError, match="a column holds one type"):
        DuckDBEngine.from_relation(duckdb.connect().sql("FROM range(3) t(i)")).map_batches(unsteady)


def test_files_are_the_same_bytes_as_those_written_from_memory(tmp_path: Path) -> None:
    table = pa.table({"x": [0.1, None, float("nan"), 2.0], "s": ["a", "", None, 'q"'], "e": ["u", "v", "u", None]})
    relation = duckdb.connect().from_arrow(table).project("x, s, e::ENUM('u', 'v') AS e")
    for engine, name in ((open_frame(table), "memory"), (open_frame(relation), "duckdb")):
        engine.write(str(tmp_path / f"{name}.csv"), "csv")
    assert (tmp_path / "memory.csv").read_bytes() == (tmp_path / "duckdb.csv").read_bytes()


_LARGE = """
import duckdb
import sfumato
from sfumato.data import Column, Rows, open_frame

def double(rows):
    return Rows(rows.ids, {n: Column.from_numbers(c.numbers * 2) for n, c in rows.columns.items()})

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024  # MB

columns = ", ".join(f"hash(i + {k} * 1000003)::DOUBLE / 1e19 AS x{k}" for k in range(4))
connection = duckdb.connect()
connection.sql("SET memory_limit = '200MB'")
connection.sql("SET enable_progress_bar = false")
open_frame(connection.sql(f"SELECT {columns} FROM range(1000) t(i)")).map_batches(double).native().fetchall()
before = peak()
masked = open_frame(connection.sql(f"SELECT {columns} FROM range(5_000_000) t(i)")).map_batches(double)
assert masked.count() == 5_000_000
assert masked.native().aggregate("sum(x0)").fetchall()[0][0] > 0
print(peak() - before)
"""


# getrusage would not do: after a fork, the peak of a child starts at what its parent held
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_masking_more_than_memory_allows_takes_little_memory() -> None:
    # 5 million records of 4 numbers and an id are 200 MB before and 200 MB after; a piece is 5 MB
    ran = subprocess.run([sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 120


def test_what_does_not_fit_in_memory_goes_to_a_private_folder_and_not_to_the_working_one(
    private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, here = tmp_path / "many.parquet", tmp_path / "here"
    duckdb.sql("SELECT hash(i) AS a, hash(i + 1) AS b FROM range(1_000_000) t(i)").write_parquet(str(path))
    here.mkdir()
    monkeypatch.chdir(here)
    engine, _ = open_file(path, engine="duckdb")
    (room,) = private.iterdir()
    (folder,) = room.iterdir()
    engine.native().query("source", "SET memory_limit = '40MB'")
    assert not (folder / "spill").exists()
    engine.group(["a", "b"])
    assert (folder / "spill").exists()  # DuckDB makes it when it first needs it
    assert not list(here.iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in (room, folder)} == {0o700}
    del engine
    gc.collect()
    assert not list(private.iterdir())


@pytest.mark.parametrize(
    "query",
    [
        "FROM read_text('{other}')",
        "FROM read_parquet('{other}')",
        "FROM '{other}'",
        "COPY (SELECT 1) TO '{other}'",
        "ATTACH '{other}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET temp_directory = '/tmp'",
        "FROM secret_of_the_program",
    ],
)
def test_a_connection_of_ours_reaches_the_file_that_it_was_opened_for_and_nothing_else(
    query: str, tmp_path: Path
) -> None:
    secret_of_the_program = pa.table({"v": [1]})  # noqa: F841 - DuckDB would find it by its name
    for name in ("mine", "other"):
        pq.write_table(pa.table({"v": [1, 2]}), tmp_path / f"{name}.parquet")
    engine, _ = open_file(tmp_path / "mine.parquet", engine="duckdb")
    for each in (engine, engine.map_batches(same), engine.reorder(lambda ids: -ids)):
        with pytest.raises(duckdb.Error):
            each.native().query("source", query.format(other=tmp_path / "other.parquet"))
        assert each.count() == len(each.collect(["v"])) == len(each.group(["v"]).counts) == 2
    assert pq.read_table(tmp_path / "other.parquet").num_rows == 2


def test_connections_are_opened_and_files_are_named_to_duckdb_in_one_module() -> None:
    calls = re.compile(
        r"duckdb\.connect\(|duckdb\.(sql|query|execute|read_|from_)|read_parquet\(['\"]|read_csv(_auto)?\(['\"]"
    )
    source = Path(sfumato.__file__).parent
    found = {path.name for path in source.rglob("*.py") if calls.search(path.read_text("utf-8"))}
    assert found == {"duckdb_engine.py"}
    assert (source / "data" / "duckdb_engine.py").read_text("utf-8").count("duckdb.connect(") == 1
