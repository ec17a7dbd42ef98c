"""What a custodian looks at: who asked how much, what is left of the accounts, the accumulated loss, and the alerts."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sfumato.mas.log import Entry
from sfumato.mas.overlap import Alert, alerts_in

if TYPE_CHECKING:
    from sfumato.mas.vault import Vault

_MINUTE = datetime.timedelta(minutes=1)


@dataclass(frozen=True)
class UserStanding:
    """What one user asked of a data set."""

    user: str
    asked: int
    """Questions and dry runs."""
    refused: int
    errors: int
    """Questions that made no sense."""
    busiest: int
    """Most questions in a minute, of this data set."""
    spent: float
    """The most that was spent on any record."""


@dataclass(frozen=True)
class Standing:
    """How a data set stands: for the custodian alone."""

    dataset: str
    policy: str
    users: tuple[UserStanding, ...]
    spent: float
    """The most that all users together have spent on any record."""
    limits: tuple[float, float] | None
    """What a user, and what all users together, may spend on a record; None if the policy keeps no accounts."""
    per_minute: int | None
    """Most questions of a user in a minute."""
    loss: float
    """Accumulated zero-concentrated loss of the record that count tables tell most about."""
    alerts: tuple[Alert, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**asdict(self), "alerts": [alert.to_json() for alert in self.alerts]}

    def __str__(self) -> str:
        user, everybody = self.limits or (None, None)
        lines = [f"{self.dataset}, policy {self.policy}. CONFIDENTIAL: for the custodian."]
        lines += [
            f"{one.user}: {one.asked:,} asked, {one.refused:,} refused, {one.errors:,} errors, at most {one.busiest:,} in a "
            f"minute; spent {_of(one.spent, user)}"
            for one in self.users
        ]
        lines += [f"all users: spent {_of(self.spent, everybody)}", f"zero-concentrated loss: {self.loss:.3g}"]
        return "\n".join([*lines, *map(str, self.alerts)])


def standing_of(vault: Vault, name: str, entries: Sequence[Entry]) -> Standing:
    """Return how a data set stands, from the lines of the log."""
    dataset, policy = vault.dataset(name), vault.policy_of(name)
    mine = [entry for entry in entries if entry.family == name]
    users = []
    for user in sorted({entry.user for entry in mine}):
        asked = [entry for entry in mine if entry.user == user]
        outcomes = [entry.content["outcome"] for entry in asked]
        users.append(UserStanding(
            user, len(asked), outcomes.count("refused"), outcomes.count("error"), _busiest(asked),
            vault.ledger.spent(user, name, dataset.variables),
        ))  # fmt: skip
    accounts = policy.accounts
    return Standing(
        dataset.label, policy.label, tuple(users), vault.ledger.spent("", name, dataset.variables),
        None if accounts is None else (accounts.user, accounts.everybody), policy.per_minute,
        vault.ledger.loss(name, dataset.variables), tuple(alerts_in(mine)),
    )  # fmt: skip


def _busiest(entries: Sequence[Entry]) -> int:
    """Return the most lines within any minute."""
    moments = sorted(datetime.datetime.fromisoformat(entry.moment) for entry in entries)  # clocks are set back
    first, most = 0, 0
    for i, moment in enumerate(moments):
        while moments[first] <= moment - _MINUTE:
            first += 1
        most = max(most, i - first + 1)
    return most


def _of(spent: float, limit: float | None) -> str:
    return f"{spent:.3g}" if limit is None else f"{spent:.3g} of {limit:g}"
