"""Several maps on the same axes, to compare methods, populations or snoopers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.plane import Plane
from sfumato.charts.scales import Axis
from sfumato.charts.sheet import Sheet, finite, utility_axis
from sfumato.charts.theme import INK, SIZE, SOFT, themed
from sfumato.charts.tidy import Limits, MapData
from sfumato.charts.words import short
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

_WIDTH, _HEIGHT = 480, 360


def overlay_chart(
    maps: Mapping[str, pd.DataFrame],
    parameters: Sequence[str],
    max_risk: float | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> alt.LayerChart:
    """Draw risk against utility for several maps over the same parameter: colour tells the measure, the dash the map.

    Each map has one risk; all are drawn on one axis. The unmasked utilities are dotted; `chosen` is ringed on every curve.

    Examples
    --------
    >>> from sfumato.rumap import figure2
    >>> pair = {"R² = 0.3": figure2(r2=0.3), "R² = 0.5": figure2(r2=0.5)}
    >>> chart = overlay_chart({k: m.frame for k, m in pair.items()}, ["kim_noise.lambda2"], chosen={"kim_noise.lambda2": 0.15})
    """
    if not maps or len(tuple(parameters)) != 1:
        raise ParameterError("an overlay needs at least one map, over one parameter.")
    read = {name: MapData.read(frame, parameters) for name, frame in maps.items()}
    if crowded := [name for name, data in read.items() if len(data.risks) > 1]:
        raise ParameterError(f"an overlay shows one risk, but these maps have several: {', '.join(crowded)}.")
    r_axis = Axis.over([*(v for d in read.values() for v in finite(d.risks[0])), *([] if max_risk is None else [max_risk])], True)
    u_axis = utility_axis(v for d in read.values() for u in d.utilities for v in (*finite(u), u.unmasked))
    sheets = {n: Sheet(d, d.limits(max_risk), chosen or {}, fixed=(r_axis, u_axis)) for n, d in read.items()}
    return themed(_panel({name: Plane(s, s.data.risks[0], _WIDTH, _HEIGHT) for name, s in sheets.items()}))


def _panel(planes: Mapping[str, Plane]) -> alt.LayerChart:
    first = next(iter(planes.values()))
    x, y = first.x, first.y
    labels = list(dict.fromkeys(label for p in planes.values() for label in p.sheet.labels))
    stroke = alt.Legend(orient="top", direction="vertical", symbolType="stroke", symbolSize=250, offset=4)
    colour, dash = marks.series_colour(labels, stroke), marks.series_dash(list(planes), stroke)
    lines = [{**row, "map": name} for name, p in planes.items() for row in p.sheet.line_rows(p.risk)]
    layers: list[Any] = [*_unmasked(planes, x), *first.threshold()]
    layers += _chosen_level(planes, y)
    layers.append(
        marks.rows(lines).mark_line(clip=True, strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, order="t:Q")
    )
    layers += _along(planes, labels, x, y)
    rings = [place for p in planes.values() for place in p.sheet.chosen_places(p.risk)]
    if rings:
        layers.append(marks.ring(rings, x=x, y=y))
    chart: alt.LayerChart = alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)
    return chart


def _unmasked(planes: Mapping[str, Plane], x: alt.X) -> list[Any]:
    """Draw a dotted line at each map's unmasked utilities, with the map's name above; equal ones once."""
    ends = {(name, f"{u.unmasked:.9g}"): u.unmasked for name, p in planes.items() for u in p.sheet.data.utilities}
    axis = next(iter(planes.values())).sheet.u_axis
    items = [{"u": end, "map": name, "what": "unmasked", "text": f"unmasked, {name}"} for (name, _), end in ends.items() if axis.shows(end)]
    if not items:
        return []
    items.sort(key=lambda item: item["u"])
    spots = [(axis.share(item["u"]) * _WIDTH, item["text"]) for item in items]
    made: list[Any] = [marks.rows(items).mark_rule(strokeDash=[1, 3], strokeWidth=1.4, color=SOFT).encode(x=x)]
    for item, (start, row) in zip(items, marks.stack_labels(spots, _WIDTH), strict=True):
        where = {"x": alt.value(start), "y": alt.value(-6 - (SIZE + 4) * row)}
        made.append(marks.rows([item]).mark_text(align="left", baseline="bottom", color=SOFT).encode(**where, text="text:N"))
    return made


def _chosen_level(planes: Mapping[str, Plane], y: alt.Y) -> list[Any]:
    """Draw the chosen parameter's risk as a line, where it is the same in all maps."""
    places = [p.sheet.chosen_places(p.risk) for p in planes.values()]
    levels = [found[0]["r"] for found in places if found]
    if not levels or not all(math.isclose(r, levels[0], rel_tol=1e-6) for r in levels):
        return []
    text = next(iter(planes.values())).sheet.chosen_words
    item = {"r": levels[0], "what": "chosen", "text": text}
    place = {"x": alt.value(_WIDTH - 4), "y": y}
    return [
        marks.rows([item]).mark_rule(strokeDash=[1, 3], strokeWidth=1.4, color=INK).encode(y=y),
        marks.words([item], encode=place, align="right", baseline="bottom", dy=-3, fontWeight="bold"),
    ]


def _along(planes: Mapping[str, Plane], labels: Sequence[str], x: alt.X, y: alt.Y) -> list[Any]:
    """Mark readable parameter values on every curve, and write them beside the leftmost."""
    wanted = sorted({float(places[0]["t"]) for p in planes.values() for places in p.spots()})
    grids = {tuple(p.sheet.grid) for p in planes.values()}
    if len(grids) > 1 or not wanted:
        return []
    keep = [float(places[0]["t"]) for places in next(iter(planes.values())).spots()]
    everywhere = [place for p in planes.values() for t in keep for place in p.sheet.places(t, p.risk)]
    leftmost = [min((q for q in everywhere if q["t"] == t), key=lambda q: float(q["u"])) for t in keep]
    dot = {"shape": "circle", "size": 22, "fill": "#ffffff", "strokeWidth": 1.3, "opacity": 1}
    stroke = alt.Stroke("series:N", scale=marks.colour_scale(labels), legend=None)
    texts = [{**place, "text": short(place["t"])} for place in leftmost]
    style = {"align": "right", "baseline": "middle", "dx": -7, "fontSize": SIZE - 1, "color": SOFT}
    return [marks.rows(everywhere).mark_point(**dot).encode(x=x, y=y, stroke=stroke), marks.words(texts, encode={"x": x, "y": y}, **style)]
