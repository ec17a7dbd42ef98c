"""A quantile of a column, with survey weights or without."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, param
from sfumato.errors import DataError
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.estimators import WEIGHTED, Estimator, check_flag, survey_weights

Numbers = NDArray[np.float64]


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

    def validate(self) -> None:
        """Check the flag."""
        check_flag(self, "weighted")

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

    def label(self) -> str:
        """Return "0.9 quantile of column"."""
        return f"{self.share:g} quantile of {self.column}" + (", weighted" if self.weighted else "")

    def columns(self) -> tuple[str, ...]:
        """Return the column."""
        return (self.column,)

    def unit(self, schema: Schema) -> str:
        """Return the column's unit."""
        return schema[self.column].unit

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the normal population's quantile."""
        from scipy.special import ndtri

        i = model.at(self.column)
        spread = math.sqrt(model.covariance[i, i])
        return float(model.mean[i] + spread * ndtri(self.share)) if spread else float(model.mean[i])


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
