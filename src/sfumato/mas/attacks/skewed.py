"""Recipe 2: differencing where nearly all records are alike, so that drops seldom touch the target's cell."""

from __future__ import annotations

from sfumato.mas.attacks.differencing import Differencing
from sfumato.mas.attacks.world import RARE


class SkewedDifferencing(Differencing):
    """Differencing on an attribute that 98 % of the universe do not have."""

    title = "differencing, 98 % alike"
    attribute = RARE
