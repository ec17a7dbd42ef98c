"""The panel of risk against utility: axes, reference lines, curves and points. What is written in it is in `lettering`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import INK, SOFT
from sfumato.charts.tidy import Measured


@dataclass(frozen=True, eq=False)
class Trace:
    """One map's curves in a panel: its sheet, which of its risks, and a name where several maps share the panel."""

    sheet: Sheet
    risk: Measured
    name: str = ""


@dataclass(frozen=True, eq=False)
class Plane:
    """Risk against utility: the curves of one map, or of several that share the axes."""

    traces: tuple[Trace, ...]
    width: int
    height: int
    outer: bool = True
    """Whether the risk axis is written; a panel to the right of another need not repeat it."""
    title: str = ""

    @property
    def sheet(self) -> Sheet:
        """The first map: axes, thresholds and words are the same for all."""
        return self.traces[0].sheet

    @property
    def risk(self) -> Measured:
        """The first map's risk."""
        return self.traces[0].risk

    @property
    def several(self) -> bool:
        """Whether several maps share the panel."""
        return len(self.traces) > 1

    def layers(self) -> list[alt.Chart]:
        """Return what is drawn, without words."""
        return [*self._unmasked(), *self._threshold(), *self._curves(), *self._points()]

    # -- axes

    def x(self, field: str = "u") -> alt.X:
        """Return the axis of utility, for a field of the rows."""
        about = max(3, self.width // 55)
        return marks.x_axis(field, self.sheet.u_axis, self.sheet.u_title, self.width, about, **self.sheet.u_options)

    def y(self, field: str = "r") -> alt.Y:
        """Return the axis of risk, for a field of the rows."""
        axis = self.sheet.r_axis(self.risk)
        if self.outer:
            return marks.y_axis(field, axis, self.sheet.r_title(self.risk), self.height)
        return marks.y_axis(field, axis, "", self.height, labels=False, ticks=False, domain=False)

    def pixel(self, u: float, r: float) -> tuple[float, float]:
        """Return where a point stands, from the panel's top left corner."""
        return self.sheet.u_axis.share(u) * self.width, (1 - self.sheet.r_axis(self.risk).share(r)) * self.height

    @property
    def colour(self) -> alt.Color:
        """The colour of each utility."""
        return marks.series_colour(self.sheet.palette, self.legend)

    @property
    def legend(self) -> alt.Legend | None:
        """The legend, where curves are not labelled directly."""
        if self.sheet.direct or self.title:
            return None
        points = any(t.sheet.has_points(t.risk) for t in self.traces)
        symbol: dict[str, Any] = {"symbolSize": 50} if points else {"symbolType": "stroke", "symbolSize": 250}
        offset = 24 if self.several else 6  # above the words on the unmasked lines
        return alt.Legend(orient="top", direction="vertical", columns=1, offset=offset, symbolOpacity=1, **symbol)

    # -- lines

    def ends(self) -> marks.Rows:
        """Return the utilities of the unmasked files, smallest first; equal ones of one overlaid map once."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for trace in self.traces:
            for u in trace.sheet.data.utilities:
                if self.sheet.u_axis.shows(u.unmasked):
                    item = {"u": u.unmasked, "series": u.label, "map": trace.name, "what": "unmasked"}
                    found.setdefault((trace.name, f"{u.unmasked:.9g}" if self.several else u.label), item)
        return sorted(found.values(), key=lambda item: float(item["u"]))

    def _unmasked(self) -> list[alt.Chart]:
        ends = self.ends()
        if not ends:
            return []
        if self.several:  # dashes tell the maps apart, so these lines are dotted
            return [
                marks.reference(
                    ends, {"strokeDash": [1, 3], "strokeWidth": 1.4}, x=self.x(), color=alt.ColorValue(SOFT)
                )
            ]
        return [marks.reference(ends, x=self.x(), color=self.colour)]

    def _threshold(self) -> list[alt.Chart]:
        limit = self.sheet.limits.get(self.risk.label)
        if limit is None:
            return []
        return [marks.reference([{"r": limit, "what": "threshold"}], y=self.y(), color=alt.ColorValue(INK))]

    def _curves(self) -> list[alt.Chart]:
        lines = [{**row, "map": t.name} for t in self.traces for row in t.sheet.line_rows(t.risk)]
        if not lines:
            return []
        smooth = all(t.sheet.smooth(t.risk) for t in self.traces)
        style = {"clip": True, "strokeWidth": 2.0} if smooth else {"clip": True, "strokeWidth": 1.2, "opacity": 0.5}
        dash = {"strokeDash": marks.series_dash([t.name for t in self.traces], self.legend)} if self.several else {}
        return [
            marks.draw("line", lines, style, x=self.x(), y=self.y(), color=self.colour, order=alt.Order("t:Q"), **dash)
        ]

    def _points(self) -> list[alt.Chart]:
        points = [row for t in self.traces for row in t.sheet.point_rows(t.risk)]
        if not points:
            return []
        thin = {"strokeWidth": 1, "opacity": 0.55, "clip": True}
        across = {"x": self.x("u_low"), "x2": alt.X2("u_high:Q"), "y": self.y()}
        upright = {"x": self.x(), "y": self.y("r_low"), "y2": alt.Y2("r_high:Q")}
        bars = [marks.draw("rule", points, thin, **way, color=self.colour) for way in (across, upright)]
        dot = {"filled": True, "size": 26, "opacity": 1, "clip": True}
        shape = marks.series_shape(self.sheet.palette, self.legend)
        return [*bars, marks.draw("point", points, dot, x=self.x(), y=self.y(), color=self.colour, shape=shape)]
