"""The shape of the house: few rooms, each with one subject and a name that says it."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter, defaultdict
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
from test_layers import MODULES, module_name, nodes_of, tree, type_checking_nodes

import sfumato
from sfumato.lazy import _homes

HOME = Path(sfumato.__file__).parent
MOST_MODULES = 30
LEAST_LINES = 120
MOST_LINES = 60
NAMES = {module_name(path) for path in MODULES}
EVERYDAY = {
    "about", "answering", "around", "asked", "asking", "beside", "choosing", "dropping", "explaining", "found", "freezing",
    "given", "kept", "known", "learned", "left_out", "made", "making", "people", "running", "searched", "standing", "stored",
    "swept", "tallying", "things", "told", "tried", "usual", "wishes", "words", "world",
}  # fmt: skip
"""Names that do not tell what a module is about."""


@cache
def classes_of(path: Path) -> tuple[ast.ClassDef, ...]:
    return tuple(n for n in definitions_of(path) if isinstance(n, ast.ClassDef))


@cache
def definitions_of(path: Path) -> tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return tuple(
        n for n in ast.walk(tree(path)) if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )


def home_of(module: str, name: str) -> str | None:
    """Return the module of ours that `from module import name` loads; a package leads on to the module that it offers."""
    if f"{module}.{name}" in NAMES:
        return f"{module}.{name}"
    door = HOME.parent / Path(*module.split(".")) / "__init__.py"
    if door.exists() and name in (homes := _homes(str(door))):
        return home_of(homes[name], name)
    return module if module in NAMES else None


def edges(*, types: bool = False) -> dict[str, set[str]]:
    """Return which of our modules each of them imports, wherever in the file the import stands."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        nodes = nodes_of(path)
        skipped = set() if types else type_checking_nodes(nodes)
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
                homes = {home_of(node.module, alias.name) for alias in node.names}
                found[module_name(path)] |= {h for h in homes if h is not None and h != module_name(path)}
            elif isinstance(node, ast.Import) and id(node) not in skipped:
                found[module_name(path)] |= {alias.name for alias in node.names} & NAMES
    return found


def test_a_package_has_at_most_thirty_modules() -> None:
    per = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(folder): n for folder, n in per.items() if n > MOST_MODULES} == {}


def test_a_small_module_serves_more_than_one_other() -> None:
    """Otherwise it belongs to the one that it serves. Commands, and what a package or an entry point offers, stand alone."""
    users = defaultdict(set)
    for user, used in edges(types=True).items():
        for module in used:
            users[module].add(user)
    offered = {point.value for point in distribution("sfumato").entry_points}
    offered |= {home for door in HOME.rglob("__init__.py") for home in _homes(str(door)).values()}
    small = {
        module_name(path)
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py")
        and len(path.read_text("utf-8").splitlines()) < LEAST_LINES
        and len(users[module_name(path)]) == 1
    }
    assert {m for m in small - offered if not m.startswith("sfumato.cli.")} == set()


def test_no_module_is_named_by_a_participle_or_an_everyday_word() -> None:
    assert {name for name in NAMES if name.rpartition(".")[2] in EVERYDAY} == set()


def test_a_class_name_exists_once() -> None:
    found = Counter(n.name for path in MODULES for n in classes_of(path))
    assert {name for name, n in found.items() if n > 1} == set()


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(re.search(r"\bn?jit\b", ast.unparse(decorator)) for decorator in function.decorator_list)


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0] if ast.get_docstring(function) is not None else None
    said = 0 if first is None else (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - said


def test_a_function_without_its_docstring_has_at_most_sixty_lines() -> None:
    """Kernels apart, which numba compiles as a whole."""
    long = {
        f"{module_name(path)} {n.name}"
        for path in MODULES
        for n in definitions_of(path)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and not is_compiled(n)
        if lines_without_docstring(n) > MOST_LINES
    }
    assert long == set()


def test_no_imports_go_round_in_a_circle() -> None:
    graph, order, state = edges(), [], dict.fromkeys(NAMES, "new")

    def visit(module: str) -> None:
        state[module] = "open"
        order.append(module)
        for other in sorted(graph[module]):
            assert state[other] != "open", f"a circle of imports: {' -> '.join([*order[order.index(other) :], other])}"
            if state[other] == "new":
                visit(other)
        order.pop()
        state[module] = "done"

    for module in sorted(NAMES):
        if state[module] == "new":
            visit(module)
    assert set(state.values()) == {"done"}


def test_names_of_types_stand_in_one_place() -> None:
    alias = re.compile(r"^\w+ = NDArray\[np\.(float64|int64|bool_|int32)\]$", re.MULTILINE)
    assert {module_name(p) for p in MODULES if alias.search(p.read_text("utf-8"))} == {"sfumato.typing"}


MOVED = [
    (home, name)
    for line in (Path(__file__).parent.parent / "docs" / "changes.md").read_text("utf-8").splitlines()
    if line.startswith("| `sfumato")
    for home, names in [line.split("|")[2:4]]
    for name in re.findall(r"`(\w+)`(?! \(now)", names)
]


@pytest.mark.parametrize(("home", "name"), MOVED)
def test_every_name_that_moved_is_where_the_page_says(home: str, name: str) -> None:
    assert getattr(importlib.import_module(home.strip(" `")), name) is not None


def test_the_page_on_architecture_names_packages_files_and_functions_that_exist() -> None:
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text("utf-8")
    named = [(f, n) for f, n in re.findall(r"`((?:[a-z_]+/)+\w+\.py)(?: (\w+))?`", page) if not f.startswith("tests/")]
    assert len(named) > 15
    for file, name in named:
        text = (HOME / file).read_text("utf-8")
        assert not name or re.search(rf"(def|class) {name}\b", text), f"{file} has no {name}"
    packages = {p.parent.name for p in HOME.glob("*/__init__.py")}
    assert {p for p in packages if f"`{p}/`" not in page} == set()


def test_a_result_gives_its_data_frame_section_and_chart_by_methods_of_these_names() -> None:
    """`frame()`, `section()` and `chart()`: neither fields nor properties, and not by other names."""
    others = {"to_frame", "data_frame", "as_frame", "to_section", "report", "plot", "to_chart"}
    wrong = set()
    for path in MODULES:
        if module_name(path).startswith("sfumato.cli"):
            continue
        for cls in classes_of(path):
            for node in cls.body:
                if isinstance(node, ast.FunctionDef):
                    is_property = any("property" in ast.unparse(d) for d in node.decorator_list)
                    if node.name in others or (is_property and node.name in ("frame", "section", "chart")):
                        wrong.add(f"{module_name(path)} {cls.name}.{node.name}")
                elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in ("frame", "section", "chart"):
                    wrong.add(f"{module_name(path)} {cls.name}.{ast.unparse(node.target)}")
    assert wrong == set()


def test_no_public_function_is_named_by_a_participle_alone() -> None:
    participles = {
        "told",
        "foretold",
        "made",
        "found",
        "given",
        "said",
        "standing",
        "around",
        "asked",
        "known",
        "tried",
    }
    wrong = {
        f"{module_name(path)} {node.name}"
        for path in MODULES
        if not module_name(path).startswith(("sfumato.charts", "sfumato.mas."))
        for body in [tree(path).body, *(n.body for n in classes_of(path))]
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name in participles
    }
    assert wrong == set()
