"""Recipe 1 for numbers: sums and means of two universes that differ by one person, subtracted."""

from __future__ import annotations

import math

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.world import AMOUNT, HALF
from sfumato.mas.universe import Spec


class AmountDifferencing(Recipe):
    """The sum in U less the sum in U without the target; means times counts, where sums are not shown."""

    title = "differencing, an ordinary amount"
    bar, above = 0.05, "baseline"
    outliers: bool = param(default=False, doc="whether the targets have amounts far above all others")
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: Field) -> Guesses:
        """Ask two questions about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(self.conditions, outliers=self.outliers):
            rows.append(target.row)
            larger, smaller = (total(server, piece) for piece in target.pair())
            guessed.append(larger - smaller)
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


class OutlierDifferencing(AmountDifferencing):
    """The same for persons whose amounts are far above all others: drops hardly blur them."""

    title = "differencing, an outlier's amount"
    outliers: bool = param(default=True, doc="whether the targets have amounts far above all others")


def total(server: Server, universe: Spec) -> float:
    """Return the sum of the amount in a universe; NaN if it is not shown."""
    found = server.ask(universe, CrossTab((HALF,), of=AMOUNT))
    if isinstance(found, Refusal):
        return math.nan
    row = next(r for r in found.tables["cells"] if r[HALF] == "Total")
    value = row["sum"]
    return float(value) if isinstance(value, int | float) else math.nan
