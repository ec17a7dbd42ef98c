"""Small random tables for the tests of random tabular adjustment, and attackers who work with dense matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sfumato import Attribute, Microdata, Schema
from sfumato.schema import TreeHierarchy
from sfumato.tables import Table

Numbers = NDArray[np.float64]
REGIONS = TreeHierarchy.from_levels({"a": ["north"], "b": ["north"], "c": ["south"], "d": ["south"], "e": ["e"]})


def firms(n: int = 60, seed: int = 1, holdings: int = 0, sign: bool = False) -> pd.DataFrame:
    """Return firms in regions, sectors and kinds; with `holdings`, several of them belong to one contributor."""
    g = np.random.default_rng(seed)
    turnover = np.round(g.lognormal(3, 1.2, n), 1) * (g.choice([-1, 1, 1], n) if sign else 1)
    return pd.DataFrame({
        "region": g.choice(list("abcde"), n), "sector": g.choice(["x", "y", "z"], n), "kind": g.choice(["k", "l"], n),
        "owner": g.integers(0, holdings, n) if holdings else np.arange(n), "turnover": turnover,
        "staff": np.round(np.abs(turnover) * g.lognormal(0, 0.3, n)) + 1,
        "weight": g.choice([1.0, 1.5, 3.0], n),
    })  # fmt: skip


def microdata(frame: pd.DataFrame, weights: bool = False, integer: bool = False) -> Microdata:
    roles = {"owner": "contributor", "weight": "weight" if weights else "other"}
    schema = Schema(tuple(
        Attribute(
            n, role=roles.get(n, "other"), hierarchy=REGIONS if n == "region" else None,
            scale="unordered" if n in ("region", "sector", "kind", "owner") else "ordered",
            integer=integer and n == "turnover",
        )
        for n in frame
    ))  # fmt: skip
    return Microdata(frame, schema)


def table_of(frame: pd.DataFrame, formula: str = "region * sector", size: str | None = "staff", **facts: bool) -> Table:
    return Table.of(microdata(frame, **facts), formula, "turnover", size=size, per_size=None if size is None else 1)


def least_posterior(m: Numbers, v: Numbers, omega: Numbers) -> Numbers:
    """Return the smallest posterior variance of each unknown over all attackers who know their own, by plain algebra.

    Every attacker conditions the joint normal law of (d, leaves) on his own d and on the leaves; nothing is shared with the
    code under test.
    """
    n = len(v)
    least = np.full(n, np.inf)
    for g in range(-1, n):
        own = np.zeros((0, n)) if g < 0 else np.eye(n)[[g]]
        seen = np.vstack([m, own])
        noise = np.zeros((len(seen), len(seen)))
        noise[: len(m), : len(m)] = omega
        s = seen @ np.diag(v) @ seen.T + noise
        c = np.diag(v) @ seen.T
        left = v - np.einsum("ij,jk,ik->i", c, np.linalg.pinv(s, rcond=1e-12, hermitian=True), c)
        left[g] = np.inf if g >= 0 else left[g]
        least = np.minimum(least, left)
    return least
