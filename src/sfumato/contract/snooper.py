"""What the attacker knows, the shape of every attack, and the one way in which guesses are scored."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parametric, param
from sfumato.contract.release import Release
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable
from sfumato.lazy import special
from sfumato.typing import Numbers, Whole

Strategy = Literal["naive", "bayes"]


def _file() -> Any:
    """Declare a file that he has: like what is learned from data it is never written or shown, but it tells snoopers apart."""
    return dataclasses.field(default=None, repr=False, metadata={"learned": ()})


class Snooper(Parametric, family="snooper"):
    """What a data snooper knows about a target, and how cleverly he uses it.

    The snooper of the R-U paper has index knowledge (he knows which record is the target's) and takes the released
    value as it is: that is ``Snooper()``. A Bayes snooper also knows the mean and spread of the variable, and shrinks;
    he can do so only if the noise level is published, or if he can work it out because he knows the variance.

    To find a record in the first place he compares what he knows of the target (`keys`, numbers to within `precision`) with
    the released file. What he knows stands in a file of his own (`external`), or is taken from the original: for a share of
    the persons (`coverage`), each value wrong with some probability (`errors`). A `population` table tells how many persons
    outside the release look the same: records, or counts in a column with the role weight. Neither file is ever written.

    Examples
    --------
    >>> Snooper(match_probability=0.8).describe()
    'links the right record with probability 0.8; takes the released value as it is; is not told the noise level'
    """

    strategy: Strategy = param(
        default="naive", doc="takes the released value as it is, or shrinks", choices=("naive", "bayes")
    )
    match_probability: float = param(
        default=1.0, doc="probability that his linkage finds the right record", low=0, high=1
    )
    covariates: tuple[str, ...] = param(default=(), doc="unmasked columns he also knows of the target", columns="many")
    parameter_published: bool = param(default=False, doc="whether the noise level is published")
    keys: tuple[str, ...] = param(
        default=(), doc="columns he knows of a target; the schema's keys if none", columns="many", holds="anything"
    )
    precision: Mapping[str, float] = param(
        default={}, doc="width of the intervals to which he knows a numeric key", columns="weights", low=0, above=True
    )
    coverage: float = param(default=1.0, doc="share of the persons that his file covers", low=0, above=True, high=1)
    errors: float = param(default=0.0, doc="probability that a value in his file is wrong", low=0, high=1)
    external: Microdata | None = _file()
    population: Microdata | None = _file()

    def __hash__(self) -> int:
        return hash((*self.precision.items(), *(v for k, v in vars(self).items() if k != "precision")))

    def describe(self) -> str:
        """Return the snooper's knowledge in words."""
        parts = []
        if self.match_probability == 1:
            parts.append("knows which record is the target's")
        else:
            parts.append(f"links the right record with probability {self.match_probability:g}")
        if self.covariates:
            parts.append("knows " + ", ".join(self.covariates))
        if self.keys:
            parts.append("looks for records by " + ", ".join(self.keys))
        parts += [f"knows {name} to within {width:g}" for name, width in self.precision.items()]
        parts += self._files()
        parts.append("shrinks" if self.strategy == "bayes" else "takes the released value as it is")
        parts.append("is told the noise level" if self.parameter_published else "is not told the noise level")
        return "; ".join(parts)

    def looks_by(self, keys: Iterable[str]) -> str:
        """Return in words how he finds records, given the keys that he looks by (his own, or the schema's)."""
        widths = self.precision
        named = [f"{name} (to within {widths[name]:g})" if name in widths else name for name in keys]
        return "; ".join([f"knows {', '.join(named)} of a person", *self._files()])

    def _files(self) -> list[str]:
        parts = []
        if self.external is not None:
            parts.append("has a file of his own")
        if self.coverage < 1:
            parts.append(f"has {100 * self.coverage:g} % of the persons in his file")
        if self.errors > 0:
            parts.append(f"has {100 * self.errors:g} % wrong values in his file")
        if self.population is not None:
            parts.append("has a table of the population")
        return parts


@dataclass(frozen=True, eq=False)
class Guesses:
    """What an attack concluded about each of m targets: for the custodian's eyes only."""

    target: Whole
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
    z = float(special.ndtri(0.5 + level / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))  # whatever the rounding
