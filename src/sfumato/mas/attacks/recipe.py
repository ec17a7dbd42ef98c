"""The shape of every recipe of the attack bench, and how its success is held against the bar."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Parametric
from sfumato.contract.attack import Guesses, Success, success
from sfumato.mas.attacks.server import Server, Tally
from sfumato.mas.attacks.target import Target
from sfumato.mas.attacks.world import World
from sfumato.mas.policy import Policy

ENOUGH = 400
"""The bar is for so many targets, or more."""
WITHIN = 0.20
"""A guess of a number is right if it is off by no more than this share."""


@dataclass(frozen=True, eq=False)
class Field:
    """Where a recipe is run: worlds, targets, one policy, and a count of what was refused."""

    worlds: Sequence[World]
    targets: Callable[[int], Sequence[Target]]
    """Targets of universes that are formed with so many variables."""
    policy: Policy
    trials: int = 400
    tally: Tally = field(default_factory=Tally)

    def each(
        self, conditions: int = 2, trials: int | None = None, *, outliers: bool | None = None
    ) -> Iterator[tuple[Server, World, Target]]:
        """Yield a fresh server and a target, as often as there are trials: other secrets, other tosses of the coin.

        With `outliers`, targets whose amounts are far above all others; without, if it is False, all but these.
        """
        pairs = [
            (world, target)
            for target in self.targets(conditions)
            for world in self.worlds
            if outliers is None or (target.row in world.outliers) is outliers
        ]
        for i in range((trials or self.trials) if pairs else 0):
            world, target = pairs[(i * 7) % len(pairs) if len(pairs) % 7 else i % len(pairs)]
            yield world.server(self.policy, self.tally, i), world, target


class Recipe(Parametric, family="attack recipe", abstract=True):
    """One attack of MAS.md, "Attacks to withstand"."""

    title: ClassVar[str] = ""
    bar: ClassVar[float] = 0.55
    """The largest share of right guesses that a policy may allow."""
    above: ClassVar[Literal["nothing", "baseline"]] = "nothing"
    """Whether the bar is counted from the baseline."""

    @abstractmethod
    def run(self, field: Field) -> Guesses:
        """Attack every target, and say what was guessed."""


@dataclass(frozen=True)
class Outcome:
    """How a policy fared against a recipe."""

    recipe: str
    title: str
    success: Success
    limit: float
    """The largest share that the bar allows."""
    refusal_rate: float
    refused: dict[str, int]
    """How many questions each rule refused."""

    @property
    def held(self) -> bool:
        """Whether the policy withstood."""
        return self.success.rate <= self.limit + 1e-12

    @property
    def verdict(self) -> Literal["withstood", "not clear", "BROKEN"]:
        """The same in a word; of few targets more than the bar allows may be right by chance, and then it is not clear."""
        if self.held:
            return "withstood"
        sure = self.success.targets >= ENOUGH or self.success.interval[0] > self.limit
        return "BROKEN" if sure else "not clear"


def outcome(recipe: Recipe, field: Field) -> Outcome:
    """Run a recipe and hold it against its bar."""
    found = success(recipe.run(field))
    limit = recipe.bar + (found.baseline if recipe.above == "baseline" else 0.0)
    tally = field.tally
    return Outcome(recipe.name, recipe.title, found, limit, tally.refusal_rate, dict(sorted(tally.refused.items())))


def yes_or_no(rows: Sequence[int], scores: Sequence[float], truths: Sequence[float], baseline: float = 0.5) -> Guesses:
    """Return guesses from scores: yes above 0, no below; at 0 the attacker tosses a coin."""
    score, truth = np.array(scores, np.float64), np.array(truths, np.float64)
    guess = (score > 0).astype(np.float64)
    right = np.where(score == 0, 0.5, guess == truth)
    return Guesses(np.array(rows, np.int64), guess, truth, right, np.full(len(truth), baseline), np.abs(score))


def balanced(guesses: Guesses) -> Guesses:
    """Weigh right answers so that their mean is the balanced accuracy: the mean over those with and those without."""
    yes = np.asarray(guesses.truth, bool)
    share = float(yes.mean())
    if share in (0.0, 1.0):
        return guesses
    weights = np.where(yes, 0.5 / share, 0.5 / (1 - share))
    return Guesses(
        guesses.target, guesses.guess, guesses.truth, guesses.right * weights, guesses.baseline, guesses.sure
    )


def numbers(rows: Sequence[int], guessed: Sequence[float], truths: Sequence[float]) -> Guesses:
    """Return guesses of numbers; the baseline is a placebo: the server holds another target's value."""
    guess, truth = np.array(guessed, np.float64), np.array(truths, np.float64)
    placebo = np.mean(
        [_near(guess, np.roll(truth, k)) for k in range(1, min(len(truth), 8))] or [np.zeros(len(truth))], axis=0
    )
    return Guesses(np.array(rows, np.int64), guess, truth, _near(guess, truth), placebo)


def leaks(found: Sequence[bool]) -> Guesses:
    """Return what is not a guess but must never happen: 1 where it did."""
    right = np.array(found, np.float64)
    return Guesses(np.arange(len(right)), right, np.ones(len(right)), right, np.zeros(len(right)))


def _near(guess: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(guess), np.abs(guess - truth) <= WITHIN * np.abs(truth), False).astype(np.float64)
