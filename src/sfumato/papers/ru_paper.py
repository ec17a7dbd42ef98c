"""The R-U paper's equations as printed, with ERRATA observed, and its figures 1 and 2."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract import Draws, Side
from sfumato.errors import ParameterError
from sfumato.maps import NormalPopulation, Overlay, RUMap, ru_map
from sfumato.masks.noise import KimNoise
from sfumato.typing import Numbers
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope

# The R-U paper's equations as printed, with ERRATA observed: λ² in, a number or an array out.
#
# The map itself uses the general forms in `sfumato.utility` and `sfumato.risk`; these are the paper's special cases, for
# study, and the tests hold the two against each other.


_LIMITS: dict[str, tuple[str, Callable[[Numbers], Any]]] = {
    "lambda2": ("numbers of at least 0", lambda x: x >= 0),
    "variance": ("a number of at least 0", lambda x: x >= 0),
    "residual": ("a number of at least 0", lambda x: x >= 0),
    "error": ("a number of at least 0", lambda x: x >= 0),
    "n": ("a whole number of at least 1", lambda x: (x >= 1) & (x % 1 == 0)),
    "r2": ("a number above 0 and at most 1", lambda x: (x > 0) & (x <= 1)),
    "m": ("a probability, from 0 to 1", lambda x: (x >= 0) & (x <= 1)),
    "rho": ("a correlation, from -1 to 1", lambda x: np.abs(x) <= 1),
    "beta": ("a number", np.isfinite),
}
"""What the arguments of the formulas must be."""
P = ParamSpec("P")
T = TypeVar("T")


def _checked(formula: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments for which a formula has no meaning, and make the others floats; a slope needs a variance above 0."""
    signature = inspect.signature(formula)

    @wraps(formula)
    def check(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        for name in bound.arguments.keys() & _LIMITS.keys():
            several = signature.parameters[name].annotation == "ArrayLike"
            bound.arguments[name] = x = _allowed(name, bound.arguments[name], several)
            if name == "variance" and "slope" in formula.__name__ and not np.all(x > 0):
                raise ParameterError("variance must be a number above 0: a column that is constant has no slope.")
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                return formula(*bound.args, **bound.kwargs)
        except ArithmeticError:
            raise ParameterError(
                f"{formula.__name__} cannot be computed: these numbers are too large, or too near 0, together."
            ) from None

    return check


def _allowed(name: str, value: Any, several: bool) -> Any:
    """Return an argument as a float, or as an array where there may be several."""
    allowed, holds = _LIMITS[name]
    try:
        x = _array(value)
    except (TypeError, ValueError, OverflowError):
        x = np.array(np.nan)
    if not (np.all(np.isfinite(x)) and np.all(holds(x)) and (several or not x.ndim)):
        raise ParameterError(f"{name} must be {allowed}.")
    return x if several else float(x)


def _array(value: Any) -> Numbers:
    return np.asarray(value, np.float64)


@_checked
def attenuation(lambda2: ArrayLike) -> Numbers:
    """Return the factor on the correlation of a masked with an unmasked column: 1/√(1+λ²) (section 3)."""
    return 1 / np.sqrt(1 + _array(lambda2))


@_checked
def utility_mean(lambda2: ArrayLike, variance: float, n: int) -> Numbers:
    """Return U of a mean: n / ((1+λ²) σ²); for c'μ put c'Σc for σ² (section 5, ERRATA 0.8)."""
    with np.errstate(divide="ignore"):
        return n / ((1 + _array(lambda2)) * variance)


@_checked
def variance_slope_case1(residual: float, variance: float, n: int) -> float:
    """Return Var(β̂) when both columns carry Kim noise: σₑ²/((n-3)σ²), whatever λ² (Case 1)."""
    return residual / ((n - 3) * variance) if n > 3 else float("inf")


@_checked
def expected_slope_case2(beta: float, lambda2: ArrayLike) -> Numbers:
    """Return E(β̂₂) = β/(1+λ²) when only the independent variable is masked (4.3)."""
    return beta / (1 + _array(lambda2))


@_checked
def variance_slope_case2(lambda2: ArrayLike, beta: float, variance: float, residual: float, n: int) -> Numbers:
    """Return Var(β̂₂) (4.4); infinite for n ≤ 3 (ERRATA 0.17)."""
    k = 1 + _array(lambda2)
    if n <= 3:
        return np.full_like(k, np.inf)
    return (beta**2 * variance * (1 - 1 / k) + residual) / ((n - 3) * variance * k)


@_checked
def r_squared(beta: float, variance: float, residual: float) -> float:
    """Return the coefficient of determination 1 - σₑ²/(β²σ² + σₑ²) (4.6)."""
    if (total := beta**2 * variance + residual) == 0:
        raise ParameterError(
            "beta and residual are 0: the dependent variable is constant, so there is nothing to explain."
        )
    return 1 - residual / total


@_checked
def utility_slope_case2(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of the slope when only the independent variable is masked (4.5). Not always decreasing: ERRATA 0.4."""
    level = _array(lambda2)
    if n <= 3:
        return np.zeros_like(level)
    inner = level / (1 + level) * (1 / (n - 3) + level) + (1 - r2) / ((n - 3) * r2)
    return 1 / (beta**2 / (1 + level) * inner)


@_checked
def best_lambda2_case2(r2: float, n: int) -> float:
    """Return the λ² at which U of (4.5) is largest: 0 if R² ≥ 1/2, else (c-k)/(2-k-c) (ERRATA 0.4).

    Infinite for so few records, and so weak a relation, that the slope 0 beats every estimate (k + c ≥ 2).
    """
    if n <= 3 or r2 >= 0.5:
        return 0.0  # for n ≤ 3 U is 0 whatever λ² is
    k = 1 / (n - 3)
    c = k * (1 - r2) / r2
    return (c - k) / (2 - k - c) if k + c < 2 else float("inf")


@_checked
def variance_slope_case3(lambda2: ArrayLike, beta: float, variance: float, residual: float, n: int) -> Numbers:
    """Return Var(β̂₃) when only the dependent variable is masked (Case 3); infinite for n ≤ 3."""
    level = _array(lambda2)
    if n <= 3:
        return np.full_like(level, np.inf)
    return (level * (beta**2 * variance + residual) + residual) / ((n - 3) * variance)


@_checked
def utility_slope_case3(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of the slope when only the dependent variable is masked (4.7)."""
    level = _array(lambda2)
    if n <= 3:
        return np.zeros_like(level)
    return (n - 3) * r2 / (beta**2 * (level + 1 - r2))


@_checked
def utility_slope_adjusted(lambda2: ArrayLike, beta: float, r2: float, n: int) -> Numbers:
    """Return U of β* = (1+λ²)β̂₂, corrected for attenuation (5.1): the same as (4.7) (ERRATA 0.16)."""
    return utility_slope_case3(lambda2, beta, r2, n)


@_checked
def index_risk(lambda2: ArrayLike, variance: float) -> Numbers:
    """Return R = 1/(λ²σ²) of the snooper with index knowledge (4.8); infinite at λ² = 0."""
    with np.errstate(divide="ignore"):
        return 1 / (_array(lambda2) * variance)


@_checked
def linkage_risk(lambda2: ArrayLike, variance: float, m: float) -> Numbers:
    """Return R when linkage succeeds with probability m, else gives a random record: 1/(σ²(λ² + 2(1-m)))."""
    with np.errstate(divide="ignore"):
        return 1 / (variance * (_array(lambda2) + 2 * (1 - m)))


@_checked
def bayes_risk(lambda2: ArrayLike, variance: float, rho: float = 0.0) -> Numbers:
    """Return R of the snooper who shrinks: 1/(σ²(1-ρ²)) + 1/(λ²σ²) (ERRATA 0.3; ρ with an unmasked covariate)."""
    with np.errstate(divide="ignore"):
        return 1 / (_array(variance) * (1 - rho**2)) + 1 / (_array(lambda2) * variance)


@_checked
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


# Figures 1 and 2 of the R-U paper, one call each: `.frame()` is the table, `.chart()` the picture.


TEACHERS = NormalPopulation(
    {"income": 96.0, "salary": 62.0}, [[17.5**2, 8.3**2], [8.3**2, 13.3**2]], n=1000, unit="thousand dollars"
)
"""Household income and salary of 1,000 teachers: the covariance of section 5. The paper gives no means; these are ours."""

MAX_RISK = 1 / 5.0**2
"""Section 5's threshold, an error of $5K for salary: (5)⁻² per thousand dollars squared (ERRATA 0.1)."""

_GRID = tuple(float(v) for v in np.geomspace(0.01, 1.0, 41))


def figure1(lambda2: Sequence[float] = _GRID, replications: int = 0, draws: Draws | int | None = None) -> RUMap:
    """Return Figure 1: risk for salary against the utility of mean salary and of mean extra-salary income.

    ERRATA 0.6 and 0.7: with U to the right, the left-hand curve is the difference of means, and both lose the same share.
    """
    utilities = [Mean("salary"), MeanCombination({"income": 1, "salary": -1})]
    return ru_map(
        TEACHERS, KimNoise(), {"kim_noise.lambda2": lambda2}, "salary", [EstimatorUtility(u) for u in utilities],
        replications=replications, draws=draws,
    )  # fmt: skip


def slope_map(
    lambda2: Sequence[float] = _GRID,
    r2: float = 0.3,
    n: int = 200,
    replications: int = 0,
    draws: Draws | int | None = None,
) -> RUMap:
    """Return one half of Figure 2: risk against the utility of the plain and the attenuation-corrected slope (β = σ = 1).

    ERRATA 0.5: for small λ² the plain slope is the more useful one.
    """
    slopes = [Slope("y", "x"), Slope("y", "x", corrected_by="kim_noise.lambda2")]
    return ru_map(
        NormalPopulation.regression(r2, n), KimNoise(columns=("x",)), {"kim_noise.lambda2": lambda2}, "x",
        [EstimatorUtility(s) for s in slopes], replications=replications, draws=draws,
    )  # fmt: skip


def figure2(
    lambda2: Sequence[float] = _GRID,
    r2: Sequence[float] = (0.3, 0.5),
    n: int = 200,
    replications: int = 0,
    draws: Draws | int | None = None,
) -> Overlay:
    """Return Figure 2: the value of knowing λ², for a weaker and a stronger relation, on the same axes.

    ``figure2().frame()`` is the table, ``figure2().chart(chosen={"kim_noise.lambda2": 0.15})`` the picture.
    """
    return Overlay({f"R² = {value:g}": slope_map(lambda2, value, n, replications, draws) for value in r2})


def value_of_knowing(m: RUMap) -> list[float]:
    """Return, at each point of a `slope_map`, how many times the corrected slope is as useful as the plain one."""
    plain, corrected = m.of_side(Side.UTILITY)
    return [m.estimate(corrected, p)[0] / m.estimate(plain, p)[0] for p in range(len(m.points))]
