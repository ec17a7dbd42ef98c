"""Tiny surveys whose confidential values can all be enumerated, and a slow twin of the sums of the analysis system."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.mas import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.question import Question
from sfumato.mas.sums import (
    Confidential,
    Moment,
    PrivacyLoss,
    ProtectedSums,
    Request,
    SumsRequest,
    TableSums,
    TotalSums,
)
from sfumato.mas.universe import Selection, Universe
from sfumato.mas.variable import Variable, VariableBins
from sfumato.mas.vault import DryRun, Vault
from sfumato.schema import Attribute, Schema

JOBS = {"paid": ["full", "part"], "other": ["none"]}
EDGES = (40.0, 70.0)
LOW, HIGH = 20.0, 100.0
"""Public bounds of pay; records have values beyond them."""
KNOWN = ("sex", "age", "land")


def survey(n: int, seed: int, *, gaps: bool = True, weighted: bool = True, establishments: int = 0) -> pd.DataFrame:
    """Records with known sex, age and land, and confidential illness, work and pay; some pay lies beyond its bounds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "sex": rng.permutation(np.r_[["F", "M"], rng.choice(["F", "M"], n - 2)]),
        "age": rng.integers(18, 90, n).astype(float), "land": np.round(np.exp(rng.normal(1, 1.2, n)), 2),
        "sick": rng.permutation(np.r_[["no", "yes"], rng.choice(["no", "yes"], n - 2)]),
        "work": rng.permutation(np.r_[["full", "none", "part"], rng.choice(["full", "none", "part"], n - 3)]),
        "pay": np.round(rng.uniform(-10, 130, n), 1),
    })  # fmt: skip
    if gaps:
        frame.loc[rng.choice(n, 1), "pay"] = np.nan
        frame.loc[rng.choice(n, 1), "land"] = np.nan
    if weighted:
        frame["weight"] = np.where(np.arange(n) == 1, 40.0, np.round(rng.uniform(1, 6, n), 2))
    if establishments:
        frame["firm"] = [f"e{i % establishments}" for i in range(n)]
    return frame


def schema(frame: pd.DataFrame) -> Schema:
    roles = dict.fromkeys(KNOWN, "key") | {"weight": "weight", "firm": "contributor"}
    bounds = {"land": (0.0, 30.0), "pay": (LOW, HIGH)}
    return Schema(tuple(
        Attribute(
            c, role=roles.get(c, "confidential"), scale="ordered" if c in ("age", "land", "pay", "weight") else "unordered",
            integer=c == "age", **({"bounds": bounds[c]} if c in bounds else {}),
        )
        for c in frame
    ))  # fmt: skip


def frozen(folder: Path, frame: pd.DataFrame) -> Dataset:
    """The records as a frozen data set, with classes of age and a recode of work."""
    folder.mkdir(parents=True, exist_ok=True)
    vault = Vault(folder, Draws("neighbours"), Policy.open())
    recodes = (LevelRecode("job", "work", JOBS),)
    return vault.freeze(
        "tiny", Microdata(frame, schema(frame)), {"age": Cutpoints((40, 65), whole=True)}, recodes=recodes
    )


def question(dataset: Dataset, policy: Policy, universe: Any = None) -> Question:
    return Question(dataset.codebook, policy, Universe.of(universe), DryRun())


def protected(
    dataset: Dataset, policy: Policy, universe: Any, part: Request
) -> tuple[ProtectedSums, tuple[PrivacyLoss, ...], Mechanism]:
    """What the mechanism makes of one request, and what it charges for it."""
    mechanism = Mechanism(dataset, policy, question(dataset, policy, universe))
    sums, losses = mechanism.protect(SumsRequest({"part": part}))
    return sums, losses, mechanism


# --- the twin


@dataclass(frozen=True)
class Rows:
    """Rows of sums for each record, from columns of the prepared records by plain names."""

    names: tuple[str, ...]
    places: Mapping[str, str]

    @property
    def columns(self) -> Sequence[str]:
        return sorted({column for name in self.names for column in self.reads(name)})

    def reads(self, name: str) -> list[str]:
        parts = {"one": ["r"], "F": [self.places["sex"]], "land": [self.places["land"]], "weight": ["w"]}
        confidential = {"yes": ["sick"], "pay": ["pay"], "yes*pay": ["sick", "pay"]}
        return parts[name] if name in parts else [self.places[c] for c in confidential[name]]

    def __call__(self, piece: Mapping[str, np.ndarray]) -> np.ndarray:
        got = [np.asarray(piece[c], float) for name in self.names for c in self.reads(name)]
        columns = iter(got)
        out = []
        for name in self.names:
            first = next(columns)
            made = {"one": first * 0 + 1, "F": first == 0, "land": np.nan_to_num(first), "yes": first == 1}.get(
                name, first
            )
            out.append(made * next(columns) if name == "yes*pay" else made)
        return np.array(out, float)


def codes(frame: pd.DataFrame, variable: Variable) -> np.ndarray:
    """The level of each record, from the plain records."""
    if isinstance(variable, VariableBins):
        x = frame[variable.source].to_numpy(float)
        return np.where(np.isnan(x), len(variable.edges) + 1, np.searchsorted(variable.edges, x, side="left"))
    if variable.name == "age":
        return np.searchsorted((40, 65), frame["age"], side="left")
    if variable.name == "job":
        return (
            frame["work"].map({"full": "paid", "part": "paid", "none": "other"}).map(variable.levels.index).to_numpy()
        )
    return frame[variable.name].map(variable.levels.index).to_numpy()


def members(frame: pd.DataFrame, dataset: Dataset, universe: Any) -> np.ndarray:
    """Which records are in a universe."""
    inside = np.zeros(len(frame), bool)
    for piece in universe or [{}]:
        held = np.ones(len(frame), bool)
        for name, levels in piece.items():
            v = dataset.variables[name]
            held &= np.isin(codes(frame, v), [v.levels.index(level) for level in levels])
        inside |= held
    return inside


def contributions(
    frame: pd.DataFrame, dataset: Dataset, universe: Any, part: Request, factor: np.ndarray, clip: bool = True
) -> dict[str, np.ndarray]:
    """What each record adds to every sum, by the name of the sums; shape (records, sums). `factor` is what it is multiplied by."""
    inside = members(frame, dataset, universe) * factor
    weights = frame["weight"].to_numpy() if "weight" in frame else np.ones(len(frame))
    if isinstance(part, TotalSums):
        pay, land = frame["pay"].to_numpy(), frame["land"].to_numpy()
        yes = (frame["sick"] == "yes").to_numpy(float)
        rows = {
            "one": np.ones(len(frame)), "F": (frame["sex"] == "F").to_numpy(float), "land": np.nan_to_num(land), "weight": weights,
            "yes": yes, "pay": pay, "yes*pay": yes * pay,
        }  # fmt: skip
        made = []
        for u, g in part.pairs:
            y, b = rows[part.confidential.names[g]], part.bounds[g]
            y = np.where(np.isnan(y), 0.0, np.clip(y, b.low, b.high) if clip else y)
            made.append(rows[part.factors.names[u]] * y)
        return {"totals": inside[:, None] * np.array(made).T}
    shape = [len(v.levels) for v in part.sides]
    place = np.ravel_multi_index([codes(frame, v) for v in part.sides], shape) if shape else np.zeros(len(frame), int)
    cell = np.eye(int(np.prod(shape, dtype=int)))[place]
    out = {"n": cell * inside[:, None]}
    for name, m in part.moments.items():
        added = weights**m.weights
        if m.variable is not None:
            x = frame[m.variable.name].to_numpy(float)
            there, bounds = ~np.isnan(x), m.variable.bounds
            x = np.clip(x, *bounds) if clip and bounds is not None else x
            added = added * np.where(there, (np.nan_to_num(x) - m.centre) ** m.power, 0.0)
        out[name] = cell * (inside * added)[:, None]
    return out


def values_of(dataset: Dataset, gaps: bool) -> list[dict[str, Any]]:
    """All confidential values that a record may have: levels, and pay at and beyond its bounds, at 0, and missing."""
    pay = [-1e6, 0.0, LOW, 41.0, 60.0, 85.0, HIGH, 1e6, *([np.nan] if gaps else [])]
    work = dataset.variables["work"].levels
    return [{"sick": a, "work": b, "pay": c} for a, b, c in itertools.product(("no", "yes"), work, pay)]


def charged(frame: pd.DataFrame, losses: Sequence[PrivacyLoss]) -> np.ndarray:
    """What each record is charged, by its known variables."""
    out = np.zeros(len(frame))
    for loss in losses:
        inside = _chosen(frame, loss.selection)
        at = tuple(codes(frame, v) for v in loss.sides)
        out += inside * (loss.amounts[at] if at else float(loss.amounts))
    return out


def _chosen(frame: pd.DataFrame, selection: Selection) -> np.ndarray:
    plain = selection.plain
    at = tuple(codes(frame, v) for v in plain.variables)
    return plain.chosen[at] if at else np.full(len(frame), bool(plain.chosen))


# --- random requests


def policy(rng: np.random.Generator, drops: bool = False) -> Policy:
    """A policy with noise of random size."""

    def noise() -> dict[str, float]:
        return {"sd": float(rng.choice([0.5, 2.0, 5.0])), "growth": float(rng.choice([0.0, 0.25, 1.0]))}

    open_ = Policy.open()
    made = open_.with_(
        counts=open_.counts.with_(**noise()), amounts=open_.amounts.with_(clip=True, **noise()),
        models=open_.models.with_(**noise()),
    )  # fmt: skip
    return made.set({"drop.share": 0.3}) if drops else made


def universe(rng: np.random.Generator, dataset: Dataset) -> list[dict[str, list[str]]]:
    """Everybody, or a union of pieces with known and confidential conditions."""
    names = ("sex", "age", "sick", "work", "job")
    made = []
    for _ in range(rng.integers(0, 4)):
        piece = {}
        for name in rng.choice(names, rng.integers(1, 4), replace=False):
            levels = dataset.variables[name].levels
            piece[str(name)] = [str(v) for v in rng.choice(levels, rng.integers(1, len(levels) + 1), replace=False)]
        if {"work", "job"} <= set(piece):
            del piece["job"]
        made.append(piece)
    if any({"work"} & set(p) for p in made):
        made = [{k: v for k, v in p.items() if k != "job"} or {"sex": ["F"]} for p in made]
    return made


def cells(rng: np.random.Generator, dataset: Dataset) -> TableSums:
    """A table with any sides and moments."""
    pay = dataset.variables["pay"]
    sides: list[Variable] = [dataset.variables[n] for n in ("sex", "age", "sick", "work", "job")] + [
        VariableBins.of(pay, EDGES)
    ]
    chosen = [sides[i] for i in rng.choice(len(sides), rng.integers(0, 4), replace=False)]
    moments = {}
    for i in range(rng.integers(0, 4)):
        name = [None, "pay", "pay", "land"][rng.integers(4)]
        weights = int(rng.integers(0, 3)) if dataset.weighted else 0
        centre = float(rng.choice([0.0, 60.0, LOW, 130.0]))
        if name is None:
            moments[f"m{i}"] = Moment(weights=max(weights, 1)) if dataset.weighted else Moment()
        else:
            moments[f"m{i}"] = Moment(dataset.variables[name], int(rng.integers(0, 4)), weights, centre)
    return TableSums(tuple(chosen), moments, str(rng.choice(["counts", "amounts", "models"])))


def totals(rng: np.random.Generator, dataset: Dataset) -> TotalSums:
    """Sums of known factors times confidential rows."""
    v = dataset.variables
    places = {
        "sex": v["sex"].codes_column,
        "land": v["land"].numbers,
        "sick": v["sick"].codes_column,
        "pay": v["pay"].numbers,
    }
    factors = Rows(("one", "F", "land", *(["weight"] if dataset.weighted else [])), places)
    rows = Rows(("yes", "pay", "yes*pay"), places)
    bounds = (Confidential(0, 1, 0.5), Confidential(LOW, HIGH, 25), Confidential(0, HIGH, 40))
    every = list(itertools.product(range(len(factors.names)), range(3)))
    pairs = tuple(every[i] for i in rng.choice(len(every), rng.integers(1, len(every) + 1), replace=False))
    by = tuple(v[n] for n in ("sex", "age") if rng.random() < 0.5)
    share = float(rng.choice([1.0, 0.25]))
    used = (v["sex"], v["land"], v["sick"], v["pay"])
    return TotalSums(f"totals {pairs}", factors, rows, bounds, pairs, used, by, share)
