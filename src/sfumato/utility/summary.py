"""Before and after: one summary of what a release changed, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract import Release, Section, Table
from sfumato.contract.score import digits, number
from sfumato.contract.section import Figure
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, ParameterError
from sfumato.schema.hierarchy.base import label_of
from sfumato.utility.before_after import Files, correlations, statistics, tables
from sfumato.utility.category_shares import distributions
from sfumato.utility.changes_told import NOTHING, told
from sfumato.utility.compared import FEWEST, Numbers, compared_columns
from sfumato.utility.estimators import survey_weights

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

CATEGORIES, PAIRS = 12, 8
"""How many categories, and how many pairs of columns, the text and the chart show; the frames have all."""


@dataclass(frozen=True, eq=False)
class ReleaseSummary:
    """What a release changed: statistics, distributions, two-way tables and correlations, before and after.

    Every figure rests on at least `fewest` original records, and none is a smallest or largest value, so that all of it may be
    shown to a review board. `str()` gives the text.
    """

    records: tuple[int, int]
    """Of the original, and of the release (of one implicate, if there are several)."""
    names: tuple[str, ...]
    """The columns that were looked at."""
    absent: tuple[str, ...]
    """Those of them that are not released."""
    changed: Mapping[str, float]
    """The share of the released records whose value is not the original's; empty where records are not aligned."""
    weighted: bool
    fewest: int
    statistics: pd.DataFrame
    """Columns of numbers: column, statistic (mean, standard deviation, quartiles, missing), before, after, difference."""
    distributions: pd.DataFrame
    """Shares of categories: column, category, before, after, difference. What was recoded is compared as it is released."""
    tables: pd.DataFrame
    """Two-way tables, the most changed first: first, second, distance (the share of records that would have to change cell)."""
    correlations: pd.DataFrame
    """The most changed first: first, second, before, after, difference."""

    @property
    def frame(self) -> pd.DataFrame:
        """All figures, one in a row: section, column, other, figure, before, after, difference."""
        import pandas as pd

        distance = self.tables.rename(columns={"distance": "difference"}).assign(figure="distance", before=0.0)
        parts = (
            ("statistics", self.statistics.rename(columns={"statistic": "figure"}).assign(other="")),
            ("distributions", self.distributions.rename(columns={"category": "figure"}).assign(other="")),
            ("tables", distance.rename(columns=_PAIR).assign(after=distance["difference"])),
            ("correlations", self.correlations.rename(columns=_PAIR).assign(figure="correlation")),
        )
        heads = ["section", "column", "other", "figure", "before", "after", "difference"]
        full = [part.assign(section=section)[heads] for section, part in parts if len(part)]
        return pd.concat(full, ignore_index=True) if full else pd.DataFrame(columns=heads)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What changed most, in sentences."""
        return told(self)

    def text_tables(self) -> tuple[Table, ...]:
        """Return the figures for people: the statistics of every column, and of the rest what changed most, if anything did."""
        made = []
        if len(self.statistics):
            heads = tuple(dict.fromkeys(self.statistics["statistic"]))
            found = {(c, s): (b, a) for c, s, b, a, _ in _rows(self.statistics)}
            columns = dict.fromkeys(self.statistics["column"])
            rows = [
                (c, *(_arrow(*found.get((c, s), (np.nan, np.nan)), s == "missing") for s in heads)) for c in columns
            ]
            made.append(Table(("column", *heads), tuple(rows), "Numbers, before → after"))
        if len(changed := _changed_rows(self.distributions)):
            top = changed.iloc[_largest(changed["difference"])[:CATEGORIES]]
            rows = [(c, v, percent(b), percent(a), points(d)) for c, v, b, a, d in _rows(top)]
            heads = ("column", "category", "before", "after", "difference")
            made.append(Table(heads, tuple(rows), _most("Shares of categories", len(top), len(self.distributions))))
        if len(top := _varied(_changed_rows(self.tables, "distance"))):
            rows = [(f"{one} × {two}", percent(d)) for one, two, d in _rows(top)]
            caption = _most("Two-way tables", len(rows), len(self.tables))
            made.append(Table(("table", "records that would have to change cell"), tuple(rows), caption))
        if len(top := _changed_rows(self.correlations).head(PAIRS)):
            rows = [(f"{one} and {two}", *map(_signed, more)) for one, two, *more in _rows(top)]
            caption = _most("Correlations", len(rows), len(self.correlations))
            made.append(Table(("columns", "before", "after", "difference"), tuple(rows), caption))
        return tuple(made)

    def __str__(self) -> str:
        parts = ["\n".join(self.verdict)]
        parts += [f"{table.caption}\n{_aligned(table)}" for table in self.text_tables()]
        return "\n\n".join(parts)

    def chart(self) -> alt.VConcatChart:
        """Draw the quartiles of numbers, and the categories, tables and correlations that changed most, if any did."""
        from sfumato.charts.release_summary import release_summary_chart

        if not len(self.frame):
            raise NotApplicable(
                f"there is nothing to draw: no figure rests on {self.fewest} original records, or no column is released."
            )
        frames = [
            _changed_rows(self.distributions),
            _varied(_changed_rows(self.tables, "distance")),
            _changed_rows(self.correlations),
        ]
        if not len(self.statistics) and not any(map(len, frames)):
            frames = [self.distributions, _varied(self.tables), self.correlations]
        return release_summary_chart(self.statistics, *frames)

    def section(self) -> Section:
        """Return the summary for a report: no record is in it."""
        content: list[Table | Figure] = list(self.text_tables())
        if content:
            caption = "Numbers, categories, two-way tables and correlations, before and after masking"
            content.append(Figure(self.chart().to_dict(), caption))
        return Section("Before and after", self.verdict, content)

    def to_dict(self) -> dict[str, Any]:
        """Return what may be written for machines; no record is in it."""
        frames = ("statistics", "distributions", "tables", "correlations")
        return {
            "verdict": list(self.verdict),
            "records": {"original": self.records[0], "released": self.records[1]},
            "weighted": self.weighted,
            "fewest": self.fewest,
            "not_released": list(self.absent),
            "changed": {name: number(share) for name, share in self.changed.items()},
            **{name: [_plain(row) for row in getattr(self, name).to_dict("records")] for name in frames},
        }


def release_summary(
    release: Release, over: Sequence[str] | None = None, *, weighted: bool = False, fewest: int = FEWEST
) -> ReleaseSummary:
    """Compare a release with its original: statistics, distributions, two-way tables, correlations.

    `over` names the columns to look at; every key, confidential and other column if none are named. `weighted` uses the survey
    weights that the schema names. Figures that rest on fewer than `fewest` original records are left out. Of several implicates
    the mean is taken. Records need not be aligned; where they are, the share of changed values is told too.

    Examples
    --------
    >>> from sfumato import Draws, KimNoise
    >>> from sfumato.datasets import teachers
    >>> release = KimNoise(columns="salary", lambda2=0.5).apply(teachers(500), Draws(1))
    >>> summary = release_summary(release, ["salary", "income", "region"])
    >>> summary.verdict[1]
    '1 of 3 columns was changed: salary (100 % of its values).'
    """
    if isinstance(fewest, bool) or not isinstance(fewest, int | np.integer) or fewest < 1:
        raise ParameterError(f"fewest must be a whole number of records, at least 1; got {fewest!r}.")
    if isinstance(over, str):
        over = (over,)
    names = compared_columns(release.original, None if over is None else tuple(over))
    if weighted:
        for data in (release.original, *release.implicates):
            survey_weights(data)  # refuses files without
    files = Files(release, names, bool(weighted), int(fewest))
    return ReleaseSummary(
        (len(release.original), len(release.masked)),
        names,
        tuple(n for n in names if n not in files.released),
        _changed(files) if release.aligned else {},
        bool(weighted),
        int(fewest),
        statistics(files),
        distributions(files),
        tables(files),
        correlations(files),
    )


def _changed(files: Files) -> dict[str, float]:
    """Return for each released column the share of the records in both files whose value is another one."""
    left, right = files.outcome.matched
    shares = {}
    for name in files.released:
        before, after = _comparable(files, name)
        old, new = (before, after) if left is None else (before[left], after[right])
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        if len(same) >= files.fewest:
            shares[name] = 1.0 - float(same.mean())
    return shares


def _comparable(files: Files, name: str) -> tuple[Numbers, Numbers]:
    """Return a column of both files as numbers that are equal where the values are; NaN for missing."""
    pair = files.original, files.outcome.masked
    if all(data.kind(name) is Kind.NUMBER for data in pair):
        return pair[0].numbers(name), pair[1].numbers(name)
    numbering: dict[str, float] = {}
    coded = []
    for data in pair:
        batch = data.batch([name])
        codes, values = batch.column(name).codes
        table = np.array([*(numbering.setdefault(label_of(v), float(len(numbering))) for v in values), np.nan])
        coded.append(np.where(batch.missing(name), np.nan, table[codes]))
    return coded[0], coded[1]


# -- words


_PAIR = {"first": "column", "second": "other"}


def percent(share: float) -> str:
    """Return a share in percent, as a table shows it."""
    return "–" if np.isnan(share) else f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return "–" if np.isnan(difference) else f"{100 * difference:+.1f}"


def _signed(correlation: float) -> str:
    return "–" if np.isnan(correlation) else f"{correlation:+.3f}"


def _arrow(before: float, after: float, share: bool) -> str:
    old, new = (percent(v) if share else digits(v) for v in (before, after))
    return old if old == new else f"{old} → {new}"


def _largest(differences: pd.Series) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the places of the largest differences, either way, first."""
    return np.argsort(-np.nan_to_num(differences.abs().to_numpy(), nan=np.inf), kind="stable")


def _changed_rows(frame: pd.DataFrame, by: str = "difference") -> pd.DataFrame:
    """Return the rows in which something changed, by more than the computer's rounding."""
    return frame[~(frame[by].abs() <= NOTHING)]


def _varied(tables: pd.DataFrame) -> pd.DataFrame:
    """Return the first tables, each column in two at most: one column that changed much would fill the list."""
    seen: dict[str, int] = {}
    kept: list[int] = []
    for i, (one, two, _) in enumerate(_rows(tables)):
        if len(kept) < PAIRS and max(seen.get(one, 0), seen.get(two, 0)) < 2:
            kept.append(i)
            seen[one], seen[two] = seen.get(one, 0) + 1, seen.get(two, 0) + 1
    return tables.iloc[kept]


def _most(what: str, shown: int, total: int) -> str:
    return what if shown == total else f"{what} that changed most ({shown} of {total:,})"


def _rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(k): number(v) if isinstance(v, float) else v for k, v in row.items()}


def _aligned(table: Table) -> str:
    """Return a table as text: the first column flush left, the others flush right, unless they hold names."""
    lines = [table.heads, *table.rows]
    words = [i for i, head in enumerate(table.heads) if i == 0 or head == "category"]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(table.heads))]
    return "\n".join(
        "  ".join(
            f"{c!s:<{w}}" if i in words else f"{c!s:>{w}}" for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
