"""The panel of risk against utility, with everything that is written in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.scales import readable
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import INK, PAPER, SIZE, SOFT
from sfumato.charts.tidy import Measured
from sfumato.charts.words import short

_LABELS = 6
_APART = 24
"""Pixels between parameter values written along a curve."""


@dataclass(frozen=True, eq=False)
class Plane:
    """One risk against every utility of a map."""

    sheet: Sheet
    risk: Measured
    width: int
    height: int

    def chart(self) -> alt.LayerChart:
        """Return the panel: reference lines, curves, points, then words."""
        layers = [*self._unmasked(), *self.threshold(), *self._curves(), *self._points(), *self._along(), *self._chosen()]
        return alt.layer(*layers, *self._names()).properties(width=self.width, height=self.height)

    # -- axes

    @property
    def x(self) -> alt.X:
        """Utility."""
        return marks.x_axis("u", self.sheet.u_axis, self.sheet.u_title, **self.sheet.u_options)

    @property
    def y(self) -> alt.Y:
        """Risk."""
        return marks.y_axis("r", self.sheet.r_axis(self.risk), self.sheet.r_title(self.risk))

    def pixel(self, u: float, r: float) -> tuple[float, float]:
        """Return where a point stands, from the panel's top left corner."""
        return self.sheet.u_axis.share(u) * self.width, (1 - self.sheet.r_axis(self.risk).share(r)) * self.height

    def _colour(self, legend: alt.Legend | None = None) -> alt.Color:
        return marks.series_colour(self.sheet.labels, legend)

    # -- lines

    def _unmasked(self) -> list[alt.Chart]:
        utilities = [u for u in self.sheet.data.utilities if self.sheet.u_axis.shows(u.unmasked)]
        ends = [{"u": u.unmasked, "series": u.label, "what": "unmasked"} for u in utilities]
        return [marks.reference(ends, x=self.x, color=self._colour())] if ends else []

    @property
    def _limit_text(self) -> str:
        return f"largest tolerable risk {short(self.sheet.limits[self.risk.label])}"

    def threshold(self) -> list[Any]:
        """Return the dashed line at the largest tolerable risk, with its words."""
        if self.risk.label not in self.sheet.limits:
            return []
        item = {"r": self.sheet.limits[self.risk.label], "what": "threshold", "text": self._limit_text}
        place = {"x": alt.value(4), "y": self.y}
        return [
            marks.reference([item], y=self.y).encode(color=alt.value(INK)),
            marks.words([item], encode=place, align="left", baseline="bottom", dy=-3),
        ]

    def _curves(self) -> list[alt.Chart]:
        lines = self.sheet.line_rows(self.risk) if self.sheet.single else []
        if not lines:
            return []
        style = {"strokeWidth": 2.0} if self.sheet.smooth(self.risk) else {"strokeWidth": 1.2, "opacity": 0.45}
        legend = None if self.sheet.replicated(self.risk) else self.sheet.legend
        drawn = marks.rows(lines).mark_line(clip=True, **style)
        return [drawn.encode(x=self.x, y=self.y, color=self._colour(legend), order=alt.Order("t:Q"))]

    def _points(self) -> list[alt.Chart]:
        if self.sheet.single and not self.sheet.replicated(self.risk):
            return []
        points = self.sheet.point_rows(self.risk)
        thin = {"strokeWidth": 1, "opacity": 0.55, "clip": True}
        legend, colour = self.sheet.legend, self._colour(self.sheet.legend)
        across = {"x": alt.X("u_low:Q"), "x2": "u_high:Q", "y": self.y}
        upright = {"x": self.x, "y": alt.Y("r_low:Q"), "y2": "r_high:Q"}
        dots = marks.rows(points).mark_point(filled=True, size=26, opacity=1, clip=True)
        return [
            *(marks.rows(points).mark_rule(**thin).encode(**way, color=self._colour()) for way in (across, upright)),
            dots.encode(x=self.x, y=self.y, color=colour, shape=marks.series_shape(self.sheet.labels, legend)),
        ]

    # -- words

    def spots(self) -> list[list[dict[str, Any]]]:
        """Return some readable parameter values, each with its places on the curves, clear of each other and of the threshold's words."""
        kept: list[tuple[float, float, list[dict[str, Any]]]] = []
        for t in (t for group in readable(self.sheet.grid, self.sheet.log_t) for t in group):
            places = self.sheet.places(t, self.risk)
            if not places or len(kept) >= _LABELS:
                continue
            x, y = self.pixel(places[0]["u"], places[0]["r"])
            start = x - len(short(t)) * marks.CHARACTER - 10
            clear = all(math.hypot(x - a, y - b) >= _APART for a, b, _ in kept)
            if clear and start > 0 and not self._on_threshold_words(start, y):
                kept.append((x, y, places))
        return sorted((places for _, _, places in kept), key=lambda places: float(places[0]["t"]))

    def _on_threshold_words(self, x: float, y: float) -> bool:
        limit = self.sheet.limits.get(self.risk.label)
        if limit is None:
            return False
        line = (1 - self.sheet.r_axis(self.risk).share(limit)) * self.height
        return line - 22 < y < line + 7 and x < len(self._limit_text) * marks.CHARACTER + 10

    def _along(self) -> list[Any]:
        spots = self.spots() if self.sheet.single and len(self.sheet.data.points) > 1 else []
        if not spots:
            return []
        both = {"x": self.x, "y": self.y}
        made: list[Any] = []
        if not self.sheet.replicated(self.risk):
            dot = {"shape": "circle", "size": 22, "fill": PAPER, "strokeWidth": 1.3, "opacity": 1}
            stroke = alt.Stroke("series:N", scale=marks.colour_scale(self.sheet.labels), legend=None)
            made.append(marks.rows(p for places in spots for p in places).mark_point(**dot).encode(stroke=stroke, **both))
        texts = [{**places[0], "text": short(places[0]["t"])} for places in spots]
        style = {"align": "right", "baseline": "middle", "dx": -7, "fontSize": SIZE - 1, "color": SOFT}
        return [*made, marks.words(texts, encode=both, **style)]

    def _chosen(self) -> list[Any]:
        places = self.sheet.chosen_places(self.risk)
        if not places:
            return []
        both = {"x": self.x, "y": self.y}
        text = self.sheet.chosen_words if self.sheet.single else "chosen"
        style = {"align": "left", "baseline": "top", "dx": 8, "dy": 6, "fontWeight": "bold"}
        return [marks.ring(places, **both), marks.words([{**places[-1], "text": text}], encode=both, **style)]

    def _names(self) -> list[alt.Chart]:
        """Write each utility's name above its unmasked line."""
        if not self.sheet.direct:
            return []
        ends = sorted((u.unmasked, u.label) for u in self.sheet.data.utilities)
        spots = [(self.sheet.u_axis.share(end) * self.width, label) for end, label in ends]
        made = []
        for (_, label), (start, row) in zip(spots, marks.stack_labels(spots, self.width), strict=True):
            text = marks.rows([{"series": label}]).mark_text(align="left", baseline="bottom", fontWeight="bold")
            where = {"x": alt.value(start), "y": alt.value(-6 - (SIZE + 4) * row)}
            made.append(text.encode(**where, text="series:N", color=self._colour()))
        return made
