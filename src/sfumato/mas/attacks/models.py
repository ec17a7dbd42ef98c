"""Recipe 1 for models: the coefficients of two universes give two sums of the outcome, and their difference."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.errors import NotApplicable
from sfumato.mas.analyses import OLS
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Piece
from sfumato.mas.attacks.world import AMOUNT, World


class ModelDifferencing(Recipe):
    """A regression of the amount on what the attacker knows: its normal equations hold the sum of the outcome.

    With an intercept, n b0 + b1 Σx = Σy, and n and Σx come from a register of what is known of everybody.
    """

    title = "differencing, coefficients"
    bar, above = 0.05, "baseline"
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: Field) -> Guesses:
        """Ask for two models about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(self.conditions, outliers=True):
            rows.append(target.row)
            guessed.append(outcome_sum(server, world, target.universe) - outcome_sum(server, world, target.without))
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


def outcome_sum(server: Server, world: World, piece: Piece) -> float:
    """Return what the coefficients say of the sum of the amount in a universe; NaN if they are refused."""
    name = next((n for n in world.numbers), None)
    if name is None:
        raise NotApplicable("models are attacked with a known variable of numbers, and these data have none.")
    found = server.ask(piece, OLS(f"{AMOUNT} ~ `{name}`"))
    if isinstance(found, Refusal):
        return math.nan
    chosen = np.ones(len(world.numbers[name]), bool)
    for variable, levels in piece.items():
        of_level = [world.dataset.variables[variable].levels.index(text) for text in levels]
        chosen &= np.isin(world.codes[variable], of_level)
    slopes = [row["coefficient"] for row in found.tables["coefficients"]]
    if len(slopes) != 2 or not all(isinstance(b, int | float) for b in slopes):
        return math.nan
    x = world.numbers[name][chosen]
    return float(slopes[0] or 0) * len(x) + float(slopes[1] or 0) * float(x.sum())
