"""Fixtures that every test may ask for."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["cpu_times"]
pytest.register_assert_rewrite("board_reports", "commands", "contract_cases", "file_values")  # helpers that assert

# No clock: the first call of a kernel compiles it, and the machine may have other work. The examples are the same in every
# run, so that one that fails is not found by somebody else's change; look for new ones with `--hypothesis-profile explore`.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("sfumato", settings.get_profile("explore"), derandomize=True)
settings.load_profile("sfumato")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put Spark's tests first: a worker of `-n 2 --dist worksteal` begins with the first half, so one Java serves them all."""
    items.sort(key=lambda item: not _needs_spark(item))


def _needs_spark(item: pytest.Item) -> bool:
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return "spark" in getattr(item, "fixturenames", ()) or any(
        isinstance(v, str) and "spark" in v.lower() for v in values
    )


def pytest_collection_finish() -> None:
    gc.freeze()  # tens of thousands of tests live to the end: no need to look through them again and again


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # what is left is cleared away, or DuckDB would call it a leak


_SECRETS: list[Iterator[bytes]] = []
"""The secrets of what is running, innermost last: a test, or a fixture that is being set up."""


@contextmanager
def _secrets_of(place: str) -> Generator[None]:
    _SECRETS.append(hashlib.sha256(f"{place} {i}".encode()).digest() for i in itertools.count())
    try:
        yield
    finally:
        _SECRETS.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> Generator[None]:
    with _secrets_of(f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with _secrets_of(item.nodeid):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def known_secrets() -> Iterator[None]:
    """`Draws.secret()` is random, but the same in every run, whichever tests ran before: a failure can be seen again."""
    from sfumato.contract import draws

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "secrets", SimpleNamespace(token_bytes=lambda _size: next(_SECRETS[-1])))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small Spark on this machine; tests that ask for it are skipped where there is no Java or no pyspark."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install 'sfumato[spark]'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java 17 or later, and there is no java on the path and no JAVA_HOME")
    import sfumato

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(sfumato.__file__).parent.parent)  # where the workers find sfumato
    here = str(Path(__file__).parent)  # and their parent
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, here, os.environ.get("PYTHONPATH")]))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life: start fast
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": "spark_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("sfumato tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
