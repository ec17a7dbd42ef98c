"""The report on a policy of the analysis system, for a disclosure review board."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.contract import Section
from sfumato.mas.attacks.honest import Honest
from sfumato.mas.attacks.recipe import Outcome
from sfumato.mas.policy import Policy
from sfumato.mas.policy_map import PolicyMap
from sfumato.mas.policy_sections import attacks_section, cost_section, open_section, policy_section, standing_section
from sfumato.mas.standing import Standing
from sfumato.reports.board_sections import paragraphs
from sfumato.reports.report import Report


def policy_report(
    policy: Policy,
    *,
    title: str = "",
    asked: str = "",
    attacks: Mapping[str, Sequence[Outcome]] | None = None,
    served: Honest | None = None,
    standing: Standing | None = None,
    map: Section | PolicyMap | None = None,
) -> Report:
    """Return a report about a policy: what it demands and does, what it withstands and costs, and what is not promised.

    Parameters
    ----------
    asked
        What was asked, in your own words.
    attacks
        Outcomes of the attack bench, by the title of the policy that was attacked: as it is, and with its universe rules off.
    served
        What it costs honest users.
    standing
        What was asked so far of a data set that the policy holds for.
    map
        A map of the policy's settings, or its section.
    """
    sections = [Section("What was asked", tuple(paragraphs(asked)))] if asked else []
    sections.append(policy_section(policy))
    sections += [attacks_section(attacks)] if attacks else []
    sections += [cost_section(served)] if served is not None else []
    sections += [map if isinstance(map, Section) else map.report()] if map is not None else []
    sections += [standing_section(standing, policy)] if standing is not None else []
    sections.append(open_section())
    data: dict[str, Any] = {"policy": policy.to_dict()}
    data |= {"attacks": {name: [_facts(o) for o in found] for name, found in attacks.items()}} if attacks else {}
    data |= {"workload": dataclasses.asdict(served)} if served is not None else {}
    data |= {"standing": _stands(standing)} if standing is not None else {}
    name = title or f"The policy {policy.label}"
    return Report(name, sections, "Report to the disclosure review board", (), "confidential", data)


def _facts(one: Outcome) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "held": one.held}


def _stands(standing: Standing) -> dict[str, Any]:
    """Return how a data set stands, without the names of users."""
    users = [{k: v for k, v in dataclasses.asdict(one).items() if k != "user"} for one in standing.users]
    near = [{"line": a.entry.seq, "near": [e.seq for e in a.near]} for a in standing.alerts]
    return {**standing.to_json(), "users": users, "alerts": near}
