"""Small vaults for the tests of the analysis system, with a secret of their own so that every run is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.mas import Cutpoints
from sfumato.mas.accounts import Accounts
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rules import SetRule
from sfumato.mas.sums import SumsRequest, TableSums
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, DryRun, Vault
from sfumato.schema import Attribute, Schema

Piece = Mapping[str, Sequence[str]]

UNLIMITED = Accounts(user=100, everybody=100)
"""Accounts that are never spent."""

EDGES = (28_500, 39_500, 45_000, 53_500, 62_000, 70_500)
TABLE = {"male": (20, 97, 49, 92, 38, 49, 11), "female": (26, 99, 42, 64, 45, 37, 8)}
"""Table 3.2.1 of the paper."""


def vault_of(
    folder: Path, frame: pd.DataFrame, roles: Mapping[str, str], policy: Policy | None = None,
    bins: Mapping[str, Cutpoints] | None = None,
) -> Vault:  # fmt: skip
    """A vault with one data set named "data"; columns without a role are known, numbers are ordered."""
    attributes = [
        Attribute(
            name,
            role=roles.get(name, "key"),
            scale="ordered" if pd.api.types.is_numeric_dtype(frame[name]) else "unordered",
        )
        for name in frame
    ]
    folder.mkdir(parents=True)
    vault = Vault(folder, Draws("cases"), policy or Policy.named("hardened"))
    vault.freeze("data", Microdata(frame, Schema(tuple(attributes))), bins)
    return vault


def paper(folder: Path) -> Vault:
    """The people of Table 3.2.1, under the rules as printed."""
    middle = [20_000, *(e + 100 for e in EDGES)]
    rows = [(sex, x) for sex, counts in TABLE.items() for x, n in zip(middle, counts, strict=True) for _ in range(n)]
    bins = {"income": Cutpoints(EDGES, whole=True, unit="$", low=0, high=120_000)}
    frame = pd.DataFrame(rows, columns=["gender", "income"])
    return vault_of(folder, frame, {"income": "confidential"}, Policy.named("census2009"), bins)


def asked(vault: Vault, universe: object, policy: Policy | None = None) -> Question:
    """A question about a universe alone."""
    return Question(vault.dataset("data"), policy or vault.policy, Universe.of(universe), DryRun())


def rule(vault: Vault, universe: object, policy: Policy | None = None) -> str:
    """The rule that refuses a universe, or nothing; nothing is logged or charged."""
    refused = refusal(vault, universe, policy)
    return "" if refused is None else refused.rule


def refusal(vault: Vault, universe: object, policy: Policy | None = None) -> Refusal | None:
    """The refusal of a universe, or nothing; nothing is logged or charged."""
    found = Answering(vault.dataset("data"), asked(vault, universe, policy)).answer()
    return found if isinstance(found, Refusal) else None


def records_in(dataset: Dataset, universe: object) -> int:
    """How many records are in a universe, exactly."""
    question = Question(dataset.codebook, Policy.open(), Universe.of(universe), DryRun())
    sums, losses = Mechanism(dataset, question.policy, question).protect(SumsRequest({"all": TableSums(())}))
    assert not sum(float(loss.amounts.sum()) for loss in losses)
    return int(sums.cells("all").n)


def sizes(vault: Vault, universe: object, rule: SetRule) -> list[int]:
    """How many records the sets have that a rule looks at, exactly, in order of their size."""
    question, data = asked(vault, universe), vault.dataset("data")
    there = data.cubes.of(question.selection.variables).counts > 0
    sets = [one.plain for one in rule.sets(question.selection, there)]
    return sorted(data.cubes.of(one.variables).count(one) for one in sets)


def inside(frame: pd.DataFrame, piece: Piece) -> np.ndarray:
    """Which records are in a piece."""
    held = np.ones(len(frame), bool)
    for name, levels in piece.items():
        held &= frame[name].isin(list(levels)).to_numpy()
    return held


def random_piece(rng: np.random.Generator, levels: Mapping[str, Sequence[str]], most: int = 3) -> dict[str, list[str]]:
    """Some levels of some variables."""
    names = rng.choice(list(levels), rng.integers(1, most + 1), replace=False)
    return {
        str(n): [str(v) for v in rng.choice(list(levels[n]), rng.integers(1, len(levels[n])), replace=False)]
        for n in names
    }
