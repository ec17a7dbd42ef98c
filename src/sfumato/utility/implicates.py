"""One estimate from several implicates: the analyst's combining rules for synthetic data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

Synthesis = Literal["partial", "full"]


@dataclass(frozen=True)
class Combined:
    """What several implicates say together: estimate ± standard error, on some degrees of freedom."""

    estimate: float
    variance: float
    freedom: float
    """Degrees of freedom of the t distribution; infinite where the normal one is used."""

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval, by the t distribution."""
        from scipy.special import ndtri, stdtrit

        if not 0 < level < 1:
            raise ParameterError(f"the level of an interval must be a number between 0 and 1; got {level}.")
        p = (1 + level) / 2
        reach = self.error * float(stdtrit(self.freedom, p) if math.isfinite(self.freedom) else ndtri(p))
        return self.estimate - reach, self.estimate + reach


def combine(
    estimates: Sequence[float] | NDArray[np.float64],
    variances: Sequence[float] | NDArray[np.float64],
    synthesis: Synthesis = "partial",
    size: float = 1.0,
) -> Combined:
    """Combine the estimates from m implicates, each with the variance that a standard analysis of that implicate gives.

    With b the variance of the estimates between implicates and ū the mean of their variances:

    ``"partial"`` (Reiter 2003): the records are the original ones, some columns synthetic. T = ū + b/m, with
    (m - 1)(1 + mū/b)² degrees of freedom. It serves as well for new records drawn from estimated, not drawn, parameters, as
    many as the original has (Raab, Nowok and Dibben 2016).

    ``"full"`` (Raghunathan, Reiter and Rubin 2003): new records, parameters drawn anew for each implicate.
    T = (1 + 1/m)b - ū, with (m - 1)(1 - mū/((m + 1)b))² degrees of freedom. Where that is not positive, T is ū times `size`,
    the synthetic file's number of records over the original's (Reiter 2002), with the normal distribution.

    Examples
    --------
    >>> combine([9.0, 10.0, 11.0], [2.0, 2.0, 2.0]).variance
    2.3333333333333335
    """
    q, u = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.ndim != 1 or q.shape != u.shape:
        raise ParameterError("give one estimate and one variance for each implicate, in two lists of the same length.")
    m = len(q)
    if m < 2:
        raise ParameterError(
            "one implicate does not show how much implicates differ, so its estimate has no valid variance. "
            "Release at least two (implicates = 5, say)."
        )
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        raise ParameterError("estimates must be finite numbers, and variances must not be negative.")
    if synthesis not in ("partial", "full"):
        raise ParameterError(f"synthesis must be 'partial' or 'full'; got '{synthesis}'.")
    if not size > 0:
        raise ParameterError(f"size must be a number above 0; got {size}.")
    estimate, within, between = float(q.mean()), float(u.mean()), float(q.var(ddof=1))
    if synthesis == "partial":
        freedom = (m - 1) * (1 + m * within / between) ** 2 if between else math.inf
        return Combined(estimate, within + between / m, freedom)
    variance = (1 + 1 / m) * between - within
    if variance <= 0:
        return Combined(estimate, size * within, math.inf)
    return Combined(estimate, variance, (m - 1) * (1 - m * within / ((m + 1) * between)) ** 2)
