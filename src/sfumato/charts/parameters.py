"""Utility over two parameters with contours of the risk; over more, panels for pairs with the best of the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts import marks
from sfumato.charts.cells import Band, Cells, Place
from sfumato.charts.contours import contour_chart
from sfumato.charts.searched import Searched
from sfumato.charts.surface import Side
from sfumato.charts.theme import UTILITY_SHADES, themed
from sfumato.charts.tried import Found, Tried, heading, worded
from sfumato.charts.words import parameter_words, short, spoken, symbol
from sfumato.errors import ParameterError, listing, unknown_name

if TYPE_CHECKING:
    import pandas as pd

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
    """Draw how utility and risk depend on the parameters of one family, from `SearchResult.frame`.

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
    data = Searched.read(frame)
    name, use = data.risk(risk), data.utility(utility)
    for wanted in (x, y):
        if wanted is not None and wanted not in data.parameters:
            raise ParameterError(unknown_name("parameter", wanted, list(data.parameters), "the search's frame"))
    named = [p for p in (x, y) if p is not None]
    chosen_family = _family(data, family, named)
    found = [Found(*f) for f in data.pairs(name, use) if f[0].family == chosen_family]
    free = [p for p in data.parameters if len({f.point.settings.get(p) for f in found} - {None}) > 1]
    pairs = (
        [(x, y)]
        if x is not None and y is not None
        else [p for p in combinations(free[:_MOST], 2) if set(named) <= set(p)]
    )
    if not pairs or not found:
        others = dict.fromkeys(p.family for p in data.points if len(p.settings) > 1 and p.family != chosen_family)
        hint = f"name a family that was: {listing(others)}." if others else "draw its risk against utility instead."
        raise ParameterError(f"family '{chosen_family}' was not searched over two parameters; {hint}")
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    return themed(_page(Tried(tuple(found), tuple(free), name, use, limit, threshold is not None), pairs))


def _family(data: Searched, asked: str | None, named: Sequence[str]) -> str:
    if asked is not None:
        if asked not in data.families:
            raise ParameterError(unknown_name("family", asked, list(data.families), "the search's frame"))
        return asked
    fit = [p for p in data.points if all(n in p.settings for n in named)]
    if not fit:
        raise ParameterError(f"no family has both parameters {spoken(named)}; name two that belong together.")
    return next((p.family for p in fit if p.chosen), max(fit, key=lambda p: len(p.settings)).family)


def _page(tried: Tried, pairs: Sequence[tuple[str, str]]) -> alt.TopLevelMixin:
    """Draw contours where the points differ in two numbers alone, else cells for each pair."""
    a, b = pairs[0]
    plain = len(pairs) == 1 and set(tried.free) <= {a, b} and all(map(tried.numeric, (a, b)))
    if plain and (drawn := contour_chart(tried, a, b)) is not None:
        return drawn
    drafts = [_draft(tried, *pair) for pair in pairs]
    shown = [float(item["value"]) for draft in drafts for item in draft.items if math.isfinite(item["value"])]
    domain = (min(shown), max(shown)) if shown else None  # the same shades in all panels
    panels = [draft.panel(domain) for draft in drafts]
    return alt.concat(*panels, columns=2, title=heading(_cells_words(tried, pairs)), spacing=18)


def _cells_words(tried: Tried, pairs: Sequence[tuple[str, str]]) -> list[str]:
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


def _draft(tried: Tried, a: str, b: str) -> _Draft:
    """Return the cells of a panel, with the best point in each."""
    bins = [_Bins.over([f.point.settings.get(n) for f in tried.found], n) for n in (a, b)]
    within: dict[tuple[int, int], list[Found]] = {}
    chosen = None
    for f in tried.found:
        i, j = (bins[k].place(f.point.settings.get(n)) for k, n in enumerate((a, b)))
        if i is None or j is None:
            continue
        within.setdefault((i, j), []).append(f)
        chosen = (i, j) if f.point.chosen else chosen
    items: marks.Rows = []
    good = set()
    for (i, j), here in within.items():
        fit = [f for f in here if tried.good(f)]
        item = {"i": i, "j": j, "value": math.nan, "text": "–", "tried": len(here)}
        if fit:
            good.add((i, j))
            best = max(fit, key=lambda f: f.utility.value)
            value = best.utility.value
            item |= {"value": value, "text": short(value), "point": best.point.number, "recipe": best.point.recipe}
        items.append(item)
    outlined = good if tried.limit is not None else set()
    return _Draft(Cells(bins[0].band, bins[1].band), f"{symbol(b)} against {symbol(a)}", items, outlined, chosen)


@dataclass(frozen=True)
class _Draft:
    """A panel before its shades are known."""

    cells: Cells
    title: str
    items: marks.Rows
    good: set[Place]
    chosen: Place | None

    def panel(self, domain: tuple[float, float] | None) -> alt.LayerChart:
        return self.cells.panel(self.items, self.title, UTILITY_SHADES, False, self.good, self.chosen, domain)


@dataclass(frozen=True)
class _Bins:
    """Where a parameter's values go: a cell for each name or each of a few numbers, else equal parts of the range."""

    values: tuple[Any, ...]
    side: Side | None
    parts: int
    band: Band

    @classmethod
    def over(cls, values: Sequence[Any], name: str) -> _Bins:
        have = [v for v in values if v is not None]
        different = sorted(set(have), key=lambda v: (isinstance(v, str), v))
        if any(isinstance(v, str | bool) for v in different) or len(different) <= 6:
            return cls(tuple(different), None, 0, Band.of([worded(v) for v in different], parameter_words(name)))
        side = Side.over([float(v) for v in different])
        parts = min(max(round(math.sqrt(len(have) / 4)), 3), 6)
        ticks = [(float(k), short(side.value(k / parts))) for k in range(parts + 1)]
        return cls((), side, parts, Band(parts, ticks, parameter_words(name) + (", log scale" if side.log else "")))

    def place(self, value: Any) -> int | None:
        if value is None:
            return None
        if self.side is None:
            return self.values.index(value)
        return min(int(float(self.side.unit(value)) * self.parts), self.parts - 1)
