"""`import sfumato` is light, and every name at the front door leads somewhere."""

from __future__ import annotations

import importlib
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

HOME = Path(sfumato.__file__).parent
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
    loaded = loaded_after("from sfumato.masks import KimNoise, TopCode; (KimNoise() >> TopCode()).to_toml()", tmp_path)
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
    assert thing.__module__.startswith("sfumato.")
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{name} only inherits its description"
    assert not own.startswith(f"{name}("), f"{name} has a signature where its description should be"


def test_the_front_door_is_small_and_lists_its_names() -> None:
    assert set(sfumato.__all__) <= {*dir(sfumato), "__version__"}
    assert len(sfumato.__all__) == len(set(sfumato.__all__)) <= 16


PACKAGES = sorted(
    ".".join(("sfumato", *p.parent.relative_to(HOME).parts)) for p in HOME.rglob("__init__.py") if p.parent != HOME
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_lazy_and_offers_what_it_says(package: str, tmp_path: Path) -> None:
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None
        assert not (Path(str(module.__file__)).parent / f"{name}.py").exists(), "a module of the same name hides it"
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing_like_this'"):
        _ = module.nothing_like_this


def test_sub_packages_are_attributes_of_the_front_door(tmp_path: Path) -> None:
    assert loaded_after("import sfumato; sfumato.masks.MDAV", tmp_path) >= {"sfumato"}


@pytest.mark.parametrize(("package", "most"), [("sfumato.tables", 80), ("sfumato.mas", 80), ("sfumato.masks", 5)])
def test_importing_a_package_loads_few_of_our_modules(package: str, most: int, tmp_path: Path) -> None:
    code = f"import sys, {package}; print(sum(m.startswith('sfumato') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert int(done.stdout) < most


def test_star_import_gives_the_front_door(tmp_path: Path) -> None:
    code = "from sfumato import *; import sfumato; assert set(sfumato.__all__) <= set(globals())"
    assert "numpy" in loaded_after(code, tmp_path)


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
