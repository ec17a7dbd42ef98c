"""Expected counts of a file's classes under a log-linear model, fitted by maximum likelihood to the counts of all cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes
from sfumato.errors import NotApplicable
from sfumato.kernels.classes import classes, find_rows
from sfumato.kernels.loglinear import (
    feasible_cells,
    fitted_variance,
    gather,
    layout,
    places_of,
    proportional_fit,
    spread,
)

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
CELLS, PLACES = 10_000_000, 30_000_000
"""More cells than this are not gone through, nor more cells times margins fitted."""
CYCLES, TOLERANCE = 200, 0.01
"""Rounds of proportional fitting, and how far the margins may be off when it stops, in standard errors of a count."""


@dataclass(frozen=True, eq=False)
class Table:
    """The classes of a file as cells of a table: codes from 0 without gaps, shape (c, keys); -1 is missing, matching anything."""

    codes: Codes
    sizes: NDArray[np.int64]
    levels: tuple[int, ...]

    @cached_property
    def complete(self) -> NDArray[np.bool_]:
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


def table_of(found: Classes) -> Table:
    """Return a file's classes as cells; under "value" missing is one more level of a key."""
    columns, levels = [], []
    for codes in found.codes:
        raised = codes.astype(np.int64) + (found.rule == "value")
        known, place = np.unique(raised[raised >= 0], return_inverse=True)
        column = np.full(len(raised), -1, np.int32)
        column[raised >= 0] = place
        columns.append(column)
        levels.append(max(len(known), 1))
    made = Table(np.column_stack(columns), found.sizes, tuple(levels))
    if not made.complete.any():
        raise NotApplicable(
            "every record has a missing key, so no log-linear model can be fitted. Leave out the key that is missing."
        )
    return made


class Model(Protocol):
    """A fitted model."""

    def expected(self) -> Numbers:
        """Return the expected count of each class of the file, shape (c,); of a class with missing keys, of all that match."""

    def cells(self) -> Iterator[tuple[Numbers, Numbers]] | None:
        """Yield observed and expected counts of all cells, in parts; None where there are too many."""

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count), slopes of shape (c,)."""


class MainEffects:
    """Independent keys: the expected count is n·Π(share of the key's value)."""

    def __init__(self, table: Table) -> None:
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
        full = np.ascontiguousarray(self.table.codes[self.table.complete])
        every = feasible_cells(self.table.levels, full, [(j,) for j in range(len(self.margins))], CELLS)
        if every is None:
            return None
        observed = np.zeros(len(every))
        observed[find_cells(every, full, self.table.levels)] = self.table.sizes[self.table.complete]
        size = 1_000_000
        return ((observed[i : i + size], self._product(every[i : i + size])) for i in range(0, len(every), size))

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
    """Main effects and interactions: the expected counts have the margins of the file, by proportional fitting."""

    def __init__(self, table: Table, margins: Sequence[tuple[int, ...]]) -> None:
        self.table = table
        full = np.ascontiguousarray(table.codes[table.complete])
        limit = min(CELLS, PLACES // len(margins))
        every = feasible_cells(table.levels, full, margins, limit)
        if every is None:
            raise NotApplicable(
                f"with these interactions the keys have more than {limit:,} cells to fit. Use fewer keys, coarser ones, or "
                "interactions='main'."
            )
        self.every = every
        shape = layout(table.levels, margins)
        self.size = int(shape[2][-1])
        self.places = places_of(every, *shape)
        targets = gather(places_of(full, *shape), table.sizes[table.complete].astype(np.float64), self.size)
        self.fitted, worst = proportional_fit(self.places, targets, shape[2], TOLERANCE, CYCLES)
        if worst > 30 * TOLERANCE:
            raise NotApplicable("the log-linear model did not settle. Use fewer interactions, or coarser keys.")

    def expected(self) -> Numbers:
        """Return the expected counts of the classes, shape (c,)."""
        value = np.zeros(len(self.table.codes))
        value[self.table.complete] = self.fitted[self._places()]
        for rows, margin, at, size in self._incomplete():
            value[rows] = gather(margin, self.fitted, size)[at]
        return value * self.table.scale

    def cells(self) -> Iterator[tuple[Numbers, Numbers]] | None:
        """Yield observed and expected counts of all cells."""
        observed = np.zeros(len(self.every))
        observed[self._places()] = self.table.sizes[self.table.complete]
        return iter([(observed, self.fitted)])

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count) by the information matrix."""
        spreadout = np.zeros(len(self.every))
        spreadout[self._places()] = slopes[self.table.complete]
        for rows, margin, at, size in self._incomplete():
            sums = gather(margin, self.fitted, size)
            shares = np.zeros(len(sums))
            np.add.at(shares, at, np.divide(slopes[rows], sums[at], out=np.zeros(len(at)), where=sums[at] > 0))
            spreadout += spread(margin, shares) * self.fitted
        return fitted_variance(self.places, self.fitted, spreadout, self.size)

    def _places(self) -> NDArray[np.int64]:
        full = self.table.codes[self.table.complete]
        return find_cells(self.every, full, self.table.levels)

    def _incomplete(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], int]]:
        """Yield for each set of known keys: classes that lack the others, places of cells and classes in its margin, its size."""
        rows = np.flatnonzero(~self.table.complete)
        known = self.table.codes[rows] >= 0
        for pattern in np.unique(known, axis=0):
            mine = rows[(known == pattern).all(axis=1)]
            keys = np.flatnonzero(pattern)
            both = np.vstack([self.every[:, keys], self.table.codes[np.ix_(mine, keys)]])
            place, sizes = classes(list(both.T), len(both))
            yield mine, place[None, : len(self.every)].astype(np.int32), place[len(self.every) :], len(sizes)


def find_cells(every: Codes, asked: Codes, levels: Sequence[int]) -> NDArray[np.int64]:
    """Return the rows of `every`, cells in lexical order, that hold the cells asked for; shapes (k, keys), (c, keys) to (c,)."""
    if math.prod(levels) >= 2**62:
        return find_rows(list(every.T), list(asked.T))
    here, wanted = (np.ravel_multi_index(tuple(codes.T), tuple(levels)) for codes in (every, asked))
    return np.asarray(np.searchsorted(here, wanted), np.int64)


def associated(table: Table) -> list[tuple[int, int]]:
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
