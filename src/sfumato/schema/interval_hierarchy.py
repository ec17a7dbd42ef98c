"""Hierarchies of numbers and dates: age to bands, days to months, quarters and years."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.errors import SchemaError, join_names, refuse_unknown
from sfumato.schema.hierarchy import ROOT, Hierarchy, items, label_of, number_label, whole_number
from sfumato.typing import Numbers, Objects

_INTERVAL = re.compile(r"\[\s*(?P<low>[^,\s]+)\s*,\s*(?P<high>[^,\s]+)\s*\)")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BRACKETS = re.compile(r"(?P<left>[\[(])\s*(?P<low>[^,\s]+)\s*,\s*(?P<high>[^,\s]+)\s*(?P<right>[\])])")
_LARGEST = 1e15  # beyond it, a float no longer tells neighbouring numbers apart
_OPEN = re.compile(r"(?P<sign><|≥|>=)\s*(?P<edge>\S+)")


@dataclass(frozen=True)
class IntervalHierarchy(Hierarchy):
    """Numbers in half-open intervals "[20, 25)", with open classes "< 0" and "≥ 100" outside the outer edges.

    Give either `edges`, level by level, or `widths` with what belongs to them (see `from_widths`).

    Parameters
    ----------
    edges
        For each level, from fine to coarse, the edges of its classes. Each level uses edges of the level below only.
    widths
        For each level, from fine to coarse, the width of its classes. Each is a multiple of the one below.
    start
        A number that is an edge on every level; the others are widths away from it.
    bottom, top
        Where the open classes begin: "< bottom" and "≥ top". Classes that cross them are cut. None: no open class.

    Examples
    --------
    >>> ages = IntervalHierarchy.from_widths([5, 10, 20], bottom=0, top=100)
    >>> ages.path(37)
    ('37', '[35, 40)', '[30, 40)', '[20, 40)', '*')
    >>> IntervalHierarchy([[0, 18, 65], [18]]).generalise([17, 70.5, None], 1).tolist()
    ['[0, 18)', '≥ 65', None]
    """

    kind: ClassVar[str] = "interval"
    edges: Sequence[Sequence[float]] = ()
    widths: Sequence[float] = ()
    start: float | None = None
    bottom: float | None = None
    top: float | None = None

    def __post_init__(self) -> None:
        example = "[[0, 18, 40, 65], [18, 65]]"
        levels = items(self.edges, "edges", example)
        if any(not isinstance(level, Sequence | np.ndarray) or isinstance(level, str) for level in levels):
            raise SchemaError(f"edges must be one list for each level, such as {example}.")
        edges = tuple(tuple(_parameter(e, "an edge") for e in level) for level in levels)
        widths = tuple(_parameter(w, "a width") for w in items(self.widths, "widths", "[5, 10, 20]"))
        if bool(edges) == bool(widths):
            raise SchemaError("an interval hierarchy needs either edges or widths, one entry for each level.")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "widths", widths)
        for name in ("start", "bottom", "top"):
            if (value := getattr(self, name)) is not None:
                if edges:
                    raise SchemaError(f"{name} goes with widths. With edges, the outer edges say where classes end.")
                object.__setattr__(self, name, _parameter(value, name))
        if edges:
            _check_edges(edges)
        else:
            object.__setattr__(self, "start", 0 if self.start is None else self.start)
            _check_widths(widths)
        if self.bottom is not None and self.top is not None and not self.bottom < self.top:
            raise SchemaError(f"bottom is {self.bottom} and top is {self.top}: bottom must be the smaller one.")

    @classmethod
    def from_widths(
        cls, widths: Sequence[float], start: float = 0, bottom: float | None = None, top: float | None = None
    ) -> IntervalHierarchy:
        """Build from the widths of the classes on each level; see the parameters of the class."""
        return cls(widths=widths, start=start, bottom=bottom, top=top)

    @override
    @property
    def height(self) -> int:
        return len(self.edges or self.widths) + 1

    def leaves(self, value: object) -> int:
        """Return how many numbers `value` covers, in steps of the last decimal place that the edges use.

        Edges in whole numbers count whole numbers: "[20, 25)" covers 5, a number itself 1. An open class counts as
        long as the finest class beside it. Without bottom or top the root covers no finite number, and is refused.
        """
        label = self.path(value)[0]
        if _number(label) is not None:
            return 1
        low, high = _read_interval(label) or (-math.inf, math.inf)
        first, last = self._extent
        low, high = max(low, first), min(high, last)
        if math.isinf(low) or math.isinf(high):
            raise SchemaError(
                "there is no end to the numbers under the root of this hierarchy, so they cannot be counted. "
                "Give it a bottom and a top."
            )
        step = Fraction(1, 10**self._decimals)
        return math.ceil(_exact(high) / step) - math.ceil(_exact(low) / step)

    # -- classes

    def _bounds(self, x: Numbers, level: int) -> tuple[Numbers, Numbers]:
        """Return the lower and upper bound of the class of each number, on a level between 1 and height - 1."""
        if self.edges:
            edges = np.array([-np.inf, *self.edges[level - 1], np.inf])
            i = np.searchsorted(edges, x, side="right")
            return edges[i - 1], edges[i]
        width, start = self.widths[level - 1], self.start or 0
        k = np.floor((x - start) / width)
        # (0.3 - 0) / 0.1 is just under 3: compare with the edges themselves, rounded to the decimals in use
        k += x >= self._edge(k + 1, width)
        k -= x < self._edge(k, width)
        low, high = self._edge(k, width), self._edge(k + 1, width)
        if self.bottom is not None:
            below = x < self.bottom
            low = np.where(below, -np.inf, np.maximum(low, self.bottom))
            high = np.where(below, self.bottom, high)
        if self.top is not None:
            above = x >= self.top
            high = np.where(above, np.inf, np.minimum(high, self.top))
            low = np.where(above, self.top, low)
        return low, high

    def _edge(self, k: Numbers, width: float) -> Numbers:
        return np.round((self.start or 0) + k * width, self._decimals)

    @cached_property
    def _decimals(self) -> int:
        given = [*itertools.chain(*self.edges), *self.widths, self.start, self.bottom, self.top]
        exponents = [Decimal(repr(number)).as_tuple().exponent for number in given if number is not None]
        return max(0, *(-int(exponent) for exponent in exponents))

    @property
    def _extent(self) -> tuple[float, float]:
        """Where counting ends: one finest class beyond the outer edges; infinite where there is no outer edge."""
        if not self.edges:
            low = -math.inf if self.bottom is None else self.bottom - self.widths[0]
            high = math.inf if self.top is None else self.top + self.widths[0]
        else:
            edges = self.edges[0]
            gaps = [b - a for a, b in itertools.pairwise(edges)] or [10.0**-self._decimals]
            low, high = edges[0] - gaps[0], edges[-1] + gaps[-1]
        return round(low, self._decimals), round(high, self._decimals)

    def _labels(self, distinct: NDArray[Any], level: int) -> Objects:
        values = distinct.tolist()
        numbers = [_number(value) for value in values]
        labels = np.empty(len(values), dtype=object)
        found = np.array([number is not None for number in numbers], dtype=bool)
        labels[found] = self._number_labels([number for number in numbers if number is not None], level)
        labels[~found] = super()._labels(distinct[~found], level)
        return labels

    def _number_labels(self, numbers: Sequence[float], level: int) -> list[str]:
        if level == 0:
            return [number_label(number) for number in numbers]
        if level == self.height:
            return [ROOT] * len(numbers)
        low, high = self._bounds(np.array(numbers, dtype=float), level)
        names: dict[tuple[float, float], str] = {}
        return [
            names.get(c) or names.setdefault(c, _interval_label(*c))
            for c in zip(low.tolist(), high.tolist(), strict=True)
        ]

    def _path(self, value: object) -> tuple[str, ...] | None:
        number = _number(value)
        if number is not None:
            return tuple(self._number_labels([number], level)[0] for level in range(self.height + 1))
        if value == ROOT:
            return (ROOT,)
        bounds = _read_interval(value)
        if bounds is None:
            return None
        low, high = bounds
        inside = [math.nextafter(high, -math.inf) if math.isinf(low) else low]
        path = [self._number_labels(inside, level)[0] for level in range(1, self.height)]
        label = _interval_label(low, high)
        return (*path[path.index(label) :], ROOT) if label in path else None

    def _why_unknown(self, values: Sequence[object]) -> str:
        return (
            "It takes numbers, numbers as text, and its own classes such as '[20, 25)'. Look for text among the "
            "numbers, decimal commas, infinite or very large numbers, and codes for missing answers."
        )


def _interval_label(low: float, high: float) -> str:
    if math.isinf(low):
        return f"< {number_label(high)}"
    return f"≥ {number_label(low)}" if math.isinf(high) else f"[{number_label(low)}, {number_label(high)})"


def _read_interval(value: object) -> tuple[float, float] | None:
    """Return the bounds that a label names, or None if it is no label of an interval."""
    if not isinstance(value, str):
        return None
    if match := _INTERVAL.fullmatch(value):
        low, high = _number(match["low"]), _number(match["high"])
        return None if low is None or high is None else (low, high)
    if match := _OPEN.fullmatch(value):
        edge = _number(match["edge"])
        return None if edge is None else ((-math.inf, edge) if match["sign"] == "<" else (edge, math.inf))
    return None


def interval_bounds(value: object) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a value can be: a number itself, or the label of an interval.

    >>> interval_bounds("37"), interval_bounds("≥ 100"), interval_bounds("[30, 40)")[0], interval_bounds("thirties")
    ((37.0, 37.0), (100.0, inf), 30.0, None)
    """
    if (number := _number(value)) is not None:
        return float(number), float(number)
    if (bounds := _read_interval(value)) is None:
        return None
    return float(bounds[0]), bounds[1] if math.isinf(bounds[1]) else math.nextafter(bounds[1], -math.inf)


def written_bounds(value: object) -> tuple[float, float] | None:
    """Return the same of a label in the way of any program: pandas and R cut numbers into "(30, 40]".

    >>> written_bounds("(30, 40]")[1], written_bounds("[0, inf]"), written_bounds("[30, 40)") == interval_bounds("[30, 40)")
    (40.0, (0.0, inf), True)
    """
    if (bounds := interval_bounds(value)) is not None or not isinstance(value, str):
        return bounds
    if (match := _BRACKETS.fullmatch(value.strip())) is None:
        return None
    try:
        low, high = float(match["low"]), float(match["high"])
    except ValueError:
        return None
    low = math.nextafter(low, math.inf) if match["left"] == "(" and math.isfinite(low) else low
    high = math.nextafter(high, -math.inf) if match["right"] == ")" and math.isfinite(high) else high
    return (low, high) if low <= high else None


def _number(value: object) -> int | float | None:
    """Return a finite number, also from its text; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        return None
    number = value if isinstance(value, int) else float(value)
    return number if abs(number) <= _LARGEST else None  # false for NaN too


def _number_in(text: str) -> int | float | None:
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text.replace("_", "?"))  # float("1_000") is 1000
    except ValueError:
        return None


def _exact(number: float) -> Fraction:
    return Fraction(repr(number))


def _parameter(value: object, name: str) -> int | float:
    number = None if isinstance(value, str) else _number(value)
    if number is None:
        raise SchemaError(f"{name} of an interval hierarchy must be a number.")
    number = float(f"{number:.15g}")  # 3 * 0.1 means 0.3
    return int(number) if number.is_integer() else number


def _check_edges(edges: Sequence[Sequence[float]]) -> None:
    for level, here in enumerate(edges, 1):
        if not here:
            raise SchemaError(f"level {level} of the hierarchy has no edges. Leave it out: the root stands above all.")
        for left, right in itertools.pairwise(here):
            if left >= right:
                raise SchemaError(f"the edges of level {level} must rise, but {right} comes after {left}.")
    for level, (below, here) in enumerate(itertools.pairwise(edges), 2):
        if foreign := [edge for edge in here if edge not in below]:
            raise SchemaError(
                f"level {level} has the edge {foreign[0]}, which level {level - 1} does not have, so its classes "
                f"would cut classes below. Add {foreign[0]} to level {level - 1}, or take it out of level {level}."
            )


def _check_widths(widths: Sequence[float]) -> None:
    for width in widths:
        if width <= 0:
            raise SchemaError(f"a width must be greater than 0, but one is {width}.")
    for level, (below, here) in enumerate(itertools.pairwise(widths), 2):
        if (_exact(here) / _exact(below)).denominator != 1 or here == below:
            raise SchemaError(
                f"the width {here} of level {level} is not 2, 3, … times the width {below} of level {level - 1}, "
                f"so its classes would cut classes below. Take a multiple of {below}."
            )


GRAINS = ("day", "month", "quarter", "year", "decade")  # from fine to coarse; each nests in the next

_LABELS = {
    "month": re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})"),
    "quarter": re.compile(r"(?P<year>[0-9]{4})-Q(?P<quarter>[1-4])"),
    "year": re.compile(r"(?P<year>[0-9]{4})"),
    "decade": re.compile(r"(?P<year>[0-9]{3}0)s"),
}
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?|[0-9]{8}")


@dataclass(frozen=True)
class DateHierarchy(Hierarchy):
    """Dates, dates with a time, and ISO text such as "2026-11-16".

    A column that is known by month only ("2026-11") fits a hierarchy whose first level is coarser than months.

    Parameters
    ----------
    levels
        Some of day, month, quarter, year and decade, in this order.
    years
        First and last year that the hierarchy holds. Dates outside are refused, and `leaves` of the root counts
        the days of these years; narrow them if a measure compares a class with the root.

    Examples
    --------
    >>> DateHierarchy().path("2026-11-16")
    ('2026-11-16', '2026-11', '2026-Q4', '2026', '2020s', '*')
    """

    kind: ClassVar[str] = "date"
    levels: Sequence[str] = ("month", "quarter", "year", "decade")
    years: Sequence[int] = (date.min.year, date.max.year)

    def __post_init__(self) -> None:
        levels = items(self.levels, "the levels of a date hierarchy", "['month', 'year']")
        for level in levels:
            if level == "week":
                raise SchemaError(
                    "weeks cannot be a level: a week can lie in two months or two years, so weeks do not nest in the "
                    f"levels above them. The levels are: {join_names(GRAINS)}."
                )
            refuse_unknown("level", GRAINS, "the list of levels of dates", level, error=SchemaError)
        order = [GRAINS.index(level) for level in levels]
        if not order or order != sorted(set(order)):
            raise SchemaError(
                f"the levels of a date hierarchy are some of {join_names(GRAINS)}, in this order, each once."
            )
        years = items(self.years, "the years of a date hierarchy", "[1900, 2030]")
        years = tuple(whole_number(year, "a year of a date hierarchy", date.min.year) for year in years)
        if len(years) != 2 or not years[0] <= years[1] <= date.max.year:
            raise SchemaError("the years of a date hierarchy are the first and the last, such as [1900, 2030].")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "years", years)

    @override
    @property
    def height(self) -> int:
        return len(self.levels) + 1

    def leaves(self, value: object) -> int:
        """Return the number of days under `value`, among the years of the hierarchy; 1 for a date with a time."""
        self.path(value)
        first, last = date(self.years[0], 1, 1), date(self.years[1], 12, 31)
        if label_of(value) == ROOT:
            return (last - first).days + 1
        found = _read(value)
        assert found is not None  # noqa: S101 - `path` has refused what cannot be read
        grain, start = found[0], found[1]
        return (min(last, _last_day(grain, start)) - max(first, start)).days + 1

    def _labels(self, distinct: NDArray[Any], level: int) -> Objects:
        if level == 0 or distinct.dtype.kind != "M":
            return super()._labels(distinct, level)
        # a column of times has few days: above level 0 the time of day no longer matters
        days, index = np.unique(distinct.astype("datetime64[D]"), return_inverse=True)
        return super()._labels(days, level)[index]

    def _path(self, value: object) -> tuple[str, ...] | None:
        if label_of(value) == ROOT:
            return (ROOT,)
        found = _read(value)
        if found is None:
            return None
        grain, start, label = found
        if start.year > self.years[1] or _last_day(grain, start).year < self.years[0]:
            return None
        above = [g for g in self.levels if GRAINS.index(g) > GRAINS.index(grain)]
        if grain == "day" and "day" in self.levels:
            above = ["day", *above]
        # a grain that is no level is welcome only below the first one: there it is the value itself
        if grain not in self.levels and len(above) < len(self.levels):
            return None
        return (label, *(_date_label(g, start) for g in above), ROOT)

    def _why_unknown(self, values: Sequence[object]) -> str:
        return (
            f"It takes dates, ISO text such as 2026-11-16, and its own labels by {join_names(self.levels)}, "
            f"of the years {self.years[0]} to {self.years[1]}. "
            f"Look for other ways to write dates, impossible dates, and codes for missing answers."
        )


def date_bounds(value: object) -> tuple[float, float] | None:
    """Return the first and the last day that a value can be, in days since 1970: a date itself, or the label of a class.

    >>> date_bounds("1970-01"), date_bounds("1970-01-03"), date_bounds("spring")
    ((0.0, 30.0), (2.0, 2.0), None)
    """
    found = _read(value)
    if found is None:
        return None
    epoch, (grain, start, _) = date(1970, 1, 1), found
    return float((start - epoch).days), float((_last_day(grain, start) - epoch).days)


def _date_label(grain: str, day: date) -> str:
    if grain == "day":
        return day.isoformat()
    if grain == "month":
        return f"{day.year:04d}-{day.month:02d}"
    if grain == "quarter":
        return f"{day.year:04d}-Q{(day.month + 2) // 3}"
    return f"{day.year:04d}" if grain == "year" else f"{day.year // 10 * 10:04d}s"


def _last_day(grain: str, start: date) -> date:
    """Return the last day of the class that starts on `start`."""
    months = {"day": 0, "month": 1, "quarter": 3, "year": 12, "decade": 120}[grain]
    if months == 0:
        return start
    if grain == "decade":
        return date(start.year // 10 * 10 + 9, 12, 31)  # the first decade starts in year 1, not 0
    ahead = start.year * 12 + start.month - 1 + months
    return date.max if ahead // 12 > date.max.year else date(ahead // 12, ahead % 12 + 1, 1) - timedelta(days=1)


def _read(value: object) -> tuple[str, date, str] | None:
    """Return the grain of a value, its first day, and its label; None if it is neither a date nor a label."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, date):
        text = label_of(value)
        for grain, pattern in _LABELS.items():
            if match := pattern.fullmatch(text):
                return _read_date(grain, match)
        if not _ISO_DATE.fullmatch(text):
            return None
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return "day", value, value.isoformat()
    day = value.date()
    return "day", day, day.isoformat() if value.time() == time() else value.isoformat()


def _read_date(grain: str, match: re.Match[str]) -> tuple[str, date, str] | None:
    parts = match.groupdict()
    month = int(parts.get("month") or 3 * int(parts.get("quarter") or 1) - 2)
    year = int(parts["year"])
    if grain == "decade":
        year = max(year, date.min.year)
    if not (1 <= month <= 12 and year >= date.min.year):
        return None
    return grain, date(year, month, 1), match.group()
