"""The figures of a before-and-after summary: statistics, shares of categories, two-way tables, correlations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.data import Kind, Microdata
from sfumato.data.columns import Column
from sfumato.errors import DataError, SchemaError
from sfumato.lazy import pd
from sfumato.schema import Scale
from sfumato.schema.hierarchy import label_of
from sfumato.schema.interval_hierarchy import written_bounds
from sfumato.typing import Numbers
from sfumato.utility.comparison import weights_of
from sfumato.utility.distributions import coded, shares, total_variation
from sfumato.utility.estimator_utility import quantile
from sfumato.utility.recoded_values import distinct_pairs, paired_codes, read_numbers

# Each figure rests on at least `fewest` original records, so that none describes a person; others are left out. Smallest and
# largest values are not among them.

STATISTICS = ("mean", "standard deviation", "lower quartile", "median", "upper quartile", "missing")
QUARTILES = dict(zip(STATISTICS[2:5], (0.25, 0.5, 0.75), strict=True))
MISSING = "missing"
BINS = 5
"""Number of groups of about equal size that numbers are put into for two-way tables."""
PER_CELL = 5
"""A table has at least this many original records for each of its cells."""
TABLED = 20
"""Largest number of columns that make two-way tables."""


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
    rows: list[tuple[str, str, float]] = []
    if len(files.original) >= files.fewest and all(len(d) for d in files.outcome.implicates):
        weights, original = weights_of(files.original, files.weighted), _relabelled(files)
        each = [
            (data, {n: coded(original, data, n, weights, BINS, "quantiles") for n in files.released})
            for data in files.outcome.implicates
        ]

        def distance(*names: str) -> float:
            tables = [shares([found[n] for n in names], weights, weights_of(d, files.weighted)) for d, found in each]
            return float(np.mean([total_variation(table) for table in tables]))

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


def _relabelled(files: Files) -> Microdata:
    """Return the original with the categories of text under the labels that the release has for them."""
    new: dict[str, Column] = {}
    for name in files.categories:
        column = files.original.batch([name]).column(name)
        if column.kind is Kind.CATEGORY and len(column.codes[1]):
            codes, (*labels, _) = _recoded(files, name)
            values = list(dict.fromkeys(labels))
            if labels != [label_of(value) for value in column.codes[1]]:
                places = np.array([*(values.index(label) for label in labels), -1])
                new[name] = Column.from_codes(places[codes], values)
    if not new:
        return files.original
    rows = files.original.batch().with_columns(new).rows
    return Microdata(files.original.engine.hold(rows), files.original.schema)


def renamed_columns(outcome: Release) -> list[str]:
    """Return the columns of categories in which some released label is none of the original's, nor above one in a hierarchy."""
    files = Files(outcome, outcome.original.schema.names(), False, 1)
    found = []
    for name in files.categories:
        if outcome.original.kind(name) is Kind.CATEGORY:
            released = set(_amounts(_coded(outcome.masked, name), None)) - {MISSING}
            if released - set(_recoded(files, name)[1]):
                found.append(name)
    return found


def correlations(files: Files) -> pd.DataFrame:
    """Return the correlations of all pairs of numbers: first, second, before, after, difference; the largest difference first."""
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


CategoryCodes = tuple[NDArray[np.int32], Sequence[str]]


def distributions(files: Files) -> pd.DataFrame:
    """Return the share of each category: column, category, before, after, difference; in the order of the labels.

    Where a column was recoded, the original is recoded likewise. Categories of fewer original records stand together.
    """
    rows = []
    for name in files.categories:
        if len(files.original) < files.fewest:
            continue
        coded = _recoded(files, name)
        counts, before = _amounts(coded, None), _shares(coded, files.weights(files.original))
        each = [_shares(_coded(data, name), files.weights(data)) for data in files.outcome.implicates]
        found = {*before}.union(*each)
        every = [*sorted(found - {MISSING}), *({MISSING} & found)]
        after = {label: float(np.mean([one.get(label, 0.0) for one in each])) for label in every}
        joined = _joined(every, counts, files.fewest)
        if len(joined) == 1 and len(every) > 1:
            continue  # every value is rare, as names are
        for together in joined:
            new = not any(counts.get(v, 0) for v in together)
            said = together[0] if len(together) == 1 else f"{len(together)} {'new' if new else 'rare'} ones"
            rows.append((name, said, sum(before.get(v, 0.0) for v in together), sum(after[v] for v in together)))
    return with_difference(pd.DataFrame(rows, columns=["column", "category", "before", "after"]))


def _joined(labels: Sequence[str], counts: Mapping[str, float], fewest: int) -> list[list[str]]:
    """Return the labels one by one, those of too few original records together at the end, with as many more as that takes."""
    rare = sorted((v for v in labels if counts.get(v, 0) < fewest), key=lambda v: counts.get(v, 0))
    others = sorted((v for v in labels if v not in set(rare)), key=lambda v: counts[v])
    while others and 0 < sum(counts.get(v, 0) for v in rare) < fewest:
        rare.append(others.pop(0))
    alone = [[v] for v in labels if v not in set(rare)]
    return [*alone, rare] if rare else alone


def _coded(data: Microdata, name: str) -> CategoryCodes:
    """Return each record's value as a code into texts; the last text stands for missing."""
    batch = data.batch([name])
    codes, values = batch.column(name).codes
    return np.where(batch.missing(name), np.int32(len(values)), codes), [*map(label_of, values), MISSING]


def _amounts(coded: CategoryCodes, weights: Numbers | None) -> dict[str, float]:
    """Return how many records have each text, or the sum of their weights; texts of none are left out."""
    codes, texts = coded
    amounts: dict[str, float] = {}
    sizes, sums = np.bincount(codes, minlength=len(texts)), np.bincount(codes, weights, len(texts))
    for i in np.flatnonzero(sizes).tolist():
        amounts[texts[i]] = amounts.get(texts[i], 0.0) + float(sums[i])
    return amounts


def _shares(coded: CategoryCodes, weights: Numbers) -> dict[str, float]:
    """Return the share of each text."""
    amounts = _amounts(coded, weights)
    total = sum(amounts.values()) or 1.0
    return {text: amount / total for text, amount in amounts.items()}


def _recoded(files: Files, name: str) -> CategoryCodes:
    """Return each original record's value under the label that the release has for it."""
    original, masked = files.original, files.outcome.masked
    known = {text for data in files.outcome.implicates for text in _amounts(_coded(data, name), None)}
    _, values = original.batch([name]).column(name).codes
    trees = [t for t in (original.schema[name].hierarchy, masked.schema[name].hierarchy) if t is not None]
    codes, (*texts, _) = _coded(original, name)
    for tree in trees:
        for level in range(1, tree.height + 1):
            lost = [i for i, text in enumerate(texts) if text not in known]
            if not lost:
                break
            try:
                above = tree.generalise([values[i] for i in lost], level).tolist()
            except SchemaError:
                break
            for i, label in zip(lost, above, strict=True):
                texts[i] = label if label in known else texts[i]
    if original.kind(name) is Kind.NUMBER:
        texts = _by_intervals(np.asarray(values, np.float64), texts, known)
    if files.outcome.aligned and any(text not in known for text in texts):
        texts = _by_pairs(files.outcome, name, texts, known)
    return codes, [*texts, MISSING]


def _by_intervals(values: Numbers, texts: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the labels of numbers that were released as intervals, which say themselves what they hold."""
    found, held = list(texts), set(known)
    lost = np.array([text not in held for text in texts], bool)
    for label in sorted(held):
        if (bounds := written_bounds(label)) is not None and bounds[0] < bounds[1]:
            for i in np.flatnonzero(lost & (values >= bounds[0]) & (values <= bounds[1])).tolist():
                found[i] = label
    return found


def _by_pairs(outcome: Release, name: str, texts: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the labels of values that were all released under one other label, as a list of old and new values has them."""
    before, after = paired_codes(outcome, name)
    both = (before >= 0) & (after >= 0)
    _, released = outcome.masked.batch([name]).column(name).codes
    under: dict[int, list[str]] = {}
    for old, new in zip(*distinct_pairs(before[both], after[both], max(len(released), 1)), strict=True):
        under.setdefault(int(old), []).append(label_of(released[int(new)]))
    held = set(known)
    return [under[i][0] if t not in held and len(under.get(i, ())) == 1 else t for i, t in enumerate(texts)]
