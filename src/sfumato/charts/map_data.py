"""Frames of maps and searches, read into what the drawings need; how recipe families are told apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from sfumato.charts import theme
from sfumato.charts.captions import short, symbol
from sfumato.charts.theme import SERIES, SHAPES, colour_of, shape_of, text_width
from sfumato.errors import ParameterError, unknown_name
from sfumato.lazy import pd
from sfumato.typing import Flags, Numbers

Limits = float | Mapping[str, float] | None


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure at every point: value, lower and upper limit, shape (points, 3); None where a source is absent."""

    label: str
    measure: str
    """The measure's own label, without its variant: what a threshold is named by."""
    empirical: Numbers | None
    analytic: Numbers | None
    unmasked: float
    """For the file as it is: by replication where there is any, else by formula; NaN if not known."""
    formula: float | None = None
    """For the file as it is, by formula."""

    @property
    def judged(self) -> Numbers:
        """The numbers that decisions rest on: replication where there is any, else the formula; shape (points, 3)."""
        best = self.empirical if self.empirical is not None else self.analytic
        assert best is not None  # noqa: S101 - a measure is in the frame because some source is
        return best

    @property
    def curve(self) -> Numbers:
        """The smooth line: the formula where there is one, else the replicated values; shape (points,)."""
        best = self.analytic if self.analytic is not None else self.empirical
        assert best is not None  # noqa: S101
        return best[:, 0]

    @property
    def end(self) -> float:
        """The unmasked file's value from the same source as the curve, so that a formula never passes its own limit."""
        drawn = self.analytic is not None and self.formula is not None and math.isfinite(self.formula)
        return self.formula if drawn and self.formula is not None else self.unmasked

    def as_share(self) -> Measured:
        """Return the measure as a share of the unmasked file's: replications of replicated, formulas of formula."""
        formula = self.unmasked if self.formula is None else self.formula
        return replace(
            self, unmasked=1.0, formula=None if self.formula is None else 1.0,
            empirical=None if self.empirical is None else self.empirical / self.unmasked,
            analytic=None if self.analytic is None else self.analytic / formula,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sweep:
    """The points of a map over parameters, in the parameters' order, shape (points, parameters), and every measure at them."""

    parameters: tuple[str, ...]
    points: Numbers
    risks: tuple[Measured, ...]
    utilities: tuple[Measured, ...]

    @classmethod
    def of(cls, frame: pd.DataFrame, parameters: Sequence[str]) -> Sweep:
        """Return the sweep that a frame of `RUMap.frame()` holds."""
        names = tuple(parameters)
        data = MapData.read(frame, needed=(*names, "point", "side", "measure", "source", "value"))
        order = sorted(data.points, key=lambda p: tuple(float(p.settings[n]) for n in names))
        made = {side: data.measured(side, order) for side in ("risk", "utility")}
        if absent := [side for side, measures in made.items() if not measures]:
            raise ParameterError(f"the map's frame holds no {' and no '.join(absent)} measure.")
        points = np.array([[float(p.settings[n]) for n in names] for p in order]).reshape(len(order), len(names))
        return cls(names, points, made["risk"], made["utility"])

    def limits(self, max_risk: Limits) -> dict[str, float]:
        """Return the threshold of each risk by the risk's label; risks without one are left out."""
        if max_risk is None:
            return {}
        if not isinstance(max_risk, Mapping):
            return {r.label: float(max_risk) for r in self.risks}
        known = {r.measure for r in self.risks} | {r.label for r in self.risks}
        for label in max_risk:
            if label not in known:
                raise ParameterError(unknown_name("risk measure", label, sorted(known), "the map"))
        asked = {r.label: max_risk.get(r.label, max_risk.get(r.measure)) for r in self.risks}
        return {label: float(limit) for label, limit in asked.items() if limit is not None}

    def feasible(self, limits: Mapping[str, float]) -> Flags:
        """Return which points keep the upper limit of every risk at or below its threshold, shape (points,)."""
        good = np.ones(len(self.points), bool)
        for risk in self.risks:
            if risk.label in limits:
                value, high = risk.judged[:, 0], risk.judged[:, 2]
                good &= np.where(np.isnan(high), value, high) <= limits[risk.label] * (1 + 1e-9)
        return good

    def nearest(self, chosen: Mapping[str, Any]) -> int | None:
        """Return the point nearest to the chosen parameters; None if they do not name them all."""
        if any(name not in chosen for name in self.parameters):
            return None
        spread = np.ptp(self.points, axis=0)
        away = np.abs(self.points - [float(chosen[name]) for name in self.parameters]) / np.where(spread > 0, spread, 1)
        return int(away.sum(axis=1).argmin())

    def with_shares(self) -> Sweep:
        """Return the map with every utility as a share of the unmasked file's."""
        return replace(self, utilities=tuple(u.as_share() for u in self.utilities))

    @property
    def has_shares(self) -> bool:
        """Whether every utility of the unmasked file is a finite positive number."""
        return all(math.isfinite(u.unmasked) and u.unmasked > 0 for u in self.utilities)


def along(t: float, grid: Numbers, values: Numbers, log_t: bool, log_values: bool) -> float:
    """Return the value at parameter t on the straight line, as drawn, between the two nearest points; NaN beyond them."""
    usable = np.isfinite(values) & (values > 0 if log_values else True) & (grid > 0 if log_t else True)
    x, y = grid[usable], values[usable]
    if not len(x) or (log_t and not t > 0):
        return math.nan
    if len(x) == 1:
        return float(y[0]) if math.isclose(t, float(x[0]), rel_tol=1e-9) else math.nan
    slack = 1e-9 * max(abs(float(x[0])), abs(float(x[-1])))
    if not x[0] - slack <= t <= x[-1] + slack:
        return math.nan
    at, xs = (math.log(t), np.log(x)) if log_t else (t, x)
    found = float(np.interp(at, xs, np.log(y) if log_values else y))
    return math.exp(found) if log_values else found


class TrialPoint(NamedTuple):
    """A point with its risk in the worst scenario and its utility."""

    point: Point
    risk: MeasureReading
    utility: MeasureReading


@dataclass(frozen=True, eq=False)
class FamilyTrials:
    """The points of a family, and the parameters in which they differ."""

    found: tuple[TrialPoint, ...]
    free: tuple[str, ...]
    risk: str
    utility: str
    limit: float | None
    """The largest tolerable risk,"""
    alone: bool
    """and whether points are judged by it alone, because the caller set it; else by all thresholds of the search."""

    def good(self, f: TrialPoint) -> bool:
        """Whether a point meets the thresholds; without any, every point does."""
        if self.limit is None:
            return True
        return f.risk.judged <= self.limit * (1 + 1e-9) if self.alone else f.point.meets

    def numeric(self, name: str) -> bool:
        """Whether a parameter is a number at every point."""
        values = [f.point.settings.get(name) for f in self.found]
        return all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values)

    def chosen_words(self, how: str) -> list[str]:
        """Say which point is chosen, if it is of this family: "ringed: chosen, λ² = 0.1"."""
        chosen = next((f.point for f in self.found if f.point.chosen), None)
        if chosen is None:
            return []
        return [f"{how}: chosen, " + ", ".join(f"{symbol(n)} = {worded(v)}" for n, v in chosen.settings.items())]


def worded(value: Any) -> str:
    """Return a parameter's value as a label shows it."""
    return str(value) if isinstance(value, str | bool) else short(float(value))


_COLUMNS = ("point", "family", "settings", "side", "measure", "value", "low", "high", "limit")
"""Columns of `RUMap.frame()` that a chart of points needs,"""
_FURTHER = (
    "masked", "variant", "scenario", "source", "label", "replications", "confirmed", "threshold", "meets", "chosen",
    "probability",
)  # fmt: skip
"""those that it may have; every other is a parameter."""
COMBINED = "smallest share of the utilities"
"""The name of what is maximised where several utilities count: the least of their shares of the unmasked file's."""


class MeasureReading(NamedTuple):
    """A measure at a point: the expected value, its 95 % interval, and the limit that 95 % of releases stay below."""

    value: float
    low: float
    high: float
    limit: float

    @property
    def judged(self) -> float:
        """The number compared with a threshold: the limit, or the value where there is none."""
        return self.value if math.isnan(self.limit) else self.limit

    @property
    def words(self) -> str:
        """The value with its interval.

        >>> MeasureReading(0.04, 0.035, 0.0451, 0.05).words
        '0.04 (0.035 to 0.0451)'
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return short(self.value)
        return f"{short(self.value)} ({short(self.low)} to {short(self.high)})"


MeasureSource = tuple[str, str, str]
"""Side, title and source of a number."""


@dataclass(frozen=True, eq=False)
class Point:
    """A recipe, protection or policy that was tried."""

    number: int
    family: str
    at: str
    """The settings in words."""
    label: str
    replications: int
    settings: Mapping[str, Any]
    """The searched parameters that its family has."""
    risks: Mapping[tuple[str, str], MeasureReading]
    """By measure and scenario."""
    utilities: Mapping[str, MeasureReading]
    sources: Mapping[MeasureSource, MeasureReading]
    """Each measure as observed ("empirical") and by formula ("analytic")."""
    meets: bool
    chosen: bool
    probability: float
    """The probability of being non-dominated; NaN off the frontier."""

    def worst(self, risk: str, scenario: str = "") -> MeasureReading | None:
        """Return a risk under one scenario, or under the worst for it; None where it was not measured.

        The worst scenario is the one with the highest expected risk; the limit is the highest of all.
        """
        found = [r for (m, s), r in self.risks.items() if m == risk and scenario in ("", s) and not math.isnan(r.value)]
        if not found:
            return None
        return max(found, key=lambda r: r.value)._replace(limit=max(r.judged for r in found))

    def useful(self, utility: str) -> MeasureReading | None:
        """Return a utility; None where it was not measured."""
        found = self.utilities.get(utility)
        return None if found is None or math.isnan(found.value) else found


@dataclass(frozen=True, eq=False)
class MapData:
    """Every point of a map, in the frame's order."""

    points: tuple[Point, ...]
    parameters: tuple[str, ...]
    risks: tuple[str, ...]
    utilities: tuple[str, ...]
    scenarios: tuple[str, ...]
    thresholds: Mapping[str, float]
    """By risk; risks without one are left out."""
    unmasked: Mapping[str, float]
    """By utility: its value for the file as it is; those not known are left out."""
    baseline: str
    """The name of the file as it is: "unmasked", or for a table "unprotected"."""
    searched: bool
    """Whether the frame is that of a search, which has judged its points and says how sure the frontier is."""

    titles: Mapping[tuple[str, str], str]
    """The label of each measure by its side and title: the variant is in the title where a label stands more than once."""
    whole: Mapping[MeasureSource, float]
    """Every measure of the file as it is."""

    @classmethod
    def read(cls, frame: pd.DataFrame, chosen: int | None = None, needed: Sequence[str] = _COLUMNS) -> MapData:
        """Read `RUMap.frame()`; `chosen` is the number of the chosen point, where the frame does not say."""
        everything = theme.frame_rows(frame, needed, "the map's frame")
        have = [str(c) for c in frame.columns]
        parameters = tuple(name for name in have if name not in (*_COLUMNS, *_FURTHER))
        rows: dict[int, list[Mapping[Any, Any]]] = {}
        thresholds: dict[str, float] = {}
        whole: dict[MeasureSource, float] = {}
        titles = _named(everything)
        baseline = "unmasked"
        for row in everything:
            if not row.get("masked", True):
                baseline = str(row.get("settings"))
                whole[row["side"], row["measure"], str(row.get("source"))] = _number(row["value"])
                continue
            rows.setdefault(int(row["point"]), []).append(row)
            if row["side"] == "risk" and not math.isnan(limit := _number(row.get("threshold"))):
                thresholds.setdefault(row["measure"], limit)
        unmasked = {title: v for (side, title, _), v in whole.items() if side == "utility" and math.isfinite(v)}
        if not rows:
            raise ParameterError("the map has no points, so there is nothing to draw.")
        points = tuple(_point(number, own, parameters, chosen) for number, own in rows.items())
        utilities = tuple(dict.fromkeys(m for p in points for m in p.utilities))
        if len(utilities) > 1 and all(unmasked.get(name, 0.0) > 0 for name in utilities):
            points = tuple(_combined(p, utilities, unmasked) for p in points)
            utilities, unmasked = (COMBINED, *utilities), {COMBINED: 1.0, **unmasked}
        return cls(
            points, parameters, tuple(dict.fromkeys(m for p in points for m, _ in p.risks)), utilities,
            tuple(dict.fromkeys(s for p in points for _, s in p.risks)), thresholds, unmasked, baseline,
            "probability" in have, titles, whole,
        )  # fmt: skip

    def measured(self, side: str, points: Sequence[Point]) -> tuple[Measured, ...]:
        """Return each measure of one side at these points, whatever the source."""
        return tuple(
            self._measured(side, title, label, points) for (s, title), label in self.titles.items() if s == side
        )

    def _measured(self, side: str, title: str, label: str, points: Sequence[Point]) -> Measured:
        tables: dict[str, Numbers | None] = dict.fromkeys(("empirical", "analytic"))
        for source in tables:
            found = [p.sources.get((side, title, source)) for p in points]
            if any(found) or (side, title, source) in self.whole:
                tables[source] = np.array([[math.nan] * 3 if r is None else r[:3] for r in found])
        empirical, analytic = tables.values()
        formula = None if analytic is None else self.whole.get((side, title, "analytic"), math.nan)
        unmasked = formula if empirical is None else self.whole.get((side, title, "empirical"), math.nan)
        if empirical is not None and analytic is not None and np.isnan(analytic[:, 0]).all():
            analytic = None  # a formula for the unmasked file alone makes no curve
        return Measured(title, label, empirical, analytic, math.nan if unmasked is None else unmasked, formula)

    def meets(self, f: TrialPoint, limit: float | None) -> bool:
        """Whether a point is safe enough: as the search judged it, else by its limit alone."""
        return f.point.meets if self.searched else limit is None or f.risk.judged <= limit * (1 + 1e-9)

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
        return f" ({self.baseline}: {short(self.unmasked[utility])})" if utility in self.unmasked else ""

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

    def pairs(self, risk: str, utility: str) -> list[TrialPoint]:
        """Return the points where both were measured, with the risk under its worst scenario."""
        found = ((p, p.worst(risk), p.useful(utility)) for p in self.points)
        return [TrialPoint(p, r, u) for p, r, u in found if r is not None and u is not None]


def unmasked_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which the unmasked file has rows of its own, from one with a column `unmasked` for utilities."""
    points = frame.assign(masked=True)
    if "unmasked" not in frame:
        return points
    whole = points[points["unmasked"].notna()].drop_duplicates("measure")
    whole = whole.assign(masked=False, chosen=False, point=points["point"].max() + 1, value=whole["unmasked"])
    return pd.concat([points, whole], ignore_index=True).drop(columns="unmasked")


def _combined(point: Point, utilities: Sequence[str], unmasked: Mapping[str, float]) -> Point:
    """Return a point with the smallest share of its utilities beside them, where it has them all."""
    found = {name: point.useful(name) for name in utilities}
    shares = [(r, unmasked[name]) for name, r in found.items() if r is not None]
    if len(shares) < len(utilities):
        return point
    least, whole = min(shares, key=lambda pair: pair[0].value / pair[1])
    share = MeasureReading(least.value / whole, least.low / whole, least.high / whole, math.nan)
    return replace(point, utilities={COMBINED: share, **point.utilities})


def _known(side: str, name: str | None, names: Sequence[str]) -> str:
    if not names:
        raise ParameterError(f"the map's frame holds no {side} measure.")
    if name is None:
        return names[0]
    if name not in names:
        raise ParameterError(unknown_name(f"{side} measure", name, list(names), "the map's frame"))
    return name


def _named(rows: theme.Rows) -> dict[tuple[str, str], str]:
    """Put each measure's title in place of its label, and return the labels by side and title."""
    labels = {(r["side"], r["measure"], str(r.get("variant", ""))) for r in rows}
    often = Counter((side, label) for side, label, _ in labels)
    titles: dict[tuple[str, str], str] = {}
    for r in rows:
        label, variant = str(r["measure"]), str(r.get("variant", ""))
        r["measure"] = f"{label} ({variant})" if often[r["side"], r["measure"]] > 1 and variant else label
        titles[r["side"], r["measure"]] = label
    return titles


def _point(number: int, rows: Sequence[Mapping[Any, Any]], parameters: Sequence[str], chosen: int | None) -> Point:
    first = rows[0]
    readings = [
        (r, MeasureReading(*(_number(r.get(name)) for name in ("value", "low", "high", "limit")))) for r in rows
    ]
    return Point(
        number, str(first.get("family", "")), str(first.get("settings", "")), str(first.get("label", "")),
        int(first.get("replications", 0)), {name: first[name] for name in parameters if not missing(first[name])},
        {(r["measure"], str(r.get("scenario", ""))): found for r, found in readings if r["side"] == "risk"},
        {r["measure"]: found for r, found in readings if r["side"] == "utility"},
        {(r["side"], r["measure"], str(r.get("source"))): found for r, found in readings},
        bool(first.get("meets", False)), bool(first.get("chosen", number == chosen)), _number(first.get("probability")),
    )  # fmt: skip


def _number(value: Any) -> float:
    return math.nan if missing(value) else float(value)


def missing(value: Any) -> bool:
    """Whether a cell of the frame is empty."""
    return value is None or value != value or type(value).__name__ == "NAType"


OTHERS = "#8a8a8a"
"""Grey for families that have no colour of their own."""
_MOST = len(SERIES)
_SHAPES = tuple(dict.fromkeys(SHAPES))
_THEN = " then "
_ALONE = "alone"
_LEGEND = alt.Legend(orient="right", symbolSize=60, symbolOpacity=1, symbolStrokeWidth=1.4)


@dataclass(frozen=True)
class FamilyStyle:
    """A family's colour and shape, and the entries of the legend that explain them."""

    colour: str
    shape: str
    first: str
    """The entry that explains the colour,"""
    second: str
    """and the one that explains the shape: the same, unless the legend has two parts."""


@dataclass(frozen=True)
class FamilyLegend:
    """The look of every family."""

    looks: Mapping[str, FamilyStyle]
    split: bool = False
    """Whether colours tell the first method of a sequence, and shapes what follows it."""

    @property
    def colours(self) -> dict[str, str]:
        """Colours by entry of the legend, in its order."""
        return {look.first: look.colour for look in self.looks.values()}

    @property
    def shapes(self) -> dict[str, str]:
        """Shapes by entry of the legend, in its order."""
        return {look.second: look.shape for look in self.looks.values()}

    @property
    def crowded(self) -> bool:
        """Whether the legend has fewer entries than there are families."""
        return len(self.looks) > len(self.colours)

    @property
    def width(self) -> float:
        """Pixels that the legend takes."""
        return 34 + max(map(text_width, [*self.colours, *self.shapes]))

    def fields(self, family: str) -> dict[str, str]:
        """Return what a row needs for `colour` and `shape`."""
        look = self.looks[family]
        return {"family": family, "first": look.first, "second": look.second}

    def colour(self) -> alt.Color:
        """Return the encoding of colours."""
        scale = alt.Scale(domain=list(self.colours), range=list(self.colours.values()))
        return alt.Color("first:N", scale=scale, legend=_LEGEND, title="first method" if self.split else None)

    def shape(self) -> alt.Shape:
        """Return the encoding of shapes; one legend with the colours, unless it has two parts."""
        scale = alt.Scale(domain=list(self.shapes), range=list(self.shapes.values()))
        field, title = ("second", "followed by") if self.split else ("first", None)
        return alt.Shape(f"{field}:N", scale=scale, legend=_LEGEND, title=title)


def key_of(families: Sequence[str], foremost: Sequence[str]) -> FamilyLegend:
    """Return a look for each family.

    Up to eight have a colour and a shape each. More are grouped where they are sequences ("noise then pram") of few methods:
    the colour tells the first, the shape what follows. Otherwise the foremost (those on the frontier, most important
    first) have colours, and the rest are grey.

    >>> list(key_of([f"{a} then {b}" for a in "abc" for b in "xyz"], []).shapes)
    ['then x', 'then y', 'then z']
    """
    names = list(dict.fromkeys(families))
    if len(names) <= _MOST:
        return FamilyLegend({n: FamilyStyle(colour_of(i), shape_of(i), n, n) for i, n in enumerate(names)})
    parts = {n: n.partition(_THEN) for n in names}
    firsts = list(dict.fromkeys(p[0] for p in parts.values()))
    rests = sorted({p[2] for p in parts.values()}, key=lambda rest: (rest != "", rest))
    if len(firsts) <= _MOST and len(rests) <= len(_SHAPES):
        entry = {rest: f"then {rest}" if rest else _ALONE for rest in rests}
        return FamilyLegend(
            {
                n: FamilyStyle(colour_of(firsts.index(a)), _SHAPES[rests.index(b)], a, entry[b])
                for n, (a, _, b) in sorted(parts.items(), key=lambda item: rests.index(item[1][2]))
            },
            split=True,
        )
    kept = [n for n in dict.fromkeys(foremost) if n in parts][: _MOST - 2]  # without the grey of the series
    rest = f"{len(names) - len(kept)} other families"
    looks = {n: FamilyStyle(colour_of(i), shape_of(i), n, n) for i, n in enumerate(kept)}
    return FamilyLegend({**looks, **{n: FamilyStyle(OTHERS, "circle", rest, rest) for n in names if n not in looks}})
