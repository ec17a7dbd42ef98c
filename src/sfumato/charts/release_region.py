"""The release region of two attributes: what may be released by all that it explains, and by standards set one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts.marks import at, draw, layered, words, x_axis, y_axis
from sfumato.charts.scales import Axis
from sfumato.charts.theme import FAINT, GRID, INK, PAPER, RISK_SHADES, SERIES, SIZE, SOFT, UTILITY_SHADES, themed

if TYPE_CHECKING:
    import pandas as pd

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
        layers.append(
            draw(
                "text",
                [{"text": said[region]}],
                {"align": "left", "dx": 16, "fontSize": SIZE, "color": INK},
                text=alt.Text("text:N"),
                **at(_SIDE + _KEY, top),
            )
        )
    rows = [{**row, "text": f"{row['case']}: {row['value']:.2f}"} for row in _rows(points)]
    for row in rows:
        look = {
            "shape": "circle" if row["one_by_one"] else "square", "size": 75, "stroke": INK, "strokeWidth": 1.5,
            "fill": INK if row["together"] else PAPER, "opacity": 1,
        }  # fmt: skip
        layers.append(draw("point", [row], look, x=x, y=y))
        right = row["x"] < 0.7 * most
        layers += words(
            [row], {"align": "left" if right else "right", "dx": 9 if right else -9, "fontSize": SIZE}, x=x, y=y
        )
    notes = [
        "number: share explained together",
        "filled: passes together, hollow: does not",
        "circle: passes one by one, square: does not",
    ]
    for number, note in enumerate(notes):
        look = {"align": "left", "dx": -8, "fontSize": SIZE, "color": SOFT}
        place = at(_SIDE + _KEY, 12 + 19 * (len(_STYLES) + number) + 8)
        layers.append(draw("text", [{"text": note}], look, text=alt.Text("text:N"), **place))
    return themed(layered(*layers, width=_SIDE, height=_SIDE))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
