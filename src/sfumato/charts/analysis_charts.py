"""Charts of the analysis system: cutpoints for the custodian, and residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.scales import Axis
from sfumato.charts.theme import INK, SERIES, SIZE, SOFT, UTILITY_SHADES, WIDTH, text_width, themed
from sfumato.lazy import pd
from sfumato.typing import Numbers

_HIGH, _ROW = 150, 26
_MANY = 400


def cutpoints_chart(
    histogram: pd.DataFrame, strategies: pd.DataFrame, edges: Mapping[str, Sequence[float]], title: str, chosen: str
) -> alt.VConcatChart:
    """Draw the histogram (columns low, high, count) above one row of edges for each strategy.

    `strategies` has a row for each strategy: strategy, bins, smallest. Edges of the chosen one stand in the histogram, too. Those
    beyond the histogram are counted at its end; of more than 400 edges a row shows a band.
    """
    low, high = float(histogram["low"].min()), float(histogram["high"].max())
    axis = Axis(low, high, False)
    said = {
        str(r["strategy"]): f"{r['bins']:,} bin{'' if r['bins'] == 1 else 's'}, smallest {r['smallest']:,}"
        for r in strategies.to_dict("records")
    }
    names = list(said)
    left = max(map(text_width, names)) + 16
    room = max(map(text_width, [*said.values(), "beyond: 999"])) + 14
    wide = int(WIDTH - left - room - 40)
    inside = {name: [float(e) for e in edges[name] if axis.shows(float(e))] for name in names}
    top = _histogram(histogram, inside.get(chosen, []), axis, wide)
    notes = {n: said[n] + (f"; {k:,} beyond" if (k := len(edges[n]) - len(inside[n])) else "") for n in names}
    bottom = _edges(inside, notes, axis, title, chosen, wide)
    both: alt.VConcatChart = alt.vconcat(top, bottom, spacing=10)
    return themed(both)


def _edges(
    inside: Mapping[str, list[float]], notes: Mapping[str, str], axis: Axis, title: str, chosen: str, wide: int
) -> alt.LayerChart:
    """Draw a row of edges for each strategy, with a note at its end."""
    names = list(notes)
    rows = [{"strategy": n, "x": e} for n in names for e in inside[n] if len(inside[n]) <= _MANY]
    bands = [{"strategy": n, "from": min(inside[n]), "to": max(inside[n])} for n in names if len(inside[n]) > _MANY]
    lines = [{"strategy": n, "x": axis.low, "x2": axis.high} for n in names]
    y = alt.Y(
        "strategy:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(ticks=False, domain=False)
    )
    x = theme.x_axis("x", axis, title, wide, format=",~r")
    colour = alt.condition(f"datum.strategy == '{chosen}'", alt.value(SERIES[1]), alt.value(SERIES[0]))
    layers = [theme.draw("rule", lines, {"color": SOFT, "opacity": 0.5}, x=x, x2="x2:Q", y=y)]
    if bands:
        from_ = theme.x_axis("from", axis, title, wide)
        layers.append(theme.draw("bar", bands, {"height": 13, "opacity": 0.45}, x=from_, x2="to:Q", y=y, color=colour))
    if rows:
        layers.append(theme.draw("tick", rows, {"thickness": 1.2, "height": 15}, x=x, y=y, color=colour))
    ends = [{"strategy": n, "text": note} for n, note in notes.items()]
    style = {"align": "left", "dx": 8, "fontSize": SIZE, "color": INK}
    layers.append(theme.draw("text", ends, style, y=y, **theme.at(wide)))
    return theme.layered(*layers, width=wide, height=_ROW * len(names))


def _histogram(frame: pd.DataFrame, edges: list[float], axis: Axis, wide: int) -> alt.LayerChart:
    """Draw the bars, with the chosen edges through them while they are few enough to be told apart."""
    most = float(frame["count"].max())
    up = Axis(0.0, 1.05 * max(most, 1.0), False)
    items = [{str(k): v for k, v in r.items()} | {"foot": 0} for r in frame.to_dict("records")]
    # both panels have the same scale; the lower one has its labels
    x = theme.x_axis("low", axis, "", wide, labels=False, ticks=False)
    y = theme.y_axis("count", up, "records", _HIGH, 5)
    style = {"color": UTILITY_SHADES[1], "stroke": "white", "strokeWidth": 0.4, "clip": True}
    layers = [theme.draw("rect", items, style, x=x, x2="high:Q", y=y, y2="foot:Q")]
    if edges and len(edges) <= 60:
        across = theme.x_axis("x", axis, "", wide, labels=False, ticks=False)
        layers.append(theme.draw("rule", [{"x": e} for e in edges], {"color": SERIES[1], "strokeWidth": 0.9}, x=across))
    return theme.layered(*layers, width=wide, height=_HIGH)


_PICTURE_HIGH = 300
_WIDE = WIDTH - 70
_PARTS = 20


def residual_chart(points: pd.DataFrame, axis: str, levels: Sequence[str] | None = None) -> alt.LayerChart:
    """Draw synthetic residuals (columns x, residual) against an axis of numbers, or of levels.

    The line joins medians of the residuals in twentieths of the points; the thin ones are their quartiles. They come from what is
    drawn alone.
    """
    t = points["residual"].to_numpy(float)
    up = Axis.over(t.tolist(), False)
    y = theme.y_axis("residual", up, "synthetic residual, standardised", _PICTURE_HIGH)
    note = "synthetic: no point is a record; " + (
        "line: median, thin lines: quartiles" if levels is None else "bar: median"
    )
    title = theme.heading([note], offset=8, frame="group")
    if levels is not None:
        return _by_level(points, axis, levels, y, title)
    x = points["x"].to_numpy(float)
    across = theme.x_axis("x", Axis.over(x.tolist(), False, 0.02), f"{axis} (synthetic)", _WIDE)
    items = [{"x": a, "residual": b} for a, b in zip(x.tolist(), t.tolist(), strict=True)]
    layers = [
        theme.reference([{"residual": 0.0}], y=y),
        theme.draw("point", items, _dots(len(items)), x=across, y=y),
        *_middles(x, t, across, y),
    ]
    return themed(theme.layered(*layers, width=_WIDE, height=_PICTURE_HIGH, title=title))


def _dots(count: int) -> dict[str, object]:
    return {"filled": True, "color": SERIES[0], "size": 16, "opacity": 0.45 if count <= 2000 else 0.2, "clip": True}


def _middles(x: Numbers, t: Numbers, across: alt.X, y: alt.Y) -> list[alt.Chart]:
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, min(_PARTS, max(len(x) // 25, 1)))
    rows = {
        q: [{"x": float(np.median(x[p])), "residual": float(np.quantile(t[p], q))} for p in parts]
        for q in (0.25, 0.5, 0.75)
    }
    thin = {"color": SERIES[1], "strokeWidth": 1, "strokeDash": [4, 3]}
    return [
        theme.draw("line", items, {"color": SERIES[1], "strokeWidth": 2.2} if q == 0.5 else thin, x=across, y=y)
        for q, items in rows.items()
    ]


def _by_level(points: pd.DataFrame, axis: str, levels: Sequence[str], y: alt.Y, title: alt.Title) -> alt.LayerChart:
    names = list(levels)
    # points of a level stand a little apart, by their number
    apart = ((np.arange(len(points)) * 0.618034) % 1.0) - 0.5
    pairs = zip(points["x"].tolist(), points["residual"].tolist(), apart.tolist(), strict=True)
    items = [{"x": str(a), "residual": b, "apart": c} for a, b, c in pairs]
    labels = alt.Axis(labelAngle=0, labelLimit=90)
    place = alt.X("x:N", sort=names, title=f"{axis} (levels)", scale=alt.Scale(domain=names), axis=labels)
    offset = alt.XOffset("apart:Q", scale=alt.Scale(domain=[-0.8, 0.8]))
    middles = [{"x": str(n), "residual": float(points.loc[points["x"] == n, "residual"].median())} for n in names]
    look = {"color": SERIES[1], "thickness": 2.5, "width": max(8.0, 0.6 * _WIDE / len(names))}
    layers = [
        theme.draw("point", items, _dots(len(items)), x=place, y=y, xOffset=offset),
        theme.draw("tick", middles, {**look, "orient": "horizontal"}, x=place, y=y),
        theme.reference([{"residual": 0.0}], y=y),
    ]
    return themed(theme.layered(*layers, width=_WIDE, height=_PICTURE_HIGH, title=title))


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
    across = theme.x_axis("x", Axis.over([r["x"] for r in items], False), axis, _WIDE)
    up = Axis.over(ends, False)
    y = theme.y_axis("residual", up, f"mean residual of {outcome}, with noise", _PICTURE_HIGH)
    band = theme.y_axis("under", up, f"mean residual of {outcome}, with noise", _PICTURE_HIGH)
    style = {"color": UTILITY_SHADES[1], "opacity": 0.5, "interpolate": "linear"}
    dots = {"filled": True, "size": 60, "opacity": 1, "stroke": INK, "strokeWidth": 0.5}
    colour = alt.condition("abs(datum.residual) > datum.band", alt.value(SERIES[1]), alt.value(SERIES[0]))
    layers = [
        theme.draw("area", items, style, x=across, y=band, y2="band:Q"),
        theme.reference([{"residual": 0.0}], y=y),
        theme.draw("point", items, dots, x=across, y=y, color=colour),
    ]
    title = theme.heading(
        ["band: two standard errors under the model, noise included; orange: outside"], offset=8, frame="group"
    )
    return themed(theme.layered(*layers, width=_WIDE, height=_PICTURE_HIGH, title=title))
