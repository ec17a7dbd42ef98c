"""Figures 1 and 2 of the R-U paper, one call each: `.frame` is the table, `.chart()` the picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.contract import Draws, Side
from sfumato.masks import KimNoise
from sfumato.rumap.overlay import Overlay
from sfumato.rumap.population import NormalPopulation
from sfumato.rumap.rumap import RUMap, ru_map
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope

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

    ``figure2().frame`` is the table, ``figure2().chart(chosen={"kim_noise.lambda2": 0.15})`` the picture.
    """
    return Overlay({f"R² = {value:g}": slope_map(lambda2, value, n, replications, draws) for value in r2})


def value_of_knowing(m: RUMap) -> list[float]:
    """Return, at each point of a `slope_map`, how many times the corrected slope is as useful as the plain one."""
    plain, corrected = m.of_side(Side.UTILITY)
    return [m.estimate(corrected, p)[0] / m.estimate(plain, p)[0] for p in range(len(m.points))]
