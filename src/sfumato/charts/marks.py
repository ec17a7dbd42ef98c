"""The few marks that every panel is made of. Data go in as rows; axes and scales are explicit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sfumato.charts.scales import Axis
from sfumato.charts.theme import DASHES, INK, PAPER, RULE_DASH, SIZE, SOFT, colour_of, shape_of

Rows = list[dict[str, Any]]
CHARACTER = 0.54 * SIZE
"""Mean width of a character in pixels, for placing labels."""


def rows(items: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """Return a chart of these rows; numbers that JSON cannot hold become null."""
    clean = [{k: _plain(v) for k, v in item.items()} for item in items]
    return alt.Chart(alt.InlineData(values=clean))


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def x_axis(field: str, axis: Axis, title: str, about: int = 6, **options: Any) -> alt.X:
    """Return a horizontal axis."""
    return alt.X(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=title or None)


def y_axis(field: str, axis: Axis, title: str, about: int = 7, **options: Any) -> alt.Y:
    """Return a vertical axis."""
    return alt.Y(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=title or None)


def _scale(axis: Axis) -> alt.Scale:
    return alt.Scale(type="log" if axis.log else "linear", domain=[axis.low, axis.high], nice=False, zero=False)


def _ticks(axis: Axis, about: int, **options: Any) -> alt.Axis:
    return alt.Axis(**{"values": axis.ticks(about), "format": ",~r" if axis.high < 1e7 and axis.low > 1e-5 else "~g", **options})


def series_colour(labels: Sequence[str], legend: alt.Legend | None, field: str = "series") -> alt.Color:
    """Return the colour of each series."""
    return alt.Color(f"{field}:N", scale=colour_scale(labels), legend=legend, title=None)


def colour_scale(labels: Sequence[str]) -> alt.Scale:
    """Return which colour each series has."""
    return alt.Scale(domain=list(labels), range=[colour_of(i) for i in range(len(labels))])


def series_shape(labels: Sequence[str], legend: alt.Legend | None) -> alt.Shape:
    """Return the shape of each series' points."""
    scale = alt.Scale(domain=list(labels), range=[shape_of(i) for i in range(len(labels))])
    return alt.Shape("series:N", scale=scale, legend=legend, title=None)


def series_dash(labels: Sequence[str], legend: alt.Legend | None) -> alt.StrokeDash:
    """Return the dash of each overlaid map."""
    scale = alt.Scale(domain=list(labels), range=[DASHES[i % len(DASHES)] for i in range(len(labels))])
    return alt.StrokeDash("map:N", scale=scale, legend=legend, title=None)


def reference(items: Rows, **encodings: Any) -> alt.Chart:
    """Draw straight dashed lines: a threshold, the unmasked file."""
    return rows(items).mark_rule(strokeDash=RULE_DASH, strokeWidth=1, color=SOFT, clip=True).encode(**encodings)


def words(items: Rows, field: str = "text", *, encode: Mapping[str, Any], **style: Any) -> alt.LayerChart:
    """Write text over a white halo, so that lines behind it do not hurt."""
    halo = {**style, "stroke": PAPER, "strokeWidth": 3.5, "color": PAPER, "strokeJoin": "round"}
    plain = {k: v for k, v in encode.items() if k != "color"}
    text = alt.Text(f"{field}:N")
    return alt.layer(
        rows(items).mark_text(**halo).encode(text=text, **plain),
        rows(items).mark_text(**{"color": INK, **style}).encode(text=text, **encode),
    )


def ring(items: Rows, **encodings: Any) -> alt.Chart:
    """Ring the chosen point."""
    style = {"shape": "circle", "size": 150, "filled": False, "stroke": INK, "strokeWidth": 1.8, "opacity": 1}
    return rows(items).mark_point(**style).encode(**encodings)


def stack_labels(spots: Sequence[tuple[float, str]], width: float) -> list[tuple[float, int]]:
    """Place labels above a panel: for each (pixel, text) a start pixel inside the panel, and a row, so that none overlap."""
    taken: list[list[tuple[float, float]]] = []
    placed: list[tuple[float, int]] = []
    for pixel, text in spots:
        size = len(text) * CHARACTER
        start = min(max(pixel - size / 2, 0.0), max(width - size, 0.0))
        for row in range(len(spots)):
            if row == len(taken):
                taken.append([])
            if all(start > end + 10 or start + size < begin - 10 for begin, end in taken[row]):
                taken[row].append((start, start + size))
                placed.append((start, row))
                break
    return placed
