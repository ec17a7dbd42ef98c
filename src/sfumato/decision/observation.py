"""What is published, as users see it: disclosure-control methods with a parameter φ (RTA paper, section 2.1.1)."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import NotApplicable, ParameterError, listing, unknown_name

Numbers = NDArray[np.float64]
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
        from sfumato.decision.conditional import numbers, whiten

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
        from sfumato.kernels.moments import covariance_root

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


class Method(ABC):
    """A disclosure-control method (definition 2.1.1.1): what it publishes at each value of its parameter φ."""

    ranges: Mapping[str, tuple[float, float]]
    """Lowest and highest value of each parameter; the highest may be infinite if the method is monotone."""
    monotone: bool = False
    """Whether a larger value of the only parameter tells every user less: then the smallest safe one is the best."""

    @abstractmethod
    def observation(self, phi: Parameters) -> Observation:
        """Return what is published at φ."""


@dataclass(frozen=True, eq=False)
class AddedNoise(Method):
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
class Publication(Method):
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
                f"a method's function must take the parameters that have ranges: {listing(self.ranges)}."
            ) from None

    def observation(self, phi: Parameters) -> Observation:
        """Return what the function makes of the parameters."""
        for name in phi:
            if name not in self.ranges:
                raise ParameterError(unknown_name("parameter", name, self.ranges, "the method"))
        made = self.function(**phi)
        if not isinstance(made, Observation):
            raise ParameterError("a method's function must return an Observation, such as Linear(T, noise).")
        return made


def check_ranges(method: Method) -> None:
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


def value_of(method: Method, phi: Parameters) -> float:
    """Return the value of a method's only parameter; refuse another name or a value out of range."""
    (name, (low, high)), = method.ranges.items()  # fmt: skip
    if set(phi) != {name}:
        raise ParameterError(unknown_name("parameter", next(iter(phi), ""), [name], "the method"))
    value = float(phi[name])
    if not low <= value <= high:
        raise ParameterError(f"{name} must be a number from {low:g} to {high:g}; got {value:g}.")
    return value
