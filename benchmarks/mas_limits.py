"""What noise and limits cost 200 ordinary questions by ten users, on 5,000, 20,000 and 200,000 records of a survey.

The risk of a policy is what its accounts promise: right guesses of 100 between two values of a person, with all answers to all
users; under hardened for whoever does not know the confidential values of others, under guaranteed for whoever does. Each policy
is asked as it is, with half and with twice its noise, and with tighter and wider limits. Judged are hardened on 20,000 records
and guaranteed on 200,000, as they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.files import within_limits

SIZES = tuple(map(int, os.environ.get("SFUMATO_BENCH_SIZES", "5000,20000,200000").split(",")))
NOISE = (0.5, 1.0, 2.0)
LIMITS = ((57.0, 60.0), (60.0, 65.0), (63.0, 74.0))
"""Of one user, and of everybody."""
LEAST_ANSWERED = 0.85
MOST_OFF = {("hardened", 20_000): ("100 to 300", 0.025), ("guaranteed", 200_000): ("1,000 or more", 0.03)}


def run() -> dict[str, float]:
    result: dict[str, float] = {}
    for n in SIZES:
        for name, policy, served in ru_map(n):
            at = f"{n:,}, {policy}"
            result |= {
                f"{at}: answered": served.answered,
                f"{at}: regressions": served.models,
                f"{at}: overlap": served.overlap,
            }
            result |= {f"{at}: off, cells of {size}": off for size, off in served.errors.items()}
            if policy == f"{name} as it is" and (name, n) in MOST_OFF:
                size, most = MOST_OFF[name, n]
                result[f"ratio, {at}: refused"] = (1 - served.answered) / (1 - LEAST_ANSWERED)
                result[f"ratio, {at}: off"] = served.errors[size] / most
    return result


def ru_map(n: int) -> Iterator[tuple[str, str, Any]]:
    """Yield the name of a policy, its settings, and how it served the users of a survey of n records."""
    from sfumato.datasets.analysis_survey import coarse_cutpoints, survey20k
    from sfumato.mas.attacks.reference_workload import HonestUsers
    from sfumato.mas.policy import Policy

    users = HonestUsers(survey20k(n), coarse_cutpoints(), Path(tempfile.mkdtemp(prefix="sfumato-limits-")))
    for name in ("hardened", "guaranteed"):
        base = Policy.named(name)
        own = (base.accounts.user, base.accounts.everybody)
        for times in NOISE:
            noise = {f"{part}.sd": times * base.noise(part).sd for part in ("counts", "amounts", "models")}
            for user, everybody in LIMITS if times == 1 else (own,):
                limits = {"accounts.user": user, "accounts.everybody": everybody}
                plain = times == 1 and (user, everybody) == own
                title = f"{name} as it is" if plain else f"{name}, noise x {times:g}, {everybody:g} of 100"
                yield name, title, users.served(base.set(noise | limits).with_(title=title))


def holds(result: dict[str, float]) -> bool:
    return within_limits(result)
