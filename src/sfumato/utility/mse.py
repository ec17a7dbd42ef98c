"""Utility of an estimate: the reciprocal of its mean squared error (R-U paper, equation 3.2)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import (
    Design,
    Measure,
    NoiseModel,
    Release,
    ReleaseModel,
    Score,
    Side,
    Snooper,
    learned,
    param,
    reciprocal,
)
from sfumato.contract.score import digits
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.estimators import Estimator, Target, as_estimator

Numbers = NDArray[np.float64]


class EstimatorUtility(Measure):
    """U = 1 / E(θ̂ - θ)² of an analyst's estimate from the released file.

    With ``target="population"`` each replication draws the records afresh (from the file, with replacement) and then
    masks them; θ is the estimate from the whole original file, or `truth` where that is known. The error then includes
    sampling, as equation 3.2 does, and the unmasked file has a finite utility. With ``target="file"`` only the mask is
    random, θ is the file's own estimate, and the unmasked file has infinite utility.

    Examples
    --------
    >>> EstimatorUtility("salary ~ age").label()
    'salary ~ age: age'
    """

    side: ClassVar[Side] = Side.UTILITY

    estimator: Estimator = param(doc="a formula, a column (for its mean), weights of means, or a function")
    target: Target = param(default="population", doc="what is estimated", choices=("population", "file"))
    truth: float | None = param(default=None, doc="the true value, where it is known", low=-1e300, high=1e300)
    reference: Any = learned("estimator", "target", "truth", default=None)

    def validate(self) -> None:
        """Make an estimator from whatever was given."""
        object.__setattr__(self, "estimator", as_estimator(self.estimator))

    def label(self) -> str:
        """Return the estimator in words."""
        return self.estimator.label()

    @property
    def variant(self) -> str:
        """Which target."""
        return f"target = {self.target}" + (", weighted" if self.estimator.is_weighted else "")

    @property
    def design(self) -> Design:
        """Whether records are drawn afresh in each replication."""
        return self.target

    @property
    def replications(self) -> int:
        """The mean of few squared errors is mostly luck: of 60 it is known to about a fifth."""
        return 60

    def words(self, value: float, schema: Schema) -> str:
        """Return the estimate's typical error."""
        unit = self.estimator.unit(schema)
        if value == math.inf:
            return "the estimate is exact"
        if not value > 0:
            return "the estimate is useless"
        return f"the estimate is typically off by {digits(1 / math.sqrt(value))}{f' {unit}' if unit else ''}"

    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        """Return the estimator's columns, and the survey weights if it uses them."""
        columns, weight = self.estimator.columns(), schema.one("weight")
        if columns is None or not self.estimator.is_weighted or weight is None:
            return columns
        return (*columns, weight)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Learn the value that estimates are compared with."""
        self.estimator.check(data)
        truth = self.truth
        if truth is None and model is not None:
            if self.target == "file":
                return self.learn(reference=None)  # every replication has a file of its own
            truth = self.estimator.true_value(model)
            if truth is None:
                raise ParameterError(
                    f"the true value of '{self.label()}' in a normal population is not known to sfumato; give it with "
                    "EstimatorUtility(..., truth=...)."
                )
        return self.learn(reference=self.estimator.estimate(data, {}) if truth is None else truth)

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the squared error of the released file's estimate, shape (1,)."""
        estimates = [self.estimator.estimate(data, outcome.published) for data in outcome.implicates]
        reference = self.estimator.estimate(outcome.original, {}) if self.reference is None else self.reference
        return np.array([(float(np.mean(estimates)) - reference) ** 2])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release. Nothing is resampled, so what is measured is the mask's error: target = file."""
        if self.target == "population" and self.truth is None:
            return self.with_(target="file").score(outcome, snooper)
        return super().score(outcome, snooper)

    def value(self, means: Numbers) -> Numbers:
        """Return the reciprocal of the mean squared error."""
        return reciprocal(means[..., 0])

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the utility under the normal model, where the estimator's error has a formula."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Return the utility under the model of any recipe, where the estimator's error has a formula."""
        mse = self.estimator.mse(model, self.target)
        return None if mse is None else float(reciprocal(np.asarray(mse)))
