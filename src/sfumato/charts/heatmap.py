"""A map over two parameters: a heat map for each measure, with the feasible region outlined and the chosen cell framed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt
import numpy as np

from sfumato.charts import marks
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import CHOSEN, INK, PAPER, RISK_SHADES, SIZE, SOFT, UTILITY_SHADES
from sfumato.charts.tidy import Measured, Numbers
from sfumato.charts.words import parameter_words, short, symbol

_WIDTH, _HEIGHT = 245, 205
_CORNERS: dict[str, Any] = {"x": alt.X("x:Q"), "x2": alt.X2("x2:Q"), "y": alt.Y("y:Q"), "y2": alt.Y2("y2:Q")}


def heat_chart(sheet: Sheet) -> alt.ConcatChart:
    """Draw every utility, then every risk, over the two parameters."""
    data = sheet.data
    cells = _Cells(sheet, *(sorted({float(v) for v in data.points[:, k]}) for k in (0, 1)))
    lead = "share of the unmasked utility: " if sheet.share else "data utility U: "
    panels = [cells.panel(u, lead + u.label, UTILITY_SHADES) for u in data.utilities]
    panels += [cells.panel(r, f"disclosure risk R: {r.label}", RISK_SHADES, log=True) for r in data.risks]
    key = alt.Title(text=cells.key(), fontSize=SIZE, color=SOFT, anchor="start", offset=10)
    return alt.concat(*panels, columns=2, title=key, spacing=18)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cell i, j of the grid spans i to i + 1 and j to j + 1, whatever the parameters' values."""

    sheet: Sheet
    across: Sequence[float]
    up: Sequence[float]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels; whole pixels per cell, so that no seam shows between them."""
        across, up = len(self.across), len(self.up)
        return across * max(1, round(_WIDTH / across)), up * max(1, round(_HEIGHT / up))

    def place(self, point: Numbers) -> tuple[int, int]:
        """Return the cell of a point."""
        return self.across.index(float(point[0])), self.up.index(float(point[1]))

    def key(self) -> list[str]:
        """Say what the outline and the frame mean."""
        limits, said = self.sheet.limits, []
        if limits:
            each = " and ".join(f"{short(v)} ({label})" if len(limits) > 1 else short(v) for label, v in limits.items())
            good = int(self.sheet.data.feasible(limits).sum())
            said.append(
                f"outlined: the upper limit of the risk is at most {each}" if good
                else f"no cell keeps the upper limit of the risk at or below {each}"
            )  # fmt: skip
        if self.sheet.data.nearest(self.sheet.chosen) is not None:
            named = ", ".join(f"{symbol(n)} = {short(float(self.sheet.chosen[n]))}" for n in self.sheet.data.parameters)
            said.append(f"framed: chosen, {named}")
        return ["; ".join(said)] if said else [""]

    def panel(self, measure: Measured, title: str, shades: Sequence[str], log: bool = False) -> alt.LayerChart:
        """Draw one measure."""
        values = measure.judged[:, 0]
        shown = values[np.isfinite(values)]
        low, high = (float(shown.min()), float(shown.max())) if len(shown) else (0.0, 1.0)
        log = log and low > 0 and high > low
        items = [self._cell(p, float(v), low, high, log, shades) for p, v in enumerate(values)]
        x = self._axis(alt.X, "x", self.across, 0)
        y = self._axis(alt.Y, "y", self.up, 1)
        colour = alt.Color(
            "shade:Q", legend=self._legend(),
            scale=alt.Scale(type="log" if log else "linear", domain=[low, high], range=list(shades), clamp=True),
        )  # fmt: skip
        look = {"stroke": PAPER, "strokeWidth": 0.6 if self.roomy else 0}
        cells = marks.draw("rect", items, look, x=x, x2=alt.X2("x2:Q"), y=y, y2=alt.Y2("y2:Q"), color=colour)
        layers = [cells, *self._words(items), *self._outline(), *self._frame()]
        width, height = self.size
        chart = marks.layered(*layers, width=width, height=height, title=title)
        return cast(alt.LayerChart, chart.resolve_scale(color="independent"))

    def _cell(self, p: int, value: float, low: float, high: float, log: bool, shades: Sequence[str]) -> dict[str, Any]:
        i, j = self.place(self.sheet.data.points[p])
        shade = min(max(value, low), high) if not math.isnan(value) else low
        span = math.log(high / low) if log else high - low
        depth = (math.log(shade / low) if log else shade - low) / span if span else 0.0
        ink = PAPER if luminance(shades, depth) < 0.3 else INK
        named = {f"parameter_{k + 1}": float(v) for k, v in enumerate(self.sheet.data.points[p])}
        text = f"{100 * value:.0f} %" if self.sheet.share and not log else short(value)
        return {
            **named, "value": value, "shade": shade, "text": text, "ink": ink,
            "x": i, "x2": i + 1, "y": j, "y2": j + 1, "middle": i + 0.5, "centre": j + 0.5,
        }  # fmt: skip

    @property
    def roomy(self) -> bool:
        """Whether a number fits into a cell."""
        return _WIDTH / len(self.across) >= 36 and _HEIGHT / len(self.up) >= 17

    def _legend(self) -> alt.Legend | None:
        if self.roomy:
            return None
        return alt.Legend(
            title=None, gradientLength=_HEIGHT - 10, gradientThickness=10, format="~g", tickCount=5, offset=6
        )

    def _words(self, items: marks.Rows) -> list[alt.Chart]:
        if not self.roomy:
            return []
        ink = alt.Color("ink:N", scale=None)
        places = {"x": alt.X("middle:Q"), "y": alt.Y("centre:Q")}
        return [marks.draw("text", items, {"fontSize": SIZE - 1}, **places, text=alt.Text("text:N"), color=ink)]

    def _axis(self, kind: Any, field: str, values: Sequence[float], parameter: int) -> Any:
        every = math.ceil(len(values) / (6 if parameter == 0 else 10))
        ticks = [k + 0.5 for k in range(0, len(values), every)]
        words = json.dumps([short(v) for v in values])
        bare: dict[str, Any] = {"grid": False, "domain": False, "ticks": False, "labelAngle": 0}
        axis = alt.Axis(values=ticks, labelExpr=f"{words}[floor(datum.value)]", **bare)
        title = parameter_words(self.sheet.data.parameters[parameter])
        return kind(f"{field}:Q", scale=alt.Scale(domain=[0, len(values)], nice=False), axis=axis, title=title)

    def _outline(self) -> list[alt.Chart]:
        """Draw the border of the feasible region, edge by edge."""
        if not self.sheet.limits:
            return []
        data = self.sheet.data
        good = {self.place(point) for point in data.points[data.feasible(self.sheet.limits)]}
        edges = []
        for i, j in sorted(good):
            for beside, edge in (
                ((i - 1, j), (i, j, i, j + 1)), ((i + 1, j), (i + 1, j, i + 1, j + 1)),
                ((i, j - 1), (i, j, i + 1, j)), ((i, j + 1), (i, j + 1, i + 1, j + 1)),
            ):  # fmt: skip
                if beside not in good:
                    edges.append(dict(zip(("x", "y", "x2", "y2"), edge, strict=True)) | {"what": "feasible"})
        if not edges:
            return []
        border = {"strokeWidth": 2.2, "stroke": INK, "strokeCap": "square"}
        return [marks.draw("rule", edges, border, **_CORNERS)]

    def _frame(self) -> list[alt.Chart]:
        p = self.sheet.data.nearest(self.sheet.chosen)
        if p is None:
            return []
        i, j = self.place(self.sheet.data.points[p])
        item = {"x": i, "x2": i + 1, "y": j, "y2": j + 1, "what": "chosen"}
        frame = {"filled": False, "cornerRadius": 2}
        looks = ({"stroke": PAPER, "strokeWidth": 5}, {"stroke": CHOSEN, "strokeWidth": 3})
        return [marks.draw("rect", [item], {**frame, **look}, **_CORNERS) for look in looks]


def luminance(shades: Sequence[str], depth: float) -> float:
    """Return how bright a range of colours is at a depth from 0 to 1: 0 for black, 1 for white."""
    at = np.linspace(0, 1, len(shades))
    parts = np.array([[int(shade[k : k + 2], 16) / 255 for k in (1, 3, 5)] for shade in shades])
    red, green, blue = (float(np.interp(depth, at, parts[:, k])) ** 2.2 for k in range(3))
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
