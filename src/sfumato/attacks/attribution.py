"""The attribution attack: look a person's keys up in the release, and take the confidential value that stands there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.attacks.attacker_file import attribution_keys, check_in_common, missing_rule, people_of
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.data import Kind, LocalEngine, Microdata
from sfumato.data.classes import Classes, Missing, classes_of, common_codes
from sfumato.errors import DataError
from sfumato.kernels.classes import classes
from sfumato.typing import Coded, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.kernels.matching import GroupedValues, Matches


@dataclass(frozen=True, eq=False)
class ValueCells:
    """The values of a column in each of c classes of the keys: m cells, each a class, a value and a number of records.

    Records whose value is missing are in no cell: there is nothing to attribute, and nothing to attribute it from.
    """

    names: tuple[str, ...]
    keys: tuple[Coded, ...]
    """Per key, the code of each class, shape (c,), and what the codes stand for; -1 is missing."""
    classes: int
    of: Whole
    """Class of each cell, shape (m,)."""
    value: Numbers
    """Value of each cell, shape (m,): a number, or a code into `values`."""
    count: Whole
    """Records of each cell, shape (m,)."""
    values: Sequence[Any] | None
    """What the codes stand for; None for numbers."""
    records: int
    """Records of the file, those without a value included."""
    find_labels: Callable[[], Whole]

    @cached_property
    def labels(self) -> Whole:
        """Cell of each record, shape (n,), in the file's order; -1 for a record that is in none."""
        return self.find_labels()

    @cached_property
    def held(self) -> GroupedValues:
        """The values, sorted within each class."""
        return kernels.matching.held(self.of, self.value, self.count, self.classes)

    def per_record(self, values: NDArray[Any]) -> Numbers:
        """Spread values of the cells over the records, shape (n,); NaN for a record that is in none."""
        return np.asarray(np.append(np.asarray(values, np.float64), np.nan)[self.labels])

    def whole(self) -> ValueCells:
        """Return the same values without keys: all in one class."""
        return replace(self, names=(), keys=(), classes=1, of=np.zeros_like(self.of))

    def with_values(self, value: Numbers, values: Sequence[Any] | None) -> ValueCells:
        """Return the same cells with other values."""
        return replace(self, value=value, values=values)

    def keep(self, rule: Missing) -> ValueCells:
        """Return the cells that the rule for missing keys leaves in."""
        if rule != "ignored" or not self.keys:
            return self
        known = np.logical_and.reduce([codes >= 0 for codes, _ in self.keys])
        if known.all():
            return self
        stays = known[self.of]
        place = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
        of, value, count = self.of[stays], self.value[stays], self.count[stays]
        return replace(self, of=of, value=value, count=count, find_labels=lambda: place[self.labels])


def cells_of(data: Microdata, keys: Sequence[str], column: str, widths: Mapping[str, float]) -> ValueCells:
    """Count the values of a column by class of the keys, where the data live.

    >>> from sfumato.datasets import five
    >>> found = cells_of(five(), ["sex"], "salary", {})
    >>> found.classes, found.of.tolist(), found.value.tolist()
    (2, [0, 0, 0, 1, 1], [41.0, 52.0, 67.0, 38.5, 310.0])
    """
    numeric = data.kind(column) is Kind.NUMBER
    found = _of_records(data, keys, column, widths) if numeric and isinstance(data.engine, LocalEngine) else None
    if found is None:
        found = _of_classes(classes_of(data, (*keys, column), "value", None, widths), numeric)
    if numeric and not np.isfinite(found.value).all():
        raise DataError(f"column '{column}' holds infinite values, which cannot be compared. Set them to missing.")
    return found


def _of_records(data: Microdata, keys: Sequence[str], column: str, widths: Mapping[str, float]) -> ValueCells:
    """Numbers in memory: every record is a cell of its own."""
    by = classes_of(data, keys, "value", None, widths)
    x = data.numbers(column)
    known = np.flatnonzero(~np.isnan(x))
    # sorted, since neighbours are then looked up one after the other, which is several times as fast
    order = known[kernels.matching.sorted_within(by.labels[known], x[known], len(by))]
    place = np.full(len(x), -1, np.int64)
    place[order] = np.arange(len(order))
    of, value, count = by.labels[order], x[order], np.ones(len(order), np.int64)
    return ValueCells(tuple(keys), _keys(by), len(by), of, value, count, None, len(x), lambda: place)


def _of_classes(found: Classes, numeric: bool) -> ValueCells:
    """Categories, or data that live elsewhere: cells are the classes of the keys and the column."""
    by = found.among(found.names[:-1])
    codes, values = found.codes[-1], found.values[-1]
    known = codes >= 0
    place = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
    of = classes(found.codes[:-1], len(found))[0][known]  # `among` numbers the classes in the same way
    coded = codes[known]
    value = np.array([float(v) for v in values], np.float64)[coded] if numeric else coded.astype(np.float64)
    return ValueCells(
        by.names, _keys(by), len(by), of, value, found.sizes[known], None if numeric else values, found.records,
        lambda: place[found.labels],
    )  # fmt: skip


def _keys(by: Classes) -> tuple[Coded, ...]:
    return tuple(zip(by.codes, by.values, strict=True))


def in_common(mine: ValueCells, theirs: ValueCells) -> tuple[NDArray[np.int32], NDArray[np.int32], ValueCells]:
    """Return both files' key codes in one numbering, shapes (c, p) and (c', p), and the other cells with my codes of values."""
    pairs = [common_codes(a, b)[0] for a, b in zip(mine.keys, theirs.keys, strict=True)]
    codes = [
        np.column_stack(side) if side else np.zeros((cells.classes, 0), np.int32)
        for side, cells in (([a for a, _ in pairs], mine), ([b for _, b in pairs], theirs))
    ]
    if mine.values is not None and theirs.values is not None and mine.values is not theirs.values:
        whole = np.arange(len(mine.values), dtype=np.int32), np.arange(len(theirs.values), dtype=np.int32)
        (_, table), _ = common_codes((whole[0], mine.values), (whole[1], theirs.values))
        theirs = theirs.with_values(table[theirs.value.astype(np.int64)].astype(np.float64), mine.values)
    return codes[0], codes[1], theirs


# --- The attribution attack: look a person's keys up in the release, and take the confidential value that stands there.

Near = Literal["relative", "sd", "bins", "equal"]
Unmatched = Literal["left out", "wrong", "nearest"]
NEAR = {
    "relative": "within {tolerance:.3g} of the true value, relatively",
    "sd": "within {tolerance:.3g} standard deviations of the true value",
    "bins": "in the same of {bins} groups of equal size",
    "equal": "equal to the true value",
}
"""When a number counts as right, in words."""


def near_rule() -> Any:
    """Declare the parameter `near`, which every attribution measure has."""
    return param(
        default="relative",
        doc="when an answer counts as right for a number: near the true value, in the same group, or equal to it",
        choices=tuple(NEAR),
    )


def tolerance_rule() -> Any:
    """Declare the parameter `tolerance`."""
    return param(
        default=0.05, doc="how near a number must be: a share of the true value, or standard deviations", low=0
    )


def bins_rule() -> Any:
    """Declare the parameter `bins`."""
    return param(default=20, doc="number of groups of equal size, for near='bins'", low=2, integer=True)


@dataclass(frozen=True)
class ValueTolerance:
    """How far from a value another still counts as the same: relative · |value| + absolute."""

    relative: float = 0.0
    absolute: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether only equal values count."""
        return self.relative == 0 and self.absolute == 0

    def interval(self, value: Numbers) -> tuple[Numbers, Numbers]:
        """Return the ends of the intervals, shape (m,) each."""
        reach = self.relative * np.abs(value) + self.absolute
        return value - reach, value + reach


@dataclass(frozen=True, eq=False)
class Attributed:
    """What the release says of each target, by cell of the targets' file (m cells in c classes)."""

    targets: ValueCells
    held: ValueCells
    matches: Matches
    reach: ValueTolerance
    distance: Whole
    """How many keys differ between each class and the released records it was looked up in, shape (c,)."""

    @cached_property
    def matched(self) -> Numbers:
        """Released records that match the keys of each cell, shape (m,)."""
        return kernels.matching.totals(self.matches, self.held.held)[self.targets.of]

    @cached_property
    def agreeing(self) -> Numbers:
        """Those among them whose value is right, shape (m,)."""
        low, high = self.reach.interval(self.targets.value)
        return kernels.matching.counts_within(self.matches, self.held.held, self.targets.of, low, high)

    @property
    def drawn(self) -> Numbers:
        """Probability that a matching released record, drawn at random, has the right value, (m,); NaN where none matches."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.agreeing / np.where(self.matched > 0, self.matched, np.nan)

    @cached_property
    def _best(self) -> tuple[Numbers, Numbers, Whole]:
        how = self.reach
        return kernels.matching.best_answers(self.matches, self.held.held, how.exact, how.relative, how.absolute)

    @property
    def guess(self) -> Numbers:
        """The best guess for each cell, shape (m,): the most frequent value, or the median; NaN where none matches."""
        return self._best[0][self.targets.of]

    @property
    def sure(self) -> Numbers:
        """Share of the matching records that agree with the best guess, shape (m,); NaN where none matches."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._best[1][self.targets.of] / np.where(self.matched > 0, self.matched, np.nan)

    @cached_property
    def best(self) -> Numbers:
        """Probability that the best guess is right, shape (m,): 1/t where t values tie; NaN where none matches."""
        _, support, ties = (part[self.targets.of] for part in self._best)
        if self.reach.exact:
            right = np.where(self.agreeing == support, 1 / np.maximum(ties, 1), 0.0)
        else:
            low, high = self.reach.interval(self.targets.value)
            right = ((self.guess >= low) & (self.guess <= high)).astype(np.float64)
        return np.where(self.matched > 0, right, np.nan)


class Attribution(Attack):
    """A snooper who knows the keys of a person looks them up in the release, and answers with the value he finds there.

    He needs no alignment, so that the release may be synthetic: it is enough that both files have the same columns. Every
    original record with a value is a target. He draws one of the matching records (``answer="draw"``, as in the correct
    attribution probability), or takes the most frequent value, of numbers the median (``answer="best"``). He may have some of
    the persons only, and some keys wrong (`Snooper.coverage`, `Snooper.errors`); a file of his own is not used. Where keys were
    recoded, he recodes what he knows in the same way, which is learned from the alignment.
    """

    column: str = param(doc="the confidential column he wants to know", columns="one", holds="anything")
    answer: Literal["draw", "best"] = param(
        default="draw", doc="he takes a matching record at random, or the best guess"
    )
    near: Near = near_rule()
    tolerance: float = tolerance_rule()
    bins: int = bins_rule()
    missing: Missing = missing_rule()
    unmatched: Unmatched = param(
        default="left out",
        doc="a target whose keys are not in the release is left out, answered wrongly, or looked up by the nearest keys",
    )

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack every original record that has a value; random is only whom the snooper has, and which keys are wrong."""
        found = self.attributed(outcome, snooper, draws)
        plain = self.marginal(outcome, snooper, found.targets)
        draw = self.answer == "draw"
        right, without = (found.drawn, plain.drawn) if draw else (found.best, plain.best)
        if self.unmatched == "wrong":
            right = np.nan_to_num(right)
        spread = found.targets.per_record
        known = ~np.isnan(spread(right))
        return Guesses(
            outcome.original.batch([]).ids[known],
            spread(found.guess)[known],
            spread(found.targets.value)[known],
            spread(right)[known],
            spread(without)[known],
            spread(found.sure)[known],
        )

    def attributed(
        self, outcome: Release, snooper: Snooper, draws: Draws, targets: Microdata | None = None
    ) -> Attributed:
        """Return what the release says of the original's records, or of others (a holdout), as far as the snooper knows them."""
        people = self.people(outcome, snooper, draws, targets)
        found = self.between(outcome, snooper, people, outcome.masked)
        if targets is None:
            for name, mine, theirs in zip(found.targets.names, found.targets.keys, found.held.keys, strict=True):
                check_in_common(name, mine, theirs)
        return found

    def people(self, outcome: Release, snooper: Snooper, draws: Draws, targets: Microdata | None = None) -> Microdata:
        """Return the original's people, or others, as the snooper knows them."""
        names = attribution_keys(outcome, snooper, self.column)
        return people_of(outcome, snooper, outcome.original if targets is None else targets, names, self.column, draws)

    def between(self, outcome: Release, snooper: Snooper, targets: Microdata, held: Microdata) -> Attributed:
        """Return what one file says of the records of another, both taken as they are."""
        names = attribution_keys(outcome, snooper, self.column)
        cells = [self._cells(outcome, snooper, data, names) for data in (targets, held)]
        return attribute(cells[0], cells[1], self.reach(outcome), self.missing, self.unmatched == "nearest")

    def marginal(
        self, outcome: Release, snooper: Snooper, asked: ValueCells, source: Microdata | None = None
    ) -> Attributed:
        """Return what somebody concludes who knows nothing but how the values of a file (the original) are distributed."""
        names = attribution_keys(outcome, snooper, self.column)
        everybody = self._cells(outcome, snooper, outcome.original if source is None else source, names)
        return attribute(asked.whole(), everybody.whole(), self.reach(outcome), "value")

    def reach(self, outcome: Release) -> ValueTolerance:
        """Return how far from the truth a value still counts as right."""
        if outcome.original.kind(self.column) is not Kind.NUMBER or self.near in ("equal", "bins"):
            return ValueTolerance()
        if self.near == "relative":
            return ValueTolerance(relative=self.tolerance)
        moments = outcome.original.moments([self.column])
        return ValueTolerance(absolute=self.tolerance * float(np.sqrt(moments.covariance[0, 0])))

    def _cells(self, outcome: Release, snooper: Snooper, data: Microdata, names: tuple[str, ...]) -> ValueCells:
        key = ("cells", id(data), names, self.column, tuple(sorted(snooper.precision.items())))
        if key not in outcome.memory:
            outcome.memory[key] = cells_of(data, names, self.column, snooper.precision)
        found: ValueCells = outcome.memory[key]
        if self.near == "bins" and found.values is None:
            edges = self._edges(outcome, snooper, names)
            found = found.with_values(np.searchsorted(edges, found.value, side="left").astype(np.float64), None)
        return found.keep(self.missing)

    def _edges(self, outcome: Release, snooper: Snooper, names: tuple[str, ...]) -> Numbers:
        """Return the upper ends of groups of equal size of the original's values; fewer where many values are the same."""
        cells = replace(self, near="equal")._cells(outcome, snooper, outcome.original, names)
        order = np.argsort(cells.value, kind="stable")
        below = np.cumsum(cells.count[order])
        if not len(below):
            return np.zeros(0)
        at = np.searchsorted(below, below[-1] * np.arange(1, self.bins) / self.bins)
        return np.unique(cells.value[order][at])


def attribute(
    targets: ValueCells, held: ValueCells, reach: ValueTolerance, rule: Missing, nearest: bool = False
) -> Attributed:
    """Look every class of the targets up among the held records; where none matches, by the nearest keys if so wished.

    Nearest are the records that differ in the fewest keys. Every set of this number of keys is left out in turn; as no record is
    nearer, a record is found by one such set only.
    """
    asked, given, held = in_common(targets, held)
    if rule != "wildcard":
        asked, given = asked + 1, given + 1  # missing is a value like any other
    present = np.bincount(held.of, minlength=held.classes) > 0  # classes whose values are all missing say nothing
    rows = np.flatnonzero(present)
    matches = kernels.matching.matching_rows(asked, given[rows])
    matches = kernels.matching.Matches(matches.starts, rows[matches.rows])
    distance = np.zeros(targets.classes, np.int64)
    if nearest:
        matches = _with_nearest(matches, asked, given, rows, distance)
    return Attributed(targets, held, matches, reach, distance)


def _with_nearest(
    matches: kernels.matching.Matches,
    asked: NDArray[np.int32],
    given: NDArray[np.int32],
    rows: Whole,
    distance: Whole,
) -> kernels.matching.Matches:
    """Add the nearest held classes of the asked ones that match none, and set how many keys they differ in."""
    keys = asked.shape[1]
    found: list[tuple[Whole, Whole]] = [(np.repeat(np.arange(len(asked)), np.diff(matches.starts)), matches.rows)]
    open_ = np.flatnonzero(np.diff(matches.starts) == 0)
    for differ in range(1, keys + 1):
        if not len(open_) or not len(rows):
            break
        hit = np.zeros(len(open_), bool)
        for kept in itertools.combinations(range(keys), keys - differ):
            part = kernels.matching.matching_rows(asked[np.ix_(open_, kept)], given[np.ix_(rows, kept)])
            sizes = np.diff(part.starts)
            found.append((np.repeat(open_, sizes), rows[part.rows]))
            hit |= sizes > 0
        distance[open_[hit]] = differ
        open_ = open_[~hit]
    who, which = (np.concatenate([pair[side] for pair in found]) for side in (0, 1))
    order = np.argsort(who, kind="stable")
    counts = np.bincount(who, minlength=len(asked))
    return kernels.matching.Matches(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), which[order])
