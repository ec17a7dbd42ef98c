"""Attacks by models and residual pictures: saturated models, separation, standard errors, residuals, probes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.base import (
    AMOUNT,
    HALF,
    LARGEST,
    RARE,
    SHARES,
    AttackTarget,
    AttackTrials,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    analysis_named,
    balanced,
    guess_amounts,
    leaks,
    yes_or_no,
)
from sfumato.mas.attacks.linear_questions import Planner, known_cells
from sfumato.mas.question import Analysis
from sfumato.mas.universe import Spec

# --- saturated
# Recipes 6 and 7: a model with a dummy for every level, one of which holds a single person.


class SaturatedModel(PolicyAttack):
    """A dummy for every level of the target's universe: the fitted value of the target's level is the target's value."""

    title = "saturated model, a dummy for one"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for one model about each target."""
        return guess_amounts(field, lambda server, _, target: fitted(server, target), AMOUNT)


def fitted(server: Server, target: AttackTarget) -> float:
    """Return the fitted value of the target's cell, from the coefficients of its dummies; NaN if it has no dummy of its own."""
    name = next(n for n, levels in target.universe.items() if levels != target.without[n])
    own = target.alone()[name][0]
    found = server.ask(target.universe, analysis_named("ols", formula=f"{AMOUNT} ~ C(`{name}`)"))
    if isinstance(found, Refusal):
        return math.nan
    rows = found.tables["coefficients"]
    told = [row for row in rows if f"[{own}]" in str(row["term"]).replace("[T.", "[")]
    values = [row["coefficient"] for row in (rows[0], *told)]
    return sum(v for v in values if isinstance(v, int | float)) if told else math.nan


# --- separation
# Recipe 9: a small cell with one outcome only. A message that there is no other outcome discloses that of everybody in it.


_FEW, _TRIES = 60, 3


class SeparationAttack(PolicyAttack, name="separation"):
    """A logistic model of an attribute that 2 % have, with a coefficient for a small group of the target.

    If nobody else in the group has it, the model is refused as separated, or its coefficient is very negative, unless the target
    has it. Nearly all are refused, and then "no" is guessed; right guesses are weighted so that this alone is worth one half.
    """

    title = "a small group with one outcome"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for one model about each target, of the smallest group available."""
        rows, scores, truths = [], [], []
        for trial, (server, world, target) in enumerate(field.each(4)):
            rng = Draws("groups").child(trial).generator("sets")
            planner = Planner(known_cells(world.ground), target.row, server, RARE, SHARES[RARE], rng)
            rows.append(target.row)
            scores.append(told(server, planner))
            truths.append(float(world.truths[RARE][target.row]))
        return balanced(yes_or_no(rows, scores, truths))


def told(server: Server, planner: Planner) -> float:
    """Return by how many records the group exceeds the expected number with the attribute; negative if the model is separated."""
    models = sorted(planner.questions(("logit",), _FEW), key=lambda question: question.readings[0].n)
    for question in models[:_TRIES]:
        found = server.ask(question.universe, question.analysis())
        if isinstance(found, Answer):
            own = question.readings[0]
            if values := [
                r.offset for r in question.told(found, server.policy.models.digits) if r.inside is own.inside
            ]:
                return values[0] - (own.n - 1) * SHARES[RARE] - 0.5
        elif found.rule == "separation":
            return -1.0
    return 0.0


# --- standard errors
# Recipe 6, extended: the standard error of a small group's slope reveals how the predictor varies there.


class StandardErrors(PolicyAttack):
    """A known number is regressed on the amount, separately in each group: is the target one of the very rich?

    The square of a slope's standard error is s²/Sxx + D/Sxx², where D is the variance of the noise, which a policy publishes. Sxx is
    that of the others, whose amounts have a known distribution, plus the square of the target's.
    """

    title = "standard errors of a small group"
    least: int = param(default=130, doc="fewest records of the group", low=20, integer=True)

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for one model about each target: half of them are very rich."""
        rows, scores, truths = [], [], []
        for rich in (True, False):
            for server, world, target in field.each(2, field.trials // 2, outliers=rich):
                rows.append(target.row)
                scores.append(self._score(server, world, target))
                truths.append(float(rich))
        return yes_or_no(rows, scores, truths)

    def _score(self, server: Server, world: PlantedDataset, target: AttackTarget) -> float:
        """Return by how much Sxx of the group exceeds the midpoint between rich and not rich."""
        name = next(iter(world.numbers), None)
        if name is None:
            raise NotApplicable(
                "standard errors are attacked with a known variable of numbers, and these data have none."
            )
        group = smallest_group(world, target, name, self.least)
        if group is None:
            return 0.0
        universe, by, level, n = group
        found = server.ask(universe, analysis_named("ols", formula=f"`{name}` ~ C(`{by}`) + C(`{by}`):`{AMOUNT}`"))
        if isinstance(found, Refusal):
            return 0.0
        amount, bounds = world.truths[AMOUNT], world.dataset.variables[AMOUNT].bounds
        usual, rich = amount[amount <= LARGEST], 2 * LARGEST
        if server.policy.amounts.clip and bounds is not None:
            usual, rich = np.clip(usual, *bounds), min(rich, bounds[1])
        reach = server.policy.models.sd * float(np.ptp(world.numbers[name])) / 2
        noise = reach**2 * ((rich / 2) ** 2 + (rich / 2 - float(usual.mean())) ** 2)
        squares = _squares(found, level, noise)
        return 0.0 if math.isnan(squares) else squares / (n * float(np.var(usual)) + rich**2 / 2) - 1


def smallest_group(
    world: PlantedDataset, target: AttackTarget, name: str, least: int
) -> tuple[Piece, str, str, int] | None:
    """Return a universe, a variable, the target's level of it, and the number of records with both: few, but enough to pass."""
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
    """Return Sxx of a group from its standard error and the mean square of residuals; NaN if not shown."""
    slopes = [r for r in found.tables["coefficients"] if f"[{level}]" in str(r["term"]) and AMOUNT in str(r["term"])]
    residual = next((r["mean square"] for r in found.tables["anova"] if r["source"] == "Residual"), None)
    if len(slopes) != 1 or not isinstance(residual, int | float) or not slopes[0]["standard error"]:
        return math.nan
    square = float(slopes[0]["standard error"]) ** 2
    return (float(residual) + math.sqrt(float(residual) ** 2 + 4 * noise * square)) / (2 * square)


# --- picture
# Recipe 10: the synthetic picture of residuals, many times, and with and without the target.


class RepeatedPicture(PolicyAttack):
    """The same picture many times: if it were drawn anew each time, the noise of its points would average out."""

    title = "one picture asked for 50 times"
    bar = 0.0
    times: int = param(default=50, doc="how often each picture is asked for", low=2, integer=True)

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for the picture of everybody; a leak is one that differs from the first."""
        found = []
        for server, world, _ in field.each(2, min(field.trials, 2)):
            answers = [picture(server, world, None) for _ in range(self.times)]
            found.append(len({answer.to_bytes() for answer in answers if answer is not None}) > 1)
        return leaks(found)


class PictureDifferencing(PolicyAttack):
    """Pictures of U and of U without the target: an outlier would be a separate point in one of them."""

    title = "differencing, pictures of residuals"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for two pictures about each target; the guess is the change of the largest residual, in units of the amount."""

        def change(server: Server, world: PlantedDataset, target: AttackTarget) -> float:
            return largest(server, world, target.universe) - largest(server, world, target.without)

        return guess_amounts(field, change, AMOUNT)


def picture(server: Server, world: PlantedDataset, universe: Piece | None) -> Answer | None:
    """Return the picture of the residuals of the amount on a known number; None if it is refused."""
    name = next(iter(world.numbers), None)
    if name is None:
        raise NotApplicable("pictures are attacked with a known variable of numbers, and these data have none.")
    found = server.ask(universe, analysis_named("residuals", formula=f"{AMOUNT} ~ `{name}`"))
    return found if isinstance(found, Answer) else None


def largest(server: Server, world: PlantedDataset, universe: Piece) -> float:
    """Return the largest residual of a picture in units of the amount; NaN if it is refused."""
    found = picture(server, world, universe)
    if found is None:
        return math.nan
    listed = (row.get("residual") for rows in found.tables.values() for row in rows)
    points = [float(value) for value in listed if isinstance(value, int | float)]
    usual = float(np.std(world.truths[AMOUNT]))  # the attacker is given the scale of a standardised residual
    return max(points, default=math.nan) * usual


# --- probes
# Recipes 8, 10, 11 and 13: requests that must be refused without quoting the data.


FORMULAS = (
    "{y} ~ 1/(abs({x}-89)+1e-6)", "{y} ~ I({x}**20)", "{y} ~ power({x}, 20)", "{y} ~ exp({x})",
    "{y} ~ I({x}==89)", "{y} ~ __import__('os').getcwd()", "{y} ~ eval('1')", "{y} ~ residuals({x})",
    "{y} ~ predict({x})", "{y} ~ cooks({x})", "{y} ~ max({x})", "{y} ~ offset({x})",
    "{y} ~ {x} | {x} == 89", "{y} ~ nan * {x}", "{y} ~ lambda: {x}", "{y} ~ {x};DROP TABLE records",
    "{y} ~ C({x}, levels=[89])", "{y} ~ weights({x})", "{y} ~ {x} + offset({y})", "nan ~ {x}", "{y} ~ {x} * inf",
)  # fmt: skip
"""Formulas that must be refused; y is the amount, x a known variable."""


class Probes(PolicyAttack):
    """Functions that single a person out, code in formulas, extremes, unknown levels: a leak is an answer, or an error
    that quotes the target's amount.
    """

    title = "formulas and errors that tell"
    bar = 0.0

    def run(self, field: AttackTrials) -> Guesses:
        """Send every probe."""
        found = []
        for server, world, target in field.each(2, min(field.trials, 10), outliers=True):
            found += [leaked(server, world, target, probe) for probe in probes(world, target)]
        return leaks(found)


Probe = Callable[[], tuple[Spec, Analysis]]
"""Builds a universe and an analysis; building them may already be refused."""


def probes(world: PlantedDataset, target: AttackTarget) -> Iterator[Probe]:
    """Yield hostile questions."""
    x = f"`{next(iter(world.numbers), HALF)}`"
    for formula in FORMULAS:
        yield partial(_model, formula.format(y=AMOUNT, x=x))
    yield lambda: ({AMOUNT: f"{world.truths[AMOUNT][target.row] + 1:.2f}"}, CrossTab((HALF,)))
    yield lambda: ({HALF: "1 OR 1=1"}, CrossTab((HALF,)))
    yield lambda: (None, analysis_named("quantiles", of=AMOUNT, p=(1.0,)))
    yield lambda: (None, analysis_named("quantiles", of=AMOUNT, p=(math.nan,)))
    yield lambda: ({AMOUNT: math.nan}, CrossTab((HALF,)))
    for kind, given in (
        ("cross_tab", {"by": [HALF]}),
        ("ols", {"formula": f"{AMOUNT} ~ {x}"}),
    ):  # a variable in place of the weights
        yield partial(_weighted, kind, given)


def leaked(server: Server, world: PlantedDataset, target: AttackTarget, probe: Probe) -> bool:
    """Send a probe; return whether it was answered, or refused with a message that contains the target's amount."""
    try:
        found = server.ask(*probe())
    except SfumatoError as error:
        return f"{world.truths[AMOUNT][target.row]:.2f}" in str(error)
    return not isinstance(found, Refusal)


def _weighted(kind: str, given: dict[str, Any]) -> tuple[Spec, Analysis]:
    return None, analysis_named(kind, **given, weighted=AMOUNT)


def _model(formula: str) -> tuple[Spec, Analysis]:
    return None, analysis_named("ols", formula=formula)
