"""Sections of the publishable version: nothing that helps to find people, no small counts, no names of subgroups.

Published: the columns of the released file, the steps and the parameters that analysts may know, the sorts of risk that
were examined and whether each is within its limits, utility to two digits. Omitted: the size of a risk and the limits (they
show how sure a match would be), the snoopers' knowledge column by column, counts of records other than the release's own,
subgroups by name, settings that were not chosen, the digest of the data, the seed. If a recipe has a secret parameter, or is
not known, utility is only pass or fail, without its limit: the means would disclose a shift of all values, for example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.charts.captions import counted, first_line, spoken
from sfumato.contract import Recipe, Release, Section, Snooper, TextTable
from sfumato.contract.score import digits
from sfumato.data import Kind, Microdata
from sfumato.maps.choice import named
from sfumato.reports.board_sections import CANNOT_SEE, paragraphs
from sfumato.reports.checks import FEWEST, SORTS, Checked, sort_of
from sfumato.reports.sections import SearchFindings, parameter_tables, secret_steps, step_table

_OWN = "another sort of risk"
_GIVES_AWAY = "How much analysts keep is not told in numbers: that would give away a parameter that must not be known."
_UNKNOWN = (
    "How much analysts keep is not told in numbers: how the data were masked is not known here, so that such numbers might "
    "give it away."
)


def rough(value: float) -> float:
    """Return a number to two digits, rounded down: enough to judge utility, too few to deduce anything else.

    >>> rough(0.998), rough(2.7385), rough(-0.031), rough(float("inf")), rough(1.0)
    (0.99, 2.7, -0.031, inf, 1.0)
    """
    if not math.isfinite(value) or value == 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.2g}")


def _shown(value: float) -> str:
    return digits(rough(value), 2)


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def public_asked(asked: str, found: SearchFindings | None, checked: Sequence[Checked]) -> Section:
    """Return the request, and whether the release meets it."""
    sentences = paragraphs(asked)
    held = [c for c in checked if c.check.limit is not None]
    if held:
        every, sides = all(c.passes for c in held), {"risk" if c.risk else "utility" for c in held}
        sentences.append(
            f"The release was held against limits that the data holder set for {spoken(sorted(sides))}. "
            + ("It keeps to all of them." if every else "It does not keep to all of them.")
        )
    if found is not None:
        sentences.append(
            f"A search among {counted(len(found.families), 'recipe')} for the most useful one that is safe enough found "
            f"{'the one below' if found.feasible else 'none'}."
        )
    return Section("What was asked, and the answer", tuple(sentences))


def public_data(data: Microdata) -> Section:
    """Return the columns of the released file: meaning, scale and kind of values."""
    rows = []
    for a in data.schema:
        kind = data.kind(a.name)
        holds = "whole numbers" if kind is Kind.NUMBER and a.integer else kind.value
        meaning = a.label + (f" ({a.unit})" if a.unit and a.label else f"in {a.unit}" if a.unit else "")
        rows.append((a.name, meaning or "–", a.scale.value, holds))
    sentence = f"The released file has {counted(len(data), 'record')} and {counted(len(rows), 'column')}."
    heads = ("column", "meaning", "scale", "holds")
    return Section("The data", (sentence,), (TextTable(heads, tuple(rows), "The columns of the released file."),))


def public_snoopers(scenarios: Mapping[str, Snooper], count: int, released: bool) -> Section:
    """Return in general words the snoopers of the tests of the release, or else of each recipe; no column, no probability."""
    who = list(scenarios.values())
    knows = ["know some facts about a person from elsewhere"]
    if any(s.external is not None or s.coverage < 1 for s in who):
        knows.append("have a file of their own about many people")
    if any(s.population is not None for s in who):
        knows.append("know how many people of the population look alike")
    if any(s.strategy == "bayes" for s in who):
        knows.append("use statistics to improve their guesses")
    if any(s.parameter_published for s in who):
        knows.append("are told how strongly the data were masked")
    number = len(who) or count
    kinds = "one kind of snooper" if number == 1 else f"{number} kinds of snooper"
    sentence = (
        f"{'The release' if released else 'Each recipe'} was tested against {kinds}: people who {spoken(knows)}, and look for "
        "that person's record. Exactly what they were taken to know is for the review board alone."
    )
    return Section("Snoopers", (sentence,))


def public_recipe(release: Release) -> Section:
    """Return the steps in words, and the parameters that analysts may know."""
    recipe = release.recipe
    if recipe is None:
        return Section("How the release was made", ("The data were masked before this report was made.",))
    hidden = secret_steps(recipe) | {path.partition(".")[0] for path in recipe.withheld()}
    numbered = [g for g in release.guarantees if re.search(r"\d", g.says + g.verified)]  # they may count records
    plain = [(g.step, g.says, g.verified) for g in release.guarantees if g not in numbered and g.step not in hidden]
    sentences = [f"The release was made in {counted(len(recipe.steps), 'step')}, each on what the step before it left."]
    if hidden:
        sentences.append(
            "Some parameters are not told, since they would help to undo the masking, or may repeat a value."
        )
    if numbered:
        sentences.append("Guarantees that count records are for the review board alone.")
    tables = [step_table(recipe, release), *_told(recipe)]
    if plain:
        tables.append(
            TextTable(("step", "guarantee", "how it was verified"), tuple(plain), "What the masks guarantee.")
        )
    return Section("How the release was made", tuple(sentences), tuple(tables))


def _told(recipe: Recipe) -> list[TextTable]:
    """Return the parameters that may be published, without the column that says so."""
    made = []
    for table in parameter_tables(recipe):
        rows = tuple(row[:4] for row in table.rows if row[4] == "yes")
        if rows:
            made.append(TextTable(table.heads[:4], rows, "The parameters that analysts may know."))
    return made


def public_search(found: SearchFindings) -> Section:
    """Return the recipes tried and the one chosen, with its utility; no risk, no other setting."""
    sentences = [f"These recipes were tried: {spoken(found.families)}."]
    content = []
    if found.feasible:
        told = found.published()
        at = f" with {named(told)}" if told else ""
        sentences.append(f"Of those that are safe enough, the most useful was chosen: {found.choice['family']}{at}.")
        rows = tuple((str(s["measure"]), _shown(_float(s["value"]))) for s in found.choice["utilities"])
        if found.secret:
            sentences.append(_GIVES_AWAY)
        else:
            content.append(
                TextTable(("utility", "value"), rows, "What analysts keep, on average over releases made so.")
            )
    else:
        sentences.append("None of them was safe enough.")
    return Section("Methods tried", tuple(sentences), tuple(content))


def withheld(release: Release | None) -> str:
    """Return why utility must not be published in numbers; empty if it may."""
    if release is None:
        return ""
    if release.recipe is None:
        return _UNKNOWN
    return _GIVES_AWAY if secret_steps(release.recipe) else ""


def public_checks(checked: Sequence[Checked], secret: str) -> Section:
    """Return whether each sort of risk is within its limits, and each utility to two digits unless that discloses a `secret`."""
    rows = _by_sort(checked)
    content = []
    if rows:
        sorts = ("sort of risk", "the question", "within the limits")
        content.append(TextTable(sorts, tuple(rows), "The risks that were examined."))
    useful = [c for c in checked if not c.risk and c.score is not None]
    if useful:
        heads: tuple[str, ...] = ("utility", "what it is", "value", "asked for")
        body: list[tuple[str, ...]] = [
            (c.title, f"{first_line(type(c.measure))}.", _shown(c.score.value), c.check.words)
            for c in useful
            if c.score is not None
        ]
        if secret:  # a limit that is passed, or failed, would bound the value
            heads, body = (*heads[:2], "result"), [(*row[:2], c.result) for row, c in zip(body, useful, strict=True)]
        content.append(TextTable(heads, tuple(body), "What analysts keep; higher is more useful."))
    sentences = ["How large each risk is, and what the limits are, is for the review board alone."]
    sentences += [secret] if secret and useful else []
    return Section("Pass or fail", tuple(sentences), tuple(content))


def _by_sort(checked: Sequence[Checked]) -> list[tuple[str, str, str]]:
    questions = {s.name: s.question for s in SORTS}
    results: dict[str, set[str]] = {}
    for c in checked:
        if c.risk and c.passes is not None:
            sort = sort_of(c.measure)
            held = "yes" if c.passes else "not measured" if c.score is None else "no"
            results.setdefault(_OWN if sort is None else sort.name, set()).add(held)
    worst = ("no", "not measured", "yes")
    return [(name, questions.get(name, "–"), next(w for w in worst if w in held)) for name, held in results.items()]


def public_subgroups(checked: Sequence[Checked], by: Sequence[str]) -> Section:
    """Return how much the utility of subgroups differs, without naming or counting them."""
    rows = []
    for c in checked:
        for column in by:
            if not c.risk and c.score is not None and column in c.by and len(c.by[column].shown) > 1:
                values = [g.value for g in c.by[column].shown]
                rows.append((c.title, column, _shown(values[0]), _shown(values[-1]), _shown(c.score.value)))
    heads = ("utility", "subgroups by", "worst subgroup", "best subgroup", "whole file")
    sentence = (
        f"Each measure was also taken in subgroups. Those of fewer than {FEWEST} records are left out, and so is risk."
    )
    content = (TextTable(heads, tuple(rows), "Utility in subgroups."),) if rows else ()
    return Section("Subgroups", (sentence,), content)


def public_limits() -> Section:
    """Return what no report of this kind can cover."""
    return Section("What was not examined", CANNOT_SEE)


def public_facts(
    found: SearchFindings | None, checked: Sequence[Checked], by: Sequence[str], secret: str
) -> dict[str, Any]:
    """Return the numbers behind the publishable version: no more than its sections show."""
    risks = [{"sort": name, "within_limits": held} for name, _, held in _by_sort(checked)]
    utilities = [
        {
            "measure": c.title,
            "value": None if secret else rough(c.score.value),
            "limit": None if secret else c.check.limit,
            "passes": c.passes,
        }
        for c in checked
        if not c.risk and c.score is not None
    ]
    facts: dict[str, Any] = {"risks": risks, "utilities": utilities, "subgroups": list(by)}
    if found is not None:
        chosen = {
            "feasible": found.feasible, "family": found.choice["family"], "settings": found.published() if found.feasible else {},
            "utilities": {
                str(s["measure"]): rough(_float(s["value"])) for s in found.choice["utilities"] if not found.secret
            },
        }  # fmt: skip
        facts["search"] = {"recipes": list(found.families), "choice": chosen}
    return facts
