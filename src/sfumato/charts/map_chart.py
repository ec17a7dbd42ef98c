"""The R-U confidentiality map: risk against utility, and both against the parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import altair as alt

from sfumato.charts.captions import short, spoken
from sfumato.charts.family_panel import FamilyPanel
from sfumato.charts.map_data import Limits, MapData, Measured, Sweep
from sfumato.charts.map_panel import Plane, Sheet, Trace, finite, risk_panel, utility_axis, utility_panel
from sfumato.charts.parameter_surface import heat_chart
from sfumato.charts.scales import Axis, wants_log
from sfumato.charts.theme import WIDTH, themed
from sfumato.errors import ParameterError
from sfumato.lazy import pd

Layout = Literal["auto", "together", "apart", "share"]
Concat = alt.HConcatChart | alt.VConcatChart | alt.ConcatChart

_LEFT, _RIGHT = 300, 180
_TALL, _LOW = 330, 138
_OVERLAY = (480, 360)


def map_chart(
    frame: pd.DataFrame,
    parameters: Sequence[str],
    max_risk: Limits = None,
    chosen: Mapping[str, Any] | None = None,
    *,
    layout: Layout = "auto",
) -> alt.TopLevelMixin:
    """Draw a map from `RUMap.frame()`.

    One parameter: R on a log scale against U, a curve for each utility (the formula as a line, replications as points with
    intervals), the utility of the unmasked file and the threshold as dashed lines; beside it R and U against the
    parameter. With several risks, a row of panels for each. Two parameters: heat maps with the feasible region outlined.
    More than two: the points alone.

    Parameters
    ----------
    max_risk
        The threshold, or one for each risk by its label.
    chosen
        The chosen value of each parameter; it is ringed.
    layout
        All utilities on one axis ("together"), each on an axis of its own beside the others ("apart"), or together as
        shares of what the unmasked file has ("share"). "auto" puts them apart where their sizes are so different that
        they cannot share an axis.
    """
    data = Sweep.of(frame, parameters)
    if layout == "share":
        data = data.with_shares()
    sheet = Sheet(data, data.limits(max_risk), chosen or {}, layout == "share")
    if len(data.parameters) == 2:
        return themed(heat_chart(sheet))
    if layout == "apart" or (layout == "auto" and _sizes_differ(data)):
        return themed(_apart(sheet))
    return themed(_together(sheet))


def _sizes_differ(data: Sweep) -> bool:
    sizes = [u.unmasked for u in data.utilities] if data.has_shares else [float(u.judged[0, 0]) for u in data.utilities]
    return len(sizes) > 1 and wants_log(sizes, 8)


def _together(sheet: Sheet) -> Concat:
    risks = sheet.data.risks
    if not sheet.single:
        return _own_colours(alt.vconcat(*(_plane(sheet, r, WIDTH - 140, _TALL) for r in risks)))
    if len(risks) == 1:
        above, below = risk_panel(sheet, risks[0], _RIGHT, _LOW, titled=False), utility_panel(sheet, _RIGHT, _LOW)
        return _own_colours(alt.hconcat(_plane(sheet, risks[0], _LEFT, _TALL), alt.vconcat(above, below, spacing=12)))
    panels = [panel for r in risks for panel in (_plane(sheet, r, _LEFT, 230), risk_panel(sheet, r, _RIGHT, 230))]
    return _own_colours(alt.concat(*panels, utility_panel(sheet, _LEFT, _LOW), columns=2))


def _apart(sheet: Sheet) -> Concat:
    """Draw a panel for each utility, up to three in a row, and last the parameter; all share the risk's axis."""
    utilities = sheet.data.utilities
    across = min(len(utilities), 3)
    width = (WIDTH - 80) // (across + sheet.single) - 22
    rows = []
    for risk in sheet.data.risks:
        for start in range(0, len(utilities), across):
            row: list[Any] = []
            for u in utilities[start : start + across]:
                row.append(Plane((Trace(sheet.only(u), risk),), width, 270, not row, u.label).chart())
            if sheet.single and start + across >= len(utilities):
                row.append(risk_panel(sheet, risk, width, 270, inner=True))
            rows.append(alt.hconcat(*row, spacing=14))
    return _own_colours(alt.vconcat(*rows))


def _plane(sheet: Sheet, risk: Measured, width: int, height: int) -> alt.LayerChart:
    return Plane((Trace(sheet, risk),), width, height).chart()


def _own_colours(chart: Concat) -> Concat:
    """Return the page with a legend in the panel that asks for one, not in all or none."""
    return cast(Concat, chart.resolve_scale(color="independent", shape="independent"))


def methods_chart(
    frame: pd.DataFrame,
    frontier: pd.DataFrame | None = None,
    risk: str | None = None,
    utility: str | None = None,
    threshold: float | None = None,
    *,
    chosen: int | None = None,
    noun: str = "recipe",
    outer: Sequence[str] = (),
) -> alt.LayerChart:
    """Draw `RUMap.frame()` of many methods: a point for each that was tried, in the measures' own units.

    The risk is that of the worst scenario, with a log axis where it spans a decade. Filled points keep the limit of every
    risk at or below its threshold, hollow ones do not; those of infinite risk stand on a line of their own at the top. The
    steps join the frontier. The points of a search are darker where they are more surely non-dominated, and a thin line above
    them ends where 95 % of releases stay below; those of a sweep are joined along the swept parameter. The chosen point is
    ringed.

    Parameters
    ----------
    frontier
        `RUMap.frontier(risk, utility)` of a search, for its probabilities; those of the frame if not given, which are about
        the first risk and what was maximised.
    risk, utility
        Titles of the measures to draw; the first risk and what was maximised if not given.
    threshold
        The largest tolerable risk; that of the frame if not given.
    chosen
        The number of the chosen point, where the frame does not say.
    noun
        What was tried: a "recipe", "protection" or "policy".
    outer
        The swept settings of policies: there is a curve along the last one for each value of the others.
    """
    if "probability" not in frame.columns and len(frame):
        frame = _along_last(frame, outer) if outer else frame.assign(family=frame["family"].str.replace("_", " "))
    data = MapData.read(frame, chosen)
    name, use = data.risk(risk), data.utility(utility)
    limit = data.thresholds.get(name) if threshold is None else float(threshold)
    return themed(FamilyPanel.of(data, frontier, (name, use), limit, noun, log=noun != "policy").chart())


def _along_last(frame: pd.DataFrame, parameters: Sequence[str]) -> pd.DataFrame:
    """Return the frame with a family for each value of all parameters but the last."""
    several, curves, ats = frame["family"].nunique() > 1, [], []
    for row in frame.to_dict("records"):
        words = [
            f"{name.replace('.', ' ').replace('_', ' ')} {short(float(v)) if isinstance(v, int | float) else v}"
            for name, v in ((name, row[name]) for name in parameters)
        ]
        curves.append(spoken([*([str(row["family"])] if several or len(words) == 1 else []), *words[:-1]]))
        ats.append(words[-1])
    return frame.assign(family=curves, settings=ats)


def overlay_chart(
    maps: Mapping[str, pd.DataFrame],
    parameters: Sequence[str],
    max_risk: float | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> alt.TopLevelMixin:
    """Draw several maps over the same parameter on the same axes: colour tells the utility, the dash the map.

    Each map has one risk, in the same unit as the others'. Unmasked utilities are dotted; `chosen` is ringed on every curve.

    Examples
    --------
    >>> from sfumato.papers import slope_map
    >>> pair = {"R² = 0.3": slope_map(r2=0.3).frame(), "R² = 0.5": slope_map(r2=0.5).frame()}
    >>> chart = overlay_chart(pair, ["kim_noise.lambda2"], chosen={"kim_noise.lambda2": 0.15})
    """
    if not maps or len(tuple(parameters)) != 1:
        raise ParameterError("an overlay needs at least one map, and one parameter.")
    read = {name: Sweep.of(frame, parameters) for name, frame in maps.items()}
    if crowded := [name for name, data in read.items() if len(data.risks) > 1]:
        raise ParameterError(f"an overlay shows one risk, but these maps have several: {', '.join(crowded)}.")
    risks = [v for d in read.values() for v in finite(d.risks[0])] + ([] if max_risk is None else [max_risk])
    u_axis = utility_axis(u for d in read.values() for u in d.utilities)
    labels = tuple(dict.fromkeys(u.label for d in read.values() for u in d.utilities))
    axes = (Axis.over(risks, all(v > 0 for v in risks)), u_axis)
    sheets = {n: Sheet(d, d.limits(max_risk), chosen or {}, fixed=axes, among=labels) for n, d in read.items()}
    traces = tuple(Trace(s, s.data.risks[0], name) for name, s in sheets.items())
    return themed(Plane(traces, *_OVERLAY).chart())
