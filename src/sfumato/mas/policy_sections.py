"""A policy as sections of a report to a review board: what it demands and does, what it withstands, costs, and leaves open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sfumato.charts.captions import counted, short, spoken
from sfumato.contract.score import Section, TextTable
from sfumato.mas.attacks.base import Outcome
from sfumato.mas.attacks.bench import HEADS, table
from sfumato.mas.attacks.reference_workload import Honest
from sfumato.mas.ledger import FEW
from sfumato.mas.policy import Policy, changes

if TYPE_CHECKING:
    from sfumato.mas.usage import UsageReport

_DELTA = 1e-6
_ALERTS = 20

OPEN_STATEMENT = (
    "This is not differential privacy.",
    "For tables of counts, the zero-concentrated loss of a record is added up and shown.",
    "Drops, models, quantiles, sums and means are outside that loss.",
    "An attribute that a group of 20 or more shares is visible as such.",
    "An attacker who spends a whole account on one person and a balanced attribute gains some points.",
    "The protection rests on the secret of the vault, and on the marks of variables as known or confidential.",
    "Where one variable nearly determines another, the universe rules are weaker: registration finds such pairs and asks.",
)
"""What is said openly about the system."""


def policy_section(policy: Policy) -> Section:
    """Return what a policy demands, and what it does to answers."""
    rules = TextTable(
        ("rule", "demands"), tuple((rule.title, rule.words()) for rule in policy.rules),
        "A question is answered only if all of these hold.",
    )  # fmt: skip
    done = TextTable(("change",), tuple((line,) for line in changes(policy)), "What is done to answers.")
    known = "the records that known variables select" if policy.keyed == "known" else "the set of records itself"
    said = (
        f"Questions are answered under the policy {policy.title}, version {policy.version}; every answer names both.",
        f"Drops and noise depend on {known}: whoever asks the same again gets the same answer.",
        *(() if policy.rules else ("It has no rules: every question is answered.",)),
    )
    return Section(f"The policy {policy.label}", said, (*((rules,) if policy.rules else ()), done))


def attacks_section(attacks: Mapping[str, Sequence[Outcome]]) -> Section:
    """Return how policies fared against attacks, by the title of the policy; each against its bar."""
    said = [
        "Confidential attributes were planted in the data before they were attacked, so that no real value was guessed.",
        "The baseline is what somebody gets right who does not ask; the bar is the largest share that is accepted.",
    ]
    for title, outcomes in attacks.items():
        told = {verdict: [o.title for o in outcomes if o.verdict == verdict] for verdict in ("BROKEN", "not clear")}
        broken, unclear = told.values()
        words = [f"did not withstand {spoken(broken)}"] if broken else []
        words += [f"was attacked with too few targets to tell about {spoken(unclear)}"] if unclear else []
        words = words or [f"withstood all {counted(len(outcomes), 'attack')}"]
        said.append(f"{title[0].upper()}{title[1:]} {spoken(words)}.")
    heads = (*HEADS[:-1], "result")
    content = [TextTable(heads, tuple(table(outcomes)), f"Attacks on {title}.") for title, outcomes in attacks.items()]
    return Section("What it withstands", tuple(said), tuple(content))


def cost_section(served: Honest) -> Section:
    """Return what a policy costs honest users."""
    said = [f"{counted(served.asked, 'ordinary question')}: {_share(served.answered)} were answered."]
    if not math.isnan(served.overlap):
        said.append(
            f"Confidence intervals of regressions overlap by {_share(served.overlap)} (median) with those without protection."
        )
    sizes = tuple((size, _share(served.shown[size]), _share(error)) for size, error in served.errors.items())
    content = [
        TextTable(("records in a cell", "shown", "median error of the count"), sizes, "Counts in answered tables.")
    ]
    if served.refused:
        content.append(
            TextTable(
                ("rule", "questions refused"),
                tuple((rule.replace("_", " "), n) for rule, n in served.refused.items()),
                "What was refused.",
            )
        )
    return Section("What it costs honest users", tuple(said), tuple(content))


def standing_section(standing: UsageReport, policy: Policy) -> Section:
    """Return what was asked of a data set so far, what is left of its accounts, and alerts; users are not named."""
    asked, refused, errors = (
        sum(getattr(one, name) for one in standing.users) for name in ("asked", "refused", "errors")
    )
    said = [
        f"The newest version of the data set is {standing.dataset}; the policy {standing.policy} holds for it.",
        f"{counted(len(standing.users), 'user')} asked {counted(asked, 'question')}, dry runs among them.",
        f"{refused:,} of them were refused, and {errors:,} made no sense.",
    ]
    if standing.limits is not None:
        most = max((one.spent for one in standing.users), default=0.0)
        said.append(
            f"On the record that most was spent on, one user has spent {short(most)} of {standing.limits[0]:g}, and all users "
            f"together {short(standing.spent)} of {standing.limits[1]:g}."
        )
    said.append(_loss(standing.loss, policy))
    content = []
    if standing.alerts:
        number = counted(len(standing.alerts), "question")
        said.append(f"{number} came within {FEW} records of others. That is an alert, not a proof: look at the log.")
        listed = tuple(
            (f"{a.entry.seq:,}", spoken(f"{e.seq:,}" for e in a.near), a.entry.user in {e.user for e in a.near})
            for a in standing.alerts[:_ALERTS]
        )
        more = "" if len(standing.alerts) <= _ALERTS else f" The first {_ALERTS} of {len(standing.alerts):,}."
        caption = f"Universes that differ by few records from others that were answered.{more}"
        content.append(TextTable(("line of the log", "near to line", "of the same user"), listed, caption))
    return Section(f"What was asked of {standing.dataset}", tuple(said), tuple(content))


def open_section() -> Section:
    """Return what the system does not promise."""
    return Section("What is not promised", OPEN_STATEMENT)


def _loss(rho: float, policy: Policy) -> str:
    """Say how much has been lost, by Bun and Steinke (2016), Proposition 1.3."""
    if not policy.counts.sd or policy.accounts is None:
        return "The policy has no noise on counts, or no accounts: no zero-concentrated loss is added up, and there is no bound."
    epsilon = rho + 2 * math.sqrt(rho * math.log(1 / _DELTA))
    return (
        f"Tables of counts have cost the record that lost most a zero-concentrated loss of {short(rho)} (as much as ε = "
        f"{short(epsilon)} at δ = {_DELTA:g}). What else was answered is outside this number."
    )


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.3g} %"
