"""A map of protected tables as a section of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.charts.words import counted, first_line, short, spoken, tabled
from sfumato.contract import Figure, Section, Side
from sfumato.contract import Table as Grid

if TYPE_CHECKING:
    from sfumato.rumap.choice import Choice
    from sfumato.tables.table_map import TableMap

_ROWS = 20


def table_map_section(map: TableMap, max_risk: float | None = None, choice: Choice | None = None) -> Section:
    """Return a map as a section, for a given threshold and what was chosen under it; nothing is computed anew."""
    families = list(dict.fromkeys(p.family.replace("_", " ") for p in map.points))
    said = []
    if choice is not None:
        limits = spoken(f"{label} at most {short(limit)}" for label, limit in choice.max_risk.items())
        said.append(f"What was asked: the most useful table with {limits}.")
        if choice.feasible:
            words = spoken(f"{s.measure} {tabled(s.value)} ({s.words})" for s in (*choice.risks, *choice.utilities))
            said.append(f"The answer is {_chosen(choice)}: {choice.reason}. There, {words}.")
        else:
            said.append(f"There is no answer: {choice.reason}")
    said.append(
        f"The same table was protected by {spoken(families)}, at {counted(len(map.points), 'setting')}; where something is "
        f"random, {map.replications:,} times, with 95 % intervals over these."
    )
    sorts = {type(m): first_line(m) for m in map.measures}
    said += [f"{words}." for words in sorts.values()]
    said += [f"Not in the map: {what}. {reason}" for what, reason in map.refused.items()]
    figure = Figure(map.chart(max_risk, choice).to_dict(), _caption(map, max_risk))
    return Section("Risk and utility of protections", tuple(said), (figure, _table(map)))


def _chosen(choice: Choice) -> str:
    settings = dict(choice.settings)
    name = str(settings.pop("protection", "")).replace("_", " ")
    at = spoken(
        f"{k.rpartition('.')[2].replace('_', ' ')} = {v if isinstance(v, str) else short(float(v))}"
        for k, v in settings.items()
    )
    return f"{name} with {at}" if at else name


def _caption(map: TableMap, max_risk: float | None) -> str:
    risk, utility = (map.measures[map.of_side(side)[0]].label() for side in (Side.RISK, Side.UTILITY))
    limit = "" if max_risk is None else f" Dashed level line: the largest tolerable risk, {short(max_risk)}."
    return f"R-U confidentiality map: {risk} against {utility}, one curve for each protection.{limit}"


def _table(map: TableMap) -> Grid:
    order = [*map.of_side(Side.RISK), *map.of_side(Side.UTILITY)]
    front = {int(p) for p in map.frontier()["point"]}
    points = range(len(map.points))
    shown = list(points) if len(points) <= _ROWS else sorted(front)[:_ROWS]
    rows = []
    for p in shown:
        cells = []
        for i in order:
            value, interval = map.estimate(i, p)
            spread = (
                ""
                if interval is None or interval[0] == interval[1]
                else f" ({tabled(interval[0])} to {tabled(interval[1])})"
            )
            cells.append(tabled(value) + spread)
        rows.append((map.points[p].family.replace("_", " "), map.points[p].at, *cells, "yes" if p in front else "no"))
    heads = ("protection", "at", *(map.measures[i].label() for i in order), "on the frontier")
    less = "" if len(shown) == len(points) else f" Those on the frontier, of {len(points):,}."
    return Grid(heads, tuple(rows), f"Risk and utility of every setting; 95 % intervals in brackets.{less}")
