"""A vault on a Spark cluster of two executors, local-cluster[2,1,1024]: the bytes of DuckDB, and only cells come to the driver.

20,000 records are frozen and asked about on both engines under the policy hardened. The executors are processes of their own,
with 1 GB each, and are told where sfumato is. Needs pyspark and Java 17. Seconds are of the wall clock, and not judged: a
question to Spark takes some tenths of a second for each pass over the records, however few they are. A ratio above 1 is an
answer that differs from DuckDB's, fewer than two executors that worked, or more rows at the driver than a table has cells.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.files import within_limits

RECORDS = 20_000
CLUSTER = "local-cluster[2,1,1024]"
CELLS = 65 * 21
"""Rows of the largest aggregate: a grid of 64 bins and missing, by state and in total."""


def run() -> dict[str, float]:
    from sfumato import Microdata
    from sfumato.datasets.analysis_survey import coarse_cutpoints, survey20k
    from sfumato.mas.vault import Vault
    from sfumato.schema import Attribute, Role, Schema

    folder = Path(tempfile.mkdtemp(prefix="sfumato-cluster-"))
    people = survey20k(RECORDS)
    frame = people.to_native().assign(person=range(RECORDS))
    schema = Schema((*people.schema, Attribute("person", role=Role.IDENTIFIER)))
    spark = session(folder)
    try:
        spark.createDataFrame(frame).repartition(4).write.parquet(str(folder / "people"))
        for name in ("duckdb", "spark"):
            Vault.create(folder / name)
        shutil.copy(folder / "duckdb" / "secret.toml", folder / "spark")
        result: dict[str, float] = {}
        vaults = [Vault.open(folder / name, spark=spark) for name in ("duckdb", "spark")]
        for vault, data in zip(vaults, (frame, spark.read.parquet(str(folder / "people"))), strict=True):
            start = time.perf_counter()
            vault.freeze("survey", Microdata(data, schema), coarse_cutpoints(), identity="person")
            result[f"wall s, freeze, {vault.folder.name}"] = time.perf_counter() - start
        result |= _answers(*vaults)
        result["executors that worked"] = found = float(_executors(spark))
        result["ratio, executors"] = 2 / max(found, 0.5)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return result


def session(folder: Path) -> Any:
    """Return a session on a cluster of two executors; each finds sfumato by PYTHONPATH."""
    import pyspark
    from pyspark.sql import SparkSession

    import sfumato

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": str(Path(sfumato.__file__).parent.parent),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(CLUSTER).appName("sfumato")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def _answers(here: Any, there: Any) -> dict[str, float]:
    """Ask both vaults the same."""
    from pyspark.sql.classic.dataframe import DataFrame

    from sfumato.mas.analyses import OLS, Correlation, CrossTab, Histogram, Logistic, Multinomial, Quantiles, Residuals

    taken = [0]

    def watched(plain: Callable[..., Any]) -> Callable[..., Any]:
        def way_out(*given: Any, **named: Any) -> Any:
            found = plain(*given, **named)
            taken.append(len(found))
            return found

        return way_out

    for way in ("collect", "toArrow", "toPandas"):
        setattr(DataFrame, way, watched(getattr(DataFrame, way)))
    analyses = (
        CrossTab(("sex", "race")), CrossTab(("state", "disability"), of="income", weighted=True),
        Quantiles("income", by=("state",)), Histogram("age"), Correlation(("age", "income"), weighted=True),
        OLS("income ~ age * sex + race", errors="hc1"), Logistic("disability ~ age + sex"),
        Multinomial("race ~ age"), Residuals("income ~ age"),
    )  # fmt: skip
    policy = here.policy.with_(accounts=here.policy.accounts.with_(user=100, everybody=100), per_minute=None)
    result: dict[str, float] = {}
    different = 0
    for i, analysis in enumerate(analyses, 1):
        start = time.perf_counter()
        found = there.ask("survey", None, analysis, policy)
        result[f"wall s, {i}: {analysis.name}"] = time.perf_counter() - start
        assert found, str(found)
        different += found.to_bytes() != here.ask("survey", None, analysis, policy).to_bytes()
    result["answers that differ from DuckDB's"] = float(different)
    result["ratio, answers"] = 2.0 * different
    result["most rows at the driver"] = float(max(taken))
    result["ratio, rows at the driver"] = max(taken) / CELLS
    return result


def _executors(spark: Any) -> int:
    """Return how many processes work for Python on the executors, none of them this one."""

    def process(batches: Any) -> Any:
        import time as clock

        import pyarrow as pa

        for _ in batches:
            clock.sleep(0.5)  # so that no executor does all of it
        yield pa.RecordBatch.from_pydict({"name": [os.environ.get("SPARK_EXECUTOR_DIRS", "")]})

    rows = spark.range(8, numPartitions=8).mapInArrow(process, "name string").collect()
    return len({row["name"] for row in rows} - {""})


def holds(result: dict[str, float]) -> bool:
    return within_limits(result)
