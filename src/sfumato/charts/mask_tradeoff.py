"""What masks lose of the attributes against how much of the targets they may explain."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import altair as alt

from sfumato.charts import marks
from sfumato.charts.scales import Axis
from sfumato.charts.theme import DASHES, WIDTH, colour_of, themed

if TYPE_CHECKING:
    import pandas as pd

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
    x = marks.x_axis("tau", Axis(0.0, float(frame["tau"].max()), False), across, width)
    y = marks.y_axis("share", Axis(0.0, 1.02, False), up, _HEIGHT, 6, format="%")
    key = alt.Legend(symbolType="stroke", symbolSize=500, orient="right", title=None)
    colours = alt.Scale(domain=names, range=[colour_of(i) for i in range(len(names))])
    dashes = alt.Scale(domain=names, range=[DASHES[i % len(DASHES)] for i in range(len(names))])
    colour = alt.Color("mask:N", scale=colours, legend=key, title=None)
    dash = alt.StrokeDash("mask:N", scale=dashes, legend=key, title=None)
    items: marks.Rows = frame[["tau", "mask", "share"]].to_dict("records")  # type: ignore[assignment]
    layers = []
    for name in reversed(names):
        bend = {"interpolate": "step-after"} if name in stepped else {}
        style = {"strokeWidth": _BROAD if name == names[0] else 1.6, "clip": True, **bend}
        mine = [i for i in items if i["mask"] == name]
        layers.append(marks.draw("line", mine, style, x=x, y=y, color=colour, strokeDash=dash))
    return themed(marks.layered(*layers, width=width, height=_HEIGHT))
