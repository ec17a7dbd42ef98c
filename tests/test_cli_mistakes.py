"""The command line: whatever goes wrong is told in one sentence."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from commands import files, folder, frames, run

import sfumato.cli
from sfumato.cli.console import Screen

__all__ = ["files", "folder", "frames"]  # fixtures


WRONG = [
    (
        "report survey.csv release/masked.csv --out r.html --risk k_anonimity;k=5",
        1,
        "risk measure 'k_anonimity' is not in the list of risk measures. Did you mean 'k_anonymity'?",
    ),
    ("schema nofile.csv", 1, "there is no file nofile.csv."),
    ("schema survey.cvs", 1, "there is no file survey.cvs. Did you mean 'survey.csv'?"),
    ("schema release", 1, "release is a folder"),
    ("schema", 2, "missing argument 'FILE'"),
    ("schmea survey.csv", 2, "no such command 'schmea'. Did you mean 'schema'?"),
    ("--nonsense", 2, "no such option: --nonsense"),
    ("demo --records 5", 2, "greater than or equal to 100"),
    ("mask", 2, "the name of the file to mask is missing"),
    ("mask survey.csv", 2, "--out is missing"),
    ("mask survey.csv --out o", 2, "a recipe file (--recipe) or a mask (--mask)"),
    ("mask survey.csv --out o --recipe r.toml --mask kim_noise", 2, "not both"),
    ("mask survey.csv --out o --mask kim_noise", 2, "--seed-file is missing"),
    ("mask survey.csv --out o --mask kimnoise --seed-file s", 1, "Did you mean 'kim_noise'?"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lamda2=1", 1, "Did you mean 'lambda2'?"),
    (
        "mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2=-1",
        1,
        "at least 0 and at most 1e+06; got -1",
    ),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2=x", 1, "got 'x'"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set lambda2", 2, "--set takes NAME=VALUE"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --set columns=salry", 1, "Did you mean 'salary'?"),
    ("mask survey.csv --out o --mask kim_noise --seed-file o/s", 1, "kept apart from what is published"),
    ("mask survey.csv --out . --mask kim_noise --seed-file ../s --replace", 1, "the original, survey.csv, lies in ."),
    ("mask survey.csv --out o --mask kim_noise --seed-from survey.csv", 1, "not a seed file of sfumato"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --form xyz", 1, "form 'xyz' is not in the list"),
    ("mask survey.csv --out o --mask kim_noise --seed-file s --engine spark", 2, "not one of 'memory', 'duckdb'"),
    ("mask survey.csv --out o --recipe no.toml --seed-file s", 1, "there is no recipe file at no.toml."),
    ("mask survey.csv --out o --recipe release --seed-file s", 1, "release is a folder"),
    (
        "mask survey.csv --out o --recipe release/masked.parquet --seed-file s",
        1,
        "release/masked.parquet cannot be read as a recipe",
    ),
    (
        "mask survey.csv --out o --recipe schema.toml --seed-file s",
        1,
        "schema.toml: a recipe file holds one [[step]] table",
    ),
    (
        "mask survey.csv --out o --mask kim_noise --seed-file s --schema no.toml",
        1,
        "there is no schema file at no.toml",
    ),
    ("mask survey.csv --out seed.toml --mask kim_noise --seed-file s", 1, "seed.toml is a file"),
    ("risk", 2, "a file is needed"),
    ("risk survey.csv --align rows", 2, "it needs two files"),
    ("risk survey.csv --set k=3", 2, "name it with --measure"),
    ("risk survey.csv --keys age,regoin", 1, "Did you mean 'region'?"),
    ("risk survey.csv --measure k_anonymity --set k=1", 1, "a whole number of at least 2"),
    ("risk survey.csv --measure k_anonymity --column age", 2, "does not look at single columns"),
    ("risk survey.csv --precision age", 2, "--precision takes NAME=VALUE"),
    ("risk survey.csv --precision age=wide", 1, "must be a number above 0"),
    ("risk survey.csv --chart r.pdf", 1, "drawn as .svg or .png"),
    ("risk survey.csv release/masked.csv --align region", 1, "cannot align the files"),
    ("risk survey.csv release/masked.csv --align rows --column salry", 1, "Did you mean 'salary'?"),
    ("risk survey.csv release/masked.csv --align rows --column region", 1, "where numbers are needed"),
    ("risk survey.csv release/masked.csv --align rows --measure guess", 1, "not in the list of risk measures"),
    ("risk survey.csv release/masked.csv --align rows --column salary --set low=2", 1, "at least 0 and at most 1"),
    ("risk survey.csv release/masked.csv --align rows --strategy clever", 2, "not one of 'naive', 'bayes'"),
    ("risk survey.csv release/masked.csv --align rows --strategy naive --knows age", 2, "would change nothing"),
    ("risk survey.csv release/masked.csv --align rows --match-probability 3", 2, "less than or equal to 1"),
    ("utility survey.csv", 2, "two files are needed: the original, then the masked one"),
    ("utility survey.csv release/masked.csv --by region", 2, "name one with --measure or --estimator"),
    ("utility survey.csv release/masked.csv --measure helinger", 1, "Did you mean 'hellinger'?"),
    ("utility survey.csv release/masked.csv --measure hellinger;ovr=age", 1, "Did you mean 'over'?"),
    ("utility survey.csv release/masked.csv --measure il1s", 2, "say with --align which masked record is whose"),
    ("utility survey.csv release/masked.csv --measure interval_overlap", 1, "interval_overlap needs formula"),
    ("utility survey.csv release/masked.csv --measure hellinger --by regin", 1, "Did you mean 'region'?"),
    ("utility survey.csv release/masked.csv --chart u.pdf", 1, "drawn as .svg or .png"),
    ("utility --list --measure il1", 1, "Did you mean 'il1s'?"),
    ("utility --list --measure il1s --measure pmse", 2, "give --measure once"),
    ("utility survey.csv release/masked.csv --estimator salry", 1, "Did you mean 'salary'?"),
    ("utility survey.csv release/masked.csv --estimator teacher_id", 1, "where numbers are needed"),
    (
        "utility survey.csv release/masked.csv --estimator salary~age+sex",
        1,
        "Name one after a semicolon: 'salary~age+sex; age'",
    ),
    ("map survey.csv --mask kim_noise --risk salary --utility salary", 2, "missing option '--over'"),
    ("map survey.csv --mask kim_noise --over lambda --risk salary --utility salary", 1, "is not in the recipe"),
    ("map survey.csv --mask kim_noise --over columns=1 --risk salary --utility salary", 1, "is not a number"),
    (
        "map survey.csv --mask kim_noise --over lambda2=1:2 --risk salary --utility salary",
        1,
        "neither a range LOW:HIGH:COUNT",
    ),
    ("map survey.csv --mask kim_noise --over lambda2=0:1:5 --risk salary --utility salary", 1, "must start above 0"),
    ("map survey.csv --mask kim_noise --over lambda2=1:0.1:5 --risk salary --utility salary", 1, "LOW below HIGH"),
    ("map survey.csv --mask kim_noise --over lambda2=-1 --risk salary --utility salary", 1, "at least 0"),
    ("map survey.csv --mask kim_noise --over lambda2 --over lambda2 --risk salary --utility salary", 1, "twice"),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-risk 1 --max-error 2",
        2,
        "not both",
    ),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-error -5",
        1,
        "a number above 0",
    ),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --max-risk age=1",
        1,
        "those of salary",
    ),
    ("map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --replications 1", 1, "at least 2"),
    (
        "map survey.csv --mask kim_noise --over lambda2 --risk salary --utility salary --chart m.jpg",
        1,
        "drawn as .svg or .png",
    ),
    ("papers --paper ru", 1, "paper 'ru' is not in the list of papers"),
    ("papers --status done", 2, "not one of 'built', 'planned'"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_mistake_is_told_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, words: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(p for p in folder.rglob("*"))
    result = run(*line.split())
    told = [part for part in result.stderr.splitlines() if part.startswith("sfumato: ")]
    assert (result.exit_code, len(told)) == (code, 1), result.stderr
    assert words in told[0]
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert sorted(p for p in folder.rglob("*")) == before  # nothing was written


def test_json_is_not_printed_for_an_error(files: tuple[Path, Path, Path]) -> None:
    result = run("risk", *files[:2], "--align", "rows", "--column", "salry", "--json")
    assert (result.exit_code, result.stdout) == (1, "")


def broken(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def read(*args: object, **options: object) -> None:
        address = "12 Rosewood Lane"  # noqa: F841 - a local variable, which a rich traceback would show
        raise error

    monkeypatch.setattr("sfumato.data.microdata.Microdata.read", read)


def test_an_unexpected_error_names_its_type_and_quotes_nothing(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]
) -> None:
    broken(monkeypatch, ValueError("could not convert '12 Rosewood Lane'"))
    result = run("schema", files[0])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "an unexpected ValueError" in result.stderr
    assert "--debug" in result.stderr
    assert "Rosewood" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("first", [True, False], ids=["before the command", "after it"])
def test_debug_shows_the_traceback_without_local_variables(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path], first: bool
) -> None:
    broken(monkeypatch, ValueError("a column is odd"))
    args: tuple[object, ...] = ("--debug", "schema", files[0]) if first else ("schema", files[0], "--debug")
    result = run(*args)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "ValueError: a column is odd" in result.stderr
    assert not re.search(r"address\s*=\s*'12 Rosewood Lane'\s*[│|]", result.stderr)
    assert "locals" not in result.stderr
    assert "read it before you send it" in result.stderr


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]) -> None:
    broken(monkeypatch, KeyboardInterrupt())
    result = run("schema", files[0])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "sfumato: stopped.\n")


def test_a_refusal_of_the_operating_system_is_told(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]
) -> None:
    broken(monkeypatch, PermissionError(13, "Permission denied", "survey.csv"))
    assert run("schema", files[0]).stderr == "sfumato: the operating system refused: permission denied (survey.csv).\n"
    broken(monkeypatch, MemoryError())
    assert "memory of this machine does not suffice" in run("schema", files[0]).stderr


EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J\r\u202e\x08"
"""Sets the title of a terminal, its colour, wipes it, goes back, and turns the writing round."""
UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_escape_codes_of_files_columns_and_options_never_reach_the_terminal(tmp_path: Path) -> None:
    data = tmp_path / "evil\x1b[2J.csv"
    data.write_text(f"age,{EVIL.replace(chr(13), '')}\n" + "".join(f"{i % 7},v{i % 3}\n" for i in range(40)), "utf-8")
    for args in (("schema", data), ("schema", tmp_path / "no\x1b[31m.csv"), ("schema", data, "--\x1b[31m"), ("\x1b[31m",),
                 ("risk", data, "--keys", f"age,{EVIL}"), ("mask", data, "--out", tmp_path / EVIL, "--mask", EVIL),
                 ("schema", tmp_path / "no\x1b[31m.csv", "--debug")):  # fmt: skip
        done = run(*args)
        assert UNSAFE.search(done.stdout + done.stderr) is None, args
        assert any(
            word in done.stdout + done.stderr for word in ("red", "\u241b", r"\x1b")
        )  # as we show it, or click does
    told = run("schema", data, "--json")
    assert UNSAFE.search(told.stdout) is None
    assert any("\x1b" in name for name in _texts(json.loads(told.stdout)))  # a machine gets the name as it is


def _texts(part: object) -> list[str]:
    if isinstance(part, dict):
        return [t for k, v in part.items() for t in (k, *_texts(v))]
    if isinstance(part, list):
        return [t for v in part for t in _texts(v)]
    return [part] if isinstance(part, str) else []


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_whatever_a_screen_prints_has_no_control_character_of_the_data(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    out, err = stream(), stream()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    screen = Screen()
    screen.say(f"Wrote {EVIL}.")
    screen.note(EVIL)
    screen.table((f"column {EVIL}", "n"), [(EVIL, 1), ("plain", 2)], (1,))
    screen.described(("a", "b"), [(EVIL, 1)], [EVIL])
    screen.set_lines(EVIL)
    assert UNSAFE.search(re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())) is None  # rich may set letters bold itself
    assert UNSAFE.search(re.sub(r"\x1b\[[0-9;]*m", "", err.getvalue())) is None
    assert "\x1b[31m" not in out.getvalue() + err.getvalue()
    Screen(as_json=True).answer({"name": EVIL})
    assert '"name": "\\u001b]0;owned' in out.getvalue()


def test_only_the_screen_prints() -> None:
    folder = Path(sfumato.cli.__file__).parent
    own = {"console.py"}
    others = [p.name for p in sorted(folder.rglob("*.py")) if p.name not in own and _prints(p.read_text("utf-8"))]
    assert others == []


def _prints(code: str) -> bool:
    plain = code.replace('print(f"sfumato {VERSION}")', "")
    return (
        re.search(r"(?<![\w.])(print|typer\.echo|typer\.secho)\(|traceback\.print|sys\.std(out|err)\.write", plain)
        is not None
    )
