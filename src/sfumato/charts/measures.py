"""Every measure of one release against its threshold, and risk against information loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short
from sfumato.charts.map_data import COMBINED, MapData, MeasureReading, Point, TrialPoint, key_of
from sfumato.charts.scales import Axis, risk_axis
from sfumato.charts.theme import INK, PAPER, RISK_SHADES, SIZE, SOFT, UTILITY_SHADES, WIDTH, text_width, themed
from sfumato.errors import ParameterError, join_names
from sfumato.lazy import pd

_ROW = 24
_NAMES = 180
"""Pixels for the names at the left; longer ones take several lines."""
_LEAST = 150


def measures_chart(frame: pd.DataFrame, point: int | None = None) -> alt.VConcatChart:
    """Draw every measure at one point of `RUMap.frame()` of a search, the chosen one if not given.

    A risk stands at its value divided by its own threshold, which is absolute: left of 1 it is tolerable, in whatever unit
    it is measured; a bar shows the 95 % interval, and a thin line ends where 95 % of releases stay below, which is what
    must not pass 1. A utility stands at its value as a share of the unmasked file's (which for most is 1), where the frame
    has that. The numbers in their own units, and in words whether the threshold is met, are at the right. Risks without a
    threshold have words and no dot.
    """
    data = MapData.read(frame)
    at = _wanted(data, point)
    several = len(data.scenarios) > 1  # one scenario need not be named at every risk
    risks = [_risk(m, s if several else "", r, data.thresholds.get(m, math.nan)) for (m, s), r in at.risks.items()]
    own = {m: u for m, u in at.utilities.items() if m != COMBINED}
    known = all(data.unmasked.get(m, 0.0) > 0 for m in own)
    utilities = [_utility(m, u, data.unmasked[m] if known else None) for m, u in own.items()]
    rows = [*risks, *utilities]
    for row in rows:
        broken = theme.lines(row["name"], _NAMES) or ""
        row["name"] = broken if isinstance(broken, str) else "\n".join(broken)
    names = max(text_width(line) for r in rows for line in r["name"].split("\n")) + 14
    words = max(text_width(r["text"]) for r in rows) + 12
    width = int(max(_LEAST, WIDTH - names - words - 12))
    panels = []
    if risks:
        panels.append(_risk_panel(risks, width, names))
    if utilities:
        panels.append(_utility_panel(utilities, width, names, known))
    title = alt.Title(text=theme.lines(f"{at.family}: {at.at}", WIDTH - 40) or "", color=SOFT, fontSize=SIZE, offset=10)
    page: alt.VConcatChart = alt.vconcat(*panels, spacing=20, title=title)
    return themed(page)


def _wanted(data: MapData, point: int | None) -> Point:
    if point is None:
        if data.chosen is None:
            raise ParameterError("no point of the search is chosen; name the one to draw (point=…).")
        return data.chosen
    found = next((p for p in data.points if p.number == point), None)
    if found is None:
        known = join_names([str(p.number) for p in data.points])
        raise ParameterError(f"the search has no point {point}. It has: {known}.")
    return found


def _risk(measure: str, scenario: str, r: MeasureReading, threshold: float) -> dict[str, Any]:
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


def _utility(measure: str, u: MeasureReading, unmasked: float | None) -> dict[str, Any]:
    row = {"name": measure, "measure": measure, "state": "utility", "value": u.value}
    if math.isnan(u.value):
        return {**row, "text": "not measured"}
    whole = 1.0 if unmasked is None else unmasked
    of = "" if whole == 1 else f", unmasked {short(whole)}"
    row |= {"at": u.value / whole, "at_low": u.low / whole, "at_high": u.high / whole}
    return {**row, "text": u.words + of}


def _risk_panel(rows: theme.Rows, width: int, names: float) -> alt.LayerChart:
    values = [row[k] for row in rows for k in ("at", "at_low", "at_limit") if k in row]
    axis = risk_axis([*(max(v, 0.0) for v in values if not math.isnan(v)), 1.0])
    x = theme.x_axis(
        "at", axis, "risk as a multiple of its threshold" + (" (log scale)" if axis.log else ""), width, width // 40
    )
    y = _rows(rows, names)
    drawn = [row for row in rows if "at" in row]
    layers: list[Any] = [theme.reference([{"at": 1.0, "what": "threshold"}], x=x, color=alt.ColorValue(INK))]
    if drawn:
        # on an axis with a place for zero, an interval that reaches below it starts at the foot
        foot = [{**r, "at_low": max(r["at_low"], axis.low if axis.log else 0.0)} for r in drawn]
        thin = {"strokeWidth": 1, "color": SOFT, "clip": True}
        layers.append(theme.draw("rule", drawn, thin, **_span(x, y, "at", "at_limit")))
        tick = {"orient": "vertical", "thickness": 1.4, "size": 10, "color": SOFT, "clip": True}
        layers.append(theme.draw("tick", drawn, tick, x=_field(x, "at_limit"), y=y))
        layers.append(_bars(foot, x, y, RISK_SHADES[3]))
        for state, fill, shape in (("met", RISK_SHADES[3], "circle"), ("exceeded", PAPER, "diamond")):
            if items := [r for r in drawn if r["state"] == state]:
                look = {"shape": shape, "size": 48, "strokeWidth": 2, "opacity": 1}
                dot = {**look, "fill": fill, "stroke": RISK_SHADES[3]}
                layers.append(theme.draw("point", items, dot, x=x, y=y))
    layers += _words(rows, y, width)
    head = "risks: filled where the limit meets the threshold, hollow where it exceeds it"
    return theme.layered(*layers, width=width, height=_tall(rows), title=_heading(head, names))


def _utility_panel(rows: theme.Rows, width: int, names: float, known: bool) -> alt.LayerChart:
    """Draw utilities, as shares of the unmasked file's where that is `known`."""
    shown = [r[k] for r in rows for k in ("at", "at_low", "at_high") if k in r and math.isfinite(r[k])]
    low, high = min([0.0, *shown]), max([1.0 if known else 0.0, *shown])
    axis = Axis(low - 0.03 * (high - low) * (low < 0), high + 0.05 * (high - low or 1.0), False)
    x = theme.x_axis(
        "at", axis, "utility as a share of the unmasked file's" if known else "utility", width, width // 40
    )
    y = _rows(rows, names)
    drawn = [r for r in rows if math.isfinite(r.get("at", math.nan))]
    layers: list[Any] = []
    if known:
        layers.append(theme.reference([{"at": 1.0, "what": "unmasked"}], x=x, color=alt.ColorValue(INK)))
    if drawn:
        layers.append(_bars(drawn, x, y, UTILITY_SHADES[3]))
        dot = {"shape": "circle", "size": 58, "filled": True, "color": UTILITY_SHADES[3], "opacity": 1, "clip": True}
        layers.append(theme.draw("point", drawn, dot, x=x, y=y))
    layers += _words(rows, y, width)
    head = "utilities: 1 is the unmasked file" if known else "utilities, each in its own unit"
    return theme.layered(*layers, width=width, height=_tall(rows), title=_heading(head, names))


def _heading(text: str, names: float) -> alt.Title:
    return alt.Title(text, frame="group", anchor="start", offset=6, dx=-names)


def _tall(rows: theme.Rows) -> int:
    most = max(str(row["name"]).count("\n") + 1 for row in rows)
    return len(rows) * max(_ROW, 6 + 13 * most)


def _rows(rows: theme.Rows, names: float) -> alt.Y:
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


def _bars(rows: theme.Rows, x: alt.X, y: alt.Y, colour: str) -> alt.Chart:
    style = {"strokeWidth": 6, "color": colour, "opacity": 0.35, "clip": True}
    return theme.draw("rule", rows, style, **_span(x, y, "at_low", "at_high"))


def _words(rows: theme.Rows, y: alt.Y, width: int) -> list[alt.Chart]:
    style, where = {"align": "left", "baseline": "middle", "color": INK}, theme.at(x=width + 12)
    looks = (
        ("normal", [r for r in rows if r["state"] != "exceeded"]),
        ("bold", [r for r in rows if r["state"] == "exceeded"]),
    )
    return [theme.draw("text", own, {**style, "fontWeight": bold}, **where, y=y) for bold, own in looks if own]


_HEIGHT = 340


def loss_chart(
    frame: pd.DataFrame, risk: str | None = None, utility: str | None = None, threshold: float | None = None
) -> alt.LayerChart:
    """Draw risk against information loss, 1 − U, from `RUMap.frame()` of a search (Truta, Fotouhi and Barth-Jones 2004, section 5).

    A line joins the settings of a family for which none of its other settings has both less loss and less risk; the rest
    are faint points. Lower left is better. `risk` and `utility` are titles of measures, the first risk and what was maximised
    if not given. U is the share of the unmasked file's; where the frame
    does not tell that, it is taken to be 1, as for most utilities.
    """
    data = MapData.read(frame)
    name, use = data.risk(risk), data.utility(utility)
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    found = [f for f in data.pairs(name, use) if math.isfinite(f[1].value) and math.isfinite(f[2].value)]
    whole = data.unmasked.get(use, 1.0)
    if not whole > 0 or (use not in data.unmasked and any(u.value > 1.5 for _, _, u in found)):
        raise ParameterError(
            f"the information loss of {use} is not known, because its value for the unmasked file is not 1; draw risk against "
            "utility instead, or choose a utility that is 1 for the unmasked file."
        )
    rows = _losses(found, whole)
    top = [row for row in rows if not any(_beats(other, row) for other in rows)]
    key = key_of(data.families, [row["family"] for row in sorted(top, key=lambda row: float(row["loss"]))])
    rows = [{**row, **key.fields(row["family"])} for row in rows]
    of = use if whole == 1 else f"{use} as a share of the unmasked file's"
    across = risk_axis([row["loss"] for row in rows], 100)
    up = risk_axis([*(row["r"] for row in rows), *([] if limit is None else [limit])])
    size = int(max(300, WIDTH - 70 - key.width)), _HEIGHT
    x = theme.x_axis("loss", across, f"information loss: 1 − {of}" + (" (log scale)" if across.log else ""), size[0])
    y = theme.y_axis("r", up, f"disclosure risk R: {name}" + (" (log scale)" if up.log else ""), size[1])
    layers: list[Any] = []
    if limit is not None:
        layers += theme.threshold(limit, "r", y)
    colour, shape = key.colour(), key.shape()
    line = {"strokeWidth": 1.8 if not key.crowded else 1.2, "opacity": 1 if not key.crowded else 0.7, "clip": True}
    best = [{**row, "what": "line"} for row in rows if row["best"]]
    order, each = alt.Order("loss:Q"), alt.Detail("family:N")
    layers.append(theme.draw("line", best, line, x=x, y=y, color=colour, detail=each, order=order))
    tips = [
        alt.Tooltip("family:N", title="family"), alt.Tooltip("recipe:N", title="recipe"),
        alt.Tooltip("r:Q", title=name, format=".3~g"), alt.Tooltip("loss:Q", title="information loss", format=".3~g"),
    ]  # fmt: skip
    for good, opacity in ((False, 0.25), (True, 1.0)):
        if items := [row for row in rows if row["best"] is good]:
            dot = {"filled": True, "size": 40, "opacity": opacity, "clip": True}
            layers.append(theme.draw("point", items, dot, x=x, y=y, color=colour, shape=shape, tooltip=tips))
    if chosen := [row for row in rows if row["chosen"]]:
        layers.append(theme.ring(chosen, x=x, y=y))
    said = "lines: the best settings of each family; lower left is better"
    said += "" if limit is None else f"; dashed: the largest tolerable risk, {short(limit)}"
    said += f"; ringed: chosen, {chosen[0]['family']} (loss {short(chosen[0]['loss'])})" if chosen else ""
    return themed(theme.layered(*layers, width=size[0], height=size[1], title=theme.heading([said])))


def _losses(points: Sequence[TrialPoint], whole: float) -> theme.Rows:
    """Return a row for each point, and whether it is one of the best of its family."""
    rows: theme.Rows = [
        {"point": p.number, "family": p.family, "recipe": p.at, "loss": 1 - u.value / whole, "r": r.value, "chosen": p.chosen}
        for p, r, u in points
    ]  # fmt: skip
    for row in rows:
        row["best"] = not any(_beats(other, row) for other in rows if other["family"] == row["family"])
    return rows


def _beats(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether a is at least as good as b in both, and better in one."""
    pair, other = (a["loss"], a["r"]), (b["loss"], b["r"])
    return pair != other and pair[0] <= other[0] and pair[1] <= other[1]
