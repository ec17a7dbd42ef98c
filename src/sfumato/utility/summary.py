"""Before and after: one summary of what a release changed, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import charts
from sfumato.contract import Release
from sfumato.contract.score import Figure, Section, TextTable, digits, number
from sfumato.data import Kind
from sfumato.errors import NotApplicable, ParameterError, join_names, plural
from sfumato.lazy import pd
from sfumato.schema.hierarchy import label_of
from sfumato.typing import Numbers
from sfumato.utility.before_after import Files, correlations, distributions, statistics, tables
from sfumato.utility.comparison import FEWEST, compared_columns
from sfumato.utility.estimators import survey_weights

if TYPE_CHECKING:
    import altair as alt

NOTHING = 1e-9
"""Less is the computer's rounding."""


def summary_sentences(summary: ReleaseSummary) -> tuple[str, ...]:
    """Return what a release changed most, in sentences."""
    return tuple(_sentences(summary))


def _sentences(s: ReleaseSummary) -> Iterator[str]:
    before, after = s.records
    yield f"{plural(before, 'original record')} and {after:,} released{', weighted' if s.weighted else ''}."
    if s.absent:
        yield f"Not released: {join_names(s.absent)}."
    if s.changed:
        moved = sorted((n for n in s.changed if s.changed[n] > 0), key=lambda n: -s.changed[n])
        each = join_names([f"{n} ({100 * s.changed[n]:.3g} % of its values)" for n in moved], 6)
        were = "was" if len(moved) == 1 else "were"
        yield f"{len(moved) or 'None'} of {plural(len(s.changed), 'column')} {were} changed{f': {each}' if moved else ''}."
    if not len(s.statistics) and not len(s.distributions):
        yield f"No figure is shown, since none would rest on {s.fewest} original records."
        return
    if not (s.frame()["difference"].abs() > NOTHING).any():
        yield "None of the figures changed."
        return
    yield from _numbers(s.statistics)
    yield from _categories(s.distributions)
    if len(s.tables) and (distance := float(s.tables["distance"].iloc[0])) > NOTHING:
        one, two = s.tables["first"].iloc[0], s.tables["second"].iloc[0]
        yield (
            f"Of the two-way tables, {one} × {two} changed most: {100 * distance:.3g} % of the records would have to change "
            "cell to make it the original's."
        )
    yield from _correlation(s.correlations)


def _numbers(frame: pd.DataFrame) -> Iterator[str]:
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for column, what, before, after, _ in frame.itertuples(index=False, name=None):
        found.setdefault(column, {})[what] = (before, after)
    if lost := [name for name, figures in found.items() if math.isnan(figures["mean"][1])]:
        yield f"Released without any number: {join_names(lost)}."
    shifts, factors = {}, {}
    for name, figures in found.items():
        (mean, new), (spread, wide) = figures["mean"], figures["standard deviation"]
        if spread > 0 and not math.isnan(new):
            shifts[name] = abs(new - mean) / spread
            factors[name] = wide / spread
    name = max(shifts, key=lambda n: shifts[n], default="")
    if name and shifts[name] > NOTHING:
        yield (
            f"The mean that moved furthest is that of {name}: {_from_to(found[name]['mean'])}, "
            f"{digits(shifts[name], 2)} standard deviations."
        )
    name = max(factors, key=lambda n: _factor(factors[n]), default="")
    if name and _factor(factors[name]) > NOTHING:
        yield (
            f"The standard deviation that changed most is that of {name}: {_from_to(found[name]['standard deviation'])} "
            f"({'+' if factors[name] > 1 else ''}{digits(100 * (factors[name] - 1), 2)} %)."
        )


def _from_to(pair: tuple[float, float]) -> str:
    return f"{digits(pair[0])} to {digits(pair[1])}"


def _factor(ratio: float) -> float:
    """Return how far a ratio is from 1, the same for a half and for two."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf if ratio == 0 else 0.0


def _categories(frame: pd.DataFrame) -> Iterator[str]:
    if len(frame) and (apart := frame["difference"].abs().to_numpy()).max() > NOTHING:
        row = frame.iloc[int(apart.argmax())]
        yield (
            f"The share that changed most is that of {row['column']} = {row['category']}: {100 * row['before']:.3g} % to "
            f"{100 * row['after']:.3g} %."
        )
    elif len(frame):
        yield "No share of a category changed."


def _correlation(frame: pd.DataFrame) -> Iterator[str]:
    known = frame[frame["after"].notna()]
    if len(known) and abs(known["difference"].iloc[0]) > NOTHING:
        row = known.iloc[0]
        yield (
            f"The correlation that changed most is that of {row['first']} and {row['second']}: {row['before']:.3f} to "
            f"{row['after']:.3f}."
        )


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

    def frame(self) -> pd.DataFrame:
        """Return all figures, one in a row: section, column, other, figure, before, after, difference."""
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
        return summary_sentences(self)

    def text_tables(self) -> tuple[TextTable, ...]:
        """Return the figures for people: the statistics of every column, and of the rest what changed most, if anything did."""
        made = []
        if len(self.statistics):
            heads = tuple(dict.fromkeys(self.statistics["statistic"]))
            found = {(c, s): (b, a) for c, s, b, a, _ in _rows(self.statistics)}
            columns = dict.fromkeys(self.statistics["column"])
            rows = [
                (c, *(_arrow(*found.get((c, s), (np.nan, np.nan)), s == "missing") for s in heads)) for c in columns
            ]
            made.append(TextTable(("column", *heads), tuple(rows), "Numbers, before → after"))
        if len(changed := _changed_rows(self.distributions)):
            sizes = np.nan_to_num(changed["difference"].abs().to_numpy(), nan=np.inf)
            top = changed.iloc[np.argsort(-sizes, kind="stable")[:CATEGORIES]]
            rows = [(c, v, percent(b), percent(a), points(d)) for c, v, b, a, d in _rows(top)]
            heads = ("column", "category", "before", "after", "difference")
            made.append(TextTable(heads, tuple(rows), _most("Shares of categories", len(top), len(self.distributions))))
        if len(top := _varied(_changed_rows(self.tables, "distance"))):
            rows = [(f"{one} × {two}", percent(d)) for one, two, d in _rows(top)]
            caption = _most("Two-way tables", len(rows), len(self.tables))
            made.append(TextTable(("table", "records that would have to change cell"), tuple(rows), caption))
        if len(top := _changed_rows(self.correlations).head(PAIRS)):
            rows = [(f"{one} and {two}", *map(_signed, more)) for one, two, *more in _rows(top)]
            caption = _most("Correlations", len(rows), len(self.correlations))
            made.append(TextTable(("columns", "before", "after", "difference"), tuple(rows), caption))
        return tuple(made)

    def __str__(self) -> str:
        parts = ["\n".join(self.verdict)]
        parts += [f"{table.caption}\n{_aligned(table)}" for table in self.text_tables()]
        return "\n\n".join(parts)

    def chart(self) -> alt.VConcatChart:
        """Draw the quartiles of numbers, and the categories, tables and correlations that changed most, if any did."""
        if not len(self.frame()):
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
        return charts.file_charts.release_summary_chart(self.statistics, *frames)

    def section(self) -> Section:
        """Return the summary for a report: no record is in it."""
        content: list[TextTable | Figure] = list(self.text_tables())
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
    >>> from sfumato import Draws
    >>> from sfumato.masks import KimNoise
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


def _aligned(table: TextTable) -> str:
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
