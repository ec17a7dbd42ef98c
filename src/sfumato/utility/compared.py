"""What every comparison of two files shares: which columns, whose weights, and how a loss becomes a utility.

A utility of the house is 1 for a file that was not changed, and falls as information is lost: U = 1 - loss, where the loss is
the number of the literature. It may fall below 0 where the loss has no upper end. The loss stands in the Score's words, and by
its usual name in the details.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release, param
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, unknown_name
from sfumato.microdata import Microdata
from sfumato.schema import Role, Scale
from sfumato.utility.estimators import WEIGHTED, survey_weights

Numbers = NDArray[np.float64]

COMPARED = (Role.KEY, Role.CONFIDENTIAL, Role.OTHER)
"""The roles of columns that an analyst works with; names, weights and the like are not compared."""
FEWEST = 10
"""What is shown of fewer original records would describe persons: no figure rests on so few, no category is named."""
NUMBER = frozenset({Kind.NUMBER})
PLAIN = frozenset(set(Kind) - {Kind.OTHER})
CATEGORY = PLAIN - NUMBER


def over_columns(holds: str = "anything") -> Any:
    """Declare the parameter `over`: which columns are compared."""
    return param(default=None, doc="columns to compare; all that apply if none are named", columns="many", holds=holds)


def weighted_flag() -> Any:
    """Declare the parameter `weighted`."""
    return param(default=False, doc=WEIGHTED)


def compared_columns(data: Microdata, over: Sequence[str] | None, kinds: Collection[Kind] = PLAIN) -> tuple[str, ...]:
    """Return the columns of the original to compare: those named, or every key, confidential and other column of these kinds.

    Refused in a sentence: a name that is not there, a column of another kind, and data without any such column.
    """
    words = {NUMBER: "numbers", CATEGORY: "categories"}.get(frozenset(kinds), "plain values")
    if over is not None:
        for name in over:
            if name not in data.engine.kinds:
                raise DataError(unknown_name("column", name, data.engine.kinds, "the data"))
            if data.kind(name) not in kinds:
                raise DataError(f"column '{name}' does not hold {words}, so it cannot be compared this way.")
        if over:
            return tuple(over)
        raise DataError("no column is named to be compared; name at least one, or leave `over` out for all.")
    found = tuple(a.name for a in data.schema if a.role in COMPARED and data.kind(a.name) in kinds)
    if frozenset(kinds) == NUMBER:  # numbers that the schema calls unordered are codes of categories
        found = tuple(n for n in found if data.schema[n].scale is Scale.ORDERED)
    if not found:
        raise NotApplicable(f"there is no column of {words} to compare (a key, confidential or other column).")
    return found


def weights_of(data: Microdata, weighted: bool) -> Numbers | None:
    """Return the survey weights of a file, shape (n,); None where all records count alike."""
    return survey_weights(data) if weighted else None


def released_kind(outcome: Release, name: str) -> Kind | None:
    """Return what a column of the original holds in the release; None if it was not released."""
    return outcome.masked.engine.kinds.get(name)
