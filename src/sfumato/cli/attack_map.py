"""`sfumato attack --map`: what attacks gain against what honest users keep, over the settings of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sfumato.cli.given import pair, values_of
from sfumato.cli.screen import Screen
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    from sfumato.mas.policy import Policy
    from sfumato.mas.policy_map import PolicyChoice, PolicyMap


def settings_swept(given: Iterable[str], policy: Policy) -> dict[str, tuple[float, ...]]:
    """Return the values of each swept setting, from "drop.share=0.05,0.1,0.2" or "counts.sd=1:10:4"."""
    from sfumato.mas.settings import settings_of

    known = settings_of(policy)
    found: dict[str, tuple[float, ...]] = {}
    for text in given:
        name, values = pair(text, "--map", "counts.sd=2,5,10")
        if name not in known:
            raise ParameterError(unknown_name("setting", name, known, f"the policy {policy.title}"))
        if not known[name].numeric:
            raise ParameterError(f"{name} is not a number, so it cannot be swept.")
        if name in found:
            raise ParameterError(f"--map names {name} twice; put all its values into one.")
        found[name] = values_of(name, values, known[name])
    return found


def show_map(screen: Screen, m: PolicyMap, choice: PolicyChoice | None) -> None:
    """Print the points of a map, and what was chosen."""
    rules = "with the universe rules off" if m.attackers.rules_off else "with all rules"
    recipes = ", ".join(recipe.name for recipe in m.attackers.recipes)
    screen.say(f"{len(m.points):,} settings, attacked {rules} by {recipes}, {m.attackers.bench.trials:,} times each.")
    screen.say()
    labels = [f"{'R' if measure.side.value == 'risk' else 'U'}: {measure.label()}" for measure in m.measures]
    rows = [[p.at, *(value for value, _ in m.estimates(k))] for k, p in enumerate(m.points)]
    screen.table(["at", *labels], rows, range(1, 1 + len(labels)))
    screen.say("R: right guesses above the baseline. U: 1 if nothing is lost. 95 % intervals: --json or --out.")
    if choice is None:
        screen.say("Add --max-risk to choose the most useful settings that are safe enough.")
        return
    screen.say()
    screen.say(str(choice), strong=True)
