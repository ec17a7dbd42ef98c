"""Measures over two parameters and more: heat maps, points shaded by utility and by risk, and panels for pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.captions import parameter_words, short, spoken, symbol
from sfumato.charts.heatmap import Band, CellGrid, Place, gradient_legend
from sfumato.charts.map_data import FamilyTrials, MapData, Measured, TrialPoint, worded
from sfumato.charts.map_panel import Sheet
from sfumato.charts.scales import Axis, wants_log
from sfumato.charts.theme import INK, RISK_SHADES, SIZE, SOFT, UTILITY_SHADES, themed
from sfumato.errors import ParameterError, join_names, unknown_name
from sfumato.lazy import pd
from sfumato.typing import Numbers


def points_chart(tried: FamilyTrials, a: str, b: str) -> alt.HConcatChart:
    """Draw the points over two numbers, shaded by utility and beside it by the limit of the risk; the safe ones are larger."""
    columns = [[float(f.point.settings[n]) for f in tried.found] for n in (a, b)]
    axes = [Axis.over(values, all(v > 0 for v in values) and wants_log(values, 10)) for values in columns]
    titles = [parameter_words(n) + (", log scale" if axis.log else "") for n, axis in zip((a, b), axes, strict=True)]
    x = theme.x_axis("x", axes[0], titles[0], _SIDE, 5)
    y, bare = (theme.y_axis("y", axes[1], *more) for more in ((titles[1], _SIDE), ("", _SIDE)))
    judged = [f.risk.judged for f in tried.found]
    least = min((v for v in judged if 0 < v < math.inf), default=1.0)
    items: theme.Rows = [
        {
            "x": u, "y": v, "point": f.point.number, "recipe": f.point.at, "u": f.utility.value, "r": f.risk.value,
            # zero has no logarithm: it counts as half of the smallest risk seen
            "limit": f.risk.judged, "shade": max(f.risk.judged, least / 2), "meets": tried.good(f), "chosen": f.point.chosen,
        }
        for f, u, v in zip(tried.found, *columns, strict=True)
    ]  # fmt: skip
    log = wants_log([i["shade"] for i in items], 3)
    tips = [alt.Tooltip("recipe:N", title="recipe"), *(
        alt.Tooltip(f"{field}:Q", title=title, format=".3~g")
        for field, title in (("u", tried.utility), ("r", tried.risk), ("limit", "95 % of releases stay below"))
    )]  # fmt: skip
    panels = []
    for field, title, shades, up, kind in (
        ("u", f"utility: {tried.utility}", UTILITY_SHADES, y, "linear"),
        ("shade", f"95 % of releases stay below: {tried.risk}", RISK_SHADES, bare, "log" if log else "linear"),
    ):
        scale = alt.Scale(type=kind, range=list(shades), zero=False, nice=False)  # type: ignore[arg-type]
        colour = alt.Color(f"{field}:Q", scale=scale, legend=gradient_legend(_SIDE - 20))
        style = {"shape": "circle", "stroke": INK, "strokeWidth": 0.8, "opacity": 1, "filled": True}
        layers: list[Any] = [
            theme.draw("point", rows, {**style, "size": size}, x=x, y=up, color=colour, tooltip=tips)
            for size, good in ((45, False), (130, True)) if (rows := [i for i in items if i["meets"] is good])
        ]  # fmt: skip
        if ring := [i for i in items if i["chosen"]]:
            layers.append(theme.ring(ring, x=x, y=up))
        panel = theme.layered(
            *layers, width=_SIDE, height=_SIDE, title=alt.Title(theme.lines(title, _SIDE) or "", frame="group")
        )
        panels.append(panel.resolve_scale(color="shared"))
    said = "a point for each setting tried" + ("" if tried.limit is None else "; large: it meets the thresholds")
    heading = theme.heading([said, *tried.chosen_words("ringed")])
    both: alt.HConcatChart = alt.hconcat(*panels, spacing=24, title=heading).resolve_scale(color="independent")
    return both


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


_SIDE = 210
"""Pixels of a panel of points."""
_FEW = 6
"""Largest number of different values that have a cell each."""
_MOST = 4
"""Largest number of parameters that pairs are made of."""


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

    Two numbers: every point that was tried, shaded by its utility and beside it by the limit of its risk. More parameters, few
    values, or choices among names: cells, each with the utility of the best point in it that meets the thresholds, whatever the
    other parameters; grey where none does.

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
    """Draw points where they differ in two numbers alone, and in many values of one; else cells for each pair."""
    a, b = pairs[0]
    values = [{f.point.settings.get(n) for f in tried.found} for n in (a, b)]
    plain = len(pairs) == 1 and set(tried.free) <= {a, b} and all(map(tried.numeric, (a, b)))
    if plain and max(map(len, values)) > _FEW:
        return points_chart(tried, a, b)
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
    edges: tuple[float, ...]
    """Where the parts of a range end, but for the last."""
    band: Band

    @classmethod
    def over(cls, values: Sequence[Any], name: str) -> _Bins:
        have = [v for v in values if v is not None]
        different = sorted(set(have), key=lambda v: (isinstance(v, str), v))
        if any(isinstance(v, str | bool) for v in different) or len(different) <= _FEW:
            return cls(tuple(different), (), Band.of([worded(v) for v in different], parameter_words(name)))
        low, high = float(different[0]), float(different[-1])
        parts = min(max(round(math.sqrt(len(have) / 4)), 3), 6)
        log = low > 0 and wants_log(different, 10)
        ends = np.geomspace(low, high, parts + 1) if log else np.linspace(low, high, parts + 1)
        ticks = [(float(k), short(float(end))) for k, end in enumerate(ends)]
        title = parameter_words(name) + (", log scale" if log else "")
        return cls((), tuple(ends[1:-1].tolist()), Band(parts, ticks, title))

    def place(self, value: Any) -> int | None:
        if value is None:
            return None
        return int(np.searchsorted(self.edges, float(value), "right")) if self.edges else self.values.index(value)
