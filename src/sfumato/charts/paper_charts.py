"""Charts of the papers: masks' losses against what they explain, release regions, experiments on keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.scales import Axis
from sfumato.charts.theme import (
    DASHES,
    FAINT,
    GRID,
    INK,
    PAPER,
    RISK_SHADES,
    SERIES,
    SIZE,
    SOFT,
    UTILITY_SHADES,
    WIDTH,
    at,
    colour_of,
    draw,
    layered,
    themed,
    words,
    x_axis,
    y_axis,
)
from sfumato.lazy import pd

_HEIGHT = 280
_BROAD = 2.4


def mask_tradeoff_chart(frame: pd.DataFrame, targets: str, stepped: Collection[str] = ()) -> alt.LayerChart:
    """Draw the frame of a MaskTradeoff: the first mask, the best, has the broad line; colour and dash tell the others.

    `stepped` masks have few settings, and keep the one they have until τ allows the next.
    """
    names = list(dict.fromkeys(frame["mask"]))
    width = WIDTH - 230
    across, up = (
        f"τ: variance of {targets} that may be explained",
        "variance of X lost, tr Var(X | M) as a share of tr Var X",
    )
    x = theme.x_axis("tau", Axis(0.0, float(frame["tau"].max()), False), across, width)
    y = theme.y_axis("share", Axis(0.0, 1.02, False), up, _HEIGHT, 6, format="%")
    key = alt.Legend(symbolType="stroke", symbolSize=500, orient="right", title=None)
    colours = alt.Scale(domain=names, range=[colour_of(i) for i in range(len(names))])
    dashes = alt.Scale(domain=names, range=[DASHES[i % len(DASHES)] for i in range(len(names))])
    colour = alt.Color("mask:N", scale=colours, legend=key, title=None)
    dash = alt.StrokeDash("mask:N", scale=dashes, legend=key, title=None)
    items: theme.Rows = frame[["tau", "mask", "share"]].to_dict("records")  # type: ignore[assignment]
    layers = []
    for name in reversed(names):
        bend = {"interpolate": "step-after"} if name in stepped else {}
        style = {"strokeWidth": _BROAD if name == names[0] else 1.6, "clip": True, **bend}
        mine = [i for i in items if i["mask"] == name]
        layers.append(theme.draw("line", mine, style, x=x, y=y, color=colour, strokeDash=dash))
    return themed(theme.layered(*layers, width=width, height=_HEIGHT))


_SIDE = 340
_KEY = 26
_STYLES: dict[str, dict[str, Any]] = {
    "possible": {"stroke": FAINT, "strokeDash": [2, 2], "fill": GRID, "fillOpacity": 0.5},
    "together": {"stroke": SERIES[0], "strokeWidth": 1.8, "fill": UTILITY_SHADES[1], "fillOpacity": 0.75},
    "one by one": {"stroke": RISK_SHADES[3], "strokeWidth": 1.8, "strokeDash": [6, 3], "fillOpacity": 0.0},
}


def release_region_chart(
    outline: pd.DataFrame, points: pd.DataFrame, names: tuple[str, str], tau: float
) -> alt.LayerChart:
    """Draw the outlines (columns region, order, x, y) and the cases (case, x, y, value, together, one_by_one).

    Filled points pass by what is explained together, hollow ones do not; circles pass one by one, squares do not.
    """
    said = {
        "possible": "possible: at most all is explained",
        "together": f"together less than {tau:.3g} is explained: release",
        "one by one": "each attribute passes a standard of its own",
    }
    most = float(max(outline["x"].abs().max(), outline["y"].abs().max()))
    axis = Axis(-1.08 * most, 1.08 * most, False)
    x = x_axis("x", axis, f"correlation of the target with {names[0]}", _SIDE)
    y = y_axis("y", axis, f"correlation of the target with {names[1]}", _SIDE)
    layers: list[Any] = []
    for region, style in _STYLES.items():
        rows = _rows(outline[outline["region"] == region])
        layers.append(draw("line", rows, {**style, "clip": True}, x=x, y=y, order=alt.Order("order:Q")))
    for number, (region, style) in enumerate(_STYLES.items()):  # a key of our own: patches look as the regions do
        top = 12 + 19 * number
        layers.append(draw("rect", [{}], {**style, "width": 16, "height": 10}, **at(_SIDE + _KEY, top)))
        words_style = {"align": "left", "dx": 16, "fontSize": SIZE, "color": INK}
        layers.append(draw("text", [{"text": said[region]}], words_style, **at(_SIDE + _KEY, top)))
    rows = [{**row, "text": f"{row['case']}: {row['value']:.2f}"} for row in _rows(points)]
    for row in rows:
        look = {
            "shape": "circle" if row["one_by_one"] else "square", "size": 75, "stroke": INK, "strokeWidth": 1.5,
            "fill": INK if row["together"] else PAPER, "opacity": 1,
        }  # fmt: skip
        layers.append(draw("point", [row], look, x=x, y=y))
        right = row["x"] < 0.7 * most
        beside = {"align": "left" if right else "right", "dx": 9 if right else -9, "fontSize": SIZE}
        layers += words([row], beside, x=x, y=y)
    notes = [
        "number: share explained together",
        "filled: passes together, hollow: does not",
        "circle: passes one by one, square: does not",
    ]
    for number, note in enumerate(notes):
        look = {"align": "left", "dx": -8, "fontSize": SIZE, "color": SOFT}
        place = at(_SIDE + _KEY, 12 + 19 * (len(_STYLES) + number) + 8)
        layers.append(draw("text", [{"text": note}], look, **place))
    return themed(layered(*layers, width=_SIDE, height=_SIDE))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


_PANEL_HEIGHT = 210
_KINDS = ("maximal", "minimal")


def key_experiments_chart(frame: pd.DataFrame) -> alt.HConcatChart:
    """Draw the frame of KeyExperiments: colour tells the file, the dash the kind of risk; all panels share the risk's axis."""
    files = list(dict.fromkeys(frame["file"]))
    names = list(dict.fromkeys(frame["experiment"]))
    width = (WIDTH - 130) // len(names) - 20
    top = float(frame["value"].max())
    risk = Axis(0.0, 1.08 * top or 1.0, False)
    panels = [_panel(frame[frame["experiment"] == n], n, files, width, risk, n == names[0]) for n in names]
    page: alt.HConcatChart = alt.hconcat(*panels, spacing=16).resolve_scale(color="shared", strokeDash="shared")
    return themed(page)


def _panel(rows: pd.DataFrame, name: str, files: list[str], width: int, risk: Axis, first: bool) -> alt.LayerChart:
    log = bool((rows["setting"] > 0).all())
    across = Axis.over(rows["setting"], log, pad=0.03)
    x = theme.x_axis("setting", across, str(rows["parameter"].iloc[0]), width, 5)
    shown = {} if first else {"labels": False, "ticks": False, "domain": False}
    y = theme.y_axis("value", risk, "global risk" if first else "", _PANEL_HEIGHT, 6, **shown)
    key = alt.Legend(symbolType="stroke", symbolSize=300, orient="right")
    # with one file there is nothing for colours to tell
    colour = theme.series_colour(files, key if len(files) > 1 else None, "file")
    scale = alt.Scale(domain=list(_KINDS), range=[DASHES[0], DASHES[1]])
    dash = alt.StrokeDash("kind:N", scale=scale, legend=key, title=None)
    items: theme.Rows = rows[["setting", "value", "file", "kind", "keys"]].to_dict("records")  # type: ignore[assignment]
    lines = theme.draw("line", items, {"strokeWidth": 1.8, "clip": True}, x=x, y=y, color=colour, strokeDash=dash)
    dots = theme.draw("circle", items, {"size": 16, "opacity": 1, "clip": True}, x=x, y=y, color=colour)
    title = alt.TitleParams(theme.lines(name, width) or "", frame="group")
    return theme.layered(lines, dots, width=width, height=_PANEL_HEIGHT, title=title)
