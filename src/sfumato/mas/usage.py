"""Usage from the log: how much each user asked, what is left of the accounts, and the workload as a utility."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.contract.measure import Measure, Weighted
from sfumato.errors import DataError
from sfumato.mas.accounts import right_of
from sfumato.mas.ledger import Alert, CellCounts, Entry, alerts_in

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.mas.vault import Vault

# --- workload
# What users ask for, from the log: estimands and their frequencies, as the utility of an R-U map.

_MODELS: dict[str, Literal["linear", "logistic"]] = {"linear model": "linear", "logistic model": "logistic"}


@dataclass(frozen=True)
class Estimand:
    """A quantity that users ask for, in any universe: a table, a mean, a regression, a correlation."""

    kind: str
    """A "table", "linear model", "logistic model" or "correlation"."""
    about: tuple[str, ...]
    """The dimensions of the table, the formula, or the variables."""
    weighted: bool = False

    def measure(self) -> Measure:
        """Return the measure of how well a masked file preserves it: 1 if nothing is lost."""
        from sfumato.utility.distances import TableDistance
        from sfumato.utility.moments import CorrelationsKept
        from sfumato.utility.regression import IntervalOverlap

        if self.kind == "table":
            return TableDistance(over=self.about, order=len(self.about), weighted=self.weighted)
        if self.kind == "correlation":
            return CorrelationsKept(over=self.about, weighted=self.weighted)
        return IntervalOverlap(self.about[0], model=_MODELS[self.kind], weighted=self.weighted)


@dataclass(frozen=True)
class Workload:
    """Estimands, and how often each was asked for and answered."""

    counts: Mapping[Estimand, int]
    skipped: int = 0
    """Questions for which there is no measure of a masked file, such as quantiles."""

    def frame(self) -> pd.DataFrame:
        """Return a row for each estimand, the most frequent first."""
        import pandas as pd

        total = sum(self.counts.values())
        return pd.DataFrame([
            {"kind": e.kind, "about": ", ".join(e.about), "weighted": e.weighted, "asked": n, "share": n / total}
            for e, n in self.counts.items()
        ])  # fmt: skip

    def utility(self) -> Weighted:
        """Return the utility of a masked file for these users: estimands weighted by how often they were asked for."""
        if not self.counts:
            raise DataError("the log holds no question that a masked file could answer.")
        total = sum(self.counts.values())
        shares = tuple(n / total for n in self.counts.values())
        return Weighted(parts=tuple(estimand.measure() for estimand in self.counts), weights=shares)


def workload(log: Iterable[Entry | Mapping[str, Any]]) -> Workload:
    """Count the estimands that were asked for and answered in a log (`vault.ledger.entries()`), the most frequent first.

    Examples
    --------
    >>> asked = workload([{"outcome": "answered", "analysis": "cross_tab", "by": ["sex", "race"]}] * 3)
    >>> dict(asked.counts)
    {Estimand(kind='table', about=('race', 'sex'), weighted=False): 3}
    """
    found: Counter[Estimand] = Counter()
    skipped = 0
    for entry in log:
        content = entry if isinstance(entry, Mapping) else entry.content
        if content.get("outcome") != "answered":
            continue
        estimands = _estimands(content)
        skipped += not estimands
        found.update(estimands)
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0].kind, item[0].about))
    return Workload(dict(ordered), skipped)


def _estimands(content: Mapping[str, Any]) -> list[Estimand]:
    weighted = bool(content.get("weighted", False))
    match content.get("analysis"):
        case "cross_tab":
            made = [Estimand("table", tuple(sorted(content["by"])), weighted)]
            if of := content.get("of"):
                made.append(Estimand("linear model", (str(of),), weighted))
            return made
        case "ols":
            return [Estimand("linear model", (str(content["formula"]),), weighted)]
        case "logistic":
            return [Estimand("logistic model", (str(content["formula"]),), weighted)]
        case "correlation":
            return [Estimand("correlation", tuple(sorted(content["of"])), weighted)]
    return []


# --- usage report
# The custodian's report: how much each user asked, what all answers tell of a record, and the alerts.


_MINUTE = datetime.timedelta(minutes=1)


@dataclass(frozen=True)
class UserUsage:
    """The usage of a data set by one user."""

    user: str
    asked: int
    """Questions and dry runs."""
    refused: int
    errors: int
    """Questions that made no sense."""
    busiest: int
    """Most questions about this data set in a minute."""
    right: float
    """Guesses between two values of a record that are right, of 100, with all answers to this user; at most, of any record."""
    informed: float
    """The same for whoever knows the confidential values of all others; equal where the accounts suppose that."""


@dataclass(frozen=True)
class UsageReport:
    """The usage of a data set; for the custodian alone."""

    dataset: str
    policy: str
    users: tuple[UserUsage, ...]
    right: float
    """The same with the answers to all users together, over all projects."""
    informed: float
    """The same for whoever knows the confidential values of all others."""
    frozen: float
    """The same with the bounds, shares and grids alone that were read off the records at freezing."""
    limits: tuple[float, float] | None
    """Most right guesses for one user, and for all users together; None if the policy has no accounts."""
    others: str
    """Whether limits hold for whoever knows the confidential values of all others (known), or not (unknown)."""
    per_minute: int | None
    """Most questions of a user in a minute."""
    alerts: tuple[Alert, ...]
    exact: tuple[str, ...] = ()
    """What users see of confidential variables that was read off exact counts at freezing, by the custodian's word."""

    def to_json(self) -> dict[str, Any]:
        """Return the report in the form of JSON."""
        return {**asdict(self), "alerts": [alert.to_json() for alert in self.alerts]}

    def __str__(self) -> str:
        user, everybody = self.limits or (None, None)
        lines = [f"{self.dataset}, policy {self.policy}. CONFIDENTIAL: for the custodian."]
        lines += [
            f"{one.user}: {one.asked:,} asked, {one.refused:,} refused, {one.errors:,} errors, at most {one.busiest:,} in a "
            f"minute; tells two values apart {_of(one.right, user)}" + self._if_informed(one.informed)
            for one in self.users
        ]
        lines += [
            f"all users: {_of(self.right, everybody)}{self._if_informed(self.informed)}",
            f"the frozen file alone: {_of(self.frozen, None)}",
            *(f"read off exact counts, in no account: {one}" for one in self.exact),
        ]
        return "\n".join([*lines, *map(str, self.alerts)])

    def _if_informed(self, right: float) -> str:
        return "" if self.others == "known" else f" ({right:.1f} by whoever knows all other persons' values)"


def usage_of(vault: Vault, name: str, entries: Sequence[Entry], counts: CellCounts | None) -> UsageReport:
    """Return the usage of a data set, from the lines of the log; `counts` are of cells of known variables (`Ledger.settle`)."""
    dataset, policy = vault.dataset(name), vault.policy_of(name)
    mine = [entry for entry in entries if entry.family == name]

    def right(spent: float) -> float:
        return 100 * right_of(spent + dataset.frozen_loss)

    ledger, variables, users = vault.ledger, dataset.variables, []
    for user in sorted({entry.user for entry in mine}):
        asked = [entry for entry in mine if entry.user == user]
        outcomes = [entry.content["outcome"] for entry in asked]
        users.append(UserUsage(
            user, len(asked), outcomes.count("refused"), outcomes.count("error"), _busiest(asked),
            right(ledger.spent(user, name, variables, counts)), right(ledger.spent(user, name, variables)),
        ))  # fmt: skip
    accounts = policy.accounts
    return UsageReport(
        dataset.label, policy.label, tuple(users), right(ledger.spent_by_all(name, variables, counts)),
        right(ledger.spent_by_all(name, variables)), right(0.0),
        (accounts.user, accounts.everybody) if accounts.everybody < 100 else None, accounts.others, policy.per_minute,
        tuple(alerts_in(mine)), dataset.exact,
    )  # fmt: skip


def _busiest(entries: Sequence[Entry]) -> int:
    """Return the largest number of lines within any minute."""
    moments = sorted(datetime.datetime.fromisoformat(entry.moment) for entry in entries)  # clocks may be set back
    first, most = 0, 0
    for i, moment in enumerate(moments):
        while moments[first] <= moment - _MINUTE:
            first += 1
        most = max(most, i - first + 1)
    return most


def _of(right: float, limit: float | None) -> str:
    return f"in at most {right:.1f} of 100 cases" + ("" if limit is None else f", with a limit of {limit:g}")
