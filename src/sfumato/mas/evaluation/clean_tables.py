"""How often the difference of two tables comes out clean: a single 1 and zeros, as if nothing had been dropped.

U(n) loses x records and U(n − 1), which lacks one record of the sensitive cell s, loses y: both of q records at random and
independently. The difference is e_s + y − x. It is clean and right where x = y; clean but wrong, in cell t, where
y = x + e_t − e_s (Microdata Analysis System, section 4.3; ERRATA 1.8d and 1.9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels.log_choose import log_choose
from sfumato.kernels.series_products import Series, all_but_one, coefficient
from sfumato.kernels.squared_draws import log_sum_of_squares, tilted
from sfumato.mas.evaluation.cell_table import CellTable, Numbers
from sfumato.mas.evaluation.checks import at_least_one, whole_q


@dataclass(frozen=True, eq=False)
class CleanTables:
    """The probability that the difference table is clean, for each cell that may be the sensitive one.

    A target drawn from all records is in a cell with probability π, so that means weigh the cells by their proportions.
    """

    right: Numbers
    """Clean, with its 1 in the sensitive cell: of the shape of the table, NaN where a cell is empty."""
    wrong: Numbers
    """Clean, with its 1 in another cell: of the same shape."""
    proportions: Numbers

    @property
    def mean_right(self) -> float:
        """Return the probability of a clean, right table for a target drawn from all records."""
        return float(np.nansum(self.right * self.proportions))

    @property
    def worst_right(self) -> float:
        """Return the same for the sensitive cell at which it is largest."""
        return float(np.nanmax(self.right))

    @property
    def mean_wrong(self) -> float:
        """Return the probability of a clean table that names a wrong cell, for a target drawn from all records."""
        return float(np.nansum(self.wrong * self.proportions))

    @property
    def trust(self) -> float:
        """Return how often a table that came out clean is right; NaN where none ever does."""
        clean = self.mean_right + self.mean_wrong
        return self.mean_right / clean if clean > 0 else math.nan


def success_probability(table: Any, q: int, *, log: bool = False) -> float:
    """Return (4.3.4), the paper's approximate probability that the difference of two tables discloses: Σ (q!/Πx!)² Π π^(2x).

    Computed cell by cell, in O(cells × q) steps, in arithmetic that does not underflow (ERRATA 1.10); `log` asks for the
    natural logarithm, for probabilities below 1e-308.

    >>> round(success_probability([.123, .111, .145, .152, .116, .133, .101, .119], 2), 8)
    0.0301466
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        answer = 0.0
    else:
        answer = min(0.0, 2 * math.lgamma(q + 1) + log_sum_of_squares(values / cells.total, counts, q, finite=False))
    return answer if log else math.exp(answer)


def least_success_probability(cells: int, q: int, *, log: bool = False) -> float:
    """Return (4.3.5), the value of (4.3.4) where all cells are equal: no table of so many cells has a smaller one (ERRATA 1.6).

    >>> f"{least_success_probability(1000, 50):.11e}"
    '1.64553230079e-86'
    """
    cells = at_least_one("the number of cells", cells)
    q = whole_q(q)
    if q == 0 or cells == 1:
        answer = 0.0
    else:
        equal = np.array([1.0 / cells])
        answer = min(0.0, 2 * math.lgamma(q + 1) + log_sum_of_squares(equal, np.array([cells]), q, finite=False))
    return answer if log else math.exp(answer)


def same_drop_probability(table: Any, q: int, *, log: bool = False) -> float:
    """Return the exact probability that two independent drops of q records take the same from every cell.

    Two multivariate hypergeometric draws: Σ Π C(n_i, x_i)² / C(n, q)². It is also, exactly, the probability of a clean, right
    difference for a target drawn from all records, q < n: the mean of `clean_tables(table, q).right`.

    >>> round(same_drop_probability([2, 2], 1), 12)
    0.5
    """
    cells = CellTable.of(table)
    n = cells.need_counts()
    q = whole_q(q, cells)
    values, counts, _ = cells.distinct
    if q in (0, n) or int(counts.sum()) == 1:
        answer = 0.0
    else:
        answer = min(0.0, log_sum_of_squares(values, counts, q, finite=True) - 2 * float(log_choose(n, q)))
    return answer if log else math.exp(answer)


def clean_tables(table: Any, q: int) -> CleanTables:
    """Return how often the difference table comes out clean, right and wrong, for each sensitive cell.

    Exact for a table of counts (multivariate hypergeometric, from the counts and from the counts less one in the sensitive
    cell; ERRATA 1.9); for proportions, in the paper's multinomial approximation.

    >>> result = clean_tables([2, 2], 1)  # y is from (1, 2): right with 1/2 · 1/3 + 1/2 · 2/3
    >>> result.right.round(12).tolist(), result.wrong.round(12).tolist()
    ([0.5, 0.5], [0.333333333333, 0.333333333333])
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells, keep=1)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        return CleanTables(cells.spread(np.ones(values.size)), cells.spread(np.zeros(values.size)), cells.proportions)
    finite = cells.records is not None
    values = values if finite else values / cells.total
    parts = tilted(values, counts, q, finite)
    log_scale = -q * parts.log_theta + math.fsum(counts * parts.log_norms)
    if finite:
        n = int(cells.total)
        log_scale -= float(log_choose(n, q) + log_choose(n - 1, q))
    else:
        log_scale += 2 * math.lgamma(q + 1)
    marked = [_marked(s, v, finite) for s, v in zip(parts.series, values, strict=True)]
    right, wrong = np.empty(values.size), np.empty(values.size)
    for i, rest in enumerate(all_but_one(marked, counts.tolist(), q)):
        own, value = parts.series[i], values[i]
        x = own.start + np.arange(own.plain.size)
        same = own.plain * (1 - x / value) if finite else own.plain
        lost = own.plain * (x / value)
        right[i] = coefficient(Series(own.start, same), rest, q)
        wrong[i] = coefficient(Series(own.start, lost), rest.marks(), q)
    scale = math.exp(log_scale)
    return CleanTables(cells.spread(right * scale), cells.spread(wrong * scale), cells.proportions)


def _marked(series: Series, value: float, finite: bool) -> Series:
    """Return the series of a cell with, as marked part, its terms where y = x + 1.

    C(n, x) C(n, x + 1) = C(n, x)² (n − x)/(x + 1); with replacement, π^(2x + 1)/(x! (x + 1)!).
    """
    x = series.start + np.arange(series.plain.size)
    gain = ((value - x) if finite else value) / (x + 1)
    return series._replace(marked=series.plain * gain)
