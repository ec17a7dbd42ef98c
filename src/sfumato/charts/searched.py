"""The frame of a search, read into what the drawings need: one entry per point, with every measure at it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.charts.words import short
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "point", "family", "recipe", "replications", "side", "measure", "scenario", "value", "low", "high", "limit",
    "threshold", "meets", "chosen", "probability",
)  # fmt: skip
"""Columns of `SearchResult.frame`; every other is a parameter,"""
_UNMASKED, _CONFIRMED = "unmasked", "confirmed"
"""but for these, which it may have: a utility's value for the file as it is, and of how many fresh releases the limit is."""
COMBINED = "smallest share of the utilities"
"""What is maximised where several utilities count: the least of their shares of the unmasked file's."""


class Reading(NamedTuple):
    """A measure at a point: the expected value, its 95 % interval, and the limit that 95 % of releases stay below."""

    value: float
    low: float
    high: float
    limit: float

    @property
    def judged(self) -> float:
        """What is held against a threshold: the limit, or the value where there is none."""
        return self.value if math.isnan(self.limit) else self.limit

    @property
    def words(self) -> str:
        """The value with its interval.

        >>> Reading(0.04, 0.035, 0.0451, 0.05).words
        '0.04 (0.035 to 0.0451)'
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return short(self.value)
        return f"{short(self.value)} ({short(self.low)} to {short(self.high)})"


@dataclass(frozen=True, eq=False)
class Point:
    """A recipe that was evaluated on the full data."""

    number: int
    family: str
    recipe: str
    replications: int
    settings: Mapping[str, Any]
    """The searched parameters that its family has."""
    risks: Mapping[tuple[str, str], Reading]
    """By measure and scenario."""
    utilities: Mapping[str, Reading]
    meets: bool
    chosen: bool
    probability: float
    """Of being non-dominated; NaN off the frontier."""

    def worst(self, risk: str, scenario: str = "") -> Reading | None:
        """Return a risk under one scenario, or under the worst for it; None where it was not measured.

        The worst scenario is the one with the highest expected risk; the limit is the highest of all.
        """
        found = [r for (m, s), r in self.risks.items() if m == risk and scenario in ("", s) and not math.isnan(r.value)]
        if not found:
            return None
        return max(found, key=lambda r: r.value)._replace(limit=max(r.judged for r in found))

    def useful(self, utility: str) -> Reading | None:
        """Return a utility; None where it was not measured."""
        found = self.utilities.get(utility)
        return None if found is None or math.isnan(found.value) else found


@dataclass(frozen=True, eq=False)
class Searched:
    """Every point of a search, in the frame's order."""

    points: tuple[Point, ...]
    parameters: tuple[str, ...]
    risks: tuple[str, ...]
    utilities: tuple[str, ...]
    scenarios: tuple[str, ...]
    thresholds: Mapping[str, float]
    """By risk; risks without one are left out."""
    unmasked: Mapping[str, float]
    """By utility: its value for the file as it is; those not known are left out."""

    @classmethod
    def read(cls, frame: pd.DataFrame) -> Searched:
        """Read `SearchResult.frame`."""
        have = [str(c) for c in frame.columns]
        for name in _COLUMNS:
            if name not in have:
                raise ParameterError(unknown_name("column", name, have, "the search's frame"))
        parameters = tuple(name for name in have if name not in (*_COLUMNS, _UNMASKED, _CONFIRMED))
        rows: dict[int, list[Mapping[Any, Any]]] = {}
        thresholds: dict[str, float] = {}
        unmasked: dict[str, float] = {}
        for row in frame.to_dict("records"):
            rows.setdefault(int(row["point"]), []).append(row)
            if row["side"] == "risk" and not math.isnan(limit := _number(row["threshold"])):
                thresholds.setdefault(str(row["measure"]), limit)
            if row["side"] == "utility" and math.isfinite(whole := _number(row.get(_UNMASKED))):
                unmasked.setdefault(str(row["measure"]), whole)
        if not rows:
            raise ParameterError("the search has no points, so there is nothing to draw.")
        points = tuple(_point(number, found, parameters) for number, found in rows.items())
        utilities = tuple(dict.fromkeys(m for p in points for m in p.utilities))
        if len(utilities) > 1 and all(unmasked.get(name, 0.0) > 0 for name in utilities):
            points = tuple(_combined(p, utilities, unmasked) for p in points)
            utilities, unmasked = (COMBINED, *utilities), {COMBINED: 1.0, **unmasked}
        return cls(
            points, parameters, tuple(dict.fromkeys(m for p in points for m, _ in p.risks)), utilities,
            tuple(dict.fromkeys(s for p in points for _, s in p.risks)), thresholds, unmasked,
        )  # fmt: skip

    @property
    def families(self) -> tuple[str, ...]:
        """Their names, in the frame's order."""
        return tuple(dict.fromkeys(p.family for p in self.points))

    @property
    def chosen(self) -> Point | None:
        """The chosen point; None if no point is safe."""
        return next((p for p in self.points if p.chosen), None)

    def unmasked_words(self, utility: str) -> str:
        """Return what a utility is for the file as it is, in brackets for an axis; empty where not known."""
        return f" (unmasked: {short(self.unmasked[utility])})" if utility in self.unmasked else ""

    def risk(self, name: str | None) -> str:
        """Return a risk by its name; the first for None."""
        return _known("risk", name, self.risks)

    def utility(self, name: str | None) -> str:
        """Return a utility by its name; for None the first, which is what was maximised."""
        return _known("utility", name, self.utilities)

    def probabilities(self, frontier: pd.DataFrame | None, risk: str, utility: str) -> dict[int, float]:
        """Return the probability of being non-dominated, by point; empty where it is not known for these measures."""
        if frontier is not None:
            pairs = (
                zip(frontier["point"].tolist(), frontier["probability"].tolist(), strict=True) if len(frontier) else ()
            )
            return {int(point): float(sure) for point, sure in pairs if not missing(sure)}
        if (risk, utility) != (self.risk(None), self.utility(None)):
            return {}
        return {p.number: p.probability for p in self.points if not math.isnan(p.probability)}

    def pairs(self, risk: str, utility: str) -> list[tuple[Point, Reading, Reading]]:
        """Return the points where both were measured, with the risk under its worst scenario."""
        found = ((p, p.worst(risk), p.useful(utility)) for p in self.points)
        return [(p, r, u) for p, r, u in found if r is not None and u is not None]


def _combined(point: Point, utilities: Sequence[str], unmasked: Mapping[str, float]) -> Point:
    """Return a point with the smallest share of its utilities beside them, where it has them all."""
    found = {name: point.useful(name) for name in utilities}
    shares = [(r, unmasked[name]) for name, r in found.items() if r is not None]
    if len(shares) < len(utilities):
        return point
    least, whole = min(shares, key=lambda pair: pair[0].value / pair[1])
    share = Reading(least.value / whole, least.low / whole, least.high / whole, math.nan)
    return replace(point, utilities={COMBINED: share, **point.utilities})


def _known(side: str, name: str | None, names: Sequence[str]) -> str:
    if not names:
        raise ParameterError(f"the search's frame holds no {side} measure.")
    if name is None:
        return names[0]
    if name not in names:
        raise ParameterError(unknown_name(f"{side} measure", name, list(names), "the search's frame"))
    return name


def _point(number: int, rows: Sequence[Mapping[Any, Any]], parameters: Sequence[str]) -> Point:
    first = rows[0]
    return Point(
        number, str(first["family"]), str(first["recipe"]), int(first["replications"]),
        {name: first[name] for name in parameters if not missing(first[name])},
        {(str(r["measure"]), str(r["scenario"])): _reading(r) for r in rows if r["side"] == "risk"},
        {str(r["measure"]): _reading(r) for r in rows if r["side"] == "utility"},
        bool(first["meets"]), bool(first["chosen"]), _number(first["probability"]),
    )  # fmt: skip


def _reading(row: Mapping[Any, Any]) -> Reading:
    return Reading(*(_number(row[name]) for name in ("value", "low", "high", "limit")))


def _number(value: Any) -> float:
    return math.nan if missing(value) else float(value)


def missing(value: Any) -> bool:
    """Whether a cell of the frame is empty."""
    return value is None or value != value or type(value).__name__ == "NAType"
