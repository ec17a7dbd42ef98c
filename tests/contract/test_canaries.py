"""What a mask removes is found nowhere in the bytes of what is published: every registered mask, every form of file.

Canaries are planted in records and cells: job titles, labels of codes, amounts. Those that no released cell shows any more are
removed, whatever the mask; each published file is unpacked, and none of them may be in it.
"""

from __future__ import annotations

import base64
import gzip
import re
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract_cases import values_for

from sfumato.contract import Mask, Recipe, registered
from sfumato.data.columns import visible_only
from sfumato.data.microdata import Microdata
from sfumato.errors import RecipeError, SfumatoError
from sfumato.masks import Identity, Recode, Sample, SuppressExtremes, SuppressRecords, SuppressValues, TopCode
from sfumato.schema import Attribute, Schema, TreeHierarchy
from sfumato.testing import DRAWS, NUMBERS, SCHEMA, arrow_table, required

FORMS = ("csv", "csv.gz", "tsv", "parquet", "arrow", "feather", "dta", "sav", "zsav", "xpt", "xlsx")
N = 160
_RANDOM = np.random.default_rng(23)
_LETTERS = np.array(list("bcdfghjklmnpqrstvwxz"))
JOBS = ["".join(_RANDOM.choice(_LETTERS, 8)) for _ in range(N)]
"""A job title of its own for every record; 8 letters, so that SPSS does not cut it in pieces."""
LABELS = {str(70_000 + 13 * i): "".join(_RANDOM.choice(_LETTERS, 8)) for i in range(N)}
"""A code of its own for every record, and what it means, as Stata's `encode` would make them from names."""


def people() -> pa.Table:
    """The people of the contract, with categories as dictionaries."""
    small = arrow_table(N)
    for name in ("region", "sex"):
        small = small.set_column(small.column_names.index(name), name, small[name].dictionary_encode())
    small = small.append_column("job", pa.array(JOBS).dictionary_encode())
    return small.append_column("code", pa.array([int(code) for code in LABELS]))


TREE = TreeHierarchy([[job, "works", "*"] for job in JOBS])
WHOLE = Schema(
    (
        *SCHEMA,
        Attribute("job", "key", "unordered", hierarchy=TREE),  # type: ignore[arg-type]
        Attribute("code", "other", "unordered", labels=LABELS),  # type: ignore[arg-type]
    )
)


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, as they are and decompressed."""
    raw = path.read_bytes()
    yield raw
    if path.name.endswith(".gz"):
        yield gzip.decompress(raw)
    elif path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            yield from (book.read(name) for name in book.namelist())
    elif path.suffix == ".parquet":
        yield from _pages(path, raw)
    elif path.suffix in (".arrow", ".feather"):
        with pa.ipc.open_file(path) as file:
            for i in range(file.num_record_batches):
                for column in file.get_batch(i).columns:
                    yield from _buffers(column)
    elif path.suffix == ".zsav":
        for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", raw):
            packed = zlib.decompressobj()
            try:
                yield packed.decompress(raw[start.start() :])
            except zlib.error:
                continue


def _buffers(column: pa.Array) -> Iterator[bytes]:
    yield from (b.to_pybytes() for b in column.buffers() if b is not None)
    if pa.types.is_dictionary(column.type):
        yield from _buffers(column.dictionary)


def _pages(path: Path, raw: bytes) -> Iterator[bytes]:
    """Yield every page of a Parquet file, dictionaries included, and its metadata."""
    facts = pq.ParquetFile(path).metadata
    for key, value in (facts.metadata or {}).items():
        yield base64.b64decode(value) if key == b"ARROW:schema" else value
    for group in range(facts.num_row_groups):
        for i in range(facts.num_columns):
            column = facts.row_group(group).column(i)
            at = min(o for o in (column.dictionary_page_offset, column.data_page_offset) if o)
            end = at + column.total_compressed_size
            while at < end:
                header, at = _thrift(raw, at)
                page, at = raw[at : at + header[3]], at + header[3]
                yield (
                    page
                    if column.compression == "UNCOMPRESSED"
                    else pa.decompress(page, header[2], column.compression.lower(), asbytes=True)
                )


def _thrift(raw: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read the numbers of a struct in Thrift's compact form; return where it ends."""
    found: dict[int, Any] = {}
    field = 0
    while raw[at]:
        kind, step = raw[at] & 15, raw[at] >> 4
        at += 1
        if not step:
            step, at = _varint(raw, at)
            field = (step >> 1) ^ -(step & 1)
        else:
            field += step
        if kind in (1, 2):  # a boolean is its own type
            found[field] = kind == 1
        elif kind in (4, 5, 6):
            number, at = _varint(raw, at)
            found[field] = (number >> 1) ^ -(number & 1)
        elif kind == 8:
            length, at = _varint(raw, at)
            at += length
        elif kind == 12:
            found[field], at = _thrift(raw, at)
        else:
            raise AssertionError(f"a field of type {kind} in a page header")
    return found, at + 1


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (raw[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not raw[at - 1] & 128:
            return number, at


def found_in(folder: Path, texts: set[str], numbers: set[float]) -> list[str]:
    """Return in which files which canaries are; numbers as their eight bytes, and as digits."""
    out = []
    words = re.compile(b"|".join(re.escape(t.encode()) for t in sorted(texts)) or b"(?!)")
    eight = {struct.pack("<d", v) for v in numbers}
    digits = re.compile(
        rb"(?<![\d.])(" + (b"|".join(re.escape(repr(v).encode()) for v in numbers) or b"(?!)") + rb")(?!\d)"
    )
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        for part in unpacked(path):
            hit = words.search(part) is not None or digits.search(part) is not None
            if hit or any(number in part for number in eight):
                out.append(path.name)
                break
    return out


def planted(data: Microdata, released: list[Microdata]) -> tuple[set[str], set[float]]:
    """Return the canaries that no released cell shows."""
    shown: set[Any] = set()
    for one in released:
        for column in one.batch().rows.columns.values():
            shown |= set(column.arrow.to_pylist())
    labels = {label for code, label in LABELS.items() if int(code) not in shown and code not in shown}
    pay = data.numbers("pay")
    return ({job for job in JOBS if job not in shown} | labels, {float(v) for v in pay[~np.isnan(pay)]} - shown)


INSTEAD: dict[str, dict[str, Any]] = {
    "safe_pub": {"delta": 0.05, "levels": {"job": TREE.height}},
    "copula_synthesis": {"uniques": "keep"},
    "full_tree_synthesis": {"uniques": "keep"},
    "suppress_small_areas": {"columns": ("region", "sex"), "least": 24, "unit": "record"},
}
"""Where every record has a job of its own, these refuse to release anything."""


def on_categories(cls: type[Mask]) -> dict[str, Any]:
    """Aim a mask of categories at the job titles."""
    given = required(cls, values_for(cls))
    for name, parameter in cls.parameters().items():
        if (
            parameter.columns in ("one", "many")
            and parameter.holds not in ("numbers", "dates")
            and name in ("columns", "column")
        ):
            given[name] = "job" if parameter.columns == "one" else ("job",)
    return given | INSTEAD.get(cls.name, {})


MASKS = [pytest.param(c, id=c.name) for c in registered("mask").values() if c.__module__.startswith("sfumato.")]


@pytest.mark.parametrize("cls", MASKS)
def test_nothing_that_a_mask_removes_is_in_any_file_of_the_release(cls: type[Mask], tmp_path: Path) -> None:
    data = Microdata(people(), WHOLE)
    release = cls(**on_categories(cls)).apply(data, DRAWS)
    release.write(tmp_path / "out", DRAWS, tmp_path / "seed.toml", forms=FORMS)
    texts, numbers = planted(data, list(release.implicates))
    assert len(list((tmp_path / "out").iterdir())) == len(release.implicates) * len(FORMS) + 2
    assert found_in(tmp_path / "out", texts, numbers) == []


def test_the_search_finds_what_is_there_in_every_form(tmp_path: Path) -> None:
    release = Identity().apply(Microdata(people(), WHOLE), DRAWS)
    release.write(tmp_path / "out", DRAWS, tmp_path / "seed.toml", forms=FORMS)
    files = {p.name for p in (tmp_path / "out").iterdir()} - {"recipe.toml"}
    for job in JOBS[3:150:29]:
        assert set(found_in(tmp_path / "out", {job}, set())) == files
    pay = [v for v in people()["pay"].to_pylist() if v is not None and v == v][5]
    assert set(found_in(tmp_path / "out", set(), {pay})) >= files - {"schema.toml", "masked.xpt"}
    assert set(found_in(tmp_path / "out", {LABELS["70013"]}, set())) >= {
        "masked.parquet", "masked.arrow", "masked.dta", "masked.sav", "masked.zsav", "schema.toml",
    }  # fmt: skip


REMOVING = [
    Sample(unit="record", fraction=0.05),
    SuppressRecords(unit="record", where="age > 40"),
    SuppressExtremes(unit="record", columns=("pay",), upper_quantile=0.5),
    SuppressValues(columns=("job", "pay", "code"), where="age > 40"),
    Recode(rules={"job": 1}),
]


@pytest.mark.parametrize("mask", REMOVING, ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["DuckDB", "DuckDB with an ENUM", "pandas", "polars"])
def test_what_is_removed_is_in_no_file_whatever_the_frame(mask: Mask, kind: str, tmp_path: Path) -> None:
    frame: Any = people()
    if kind.startswith("DuckDB"):
        connection = duckdb.connect()
        connection.register("arrow", frame)
        whole = "SELECT * REPLACE (CAST(job AS VARCHAR) AS job, CAST(region AS VARCHAR) AS region) FROM arrow"
        if kind.endswith("ENUM"):
            connection.execute(f"CREATE TYPE jobs AS ENUM ({', '.join(repr(j) for j in JOBS)})")
            whole = whole.replace("CAST(job AS VARCHAR)", "CAST(CAST(job AS VARCHAR) AS jobs)")
        connection.execute(f"CREATE TABLE people AS {whole}")
        frame = connection.table("people")
    elif kind == "polars":
        frame = pl.from_arrow(frame)
    elif kind == "pandas":
        frame = frame.to_pandas()
    data = Microdata(frame, WHOLE)
    release = mask.apply(data, DRAWS)
    release.write(tmp_path / "out", DRAWS, tmp_path / "seed.toml", forms=("csv", "parquet", "arrow"))
    texts, numbers = planted(data, list(release.implicates))
    assert texts
    assert found_in(tmp_path / "out", texts, numbers) == []


def test_a_frame_that_is_given_back_has_no_category_that_no_record_has() -> None:
    frame = people().to_pandas()
    release = Sample(unit="record", fraction=0.05).apply(Microdata(frame, WHOLE), DRAWS)
    job = release.masked.to_native()["job"]
    assert isinstance(job.dtype, pd.CategoricalDtype)
    assert set(job.cat.categories) == set(job)


def test_records_filtered_out_before_are_in_no_file(tmp_path: Path) -> None:
    long = [f"{job} {job} {job}" for job in JOBS]  # too long to be kept in the view itself
    frame = pl.DataFrame({"job": long, "pay": np.arange(N) + 0.5}).head(3)
    views = pa.table({"job": pa.array(long, pa.string_view()).slice(0, 3), "n": [1, 2, 3]})
    hidden = pa.table({"n": pa.array(np.arange(5000, 5003), mask=np.array([False, True, False]))})
    for i, source in enumerate((frame, views, hidden)):
        Microdata(source).write(tmp_path / str(i) / "masked.arrow")
    assert found_in(tmp_path, set(JOBS[3:]), set()) == []
    with pa.ipc.open_file(tmp_path / "2" / "masked.arrow") as file:
        assert b"".join(_buffers(file.get_batch(0).column(0))).find(struct.pack("<q", 5001)) < 0


NESTED: list[pa.Array] = [
    pa.array(["a", None, "b"]).dictionary_encode(),
    pa.array(["a", None, "b" * 40], pa.string_view()),
    pa.array([[1, 2], None, [3], []]),
    pa.array([["x"], None, ["y", None]], pa.large_list(pa.dictionary(pa.int8(), pa.string()))),
    pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
    pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    pa.array([None, None]),
    pa.array([True, None, False]),
]


@pytest.mark.parametrize("values", NESTED, ids=lambda v: str(v.type))
@pytest.mark.parametrize("start", [0, 1])
def test_leaving_out_what_is_hidden_changes_no_value_and_no_type(values: pa.Array, start: int) -> None:
    for given in (values.slice(start), pa.chunked_array([values, values.slice(start)]), values.slice(0, 0)):
        kept = visible_only(given)
        assert kept.type == given.type
        assert kept.to_pylist() == given.to_pylist()
        kept.validate(full=True)


# What the published recipe says

SOMEBODYS = 48_271.63
"""The value of one record, typed as a parameter."""
TYPED: list[Any] = [
    SOMEBODYS,
    {"pay": SOMEBODYS, "rent": SOMEBODYS, "hours": SOMEBODYS},
    f"pay > {SOMEBODYS} and age > 30",
    "job == 'qzxvqzxv'",
    "qzxvqzxv",
    {"job": {"qzxvqzxv": "x"}},
    {"qzxvqzxv": "bbbb"},
    {"job": {"qzxvqzxv": {"qzxvqzxv": 1.0}}},
    {"job": ["qzxvqzxv"]},
    {"pay": [10, SOMEBODYS]},
]
DESIGN = {
    "base", "block", "by", "clusters", "costs", "covariance", "domain", "epsilon", "factor_variance", "importance", "lambda2",
    "released", "share", "total", "weights",
}  # fmt: skip
"""Numbers without a unit or of the noise, and names of columns: somebody who puts a record's value there means no record."""


@pytest.mark.parametrize("cls", MASKS)
def test_a_published_recipe_repeats_no_value_that_was_typed(cls: type[Mask]) -> None:
    for name, parameter in cls.parameters().items():
        if parameter.columns in ("one", "many") or parameter.choices or name in DESIGN:
            continue
        for typed in TYPED:
            try:
                recipe = Recipe.of(step=cls(**{**required(cls, values_for(cls)), "columns": NUMBERS, name: typed}))
            except (SfumatoError, TypeError, AttributeError):
                try:
                    recipe = Recipe.of(step=cls(**{**required(cls, values_for(cls)), name: typed}))
                except (SfumatoError, TypeError, AttributeError):
                    continue
            text = recipe.to_toml(withhold=True, shown={"pay", "job", "rent", "hours", "bbbb"})
            assert "48271" not in text, f"{name} = {typed}"
            assert "qzxv" not in text, f"{name} = {typed}"
            assert name in tomllib.loads(text)["step"][1]["withheld"]
            assert f"step.{name}" not in recipe.published_parameters()
            with pytest.raises(RecipeError, match="withheld from what is published"):
                Recipe.from_toml(text)


def test_a_published_recipe_tells_round_numbers_and_what_the_release_shows(tmp_path: Path) -> None:
    data = Microdata(people(), WHOLE)
    rules = {"region": {"Uppsala": "south", "Malmö": "south", "Kiruna": "north"}, "age": [20, 40, 60]}
    steps = Recipe.of(
        top=TopCode(columns=("pay",), value=40_000),
        gone=SuppressValues(columns=("rent",), where="age > 80 and sex == 'f'"),
        late=SuppressValues(columns=("rent",), where="region == 'Kiruna'"),
        groups=Recode(rules=rules),
        ages=Recode(rules={"job": 1}),
    )
    steps.apply(data, DRAWS).write(tmp_path / "out", DRAWS, tmp_path / "seed.toml", forms=["csv"])
    said = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())["step"]
    top, gone, late, groups, ages = said[1:]
    assert top["value"] == 40_000
    assert gone["where"] == "age > 80 and sex == 'f'"
    assert late["withheld"] == ["where"]  # no released record lives there: it is recoded
    assert groups["withheld"] == ["rules"]
    assert ages["rules"] == {"job": 1}
    assert "Kiruna" not in (tmp_path / "out" / "recipe.toml").read_text()
