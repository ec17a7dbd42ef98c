"""The report for a disclosure review board, in a confidential and in a publishable version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.contract import Release, Section, Side, Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError
from sfumato.maps.judge import scenarios_of
from sfumato.maps.rumap import RUMap
from sfumato.reports.board_sections import (
    asked_section,
    checks_section,
    not_examined_section,
    snoopers_section,
    subgroups_section,
)
from sfumato.reports.checks import Check, Checked, Progress, run_checks
from sfumato.reports.public_sections import (
    public_asked,
    public_checks,
    public_data,
    public_facts,
    public_limits,
    public_recipe,
    public_search,
    public_snoopers,
    public_subgroups,
    withheld,
)
from sfumato.reports.report import Report, Version
from sfumato.reports.sections import (
    SearchFindings,
    choice_section,
    data_section,
    frontier_section,
    recipe_section,
    summary_section,
    tried_section,
)
from sfumato.reports.subject_reports import table_sections
from sfumato.tables.published import PublishedTable


@dataclass(frozen=True)
class BoardReport(Report):
    """A report for a disclosure review board, with the result of each check."""

    checked: tuple[Checked, ...] = field(default=(), repr=False, compare=False)
    """For the custodian, in both versions; the pages and the data have only what the version may tell."""

    @property
    def passes(self) -> bool:
        """Whether every check that has a limit is within it."""
        return all(c.passes is not False for c in self.checked)


def board_report(
    found: RUMap | SearchFindings | Mapping[str, Any] | None = None,
    release: Release | None = None,
    *,
    title: str,
    asked: str = "",
    checks: Sequence[Check] = (),
    by: Sequence[str] = (),
    snooper: Snooper | Mapping[str, Snooper] | None = None,
    tables: Sequence[PublishedTable] = (),
    publishable: bool = False,
    progress: Progress | None = None,
) -> BoardReport:
    """Return a report for a disclosure review board: about a search, about a release, or about both.

    The confidential version is for the board alone: the request, the data, the snoopers, the methods tried, the frontier,
    the chosen recipe, how the release was made, every check with its limit, the worst subgroups, and what was not examined.
    The publishable version contains what users and the public may know; `sfumato.reports` lists it.
    Neither contains a record's value or a seed.

    Parameters
    ----------
    found
        A search, or its data (`RUMap.to_dict()`).
    release
        The release itself, such as ``found.choice.method.apply(data, draws)``, or `Release.of` for a file masked elsewhere.
    title
        The title of both versions of the report.
    asked
        The request to the board, in your own words; an empty line separates paragraphs. It is in both versions.
    checks
        Measures of the release with their limits. If not given, those of the search, with its limits.
    by
        Columns whose subgroups are checked.
    snooper
        The snooper, or several by name. If not given, those of the search.
    tables
        Protected tables that are published from the same data. See `table_report` for a report on tables alone.
    publishable
        Whether to make the publishable version.
    progress
        Called with a stage in words, the amount done, and the total.

    Examples
    --------
    >>> from sfumato import Draws
    >>> from sfumato.risk import KAnonymity
    >>> from sfumato.datasets import teachers
    >>> from sfumato.masks import MDAV
    >>> release = MDAV(columns=("salary", "income"), k=5).apply(teachers(300), Draws(1))
    >>> report = board_report(release=release, title="Teachers", checks=[Check(KAnonymity(k=3), 0.5)])
    >>> [section.title for section in report.sections][:2]
    ['What was asked, and the answer', 'The data']
    >>> report.passes
    False
    """
    if found is None and release is None:
        raise ParameterError("a report is about a search, a release or both: give found=... or release=...")
    view = found if found is None or isinstance(found, SearchFindings) else SearchFindings.of(found)
    search = None if view is None else view.search
    if snooper is None and search is not None:
        scenarios = dict(search.subject.scenarios)
    else:
        scenarios = scenarios_of(snooper) if release is not None or snooper is not None else {}
    asked_for = _checks(checks, search) if release is not None else ()
    if release is None and (checks or by):
        raise ParameterError("checks and subgroups are about a release: give one with release=...")
    names = (by,) if isinstance(by, str) else tuple(by)
    checked = () if release is None else run_checks(release, asked_for, scenarios, names, progress)
    if progress is not None:
        progress("Drawing", 0, 0)
    data = release.original if release is not None else None if search is None else search.subject.data
    if publishable:
        sections = _publishable(view, release, asked, checked, scenarios, names)
        facts = public_facts(view, checked, names, withheld(release))
    else:
        sections = _confidential(view, release, data, asked, checked, scenarios, names)
        facts = {
            "checks": [c.to_dict() for c in checked],
            "search": None if view is None else view.facts,
            "snoopers": {name or "the snooper": s.describe() for name, s in scenarios.items()},
        }
    about_tables = [section for one in tables for section in table_sections(one, publishable)]
    sections = [s for s in (*sections[:-1], *about_tables, *sections[-1:]) if s.sentences or s.content]
    subtitle = "About a release of data" if publishable else "Report to the disclosure review board"
    version: Version = "publishable" if publishable else "confidential"
    shows_cells = bool(tables) and not publishable
    return BoardReport(title, sections, subtitle, (), version, facts, shows_cells, checked)


def _checks(checks: Sequence[Check], search: RUMap | None) -> tuple[Check, ...]:
    """Return the given checks, or those that a search implies."""
    for check in checks:
        if not isinstance(check, Check):
            raise ParameterError(
                f"checks must be Check(measure, limit), not {type(check).__name__}; for example Check(KAnonymity(k=3), 0.02)."
            )
    if checks or search is None:
        return tuple(checks)
    limits = search.subject.judge.thresholds
    return tuple(Check(m, limits.get(i) if m.side is Side.RISK else None) for i, m in enumerate(search.measures))


def _confidential(
    found: SearchFindings | None,
    release: Release | None,
    data: Microdata | None,
    asked: str,
    checked: Sequence[Checked],
    scenarios: Mapping[str, Snooper],
    by: Sequence[str],
) -> list[Section]:
    schema = None if data is None else data.schema
    sections = [asked_section(asked, found, checked, schema)]
    sections += [data_section(data)] if data is not None else []
    same = found is None or (found.search is not None and dict(found.search.subject.scenarios) == dict(scenarios))
    sections.append(snoopers_section(scenarios, {} if found is None or same else found.facts["snoopers"], schema))
    if found is not None:
        sections += [tried_section(found), frontier_section(found), choice_section(found)]
    if release is not None:
        sections.append(recipe_section(release))
        sections += [checks_section(release, checked)] if checked else []
        sections += [subgroups_section(checked, by)] if by and checked else []
        sections.append(summary_section(release))
    sections.append(not_examined_section(found, release, checked, scenarios, by))
    return sections


def _publishable(
    found: SearchFindings | None,
    release: Release | None,
    asked: str,
    checked: Sequence[Checked],
    scenarios: Mapping[str, Snooper],
    by: Sequence[str],
) -> list[Section]:
    sections = [public_asked(asked, found, checked)]
    sections += [public_data(release.masked)] if release is not None else []
    sections.append(
        public_snoopers(scenarios, 0 if found is None else len(found.facts["snoopers"]), release is not None)
    )
    sections += [public_search(found)] if found is not None else []
    if release is not None:
        sections.append(public_recipe(release))
        secret = withheld(release)
        sections += [public_checks(checked, secret)] if checked else []
        sections += [public_subgroups(checked, by)] if by and checked and not secret else []
    return [*sections, public_limits()]
