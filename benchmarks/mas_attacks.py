"""Every recipe of the attack bench against the hardened policy, with its universe rules and without (`sfumato attack`)."""

from __future__ import annotations

import tempfile
from pathlib import Path

TRIALS = 400
SEED = 11
"""Of another survey than the one that most settings of the policy were chosen on; docs/mas/attacks.md says which were not."""


def run() -> dict[str, float]:
    from sfumato.datasets.survey20k import fine_cutpoints, survey20k
    from sfumato.mas.attacks.bench import Bench, rules_off
    from sfumato.mas.policy import Policy

    hardened = Policy.named("hardened")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(survey20k(seed=SEED), fine_cutpoints(), Path(folder), trials=TRIALS)
        found = [(policy.title, one) for policy in (hardened, rules_off(hardened)) for one in bench.all(policy)]
    return {f"{title}: {one.title}, right less bar": one.success.rate - one.limit for title, one in found}


def holds(result: dict[str, float]) -> bool:
    """Whether every recipe stays under its bar; without universe rules it is told, and not judged."""
    return all(value <= 0 for what, value in result.items() if "rules off" not in what)
