"""A search as one page to try out: a threshold to move, a scenario to switch, every recipe to look at.

The page is a file of its own: its script and style are inside, and it may fetch nothing. It draws what `methods_chart` draws,
with the same axes and looks; what moves is in `page/*.js`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from sfumato.charts.captions import short
from sfumato.charts.map_data import MapData, MeasureReading, Point, key_of
from sfumato.charts.scales import Axis, Floored, risk_axis, use_axis
from sfumato.lazy import pd
from sfumato.version import VERSION

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
        `RUMap.frame()` and `RUMap.frontier()` of a search; the probabilities of being non-dominated are shown for the first
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

    data = MapData.read(frame)
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


def page_model(data: MapData, utility: str, sure: Mapping[int, float], units: Mapping[str, str]) -> dict[str, Any]:
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


def _risk(data: MapData, name: str, unit: str) -> dict[str, Any]:
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


def _utility(data: MapData, name: str, unit: str, sure: Mapping[int, float]) -> dict[str, Any]:
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


def _point(point: Point, data: MapData, sure: Mapping[int, float]) -> dict[str, Any]:
    return {
        "id": point.number, "family": point.family, "recipe": point.at, "replications": point.replications,
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
