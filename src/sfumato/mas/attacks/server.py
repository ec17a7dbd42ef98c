"""The server as an attacker sees it: questions go in, answers or refusals come out, by the vault's own way."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.policy import Policy
from sfumato.mas.universe import Spec
from sfumato.mas.vault import Vault


@dataclass(eq=False)
class Tally:
    """What came of the questions of an attack."""

    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """How many questions each rule refused."""

    @property
    def asked(self) -> int:
        """How many questions were asked."""
        return self.answered + self.refused.total()

    @property
    def refusal_rate(self) -> float:
        """Share of questions that were refused; 0 if none was asked."""
        return self.refused.total() / self.asked if self.asked else 0.0


@dataclass(frozen=True, eq=False)
class Server:
    """A data set behind a policy. An attacker waits as long as he likes, so the rate of questions is not limited."""

    vault: Vault
    dataset: Dataset
    policy: Policy
    tally: Tally
    user: str = "attacker"

    def ask(self, universe: Spec, analysis: Analysis) -> Answer | Refusal:
        """Ask a question."""
        found = self.vault.ask(self.dataset, universe, analysis, self.policy, user=self.user)
        if isinstance(found, Refusal):
            self.tally.refused[found.rule] += 1
        else:
            self.tally.answered += 1
        return found

    def counts(self, universe: Spec, by: str) -> dict[str, float] | None:
        """Return the counts of a universe by the levels of a variable, NaN where they are not shown; None if it is refused."""
        from sfumato.mas.analyses import CrossTab

        found = self.ask(universe, CrossTab((by,)))
        if isinstance(found, Refusal):
            return None
        rows = next(iter(found.tables.values()))
        return {str(row[by]): _number(row["count"]) for row in rows}

    def as_user(self, name: str) -> Server:
        """Return the same server for another user."""
        return Server(self.vault, self.dataset, self.policy, self.tally, name)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
