"""The noise of the R-U paper as an instance of the general model: attackers of a record, analysts of means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Mask, Recipe
from sfumato.decision.certainty import Risk, Utility
from sfumato.decision.loss import Loss, Quadratic
from sfumato.decision.observation import AddedNoise
from sfumato.decision.prior import Normal
from sfumato.decision.problem import Problem
from sfumato.decision.target import Target, User
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.rumap import NormalPopulation

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyRecords:
    """n records of a normal population, released with additive noise of covariance λ²·shape (R-U paper, equation 3.1).

    The snooper of the paper, who takes the released value as it is, is the attacker of whom nothing more is known: his prior is
    flat, and his posterior variance λ²σ². One who shrinks has the population as his prior. Analysts have a flat prior of the
    means. With base uncertainties of 1 the relative certainties are the paper's U = 1/MSE and R = 1/MSE.

    Examples
    --------
    >>> from sfumato import KimNoise
    >>> from sfumato.rumap.figures import TEACHERS
    >>> records = NoisyRecords.of(TEACHERS, KimNoise())
    >>> round(records.problem("salary", error=5).solve().parameters["lambda2"], 6)
    0.141331
    >>> round(records.problem("salary", error=5, attacker="shrinks").solve().parameters["lambda2"], 6)
    0.164593
    """

    population: NormalPopulation
    shape: Numbers
    """Covariance of the noise at λ² = 1, zero for columns that are not masked, shape (k, k)."""

    @classmethod
    def of(cls, population: NormalPopulation, mask: Mask | Recipe) -> NoisyRecords:
        """Take the shape of the noise from a mask with a level `lambda2`, whatever level it is at."""
        steps = mask.as_recipe().steps if isinstance(mask, Mask) else mask.steps
        levels = [f"{s.name}.lambda2" for s in steps if "lambda2" in s.mask.parameters()]
        if len(levels) != 1:
            raise NotApplicable("the mask must be additive noise with one level, lambda2, such as KimNoise().")
        recipe = (mask.as_recipe() if isinstance(mask, Mask) else mask).with_({levels[0]: 1.0})
        shape = recipe.noise(tuple(population.means), population.covariance, population.schema)
        if shape is None:
            raise NotApplicable(
                "the mask is not additive noise, so its records are not the data plus something normal."
            )
        return cls(population, shape)

    @property
    def method(self) -> AddedNoise:
        """What is published of one record: all its columns, those that are masked with noise."""
        return AddedNoise(np.eye(len(self.shape)), self.shape, name="lambda2")

    def attacker(self, prior: Literal["flat", "shrinks"] = "flat") -> User:
        """Return who attacks a record that he found: knowing nothing more, or the population it comes from."""
        means = np.array(list(self.population.means.values()), np.float64)
        if prior == "flat":
            return User("snooper", Normal.unknown(len(means)))
        if prior != "shrinks":
            raise ParameterError(f"an attacker's prior is 'flat' or 'shrinks'; got '{prior}'.")
        return User("snooper who shrinks", Normal(means, self.population.covariance))

    def value(self, column: str, base: float = 1.0) -> Target:
        """Return a person's value in a column as a confidential target."""
        return Target(column, self._weights({column: 1.0}), base)

    def analyst(self) -> User:
        """Return who estimates means from n released records, and knows nothing before: sampling is noise to him, too."""
        n, k = self.population.n, len(self.shape)
        seen = AddedNoise(np.eye(k), self.shape / n, self.population.covariance / n, name="lambda2")
        return User("analyst", Normal.unknown(k), sees=seen)

    def mean(self, weights: str | Mapping[str, float], base: float = 1.0) -> Target:
        """Return a mean, or a combination of means, as an analytical target."""
        named = {weights: 1.0} if isinstance(weights, str) else weights
        title = " ".join(f"{w:+g} mean {n}" for n, w in named.items())
        return Target(title, self._weights(named), base, kind="analytical")

    def problem(
        self,
        column: str,
        error: float,
        means: str | Mapping[str, float] | None = None,
        attacker: Literal["flat", "shrinks"] = "flat",
        loss: Loss | None = None,
    ) -> Problem:
        """Return: maximise the certainty of means while a snooper is off by `error` or more about a column.

        `error` is the root of the expected loss under quadratic loss, the expected loss itself under another one.
        """
        if not 0 < error < math.inf:
            raise ParameterError("the error must be a number above 0, in the column's unit.")
        measured = loss or Quadratic()
        base = error**2 if isinstance(measured, Quadratic) else error
        risk = Risk([self.value(column, base)], [self.attacker(attacker)], measured)
        utility = Utility([self.mean(means if means is not None else column)], [self.analyst()])
        return Problem(self.method, utility, risk, 1.0)

    def _weights(self, named: Mapping[str, float]) -> Numbers:
        names = list(self.population.means)
        for name in named:
            if name not in names:
                raise ParameterError(unknown_name("column", name, names, "the population"))
        return np.array([float(named.get(name, 0.0)) for name in names])
