"""`import sfumato` is light, and every name at the front door leads somewhere."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sfumato
from sfumato.datasets.analysis_survey import coarse_cutpoints, survey20k
from sfumato.mas import Vault
from sfumato.version import VERSION

HEAVY = (
    "numpy", "numba", "scipy", "pandas", "polars", "pyarrow", "duckdb", "altair", "vl_convert", "pyspark", "formulaic", "typer",
    "rich", "narwhals", "fastapi", "jinja2", "pyreadstat", "openpyxl",
)  # fmt: skip


def loaded_after(code: str, folder: Path) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running some code."""
    ask = "import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ask}"], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_sfumato_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_after("import sfumato; sfumato.__version__; dir(sfumato)", tmp_path).isdisjoint(HEAVY)


def test_errors_and_schemas_need_no_engine(tmp_path: Path) -> None:
    loaded = loaded_after(
        "from sfumato import Schema, Attribute, SfumatoError; Schema((Attribute('a'),)).to_toml()", tmp_path
    )
    assert loaded.isdisjoint(
        {"numba", "scipy", "pandas", "pyarrow", "duckdb", "altair", "pyspark", "formulaic", "typer"}
    )


def test_masks_and_recipes_do_not_wait_for_the_compiler_the_charts_or_other_engines(tmp_path: Path) -> None:
    loaded = loaded_after("from sfumato import KimNoise, TopCode; (KimNoise() >> TopCode()).to_toml()", tmp_path)
    assert loaded.isdisjoint(
        {"numba", "altair", "vl_convert", "pyspark", "formulaic", "typer", "rich", "fastapi", "duckdb"}
    )


def test_measures_do_not_wait_for_the_compiler_the_charts_or_other_engines(tmp_path: Path) -> None:
    loaded = loaded_after(
        "import sfumato.risk; sfumato.risk.KAnonymity().label(), sfumato.risk.CAP('x').variant", tmp_path
    )
    assert loaded.isdisjoint(
        {"numba", "altair", "vl_convert", "pyspark", "formulaic", "typer", "rich", "fastapi", "duckdb", "pandas"}
    )


def test_utilities_and_the_decision_model_do_not_wait_for_the_compiler_either(tmp_path: Path) -> None:
    loaded = loaded_after("import sfumato.papers, sfumato.utility; sfumato.utility.PMSE().label()", tmp_path)
    assert loaded.isdisjoint(
        {"numba", "altair", "vl_convert", "pyspark", "formulaic", "typer", "rich", "fastapi", "duckdb", "pandas"}
    )


def test_a_question_to_a_vault_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault")
    vault.freeze("survey", survey20k(5_000), coarse_cutpoints())
    loaded = loaded_after(
        "from sfumato.mas import CrossTab, Vault; "
        "assert Vault.open('vault').ask('survey', {'sex': 'F'}, CrossTab(('race',)))",
        tmp_path,
    )
    assert loaded.isdisjoint(
        {"numba", "altair", "vl_convert", "pyspark", "formulaic", "typer", "rich", "fastapi", "pandas"}
    )


@pytest.mark.parametrize("name", sorted(sfumato.__all__))
def test_every_name_at_the_front_door_resolves_and_is_described(name: str) -> None:
    thing = getattr(sfumato, name)
    if name == "__version__":
        assert thing == VERSION
        return
    assert inspect.getdoc(thing)
    assert thing.__name__ == name
    assert thing.__module__.startswith(sfumato._HOMES[name])
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{name} only inherits its description"
    assert not own.startswith(f"{name}("), f"{name} has a signature where its description should be"


def test_the_front_door_lists_its_names() -> None:
    assert set(sfumato.__all__) <= set(dir(sfumato))
    assert len(sfumato.__all__) == len(set(sfumato.__all__))
    assert set(sfumato.__all__) == {"__version__", *sfumato._HOMES}


def test_star_import_gives_the_front_door(tmp_path: Path) -> None:
    code = "from sfumato import *; import sfumato; assert set(sfumato.__all__) <= set(globals())"
    assert "numpy" in loaded_after(code, tmp_path)


def test_the_type_checker_is_told_the_same_names_as_the_reader() -> None:
    tree = ast.parse(Path(sfumato.__file__).read_text("utf-8"))
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    told = {
        (alias.asname or alias.name): node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == sfumato._HOMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'sfumato' has no attribute 'KimNois'"):
        _ = sfumato.KimNois
    assert not hasattr(sfumato, "__path_to_nowhere__")


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
    dynamic = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    assert project["project"].get("version", dynamic) in (dynamic, VERSION)
    assert dynamic == "sfumato.version.VERSION"
    assert sfumato.__version__ == VERSION
