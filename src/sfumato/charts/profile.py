"""The small panels: risk and utility against the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import FAINT, INK
from sfumato.charts.tidy import Measured, along


def risk_panel(
    sheet: Sheet, risk: Measured, width: int, height: int, *, titled: bool = True, inner: bool = False
) -> alt.LayerChart:
    """Draw a risk against the parameter, with its threshold and the chosen value.

    An `inner` panel stands to the right of others that have the same risk axis, and does not repeat it.
    """
    axis = sheet.r_axis(risk)
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title if titled else "", width, 5 if width > 150 else 4)
    y = marks.y_axis("value", axis, "R (log scale)" if axis.log else "R", height, 5 if height < 200 else 7)
    if inner:
        y = marks.y_axis("value", axis, "", height, labels=False, ticks=False, domain=False)
    layers: list[Any] = _chosen_line(sheet, x)
    if risk.label in sheet.limits:
        item = {"value": sheet.limits[risk.label], "what": "threshold"}
        layers.append(marks.reference([item], y=y, color=alt.ColorValue(INK)))
    layers += _against(sheet, [risk], x, y, alt.ColorValue(INK))
    if inner and sheet.t_axis.shows(sheet.chosen_t):
        item = {"t": sheet.chosen_t, "text": sheet.chosen_words}
        layers += marks.words([item], {"fontWeight": "bold", "baseline": "bottom"}, x=x, **marks.at(y=-6))
        places = [
            {"t": sheet.chosen_t, "value": along(sheet.chosen_t, sheet.grid, risk.judged[:, 0], sheet.log_t, axis.log)}
        ]
        layers.append(marks.ring(places, x=x, y=y))
    return marks.layered(*layers, width=width, height=height)


def utility_panel(sheet: Sheet, width: int, height: int) -> alt.LayerChart:
    """Draw every utility against the parameter, with what the unmasked file has."""
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title, width, 5)
    title = "U (share)" if sheet.share else "U (log scale)" if sheet.u_axis.log else "U"
    y = marks.y_axis("value", sheet.u_axis, title, height, 5, **sheet.u_options)
    colour = marks.series_colour(sheet.palette, None)
    ends = [
        {"value": u.unmasked, "series": u.label, "what": "unmasked"}
        for u in sheet.data.utilities
        if sheet.u_axis.shows(u.unmasked)
    ]
    layers: list[Any] = _chosen_line(sheet, x)
    layers += [marks.reference(ends, y=y, color=colour)] if ends else []
    layers += _against(sheet, sheet.data.utilities, x, y, colour)
    return marks.layered(*layers, width=width, height=height)


def _chosen_line(sheet: Sheet, x: alt.X) -> list[alt.Chart]:
    if not sheet.t_axis.shows(sheet.chosen_t):
        return []
    style = {"strokeWidth": 1, "color": FAINT, "clip": True}
    return [marks.draw("rule", [{"t": sheet.chosen_t, "what": "chosen"}], style, x=x)]


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
    made = [marks.draw("line", lines, line, x=x, y=y, color=colour)]
    if points:
        low = y.copy()
        low.shorthand = "low:Q"
        shape = marks.series_shape(sheet.palette, None) if len(measures) > 1 else alt.ShapeValue("circle")
        bar, dot = (
            {"strokeWidth": 1, "opacity": 0.55, "clip": True},
            {"filled": True, "size": 14, "opacity": 1, "clip": True},
        )
        made.append(marks.draw("rule", points, bar, x=x, y=low, y2=alt.Y2("high:Q"), color=colour))
        made.append(marks.draw("point", points, dot, x=x, y=y, color=colour, shape=shape))
    return made
