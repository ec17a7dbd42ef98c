"""Choosing from a map of points: the most useful one that is safe enough, looked at again before it is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sfumato.contract import Side
from sfumato.errors import ParameterError, listing
from sfumato.rumap.points import Estimate, PointMap

T = TypeVar("T")
Limits = Mapping[int, float]


def limits_of(m: PointMap, max_risk: float | Mapping[str, float], every: bool = True) -> dict[int, float]:
    """Return what is allowed of each risk, by its position; with `every`, each risk needs a limit."""
    risks = m.of_side(Side.RISK)
    asked = max_risk if isinstance(max_risk, Mapping) else {m.measures[i].label(): max_risk for i in risks}
    found = {m.position(Side.RISK, label): limit for label, limit in asked.items()}
    for limit in found.values():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
            raise ParameterError(f"max_risk must be a number of at least 0; got {limit!r}.")
    absent = [m.measures[i].label() for i in risks if i not in found]
    if absent and (every or not found):
        raise ParameterError(f"max_risk gives no threshold for {listing(absent)}.")
    return {i: float(limit) for i, limit in found.items()}


def excess(estimates: Sequence[Estimate], limits: Limits) -> float:
    """Return the largest upper risk as a share of its limit; infinite where one is not known."""
    worst = 0.0
    for i, limit in limits.items():
        value, interval = estimates[i]
        upper = value if interval is None else interval[1]
        share = 0.0 if upper <= limit else upper / limit if limit > 0 and not np.isnan(upper) else np.inf
        worst = max(worst, share)
    return worst


def best(
    m: PointMap, limits: Limits, utility: int, again: Callable[[int], tuple[T, Sequence[Estimate]]]
) -> tuple[int, T] | None:
    """Return the most useful point whose risks stay within their limits, and what was seen when it was looked at again.

    `again` looks at a point with fresh random numbers; if its risks do not hold there, the next best is taken.
    """
    safe = [p for p in range(len(m.points)) if excess(m.estimates(p), limits) <= 1]
    useful = {p: m.estimate(utility, p)[0] for p in safe}
    for p in sorted((p for p in safe if not np.isnan(useful[p])), key=lambda p: -useful[p]):
        seen, estimates = again(p)
        if excess(estimates, limits) <= 1:
            return p, seen
    return None


def nothing(m: PointMap, limits: Limits, what: str) -> str:
    """Say that nothing is safe enough, and what comes nearest."""
    least = min(range(len(m.points)), key=lambda p: excess(m.estimates(p), limits))
    point = m.points[least]
    said = ", ".join(
        f"{m.measures[i].label()} {m.estimate(i, least)[0]:.4g}, where {limit:.4g} is allowed"
        for i, limit in limits.items()
    )
    return f"no {what} that was tried is safe enough. The nearest is {point.family} ({point.at}): {said}."
