"""A heat map of cells: a colour and, where it fits, a number in each; a region outlined and one cell framed."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.theme import CHOSEN, INK, PAPER, SIZE

WIDTH, HEIGHT = 245, 205
"""Approximate pixels of a panel: two stand side by side on a page."""
_CORNERS: dict[str, Any] = {"x": alt.X("x:Q"), "x2": alt.X2("x2:Q"), "y": alt.Y("y:Q"), "y2": alt.Y2("y2:Q")}

NOTHING = "#e6e6e6"
"""Grey for cells without a value."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Band:
    """One side of the grid: how many cells, and ticks as (place, label), where cell k spans k to k + 1."""

    cells: int
    ticks: Sequence[tuple[float, str]]
    title: str

    @classmethod
    def of(cls, labels: Sequence[str], title: str) -> Band:
        """Return a band with a label at the middle of each cell."""
        return cls(len(labels), [(k + 0.5, label) for k, label in enumerate(labels)], title)

    def axis(self, kind: Any, field: str, about: int) -> Any:
        """Return the axis; with many ticks only every n-th has a label."""
        shown = self.ticks[:: math.ceil(len(self.ticks) / about)]
        labels = json.dumps({str(round(2 * place)): label for place, label in shown})
        bare: dict[str, Any] = {"grid": False, "domain": False, "ticks": False, "labelAngle": 0, "labelPadding": 5}
        axis = alt.Axis(values=[p for p, _ in shown], labelExpr=f"{labels}[round(2 * datum.value)]", **bare)
        return kind(f"{field}:Q", scale=alt.Scale(domain=[0, self.cells], nice=False), axis=axis, title=self.title)


@dataclass(frozen=True)
class CellGrid:
    """The grid: cell i, j spans i to i + 1 and j to j + 1, whatever the values that its bands stand for."""

    across: Band
    up: Band

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels; whole pixels per cell, so that no seam shows between them."""
        across, up = self.across.cells, self.up.cells
        return across * max(1, round(WIDTH / across)), up * max(1, round(HEIGHT / up))

    @property
    def roomy(self) -> bool:
        """Whether a number fits into a cell."""
        return WIDTH / self.across.cells >= 36 and HEIGHT / self.up.cells >= 17

    def panel(
        self,
        items: theme.Rows,
        title: str,
        shades: Sequence[str],
        log: bool = False,
        good: Collection[Place] = (),
        chosen: Place | None = None,
        domain: tuple[float, float] | None = None,
    ) -> alt.LayerChart:
        """Draw items, each with its cell `i`, `j`, a `value` and a `text`; outline the good cells and frame the chosen.

        Cells whose value is NaN are grey. `domain` is what the shades span, where several panels share them.
        """
        shown = [float(item["value"]) for item in items if math.isfinite(item["value"])]
        low, high = domain or ((min(shown), max(shown)) if shown else (0.0, 1.0))
        log = log and low > 0 and high > low
        rows = [_cell(item, low, high, log, shades) for item in items]
        legend = None if self.roomy else gradient_legend(HEIGHT - 10)
        scale = alt.Scale(type="log" if log else "linear", domain=[low, high], range=list(shades), clamp=True)
        known = alt.Color("shade:Q", legend=legend, scale=scale)
        colour = alt.condition("isValid(datum.value)", known, alt.value(NOTHING))
        look = {"stroke": PAPER, "strokeWidth": 0.6 if self.roomy else 0}
        x, y = self.across.axis(alt.X, "x", 6), self.up.axis(alt.Y, "y", 10)
        cells = theme.draw("rect", rows, look, x=x, x2=alt.X2("x2:Q"), y=y, y2=alt.Y2("y2:Q"), color=colour)
        layers = [cells, *(self._words(rows) if self.roomy else []), *_outline(good), *_frame(chosen)]
        width, height = self.size
        chart = theme.layered(*layers, width=width, height=height, title=alt.Title(title, frame="group"))
        return cast(alt.LayerChart, chart.resolve_scale(color="independent"))

    def _words(self, rows: theme.Rows) -> list[alt.Chart]:
        ink = alt.Color("ink:N", scale=None)
        places = {"x": alt.X("middle:Q"), "y": alt.Y("centre:Q")}
        return [theme.draw("text", rows, {"fontSize": SIZE - 1}, **places, color=ink)]


def gradient_legend(length: int) -> alt.Legend:
    """Return the legend of a range of colours."""
    return alt.Legend(title=None, gradientLength=length, gradientThickness=10, format="~g", tickCount=5, offset=6)


def _cell(item: dict[str, Any], low: float, high: float, log: bool, shades: Sequence[str]) -> dict[str, Any]:
    value, i, j = float(item["value"]), int(item["i"]), int(item["j"])
    shade = min(max(value, low), high) if not math.isnan(value) else low
    span = math.log(high / low) if log else high - low
    depth = (math.log(shade / low) if log else shade - low) / span if span else 0.0
    ink = PAPER if luminance(shades, depth) < 0.3 and not math.isnan(value) else INK
    kept = {k: v for k, v in item.items() if k not in ("i", "j")}
    return {
        **kept, "shade": shade, "ink": ink, "x": i, "x2": i + 1, "y": j, "y2": j + 1, "middle": i + 0.5,
        "centre": j + 0.5,
    }  # fmt: skip


def _outline(good: Collection[Place]) -> list[alt.Chart]:
    """Draw the border of a region, edge by edge."""
    edges = []
    for i, j in sorted(good):
        for beside, edge in (
            ((i - 1, j), (i, j, i, j + 1)), ((i + 1, j), (i + 1, j, i + 1, j + 1)),
            ((i, j - 1), (i, j, i + 1, j)), ((i, j + 1), (i, j + 1, i + 1, j + 1)),
        ):  # fmt: skip
            if beside not in good:
                edges.append(dict(zip(("x", "y", "x2", "y2"), edge, strict=True)) | {"what": "feasible"})
    border = {"strokeWidth": 2.2, "stroke": INK, "strokeCap": "square"}
    return [theme.draw("rule", edges, border, **_CORNERS)] if edges else []


def _frame(chosen: Place | None) -> list[alt.Chart]:
    if chosen is None:
        return []
    i, j = chosen
    item = {"x": i, "x2": i + 1, "y": j, "y2": j + 1, "what": "chosen"}
    frame = {"filled": False, "cornerRadius": 2}
    looks = ({"stroke": PAPER, "strokeWidth": 5}, {"stroke": CHOSEN, "strokeWidth": 3})
    return [theme.draw("rect", [item], {**frame, **look}, **_CORNERS) for look in looks]


def luminance(shades: Sequence[str], depth: float) -> float:
    """Return how bright a range of colours is at a depth from 0 to 1: 0 for black, 1 for white."""
    at = np.linspace(0, 1, len(shades))
    parts = np.array([[int(shade[k : k + 2], 16) / 255 for k in (1, 3, 5)] for shade in shades])
    red, green, blue = (float(np.interp(depth, at, parts[:, k])) ** 2.2 for k in range(3))
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
