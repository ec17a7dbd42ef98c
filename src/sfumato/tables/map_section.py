"""A map of protected tables as a section of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.charts.words import counted, first_line, short, spoken, tabled
from sfumato.contract import Figure, Section, Side
from sfumato.rumap.points_table import points_table

if TYPE_CHECKING:
    from sfumato.rumap.choice import Choice
    from sfumato.tables.table_map import TableMap


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
    return Section("Risk and utility of protections", tuple(said), (figure, points_table(map, "protection")))


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
