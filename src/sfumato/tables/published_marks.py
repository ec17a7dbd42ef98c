"""What stands in the cells of a published table: figures, and marks for those that are not shown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing, some

MARKS = (
    "", "x", "X", "c", "C", "d", "D", "s", "S", ":", ":c", ": c", "..", "...", "*", "suppressed", "confidential", "NaN", "nan",
)  # fmt: skip
"""What usually stands for a figure that is not shown."""
NONE = ("-", "–", "—")
"""A dash means that there is nothing: 0, unless it is named as a mark."""
CHANGED = ("changed", "adjusted", "rounded", "perturbed")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def figures(column: Sequence[object], marks: Sequence[str], name: str) -> NDArray[np.float64]:
    """Return the numbers of a column, 0 for a dash, NaN where a mark or nothing stands; whatever is neither is refused.

    >>> figures(["1200", "x", 3, None, "4.5", "-"], MARKS, "turnover").tolist()
    [1200.0, nan, 3.0, nan, 4.5, 0.0]
    """
    found = np.full(len(column), np.nan)
    strange: dict[str, None] = {}
    for i, value in enumerate(column):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            text = str(value)
        elif not isinstance(value, str):
            if math.isinf(value):
                raise DataError(f"column '{name}' holds an infinite number, which no table can show.")
            found[i] = value
            continue
        else:
            text = value.strip()
        if _NUMBER.fullmatch(text):
            found[i] = float(text)
        elif text in NONE and text not in marks:
            found[i] = 0.0
        elif text not in marks:
            strange[text] = None
    if strange:
        raise DataError(
            f"column '{name}' holds {some(len(strange), 'text')} that {'is' if len(strange) == 1 else 'are'} neither a number "
            f"nor a known mark of suppression: {listing((repr(s) for s in strange), 5)}. Say which marks mean 'not shown' "
            "(marks), or write numbers with a point for decimals and nothing between thousands."
        )
    return found


def hidden_by(status: Sequence[object], marks: Sequence[str]) -> NDArray[np.bool_]:
    """Return where a column of flags says that the figure is not shown."""
    meant = {m.casefold() for m in marks if m} | {"primary", "secondary"}
    return np.array([str(s).strip().casefold() in meant if s is not None else False for s in status], bool)


def changed_by(status: Sequence[object]) -> NDArray[np.bool_]:
    """Return where a column of flags says that another figure than the true one is shown."""
    return np.array([str(s).strip().casefold() in CHANGED for s in status], bool)
