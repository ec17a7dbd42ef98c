"""Two universes that differ by one person, subtracted: counts, amounts, models, ranges, averaged, skewed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.errors import NotApplicable
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.base import (
    AMOUNT,
    HALF,
    LARGE,
    LEVELS,
    RARE,
    AttackTarget,
    AttackTrials,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    analysis_named,
    guess_amounts,
    numbers,
    own_sum,
    yes_or_no,
)
from sfumato.mas.universe import Spec

# --- differencing
# Recipe 1: two universes that differ by one person, subtracted.


class Differencing(PolicyAttack):
    """Counts of an attribute in U and in U without the target: the difference is the target's, up to drops and noise."""

    title = "differencing, counts"
    attribute: ClassVar[str] = HALF
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: AttackTrials) -> Guesses:
        """Ask two questions about each target."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(self.conditions):
            rows.append(target.row)
            scores.append(difference(server, *target.pair(), self.attribute))
            truths.append(float(world.truths[self.attribute][target.row]))
        return yes_or_no(rows, scores, truths)


def difference(server: Server, larger: Spec, smaller: Spec, by: str) -> float:
    """Return by how many "yes" less "no" a universe exceeds another; 0 if nothing can be learned."""
    one = server.counts(larger, by)
    two = server.counts(smaller, by) if one is not None else None
    if one is None or two is None:
        return 0.0
    change = {level: one[level] - two[level] for level in ("yes", "no")}
    return sum(sign * change[level] for level, sign in (("yes", 1), ("no", -1)) if not math.isnan(change[level]))


# --- narrow
# Recipe 1 as printed: {F, S03, 60-89} against the same with race in {W, B, A}.


class NarrowDifferencing(Differencing):
    """Differencing with universes of four variables, where many persons are alone."""

    title = "differencing, four variables"
    conditions: int = param(
        default=4, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )


# --- skewed
# Recipe 2: differencing where nearly all records are alike, so that drops seldom touch the target's cell.


class SkewedDifferencing(Differencing):
    """Differencing on an attribute that 98 % of the universe do not have."""

    title = "differencing, 98 % alike"
    attribute = RARE


# --- padded
# Recipe 3, averaged: the same difference many times, each time with other records added to both universes.


class PaddedPairs(PolicyAttack):
    """Pairs of universes U + P and V + P with many P: each pair has new drops and noise, but the same difference."""

    title = "padded pairs, averaged"
    pairs: int = param(default=10, doc="pairs of universes for each target", low=1, high=100, integer=True)
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: AttackTrials) -> Guesses:
        """Ask two questions for each pad, and sum the differences."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(self.conditions):
            number = min(self.pairs, len(target.pads))
            rows.append(target.row)
            scores.append(sum(difference(server, *target.pair(i), HALF) for i in range(number)))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


# --- equal answers
# Equal answers: where drops and noise depend on the set of records, they prove that two sets are equal.


class EqualAnswers(PolicyAttack):
    """Records with the attribute in U, and in U without the target: equal answers, if the target does not have it."""

    title = "equality of answers"

    def run(self, field: AttackTrials) -> Guesses:
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


# --- amounts
# Recipe 1 for numbers: sums and means of two universes that differ by one person, subtracted.


class AmountDifferencing(PolicyAttack):
    """The sum in U less the sum in U without the target; means times counts, where sums are not shown."""

    title = "differencing, an ordinary amount"
    bar, above = 0.05, "baseline"
    outliers: bool = param(default=False, doc="whether the targets have amounts far above all others")
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: AttackTrials) -> Guesses:
        """Ask two questions about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(self.conditions, outliers=self.outliers):
            rows.append(target.row)
            larger, smaller = (total(server, piece) for piece in target.pair())
            guessed.append(larger - smaller)
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


class OutlierDifferencing(AmountDifferencing):
    """The same for persons with amounts far above all others: drops hardly perturb them."""

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


# --- models
# Recipe 1 for models: the coefficients of two universes give two sums of the outcome, and their difference.


class ModelDifferencing(PolicyAttack):
    """A regression of the amount on variables that the attacker knows: its normal equations hold the sum of the outcome.

    With an intercept, n b0 + b1 Σx = Σy, and n and Σx come from a register of the known variables of everybody.
    """

    title = "differencing, coefficients"
    bar, above = 0.05, "baseline"
    conditions: int = param(
        default=2, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for two models about each target."""
        rows, guessed, truths = [], [], []
        for server, world, target in field.each(self.conditions, outliers=True):
            rows.append(target.row)
            guessed.append(outcome_sum(server, world, target.universe) - outcome_sum(server, world, target.without))
            truths.append(float(world.truths[AMOUNT][target.row]))
        return numbers(rows, guessed, truths)


def outcome_sum(server: Server, world: PlantedDataset, piece: Piece) -> float:
    """Return the sum of the amount in a universe implied by the coefficients; NaN if they are refused."""
    name = next((n for n in world.numbers), None)
    if name is None:
        raise NotApplicable("models are attacked with a known variable of numbers, and these data have none.")
    found = server.ask(piece, analysis_named("ols", formula=f"{AMOUNT} ~ `{name}`"))
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


# --- cutpoints
# Recipe 5: a range of a variable with cutpoints, and the same moved by one cutpoint.


class MovedCutpoints(PolicyAttack):
    """Ranges that end with the bin in which the target is alone, or one before it: upwards, downwards, and of every width."""

    title = "cutpoints moved by one"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask two questions for each range about a target, and sum the differences."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            pairs = list(ranges(target, world))
            if pairs:
                rows.append(target.row)
                scores.append(sum(difference(server, *pair, HALF) for pair in pairs))
                truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def ranges(target: AttackTarget, world: PlantedDataset) -> Iterator[tuple[Piece, Piece]]:
    """Yield pairs of universes whose ranges differ by the target's bin; none, if the target is alone in no bin."""
    cell = target.alone()
    for name, own in cell.items():
        variable = world.dataset.variables[name]
        if variable.cutpoints is None or len(own) != 1:
            continue
        at = variable.levels.index(own[0])
        for wide in (LEVELS - 1, LEVELS - 2, LEVELS - 3):
            for near in (variable.levels[max(at - wide, 0) : at], variable.levels[at + 1 : at + 1 + wide]):
                if near:
                    yield {**cell, name: (*near, *own)}, {**cell, name: tuple(near)}


# --- dominant
# Recipe 12: a sum with one contributor of more than 90 %.


class DominantContributor(PolicyAttack):
    """Sums of an amount that hardly anybody else has, in every cell of the target: the sum is nearly the target's amount."""

    title = "one contributor with over 90 % of a sum"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for the sums of each target's cells, and take the median of those shown."""

        def median(server: Server, world: PlantedDataset, target: AttackTarget) -> float:
            shown = [dominant_total(server, world, target, name) for name in target.universe]
            return float(np.nanmedian(shown)) if not np.isnan(shown).all() else math.nan

        return guess_amounts(field, median, LARGE)


def dominant_total(server: Server, world: PlantedDataset, target: AttackTarget, by: str) -> float:
    """Return the sum for the target's level of a variable, within the other conditions of the universe; NaN if not shown."""
    universe = {name: levels for name, levels in target.universe.items() if name != by}
    own = world.dataset.variables[by].levels[int(world.codes[by][target.row])]
    return own_sum(server, universe, by, own, LARGE)


# --- extremes
# Recipe 11: the largest quantile that may be requested.


class LargestQuantile(PolicyAttack):
    """The 99.9 % quantile of a universe that holds an outlier."""

    title = "P99.9 of an outlier's universe"
    bar, above = 0.05, "baseline"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask one question about each target."""
        return guess_amounts(field, lambda server, _, target: largest(server, target.universe), AMOUNT)


def largest(server: Server, universe: Spec) -> float:
    """Return the 99.9 % quantile; NaN if it is not shown."""
    found = server.ask(universe, analysis_named("quantiles", of=AMOUNT, p=(0.999,)))
    if isinstance(found, Refusal):
        return math.nan
    shown = [
        value for rows in found.tables.values() for row in rows if isinstance(value := row.get("value"), int | float)
    ]
    return float(max(shown, default=math.nan))
