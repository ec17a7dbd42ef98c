"""One look for every chart: colours, words and numbers, the few marks that panels are made of, and pictures as files."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import altair as alt
import numpy as np

from sfumato.charts.captions import short
from sfumato.charts.scales import Axis, Floored, Symlog
from sfumato.errors import refuse_unknown, visible
from sfumato.files import write_bytes

WIDTH = 640
"""Pixels: the text width of an A4 page at 96 pixels an inch."""

FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
SIZE = 11

INK = "#222222"
SOFT = "#5c5c5c"
FAINT = "#9a9a9a"
GRID = "#ececec"
PAPER = "#ffffff"

SERIES = ("#0b4f8a", "#c8500a", "#2a8c6e", "#9a4f96", "#8a6d00", "#2f8fc4", "#7a7a7a", "#5a2a2a")
"""Dark enough for white paper; the first three also differ in grey. Shapes repeat what colours say."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "circle", "square")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
UTILITY_SHADES = ("#f0f4f9", "#a9c3dd", "#4f86b5", "#0b4f8a", "#062f54")
RISK_SHADES = ("#fbf3ec", "#edc19c", "#d98345", "#a8480d", "#5e2605")
"""From little to much, light to dark: they print as even ranges of grey."""
CHOSEN = "#e0b400"

RULE_DASH = [4, 3]

Chart = TypeVar("Chart", bound=alt.TopLevelMixin)


def config() -> dict[str, Any]:
    """Return the Vega-Lite configuration."""
    axis = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": SIZE, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "domainColor": SOFT, "tickColor": SOFT, "gridColor": GRID, "tickSize": 4,
        "titlePadding": 7, "labelPadding": 3, "labelFlush": False,
    }  # fmt: skip
    legend = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": SIZE, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "labelLimit": 420, "symbolStrokeWidth": 2, "rowPadding": 3,
    }  # fmt: skip
    title = {"font": FONT, "fontSize": SIZE + 1, "fontWeight": "normal", "color": INK, "anchor": "start", "offset": 8}
    return {
        # a chart's text alternative is its caption; an aria label on every mark would bury it
        "aria": False, "background": PAPER, "font": FONT, "padding": 4, "axis": axis, "legend": legend, "title": title,
        "view": {"stroke": None}, "concat": {"spacing": 22}, "text": {"font": FONT, "fontSize": SIZE, "color": INK},
    }  # fmt: skip


def themed(chart: Chart) -> Chart:
    """Return the chart with the theme in its own specification, so that it looks the same wherever it is drawn."""
    dressed: Chart = chart.copy(deep=False)  # type: ignore[attr-defined]
    dressed.config = config()  # type: ignore[attr-defined]
    return dressed


def colour_of(position: int) -> str:
    """Return the colour of a series by its position; they repeat after eight."""
    return SERIES[position % len(SERIES)]


def shape_of(position: int) -> str:
    """Return the point shape of a series by its position."""
    return SHAPES[position % len(SHAPES)]


def to_svg(chart: alt.TopLevelMixin | Mapping[str, Any]) -> str:
    """Return a chart, or its Vega-Lite specification, as SVG text."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_spec(chart), allowed_base_urls=[]))


def offline(spec: Mapping[str, Any], **_: Any) -> dict[str, str]:
    """Return a chart for a notebook as a picture: Altair's own page would fetch its script from elsewhere.

    It is Altair's renderer ``"sfumato"``, in use unless another one was enabled before.
    """
    return {"image/svg+xml": to_svg(spec)}


alt.renderers.register("sfumato", offline)
if alt.renderers.active == "default":
    alt.renderers.enable("sfumato")


def to_png(
    chart: alt.TopLevelMixin | Mapping[str, Any], path: str | Path, scale: float = 2, confidential: bool = False
) -> None:
    """Write a chart, or its Vega-Lite specification, as a PNG file; `scale` 2 suits print.

    A confidential one can be read by its owner only.
    """
    import vl_convert

    image = vl_convert.vegalite_to_png(_spec(chart), scale=scale, allowed_base_urls=[])
    write_bytes(path, image, confidential)


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A text inside an expression of Vega, written as in JSON: control characters have a backslash there."""
_EXPRESSIONS = ("labelExpr", "expr", "test", "calculate", "filter", "signal")


def _spec(chart: alt.TopLevelMixin | Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification as it is drawn: with a control character in any text the drawing library ends the process."""
    spec: dict[str, Any] = _drawable(dict(chart) if isinstance(chart, Mapping) else chart.to_dict())
    return spec


def _drawable(part: Any, key: str = "") -> Any:
    if isinstance(part, Mapping):
        return {visible(str(k)): _drawable(v, str(k)) for k, v in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(v, key) for v in part]
    if not isinstance(part, str):
        return part
    if key in _EXPRESSIONS:
        part = _QUOTED.sub(_requoted, part)
    return visible(part)


def _requoted(found: re.Match[str]) -> str:
    try:
        return json.dumps(visible(json.loads(found[0])), ensure_ascii=False)
    except ValueError:  # no text as in JSON
        return found[0]


_WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!()[] tfrI", 0.3),
    **dict.fromkeys("mwMW", 0.82),
    **dict.fromkeys("0123456789=−+~", 0.57),
}
"""Widths of Arial's characters, in font sizes; others are about half a font size, capitals more."""


def text_width(text: str, size: float = SIZE) -> float:
    """Return roughly how many pixels wide a text is."""
    return size * sum(_WIDTHS.get(c, 0.68 if c.isupper() else 0.53) for c in text)


Rows = list[dict[str, Any]]
Style = Mapping[str, Any]
"""Mark properties, as Vega-Lite names them."""


def draw(mark: str, items: Iterable[Mapping[str, Any]], style: Style, **encodings: Any) -> alt.Chart:
    """Draw rows with one kind of mark ("line", "rule" …), texts by their "text"; numbers that JSON cannot hold become null."""
    if mark == "text":
        encodings.setdefault("text", alt.Text("text:N"))
    # a tuple, because Altair copies the items of a list again and again
    clean = tuple({k: _plain(v) for k, v in item.items()} for item in items)
    chart: alt.Chart = getattr(alt.Chart(alt.InlineData(values=clean)), f"mark_{mark}")(**style).encode(**encodings)
    return chart


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def x_axis(field: str, axis: Axis, title: str, wide: int, about: int = 6, **options: Any) -> alt.X:
    """Return the horizontal axis of a panel of this width in pixels."""
    return alt.X(f"{field}:Q", scale=_scale(axis), axis=_ticks(axis, about, **options), title=lines(title, wide))


def y_axis(field: str, axis: Axis, title: str, high: int, about: int = 7, **options: Any) -> alt.Y:
    """Return the vertical axis of a panel of this height in pixels."""
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


def heading(sentences: Sequence[str], wide: float = WIDTH - 60, **style: Any) -> alt.Title:
    """Return sentences above a chart, each on its own lines."""
    broken = (lines(s, wide) or "" for s in sentences)
    text = [line for part in broken for line in ([part] if isinstance(part, str) else part)]
    return alt.Title(text=text, **{"fontSize": SIZE, "color": SOFT, "anchor": "start", "offset": 10, **style})


def frame_rows(frame: Any, needed: Iterable[str], where: str = "the frame") -> Rows:
    """Return the rows of a frame; refuse one that lacks a column."""
    have = [str(c) for c in frame.columns]
    refuse_unknown("column", have, where, *needed)
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


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


def threshold(limit: float, field: str, y: alt.Y, width: int | None = None) -> list[alt.Chart]:
    """Draw the level line of the largest tolerable risk; given a panel's width, name it in the margin, where nothing crosses it."""
    item = [{field: limit, "what": "threshold", "text": f"at most\n{short(limit)}"}]
    line = reference(item, y=y, color=alt.ColorValue(INK))
    style = {"align": "left", "baseline": "middle", "lineBreak": "\n"}
    return [line] if width is None else [line, draw("text", item, style, y=y, **at(x=width + 5))]


def words(items: Rows, style: Style, **encodings: Any) -> list[alt.Chart]:
    """Write the rows' "text" over a white halo, so that lines behind it do not hurt."""
    halo = {**style, "stroke": PAPER, "strokeWidth": 3.5, "color": PAPER, "strokeJoin": "round"}
    plain = {k: v for k, v in encodings.items() if k != "color"}
    return [draw("text", items, halo, **plain), draw("text", items, {"color": INK, **style}, **encodings)]


def ring(items: Rows, **encodings: Any) -> alt.Chart:
    """Ring the chosen point."""
    style = {"shape": "circle", "size": 150, "filled": False, "stroke": INK, "strokeWidth": 1.8, "opacity": 1}
    return draw("point", items, style, **encodings)


def layered(*layers: Any, **properties: Any) -> alt.LayerChart:
    """Put layers over one another; `properties` are those of the panel: width, height, title."""
    chart: alt.LayerChart = alt.layer(*layers).properties(**properties)  # type: ignore[assignment]
    return chart
