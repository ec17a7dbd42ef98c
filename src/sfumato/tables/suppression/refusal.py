"""Why a table cannot be protected, and the least that would have to give."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing
from sfumato.tables.suppression.exact import Exact, demands_of
from sfumato.tables.suppression.fast import Clock, OutOfTime
from sfumato.tables.suppression.problem import Problem

Flags = NDArray[np.bool_]

_SECONDS = 20.0


def refuse(problem: Problem, target: int) -> DataError:
    """Return the error for secrets that cannot move far enough: with the fewest cells to release, or the levels that work."""
    if problem.fixed.any() and (release := _fewest(problem)) is not None:
        return DataError(
            f"{problem.name(target)} cannot be protected while cells that it depends on must be shown. It works if these may be "
            f"hidden: {listing([f'({problem.name(int(c))})' for c in np.flatnonzero(release)])}."
        )
    targets = problem.targets
    low, high = problem.attacker(~problem.fixed).intervals(targets)
    up, down = high - problem.value[targets], problem.value[targets] - low
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.min([
            np.where(need[targets] > 0, got / need[targets], np.inf)
            for got, need in ((up, problem.upper), (down, problem.lower), (up + down, problem.width))
        ], axis=0)  # fmt: skip
    worst = int(np.argmin(shares))
    percent = _below(100 * max(float(shares[worst]), 0.0))
    return DataError(
        f"{problem.name(int(targets[worst]))} cannot be protected: even with everything hidden, what attackers know before "
        f"leaves it less room than the rule demands. It works with protection levels of {percent} % of those, or if attackers "
        "know less."
    )


def _fewest(problem: Problem) -> Flags | None:
    """Return the fewest cells that would have to be released, if that helps and can be found quickly."""
    relaxed = replace(problem, cost=np.ones(len(problem)), hidden=~problem.fixed, fixed=np.zeros(len(problem), bool))
    try:
        found = Exact(relaxed, Clock(time.monotonic() + _SECONDS)).solve(demands_of(relaxed))
    except OutOfTime:
        found = np.ones(len(problem), bool)
    return None if found is None else found & problem.fixed


def _below(percent: float) -> str:
    """Return a number with three digits that is not above the given one."""
    if percent <= 0:
        return "0"
    unit = 10.0 ** (np.floor(np.log10(percent)) - 2)
    return f"{np.floor(percent / unit) * unit:.3g}"
