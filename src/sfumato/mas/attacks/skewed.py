"""Recipe 2: differencing where nearly all records are alike, so that drops seldom touch the target's cell."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.differencing import difference
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.world import RARE


class SkewedDifferencing(Recipe):
    """Differencing on an attribute that 98 % of the universe do not have."""

    title = "differencing, 98 % alike"
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: Field) -> Guesses:
        """Ask two questions about each target."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(self.conditions):
            rows.append(target.row)
            scores.append(difference(server, *target.pair(), RARE))
            truths.append(float(world.truths[RARE][target.row]))
        return yes_or_no(rows, scores, truths)
