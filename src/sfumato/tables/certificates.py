"""Why a value follows from a published table: the cells, with signs, from which it can be worked out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from scipy import sparse

from sfumato.lazy import optimize
from sfumato.tables.cells import Cells
from sfumato.tables.knowledge import KnownBounds
from sfumato.typing import Flags, Numbers, Whole

Sign = Literal["=", "≤", "≥"]
_WORDS = 12


@dataclass(frozen=True)
class Certificate:
    """A bound on a cell, as a combination of known cells: value sign Σ coefficient × cell (+ bounds of leaves).

    Anybody can check it: the cells' leaves, times their coefficients, add up to those of the cell, except for `leaves`, whose
    signs make the bound valid (none is below its lower bound, or above its upper one).
    """

    cell: int
    sign: Sign
    coefficients: Mapping[int, Fraction]
    """The coefficient of each cell that is used; negative where it is subtracted."""
    leaves: Mapping[int, Fraction]
    """The coefficient of each leaf of which only a bound is used; empty for an equation."""
    bound: float
    """The value that follows."""
    words: str
    """The same in words, without values: "region N, sector a = region N − region N, sector b"."""

    def follows(self, known: KnownBounds) -> float:
        """Return the bound that the combination gives, recomputed from the known values; infinite where it proves nothing."""
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


def equation(known: KnownBounds, cell: int) -> Certificate | None:
    """Return the shortest equation that gives the cell from published cells; None if there is none."""
    row = sparse.csr_array(known.cells.incidence[[cell]])
    leaves, columns = known.nearby(row)
    signed = _equation(known.cells, row, leaves, columns[columns != cell])
    return None if signed is None else _checked(known, cell, "=", signed)


def _equation(cells: Cells, row: sparse.csr_array, leaves: Whole, columns: Whole) -> dict[int, float] | None:
    """Return the coefficients of cells that add up to a row of leaves; None if there are none.

    Their absolute values have the smallest possible sum: a linear program.
    """
    if not len(columns):
        return None
    matrix = sparse.csc_array(cells.incidence[columns][:, leaves].T)
    both = sparse.hstack([matrix, -matrix], format="csc")
    found = _shortest(both, row.toarray().ravel()[leaves], np.ones(2 * len(columns)))
    if found is None:
        return None
    return dict(zip(columns.tolist(), (found[: len(columns)] - found[len(columns) :]).tolist(), strict=True))


@dataclass(frozen=True)
class PublishedSum:
    """A sum of leaves that is no cell, follows from published cells, and is unsafe by a rule."""

    coefficients: Mapping[int, Fraction]
    """The coefficient of each published cell; negative where it is subtracted."""
    leaves: Mapping[int, int]
    """The weight of each leaf in the sum."""
    exact: bool
    """Whether it follows exactly, or nearly."""
    words: str
    """The combination in words, without values: "[the grand total] − [sector c]"."""

    @classmethod
    def of(cls, known: KnownBounds, row: sparse.csr_array, shown: Flags, exact: bool) -> PublishedSum:
        """Return the shortest combination of the cells that are shown."""
        leaves, columns = known.nearby(row, shown)
        signed = _equation(known.cells, row, leaves, columns) or {}
        coefficients = _fractions(signed)
        weights = dict(zip(row.indices.tolist(), row.data.astype(int).tolist(), strict=True))
        return cls(coefficients, weights, exact, _sum_in_words(known.cells, coefficients))


def bound(known: KnownBounds, cell: int, sign: Literal["≤", "≥"], value: float) -> Certificate | None:
    """Return a short proof that the cell is at most (or at least) `value`; None if none was found.

    By linear programming duality the smallest upper bound from combinations of known values is the largest value that an
    attacker finds.
    """
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
    limit: dict[str, Any] = {} if costs is None else {"A_ub": costs[None, :], "b_ub": [most]}
    found = optimize.linprog(prices, A_eq=matrix, b_eq=target, bounds=(0, None), method="highs", **limit)
    return np.asarray(found.x, np.float64) if found.status == 0 else None


def _checked(known: KnownBounds, cell: int, sign: Sign, signed: Mapping[int, float]) -> Certificate | None:
    """Return the certificate with its coefficients as fractions, if exact arithmetic confirms it."""
    coefficients = _fractions(signed)
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


def _fractions(signed: Mapping[int, float]) -> dict[int, Fraction]:
    """Return coefficients other than 0 as fractions, positive ones first."""
    exact = {i: f for i, v in signed.items() if (f := Fraction(v).limit_denominator(720)) and abs(v) > 1e-9}
    return dict(sorted(exact.items(), key=lambda item: (item[1] < 0, item[0])))


def _words(
    known: KnownBounds, cell: int, sign: Sign, coefficients: Mapping[int, Fraction], leaves: Mapping[int, Fraction]
) -> str:
    said = _sum_in_words(known.cells, coefficients) or "0"
    why = ", because of what is known of each figure beforehand" if leaves else ""
    if leaves and all(not b for b in known.leaf_low[list(leaves)]) and _one_way(sign, leaves):
        why = ", because no figure is below 0"
    return f"[{known.cells.name(cell)}] {sign} {said}{why}"


def _sum_in_words(cells: Cells, coefficients: Mapping[int, Fraction]) -> str:
    parts = []
    for i, (other, times) in enumerate(coefficients.items()):
        if i == _WORDS:
            parts.append(f" and {len(coefficients) - _WORDS:,} more cells")
            break
        size = "" if abs(times) == 1 else f"{abs(times)} × "
        name = f"[{cells.name(other)}]"
        parts.append(f" − {size}{name}" if times < 0 else f" + {size}{name}" if i else f"{size}{name}")
    return "".join(parts).strip()


def _one_way(sign: Sign, leaves: Mapping[int, Fraction]) -> bool:
    """Whether only lower bounds of leaves are used."""
    return all((times < 0) == (sign == "≤") for times in leaves.values())
