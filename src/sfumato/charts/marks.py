"""The few marks that every panel is made of. Data go in as rows; axes and scales are explicit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sfumato.charts.scales import Axis
from sfumato.charts.theme import DASHES, INK, PAPER, RULE_DASH, SOFT, colour_of, shape_of

Rows = list[dict[str, Any]]
_LONG = 46
"""Characters in a line of an axis title."""


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
    return alt.X(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=_lines(title))


def y_axis(field: str, axis: Axis, title: str, about: int = 7, **options: Any) -> alt.Y:
    """Return a vertical axis."""
    return alt.Y(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=_lines(title))


def _lines(title: str) -> str | list[str] | None:
    """Return a title, in several lines if it is long."""
    if len(title) <= _LONG:
        return title or None
    return textwrap.wrap(title, _LONG, break_long_words=False)


def _scale(axis: Axis) -> alt.Scale:
    return alt.Scale(type="log" if axis.log else "linear", domain=[axis.low, axis.high], nice=False, zero=False)


def _ticks(axis: Axis, about: int, **options: Any) -> alt.Axis:
    values = axis.ticks(about)
    plain = all(v == 0 or 1e-4 <= abs(v) < 1e7 for v in values)
    return alt.Axis(**{"values": values, "format": ",~r" if plain else "~g", **options})


def series_colour(labels: Sequence[str], legend: alt.Legend | None, field: str = "series") -> alt.Color:
    """Return the colour of each series."""
    return alt.Color(f"{field}:N", scale=colour_scale(labels), legend=legend, title=None)


def colour_scale(labels: Sequence[str]) -> alt.Scale:
    """Return which colour each series has."""
    return alt.Scale(domain=list(labels), range=[colour_of(i) for i in range(len(labels))])


def colour_in(labels: Sequence[str], label: str) -> str:
    """Return the colour of one series."""
    return colour_of(list(labels).index(label))


def series_shape(labels: Sequence[str], legend: alt.Legend | None) -> alt.Shape:
    """Return the shape of each series' points."""
    scale = alt.Scale(domain=list(labels), range=[shape_of(i) for i in range(len(labels))])
    return alt.Shape("series:N", scale=scale, legend=legend, title=None)


def series_dash(labels: Sequence[str], legend: alt.Legend | None) -> alt.StrokeDash:
    """Return the dash of each overlaid map."""
    scale = alt.Scale(domain=list(labels), range=[DASHES[i % len(DASHES)] for i in range(len(labels))])
    return alt.StrokeDash("map:N", scale=scale, legend=legend, title=None)


def reference(items: Rows, style: Mapping[str, Any] | None = None, **encodings: Any) -> alt.Chart:
    """Draw straight dashed lines: a threshold, the unmasked file."""
    look = {"strokeDash": RULE_DASH, "strokeWidth": 1, "color": SOFT, "clip": True, **(style or {})}
    return rows(items).mark_rule(**look).encode(**encodings)


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
