"""The few marks that every panel is made of. Data go in as rows; axes and scales are explicit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from sfumato.charts.placing import text_width
from sfumato.charts.scales import Axis, Floored, Symlog
from sfumato.charts.theme import DASHES, INK, PAPER, RULE_DASH, SIZE, SOFT, colour_of, shape_of

Rows = list[dict[str, Any]]
Style = Mapping[str, Any]
"""Mark properties, as Vega-Lite names them."""


def draw(mark: str, items: Iterable[Mapping[str, Any]], style: Style, **encodings: Any) -> alt.Chart:
    """Draw rows with one kind of mark ("line", "rule", "text" …); numbers that JSON cannot hold become null."""
    # a tuple, because Altair copies the items of a list again and again
    clean = tuple({k: _plain(v) for k, v in item.items()} for item in items)
    chart: alt.Chart = getattr(alt.Chart(alt.InlineData(values=clean)), f"mark_{mark}")(**style).encode(**encodings)
    return chart


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def x_axis(field: str, axis: Axis, title: str, wide: int, about: int = 6, **options: Any) -> alt.X:
    """Return the horizontal axis of a panel so many pixels wide."""
    return alt.X(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=lines(title, wide))


def y_axis(field: str, axis: Axis, title: str, high: int, about: int = 7, **options: Any) -> alt.Y:
    """Return the vertical axis of a panel so many pixels high."""
    return alt.Y(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=lines(title, high))


def at(x: float | None = None, y: float | None = None) -> dict[str, Any]:
    """Return a place in pixels from the panel's top left corner, as encodings."""
    across = {} if x is None else {"x": alt.XValue(x)}  # type: ignore[no-untyped-call]
    return across if y is None else {**across, "y": alt.YValue(y)}  # type: ignore[no-untyped-call]


def lines(title: str, room: float, size: float = SIZE) -> str | list[str] | None:
    """Return a title, in several lines where it needs more than `room` pixels."""
    wide = text_width(title, size)
    if wide <= room + 8:
        return title or None
    return textwrap.wrap(title, max(10, int(len(title) * room / wide)), break_long_words=False)


def _scale(axis: Axis) -> alt.Scale:
    # clamped, so that zero stands at the foot of an axis that has a place for it
    foot = True if isinstance(axis, Floored) else alt.Undefined
    if isinstance(axis, Symlog):
        return alt.Scale(type="symlog", constant=axis.near, domain=[axis.low, axis.high], nice=False, zero=False)
    kind: Literal["log", "linear"] = "log" if axis.log else "linear"
    return alt.Scale(type=kind, domain=[axis.low, axis.high], nice=False, zero=False, clamp=foot)


def _ticks(axis: Axis, about: int, **options: Any) -> alt.Axis:
    values = axis.ticks(about)
    plain = all(v == 0 or 1e-4 <= abs(v) < 1e7 for v in values)
    form = ",~r" if plain else ",~g"
    if isinstance(axis, Floored):
        options = {"labelExpr": f"datum.value <= {axis.low * 1.001!r} ? '0' : format(datum.value, '{form}')", **options}
    return alt.Axis(**{"values": values, "format": form, **options})


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


def reference(items: Rows, style: Style | None = None, **encodings: Any) -> alt.Chart:
    """Draw straight dashed lines: a threshold, the unmasked file."""
    look = {"strokeDash": RULE_DASH, "strokeWidth": 1, "color": SOFT, "clip": True}
    return draw("rule", items, {**look, **(style or {})}, **encodings)


def words(items: Rows, style: Style, **encodings: Any) -> list[alt.Chart]:
    """Write the rows' "text" over a white halo, so that lines behind it do not hurt."""
    halo = {**style, "stroke": PAPER, "strokeWidth": 3.5, "color": PAPER, "strokeJoin": "round"}
    plain = {k: v for k, v in encodings.items() if k != "color"}
    text = alt.Text("text:N")
    return [
        draw("text", items, halo, text=text, **plain),
        draw("text", items, {"color": INK, **style}, text=text, **encodings),
    ]


def ring(items: Rows, **encodings: Any) -> alt.Chart:
    """Ring the chosen point."""
    style = {"shape": "circle", "size": 150, "filled": False, "stroke": INK, "strokeWidth": 1.8, "opacity": 1}
    return draw("point", items, style, **encodings)


def layered(*layers: Any, **properties: Any) -> alt.LayerChart:
    """Put layers over one another; `properties` are those of the panel: width, height, title."""
    chart: alt.LayerChart = alt.layer(*layers).properties(**properties)  # type: ignore[assignment]
    return chart
