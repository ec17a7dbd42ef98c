"""Recipe 3: individual trackers, several of them averaged."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.differencing import difference
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.target import Piece, Target
from sfumato.mas.attacks.world import HALF, World


class IndividualTracker(Recipe):
    """The target is C = A and B: count(A) - count(A and not B), for every condition of C as B in turn.

    J. Schlörer, Identification and retrieval of personal records from a statistical data bank, Methods Inf. Med. 14 (1975).
    """

    title = "individual trackers, averaged"

    def run(self, field: Field) -> Guesses:
        """Ask two questions for each tracker of a target, and add up what they say."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            rows.append(target.row)
            scores.append(sum(difference(server, *pair, HALF) for pair in trackers(target, world)))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def trackers(target: Target, world: World) -> Iterator[tuple[Piece, Piece]]:
    """Yield A, and A without B, for every condition B of the target's cell."""
    cell = target.alone()
    for name, own in cell.items():
        others = tuple(level for level in world.dataset.variables[name].levels if level not in own)
        rest = {n: levels for n, levels in cell.items() if n != name}
        yield rest, {**rest, name: others}
