"""Uncertainty by Monte Carlo: any prior, target, loss and method, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    chosen with one half of the draws and judged with the other, so that it is not extreme by luck. ``over="expected"`` takes
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
        first = _Draws.of(user, target, own.generator("first half"), self.data)
        psi = first.uncertainty(published, z, loss)
        if self.over == "expected":
            return _averaged(float(psi.mean()), first, published, z, loss)
        at = int(psi.argmax() if largest else psi.argmin())
        second = _Draws.of(user, target, own.generator("second half"), self.data)
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
        parts = np.array([loss.uncertainty(part) for part in np.array_split(y[:, 0], _BATCHES)])
        return _around(loss.uncertainty(y[:, 0]), parts)


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the data in rising order of the target's value."""

    data: Numbers
    values: Numbers

    @classmethod
    def of(cls, user: User, target: Target, generator: np.random.Generator, count: int) -> _Draws:
        data = user.prior.sample(generator, count)
        values = target.values(data)
        order = np.argsort(values, kind="stable")
        return cls(data[order], values[order])

    def part(self, number: int) -> _Draws:
        return _Draws(self.data[number::_BATCHES], self.values[number::_BATCHES])

    def uncertainty(self, published: Observation, z: Numbers, loss: Loss) -> Numbers:
        """Return Ψ(X | Z = z) for each z, shape (j,)."""
        found = np.empty(len(z))
        step = max(1, _AT_ONCE // len(self.data))
        for start in range(0, len(z), step):
            fit = published.log_density(z[start : start + step], self.data)
            with np.errstate(invalid="ignore"):
                weights = np.exp(fit - fit.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
            if not np.isfinite(weights).all() or (1 / np.square(weights).sum(axis=1)).min() < 30:
                raise DataError(
                    "fewer than 30 draws of the data fit what would be published, too few to say what a user knows then. "
                    f"Use more draws, Simulation(data={10 * len(self.data):,}), or a less precise publication."
                )
            found[start : start + step] = loss.best(self.values, weights)[1]
        return found


def _judged(drawn: _Draws, published: Observation, z: Numbers, loss: Loss) -> Estimate:
    """Return Ψ at one z, with the interval that parts of the draws give."""
    return _from_parts(float(drawn.uncertainty(published, z, loss)[0]), drawn, published, [z] * _BATCHES, loss)


def _averaged(value: float, drawn: _Draws, published: Observation, z: Numbers, loss: Loss) -> Estimate:
    """Return the mean over z, with the interval that parts of the draws give, each with z of its own."""
    return _from_parts(value, drawn, published, np.array_split(z, min(_BATCHES, len(z))), loss)


def _from_parts(value: float, drawn: _Draws, published: Observation, z: Sequence[Numbers], loss: Loss) -> Estimate:
    try:
        parts = [float(drawn.part(b).uncertainty(published, some, loss).mean()) for b, some in enumerate(z)]
    except DataError:
        return Estimate(value, 0.0, math.inf)  # too few draws in a part to say how sure the whole is
    return _around(value, np.array(parts))


def _around(value: float, parts: Numbers) -> Estimate:
    """Return a value with the interval that independent parts of the simulation give; on the logarithm, where it can be."""
    from scipy.stats import t

    reach = float(t.ppf(0.975, len(parts) - 1)) / math.sqrt(len(parts))
    if value > 0 and (parts > 0).all() and np.isfinite(parts).all():
        half = reach * float(np.log(parts).std(ddof=1))
        return Estimate(value, value * math.exp(-half), value * math.exp(half))
    half = reach * float(parts.std(ddof=1))
    return Estimate(value, max(value - half, 0.0), value + half)
