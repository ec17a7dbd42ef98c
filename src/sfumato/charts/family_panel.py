"""The panel of risk against utility for many methods: points by family, their curves, the frontier, threshold and choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short
from sfumato.charts.labels import threshold_words
from sfumato.charts.map_data import FamilyLegend, MapPoints, TrialPoint, key_of
from sfumato.charts.scales import Axis, risk_axis, use_axis
from sfumato.charts.theme import FAINT, INK, PAPER, SIZE, SOFT, WIDTH, Box, Clutter, Spot, around, text_width

if TYPE_CHECKING:
    import pandas as pd

_HEIGHT = 360
_CROWD = 60
"""With more points than this, only those on the frontier show their intervals; every tooltip has them."""
_POINT, _WORDS = 3.0, 5.0
"""How much it hurts to write over one of these."""
_SIDES = ("right down", "left up", "right up", "left down", "right", "left")


@dataclass(frozen=True, eq=False)
class FamilyPanel:
    """Rows of points and of the frontier's steps, and the axes."""

    rows: theme.Rows
    endless: theme.Rows
    """Points of infinite risk, which stand on a line of their own at the top."""
    steps: theme.Rows
    key: FamilyLegend
    u_axis: Axis
    r_axis: Axis
    names: tuple[str, str]
    limit: float | None
    left_out: int
    searched: bool
    """Whether the points are those of a search; else they are joined in the order in which they were swept."""
    noun: str

    @classmethod
    def of(
        cls,
        data: MapPoints,
        frontier: pd.DataFrame | None,
        names: tuple[str, str],
        limit: float | None,
        noun: str,
        log: bool,
    ) -> FamilyPanel:
        """Return the panel of one risk and one utility."""
        risk, utility = names
        everything = [f for f in data.pairs(risk, utility) if math.isfinite(f.utility.value)]
        finite = [f for f in everything if math.isfinite(f.risk.value)]
        sure = data.probabilities(frontier, risk, utility)
        best = _undominated(finite)
        foremost = {*sure, *(f.point.number for f in best)} if data.searched else set()
        often = Counter(f.point.family for f in finite if f.point.number in foremost)
        order = [*(f.point.family for f in finite if f.point.chosen), *(family for family, _ in often.most_common())]
        key = key_of(data.families, order)
        main = [f.utility.value for f in finite if f.point.number in foremost or f.point.chosen]
        u_axis = _utility_axis(everything, main, data.unmasked.get(utility), data.searched)
        drawn = [f for f in finite if u_axis.shows(f.utility.value)]
        tall = [f.risk.value for f in drawn]
        tall += [f.risk.limit for f in drawn if f.point.number in foremost or not data.searched]
        tall += [] if limit is None else [limit]
        r_axis = risk_axis(tall) if log else Axis(0.0, 1.05 * (max(tall, default=0.0) or 1.0), False)
        return cls(
            [_row(f, key, f.point.number in foremost, sure, data.meets(f, limit)) for f in drawn],
            [_row(f, key, False, sure, False) for f in everything if math.isinf(f.risk.value)],
            _steps(best, sure), key, u_axis, r_axis, (risk, utility + data.unmasked_words(utility)), limit,
            len(finite) - len(drawn), data.searched, noun,
        )  # fmt: skip

    @property
    def width(self) -> int:
        """Pixels across, beside the legend."""
        return int(max(300, WIDTH - 70 - self.key.width))

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The chosen point; None if there is none, or if it is not drawn."""
        return next((r for r in self.rows if r["chosen"]), None)

    def x(self, field: str = "u") -> alt.X:
        """Return the axis of utility, for a field of the rows."""
        return theme.x_axis(field, self.u_axis, f"data utility U: {self.names[1]}", self.width)

    def y(self, field: str = "r") -> alt.Y:
        """Return the axis of risk, for a field of the rows."""
        title = f"disclosure risk R: {self.names[0]}" + (" (log scale)" if self.r_axis.log else "")
        return theme.y_axis(field, self.r_axis, title, _HEIGHT)

    def pixel(self, u: float, r: float) -> tuple[float, float]:
        """Return where a point stands, from the panel's top left corner."""
        return self.u_axis.share(u) * self.width, (1 - self.r_axis.share(r)) * _HEIGHT

    def chart(self) -> alt.LayerChart:
        """Draw the panel; words come last, each where it covers least."""
        clutter = self._clutter()
        layers: list[Any] = []
        if self.limit is not None:
            level = [{"r": self.limit, "what": "threshold"}]
            layers.append(theme.reference(level, y=self.y(), color=alt.ColorValue(INK)))
        layers += [*self._frontier(), *self._curves(), *self._bars(), *self._points(), *self._endless()]
        layers += self._ring(clutter)
        if self.limit is not None and self.r_axis.shows(self.limit):
            y = self.pixel(self.u_axis.low, self.limit)[1]
            layers += threshold_words(self.limit, y, self.width, clutter, self.y())
        layers += self._families(clutter) if self.searched else self._values(clutter)
        title = theme.heading(self._legend(), self.width + 150)
        return theme.layered(*layers, width=self.width, height=_HEIGHT, title=title)

    def _legend(self) -> list[str]:
        """Say what filled, hollow, steps and ring mean."""
        words = []
        if self.searched:
            words.append("filled: the limits of all risks meet their thresholds; hollow: they do not")
            if self.steps:
                words.append(
                    "steps: the frontier, darker where more surely non-dominated; ticks: what 95 % of its releases stay below"
                )
            if self.chosen is not None:
                words.append(f"ringed: chosen, {self.chosen['family']}: {self.chosen['settings']}")
            elif self.limit is not None:
                words.append("no point meets the thresholds")
        else:
            words.append("steps: the frontier, where nothing is both safer and more useful")
            if self.limit is not None:
                words.append(
                    "filled: the risk is at most the largest tolerable one, with its interval; hollow: it is not"
                )
        if self.endless:
            words.append("∞ at the top: something is known exactly, an infinite risk")
        if self.left_out:
            words.append(f"left of the panel: {self.left_out} more with utility below {short(self.u_axis.low)}")
        return words

    def _clutter(self) -> Clutter:
        clutter = Clutter(self.width, _HEIGHT)
        for k, row in enumerate(self.rows):
            x, y = self.pixel(row["u"], row["r"])
            clutter.add(Box(x - 4, y - 4, x + 4, y + 4), _POINT + 1e-6 * k)  # a weight of its own: every point counts
            if not self.searched and math.isfinite(row["r_low"] + row["u_low"] + row["r_high"] + row["u_high"]):
                left, bottom = self.pixel(row["u_low"], max(row["r_low"], self.r_axis.low))
                right, top = self.pixel(row["u_high"], row["r_high"])
                clutter.add(Box(left, y - 1, right, y + 1), 0.5)
                clutter.add(Box(x - 1, top, x + 1, bottom), 0.5)
        for step in self.steps:
            corners = (("u", "r"), ("u", "r2"), ("u2", "r2"))
            clutter.add_line([self.pixel(step[a], step[b]) for a, b in corners], _POINT if self.searched else 1.0)
        for _, curve in self._families_joined():
            clutter.add_line([self.pixel(r["u"], r["r"]) for r in curve], 1.5)
        if self.limit is not None:
            level = self.pixel(self.u_axis.low, self.limit)[1]
            clutter.add(Box(0, level - 1, self.width, level + 1), _POINT / 2)
        return clutter

    # -- layers

    def _frontier(self) -> list[alt.Chart]:
        if not self.steps:
            return []
        opacity = alt.Opacity("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0.12, 1]), legend=None)
        look = {"strokeWidth": 2, "color": INK} if self.searched else {"strokeWidth": 1.4, "color": FAINT}
        up = {"x": self.x(), "y": self.y(), "y2": alt.Y2("r2:Q")}
        across = {"x": self.x(), "x2": alt.X2("u2:Q"), "y": self.y("r2")}
        style = {**look, "clip": True, "strokeCap": "square"}
        return [theme.draw("rule", self.steps, style, **way, opacity=opacity) for way in (up, across)]

    def _families_joined(self) -> Iterator[tuple[str, theme.Rows]]:
        for family in dict.fromkeys(r["family"] for r in self.rows) if not self.searched else ():
            curve = [r for r in self.rows if r["family"] == family]
            if len(curve) > 1:
                yield family, curve

    def _curves(self) -> list[alt.Chart]:
        """Join the points of one family in the order in which they were swept."""
        rows = [row for _, curve in self._families_joined() for row in curve]
        style = {"strokeWidth": 1.6, "opacity": 0.7, "clip": True}
        order, places = alt.Order("point:Q"), {"x": self.x(), "y": self.y()}
        return [theme.draw("line", rows, style, **places, color=self.key.colour(), order=order)] if rows else []

    def _bars(self) -> list[alt.Chart]:
        """Draw intervals of both measures; in a search, thin lines from the frontier's points up to their limits."""
        shown = [r for r in self.rows if r["frontier"] or r["chosen"] or not self.searched or len(self.rows) <= _CROWD]
        if not shown:
            return []
        thin = {"strokeWidth": 1, "opacity": 0.6, "clip": True}
        across = {"x": self.x("u_low"), "x2": alt.X2("u_high:Q"), "y": self.y()}
        upright = {"x": self.x(), "y": self.y("r_low"), "y2": alt.Y2("r_high:Q")}
        layers = [theme.draw("rule", shown, thin, **way, color=self.key.colour()) for way in (across, upright)]
        tops = [r for r in shown if self.searched and (r["frontier"] or r["chosen"]) and math.isfinite(r["limit"])]
        if tops:
            dotted = {"strokeWidth": 1, "color": FAINT, "clip": True}
            layers.append(theme.draw("rule", tops, dotted, x=self.x(), y=self.y(), y2=alt.Y2("limit:Q")))
            dash = {"color": FAINT, "orient": "horizontal", "thickness": 1, "size": 7, "clip": True}
            layers.append(theme.draw("tick", tops, dash, x=self.x(), y=self.y("limit")))
        return layers

    def _encodings(self) -> dict[str, Any]:
        known: tuple[tuple[str, str], ...] = (("label", self.noun), ("settings", "at"))
        more: tuple[tuple[str, str], ...] = ()
        if self.searched:
            known = (("family", "family"), ("settings", "recipe"))
            more = (("sure_words", "non-dominated"), ("replications", "replications"), ("meets_words", "thresholds"))
        tips = (
            *known, ("risk_words", self.names[0]),
            *((("limit_words", "95 % of releases stay below"),) if self.searched else ()),
            ("use_words", self.names[1]), *more,
        )  # fmt: skip
        tooltip = [alt.Tooltip(f"{name}:N", title=title) for name, title in tips]
        return {"tooltip": tooltip, "shape": self.key.shape(), "color": self.key.colour()}

    def _points(self) -> list[alt.Chart]:
        faint = alt.condition("datum.frontier || datum.chosen", alt.value(1), alt.value(0.6))
        both = {"x": self.x(), "y": self.y(), **self._encodings(), **({"opacity": faint} if self.searched else {})}
        style = {"strokeWidth": 1.4, "clip": True, **({} if self.searched else {"opacity": 1})}
        full = [r for r in self.rows if r["meets"]]
        hollow = [r for r in self.rows if not r["meets"]]  # white inside, so that lines do not run through them
        looks = ((full, {"filled": True, "size": 62}), (hollow, {"filled": False, "fill": PAPER, "size": 46}))
        return [theme.draw("point", items, {**style, **look}, **both) for items, look in looks if items]

    def _endless(self) -> list[alt.Chart]:
        """Draw points of infinite risk above the panel."""
        if not self.endless:
            return []
        rows = [{**r, "what": "infinite"} for r in self.endless]
        style = {"filled": False, "fill": PAPER, "size": 50, "strokeWidth": 1.5, "opacity": 1}
        points = theme.draw("point", rows, style, x=self.x(), **theme.at(y=-14), **self._encodings())
        sign = {"align": "right", "fontSize": SIZE + 3}
        return [*theme.words([{"text": "∞", "what": "infinite"}], sign, **theme.at(x=-6, y=-13)), points]

    # -- words

    def _ring(self, clutter: Clutter) -> list[Any]:
        if self.chosen is None:
            return []
        x, y = self.pixel(self.chosen["u"], self.chosen["r"])
        clutter.add(Box(x - 8, y - 8, x + 8, y + 8), _POINT)
        text = f"chosen: {self.chosen['family' if self.searched else 'settings']}"
        spot, _ = clutter.best(_beside(x, y, text, self.width))
        clutter.add(spot.box, _WORDS)
        layers: list[Any] = [theme.ring([self.chosen], x=self.x(), y=self.y())]
        if spot.side == "far":  # a line leads from the ring to its words
            line = {"strokeWidth": 1, "color": SOFT}
            ends = [{"x": x, "y": y + 8}, {"x": max(spot.box.left + 6, min(x, spot.box.right - 6)), "y": spot.box.top}]
            pixels = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
            layers.append(theme.draw("line", ends, line, **pixels))
            clutter.add_line([(end["x"], end["y"]) for end in ends], _POINT)
        item = [{"text": text, "what": "chosen words"}]
        where = theme.at(spot.box.left, spot.box.top)
        return [*layers, *theme.words(item, {"fontWeight": "bold", "align": "left", "baseline": "top"}, **where)]

    def _families(self, clutter: Clutter) -> list[Any]:
        """Name the families on the frontier beside one of their points, where many families share a legend."""
        if not self.key.crowded:
            return []
        front = sorted((r for r in self.rows if r["frontier"] and not r["chosen"]), key=lambda r: -float(r["u"]))
        taken = {self.chosen["family"]} if self.chosen is not None else set()
        layers = []
        for row in front:
            if row["family"] not in taken and (words := self._word(clutter, row, row["family"], "family")):
                taken.add(row["family"])
                layers += words
        return layers

    def _values(self, clutter: Clutter) -> list[Any]:
        """Write the parameters beside the ends of each curve, then beside what lies between, where there is room."""
        ends = [row for _, curve in self._families_joined() for row in (curve[0], curve[-1])]
        labelled = {r["point"]: r for r in (*ends, *self.rows) if not r["chosen"] and r["settings"] != "as it is"}
        return [layer for r in labelled.values() for layer in self._word(clutter, r, r["settings"], "value")]

    def _word(self, clutter: Clutter, row: Mapping[str, Any], text: str, what: str) -> list[Any]:
        spot, cost = clutter.best(around(*self.pixel(row["u"], row["r"]), text, _SIDES, SIZE - 1))
        if cost >= _POINT:
            return []
        clutter.add(spot.box, _WORDS)
        item = [{**row, "text": text, "what": what}]
        return theme.words(item, {"fontSize": SIZE - 1, **spot.style}, x=self.x(), y=self.y())


def _utility_axis(points: Sequence[TrialPoint], main: Sequence[float], whole: float | None, searched: bool) -> Axis:
    """Return the axis of utility; a sweep's has room for intervals, but not beyond what a utility can be."""
    values = [f.utility.value for f in points]
    if searched:
        return use_axis(values, main, whole)
    top = whole if whole is not None else 1.0 if max(values) <= 1 else math.inf
    bottom = 0.0 if min(values) >= 0 else -math.inf
    ends = [v for f in points for v in f.utility[1:3] if math.isfinite(v)]
    return use_axis([*values, *(min(max(v, bottom), max(top, *values)) for v in ends)], main, whole)


def _beside(x: float, y: float, text: str, width: float) -> list[Spot]:
    """Return places for the chosen point's name: beside it, or further down, in the corner that nothing reaches."""
    near = around(x, y, text, ("right down", "left up", "right up", "right", "left", "left down"), SIZE + 1, 3)
    wide = text_width(text, SIZE + 1)
    left = max(4.0, min(x + 4, width - wide))
    return near + [Spot(Box(left, y + d, left + wide, y + d + SIZE + 3), {}, text, "far") for d in range(24, 150, 9)]


def _row(f: TrialPoint, key: FamilyLegend, best: bool, sure: Mapping[int, float], meets: bool) -> dict[str, Any]:
    point, r, u = f
    probability = sure.get(point.number, math.nan)
    certain = "no" if math.isnan(probability) else f"probability {100 * probability:.0f} %"
    return {
        "point": point.number, "settings": point.at, "label": point.label, **key.fields(point.family), "u": u.value,
        "u_low": u.low, "u_high": u.high, "r": r.value, "r_low": r.low, "r_high": r.high, "limit": r.limit, "meets": meets,
        "chosen": point.chosen, "frontier": best, "replications": point.replications, "risk_words": r.words,
        "limit_words": short(r.limit), "use_words": u.words, "sure_words": certain,
        "meets_words": "met" if meets else "not met",
    }  # fmt: skip


def _undominated(points: Sequence[TrialPoint]) -> list[TrialPoint]:
    best: list[TrialPoint] = []
    for f in sorted(points, key=lambda f: (f.risk.value, -f.utility.value)):
        if not best or f.utility.value > best[-1].utility.value:
            best.append(f)
    return best


def _steps(best: Sequence[TrialPoint], sure: Mapping[int, float]) -> theme.Rows:
    """Return the corners of the frontier: a point's utility is the best to be had until the next one's risk is tolerated."""
    return [
        {
            "point": a.point.number, "u": a.utility.value, "r": a.risk.value, "u2": b.utility.value, "r2": b.risk.value,
            "probability": sure.get(a.point.number, 0.0 if sure else 1.0), "what": "frontier",
        }
        for a, b in pairwise(best)
    ]  # fmt: skip
