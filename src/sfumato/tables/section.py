"""A protected table as sections of a report, with its charts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import charts
from sfumato.charts.captions import counted, first_line, short, spoken
from sfumato.contract.parameters import Parametric
from sfumato.contract.score import Figure, Section, Side, digits
from sfumato.contract.score import TextTable as Grid
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.lazy import pd
from sfumato.tables.cells import TOTAL, Status
from sfumato.tables.measures import TableMeasure
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.reader import attacker_intervals, noise_variance
from sfumato.tables.sensitivity import SensitivityRule

if TYPE_CHECKING:
    import altair as alt

    from sfumato.tables.audit_result import Audit

_MOST = 60
"""Largest number of labels of a dimension in a chart: those with cells that were treated, then those with the largest values."""
_CELLS = 24
"""Largest number of cells in the chart of before and after."""
_TWO_SIDED = 1.96


def heatmap_frame(
    published: PublishedTable, down: str | None = None, across: str | None = None, public: bool = False
) -> tuple[pd.DataFrame, str, str]:
    """Return the data of a heat map of a table, and the names of its two dimensions.

    The other dimensions are at their total. With `public`, it has only what the published table shows: not which cells were
    unsafe, and not how far a value is from the original.
    """
    cells = published.cells
    first, second = _two(published, down, across)
    own = [cells.dimensions.index(d) for d in (first, second) if d]
    rest = [i for i in range(len(cells.dimensions)) if i not in own]
    wanted = np.flatnonzero((cells.labels[:, rest] == TOTAL).all(axis=1)) if rest else np.arange(len(cells))
    size = np.abs(np.nan_to_num(published.values if public or published.original is None else published.original.value))
    treated = published.status[wanted] != Status.SHOWN
    keep = [_drawn_labels(cells.labels[wanted, i], size[wanted], treated) for i in own]
    order = [*keep, ["value"]][:2]
    # every place has a row, so that labels stand in the table's order, and totals last, whatever cells there are
    rows = {pair: {"kind": charts.table_charts.EMPTY, "text": ""} for pair in itertools.product(*order)}
    for cell in wanted:
        labels = [str(cells.labels[cell, i]) for i in own]
        if any(label not in kept for label, kept in zip(labels, keep, strict=True)):
            continue
        status, value = int(published.status[cell]), float(published.values[cell])
        if status in (Status.PRIMARY, Status.SECONDARY):
            kind = (
                charts.table_charts.HIDDEN
                if public
                else charts.table_charts.PRIMARY
                if status == Status.PRIMARY
                else charts.table_charts.SECONDARY
            )
        elif status == Status.SHOWN:
            kind = charts.table_charts.SHOWN
        elif public or published.original is None:
            kind = "changed"
        else:
            before = float(published.original.value[cell])
            kind = charts.table_charts.band_of((value - before) / before if before else float(value != 0))
        text = "×" if np.isnan(value) else compact(value)
        rows[labels[0], labels[1] if second else "value"] = {"kind": kind, "text": text}
    return pd.DataFrame([{"row": row, "column": column, **cell} for (row, column), cell in rows.items()]), first, second


def compact(value: float) -> str:
    """Return a number in three digits that fits into a cell.

    >>> compact(823_964.2), compact(5_138_770.0), compact(-12.34), compact(999_999.0)
    ('824k', '5.14M', '−12.3', '1M')
    """
    rounded = float(f"{value:.3g}")
    for size, letter in ((1e9, "bn"), (1e6, "M"), (1e4, "k")):
        if abs(rounded) >= size:
            return short(rounded / (1e3 if letter == "k" else size)) + letter
    return short(rounded)


def heatmap(
    published: PublishedTable, down: str | None = None, across: str | None = None, public: bool = False
) -> alt.TopLevelMixin:
    """Draw the status of each cell, by two dimensions; see `heatmap_frame`."""
    frame, first, second = heatmap_frame(published, down, across, public)
    return charts.table_charts.table_heatmap(frame, first, second)


def change_frame(published: PublishedTable, most: int = _CELLS) -> pd.DataFrame:
    """Return cells before and after: those that changed most as a share of their value, or are not published; confidential."""
    before = published.source("comparing before and after").value
    low, high = (side.copy() for side in attacker_intervals(published))
    if (noise := noise_variance(published)) is not None:
        half = _TWO_SIDED * np.sqrt(noise)
        low, high = np.fmax(low, published.values - half), np.fmin(high, published.values + half)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(before != 0, np.abs(published.values - before) / np.abs(before), published.values != 0)
    order = np.lexsort((-np.abs(before), -np.where(np.isnan(off), np.inf, off)))[:most]
    order = order[np.argsort(-before[order], kind="stable")]
    return pd.DataFrame({
        "name": [published.cells.name(int(c)) for c in order], "before": before[order], "after": published.values[order],
        "low": low[order], "high": high[order],
    })  # fmt: skip


def before_and_after(published: PublishedTable, most: int = _CELLS) -> alt.TopLevelMixin:
    """Draw cells before and after protection: confidential; see `change_frame`."""
    return charts.table_charts.table_change_chart(change_frame(published, most), published.unit)


def _two(published: PublishedTable, down: str | None, across: str | None) -> tuple[str, str]:
    """Return the dimensions for rows and columns: as given, else the two with most labels that occur together."""
    cells = published.cells
    for name in (down, across):
        if name is not None and name not in cells.dimensions:
            raise ParameterError(unknown_name("dimension", name, cells.dimensions, "the table"))
    if down is not None and down == across:
        raise ParameterError("a heat map needs two different dimensions.")
    if not cells.dimensions:
        raise NotApplicable("a table without dimensions is one number; there is nothing to draw.")
    if len(cells.dimensions) == 1:
        return cells.dimensions[0], ""
    open_ = cells.labels != TOTAL
    pairs = {}
    for i, a in enumerate(cells.dimensions):
        for j, b in enumerate(cells.dimensions):
            if i == j or (down not in (None, a)) or (across not in (None, b)):
                continue
            others = [k for k in range(len(cells.dimensions)) if k not in (i, j)]
            here = open_[:, i] & open_[:, j] & ~open_[:, others].any(axis=1)
            sides = [len(set(cells.labels[here, k])) for k in (i, j)]
            pairs[a, b] = (int(here.sum()), sides[0] >= sides[1], -i)
    return max(pairs, key=lambda pair: pairs[pair])


def _drawn_labels(labels: Any, size: Any, treated: Any) -> list[str]:
    """Return the labels to draw, in the table's order, the total last; of many, those with treated cells, then the largest."""
    order = list(dict.fromkeys(map(str, labels)))
    if len(order) > _MOST:
        top: dict[str, tuple[bool, float]] = {}
        for label, value, was_treated in zip(map(str, labels), size.tolist(), treated.tolist(), strict=True):
            before = top.get(label, (False, 0.0))
            top[label] = (before[0] or was_treated, max(before[1], value))
        best = set(sorted(order, key=lambda label: (label == TOTAL, top[label]), reverse=True)[:_MOST])
        order = [label for label in order if label in best]
    return [label for label in order if label != TOTAL] + [TOTAL] * (TOTAL in order)


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
    """Return what was done to a table, its guarantees, what is kept, and what was not examined.

    The publishable version reveals only what the published table does: not which cells were unsafe, not the rules and their
    parameters (whoever knows p of a p% rule can narrow the intervals of suppressed cells), and no measure of the distance from
    the original, which is an equation for the values that are not published.

    Parameters
    ----------
    measures
        Measures for the confidential version; those that apply to the method if not given.
    audit
        The result of an audit; the confidential version summarises it.
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
        PublishedDistance,
        PublishedValue,
        RelativeCertainty,
        TableAccuracy,
    )

    table = published.original
    found: list[TableMeasure] = []
    if (
        rules := rules_in(published.protection)
    ) is not None:  # one verdict, in the terms of the rules that were asked for
        found += [CellCertainty(rules), *([] if noise_variance(published) is not None else [IntervalLengths(rules)])]
    else:
        if table is not None and table.contributions is not None and not table.is_count:
            found.append(RelativeCertainty())
        found.append(KnownClosely())
    if published.suppressed.any():
        found.append(PublishedValue())
    return [*found, TableAccuracy(), PublishedDistance()]


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
    """Return the parameters of a protection; for the public only plain ones that may be published."""
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

    if not published.cells.dimensions:
        return []
    frame, down, across = heatmap_frame(published, public=public)
    by = f"{down} and {across}" if across else down
    rest = "; other dimensions at their total" if len(published.cells.dimensions) > 2 else ""
    rest += "".join(
        f"; {len(drawn)} of {len(names)} labels of {name} are drawn, those with treated cells first"
        for name, drawn in ((down, set(frame["row"])), (across, set(frame["column"])))
        if name and len(drawn) < len(names := set(published.cells.labels[:, published.cells.dimensions.index(name)]))
    )
    made = [Figure(heatmap(published, public=public).to_dict(), f"What happened to each cell, by {by}{rest}.")]
    if not public:
        caption = (
            "Cells before and after protection: those that changed most, or are not published. Bars: between which values a "
            "reader knows a cell to lie, after all arithmetic; where values were adjusted at random, 95 % intervals."
        )
        made.append(Figure(before_and_after(published).to_dict(), caption))
    return made
