"""Recipe 14: how long a question takes must not tell the target's value."""

from __future__ import annotations

import time

import numpy as np

from sfumato.contract.attack import Guesses
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.refusals import tipping
from sfumato.mas.attacks.world import HALF


class Timing(Recipe):
    """Universes of those with and of those without the attribute, timed: the slower one is taken for the target's."""

    title = "timing of refusals and answers"

    def run(self, field: Field) -> Guesses:
        """Time two questions about each target."""
        rows, times, truths = [], [], []
        for server, world, target in field.each(2):
            took = []
            for level in ("yes", "no"):
                piece = tipping(target, world, level) or {**target.universe, HALF: (level,)}
                start = time.perf_counter()
                server.counts(piece, HALF)
                took.append(time.perf_counter() - start)
            rows.append(target.row)
            times.append(took[0] - took[1])
            truths.append(float(world.truths[HALF][target.row]))
        scores = np.array(times) - np.median(times)  # the first question is slower in any case
        return yes_or_no(rows, scores.tolist(), truths)
