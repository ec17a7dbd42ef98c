"""The shape of every attack, and the one way in which what it guessed is scored."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parametric
from sfumato.contract.release import Release
from sfumato.contract.snooper import Snooper
from sfumato.errors import DataError, NotApplicable

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Guesses:
    """What an attack concluded about each of m targets: for the custodian's eyes only."""

    target: NDArray[np.int64]
    """Id of the original record that was attacked, shape (m,)."""
    guess: NDArray[Any]
    """The answer, shape (m,): the id of a record, or the code of a value; one of the best, where several tie."""
    truth: NDArray[Any]
    """The right answer in the same terms, shape (m,)."""
    right: Numbers
    """Probability that the answer is right, shape (m,): 1 or 0, or 1/t where the truth is one of t answers that tie."""
    baseline: Numbers
    """The same for somebody who does the same without this release, shape (m,)."""
    sure: Numbers | None = None
    """How sure the attacker is of each answer, shape (m,); larger is surer."""

    def __post_init__(self) -> None:
        for name in ("guess", "truth", "right", "baseline"):
            if len(getattr(self, name)) != len(self.target):
                raise DataError(f"an attack gave {name} for another number of targets than it attacked.")

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True)
class Success:
    """How well an attack did, with Wilson's interval for the share of right answers."""

    targets: int
    rate: float
    interval: tuple[float, float]
    baseline: float
    level: float = 0.95

    @property
    def excess(self) -> float:
        """(rate - baseline) / (1 - baseline): what the release added, as a share of what was left to learn."""
        return (self.rate - self.baseline) / (1 - self.baseline) if self.baseline < 1 else 0.0


class Attack(Parametric, family="attack", abstract=True):
    """A snooper as code: he looks at the release and what he knows, and answers about each target."""

    @abstractmethod
    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack a release; the same draws give the same guesses."""


def success(guesses: Guesses, level: float = 0.95) -> Success:
    """Score guesses; refuse to score none."""
    if not len(guesses):
        raise NotApplicable("there is nobody to attack: no record has what the snooper needs to know.")
    count, right = len(guesses), float(guesses.right.sum())
    return Success(count, right / count, wilson(right, count, level), float(guesses.baseline.mean()), level)


def wilson(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval for a share.

    >>> low, high = wilson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))  # whatever the rounding
