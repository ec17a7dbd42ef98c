"""Pictures of a protected table: a heat map of what happened to each cell, and cells before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.charts.words import short
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.tables.dimension import TOTAL
from sfumato.tables.measures.intervals import attacker_intervals
from sfumato.tables.measures.observed import noise_variance
from sfumato.tables.published import PublishedTable, Status

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

_MOST = 40
"""Labels of a dimension that are drawn: those with the largest values."""
_CELLS = 24
"""Cells that are drawn before and after."""
_TWO_SIDED = 1.96


def heatmap_frame(
    published: PublishedTable, down: str | None = None, across: str | None = None, public: bool = False
) -> tuple[pd.DataFrame, str, str]:
    """Return what a heat map of a table shows, and the names of its two dimensions.

    The other dimensions stand at their total. With `public`, it has only what the published table tells anyway: not which cells
    were unsafe, and not how far a value is from the original.
    """
    import pandas as pd

    from sfumato.charts.table_heatmap import HIDDEN, PRIMARY, SECONDARY, SHOWN, band_of

    cells = published.cells
    first, second = _two(published, down, across)
    own = [cells.dimensions.index(d) for d in (first, second) if d]
    rest = [i for i in range(len(cells.dimensions)) if i not in own]
    wanted = np.flatnonzero((cells.labels[:, rest] == TOTAL).all(axis=1)) if rest else np.arange(len(cells))
    size = np.abs(np.nan_to_num(published.values if public or published.original is None else published.original.value))
    keep = [_largest(cells.labels[wanted, i], size[wanted]) for i in own]
    rows = []
    for cell in wanted:
        labels = [str(cells.labels[cell, i]) for i in own]
        if any(label not in kept for label, kept in zip(labels, keep, strict=True)):
            continue
        status, value = int(published.status[cell]), float(published.values[cell])
        if status in (Status.PRIMARY, Status.SECONDARY):
            kind = HIDDEN if public else PRIMARY if status == Status.PRIMARY else SECONDARY
        elif status == Status.SHOWN:
            kind = SHOWN
        elif public or published.original is None:
            kind = "changed"
        else:
            before = float(published.original.value[cell])
            kind = band_of((value - before) / before if before else float(value != 0))
        text = "×" if np.isnan(value) else compact(value)
        rows.append({"row": labels[0], "column": labels[1] if second else "value", "kind": kind, "text": text})
    frame = pd.DataFrame(rows, columns=["row", "column", "kind", "text"])
    order = [*keep, ["value"]][:2]
    frame["row"] = pd.Categorical(frame["row"], order[0], ordered=True)
    frame["column"] = pd.Categorical(frame["column"], order[1], ordered=True)
    frame = frame.sort_values(["row", "column"], ignore_index=True).astype({"row": str, "column": str})
    return frame, first, second


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
    """Draw what happened to each cell, by two dimensions; see `heatmap_frame`."""
    from sfumato.charts.table_heatmap import table_heatmap

    frame, first, second = heatmap_frame(published, down, across, public)
    return table_heatmap(frame, first, second)


def change_frame(published: PublishedTable, most: int = _CELLS) -> pd.DataFrame:
    """Return cells before and after: those that changed most as a share of their value, or are not published; confidential."""
    import pandas as pd

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
    """Draw cells as they were and as they are published: confidential; see `change_frame`."""
    from sfumato.charts.table_change import table_change_chart

    return table_change_chart(change_frame(published, most), published.unit)


def _two(published: PublishedTable, down: str | None, across: str | None) -> tuple[str, str]:
    """Return which dimensions go down and across: those that are asked for, else the two with most labels that occur together."""
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


def _largest(labels: Any, size: Any) -> list[str]:
    """Return the labels to draw, in the table's order, the total last; of many, those with the largest cells."""
    order = list(dict.fromkeys(map(str, labels)))
    if len(order) > _MOST:
        top: dict[str, float] = {}
        for label, value in zip(labels, size, strict=True):
            top[str(label)] = max(top.get(str(label), 0.0), float(value))
        best = set(sorted(order, key=lambda label: -top[label])[:_MOST])
        order = [label for label in order if label in best]
    return [label for label in order if label != TOTAL] + [TOTAL] * (TOTAL in order)
