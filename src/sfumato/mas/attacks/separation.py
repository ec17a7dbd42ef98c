"""Recipe 9: a small cell with one outcome only. Who is told that there is no other outcome knows that of everybody in it."""

from __future__ import annotations

import math

from sfumato.contract import Draws
from sfumato.contract.attack import Guesses
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.plan import Planner
from sfumato.mas.attacks.recipe import Field, Recipe, balanced, yes_or_no
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.world import RARE, SHARES

_FEW, _TRIES = 60, 3


class Separation(Recipe):
    """A logistic model of an attribute that 2 % have, with a coefficient for a small group of the target's.

    If nobody else in the group has it, the model is refused as separated, or its coefficient is far down, unless the target does.
    Nearly all are refused, and then "no" is guessed; right guesses are weighed so that this alone is worth one half.
    """

    title = "a small group with one outcome"

    def run(self, field: Field) -> Guesses:
        """Ask for one model about each target, of the smallest group that there is."""
        rows, scores, truths = [], [], []
        for trial, (server, world, target) in enumerate(field.each(4)):
            planner = Planner(target, world, server, RARE, Draws("groups").child(trial).generator("sets"))
            rows.append(target.row)
            scores.append(told(server, planner))
            truths.append(float(world.truths[RARE][target.row]))
        return balanced(yes_or_no(rows, scores, truths))


def told(server: Server, planner: Planner) -> float:
    """Return by how many more than usual the group has the attribute; less than nothing, if the model is separated."""
    models = [ask for ask in planner.asks(_FEW) if ask.model]
    for ask in sorted(models, key=lambda ask: ask.reading.n)[:_TRIES]:
        found = server.ask(ask.universe, ask.analysis(RARE))
        if isinstance(found, Answer):
            value = ask.told(found, RARE)
            if not math.isnan(value):
                return value - (ask.reading.n - 1) * SHARES[RARE] - 0.5
        elif found.rule == "separation":
            return -1.0
    return 0.0
