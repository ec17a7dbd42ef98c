"""Risk against information loss: a line for each method or sequence of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.families import key_of
from sfumato.charts.lettering import threshold_words
from sfumato.charts.placing import Box, Clutter
from sfumato.charts.scales import Axis, risk_axis
from sfumato.charts.searched import Point, Reading, Searched
from sfumato.charts.theme import INK, SIZE, SOFT, WIDTH, themed
from sfumato.charts.words import short
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

_HEIGHT = 340


def loss_chart(
    frame: pd.DataFrame, risk: str | None = None, utility: str | None = None, threshold: float | None = None
) -> alt.LayerChart:
    """Draw risk against information loss, 1 − U, from `SearchResult.frame` (Truta, Fotouhi and Barth-Jones 2004, section 5).

    A line joins the settings of a family for which none of its other settings has both less loss and less risk; the rest
    are faint points. Lower left is better. `risk` and `utility` are titles of measures, the first risk and what was maximised
    if not given. U is the share of the unmasked file's; where the frame
    does not tell that, it is taken to be 1, as for most utilities.
    """
    data = Searched.read(frame)
    name, use = data.risk(risk), data.utility(utility)
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    found = [f for f in data.pairs(name, use) if math.isfinite(f[1].value) and math.isfinite(f[2].value)]
    whole = data.unmasked.get(use, 1.0)
    if not whole > 0 or (use not in data.unmasked and any(u.value > 1.5 for _, _, u in found)):
        raise ParameterError(
            f"the information loss of {use} is not known, because its value for the unmasked file is not 1; draw risk against "
            "utility instead, or choose a utility that is 1 for the unmasked file."
        )
    rows = [_row(p, r, u, whole) for p, r, u in found]
    for family in data.families:
        mine = [row for row in rows if row["family"] == family]
        for row in mine:
            row["best"] = not any(_beats(other, row) for other in mine)
    top = [row for row in rows if not any(_beats(other, row) for other in rows)]
    key = key_of(data.families, [row["family"] for row in sorted(top, key=lambda row: float(row["loss"]))])
    rows = [{**row, **key.fields(row["family"])} for row in rows]
    of = use if whole == 1 else f"{use} as a share of the unmasked file's"
    across = risk_axis([row["loss"] for row in rows], 100)
    up = risk_axis([*(row["r"] for row in rows), *([] if limit is None else [limit])])
    size = int(max(300, WIDTH - 70 - key.width)), _HEIGHT
    x = marks.x_axis("loss", across, f"information loss: 1 − {of}" + (" (log scale)" if across.log else ""), size[0])
    y = marks.y_axis("r", up, f"disclosure risk R: {name}" + (" (log scale)" if up.log else ""), size[1])
    layers: list[Any] = []
    if limit is not None:
        layers.append(marks.reference([{"r": limit, "what": "threshold"}], y=y, color=alt.ColorValue(INK)))
    colour, shape = key.colour(), key.shape()
    line = {"strokeWidth": 1.8 if not key.crowded else 1.2, "opacity": 1 if not key.crowded else 0.7, "clip": True}
    best = [{**row, "what": "line"} for row in rows if row["best"]]
    order, each = alt.Order("loss:Q"), alt.Detail("family:N")
    layers.append(marks.draw("line", best, line, x=x, y=y, color=colour, detail=each, order=order))
    tips = [
        alt.Tooltip("family:N", title="family"), alt.Tooltip("recipe:N", title="recipe"),
        alt.Tooltip("r:Q", title=name, format=".3~g"), alt.Tooltip("loss:Q", title="information loss", format=".3~g"),
    ]  # fmt: skip
    for good, opacity in ((False, 0.25), (True, 1.0)):
        if items := [row for row in rows if row["best"] is good]:
            dot = {"filled": True, "size": 40, "opacity": opacity, "clip": True}
            layers.append(marks.draw("point", items, dot, x=x, y=y, color=colour, shape=shape, tooltip=tips))
    if chosen := [row for row in rows if row["chosen"]]:
        layers.append(marks.ring(chosen, x=x, y=y))
    if limit is not None and up.shows(limit):
        level = (1 - up.share(limit)) * size[1]
        layers += threshold_words(limit, level, size[0], _clutter(rows, across, up, size), y)
    said = "lines: the best settings of each family; lower left is better" + _ringed(chosen)
    title = alt.Title(text=marks.lines(said, WIDTH - 60) or "", fontSize=SIZE, color=SOFT, anchor="start", offset=12)
    return themed(marks.layered(*layers, width=size[0], height=size[1], title=title))


def _row(point: Point, r: Reading, u: Reading, whole: float) -> dict[str, Any]:
    return {
        "point": point.number, "family": point.family, "recipe": point.recipe, "loss": 1 - u.value / whole, "r": r.value,
        "chosen": point.chosen,
    }  # fmt: skip


def _beats(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether a is at least as good as b in both, and better in one."""
    pair, other = (a["loss"], a["r"]), (b["loss"], b["r"])
    return pair != other and pair[0] <= other[0] and pair[1] <= other[1]


def _clutter(rows: Sequence[dict[str, Any]], across: Axis, up: Axis, size: tuple[int, int]) -> Clutter:
    clutter = Clutter(*size)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: float(row["loss"])):
        x, y = across.share(row["loss"]) * size[0], (1 - up.share(row["r"])) * size[1]
        clutter.add(Box(x - 4, y - 4, x + 4, y + 4), 3.0)
        if row["best"]:
            lines.setdefault(row["family"], []).append((x, y))
    for line in lines.values():
        clutter.add_line(line, 2.0)
    return clutter


def _ringed(chosen: Sequence[dict[str, Any]]) -> str:
    return f"; ringed: chosen, {chosen[0]['family']} (loss {short(chosen[0]['loss'])})" if chosen else ""
