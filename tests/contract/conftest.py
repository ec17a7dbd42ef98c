"""The file of the contract and a release of it, on every engine."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from sfumato.contract import Release
from sfumato.data.microdata import Microdata
from sfumato.testing import DRAWS, RECIPE, SCHEMA, arrow_table, microdata


@pytest.fixture(scope="module")
def data() -> Microdata:
    return microdata()


@pytest.fixture(scope="module")
def release(data: Microdata) -> Release:
    return RECIPE.apply(data, DRAWS)


@pytest.fixture(scope="module")
def data_on_duckdb() -> Microdata:
    connection = duckdb.connect()
    connection.from_arrow(arrow_table()).create("people")
    return Microdata(connection.table("people"), SCHEMA)


@pytest.fixture(scope="module")
def data_on_spark(spark: Any) -> Microdata:
    return Microdata(spark.createDataFrame(arrow_table()), SCHEMA)


@pytest.fixture(scope="module")
def release_on_duckdb(data_on_duckdb: Microdata) -> Release:
    return RECIPE.apply(data_on_duckdb, DRAWS)


@pytest.fixture(scope="module")
def release_on_spark(data_on_spark: Microdata) -> Release:
    return RECIPE.apply(data_on_spark, DRAWS)
