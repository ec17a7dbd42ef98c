"""Sections for the board: the request, pass or fail, the worst subgroups, and what was not examined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato import charts
from sfumato.charts.captions import counted, spoken
from sfumato.contract import Figure, Measure, Release, Score, Section, Side, Snooper, TextTable
from sfumato.contract.score import digits
from sfumato.errors import SfumatoError
from sfumato.lazy import pd
from sfumato.reports.checks import FEWEST, LEARNED, Checked, parts_of, sort_of, sorts_of
from sfumato.reports.sections import SearchFindings
from sfumato.schema import Role, Schema

_WORST = 3
"""Subgroups shown for each measure."""
_NAMED = 6
"""Measures that a sentence names at most."""
_DRAWN = 18
"""Measures in one chart, so that it fits on a page."""


def paragraphs(text: str) -> list[str]:
    """Return a text's paragraphs, each on one line."""
    return [" ".join(p.split()) for p in text.split("\n\n") if p.strip()]


def few(titles: Iterable[str]) -> str:
    """Return a list of measures for a sentence: the first ones, and how many more; with semicolons if titles have commas.

    >>> few(["risk for pay, boss", "risk for pay, neighbour"]), few("abcdefgh")
    ('risk for pay, boss; risk for pay, neighbour', 'a, b, c, d, e, f and 2 more')
    """
    names = list(dict.fromkeys(titles))
    named = names if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return "; ".join(named) if any("," in name for name in named) else spoken(named)


def verdict(checked: Sequence[Checked]) -> str:
    """Return how many checks pass, in a sentence.

    >>> verdict([])
    'No limit was set, so nothing passes or fails.'
    """
    held = [c for c in checked if c.check.limit is not None]
    if not held:
        return "No limit was set, so nothing passes or fails."
    passed = [c for c in held if c.passes]
    absent = [c.title for c in held if c.score is None]
    failed = [c.title for c in held if not c.passes and c.score is not None]
    past = [c.title for c in passed if any(not c.within(g.value) for found in c.by.values() for g in found.shown)]
    but = [f"In some subgroups it is past the limit of {few(past)}."] if past else []
    if len(passed) == len(held):
        every = "the one check that has a limit" if len(held) == 1 else f"all {len(held)} checks that have a limit"
        return " ".join([f"The release passes {every}.", *but])
    said = [f"The release passes {len(passed)} of {counted(len(held), 'check')}."]
    said += [f"It fails on {few(failed)}."] if failed else []
    said += [f"Could not be measured: {few(absent)}."] if absent else []
    return " ".join([*said, *but])


def asked_section(
    asked: str, found: SearchFindings | None, checked: Sequence[Checked], schema: Schema | None
) -> Section:
    """Return the section on the request, with a short answer."""
    sentences = paragraphs(asked)
    if checked:
        sentences.append(verdict(checked))
    if found is not None:
        answer = f"one that is safe enough: {found.choice['family']}" if found.feasible else "none that is safe enough"
        sentences.append(f"A search for the most useful recipe found {answer}.")
    rows = [(c.title, _kept(c.check.words), _meaning(c, schema), c.result) for c in checked]
    heads = ("measure", "limit", "at the limit", "result")
    return Section(
        "What was asked, and the answer", tuple(sentences),
        (TextTable(heads, tuple(rows), "What the release was held against."),) if rows else (),
    )  # fmt: skip


def _kept(text: str) -> str:
    """Return text that stays on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _meaning(checked: Checked, schema: Schema | None) -> str:
    limit = checked.check.limit
    if limit is None or schema is None:
        return "–"
    try:
        return checked.measure.words(limit, schema)
    except SfumatoError:
        return "–"


def snoopers_section(scenarios: Mapping[str, Snooper], words: Mapping[str, str], schema: Schema | None) -> Section:
    """Return the assumed knowledge of each snooper; `words` are the search's, where its snoopers differ from the release's."""
    told = {name or "the snooper": _knowledge(s, schema) for name, s in scenarios.items()}
    if told and words:
        told = {f"{name}, of the release": said for name, said in told.items()}
        told |= {f"{name}, of the search": said for name, said in words.items()}
    told = told or dict(words)
    sentences = [
        f"Risk was measured against {counted(len(told), 'snooper')}, each taken to know what stands below. One who knows more "
        "learns more."
        if len(told) > 1
        else "Risk was measured against one snooper, taken to know what stands below. One who knows more learns more."
    ]
    rows = tuple((name, f"He {said.replace('; ', '; he ')}.") for name, said in told.items())
    return Section(
        "Snoopers", tuple(sentences), (TextTable(("snooper", "what he knows and does"), rows, "The scenarios."),)
    )


def _knowledge(snooper: Snooper, schema: Schema | None) -> str:
    keys = schema.names(role="key") if schema is not None and not snooper.keys else ()
    looks = f"; looks for records by {', '.join(keys)} (the keys of the schema)" if keys else ""
    return snooper.describe() + looks


def checks_section(release: Release, checked: Sequence[Checked]) -> Section:
    """Return every check with its score, interval and result, as a table and as a chart."""
    measured = [c for c in checked if c.score is not None]
    sentences = [
        (
            "These are the numbers of the very file that would be released. A risk passes if it is at or below its limit, "
            "a utility if it is at or above; where a number is an estimate with an interval, the worse end of that must be."
        )
    ]
    rows = []
    for c in measured:
        score = c.score
        assert score is not None  # noqa: S101 - those that are measured
        rows.append((c.title, digits(score.value), interval(score), _kept(c.check.words), c.result, score.words))
    heads = ("measure", "value", "95 % interval", "limit", "result", "in words")
    content: list[TextTable | Figure] = []
    if rows:
        content.append(
            TextTable(heads, tuple(rows), "Pass or fail. Lower risk is safer; higher utility is more useful.")
        )
        content += _dots(release, measured)
    if any(c.score is None for c in checked):
        sentences.append("What could not be measured is in the last section, with the reasons.")
    return Section("Pass or fail, measure by measure", tuple(sentences), tuple(content))


def interval(score: Score) -> str:
    """Return an interval in words."""
    if score.interval is None:
        return "–"
    return f"{digits(score.interval[0])} to {digits(score.interval[1])}"


def _dots(release: Release, measured: Sequence[Checked]) -> list[Figure]:
    """Return the chart of all measures that can be drawn; an empty list if there are none."""
    rows = [row for c in measured if (row := _row(release, c)) is not None]
    if not rows:
        return []

    caption = (
        "The release, measure by measure. Each risk is divided by its own limit, so that 1 is the limit; the thin line ends "
        "at the worse end of its interval. Each utility is a share of that of the unmasked file."
    )
    endless = [c.title for c in measured if c.risk and c.check.limit is not None and math.isinf(c.judged)]
    caption += f" Not drawn, since the risk has no bound: {few(endless)}." if endless else ""
    parts = [rows[i : i + _DRAWN] for i in range(0, len(rows), _DRAWN)]
    which = [""] if len(parts) == 1 else [f" Part {i} of {len(parts)}." for i in range(1, len(parts) + 1)]
    return [
        Figure(
            charts.measures.measures_chart(charts.map_data.unmasked_rows(pd.DataFrame(part)), 0).to_dict(),
            caption + said,
        )
        for part, said in zip(parts, which, strict=True)
    ]


def _row(release: Release, c: Checked) -> dict[str, Any] | None:
    score = c.score
    assert score is not None  # noqa: S101 - those that are measured
    low, high = score.interval or (math.nan, math.nan)
    unmasked = math.nan
    if c.risk and (c.check.limit is None or not math.isfinite(c.judged)):
        return None
    if not c.risk:
        unmasked = _unmasked(release, c)
        if not (math.isfinite(unmasked) and unmasked > 0 and math.isfinite(score.value)):
            return None
    return {
        "point": 0, "family": "this release", "settings": "risks that have a limit, and utilities", "replications": 1,
        "side": score.side.value, "measure": c.title, "scenario": "the snooper" if c.risk else "", "value": score.value,
        "low": low, "high": high, "limit": c.judged if c.risk and score.interval is not None else math.nan,
        "threshold": c.check.limit if c.risk else math.nan, "unmasked": unmasked, "meets": c.passes is not False,
        "chosen": True, "probability": math.nan,
    }  # fmt: skip


def _unmasked(release: Release, c: Checked) -> float:
    try:
        value = c.measure.score(Release.as_it_is(release.original)).value
        return 1.0 if math.isclose(value, 1.0, rel_tol=1e-9) else value
    except SfumatoError:
        return math.nan


def subgroups_section(checked: Sequence[Checked], by: Sequence[str]) -> Section:
    """Return the worst subgroups of each measure, by every column in `by`."""
    content = []
    hidden = []
    for column in by:
        rows = []
        for c in checked:
            if column in c.by and c.score is not None:
                rows += [
                    (c.title, g.name, f"{g.records:,}", digits(g.value), digits(c.score.value), _there(c, g.value))
                    for g in c.by[column].shown[:_WORST]
                ]
        heads = ("measure", column, "records", "value there", "whole file", "within the limit")
        if rows:
            content.append(TextTable(heads, tuple(rows), f"The worst subgroups by {column}, the worst first."))
        hidden += _hidden(checked, column)
    sentences = [
        (
            f"A release that is safe on the whole need not be safe for everybody. The worst {_WORST} subgroups are shown. "
            f"Records are counted in the original; subgroups of fewer than {FEWEST} are not shown."
        ),
        *_how(checked),
        *hidden,
    ]
    return Section("Worst subgroups", tuple(sentences), tuple(content))


def _how(checked: Sequence[Checked]) -> list[str]:
    """Say how a subgroup was measured: its records within the whole file, or the subgroup as a file of its own."""
    risks = [(c.title, found.alone) for c in checked if c.risk for found in c.by.values() if not found.refused]
    alone = [title for title, by_itself in risks if by_itself]
    said = []
    if len(alone) < len(risks):
        said.append(
            "A subgroup's risk is that of its own records in the whole file: a snooper looks for them there, and need not know "
            "who belongs to the subgroup."
        )
    if alone:
        said.append(
            f"In each subgroup by itself, as if it were the file, so that a snooper knows who belongs to it: {few(alone)}."
        )
    if any(not c.risk and c.by for c in checked):
        said.append("A subgroup's utility is what is kept for those who analyse that subgroup alone.")
    return said


def _there(c: Checked, value: float) -> str:
    return "–" if c.check.limit is None else "yes" if c.within(value) else "no"


def _hidden(checked: Sequence[Checked], column: str) -> list[str]:
    found = [c for c in checked if column in c.by]
    if refused := next((c.by[column].refused for c in found if c.by[column].refused), ""):
        return [f"Subgroups by {column} were not looked at: {refused}"]
    small = max((c.by[column].small for c in found), default=0)
    without = [c.title for c in found if c.by[column].without]
    said = (
        [f"By {column}, {counted(small, 'subgroup')} {'is' if small == 1 else 'are'} too small to be shown."]
        if small
        else []
    )
    if without:
        said.append(f"In some subgroups by {column} there is no value of {few(without)}.")
    return said


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
    found: SearchFindings | None,
    release: Release | None,
    checked: Sequence[Checked],
    scenarios: Mapping[str, Snooper],
    by: Sequence[str],
) -> Section:
    """Return what was not examined: sorts of risk, measures that refused, columns, snoopers, subgroups, other seeds."""
    schema = release.original.schema if release is not None else None
    if schema is None and found is not None and found.search is not None:
        schema = found.search.subject.data.schema
    measures = [c.measure for c in checked if c.score is not None]
    if found is not None and found.search is not None:
        measures += found.search.measures
    known = bool(measures) or found is None  # a search read from a file has only the titles of its measures
    tables = [*(_sorts(measures) if known else ()), *_refused(checked)]
    sentences = ["A report can speak only of what was looked at. This was not:"]
    sentences += _columns(measures, schema) if schema is not None and measures else []
    sentences += _snoopers(scenarios, schema, release)
    sentences += _utilities(measures) if known else []
    if not by:
        sentences.append("Subgroups were not looked at: a risk that is low on average can be high for a few.")
    sentences += _seeds(found, release)
    return Section("What was not examined", (*sentences, *CANNOT_SEE), tuple(tables))


def _sorts(measures: Sequence[Measure]) -> list[TextTable]:
    _, others = sorts_of(measures)
    rows = tuple((s.name, s.question, ", ".join(s.measures)) for s in others)
    heads = ("sort of risk", "the question", "measures that would answer it")
    return [TextTable(heads, rows, "Sorts of risk that no measure looked at.")] if rows else []


def _refused(checked: Sequence[Checked]) -> list[TextTable]:
    rows = tuple((c.title, c.refused) for c in checked if c.score is None)
    return [TextTable(("measure", "why not"), rows, "Measures that were asked for and have no answer.")] if rows else []


def _columns(measures: Sequence[Measure], schema: Schema) -> list[str]:
    """Return the confidential columns that no measure of attribute disclosure covers."""
    seen: set[str] = set()
    for part in (p for m in measures if m.side is Side.RISK for p in parts_of(m)):
        if (sort := sort_of(part)) is None or sort.name in LEARNED:  # the other measures are about finding a person
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
    told = {} if release is None or release.recipe is None else release.recipe.published_parameters()
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


def _seeds(found: SearchFindings | None, release: Release | None) -> list[str]:
    said = []
    if found is not None and len(found.points):
        often = int(found.points.reindex(columns=["replications", "confirmed"]).max().max())
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
