"""Risk against utility for protected tables and for policies: a curve for each family, on the same axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short, spoken
from sfumato.charts.labels import threshold_words
from sfumato.charts.map_data import FamilyLegend, key_of
from sfumato.charts.scales import Axis, risk_axis
from sfumato.charts.theme import FAINT, INK, PAPER, SIZE, SOFT, WIDTH, Box, Clutter, around, themed
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

# --- table map
# Risk against utility for protected tables: a curve for each protection, on the same axes.

_HEIGHT = 360
_STRIP = 26
"""Pixels at the top for points of infinite risk."""
_POINT, _WORDS = 3.0, 5.0
"""How much it hurts to write over one of these."""


def table_map_chart(
    frame: pd.DataFrame,
    risk: str,
    utility: str,
    max_risk: float | None = None,
    chosen: int | None = None,
    what: str = "protection",
    log: bool = True,
) -> alt.LayerChart:
    """Draw `TableMap.frame`: a point for each protection that was tried, joined along its swept parameter.

    `what` says what was tried, and `log` whether the axis of risk is in ratios where risks are far apart.

    Filled points keep the upper end of the risk's interval at or below the threshold, hollow ones do not. Points at which a
    contribution is known exactly have an infinite risk: they stand on a line of their own at the top.
    """
    rows = _rows(frame, risk, utility, max_risk)
    if not rows:
        raise ParameterError("the map has no point at which both measures apply, so there is nothing to draw.")
    return themed(_Panel(rows, risk, utility, max_risk, chosen, what, log).chart())


def _rows(frame: pd.DataFrame, risk: str, utility: str, limit: float | None) -> theme.Rows:
    found: dict[int, dict[str, dict[Any, Any]]] = {}
    for row in frame.to_dict("records"):
        found.setdefault(int(row["point"]), {})[f"{row['side']} {row['measure']}"] = row
    first = next(iter(found.values()), {})
    for name in (f"risk {risk}", f"utility {utility}"):
        if name not in first:
            raise ParameterError(unknown_name("measure", name, first, "the map's frame"))
    rows = []
    for number, by_measure in found.items():
        r, u = by_measure[f"risk {risk}"], by_measure[f"utility {utility}"]
        if math.isnan(r["value"]) or not math.isfinite(u["value"]):
            continue
        upper = r["value"] if math.isnan(r["high"]) else r["high"]
        rows.append({
            "point": number, "family": str(r["family"]).replace("_", " "), "at": str(r["at"]), "label": str(r["label"]),
            "u": float(u["value"]), "u_low": float(u["low"]), "u_high": float(u["high"]), "r": float(r["value"]),
            "r_low": float(r["low"]), "r_high": float(r["high"]), "meets": limit is None or upper <= limit * (1 + 1e-9),
            "risk_words": _words(r), "use_words": _words(u),
        })  # fmt: skip
    return rows


def _words(row: dict[Any, Any]) -> str:
    if math.isnan(row["low"]) or row["low"] == row["high"]:
        return short(float(row["value"]))
    return f"{short(float(row['value']))} ({short(float(row['low']))} to {short(float(row['high']))})"


class _Panel:
    """The panel: points, curves, frontier, and the strip of infinite risks."""

    def __init__(
        self, rows: theme.Rows, risk: str, utility: str, limit: float | None, chosen: int | None, what: str, log: bool
    ) -> None:
        self.limit, self.chosen, self.names, self.what = limit, chosen, (risk, utility), what
        self.endless = [r for r in rows if math.isinf(r["r"])]
        self.rows = [r for r in rows if math.isfinite(r["r"])]
        self.key: FamilyLegend = key_of([r["family"] for r in rows], [])
        spread = [v for r in rows for v in (r["u"], r["u_low"], r["u_high"]) if math.isfinite(v)]
        wide = (max(spread) - min(spread)) or 0.1
        self.u_axis = Axis(min(spread) - 0.05 * wide, max(spread) + 0.05 * wide, False)
        tall = [v for r in self.rows for v in (r["r"], r["r_low"], r["r_high"]) if math.isfinite(v)]
        shown = [*tall, *([] if limit is None else [limit])]
        self.r_axis = risk_axis(shown) if log else Axis(0.0, 1.05 * (max(shown, default=0.0) or 1.0), False)
        self.width = int(max(300, WIDTH - 70 - self.key.width))
        self.strip = _STRIP if self.endless else 0

    def x(self, field: str = "u") -> alt.X:
        return theme.x_axis(field, self.u_axis, f"data utility U: {self.names[1]}", self.width)

    def y(self, field: str = "r") -> alt.Y:
        title = f"disclosure risk R: {self.names[0]}" + (" (log scale)" if self.r_axis.log else "")
        return theme.y_axis(field, self.r_axis, title, _HEIGHT)

    def pixel(self, row: dict[str, Any]) -> tuple[float, float]:
        return self.u_axis.share(row["u"]) * self.width, (1 - self.r_axis.share(row["r"])) * _HEIGHT

    def chart(self) -> alt.LayerChart:
        clutter = Clutter(self.width, _HEIGHT)
        for k, row in enumerate(self.rows):
            x, y = self.pixel(row)
            clutter.add(Box(x - 4, y - 4, x + 4, y + 4), _POINT + 1e-6 * k)
        layers: list[Any] = [
            *self._threshold(),
            *self._frontier(clutter),
            *self._curves(clutter),
            *self._bars(),
            *self._points(),
        ]
        layers += [*self._endless(), *self._ring()]
        if self.limit is not None and self.r_axis.shows(self.limit):
            level = (1 - self.r_axis.share(self.limit)) * _HEIGHT
            layers += threshold_words(self.limit, level, self.width, clutter, self.y())
        layers += self._values(clutter)
        title = alt.Title(text=self._said(), fontSize=SIZE, color=SOFT, anchor="start", offset=12)
        return theme.layered(*layers, width=self.width, height=_HEIGHT, title=title)

    def _said(self) -> list[str]:
        said = ["steps: the frontier, where nothing is both safer and more useful"]
        if self.limit is not None:
            said.append("filled: the risk is at most the largest tolerable one, with its interval; hollow: it is not")
        if self.endless:
            said.append("∞ at the top: something is known exactly, an infinite risk")
        broken = (theme.lines(sentence, self.width + 150) or "" for sentence in said)
        return [line for part in broken for line in ([part] if isinstance(part, str) else part)]

    def _threshold(self) -> list[alt.Chart]:
        if self.limit is None:
            return []
        return [theme.reference([{"r": self.limit, "what": "threshold"}], y=self.y(), color=alt.ColorValue(INK))]

    def _frontier(self, clutter: Clutter) -> list[alt.Chart]:
        best: theme.Rows = []
        for row in sorted(self.rows, key=lambda r: (r["r"], -r["u"])):
            if not best or row["u"] > best[-1]["u"]:
                best.append(row)
        steps = [
            {"u": a["u"], "r": a["r"], "u2": b["u"], "r2": b["r"], "what": "frontier"}
            for a, b in itertools.pairwise(best)
        ]
        if not steps:
            return []
        style = {"strokeWidth": 1.4, "color": FAINT, "clip": True, "strokeCap": "square"}
        for s in steps:
            clutter.add_line(
                [self.pixel(s), self.pixel({"u": s["u"], "r": s["r2"]}), self.pixel({"u": s["u2"], "r": s["r2"]})], 1.0
            )
        up = {"x": self.x(), "y": self.y(), "y2": alt.Y2("r2:Q")}
        across = {"x": self.x(), "x2": alt.X2("u2:Q"), "y": self.y("r2")}
        return [theme.draw("rule", steps, style, **way) for way in (up, across)]

    def _curves(self, clutter: Clutter) -> list[alt.Chart]:
        """Join the points of one protection in the order in which they were swept."""
        several = [r for r in self.rows if sum(q["family"] == r["family"] for q in self.rows) > 1]
        if not several:
            return []
        for family in dict.fromkeys(r["family"] for r in several):
            clutter.add_line([self.pixel(r) for r in several if r["family"] == family], 1.5)
        rows = [{**r, **self.key.fields(r["family"])} for r in several]
        style = {"strokeWidth": 1.6, "opacity": 0.7, "clip": True}
        return [
            theme.draw("line", rows, style, x=self.x(), y=self.y(), color=self.key.colour(), order=alt.Order("point:Q"))
        ]

    def _bars(self) -> list[alt.Chart]:
        rows = [{**r, **self.key.fields(r["family"])} for r in self.rows]
        thin = {"strokeWidth": 1, "opacity": 0.6, "clip": True}
        across = {"x": self.x("u_low"), "x2": alt.X2("u_high:Q"), "y": self.y()}
        upright = {"x": self.x(), "y": self.y("r_low"), "y2": alt.Y2("r_high:Q")}
        return (
            [theme.draw("rule", rows, thin, **way, color=self.key.colour()) for way in (across, upright)]
            if rows
            else []
        )

    def _points(self) -> list[alt.Chart]:
        rows = [{**r, **self.key.fields(r["family"])} for r in self.rows]
        both = {
            "x": self.x(), "y": self.y(), "shape": self.key.shape(), "color": self.key.colour(), "tooltip": self._tips(),
        }  # fmt: skip
        style = {"strokeWidth": 1.5, "clip": True, "opacity": 1}
        full, hollow = [r for r in rows if r["meets"]], [r for r in rows if not r["meets"]]
        looks = ((full, {"filled": True, "size": 66}), (hollow, {"filled": False, "fill": PAPER, "size": 50}))
        return [theme.draw("point", items, {**style, **look}, **both) for items, look in looks if items]

    def _tips(self) -> list[alt.Tooltip]:
        named = (("label", self.what), ("at", "at"), ("risk_words", self.names[0]), ("use_words", self.names[1]))
        return [alt.Tooltip(f"{name}:N", title=title) for name, title in named]

    def _endless(self) -> list[alt.Chart]:
        """Draw points of infinite risk above the panel."""
        if not self.endless:
            return []
        rows = [{**r, **self.key.fields(r["family"]), "what": "infinite"} for r in self.endless]
        style = {"filled": False, "fill": PAPER, "size": 50, "strokeWidth": 1.5, "opacity": 1}
        place = theme.at(y=-14)
        points = theme.draw(
            "point",
            rows,
            style,
            x=self.x(),
            **place,
            shape=self.key.shape(),
            color=self.key.colour(),
            tooltip=self._tips(),
        )
        word = theme.words(
            [{"text": "∞", "what": "infinite"}], {"align": "right", "fontSize": SIZE + 3}, **theme.at(x=-6, y=-13)
        )
        return [*word, points]

    def _ring(self) -> list[Any]:
        rings = [r for r in self.rows if r["point"] == self.chosen]
        return [theme.ring(rings, x=self.x(), y=self.y())] if rings else []

    def _values(self, clutter: Clutter) -> list[Any]:
        """Write the parameters beside the ends of each curve and the chosen point, where there is room."""
        made: list[Any] = []
        for row in _labelled(self.rows, self.chosen):
            text = ("chosen: " if row["point"] == self.chosen else "") + row["at"]
            size = SIZE - 1
            sides = ("right down", "left up", "right up", "left down", "right", "left")
            spot, cost = clutter.best(around(*self.pixel(row), text, sides, size))
            if cost < _POINT or row["point"] == self.chosen:
                clutter.add(spot.box, _WORDS)
                weight = {"fontWeight": "bold"} if row["point"] == self.chosen else {}
                item = [{**row, "text": text, "what": "value"}]
                made += theme.words(item, {"fontSize": size, **weight, **spot.style}, x=self.x(), y=self.y())
        return made


def _labelled(rows: Sequence[dict[str, Any]], chosen: int | None) -> list[dict[str, Any]]:
    """Return the chosen point, then the ends of every curve, then what lies between."""
    ends = []
    for family in dict.fromkeys(r["family"] for r in rows):
        mine = [r for r in rows if r["family"] == family]
        ends += [mine[0], mine[-1]] if len(mine) > 1 else mine
    order = [*(r for r in rows if r["point"] == chosen), *ends, *rows]
    unique = {r["point"]: r for r in reversed(order)}
    return [unique[p] for p in dict.fromkeys(r["point"] for r in order) if unique[p]["at"] != "as it is"]


# --- policy map
# Risk against utility for policies: a curve along the last swept setting for each value of the others.


def policy_map_chart(
    frame: pd.DataFrame,
    parameters: Sequence[str],
    risk: str,
    utility: str,
    max_risk: float | None = None,
    chosen: int | None = None,
) -> alt.LayerChart:
    """Draw `PolicyMap.frame` as the map of protections is drawn; its families are the curves."""
    several = frame["family"].nunique() > 1
    outer, inner = list(parameters[:-1]), list(parameters[-1:])
    curves, ats = [], []
    for row in frame.to_dict("records"):
        parts = [str(row["family"])] if several or not outer else []
        curves.append(spoken([*parts, *(_policy_words(row, name) for name in outer)]))
        ats.append("".join(_policy_words(row, name) for name in inner) or "as it is")
    return table_map_chart(frame.assign(family=curves, at=ats), risk, utility, max_risk, chosen, "policy", log=False)


def _policy_words(row: dict[Any, Any], name: str) -> str:
    """Return a setting as a legend shows it.

    >>> _words({"counts.sd": 5.0}, "counts.sd")
    'counts sd 5'
    """
    value = row[name]
    return (
        f"{name.replace('.', ' ').replace('_', ' ')} {short(float(value)) if isinstance(value, int | float) else value}"
    )
