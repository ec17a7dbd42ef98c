"""One look for every chart: calm, safe for print and for colour-blind readers, readable at the width of an A4 page."""

from __future__ import annotations

from typing import Any, TypeVar

import altair as alt

WIDTH = 640
"""Pixels: the text width of an A4 page at 96 pixels an inch."""

FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
SIZE = 11

INK = "#222222"
SOFT = "#5c5c5c"
FAINT = "#9a9a9a"
GRID = "#ececec"
PAPER = "#ffffff"

SERIES = ("#0b4f8a", "#c8500a", "#2a8c6e", "#9a4f96", "#8a6d00", "#2f8fc4", "#7a7a7a", "#5a2a2a")
"""Dark enough for white paper; the first three also differ in grey. Shapes repeat what colours say."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "circle", "square")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
UTILITY_SHADES = ("#f0f4f9", "#a9c3dd", "#4f86b5", "#0b4f8a", "#062f54")
RISK_SHADES = ("#fbf3ec", "#edc19c", "#d98345", "#a8480d", "#5e2605")
"""From little to much, light to dark: they print as even ranges of grey."""
CHOSEN = "#e0b400"

RULE_DASH = [4, 3]

Chart = TypeVar("Chart", bound=alt.TopLevelMixin)


def config() -> dict[str, Any]:
    """Return the Vega-Lite configuration."""
    axis = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": SIZE, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "domainColor": SOFT, "tickColor": SOFT, "gridColor": GRID, "tickSize": 4,
        "titlePadding": 7, "labelPadding": 3, "labelFlush": False,
    }  # fmt: skip
    legend = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": SIZE, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "labelLimit": 420, "symbolStrokeWidth": 2, "rowPadding": 3,
    }  # fmt: skip
    title = {"font": FONT, "fontSize": SIZE + 1, "fontWeight": "normal", "color": INK, "anchor": "start", "offset": 8}
    return {
        # a chart's text alternative is its caption; an aria label on every mark would bury it
        "aria": False, "background": PAPER, "font": FONT, "padding": 4, "axis": axis, "legend": legend, "title": title,
        "view": {"stroke": None}, "concat": {"spacing": 22}, "text": {"font": FONT, "fontSize": SIZE, "color": INK},
    }  # fmt: skip


def themed(chart: Chart) -> Chart:
    """Return the chart with the theme in its own specification, so that it looks the same wherever it is drawn."""
    dressed: Chart = chart.copy(deep=False)  # type: ignore[attr-defined]
    dressed.config = config()  # type: ignore[attr-defined]
    return dressed


def colour_of(position: int) -> str:
    """Return the colour of a series by its position; they repeat after eight."""
    return SERIES[position % len(SERIES)]


def shape_of(position: int) -> str:
    """Return the point shape of a series by its position."""
    return SHAPES[position % len(SHAPES)]
