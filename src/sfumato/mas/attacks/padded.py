"""Recipe 3, averaged: the same difference asked for many times, each time with other records added to both universes."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.differencing import difference
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.world import HALF


class PaddedPairs(Recipe):
    """Pairs of universes U + P and V + P with many P: the drops and the noise of each pair are new, the difference is not."""

    title = "padded pairs, averaged"
    pairs: int = param(default=10, doc="pairs of universes for each target", low=1, high=100, integer=True)
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: Field) -> Guesses:
        """Ask two questions for each pad, and add up the differences."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(self.conditions):
            number = min(self.pairs, len(target.pads))
            rows.append(target.row)
            scores.append(sum(difference(server, *target.pair(i), HALF) for i in range(number)))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)
