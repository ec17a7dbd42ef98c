"""What a release adds to what anybody could guess: the rate of right answers beyond a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sfumato.charts.words import counted
from sfumato.contract import Release, Success, param, wilson
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata
from sfumato.risk.controlled import residual

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
    effective: float | None = None
    """How many independent answers the rate is worth; n, if None."""
    effective_baseline: float | None = None
    """The same of the baseline."""

    @property
    def value(self) -> float:
        """(rate - baseline) / (1 - baseline): what the release added, as a share of what was left to learn."""
        if self.baseline >= 1:
            self._check_left()
            return 0.0
        return round((self.rate - self.baseline) / (1 - self.baseline), 15)  # 0.6 - 0.5 is not 0.1

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the rate, moved; with an estimated baseline that of a ratio of two shares (see `residual`)."""
        if self.n_baseline is not None:
            self._check_left()
            sides = (self.rate, self.effective or self.n), (self.baseline, self.effective_baseline or self.n_baseline)
            inside, outside = (Success(round(n), rate, wilson(rate * n, n), 0.0) for rate, n in sides)
            return residual(inside, outside)[1]
        if self.baseline >= 1:
            return (0.0, 0.0)
        low, high = self._of_rate
        return (low - self.baseline) / (1 - self.baseline), min(1.0, (high - self.baseline) / (1 - self.baseline))

    @property
    def _of_rate(self) -> tuple[float, float]:
        n = self.effective or self.n
        return wilson(self.rate * n, n)

    def _check_left(self) -> None:
        """Refuse a share of nothing: what a few others would not have told is not known."""
        if self.n_baseline is not None and self.baseline >= 1:
            raise NotApplicable(
                f"the same attack is right about all of the {counted(self.n_baseline, 'record')} of the holdout that it answers "
                "for, so that nothing is left of which the release could add a share. Take a larger holdout, more keys, or "
                "what='rate'."
            )

    def choose(self, what: What) -> tuple[float, tuple[float, float]]:
        """Return the value that was asked for, and its interval."""
        return (self.rate, self._of_rate) if what == "rate" else (self.value, self.interval)

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
