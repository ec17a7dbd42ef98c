"""Arguments of the evaluation, checked: each refused in a sentence."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mas.evaluation.cell_table import CellTable


def whole_q(q: Any, table: CellTable | None = None, keep: int = 0) -> int:
    """Return q as a whole number; refuse one that is negative, not whole, or more than a table of n − `keep` records can lose."""
    if not _is_real(q) or q != math.floor(q) or q < 0:
        raise ParameterError("q must be a whole number of records, of at least 0.")
    if table is not None and table.records is not None and int(q) > table.records - keep:
        fewer = "less than the number of its records, since the universe with one fewer loses q as well"
        raise ParameterError(
            f"q is too large for this table: it must be {fewer if keep else 'at most the number of its records'}."
        )
    return int(q)


def at_least_one(name: str, number: Any) -> int:
    """Return a number of pairs, replications or cells; refuse one that is not whole or below 1."""
    if not _is_real(number) or number != math.floor(number) or number < 1:
        raise ParameterError(f"{name} must be a whole number of at least 1.")
    return int(number)


def probability(name: str, number: Any) -> float:
    """Return a number from 0 to 1; refuse any other."""
    if not _is_real(number) or not 0 <= number <= 1:
        raise ParameterError(f"{name} must be a number from 0 to 1.")
    return float(number)


def _is_real(number: Any) -> bool:
    real = isinstance(number, numbers.Real) and not isinstance(number, bool | np.bool_)
    return real and math.isfinite(number)
