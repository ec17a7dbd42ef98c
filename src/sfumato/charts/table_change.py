"""Before and after: the cells of a table as they were and as they are published, with what a reader can be sure of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.placing import text_width
from sfumato.charts.scales import Axis, Symlog, wants_log
from sfumato.charts.theme import INK, PAPER, SERIES, SIZE, SOFT, WIDTH, themed
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

_ROW = 20
_NAMES = 230
_AFTER, _GONE = SERIES[0], SERIES[1]
_RATIO, _RATIO_AROUND_ZERO = 30.0, 300.0
"""How far values spread, as the largest over the smallest, for ratios to be drawn; further where some are not above zero."""


def table_change_chart(frame: pd.DataFrame, unit: str = "") -> alt.LayerChart:
    """Draw cells before and after protection: confidential, since it shows the original values.

    The frame has a row for each cell, in the order to draw: `name`, `before`, `after` (NaN where it is not published), `low` and
    `high` (between which values a reader knows the cell to lie, or an interval of 95 %; NaN or infinite where there is none).
    """
    have = [str(c) for c in frame.columns]
    for name in ("name", "before", "after", "low", "high"):
        if name not in have:
            raise ParameterError(unknown_name("column", name, have, "the frame"))
    items: marks.Rows = [{str(k): v for k, v in r.items()} for r in frame.to_dict("records")]
    if not items:
        raise ParameterError("there are no cells to draw.")
    values = [float(r[k]) for r in items for k in ("before", "after", "low", "high") if math.isfinite(r[k])]
    middle = [float(r[k]) for r in items for k in ("before", "after") if math.isfinite(r[k])]
    axis, kind = _axis(values, middle)
    names = [str(r["name"]) for r in items]
    room = min(_NAMES, max(map(text_width, names)) + 8)
    wide, high = int(WIDTH - room - 20), _ROW * len(items)
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True, labelLimit=_NAMES))

    def x(field: str) -> alt.X:
        return marks.x_axis(field, axis, f"value{f' ({unit})' if unit else ''}{kind}", wide)

    bars = [
        {**r, "from": max(r["low"], axis.low), "to": min(r["high"], axis.high), "what": "interval"}
        for r in items
        if not math.isnan(r["low"]) and not math.isnan(r["high"]) and r["low"] < r["high"]
    ]
    layers: list[Any] = []
    if bars:
        shade = alt.condition("isValid(datum.after)", alt.value(_AFTER), alt.value(_GONE))
        thick = {"strokeWidth": 5, "opacity": 0.3, "clip": True}
        layers.append(marks.draw("rule", bars, thick, x=x("from"), x2=alt.X2("to:Q"), y=y, color=shade))
    before = [{**r, "what": "before"} for r in items]
    layers.append(
        marks.draw(
            "point",
            before,
            {"filled": False, "fill": PAPER, "stroke": INK, "size": 62, "strokeWidth": 1.4},
            x=x("before"),
            y=y,
        )
    )
    after = [{**r, "what": "after"} for r in items if math.isfinite(r["after"])]
    if after:
        layers.append(
            marks.draw("point", after, {"filled": True, "color": _AFTER, "size": 26, "opacity": 1}, x=x("after"), y=y)
        )
    said = ["ring: the value before; dot: the value published; bar: what a reader knows of the value"]
    if any(not math.isfinite(r["after"]) for r in items):
        said.append("without a dot, and with an orange bar: not published")
    broken = (marks.lines(sentence, WIDTH) or "" for sentence in said)
    lines = [line for part in broken for line in ([part] if isinstance(part, str) else part)]
    title = alt.Title(text=lines, fontSize=SIZE, color=SOFT, anchor="start", offset=10, frame="group")
    return themed(marks.layered(*layers, width=wide, height=high, title=title))


def _axis(values: list[float], middle: list[float]) -> tuple[Axis, str]:
    """Return the axis for all values, as those before and after (`middle`) ask for it, and words for its kind."""
    if min(middle) > 0:
        log = wants_log(middle, _RATIO)
        return Axis.over([v for v in values if not log or v > min(middle) / 50], log), ", log scale" if log else ""
    sizes = sorted(abs(v) for v in middle if v)
    if not wants_log(sizes, _RATIO_AROUND_ZERO):
        return Axis.over(values, False), ""
    near = max(sizes[len(sizes) // 10], 1e-6 * sizes[-1])
    return Symlog.around(values, near), ", log scale" + (" on both sides of zero" if min(middle) < 0 else " above zero")
