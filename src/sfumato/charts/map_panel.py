"""The panels of a map over parameters: risk against utility with parameter values along it, and both against the parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.captions import parameter_words, short, symbol
from sfumato.charts.map_data import Measured, Sweep, along
from sfumato.charts.scales import Axis, readable, wants_log
from sfumato.charts.theme import FAINT, INK, PAPER, SIZE, SOFT, text_width
from sfumato.typing import Numbers

_LABELS = 6
"""Largest number of parameter values along a curve,"""
_APART = 22
"""and their least distance in pixels."""
_SMALL = SIZE - 1


@dataclass(frozen=True, eq=False)
class Sheet:
    """One map, its thresholds by risk label, and the chosen value of each parameter."""

    data: Sweep
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
        """The title of the parameter's axis."""
        return parameter_words(self.data.parameters[0]) + (", log scale" if self.log_t else "")

    def r_axis(self, risk: Measured) -> Axis:
        """Return a risk's axis: log, unless some risk is zero or less."""
        if self.fixed is not None:
            return self.fixed[0]
        limit = [self.limits[risk.label]] if risk.label in self.limits else []
        values = [*finite(risk), *limit]
        return Axis.over(values, all(v > 0 for v in values))

    def r_title(self, risk: Measured) -> str:
        """Return the title of a risk's axis."""
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
        """The title of the utilities' axis."""
        if self.share:
            return "data utility U, as a share of the unmasked file's"
        return "data utility U" + (" (log scale)" if self.u_axis.log else "")

    @property
    def u_options(self) -> dict[str, Any]:
        """The format of the utilities' ticks."""
        if not self.share:
            return {}
        return {"format": ".0%" if self.u_axis.high - self.u_axis.low > 0.1 else ".1%"}

    # -- labels

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
        found: theme.Rows = [
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
        found: theme.Rows = [{"series": u.label, "u": float(u.judged[p, 0]), "r": r} for u in self.data.utilities]
        return sorted((f for f in found if self.u_axis.shows(f["u"])), key=lambda f: float(f["u"]))

    # -- curves

    def line_rows(self, risk: Measured) -> theme.Rows:
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

    def point_rows(self, risk: Measured) -> theme.Rows:
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
    ends = [u.end for u in measures if math.isfinite(u.end)]
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


@dataclass(frozen=True, eq=False)
class Trace:
    """One map's curves in a panel: its sheet, which of its risks, and a name where several maps share the panel."""

    sheet: Sheet
    risk: Measured
    name: str = ""


@dataclass(frozen=True, eq=False)
class Plane:
    """Risk against utility: the curves of one map, or of several that share the axes."""

    traces: tuple[Trace, ...]
    width: int
    height: int
    outer: bool = True
    """Whether the risk axis is written; a panel to the right of another need not repeat it."""
    title: str = ""

    @property
    def sheet(self) -> Sheet:
        """The first map: axes, thresholds and words are the same for all."""
        return self.traces[0].sheet

    @property
    def risk(self) -> Measured:
        """The first map's risk."""
        return self.traces[0].risk

    @property
    def several(self) -> bool:
        """Whether several maps share the panel."""
        return len(self.traces) > 1

    def chart(self) -> alt.LayerChart:
        """Draw the panel: lines and points, and words where no rising curve can be."""
        panel: dict[str, Any] = {"width": self.width, "height": self.height}
        if self.title:
            colour = theme.colour_in(self.sheet.palette, self.sheet.labels[0])
            text = theme.lines(self.title, 0.8 * self.width - 8, SIZE + 1)  # other fonts are wider
            panel["title"] = alt.Title(text or "", color=colour, fontWeight="bold", fontSize=SIZE, frame="group")
        drawn = [*self._unmasked(), *self._threshold(), *self._curves(), *self._points()]
        return theme.layered(*drawn, *self._chosen(), *self._along(), **panel)

    # -- axes

    def x(self, field: str = "u") -> alt.X:
        """Return the axis of utility, for a field of the rows."""
        about = max(3, self.width // 50)
        return theme.x_axis(field, self.sheet.u_axis, self.sheet.u_title, self.width, about, **self.sheet.u_options)

    def y(self, field: str = "r") -> alt.Y:
        """Return the axis of risk, for a field of the rows."""
        axis = self.sheet.r_axis(self.risk)
        if self.outer:
            return theme.y_axis(field, axis, self.sheet.r_title(self.risk), self.height)
        return theme.y_axis(field, axis, "", self.height, labels=False, ticks=False, domain=False)

    def pixel(self, u: float, r: float) -> tuple[float, float]:
        """Return where a point stands, from the panel's top left corner."""
        return self.sheet.u_axis.share(u) * self.width, (1 - self.sheet.r_axis(self.risk).share(r)) * self.height

    @property
    def colour(self) -> alt.Color:
        """The colour of each utility."""
        return theme.series_colour(self.sheet.palette, self.legend)

    @property
    def legend(self) -> alt.Legend | None:
        """The names of the curves, above the panel; a panel of one curve has it as its title."""
        if self.title:
            return None
        points = any(t.sheet.has_points(t.risk) for t in self.traces)
        look: dict[str, Any] = {"symbolSize": 50} if points else {"symbolType": "stroke", "symbolSize": 250}
        names = [*self.sheet.palette, *(t.name for t in self.traces)]
        columns = 2 if max(map(text_width, names)) < self.width / 2 - 40 else 1
        offset = 8 + 15 * len(self.ends()) if self.several else 6  # above the words on the unmasked lines
        return alt.Legend(orient="top", direction="vertical", columns=columns, offset=offset, symbolOpacity=1, **look)

    # -- lines

    def ends(self) -> theme.Rows:
        """Return the utilities of the unmasked files, smallest first; equal ones of one overlaid map once."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for trace in self.traces:
            for u in trace.sheet.data.utilities:
                if self.sheet.u_axis.shows(u.end):
                    item = {"u": u.end, "series": u.label, "map": trace.name, "what": "unmasked"}
                    found.setdefault((trace.name, f"{u.end:.9g}" if self.several else u.label), item)
        return sorted(found.values(), key=lambda item: float(item["u"]))

    def _unmasked(self) -> list[alt.Chart]:
        """Draw upright lines at the utilities of the unmasked files, and say what they are."""
        ends = self.ends()
        if not ends:
            return []
        if self.several:  # dashes tell the maps apart, so these lines are dotted
            style, colour = {"strokeDash": [1, 3], "strokeWidth": 1.4}, alt.ColorValue(SOFT)
            made = [theme.reference(ends, style, x=self.x(), color=colour)]
            for row, end in enumerate(ends):
                named, above = [{**end, "text": f"unmasked, {end['map']}"}], theme.at(y=-6 - 15 * row)
                made.append(theme.draw("text", named, {"baseline": "bottom", "color": SOFT}, x=self.x(), **above))
            return made
        said = [{**ends[-1], "text": "unmasked"}] if self.outer else []
        style = {"angle": 270, "align": "left", "baseline": "top", "dy": 3, "fontSize": _SMALL, "color": SOFT}
        foot = theme.at(y=self.height - 6)
        return [theme.reference(ends, x=self.x(), color=self.colour), *theme.words(said, style, x=self.x(), **foot)]

    def _threshold(self) -> list[alt.Chart]:
        limit = self.sheet.limits.get(self.risk.label)
        return [] if limit is None else theme.threshold(limit, "r", self.y(), None if self.title else self.width)

    # -- parameter values, to the left of the first of the rising curves, where nothing else is drawn

    def _chosen(self) -> list[Any]:
        """Ring the chosen point on every curve, and write its parameter once, beside the leftmost."""
        rings = [place for t in self.traces for place in t.sheet.chosen_places(t.risk)]
        if not rings:
            return []
        both = {"x": self.x(), "y": self.y()}
        made: list[Any] = [theme.ring(rings, **both)]
        if self.several and all(math.isclose(p["r"], rings[0]["r"], rel_tol=1e-6) for p in rings):
            level = {"r": rings[0]["r"], "what": "chosen level"}
            style = {"strokeDash": [1, 3], "strokeWidth": 1.4}
            made.insert(0, theme.reference([level], style, y=self.y(), color=alt.ColorValue(INK)))
        if not self.title:  # else the panel beside it says so
            first = min(rings, key=lambda p: float(p["u"]))
            item = {**first, "text": self.sheet.chosen_words if self.sheet.single else "chosen"}
            made += self._beside([item], {"fontWeight": "bold"}, 12)
        return made

    def _beside(self, items: theme.Rows, style: theme.Style, gap: int) -> list[alt.Chart]:
        """Write above and to the left of points, or below and to the right where the panel begins."""
        made = []
        for first in (True, False):
            own = [i for i in items if (self.pixel(i["u"], i["r"])[0] < 10 + gap + text_width(i["text"])) is first]
            side = {"align": "left", "dx": gap, "dy": gap} if first else {"align": "right", "dx": -gap, "dy": 4 - gap}
            made += theme.words(own, {**style, **side}, x=self.x(), y=self.y()) if own else []
        return made

    def _along(self) -> list[Any]:
        """Mark some readable parameter values on every curve, and write them to the left of the leftmost."""
        kept: list[list[dict[str, Any]]] = []
        taken = [self.pixel(p["u"], p["r"])[1] for t in self.traces for p in t.sheet.chosen_places(t.risk)]
        for t in self._readable():
            places = [place for trace in self.traces for place in trace.sheet.places(t, trace.risk)]
            places.sort(key=lambda place: float(place["u"]))
            if places and len(kept) < _LABELS:
                y = self.pixel(places[0]["u"], places[0]["r"])[1]
                if all(abs(y - other) >= _APART for other in taken):
                    taken.append(y)
                    kept.append(places)
        if not kept:
            return []
        both = {"x": self.x(), "y": self.y()}
        made: list[Any] = []
        if not any(t.sheet.has_points(t.risk) for t in self.traces):
            dot = {"shape": "circle", "size": 22, "fill": PAPER, "strokeWidth": 1.3, "opacity": 1}
            stroke = alt.Stroke("series:N", scale=theme.colour_scale(self.sheet.palette), legend=None)
            made.append(theme.draw("point", (p for places in kept for p in places), dot, stroke=stroke, **both))
        kept.sort(key=lambda places: float(places[0]["t"]))
        items = [{**places[0], "text": short(places[0]["t"]), "what": "along"} for places in kept]
        items[0]["text"] = f"{symbol(self.sheet.data.parameters[0])} = {items[0]['text']}"
        return [*made, *self._beside(items, {"fontSize": _SMALL, "color": SOFT}, 9)]

    def _readable(self) -> list[float]:
        """Return parameter values worth writing, the most readable first; none for a single point, or for unlike grids."""
        sheet = self.sheet
        if (
            not self.outer
            or not sheet.single
            or len(sheet.grid) < 2
            or len({tuple(t.sheet.grid) for t in self.traces}) > 1
        ):
            return []
        values = dict.fromkeys(t for group in readable(sheet.grid, sheet.log_t) for t in group)
        return [t for t in values if not math.isclose(t, sheet.chosen_t, rel_tol=1e-6)]

    def _curves(self) -> list[alt.Chart]:
        lines = [{**row, "map": t.name} for t in self.traces for row in t.sheet.line_rows(t.risk)]
        if not lines:
            return []
        smooth = all(t.sheet.smooth(t.risk) for t in self.traces)
        style = {"clip": True, "strokeWidth": 2.0} if smooth else {"clip": True, "strokeWidth": 1.2, "opacity": 0.5}
        dash = {"strokeDash": theme.series_dash([t.name for t in self.traces], self.legend)} if self.several else {}
        return [
            theme.draw("line", lines, style, x=self.x(), y=self.y(), color=self.colour, order=alt.Order("t:Q"), **dash)
        ]

    def _points(self) -> list[alt.Chart]:
        points = [row for t in self.traces for row in t.sheet.point_rows(t.risk)]
        if not points:
            return []
        thin = {"strokeWidth": 1, "opacity": 0.55, "clip": True}
        across = {"x": self.x("u_low"), "x2": alt.X2("u_high:Q"), "y": self.y()}
        upright = {"x": self.x(), "y": self.y("r_low"), "y2": alt.Y2("r_high:Q")}
        bars = [theme.draw("rule", points, thin, **way, color=self.colour) for way in (across, upright)]
        dot = {"filled": True, "size": 26, "opacity": 1, "clip": True}
        shape = theme.series_shape(self.sheet.palette, self.legend)
        return [*bars, theme.draw("point", points, dot, x=self.x(), y=self.y(), color=self.colour, shape=shape)]


def risk_panel(
    sheet: Sheet, risk: Measured, width: int, height: int, *, titled: bool = True, inner: bool = False
) -> alt.LayerChart:
    """Draw a risk against the parameter, with its threshold and the chosen value.

    An `inner` panel stands to the right of others that have the same risk axis, and does not repeat it.
    """
    axis = sheet.r_axis(risk)
    x = theme.x_axis("t", sheet.t_axis, sheet.t_title if titled else "", width, 5 if width > 150 else 4)
    y = theme.y_axis("value", axis, "R (log scale)" if axis.log else "R", height, 5 if height < 200 else 7)
    if inner:
        y = theme.y_axis("value", axis, "", height, labels=False, ticks=False, domain=False)
    layers: list[Any] = _chosen_line(sheet, x)
    if risk.label in sheet.limits:
        layers += theme.threshold(sheet.limits[risk.label], "value", y, width if inner else None)
    layers += _against(sheet, [risk], x, y, alt.ColorValue(INK))
    if inner and sheet.t_axis.shows(sheet.chosen_t):
        item = {"t": sheet.chosen_t, "text": sheet.chosen_words}
        layers += theme.words([item], {"fontWeight": "bold", "baseline": "bottom"}, x=x, **theme.at(y=-6))
        places = [
            {"t": sheet.chosen_t, "value": along(sheet.chosen_t, sheet.grid, risk.judged[:, 0], sheet.log_t, axis.log)}
        ]
        layers.append(theme.ring(places, x=x, y=y))
    return theme.layered(*layers, width=width, height=height)


def utility_panel(sheet: Sheet, width: int, height: int) -> alt.LayerChart:
    """Draw every utility against the parameter, with what the unmasked file has."""
    x = theme.x_axis("t", sheet.t_axis, sheet.t_title, width, 5)
    title = "U (share)" if sheet.share else "U (log scale)" if sheet.u_axis.log else "U"
    y = theme.y_axis("value", sheet.u_axis, title, height, 5, **sheet.u_options)
    colour = theme.series_colour(sheet.palette, None)
    ends = [
        {"value": u.end, "series": u.label, "what": "unmasked"}
        for u in sheet.data.utilities
        if sheet.u_axis.shows(u.end)
    ]
    layers: list[Any] = _chosen_line(sheet, x)
    layers += [theme.reference(ends, y=y, color=colour)] if ends else []
    layers += _against(sheet, sheet.data.utilities, x, y, colour)
    return theme.layered(*layers, width=width, height=height)


def _chosen_line(sheet: Sheet, x: alt.X) -> list[alt.Chart]:
    if not sheet.t_axis.shows(sheet.chosen_t):
        return []
    style = {"strokeWidth": 1, "color": FAINT, "clip": True}
    return [theme.draw("rule", [{"t": sheet.chosen_t, "what": "chosen"}], style, x=x)]


def _against(sheet: Sheet, measures: Sequence[Measured], x: alt.X, y: alt.Y, colour: Any) -> list[alt.Chart]:
    """Draw measures against the parameter: formulas as lines, replications as points with intervals."""
    lines, points = [], []
    for m in measures:
        for p, t in enumerate(sheet.grid):
            if t <= 0 and sheet.log_t:
                continue
            lines.append({"t": t, "series": m.label, "value": m.curve[p]})
            if m.empirical is not None or len(sheet.grid) == 1:
                value, low, high = m.judged[p]
                points.append({"t": t, "series": m.label, "value": value, "low": low, "high": high})
    smooth = all(m.analytic is not None for m in measures)
    line = {"clip": True, "strokeWidth": 1.6} if smooth else {"clip": True, "strokeWidth": 1, "opacity": 0.5}
    made = [theme.draw("line", lines, line, x=x, y=y, color=colour)]
    if points:
        low = y.copy()
        low.shorthand = "low:Q"
        shape = theme.series_shape(sheet.palette, None) if len(measures) > 1 else alt.ShapeValue("circle")
        bar, dot = (
            {"strokeWidth": 1, "opacity": 0.55, "clip": True},
            {"filled": True, "size": 14, "opacity": 1, "clip": True},
        )
        made.append(theme.draw("rule", points, bar, x=x, y=low, y2=alt.Y2("high:Q"), color=colour))
        made.append(theme.draw("point", points, dot, x=x, y=y, color=colour, shape=shape))
    return made
