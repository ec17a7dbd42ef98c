"""Why a table cannot be protected, and the least that would have to give."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing
from sfumato.tables.suppression.exact import Exact, demands_of
from sfumato.tables.suppression.fast import Clock, Impossible, OutOfTime
from sfumato.tables.suppression.problem import Problem

Flags = NDArray[np.bool_]

_SECONDS = 20.0


def refuse(
    failed: Impossible, again: Callable[[Flags, Clock], Impossible | None], names: Callable[[Flags], list[str]]
) -> DataError:
    """Return the error for secrets that cannot move far enough: with the fewest cells to release, or the levels that work.

    `again` searches with quantities released from having to be shown, and returns what then fails; `names` are the cells that
    must be shown of some quantities.
    """
    release = _enough(failed, again) if failed.problem.fixed.any() else None
    if release is not None:
        return DataError(
            f"{failed.problem.name(failed.target)} cannot be protected while cells that it depends on must be shown. It works if "
            f"these may be hidden: {listing((f'[{name}]' for name in names(release)), 100)}."
        )
    return _too_close(failed.problem)


def _enough(failed: Impossible, again: Callable[[Flags, Clock], Impossible | None]) -> Flags | None:
    """Return quantities that, released from having to be shown, let all secrets be protected: none of them for nothing."""
    clock = Clock(time.monotonic() + _SECONDS)
    release = np.zeros(0, bool)
    known: Impossible | None = failed
    while known is not None:  # when more may be hidden, other sums of hidden cells may turn out to be secrets
        found = _fewest(known.problem, clock)
        if found is None:
            return None
        count = int(np.flatnonzero(found).max(initial=-1)) + 1
        release = np.concatenate([release, np.zeros(max(count - len(release), 0), bool)])
        release[:count] |= found[:count]
        known = again(release, clock)
    for one in np.flatnonzero(release) if release.sum() > 1 else ():
        fewer = release.copy()
        fewer[one] = False
        if not clock.over and again(fewer, clock) is None:
            release = fewer
    return release


def _too_close(problem: Problem) -> DataError:
    """Return the error for a secret of which attackers know too much before."""
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
    everything = "everything hidden that may be" if problem.fixed.any() else "everything hidden"
    return DataError(
        f"{problem.name(int(targets[worst]))} cannot be protected: even with {everything}, what attackers know before "
        f"leaves it less room than the rule demands. It works with protection levels of {percent} % of those, or if attackers "
        "know less."
    )


def _fewest(problem: Problem, clock: Clock) -> Flags | None:
    """Return the fewest quantities that would have to be released, or all if they are not found in time; None if none help."""
    relaxed = replace(problem, cost=np.ones(len(problem)), hidden=~problem.fixed, fixed=np.zeros(len(problem), bool))
    try:
        found = Exact(relaxed, clock).solve(demands_of(relaxed))
    except OutOfTime:
        found = np.ones(len(problem), bool)
    return None if found is None or not (found & problem.fixed).any() else found & problem.fixed


def _below(percent: float) -> str:
    """Return a number with three digits that is not above the given one."""
    if percent <= 0:
        return "0"
    unit = 10.0 ** (np.floor(np.log10(percent)) - 2)
    return f"{np.floor(percent / unit) * unit:.3g}"
