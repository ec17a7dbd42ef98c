"""The panel of risk against utility for many methods: points by family, their curves, the frontier, threshold and choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short
from sfumato.charts.map_data import FamilyLegend, MapData, TrialPoint, key_of
from sfumato.charts.scales import Axis, risk_axis, use_axis
from sfumato.charts.theme import FAINT, INK, PAPER, SIZE, WIDTH, text_width
from sfumato.lazy import pd

_HEIGHT = 360
_CROWD = 60
"""With more points than this, only those on the frontier show their intervals; every tooltip has them."""
_SMALL = SIZE - 1


class Box(NamedTuple):
    """A rectangle in pixels, from the panel's top left corner."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    @classmethod
    def around(cls, x: float, y: float, half: float = 4.0) -> Box:
        """Return the square about a point."""
        return cls(x - half, y - half, x + half, y + half)


def line_boxes(points: Sequence[tuple[float, float]]) -> Iterator[Box]:
    """Yield small squares along straight lines through these pixels."""
    for (a, b), (c, d) in pairwise(points):
        pieces = max(1, math.ceil(math.hypot(c - a, d - b) / 4))
        yield from (Box.around(a + k / pieces * (c - a), b + k / pieces * (d - b), 2) for k in range(pieces))


def label_places(x: float, y: float, text: str) -> Iterator[tuple[Box, dict[str, Any]]]:
    """Yield where a text can stand beside a point, the best place first, with its mark properties."""
    wide, high = text_width(text, _SMALL), _SMALL + 2.0
    for leftwards, slant in ((False, 1), (True, -1), (False, -1), (True, 1), (False, 0), (True, 0)):
        gap = 6.0 if slant else 8.0
        left = x - gap - wide if leftwards else x + gap
        top = {-1: y - 4 - high, 0: y - high / 2, 1: y + 4}[slant]
        style = {
            "align": "right" if leftwards else "left", "dx": -gap if leftwards else gap,
            "baseline": {-1: "bottom", 0: "middle", 1: "top"}[slant], "dy": {-1: -4, 0: 0, 1: 5}[slant],
        }  # fmt: skip
        yield Box(left, top, left + wide, top + high), style


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
        data: MapData,
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
        """Draw the panel; words come last, each where it covers nothing."""
        layers: list[Any] = [] if self.limit is None else theme.threshold(self.limit, "r", self.y())
        layers += [*self._frontier(), *self._curves(), *self._bars(), *self._points(), *self._endless()]
        if self.chosen is not None:
            layers.append(theme.ring([self.chosen], x=self.x(), y=self.y()))
        layers += self._words()
        title = theme.heading(self._legend(), self.width + 150)
        return theme.layered(*layers, width=self.width, height=_HEIGHT, title=title)

    def _legend(self) -> list[str]:
        """Say what filled, hollow, lines and ring mean."""
        words = [] if self.limit is None else [f"dashed line: the largest tolerable risk, {short(self.limit)}"]
        if self.searched:
            words.append("filled: the limits of all risks meet their thresholds; hollow: they do not")
            if self.steps:
                words.append(
                    "steps: the frontier, darker where more surely non-dominated; ticks: what 95 % of its releases stay below"
                )
            if self.chosen is None and self.limit is not None:
                words.append("no point meets the thresholds")
        else:
            words.append("steps: the frontier, where nothing is both safer and more useful")
            if self.limit is not None:
                words.append(
                    "filled: the risk is at most the largest tolerable one, with its interval; hollow: it is not"
                )
        if self.chosen is not None:
            words.append(f"ringed: chosen, {self.chosen['family']}: {self.chosen['settings']}")
        if self.endless:
            words.append("∞ at the top: something is known exactly, an infinite risk")
        if self.left_out:
            words.append(f"left of the panel: {self.left_out} more with utility below {short(self.u_axis.low)}")
        return words

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

    def _words(self) -> list[Any]:
        """Write, where there is room, the families on the frontier that the legend does not tell apart, or the settings of curves.

        Of curves first those of both ends.
        """
        field = "family" if self.searched else "settings"
        if self.searched:
            front = sorted((r for r in self.rows if r["frontier"]), key=lambda r: -float(r["u"]))
            named = front if self.key.crowded else []
        else:
            ends = [row for _, curve in self._families_joined() for row in (curve[0], curve[-1])]
            named = [r for r in (*ends, *self.rows) if r["settings"] != "as it is"]
        taken, written, layers = self._drawn(), set(), list[Any]()
        for row in named:
            key = row["family" if self.searched else "point"]
            for box, style in label_places(*self.pixel(row["u"], row["r"]), row[field]) if key not in written else ():
                inside = box.left >= 0 and box.right <= self.width + 4 and box.top >= -2 and box.bottom <= _HEIGHT
                if inside and not any(box.meets(other) for other in taken):
                    item = [{**row, "text": row[field], "what": "family" if self.searched else "value"}]
                    layers += theme.words(item, {"fontSize": _SMALL, **style}, x=self.x(), y=self.y())
                    taken.append(box)
                    written.add(key)
                    break
        return layers

    def _drawn(self) -> list[Box]:
        """Return what words must not cover: points, curves and the frontier's steps."""
        boxes = [Box.around(*self.pixel(r["u"], r["r"]), 9 if r["chosen"] else 4) for r in self.rows]
        for step in self.steps if self.searched else ():
            corners = (("u", "r"), ("u", "r2"), ("u2", "r2"))
            boxes += line_boxes([self.pixel(step[a], step[b]) for a, b in corners])
        for _, curve in self._families_joined():
            boxes += line_boxes([self.pixel(r["u"], r["r"]) for r in curve])
        return boxes


def _utility_axis(points: Sequence[TrialPoint], main: Sequence[float], whole: float | None, searched: bool) -> Axis:
    """Return the axis of utility; a sweep's has room for intervals, but not beyond what a utility can be."""
    values = [f.utility.value for f in points]
    if searched:
        return use_axis(values, main, whole)
    top = whole if whole is not None else 1.0 if max(values) <= 1 else math.inf
    bottom = 0.0 if min(values) >= 0 else -math.inf
    ends = [v for f in points for v in f.utility[1:3] if math.isfinite(v)]
    return use_axis([*values, *(min(max(v, bottom), max(top, *values)) for v in ends)], main, whole)


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
