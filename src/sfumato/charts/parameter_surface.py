"""Measures over two parameters and more: heat maps, contours of the risk, and panels for pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.captions import parameter_words, short, spoken, symbol
from sfumato.charts.heatmap import Band, CellGrid, Place, gradient_legend
from sfumato.charts.map_data import FamilyTrials, MapData, Measured, TrialPoint, worded
from sfumato.charts.map_panel import Sheet
from sfumato.charts.scales import Axis, risk_axis, wants_log
from sfumato.charts.theme import INK, PAPER, RISK_SHADES, SIZE, SOFT, UTILITY_SHADES, text_width, themed
from sfumato.errors import ParameterError, join_names, unknown_name
from sfumato.typing import Numbers

if TYPE_CHECKING:
    import pandas as pd
    from scipy.spatial import Delaunay


@dataclass(frozen=True)
class ParameterScale:
    """A parameter stretched over 0 to 1: in ratios where its values span them, else in differences."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], log: bool | None = None) -> ParameterScale:
        """Return the side that these values span; `log` None decides by how widely they spread."""
        spread = all(v > 0 for v in values) and wants_log(values, 10) if log is None else log
        return cls(min(values), max(values), spread)

    def unit(self, values: Any) -> Numbers:
        """Return values as places from 0 to 1."""
        v = np.asarray(values, np.float64)
        if self.high <= self.low:
            return np.full(v.shape, 0.5)
        if self.log:
            return np.asarray(np.log(v / self.low) / math.log(self.high / self.low))
        return np.asarray((v - self.low) / (self.high - self.low))

    def value(self, unit: float) -> float:
        """Return the value at a place."""
        if self.log:
            return float(self.low * (self.high / self.low) ** unit)
        return self.low + unit * (self.high - self.low)


def triangles(places: Numbers) -> Delaunay | None:
    """Return Delaunay's triangles over places of shape (points, 2); None where they lie on a line, or are fewer than three."""
    from scipy.spatial import Delaunay, QhullError

    if len(places) < 3 or (np.ptp(places, axis=0) < 1e-9).any():
        return None
    try:
        return Delaunay(places)
    except QhullError:
        return None


def contour(mesh: Delaunay, values: Numbers, level: float) -> Numbers:
    """Return where values, straight within each triangle, pass a level: one piece in each, shape (pieces, 2 ends, 2)."""
    pieces = []
    for corners in mesh.simplices[np.isfinite(values[mesh.simplices]).all(axis=1)]:
        # a corner exactly on the level counts as above it, so that a line never passes it twice
        crossed = [(p, q) for p, q in combinations(corners, 2) if (values[p] >= level) != (values[q] >= level)]
        if crossed:
            shares = [(level - values[p]) / (values[q] - values[p]) for p, q in crossed]
            at = mesh.points
            pieces.append([at[p] + share * (at[q] - at[p]) for (p, q), share in zip(crossed, shares, strict=True)])
    return np.array(pieces).reshape(-1, 2, 2)


_ACROSS, _UP, _PIXELS = 60, 48, 7
"""The surface is drawn in so many squares of so many pixels."""
_CONTOURS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"stroke": PAPER, "strokeWidth": 2.6, "opacity": 0.75, "strokeCap": "round"}, False),
    ({"stroke": INK, "strokeWidth": 0.9, "strokeCap": "round"}, False),
    ({"stroke": PAPER, "strokeWidth": 5, "opacity": 0.85, "strokeCap": "round"}, True),
    ({"stroke": INK, "strokeWidth": 2.6, "strokeCap": "round"}, True),
)
"""Dark lines with a white rim, readable on light and dark; the threshold's last and strongest."""


def contour_chart(tried: FamilyTrials, a: str, b: str) -> alt.LayerChart | None:
    """Draw the utility between the points and contours of the risk; None where the points make no triangles."""
    columns = [[float(f.point.settings[n]) for f in tried.found] for n in (a, b)]
    sides = [ParameterScale.over(values) for values in columns]
    places = np.column_stack([s.unit(v) for s, v in zip(sides, columns, strict=True)])
    mesh = triangles(places)
    if mesh is None:
        return None
    width, height = _ACROSS * _PIXELS, _UP * _PIXELS
    axes = [Axis(s.low, s.high, s.log) for s in sides]
    titles = [parameter_words(n) + (", log scale" if s.log else "") for n, s in zip((a, b), sides, strict=True)]
    x, y = theme.x_axis("x", axes[0], titles[0], width), theme.y_axis("y", axes[1], titles[1], height)
    layers: list[Any] = [_shades(tried, mesh, sides, x, y)]
    lines = _lines(tried, mesh, sides)
    for style, strong in _CONTOURS:
        if rows := [row for row in lines if row["strong"] is strong]:
            layers.append(theme.draw("rule", rows, style, x=x, y=y, x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q")))
    layers += _points(tried, columns, x, y)
    layers += _levels(tried, lines, sides, (width, height))
    said = [
        f"shading: utility {tried.utility}, straight between the points tried",
        f"contours: what {tried.risk} stays below in 95 % of releases; filled points meet the thresholds",
        *tried.chosen_words("ringed"),
    ]
    return theme.layered(*layers, width=width, height=height, title=theme.heading(said))


def _shades(tried: FamilyTrials, mesh: Delaunay, sides: Sequence[ParameterScale], x: alt.X, y: alt.Y) -> alt.Chart:
    from scipy.interpolate import LinearNDInterpolator

    across, up = (np.arange(n + 1) / n for n in (_ACROSS, _UP))
    middles = np.array([((i + 0.5) / _ACROSS, (j + 0.5) / _UP) for i in range(_ACROSS) for j in range(_UP)])
    values = LinearNDInterpolator(mesh, [f.utility.value for f in tried.found])(middles)
    edges = [[s.value(float(v)) for v in u] for s, u in zip(sides, (across, up), strict=True)]
    cells = [(i, j) for i in range(_ACROSS) for j in range(_UP)]
    items = [
        {
            "x": edges[0][i],
            "x2": edges[0][i + 1],
            "y": edges[1][j],
            "y2": edges[1][j + 1],
            "value": float(f"{v:.5g}"),
        }
        for (i, j), v in zip(cells, values, strict=True)
        if math.isfinite(v)
    ]
    legend = gradient_legend(_UP * _PIXELS - 20)
    legend.title = "U"
    colour = alt.Color("value:Q", scale=alt.Scale(range=list(UTILITY_SHADES), zero=False, nice=False), legend=legend)
    corners = {"x": x, "x2": alt.X2("x2:Q"), "y": y, "y2": alt.Y2("y2:Q")}
    return theme.draw("rect", items, {"strokeWidth": 0}, **corners, color=colour)


def _lines(tried: FamilyTrials, mesh: Delaunay, sides: Sequence[ParameterScale]) -> theme.Rows:
    """Return the contours piece by piece, in the parameters' own units."""
    judged = np.array([f.risk.judged for f in tried.found])
    known = judged[np.isfinite(judged)]
    least = float(known[known > 0].min(initial=math.inf))
    log = risk_axis(known.tolist(), 3).log
    # zero has no logarithm: it counts as half of the smallest risk seen
    height = np.log(np.maximum(judged, least / 2)) if log else judged
    ticks = risk_axis(known[known > 0].tolist() if log else known.tolist(), 3).ticks(7)
    limit = tried.limit
    levels = {v for v in ticks if least < v < known.max() and (limit is None or abs(v - limit) > 0.2 * limit)}
    rows: theme.Rows = []
    for level in sorted(levels if limit is None else {*levels, limit}):  # the others keep clear of the threshold's own
        pieces = contour(mesh, height, (math.log(level) if level > 0 else -math.inf) if log else level)
        for (a, b), (c, d) in pieces:
            ends = {"x": sides[0].value(a), "y": sides[1].value(b), "x2": sides[0].value(c), "y2": sides[1].value(d)}
            rows.append({**ends, "level": level, "strong": level == limit, "what": "contour"})
    return rows


def _levels(
    tried: FamilyTrials, rows: theme.Rows, sides: Sequence[ParameterScale], size: tuple[int, int]
) -> list[alt.Chart]:
    """Write each level on the piece of its line that is nearest to the middle of all, within the panel."""
    layers: list[alt.Chart] = []
    for level in dict.fromkeys(row["level"] for row in rows):
        own = [row for row in rows if row["level"] == level]
        places = np.column_stack([
            sides[0].unit([row["x"] for row in own]) * size[0], (1 - sides[1].unit([row["y"] for row in own])) * size[1],
        ])  # fmt: skip
        px, py = places[np.hypot(*(places - places.mean(axis=0)).T).argmin()]
        strong = level == tried.limit
        text = f"largest tolerable risk {short(level)}" if strong else short(level)
        half = text_width(text, SIZE) / 2
        px, py = min(max(px, half + 3), size[0] - half - 3), min(max(py, 9), size[1] - 9)
        style = {"fontWeight": "bold"} if strong else {"fontSize": SIZE - 1}
        layers += theme.words(
            [{"text": text, "level": level, "what": "level"}], style, **theme.at(float(px), float(py))
        )
    return layers


def _points(tried: FamilyTrials, columns: Sequence[Sequence[float]], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    items = [
        {
            "x": a, "y": b, "point": f.point.number, "recipe": f.point.at, "u": f.utility.value, "r": f.risk.value,
            "limit": f.risk.limit, "meets": tried.good(f), "chosen": f.point.chosen,
        }
        for f, a, b in zip(tried.found, *columns, strict=True)
    ]  # fmt: skip
    tips = [
        alt.Tooltip("recipe:N", title="recipe"), alt.Tooltip("u:Q", title=tried.utility, format=".3~g"),
        alt.Tooltip("r:Q", title=tried.risk, format=".3~g"),
        alt.Tooltip("limit:Q", title="95 % of releases stay below", format=".3~g"),
    ]  # fmt: skip
    made = []
    for good, fill in ((False, PAPER), (True, INK)):
        if rows := [i for i in items if i["meets"] is good]:
            dot = {"shape": "circle", "size": 22, "stroke": INK, "strokeWidth": 1, "opacity": 1, "fill": fill}
            made.append(theme.draw("point", rows, dot, x=x, y=y, tooltip=tips))
    if ring := [i for i in items if i["chosen"]]:
        halo = {"shape": "circle", "size": 150, "filled": False, "stroke": PAPER, "strokeWidth": 4.5, "opacity": 1}
        made += [theme.draw("point", ring, halo, x=x, y=y), theme.ring(ring, x=x, y=y)]
    return made


def heat_chart(sheet: Sheet) -> alt.ConcatChart:
    """Draw every utility, then every risk, over the two parameters."""
    data = sheet.data
    sides = [sorted({float(v) for v in data.points[:, k]}) for k in (0, 1)]
    lead = "share of the unmasked utility: " if sheet.share else "data utility U: "
    panels = [_panel(sheet, sides, u, lead + u.label, UTILITY_SHADES) for u in data.utilities]
    panels += [_panel(sheet, sides, r, f"disclosure risk R: {r.label}", RISK_SHADES, log=True) for r in data.risks]
    key = alt.Title(text=_key(sheet), fontSize=SIZE, color=SOFT, anchor="start", offset=10)
    return alt.concat(*panels, columns=2, title=key, spacing=18)


def _key(sheet: Sheet) -> list[str]:
    """Say what the outline and the frame mean."""
    limits, said = sheet.limits, []
    if limits:
        each = " and ".join(f"{short(v)} ({label})" if len(limits) > 1 else short(v) for label, v in limits.items())
        good = int(sheet.data.feasible(limits).sum())
        said.append(
            f"outlined: the upper limit of the risk is at most {each}" if good
            else f"no cell keeps the upper limit of the risk at or below {each}"
        )  # fmt: skip
    if sheet.data.nearest(sheet.chosen) is not None:
        named = ", ".join(f"{symbol(n)} = {short(float(sheet.chosen[n]))}" for n in sheet.data.parameters)
        said.append(f"framed: chosen, {named}")
    return ["; ".join(said)] if said else [""]


def _panel(
    sheet: Sheet,
    sides: Sequence[Sequence[float]],
    measure: Measured,
    title: str,
    shades: Sequence[str],
    log: bool = False,
) -> alt.LayerChart:
    """Draw one measure."""
    data = sheet.data
    bands = [
        Band.of([short(v) for v in side], parameter_words(n)) for side, n in zip(sides, data.parameters, strict=True)
    ]

    def place(point: Numbers) -> Place:
        return sides[0].index(float(point[0])), sides[1].index(float(point[1]))

    items = [_item(sheet, p, place(data.points[p]), float(v), log) for p, v in enumerate(measure.judged[:, 0])]
    good = {place(point) for point in data.points[data.feasible(sheet.limits)]} if sheet.limits else set()
    nearest = data.nearest(sheet.chosen)
    chosen = None if nearest is None else place(data.points[nearest])
    return CellGrid(bands[0], bands[1]).panel(items, title, shades, log, good, chosen)


def _item(sheet: Sheet, p: int, place: Place, value: float, risk: bool) -> dict[str, Any]:
    named = {f"parameter_{k + 1}": float(v) for k, v in enumerate(sheet.data.points[p])}
    text = f"{100 * value:.0f} %" if sheet.share and not risk else short(value)
    return {**named, "value": value, "text": text, "i": place[0], "j": place[1]}


_MOST = 4
"""Pairs are made of at most so many parameters."""


def parameters_chart(
    frame: pd.DataFrame,
    x: str | None = None,
    y: str | None = None,
    risk: str | None = None,
    utility: str | None = None,
    threshold: float | None = None,
    *,
    family: str | None = None,
) -> alt.TopLevelMixin:
    """Draw how utility and risk depend on the parameters of one family, from `RUMap.frame()` of a search.

    Two numbers: a map of the utility, straight between the points that were tried (in ratios where a parameter spans them),
    with contours of the risk's limit, the threshold's the strongest. More parameters, or choices among names: cells, each
    with the utility of the best point in it that meets the thresholds, whatever the other parameters; grey where none does.

    Parameters
    ----------
    x, y
        Parameters as the frame's columns name them; all pairs of the family's if not given.
    risk, utility
        Titles of the measures; the first of each if not given.
    threshold
        The largest tolerable risk; that of the frame if not given.
    family
        Which family; that of the chosen point if not given, and where none is chosen the one with most parameters.
    """
    data = MapData.read(frame)
    name, use = data.risk(risk), data.utility(utility)
    for wanted in (x, y):
        if wanted is not None and wanted not in data.parameters:
            raise ParameterError(unknown_name("parameter", wanted, list(data.parameters), "the search's frame"))
    named = [p for p in (x, y) if p is not None]
    chosen_family = _family(data, family, named)
    found = [f for f in data.pairs(name, use) if f.point.family == chosen_family]
    free = [p for p in data.parameters if len({f.point.settings.get(p) for f in found} - {None}) > 1]
    pairs = (
        [(x, y)]
        if x is not None and y is not None
        else [p for p in combinations(free[:_MOST], 2) if set(named) <= set(p)]
    )
    if not pairs or not found:
        others = dict.fromkeys(p.family for p in data.points if len(p.settings) > 1 and p.family != chosen_family)
        hint = f"name a family that was: {join_names(others)}." if others else "draw its risk against utility instead."
        raise ParameterError(f"family '{chosen_family}' was not searched over two parameters; {hint}")
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    return themed(_page(FamilyTrials(tuple(found), tuple(free), name, use, limit, threshold is not None), pairs))


def _family(data: MapData, asked: str | None, named: Sequence[str]) -> str:
    if asked is not None:
        if asked not in data.families:
            raise ParameterError(unknown_name("family", asked, list(data.families), "the search's frame"))
        return asked
    fit = [p for p in data.points if all(n in p.settings for n in named)]
    if not fit:
        raise ParameterError(f"no family has both parameters {spoken(named)}; name two that belong together.")
    return next((p.family for p in fit if p.chosen), max(fit, key=lambda p: len(p.settings)).family)


def _page(tried: FamilyTrials, pairs: Sequence[tuple[str, str]]) -> alt.TopLevelMixin:
    """Draw contours where the points differ in two numbers alone, else cells for each pair."""
    a, b = pairs[0]
    plain = len(pairs) == 1 and set(tried.free) <= {a, b} and all(map(tried.numeric, (a, b)))
    if plain and (drawn := contour_chart(tried, a, b)) is not None:
        return drawn
    drafts = [_draft(tried, *pair) for pair in pairs]
    shown = [float(item["value"]) for draft in drafts for item in draft.items if math.isfinite(item["value"])]
    domain = (min(shown), max(shown)) if shown else None  # the same shades in all panels
    panels = [draft.panel(domain) for draft in drafts]
    return alt.concat(*panels, columns=2, title=theme.heading(_cells_words(tried, pairs)), spacing=18)


def _cells_words(tried: FamilyTrials, pairs: Sequence[tuple[str, str]]) -> list[str]:
    rest = [n for n in tried.free if all(n not in pair for pair in pairs)]
    said = [f"each cell: utility {tried.utility} of its best point over all other parameters"]
    if tried.limit is not None:
        some = any(tried.good(f) for f in tried.found)
        said[0] = (
            f"each cell: utility {tried.utility} of the best point in it that meets the thresholds, over all other parameters"
        )
        said.append("grey: no point tried there meets them" if some else "no point meets the thresholds")
    if len(pairs) > 1 and rest:
        said.append(f"not drawn: {spoken(symbol(n) for n in rest)}")
    return [*said, *tried.chosen_words("framed")]


def _draft(tried: FamilyTrials, a: str, b: str) -> _Draft:
    """Return the cells of a panel, with the best point in each."""
    bins = [_Bins.over([f.point.settings.get(n) for f in tried.found], n) for n in (a, b)]
    within: dict[tuple[int, int], list[TrialPoint]] = {}
    chosen = None
    for f in tried.found:
        i, j = (bins[k].place(f.point.settings.get(n)) for k, n in enumerate((a, b)))
        if i is None or j is None:
            continue
        within.setdefault((i, j), []).append(f)
        chosen = (i, j) if f.point.chosen else chosen
    items: theme.Rows = []
    good = set()
    for (i, j), here in within.items():
        fit = [f for f in here if tried.good(f)]
        item = {"i": i, "j": j, "value": math.nan, "text": "–", "tried": len(here)}
        if fit:
            good.add((i, j))
            best = max(fit, key=lambda f: f.utility.value)
            value = best.utility.value
            item |= {"value": value, "text": short(value), "point": best.point.number, "recipe": best.point.at}
        items.append(item)
    outlined = good if tried.limit is not None else set()
    return _Draft(CellGrid(bins[0].band, bins[1].band), f"{symbol(b)} against {symbol(a)}", items, outlined, chosen)


@dataclass(frozen=True)
class _Draft:
    """A panel before its shades are known."""

    cells: CellGrid
    title: str
    items: theme.Rows
    good: set[Place]
    chosen: Place | None

    def panel(self, domain: tuple[float, float] | None) -> alt.LayerChart:
        return self.cells.panel(self.items, self.title, UTILITY_SHADES, False, self.good, self.chosen, domain)


@dataclass(frozen=True)
class _Bins:
    """Where a parameter's values go: a cell for each name or each of a few numbers, else equal parts of the range."""

    values: tuple[Any, ...]
    side: ParameterScale | None
    parts: int
    band: Band

    @classmethod
    def over(cls, values: Sequence[Any], name: str) -> _Bins:
        have = [v for v in values if v is not None]
        different = sorted(set(have), key=lambda v: (isinstance(v, str), v))
        if any(isinstance(v, str | bool) for v in different) or len(different) <= 6:
            return cls(tuple(different), None, 0, Band.of([worded(v) for v in different], parameter_words(name)))
        side = ParameterScale.over([float(v) for v in different])
        parts = min(max(round(math.sqrt(len(have) / 4)), 3), 6)
        ticks = [(float(k), short(side.value(k / parts))) for k in range(parts + 1)]
        return cls((), side, parts, Band(parts, ticks, parameter_words(name) + (", log scale" if side.log else "")))

    def place(self, value: Any) -> int | None:
        if value is None:
            return None
        if self.side is None:
            return self.values.index(value)
        return min(int(float(self.side.unit(value)) * self.parts), self.parts - 1)
