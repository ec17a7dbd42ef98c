"""Every recipe of the attack bench against the hardened policy, with its universe rules and without (`sfumato attack`)."""

from __future__ import annotations

import tempfile
from pathlib import Path

TRIALS = 400
SEED = 12
"""Of another survey than those that settings of the policy were chosen on."""


def run() -> dict[str, float]:
    from sfumato.datasets.analysis_survey import fine_cutpoints, survey20k
    from sfumato.mas.attacks.bench import Bench, rules_off
    from sfumato.mas.policy import Policy

    hardened = Policy.named("hardened")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(survey20k(seed=SEED), fine_cutpoints(), Path(folder), trials=TRIALS)
        found = [(policy.title, one) for policy in (hardened, rules_off(hardened)) for one in bench.all(policy)]
    less = {f"{title}: {one.title}, right less bar": one.success.rate - one.limit for title, one in found}
    broken = {f"broken: {one.title}": float(one.verdict == "BROKEN") for title, one in found if title == hardened.title}
    formal = {f"{title}: {one.title}, formal limit": one.formal for title, one in found}
    expected = {
        f"{title}: {one.title}, right as calculated": one.calculated
        for title, one in found
        if one.calculated == one.calculated
    }
    return less | broken | formal | expected


def holds(result: dict[str, float]) -> bool:
    """Whether no recipe breaks its bar: beyond what chance explains, where targets are few. Without universe rules it is told."""
    return not any(value for what, value in result.items() if what.startswith("broken"))
