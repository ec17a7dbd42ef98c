"""Every measure of one release: risks against their own thresholds, utilities against the unmasked file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.placing import text_width
from sfumato.charts.scales import Axis, risk_axis
from sfumato.charts.searched import COMBINED, Point, Reading, Searched
from sfumato.charts.theme import INK, PAPER, RISK_SHADES, SIZE, SOFT, UTILITY_SHADES, WIDTH, themed
from sfumato.charts.words import short
from sfumato.errors import ParameterError, listing

if TYPE_CHECKING:
    import pandas as pd

_ROW = 24
_NAMES = 180
"""Pixels for the names at the left; longer ones take several lines."""
_LEAST = 150


def measures_chart(frame: pd.DataFrame, point: int | None = None) -> alt.VConcatChart:
    """Draw every measure at one point of `SearchResult.frame`, the chosen one if not given.

    A risk stands at its value divided by its own threshold, which is absolute: left of 1 it is tolerable, in whatever unit
    it is measured; a bar shows the 95 % interval, and a thin line ends where 95 % of releases stay below, which is what
    must not pass 1. A utility stands at its value as a share of the unmasked file's (which for most is 1), where the frame
    has that. The numbers in their own units, and in words whether the threshold is met, are at the right. Risks without a
    threshold have words and no dot.
    """
    data = Searched.read(frame)
    at = _wanted(data, point)
    several = len(data.scenarios) > 1  # one scenario need not be named at every risk
    risks = [_risk(m, s if several else "", r, data.thresholds.get(m, math.nan)) for (m, s), r in at.risks.items()]
    own = {m: u for m, u in at.utilities.items() if m != COMBINED}
    known = all(data.unmasked.get(m, 0.0) > 0 for m in own)
    utilities = [_utility(m, u, data.unmasked[m] if known else None) for m, u in own.items()]
    rows = [*risks, *utilities]
    for row in rows:
        broken = marks.lines(row["name"], _NAMES) or ""
        row["name"] = broken if isinstance(broken, str) else "\n".join(broken)
    names = max(text_width(line) for r in rows for line in r["name"].split("\n")) + 14
    words = max(text_width(r["text"]) for r in rows) + 12
    width = int(max(_LEAST, WIDTH - names - words - 12))
    panels = []
    if risks:
        panels.append(_risk_panel(risks, width, names))
    if utilities:
        panels.append(_utility_panel(utilities, width, names, known))
    title = alt.Title(
        text=marks.lines(f"{at.family}: {at.recipe}", WIDTH - 40) or "", color=SOFT, fontSize=SIZE, offset=10
    )
    page: alt.VConcatChart = alt.vconcat(*panels, spacing=20, title=title)
    return themed(page)


def _wanted(data: Searched, point: int | None) -> Point:
    if point is None:
        if data.chosen is None:
            raise ParameterError("no point of the search is chosen; name the one to draw (point=…).")
        return data.chosen
    found = next((p for p in data.points if p.number == point), None)
    if found is None:
        known = listing([str(p.number) for p in data.points])
        raise ParameterError(f"the search has no point {point}. It has: {known}.")
    return found


def _risk(measure: str, scenario: str, r: Reading, threshold: float) -> dict[str, Any]:
    name = measure + (f" ({scenario})" if scenario else "")
    row = {"name": name, "measure": measure, "scenario": scenario, "value": r.value, "limit": r.limit}
    if math.isnan(r.value):
        return {**row, "state": "none", "text": "not measured"}
    if math.isnan(threshold):
        return {**row, "state": "none", "text": f"{short(r.value)}, no threshold"}
    met = r.judged <= threshold * (1 + 1e-9)
    limit = "" if math.isnan(r.limit) else f" (limit {short(r.limit)})"
    said = f"{short(r.value)}{limit}, at most {short(threshold)}: {'met' if met else 'exceeded'}"
    row |= {"threshold": threshold, "state": "met" if met else "exceeded", "text": said}
    if threshold <= 0:  # nothing can be divided by it
        return row
    return {
        **row, "at": r.value / threshold, "at_low": r.low / threshold, "at_high": r.high / threshold,
        "at_limit": r.judged / threshold,
    }  # fmt: skip


def _utility(measure: str, u: Reading, unmasked: float | None) -> dict[str, Any]:
    row = {"name": measure, "measure": measure, "state": "utility", "value": u.value}
    if math.isnan(u.value):
        return {**row, "text": "not measured"}
    whole = 1.0 if unmasked is None else unmasked
    of = "" if whole == 1 else f", unmasked {short(whole)}"
    row |= {"at": u.value / whole, "at_low": u.low / whole, "at_high": u.high / whole}
    return {**row, "text": u.words + of}


def _risk_panel(rows: marks.Rows, width: int, names: float) -> alt.LayerChart:
    values = [row[k] for row in rows for k in ("at", "at_low", "at_limit") if k in row]
    axis = risk_axis([*(max(v, 0.0) for v in values if not math.isnan(v)), 1.0])
    x = marks.x_axis(
        "at", axis, "risk as a multiple of its threshold" + (" (log scale)" if axis.log else ""), width, width // 40
    )
    y = _rows(rows, names)
    drawn = [row for row in rows if "at" in row]
    layers: list[Any] = [marks.reference([{"at": 1.0, "what": "threshold"}], x=x, color=alt.ColorValue(INK))]
    if drawn:
        # on an axis with a place for zero, an interval that reaches below it starts at the foot
        foot = [{**r, "at_low": max(r["at_low"], axis.low if axis.log else 0.0)} for r in drawn]
        layers.append(
            marks.draw("rule", drawn, {"strokeWidth": 1, "color": SOFT, "clip": True}, **_span(x, y, "at", "at_limit"))
        )
        tick = {"orient": "vertical", "thickness": 1.4, "size": 10, "color": SOFT, "clip": True}
        layers.append(marks.draw("tick", drawn, tick, x=_field(x, "at_limit"), y=y))
        layers.append(_bars(foot, x, y, RISK_SHADES[3]))
        for state, fill, shape in (("met", RISK_SHADES[3], "circle"), ("exceeded", PAPER, "diamond")):
            if items := [r for r in drawn if r["state"] == state]:
                dot = {
                    "shape": shape,
                    "size": 48,
                    "fill": fill,
                    "stroke": RISK_SHADES[3],
                    "strokeWidth": 2,
                    "opacity": 1,
                }
                layers.append(marks.draw("point", items, dot, x=x, y=y))
    layers += _words(rows, y, width)
    head = "risks: filled where the limit meets the threshold, hollow where it exceeds it"
    return marks.layered(*layers, width=width, height=_tall(rows), title=_heading(head, names))


def _utility_panel(rows: marks.Rows, width: int, names: float, known: bool) -> alt.LayerChart:
    """Draw utilities, as shares of the unmasked file's where that is `known`."""
    shown = [r[k] for r in rows for k in ("at", "at_low", "at_high") if k in r and math.isfinite(r[k])]
    low, high = min([0.0, *shown]), max([1.0 if known else 0.0, *shown])
    axis = Axis(low - 0.03 * (high - low) * (low < 0), high + 0.05 * (high - low or 1.0), False)
    x = marks.x_axis(
        "at", axis, "utility as a share of the unmasked file's" if known else "utility", width, width // 40
    )
    y = _rows(rows, names)
    drawn = [r for r in rows if math.isfinite(r.get("at", math.nan))]
    layers: list[Any] = []
    if known:
        layers.append(marks.reference([{"at": 1.0, "what": "unmasked"}], x=x, color=alt.ColorValue(INK)))
    if drawn:
        layers.append(_bars(drawn, x, y, UTILITY_SHADES[3]))
        dot = {"shape": "circle", "size": 58, "filled": True, "color": UTILITY_SHADES[3], "opacity": 1, "clip": True}
        layers.append(marks.draw("point", drawn, dot, x=x, y=y))
    layers += _words(rows, y, width)
    head = "utilities: 1 is the unmasked file" if known else "utilities, each in its own unit"
    return marks.layered(*layers, width=width, height=_tall(rows), title=_heading(head, names))


def _heading(text: str, names: float) -> alt.Title:
    return alt.Title(text, frame="group", anchor="start", offset=6, dx=-names)


def _tall(rows: marks.Rows) -> int:
    most = max(str(row["name"]).count("\n") + 1 for row in rows)
    return len(rows) * max(_ROW, 6 + 13 * most)


def _rows(rows: marks.Rows, names: float) -> alt.Y:
    order = [r["name"] for r in rows]
    axis = alt.Axis(ticks=False, domain=False, grid=True, labelLimit=0, labelPadding=8, minExtent=int(names))
    axis.labelExpr = "split(datum.label, '\\n')"
    return alt.Y("name:N", sort=order, title=None, axis=axis, scale=alt.Scale(domain=order))


def _field(x: alt.X, field: str) -> alt.X:
    other = x.copy()
    other.shorthand = f"{field}:Q"
    return other


def _span(x: alt.X, y: alt.Y, start: str, end: str) -> dict[str, Any]:
    return {"x": _field(x, start), "x2": alt.X2(f"{end}:Q"), "y": y}


def _bars(rows: marks.Rows, x: alt.X, y: alt.Y, colour: str) -> alt.Chart:
    style = {"strokeWidth": 6, "color": colour, "opacity": 0.35, "clip": True}
    return marks.draw("rule", rows, style, **_span(x, y, "at_low", "at_high"))


def _words(rows: marks.Rows, y: alt.Y, width: int) -> list[alt.Chart]:
    style = {"align": "left", "baseline": "middle", "color": INK}
    weight = [(r, "bold" if r["state"] == "exceeded" else "normal") for r in rows]
    made = []
    for bold in ("normal", "bold"):
        if items := [r for r, w in weight if w == bold]:
            text = alt.Text("text:N")
            made.append(
                marks.draw("text", items, {**style, "fontWeight": bold}, **marks.at(x=width + 12), y=y, text=text)
            )
    return made
