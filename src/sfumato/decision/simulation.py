"""Uncertainty by Monte Carlo: any prior, target, loss and method, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.decision.loss import Loss
from sfumato.decision.observation import Observation
from sfumato.decision.prior import Sampled
from sfumato.decision.target import Target, User
from sfumato.errors import DataError, ParameterError

Numbers = NDArray[np.float64]
Over = Literal["worst", "expected"]
_FEWEST = 30
"""How many draws of the data must fit a published value, counted by their weights."""
_MORE = 10
"""How many times more draws judge the one most extreme z: it lies where the data are rare."""
_LEAST = 2_000
_AT_ONCE = 2_000_000
"""How many weights stand in memory at once."""


@dataclass(frozen=True)
class Estimate:
    """A simulated number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Simulation:
    """How uncertainty is simulated. With a prior that is not normal it depends on what is published, z.

    Published values z are drawn as the user expects them. For each, draws of the data from his prior are weighted by how well
    they fit z, and the loss of the best estimate is averaged. ``over="worst"`` then takes the most extreme of the simulated z,
    which is what the paper's inf and sup over z become: more extreme z that were not simulated stay possible. The extreme z is
    chosen with some draws and judged with others, so that it is not extreme by luck. ``over="expected"`` takes
    the mean over z instead.
    """

    draws: Draws = field(default_factory=Draws.secret)
    published: int = 200
    """How many values z are simulated."""
    data: int = 20_000
    """How many draws of the data are weighted for each z."""
    over: Over = "worst"

    def __post_init__(self) -> None:
        if not isinstance(self.draws, Draws):
            raise ParameterError("draws must be Draws(seed), or Draws.secret().")
        if self.over not in ("worst", "expected"):
            raise ParameterError(f"over must be 'worst' or 'expected'; got '{self.over}'.")
        if self.published < 2 or self.data < _LEAST:
            raise ParameterError(f"a simulation needs at least 2 published values and {_LEAST:,} draws of the data.")

    @property
    def words(self) -> str:
        """What was done, in words."""
        what = f"{self.published:,} simulated values of what is published"
        return f"the most extreme of {what}" if self.over == "worst" else f"the mean over {what}"

    def posterior(self, user: User, target: Target, published: Observation, loss: Loss, largest: bool) -> Estimate:
        """Return Ψ(X | Z) for the z at which it is largest (or smallest), or its mean over z, with an interval.

        Random numbers do not depend on the method's parameter, so neighbouring values of it can be compared.
        """
        own = self.draws.child("posterior", user.name, target.name)
        truth = user.prior.sample(own.generator("data"), self.published)
        z = published.sample(truth, own.generator("published"))
        first = _Draws.of(user, target, own.generator("first draws"), self.data)
        found = first.uncertainty(published, z, loss)
        if self.over == "expected":
            between = float(found.psi.std(ddof=1)) / math.sqrt(len(z))
            return _around(float(found.psi.mean()), math.hypot(between, found.error), min(len(z), found.fitting))
        at = int(found.psi.argmax() if largest else found.psi.argmin())
        second = _Draws.of(user, target, own.generator("second draws"), _MORE * self.data)
        judged = second.uncertainty(published, z[at : at + 1], loss)
        return _around(float(judged.psi[0]), judged.error, judged.fitting)

    def base(self, target: Target, loss: Loss) -> Estimate:
        """Return Ψ(Y) of a target's base distribution, exactly where there is a formula."""
        exact = target.base_uncertainty(loss)
        if exact is not None:
            return Estimate(exact, exact, exact)
        assert isinstance(target.base, Sampled)  # noqa: S101 - the others have a formula
        y = target.base.sample(self.draws.child("base", target.name).generator("data"), self.data)
        if y.shape[1] != 1:
            raise ParameterError(f"the base of target '{target.name}' must be a distribution of one number.")
        values = np.sort(y[:, 0])
        theta, psi = loss.best(values, np.full((1, len(values)), 1 / len(values)))
        spread = float(loss(values, theta[0]).std()) / math.sqrt(len(values))
        return _around(float(psi[0]), spread, len(values))


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the data in rising order of the target's value."""

    data: Numbers
    values: Numbers
    half: NDArray[np.bool_]
    """Which half of the draws one is in, whatever its value."""

    @classmethod
    def of(cls, user: User, target: Target, generator: np.random.Generator, count: int) -> _Draws:
        data = user.prior.sample(generator, count)
        values = target.values(data)
        order = np.argsort(values, kind="stable")
        return cls(data[order], values[order], order % 2 == 0)

    def uncertainty(self, published: Observation, z: Numbers, loss: Loss) -> _Posteriors:
        """Return Ψ(X | Z = z) for each z; refuse it where too few draws fit, counted by their weights."""
        found, apart, pull = np.empty(len(z)), np.empty(len(z)), np.zeros(len(self.data))
        step = max(1, _AT_ONCE // len(self.data))
        fewest = math.inf
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            fit = published.log_density(z[part], self.data)
            with np.errstate(invalid="ignore"):
                weights = np.exp(fit - fit.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
            fewest = min(fewest, float((1 / np.square(weights).sum(axis=1)).min()))
            if not fewest >= _FEWEST:  # also where nothing fits, which is no number
                raise DataError(
                    f"fewer than {_FEWEST} draws of the data fit what would be published, too few to say what a user knows then. "
                    f"Use more draws, Simulation(data={10 * len(self.data):,}), or a less precise publication."
                )
            found[part], apart[part], pulled = self._best(loss, weights)
            pull += pulled
        return _Posteriors(found, apart, pull, fewest)

    def _best(self, loss: Loss, weights: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return Ψ for each row of weights (j,), how far two estimates of it are apart (j,), and each draw's pull (count,).

        The estimate that is best for the draws does too well on them. One that is best for one half of them, on the other, does
        too badly; a mean of both losses has neither fault to first order (`Loss.optimism`).
        """
        theta, own = loss.best(self.values, weights)
        crossed = np.zeros(len(weights))
        for here in (self.half, ~self.half):
            fitted = weights[:, here]
            sums = fitted.sum(axis=1, keepdims=True)
            other, _ = loss.best(self.values[here], fitted / np.where(sums > 0, sums, 1.0))
            crossed += (weights[:, ~here] * loss(self.values[~here], other[:, None])).sum(axis=1)
        psi = loss.optimism * crossed + (1 - loss.optimism) * own
        # what is minimised does not move with the estimate, so only the weighted losses vary
        pull = (weights * (loss(self.values, theta[:, None]) - own[:, None])).sum(axis=0)
        return psi, crossed - own, pull


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """Ψ for some z, and what the draws of the data make it vary."""

    psi: Numbers
    apart: Numbers
    """How far the two losses that Ψ is a mean of are apart: it varies about as much by the choice of the estimate."""
    pull: Numbers
    """How much each draw of the data pulls at the sum of Ψ."""
    fitting: float
    """How many draws fit the z that fewest fit."""

    @property
    def error(self) -> float:
        """The standard error of the mean over z, from the draws of the data: the delta method, and the choice of estimates."""
        return float(np.sqrt(np.square(self.pull).sum() + np.square(self.apart).sum())) / len(self.psi)


def _around(value: float, error: float, draws: float) -> Estimate:
    """Return a value with the interval of a standard error from so many draws, on the logarithm."""
    from scipy.stats import t

    reach = math.exp(float(t.ppf(0.975, draws - 1)) * error / value) if value > 0 else 1.0
    return Estimate(value, value / reach, value * reach)
