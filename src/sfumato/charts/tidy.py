"""A map's tidy frame, read into what the drawings need: one entry per measure, one row per point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
Limits = float | Mapping[str, float] | None


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure at every point: value, lower and upper limit, shape (points, 3); None where a source is absent."""

    label: str
    measure: str
    """The measure's own label, without its variant: what a threshold is named by."""
    empirical: Numbers | None
    analytic: Numbers | None
    unmasked: float
    """For the file as it is: by replication where there is any, else by formula; NaN if not known."""
    formula: float | None = None
    """For the file as it is, by formula."""

    @property
    def judged(self) -> Numbers:
        """What decisions rest on: replication where there is any, else the formula; shape (points, 3)."""
        best = self.empirical if self.empirical is not None else self.analytic
        assert best is not None  # noqa: S101 - a measure is in the frame because some source is
        return best

    @property
    def curve(self) -> Numbers:
        """The smooth line: the formula where there is one, else the replicated values; shape (points,)."""
        best = self.analytic if self.analytic is not None else self.empirical
        assert best is not None  # noqa: S101
        return best[:, 0]

    def as_share(self) -> Measured:
        """Return the measure as a share of the unmasked file's: replications of replicated, formulas of formula."""
        formula = self.unmasked if self.formula is None else self.formula
        return replace(
            self, unmasked=1.0, formula=None if self.formula is None else 1.0,
            empirical=None if self.empirical is None else self.empirical / self.unmasked,
            analytic=None if self.analytic is None else self.analytic / formula,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MapData:
    """Points in parameter order, shape (points, parameters), and every measure at them."""

    parameters: tuple[str, ...]
    points: Numbers
    risks: tuple[Measured, ...]
    utilities: tuple[Measured, ...]

    @classmethod
    def read(cls, frame: pd.DataFrame, parameters: Sequence[str]) -> MapData:
        """Read `RUMap.frame`."""
        names = tuple(parameters)
        for name in (*names, "point", "side", "measure", "source", "value"):
            if name not in frame.columns:
                raise ParameterError(unknown_name("column", name, [str(c) for c in frame.columns], "the map's frame"))
        rows = frame.to_dict("records")
        masked = {int(r["point"]): tuple(float(r[n]) for n in names) for r in rows if r["masked"]}
        if not masked:
            raise ParameterError("the map has no points, so there is nothing to draw.")
        order = sorted(masked, key=lambda p: masked[p])
        where = {p: i for i, p in enumerate(order)}
        found: dict[tuple[str, str, str], dict[str, Numbers]] = {}
        for r in rows:
            key = (str(r["side"]), str(r["measure"]), str(r.get("variant", "")))
            table = found.setdefault(key, {}).setdefault(str(r["source"]), np.full((len(order) + 1, 3), np.nan))
            table[where[int(r["point"])] if r["masked"] else -1] = [
                float(r["value"]),
                float(r["low"]),
                float(r["high"]),
            ]
        made = {side: _measures(side, found) for side in ("risk", "utility")}
        if absent := [side for side, measures in made.items() if not measures]:
            raise ParameterError(f"the map's frame holds no {' and no '.join(absent)} measure.")
        points = np.array([masked[p] for p in order], np.float64).reshape(len(order), len(names))
        return cls(names, points, made["risk"], made["utility"])

    def limits(self, max_risk: Limits) -> dict[str, float]:
        """Return the threshold of each risk by the risk's label; risks without one are left out."""
        if max_risk is None:
            return {}
        if not isinstance(max_risk, Mapping):
            return {r.label: float(max_risk) for r in self.risks}
        known = {r.measure for r in self.risks} | {r.label for r in self.risks}
        for label in max_risk:
            if label not in known:
                raise ParameterError(unknown_name("risk measure", label, sorted(known), "the map"))
        asked = {r.label: max_risk.get(r.label, max_risk.get(r.measure)) for r in self.risks}
        return {label: float(limit) for label, limit in asked.items() if limit is not None}

    def feasible(self, limits: Mapping[str, float]) -> NDArray[np.bool_]:
        """Return which points keep the upper limit of every risk at or below its threshold, shape (points,)."""
        good = np.ones(len(self.points), bool)
        for risk in self.risks:
            if risk.label in limits:
                value, high = risk.judged[:, 0], risk.judged[:, 2]
                good &= np.where(np.isnan(high), value, high) <= limits[risk.label] * (1 + 1e-9)
        return good

    def nearest(self, chosen: Mapping[str, Any]) -> int | None:
        """Return the point nearest to the chosen parameters; None if they do not name them all."""
        if any(name not in chosen for name in self.parameters):
            return None
        spread = np.ptp(self.points, axis=0)
        away = np.abs(self.points - [float(chosen[name]) for name in self.parameters]) / np.where(spread > 0, spread, 1)
        return int(away.sum(axis=1).argmin())

    def with_shares(self) -> MapData:
        """Return the map with every utility as a share of the unmasked file's."""
        return replace(self, utilities=tuple(u.as_share() for u in self.utilities))

    @property
    def has_shares(self) -> bool:
        """Whether every utility of the unmasked file is a finite positive number."""
        return all(math.isfinite(u.unmasked) and u.unmasked > 0 for u in self.utilities)


def _measures(side: str, found: Mapping[tuple[str, str, str], Mapping[str, Numbers]]) -> tuple[Measured, ...]:
    mine = [(measure, variant, tables) for (s, measure, variant), tables in found.items() if s == side]
    names = [measure for measure, _, _ in mine]
    out = []
    for measure, variant, tables in mine:
        label = measure if names.count(measure) == 1 or not variant else f"{measure} ({variant})"
        empirical, analytic = tables.get("empirical"), tables.get("analytic")
        last = empirical if empirical is not None else analytic
        unmasked = float(last[-1, 0]) if last is not None else math.nan
        formula = None if analytic is None else float(analytic[-1, 0])
        if empirical is not None and analytic is not None and np.isnan(analytic[:-1, 0]).all():
            analytic = None  # a formula for the unmasked file alone makes no curve
        out.append(Measured(label, measure, _points(empirical), _points(analytic), unmasked, formula))
    return tuple(out)


def _points(table: Numbers | None) -> Numbers | None:
    return None if table is None else table[:-1]


def along(t: float, grid: Numbers, values: Numbers, log_t: bool, log_values: bool) -> float:
    """Return the value at parameter t on the straight line, as drawn, between the two nearest points; NaN beyond them."""
    usable = np.isfinite(values) & (values > 0 if log_values else True) & (grid > 0 if log_t else True)
    x, y = grid[usable], values[usable]
    if not len(x) or (log_t and not t > 0):
        return math.nan
    if len(x) == 1:
        return float(y[0]) if math.isclose(t, float(x[0]), rel_tol=1e-9) else math.nan
    slack = 1e-9 * max(abs(float(x[0])), abs(float(x[-1])))
    if not x[0] - slack <= t <= x[-1] + slack:
        return math.nan
    at, xs = (math.log(t), np.log(x)) if log_t else (t, x)
    found = float(np.interp(at, xs, np.log(y) if log_values else y))
    return math.exp(found) if log_values else found
