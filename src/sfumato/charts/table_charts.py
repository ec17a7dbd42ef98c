"""A table as a heat map of what happened to its cells, and its cells before and after."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.scales import Axis, Symlog, wants_log
from sfumato.charts.theme import INK, PAPER, SERIES, SIZE, SOFT, WIDTH, text_width, themed
from sfumato.errors import ParameterError, unknown_name
from sfumato.lazy import pd

SHOWN = "shown as it is"
PRIMARY = "not published: unsafe"
SECONDARY = "not published: others could be worked out from it"
HIDDEN = "not published"
EMPTY = "no such cell"
LOOKS: dict[str, tuple[str, str]] = {
    SHOWN: ("#eef3f8", INK),
    "changed by at most 1 %": ("#cfe0ee", INK),
    "changed by 1 to 5 %": ("#9dbfdc", INK),
    "changed by 5 to 20 %": ("#4f86b5", PAPER),
    "changed by more than 20 %": ("#0b4f8a", PAPER),
    "changed": ("#9dbfdc", INK),
    SECONDARY: ("#f2c9a1", INK),
    PRIMARY: ("#c8500a", PAPER),
    HIDDEN: ("#d98345", PAPER),
    EMPTY: ("#ffffff", SOFT),
}
"""The kinds of cell, each with its colour and the colour of its text; they differ in grey too."""
_ROOM = 520
_TALLEST = 26


def band_of(change: float) -> str:
    """Return the words for a relative change.

    >>> band_of(0.0), band_of(-0.03), band_of(7.0)
    ('changed by at most 1 %', 'changed by 1 to 5 %', 'changed by more than 20 %')
    """
    size = abs(change)
    for most, words in ((0.01, "at most 1 %"), (0.05, "1 to 5 %"), (0.2, "5 to 20 %")):
        if size <= most:
            return f"changed by {words}"
    return "changed by more than 20 %"


def table_heatmap(frame: pd.DataFrame, down: str, across: str, title: str = "") -> alt.LayerChart:
    """Draw a table: one row of the frame per cell, with `row`, `column` (labels, in the order to draw), `kind` and `text`.

    `kind` is one of `LOOKS`; `text` is written in the cell where there is room for all of them. `down` and `across` name the two
    dimensions.
    """
    items = theme.frame_rows(frame, ("row", "column", "kind", "text"))
    if not items:
        raise ParameterError("the table has no cells, so there is nothing to draw.")
    rows, columns = (list(dict.fromkeys(str(r[side]) for r in items)) for side in ("row", "column"))
    used = [kind for kind in LOOKS if any(r["kind"] == kind for r in items)]
    if unknown := [r["kind"] for r in items if r["kind"] not in LOOKS]:
        raise ParameterError(unknown_name("kind", str(unknown[0]), LOOKS, "the list of what can happen to a cell"))
    room = _ROOM - max(map(text_width, rows))
    wide, high = max(6, min(74, int(room / len(columns)))), max(6, min(_TALLEST, int(900 / len(rows))))
    legible = high >= SIZE + 3 and max(text_width(str(r["text"]), SIZE - 1) for r in items) <= wide - 4
    x = alt.X("column:N", sort=columns, title=across, axis=_axis(columns, wide, len(columns)))
    y = alt.Y("row:N", sort=rows, title=down, axis=_axis(rows, 10_000, len(rows)))
    colour = alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=used, range=[LOOKS[k][0] for k in used]),
        legend=alt.Legend(
            orient="bottom", direction="vertical", columns=1 if max(map(text_width, used)) > WIDTH / 2 else 2,
            symbolType="square", symbolStrokeColor=SOFT, symbolStrokeWidth=0.5, symbolSize=120,
        ),
    )  # fmt: skip
    tips = [
        alt.Tooltip(f"{n}:N", title=t)
        for n, t in (("row", down), ("column", across), ("kind", "status"), ("text", "value"))
    ]
    layers: list[Any] = [
        theme.draw("rect", items, {"stroke": PAPER, "strokeWidth": 1}, x=x, y=y, color=colour, tooltip=tips)
    ]
    if legible:
        inked = [{**r, "ink": LOOKS[r["kind"]][1]} for r in items]
        layers.append(theme.draw("text", inked, {"fontSize": SIZE - 1}, x=x, y=y, color=alt.Color("ink:N", scale=None)))
    size: dict[str, Any] = {"width": wide * len(columns), "height": high * len(rows)}
    if title:
        size["title"] = alt.Title(theme.lines(title, WIDTH) or "", frame="group")
    return themed(theme.layered(*layers, **size))


def _axis(labels: list[str], wide: int, count: int) -> alt.Axis:
    """Return an axis of labels: slanted where they do not fit, and not all where they are too many."""
    slant = max(map(text_width, labels)) > wide - 4
    overlap: Any = "greedy" if count > 40 else False
    return alt.Axis(labelAngle=-45 if slant else 0, labelOverlap=overlap, ticks=False, domain=False, labelLimit=150)


_ROW = 20
_NAMES = 230
_AFTER, _GONE = SERIES[0], SERIES[1]
_RATIO, _RATIO_AROUND_ZERO = 30.0, 300.0
"""Ratio of the largest to the smallest value from which the axis is in ratios; a larger one where some are not above zero."""


def table_change_chart(frame: pd.DataFrame, unit: str = "") -> alt.LayerChart:
    """Draw cells before and after protection: confidential, since it shows the original values.

    The frame has a row for each cell, in the order to draw: `name`, `before`, `after` (NaN where it is not published), `low` and
    `high` (between which values a reader knows the cell to lie, or an interval of 95 %; NaN or infinite where there is none).
    """
    items = theme.frame_rows(frame, ("name", "before", "after", "low", "high"))
    if not items:
        raise ParameterError("there are no cells to draw.")
    values = [float(r[k]) for r in items for k in ("before", "after", "low", "high") if math.isfinite(r[k])]
    middle = [float(r[k]) for r in items for k in ("before", "after") if math.isfinite(r[k])]
    axis, kind = _change_axis(values, middle)
    names = [str(r["name"]) for r in items]
    room = min(_NAMES, max(map(text_width, names)) + 8)
    wide, high = int(WIDTH - room - 20), _ROW * len(items)
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True, labelLimit=_NAMES))

    def x(field: str) -> alt.X:
        return theme.x_axis(field, axis, f"value{f' ({unit})' if unit else ''}{kind}", wide)

    bars = [
        {**r, "from": max(r["low"], axis.low), "to": min(r["high"], axis.high), "what": "interval"}
        for r in items
        if not math.isnan(r["low"]) and not math.isnan(r["high"]) and r["low"] < r["high"]
    ]
    layers: list[Any] = []
    if bars:
        shade = alt.condition("isValid(datum.after)", alt.value(_AFTER), alt.value(_GONE))
        thick = {"strokeWidth": 5, "opacity": 0.3, "clip": True}
        layers.append(theme.draw("rule", bars, thick, x=x("from"), x2=alt.X2("to:Q"), y=y, color=shade))
    before = [{**r, "what": "before"} for r in items]
    ring = {"filled": False, "fill": PAPER, "stroke": INK, "size": 62, "strokeWidth": 1.4}
    layers.append(theme.draw("point", before, ring, x=x("before"), y=y))
    after = [{**r, "what": "after"} for r in items if math.isfinite(r["after"])]
    if after:
        dot = {"filled": True, "color": _AFTER, "size": 26, "opacity": 1}
        layers.append(theme.draw("point", after, dot, x=x("after"), y=y))
    said = ["ring: the value before; dot: the value published; bar: what a reader knows of the value"]
    if any(not math.isfinite(r["after"]) for r in items):
        said.append("without a dot, and with an orange bar: not published")
    return themed(theme.layered(*layers, width=wide, height=high, title=theme.heading(said, WIDTH, frame="group")))


def _change_axis(values: list[float], middle: list[float]) -> tuple[Axis, str]:
    """Return the axis for all values, as those before and after (`middle`) ask for it, and words for its kind."""
    if min(middle) > 0:
        log = wants_log(middle, _RATIO)
        return Axis.over([v for v in values if not log or v > min(middle) / 50], log), ", log scale" if log else ""
    sizes = sorted(abs(v) for v in middle if v)
    if not wants_log(sizes, _RATIO_AROUND_ZERO):
        return Axis.over(values, False), ""
    near = max(sizes[len(sizes) // 10], 1e-6 * sizes[-1])
    return Symlog.around(values, near), ", log scale" + (" on both sides of zero" if min(middle) < 0 else " above zero")
