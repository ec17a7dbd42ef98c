"""The utility over two parameters, with contours of the risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from sfumato.charts import marks
from sfumato.charts.cells import gradient_legend
from sfumato.charts.placing import text_width
from sfumato.charts.scales import Axis, risk_axis
from sfumato.charts.surface import Line, Side, Surface
from sfumato.charts.theme import INK, PAPER, SIZE, UTILITY_SHADES
from sfumato.charts.tried import Tried, heading
from sfumato.charts.words import parameter_words, short

_ACROSS, _UP, _PIXELS = 60, 48, 7
"""The surface is drawn in so many squares of so many pixels."""
_CONTOURS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"stroke": PAPER, "strokeWidth": 2.6, "opacity": 0.75, "strokeJoin": "round"}, False),
    ({"stroke": INK, "strokeWidth": 0.9, "strokeJoin": "round"}, False),
    ({"stroke": PAPER, "strokeWidth": 5, "opacity": 0.85, "strokeJoin": "round"}, True),
    ({"stroke": INK, "strokeWidth": 2.6, "strokeJoin": "round"}, True),
)
"""Dark lines with a white rim, readable on light and dark; the threshold's last and strongest."""


def contour_chart(tried: Tried, a: str, b: str) -> alt.LayerChart | None:
    """Draw the utility between the points and contours of the risk; None where the points make no triangles."""
    columns = [[float(f.point.settings[n]) for f in tried.found] for n in (a, b)]
    sides = [Side.over(values) for values in columns]
    places = np.column_stack([s.unit(v) for s, v in zip(sides, columns, strict=True)])
    surface = Surface.over(places)
    if surface is None:
        return None
    width, height = _ACROSS * _PIXELS, _UP * _PIXELS
    axes = [Axis(s.low, s.high, s.log) for s in sides]
    titles = [parameter_words(n) + (", log scale" if s.log else "") for n, s in zip((a, b), sides, strict=True)]
    x, y = marks.x_axis("x", axes[0], titles[0], width), marks.y_axis("y", axes[1], titles[1], height)
    layers: list[Any] = [_shades(tried, surface, sides, x, y)]
    lines = _lines(tried, surface, sides)
    for style, strong in _CONTOURS:
        if rows := [row for row in lines if row["strong"] is strong]:
            order, each = alt.Order("k:Q"), alt.Detail("line:N")
            layers.append(marks.draw("line", rows, style, x=x, y=y, order=order, detail=each))
    layers += _points(tried, columns, x, y)
    layers += _levels(tried, lines, sides, (width, height))
    said = [
        f"shading: utility {tried.utility}, straight between the points tried",
        f"contours: what {tried.risk} stays below in 95 % of releases; filled points meet the thresholds",
        *tried.chosen_words("ringed"),
    ]
    return marks.layered(*layers, width=width, height=height, title=heading(said))


def _shades(tried: Tried, surface: Surface, sides: Sequence[Side], x: alt.X, y: alt.Y) -> alt.Chart:
    across, up = (np.arange(n + 1) / n for n in (_ACROSS, _UP))
    middles = np.array([((i + 0.5) / _ACROSS, (j + 0.5) / _UP) for i in range(_ACROSS) for j in range(_UP)])
    values = surface.at(middles, np.array([f.utility.value for f in tried.found]))
    edges = [[s.value(float(v)) for v in u] for s, u in zip(sides, (across, up), strict=True)]
    cells = [(i, j) for i in range(_ACROSS) for j in range(_UP)]
    items = [
        {
            "x": edges[0][i],
            "x2": edges[0][i + 1],
            "y": edges[1][j],
            "y2": edges[1][j + 1],
            "value": float(f"{v:.5g}"),
        }
        for (i, j), v in zip(cells, values, strict=True)
        if math.isfinite(v)
    ]
    legend = gradient_legend(_UP * _PIXELS - 20)
    legend.title = "U"
    colour = alt.Color("value:Q", scale=alt.Scale(range=list(UTILITY_SHADES), zero=False, nice=False), legend=legend)
    corners = {"x": x, "x2": alt.X2("x2:Q"), "y": y, "y2": alt.Y2("y2:Q")}
    return marks.draw("rect", items, {"strokeWidth": 0}, **corners, color=colour)


def _lines(tried: Tried, surface: Surface, sides: Sequence[Side]) -> marks.Rows:
    """Return the contours as rows of corners, in the parameters' own units."""
    judged = np.array([f.risk.judged for f in tried.found])
    known = judged[np.isfinite(judged)]
    least = float(known[known > 0].min(initial=math.inf))
    log = risk_axis(known.tolist(), 3).log
    # zero has no logarithm: it counts as half of the smallest risk seen
    height = np.log(np.maximum(judged, least / 2)) if log else judged
    inner = [
        v
        for v in risk_axis(known[known > 0].tolist() if log else known.tolist(), 3).ticks(7)
        if least < v < known.max()
    ]
    limit = tried.limit
    levels = [v for v in inner if limit is None or abs(v - limit) > 0.2 * limit]  # clear of the threshold's own
    rows: marks.Rows = []
    for level in sorted({*levels, *([] if limit is None else [limit])}):
        drawn = surface.contour(height, (math.log(level) if level > 0 else -math.inf) if log else level)
        for line in drawn:
            number = len({row["line"] for row in rows})
            rows += [
                {
                    "x": sides[0].value(s), "y": sides[1].value(t), "line": number, "k": k, "level": level,
                    "strong": level == limit, "what": "contour",
                }
                for k, (s, t) in enumerate(line)
            ]  # fmt: skip
    return rows


def _levels(tried: Tried, rows: marks.Rows, sides: Sequence[Side], size: tuple[int, int]) -> list[alt.Chart]:
    """Write each level at the middle of its longest line, within the panel."""
    made: list[alt.Chart] = []
    for level in dict.fromkeys(row["level"] for row in rows):
        lines: dict[int, Line] = {}
        for row in (r for r in rows if r["level"] == level):
            place = float(sides[0].unit(row["x"])) * size[0], (1 - float(sides[1].unit(row["y"]))) * size[1]
            lines.setdefault(row["line"], []).append(place)
        longest = max(lines.values(), key=_length)
        strong = level == tried.limit
        text = f"largest tolerable risk {short(level)}" if strong else short(level)
        half = text_width(text, SIZE) / 2
        px, py = halfway(longest)
        px, py = min(max(px, half + 3), size[0] - half - 3), min(max(py, 9), size[1] - 9)
        item = {"text": text, "level": level, "what": "level"}
        style = {"fontWeight": "bold"} if strong else {"fontSize": SIZE - 1}
        made += marks.words([item], style, **marks.at(px, py))
    return made


def _points(tried: Tried, columns: Sequence[Sequence[float]], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    items = [
        {
            "x": a, "y": b, "point": f.point.number, "recipe": f.point.recipe, "u": f.utility.value, "r": f.risk.value,
            "limit": f.risk.limit, "meets": tried.good(f), "chosen": f.point.chosen,
        }
        for f, a, b in zip(tried.found, *columns, strict=True)
    ]  # fmt: skip
    tips = [
        alt.Tooltip("recipe:N", title="recipe"), alt.Tooltip("u:Q", title=tried.utility, format=".3~g"),
        alt.Tooltip("r:Q", title=tried.risk, format=".3~g"),
        alt.Tooltip("limit:Q", title="95 % of releases stay below", format=".3~g"),
    ]  # fmt: skip
    made = []
    for good, fill in ((False, PAPER), (True, INK)):
        if rows := [i for i in items if i["meets"] is good]:
            dot = {"shape": "circle", "size": 22, "stroke": INK, "strokeWidth": 1, "opacity": 1, "fill": fill}
            made.append(marks.draw("point", rows, dot, x=x, y=y, tooltip=tips))
    if ring := [i for i in items if i["chosen"]]:
        halo = {"shape": "circle", "size": 150, "filled": False, "stroke": PAPER, "strokeWidth": 4.5, "opacity": 1}
        made += [marks.draw("point", ring, halo, x=x, y=y), marks.ring(ring, x=x, y=y)]
    return made


def _length(line: Line) -> float:
    return sum(math.dist(a, b) for a, b in pairwise(line))


def halfway(line: Line) -> tuple[float, float]:
    """Return the place halfway along a line.

    >>> halfway([(0, 0), (1, 0), (4, 0)])
    (2.0, 0.0)
    """
    left = _length(line) / 2
    for a, b in pairwise(line):
        piece = math.dist(a, b)
        if piece >= left > 0:
            return a[0] + left / piece * (b[0] - a[0]), a[1] + left / piece * (b[1] - a[1])
        left -= piece
    return line[-1]
