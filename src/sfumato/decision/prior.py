"""What a user knows: distributions of the data behind a publication, normal or given by a sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import NotApplicable, ParameterError

Numbers = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], ArrayLike]


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal distribution of k numbers: mean (k,), covariance (k, k). Infinite variances mean that nothing is known.

    Examples
    --------
    >>> Normal([50, 40, 5], [500, 200, 50]).covariance.diagonal().tolist()
    [500.0, 200.0, 50.0]
    """

    mean: Numbers
    covariance: Numbers
    flat: Numbers
    """Directions of which nothing is known, as columns of shape (k, f)."""

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        from sfumato.decision.conditional import numbers, whiten

        centre = np.atleast_1d(numbers(mean, "the mean of a prior"))
        spread = np.atleast_1d(numbers(covariance, "the covariance of a prior"))
        spread = np.diag(spread) if spread.ndim == 1 else spread.copy()
        if centre.ndim != 1 or spread.shape != (len(centre), len(centre)) or not len(centre):
            raise ParameterError(
                "a normal distribution of k numbers needs k means and k variances (or a k × k covariance)."
            )
        unknown = np.isposinf(np.diag(spread))
        rows = spread[unknown]
        rows[np.isposinf(rows)] = 0.0
        if rows.any():
            raise ParameterError(
                "a number of which nothing is known (infinite variance) has no covariances: put zeros."
            )
        spread[np.ix_(unknown, unknown)] = 0.0
        if not np.isfinite(centre).all():
            raise ParameterError("the means of a normal distribution must be finite numbers.")
        whiten(spread, "the covariance of a prior")  # refuses what is no covariance
        flat = np.eye(len(centre))[:, unknown]
        for field, value in (("mean", centre), ("covariance", spread), ("flat", flat)):
            object.__setattr__(self, field, value)

    @classmethod
    def unknown(cls, k: int = 1) -> Normal:
        """Return the flat prior of k numbers of which nothing is known (R-U paper, section 3)."""
        return cls(np.zeros(k), np.full(k, np.inf))

    @property
    def size(self) -> int:
        """The number of numbers."""
        return len(self.mean)

    def sample(self, generator: np.random.Generator, count: int) -> Numbers:
        """Draw, shape (count, k)."""
        from sfumato.kernels.moments import covariance_root

        if self.flat.size:
            raise NotApplicable("a flat prior cannot be drawn from. Give it a large but finite variance instead.")
        z = generator.standard_normal((count, self.size))
        return np.asarray(self.mean + z @ covariance_root(self.covariance).T)


@dataclass(frozen=True, eq=False)
class Sampled:
    """Any other distribution of k numbers, given by a function that draws: (generator, count) -> (count, k).

    Examples
    --------
    >>> wages = Sampled(lambda generator, count: generator.gamma(2.0, 25.0, (count, 3)))
    >>> wages.sample(np.random.default_rng(1), 5).shape
    (5, 3)
    """

    draw: Sampler

    @classmethod
    def independent(cls, distributions: Sequence[Any]) -> Sampled:
        """Return independent numbers, each with a distribution of `scipy.stats` (anything with `rvs`)."""
        if not distributions or not all(hasattr(d, "rvs") for d in distributions):
            raise ParameterError("give one distribution of scipy.stats for each number, such as [gamma(2, scale=25)].")
        made = tuple(distributions)
        return cls(lambda g, count: np.column_stack([d.rvs(size=count, random_state=g) for d in made]))

    def sample(self, generator: np.random.Generator, count: int) -> Numbers:
        """Draw, shape (count, k)."""
        drawn = np.asarray(self.draw(generator, count), np.float64)
        drawn = drawn[:, None] if drawn.ndim == 1 else drawn
        if drawn.ndim != 2 or len(drawn) != count or not np.isfinite(drawn).all():
            raise ParameterError(
                f"a prior's sampler must return finite numbers of shape ({count}, k) when it is asked for {count} draws."
            )
        return drawn


Prior = Normal | Sampled
