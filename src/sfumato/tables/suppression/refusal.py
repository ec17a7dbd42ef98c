"""Why a table cannot be protected, and the least that would have to give."""

from __future__ import annotations

import numpy as np

from sfumato.errors import DataError, listing
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.repair import Repair


def refuse(problem: Problem, target: int) -> DataError:
    """Return the error for a secret that cannot move far enough: with the protected cells to release, or the levels to lower."""
    name = problem.name(target)
    everything = ~problem.fixed
    ways = []
    for side, need in ((1, problem.upper[target]), (-1, problem.lower[target])):
        if need > 0:
            dear = 1e3 * float(problem.cost.sum() + 1)
            ways.append(Repair(problem, forbidden_cost=dear).way(target, side * float(need), everything))
    if ways and all(w is not None for w in ways):
        release = np.flatnonzero(problem.fixed & np.any([w != 0 for w in ways if w is not None], axis=0))
        return DataError(
            f"{name} cannot be protected while cells that it depends on must be shown. It works if these may be hidden: "
            f"{listing([problem.name(int(c)) for c in release])}."
        )
    low, high = problem.attacker(everything).intervals(np.array([target]))
    up, down = float(high[0] - problem.value[target]), float(problem.value[target] - low[0])
    parts = [
        got / need
        for got, need in (
            (up, problem.upper[target]), (down, problem.lower[target]), (up + down, problem.width[target]),
        )
        if need > 0
    ]  # fmt: skip
    share = max(min(parts, default=0.0), 0.0)
    return DataError(
        f"{name} cannot be protected: even with everything hidden, what attackers know before leaves it less room than the rule "
        f"demands. It works with protection levels of {100 * share:.3g} % of those, or with wider bounds of what is known."
    )
