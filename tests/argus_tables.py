"""The perturbation tables that τ-ARGUS ships, and their definition in one loop."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

ARGUS = Path(__file__).parents[2] / "shared" / "data" / "tables" / "tauargus"


def argus(name: str) -> Path:
    if not (ARGUS / name).exists():
        pytest.skip(f"the shared reference file {ARGUS / name} is not here")
    return ARGUS / name


def by_hand(frame: pd.DataFrame, i: float, key: float) -> float:
    """Return the first v of row i whose upper bound is above the key; beyond the last row the last holds."""
    last = max(frame.i.tolist())
    for row, v, bound in zip(frame.i.tolist(), frame.v.tolist(), frame.iloc[:, 4].tolist(), strict=True):
        if row == min(i, last) and key < bound:
            return float(v)
    raise AssertionError("a key beyond the last bound")
