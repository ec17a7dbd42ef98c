"""Targets and users: what is estimated, by whom, knowing what (RTA paper, sections 2.3.1 and 2.3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.decision.conditional import numbers
from sfumato.decision.loss import Loss, Quadratic
from sfumato.decision.prior import Normal, Prior, Sampled
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.decision.observation import Method

Numbers = NDArray[np.float64]
Kind = Literal["analytical", "confidential"]


@dataclass(frozen=True, eq=False)
class Target:
    """A function of the original data that users estimate (definition 2.3.1.1), with its base distribution (2.3.2.3).

    `of` holds weights c for c'D, a linear function of the k numbers D that a prior is about; or it is a function from draws
    (count, k) to values (count,). `base` is the distribution that knowledge of the target is compared with, or simply its
    uncertainty Ψ(Y): under quadratic loss, the base variance.
    """

    name: str
    of: Sequence[float] | Numbers | Callable[[Numbers], ArrayLike]
    base: Prior | float
    kind: Kind = "confidential"

    def __post_init__(self) -> None:
        if self.kind not in ("analytical", "confidential"):
            raise ParameterError(f"a target is 'analytical' or 'confidential'; got '{self.kind}'.")
        if not callable(self.of):
            weights = np.atleast_1d(numbers(self.of, f"the weights of target '{self.name}'"))
            if weights.ndim != 1 or not np.isfinite(weights).all():
                raise ParameterError(f"target '{self.name}' needs one finite weight for each number of the data.")
            object.__setattr__(self, "of", weights)
        if isinstance(self.base, Normal | Sampled):
            if isinstance(self.base, Normal) and (self.base.size != 1 or self.base.flat.size):
                raise ParameterError(f"the base of target '{self.name}' must be a distribution of one number.")
        elif not (isinstance(self.base, int | float | np.number) and 0 <= self.base < math.inf):
            raise ParameterError(
                f"the base of target '{self.name}' must be a distribution, or an uncertainty of at least 0."
            )

    @property
    def weights(self) -> Numbers | None:
        """The weights c of a linear target c'D, shape (k,); None for another function."""
        return None if callable(self.of) else np.asarray(self.of, np.float64)

    def values(self, data: Numbers) -> Numbers:
        """Return the target's value for each draw of the data, (count, k) to (count,)."""
        found = np.asarray(self.of(data) if callable(self.of) else data @ self._fitting(data.shape[1]), np.float64)
        if found.shape != (len(data),) or not np.isfinite(found).all():
            raise ParameterError(f"target '{self.name}' must give one finite number for each of {len(data)} draws.")
        return found

    def _fitting(self, k: int) -> Numbers:
        weights = self.weights
        if weights is None or len(weights) != k:
            count = 0 if weights is None else len(weights)
            raise ParameterError(f"target '{self.name}' has {count} weights, but a prior is about {k} numbers.")
        return weights

    def base_uncertainty(self, loss: Loss) -> float | None:
        """Return Ψ(Y), if it can be had without drawing."""
        if isinstance(self.base, Normal):
            return loss.normal(float(self.base.covariance[0, 0]))
        return None if isinstance(self.base, Sampled) else float(self.base)


@dataclass(frozen=True, eq=False)
class User:
    """Someone who estimates targets from what is published (definition 2.3.1.2), and what he knows before (2.3.2.1).

    `prior` is his distribution of the data D. He is an analyst of the analytical targets and an attacker of the confidential
    ones; `estimates` names those he cares about, where that is not all: a contributor does not attack himself. `sees` says how
    the published data look to him, where that is not as the method has it: Z_α of the paper, about his own D.
    """

    name: str
    prior: Prior
    estimates: Sequence[str] | None = None
    sees: Method | None = None

    def __post_init__(self) -> None:
        if isinstance(self.estimates, str):
            object.__setattr__(self, "estimates", (self.estimates,))
        if not isinstance(self.prior, Normal | Sampled):
            raise ParameterError(f"user '{self.name}' needs a prior: Normal(mean, covariance), or Sampled(function).")

    def estimates_target(self, target: Target) -> bool:
        """Whether he estimates a target."""
        return self.estimates is None or target.name in self.estimates


def prior_uncertainty(user: User, target: Target, loss: Loss | None = None) -> float:
    """Return Ψ(X), what a user with a normal prior does not know of a linear target before anything is published (2.3.3.4).

    Infinite where nothing is known.

    >>> prior_uncertainty(User("g", Normal([50, 40], [500, 200])), Target("total", [1, 1], base=100))
    700.0
    """
    if not isinstance(user.prior, Normal) or target.weights is None:
        raise ParameterError("the prior uncertainty has a formula for normal priors and linear targets only.")
    c = target._fitting(user.prior.size)
    variance = math.inf if (c @ user.prior.flat).any() else float(c @ user.prior.covariance @ c)
    return (loss or Quadratic()).normal(variance)
