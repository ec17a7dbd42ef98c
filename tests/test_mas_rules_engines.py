"""Rules on Spark decide what they decide on DuckDB: the same keys, the same noise, the same units."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from mas_cases import asked, random_piece

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Answering, Vault
from sfumato.schema import Attribute, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rules_see_the_same_numbers_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 1_000
    frame = pd.DataFrame({
        "id": [f"p{i}" for i in range(n)], "home": rng.integers(0, 400, n).astype(str), "sex": rng.choice(["F", "M"], n),
        "state": rng.choice(["S1", "S2", "S3"], n, p=[0.6, 0.3, 0.1]), "sick": rng.choice(["no", "yes"], n),
    })  # fmt: skip
    roles = {"id": "identifier", "home": "household", "sick": "confidential"}
    schema = Schema(tuple(Attribute(c, role=roles.get(c, "key"), scale="unordered") for c in frame))
    vaults = []
    for name, data in (("duckdb", frame), ("spark", spark.createDataFrame(frame))):
        (tmp_path / name).mkdir()
        vault = Vault(tmp_path / name, Draws("cases"), Policy.named("hardened"), spark)
        vault.freeze("data", Microdata(data, schema), identity="id")
        vaults.append(vault)
    assert [v.dataset("data").warehouse.name for v in vaults] == ["DuckDB", "Spark"]
    assert vaults[0].dataset("data").combinations(2) == vaults[1].dataset("data").combinations(2)
    levels = {name: sorted(frame[name].unique()) for name in ("sex", "state", "sick")}
    for _ in range(4):
        piece = random_piece(rng, levels)
        policy = vault.policy.without("no_marginal")
        found = [Answering(vault.dataset("data"), asked(vault, piece, policy)) for vault in vaults]
        assert len({str(one.answer()) for one in found}) == 1
        losses = [[(loss.amounts.tolist(), loss.keys) for loss in one.losses] for one in found]
        assert losses[0] == losses[1]
