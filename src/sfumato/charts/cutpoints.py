"""The custodian's preview of cutpoints: a histogram, and where each strategy cuts. Confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt

from sfumato.charts import marks
from sfumato.charts.placing import text_width
from sfumato.charts.scales import Axis
from sfumato.charts.theme import INK, SERIES, SIZE, SOFT, UTILITY_SHADES, WIDTH, themed

if TYPE_CHECKING:
    import pandas as pd

_HIGH, _ROW = 150, 26
_MANY = 400


def cutpoints_chart(
    histogram: pd.DataFrame, strategies: pd.DataFrame, edges: Mapping[str, Sequence[float]], title: str, chosen: str
) -> alt.VConcatChart:
    """Draw the histogram (columns low, high, count) above one row of edges for each strategy.

    `strategies` has a row for each strategy: strategy, bins, smallest. Edges of the chosen one stand in the histogram, too. Those
    beyond the histogram are counted at its end; of more than 400 edges a row shows a band.
    """
    low, high = float(histogram["low"].min()), float(histogram["high"].max())
    axis = Axis(low, high, False)
    said = {
        str(r["strategy"]): f"{r['bins']:,} bin{'' if r['bins'] == 1 else 's'}, smallest {r['smallest']:,}"
        for r in strategies.to_dict("records")
    }
    names = list(said)
    left = max(map(text_width, names)) + 16
    room = max(map(text_width, [*said.values(), "beyond: 999"])) + 14
    wide = int(WIDTH - left - room - 40)
    inside = {name: [float(e) for e in edges[name] if axis.shows(float(e))] for name in names}
    top = _histogram(histogram, inside.get(chosen, []), axis, wide)
    rows = [{"strategy": n, "x": e} for n in names for e in inside[n] if len(inside[n]) <= _MANY]
    bands = [{"strategy": n, "from": min(inside[n]), "to": max(inside[n])} for n in names if len(inside[n]) > _MANY]
    y = alt.Y(
        "strategy:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(ticks=False, domain=False)
    )
    x = marks.x_axis("x", axis, title, wide, format=",~r")
    layers = [
        marks.draw(
            "rule",
            [{"strategy": n, "x": low, "x2": high} for n in names],
            {"color": SOFT, "opacity": 0.5},
            x=x,
            x2="x2:Q",
            y=y,
        )
    ]
    tick = {"thickness": 1.2, "height": 15}
    colour = alt.condition(f"datum.strategy == '{chosen}'", alt.value(SERIES[1]), alt.value(SERIES[0]))
    if bands:
        layers.append(
            marks.draw(
                "bar",
                bands,
                {"height": 13, "opacity": 0.45},
                x=marks.x_axis("from", axis, title, wide),
                x2="to:Q",
                y=y,
                color=colour,
            )
        )
    if rows:
        layers.append(marks.draw("tick", rows, tick, x=x, y=y, color=colour))
    notes = [
        {
            "strategy": n,
            "text": said[n] + (f"; {beyond:,} beyond" if (beyond := len(edges[n]) - len(inside[n])) else ""),
        }
        for n in names
    ]
    layers.append(
        marks.draw(
            "text",
            notes,
            {"align": "left", "dx": 8, "fontSize": SIZE, "color": INK},
            y=y,
            text=alt.Text("text:N"),
            **marks.at(wide),
        )
    )
    bottom = marks.layered(*layers, width=wide, height=_ROW * len(names))
    both: alt.VConcatChart = alt.vconcat(top, bottom, spacing=10)
    return themed(both)


def _histogram(frame: pd.DataFrame, edges: list[float], axis: Axis, wide: int) -> alt.LayerChart:
    """Draw the bars, with the chosen edges through them while they are few enough to be told apart."""
    most = float(frame["count"].max())
    up = Axis(0.0, 1.05 * max(most, 1.0), False)
    items = [{str(k): v for k, v in r.items()} | {"foot": 0} for r in frame.to_dict("records")]
    # both panels have the same scale; the lower one has its labels
    x = marks.x_axis("low", axis, "", wide, labels=False, ticks=False)
    y = marks.y_axis("count", up, "records", _HIGH, 5)
    style = {"color": UTILITY_SHADES[1], "stroke": "white", "strokeWidth": 0.4, "clip": True}
    layers = [marks.draw("rect", items, style, x=x, x2="high:Q", y=y, y2="foot:Q")]
    if edges and len(edges) <= 60:
        lines = [{"x": e} for e in edges]
        layers.append(
            marks.draw(
                "rule",
                lines,
                {"color": SERIES[1], "strokeWidth": 0.9},
                x=marks.x_axis("x", axis, "", wide, labels=False, ticks=False),
            )
        )
    return marks.layered(*layers, width=wide, height=_HIGH)
