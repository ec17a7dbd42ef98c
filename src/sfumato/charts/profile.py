"""The small panels: risk and utility against the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import INK
from sfumato.charts.tidy import Measured


def risk_panel(
    sheet: Sheet, risk: Measured, width: int, height: int, *, titled: bool = True, inner: bool = False
) -> alt.LayerChart:
    """Draw a risk against the parameter, with its threshold and the chosen value.

    An `inner` panel stands to the right of others that have the same risk axis, and does not repeat it.
    """
    axis = sheet.r_axis(risk)
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title if titled else "", 5 if width > 150 else 4)
    y = marks.y_axis("value", axis, "R (log scale)" if axis.log else "R", 5 if height < 200 else 7)
    if inner:
        y = marks.y_axis("value", axis, "", labels=False, ticks=False, domain=False)
    layers: list[Any] = _chosen_line(sheet, x)
    if risk.label in sheet.limits:
        item = {"value": sheet.limits[risk.label], "what": "threshold"}
        layers.append(marks.reference([item], y=y, color=alt.value(INK)))
    layers += _against(sheet, [risk], x, y, alt.value(INK))
    if inner and sheet.t_axis.shows(sheet.chosen_t):
        item = {"t": sheet.chosen_t, "text": sheet.chosen_words}
        layers.append(marks.words([item], encode={"x": x, "y": alt.value(-6)}, fontWeight="bold", baseline="bottom"))
    chart: alt.LayerChart = alt.layer(*layers).properties(width=width, height=height)
    return chart


def utility_panel(sheet: Sheet, width: int, height: int) -> alt.LayerChart:
    """Draw every utility against the parameter, with what the unmasked file has."""
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title, 5)
    title = "U (share)" if sheet.share else "U (log scale)" if sheet.u_axis.log else "U"
    y = marks.y_axis("value", sheet.u_axis, title, 5, **sheet.u_options)
    colour = marks.series_colour(sheet.palette, None)
    ends = [
        {"value": u.unmasked, "series": u.label, "what": "unmasked"}
        for u in sheet.data.utilities
        if sheet.u_axis.shows(u.unmasked)
    ]
    layers: list[Any] = _chosen_line(sheet, x)
    layers += [marks.reference(ends, y=y, color=colour)] if ends else []
    layers += _against(sheet, sheet.data.utilities, x, y, colour)
    chart: alt.LayerChart = alt.layer(*layers).properties(width=width, height=height)
    return chart


def _chosen_line(sheet: Sheet, x: alt.X) -> list[alt.Chart]:
    if not sheet.t_axis.shows(sheet.chosen_t):
        return []
    line = marks.rows([{"t": sheet.chosen_t, "what": "chosen"}]).mark_rule(strokeWidth=1, color=INK, clip=True)
    return [line.encode(x=x)]


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
    style: dict[str, Any] = {"strokeWidth": 1.6} if smooth else {"strokeWidth": 1, "opacity": 0.5}
    made = [marks.rows(lines).mark_line(clip=True, **style).encode(x=x, y=y, color=colour)]
    if points:
        bars = marks.rows(points).mark_rule(strokeWidth=1, opacity=0.55, clip=True)
        made.append(bars.encode(x=x, y=alt.Y("low:Q", title=None), y2="high:Q", color=colour))
        dots = marks.rows(points).mark_point(filled=True, size=14, opacity=1, clip=True)
        shape = marks.series_shape(sheet.palette, None) if len(measures) > 1 else alt.value("circle")
        made.append(dots.encode(x=x, y=y, color=colour, shape=shape))
    return made
