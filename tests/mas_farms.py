"""A generated census of farms: region, kind and hectares are known to others, debts and turnover are confidential."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.mas import Cutpoints
from sfumato.schema import Attribute, Schema

REGIONS = tuple(f"region {i}" for i in range(1, 13))
KINDS = ("arable", "dairy", "pigs", "wine", "other")
FARM_CUTS = {"hectares": Cutpoints((2.0, 5.0, 10.0, 20.0, 35.0, 60.0, 100.0, 200.0))}


def farms(n: int = 5_000, seed: int = 1) -> Microdata:
    """Return farms: a few have most of the land."""
    rng = np.random.default_rng(seed)
    size = np.arange(len(REGIONS), 0, -1) + 3.0
    hectares = np.round(np.minimum(np.exp(rng.normal(2.6, 1.4, n)), 5_000.0), 1)
    debts = rng.random(n) < 0.25 + 0.2 * (hectares > 50)
    frame = pd.DataFrame({
        "hectares": hectares, "region": rng.choice(REGIONS, n, p=size / size.sum()),
        "kind": rng.choice(KINDS, n, p=[0.4, 0.25, 0.15, 0.12, 0.08]),
        "turnover": np.round(1_500 * hectares**0.9 * np.exp(rng.normal(0, 0.7, n)), 2), "debts": np.where(debts, "yes", "no"),
    })  # fmt: skip
    return Microdata(frame, Schema((
        Attribute("hectares", role="key", bounds=(0, 5_000)), Attribute("region", role="key", scale="unordered"),
        Attribute("kind", role="key", scale="unordered"), Attribute("turnover", role="confidential", bounds=(0, 20_000_000)),
        Attribute("debts", role="confidential", scale="unordered"),
    )))  # fmt: skip
