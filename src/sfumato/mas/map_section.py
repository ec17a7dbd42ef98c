"""A map of policies as a section of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.charts.words import counted, short, spoken, tabled
from sfumato.contract import Figure, Section, Side
from sfumato.rumap.choice import named
from sfumato.rumap.points_table import points_table

if TYPE_CHECKING:
    from sfumato.mas.policy_map import PolicyMap
    from sfumato.rumap.choice import Choice


_SHOWN = ("tables kept", "regressions kept", "questions answered")
"""Utilities that the table of a report has room for."""


def policy_map_section(map: PolicyMap, max_risk: float | None = None, choice: Choice | None = None) -> Section:
    """Return a map as a section, for a given threshold and what was chosen under it; nothing is computed anew."""
    said = [] if choice is None else _choice(choice)
    policies = spoken(dict.fromkeys(point.family for point in map.points))
    recipes = spoken(recipe.title for recipe in map.attackers.recipes)
    rules = ", with the universe rules off" if map.attackers.rules_off else ""
    swept = f", over {spoken(map.parameters)}" if map.parameters else ""
    several = len({point.family for point in map.points}) > 1
    trials = map.attackers.bench.trials
    shown = [map.position(Side.RISK, None), *(map.position(Side.UTILITY, name) for name in _SHOWN)]
    said += [
        f"Attacks on {policies} at {counted(len(map.points), 'setting')}{swept}: {recipes}{rules}, {trials:,} times each.",
        "Every setting saw the same planted values and secrets.",
        *(f"{map.measures[i].title.capitalize()}: {map.measures[i].meaning}." for i in shown),
        "Refused questions count as nothing kept. A cell that is not shown counts as an error of 100 %.",
    ]
    risk, use = (map.measures[map.of_side(side)[0]].label() for side in (Side.RISK, Side.UTILITY))
    limit = "" if max_risk is None else f" Dashed level line: the largest tolerable risk, {short(max_risk)}."
    caption = f"R-U confidentiality map: {risk} against {use}, 95 % intervals as bars.{limit}"
    figure = Figure(map.chart(max_risk, choice).to_dict(), caption)
    return Section(
        "Risk and utility of settings", tuple(said), (figure, points_table(map, "policy" if several else None, shown))
    )


def _choice(choice: Choice) -> list[str]:
    limits = spoken(f"{label} at most {short(limit)}" for label, limit in choice.max_risk.items())
    said = [f"What was asked: the most useful policy with {limits}."]
    if not choice.feasible:
        return [*said, f"There is no answer: {choice.reason}"]
    settings = {k: v for k, v in choice.settings.items() if k != "policy"}
    words = spoken(f"{s.measure} {tabled(s.value)}" for s in (*choice.risks, *choice.utilities))
    at = f" with {named(settings)}" if settings else ""
    return [*said, f"The answer is {choice.settings['policy']}{at}: {choice.reason}. There, {words}."]
