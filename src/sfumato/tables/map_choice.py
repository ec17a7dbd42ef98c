"""Choosing from a map: the most useful protection that is safe enough, confirmed with fresh tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Side
from sfumato.rumap.choice import Choice
from sfumato.rumap.point_choice import best, limits_of, nothing
from sfumato.rumap.points import Estimate
from sfumato.tables.map_points import estimate, observe
from sfumato.tables.protection import Protection

if TYPE_CHECKING:
    from sfumato.tables.table_map import TableMap

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class TableChoice(Choice):
    """A chosen protection with its risk and utility, or the reason why there is none."""

    protection: Protection | None = None


def chosen(m: TableMap, max_risk: float | Mapping[str, float], utility: str | None, confirm: int) -> TableChoice:
    """Return the protection with the largest utility among those within the limits; see `TableMap.choose`."""
    limits = limits_of(m, max_risk)
    allowed = {m.measures[i].label(): limit for i, limit in limits.items()}

    def again(p: int) -> tuple[tuple[Numbers, ...], list[Estimate]]:
        seen = m.points[p].observations
        if _random(seen):
            seen = observe(m.table, m.points[p].protection, m.measures, m.draws.child("confirm"), confirm)[0]
        return seen, [estimate(measure, o) for measure, o in zip(m.measures, seen, strict=True)]

    found = best(m, limits, m.position(Side.UTILITY, utility), again)
    if found is None:
        return TableChoice(False, {}, nothing(m, limits, "protection"), max_risk=allowed)
    point, seen = m.points[found[0]], found[1]
    how = f", confirmed with {confirm:,} fresh tables" if _random(point.observations) else ""
    scores = [measure.to_score(o) for measure, o in zip(m.measures, seen, strict=True)]
    risks, utilities = (tuple(scores[i] for i in m.of_side(side)) for side in (Side.RISK, Side.UTILITY))
    return TableChoice(
        True, {"protection": point.family, **point.settings}, f"the most useful table within the risk threshold{how}",
        risks, utilities, allowed, point.protection,
    )  # fmt: skip


def _random(observations: tuple[Numbers, ...]) -> bool:
    return any(len(o) > 1 for o in observations)
