"""A map of 40 noise levels × 200 replications × 4 estimators on 30,000 × 6: under 20 s on 2 cores and under 1 GB."""

from __future__ import annotations

import resource
import time

import numpy as np

LEVELS, REPLICATIONS, RECORDS, COLUMNS = 40, 200, 30_000, 6
SECONDS, MEGABYTES = 20.0, 1000.0


def bare_numpy_seconds() -> float:
    """The same draws and nothing else: one standard normal per record, column and replication."""
    generator = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(REPLICATIONS):
        generator.standard_normal((RECORDS, COLUMNS))
    return time.perf_counter() - start


def run() -> dict[str, float]:
    import pandas as pd

    from sfumato import Microdata, ru_map
    from sfumato.masks import KimNoise
    from sfumato.risk import AttributeRisk
    from sfumato.schema import Attribute, Schema
    from sfumato.utility import EstimatorUtility, Formula, Mean, MeanCombination, Slope

    generator = np.random.default_rng(0)
    root = np.linalg.cholesky(0.5 * np.eye(COLUMNS) + 0.5)
    names = [f"v{j}" for j in range(COLUMNS)]
    frame = pd.DataFrame(50 + 10 * generator.standard_normal((RECORDS, COLUMNS)) @ root.T, columns=names)
    data = Microdata(frame, Schema(tuple(Attribute(n, role="confidential") for n in names)))  # type: ignore[arg-type]
    estimators = [Mean("v0"), MeanCombination({"v0": 1, "v1": -1}), Slope("v2", "v3"), Formula("v0 ~ v4 + v5", "v4")]
    utilities = [EstimatorUtility(e) for e in estimators]
    grid = {"kim_noise.lambda2": np.geomspace(0.01, 1, LEVELS).tolist()}
    ru_map(
        data, KimNoise(), {"kim_noise.lambda2": [0.1]}, AttributeRisk("v0"), utilities, replications=2, draws=0
    )  # compile
    start = time.perf_counter()
    ru_map(data, KimNoise(), grid, AttributeRisk("v0"), utilities, replications=REPLICATIONS, draws=1)
    seconds = time.perf_counter() - start
    bare = bare_numpy_seconds()
    return {
        "seconds": seconds,
        "seconds allowed": SECONDS,
        "bare NumPy draws, seconds": bare,
        "ratio to the bare draws": seconds / bare,
        "peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "memory allowed, MB": MEGABYTES,
    }


def holds(result: dict[str, float]) -> bool:
    return result["seconds"] <= SECONDS and result["peak memory, MB"] <= MEGABYTES
