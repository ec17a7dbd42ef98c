"""Multiples of a rounding base: what lies below a value, and what a rounded value says about the true one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Guarantee
from sfumato.errors import ParameterError
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
_SAME = (
    1e-9  # of the base: closer than this, and a few units of the last binary digit, a value is taken to be a multiple
)


def check_base(base: float, table: Table, name: str) -> None:
    """Refuse a base that changes nothing, that gives fractions where only whole numbers make sense, or is too small to count."""
    largest = max(np.abs(table.value).max(initial=0.0), np.abs(table.totals).max(initial=0.0))
    if not largest / base < 2.0**50:
        raise ParameterError(
            f"base of {name} is too small for the values of the table: {base:g} is less than their last digit. Choose a "
            "larger one."
        )
    if table.integer and (base != round(base) or base < 2):
        raise ParameterError(
            f"base of {name} must be a whole number of at least 2 for a table of whole numbers; got {base:g}."
        )


def split(values: Numbers, base: float) -> tuple[Numbers, Numbers]:
    """Return how many times the base goes into each value, and what is left over: 0 ≤ rest < base.

    >>> [x.tolist() for x in split(np.array([7.0, 10.0, -1.0]), 5)]
    [[1.0, 2.0, -1.0], [2.0, 0.0, 4.0]]
    """
    ratio = values / base
    near = np.rint(ratio)
    multiple = np.abs(ratio - near) <= _SAME + 1e-15 * np.abs(ratio)
    times = np.where(multiple, near, np.floor(ratio))
    return times, np.where(multiple, 0.0, values - base * times)


def reach(base: float, integer: bool) -> float:
    """Return how far a value may be from a multiple that is less than one base away.

    Less than 5 away is at most 4 for whole numbers; for others there is no largest such number, and 5 is the limit.
    """
    return base - 1 if integer else base


def rounded(
    table: Table, times: Numbers, base: float, far: Numbers | float, by: Protection, *said: Guarantee
) -> PublishedTable:
    """Return the table with `times` × base in every cell, of which a reader knows that the true value is at most `far` away.

    Every cell counts as changed, those that happened to be multiples too: a reader does not know which they are.
    """
    digits = next((d for d in range(10) if abs(base * 10**d - round(base * 10**d)) <= _SAME * base * 10**d), None)
    values = times * base if digits is None else np.round(times * base, digits)
    values = values + 0.0  # no negative zeros
    low, high = values - far, values + far
    if table.nonnegative:
        low = np.maximum(low, 0.0)
    return PublishedTable.shown(table, by).with_(
        values=values, status=np.full(len(table), Status.CHANGED, np.int8), low=low, high=high, decimals=digits,
        guarantees=said,
    )  # fmt: skip
