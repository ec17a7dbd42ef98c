"""The general disclosure-control model: priors, targets, users, losses and methods (RTA paper, section 2)."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import NotApplicable, ParameterError, join_names, refuse_unknown, unknown_name
from sfumato.kernels.moments import covariance_root
from sfumato.lazy import special
from sfumato.papers.conditional import numbers, whiten
from sfumato.typing import Numbers

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

# Targets and users: what is estimated, by whom, knowing what (RTA paper, sections 2.3.1 and 2.3.2).

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
    sees: DisclosureMethod | None = None

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


# Loss functions: how much an error costs a user, and what uncertainty that leaves (RTA paper, section 2.3.3).


_ROUNDING = 1e-14
"""Relative to a value: 0.9 is within 0.1 of 0.8, however these are rounded."""


class Loss(ABC):
    """The loss f(a, θ) of estimating a target value a by θ (definition 2.3.3.1).

    Uncertainty is the smallest expected loss, Ψ(A) = min over θ of E f(A, θ) (definitions 2.3.3.4 and 2.3.3.5), and certainty
    its reciprocal. For a normal target it depends on the variance alone, and rises with it.
    """

    name: str
    optimism: float = 1 / 3
    """Weight of the loss on other draws, where a distribution is known by draws only: Ψ on n draws is too small by c/n, and the
    loss on one half of them of what is best for the other too large by 2c/n."""

    @abstractmethod
    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return f(a, θ)."""

    @abstractmethod
    def normal(self, variance: float) -> float:
        """Return Ψ of a normal target with this variance; infinite variance is allowed."""

    @abstractmethod
    def normal_variance(self, uncertainty: float) -> float:
        """Return the variance at which a normal target has this uncertainty; infinite if none has."""

    @abstractmethod
    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return Θ and Ψ of discrete distributions: `values` (N,) in rising order, `weights` (J, N) with sums of 1; (J,) each."""

    def uncertainty(self, sample: ArrayLike) -> float:
        """Return Ψ of a sample, each value with the same weight.

        >>> Quadratic().uncertainty([1.0, 2.0, 3.0]), Absolute().uncertainty([1.0, 2.0, 6.0, 7.0])
        (0.6666666666666666, 2.5)
        """
        values = np.sort(np.asarray(sample, np.float64))
        return float(self.best(values, np.full((1, len(values)), 1 / len(values)))[1][0])


@dataclass(frozen=True)
class Quadratic(Loss):
    """f(a, θ) = (a - θ)²: estimators are means, uncertainties are variances (lemma 2.3.3.7)."""

    name = "quadratic"

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return the squared error."""
        return np.square(np.asarray(a, np.float64) - np.asarray(theta, np.float64))

    def normal(self, variance: float) -> float:
        """Return the variance."""
        return variance

    def normal_variance(self, uncertainty: float) -> float:
        """Return the uncertainty: it is the variance."""
        return uncertainty

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return means and variances."""
        centre = float(values.mean())
        mean = weights @ (values - centre)
        return mean + centre, np.maximum(weights @ np.square(values - centre) - mean**2, 0.0)


@dataclass(frozen=True)
class Absolute(Loss):
    """f(a, θ) = |a - θ|: estimators are medians; for a normal target the uncertainty is √(2/π) σ."""

    name = "absolute"

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return the absolute error."""
        return np.abs(np.asarray(a, np.float64) - np.asarray(theta, np.float64))

    def normal(self, variance: float) -> float:
        """Return √(2/π) σ."""
        return math.sqrt(2 / math.pi * variance)

    def normal_variance(self, uncertainty: float) -> float:
        """Return π/2 times the square."""
        return math.pi / 2 * uncertainty**2

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return medians and mean absolute deviations from them."""
        at = np.minimum((np.cumsum(weights, axis=1) < 0.5).sum(axis=1), len(values) - 1)
        middle = values[at]
        return middle, np.array([w @ np.abs(values - m) for w, m in zip(weights, middle, strict=True)])


@dataclass(frozen=True)
class ZeroOne(Loss):
    """f(a, θ) = 1 if |a - θ| > `tolerance`, else 0: uncertainty is the probability of missing by more than that.

    With tolerance 0 only the very value counts: for categories and whole numbers, not for continuous targets.
    """

    tolerance: float = 0.0
    name = "zero-one"
    optimism = 3 / (3 + 2 ** (2 / 3))
    """The best window is found with an error of n^(-1/3): Ψ is too small by c n^(-2/3), the other loss too large by a third of
    c (n/2)^(-2/3) (Kim and Pollard 1990)."""

    def __post_init__(self) -> None:
        if not (isinstance(self.tolerance, int | float) and 0 <= self.tolerance < math.inf):
            raise ParameterError("the tolerance of a zero-one loss must be a number of at least 0.")

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return whether the error is beyond the tolerance."""
        value, guess = np.asarray(a, np.float64), np.asarray(theta, np.float64)
        return (np.abs(value - guess) > self.tolerance + _ROUNDING * np.abs(value)).astype(np.float64)

    def normal(self, variance: float) -> float:
        """Return P(|N(0, σ²)| > tolerance)."""
        return math.erfc(self.tolerance / math.sqrt(2 * variance)) if variance > 0 else 0.0

    def normal_variance(self, uncertainty: float) -> float:
        """Return (tolerance / normal quantile)²: 0 for no uncertainty, infinite from 1 on."""
        if uncertainty <= 0:
            return 0.0
        if uncertainty >= 1:
            return math.inf if self.tolerance or uncertainty > 1 else 0.0
        return float((self.tolerance / (math.sqrt(2) * special.erfcinv(uncertainty))) ** 2)

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return the middles of the windows of width 2 × tolerance that hold most, and what they do not hold."""
        end = np.searchsorted(values, values + 2 * self.tolerance + _ROUNDING * np.abs(values), "right")
        held = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
        inside = held[:, end] - held[:, :-1]
        at = inside.argmax(axis=1)
        middle = (values[at] + values[end[at] - 1]) / 2
        return middle, np.clip(1 - inside[np.arange(len(weights)), at], 0.0, 1.0)


# What is published, as users see it: disclosure-control methods with a parameter φ (RTA paper, section 2.1.1).


Parameters = Mapping[str, float]


class Observation(ABC):
    """How the published numbers Z arise from the data D: enough to draw Z, and to tell which D are likely given Z = z.

    To describe a method of your own, subclass it and write `sample` and `log_density`.
    """

    @abstractmethod
    def sample(self, data: Numbers, generator: np.random.Generator) -> Numbers:
        """Draw what is published for each draw of the data, (count, k) to (count, m)."""

    @abstractmethod
    def log_density(self, z: Numbers, data: Numbers) -> Numbers:
        """Return log p(z | D) for each z and each D, (j, m) and (count, k) to (j, count); constants do not matter."""


@dataclass(frozen=True, eq=False)
class Linear(Observation):
    """Z = T D + ε, ε ~ N(0, noise) independent of D: T has shape (m, k), `noise` (m, m). For normal D everything is known."""

    T: Numbers
    noise: Numbers

    def __init__(self, T: ArrayLike, noise: ArrayLike = 0.0) -> None:
        matrix = np.atleast_2d(numbers(T, "T"))
        spread = numbers(noise, "the covariance of the noise")
        spread = np.diag(np.broadcast_to(spread, len(matrix))) if spread.ndim < 2 else spread
        if matrix.ndim != 2 or spread.shape != (len(matrix), len(matrix)) or not np.isfinite(matrix).all():
            raise ParameterError(
                "T must be a matrix with a row for each published number, and noise a covariance of these."
            )
        whiten(spread, "the covariance of the noise")
        object.__setattr__(self, "T", matrix)
        object.__setattr__(self, "noise", spread)

    @classmethod
    def matrix_mask(
        cls,
        shape: tuple[int, int],
        A: ArrayLike | None = None,
        B: ArrayLike | None = None,
        noise: ArrayLike = 0.0,
    ) -> Linear:
        """Return the matrix mask M = AXB + C of X with `shape` (n, p), on D = vec X by columns; `noise` is the variance of vec C.

        A mask of large data should not be written out like this: see the formulas by record.
        """
        n, p = shape
        left = np.eye(n) if A is None else np.atleast_2d(np.asarray(A, np.float64))
        right = np.eye(p) if B is None else np.asarray(B, np.float64).reshape(p, -1)
        return cls(np.kron(right.T, left), noise)

    def check_size(self, k: int) -> None:
        """Refuse a prior of another number of numbers."""
        if self.T.shape[1] != k:
            raise ParameterError(
                f"what is published is made of {self.T.shape[1]} numbers, but a user has a prior of {k}."
            )

    def sample(self, data: Numbers, generator: np.random.Generator) -> Numbers:
        """Draw T D + ε."""
        self.check_size(data.shape[1])
        z = generator.standard_normal((len(data), len(self.T)))
        return np.asarray(data @ self.T.T + z @ covariance_root(self.noise).T)

    def log_density(self, z: Numbers, data: Numbers) -> Numbers:
        """Return the normal log density; refused where some published number has no noise."""
        try:
            root = np.linalg.cholesky(self.noise)
        except np.linalg.LinAlgError:
            raise NotApplicable(
                "some published number carries no noise, so it fits almost no draw of the data. Simulation needs noise in "
                "every published number; without it, use normal priors, which have a formula."
            ) from None
        white = np.linalg.inv(root)
        a, b = z @ white.T, (data @ self.T.T) @ white.T
        square = np.zeros((len(z), len(data)))
        for j in range(a.shape[1]):
            square += np.square(a[:, j, None] - b[None, :, j])
        return -square / 2


class DisclosureMethod(ABC):
    """A disclosure-control method (definition 2.1.1.1): what it publishes at each value of its parameter φ."""

    ranges: Mapping[str, tuple[float, float]]
    """Lowest and highest value of each parameter; the highest may be infinite if the method is monotone."""
    monotone: bool = False
    """Whether a larger value of the only parameter tells every user less: then the smallest safe one is the best."""

    @abstractmethod
    def observation(self, phi: Parameters) -> Observation:
        """Return what is published at φ."""


@dataclass(frozen=True, eq=False)
class AddedNoise(DisclosureMethod):
    """Z = T D + ε, ε ~ N(0, fixed + φ·shape): noise whose variance is the parameter.

    Simple RTA is ``AddedNoise([[1, 1, 1]], name="sigma2")``; noise on one record of the R-U paper is
    ``AddedNoise(eye(k), shape=covariance, name="lambda2")``. `fixed` is what is uncertain anyway, such as sampling.
    """

    T: Numbers
    shape: Numbers
    fixed: Numbers
    ranges: Mapping[str, tuple[float, float]]
    monotone: bool = True

    def __init__(
        self,
        T: ArrayLike,
        shape: ArrayLike = 1.0,
        fixed: ArrayLike = 0.0,
        name: str = "sigma2",
        low: float = 0.0,
        high: float = math.inf,
    ) -> None:
        base, grows = Linear(T, fixed), Linear(T, shape)
        if not 0 <= low <= high or low == math.inf:
            raise ParameterError(
                f"the range of {name} must go from a number of at least 0 upwards; got {low:g} to {high:g}."
            )
        fields = {"T": base.T, "shape": grows.noise, "fixed": base.noise, "ranges": {name: (low, high)}}
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def observation(self, phi: Parameters) -> Linear:
        """Return T D with this much noise."""
        return Linear(self.T, self.fixed + value_of(self, phi) * self.shape)


@dataclass(frozen=True, eq=False)
class Publication(DisclosureMethod):
    """Any method: a function from its parameters to what is published.

    >>> two = Publication(lambda total, part: Linear([[1, 1], [1, 0]], [total, part]), {"total": (0, 9), "part": (0, 9)})
    >>> two.observation({"total": 1.0, "part": 4.0}).noise.tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    function: Callable[..., Observation]
    ranges: Mapping[str, tuple[float, float]]
    monotone: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        try:
            inspect.signature(self.function).bind(**{name: low for name, (low, _) in self.ranges.items()})
        except TypeError:
            raise ParameterError(
                f"a method's function must take the parameters that have ranges: {join_names(self.ranges)}."
            ) from None

    def observation(self, phi: Parameters) -> Observation:
        """Return what the function makes of the parameters."""
        refuse_unknown("parameter", self.ranges, "the method", *phi)
        made = self.function(**phi)
        if not isinstance(made, Observation):
            raise ParameterError("a method's function must return an Observation, such as Linear(T, noise).")
        return made


def check_ranges(method: DisclosureMethod) -> None:
    """Refuse a method without parameters, or with a range that is none."""
    if not method.ranges or (method.monotone and len(method.ranges) > 1):
        raise ParameterError("a method needs at least one parameter with its range; a monotone one has exactly one.")
    for name, ends in method.ranges.items():
        if not (
            isinstance(ends, Sequence) and len(ends) == 2 and all(isinstance(e, int | float | np.number) for e in ends)
        ):
            raise ParameterError(f"the range of {name} must be its lowest and highest value, such as (0, 10).")
        low, high = ends
        if not low < high or not math.isfinite(low):
            raise ParameterError(f"the range of {name} is empty or has no beginning: it goes from {low:g} to {high:g}.")


def value_of(method: DisclosureMethod, phi: Parameters) -> float:
    """Return the value of a method's only parameter; refuse another name or a value out of range."""
    (name, (low, high)), = method.ranges.items()  # fmt: skip
    if set(phi) != {name}:
        raise ParameterError(unknown_name("parameter", next(iter(phi), ""), [name], "the method"))
    value = float(phi[name])
    if not low <= value <= high:
        raise ParameterError(f"{name} must be a number from {low:g} to {high:g}; got {value:g}.")
    return value
