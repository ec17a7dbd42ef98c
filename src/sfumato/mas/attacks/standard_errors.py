"""Recipe 6, grown: the standard error of a small group's slope tells how the predictor varies there."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import param
from sfumato.contract.attack import Guesses
from sfumato.errors import NotApplicable
from sfumato.mas.analyses import OLS
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, yes_or_no
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Piece, Target
from sfumato.mas.attacks.world import AMOUNT, LARGEST, World


class StandardErrors(Recipe):
    """A known number is explained by the amount, in each group on its own: is the target one of the very rich?

    The square of a slope's standard error is s²/Sxx + D/Sxx², D the variance of the noise, which a policy tells; and Sxx is that
    of the others, whose amounts are of a known distribution, and the square of the target's.
    """

    title = "standard errors of a small group"
    least: int = param(default=130, doc="fewest records of the group", low=20, integer=True)

    def run(self, field: Field) -> Guesses:
        """Ask for one model about each target: half of them are very rich."""
        rows, scores, truths = [], [], []
        for rich in (True, False):
            for server, world, target in field.each(2, field.trials // 2, outliers=rich):
                rows.append(target.row)
                scores.append(self._score(server, world, target))
                truths.append(float(rich))
        return yes_or_no(rows, scores, truths)

    def _score(self, server: Server, world: World, target: Target) -> float:
        """Return by how much the squares of the group exceed what is halfway between rich and not."""
        name = next(iter(world.numbers), None)
        if name is None:
            raise NotApplicable(
                "standard errors are attacked with a known variable of numbers, and these data have none."
            )
        group = smallest_group(world, target, name, self.least)
        if group is None:
            return 0.0
        universe, by, level, n = group
        found = server.ask(universe, OLS(f"`{name}` ~ C(`{by}`) + C(`{by}`):`{AMOUNT}`"))
        if isinstance(found, Refusal):
            return 0.0
        amount, top = world.truths[AMOUNT], world.dataset.variables[AMOUNT].top
        usual, rich = amount[amount <= LARGEST], 2 * LARGEST
        if server.policy.amounts.top_coded and top is not None:
            usual, rich = np.where(usual >= top[0], top[1], usual), top[1]
        reach = server.policy.models.sd * float(np.ptp(world.numbers[name])) / 2
        noise = reach**2 * ((rich / 2) ** 2 + (rich / 2 - float(usual.mean())) ** 2)
        squares = _squares(found, level, noise)
        return 0.0 if math.isnan(squares) else squares / (n * float(np.var(usual)) + rich**2 / 2) - 1


def smallest_group(world: World, target: Target, name: str, least: int) -> tuple[Piece, str, str, int] | None:
    """Return a universe, a variable, the target's level of it, and how many have both: few, but not fewer than allowed."""
    known = world.dataset.variables
    own = {v: int(codes[target.row]) for v, codes in world.codes.items() if v != name}
    found = []
    for by in own:
        for within in (None, *own):
            here = np.ones(len(world.codes[by]), bool) if within is None else world.codes[within] == own[within]
            n = int((here & (world.codes[by] == own[by])).sum())
            if within != by and n >= least and int(here.sum()) >= max(600, n + least):
                piece: Piece = {} if within is None else {within: (known[within].levels[own[within]],)}
                found.append((n, piece, by, known[by].levels[own[by]]))
    if not found:
        return None
    n, piece, by, level = min(found, key=lambda one: one[0])
    return piece, by, level, n


def _squares(found: Answer, level: str, noise: float) -> float:
    """Return Sxx of a group by its standard error and the mean square of residuals; NaN if they are not shown."""
    slopes = [r for r in found.tables["coefficients"] if f"[{level}]" in str(r["term"]) and AMOUNT in str(r["term"])]
    residual = next((r["mean square"] for r in found.tables["anova"] if r["source"] == "Residual"), None)
    if len(slopes) != 1 or not isinstance(residual, int | float) or not slopes[0]["standard error"]:
        return math.nan
    square = float(slopes[0]["standard error"]) ** 2
    return (float(residual) + math.sqrt(float(residual) ** 2 + 4 * noise * square)) / (2 * square)
