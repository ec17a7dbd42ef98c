"""A map of things that were tried one by one: points with their settings, measures, the frontier and the frame.

The map of a mask's parameters (`RUMap`) is computed as a whole; that of protections of a table, and that of policies, are such
maps of points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.charts.words import short
from sfumato.contract import Side
from sfumato.contract.score import number
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.rumap.choice import Choice

Estimate = tuple[float, tuple[float, float] | None]
"""A value, and its 95 % interval where there is one."""


class Labelled(Protocol):
    """What a map needs to know of a measure."""

    @property
    def side(self) -> Side:
        """Risk or utility."""
        ...

    @property
    def variant(self) -> str:
        """Which variant of the measure."""
        ...

    def label(self) -> str:
        """Return its name on the map."""
        ...


@dataclass(frozen=True, eq=False)
class Tried:
    """Something that was tried: to which family it belongs, and what was swept."""

    family: str
    settings: Mapping[str, Any]
    """The parameters that were swept; empty for what was tried as it is."""

    @property
    def label(self) -> str:
        """What was tried, in words."""
        return self.family

    @property
    def at(self) -> str:
        """The parameters in words."""
        return settings_words(self.settings)


def settings_words(settings: Mapping[str, Any]) -> str:
    """Return the swept parameters in words: ``sd = 2, base = 5``."""
    words = (
        f"{k.rpartition('.')[2]} = {short(float(v)) if isinstance(v, int | float) else v}" for k, v in settings.items()
    )
    return ", ".join(words) or "as it is"


class PointMap(ABC):
    """Risk and utility at points that were tried one by one."""

    points: Sequence[Tried]
    measures: Sequence[Labelled]

    @abstractmethod
    def estimate(self, measure: int, point: int) -> Estimate:
        """Return a measure's value and its 95 % interval at a point."""

    def _facts(self, measure: int, point: int) -> dict[str, Any]:
        """Return further columns of the frame."""
        return {}

    def of_side(self, side: Side) -> tuple[int, ...]:
        """Return the positions of the risk or utility measures."""
        return tuple(i for i, m in enumerate(self.measures) if m.side is side)

    def position(self, side: Side, label: str | None) -> int:
        """Return which measure a label names; the first of its side if none is named."""
        own = self.of_side(side)
        if label is None:
            return own[0]
        known = {self.measures[i].label(): i for i in reversed(own)}
        if label not in known:
            raise ParameterError(unknown_name(f"{side} measure", label, known, "the map"))
        return known[label]

    def estimates(self, point: int) -> list[Estimate]:
        """Return every measure's value and interval at a point."""
        return [self.estimate(i, point) for i in range(len(self.measures))]

    @property
    def frame(self) -> pd.DataFrame:
        """The map as a tidy frame: one row per point and measure."""
        import pandas as pd

        rows = []
        for p, point in enumerate(self.points):
            for i, measure in enumerate(self.measures):
                value, interval = self.estimate(i, p)
                low, high = interval or (np.nan, np.nan)
                rows.append({
                    "point": p, "family": point.family, "label": point.label, "at": point.at, **dict(point.settings),
                    "side": measure.side.value, "measure": measure.label(), "variant": measure.variant, "value": value,
                    "low": low, "high": high, **self._facts(i, p),
                })  # fmt: skip
        return pd.DataFrame(rows)

    def frontier(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Return the points that no other point beats in both risk and utility, safest first."""
        import pandas as pd

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        pairs = [(self.estimate(r, p)[0], self.estimate(u, p)[0]) for p in range(len(self.points))]
        rows = [
            {
                "point": p,
                "family": self.points[p].family,
                "at": self.points[p].at,
                "risk": pairs[p][0],
                "utility": pairs[p][1],
            }
            for p in undominated(pairs)
        ]
        return pd.DataFrame(rows, columns=["point", "family", "at", "risk", "utility"]).sort_values(
            "risk", ignore_index=True
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the frame for machines."""
        rows = self.frame.to_dict(orient="records")
        return [{str(k): number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]

    def marked(self, choice: Choice | None, family: str) -> int | None:
        """Return the point that was chosen; None if none was. `family` is the name of the family among the choice's settings."""
        if choice is None or not choice.feasible:
            return None
        wanted = dict(choice.settings)
        return next((p for p, q in enumerate(self.points) if {family: q.family, **q.settings} == wanted), None)


def undominated(pairs: Sequence[tuple[float, float]]) -> list[int]:
    """Return which pairs of risk and utility no other pair beats; those with NaN are left out.

    >>> undominated([(1.0, 1.0), (0.5, 1.0), (0.1, 0.2), (0.2, 0.1)])
    [1, 2]
    """
    return [
        p
        for p, (a, b) in enumerate(pairs)
        if not np.isnan(a + b) and not any((c <= a and d >= b) and (c < a or d > b) for c, d in pairs)
    ]
