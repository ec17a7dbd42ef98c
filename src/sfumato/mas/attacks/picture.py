"""Recipe 10: the synthetic picture of residuals, asked for many times, and with and without the target."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.errors import NotApplicable
from sfumato.mas.analyses import Residuals
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.recipe import Field, Recipe, leaks, numbers
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Piece
from sfumato.mas.attacks.world import AMOUNT, World


class RepeatedPicture(Recipe):
    """The same picture many times: were it drawn anew each time, the noise of its points would average out."""

    title = "one picture asked for 50 times"
    bar = 0.0
    times: int = param(default=50, doc="how often each picture is asked for", low=2, integer=True)

    def run(self, field: Field) -> Guesses:
        """Ask for the picture of everybody; a leak is one that differs from the first."""
        found = []
        for server, world, _ in field.each(2, min(field.trials, 2)):
            answers = [picture(server, world, None) for _ in range(self.times)]
            found.append(len({answer.to_bytes() for answer in answers if answer is not None}) > 1)
        return leaks(found)


class PictureDifferencing(Recipe):
    """Pictures of U and of U without the target: an outlier would be a point of its own in one of them."""

    title = "differencing, pictures of residuals"
    bar, above = 0.05, "baseline"

    def run(self, field: Field) -> Guesses:
        """Ask for two pictures about each target; the guess is the change of the largest residual, in units of the amount."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(2, outliers=True):
            rows.append(target.row)
            guessed.append(largest(server, world, target.universe) - largest(server, world, target.without))
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


def picture(server: Server, world: World, universe: Piece | None) -> Answer | None:
    """Return the picture of the residuals of the amount on a known number; None if it is refused."""
    name = next(iter(world.numbers), None)
    if name is None:
        raise NotApplicable("pictures are attacked with a known variable of numbers, and these data have none.")
    found = server.ask(universe, Residuals(f"{AMOUNT} ~ `{name}`"))
    return found if isinstance(found, Answer) else None


def largest(server: Server, world: World, universe: Piece) -> float:
    """Return the largest residual of a picture in units of the amount; NaN if it is refused."""
    found = picture(server, world, universe)
    if found is None:
        return math.nan
    listed = (row.get("residual") for rows in found.tables.values() for row in rows)
    points = [float(value) for value in listed if isinstance(value, int | float)]
    usual = float(np.std(world.truths[AMOUNT]))  # the attacker is given what a standardised residual is worth
    return max(points, default=math.nan) * usual
