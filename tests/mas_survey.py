"""A small survey with households, strata, weights and gaps, for tests of models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.schema import Attribute, Schema

ROLES = {
    "weight": "weight", "house": "household", "region": "stratum", "income": "confidential", "sick": "confidential",
    "work": "confidential", "flag": "confidential", "person": "identifier",
}  # fmt: skip
BOUNDS: dict[str, tuple[float, float]] = {"flag": (0.0, 1.0)}
NUMBERS = ("age", "year", "z", "income", "weight", "empty", "flag", "person")


def survey(n: int = 3000, seed: int = 5) -> pd.DataFrame:
    """Return the records: income depends on age, sex and race; sick on age and sex; z has gaps."""
    rng = np.random.default_rng(seed)
    house = rng.integers(0, n // 3, n)
    effect = rng.normal(0, 1, n // 3)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n, p=[0.47, 0.53]), "race": rng.choice(list("WBAO"), n, p=[0.5, 0.25, 0.15, 0.1]),
        "age": rng.integers(18, 90, n).astype(float), "year": 1e6 + rng.normal(0, 1, n), "z": np.exp(rng.normal(0, 1, n)),
        "house": house, "region": [f"R{i}" for i in house % 7],
        "work": rng.choice(["full", "none", "part"], n, p=[0.5, 0.3, 0.2]),
        "weight": rng.uniform(1, 9, n), "empty": np.full(n, np.nan), "person": np.arange(n),
    })  # fmt: skip
    man = frame["sex"] == "M"
    log_income = 8 + 0.01 * frame["age"] + 0.3 * man + 0.2 * (man & (frame["race"] == "B"))
    frame["income"] = np.exp(log_income + 0.5 * rng.normal(0, 1, n) + 0.4 * effect[house])
    chance = 1 / (1 + np.exp(2 - 0.03 * frame["age"] + 0.5 * man - 0.3 * effect[house]))
    frame["sick"] = np.where(rng.uniform(size=n) < chance, "yes", "no")
    frame["flag"] = (frame["sick"] == "yes").astype(float)
    frame.loc[rng.choice(n, n // 30, replace=False), "z"] = np.nan
    return frame


def microdata(frame: pd.DataFrame, design: bool = True) -> Microdata:
    """Return the records with what their columns mean; without the design, as if they were drawn one by one."""
    return Microdata(frame, schema_of(frame, design))


def schema_of(frame: pd.DataFrame, design: bool = True) -> Schema:
    """Return what the columns mean."""
    roles = ROLES | ({} if design else {"house": "identifier", "region": "identifier"})
    return Schema(tuple(
        Attribute(
            c, role=roles.get(c, "key"), scale="ordered" if c in NUMBERS else "unordered",
            **({"bounds": BOUNDS[c]} if c in BOUNDS else {}),
        )
        for c in frame
    ))  # fmt: skip


def linearised(scores: np.ndarray, bread: np.ndarray, frame: pd.DataFrame, strata: bool, clusters: bool) -> np.ndarray:
    """Return standard errors by the textbook's formula: totals of clusters about the mean of their stratum.

    `frame` holds the whole survey: records that are not asked about have scores of 0, and their clusters count.
    """
    added = scores @ bread
    keys = frame["house"] if clusters else pd.Series(np.arange(len(frame)), frame.index)
    stratum = frame["region"] if strata else pd.Series("all", frame.index)
    variance = np.zeros(added.shape[1])
    for name in stratum.unique():
        mine = (stratum == name).to_numpy()
        totals = pd.DataFrame(added[mine]).groupby(keys[mine].to_numpy()).sum().to_numpy()
        m = len(totals)
        variance += m / (m - 1) * ((totals - totals.mean(axis=0)) ** 2).sum(axis=0)
    return np.sqrt(variance)
