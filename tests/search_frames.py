"""Frames in the shape of a search result, made by formulas that the tests know; nothing here was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

RISKS = ("records linked by distance", "risk for salary")
UTILITIES = ("variance kept", "propensity score utility")
SCENARIOS = ("neighbour", "employer")
METHODS = ("noise", "mdav", "rank swap", "pram", "copula")


@dataclass(frozen=True)
class Trial:
    """One point: what was tried, and its numbers; risks by measure and scenario."""

    family: str
    settings: Mapping[str, Any]
    risks: Mapping[tuple[str, str], float]
    utilities: Mapping[str, float]
    spread: float = 0.06
    """Half of an interval as a share of the value; the limit lies three times as far."""
    replications: int = 8
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        return ", ".join(f"{k} = {v:.3g}" if isinstance(v, float) else f"{k} = {v}" for k, v in self.settings.items())


def frame_of(trials: Sequence[Trial], thresholds: Mapping[str, float]) -> pd.DataFrame:
    """Return the frame; `meets`, `chosen` and `probability` follow from the first risk and the smallest utility."""
    names = list(dict.fromkeys(name for t in trials for name in t.settings))
    limits = [{k: v * (1 + 3 * t.spread) for k, v in t.risks.items()} for t in trials]
    meets = [all(v <= thresholds.get(k[0], math.inf) for k, v in each.items()) for each in limits]
    first = [
        (max(v for k, v in t.risks.items() if k[0] == next(iter(t.risks))[0]), min(t.utilities.values()))
        for t in trials
    ]
    good = [i for i in range(len(trials)) if meets[i]]
    chosen = max(good, key=lambda i: first[i][1]) if good else -1
    out = []
    for i, t in enumerate(trials):
        best = not any(r <= first[i][0] and u >= first[i][1] and (r, u) != first[i] for r, u in first)
        row = {
            "point": i, "family": t.family, "settings": t.recipe, "masked": True, **{n: t.settings.get(n, np.nan) for n in names},
            "replications": t.replications, "meets": meets[i], "chosen": i == chosen,
            "probability": (0.55 + 0.45 * math.cos(i) ** 2) if best else np.nan,
        }  # fmt: skip
        sides = [("risk", k, v) for k, v in t.risks.items()] + [("utility", (k, ""), v) for k, v in t.utilities.items()]
        for side, (measure, scenario), value in sides:
            half = abs(value) * t.spread * (1 if side == "risk" else 0.2)
            risk = side == "risk"
            out.append({
                **row, "side": side, "measure": measure, "scenario": scenario, "value": value, "low": value - half,
                "high": value + half, "limit": limits[i][measure, scenario] if risk else np.nan,
                "threshold": thresholds.get(measure, np.nan) if risk else np.nan,
            })  # fmt: skip
    utilities = dict.fromkeys(name for t in trials for name in t.utilities)
    nothing = dict.fromkeys((*names, "low", "high", "limit", "threshold", "probability"), np.nan)
    unmasked = {
        "point": len(trials), "family": "unmasked", "settings": "unmasked", "masked": False, "replications": 2,
        "meets": False, "chosen": False, "side": "utility", "scenario": "", "value": 1.0, **nothing,
    }  # fmt: skip
    return pd.DataFrame([*out, *({**unmasked, "measure": name} for name in utilities)])


def frontier_of(frame: pd.DataFrame, risk: str = RISKS[0]) -> pd.DataFrame:
    """Return what `RUMap.frontier()` of a search gives: the points with a probability, safest first."""
    out = []
    for point, rows in frame[frame["probability"].notna()].groupby("point"):
        worst = rows[rows["measure"] == risk].sort_values("value").iloc[-1]
        useful = rows[rows["side"] == "utility"].sort_values("value").iloc[0]
        out.append({
            "point": point, "family": worst["family"], "settings": worst["settings"], "risk": worst["value"],
            "risk_low": worst["low"], "risk_high": worst["high"], "limit": worst["limit"], "utility": useful["value"],
            "utility_low": useful["low"], "utility_high": useful["high"], "probability": worst["probability"],
            "meets": worst["meets"], "chosen": worst["chosen"],
        })  # fmt: skip
    return pd.DataFrame(out).sort_values("risk", ignore_index=True)


def sequences() -> list[str]:
    """Return five methods, and every ordered pair of them: 25 families."""
    pairs = [f"{a} then {b}" for a in METHODS for b in METHODS if a != b]
    return [*METHODS, *pairs]


def many_methods(families: Sequence[str], each: int = 6, seed: int = 1) -> pd.DataFrame:
    """Return a search over families: the stronger the setting, the lower risk and utility; families differ in how much."""
    rng = np.random.default_rng(seed)
    trials = []
    for family in families:
        cost, safe = rng.uniform(0.25, 0.8), rng.uniform(1.2, 3.4)
        name = family.replace(" then ", "_then_").replace(" ", "_")
        for k in range(each):
            s = (k + 0.5) / each
            risk = 0.6 * 10 ** (-safe * s) * math.exp(rng.normal(0, 0.1))
            useful = 1 - cost * s**1.5 - abs(rng.normal(0, 0.02))
            risks = {
                (RISKS[0], SCENARIOS[0]): risk, (RISKS[0], SCENARIOS[1]): risk * (1.6 - s),
                (RISKS[1], SCENARIOS[0]): 0.2 * risk**0.5,
            }  # fmt: skip
            utilities = {UTILITIES[0]: useful, UTILITIES[1]: 1 - (1 - useful) * 1.3}
            trials.append(Trial(family, {f"{name}.strength": round(s, 3)}, risks, utilities))
    return frame_of(trials, {RISKS[0]: 0.05, RISKS[1]: 0.04})


def two_parameters(level: int = 3, threshold: float = 0.12) -> pd.DataFrame:
    """Return a search over λ² (log) and k: a coarse grid refined where the risk passes its threshold.

    log R = log 0.3 − 1.2 s − 0.9 t and U = 1 − 0.3 s − 0.2 t, for the unit coordinates s of log λ² and t of log k, so that
    straight lines between the points are exact and every contour of R is a known straight line.
    """
    trials = []
    places = {(i / 4, j / 4) for i in range(5) for j in range(5)}
    for fine in range(1, level):
        step = 0.25 / 2**fine
        for s in np.arange(0, 1 + step / 2, step):
            for t in np.arange(0, 1 + step / 2, step):
                if abs(math.log(unit_risk(float(s), float(t)) * 1.18 / threshold)) < 1.2 * step:
                    places.add((float(s), float(t)))
    for s, t in sorted(places):
        settings = {"kim_noise.lambda2": 0.01 * 100**s, "mdav.k": 3.0 * 20**t}
        risks = {(RISKS[0], SCENARIOS[0]): unit_risk(s, t)}
        trials.append(Trial("noise then mdav", settings, risks, {UTILITIES[0]: 1 - 0.3 * s - 0.2 * t}))
    return frame_of(trials, {RISKS[0]: threshold})


def unit_risk(s: float, t: float) -> float:
    return math.exp(math.log(0.3) - 1.2 * s - 0.9 * t)


def many_parameters(points: int = 140, seed: int = 2) -> pd.DataFrame:
    """Return a search over three numbers and a choice, at scattered points."""
    rng = np.random.default_rng(seed)
    trials = []
    for _ in range(points):
        s, t, v = rng.uniform(size=3)
        way = str(rng.choice(["within", "across"]))
        settings = {
            "kim_noise.lambda2": float(0.01 * 100**s), "mdav.k": int(3 + 40 * t), "pram.keep": float(0.5 + 0.5 * v),
            "pram.blocks": way,
        }  # fmt: skip
        risk = 0.5 * math.exp(-1.5 * s - 1.0 * t - 1.2 * (1 - v)) * (0.8 if way == "across" else 1.0)
        useful = 1 - 0.3 * s**1.5 - 0.25 * t - 0.3 * (1 - v) - (0.05 if way == "across" else 0)
        trials.append(Trial("noise, mdav, pram", settings, {(RISKS[0], SCENARIOS[0]): risk}, {UTILITIES[0]: useful}))
    return frame_of(trials, {RISKS[0]: 0.08})


def many_measures() -> pd.DataFrame:
    """Return one point with risks in four units, one without a threshold and one beyond it, and three utilities."""
    risks = {
        ("records linked by distance", "neighbour"): 0.02, ("records linked by distance", "employer"): 0.034,
        ("risk for salary, per (1,000 dollars)²", "employer"): 0.0012, ("expected re-identifications", "neighbour"): 14.0,
        ("membership advantage", "data broker"): 0.12, ("unique in the population", "neighbour"): 0.0,
        ("closest records", ""): 0.3,
    }  # fmt: skip
    utilities = {"variance kept": 0.93, "propensity score utility": 0.81, "regression: salary on age": 0.997}
    thresholds = {
        "records linked by distance": 0.05, "risk for salary, per (1,000 dollars)²": 0.04, "membership advantage": 0.1,
        "expected re-identifications": 20.0, "unique in the population": 0.001,
    }  # fmt: skip
    one = Trial("noise then pram", {"kim_noise.lambda2": 0.141, "pram.keep": 0.9}, risks, utilities)
    return frame_of([one], thresholds).assign(chosen=True)


def worst(frame: pd.DataFrame, risk: str = RISKS[0]) -> pd.Series:
    """Return the largest value over the scenarios, by point."""
    return frame[frame["measure"] == risk].groupby("point")["value"].max()


def simple(*pairs: tuple[float, float], threshold: float = 0.1, **settings: Any) -> pd.DataFrame:
    """Return a frame of one family with (risk, utility) at each point."""
    trials = [
        Trial("noise", {"noise.lambda2": 0.1 * (k + 1), **settings}, {(RISKS[0], ""): r}, {UTILITIES[0]: u})
        for k, (r, u) in enumerate(pairs)
    ]
    return frame_of(trials, {RISKS[0]: threshold})
