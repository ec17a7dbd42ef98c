"""What is written in a panel of risk against utility: names, threshold, the chosen point, parameter values along a curve."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short, symbol
from sfumato.charts.map_panel import Plane
from sfumato.charts.scales import readable
from sfumato.charts.theme import INK, PAPER, SIZE, SOFT, Box, Clutter, Spot, around, stack, text_width

_LABELS = 6
"""At most so many parameter values stand along a curve,"""
_APART = 24
"""so many pixels apart."""
_CURVE, _RULE, _WORDS = 3.0, 0.5, 5.0
"""How much it hurts to write over one of these."""
_SMALL = SIZE - 1

Place = dict[str, Any]


def lettered(plane: Plane) -> alt.LayerChart:
    """Return the panel with its words, each where it covers least; the most important first."""
    clutter = _clutter(plane)
    words = [*_threshold(plane, clutter), *_chosen(plane, clutter), *_along(plane, clutter), *_names(plane)]
    words += _unmasked(plane, clutter)
    panel: dict[str, Any] = {"width": plane.width, "height": plane.height}
    if plane.title:
        colour = theme.colour_in(plane.sheet.palette, plane.sheet.labels[0])
        text = theme.lines(
            plane.title, 0.8 * plane.width - 8, SIZE + 1
        )  # other fonts are wider, and the next title is near
        panel["title"] = alt.Title(text or "", color=colour, fontWeight="bold", fontSize=SIZE, frame="group")
    return theme.layered(*plane.layers(), *words, **panel)


def _clutter(plane: Plane) -> Clutter:
    clutter = Clutter(plane.width, plane.height)
    for trace in plane.traces:
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in trace.sheet.line_rows(trace.risk):
            curves.setdefault(row["series"], []).append(plane.pixel(row["u"], row["r"]))
        for curve in curves.values():
            clutter.add_line(curve, _CURVE)
        for row in trace.sheet.point_rows(trace.risk):
            x, y = plane.pixel(row["u"], row["r"])
            clutter.add(Box(x - 4, y - 4, x + 4, y + 4), _CURVE)
            ends = [v for v in (row["u_low"], row["u_high"]) if plane.sheet.u_axis.shows(v)]
            across = [plane.pixel(v, row["r"])[0] for v in ends]
            clutter.add(Box(min([x, *across]), y - 1, max([x, *across]), y + 1), 2 * _RULE)
        for place in trace.sheet.chosen_places(trace.risk):
            x, y = plane.pixel(place["u"], place["r"])
            clutter.add(Box(x - 8, y - 8, x + 8, y + 8), _CURVE)
    for end in plane.ends():
        x = plane.sheet.u_axis.share(end["u"]) * plane.width
        clutter.add(Box(x - 1, 0, x + 1, plane.height), _RULE)
    return clutter


# -- the threshold


def _threshold(plane: Plane, clutter: Clutter) -> list[Any]:
    limit = plane.sheet.limits.get(plane.risk.label)
    if limit is None or not plane.outer:
        return []
    y = plane.pixel(plane.sheet.u_axis.high, limit)[1]
    return threshold_words(limit, y, plane.width, clutter, plane.y())


def threshold_words(limit: float, y: float, width: float, clutter: Clutter, axis: alt.Y) -> list[Any]:
    """Name the level line of a threshold, so many pixels from the top, where the words cover least; `axis` reads field r."""
    spots = [
        Spot(Box(start, top, start + text_width(text), top + 13), {"baseline": baseline, "dy": dy}, text)
        for text in (f"largest tolerable risk {short(limit)}", f"at most {short(limit)}", f"≤ {short(limit)}")
        for top, baseline, dy in ((y - 16, "bottom", -3), (y + 3, "top", 4))
        for start in (4.0 + 4 * k for k in range(max(1, int((width - text_width(text)) / 4))))
    ]
    clutter.add(Box(0, y - 1, width, y + 1), 3 * _RULE)
    spot, _ = clutter.best(spots)
    clutter.add(spot.box, _WORDS)
    item = {"r": limit, "text": spot.text, "what": "threshold words"}
    return theme.words([item], {"align": "left", **spot.style}, **theme.at(x=spot.box.left), y=axis)


# -- the chosen point


def _chosen(plane: Plane, clutter: Clutter) -> list[Any]:
    """Ring the chosen point on every curve, and write its parameter once, at the rightmost that has room."""
    rings = [place for t in plane.traces for place in t.sheet.chosen_places(t.risk)]
    if not rings:
        return []
    both = {"x": plane.x(), "y": plane.y()}
    made: list[Any] = []
    if plane.several and all(math.isclose(p["r"], rings[0]["r"], rel_tol=1e-6) for p in rings):
        level = {"r": rings[0]["r"], "what": "chosen level"}
        made.append(
            theme.reference([level], {"strokeDash": [1, 3], "strokeWidth": 1.4}, y=plane.y(), color=alt.ColorValue(INK))
        )
    made.append(theme.ring(rings, **both))
    if plane.title:  # the panel beside it says so
        return made
    text = plane.sheet.chosen_words if plane.sheet.single else "chosen"
    sides = ("right down", "left up", "right up", "left down", "right", "left")
    tries = []
    for place in sorted(rings, key=lambda p: -float(p["u"])):
        spots = around(*plane.pixel(place["u"], place["r"]), text, sides, SIZE + 1, 3)
        tries.append((place, *clutter.best(spots)))
    place, spot, _ = min(tries, key=lambda found: found[2])
    clutter.add(spot.box, _WORDS)
    made += theme.words([{**place, "text": text}], {"fontWeight": "bold", **spot.style}, **both)
    return made


# -- parameter values along the leftmost curve


def _along(plane: Plane, clutter: Clutter) -> list[Any]:
    """Mark some readable parameter values on every curve; write them beside the leftmost, where there is room."""
    kept: list[tuple[list[Place], Spot]] = []
    for t in _candidates(plane):
        places = _places(plane, t)
        if not places or len(kept) >= _LABELS:
            continue
        x, y = plane.pixel(places[0]["u"], places[0]["r"])
        near = any(math.hypot(x - a, y - b) < _APART for a, b in (plane.pixel(q[0]["u"], q[0]["r"]) for q, _ in kept))
        spot, cost = clutter.best(around(x, y, short(t), ("left", "left up", "right down", "right"), _SMALL))
        if not near and cost < _CURVE:
            clutter.add(spot.box, _WORDS)
            kept.append((places, spot))
    if not kept:
        return []
    both = {"x": plane.x(), "y": plane.y()}
    made: list[Any] = []
    if not any(t.sheet.has_points(t.risk) for t in plane.traces):
        dot = {"shape": "circle", "size": 22, "fill": PAPER, "strokeWidth": 1.3, "opacity": 1}
        stroke = alt.Stroke("series:N", scale=theme.colour_scale(plane.sheet.palette), legend=None)
        made.append(theme.draw("point", (p for places, _ in kept for p in places), dot, stroke=stroke, **both))
    kept.sort(key=lambda item: float(item[0][0]["t"]))
    kept[0] = _explained(plane, clutter, kept[0])
    for style in {tuple(spot.style.items()) for _, spot in kept}:
        items = [
            {**places[0], "text": spot.text, "what": "along"}
            for places, spot in kept
            if tuple(spot.style.items()) == style
        ]
        made += theme.words(items, {"fontSize": _SMALL, "color": SOFT, **dict(style)}, **both)
    return made


def _candidates(plane: Plane) -> list[float]:
    """Return parameter values worth writing, the most readable first; none for a single point, or for unlike grids."""
    sheet = plane.sheet
    grids = {tuple(t.sheet.grid) for t in plane.traces}
    if not plane.outer or not sheet.single or len(sheet.grid) < 2 or len(grids) > 1:
        return []
    values = [t for group in readable(sheet.grid, sheet.log_t) for t in group]
    return [t for t in dict.fromkeys(values) if not math.isclose(t, sheet.chosen_t, rel_tol=1e-6)]


def _places(plane: Plane, t: float) -> list[Place]:
    places = [place for trace in plane.traces for place in trace.sheet.places(t, trace.risk)]
    return sorted(places, key=lambda place: float(place["u"]))


def _explained(plane: Plane, clutter: Clutter, item: tuple[list[Place], Spot]) -> tuple[list[Place], Spot]:
    """Return the first label with the parameter's symbol before it, if that fits."""
    places, spot = item
    clutter.drawn.remove((spot.box, _WORDS))
    text = f"{symbol(plane.sheet.data.parameters[0])} = {spot.text}"
    (longer,) = around(*plane.pixel(places[0]["u"], places[0]["r"]), text, (spot.side,), _SMALL)
    return (places, longer) if clutter.cost(longer.box) < _CURVE else item


# -- names


def _unmasked(plane: Plane, clutter: Clutter) -> list[Any]:
    """Say once what the dashed upright lines are, beside the rightmost, if there is room."""
    if plane.several or not plane.outer or not plane.ends():
        return []
    x = plane.sheet.u_axis.share(plane.ends()[-1]["u"]) * plane.width
    length = text_width("unmasked", _SMALL)
    for bottom in (plane.height - 6.0, length + 6.0):
        box = Box(x + 2, bottom - length, x + 13, bottom)
        if clutter.cost(box) < _RULE:
            style = {"angle": 270, "align": "left", "baseline": "top", "fontSize": _SMALL, "color": SOFT}
            where = theme.at(x + 3, bottom)
            return [theme.draw("text", [{"text": "unmasked"}], style, **where)]
    return []


def _names(plane: Plane) -> list[alt.Chart]:
    """Write above each unmasked line whose it is."""
    if plane.title or not (plane.sheet.direct or plane.several):
        return []
    ends = plane.ends()
    texts = [f"unmasked, {end['map']}" if plane.several else str(end["series"]) for end in ends]
    spots = [(plane.sheet.u_axis.share(end["u"]) * plane.width, text) for end, text in zip(ends, texts, strict=True)]
    made = []
    for end, text, (start, row) in zip(ends, texts, stack(spots, plane.width), strict=True):
        style = {"align": "left", "baseline": "bottom", "fontWeight": "normal" if plane.several else "bold"}
        colour = alt.ColorValue(SOFT) if plane.several else plane.colour
        where = theme.at(start, -6 - (SIZE + 4) * row)
        made.append(theme.draw("text", [{**end, "text": text}], style, **where, color=colour))
    return made
