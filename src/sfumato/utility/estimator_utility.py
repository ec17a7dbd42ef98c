"""Utility of an estimate, 1/MSE; quantiles; and the analyst's correction of counts after PRAM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from sfumato.contract import Design, Measure, NoiseModel, Release, ReleaseModel, Snooper, learned, param, reciprocal
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.lazy import special
from sfumato.schema import Schema
from sfumato.typing import Numbers
from sfumato.utility.estimators import WEIGHTED, Estimator, Target, as_estimator, survey_weights


class Quantile(Estimator):
    """The value that a share of the records (or of the population, with weights) does not exceed.

    It is the inverse of the distribution function: the smallest value with at least this share of all at or below it. Where the
    share falls exactly between two values their mean is taken, so that ``Quantile("income", 0.5)`` is the usual median
    (definition 2 of Hyndman and Fan 1996; SAS's definition with weights). Records without a value are left out.

    Examples
    --------
    >>> from sfumato.datasets import five
    >>> Quantile("salary", 0.5).estimate(five(), {}) == float(np.median(five().numbers("salary")))
    True
    """

    column: str = param(doc="column of numbers", columns="one")
    share: float = param(default=0.5, doc="share of the records at or below the quantile", low=0, high=1)
    weighted: bool = param(default=False, doc=WEIGHTED)

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the quantile over the records that have the column."""
        values = data.numbers(self.column)
        counts = ~np.isnan(values)
        weights = None
        if self.weighted:
            weights = survey_weights(data)
            counts &= weights > 0
            weights = weights[counts]
        if not counts.any():
            raise DataError(f"{self.label()}: no record has a value.")
        return quantile(values[counts], self.share, weights)

    @override
    def label(self) -> str:
        return f"{self.share:g} quantile of {self.column}" + (", weighted" if self.weighted else "")

    @override
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def unit(self, schema: Schema) -> str:
        """Return the column's unit."""
        return schema[self.column].unit

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the normal population's quantile."""
        i = model.at(self.column)
        spread = math.sqrt(model.covariance[i, i])
        return float(model.mean[i] + spread * special.ndtri(self.share)) if spread else float(model.mean[i])


def quantile(values: Numbers, share: float, weights: Numbers | None = None) -> float:
    """Return the inverse of the (weighted) distribution function, the mean of two values where it is between them.

    `values` and the positive `weights` have shape (n,), n of at least 1.

    >>> quantile(np.array([1.0, 2.0, 3.0, 4.0]), 0.5), quantile(np.array([1.0, 2.0, 3.0, 4.0]), 0.6)
    (2.5, 3.0)
    """
    n = len(values)
    if weights is None:
        reached = share * n
        at = min(max(math.ceil(reached - 1e-12 * n) - 1, 0), n - 1)
        after = min(at + 1, n - 1) if abs(at + 1 - reached) <= 1e-12 * n else at
        found = np.partition(values, sorted({at, after}))
        low, high = found[at], found[after]
    else:
        order = np.argsort(values, kind="stable")
        sums = np.cumsum(weights[order])
        slack = 1e-12 * sums[-1]  # sums of weights are rounded
        at = min(int(np.searchsorted(sums, share * sums[-1] - slack)), n - 1)
        after = min(at + 1, n - 1) if abs(sums[at] - share * sums[-1]) <= slack else at
        low, high = values[order[at]], values[order[after]]
    return float(low if low == high else low + (high - low) / 2)


_SINGULAR = 1e10
"""Condition number past which the categories can no longer be told apart."""
_STEPS, _SMALL = 100_000, 1e-10


@dataclass(frozen=True, eq=False)
class PRAMCorrection:
    """Estimates of the counts before PRAM.

    `counts` is unbiased and may be negative where a category is rare; `covariance` (k, k) is that of the randomisation alone.
    `restricted` is the most likely set of counts without a negative one; it is not unbiased.
    """

    counts: Numbers
    covariance: Numbers
    restricted: Numbers

    @property
    def standard_errors(self) -> Numbers:
        """The standard error of each count, shape (k,)."""
        errors: Numbers = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return errors


def pram_correction(observed_counts: ArrayLike, matrix: ArrayLike) -> PRAMCorrection:
    """Estimate the counts before PRAM from the counts after it, and the published matrix (Kooiman et al. 1997).

    With R the matrix (rows are categories before, columns after), the released counts T* have E T* = R'T, so that
    T̂ = (R')⁻¹ T* is unbiased. Given T, records move independently: V = Σᵢ Tᵢ (diag(rᵢ) - rᵢrᵢ') is the covariance of T*, and
    (R')⁻¹ V R⁻¹ that of T̂. It is linear in T, so with T̂ in place of T it is unbiased too.

    Parameters
    ----------
    observed_counts
        Counts in the released file, shape (k,), in the order of the matrix.
    matrix
        Chances, shape (k, k); row i says what category i becomes.

    Examples
    --------
    >>> pram_correction([58, 42], [[0.9, 0.1], [0.2, 0.8]]).counts.round(3).tolist()
    [54.286, 45.714]
    """
    observed, r = _checked(observed_counts, matrix)
    inverse = np.linalg.inv(r.T)
    counts = inverse @ observed
    spread = np.diag(r.T @ counts) - (r.T * counts) @ r
    return PRAMCorrection(counts, inverse @ spread @ inverse.T, _likeliest(observed, r))


def _checked(observed_counts: Any, matrix: Any) -> tuple[Numbers, Numbers]:
    try:
        observed, r = np.asarray(observed_counts, np.float64), np.asarray(matrix, np.float64)
    except (TypeError, ValueError):
        raise ParameterError("counts and matrix must be numbers: k counts, and k rows of k chances.") from None
    if observed.ndim != 1 or r.shape != (len(observed), len(observed)) or not len(observed):
        raise ParameterError("counts and matrix do not fit: k counts need a matrix of k rows and k columns.")
    if not np.isfinite(observed).all() or (observed < 0).any():
        raise DataError("counts must be numbers of at least 0, without a missing one.")
    if not np.isfinite(r).all() or (r < 0).any() or (r > 1 + 1e-9).any():
        raise ParameterError("the matrix must hold chances between 0 and 1.")
    if len(wrong := np.flatnonzero(np.abs(r.sum(axis=1) - 1) > 1e-6)):
        raise ParameterError(f"{len(wrong)} rows of the matrix do not sum to 1, row {wrong[0] + 1} among them.")
    if not np.linalg.cond(r) < _SINGULAR:
        raise ParameterError(
            "the matrix is singular: different counts before PRAM give the same counts after it, so nothing can be corrected. "
            "Merge the categories that have equal rows."
        )
    return observed, r


def _likeliest(observed: Numbers, r: Numbers) -> Numbers:
    """Return the counts, none negative, under which the released counts are most likely (EM; van den Hout and Elamir 2006)."""
    counts: Numbers = np.full(len(r), observed.sum() / len(r))
    for _ in range(_STEPS):
        expected = r.T @ counts
        ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
        better: Numbers = counts * (r @ ratio)
        if np.abs(better - counts).max() <= _SMALL * max(observed.sum(), 1.0):
            return better
        counts = better
    return counts


class EstimatorUtility(Measure):
    """U = 1 / E(θ̂ - θ)² of an analyst's estimate from the released file.

    With ``target="population"`` each replication draws the records afresh (from the file, with replacement) and then
    masks them; θ is the estimate from the whole original file, or `truth` where that is known. The error then includes
    sampling, as equation 3.2 does, and the unmasked file has a finite utility. With ``target="file"`` only the mask is
    random, θ is the file's own estimate, and the unmasked file has infinite utility. Source: R-U paper, equation 3.2.

    Examples
    --------
    >>> EstimatorUtility("salary ~ age").label()
    'salary ~ age: age'
    """

    side: ClassVar[Side] = Side.UTILITY

    estimator: Estimator = param(doc="a formula, a column (for its mean), weights of means, or a function")
    target: Target = param(default="population", doc="what is estimated")
    truth: float | None = param(default=None, doc="the true value, where it is known", low=-1e300, high=1e300)
    reference: Any = learned("estimator", "target", "truth", default=None)

    @override
    def validate(self) -> None:
        object.__setattr__(self, "estimator", as_estimator(self.estimator))

    @override
    def label(self) -> str:
        return self.estimator.label()

    @override
    @property
    def variant(self) -> str:
        return f"target = {self.target}" + (", weighted" if self.estimator.is_weighted else "")

    @property
    def design(self) -> Design:
        """Whether records are drawn afresh in each replication."""
        return self.target

    @override
    @property
    def replications(self) -> int:
        return 60

    @override
    def words(self, value: float, schema: Schema) -> str:
        unit = self.estimator.unit(schema)
        if value == math.inf:
            return "the estimate is exact"
        if not value > 0:
            return "the estimate is useless"
        return f"the estimate is typically off by {digits(1 / math.sqrt(value))}{f' {unit}' if unit else ''}"

    @override
    def columns(self, schema: Schema) -> tuple[str, ...] | None:
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

    @override
    def value(self, means: Numbers) -> Numbers:
        return reciprocal(means[..., 0])

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the utility under the normal model, where the estimator's error has a formula."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Return the utility under the model of any recipe, where the estimator's error has a formula."""
        mse = self.estimator.mse(model, self.target)
        return None if mse is None else float(reciprocal(np.asarray(mse)))
