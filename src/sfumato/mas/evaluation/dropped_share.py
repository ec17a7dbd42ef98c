"""A share of the records dropped: each record on its own, with the same probability.

What is dropped from the cells is then binomial and independent, and the probability of a clean difference is a product over
cells: Π_{i≠s} Σ_x b(x; n_i, p)² · Σ_x b(x; n_s, p) b(x; n_s − 1, p), with b the binomial probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.kernels.log_choose import log_choose
from sfumato.mas.evaluation.cell_table import CellTable, Numbers
from sfumato.mas.evaluation.checks import probability
from sfumato.mas.evaluation.clean_tables import CleanTables


def share_clean_tables(table: Any, share: float) -> CleanTables:
    """Return how often a difference is clean, right and wrong, if every record is dropped with probability `share`.

    One record, target and all: right if it is not dropped.

    >>> share_clean_tables([1], 0.25).right.tolist()
    [0.75]
    """
    cells = CellTable.of(table)
    cells.need_counts()
    share = probability("the share of records to drop", share)
    values, counts, _ = cells.distinct
    sums = np.array([_sums(int(v), share) for v in values])
    same, own, gained, lost = sums.T
    with np.errstate(divide="ignore"):
        logs = np.log(same)
    others = np.exp(math.fsum(counts * logs) - logs)
    gains = gained / same
    right = others * own
    wrong = others * lost * (float(counts @ gains) - gains)
    return CleanTables(cells.spread(right), cells.spread(np.maximum(wrong, 0.0)), cells.proportions)


def _sums(n: int, p: float) -> tuple[float, float, float, float]:
    """Return, for x from n and y from n or n − 1 records: P(x = y), the same in the sensitive cell, P(y = x + 1), P(x = y' + 1).

    The last is for the sensitive cell, which has one record fewer for y'.
    """
    reach = 40 + 12 * math.sqrt(n * p * (1 - p))
    x = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1, dtype=np.float64)
    b, fewer, shifted = _binomial(x, n, p), _binomial(x, n - 1, p), _binomial(x - 1, n - 1, p)
    return float(b @ b), float(b @ fewer), float(b[:-1] @ b[1:]), float(b @ shifted)


def _binomial(x: Numbers, n: int, p: float) -> Numbers:
    from scipy.special import xlog1py, xlogy

    inside = (x >= 0) & (x <= n)
    k = np.where(inside, x, 0.0)
    return np.where(inside, np.exp(log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p)), 0.0)
