"""The R-U confidentiality map: risk against utility, and both against the parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import altair as alt

from sfumato.charts import marks
from sfumato.charts.heatmap import heat_chart
from sfumato.charts.plane import Plane
from sfumato.charts.render import to_png, to_svg
from sfumato.charts.scales import wants_log
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import INK, WIDTH, themed
from sfumato.charts.tidy import Limits, MapData, Measured

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["map_chart", "to_png", "to_svg"]

UtilityScale = Literal["auto", "value", "share"]

_LEFT, _RIGHT = 345, 185
_TALL, _LOW = 330, 138


def map_chart(
    frame: pd.DataFrame,
    parameters: Sequence[str],
    max_risk: Limits = None,
    chosen: Mapping[str, Any] | None = None,
    *,
    utility: UtilityScale = "auto",
) -> alt.TopLevelMixin:
    """Draw a map from `RUMap.frame`.

    One parameter: R on a log scale against U, a curve for each utility (the formula as a line, replications as points with
    intervals), the utility of the unmasked file and the threshold as dashed lines; beside it R and U against the
    parameter. With several risks, a row of panels for each. Two parameters: heat maps with the feasible region outlined.
    More than two: the points alone.

    Parameters
    ----------
    max_risk
        The threshold, or one for each risk by its label.
    chosen
        The chosen value of each parameter; it is ringed.
    utility
        Draw utilities as they are ("value") or as a share of the unmasked file's ("share"). "auto" takes shares where the
        utilities are of such different sizes that they cannot share an axis.
    """
    data = MapData.read(frame, parameters)
    share = utility == "share" or (utility == "auto" and _sizes_differ(data))
    data = data.with_shares() if share else data
    sheet = Sheet(data, data.limits(max_risk), chosen or {}, share)
    return themed(heat_chart(sheet) if len(data.parameters) == 2 else _page(sheet))


def _sizes_differ(data: MapData) -> bool:
    return len(data.utilities) > 1 and data.has_shares and wants_log((u.unmasked for u in data.utilities), 8)


def _page(sheet: Sheet) -> alt.ConcatChart | alt.HConcatChart | alt.VConcatChart:
    risks = sheet.data.risks
    if not sheet.single:
        return alt.vconcat(*(Plane(sheet, r, WIDTH - 140, _TALL).chart() for r in risks))
    if len(risks) == 1:
        above, below = _risk_panel(sheet, risks[0], _LOW, titled=False), _utility_panel(sheet, _RIGHT, _LOW)
        return alt.hconcat(Plane(sheet, risks[0], _LEFT, _TALL).chart(), alt.vconcat(above, below, spacing=12))
    rows = [alt.hconcat(Plane(sheet, r, _LEFT, 230).chart(), _risk_panel(sheet, r, 230)) for r in risks]
    return alt.vconcat(*rows, _utility_panel(sheet, _LEFT, _LOW), spacing=16)


# -- against the parameter


def _risk_panel(sheet: Sheet, risk: Measured, height: int, titled: bool = True) -> alt.LayerChart:
    """Draw a risk against the parameter, with its threshold and the chosen value."""
    axis = sheet.r_axis(risk)
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title if titled else "", 5)
    y = marks.y_axis("value", axis, "R (log scale)" if axis.log else "R", 5 if height < 200 else 7)
    layers = _chosen_line(sheet, x)
    if risk.label in sheet.limits:
        threshold = marks.reference([{"value": sheet.limits[risk.label], "what": "threshold"}], y=y)
        layers.append(threshold.encode(color=alt.value(INK)))
    layers += _against(sheet, [risk], x, y, alt.value(INK))
    return alt.layer(*layers).properties(width=_RIGHT, height=height)


def _utility_panel(sheet: Sheet, width: int, height: int) -> alt.LayerChart:
    """Draw every utility against the parameter, with what the unmasked file has."""
    x = marks.x_axis("t", sheet.t_axis, sheet.t_title, 5)
    y = marks.y_axis("value", sheet.u_axis, "U (share)" if sheet.share else "U", 5, **sheet.u_options)
    colour = marks.series_colour(sheet.labels, None)
    shown = [u for u in sheet.data.utilities if sheet.u_axis.shows(u.unmasked)]
    layers = _chosen_line(sheet, x)
    if shown:
        ends = [{"value": u.unmasked, "series": u.label, "what": "unmasked"} for u in shown]
        layers.append(marks.reference(ends, y=y, color=colour))
    layers += _against(sheet, sheet.data.utilities, x, y, colour)
    return alt.layer(*layers).properties(width=width, height=height)


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
            if m.empirical is not None:
                value, low, high = m.empirical[p]
                points.append({"t": t, "series": m.label, "value": value, "low": low, "high": high})
    smooth = all(m.analytic is not None for m in measures)
    style: dict[str, Any] = {"strokeWidth": 1.6} if smooth else {"strokeWidth": 1, "opacity": 0.45}
    made = [marks.rows(lines).mark_line(clip=True, **style).encode(x=x, y=y, color=colour)]
    if points:
        bars = marks.rows(points).mark_rule(strokeWidth=1, opacity=0.55, clip=True)
        made.append(bars.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour))
        dots = marks.rows(points).mark_point(filled=True, size=12, opacity=1, clip=True)
        shape = marks.series_shape(sheet.labels, None) if len(measures) > 1 else alt.value("circle")
        made.append(dots.encode(x=x, y=y, color=colour, shape=shape))
    return made
