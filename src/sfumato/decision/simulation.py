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
_BATCHES = 20
_MORE = 3
"""How many times more draws judge the one most extreme z: it lies where the data are rare."""
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
        if self.over not in ("worst", "expected"):
            raise ParameterError(f"over must be 'worst' or 'expected'; got '{self.over}'.")
        if self.published < 2 or self.data < 100 * _BATCHES:
            raise ParameterError(
                f"a simulation needs at least 2 published values and {100 * _BATCHES:,} draws of the data."
            )

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
        psi = first.uncertainty(published, z, loss)
        if self.over == "expected":
            return _averaged(psi, first, published, z, loss)
        at = int(psi.argmax() if largest else psi.argmin())
        second = _Draws.of(user, target, own.generator("second draws"), _MORE * self.data)
        return _judged(second, published, z[at : at + 1], loss)

    def base(self, target: Target, loss: Loss) -> Estimate:
        """Return Ψ(Y) of a target's base distribution, exactly where there is a formula."""
        exact = target.base_uncertainty(loss)
        if exact is not None:
            return Estimate(exact, exact, exact)
        assert isinstance(target.base, Sampled)  # noqa: S101 - the others have a formula
        y = target.base.sample(self.draws.child("base", target.name).generator("data"), self.data)
        if y.shape[1] != 1:
            raise ParameterError(f"the base of target '{target.name}' must be a distribution of one number.")
        value = loss.uncertainty(y[:, 0])
        parts = np.array([loss.uncertainty(np.delete(y[:, 0], slice(b, None, _BATCHES))) for b in range(_BATCHES)])
        return _around(value, float(math.sqrt((_BATCHES - 1) * parts.var()) / value) if value > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the data in rising order of the target's value."""

    data: Numbers
    values: Numbers
    group: NDArray[np.int64]
    """Which group of the jackknife a draw is in, whatever its value."""

    @classmethod
    def of(cls, user: User, target: Target, generator: np.random.Generator, count: int) -> _Draws:
        data = user.prior.sample(generator, count)
        values = target.values(data)
        order = np.argsort(values, kind="stable")
        return cls(data[order], values[order], order % _BATCHES)

    def without(self, number: int) -> _Draws:
        """Leave out a group."""
        kept = self.group != number
        return _Draws(self.data[kept], self.values[kept], self.group[kept])

    def uncertainty(self, published: Observation, z: Numbers, loss: Loss, fewest: float = 30.0) -> Numbers:
        """Return Ψ(X | Z = z) for each z, shape (j,); refuse it where too few draws fit, counted by their weights."""
        found = np.empty(len(z))
        step = max(1, _AT_ONCE // len(self.data))
        for start in range(0, len(z), step):
            fit = published.log_density(z[start : start + step], self.data)
            with np.errstate(invalid="ignore"):
                weights = np.exp(fit - fit.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
            if not np.isfinite(weights).all() or (1 / np.square(weights).sum(axis=1)).min() < fewest:
                raise DataError(
                    "fewer than 30 draws of the data fit what would be published, too few to say what a user knows then. "
                    f"Use more draws, Simulation(data={10 * len(self.data):,}), or a less precise publication."
                )
            found[start : start + step] = loss.best(self.values, weights)[1]
        return found


def _judged(drawn: _Draws, published: Observation, z: Numbers, loss: Loss) -> Estimate:
    """Return Ψ at one z, with its interval."""
    value = float(drawn.uncertainty(published, z, loss)[0])
    return _around(value, _spread(drawn, published, z, loss))


def _averaged(psi: Numbers, drawn: _Draws, published: Observation, z: Numbers, loss: Loss) -> Estimate:
    """Return the mean over z, with its interval: z were drawn, and so were the data that are weighted for them."""
    value = float(psi.mean())
    between = float(psi.std(ddof=1)) / value if value > 0 else 0.0
    return _around(value, math.hypot(between / math.sqrt(len(psi)), _spread(drawn, published, z[:_BATCHES], loss)))


def _spread(drawn: _Draws, published: Observation, z: Numbers, loss: Loss) -> float:
    """Return the relative standard error of a mean over some z that the draws of the data make: the jackknife over groups."""
    parts = np.array([drawn.without(b).uncertainty(published, z, loss, fewest=1.0).mean() for b in range(_BATCHES)])
    if not parts.mean() > 0:
        return 0.0
    return float(math.sqrt((_BATCHES - 1) * parts.var()) / parts.mean())


def _around(value: float, error: float) -> Estimate:
    """Return a value with the interval of a relative standard error, on the logarithm."""
    from scipy.stats import t

    reach = math.exp(float(t.ppf(0.975, _BATCHES - 1)) * error)
    return Estimate(value, value / reach, value * reach)
