"""Expected counts of a file's classes under a log-linear model, fitted by maximum likelihood in parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.data import Classes
from sfumato.errors import NotApplicable
from sfumato.kernels.classes import classes, find_rows
from sfumato.typing import Codes, Flags, Numbers, Whole

Margin = tuple[int, ...]
CYCLES, TOLERANCE = 200, 0.01
"""Rounds of proportional fitting, and how far the margins may be off when it stops, in standard errors of a count."""


def blocks_of(margins: Sequence[Margin], keys: int) -> list[Margin]:
    """Return the blocks of the graph whose edges join keys of one margin: what removing a single key does not take apart.

    Two blocks share one key at most, and given that key the rest of them is independent under the model.

    >>> blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
    [(0, 1, 2), (2, 3), (4,)]
    """
    edges = {pair for margin in margins for pair in combinations(margin, 2)}

    def split(part: frozenset[int]) -> list[frozenset[int]]:
        whole = _connected(part, edges)
        if len(whole) > 1:
            return [block for piece in whole for block in split(piece)]
        for key in sorted(part):
            pieces = _connected(part - {key}, edges)
            if len(pieces) > 1:
                return [block for piece in pieces for block in split(piece | {key})]
        return [part]

    return sorted(tuple(sorted(block)) for block in split(frozenset(range(keys))))


def _connected(part: frozenset[int], edges: set[tuple[int, int]]) -> list[frozenset[int]]:
    """Return the connected components of a part of the graph."""
    left, found = set(part), []
    while left:
        reached, new = set(), {min(left)}
        while new:
            reached |= new
            new = {b for a in new for b in part if (min(a, b), max(a, b)) in edges} - reached
        found.append(frozenset(reached))
        left -= reached
    return found


@dataclass(frozen=True, eq=False)
class Block:
    """The fitted table of one block's keys, which are some of the file's."""

    keys: Margin
    levels: tuple[int, ...]
    """Of these keys."""
    cells: Codes
    """Cells that the model allows, in lexical order, shape (k, keys)."""
    fitted: Numbers
    """Expected counts, shape (k,)."""
    places: NDArray[np.int32]
    """Where in the margins each cell is counted, shape (margins, k)."""
    size: int
    """Cells of all margins together."""

    @classmethod
    def fit(
        cls, codes: Codes, sizes: Numbers, levels: Sequence[int], keys: Margin, margins: Sequence[Margin], most: int
    ) -> Block:
        """Fit counts of cells by all keys, shapes (c, all keys) and (c,); refuse more than `most` cells times margins."""
        own = [tuple(keys.index(key) for key in margin) for margin in margins]
        mine, few = np.ascontiguousarray(codes[:, keys]), tuple(levels[key] for key in keys)
        limit = most // len(own)
        cells = kernels.loglinear.feasible_cells(few, mine, own, limit)
        if cells is None:
            raise NotApplicable(
                f"with these interactions the keys have more than {limit:,} cells to fit. Use fewer keys, coarser ones, or "
                "interactions='main'."
            )
        shape = kernels.loglinear.layout(few, own)
        places, size = kernels.loglinear.places_of(cells, *shape), int(shape[2][-1])
        targets = kernels.loglinear.gather(kernels.loglinear.places_of(mine, *shape), sizes, size)
        fitted, worst = kernels.loglinear.proportional_fit(places, targets, shape[2], TOLERANCE, CYCLES)
        if worst > 30 * TOLERANCE:
            raise NotApplicable("the log-linear model did not settle. Use fewer interactions, or coarser keys.")
        return cls(keys, few, cells, fitted, places, size)

    def at(self, codes: Codes) -> Numbers:
        """Return the expected counts of this block's keys in cells by all keys, shape (c, all keys) to (c,)."""
        return self.fitted[find_cells(self.cells, codes[:, self.keys], self.levels)]

    def dense(self) -> Numbers:
        """Return the fitted table with an axis for each of its keys; 0 in cells that the model does not allow."""
        table = np.zeros(math.prod(self.levels))
        table[np.ravel_multi_index(tuple(self.cells.T), self.levels)] = self.fitted
        return table.reshape(self.levels)

    def gathered(self, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of cells by all keys added up by this block's cells, shape (k,)."""
        place = find_cells(self.cells, codes[:, self.keys], self.levels)
        return np.bincount(place, amounts, len(self.cells)).astype(np.float64)

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count), slopes of shape (k,)."""
        return kernels.loglinear.fitted_variance(self.places, self.fitted, slopes, self.size)


def find_cells(every: Codes, asked: Codes, levels: Sequence[int]) -> Whole:
    """Return the rows of `every`, cells in lexical order, that hold the cells asked for; shapes (k, keys), (c, keys) to (c,)."""
    if math.prod(levels) >= 2**62:
        return find_rows(list(every.T), list(asked.T))
    here, wanted = (np.ravel_multi_index(tuple(codes.T), tuple(levels)) for codes in (every, asked))
    return np.asarray(np.searchsorted(here, wanted), np.int64)


# --- The expected counts of all cells of a table: by an axis per key where that is small enough, else as a list of cells.


@dataclass(frozen=True, eq=False)
class Dense:
    """Expected counts with an axis per key; 0 in cells that the model does not allow."""

    fitted: Numbers

    def counts(self, codes: Codes, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Return observed and expected counts of all cells that the model allows; given are those that occur."""
        observed = np.zeros(self.fitted.shape)
        observed[tuple(codes.T)] = sizes
        allowed = self.fitted > 0
        return observed[allowed], self.fitted[allowed]

    def sums(self, keys: Margin, codes: Codes) -> Numbers:
        """Return the sums over all cells that agree with some codes of these keys, shape (r, keys) to (r,)."""
        return np.asarray(self.fitted.sum(axis=self._others(keys)).reshape(-1)[self._places(keys, codes)], np.float64)

    def shared(self, keys: Margin, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of some codes of these keys shared out among the cells that agree, by their expected counts."""
        shape = [self.fitted.shape[key] for key in keys]
        each = _quotient(amounts, self.sums(keys, codes))
        share = np.bincount(self._places(keys, codes), each, math.prod(shape)).reshape(shape)
        return np.expand_dims(share, self._others(keys)) * self.fitted

    def onto(self, block: Block, amounts: Numbers) -> Numbers:
        """Return amounts of all cells added up by the cells of a block, shape (k,)."""
        return np.asarray(amounts.sum(axis=self._others(block.keys))[tuple(block.cells.T)], np.float64)

    def _places(self, keys: Margin, codes: Codes) -> Whole:
        """Return where codes of these keys stand in the table of them alone, shape (r,)."""
        if not keys:
            return np.zeros(len(codes), np.int64)
        return np.asarray(np.ravel_multi_index(tuple(codes.T), [self.fitted.shape[key] for key in keys]), np.int64)

    def _others(self, keys: Margin) -> Margin:
        return tuple(key for key in range(self.fitted.ndim) if key not in keys)


@dataclass(frozen=True, eq=False)
class Listed:
    """The same of cells in lexical order, shape (k, keys)."""

    cells: Codes
    fitted: Numbers
    levels: tuple[int, ...]

    def counts(self, codes: Codes, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Return observed and expected counts of all cells."""
        observed = np.zeros(len(self.cells))
        observed[find_cells(self.cells, codes, self.levels)] = sizes
        return observed, self.fitted

    def sums(self, keys: Margin, codes: Codes) -> Numbers:
        """Return the sums over all cells that agree with some codes of these keys."""
        here, asked, size = self._places(keys, codes)
        return np.asarray(np.bincount(here, self.fitted, size)[asked], np.float64)

    def shared(self, keys: Margin, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of some codes of these keys shared out among the cells that agree, by their expected counts."""
        here, asked, size = self._places(keys, codes)
        share = _quotient(amounts, self.sums(keys, codes))
        return np.bincount(asked, share, size)[here] * self.fitted

    def onto(self, block: Block, amounts: Numbers) -> Numbers:
        """Return amounts of all cells added up by the cells of a block."""
        return block.gathered(self.cells, amounts)

    def _places(self, keys: Margin, codes: Codes) -> tuple[Whole, Whole, int]:
        """Return which combination of these keys each cell and each asked for has, and how many there are."""
        both = np.vstack([self.cells[:, keys], codes])
        place, sizes = classes(list(both.T), len(both))
        return place[: len(self.cells)], place[len(self.cells) :], len(sizes)


def _quotient(amounts: Numbers, sums: Numbers) -> Numbers:
    return np.divide(amounts, sums, out=np.zeros(len(amounts)), where=sums > 0)


# --- Expected counts of a file's classes under a log-linear model, fitted by maximum likelihood to the counts of all cells.

CELLS, PLACES = 10_000_000, 30_000_000
"""More cells than this are not gone through, nor more cells times margins fitted."""
AXES = 32
"""More axes than this an array cannot be sure to have."""


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The classes of a file as cells of a table: codes from 0 without gaps, shape (c, keys); -1 is missing, matching anything."""

    codes: Codes
    sizes: Whole
    levels: tuple[int, ...]

    @cached_property
    def complete(self) -> Flags:
        """Which classes lack no key, shape (c,)."""
        return np.asarray((self.codes >= 0).all(axis=1))

    @cached_property
    def counted(self) -> float:
        """Records without a missing key, which models are fitted to."""
        return float(self.sizes[self.complete].sum())

    @cached_property
    def scale(self) -> float:
        """All records over those without a missing key."""
        return float(self.sizes.sum()) / self.counted


def table_of(released: Classes) -> ClassTable:
    """Return a file's classes as cells; under "value" missing is one more level of a key."""
    columns, levels = [], []
    for codes in released.codes:
        raised = codes.astype(np.int64) + (released.rule == "value")
        known, place = np.unique(raised[raised >= 0], return_inverse=True)
        column = np.full(len(raised), -1, np.int32)
        column[raised >= 0] = place
        columns.append(column)
        levels.append(max(len(known), 1))
    made = ClassTable(np.column_stack(columns), released.sizes, tuple(levels))
    if not made.complete.any():
        raise NotApplicable(
            "every record has a missing key, so no log-linear model can be fitted. Leave out the key that is missing."
        )
    return made


class FittedCounts(Protocol):
    """A fitted model."""

    def expected(self) -> Numbers:
        """Return the expected count of each class of the file, shape (c,); of a class with missing keys, of all that match."""

    def cells(self) -> Iterator[tuple[Numbers, Numbers]] | None:
        """Yield observed and expected counts of all cells, in parts; None where there are too many."""

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count), slopes of shape (c,)."""

    def saturated(self) -> bool:
        """Return whether just the counts that were observed are expected, so that nothing is learned from other records."""


class MainEffects:
    """Independent keys: the expected count is n·Π(share of the key's value)."""

    def __init__(self, table: ClassTable) -> None:
        self.table = table
        full = table.codes[table.complete]
        sizes = table.sizes[table.complete].astype(np.float64)
        self.margins = [np.bincount(full[:, j], sizes, levels) for j, levels in enumerate(table.levels)]

    def _product(self, codes: Codes) -> Numbers:
        n = self.table.counted
        value = np.full(len(codes), n)
        for j, margin in enumerate(self.margins):
            value *= np.append(margin / n, 1.0)[codes[:, j]]  # a missing key, -1, leaves the count as it is
        return value

    def expected(self) -> Numbers:
        """Return the expected counts of the classes, shape (c,)."""
        return self._product(self.table.codes) * self.table.scale

    def cells(self) -> Iterator[tuple[Numbers, Numbers]] | None:
        """Yield observed and expected counts of all cells."""
        if math.prod(self.table.levels) > CELLS or len(self.table.levels) > AXES:
            return None
        value = np.full((), self.table.counted)
        for margin in self.margins:
            value = np.multiply.outer(value, margin / self.table.counted)
        full = self.table.codes[self.table.complete]
        return iter([Dense(value).counts(full, self.table.sizes[self.table.complete].astype(np.float64))])

    def saturated(self) -> bool:
        """Return whether just the observed counts are expected."""
        return _repeats(self._product(self.table.codes[self.table.complete]), self.table)

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count): multinomial margins that are independent of each other."""
        n, total = self.table.counted, float(slopes.sum())
        variance = total**2 / n
        for j, margin in enumerate(self.margins):
            known = self.table.codes[:, j] >= 0
            g = np.bincount(self.table.codes[known, j], slopes[known], len(margin))
            some = margin > 0
            variance += float((g[some] ** 2 / margin[some]).sum()) - float(g.sum()) ** 2 / n
        return variance


class Interactions:
    """Main effects and interactions: the expected counts have the margins of the file, by proportional fitting.

    The model is fitted block by block: where blocks share a key they are independent given it, so that the count of a cell is the
    product of the blocks' counts over the counts of the keys they share, and over n where they share none
    (Lauritzen 1996, proposition 4.14).
    """

    def __init__(
        self, table: ClassTable, margins: Sequence[tuple[int, ...]], budget: tuple[int, int] | None = None
    ) -> None:
        self.table, self.margins = table, margins
        self.limit, places = budget or (CELLS, PLACES)
        self.full = np.ascontiguousarray(table.codes[table.complete])
        self.counts = table.sizes[table.complete].astype(np.float64)
        self.blocks = [
            Block.fit(self.full, self.counts, table.levels, keys, [m for m in margins if set(m) <= set(keys)], places)
            for keys in blocks_of(margins, len(table.levels))
        ]
        times = Counter(key for block in self.blocks for key in block.keys)
        self.shared = {key: count - 1 for key, count in times.items() if count > 1}
        """Keys that blocks share, and in how many blocks but one they are."""
        self.apart = len(self.blocks) - sum(self.shared.values())
        """Parts of the model that share no key."""

    def _at(self, codes: Codes) -> Numbers:
        """Return the expected counts of cells, shape (k, keys) to (k,)."""
        n = self.table.counted
        value = np.full(len(codes), n)
        for block in self.blocks:
            value *= block.at(codes) / n
        for key, times in self.shared.items():
            value *= (n * self._inverse(key))[codes[:, key]] ** times
        return value

    def _inverse(self, key: int) -> Numbers:
        margin = np.bincount(self.full[:, key], self.counts, self.table.levels[key])
        return np.divide(1.0, margin, out=np.zeros(len(margin)), where=margin > 0)

    @cached_property
    def whole(self) -> Dense | Listed | None:
        """The expected counts of all cells; None where there are too many."""
        levels = self.table.levels
        if math.prod(levels) <= CELLS and len(levels) <= AXES:
            axes = range(len(levels))
            n = self.table.counted
            value = np.full(levels, n)
            for block in self.blocks:
                value *= np.expand_dims(block.dense() / n, tuple(j for j in axes if j not in block.keys))
            for key, times in self.shared.items():
                value *= np.expand_dims((n * self._inverse(key)) ** times, tuple(j for j in axes if j != key))
            return Dense(value)
        cells = kernels.loglinear.feasible_cells(levels, self.full, self.margins, self.limit)
        return None if cells is None else Listed(cells, self._at(cells), levels)

    def expected(self) -> Numbers:
        """Return the expected counts of the classes, shape (c,)."""
        value = np.zeros(len(self.table.codes))
        value[self.table.complete] = self._at(self.full)
        for rows, keys, codes in self._incomplete():
            value[rows] = self._all().sums(keys, codes)
        return value * self.table.scale

    def cells(self) -> Iterator[tuple[Numbers, Numbers]] | None:
        """Yield observed and expected counts of all cells."""
        return None if self.whole is None else iter([self.whole.counts(self.full, self.counts)])

    def saturated(self) -> bool:
        """Return whether just the observed counts are expected."""
        return _repeats(self._at(self.full), self.table)

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count) by the information matrix.

        Blocks that are independent given what they share add up, less what they share.
        """
        complete = slopes[self.table.complete]
        each = [block.gathered(self.full, complete) for block in self.blocks]
        spread: Numbers | None = None
        for rows, keys, codes in self._incomplete():
            if slopes[rows].any():
                amounts = self._all().shared(keys, codes, slopes[rows])
                spread = amounts if spread is None else np.add(spread, amounts, out=spread)
        if spread is not None:
            whole = self._all()
            each = [sums + whole.onto(block, spread) for block, sums in zip(self.blocks, each, strict=True)]
        variance = (1 - self.apart) * float(slopes.sum()) ** 2 / self.table.counted
        for block, sums in zip(self.blocks, each, strict=True):
            variance += block.variance(sums)
        for key, times in self.shared.items():
            block, sums = next((b, s) for b, s in zip(self.blocks, each, strict=True) if key in b.keys)
            g = np.bincount(block.cells[:, block.keys.index(key)], sums, self.table.levels[key])
            variance -= times * float(g**2 @ self._inverse(key))
        return variance

    def _all(self) -> Dense | Listed:
        if self.whole is None:
            raise NotApplicable(
                f"with these interactions and missing keys there are more than {self.limit:,} cells to add up. Use fewer keys, "
                "coarser ones, interactions='main', or missing='ignored'."
            )
        return self.whole

    def _incomplete(self) -> Iterator[tuple[Whole, tuple[int, ...], Codes]]:
        """Yield for each set of known keys: the classes that lack the others, the keys, the classes' codes of them."""
        rows = np.flatnonzero(~self.table.complete)
        known = self.table.codes[rows] >= 0
        for pattern in np.unique(known, axis=0):
            mine, keys = rows[(known == pattern).all(axis=1)], tuple(np.flatnonzero(pattern).tolist())
            yield mine, keys, self.table.codes[np.ix_(mine, keys)]


def _repeats(fitted: Numbers, table: ClassTable) -> bool:
    counts = table.sizes[table.complete]
    return bool((np.abs(fitted - counts) <= 1e-6 * counts).all())


def associated(table: ClassTable) -> list[tuple[int, int]]:
    """Return the pairs of keys that go together, the strongest first: G² of independence above its degrees of freedom."""
    full = table.codes[table.complete].astype(np.int64)
    sizes, n = table.sizes[table.complete].astype(np.float64), table.counted
    excess: dict[tuple[int, int], float] = {}
    for i, j in combinations(range(len(table.levels)), 2):
        shape = table.levels[i], table.levels[j]
        place = full[:, i] * shape[1] + full[:, j]
        joint = np.bincount(place, sizes, shape[0] * shape[1]).reshape(shape)
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / n
        some = joint > 0
        g2 = 2 * float((joint[some] * np.log(joint[some] / apart[some])).sum())
        excess[i, j] = g2 - (shape[0] - 1) * (shape[1] - 1)
    return sorted((pair for pair in excess if excess[pair] > 0), key=lambda pair: -excess[pair])


def with_main_effects(margins: Sequence[tuple[int, ...]], keys: int) -> list[tuple[int, ...]]:
    """Return interactions with the main effects of the keys that are in none.

    >>> with_main_effects([(0, 2)], 4)
    [(0, 2), (1,), (3,)]
    """
    return [*margins, *((j,) for j in range(keys) if not any(j in margin for margin in margins))]
