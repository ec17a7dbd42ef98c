"""Recipe 3: the general tracker, which asks about a person only together with others."""

from __future__ import annotations

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Piece, Target
from sfumato.mas.attacks.world import HALF
from sfumato.mas.variable import Variable


class GeneralTracker(Recipe):
    """With C the target alone and T about half of all: count(C or T) + count(C or not T) - count(all) is that of C.

    D. E. Denning, P. J. Denning and M. D. Schwartz, The tracker, ACM TODS 4 (1979).
    """

    title = "general tracker"

    def run(self, field: Field) -> Guesses:
        """Ask three questions about each target, by the attribute."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            rows.append(target.row)
            known = [v for v in world.dataset.variables.values() if v.known and v.levels]
            scores.append(tracked(server, target, min(known, key=lambda v: len(v.levels))))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def tracked(server: Server, target: Target, by: Variable) -> float:
    """Return "yes" less "no" of the target alone; 0 if a question is refused."""
    middle = len(by.levels) // 2
    parts: list[Piece] = [{by.name: by.levels[:middle]}, {by.name: by.levels[middle:]}]
    found = [server.counts([target.alone(), part], HALF) for part in parts]
    found.append(server.counts(None, HALF) if None not in found else None)
    one, two, every = found
    if one is None or two is None or every is None:
        return 0.0
    yes, no = (one[level] + two[level] - every[level] for level in ("yes", "no"))
    return yes - no
