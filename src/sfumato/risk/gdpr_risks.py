"""Singling out, linkability and inference: what attacks achieve beyond people who are not in the release (Giomi et al. 2022)."""

from __future__ import annotations

import math
from typing import ClassVar

from typing_extensions import override

from sfumato.attacks import InferValue, LinkColumns, SingleOut
from sfumato.attacks.holdout_attacks import ControlledAttack, Describing, InferenceTarget, Repeated, TwoFiles
from sfumato.contract import Draws, Need, Release, Score, Snooper, Success, param, success
from sfumato.errors import NotApplicable, plural
from sfumato.risk.keys import RiskMeasure, of_targets


class ControlledRisk(RiskMeasure, Repeated, abstract=True):
    """(a - c) / (1 - c): a is the share of right guesses about people in the file, c that about people of the holdout."""

    sentence: ClassVar[str] = (
        "a snooper gains {percent:.3g} % of what he could not do about people outside the file; 0 is ideal"
    )
    needs: ClassVar[frozenset[Need]] = frozenset({Need.HOLDOUT})
    attack: ClassVar[type[ControlledAttack]]
    achieved: ClassVar[str]
    """What a right guess is, a template: "... guesses <achieved>"."""

    seed: int = param(default=1, doc="seed of the attacker's draws", low=0, integer=True)

    @override
    @property
    def variant(self) -> str:
        return "beyond the same attack on the holdout"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Attack people of the original and of the holdout, and compare."""
        attack = self.attack(**{name: getattr(self, name) for name in self.attack.parameters()})
        draws = Draws(self.seed).child(self.name)
        guesses = attack.run(outcome, snooper, draws)
        control = attack.control(outcome, snooper, draws)
        if not len(guesses):
            return self.result(0.0, "the release gives the snooper nothing to attack with: he has no guess at all")
        inside, outside = success(guesses), success(control)
        value, interval = residual(inside, outside)
        informative = inside.interval[0] > inside.baseline
        words = (
            f"{_count(inside)} guesses {self.achieved.format(self=self)} about people in the file, and {_count(outside)} "
            f"about other people: {100 * value:.3g} % of what was left to learn comes from the release"
        )
        if value <= 0:
            words += ", no more than is true of anybody"
        if not informative:
            words += f"; not informative: the attack is no stronger than random guessing ({100 * inside.baseline:.3g} % right)"
        return self.result(
            value,
            words,
            interval=interval,
            details={
                "share right in the file": inside.rate,
                "its lower limit": inside.interval[0],
                "its upper limit": inside.interval[1],
                "share right in the holdout": outside.rate,
                "lower limit in the holdout": outside.interval[0],
                "upper limit in the holdout": outside.interval[1],
                "share right by random guessing": inside.baseline,
                "informative": float(informative),
                "guesses": float(inside.targets),
            },
            find_records=lambda: of_targets(outcome, guesses.target, guesses.right),
        )


def residual(inside: Success, outside: Success) -> tuple[float, tuple[float, float]]:
    """Return (a - c) / (1 - c) with an interval from the Wilson intervals of a and c.

    The value is 1 - q/r for the shares q and r of wrong guesses, so its interval is that of a ratio. It comes from those of q
    and r by Donner and Zou's method of variance recovery (2012), which is error propagation, as in Anonymeter
    (Giomi et al. 2022), with the distance to each limit in place of one standard error: it may be lopsided and is never above 1.

    >>> value, (low, high) = residual(Success(100, 1.0, (0.963, 1.0), 0.0), Success(100, 0.2, (0.133, 0.289), 0.0))
    >>> value, round(low, 2), high
    (1.0, 0.95, 1.0)
    """
    q, r = 1 - inside.rate, 1 - outside.rate
    if r <= 0:
        raise NotApplicable(
            "the attack is right about everybody who is not in the file as well, so there is nothing left to learn from the "
            "release."
        )
    (q_low, q_high), (r_low, r_high) = ((1 - s.interval[1], 1 - s.interval[0]) for s in (inside, outside))
    q_low, q_high, r_low, r_high = min(q_low, q), max(q_high, q), min(r_low, r), max(r_high, r)
    below, above = q_low * (2 * q - q_low), q_high * (2 * q - q_high)
    wide, narrow = r_high * (2 * r - r_high), r_low * (2 * r - r_low)
    root = q * r + math.sqrt(max((q * r) ** 2 - below * wide, 0.0))
    low = below / root if root > 0 else 0.0
    high = (q * r + math.sqrt(max((q * r) ** 2 - above * narrow, 0.0))) / narrow
    value = 1 - q / r
    return value, (min(1 - high, value), max(1 - low, value))


def _count(success: Success) -> str:
    return f"{success.rate * success.targets:,.4g} of {success.targets:,}"


class SinglingOut(ControlledRisk, Describing):
    """How much better a snooper can single people of the file out by descriptions from the release than other people.

    A guess is right if a description that fits one released record alone fits exactly one person. The holdout must be as large
    as the original. Per original record: 1 if some description singles it out, NaN if none does.
    Source: Opinion 05/2014; Giomi et al. 2022.
    """

    title: ClassVar[str] = "singling out"
    attack: ClassVar[type[ControlledAttack]] = SingleOut
    achieved: ClassVar[str] = "single one person out"

    @override
    @property
    def variant(self) -> str:
        what = "one column" if self.describe == "one column" else plural(self.width, "column")
        return f"descriptions by {what}; {super().variant}"


class Linkability(ControlledRisk, TwoFiles):
    """How much better a snooper can join two files about people of the file, through the release, than about other people.

    A guess is right if the two halves of a person's record have one of their k closest released records in common. Per original
    record: 1 if its halves were linked, 0 if not, NaN if it was not attacked. Source: Opinion 05/2014; Giomi et al. 2022.
    """

    title: ClassVar[str] = "linkability"
    attack: ClassVar[type[ControlledAttack]] = LinkColumns
    achieved: ClassVar[str] = "link the two halves of a record"

    @override
    @property
    def variant(self) -> str:
        return f"{plural(self.k, 'closest released record')}; {super().variant}"


class Inference(ControlledRisk, InferenceTarget):
    """How much better a snooper infers a value of people of the file from the release than a value of other people.

    A guess is the value of the released record that is closest to what he knows. What can be said of people outside the file as
    well is science, not disclosure. Per original record: the probability that the guess is right, NaN if it was not attacked.
    Source: Opinion 05/2014; Giomi et al. 2022.
    """

    title: ClassVar[str] = "inference of {self.column}"
    attack: ClassVar[type[ControlledAttack]] = InferValue
    achieved: ClassVar[str] = "of {self.column} are right"

    @override
    @property
    def variant(self) -> str:
        return f"numbers within {100 * self.tolerance:.3g} %; {super().variant}"
