"""Singling out: a description that fits exactly one person (GDPR, recital 26; Giomi et al. 2022)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.controlled import ControlledAttack
from sfumato.attacks.points import comparable, exact_tables, is_number
from sfumato.contract import Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata

Numbers = NDArray[np.float64]
Describe = Literal["one column", "several columns"]
_LOWEST, _HIGHEST = np.finfo(np.float64).min, np.finfo(np.float64).max
_TRIES = 50
"""How many descriptions are tried at most for each that is wanted."""


class Descriptions(NamedTuple):
    """Descriptions of a person as boxes: the lowest and highest value of each column, shape (a, p).

    Missing values are minus infinity, and below the lowest number; an open column reaches from -inf to inf.
    """

    low: Numbers
    high: Numbers

    def take(self, rows: NDArray[np.int64]) -> Descriptions:
        """Return some of them."""
        return Descriptions(self.low[rows], self.high[rows])

    def distinct(self) -> Descriptions:
        """Return each once, in the order in which they first occur."""
        _, first = np.unique(np.hstack([self.low, self.high]), axis=0, return_index=True)
        return self.take(np.sort(first))

    def counts(self, people: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many people fit each description, and the row of one of them; shape (a,) each."""
        from sfumato.kernels.boxes import box_counts

        return box_counts(people, self.low, self.high)


class Describing(Parametric, abstract=True):
    """How people are described: shared by the attack and the measure that scores it."""

    describe: Describe = param(
        default="several columns", doc="what a description consists of", choices=("one column", "several columns")
    )
    width: int = param(default=3, doc="how many columns a description has, for several columns", low=1, integer=True)
    using: tuple[str, ...] = param(
        default=(), doc="columns he uses; all that can be compared if none", columns="many", holds="anything"
    )


class SingleOut(ControlledAttack, Describing):
    """The snooper looks in the release for descriptions that fit one record alone, and claims that they fit one person.

    With "one column" he uses values that occur once, and the smallest and largest number of a column. With "several columns" he
    takes a random released record and some of its columns: categories as they are, numbers as "at least" (above the median) or
    "at most" this. He guesses that one person fits; the truth is how many do. The baseline are random descriptions.
    """

    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Count the people who fit each description; of a larger holdout, in a random part as large as the original."""
        names = comparable(outcome, self.using, people)
        size = len(outcome.original)
        if len(people) < size:
            raise NotApplicable(
                "one person is singled out more easily in a smaller file, so the holdout must have as many records as the "
                "original. Set half of the file aside: hold_out(data, 0.5, draws)."
            )
        released, persons = exact_tables(names, outcome.masked, people)
        numbers = np.array([is_number(outcome.masked, n) and is_number(people, n) for n in names])
        g = draws.generator("descriptions")
        found = self.descriptions(released, numbers, g)
        counts, row = found.counts(persons)
        right = alone(counts, len(people), size)
        random, _ = self._random(released, numbers, len(found.low), g).counts(persons)
        target = np.where(counts == 1, people.batch([]).ids[row], -1)
        return Guesses(target, np.ones(len(counts), np.int64), counts, right, alone(random, len(people), size))

    def descriptions(self, released: Numbers, numbers: NDArray[np.bool_], g: np.random.Generator) -> Descriptions:
        """Return descriptions that fit one released record alone, in random order; there may be none."""
        if self.describe == "one column":
            return _of_one_column(released, numbers, self.attacks, g)
        return self._of_several(released, numbers, g)

    def _of_several(self, released: Numbers, numbers: NDArray[np.bool_], g: np.random.Generator) -> Descriptions:
        from sfumato.kernels.boxes import holds_one

        t, p = released.shape
        median = np.array([np.median(c[c > -np.inf]) if (c > -np.inf).any() else 0.0 for c in released.T])
        found = Descriptions(np.empty((0, p)), np.empty((0, p)))
        for _ in range(_TRIES):
            value = released[g.integers(0, t, self.attacks)]
            used = _some_columns(self.attacks, p, self.width, g)
            at_most, at_least = (numbers & (value > -np.inf) & side for side in (value <= median, value > median))
            low = np.where(used, np.where(at_most, _LOWEST, value), -np.inf)
            high = np.where(used, np.where(at_least, _HIGHEST, value), np.inf)
            one = holds_one(released, low, high)
            before = len(found.low)
            found = Descriptions(np.vstack([found.low, low[one]]), np.vstack([found.high, high[one]])).distinct()
            if len(found.low) >= self.attacks or len(found.low) - before < self.attacks / 100:  # hardly any is new
                break
        return found.take(np.arange(min(len(found.low), self.attacks)))

    def _random(
        self, released: Numbers, numbers: NDArray[np.bool_], count: int, g: np.random.Generator
    ) -> Descriptions:
        """Return random descriptions: of columns, of "equal", "at least" or "at most", of values within the range."""
        p = released.shape[1]
        width = 1 if self.describe == "one column" else self.width
        used = _some_columns(count, p, width, g)
        value = np.empty((count, p))
        for j in range(p):
            known = np.unique(released[:, j])
            finite = known[np.isfinite(known)]
            if numbers[j] and len(finite):
                value[:, j] = g.uniform(0, 1, count) * (finite[-1] - finite[0]) + finite[0]
            else:
                value[:, j] = known[g.integers(0, len(known), count)]
        how = g.integers(0, 3, (count, p))
        low = np.where(used, np.where(numbers & (how == 1), _LOWEST, value), -np.inf)
        high = np.where(used, np.where(numbers & (how == 2), _HIGHEST, value), np.inf)
        return Descriptions(low, high)


def _some_columns(count: int, columns: int, width: int, g: np.random.Generator) -> NDArray[np.bool_]:
    """Return `count` random choices of `width` columns, or of all if there are no more; shape (count, columns)."""
    rank = g.random((count, columns)).argsort(axis=1).argsort(axis=1)
    return np.asarray(rank < width)


def _of_one_column(released: Numbers, numbers: NDArray[np.bool_], most: int, g: np.random.Generator) -> Descriptions:
    """Return at most so many of the values that occur once, and of the ends of a column where one record alone is."""
    parts: list[tuple[Any, Any, Any]] = []
    for j in range(released.shape[1]):
        values, counts = np.unique(released[:, j], return_counts=True)
        once = values[counts == 1]
        parts += [(np.full(len(once), j), once, once)]
        finite = np.isfinite(values)
        if numbers[j] and finite.any():
            first, last = np.flatnonzero(finite)[[0, -1]]
            parts += [([j], [_LOWEST], values[[first]])] if counts[first] == 1 else []
            parts += [([j], values[[last]], [_HIGHEST])] if counts[last] == 1 else []
    column, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    some = g.permutation(len(column))[:most]
    used = np.arange(released.shape[1]) == column[some, None]
    return Descriptions(np.where(used, low[some, None], -np.inf), np.where(used, high[some, None], np.inf))


def alone(counts: NDArray[np.int64], people: int, size: int) -> Numbers:
    """Return the probability that exactly one of `counts` people is in a random part of `size` of all people, shape (a,).

    Hypergeometric; without a smaller part it is 1 where the count is 1, and 0 elsewhere.
    """
    from scipy.special import gammaln

    if size == people:
        return np.asarray(counts == 1, np.float64)
    k = np.asarray(counts, np.float64)
    possible = (k >= 1) & (people - k >= size - 1)
    k = np.where(possible, k, 1.0)
    # k · C(people - k, size - 1) / C(people, size)
    ways = gammaln(people - k + 1) - gammaln(float(size)) - gammaln(people - k - size + 2)
    every = gammaln(people + 1.0) - gammaln(size + 1.0) - gammaln(people - size + 1.0)
    return np.asarray(np.where(possible, np.clip(k * np.exp(ways - every), 0.0, 1.0), 0.0), np.float64)
