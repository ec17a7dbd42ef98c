"""Keyed normal draws cost at most 4 times NumPy's own (ChaCha12, a pure function of seed, column and record id)."""

from __future__ import annotations

import time

import numpy as np

RECORDS, RATIO = 1_000_000, 4.0


def run() -> dict[str, float]:
    from sfumato.contract import Draws

    ids = np.arange(RECORDS)
    draws = Draws(1)
    draws.normals(ids[:8], "warm")
    start = time.perf_counter()
    for name in "abcde":
        draws.normals(ids, name)
    keyed = (time.perf_counter() - start) / 5
    generator = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(5):
        generator.standard_normal(RECORDS)
    bare = (time.perf_counter() - start) / 5
    return {
        "keyed, ns per draw": 1e9 * keyed / RECORDS,
        "NumPy, ns per draw": 1e9 * bare / RECORDS,
        "ratio": keyed / bare,
    }


def holds(result: dict[str, float]) -> bool:
    return result["ratio"] <= RATIO
