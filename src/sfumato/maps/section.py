"""R-U maps as sections of a report: what was tried, against whom, the choice in natural units, the points, the figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import charts
from sfumato.charts.captions import counted, first_line, parameter_words, short, spoken, symbol, tabled
from sfumato.charts.map_data import Limits, Sweep, along
from sfumato.contract.score import Figure, Score, Section, Side, TextTable
from sfumato.data.microdata import Microdata
from sfumato.maps.choice import share_kept

if TYPE_CHECKING:
    from sfumato.maps.choice import Choice, Estimate
    from sfumato.maps.rumap import RUMap

_ROWS = 10
"""Points shown in the table, besides the chosen one and the unmasked file."""


def sweep_section(map: RUMap, max_risk: Limits = None, choice: Choice | None = None) -> Section:
    """Return a map as a section of a report, for a given threshold and what was chosen under it.

    It holds measures and parameters, never a record's value. Nothing is computed anew: run `map.choose` first.
    """
    if max_risk is None and choice is not None:
        max_risk = dict(choice.max_risk) or None
    data = Sweep.of(map.frame(), map.parameters)
    limits = data.limits(max_risk)
    settings = choice.settings if choice is not None and choice.feasible else None
    decision = _decided(map, choice) if choice is not None else _counted(data, limits)
    paragraphs = (
        [*_thresholds(map, limits), *decision],
        [
            _swept(map),
            *_replicated(map),
            f"The snooper {spoken(map.subject.evaluator.snooper.describe().split('; '))}.",
        ],
        [*_measured(map), *(f"Not measured: {label}. {reason}" for label, reason in map.refused.items())],
    )
    chart = charts.map_chart.map_chart(map.frame(), map.parameters, max_risk, settings)
    figure = Figure(chart.to_dict(), _caption(map, limits, settings))
    title = f"Risk and utility over {spoken(parameter_words(name) for name in map.parameters)}"
    sentences = tuple(" ".join(p) for p in paragraphs if p)
    return Section(title, sentences, (figure, _table(map, data, choice)))


# -- sentences


def _swept(map: RUMap) -> str:
    source = map.subject.evaluator.source
    if isinstance(source, Microdata):
        what = f"a file of {counted(len(source), 'record')}"
    else:
        what = f"samples of {counted(source.n, 'record')} from a normal population"
    swept = []
    for name in map.parameters:
        values = sorted({float(p.settings[name]) for p in map.points})
        ends = f"{counted(len(values), 'value')} from {short(values[0])} to {short(values[-1])}"
        swept.append(f"{parameter_words(name)} at {ends if len(values) > 1 else f'{short(values[0])} alone'}")
    total = f": {counted(len(map.points), 'combination')}" if len(map.parameters) > 1 else ""
    return f"The map shows {what}, masked with {spoken(swept)}{total}."


def _replicated(map: RUMap) -> list[str]:
    if not map.replications:
        return ["All values come from formulas for normal data; nothing was simulated."]
    times = f"Each point was masked {map.replications:,} times with fresh random numbers"
    said = [f"{times}; intervals are 95 % intervals over these replications."]
    if any(m.design == "population" for m in map.measures) and isinstance(map.subject.evaluator.source, Microdata):
        said.append(
            "For estimates of the population the records too were drawn afresh, so that utility includes sampling error."
        )
    if len(map.parameters) == 1 and any(not np.isnan(a[:-1]).all() for a in map.analytic):
        said.append("Bold lines in the figure are formulas for normal data; points are replications.")
    return said


def _measured(map: RUMap) -> list[str]:
    """Say once for each sort of measure what it is: the first line of its documentation."""
    sorts: dict[tuple[Side, type], list[str]] = {}
    for measure, title in zip(map.measures, map.titles, strict=True):
        sorts.setdefault((measure.side, type(measure)), []).append(title)
    return [f"{first_line(sort)} ({spoken(named)})." for (_, sort), named in sorts.items()]


def _thresholds(map: RUMap, limits: Mapping[str, float]) -> list[str]:
    schema = map.subject.evaluator.source.schema
    said = []
    for i in map.of_side(Side.RISK):
        measure = map.measures[i]
        if (title := map.titles[i]) in limits:
            limit = limits[title]
            said.append(f"The largest tolerable {title} is {short(limit)}: there, {measure.words(limit, schema)}.")
    return said


def _decided(map: RUMap, choice: Choice) -> list[str]:
    if not choice.feasible:
        return [f"There is no answer under this threshold: {choice.reason}"]
    named = spoken(f"{symbol(k)} = {short(float(v))}" for k, v in choice.settings.items())
    risks = spoken(f"{s.words}{_within(s)}" for s in choice.risks)
    said = [f"The answer is {named}: {choice.reason}.", f"At {named} {risks}."]
    for position, score in zip(map.of_side(Side.UTILITY), choice.utilities, strict=True):
        said.append(f"For the {map.titles[position]}, {score.words}{_share(map, position, choice)}.")
    return said


def _share(map: RUMap, position: int, choice: Choice) -> str:
    """Say how much of the unmasked utility is kept: by formula where there is one, and in the replications."""
    kept = share_kept(map, position, choice)
    if not math.isfinite(kept):
        return ""
    formula = float(map.subject.evaluator.analytic([choice.settings])[position][0]) / float(map.analytic[position][-1])
    both = map.replications and math.isfinite(formula)
    shares = (
        f"by formula {100 * formula:.0f} %, in these replications {100 * kept:.0f} %" if both else f"{100 * kept:.0f} %"
    )
    return f"; the release keeps {shares} of the utility of the unmasked file"


def _within(score: Score) -> str:
    if score.interval is None or score.interval[0] == score.interval[1]:
        return ""
    return f" (R = {short(score.value)}, interval {short(score.interval[0])} to {short(score.interval[1])})"


def _counted(data: Sweep, limits: Mapping[str, float]) -> list[str]:
    if not limits:
        return []
    good = int(data.feasible(limits).sum())
    return [
        f"{good:,} of the {counted(len(data.points), 'point')} keep the upper limit of the risk within the threshold."
    ]


# -- the table


def _table(map: RUMap, data: Sweep, choice: Choice | None) -> TextTable:
    risks, utilities = map.of_side(Side.RISK), map.of_side(Side.UTILITY)
    shares = {i for i in utilities if math.isfinite(map.unmasked(i)) and map.unmasked(i) > 0}
    heads = [parameter_words(name) for name in map.parameters]
    for i in (*risks, *utilities):
        heads += [map.titles[i], *(["kept"] if i in shares else [])]
    chosen = choice.settings if choice is not None and choice.feasible else None
    shown = _spread(map, chosen)

    def at(point: int) -> dict[int, Estimate]:
        return {i: map.estimate(i, point) for i in (*risks, *utilities)}

    def cells(values: Mapping[int, Estimate]) -> list[str]:
        made = []
        for i in (*risks, *utilities):
            value, interval = values[i]
            made.append(tabled(value) + (_bracket(interval) if interval and interval[0] != interval[1] else ""))
            made += [f"{100 * value / map.unmasked(i):.0f}\N{NO-BREAK SPACE}%"] if i in shares else []
        return made

    rows: list[tuple[str, ...]] = []
    for settings, point in shown:
        first = [short(float(settings[name])) for name in map.parameters]
        first[0] += " (chosen)" if settings is chosen else ""
        rows.append((*first, *cells(_between(map, data, choice) if point is None else at(point))))
    rows.append(("unmasked", *["–"] * (len(map.parameters) - 1), *cells(at(len(map.points)))))
    return TextTable(tuple(heads), tuple(rows), _table_caption(map, sum(p is not None for _, p in shown), chosen))


def _between(map: RUMap, data: Sweep, choice: Choice | None) -> dict[int, Estimate]:
    """Return a chosen point that is not one of the sweep: by formula, or else between its neighbours, with the same seeds."""
    assert choice is not None  # noqa: S101 - only a chosen point can lie between points
    sides = ((Side.RISK, data.risks, choice.risks), (Side.UTILITY, data.utilities, choice.utilities))
    if not map.replications:
        return {
            i: (score.value, None)
            for side, _, scores in sides
            for i, score in zip(map.of_side(side), scores, strict=True)
        }
    grid, t = data.points[:, 0], float(choice.settings[map.parameters[0]])
    return {
        i: (along(t, grid, measured.judged[:, 0], bool((grid > 0).all()), side is Side.RISK), None)
        for side, measures, _ in sides
        for i, measured in zip(map.of_side(side), measures, strict=True)
    }


def _bracket(interval: tuple[float, float], space: str = "\N{NO-BREAK SPACE}") -> str:
    return f" ({tabled(interval[0])}{space}to{space}{tabled(interval[1])})"


def _spread(map: RUMap, chosen: Mapping[str, Any] | None) -> list[tuple[Mapping[str, Any], int | None]]:
    """Return some points with their numbers, in parameter order, and the chosen one, without a number if it lies between them.

    With several parameters, the points are those of the frontier.
    """
    points = points_of = [(p, q.settings) for p, q in enumerate(map.points)]
    if len(map.parameters) > 1:
        best = {tuple(row[n] for n in map.parameters) for row in map.frontier().to_dict("records")}
        points = [(p, s) for p, s in points if tuple(s[n] for n in map.parameters) in best]
    points.sort(key=lambda item: tuple(float(item[1][n]) for n in map.parameters))
    picked = sorted({round(k) for k in np.linspace(0, len(points) - 1, min(_ROWS, len(points)))})
    out: list[tuple[Mapping[str, Any], int | None]] = [(points[k][1], points[k][0]) for k in picked]
    if chosen is not None:
        same = [p for p, s in points_of if all(math.isclose(s[n], chosen[n], rel_tol=1e-9) for n in map.parameters)]
        out = [(s, p) for s, p in out if p not in same]
        out.append((chosen, same[0] if same else None))
    return sorted(out, key=lambda item: tuple(float(item[0][n]) for n in map.parameters))


def _table_caption(map: RUMap, shown: int, chosen: Mapping[str, Any] | None) -> str:
    which = "points along the sweep"
    if len(map.parameters) > 1:
        which = "points that no other point beats in both risk and utility"
    less = f" ({shown} of {len(map.points):,})" if shown < len(map.points) else ""
    said = [f"Risk and utility at {which}{less}{'; 95 % intervals in brackets' if map.replications else ''}."]
    said.append("“Kept” is the share of the unmasked file's utility.")
    if map.replications and chosen is not None:
        said.append(
            "The chosen row rests on the same random numbers as the others; the text gives its check with fresh ones."
        )
    return " ".join(said)


def _caption(map: RUMap, limits: Mapping[str, float], settings: Mapping[str, Any] | None) -> str:
    risks = spoken(map.titles[i] for i in map.of_side(Side.RISK))
    utilities = spoken(map.titles[i] for i in map.of_side(Side.UTILITY))
    chosen = "" if settings is None else spoken(f"{symbol(k)} = {short(float(v))}" for k, v in settings.items())
    level = spoken(f"{short(v)} for {k}" if len(limits) > 1 else short(v) for k, v in limits.items()) if limits else ""
    said = [f"R-U confidentiality map: {risks} against the utility of {utilities}."]
    if len(map.parameters) == 2:
        said.append(f"Outlined: the combinations whose risk stays within {level}." if limits else "")
        said.append(f"Framed: the chosen combination, {chosen}." if chosen else "")
    else:
        names = symbol(map.parameters[0]) if len(map.parameters) == 1 else ""
        said.append(f"Numbers along a curve are values of {names}." if names and len(map.points) > 1 else "")
        said.append("Dashed upright lines: the utility of the unmasked file.")
        said.append(f"Dashed level line: the largest tolerable risk, {level}." if limits else "")
        said.append(f"Ringed: the chosen {chosen}." if chosen else "")
    return " ".join(s for s in said if s)


# -- the map of protections or policies

_MOST_POINTS = 20
"""Most points that a table shows."""


def points_section(
    map: RUMap,
    max_risk: Any,
    choice: Choice | None,
    title: str,
    sentences: Sequence[str],
    *,
    scored: Callable[[Score], str],
    shown: Sequence[int] | None = None,
    families: bool = True,
    more: str = "",
) -> Section:
    """Return a map of protections or policies as a section; nothing is computed anew.

    `scored` says the value of a measure at the chosen point, `shown` are the measures that the table has room for, `families`
    says whether the table names them, and `more` is added to the caption.
    """
    noun, outcome, answer = map.subject.noun, map.subject.outcome, []
    if choice is not None:
        limits = spoken(f"{label} at most {short(limit)}" for label, limit in choice.max_risk.items())
        answer.append(f"What was asked: the most useful {outcome} with {limits}.")
        if choice.feasible:
            values = spoken(f"{s.measure} {scored(s)}" for s in (*choice.risks, *choice.utilities))
            answer.append(f"The answer is {map.subject.chosen_words(choice)}: {choice.reason}. There, {values}.")
        else:
            answer.append(f"There is no answer: {choice.reason}")
    refused = [f"Not in the map: {what}. {reason}" for what, reason in map.refused.items()]
    risk, utility = (map.measures[map.of_side(side)[0]].label() for side in (Side.RISK, Side.UTILITY))
    limit = max_risk.get(risk) if isinstance(max_risk, Mapping) else max_risk
    level = "" if limit is None else f" Dashed level line: the largest tolerable risk, {short(limit)}."
    figure = Figure(
        map.chart(max_risk, choice).to_dict(), f"R-U confidentiality map: {risk} against {utility}, {more}.{level}"
    )
    order = [*map.of_side(Side.RISK), *map.of_side(Side.UTILITY)] if shown is None else list(shown)
    table = _points_table(map, noun if families else None, order)
    return Section(title, (*answer, *sentences, *refused), (figure, table))


def _points_table(map: RUMap, noun: str | None, measures: Sequence[int]) -> TextTable:
    """Return every point with its measures, or those on the frontier where there are many."""
    front, count = {int(p) for p in map.frontier()["point"]}, len(map.points)
    shown = range(count) if count <= _MOST_POINTS else sorted(front)[:_MOST_POINTS]
    rows = []
    for p in shown:
        cells = []
        for i in measures:
            value, interval = map.estimate(i, p)
            spread = "" if not interval or interval[0] == interval[1] else _bracket(interval, " ")
            cells.append(tabled(value) + spread)
        first = (map.points[p].family.replace("_", " "),) if noun is not None else ()
        rows.append((*first, map.points[p].at, *cells, "yes" if p in front else "no"))
    heads = (*(() if noun is None else (noun,)), "at", *(map.measures[i].label() for i in measures), "on the frontier")
    less = "" if len(shown) == count else f" Those on the frontier, of {count:,}."
    return TextTable(heads, tuple(rows), f"Risk and utility of every setting; 95 % intervals in brackets.{less}")
