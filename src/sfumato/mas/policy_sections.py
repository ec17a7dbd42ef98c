"""A policy as sections of a report to a review board: what it demands and does, what it withstands, costs, and leaves open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sfumato.charts.captions import counted, spoken
from sfumato.contract.score import Section, TextTable
from sfumato.mas.attacks.base import Outcome
from sfumato.mas.attacks.bench import HEADS, table
from sfumato.mas.attacks.reference_workload import Honest
from sfumato.mas.ledger import FEW
from sfumato.mas.policy import Policy, attacker, changes

if TYPE_CHECKING:
    from sfumato.mas.usage import UsageReport

_ALERTS = 20

OPEN_STATEMENT = (
    "With noise and accounts, what all answers tell of one person's confidential values is bounded, whatever else is known.",
    "Known variables have no such bound: everybody is taken to know them.",
    "What a group has in common is visible as such.",
    "Drops and rules are outside the bound; without noise or accounts there is none.",
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
    said = (
        f"Questions are answered under the policy {policy.title}, version {policy.version}; every answer names both.",
        "Noise depends on the records that known variables select: whoever asks the same again gets the same answer.",
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


def standing_section(standing: UsageReport) -> Section:
    """Return what was asked of a data set so far, what all answers tell of a person, and alerts; users are not named."""
    asked, refused, errors = (
        sum(getattr(one, name) for one in standing.users) for name in ("asked", "refused", "errors")
    )
    said = [
        f"The newest version of the data set is {standing.dataset}; the policy {standing.policy} holds for it.",
        f"{counted(len(standing.users), 'user')} asked {counted(asked, 'question')}, dry runs among them.",
        f"{refused:,} of them were refused, and {errors:,} made no sense.",
    ]
    if standing.exact:
        said.append(
            "The custodian let these facts of confidential variables be read off exact counts when the data set was frozen, and no "
            f"account holds what they tell: {'; '.join(standing.exact)}."
        )
    said.append(_told(standing))
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


def _told(standing: UsageReport) -> str:
    """Say what all answers so far tell of the record that they tell most of."""
    if standing.limits is None:
        return "The policy has no accounts: there is no bound on what all answers tell of a person."
    most = max((one.right for one in standing.users), default=standing.frozen)
    user, everybody = standing.limits
    said = (
        f"{attacker(standing.others)} tells two values of one person apart in at most {most:.1f} of 100 cases with all answers to "
        f"one user (the limit is {user:g}), and in {standing.right:.1f} "
        f"with those to all users together (the limit is {everybody:g})."
    )
    if standing.others == "known":
        return said
    informed = max((one.informed for one in standing.users), default=standing.frozen)
    return (
        f"{said} For whoever knows the confidential values of everybody else there is no limit: it would be {informed:.1f}, and "
        f"{standing.informed:.1f}."
    )


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.3g} %"
