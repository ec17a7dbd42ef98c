"""A small survey with numbers, gaps and weights for the tests of tables of the analysis system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.mas import Cutpoints
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

EXACT = Policy.open().with_(title="exact")
CUTS = {
    "age": Cutpoints((29, 44, 59, 74), whole=True),
    "income": Cutpoints((10_000.0, 20_000.0, 40_000.0, 80_000.0)),
}


def people(n: int = 4_000, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = np.round(np.exp(rng.normal(10, 0.8, n)), 2)
    income[rng.random(n) < 0.07] = np.nan
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice([f"S{i:02}" for i in range(4)], n),
        "sick": rng.choice(["no", "yes"], n, p=[0.7, 0.3]), "age": rng.integers(18, 90, n).astype(float),
        "income": income, "change": np.round(rng.normal(0.5, 40, n), 1), "weight": np.round(rng.uniform(1, 9, n), 3),
    })  # fmt: skip


def schema() -> Schema:
    roles: dict[str, Any] = dict.fromkeys(("sex", "state", "age"), "key") | {"weight": "weight"}
    categories = ("sex", "state", "sick")
    return Schema(tuple(
        Attribute(c, role=roles.get(c, "confidential"), scale="unordered" if c in categories else "ordered", integer=c == "age")
        for c in people(1)
    ))  # fmt: skip


def vault_of(folder: Path, frame: pd.DataFrame, policy: str | Policy = "hardened", **settings: Any) -> Vault:
    vault = Vault.create(folder, policy)
    vault.freeze("survey", Microdata(frame, schema()), CUTS, **settings)
    return vault
