"""What drop q does for a table: the report that a custodian runs before choosing a variant and a q."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.contract.draws import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.mas.evaluation.cell_table import CellTable
from sfumato.mas.evaluation.checks import at_least_one, whole_q
from sfumato.mas.evaluation.choosing import smallest_q
from sfumato.mas.evaluation.clean_tables import least_success_probability
from sfumato.mas.evaluation.drops import Drop, DropQ
from sfumato.mas.evaluation.guessing import is_feasible, largest_cell
from sfumato.mas.evaluation.simulation import Frequency, Simulation, simulate_drops
from sfumato.mas.evaluation.text_table import text_table

if TYPE_CHECKING:
    import pandas as pd

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
    simulation: Simulation | None
    """What was simulated: the informed guess, and the mean of several pairs."""


@dataclass(frozen=True)
class DropEvaluation:
    """Drop q on one table: success of differencing against q. Print it, or take its `frame`."""

    table: CellTable
    rows: tuple[DropRow, ...]
    baseline: float
    """How often naming the most common cell is right, without any table."""
    below: float
    enough: int | None
    """The smallest q with (4.3.4) below `below`; None where no q suffices."""
    pairs: int

    def frame(self) -> pd.DataFrame:
        """Return one row for each variant, with intervals where a number was simulated."""
        import pandas as pd

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
