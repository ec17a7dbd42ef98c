"""Recipes 6 and 7: a model with a dummy for every level, one of which is a person."""

from __future__ import annotations

import math

from sfumato.contract.attack import Guesses
from sfumato.mas.analyses import OLS
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Target
from sfumato.mas.attacks.world import AMOUNT


class SaturatedModel(Recipe):
    """A dummy for every level of the target's universe: the fitted value of the target's level is the target's own."""

    title = "saturated model, a dummy for one"
    bar, above = 0.05, "baseline"

    def run(self, field: Field) -> Guesses:
        """Ask for one model about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(2, outliers=True):
            rows.append(target.row)
            guessed.append(fitted(server, target))
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


def fitted(server: Server, target: Target) -> float:
    """Return the fitted value of the target's cell, from the coefficients of its dummies; NaN if none is its own."""
    name = next(n for n, levels in target.universe.items() if levels != target.without[n])
    own = target.alone()[name][0]
    found = server.ask(target.universe, OLS(f"{AMOUNT} ~ C(`{name}`)"))
    if isinstance(found, Refusal):
        return math.nan
    rows = found.tables["coefficients"]
    told = [row for row in rows if f"[{own}]" in str(row["term"]).replace("[T.", "[")]
    values = [row["coefficient"] for row in (rows[0], *told)]
    return sum(v for v in values if isinstance(v, int | float)) if told else math.nan
