"""Recipe 11: the largest quantile that can be asked for."""

from __future__ import annotations

import math

from sfumato.contract.attack import Guesses
from sfumato.mas.analyses import Quantiles
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.world import AMOUNT
from sfumato.mas.universe import Spec


class LargestQuantile(Recipe):
    """The 99.9 % quantile of a universe that holds an outlier."""

    title = "P99.9 of an outlier's universe"
    bar, above = 0.05, "baseline"

    def run(self, field: Field) -> Guesses:
        """Ask one question about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(2, outliers=True):
            rows.append(target.row)
            guessed.append(largest(server, target.universe))
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


def largest(server: Server, universe: Spec) -> float:
    """Return the 99.9 % quantile; NaN if it is not shown."""
    found = server.ask(universe, Quantiles(of=AMOUNT, p=(0.999,)))
    if isinstance(found, Refusal):
        return math.nan
    shown = [
        value for rows in found.tables.values() for row in rows if isinstance(value := row.get("value"), int | float)
    ]
    return float(max(shown, default=math.nan))
