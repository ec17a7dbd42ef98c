"""The attribution attack: look a person's keys up in the release, and take the confidential value that stands there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.cells import Cells, cells_of, in_common
from sfumato.attacks.keys import missing_rule
from sfumato.attacks.people import check_in_common, known_keys, people_of
from sfumato.classes import Missing
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.engines import Kind
from sfumato.microdata import Microdata

if TYPE_CHECKING:
    from sfumato.kernels.matching import Matches

Numbers = NDArray[np.float64]
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
class Reach:
    """How far from a value another still counts as the same: relative · |value| + absolute."""

    relative: float = 0.0
    absolute: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether only equal values count."""
        return self.relative == 0 and self.absolute == 0

    def around(self, value: Numbers) -> tuple[Numbers, Numbers]:
        """Return the ends of the intervals, shape (m,) each."""
        reach = self.relative * np.abs(value) + self.absolute
        return value - reach, value + reach


@dataclass(frozen=True, eq=False)
class Attributed:
    """What the release says of each target, by cell of the targets' file (m cells in c classes)."""

    targets: Cells
    held: Cells
    matches: Matches
    reach: Reach
    distance: NDArray[np.int64]
    """How many keys differ between each class and the released records it was looked up in, shape (c,)."""

    @cached_property
    def matched(self) -> Numbers:
        """Released records that match the keys of each cell, shape (m,)."""
        from sfumato.kernels.matching import totals

        return totals(self.matches, self.held.held)[self.targets.of]

    @cached_property
    def agreeing(self) -> Numbers:
        """Those among them whose value is right, shape (m,)."""
        from sfumato.kernels.matching import counts_within

        low, high = self.reach.around(self.targets.value)
        return counts_within(self.matches, self.held.held, self.targets.of, low, high)

    @property
    def drawn(self) -> Numbers:
        """Probability that a matching released record, drawn at random, has the right value, (m,); NaN where none matches."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.agreeing / np.where(self.matched > 0, self.matched, np.nan)

    @cached_property
    def _best(self) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
        from sfumato.kernels.matching import best_answers

        how = self.reach
        return best_answers(self.matches, self.held.held, how.exact, how.relative, how.absolute)

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
            low, high = self.reach.around(self.targets.value)
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
        default="draw", doc="he takes a matching record at random, or the best guess", choices=("draw", "best")
    )
    near: Near = near_rule()
    tolerance: float = tolerance_rule()
    bins: int = bins_rule()
    missing: Missing = missing_rule()
    unmatched: Unmatched = param(
        default="left out",
        doc="a target whose keys are not in the release is left out, answered wrongly, or looked up by the nearest keys",
        choices=("left out", "wrong", "nearest"),
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
        names = known_keys(outcome, snooper, self.column)
        return people_of(outcome, snooper, outcome.original if targets is None else targets, names, self.column, draws)

    def between(self, outcome: Release, snooper: Snooper, targets: Microdata, held: Microdata) -> Attributed:
        """Return what one file says of the records of another, both taken as they are."""
        names = known_keys(outcome, snooper, self.column)
        cells = [self._cells(outcome, snooper, data, names) for data in (targets, held)]
        return attribute(cells[0], cells[1], self.reach(outcome), self.missing, self.unmatched == "nearest")

    def marginal(self, outcome: Release, snooper: Snooper, asked: Cells, source: Microdata | None = None) -> Attributed:
        """Return what somebody concludes who knows nothing but how the values of a file (the original) are distributed."""
        names = known_keys(outcome, snooper, self.column)
        everybody = self._cells(outcome, snooper, outcome.original if source is None else source, names)
        return attribute(asked.whole(), everybody.whole(), self.reach(outcome), "value")

    def reach(self, outcome: Release) -> Reach:
        """Return how far from the truth a value still counts as right."""
        if outcome.original.kind(self.column) is not Kind.NUMBER or self.near in ("equal", "bins"):
            return Reach()
        if self.near == "relative":
            return Reach(relative=self.tolerance)
        moments = outcome.original.moments([self.column])
        return Reach(absolute=self.tolerance * float(np.sqrt(moments.covariance[0, 0])))

    def _cells(self, outcome: Release, snooper: Snooper, data: Microdata, names: tuple[str, ...]) -> Cells:
        key = ("cells", id(data), names, self.column, tuple(sorted(snooper.precision.items())))
        if key not in outcome.memory:
            outcome.memory[key] = cells_of(data, names, self.column, snooper.precision)
        found: Cells = outcome.memory[key]
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


def attribute(targets: Cells, held: Cells, reach: Reach, rule: Missing, nearest: bool = False) -> Attributed:
    """Look every class of the targets up among the held records; where none matches, by the nearest keys if so wished.

    Nearest are the records that differ in the fewest keys. Every set of so many keys is left out in turn; as no record is
    nearer, a record is found by one such set only.
    """
    from sfumato.kernels.matching import Matches, matching_rows

    asked, given, held = in_common(targets, held)
    if rule != "wildcard":
        asked, given = asked + 1, given + 1  # missing is a value like any other
    present = np.bincount(held.of, minlength=held.classes) > 0  # classes whose values are all missing say nothing
    rows = np.flatnonzero(present)
    matches = matching_rows(asked, given[rows])
    matches = Matches(matches.starts, rows[matches.rows])
    distance = np.zeros(targets.classes, np.int64)
    if nearest:
        matches = _with_nearest(matches, asked, given, rows, distance)
    return Attributed(targets, held, matches, reach, distance)


def _with_nearest(
    matches: Matches,
    asked: NDArray[np.int32],
    given: NDArray[np.int32],
    rows: NDArray[np.int64],
    distance: NDArray[np.int64],
) -> Matches:
    """Add the nearest held classes of the asked ones that match none, and set how many keys they differ in."""
    from sfumato.kernels.matching import Matches, matching_rows

    keys = asked.shape[1]
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = [
        (np.repeat(np.arange(len(asked)), np.diff(matches.starts)), matches.rows)
    ]
    open_ = np.flatnonzero(np.diff(matches.starts) == 0)
    for differ in range(1, keys + 1):
        if not len(open_) or not len(rows):
            break
        hit = np.zeros(len(open_), bool)
        for kept in itertools.combinations(range(keys), keys - differ):
            part = matching_rows(asked[np.ix_(open_, kept)], given[np.ix_(rows, kept)])
            sizes = np.diff(part.starts)
            found.append((np.repeat(open_, sizes), rows[part.rows]))
            hit |= sizes > 0
        distance[open_[hit]] = differ
        open_ = open_[~hit]
    who, which = (np.concatenate([pair[side] for pair in found]) for side in (0, 1))
    order = np.argsort(who, kind="stable")
    counts = np.bincount(who, minlength=len(asked))
    return Matches(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), which[order])
