"""The layers of the house: a module imports only from lower ones, and each tool has its one place.

Every module is parsed, so that imports inside functions and those for the type checker count as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

import sfumato

HOME = Path(sfumato.__file__).parent

ORDER = (
    ("errors", "version", "files", "toml", "lazy", "typing"),
    ("schema",),
    ("kernels",),
    ("formats",),
    ("data",),
    ("contract",),
    ("charts",),
    ("masks",),
    ("attacks",),
    ("risk",),
    ("utility",),
    ("maps",),
    ("tables",),
    ("mas",),
    ("room",),
    ("reports",),
    ("datasets",),
    ("papers",),
    ("testing",),
    ("cli",),
    ("__init__", "__main__"),
)
"""Lowest first; modules on one line may use each other."""
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

ONLY_IN = {
    "numba": ("kernels",),
    "duckdb": ("data",),
    "pyspark": ("data",),
    "py4j": ("data",),
    "pyarrow": ("data", "formats", "testing"),
    "pyreadstat": ("formats",),
    "openpyxl": ("formats",),
    "altair": ("charts", "reports"),
    "vl_convert": ("charts", "reports"),
    "typer": ("cli",),
    "rich": ("cli",),
    "optuna": ("maps",),
    "ortools": ("tables",),
    "weasyprint": ("reports",),
    "clarabel": ("tables",),
    "highspy": ("tables",),
}
LAZY = {"highspy": "highspy", "pa": "pyarrow", "pc": "pyarrow.compute", "pd": "pandas"}
"""Tools that are imported through `sfumato.lazy`."""
FOR_TYPES_ALONE = {"altair": ("cli", "contract", "maps", "mas", "masks", "papers", "risk", "tables", "utility")}
"""Where a package may also be named for the type checker."""

MODULES = sorted(HOME.rglob("*.py"))


def part_of(path: Path) -> str:
    """Return the part of the house that a file belongs to: its top folder, or its own name."""
    first = path.relative_to(HOME).parts[0]
    return first.removesuffix(".py")


def module_name(path: Path) -> str:
    parts = ("sfumato", *path.relative_to(HOME).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the calls, the imports and the conditions of a file."""
    return tuple(n for n in ast.walk(tree(path)) if isinstance(n, ast.Call | ast.Import | ast.ImportFrom | ast.If))


def name_of(node: ast.expr) -> str:
    """Return a name with its dots; what is before a dot and is no name is a question mark."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def type_checking_nodes(nodes: tuple[ast.AST, ...]) -> set[int]:
    """Return what stands under `if TYPE_CHECKING:`."""
    tests = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    blocks = [n for n in nodes if isinstance(n, ast.If) and name_of(n.test) in tests]
    return {id(inner) for block in blocks for statement in block.body for inner in ast.walk(statement)}


@cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Return every module that a file imports, as a full name, and whether for types alone.

    `from sfumato import x` is an import of `sfumato.x`; `importlib.import_module("x")` is an import of x.
    """
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    nodes, here = nodes_of(path), module_name(path)
    types = type_checking_nodes(nodes)
    package = here if path.name == "__init__.py" else here.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            if base == "sfumato.lazy":
                yield from ((LAZY.get(alias.name, base), id(node) in types) for alias in node.names)
            elif base == "sfumato":
                yield from ((f"sfumato.{alias.name}", id(node) in types) for alias in node.names)
            else:
                yield base, id(node) in types
        elif imports_by_name(node) and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value), False


def imports_by_name(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether this is `importlib.import_module(...)` or the like."""
    return isinstance(node, ast.Call) and name_of(node.func).split(".")[-1] in ("import_module", "__import__")


def inner_part(module: str) -> str | None:
    """Return the part of the house that a module name belongs to; None for other people's modules."""
    head, _, rest = module.partition(".")
    if head != "sfumato":
        return None
    first = rest.split(".")[0] or "__init__"
    return first if first in RANK or (HOME / first).exists() or (HOME / f"{first}.py").exists() else "__init__"


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names that a file calls."""
    return ((name_of(node.func), node) for node in nodes_of(path) if isinstance(node, ast.Call))


def where(path: Path, called: str, node: ast.Call) -> str:
    return f"{module_name(path)}, line {node.lineno}: {called}"


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 50
    assert {"sfumato.contract.mask", "sfumato.kernels.keyed_numbers", "sfumato"} <= set(map(module_name, MODULES))


def test_every_module_has_its_place_in_the_order() -> None:
    for path in MODULES:
        assert part_of(path) in RANK, f"{module_name(path)}: say in tests/test_layers.py which layer it belongs to"


def test_imports_go_downward_only() -> None:
    for path in MODULES:
        for module, _ in imports(path):
            other = inner_part(module)
            assert other is None or RANK[other] <= RANK[part_of(path)], (
                f"{module_name(path)} imports {module}, which is in a higher layer"
            )


def test_kernels_import_nothing_of_sfumato_but_kernels_and_names_of_types() -> None:
    for path in MODULES:
        if part_of(path) == "kernels":
            known = {None, "kernels", "lazy", "typing"}
            assert {inner_part(module) for module, _ in imports(path)} <= known, module_name(path)


def test_each_tool_is_used_in_its_own_place() -> None:
    for path in MODULES:
        mine = part_of(path)
        for module, types_alone in imports(path):
            tool = module.split(".")[0]
            allowed = (*ONLY_IN.get(tool, (mine,)), "lazy")
            if types_alone:
                allowed = (*allowed, *FOR_TYPES_ALONE.get(tool, ()))
            assert mine in allowed, f"{module_name(path)} imports {tool}, which belongs to {' and '.join(allowed)}"


def test_nothing_is_printed_outside_the_command_line() -> None:
    for path in MODULES:
        if part_of(path) not in ("cli", "__main__") and path.name != "__main__.py":
            for called, node in calls(path):
                assert called not in ("print", "pprint", "sys.stdout.write", "sys.stderr.write"), where(
                    path, called, node
                )


def test_nothing_is_evaluated() -> None:
    for path in MODULES:
        for called, node in calls(path):
            assert called not in ("eval", "exec", "compile", "builtins.eval", "builtins.exec", "os.system"), where(
                path, called, node
            )


def test_modules_named_in_variables_are_imported_in_one_place_only() -> None:
    """Names that packages offer lazily; the layers cannot be read off there. The registry reads entry points."""
    found = {
        module_name(path)
        for path in MODULES
        for node in nodes_of(path)
        if imports_by_name(node) and not isinstance(node.args[0], ast.Constant)
    }
    assert found <= {"sfumato.lazy"}


def test_nothing_reads_a_global_seed() -> None:
    """Randomness comes in as Draws: no `np.random.normal()`, no `random.random()`, no generator without a seed."""
    for path in MODULES:
        for called, node in calls(path):
            if called.startswith(("np.random.", "numpy.random.")):
                assert called.rpartition(".")[2] in ("Generator", "Philox", "default_rng"), where(path, called, node)
                assert node.args or node.keywords, where(path, called, node)
            assert not called.startswith("random."), where(path, called, node)


def test_the_reader_of_imports_sees_every_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    file = tmp_path / "kernels" / "bad.py"
    file.write_text(
        "import numba.core as n\n"
        "from sfumato import KimNoise\n"
        "from sfumato.masks import noise\n"
        "from . import chacha\n"
        "from .. import contract\n"
        "from ..maps import choose\n"
        "if TYPE_CHECKING:\n    import altair\n"
        "def f():\n    import duckdb\n    importlib.import_module('sfumato.cli')\n"
    )
    monkeypatch.setattr(f"{__name__}.HOME", tmp_path)
    assert set(imports(file)) == {
        ("numba.core", False), ("sfumato.KimNoise", False), ("sfumato.masks", False), ("sfumato.kernels", False),
        ("sfumato.contract", False), ("sfumato.maps", False), ("altair", True), ("duckdb", False), ("sfumato.cli", False),
    }  # fmt: skip
