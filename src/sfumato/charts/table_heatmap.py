"""A table as a heat map: which cells are shown, not published or changed, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.placing import text_width
from sfumato.charts.theme import INK, PAPER, SIZE, SOFT, WIDTH, themed
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

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
"""What can have happened to a cell, with its colour and the colour of what is written in it; they differ in grey too."""
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
    have = [str(c) for c in frame.columns]
    for name in ("row", "column", "kind", "text"):
        if name not in have:
            raise ParameterError(unknown_name("column", name, have, "the frame"))
    items: marks.Rows = [{str(k): v for k, v in r.items()} for r in frame.to_dict("records")]
    if not items:
        raise ParameterError("the table has no cells, so there is nothing to draw.")
    rows, columns = (list(dict.fromkeys(str(r[side]) for r in items)) for side in ("row", "column"))
    used = [kind for kind in LOOKS if any(r["kind"] == kind for r in items)]
    if unknown := [r["kind"] for r in items if r["kind"] not in LOOKS]:
        raise ParameterError(unknown_name("kind", str(unknown[0]), LOOKS, "the list of what can happen to a cell"))
    room = _ROOM - max(map(text_width, rows))
    wide, high = max(6, min(74, int(room / len(columns)))), max(6, min(_TALLEST, int(700 / len(rows))))
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
        marks.draw("rect", items, {"stroke": PAPER, "strokeWidth": 1}, x=x, y=y, color=colour, tooltip=tips)
    ]
    if legible:
        inked = [{**r, "ink": LOOKS[r["kind"]][1]} for r in items]
        layers.append(
            marks.draw(
                "text",
                inked,
                {"fontSize": SIZE - 1},
                x=x,
                y=y,
                text=alt.Text("text:N"),
                color=alt.Color("ink:N", scale=None),
            )
        )
    size: dict[str, Any] = {"width": wide * len(columns), "height": high * len(rows)}
    if title:
        size["title"] = alt.Title(marks.lines(title, WIDTH) or "", frame="group")
    return themed(marks.layered(*layers, **size))


def _axis(labels: list[str], wide: int, count: int) -> alt.Axis:
    """Return an axis of labels: slanted where they do not fit, and not all where they are too many."""
    slant = max(map(text_width, labels)) > wide - 4
    options: dict[str, Any] = {
        "ticks": False,
        "domain": False,
        "labelOverlap": "greedy" if count > 40 else False,
        "labelLimit": 150,
    }
    return alt.Axis(labelAngle=-45 if slant else 0, **options)
