"""The study of drop q: draws acted out, guesses at the lifted cell, and the custodian's report (MAS paper, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.contract import Draws, wilson
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.urn_draws import guess_scores, largest_chances, work
from sfumato.lazy import pd
from sfumato.mas.drop_q import CellTable, Drop, DropQ, at_least_one, least_success_probability, smallest_q, whole_q
from sfumato.typing import Flags, Numbers, Whole


def text_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the head and one line for each row.

    >>> text_table({"q": ["q = 2"], "chance": ["0.5"]})
    ['q      chance', 'q = 2     0.5']
    """
    widths = [max(map(len, [name, *cells])) for name, cells in columns.items()]
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return [
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


# Drop q acted out: records are drawn and dropped, tables subtracted, and the intruder's conclusions counted.
#
# It shares no formula with the probabilities that it checks.


_BLOCK = 2_000_000
"""Cells of difference tables held at a time."""


@dataclass(frozen=True)
class Frequency:
    """A relative frequency in a simulation, with Wilson's 95 % interval."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.interval[0]:.4g} to {self.interval[1]:.4g})"


@dataclass(frozen=True)
class DropSimulation:
    """An intruder's conclusions from the difference tables, over many replications."""

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
) -> DropSimulation:
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
    return DropSimulation(replications=replications, pairs=pairs, alone=alone, **found)


def _one_block(
    cells: CellTable, drop: Drop, pairs: int, place: int | None, size: int, generator: np.random.Generator
) -> dict[str, Flags]:
    proportions = cells.proportions[cells.occupied]
    rows = np.arange(size)
    if place is None:
        target = generator.choice(proportions.size, size=size, p=proportions / proportions.sum())
    else:
        target = np.full(size, place)
    hits: dict[str, Flags] = {}
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
    difference: Whole,
    target: Whole,
    pairs: int,
    generator: np.random.Generator,
    names: tuple[str, str],
) -> dict[str, Flags]:
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


# Naming the cell with the largest difference: right far more often than the difference table is clean (ERRATA 1.8b, 1.8c).


_MOST_WORK = 2e7
"""Complex multiplications, about two seconds."""


@dataclass(frozen=True, eq=False)
class LargestCell:
    """The probability that the largest cell of the difference table is the target's, ties broken at random."""

    right: Numbers
    """For each cell that may be the target's, of the shape of the table; NaN where a cell is empty."""
    proportions: Numbers

    @property
    def mean(self) -> float:
        """Return it for a target drawn from all records."""
        return float(np.nansum(self.right * self.proportions))

    @property
    def worst(self) -> float:
        """Return it for the cell at which it is largest."""
        return float(np.nanmax(self.right))


def is_feasible(table: Any, q: int, pairs: int = 1) -> bool:
    """Whether `largest_cell` takes no more than a few seconds; if not, simulate."""
    cells = CellTable.of(table)
    _, counts, _ = cells.distinct
    drawn = whole_q(q, cells) * pairs
    return drawn <= 2000 and work(counts.size, int(counts.sum()), drawn, pairs) <= _MOST_WORK


def largest_cell(table: Any, q: int, pairs: int = 1) -> LargestCell:
    """Return how often the largest cell of the difference of two tables, or of the mean of several differences, is right.

    Exact for counts and one pair of tables. For proportions, and for the mean over `pairs` similar pairs with drops of their
    own, in the multinomial approximation, in which r drops of q records are together one drop of rq.

    >>> counts = [[123, 111, 145, 152], [116, 133, 101, 119]]
    >>> round(largest_cell(counts, 2).mean, 2), round(largest_cell(counts, 2, pairs=10).mean, 2)
    (0.44, 0.99)
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells, keep=1)
    pairs = at_least_one("pairs", pairs)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        return LargestCell(cells.spread(np.ones(values.size)), cells.proportions)
    if not is_feasible(cells, q, pairs):
        raise NotApplicable(
            "this table and q are too large for the exact probability. Use simulate_drops, which gives an interval."
        )
    if pairs == 1 and cells.records is not None:
        right = largest_chances(values, counts, q, 1, finite=True)
    else:
        right = largest_chances(values / cells.total, counts, q * pairs, pairs, finite=False)
    return LargestCell(cells.spread(right), cells.proportions)


PRINTED = (2, 3, 4, 6, 8, 10, 15, 20)
"""The q of Tables 4.3.6 and 4.3.7."""
_MOST_DRAWN = 5e7
"""Numbers drawn by one simulation, at most, but for a thousand replications; some ten seconds."""


@dataclass(frozen=True)
class DropRow:
    """One variant of drop q on one table; probabilities are for a target drawn from all records, where nothing else is said."""

    drop: Drop
    label: str
    expected: float
    """Records that U(n) loses on average."""
    approximate: float
    """(4.3.4), as the paper computes it; NaN where it does not apply."""
    least: float
    """(4.3.5): no table of as many cells has a smaller (4.3.4); NaN where q is not fixed."""
    right: float
    """The difference table is clean, and right: exact for counts."""
    worst: float
    """The same for the sensitive cell at which it is largest."""
    wrong: float
    """The difference table is clean, and wrong."""
    alone: dict[str, float]
    """The table of this variable alone is clean and right."""
    largest: Frequency
    """The largest cell of the difference table is the target's; an interval of length 0 where it is exact."""
    simulation: DropSimulation | None
    """The simulation of the informed guess, and of the mean of several pairs."""


@dataclass(frozen=True)
class DropEvaluation:
    """Drop q on one table: success of differencing against q. Print it, or take its `frame`."""

    table: CellTable
    rows: tuple[DropRow, ...]
    baseline: float
    """Probability that naming the most common cell is right, without any table."""
    below: float
    enough: int | None
    """The smallest q with (4.3.4) below `below`; None where no q suffices."""
    pairs: int

    def frame(self) -> pd.DataFrame:
        """Return one row for each variant, with intervals where a number was simulated."""
        out = []
        for row in self.rows:
            line: dict[str, Any] = {"drop": row.label, "expected": row.expected, "approximate": row.approximate}
            line |= {"least": row.least, "right": row.right, "worst": row.worst, "wrong": row.wrong}
            line |= {f"alone: {name}": p for name, p in row.alone.items()}
            line |= _with_interval("largest", row.largest)
            if row.simulation is not None:
                line |= _with_interval("informed", row.simulation.informed)
                line |= _with_interval("averaged", row.simulation.averaged)
                line |= _with_interval("averaged_informed", row.simulation.averaged_informed)
            out.append({**line, "baseline": self.baseline})
        return pd.DataFrame(out)

    def __str__(self) -> str:
        simulated = any(row.simulation is not None for row in self.rows)
        clean = {
            "dropped": [r.label for r in self.rows],
            "(4.3.4)": [_short(r.approximate) for r in self.rows],
            "exact": [_short(r.right) for r in self.rows],
            "worst cell": [_short(r.worst) for r in self.rows],
            "equal cells": [_short(r.least) for r in self.rows],
            "but wrong": [_short(r.wrong) for r in self.rows],
        }
        if self.table.records is None:
            del clean["exact"], clean["worst cell"]
        clean |= {f"{name} alone": [_short(r.alone[name]) for r in self.rows] for name in self.rows[0].alone}
        named = {"dropped": clean["dropped"], "largest cell": [_frequency(r.largest) for r in self.rows]}
        if simulated:
            told = [r.simulation for r in self.rows if r.simulation is not None]
            named |= {"informed": [_frequency(s.informed) for s in told]}
            if self.pairs > 1:
                named |= {
                    f"{self.pairs} pairs": [_frequency(s.averaged) for s in told],
                    f"{self.pairs} pairs, informed": [_frequency(s.averaged_informed) for s in told],
                }
        enough = (
            f"is {self.enough:,}"
            if self.enough is not None
            else "does not exist: this table stays open to differencing"
        )
        lines = [
            f"Drop q against the difference of two universes that differ by one record. Table: {self.table}.",
            "",
            "Probability that the difference table is clean: a single 1, in the target's cell (or in another: but wrong)",
            *text_table(clean),
            "",
            f"Probability that the cell which an intruder names is the target's; without any table: {_short(self.baseline)}",
            *text_table(named),
            "",
            f"The smallest q with (4.3.4) below {self.below:g} {enough}.",
            "A clean table is the least that an intruder gains: judge by the second table, against what needs no table at all.",
        ]
        return "\n".join(lines)


def evaluate_drops(
    table: Any,
    drops: Drop | int | Iterable[Drop | int] | None = None,
    *,
    pairs: int = 10,
    below: float = 0.01,
    replications: int = 20_000,
    draws: Draws | None = None,
) -> DropEvaluation:
    """Evaluate drop q on a table of counts: an array with one axis for each variable, or a pandas crosstab.

    `drops` are values of q, or variants (`DropQ`, `DropRange`, `DropShare`, `DropEnough`); as printed in the paper if not given.
    `pairs` similar pairs of universes are averaged by the intruder; `below` is the threshold for the smallest q. With
    `replications=0` nothing is simulated; large tables are simulated less often, but at least a thousand times.

    >>> report = evaluate_drops([[123, 111, 145, 152], [116, 133, 101, 119]], 2, replications=0)
    >>> round(report.rows[0].approximate, 8), round(report.rows[0].largest.value, 3), report.enough
    (0.0301466, 0.442, 4)
    """
    cells = CellTable.of(table)
    pairs = at_least_one("pairs", pairs)
    replications = at_least_one("replications", replications) if replications != 0 else 0
    given = _drops(cells, drops)
    try:
        enough: int | None = smallest_q(cells, below)
    except DataError:
        enough = None
    seeds = draws or Draws("drop q")
    most = max(1000, int(_MOST_DRAWN / (2 * pairs * int(cells.occupied.sum()))))
    times = min(replications, most)
    rows = tuple(_row(cells, drop, pairs, times, seeds.child(i)) for i, drop in enumerate(given))
    return DropEvaluation(cells, rows, float(cells.proportions.max()), below, enough, pairs)


def _drops(cells: CellTable, drops: Drop | int | Iterable[Drop | int] | None) -> list[Drop]:
    if drops is None:
        drops = [q for q in PRINTED if cells.records is None or q < cells.records]
    several = drops if isinstance(drops, Iterable) else [drops]
    given: list[Drop] = [d if isinstance(d, Drop) else DropQ(q=whole_q(d)) for d in several]
    if not given:
        raise ParameterError("there is nothing to evaluate: give at least one q, smaller than the number of records.")
    return given


def _row(cells: CellTable, drop: Drop, pairs: int, replications: int, draws: Draws) -> DropRow:
    chosen = drop.for_table(cells)
    clean = chosen.clean(cells)
    q = chosen.q if isinstance(chosen, DropQ) else None
    simulation = (
        simulate_drops(cells, chosen, pairs=pairs, replications=replications, draws=draws) if replications else None
    )
    if q is not None and is_feasible(cells, q):
        exact = largest_cell(cells, q).mean
        largest = Frequency(exact, (exact, exact))
    elif simulation is not None:
        largest = simulation.largest
    else:
        largest = Frequency(math.nan, (math.nan, math.nan))
    several = cells.values.ndim > 1
    return DropRow(
        drop=drop,
        label=chosen.label() if chosen is drop else f"{drop.label()}: {chosen.label()}",
        expected=chosen.expected(cells),
        approximate=chosen.approximate(cells),
        least=math.nan if q is None else least_success_probability(cells.values.size, q),
        right=clean.mean_right,
        worst=clean.worst_right,
        wrong=clean.mean_wrong,
        alone={v: chosen.clean(cells.alone(i)).mean_right for i, v in enumerate(cells.variables) if several},
        largest=largest,
        simulation=simulation,
    )


def _with_interval(name: str, found: Frequency) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.interval[0], f"{name}_high": found.interval[1]}


def _short(p: float) -> str:
    if math.isnan(p):
        return "–"
    return f"{p:.3g}" if 0 < p < 0.001 else f"{p:.4f}"


def _frequency(found: Frequency) -> str:
    low, high = found.interval
    return _short(found.value) if not low < high else f"{found.value:.3f} ({low:.3f}–{high:.3f})"
