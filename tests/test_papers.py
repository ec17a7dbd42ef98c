"""The table of the papers: complete, consistent, and true of the code it names."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from sfumato.papers import PaperRow, papers, parse, rows, to_markdown

ROOT = Path(__file__).resolve().parents[1]
ERRATA = Path("/work/shared/seeds/ERRATA.md")
PREFIX = {"ru_map": "ru-", "matrix_masking": "mm-", "rta": "rta-", "mas": "mas-", "global_risk": "gdr-"}
PAGE_IS_OLD = "docs/papers.md is not what the rows say; run: python -m sfumato.papers > docs/papers.md"

HEAD = 'title = "T"\nauthors = "A"\n'
ROW = HEAD + '[[row]]\nid = "x-1"\nwhere = "(1)"\nkind = "equation"\nsays = "1 = 1"\n'


def resolve(dotted: str) -> object:
    """The object a dotted name stands for: the longest prefix that is a module, then attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(parts[:cut])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module exists, and something it imports is missing
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(f"no part of {dotted!r} can be imported")


def resolves(dotted: str | None) -> bool:
    try:
        return dotted is not None and resolve(dotted) is not None
    except (ImportError, AttributeError):
        return False


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def find(test: str) -> ast.AST | None:
    """The syntax tree of `file::test` or `file::Class::test`, or None where there is none."""
    file, *names = test.split("[")[0].split("::")
    path = ROOT / file
    if not names or not path.is_file():
        return None
    node: ast.AST = parsed(path)
    for name in names:
        inside = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == name]
        if not inside:
            return None
        node = inside[-1]
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def asserts(test: str) -> bool:
    """Whether the named test exists and checks something: an assert, an assert_… call, pytest.raises or a promise."""
    tree = find(test)
    return tree is not None and any(_checks(node) for node in ast.walk(tree))


def _checks(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Assert)
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return called in ("raises", "promise") or called.startswith("assert_")


def built() -> list[PaperRow]:
    return [row for row in rows() if row.status == "built"]


def test_papers_come_in_a_fixed_order() -> None:
    assert [paper.key for paper in papers()] == list(PREFIX)


def test_row_ids_are_unique_over_all_papers() -> None:
    assert [id_ for id_, count in Counter(row.id for row in rows()).items() if count > 1] == []


def test_row_ids_start_with_the_prefix_of_their_paper() -> None:
    assert [row.id for row in rows() if not row.id.startswith(PREFIX[row.paper])] == []


def test_there_are_at_least_a_hundred_rows() -> None:
    assert len(rows()) >= 100


@pytest.mark.parametrize(
    ("key", "numbers"),
    [
        ("ru_map", ["3.1", "3.2", "3.3", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "5.1"]),
        ("matrix_masking", ["3.1", "5.1"]),
        ("mas", ["4.3.1", "4.3.2", "4.3.3", "4.3.4", "4.3.5"]),
        ("global_risk", [f"2.{i}" for i in range(1, 9)] + [f"3.{i}" for i in range(1, 14)]),
    ],
)
def test_every_numbered_equation_has_a_row(key: str, numbers: list[str]) -> None:
    cited = {number for row in rows() if row.paper == key for number in re.findall(r"^equation \((.*?)\)", row.where)}
    assert sorted(cited) == sorted(numbers)


def test_what_a_row_says_is_one_line() -> None:
    assert [row.id for row in rows() if "\n" in row.says or len(row.says) > 200] == []


def test_every_built_row_names_something_that_can_be_imported() -> None:
    assert [(row.id, row.by) for row in built() if not resolves(row.by)] == []


def test_every_built_row_names_tests_that_exist_and_check_something() -> None:
    assert [(row.id, test) for row in built() for test in row.tests if not asserts(test)] == []


def test_rows_that_are_not_built_name_neither_function_nor_test() -> None:
    assert [row.id for row in rows() if row.status != "built" and (row.by or row.tests)] == []


def test_the_page_in_the_docs_is_what_the_rows_say() -> None:
    assert (ROOT / "docs" / "papers.md").read_bytes() == to_markdown().encode("utf-8"), PAGE_IS_OLD


def test_running_the_module_prints_the_page() -> None:
    run = subprocess.run([sys.executable, "-m", "sfumato.papers"], capture_output=True, check=True)
    assert run.stdout == to_markdown().encode("utf-8")


def test_every_line_of_a_table_has_six_columns() -> None:
    lines = [line for line in to_markdown().splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", line)) - 2 for line in lines} == {6}


def test_every_erratum_belongs_to_a_row_and_every_row_cites_a_real_one() -> None:
    if not ERRATA.is_file():
        pytest.skip(f"the list of errata is kept outside the repository, at {ERRATA}")
    listed = set(re.findall(r"^\| (\d+\.\d+) \|", ERRATA.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"0.1", "4.18"} <= listed
    assert {number for row in rows() for number in row.erratum} == listed


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ('status = "done"', "is not one of built, planned, remark"),
        ('status = "built"', "names what implements it"),
        ('status = "built"\nby = "sfumato.papers.rows"', "names what implements it"),
        ('status = "built"\ntests = ["tests/test_papers.py::find"]', "names what implements it"),
        ('status = "planned"\nby = "sfumato.papers.rows"', "carries neither"),
        ('status = "planned"\ntests = ["tests/test_papers.py::find"]', "carries neither"),
        ('status = "planned"\ntest = "tests/test_papers.py"', "unknown key 'test'"),
        ('status = "planned"\nerratum = 0.3', "'erratum' must be a text"),
        ('status = "built"\nby = "sfumato"\ntests = "tests/test_papers.py::find"', "must be a list of texts"),
        ("", "'status' must be a text"),
    ],
)
def test_an_inconsistent_row_is_refused_by_name(extra: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"row x-1: .*{complaint}"):
        parse("x", ROW + extra)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="row x-1: kind 'thought' is not one of"):
        parse("x", ROW.replace("equation", "thought") + 'status = "planned"')


def test_a_consistent_row_is_read_whole() -> None:
    text = ROW + 'status = "built"\nby = "a.b"\ntests = ["t.py::c", "t.py::d"]\nerratum = "0.3, 0.18"'
    row = PaperRow("x-1", "x", "(1)", "equation", "1 = 1", ("0.3", "0.18"), "built", "a.b", ("t.py::c", "t.py::d"))
    assert parse("x", text).rows == (row,)


def test_the_checks_on_built_rows_tell_true_names_from_false_ones() -> None:
    here = "tests/test_papers.py"
    assert resolves("sfumato.papers.Paper.built")
    assert not resolves("sfumato.papers.no_such_name")
    assert not resolves("no_such_package.rows")
    assert asserts(f"{here}::test_there_are_at_least_a_hundred_rows")
    assert asserts(f"{here}::test_an_inconsistent_row_is_refused_by_name[0]")
    assert not asserts(f"{here}::built")
    assert not asserts(f"{here}::no_such_test")
    assert not asserts("tests/no_such_file.py::test")
    assert not asserts(here)
