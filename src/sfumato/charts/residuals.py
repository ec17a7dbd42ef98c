"""Pictures of residuals: synthetic points with a line through their middle, and binned means with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt
import numpy as np
from numpy.typing import NDArray

from sfumato.charts import marks
from sfumato.charts.scales import Axis
from sfumato.charts.theme import INK, SERIES, SIZE, SOFT, UTILITY_SHADES, WIDTH, themed

if TYPE_CHECKING:
    import pandas as pd

_HIGH = 300
_WIDE = WIDTH - 70
_PARTS = 20


def residual_chart(points: pd.DataFrame, axis: str, levels: Sequence[str] | None = None) -> alt.LayerChart:
    """Draw synthetic residuals (columns x, residual) against an axis of numbers, or of levels.

    The line joins medians of the residuals in twentieths of the points; the thin ones are their quartiles. They come from what is
    drawn alone.
    """
    t = points["residual"].to_numpy(float)
    up = Axis.over(t.tolist(), False)
    y = marks.y_axis("residual", up, "synthetic residual, standardised", _HIGH)
    note = "synthetic: no point is a record; " + (
        "line: median, thin lines: quartiles" if levels is None else "bar: median"
    )
    title = alt.Title(text=note, fontSize=SIZE, color=SOFT, anchor="start", offset=8, frame="group")
    if levels is not None:
        return _by_level(points, axis, levels, y, title)
    x = points["x"].to_numpy(float)
    across = marks.x_axis("x", Axis.over(x.tolist(), False, 0.02), f"{axis} (synthetic)", _WIDE)
    items = [{"x": a, "residual": b} for a, b in zip(x.tolist(), t.tolist(), strict=True)]
    layers = [
        marks.reference([{"residual": 0.0}], y=y),
        marks.draw("point", items, _dots(len(items)), x=across, y=y),
        *_middles(x, t, across, y),
    ]
    return themed(marks.layered(*layers, width=_WIDE, height=_HIGH, title=title))


def _dots(count: int) -> dict[str, object]:
    return {"filled": True, "color": SERIES[0], "size": 16, "opacity": 0.45 if count <= 2000 else 0.2, "clip": True}


def _middles(x: NDArray[np.float64], t: NDArray[np.float64], across: alt.X, y: alt.Y) -> list[alt.Chart]:
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, min(_PARTS, max(len(x) // 25, 1)))
    rows = {
        q: [{"x": float(np.median(x[p])), "residual": float(np.quantile(t[p], q))} for p in parts]
        for q in (0.25, 0.5, 0.75)
    }
    thin = {"color": SERIES[1], "strokeWidth": 1, "strokeDash": [4, 3]}
    return [
        marks.draw("line", items, {"color": SERIES[1], "strokeWidth": 2.2} if q == 0.5 else thin, x=across, y=y)
        for q, items in rows.items()
    ]


def _by_level(points: pd.DataFrame, axis: str, levels: Sequence[str], y: alt.Y, title: alt.Title) -> alt.LayerChart:
    names = list(levels)
    # points of a level stand a little apart, by their number
    apart = ((np.arange(len(points)) * 0.618034) % 1.0) - 0.5
    pairs = zip(points["x"].tolist(), points["residual"].tolist(), apart.tolist(), strict=True)
    items = [{"x": str(a), "residual": b, "apart": c} for a, b, c in pairs]
    place = alt.X(
        "x:N",
        sort=names,
        title=f"{axis} (levels)",
        scale=alt.Scale(domain=names),
        axis=alt.Axis(labelAngle=0, labelLimit=90),
    )
    offset = alt.XOffset("apart:Q", scale=alt.Scale(domain=[-0.8, 0.8]))
    middles = [{"x": str(n), "residual": float(points.loc[points["x"] == n, "residual"].median())} for n in names]
    look = {"color": SERIES[1], "thickness": 2.5, "width": max(8.0, 0.6 * _WIDE / len(names))}
    layers = [
        marks.draw("point", items, _dots(len(items)), x=place, y=y, xOffset=offset),
        marks.draw("tick", middles, {**look, "orient": "horizontal"}, x=place, y=y),
        marks.reference([{"residual": 0.0}], y=y),
    ]
    return themed(marks.layered(*layers, width=_WIDE, height=_HIGH, title=title))


def one_below_another(charts: Sequence[alt.LayerChart]) -> alt.LayerChart | alt.VConcatChart:
    """Put pictures of one model into one chart."""
    if len(charts) == 1:
        return charts[0]
    bare = [chart.copy(deep=False) for chart in charts]
    for chart in bare:
        chart.config = alt.Undefined  # parts of a chart have no theme of their own
    return themed(alt.vconcat(*bare, spacing=24))


def binned_chart(points: pd.DataFrame, axis: str, outcome: str) -> alt.LayerChart:
    """Draw mean residuals in bins (columns x, residual, band) with the band in which they lie if the model is right."""
    frame = points.sort_values("x", kind="stable")
    items = [{str(k): float(v) for k, v in r.items()} | {"under": -float(r["band"])} for r in frame.to_dict("records")]
    ends = [v for r in items for v in (r["residual"], r["band"], r["under"])]
    across = marks.x_axis("x", Axis.over([r["x"] for r in items], False), axis, _WIDE)
    up = Axis.over(ends, False)
    y = marks.y_axis("residual", up, f"mean residual of {outcome}, with noise", _HIGH)
    band = marks.y_axis("under", up, f"mean residual of {outcome}, with noise", _HIGH)
    style = {"color": UTILITY_SHADES[1], "opacity": 0.5, "interpolate": "linear"}
    dots = {"filled": True, "size": 60, "opacity": 1, "stroke": INK, "strokeWidth": 0.5}
    colour = alt.condition("abs(datum.residual) > datum.band", alt.value(SERIES[1]), alt.value(SERIES[0]))
    said = "band: two standard errors under the model, noise included; orange: outside"
    layers = [
        marks.draw("area", items, style, x=across, y=band, y2="band:Q"),
        marks.reference([{"residual": 0.0}], y=y),
        marks.draw("point", items, dots, x=across, y=y, color=colour),
    ]
    title = alt.Title(text=said, fontSize=SIZE, color=SOFT, anchor="start", offset=8, frame="group")
    return themed(marks.layered(*layers, width=_WIDE, height=_HIGH, title=title))
