"""Recipe 1: two universes that differ by one person, subtracted."""

from __future__ import annotations

import math
from typing import ClassVar

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.world import HALF
from sfumato.mas.universe import Spec


class Differencing(Recipe):
    """Counts of an attribute in U and in U without the target: the difference is the target's, but for drops and noise."""

    title = "differencing, counts"
    attribute: ClassVar[str] = HALF
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: Field) -> Guesses:
        """Ask two questions about each target."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(self.conditions):
            rows.append(target.row)
            scores.append(difference(server, *target.pair(), self.attribute))
            truths.append(float(world.truths[self.attribute][target.row]))
        return yes_or_no(rows, scores, truths)


def difference(server: Server, larger: Spec, smaller: Spec, by: str) -> float:
    """Return by how many "yes" and not "no" a universe exceeds another; 0 if nothing can be learned."""
    one = server.counts(larger, by)
    two = server.counts(smaller, by) if one is not None else None
    if one is None or two is None:
        return 0.0
    change = {level: one[level] - two[level] for level in ("yes", "no")}
    return sum(sign * change[level] for level, sign in (("yes", 1), ("no", -1)) if not math.isnan(change[level]))
