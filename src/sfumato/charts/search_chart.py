"""Risk against utility for many methods, as a picture and as one page to try out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short
from sfumato.charts.labels import threshold_words
from sfumato.charts.map_data import FamilyLegend, MeasureReading, Point, Searched, key_of
from sfumato.charts.scales import Axis, Floored, risk_axis, use_axis
from sfumato.charts.theme import FAINT, INK, PAPER, SIZE, SOFT, WIDTH, Box, Clutter, Spot, around, text_width, themed
from sfumato.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

# --- search
# Risk against utility for many methods: every recipe that was tried, the frontier, the threshold and the choice.

_HEIGHT = 360
_CROWD = 60
"""With more points than this, only those on the frontier show their intervals; every tooltip has them."""
_POINT, _WORDS = 3.0, 5.0
"""How much it hurts to write over one of these."""


def methods_chart(
    frame: pd.DataFrame,
    frontier: pd.DataFrame | None = None,
    risk: str | None = None,
    utility: str | None = None,
    threshold: float | None = None,
) -> alt.LayerChart:
    """Draw `SearchResult.frame`: a point for each recipe tried, in the measures' own units.

    The risk is that of the worst scenario, with a log axis where it spans a decade. Filled points keep the limit of every
    risk at or below its threshold, hollow ones do not. The steps join the frontier, darker where a point is more surely
    non-dominated; a thin line above its points ends where 95 % of releases stay below. The chosen point is ringed.

    Parameters
    ----------
    frontier
        `SearchResult.frontier(risk, utility)`, for its probabilities; those of the frame if not given, which are about the
        first risk and what was maximised.
    risk, utility
        Titles of the measures to draw; the first risk and what was maximised if not given.
    threshold
        The largest tolerable risk; that of the frame if not given.
    """
    data = Searched.read(frame)
    name, use = data.risk(risk), data.utility(utility)
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    return themed(_Field.of(data, frontier, name, use, limit).chart())


@dataclass(frozen=True, eq=False)
class _Field:
    """The panel: rows of points and steps, and the axes."""

    rows: theme.Rows
    steps: theme.Rows
    key: FamilyLegend
    u_axis: Axis
    r_axis: Axis
    names: tuple[str, str]
    limit: float | None
    chosen: Point | None
    left_out: int
    size: tuple[int, int]

    @classmethod
    def of(cls, data: Searched, frontier: pd.DataFrame | None, risk: str, utility: str, limit: float | None) -> _Field:
        found = [
            (p, r, u) for p, r, u in data.pairs(risk, utility) if math.isfinite(r.value) and math.isfinite(u.value)
        ]
        sure = data.probabilities(frontier, risk, utility)
        steps = _steps(found, sure)
        best = {*sure, *(int(row["point"]) for row in steps)}
        often = Counter(p.family for p, _, _ in found if p.number in best)
        foremost = [*(p.family for p, _, _ in found if p.chosen), *(family for family, _ in often.most_common())]
        whole = data.unmasked.get(utility)
        main = [u.value for p, _, u in found if p.number in best or p.chosen]
        u_axis = use_axis([u.value for _, _, u in found], main, whole)
        drawn = [f for f in found if u_axis.shows(f[2].value)]
        tall = [v for p, r, _ in drawn for v in ([r.value, r.limit] if p.number in best else [r.value])]
        key = key_of(data.families, foremost)
        size = int(max(300, WIDTH - 70 - key.width)), _HEIGHT
        return cls(
            [_row(*f, key, f[0].number in best, sure) for f in drawn], steps, key, u_axis,
            risk_axis([*tall, *([] if limit is None else [limit])]), (risk, utility + data.unmasked_words(utility)),
            limit, data.chosen, len(found) - len(drawn), size,
        )  # fmt: skip

    # -- axes

    def x(self, field: str = "u") -> alt.X:
        return theme.x_axis(field, self.u_axis, f"data utility U: {self.names[1]}", self.size[0])

    def y(self, field: str = "r") -> alt.Y:
        title = f"disclosure risk R: {self.names[0]}" + (" (log scale)" if self.r_axis.log else "")
        return theme.y_axis(field, self.r_axis, title, self.size[1])

    def pixel(self, u: float, r: float) -> tuple[float, float]:
        return self.u_axis.share(u) * self.size[0], (1 - self.r_axis.share(r)) * self.size[1]

    # -- layers

    def chart(self) -> alt.LayerChart:
        clutter = self._clutter()
        layers: list[Any] = [*self._threshold(), *self._frontier(), *self._bars(), *self._points()]
        layers += self._ring(clutter)
        if self.limit is not None and self.r_axis.shows(self.limit):
            y = self.pixel(self.u_axis.low, self.limit)[1]
            layers += threshold_words(self.limit, y, self.size[0], clutter, self.y())
        layers += self._families(clutter)
        title = alt.Title(text=self._words(), fontSize=SIZE, color=SOFT, anchor="start", offset=12)
        return theme.layered(*layers, width=self.size[0], height=self.size[1], title=title)

    def _words(self) -> list[str]:
        """Say what filled, hollow, steps and ring mean."""
        wide = self.size[0] + 150
        said = ["filled: the limits of all risks meet their thresholds; hollow: they do not"]
        if self.steps:
            said.append(
                "steps: the frontier, darker where more surely non-dominated; ticks: what 95 % of its releases stay below"
            )
        if self.chosen is not None:
            said.append(f"ringed: chosen, {self.chosen.family}: {self.chosen.recipe}")
        elif self.limit is not None:
            said.append("no point meets the thresholds")
        if self.left_out:
            said.append(f"left of the panel: {self.left_out} more with utility below {short(self.u_axis.low)}")
        broken = (theme.lines(sentence, wide) or "" for sentence in said)
        return [line for part in broken for line in ([part] if isinstance(part, str) else part)]

    def _clutter(self) -> Clutter:
        clutter = Clutter(*self.size)
        for k, row in enumerate(self.rows):
            x, y = self.pixel(row["u"], row["r"])
            clutter.add(Box(x - 4, y - 4, x + 4, y + 4), _POINT + 1e-6 * k)  # a weight of its own: every point counts
        for step in self.steps:
            ends = [self.pixel(step[a], step[b]) for a, b in (("u", "r"), ("u", "r2"), ("u2", "r2"))]
            clutter.add_line(ends, _POINT)
        if self.limit is not None:
            level = self.pixel(self.u_axis.low, self.limit)[1]
            clutter.add(Box(0, level - 1, self.size[0], level + 1), _POINT / 2)
        return clutter

    def _threshold(self) -> list[alt.Chart]:
        if self.limit is None:
            return []
        return [theme.reference([{"r": self.limit, "what": "threshold"}], y=self.y(), color=alt.ColorValue(INK))]

    def _frontier(self) -> list[alt.Chart]:
        if not self.steps:
            return []
        opacity = alt.Opacity("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0.12, 1]), legend=None)
        style = {"strokeWidth": 2, "color": INK, "clip": True, "strokeCap": "square"}
        both = [s for s in self.steps if s["last"] is False]
        up = {"x": self.x(), "y": self.y(), "y2": alt.Y2("r2:Q")}
        across = {"x": self.x(), "x2": alt.X2("u2:Q"), "y": self.y("r2")}
        ways = ((both, up), (both, across))
        return [theme.draw("rule", items, style, **way, opacity=opacity) for items, way in ways if items]

    def _bars(self) -> list[alt.Chart]:
        """Draw intervals of both measures, and thin lines from the frontier's points up to their limits."""
        shown = [r for r in self.rows if r["frontier"] or r["chosen"] or len(self.rows) <= _CROWD]
        thin = {"strokeWidth": 1, "opacity": 0.6, "clip": True}
        across = {"x": self.x("u_low"), "x2": alt.X2("u_high:Q"), "y": self.y()}
        upright = {"x": self.x(), "y": self.y("r_low"), "y2": alt.Y2("r_high:Q")}
        made = [theme.draw("rule", shown, thin, **way, color=self.key.colour()) for way in (across, upright)]
        tops = [r for r in shown if (r["frontier"] or r["chosen"]) and math.isfinite(r["limit"])]
        if tops:
            dotted = {"strokeWidth": 1, "color": FAINT, "clip": True}
            made.append(theme.draw("rule", tops, dotted, x=self.x(), y=self.y(), y2=alt.Y2("limit:Q")))
            dash = {"color": FAINT, "orient": "horizontal", "thickness": 1, "size": 7, "clip": True}
            made.append(theme.draw("tick", tops, dash, x=self.x(), y=self.y("limit")))
        return made

    def _points(self) -> list[alt.Chart]:
        tips = [
            alt.Tooltip(f"{name}:N", title=title)
            for name, title in (
                ("family", "family"), ("recipe", "recipe"), ("risk_words", self.names[0]),
                ("limit_words", "95 % of releases stay below"), ("use_words", self.names[1]),
                ("sure_words", "non-dominated"), ("replications", "replications"), ("meets_words", "thresholds"),
            )
        ]  # fmt: skip
        opacity = alt.condition("datum.frontier || datum.chosen", alt.value(1), alt.value(0.6))
        both = {
            "x": self.x(),
            "y": self.y(),
            "tooltip": tips,
            "opacity": opacity,
            "shape": self.key.shape(),
            "color": self.key.colour(),
        }
        style = {"size": 44, "strokeWidth": 1.4, "clip": True}
        full = [r for r in self.rows if r["meets"]]
        hollow = [r for r in self.rows if not r["meets"]]  # white inside, so that lines do not run through them
        looks = ((full, {"filled": True, "size": 62}), (hollow, {"filled": False, "fill": PAPER}))
        return [theme.draw("point", items, {**style, **look}, **both) for items, look in looks if items]

    def _ring(self, clutter: Clutter) -> list[Any]:
        rings = [r for r in self.rows if r["chosen"]]
        if not rings:
            return []
        x, y = self.pixel(rings[0]["u"], rings[0]["r"])
        clutter.add(Box(x - 8, y - 8, x + 8, y + 8), _POINT)
        text = f"chosen: {rings[0]['family']}"
        spot, _ = clutter.best(_beside(x, y, text, self.size[0]))
        clutter.add(spot.box, _WORDS)
        both = {"x": self.x(), "y": self.y()}
        made: list[Any] = [theme.ring(rings, **both)]
        if spot.side == "far":  # a line leads from the ring to its words
            line = {"strokeWidth": 1, "color": SOFT}
            ends = [{"x": x, "y": y + 8}, {"x": max(spot.box.left + 6, min(x, spot.box.right - 6)), "y": spot.box.top}]
            pixels = {
                "x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None),
            }  # fmt: skip
            made.append(theme.draw("line", ends, line, **pixels))
            clutter.add_line([(end["x"], end["y"]) for end in ends], _POINT)
        item = [{"text": text, "what": "chosen words"}]
        where = theme.at(spot.box.left, spot.box.top)
        return [*made, *theme.words(item, {"fontWeight": "bold", "align": "left", "baseline": "top"}, **where)]

    def _families(self, clutter: Clutter) -> list[Any]:
        """Name the families on the frontier beside one of their points, where many families share a legend."""
        if not self.key.crowded:
            return []
        made, named = [], {r["family"] for r in self.rows if r["chosen"]}
        for row in sorted((r for r in self.rows if r["frontier"]), key=lambda r: -float(r["u"])):
            if row["family"] in named:
                continue
            text, size = row["family"], SIZE - 1
            sides = ("right down", "right", "left up", "left", "right up", "left down")
            spots = around(*self.pixel(row["u"], row["r"]), text, sides, size)
            spot, cost = clutter.best(spots)
            if cost < _POINT:
                named.add(text)
                clutter.add(spot.box, _WORDS)
                style = {"fontSize": size, **spot.style}
                made += theme.words([{**row, "text": text, "what": "family"}], style, x=self.x(), y=self.y())
        return made


def _beside(x: float, y: float, text: str, width: float) -> list[Spot]:
    """Return places for the chosen point's name: beside it, or further down, in the corner that nothing reaches."""
    near = around(x, y, text, ("right down", "left up", "right up", "right", "left", "left down"), SIZE + 1, 3)
    wide = text_width(text, SIZE + 1)
    left = max(4.0, min(x + 4, width - wide))
    return near + [Spot(Box(left, y + d, left + wide, y + d + SIZE + 3), {}, text, "far") for d in range(24, 150, 9)]


def _row(
    point: Point, r: MeasureReading, u: MeasureReading, key: FamilyLegend, best: bool, sure: Mapping[int, float]
) -> dict[str, Any]:
    return {
        "point": point.number, "recipe": point.recipe, **key.fields(point.family), "u": u.value, "u_low": u.low,
        "u_high": u.high, "r": r.value, "r_low": r.low, "r_high": r.high, "limit": r.limit, "meets": point.meets,
        "chosen": point.chosen, "frontier": best, "replications": point.replications, "risk_words": r.words,
        "limit_words": short(r.limit), "use_words": u.words, "sure_words": certainty(sure.get(point.number, math.nan)),
        "meets_words": "met" if point.meets else "not met",
    }  # fmt: skip


def _steps(found: Sequence[tuple[Point, MeasureReading, MeasureReading]], sure: Mapping[int, float]) -> theme.Rows:
    """Return the corners of the frontier: a point's utility is the best to be had until the next one's risk is tolerated."""
    best: list[tuple[Point, MeasureReading, MeasureReading]] = []
    for f in sorted(found, key=lambda f: (f[1].value, -f[2].value)):
        if not best or f[2].value > best[-1][2].value:
            best.append(f)
    return [
        {
            "point": p.number, "u": u.value, "r": r.value, "u2": after[2].value, "r2": after[1].value,
            "probability": sure.get(p.number, 0.0 if sure else 1.0), "last": after[0] is p, "what": "frontier",
        }
        for (p, r, u), after in zip(best, [*best[1:], *best[-1:]], strict=True)
    ]  # fmt: skip


def certainty(probability: float) -> str:
    """Return the probability of being non-dominated, in words.

    >>> certainty(0.934), certainty(float("nan"))
    ('probability 93 %', 'no')
    """
    return "no" if math.isnan(probability) else f"probability {100 * probability:.0f} %"


# --- interactive
# The search as one page to try out: a threshold to move, a scenario to switch, every recipe to look at.
#
# The page is a file of its own: its script and style are inside, and it may fetch nothing. It draws what
# `sfumato.charts.search_chart` draws, with the same axes and looks; what moves is in `page/*.js`.


_TICKS = 6


def interactive_page(
    frame: pd.DataFrame,
    frontier: pd.DataFrame | None = None,
    title: str = "The best recipe",
    *,
    utility: str | None = None,
    subtitle: str = "",
    units: Mapping[str, str] | None = None,
) -> str:
    """Return a search as an HTML page that works without a network, with a mouse or with the keyboard alone.

    A slider sets the largest tolerable risk; the chosen point is the most useful one whose limits (what 95 % of releases stay
    below) meet every threshold, under the scenario that is switched on or under all. Hovering a point, or stepping to it with
    the arrow keys, tells its recipe and its numbers in words; a table that can be sorted holds the same. The page has
    aggregate numbers alone, no record's value.

    Parameters
    ----------
    frame, frontier
        `SearchResult.frame` and `SearchResult.frontier()`; the probabilities of being non-dominated are shown for the first
        risk and the utility shown first, under all scenarios.
    title, subtitle
        What stands at the top.
    utility
        The utility to show first: the one that the search maximised (`maximise=`). Without it, the only one, or the smallest
        share of several.
    units
        Words for what a measure counts, by its title: {"records linked by distance": "share of records"}.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    data = Searched.read(frame)
    use = data.utility(utility)
    model = page_model(data, use, data.probabilities(frontier, data.risk(None), use), units or {})
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    folder = files("sfumato.charts") / "page"
    template, style = ((folder / name).read_text("utf-8") for name in ("page.html.j2", "page.css"))
    script = "\n".join((folder / name).read_text("utf-8") for name in ("choice.js", "chart.js", "controls.js"))
    # in a script element only "<" could end it, and as u003c it is the same to JSON
    held = json.dumps(model, allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
    return environment.from_string(template).render(
        title=title, subtitle=subtitle, model=model, version=VERSION,
        data=Markup(held), script=Markup(script), style=Markup(style),  # noqa: S704 - JSON, and files of ours
    )  # fmt: skip


def page_model(data: Searched, utility: str, sure: Mapping[int, float], units: Mapping[str, str]) -> dict[str, Any]:
    """Return all that the page knows, as plain data: null stands for what was not measured."""
    key = key_of(data.families, [p.family for p in sorted(data.points, key=lambda p: -sure.get(p.number, -1.0))])
    return {
        "risks": [_risk(data, name, units.get(name, "")) for name in data.risks],
        "utilities": [_utility(data, name, units.get(name, ""), sure) for name in data.utilities],
        "first": data.utilities.index(utility),
        "scenarios": [s for s in data.scenarios if s],
        "families": {name: {"colour": look.colour, "shape": look.shape} for name, look in key.looks.items()},
        "legend": _legend(key.colours, key.shapes, key.split),
        "points": [_point(p, data, sure) for p in data.points],
    }  # fmt: skip


def _risk(data: Searched, name: str, unit: str) -> dict[str, Any]:
    readings = [r for p in data.points for (m, _), r in p.risks.items() if m == name]
    threshold = data.thresholds.get(name)
    given = [] if threshold is None else [threshold]
    limits = _finite([*(r.judged for r in readings), *given])
    axis = risk_axis([*_finite(r.value for r in readings), *limits])
    positive = [v for v in limits if v > 0] or [1.0]
    log = isinstance(axis, Floored) or axis.log
    slider = {
        "low": 0.8 * min(positive) if log else 0.0, "high": 1.1 * max(positive), "log": log,
        "zero": not log or min(limits, default=1.0) <= 0,
    }  # fmt: skip
    return {"name": name, "unit": unit, "threshold": threshold, "axis": _axis(axis), "slider": slider}


def _utility(data: Searched, name: str, unit: str, sure: Mapping[int, float]) -> dict[str, Any]:
    found = [(p, u) for p in data.points if (u := p.useful(name)) is not None and math.isfinite(u.value)]
    best = [u.value for p, u in found if p.number in sure or p.chosen]
    axis = use_axis([u.value for _, u in found], best, data.unmasked.get(name))
    whole = f"unmasked: {short(data.unmasked[name])}" if name in data.unmasked else ""
    return {"name": name, "unit": unit, "unmasked": whole, "axis": _axis(axis)}


def _axis(axis: Axis) -> dict[str, Any]:
    foot = axis.low if isinstance(axis, Floored) else None
    ticks = [{"at": t, "label": "0" if t == foot else short(t)} for t in axis.ticks(_TICKS)]
    return {"low": axis.low, "high": axis.high, "log": axis.log, "ticks": ticks}


def _legend(colours: Mapping[str, str], shapes: Mapping[str, str], split: bool) -> list[dict[str, Any]]:
    """Return the legend's parts, each with a heading and entries."""
    if not split:
        entries = [
            {"name": n, "colour": c, "shape": s} for (n, c), s in zip(colours.items(), shapes.values(), strict=True)
        ]
        return [{"head": "", "entries": entries}]
    first = [{"name": n, "colour": c, "shape": "circle"} for n, c in colours.items()]
    second = [{"name": n, "colour": "#222222", "shape": s} for n, s in shapes.items()]
    return [{"head": "first method", "entries": first}, {"head": "followed by", "entries": second}]


def _point(point: Point, data: Searched, sure: Mapping[int, float]) -> dict[str, Any]:
    return {
        "id": point.number, "family": point.family, "recipe": point.recipe, "replications": point.replications,
        "probability": _plain(sure.get(point.number, math.nan)), "chosen": point.chosen,
        "risks": [{s: _numbers(r) for (m, s), r in point.risks.items() if m == name} for name in data.risks],
        "utilities": [_numbers(point.useful(name)) for name in data.utilities],
    }  # fmt: skip


def _numbers(reading: MeasureReading | None) -> list[float | None] | None:
    if reading is None or math.isnan(reading.value):
        return None
    return [_plain(v) for v in (reading.value, reading.low, reading.high, reading.judged)]


def _plain(value: float) -> float | None:
    """Return a number as JSON can hold it; an infinite one as a very large one."""
    if math.isnan(value):
        return None
    return max(min(value, 1e300), -1e300)


def _finite(values: Iterable[float]) -> list[float]:
    return [v for v in values if math.isfinite(v)]
