"""What the attribution measures have in common: the column, when an answer is right, and what it is compared with."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.attribution import NEAR, Attributed, Attribution, Near, bins_rule, near_rule, tolerance_rule
from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Draws, Release, Side, Snooper, param
from sfumato.engines import Kind
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata
from sfumato.risk.excess import AGAINST, Against, Excess, What, against_rule, holdout_of, share, what_rule
from sfumato.risk.keys import RULES, missing_rule
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


def seed_rule() -> Any:
    """Declare the parameter `seed`, which every measure has for which `Snooper.coverage` and `Snooper.errors` matter."""
    return param(
        default=1,
        doc="seed of what is random in the snooper's file: whom it covers, which keys are wrong",
        low=0,
        integer=True,
    )


def snoopers_draws(seed: int) -> Draws:
    """Return the draws that the snooper's file is made with."""
    return Draws(seed).child("snooper")


def own_file(snooper: Snooper) -> str:
    """Return in words that a file of the snooper's own plays no role, if he has one."""
    return "" if snooper.external is None else "; his own file is not used: he has the original's keys"


class KeyedMeasure(DirectMeasure, abstract=True):
    """A measure of what keys say of a confidential column: when a value is right, and what a missing key means."""

    side: ClassVar[Side] = Side.RISK
    short: ClassVar[str] = ""
    """The name that the literature uses."""

    column: str = param(doc="the confidential column a snooper wants to know", columns="one", holds="anything")
    what: What = what_rule()
    near: Near = near_rule()
    tolerance: float = tolerance_rule()
    bins: int = bins_rule()
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"{self.short} of {self.column}"

    @property
    def definition(self) -> str:
        """Which of several definitions of the rate this is, in words."""
        return ""

    @property
    def beyond(self) -> str:
        """What the rate is compared with, in words."""
        return AGAINST["marginal"]

    @property
    def variant(self) -> str:
        """Which definition, what it is compared with, and the rule for missing keys."""
        parts = [self.definition, self.beyond if self.what == "excess" else "plain rate", RULES[self.missing]]
        return "; ".join(part for part in parts if part)

    def words(self, value: float, schema: Schema) -> str:
        """Return the rate in words."""
        if self.what == "rate":
            return f"{share(value)} of the answers about {self.column} are right"
        return f"the release adds {share(value)} of what was left to learn about {self.column}"

    def attack(self, **changes: Any) -> Attribution:
        """Return the attack whose answers are scored."""
        return Attribution(
            column=self.column,
            near=self.near,
            tolerance=self.tolerance,
            bins=self.bins,
            missing=self.missing,
            **changes,
        )

    def right_means(self, outcome: Release) -> str:
        """Return when an answer counts as right, in words."""
        if outcome.original.kind(self.column) is not Kind.NUMBER:
            return "right"
        return f"right ({NEAR[self.near].format(tolerance=self.tolerance, bins=self.bins)})"


class AttributionMeasure(KeyedMeasure, abstract=True):
    """A measure that scores what the attribution attack answers, minus what could be guessed without the release."""

    against: Against = against_rule()
    seed: int = seed_rule()

    @property
    def draws(self) -> Draws:
        """What is random in the snooper's file: the same for every measure with the same seed."""
        return snoopers_draws(self.seed)

    @property
    def beyond(self) -> str:
        """What the rate is compared with, in words."""
        return AGAINST[self.against]

    def holdout(self, outcome: Release) -> Microdata | None:
        """Return the people that the attack is compared on, None if it is compared with the marginal."""
        return None if self.against == "marginal" else holdout_of(outcome, self.label())

    @property
    def compared(self) -> str:
        """Where the baseline is taken from, in words."""
        return "for people who are not in the file" if self.against == "holdout" else "from the column alone"


def average(values: Numbers, counts: NDArray[Any], sentence: str) -> tuple[float, int]:
    """Return the mean of values over counted records, those without one (NaN) left out, and their number; refuse none."""
    known = ~np.isnan(values)
    n = int(counts[known].sum())
    if not n:
        raise NotApplicable(sentence)
    return float((values[known] * counts[known]).sum()) / n, n


def nobody(found: Attributed, column: str, where: str = "the original") -> str:
    """Return why there is nothing to score, in words."""
    if not len(found.targets.of):
        return f"no record of {where} has a value of '{column}' (and the keys that are needed), so there is nothing to attribute."
    if not len(found.held.of):
        return f"no released record has a value of '{column}' (and the keys that are needed), so nothing is attributed."
    return (
        f"no record of {where} that has '{column}' finds a released one with the same keys, so nothing is attributed. "
        "Use fewer or coarser keys (Snooper(precision=...)), or unmatched='wrong' or 'nearest' where there is such a choice."
    )


def excess_of(found: Attributed, right: Numbers, plain: Numbers, rest: tuple[float, int] | None, column: str) -> Excess:
    """Return the rate among those answered (NaN: not answered) with its baseline: from the marginal, or as measured on others."""
    counts = found.targets.count
    rate, n = average(right, counts, nobody(found, column))
    if rest is not None:
        return Excess(rate, n, *rest)
    return Excess(rate, n, average(np.where(np.isnan(right), np.nan, plain), counts, "")[0])
