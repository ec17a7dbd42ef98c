"""Two answers that are equal: where drops and noise hang on the set of records, they prove that two sets are equal."""

from __future__ import annotations

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.world import HALF


class EqualAnswers(Recipe):
    """Those with the attribute in U, and in U without the target: the same answer, if the target does not have it."""

    title = "equality of answers"

    def run(self, field: Field) -> Guesses:
        """Ask two questions about each target, by a variable that shows the noise of the whole set."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            by = next(iter(target.universe))
            answers = [server.counts({**piece, HALF: ("yes",)}, by) for piece in (target.universe, target.without)]
            one, two = answers
            told = 0.0
            if one is not None and two is not None:
                told = -1.0 if repr(sorted(one.items())) == repr(sorted(two.items())) else 1.0
            rows.append(target.row)
            scores.append(told)
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)
