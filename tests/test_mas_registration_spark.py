"""Data in Spark: registered, frozen and asked there, with the answers that DuckDB gives; not one row comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.data.spark_engine import SparkEngine
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

N = 1_500
SCHEMA = Schema((
    Attribute("person", role="identifier"), Attribute("sex", role="key", scale="unordered"),
    Attribute("state", role="key", scale="unordered"), Attribute("income", role="confidential"),
    Attribute("sick", role="confidential", scale="unordered"), Attribute("weight", role="weight"),
))  # fmt: skip


def people() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({
        "person": np.arange(N), "sex": rng.choice(["F", "M"], N), "state": rng.choice(["S1", "S2", "S3"], N),
        "income": rng.lognormal(10, 1, N).round(2), "sick": rng.choice(["no", "yes"], N), "weight": rng.uniform(1, 9, N),
    })  # fmt: skip


def test_spark_gives_the_bytes_of_duckdb_and_lets_no_row_out(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = people()
    distributed = Microdata(spark.createDataFrame(frame), SCHEMA)
    taken: list[str] = []
    for way in ("collect", "batches"):
        monkeypatch.setattr(SparkEngine, way, lambda *_, way=way: taken.append(way))
    there = Vault.create(tmp_path / "v", spark=spark)
    with pytest.raises(ParameterError, match="name it as identity"):
        there.add("people", distributed)
    recodes = [LevelRecode("part", "state", {"rest": ["S2", "S3"]})]
    there.add("people", distributed, identity="person", recodes=recodes)
    shown = there.cutpoints("people", "income", "minimum", d=200)
    assert abs(shown.tally.total - N) < 100  # income is confidential: these are counts with noise
    frozen = there.freeze("people")
    assert frozen.warehouse.name == "Spark"
    assert taken == []  # nothing was brought here, row by row
    assert (tmp_path / "v" / "datasets" / "people" / "1").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "v" / "registered" / "people").exists()

    (tmp_path / "d").mkdir()
    here = Vault(tmp_path / "d", there._secret, there.policy)
    here.add("people", frame, SCHEMA, identity="person", recodes=recodes)
    assert here.cutpoints("people", "income", "minimum", d=200).choose("minimum") == shown.choose("minimum")
    edges = {"income": shown.choose("minimum")}
    local = here.freeze("people", confirm=True)
    assert local.frozen_loss == frozen.frozen_loss
    levels = {name: v.levels for name, v in local.variables.items()}
    assert levels == {name: v.levels for name, v in frozen.variables.items()}
    before = frozen.warehouse.crossed
    for analysis in (CrossTab(("state", "sick")), CrossTab(("income", "part"), weighted=True)):
        first, second = there.ask("people", {"sex": "F"}, analysis), here.ask("people", {"sex": "F"}, analysis)
        assert isinstance(first, Answer)
        assert first.to_bytes() == second.to_bytes()
    assert 0 < frozen.warehouse.crossed - before < N / 5  # cells of tables, not records

    again = Vault.open(tmp_path / "v", spark=spark)
    with pytest.raises(DataError, match="nothing new"):  # versions are compared across engines
        again.freeze("people", Microdata(frame, SCHEMA), edges, identity="person", recodes=recodes)
    with pytest.raises(DataError, match="lives in Spark"):
        Vault.open(tmp_path / "v").dataset("people")
