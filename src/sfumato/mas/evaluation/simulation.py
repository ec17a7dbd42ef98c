"""Drop q acted out: records are drawn and dropped, tables subtracted, and the intruder's conclusions counted.

It shares no formula with the probabilities that it checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.attack import wilson
from sfumato.contract.draws import Draws
from sfumato.errors import ParameterError
from sfumato.kernels.informed_guess import guess_scores
from sfumato.mas.evaluation.cell_table import CellTable, Counts
from sfumato.mas.evaluation.checks import at_least_one, whole_q
from sfumato.mas.evaluation.drops import Drop, DropQ

_BLOCK = 2_000_000
"""Cells of difference tables held at a time."""


@dataclass(frozen=True)
class Frequency:
    """How often something happened in a simulation, with Wilson's 95 % interval."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.interval[0]:.4g} to {self.interval[1]:.4g})"


@dataclass(frozen=True)
class Simulation:
    """What an intruder would have concluded from the difference tables, over many replications."""

    replications: int
    pairs: int
    right: Frequency
    """The table was clean, with its 1 in the target's cell."""
    wrong: Frequency
    """The table was clean, with its 1 in another cell."""
    alone: dict[str, Frequency]
    """The table of this variable alone was clean and right."""
    largest: Frequency
    """The largest cell of the difference, ties broken at random, was the target's."""
    informed: Frequency
    """The cell that an intruder finds likeliest, who knows the proportions and how many were dropped, was the target's."""
    averaged: Frequency
    """The largest cell of the mean of all pairs was the target's."""
    averaged_informed: Frequency
    """The cell found likeliest from the mean of all pairs was the target's."""


def simulate_drops(
    table: Any,
    drop: Drop | int = 2,
    *,
    pairs: int = 10,
    sensitive: tuple[int, ...] | None = None,
    replications: int = 20_000,
    draws: Draws | None = None,
) -> Simulation:
    """Drop records from U(n) and from U(n − 1) again and again, and count what the differences give away.

    The target is drawn from all records, or from the cell `sensitive`. `pairs` similar pairs of universes are subtracted, each
    with drops of its own, as if their tables were the same. A fixed seed is used if none is given.

    >>> result = simulate_drops([[30, 20], [25, 25]], 2, replications=2000)
    >>> result.right.value < result.largest.value < result.averaged.value
    True
    """
    cells = CellTable.of(table)
    drop = (DropQ(q=whole_q(drop)) if not isinstance(drop, Drop) else drop).for_table(cells)
    pairs, replications = at_least_one("pairs", pairs), at_least_one("replications", replications)
    place = None if sensitive is None else _place(cells, sensitive)
    generator = (draws or Draws("drop q")).generator("simulate drops")
    sums: dict[str, float] = {}
    block = max(1, min(replications, _BLOCK // int(cells.occupied.sum())))
    for start in range(0, replications, block):
        size = min(block, replications - start)
        for name, hits in _one_block(cells, drop, pairs, place, size, generator).items():
            sums[name] = sums.get(name, 0.0) + float(hits.sum())
    found = {name: Frequency(s / replications, wilson(s, replications)) for name, s in sums.items()}
    alone = {v: found.pop(f"alone {i}") for i, v in enumerate(cells.variables)}
    return Simulation(replications=replications, pairs=pairs, alone=alone, **found)


def _one_block(
    cells: CellTable, drop: Drop, pairs: int, place: int | None, size: int, generator: np.random.Generator
) -> dict[str, NDArray[np.bool_]]:
    proportions = cells.proportions[cells.occupied]
    rows = np.arange(size)
    if place is None:
        target = generator.choice(proportions.size, size=size, p=proportions / proportions.sum())
    else:
        target = np.full(size, place)
    hits: dict[str, NDArray[np.bool_]] = {}
    total = np.zeros((size, proportions.size), dtype=np.int64)
    for pair in range(pairs):
        difference = drop.sample(cells, size, generator, without=target) - drop.sample(cells, size, generator)
        for axis in range(len(cells.variables)) if pair == 0 else ():
            codes = np.nonzero(cells.occupied)[axis]
            away = np.stack([difference[:, codes == c].sum(axis=1) for c in np.unique(codes)])
            hits[f"alone {axis}"] = (away == 0).all(axis=0)
        difference[rows, target] += 1
        total += difference
        if pair == 0:
            clean = (np.abs(difference).sum(axis=1) == 1) & (difference.sum(axis=1) == 1)
            right = clean & (difference[rows, target] == 1)
            hits |= {"right": right, "wrong": clean & ~right}
            hits |= _guesses(cells, drop, difference, target, 1, generator, ("largest", "informed"))
    return hits | _guesses(cells, drop, total, target, pairs, generator, ("averaged", "averaged_informed"))


def _guesses(
    cells: CellTable,
    drop: Drop,
    difference: Counts,
    target: NDArray[np.int64],
    pairs: int,
    generator: np.random.Generator,
    names: tuple[str, str],
) -> dict[str, NDArray[np.bool_]]:
    """Return whether the largest cell, and whether the likeliest cell, is the target's."""
    shake = generator.random(difference.shape, dtype=np.float32)  # below 1: it breaks ties only
    largest = (difference + shake.astype(np.float64)).argmax(axis=1)
    proportions = cells.proportions[cells.occupied]
    scores = guess_scores(difference, proportions, pairs * drop.spread(cells) * proportions, pairs)
    best = scores.max(axis=1, keepdims=True)
    likeliest = np.where(scores >= best - 1e-9, shake, -1.0).argmax(axis=1)
    return {names[0]: largest == target, names[1]: likeliest == target}


def _place(cells: CellTable, sensitive: tuple[int, ...]) -> int:
    """Return which of the occupied cells is meant."""
    shape = cells.values.shape
    index = tuple(sensitive) if isinstance(sensitive, tuple | list) else (sensitive,)
    if len(index) != len(shape) or not all(0 <= i < s for i, s in zip(index, shape, strict=True)):
        raise ParameterError("the sensitive cell must be given by its place on each axis of the table, counted from 0.")
    if not cells.occupied[index]:
        raise ParameterError("the sensitive cell must hold a record; this one is empty.")
    return int(np.cumsum(cells.occupied)[np.ravel_multi_index(index, shape)]) - 1
