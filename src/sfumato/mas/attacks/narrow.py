"""Recipe 1 as it is printed: {F, S03, 60-89} against the same with race in {W, B, A}."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.mas.attacks.differencing import Differencing


class NarrowDifferencing(Differencing):
    """Differencing with universes of four variables, where many are alone."""

    title = "differencing, four variables"
    conditions: int = param(
        default=4, doc="known variables that the universes are formed with", low=2, high=4, integer=True
    )
