"""Packages that import what they offer when it is first asked for, so that importing them stays light."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = ["LazyModule", "csgraph", "highspy", "lazy_names", "linalg", "optimize", "pa", "pc", "pd", "special", "stats"]


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    The names stand once, where the type checker reads them: in the imports under ``if TYPE_CHECKING:`` of the package's
    own `__init__.py`. Its modules can be reached as attributes, too: ``sfumato.masks.MDAV``.
    """
    homes = _homes(file)
    folder = Path(file).parent

    def get(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(homes[name]), name)
        if (
            name.isidentifier()
            and not name.startswith("_")
            and ((folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file())
        ):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted(homes), sorted(homes)


@cache
def _homes(file: str) -> dict[str, str]:
    """Return the module that each name of a package comes from."""
    tree = ast.parse(Path(file).read_text("utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {
        alias.name: node.module
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


class LazyModule:
    """A module that is imported when one of its names is first looked at: ``pa = LazyModule("pyarrow")``.

    The type checker reads the plain import, under ``if TYPE_CHECKING:``.
    """

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


# Libraries that take long to import, in one place: `from sfumato.lazy import pd, special`.
if TYPE_CHECKING:
    import highspy
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    from scipy import linalg, optimize, special, stats
    from scipy.sparse import csgraph
else:
    pd, pa, pc = LazyModule("pandas"), LazyModule("pyarrow"), LazyModule("pyarrow.compute")
    highspy, csgraph = LazyModule("highspy"), LazyModule("scipy.sparse.csgraph")
    linalg, optimize = LazyModule("scipy.linalg"), LazyModule("scipy.optimize")
    special, stats = LazyModule("scipy.special"), LazyModule("scipy.stats")
