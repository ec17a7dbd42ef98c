"""The parameters that several rules share, and what they make of a shortfall."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.tables.rule import Sensitivity
from sfumato.tables.rules.standing import Standing, standing, waived_of, worst_attack
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
_ROUNDING = 1e-13  # a shortfall below this share of the total is a rounding error


def coalition() -> Any:
    """Declare how many respondents collude."""
    return param(1, doc="how many respondents of a cell put together what they know", low=0, high=100, integer=True)


def weights() -> Any:
    """Declare what attackers know of survey weights."""
    return param(
        "known", choices=("known", "copies", "unknown"),
        doc="survey weights: 'known' to attackers, 'copies' (a weight of 3 is three such contributors), or 'unknown'",
    )  # fmt: skip


def negative() -> Any:
    """Declare what to do with negative contributions."""
    return param(
        "refuse", choices=("refuse", "absolute"), doc="negative contributions: 'refuse', or take 'absolute' values"
    )


def waived() -> Any:
    """Declare who needs no protection."""
    return param(None, doc="names of contributors who waived protection, beside those that the table knows")


def levels() -> Any:
    """Declare on which side of the value the protection must reach."""
    return param(
        "both", choices=("both", "upper", "sliding"),
        doc="protection 'both' above and below the value, above ('upper'), or of that width anywhere ('sliding')",
    )  # fmt: skip


def names_of(where: str, value: object) -> tuple[str, ...] | None:
    """Return a list of names as a tuple; refuse anything else."""
    if value is None:
        return None
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple | set) else None
    if found is None:
        raise ParameterError(f"{where} must be a list of names.")
    return tuple(map(str, found))


def attack(
    table: Table, size: int, how: str, sign: str, names: tuple[str, ...] | None
) -> tuple[Standing, Numbers, Numbers]:
    """Return the standing, the largest contribution to protect, and what a coalition of `size` others has together."""
    free = waived_of(table, names)
    everyone = standing(table, size + 1, how, sign)
    targets = everyone if free is None else standing(table, 1, how, sign, ~free)
    return everyone, *worst_attack(everyone, targets, size, free is not None)


def found(table: Table, shortfall: Numbers, total: Numbers, sides: str, reason: str) -> Sensitivity:
    """Return the cells that fall short, and as protection levels by how much.

    Below the value the level is the same, but no further than to zero where everybody knows that nothing is negative.
    """
    unsafe = shortfall > _ROUNDING * np.abs(total)
    return levelled(table, unsafe, np.where(unsafe, shortfall, 0.0), sides, reason)


def levelled(table: Table, unsafe: NDArray[np.bool_], upper: Numbers, sides: str, reason: str) -> Sensitivity:
    """Return unsafe cells with a level above the value, and one below it as the rule wants it."""
    zero = np.zeros(len(table))
    upper = np.where(unsafe, upper, 0.0)
    lower = np.minimum(upper, np.maximum(table.value, 0.0)) if table.nonnegative else upper
    reasons = np.where(unsafe, reason, "").astype(object)
    if sides == "sliding":
        return Sensitivity(unsafe, zero, zero, upper + lower, reasons)
    return Sensitivity(unsafe, upper, lower if sides == "both" else zero, zero, reasons)
