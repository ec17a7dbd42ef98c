"""Recipe 5: a range of a variable with cutpoints, and the same moved by one cutpoint."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.differencing import difference
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.target import LEVELS, Piece, Target
from sfumato.mas.attacks.world import HALF, World


class MovedCutpoints(Recipe):
    """Ranges that end with the bin that the target is alone in, or one before it: upwards, downwards, and of every width."""

    title = "cutpoints moved by one"

    def run(self, field: Field) -> Guesses:
        """Ask two questions for each range about a target, and add up the differences."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            pairs = list(ranges(target, world))
            if pairs:
                rows.append(target.row)
                scores.append(sum(difference(server, *pair, HALF) for pair in pairs))
                truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def ranges(target: Target, world: World) -> Iterator[tuple[Piece, Piece]]:
    """Yield pairs of universes whose ranges differ by the target's bin; none, where no bin is the target's own."""
    cell = target.alone()
    for name, own in cell.items():
        variable = world.dataset.variables[name]
        if variable.cutpoints is None or len(own) != 1:
            continue
        at = variable.levels.index(own[0])
        for wide in (LEVELS - 1, LEVELS - 2, LEVELS - 3):
            for near in (variable.levels[max(at - wide, 0) : at], variable.levels[at + 1 : at + 1 + wide]):
                if near:
                    yield {**cell, name: (*near, *own)}, {**cell, name: tuple(near)}
