"""Refusals as an oracle: whether a question is refused must not tell the target's value."""

from __future__ import annotations

import numpy as np

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.target import Piece, Target
from sfumato.mas.attacks.world import HALF, World


class RefusalOracle(Recipe):
    """A universe of those with the attribute, of a size at which the target tips the scale: refused without, answered with."""

    title = "refusals as an oracle"

    def run(self, field: Field) -> Guesses:
        """Ask for those with the attribute and for those without, in a universe as near to the limit as there is."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            score = 0.0
            for level, sign in (("yes", 1.0), ("no", -1.0)):
                piece = tipping(target, world, level)
                if piece is not None:
                    score += sign * (server.counts(piece, HALF) is not None)
            rows.append(target.row)
            scores.append(score)
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def tipping(target: Target, world: World, level: str, limit: int = 75) -> Piece | None:
    """Return the universe around the target in which those others with a level are one short of the limit, or nearly.

    The attacker is given what he could hardly know, how many others there are: without it he does worse.
    """
    known = world.dataset.variables
    name, levels = next((n, v) for n, v in reversed(target.universe.items()) if n in target.without)
    own = [v for v in levels if v not in target.without[name]]
    names = [*target.universe, HALF]
    cube = world.dataset.cubes.of([known[n] for n in names])
    order = [v.name for v in cube.variables]
    pick = [
        [known[n].levels.index(level)] if n == HALF
        else range(len(known[n].levels)) if n == name
        else [known[n].levels.index(v) for v in target.universe[n]]
        for n in order
    ]  # fmt: skip
    counts = cube.counts[np.ix_(*pick)].sum(axis=tuple(i for i, n in enumerate(order) if n != name))
    chosen: list[str] = []
    total = 0
    for i in np.argsort(-counts, kind="stable"):
        text = known[name].levels[i]
        if text not in own and total + counts[i] <= limit - 1 and len(chosen) < 7:
            chosen.append(text)
            total += int(counts[i])
    return {**target.universe, name: (*chosen, *own), HALF: (level,)} if chosen else None
