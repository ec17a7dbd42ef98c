"""A normal population, for maps in which every replication draws its records afresh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.contract import Draws, NoiseModel, Recipe, Step, check_covariance
from sfumato.engines import Column, LocalEngine, Rows
from sfumato.errors import ParameterError
from sfumato.kernels.moments import covariance_root
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NormalPopulation:
    """Records X ~ N(mean, covariance), n at a time; the setting of the R-U paper's sections 4 and 5.

    Examples
    --------
    >>> teachers = NormalPopulation({"income": 80, "salary": 50}, [[17.5**2, 8.3**2], [8.3**2, 13.3**2]], n=1000)
    >>> len(teachers.sample(np.random.default_rng(1)))
    1000
    """

    means: dict[str, float]
    covariance: Numbers
    n: int
    unit: str = ""

    def __init__(self, means: dict[str, float], covariance: ArrayLike, n: int, unit: str = "") -> None:
        names = tuple(means)
        matrix = np.asarray(covariance, np.float64)
        if matrix.shape != (len(names), len(names)):
            raise ParameterError(
                f"{len(names)} columns need a covariance matrix of {len(names)} × {len(names)} numbers."
            )
        check_covariance(matrix, names)
        if n < 1:
            raise ParameterError("a sample needs at least one record.")
        for field, value in (("means", dict(means)), ("covariance", matrix), ("n", int(n)), ("unit", unit)):
            object.__setattr__(self, field, value)

    @classmethod
    def regression(cls, r2: float, n: int, beta: float = 1.0, sigma: float = 1.0) -> NormalPopulation:
        """Return the population of equation 4.1: y = βx + e, Var(x) = σ², with coefficient of determination r2 (4.6)."""
        if not 0 < r2 < 1:
            raise ParameterError("r2 must lie between 0 and 1; both ends excluded.")
        xx, xy = sigma**2, beta * sigma**2
        return cls({"x": 0.0, "y": 0.0}, [[xx, xy], [xy, beta**2 * sigma**2 / r2]], n)

    @cached_property
    def schema(self) -> Schema:
        """Every column is confidential and numeric."""
        return Schema(tuple(Attribute(name, role="confidential", unit=self.unit) for name in self.means))  # type: ignore[arg-type]

    def sample(self, generator: np.random.Generator) -> Microdata:
        """Draw n records."""
        x = generator.standard_normal((self.n, len(self.means))) @ covariance_root(self.covariance).T
        columns = {name: Column.from_numbers(mean + x[:, j]) for j, (name, mean) in enumerate(self.means.items())}
        return Microdata(LocalEngine(Rows(np.arange(self.n, dtype=np.int64), columns)), self.schema)

    def model(self) -> NoiseModel:
        """Return the true moments, without noise."""
        mean = np.array(list(self.means.values()), np.float64)
        return NoiseModel(tuple(self.means), mean, self.covariance, np.zeros_like(self.covariance), self.n)

    def fit(self, recipe: Recipe, shared: dict[Any, Any] | None = None) -> Recipe:
        """Return the recipe with its noise scaled by the population's covariance, as equation 3.1 has it.

        Noise scaled by each sample's own covariance is another mask: it varies with the sample, and at λ² = 1 a slope
        on the masked column has a variance smaller by a sixth (R² = .5). From the first step that is not additive noise
        on, steps are left to be fitted on each sample. `shared` lets the points of a map share what steps have learned.
        """
        names, schema, covariance = tuple(self.means), self.schema, self.covariance
        known = {} if shared is None else shared
        steps: list[Step] = []
        for step in recipe.steps:
            added = step.mask.noise(names, covariance, schema)
            if added is None:
                break
            key = (step.name, covariance.tobytes())
            mask = known.get(key, step.mask.forget())
            changes = {f: v for f in mask.parameters() if (v := getattr(step.mask, f)) != getattr(mask, f)}
            mask = mask.with_(**changes)
            if not mask.is_fitted:
                mask = known[key] = mask.fit(self._exactly(covariance), Draws(0))
            steps.append(Step(step.name, mask))
            covariance = covariance + added
        return replace(recipe, steps=(*steps, *recipe.steps[len(steps) :]))

    def _exactly(self, covariance: Numbers) -> Microdata:
        """Return a few records whose own mean and covariance (divisor n - 1) are exactly the given ones."""
        size = len(self.means)
        arms = covariance_root(covariance).T * np.sqrt(size - 0.5)
        x = np.concatenate([arms, -arms])
        columns = {name: Column.from_numbers(mean + x[:, j]) for j, (name, mean) in enumerate(self.means.items())}
        return Microdata(LocalEngine(Rows(np.arange(2 * size, dtype=np.int64), columns)), self.schema)
