"""Pictures of residuals from a vault under the policy hardened: bad models are seen, right ones are not blamed.

Two hundred data sets of each kind, each a universe of a vault with its own drops and noise. A fixed curvature test and a fixed
variance test look at the synthetic points alone, at 5 %; for logistic models a fixed chi-squared test at the binned means.
Bad models must be rejected in at least 90 % of the data sets, right ones in at most 10 %, and no synthetic point may be a real
one. Then one picture of 10M records, beside the model alone.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RUNS, RECORDS = 200, 600
REFUSED = 0.02
"""Models of 600 records that noise may make a rule refuse; they are left out."""
LEAST, MOST = 0.90, 0.10


def run() -> dict[str, float]:
    return {**linear_models(RUNS), **logistic_models(RUNS), **_large()}


def linear_models(runs: int) -> dict[str, float]:
    """Return how often each kind of linear model is rejected, and how many synthetic points are real."""
    from sfumato.mas.analyses import Residuals

    result: dict[str, float] = {}
    real = refused = 0
    for kind in ("right", "curved", "uneven"):
        frames = [linear(kind, RECORDS, seed) for seed in range(runs)]
        vault = vault_of(frames, kind)
        for axis in ("fitted value", "predictor"):
            asked = Residuals("y ~ x", against="x" if axis == "predictor" else None)
            found = []
            for seed, frame in enumerate(frames):
                if (table := answered(vault, seed, asked)) is None:
                    refused += 1
                    continue
                points = table.to_numpy(float)
                found.append((curvature_test(*points.T) < 0.05, variance_test(*points.T) < 0.05))
                real += real_points(frame, points, axis)
            curved, uneven = np.mean(found, axis=0)
            result[f"rejected by curvature, {kind}, {axis}"] = float(curved)
            result[f"rejected by variance, {kind}, {axis}"] = float(uneven)
    return result | {"synthetic points that are real": float(real), "share refused": refused / (6 * runs)}


def logistic_models(runs: int) -> dict[str, float]:
    """Return how often each kind of logistic model is rejected."""
    from sfumato.mas.analyses import Residuals

    result = {}
    for kind in ("right", "curved"):
        vault = vault_of([binary(kind, 1500, seed) for seed in range(runs)], kind)
        tables = [answered(vault, seed, Residuals("C(y) ~ x", model="logistic")) for seed in range(runs)]
        result[f"rejected by bins, {kind}, logistic"] = float(
            np.mean([bins_test(t.to_numpy(float)) < 0.05 for t in tables if t is not None])
        )
    return result


def holds(result: dict[str, float]) -> bool:
    right = [v for k, v in result.items() if k.startswith("rejected") and ", right, " in k]
    bad = [v for k, v in result.items() if k.startswith(("rejected by curvature, curved", "rejected by bins, curved"))]
    bad += [v for k, v in result.items() if k.startswith("rejected by variance, uneven")]
    few = result["share refused"] <= REFUSED
    return max(right) <= MOST and min(bad) >= LEAST and few and not result["synthetic points that are real"]


def linear(kind: str, n: int, seed: int) -> Any:
    """A straight line, one with a square, or one with a spread that grows; x is normal."""
    import pandas as pd

    rng = np.random.default_rng([seed, n])
    x, e = rng.normal(size=n), rng.normal(size=n)
    z = (x - x.mean()) / x.std()
    y = 1 + x + (0.35 * z**2 + e if kind == "curved" else e * np.exp(0.4 * z) if kind == "uneven" else e)
    return pd.DataFrame({"x": x, "y": y})


def binary(kind: str, n: int, seed: int) -> Any:
    """An outcome whose log odds are a straight line, or one with a square."""
    import pandas as pd

    rng = np.random.default_rng([seed, n])
    x = rng.normal(size=n)
    odds = x + (0.6 * (x**2 - 1) if kind == "curved" else 0.0)
    return pd.DataFrame({"x": x, "y": np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")})


def vault_of(frames: list[Any], name: str) -> Any:
    """Return a vault under hardened in which each data set is a universe; accounts do not run out."""
    import pandas as pd

    from sfumato import Microdata
    from sfumato.contract import Draws
    from sfumato.mas.policy import Policy
    from sfumato.mas.vault import Vault
    from sfumato.schema import Attribute, Role, Scale, Schema

    whole = pd.concat([frame.assign(run=f"r{i}") for i, frame in enumerate(frames)], ignore_index=True)
    role, ordered = {"y": Role.CONFIDENTIAL}, {True: Scale.ORDERED, False: Scale.UNORDERED}
    attributes = [Attribute(c, role=role.get(c, Role.KEY), scale=ordered[whole[c].dtype.kind == "f"]) for c in whole]
    schema = Schema(tuple(attributes))
    hardened = Policy.named("hardened")
    policy = hardened.with_(accounts=hardened.accounts.with_(user=100, everybody=100), per_minute=None)
    vault = Vault(Path(tempfile.mkdtemp(prefix="sfumato-residuals-")), Draws(f"residuals {name}"), policy)
    vault.freeze("data", Microdata(whole, schema))
    return vault


def answered(vault: Any, number: int, analysis: Any) -> Any:
    """Return the points of a picture of one data set; None where noise makes a rule refuse the model."""
    found = vault.ask("data", {"run": [f"r{number}"]}, analysis)
    return found.frame() if found else None


def real_points(frame: Any, points: Any, axis: str) -> int:
    """Return how many synthetic points have the residual of a record, or its place on the axis."""
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    slope, start = np.polyfit(x, y, 1)
    rest = y - start - slope * x
    places = x if axis == "predictor" else start + slope * x
    return int(np.isin(points[:, 0], places).sum() + np.isin(points[:, 1], rest / rest.std()).sum())


def curvature_test(x: Any, t: Any) -> float:
    """F test of a square beside a straight line."""
    from scipy import stats

    z = (x - x.mean()) / x.std()
    a, b = (_rest(np.vander(z, k), t) for k in (2, 3))
    return float(stats.f.sf((a - b) / (b / (len(z) - 3)), 1, len(z) - 3))


def variance_test(x: Any, t: Any) -> float:
    """F test of the variance in the upper third against that in the lower third (Goldfeld and Quandt), two-sided."""
    from scipy import stats

    third = len(x) // 3
    order = np.argsort(x)
    low, high = (_rest(np.vander(x[part], 2), t[part]) for part in (order[:third], order[-third:]))
    return float(2 * min(stats.f.sf(high / low, third - 2, third - 2), stats.f.cdf(high / low, third - 2, third - 2)))


def bins_test(points: Any) -> float:
    """Chi-squared test that all means (column 1) are zero; column 2 is twice their standard error."""
    from scipy import stats

    return float(stats.chi2.sf(np.sum((2 * points[:, 1] / points[:, 2]) ** 2), len(points)))


def _rest(matrix: Any, t: Any) -> float:
    rest = t - matrix @ np.linalg.lstsq(matrix, t, rcond=None)[0]
    return float(rest @ rest)


def _large() -> dict[str, float]:
    from benchmarks.files import peak
    from benchmarks.mas_tables import made
    from sfumato.mas.analyses import OLS, Residuals

    vault = made()
    times = {}
    formula = "income ~ hours + score + C(sex) + C(age)"
    for name, analysis in (("model", OLS(formula)), ("picture", Residuals(formula))):
        start = time.perf_counter()
        if not vault.ask("people", None, analysis):
            raise RuntimeError("the question was refused.")
        times[f"seconds, {name} of 10M records"] = time.perf_counter() - start
    return times | {"peak memory, MB": peak()}
