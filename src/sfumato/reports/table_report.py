"""The report on a protected table, for a disclosure review board or for the public."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.contract import Section
from sfumato.reports.board_sections import paragraphs
from sfumato.reports.report import Report, Version
from sfumato.tables import PublishedTable, TableMeasure
from sfumato.tables.audit import audit
from sfumato.tables.section import rules_in, table_section
from sfumato.tables.table_map import TableMap


def table_report(
    published: PublishedTable | Sequence[PublishedTable],
    *,
    title: str,
    asked: str = "",
    map: TableMap | None = None,
    measures: Sequence[TableMeasure] | None = None,
    publishable: bool = False,
) -> Report:
    """Return a report about one protected table or several.

    The confidential version is for the board: what was done to each table, what holds and how that is known, what an attacker
    works out (an audit is run), what is kept, and what was not examined; with `map` also how the methods compare. The
    publishable version tells nothing that the published table does not.

    Parameters
    ----------
    asked
        What was asked, in your own words; it stands in both versions.
    map
        A map of several protections of the same table, for the confidential version.
    measures
        What to measure; what is usual for the method if not given.
    """
    tables = [published] if isinstance(published, PublishedTable) else list(published)
    sections = [Section("What was asked", tuple(paragraphs(asked)))] if asked else []
    for one in tables:
        sections += table_sections(one, publishable, measures)
    if map is not None and not publishable:
        sections.append(map.report())
    subtitle = "About a published table" if publishable else "Report to the disclosure review board"
    version: Version = "publishable" if publishable else "confidential"
    return Report(title, sections, subtitle, (), version)


def table_sections(
    published: PublishedTable, publishable: bool = False, measures: Sequence[TableMeasure] | None = None
) -> list[Section]:
    """Return the sections about one table: what was done, and for the board what an audit found."""
    if publishable:
        return [table_section(published, publishable=True)]
    found = audit(published, rules=rules_in(published.protection))
    return [table_section(published, measures=measures, audit=found), found.section()]
