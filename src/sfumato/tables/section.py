"""A protected table as sections of a report: for the board, or with no more than the public may know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.charts.words import counted, first_line, short, spoken
from sfumato.contract import Figure, Parametric, Section, Side
from sfumato.contract import Table as Grid
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.observed import noise_variance
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rule import SensitivityRule

if TYPE_CHECKING:
    from sfumato.tables.audit.result import Audit

_NOT_EXAMINED = (
    (
        "What other tables, earlier and later ones, and tables of other variables of the same contributors add to this one was "
        "not examined, unless they were protected together with it."
    ),
    (
        "Attackers were taken to know what stands above, and no more. Whoever knows several contributions, through common owners "
        "that the data do not name, or talks to other contributors, learns more."
    ),
)


def table_section(
    published: PublishedTable,
    publishable: bool = False,
    measures: Sequence[TableMeasure] | None = None,
    audit: Audit | None = None,
) -> Section:
    """Return what was done to a table, what holds, what is kept, and what was not examined.

    The publishable version tells nothing that the published table does not: not which cells were unsafe, not the rules and
    their parameters (whoever knows p of a p% rule can narrow the intervals of suppressed cells), and no measure of the distance
    from the original, which is an equation for the values that are not published.

    Parameters
    ----------
    measures
        What to measure for the confidential version; measures that apply to the method if not given.
    audit
        What an audit found; the confidential version sums it up.
    """
    if publishable:
        return _public(published)
    table = published.source("a report for the board")
    content: list[Grid | Figure] = [_cells_table(published)]
    content += _parameters(published.protection, told=False)
    if published.guarantees:
        rows = tuple((g.says, g.verified) for g in published.guarantees)
        content.append(Grid(("what holds", "how that is known"), rows, "What the protection promises."))
    scores, refused = _measured(published, default_measures(published) if measures is None else measures)
    content += scores
    content += _figures(published, public=False)
    who = "" if table.contributions is None else f" of {counted(len(table.contributions), 'contributor')}"
    sentences = [
        f"{_shape(published)}{who}. {_done(published)}",
        *_rules_words(published),
        *([audit.headline] if audit is not None else []),
        *([_unmeasured(refused)] if refused else []),
        *_NOT_EXAMINED,
    ]
    return Section(_title(published), tuple(sentences), tuple(content))


def default_measures(published: PublishedTable) -> list[TableMeasure]:
    """Return measures for a report: risk and utility that apply to every method, and those that are usual for this one."""
    from sfumato.tables.measures import (
        CellCertainty,
        IntervalLengths,
        KnownClosely,
        PublishedValue,
        RelativeCertainty,
        TableAccuracy,
        TableDistance,
    )

    table = published.original
    found: list[TableMeasure] = []
    if table is not None and table.contributions is not None and not table.is_count:
        found.append(RelativeCertainty())
    if (rules := rules_in(published.protection)) is not None:
        found += [CellCertainty(rules), *([] if noise_variance(published) is not None else [IntervalLengths(rules)])]
    found.append(KnownClosely())
    if published.suppressed.any():
        found.append(PublishedValue())
    return [*found, TableAccuracy(), TableDistance()]


def rules_in(protection: Protection | None) -> SensitivityRule | None:
    """Return the sensitivity rules among a protection's parameters; None if it has none."""
    from sfumato.tables.rules import rules_of

    if protection is None or "rules" not in protection.parameters():
        return None
    given: Any = getattr(protection, "rules")  # noqa: B009 - not every protection has it
    return rules_of(given) if given else None


# -- the public's version


def _public(published: PublishedTable) -> Section:
    gone = int(np.isnan(published.values).sum())
    changed = int((published.status == Status.CHANGED).sum())
    treated = _treated(gone, changed, len(published))
    said = [f"{_shape(published)}. To protect those who contributed to it, {treated}"]
    if published.protection is not None:
        said.append(f"Method: {first_line(type(published.protection))}.")
    if published.variance is not None and changed:
        said.append(
            "The adjustments are random, with mean zero. Their variances stand beside the values: analysts add them to those of "
            "their own estimates."
        )
    if published.variance is None and changed:
        said.append(
            "A published value lies near the true one, not always on it; sums of published values may differ a little."
        )
    said.append("What may not be told of the protection, so that it holds, is not told here.")
    content: list[Grid | Figure] = [*_parameters(published.protection, told=True), *_figures(published, public=True)]
    return Section(_title(published), tuple(said), tuple(content))


def _treated(gone: int, changed: int, total: int) -> str:
    parts = []
    if gone:
        parts.append(f"{counted(gone, 'cell')} of {total:,} {'is' if gone == 1 else 'are'} not published")
    if changed:
        parts.append(f"{changed:,} of {counted(total, 'value')} {'was' if changed == 1 else 'were'} changed")
    return (" and ".join(parts) or "nothing had to be done: all cells are shown as they are") + "."


# -- parts


def _title(published: PublishedTable) -> str:
    return f"Table of {_what(published)} by {spoken(published.cells.dimensions) or 'nothing'}"


def _shape(published: PublishedTable) -> str:
    by = spoken(published.cells.dimensions) or "nothing"
    return f"The table has {counted(len(published), 'cell')} by {by}, with {_what(published)}"


def _what(published: PublishedTable) -> str:
    unit = f" ({published.unit})" if published.unit else ""
    return f"{published.variable}{unit}" if published.variable else "counts"


def _done(published: PublishedTable) -> str:
    if published.protection is None:
        return "No protection was applied."
    return f"It was protected by {published.protection.label()}."


def _rules_words(published: PublishedTable) -> list[str]:
    primary, secondary = (int((published.status == s).sum()) for s in (Status.PRIMARY, Status.SECONDARY))
    said = []
    if (rules := rules_in(published.protection)) is not None:
        said.append(f"Unsafe cells are those that break {rules.label()}.")
    if primary or secondary:
        are, they = ("is", "it is") if primary == 1 else ("are", "they are")
        said.append(
            f"{counted(primary, 'cell')} {are} not published because {they} unsafe, and {secondary:,} more so that nobody can "
            "work them out."
        )
    return said


def _cells_table(published: PublishedTable) -> Grid:
    value = np.abs(published.source("a report for the board").value)
    total = float(value.sum()) or 1.0
    names = (
        (Status.SHOWN, "shown as they are"), (Status.CHANGED, "changed"), (Status.PRIMARY, "not published: unsafe"),
        (Status.SECONDARY, "not published: to protect others"),
    )  # fmt: skip
    rows = []
    for status, words in names:
        here = published.status == status
        if here.any():
            rows.append(
                (
                    words,
                    f"{int(here.sum()):,}",
                    f"{100 * here.mean():.3g} %",
                    f"{100 * value[here].sum() / total:.3g} %",
                )
            )
    return Grid(("cells", "number", "share of cells", "share of value"), tuple(rows), "What happened to the cells.")


def _parameters(protection: Protection | None, told: bool) -> list[Grid]:
    """Return the parameters of a protection; for the public only plain ones that may be told."""
    if protection is None:
        return []
    rows = []
    for name, parameter in protection.parameters().items():
        value = getattr(protection, name)
        if value is None or value == () or (told and (not parameter.published or _secret(value))):
            continue
        rows.append((name.replace("_", " "), _shown(value), parameter.doc))
    return [Grid(("parameter", "value", "meaning"), tuple(rows), "How the table was protected.")] if rows else []


def _secret(value: Any) -> bool:
    """Whether a parameter is a rule or refers to cells or contributors by name: not for the public."""
    return not isinstance(value, bool | int | float | str)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return short(float(value))
    if isinstance(value, Parametric):
        label = getattr(value, "label", None)
        return str(label()) if callable(label) else value.name
    if isinstance(value, tuple | list):
        return "; ".join(_shown(v) for v in value[:6]) + (f" and {len(value) - 6} more" if len(value) > 6 else "")
    if hasattr(value, "__len__") and not isinstance(value, str):
        return counted(len(value), "entry").replace("entrys", "entries")
    return str(value)


def _measured(published: PublishedTable, measures: Sequence[TableMeasure]) -> tuple[list[Grid], dict[str, str]]:
    rows, refused = [], {}
    for measure in measures:
        try:
            score = measure.score(published)
        except NotApplicable as reason:
            refused[measure.label()] = str(reason)
            continue
        side = "risk" if measure.side is Side.RISK else "utility"
        rows.append((side, score.measure, digits(score.value), score.words))
    grid = Grid(
        ("side", "measure", "value", "in words"), tuple(rows), "Lower risk is safer; higher utility is more useful."
    )
    return [grid] if rows else [], refused


def _unmeasured(refused: dict[str, str]) -> str:
    return " ".join(f"Not measured: {label}. {reason}" for label, reason in refused.items())


def _figures(published: PublishedTable, public: bool) -> list[Figure]:
    from sfumato.tables.pictures import before_and_after, heatmap, heatmap_frame

    if not published.cells.dimensions:
        return []
    _, down, across = heatmap_frame(published, public=public)
    by = f"{down} and {across}" if across else down
    rest = "; other dimensions at their total" if len(published.cells.dimensions) > 2 else ""
    made = [Figure(heatmap(published, public=public).to_dict(), f"What happened to each cell, by {by}{rest}.")]
    if not public:
        caption = (
            "Cells before and after protection: those that changed most, or are not published. Bars: between which values a "
            "reader knows a cell to lie, after all arithmetic; where values were adjusted at random, 95 % intervals."
        )
        made.append(Figure(before_and_after(published).to_dict(), caption))
    return made
