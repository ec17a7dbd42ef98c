"""The command line: help, schema, papers, and how it behaves in a shell."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
import typer
from commands import N, document, files, folder, frames, run, shell
from typer.main import get_command
from typer.testing import CliRunner

import sfumato
from sfumato.cli import app
from sfumato.cli.audit import AuditOptions
from sfumato.cli.console import clean, plain_table
from sfumato.cli.map import MapOptions
from sfumato.cli.options import Only, SnooperOptions, SourceOptions, expand_options
from sfumato.cli.search import SearchOptions
from sfumato.cli.table_map import TableMapOptions
from sfumato.cli.table_source import TableOptions
from sfumato.contract.snooper import Snooper
from sfumato.maps.recipe_search import search
from sfumato.maps.rumap import ru_map
from sfumato.schema import Schema
from sfumato.tables.protection_map import table_map
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table
from sfumato.tables.table_audit import audit

__all__ = ["files", "folder", "frames"]  # fixtures

COMMANDS = ("demo", "schema", "mask", "risk", "utility", "map", "papers")

# -- help and version


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"sfumato {sfumato.__version__}\n"


def test_the_help_groups_the_commands_and_explains_the_exit_codes() -> None:
    text = " ".join(run("--help").stdout.split())
    for words in (
        "Start here",
        "Protect",
        "Measure and decide",
        "About",
        *COMMANDS,
        "infeasible",
        "--install-completion",
    ):
        assert words in text


def test_every_command_and_every_option_is_explained() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert command.help
        assert [p.name for p in command.params if not getattr(p, "help", "")] == [], name
        assert run(name, "--help").exit_code == 0


def test_the_names_of_masks_and_measures_are_completed() -> None:
    from sfumato.cli.listing import completion
    from sfumato.cli.options import mask_names, measure_names

    assert mask_names("kim") == ["kim_noise", "kim_transformation"]
    assert measure_names("attr") == ["attribute_risk"]
    assert completion(lambda: ["ru_map", "matrix_masking", "mas"])("m") == ["matrix_masking", "mas"]


def test_a_command_takes_a_group_of_options_as_one_value() -> None:
    seen = []

    @expand_options
    def command(first: Annotated[str, typer.Argument()], group: Outer, last: bool = False) -> None:
        seen.append((first, group, last))

    app = typer.Typer()
    app.command()(command)
    assert list(inspect.signature(command).parameters) == ["first", "size", "read", "schema", "last"]
    assert CliRunner().invoke(app, ["a", "--size", "3", "--read", "x=1", "--last"]).exit_code == 0
    source = SourceOptions(schema=None, read=["x=1"], engine="memory")
    assert seen == [("a", Outer(size=3, source=source), True)]
    assert CliRunner().invoke(app, ["a", "--size", "3", "--engine", "duckdb"]).exit_code == 2  # left out by `Only`
    assert CliRunner().invoke(app, ["a"]).exit_code == 2  # --size has no default


@dataclass(frozen=True, kw_only=True)
class Outer:
    size: Annotated[int, typer.Option()]
    source: Annotated[SourceOptions, Only("read", "schema")]


@pytest.mark.parametrize(
    ("options", "function", "names"),
    [
        (MapOptions, ru_map, {"replications"}),
        (TableMapOptions, table_map, {"replications"}),
        (SearchOptions, search, {"sequences", "effort", "confirm"}),
        (AuditOptions, audit, {"tolerance", "insiders"}),
        (AuditOptions, PublishedTable.from_frame, {"within", "absent"}),
        (TableOptions, Table.of, {"empty"}),
        (SnooperOptions, Snooper, {"match_probability", "coverage", "errors"}),
    ],
)
def test_an_option_has_the_default_of_the_function_that_it_is_for(
    options: type[Any], function: Callable[..., Any], names: set[str]
) -> None:
    """None is that of an option which is not given: then the function's own default holds."""
    own = {f.name: f.default for f in fields(options) if f.default is not None and f.default is not MISSING}
    theirs = {p.name: p.default for p in inspect.signature(function).parameters.values() if p.default is not p.empty}
    assert names <= {*own} & {*theirs}
    assert {n: own[n] for n in {*own} & {*theirs}} == {n: theirs[n] for n in {*own} & {*theirs}}


def test_importing_the_command_line_stays_light() -> None:
    heavy = ("pandas", "scipy", "pyarrow", "numba", "altair", "duckdb", "formulaic")
    code = f"import sfumato.cli, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- schema


def test_schema_names_every_column_with_its_role_and_reason(files: tuple[Path, Path, Path]) -> None:
    found = document(run("schema", files[0], "--json"))
    assert found["records"] == N
    assert [c["name"] for c in found["columns"]] == list(pd.read_csv(files[0], nrows=0).columns)
    assert {c["name"]: c["role"] for c in found["columns"]}["salary"] == "confidential"
    assert all(c["reason"] for c in found["columns"])


def test_schema_prints_a_table_and_how_to_correct_it(files: tuple[Path, Path, Path]) -> None:
    text = run("schema", files[0]).stdout
    assert re.search(r"^column +role +scale +reason$", text, re.MULTILINE)
    assert "--out schema.toml" in text
    assert "--schema schema.toml" in text


def test_schema_writes_toml_once_and_again_only_if_asked(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "s.toml"
    assert run("schema", files[0], "--out", out).exit_code == 0
    assert Schema.read(out).names() == tuple(pd.read_csv(files[0], nrows=0).columns)
    out.write_text("mine")
    again = run("schema", files[0], "--out", out)
    assert again.exit_code == 1
    assert again.stderr == f"sfumato: {out} is there already. Choose another name for the schema, or add --replace.\n"
    assert out.read_text() == "mine"
    assert run("schema", files[0], "--out", out, "--replace").exit_code == 0
    assert len(Schema.read(out)) == 10


def test_reading_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "euro.csv"
    path.write_bytes("größe;pay\n1,5;2\n2,5;3\n".encode("latin-1"))
    wrong = run("schema", path)
    assert wrong.exit_code == 1
    assert "is not UTF-8 text" in wrong.stderr
    assert "--read NAME=VALUE" in wrong.stderr
    found = document(run("schema", path, "--json", "--read", "encoding=latin-1", "--read", "decimal=,"))
    assert [c["name"] for c in found["columns"]] == ["größe", "pay"]
    assert {c["name"]: c["scale"] for c in found["columns"]}["größe"] == "ordered"


# -- papers


def test_papers_shows_the_rows_of_the_toml_files() -> None:
    home = Path(sfumato.__file__).parent / "papers"
    rows = {key: tomllib.loads((home / f"{key}.toml").read_text("utf-8"))["row"] for key in ("ru_map", "rta")}
    found = document(run("papers", "--paper", "ru_map", "--json"))
    assert [r["id"] for r in found["rows"]] == [r["id"] for r in rows["ru_map"]]
    built = document(run("papers", "--paper", "ru_map", "--status", "built", "--json"))
    assert [r["id"] for r in built["rows"]] == [r["id"] for r in rows["ru_map"] if r["status"] == "built"]
    assert len(document(run("papers", "--json"))["rows"]) > len(rows["ru_map"]) + len(rows["rta"])
    assert rows["rta"][0]["id"] in run("papers", "--paper", "rta").stdout


# -- in a shell


def test_a_piped_table_is_whole_and_plain(files: tuple[Path, Path, Path]) -> None:
    done = shell("papers", "--paper", "rta", env={**os.environ, "COLUMNS": "40", "TERM": "xterm-256color"})
    assert done.returncode == 0
    assert "…" not in done.stdout
    assert "\x1b" not in done.stdout
    rows = tomllib.loads((Path(sfumato.__file__).parent / "papers" / "rta.toml").read_text("utf-8"))["row"]
    assert all(row["says"] in done.stdout for row in rows)


def test_names_with_spaces_and_letters_of_any_alphabet(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    survey = tmp_path / "lönë data λ.csv"
    survey.write_bytes(files[0].read_bytes())
    args = ("--mask", "kim_noise", "--out", "out λ", "--seed-file", "geheim λ/seed.toml")
    done = shell("mask", survey.name, *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sfumato risk 'lönë data λ.csv' 'out λ/masked.csv' --align rows" in done.stdout
    told = shell(
        "risk", survey.name, "out λ/masked.csv", "--align", "rows", "--measure", "attribute_risk", cwd=tmp_path
    )
    assert told.returncode == 0, told.stderr


def test_a_terminal_without_greek_letters_gets_question_marks(files: tuple[Path, Path, Path]) -> None:
    done = shell("mask", "--list", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "? times" not in done.stderr
    assert "kim_noise" in done.stdout
    found = shell("mask", "--list", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert any("λ" in m["summary"] for m in json.loads(found.stdout)["masks"])


def test_a_reader_who_leaves_early_hears_no_complaint() -> None:
    reader, writer = os.pipe()
    os.close(reader)  # gone before the command has started: no race who is first
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "papers"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


def test_progress_and_notes_keep_off_stdout(files: tuple[Path, Path, Path]) -> None:
    method = ("--mask", "kim_noise", "--over", "lambda2=0.1,0.2", "--risk", "salary", "--utility", "salary")
    done = shell("map", files[0], *method, "--replications", 5, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert "guesses" in done.stderr
    assert "Masking at every point" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "\r" not in done.stderr


# -- the parts


def test_a_plain_table_aligns_wide_letters() -> None:
    assert plain_table(("a", "n"), (("東京", "1"), ("x", "20")), (1,)) == [
        "a      n",
        "----  --",
        "東京   1",
        "x     20",
    ]


def test_json_holds_no_number_that_json_does_not_know() -> None:
    value = {
        "a": float("nan"),
        "b": (float("inf"), -float("inf")),
        "c": np.int64(3),
        "d": np.float64(2.5),
        "e": Path("x"),
    }
    assert clean(value) == {"a": None, "b": ["inf", "-inf"], "c": 3, "d": 2.5, "e": "x"}


EVERY = (
    "ask", "attack", "audit", "demo", "map", "mask", "papers", "report", "risk", "schema", "search", "table", "table-map",
    "utility", "vault add", "vault cutpoints", "vault freeze", "vault shelf", "vault log", "vault", "",
)  # fmt: skip


@pytest.mark.parametrize("command", EVERY)
def test_help_says_in_words_what_an_option_takes(command: str) -> None:
    told = run(*command.split(), "-h").stdout
    assert re.search(r"<(bool|str|path|int|float|list)\b|\[\[|list\[", told) is None
    assert re.search(r"--help +-h +Show", told)  # a flag takes nothing
