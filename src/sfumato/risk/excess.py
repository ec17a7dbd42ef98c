"""What a release adds to what anybody could guess: the rate of right answers beyond a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.contract import Release, param, wilson
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata

Against = Literal["marginal", "holdout"]
What = Literal["excess", "rate"]
AGAINST = {
    "marginal": "beyond a guess from the column alone",
    "holdout": "beyond the same attack on people who are not in the file",
}
"""What a rate is compared with, in words."""


def against_rule() -> Any:
    """Declare the parameter `against`, which every measure that has a baseline has."""
    return param(
        default="marginal",
        doc="what the attack is compared with: guessing from the column alone, or the same attack on a holdout",
        choices=tuple(AGAINST),
    )


def what_rule() -> Any:
    """Declare the parameter `what`."""
    return param(
        default="excess",
        doc="whether the score is what the release adds to the baseline, or the plain rate",
        choices=("excess", "rate"),
    )


@dataclass(frozen=True)
class Excess:
    """A rate of right answers among n targets, and the rate of a baseline: known, or estimated from so many others.

    >>> Excess(0.6, 100, 0.5).value
    0.2
    """

    rate: float
    n: int
    baseline: float
    n_baseline: int | None = None
    """How many people the baseline was measured on; None where it is known."""

    @property
    def value(self) -> float:
        """(rate - baseline) / (1 - baseline): what the release added, as a share of what was left to learn."""
        if self.baseline >= 1:
            return 0.0
        return round((self.rate - self.baseline) / (1 - self.baseline), 15)  # 0.6 - 0.5 is not 0.1

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the rate, moved; with an estimated baseline Newcombe's (1998, method 10) for the difference.

        The difference is divided by 1 - baseline as it was found.
        """
        low, high = wilson(self.rate * self.n, self.n)
        difference, left = self.rate - self.baseline, 1 - self.baseline
        below, above = self.rate - low, high - self.rate
        if self.n_baseline is not None:
            first, last = wilson(self.baseline * self.n_baseline, self.n_baseline)
            below = math.hypot(below, last - self.baseline)
            above = math.hypot(above, self.baseline - first)
        if left <= 0:
            return (0.0, 0.0)
        return (difference - below) / left, min(1.0, (difference + above) / left)

    def choose(self, what: What) -> tuple[float, tuple[float, float]]:
        """Return the value that was asked for, and its interval."""
        if what == "rate":
            return self.rate, wilson(self.rate * self.n, self.n)
        return self.value, self.interval

    @property
    def details(self) -> dict[str, float]:
        """What stands beside the score."""
        found = {
            "rate": self.rate, "baseline": self.baseline, "rate minus baseline": self.rate - self.baseline,
            "targets": float(self.n),
        }  # fmt: skip
        return found if self.n_baseline is None else {**found, "holdout targets": float(self.n_baseline)}


def holdout_of(outcome: Release, who: str) -> Microdata:
    """Return the records set aside before masking, or refuse."""
    if outcome.holdout is None:
        raise NotApplicable(
            f"'{who}' is compared with a holdout, but the release has none. Set records aside before masking, "
            "or compare with against='marginal'."
        )
    return outcome.holdout


def share(value: float) -> str:
    """Return a share for people: '12.5 %'.

    >>> share(0.12543)
    '12.5 %'
    """
    return f"{100 * value:.3g} %"
