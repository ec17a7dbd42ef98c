"""Honest users: a data set in a vault, and what they ask of it under any policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sfumato.contract import Draws
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.honest import Honest, honest
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger
from sfumato.mas.ordinary import Ordinary, ordinary_questions
from sfumato.mas.policy import Policy
from sfumato.mas.secrets import Secret, ledger_key
from sfumato.mas.vault import Vault
from sfumato.microdata import Microdata


@dataclass(frozen=True, eq=False)
class HonestUsers:
    """Users who mean no harm: their questions to a data set, and the answers without protection to compare with."""

    data: Microdata
    cutpoints: Mapping[str, Cutpoints]
    folder: Path
    """Where the records are kept for the while."""
    asked: tuple[Ordinary, ...] = field(default_factory=ordinary_questions)
    """The questions, in order; the 200 ordinary ones about `datasets.survey20k` if not given."""
    _truths: dict[int, Answer | Refusal] = field(default_factory=dict, repr=False)

    @cached_property
    def _frozen(self) -> tuple[Vault, Dataset]:
        self.folder.mkdir(parents=True, exist_ok=True)
        vault = Vault(self.folder, Draws("workload"), Policy(title="open"))
        vault.ledger = Ledger(self.folder / "honest.sqlite", ledger_key(Draws("workload")), lasting=False)
        return vault, vault.freeze("survey", self.data, self.cutpoints)

    def served(self, policy: Policy, replication: int = 0) -> Honest:
        """Ask everything under a policy, with accounts that nobody has used before.

        The secret depends on the replication alone, so that policies are compared with the same random numbers. Policies are
        told apart by their title.
        """
        vault, dataset = self._frozen
        secret = Secret(Draws(f"workload {replication}")) if replication else dataset.secret
        fresh = dataclasses.replace(dataset, name=f"survey_{replication}_{policy.title}", secret=secret, decided={})
        return honest(vault, fresh, policy, self.asked, self._truths)
