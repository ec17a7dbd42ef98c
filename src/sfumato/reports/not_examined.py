"""The section that says what a report does not speak of: worked out from what was, and was not, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.charts.words import counted, spoken
from sfumato.contract import Measure, Release, Section, Side, Snooper, Table
from sfumato.reports.board_sections import few
from sfumato.reports.checks import Checked
from sfumato.reports.examined import LEARNED, parts_of, sort_of, sorts_of
from sfumato.reports.found import Found
from sfumato.schema import Role, Schema

CANNOT_SEE = (
    (
        "No measure sees what lies outside the file: other files about the same people that could be linked to it, earlier and "
        "later releases, tables and models published from the same data, people who recognise themselves or are recognised by "
        "those who know that they took part. Releases that are safe one by one need not be safe together."
    ),
    (
        "Everything rests on the roles of the columns. A column that outsiders know, but that is not counted among the keys, "
        "makes every risk of finding a person larger than what was measured."
    ),
)


def not_examined_section(
    found: Found | None,
    release: Release | None,
    checked: Sequence[Checked],
    scenarios: Mapping[str, Snooper],
    by: Sequence[str],
) -> Section:
    """Return what was not examined: sorts of risk, measures that refused, columns, snoopers, subgroups, other seeds."""
    schema = release.original.schema if release is not None else None
    if schema is None and found is not None and found.search is not None:
        schema = found.search.data.schema
    measures = [c.measure for c in checked if c.score is not None]
    if found is not None and found.search is not None:
        measures += found.search.measures
    known = bool(measures) or found is None  # of a search read from a file the measures are known by their titles alone
    tables = [*(_sorts(measures) if known else ()), *_refused(checked)]
    sentences = ["A report can speak only of what was looked at. This was not:"]
    sentences += _columns(measures, schema) if schema is not None and measures else []
    sentences += _snoopers(scenarios, schema, release)
    sentences += _utilities(measures) if known else []
    if not by:
        sentences.append("Subgroups were not looked at: a risk that is low on average can be high for a few.")
    sentences += _seeds(found, release)
    return Section("What was not examined", (*sentences, *CANNOT_SEE), tuple(tables))


def _sorts(measures: Sequence[Measure]) -> list[Table]:
    _, others = sorts_of(measures)
    rows = tuple((s.name, s.question, ", ".join(s.measures)) for s in others)
    heads = ("sort of risk", "the question", "measures that would answer it")
    return [Table(heads, rows, "Sorts of risk that no measure looked at.")] if rows else []


def _refused(checked: Sequence[Checked]) -> list[Table]:
    rows = tuple((c.title, c.refused) for c in checked if c.score is None)
    return [Table(("measure", "why not"), rows, "Measures that were asked for and have no answer.")] if rows else []


def _columns(measures: Sequence[Measure], schema: Schema) -> list[str]:
    """Name the confidential columns that no measure of what is learned looked at."""
    seen: set[str] = set()
    for part in (p for m in measures if m.side is Side.RISK for p in parts_of(m)):
        if (sort := sort_of(part)) is None or sort.name in LEARNED:  # the others are about finding a person
            named = part.columns(schema)
            seen |= {*schema.names()} if named is None else {*named}
    left = [name for name in schema.names(role="confidential") if name not in seen]
    return [f"No risk measure looked at what is learned of {spoken(left)}."] if left else []


def _snoopers(scenarios: Mapping[str, Snooper], schema: Schema | None, release: Release | None) -> list[str]:
    said = []
    if len(scenarios) == 1:
        said.append("Other snoopers: only the one above was examined.")
    if schema is not None and scenarios and release is not None:
        keys = {name for s in scenarios.values() for name in (s.keys or schema.names(role="key"))}
        roles = (Role.KEY, Role.OTHER)
        others = [a.name for a in release.masked.schema if a.role in roles and a.name not in keys]
        if others:
            said.append(f"No snooper was taken to look for records by {spoken(others)}, which the release has too.")
    told = {} if release is None or release.recipe is None else release.recipe.told()
    levels = [path for path, value in told.items() if isinstance(value, float | Mapping)]
    if levels and scenarios and not any(s.parameter_published for s in scenarios.values()):
        said.append(
            f"No snooper was taken to use {spoken(levels)}, although the publishable version of this report and the recipe "
            "beside the released file tell it."
        )
    return said


def _utilities(measures: Sequence[Measure]) -> list[str]:
    named = [m.label() for m in measures if m.side is Side.UTILITY]
    if not named:
        return ["What analysts lose was not measured."]
    return [f"Utility was measured by {few(named)} alone. Other analyses may fare better or worse."]


def _seeds(found: Found | None, release: Release | None) -> list[str]:
    said = []
    if found is not None and len(found.frame):
        often = int(found.frame.reindex(columns=["replications", "confirmed"]).max().max())
        said.append(
            f"The search looked at the settings in its ranges, each masked at most {counted(often, 'time')}; other recipes and "
            "other ranges were not tried."
        )
    if found is not None and release is not None and found.facts["records"] != len(release.original):
        said.append(
            f"The search looked at a file of {counted(found.facts['records'], 'record')}, and the release was made from "
            f"{len(release.original):,}: what the search found need not hold for it."
        )
    if release is not None:
        said.append(
            "The measures of the release are those of one file. Masked again with another seed, they would differ by chance. "
            + (
                "The search tells how much, for its own measures."
                if found is not None
                else "How much was not examined."
            )
        )
    return said
