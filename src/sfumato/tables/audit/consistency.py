"""Published tables that cannot be true: which cells contradict each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import listing
from sfumato.tables.audit.knowledge import Knowledge

Whole = NDArray[np.int64]


def contradictions(known: Knowledge) -> Whole:
    """Return cells that cannot all be right; none if leaves fit everything that is published.

    A linear program seeks the least changes of cells, summed over absolute values, after which the table is possible. Those that
    limit it, by its dual solution, contradict each other (Farkas' lemma).
    """
    from scipy import sparse
    from scipy.optimize import linprog

    count, leaves = known.cells.incidence.shape
    finite = np.concatenate([b[np.isfinite(b)] for b in (known.low, known.high)])
    scale = max(1.0, float(np.abs(finite).max(initial=0.0))) / 1e3
    identity = sparse.eye_array(count, format="csr")
    upper, lower = np.flatnonzero(np.isfinite(known.high)), np.flatnonzero(np.isfinite(known.low))
    rows = sparse.hstack([known.cells.incidence, identity, -identity], format="csr")
    found = linprog(
        np.concatenate([np.zeros(leaves), np.ones(2 * count)]),
        A_ub=sparse.vstack([rows[upper], -rows[lower]], format="csr"),
        b_ub=np.concatenate([known.high[upper], -known.low[lower]]) / scale,
        bounds=[*zip(known.leaf_low / scale, known.leaf_high / scale, strict=True), *[(0, None)] * (2 * count)],
        method="highs",
    )
    if found.status != 0 or not found.fun or found.fun <= 1e-7:
        return np.zeros(0, np.int64)
    limiting = np.abs(found.ineqlin.marginals) > 1e-7
    return np.unique(np.concatenate([upper, lower])[limiting])


def told(known: Knowledge) -> str:
    """Return in words which cells contradict each other."""
    cells = contradictions(known)
    names = listing((f"[{known.cells.name(int(c))}]" for c in cells), 6)
    where = f" These cannot all be right: {names}." if len(cells) else ""
    return (
        f"no figures can give this table: what is published does not add up.{where} Look for figures that were rounded one by "
        "one (say within how much of the true one they are), hierarchies that do not fit, and rows that were left out because "
        "they were suppressed (say that absent rows are suppressed)."
    )
