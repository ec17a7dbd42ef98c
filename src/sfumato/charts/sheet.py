"""What all panels of one map have in common: axes, labels, places on curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.charts import marks
from sfumato.charts.scales import Axis, wants_log
from sfumato.charts.tidy import MapData, Measured, Numbers, along
from sfumato.charts.words import parameter_words, short, symbol

_MANY = 3
"""Up to so many curves are labelled where they are; more get a legend,"""
_LONG = 48
"""and so do names of more characters."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """One map, its thresholds by risk label, and the chosen value of each parameter."""

    data: MapData
    limits: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    share: bool = False
    """Whether utilities are shares of the unmasked file's."""
    fixed: tuple[Axis, Axis] | None = None
    """Axes of risk and utility that are shared with other maps."""
    among: tuple[str, ...] = ()
    """All labels that colours are given to, where this sheet shows only some of them."""

    @property
    def single(self) -> bool:
        """Whether there is one parameter, so that points make a curve."""
        return len(self.data.parameters) == 1

    @property
    def grid(self) -> Numbers:
        """The (first) parameter's values."""
        return self.data.points[:, 0]

    @property
    def labels(self) -> list[str]:
        """The utilities' labels."""
        return [u.label for u in self.data.utilities]

    @property
    def palette(self) -> list[str]:
        """The labels that colours are given to."""
        return list(self.among) or self.labels

    def only(self, utility: Measured) -> Sheet:
        """Return the sheet of one utility; colours and the risks' axes stay as they are."""
        return replace(self, data=replace(self.data, utilities=(utility,)), among=tuple(self.palette))

    # -- axes

    @property
    def log_t(self) -> bool:
        """Whether the parameter's axis is in ratios. Zero is not on it, which is right only where the risk is infinite."""
        zero = self.grid <= 0
        drawn = any(np.isfinite(r.judged[zero, 0]).any() for r in self.data.risks)
        return not drawn and wants_log(self.grid[~zero], 8)

    @property
    def t_axis(self) -> Axis:
        """The parameter's axis."""
        return Axis.over([*self.grid, *([] if math.isnan(self.chosen_t) else [self.chosen_t])], self.log_t, 0.04)

    @property
    def t_title(self) -> str:
        """What the parameter's axis says."""
        return parameter_words(self.data.parameters[0]) + (", log scale" if self.log_t else "")

    def r_axis(self, risk: Measured) -> Axis:
        """Return a risk's axis: log, unless some risk is zero or less."""
        if self.fixed is not None:
            return self.fixed[0]
        limit = [self.limits[risk.label]] if risk.label in self.limits else []
        values = [*finite(risk), *limit]
        return Axis.over(values, all(v > 0 for v in values))

    def r_title(self, risk: Measured) -> str:
        """Return what a risk's axis says."""
        name = risk.label if len(self.data.risks) > 1 else "disclosure risk R"
        return name + (" (log scale)" if self.r_axis(risk).log else "")

    @property
    def u_axis(self) -> Axis:
        """The utilities' axis."""
        if self.fixed is not None:
            return self.fixed[1]
        return utility_axis(self.data.utilities)

    @property
    def u_title(self) -> str:
        """What the utilities' axis says."""
        if self.share:
            return "data utility U, as a share of the unmasked file's"
        return "data utility U" + (" (log scale)" if self.u_axis.log else "")

    @property
    def u_options(self) -> dict[str, Any]:
        """How the utilities' ticks are written."""
        if not self.share:
            return {}
        return {"format": ".0%" if self.u_axis.high - self.u_axis.low > 0.1 else ".1%"}

    # -- labels

    @property
    def direct(self) -> bool:
        """Whether curves are labelled where they are: few of them, each with an unmasked line of its own."""
        ends = [u.unmasked for u in self.data.utilities]
        few = len(ends) <= _MANY and max(map(len, self.labels)) <= _LONG
        return few and not self.share and all(map(self.u_axis.shows, ends)) and len(set(ends)) == len(ends)

    @property
    def chosen_t(self) -> float:
        """The chosen value of the only parameter; NaN if there is none."""
        return float(self.chosen.get(self.data.parameters[0], math.nan)) if self.single else math.nan

    @property
    def chosen_words(self) -> str:
        """The chosen value as a label: "λ² = 0.141"."""
        return f"{symbol(self.data.parameters[0])} = {short(self.chosen_t)}"

    # -- places

    def places(self, t: float, risk: Measured) -> list[dict[str, Any]]:
        """Return where a parameter value lies among each utility's points, on straight lines as drawn, leftmost first."""
        r_axis, u_axis = self.r_axis(risk), self.u_axis
        r = along(t, self.grid, risk.judged[:, 0], self.log_t, r_axis.log)
        found: marks.Rows = [
            {"t": t, "series": u.label, "u": along(t, self.grid, u.judged[:, 0], self.log_t, u_axis.log), "r": r}
            for u in self.data.utilities
        ]
        return sorted((f for f in found if r_axis.shows(r) and u_axis.shows(f["u"])), key=lambda f: float(f["u"]))

    def chosen_places(self, risk: Measured) -> list[dict[str, Any]]:
        """Return where the chosen point lies, leftmost first: on each curve, or with several parameters at its own point."""
        if self.single:
            return [] if math.isnan(self.chosen_t) else self.places(self.chosen_t, risk)
        p = self.data.nearest(self.chosen)
        if p is None or not self.r_axis(risk).shows(float(risk.judged[p, 0])):
            return []
        r = float(risk.judged[p, 0])
        found: marks.Rows = [{"series": u.label, "u": float(u.judged[p, 0]), "r": r} for u in self.data.utilities]
        return sorted((f for f in found if self.u_axis.shows(f["u"])), key=lambda f: float(f["u"]))

    # -- curves

    def line_rows(self, risk: Measured) -> marks.Rows:
        """Return the curves of risk against utility, if there is one parameter; an infinite risk has no place on them."""
        if not self.single:
            return []
        log = self.r_axis(risk).log
        made = [
            {"t": t, "series": u.label, "u": float(u.curve[p]), "r": float(risk.curve[p])}
            for u in self.data.utilities
            for p, t in enumerate(self.grid)
        ]
        return [row for row in made if drawable(row, log)]

    def has_points(self, risk: Measured) -> bool:
        """Whether points are drawn: there are replications, not only formulas, or no curve to draw."""
        replicated = risk.empirical is not None or any(u.empirical is not None for u in self.data.utilities)
        return replicated or not self.single or len(self.grid) == 1

    def point_rows(self, risk: Measured) -> marks.Rows:
        """Return the points with their intervals, where points are drawn."""
        if not self.has_points(risk):
            return []
        log = self.r_axis(risk).log
        made = []
        for u in self.data.utilities:
            for p, t in enumerate(self.grid):
                (value, low, high), (r, r_low, r_high) = u.judged[p], risk.judged[p]
                row = {"t": t, "series": u.label, "u": value, "u_low": low, "u_high": high, "r": r}
                made.append({**row, "r_low": r_low, "r_high": r_high})
        return [row for row in made if drawable(row, log)]

    def smooth(self, risk: Measured) -> bool:
        """Whether the curves are formulas."""
        return risk.analytic is not None and all(u.analytic is not None for u in self.data.utilities)


def finite(measure: Measured) -> list[float]:
    """Return every finite number of a measure, limits included."""
    tables = [t for t in (measure.empirical, measure.analytic) if t is not None]
    return [float(v) for t in tables for v in t.ravel() if math.isfinite(v)]


def utility_axis(utilities: Iterable[Measured]) -> Axis:
    """Return an axis for utilities: from zero, unless all lie far from it, or over orders of magnitude.

    Where the unmasked file's utility is infinite, utility grows like 1/λ²: then a log axis soon reads better.
    """
    measures = list(utilities)
    ends = [u.unmasked for u in measures if math.isfinite(u.unmasked)]
    shown = [*(v for u in measures for v in finite(u)), *ends]
    if not shown:
        return Axis(0.0, 1.0, False)
    low, high = min(shown), max(shown)
    if low > 0 and high > (200 if ends else 20) * low:
        return Axis.over(shown, True)
    if low < 0 or low > 0.75 * high:
        room = (high - low) or abs(high) * 0.1 or 1.0
        return Axis(low - (0.35 if low > 0 else 0.05) * room, high + 0.06 * room, False)
    return Axis(0.0, high * 1.05 or 1.0, False)


def drawable(row: Mapping[str, Any], log: bool) -> bool:
    """Whether a point has a place on the axes."""
    return math.isfinite(row["u"]) and math.isfinite(row["r"]) and (row["r"] > 0 or not log)
