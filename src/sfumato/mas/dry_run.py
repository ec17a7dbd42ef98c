"""What is asked when nothing but the universe is in question."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.mas.analysis import Analysis, Findings
from sfumato.mas.question import Question
from sfumato.mas.variable import Variable


class DryRun(Analysis, abstract=True):
    """No analysis: whether a universe would pass its rules, for `Vault.check`."""

    def wording(self) -> str:
        """Return its name."""
        return self.name

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return no variable."""
        return ()

    def run(self, question: Question) -> Findings:
        """Find nothing."""
        return Findings({})
