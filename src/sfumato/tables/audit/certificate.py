"""Why a value follows from a published table: the few cells, and their signs, that it can be worked out from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.audit.knowledge import Knowledge

Numbers = NDArray[np.float64]
Sign = Literal["=", "≤", "≥"]
_WORDS = 12


@dataclass(frozen=True)
class Certificate:
    """A bound on a cell, as a combination of what is known: value sign Σ coefficient × cell (+ what leaves cannot be below).

    Anybody can check it: the cells' leaves, times their coefficients, add up to those of the cell, except for `leaves`, which
    have a sign that only helps (nothing in them is below their lower bound, or above their upper one).
    """

    cell: int
    sign: Sign
    coefficients: Mapping[int, Fraction]
    """For each cell that is used, how often it is added; negative where it is subtracted."""
    leaves: Mapping[int, Fraction]
    """For each leaf of which only a bound is used, how often it is; empty for an equation."""
    bound: float
    """The value that follows."""
    words: str
    """The same for people, without values: "region N, sector a = region N − region N, sector b"."""

    def follows(self, known: Knowledge) -> float:
        """Return the bound that the combination gives, recomputed from what is known; infinite where it proves nothing."""
        upper = self.sign != "≥"
        total = Fraction(0)
        row = known.cells.incidence[[self.cell]]
        left = {int(leaf): Fraction(1) for leaf in row.indices}
        for cell, times in self.coefficients.items():
            use = known.high[cell] if (times > 0) == upper else known.low[cell]
            if self.sign == "=" and known.high[cell] != known.low[cell]:
                return math.inf
            if not math.isfinite(use):
                return math.inf if upper else -math.inf
            total += times * Fraction(float(use))
            for leaf in known.cells.incidence[[cell]].indices:
                left[int(leaf)] = left.get(int(leaf), Fraction(0)) - times
        for at, rest in left.items():
            if rest == 0:
                continue
            use = known.leaf_high[at] if (rest > 0) == upper else known.leaf_low[at]
            if self.sign == "=" or not math.isfinite(use):
                return math.inf if upper else -math.inf
            total += rest * Fraction(float(use))
        return float(total)


def equation(known: Knowledge, cell: int) -> Certificate | None:
    """Return the shortest equation that gives the cell from shown cells; None if there is none.

    The shortest is that with the smallest sum of absolute coefficients: a linear program.
    """
    from scipy import sparse

    rows, columns = known.nearby(cell)
    if not len(columns):
        return None
    matrix = sparse.csc_array(known.cells.incidence[columns][:, rows].T)
    target = np.asarray(known.cells.incidence[[cell]].toarray()).ravel()[rows]
    found = _shortest(sparse.hstack([matrix, -matrix], format="csc"), target, np.ones(2 * len(columns)))
    if found is None:
        return None
    signed = found[: len(columns)] - found[len(columns) :]
    return _checked(known, cell, "=", dict(zip(columns.tolist(), signed.tolist(), strict=True)))


def bound(known: Knowledge, cell: int, sign: Literal["≤", "≥"], value: float) -> Certificate | None:
    """Return a short proof that the cell is at most (or at least) `value`; None if none was found.

    Linear programming duality: the smallest upper bound that combinations of what is known give is the largest value that an
    attacker finds.
    """
    from scipy import sparse

    upper = sign == "≤"
    incidence = sparse.csc_array(known.cells.incidence.T)
    over, under = (known.high, known.low) if upper else (-known.low, -known.high)
    leaf_over, leaf_under = (known.leaf_high, known.leaf_low) if upper else (-known.leaf_low, -known.leaf_high)
    parts, costs, prices, at = [], [], [], []
    identity = sparse.eye_array(known.cells.leaves, format="csc")
    for matrix, limit, direction, price in (
        (incidence, over, 1.0, 1.0), (incidence, under, -1.0, 1.0),
        (identity, leaf_over, 1.0, 1e-3), (identity, leaf_under, -1.0, 1e-3),
    ):  # fmt: skip
        usable = np.flatnonzero(np.isfinite(limit))
        parts.append(direction * matrix[:, usable])
        costs.append(direction * limit[usable])
        prices.append(np.full(len(usable), price))
        at.append(usable)
    target = np.asarray(known.cells.incidence[[cell]].toarray()).ravel()
    wanted = value if upper else -value
    scale = max(1.0, abs(wanted))
    found = _shortest(
        sparse.hstack(parts, format="csc"), target, np.concatenate(prices), np.concatenate(costs) / scale,
        wanted / scale + 1e-7,
    )  # fmt: skip
    if found is None:
        return None
    plus, minus = found[: len(at[0])], found[len(at[0]) : len(at[0]) + len(at[1])]
    signed: dict[int, float] = {}
    for cells, amounts in ((at[0], plus), (at[1], -minus)):
        for i in np.flatnonzero(amounts):
            signed[int(cells[i])] = signed.get(int(cells[i]), 0.0) + float(amounts[i])
    return _checked(known, cell, sign, signed)


def _shortest(
    matrix: Any, target: Numbers, prices: Numbers, costs: Numbers | None = None, most: float = 0.0
) -> Numbers | None:
    """Return the cheapest non-negative solution of matrix @ y = target, with costs @ y at most `most` if given."""
    from scipy.optimize import linprog

    limit: dict[str, Any] = {} if costs is None else {"A_ub": costs[None, :], "b_ub": [most]}
    found = linprog(prices, A_eq=matrix, b_eq=target, bounds=(0, None), method="highs", **limit)
    return np.asarray(found.x, np.float64) if found.status == 0 else None


def _checked(known: Knowledge, cell: int, sign: Sign, signed: Mapping[int, float]) -> Certificate | None:
    """Return the certificate with its coefficients as fractions, if arithmetic confirms it."""
    coefficients = {
        i: found for i, v in signed.items() if (found := Fraction(v).limit_denominator(720)) and abs(v) > 1e-9
    }
    coefficients = dict(sorted(coefficients.items(), key=lambda item: (item[1] < 0, item[0])))
    left: dict[int, Fraction] = {int(leaf): Fraction(1) for leaf in known.cells.incidence[[cell]].indices}
    for other, times in coefficients.items():
        for leaf in known.cells.incidence[[other]].indices:
            left[int(leaf)] = left.get(int(leaf), Fraction(0)) - times
    leaves = {leaf: times for leaf, times in left.items() if times}
    made = Certificate(cell, sign, coefficients, leaves, math.nan, "")
    value = made.follows(known)
    if not math.isfinite(value):
        return None
    return Certificate(cell, sign, coefficients, leaves, value, _words(known, cell, sign, coefficients, leaves))


def _words(
    known: Knowledge, cell: int, sign: Sign, coefficients: Mapping[int, Fraction], leaves: Mapping[int, Fraction]
) -> str:
    parts = []
    for i, (other, times) in enumerate(coefficients.items()):
        if i == _WORDS:
            parts.append(f" and {len(coefficients) - _WORDS:,} more cells")
            break
        size = "" if abs(times) == 1 else f"{abs(times)} × "
        name = f"[{known.cells.name(other)}]"
        parts.append(f" − {size}{name}" if times < 0 else f" + {size}{name}" if i else f"{size}{name}")
    said = "".join(parts).strip() or "0"
    why = ", because of what is known of each figure beforehand" if leaves else ""
    if leaves and all(not b for b in known.leaf_low[list(leaves)]) and _one_way(sign, leaves):
        why = ", because no figure is below 0"
    return f"[{known.cells.name(cell)}] {sign} {said}{why}"


def _one_way(sign: Sign, leaves: Mapping[int, Fraction]) -> bool:
    """Whether only lower bounds of leaves are used."""
    return all((times < 0) == (sign == "≤") for times in leaves.values())
