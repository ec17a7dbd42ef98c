"""A map of things that were tried one by one: points, the frontier, the frame, and the choice among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from sfumato.charts.captions import short, tabled
from sfumato.contract.score import Side, TextTable, number
from sfumato.errors import ParameterError, join_names, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.maps.choice import Choice

# --- points
# A map of things that were tried one by one: points with their settings, measures, the frontier and the frame.
#
# The map of a mask's parameters (`RUMap`) is computed as a whole; that of protections of a table, and that of policies, are such
# maps of points.

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
class MapTrial:
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

    points: Sequence[MapTrial]
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


# --- point choice
# Choosing from a map of points: the most useful one that is safe enough, looked at again before it is taken.


T = TypeVar("T")
Limits = Mapping[int, float]


def limits_of(m: PointMap, max_risk: float | Mapping[str, float], every: bool = True) -> dict[int, float]:
    """Return what is allowed of each risk, by its position; with `every`, each risk needs a limit."""
    risks = m.of_side(Side.RISK)
    asked = max_risk if isinstance(max_risk, Mapping) else {m.measures[i].label(): max_risk for i in risks}
    found = {m.position(Side.RISK, label): limit for label, limit in asked.items()}
    for limit in found.values():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
            raise ParameterError(f"max_risk must be a number of at least 0; got {limit!r}.")
    absent = [m.measures[i].label() for i in risks if i not in found]
    if absent and (every or not found):
        raise ParameterError(f"max_risk gives no threshold for {join_names(absent)}.")
    return {i: float(limit) for i, limit in found.items()}


def excess(estimates: Sequence[Estimate], limits: Limits) -> float:
    """Return the largest upper risk as a share of its limit; infinite where one is not known."""
    worst = 0.0
    for i, limit in limits.items():
        value, interval = estimates[i]
        upper = value if interval is None else interval[1]
        share = 0.0 if upper <= limit else upper / limit if limit > 0 and not np.isnan(upper) else np.inf
        worst = max(worst, share)
    return worst


def best(
    m: PointMap, limits: Limits, utility: int, again: Callable[[int], tuple[T, Sequence[Estimate]]]
) -> tuple[int, T] | None:
    """Return the most useful point whose risks stay within their limits, and what was seen when it was looked at again.

    `again` looks at a point with fresh random numbers; if its risks do not hold there, the next best is taken.
    """
    safe = [p for p in range(len(m.points)) if excess(m.estimates(p), limits) <= 1]
    useful = {p: m.estimate(utility, p)[0] for p in safe}
    for p in sorted((p for p in safe if not np.isnan(useful[p])), key=lambda p: -useful[p]):
        seen, estimates = again(p)
        if excess(estimates, limits) <= 1:
            return p, seen
    return None


def nothing(m: PointMap, limits: Limits, what: str) -> str:
    """Say that nothing is safe enough, and what comes nearest."""
    least = min(range(len(m.points)), key=lambda p: excess(m.estimates(p), limits))
    point = m.points[least]
    said = ", ".join(
        f"{m.measures[i].label()} {m.estimate(i, least)[0]:.4g}, where {limit:.4g} is allowed"
        for i, limit in limits.items()
    )
    return f"no {what} that was tried is safe enough. The nearest is {point.family} ({point.at}): {said}."


# --- points table
# A map of points as a table of a report.


_ROWS = 20
"""Most points that a table shows."""


def points_table(map: PointMap, what: str | None, measures: Sequence[int] | None = None) -> TextTable:
    """Return every point with its measures, or those on the frontier where there are many.

    `what` says what was tried, or None if families need not be named; `measures` are the positions of those to show: all, risks
    first, if not given.
    """
    order = [*map.of_side(Side.RISK), *map.of_side(Side.UTILITY)] if measures is None else list(measures)
    front = {int(p) for p in map.frontier()["point"]}
    points = range(len(map.points))
    shown = list(points) if len(points) <= _ROWS else sorted(front)[:_ROWS]
    rows = []
    for p in shown:
        cells = []
        for i in order:
            value, interval = map.estimate(i, p)
            spread = (
                ""
                if interval is None or interval[0] == interval[1]
                else f" ({tabled(interval[0])} to {tabled(interval[1])})"
            )
            cells.append(tabled(value) + spread)
        first = (map.points[p].family.replace("_", " "),) if what is not None else ()
        rows.append((*first, map.points[p].at, *cells, "yes" if p in front else "no"))
    heads = (*(() if what is None else (what,)), "at", *(map.measures[i].label() for i in order), "on the frontier")
    less = "" if len(shown) == len(points) else f" Those on the frontier, of {len(points):,}."
    return TextTable(heads, tuple(rows), f"Risk and utility of every setting; 95 % intervals in brackets.{less}")
