"""Reports on a protected table and on a policy of the analysis system, for a disclosure review board."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.contract.score import Section
from sfumato.maps.rumap import RUMap
from sfumato.mas.attacks.base import Outcome
from sfumato.mas.attacks.reference_workload import Honest
from sfumato.mas.policy import Policy
from sfumato.mas.policy_sections import attacks_section, cost_section, open_section, policy_section, standing_section
from sfumato.mas.usage import UsageReport
from sfumato.reports.board_sections import paragraphs
from sfumato.reports.report import Report, Version
from sfumato.tables import PublishedTable, TableMeasure, audit
from sfumato.tables.section import rules_in, table_section


def table_report(
    published: PublishedTable | Sequence[PublishedTable],
    *,
    title: str,
    asked: str = "",
    map: RUMap | None = None,
    measures: Sequence[TableMeasure] | None = None,
    publishable: bool = False,
) -> Report:
    """Return a report about one protected table or several.

    The confidential version is for the board: the protection of each table, its guarantees and how each is known, what an
    attacker can deduce (an audit is run), the utility kept, and what was not examined; with `map` also a comparison of
    methods. The publishable version discloses nothing beyond the published table.

    Parameters
    ----------
    asked
        The request, in your own words; it is in both versions.
    map
        A map of several protections of the same table, for the confidential version.
    measures
        The measures; the defaults of the method if not given.
    """
    tables = [published] if isinstance(published, PublishedTable) else list(published)
    sections = [Section("What was asked", tuple(paragraphs(asked)))] if asked else []
    for one in tables:
        sections += table_sections(one, publishable, measures)
    if map is not None and not publishable:
        sections.append(map.section())
    subtitle = "About a published table" if publishable else "Report to the disclosure review board"
    version: Version = "publishable" if publishable else "confidential"
    return Report(title, sections, subtitle, (), version, shows_cells=not publishable)


def table_sections(
    published: PublishedTable, publishable: bool = False, measures: Sequence[TableMeasure] | None = None
) -> list[Section]:
    """Return the sections about one table: its protection, and for the board the results of an audit."""
    if publishable:
        return [table_section(published, publishable=True)]
    found = audit(published, rules=rules_in(published.protection))
    return [table_section(published, measures=measures, audit=found), found.section()]


def policy_report(
    policy: Policy,
    *,
    title: str = "",
    asked: str = "",
    attacks: Mapping[str, Sequence[Outcome]] | None = None,
    served: Honest | None = None,
    standing: UsageReport | None = None,
    map: Section | RUMap | None = None,
) -> Report:
    """Return a report about a policy: its requirements and effects, the attacks it withstands, its cost, and its limits.

    Parameters
    ----------
    asked
        The request, in your own words.
    attacks
        Outcomes of the attack bench, by the title of the policy that was attacked: as it is, and with its universe rules off.
    served
        The cost to honest users.
    standing
        The queries so far on a data set under the policy.
    map
        A map of the policy's settings, or its section.
    """
    sections = [Section("What was asked", tuple(paragraphs(asked)))] if asked else []
    sections.append(policy_section(policy))
    sections += [attacks_section(attacks)] if attacks else []
    sections += [cost_section(served)] if served is not None else []
    sections += [map if isinstance(map, Section) else map.section()] if map is not None else []
    sections += [standing_section(standing)] if standing is not None else []
    sections.append(open_section())
    data: dict[str, Any] = {"policy": policy.to_dict()}
    data |= {"attacks": {name: [_facts(o) for o in found] for name, found in attacks.items()}} if attacks else {}
    data |= {"workload": dataclasses.asdict(served)} if served is not None else {}
    data |= {"standing": _stands(standing)} if standing is not None else {}
    name = title or f"The policy {policy.label}"
    return Report(name, sections, "Report to the disclosure review board", (), "confidential", data)


def _facts(one: Outcome) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "held": one.held}


def _stands(standing: UsageReport) -> dict[str, Any]:
    """Return the usage of a data set, without the names of users."""
    users = [{k: v for k, v in dataclasses.asdict(one).items() if k != "user"} for one in standing.users]
    near = [{"line": a.entry.seq, "near": [e.seq for e in a.near]} for a in standing.alerts]
    return {**standing.to_json(), "users": users, "alerts": near}
