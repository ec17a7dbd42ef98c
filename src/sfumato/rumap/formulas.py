"""The R-U paper's equations as printed, with ERRATA observed: λ² in, a number or an array out.

The map itself uses the general forms in `sfumato.utility` and `sfumato.risk`; these are the paper's special cases, for
study, and the tests hold the two against each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError

Numbers = NDArray[np.float64]


def _array(value: ArrayLike) -> Numbers:
    return np.asarray(value, np.float64)


def attenuation(lambda2: ArrayLike) -> Numbers:
    """Return the factor on the correlation of a masked with an unmasked column: 1/√(1+λ²) (section 3)."""
    return 1 / np.sqrt(1 + _array(lambda2))


def utility_mean(lambda2: ArrayLike, variance: float, n: int) -> Numbers:
    """Return U of a mean: n / ((1+λ²) σ²); for c'μ put c'Σc for σ² (section 5, ERRATA 0.8)."""
    with np.errstate(divide="ignore"):
        return n / ((1 + _array(lambda2)) * variance)


def variance_slope_case1(residual: float, variance: float, n: int) -> float:
    """Return Var(β̂) when both columns carry Kim noise: σₑ²/((n-3)σ²), whatever λ² (Case 1)."""
    return residual / ((n - 3) * variance) if n > 3 else float("inf")


def expected_slope_case2(beta: float, lambda2: ArrayLike) -> Numbers:
    """Return E(β̂₂) = β/(1+λ²) when only the independent variable is masked (4.3)."""
    return beta / (1 + _array(lambda2))


def variance_slope_case2(lambda2: ArrayLike, beta: float, variance: float, residual: float, n: int) -> Numbers:
    """Return Var(β̂₂) (4.4); infinite for n ≤ 3 (ERRATA 0.17)."""
    k = 1 + _array(lambda2)
    if n <= 3:
        return np.full_like(k, np.inf)
    return (beta**2 * variance * (1 - 1 / k) + residual) / ((n - 3) * variance * k)


def r_squared(beta: float, variance: float, residual: float) -> float:
    """Return the coefficient of determination 1 - σₑ²/(β²σ² + σₑ²) (4.6)."""
    return 1 - residual / (beta**2 * variance + residual)


def utility_slope_case2(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of the slope when only the independent variable is masked (4.5). Not always decreasing: ERRATA 0.4."""
    level = _array(lambda2)
    if n <= 3:
        return np.zeros_like(level)
    inner = level / (1 + level) * (1 / (n - 3) + level) + (1 - r2) / ((n - 3) * r2)
    return 1 / (beta**2 / (1 + level) * inner)


def best_lambda2_case2(r2: float, n: int) -> float:
    """Return the λ² at which U of (4.5) is largest: 0 if R² ≥ 1/2, else (c-k)/(2-k-c) (ERRATA 0.4).

    Infinite for so few records, and so weak a relation, that the slope 0 beats every estimate (k + c ≥ 2).
    """
    if n <= 3 or r2 >= 0.5:
        return 0.0  # for n ≤ 3 U is 0 whatever λ² is
    k = 1 / (n - 3)
    c = k * (1 - r2) / r2
    return (c - k) / (2 - k - c) if k + c < 2 else float("inf")


def variance_slope_case3(lambda2: ArrayLike, beta: float, variance: float, residual: float, n: int) -> Numbers:
    """Return Var(β̂₃) when only the dependent variable is masked (Case 3); infinite for n ≤ 3."""
    level = _array(lambda2)
    if n <= 3:
        return np.full_like(level, np.inf)
    return (level * (beta**2 * variance + residual) + residual) / ((n - 3) * variance)


def utility_slope_case3(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of the slope when only the dependent variable is masked (4.7)."""
    level = _array(lambda2)
    if n <= 3:
        return np.zeros_like(level)
    return (n - 3) * r2 / (beta**2 * (level + 1 - r2))


def utility_slope_adjusted(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of β* = (1+λ²)β̂₂, corrected for attenuation (5.1): the same as (4.7) (ERRATA 0.16)."""
    return utility_slope_case3(lambda2, beta, r2, n)


def index_risk(lambda2: ArrayLike, variance: float) -> Numbers:
    """Return R = 1/(λ²σ²) of the snooper with index knowledge (4.8); infinite at λ² = 0."""
    with np.errstate(divide="ignore"):
        return 1 / (_array(lambda2) * variance)


def linkage_risk(lambda2: ArrayLike, variance: float, m: float) -> Numbers:
    """Return R when linkage succeeds with probability m, else gives a random record: 1/(σ²(λ² + 2(1-m)))."""
    with np.errstate(divide="ignore"):
        return 1 / (variance * (_array(lambda2) + 2 * (1 - m)))


def bayes_risk(lambda2: ArrayLike, variance: float, rho: float = 0.0) -> Numbers:
    """Return R of the snooper who shrinks: 1/(σ²(1-ρ²)) + 1/(λ²σ²) (ERRATA 0.3; ρ with an unmasked covariate)."""
    with np.errstate(divide="ignore"):
        return 1 / (_array(variance) * (1 - rho**2)) + 1 / (_array(lambda2) * variance)


def lambda2_for_error(error: float, variance: float, strategy: str = "naive", rho: float = 0.0) -> float:
    """Return the λ² at which a snooper's rms error is `error`; infinite if no λ² suffices.

    "naive" inverts (4.8), "bayes" its correction; "mean absolute" reads the error as E|X - Y| (ERRATA 0.2).
    """
    if strategy not in ("naive", "bayes", "mean absolute"):
        raise ParameterError(f"strategy must be 'naive', 'bayes' or 'mean absolute'; got '{strategy}'.")
    if error == 0 or variance == 0:
        return 0.0 if error == 0 else float("inf")
    needed = error**2 / variance
    if strategy == "mean absolute":
        return float(np.pi / 2 * needed)
    if strategy == "naive":
        return needed
    left = 1 - needed / (1 - rho**2) if rho**2 < 1 else 0.0
    return needed / left if left > 0 else float("inf")
