"""From adjusted leaves to the digits that are published: whole units that add up exactly, and are not below zero.

Why none of this lowers the protection. Let y be the adjusted leaves and x = f(y) what is made of them by rounding, raising to
zero, or moving units between leaves; f sees y, the variances and what is public, never the true values. For any contribution
d, by the law of total variance,

    Var(d | x) = E[Var(d | y) | x] + Var(E[d | y] | x)  ≥  min over y of Var(d | y),

and for normal priors Var(d | y) is the same for every y: it is what the audit bounds. So the audit of y holds for x, whatever
is published of it, for every value that may come out. (Noise that is drawn again until y is not below zero is no function of
y: its law depends on the true value, and it is biased.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_MOST_DECIMALS = 6


def published_decimals(table: Table, asked: int | None = None) -> int:
    """Return the digits after the point to publish: as asked, as the table says, or as many as its leaves have.

    Leaves without end get 6, or four significant digits where they are small. Whole numbers stay whole.
    """
    if asked is not None:
        if table.integer and asked > 0:
            raise ParameterError(
                f"'{table.variable or 'records'}' is a whole number: leave decimals out, or give 0 or less to round to tens."
            )
        return asked
    if table.integer:
        return min(table.decimals or 0, 0)
    if table.decimals is not None:
        return table.decimals
    for decimals in range(_MOST_DECIMALS):
        scaled = table.totals * 10.0**decimals
        if (np.abs(scaled - np.rint(scaled)) <= np.minimum(1e-6, 1e-6 * np.abs(scaled)) + 1e-12 * np.abs(scaled)).all():
            return decimals
    sizes = np.abs(table.totals[table.totals != 0])
    needed = 3 - math.floor(math.log10(float(np.median(sizes)))) if len(sizes) else 0
    return min(max(_MOST_DECIMALS, needed), 15)


def round_up(variance: Numbers, digits: int = 4) -> Numbers:
    """Return variances with so many significant digits, rounded up: a smaller one would break the promise (ERRATA 3.2).

    >>> round_up(np.array([77.0833333, 0.0, 77.1]), 4).tolist()
    [77.09, 0.0, 77.1]
    """
    places = digits - 1 - np.floor(np.log10(np.where(variance > 0, variance, 1.0)))
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)  # powers of ten that are whole
    scaled = variance * up / down
    near = np.rint(scaled)
    exact = np.abs(near - scaled) <= 1e-12 * scaled  # it has so few digits already, but for the last bits
    return np.asarray(np.where(exact, near * down / up, np.maximum(np.ceil(scaled) * down / up, variance)), np.float64)


def unit(decimals: int) -> float:
    """Return what one in the last digit stands for: 0.01 for two decimals, 1000 for minus three."""
    return float(f"1e{-decimals}")


def rounded(leaves: Numbers, decimals: int) -> Whole:
    """Return each leaf to the nearest whole number of units; refused where the sum would not be exact."""
    scaled = leaves * 10.0**decimals if decimals >= 0 else leaves / 10.0**-decimals
    if not np.abs(scaled).sum() < 2.0**52:
        raise ParameterError(
            f"values with {decimals} digits after the point are too long to add up exactly. Publish fewer decimals."
        )
    return np.rint(scaled).astype(np.int64)


def rounded_to(leaves: Numbers, decimals: int, group: Whole, sums: Whole, nonnegative: bool = False) -> Whole:
    """Return leaves in whole units such that each group has the given sum, by largest remainders.

    `group` says which group each leaf belongs to, shape (leaves,); `sums` is in units, shape (groups,). With `nonnegative`
    leaves of at least 0 stay so; sums must be at least 0 then.

    >>> rounded_to(np.array([1.4, 1.3, 1.3, 5.0]), 0, np.array([0, 0, 0, 1]), np.array([4, 5])).tolist()
    [2, 1, 1, 5]
    """
    whole = rounded(leaves, decimals)
    short = sums - np.bincount(group, whole, len(sums)).astype(np.int64)
    left = leaves / unit(decimals) - whole  # in (-1/2, 1/2): who is rounded down furthest comes first
    for g in np.flatnonzero(short):
        members, way, todo = np.flatnonzero(group == g), int(np.sign(short[g])), abs(int(short[g]))
        members = members[np.argsort(-way * left[members], kind="stable")]
        while todo:
            movable = members[whole[members] > 0] if nonnegative and way < 0 else members
            if not len(movable):
                raise DataError(
                    "what was published of some cells is below 0, and their parts cannot be. Is the record damaged?"
                )
            turns = todo // len(movable)
            if nonnegative and way < 0:
                turns = min(turns, int(whole[movable].min()))
            moved = movable if turns else movable[:todo]
            whole[moved] += way * max(turns, 1)
            todo -= len(moved) * max(turns, 1)
    return whole


def values_of(sums: Whole, decimals: int) -> Numbers:
    """Return whole units as numbers: the nearest double to each decimal."""
    return np.asarray(sums / 10.0**decimals if decimals >= 0 else sums * 10.0**-decimals, np.float64)


def not_below_zero(values: Numbers, variance: Numbers) -> Numbers:
    """Return the likeliest leaves that are not below zero and have the same total, given adjusted ones; shape (leaves,).

    The nearest point, in units of the noise, with the total of the adjusted leaves: raised leaves are made up for by the
    others in proportion to their variances, so that margins do not drift upwards. Leaves without noise stay.

    >>> not_below_zero(np.array([-3.0, 10.0, 7.0]), np.array([1.0, 2.0, 0.0])).tolist()
    [0.0, 7.0, 7.0]
    """
    noisy = np.flatnonzero(variance > 0)
    y, w = values[noisy], variance[noisy]
    if not len(noisy) or (y >= 0).all():
        return values
    found = values.copy()
    total = y.sum()
    if total <= 1e-12 * np.abs(y).sum():  # what cancels leaves a last bit
        found[noisy] = 0.0
        return found
    order = np.argsort(-y / w, kind="stable")
    level = (np.cumsum(y[order]) - total) / np.cumsum(w[order])
    last = int(np.flatnonzero(level < y[order] / w[order]).max())
    found[noisy] = np.maximum(y - level[last] * w, 0.0)
    return found
