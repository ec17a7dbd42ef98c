"""Recipe 12: a sum of which one contributor makes up more than 90 %."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract.attack import Guesses
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.recipe import Field, Recipe, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Target
from sfumato.mas.attacks.world import LARGE, World


class DominantContributor(Recipe):
    """Sums of an amount that hardly anybody else has, in every cell that the target is in: the sum is nearly the target's own."""

    title = "one contributor with over 90 % of a sum"
    bar, above = 0.05, "baseline"

    def run(self, field: Field) -> Guesses:
        """Ask for the sums around each target, and take the median of those that are shown."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(2, outliers=True):
            rows.append(target.row)
            shown = [total(server, world, target, name) for name in target.universe]
            guessed.append(float(np.nanmedian(shown)) if not np.isnan(shown).all() else math.nan)
            truths.append(float(world.truths[LARGE][target.row]))
        return numbers(rows, guessed, truths)


def total(server: Server, world: World, target: Target, by: str) -> float:
    """Return the sum of the target's level of a variable, within the other conditions of the universe; NaN if it is not shown."""
    universe = {name: levels for name, levels in target.universe.items() if name != by}
    found = server.ask(universe, CrossTab((by,), of=LARGE))
    if not isinstance(found, Answer):
        return math.nan
    own = world.dataset.variables[by].levels[int(world.codes[by][target.row])]
    value = next(row["sum"] for row in found.tables["cells"] if row[by] == own)
    return float(value) if isinstance(value, int | float) else math.nan
