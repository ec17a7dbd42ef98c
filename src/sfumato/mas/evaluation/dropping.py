"""Records drawn at random and dropped, counted by cell: many times over, for simulation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.mas.evaluation.cell_table import CellTable, Counts
from sfumato.mas.evaluation.checks import whole_q

Places = NDArray[np.int64]
"""Which occupied cell, per replication."""
_FEW_CELLS = 64
_LARGEST = 10**9
"""NumPy's hypergeometric numbers are for urns smaller than this."""


def drop_each(
    cells: CellTable, share: float, size: int, generator: np.random.Generator, without: Places | None
) -> Counts:
    """Return how many records each occupied cell loses if each is dropped with probability `share`, `size` times."""
    counts = np.broadcast_to(cells.counts[cells.occupied], (size, int(cells.occupied.sum()))).copy()
    if without is not None:
        counts[np.arange(size), without] -= 1
    return generator.binomial(counts, share)


def drop_numbers(cells: CellTable, q: Counts, generator: np.random.Generator, without: Places | None) -> Counts:
    """Return how many records each occupied cell loses of q in all, shape (len(q), occupied cells)."""
    most = whole_q(int(q.max()), cells, keep=int(without is not None))
    if cells.records is None:
        proportions = cells.proportions[cells.occupied]
        return generator.multinomial(q, proportions / proportions.sum())
    counts = cells.counts[cells.occupied]
    seldom_twice = most**2 <= cells.records
    if seldom_twice and (counts.size > _FEW_CELLS or cells.records >= _LARGEST):
        return _by_record(counts, q, generator, without)
    if cells.records >= _LARGEST:
        raise ParameterError("a table of a thousand million records or more can be simulated only for a smaller q.")
    return _by_cell(counts, q, generator, without)


def _by_cell(counts: Counts, q: Counts, generator: np.random.Generator, without: Places | None) -> Counts:
    """Draw from one cell after the other: hypergeometric, given what is left to draw and what is left to draw from."""
    out = np.zeros((q.size, counts.size), dtype=np.int64)
    to_draw = q.copy()
    rest = np.full(q.size, int(counts.sum())) - (0 if without is None else 1)
    for i, count in enumerate(counts):
        here = np.full(q.size, count) - (0 if without is None else (without == i))
        rest = rest - here
        out[:, i] = generator.hypergeometric(here, rest, to_draw)
        to_draw -= out[:, i]
    return out


def _by_record(counts: Counts, q: Counts, generator: np.random.Generator, without: Places | None) -> Counts:
    """Draw record numbers, again where one came twice: for few records out of many cells."""
    ends = np.cumsum(counts)
    n = int(ends[-1]) - (without is not None)
    most = int(q.max())
    records = np.sort(_distinct(n, q.size, most, generator), axis=1)
    if without is not None:  # the last record of that cell is the one that is not there
        records += records >= (ends[without] - 1)[:, None]
    used = generator.permuted(np.broadcast_to(np.arange(most), records.shape), axis=1) < q[:, None]
    places = np.arange(q.size)[:, None] * counts.size + np.searchsorted(ends, records, side="right")
    return np.bincount(places[used], minlength=q.size * counts.size).reshape(q.size, counts.size)


def _distinct(n: int, size: int, most: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return `size` rows of `most` different whole numbers below n."""
    out = generator.integers(0, n, size=(size, most))
    again = np.arange(size)
    while again.size:
        rows = np.sort(out[again], axis=1)
        again = again[(rows[:, 1:] == rows[:, :-1]).any(axis=1)]
        out[again] = generator.integers(0, n, size=(again.size, most))
    return out
