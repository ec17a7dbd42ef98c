"""The figures of a before-and-after summary: statistics of numbers, two-way tables, correlations.

Each figure rests on at least `fewest` original records, so that none describes a person; others are left out. Smallest and
largest values are not among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.errors import DataError
from sfumato.microdata import Microdata
from sfumato.schema import Scale
from sfumato.utility.cells import Coded, coded, shares, total_variation
from sfumato.utility.compared import Numbers, weights_of
from sfumato.utility.meanings import read_numbers
from sfumato.utility.quantile import quantile

if TYPE_CHECKING:
    import pandas as pd

STATISTICS = ("mean", "standard deviation", "lower quartile", "median", "upper quartile", "missing")
QUARTILES = dict(zip(STATISTICS[2:5], (0.25, 0.5, 0.75), strict=True))
MISSING = "missing"
BINS = 5
"""Numbers stand in two-way tables as so many groups of about equal size."""
PER_CELL = 5
"""So many original records there are for each cell of a table."""
TABLED = 20
"""At most so many columns make two-way tables."""


@dataclass(frozen=True, eq=False)
class Files:
    """The two files and how they are looked at."""

    outcome: Release
    names: tuple[str, ...]
    weighted: bool
    fewest: int

    @property
    def original(self) -> Microdata:
        """The original."""
        return self.outcome.original

    def weights(self, data: Microdata) -> Numbers:
        """Return what each record of a file counts."""
        found = weights_of(data, self.weighted)
        return np.ones(len(data)) if found is None else found

    @property
    def released(self) -> tuple[str, ...]:
        """The columns that are in both files."""
        return tuple(n for n in self.names if all(n in data.engine.kinds for data in self.outcome.implicates))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers that are in both files; codes without an order, such as zip codes, are not among them."""
        return tuple(n for n in self.released if self._is_number(self.original, n))

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that are released as categories, or as codes without an order."""
        others = (n for n in self.released if not self._is_number(self.outcome.masked, n))
        return tuple(n for n in others if self.outcome.masked.kind(n) is not Kind.DATE)

    def _is_number(self, data: Microdata, name: str) -> bool:
        return data.kind(name) is Kind.NUMBER and self.original.schema[name].scale is Scale.ORDERED


# -- numbers


def statistics(files: Files) -> pd.DataFrame:
    """Return mean, standard deviation, quartiles and share of missing values: column, statistic, before, after, difference."""
    import pandas as pd

    rows = []
    for name in files.numbers:
        x = files.original.numbers(name)
        known = int(np.isfinite(x).sum())
        if known < files.fewest:
            continue
        before = _described(x, files.weights(files.original))
        each = [
            _described(released_numbers(files.original, d, name), files.weights(d)) for d in files.outcome.implicates
        ]
        after = {what: float(np.mean([one[what] for one in each])) for what in STATISTICS}
        shown = _shown(len(x), known, files.fewest)
        rows += [(name, what, before[what], after[what]) for what in STATISTICS if what in shown]
    return with_difference(pd.DataFrame(rows, columns=["column", "statistic", "before", "after"]))


def _shown(records: int, known: int, fewest: int) -> set[str]:
    """Return the statistics that rest on enough records: a quartile on as many below it as above it."""
    gaps = records - known
    hidden = set() if known >= 4 * fewest else set(QUARTILES)
    return set(STATISTICS) - hidden - ({MISSING} if 0 < gaps < fewest else set())


def _described(x: Numbers, weights: Numbers) -> dict[str, float]:
    known = np.isfinite(x) & (weights > 0)
    total = float(weights.sum())
    gap = float(weights[np.isnan(x)].sum()) / total if total > 0 else np.nan
    if not known.any():
        return {**dict.fromkeys(STATISTICS, np.nan), MISSING: gap}
    x, w = x[known], weights[known]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.average(x, weights=w))
        # n/(n - 1) of the number of records, whatever their weights add up to
        variance = float(np.average(np.square(x - mean), weights=w)) * len(x) / (len(x) - 1) if len(x) > 1 else np.nan
    counts: Numbers | None = None
    if (w != w[0]).any():
        order = np.argsort(x)  # once for the three of them
        x, counts = x[order], w[order]
    quartiles = [quantile(x, share, counts) for share in QUARTILES.values()]
    return dict(zip(STATISTICS, (mean, np.sqrt(variance), *quartiles, gap), strict=True))


def released_numbers(original: Microdata, data: Microdata, name: str) -> Numbers:
    """Return a released column as numbers, shape (t,): an interval stands for its middle, a group of numbers for their mean."""
    if data.kind(name) in (Kind.NUMBER, Kind.BOOLEAN):
        return data.numbers(name)
    if data.kind(name) is Kind.CATEGORY and data.schema[name].values:
        try:
            return data.numbers(name)
        except DataError:
            pass  # some labels have no number of their own
    reading = read_numbers(original, data, name)
    middles = np.array([*(float(points.mean()) for points in reading.spreads), np.nan])
    return np.where(reading.place < 0, reading.numbers, middles[reading.place])


# -- two columns at a time


def tables(files: Files) -> pd.DataFrame:
    """Return how far the two-way tables of both files are apart: first, second, distance; the largest first.

    The distance is the total variation, the share of the records that would have to change cell. Numbers are sorted into five
    groups of about equal size. Tables with more cells than one for five records are left out.
    """
    import pandas as pd

    rows: list[tuple[str, str, float]] = []
    if len(files.original) >= files.fewest and all(len(d) for d in files.outcome.implicates):
        weights = weights_of(files.original, files.weighted)
        each = [
            (data, {n: coded(files.original, data, n, weights, BINS, "quantiles") for n in files.released})
            for data in files.outcome.implicates
        ]

        def distance(*names: str) -> float:
            return float(np.mean([_apart([found[n] for n in names], files, data) for data, found in each]))

        cells = {name: len(np.unique(column.cells)) for name, column in each[0][1].items()}
        most = len(files.original) / PER_CELL
        drawn = [name for name in files.released if cells[name] <= most]
        if len(drawn) > TABLED:
            kept = sorted(drawn, key=lambda n: -distance(n))[:TABLED]
            drawn = [name for name in drawn if name in kept]
        pairs = [pair for pair in itertools.combinations(drawn, 2) if cells[pair[0]] * cells[pair[1]] <= most]
        rows = [(one, two, distance(one, two)) for one, two in pairs]
    frame = pd.DataFrame(rows, columns=["first", "second", "distance"])
    return frame.sort_values("distance", ascending=False, kind="stable", ignore_index=True)


def _apart(columns: Sequence[Coded], files: Files, data: Microdata) -> float:
    return total_variation(
        shares(columns, weights_of(files.original, files.weighted), weights_of(data, files.weighted))
    )


def correlations(files: Files) -> pd.DataFrame:
    """Return the correlations of all pairs of numbers: first, second, before, after, difference; the largest difference first."""
    import pandas as pd

    before = {n: files.original.numbers(n) for n in files.numbers}
    each = [
        (files.weights(data), {n: released_numbers(files.original, data, n) for n in files.numbers})
        for data in files.outcome.implicates
    ]
    weights, rows = files.weights(files.original), []
    for one, two in itertools.combinations(files.numbers, 2):
        if int(np.isfinite(before[one] + before[two]).sum()) < files.fewest:
            continue
        r = _correlation(before[one], before[two], weights)
        after = float(np.mean([_correlation(found[one], found[two], w) for w, found in each]))
        if not np.isnan(r):
            rows.append((one, two, r, after))
    frame = with_difference(pd.DataFrame(rows, columns=["first", "second", "before", "after"]))
    order = frame["difference"].abs().fillna(np.inf).to_numpy().argsort(kind="stable")[::-1]
    return frame.iloc[order].reset_index(drop=True)


def _correlation(x: Numbers, y: Numbers, weights: Numbers) -> float:
    """Return the correlation over the records that have both; NaN where one of the two does not vary."""
    with np.errstate(all="ignore"):
        both = np.isfinite(x + y) & (weights > 0)
        if both.sum() < 2:
            return np.nan
        x, y, w = x[both], y[both], weights[both]
        a, b = x - np.average(x, weights=w), y - np.average(y, weights=w)
        spread = float(w @ (a * a)) * float(w @ (b * b))
        floor = (1e-24 * float(w @ (x * x))) * float(w @ (y * y))
        return float(np.clip((w @ (a * b)) / np.sqrt(spread), -1, 1)) if spread > floor else np.nan


def with_difference(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with a column more: after - before."""
    return frame.assign(difference=frame["after"] - frame["before"])
