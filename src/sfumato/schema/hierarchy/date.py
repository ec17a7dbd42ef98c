"""Dates that generalise to months, quarters, years and decades."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SchemaError, listing, unknown_name
from sfumato.schema.hierarchy.base import ROOT, Hierarchy, Labels, items, label_of, whole_number

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
                    f"levels above them. The levels are: {listing(GRAINS)}."
                )
            if level not in GRAINS:
                raise SchemaError(unknown_name("level", str(level), GRAINS, "the list of levels of dates"))
        order = [GRAINS.index(level) for level in levels]
        if not order or order != sorted(set(order)):
            raise SchemaError(
                f"the levels of a date hierarchy are some of {listing(GRAINS)}, in this order, each once."
            )
        years = items(self.years, "the years of a date hierarchy", "[1900, 2030]")
        years = tuple(whole_number(year, "a year of a date hierarchy", date.min.year) for year in years)
        if len(years) != 2 or not years[0] <= years[1] <= date.max.year:
            raise SchemaError("the years of a date hierarchy are the first and the last, such as [1900, 2030].")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "years", years)

    @property
    def height(self) -> int:
        """Level of the root."""
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

    def _labels(self, distinct: NDArray[Any], level: int) -> Labels:
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
        return (label, *(_label(g, start) for g in above), ROOT)

    def _why_unknown(self, values: Sequence[object]) -> str:
        return (
            f"It takes dates, ISO text such as 2026-11-16, and its own labels by {listing(self.levels)}, "
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


def _label(grain: str, day: date) -> str:
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
                return _read_label(grain, match)
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


def _read_label(grain: str, match: re.Match[str]) -> tuple[str, date, str] | None:
    parts = match.groupdict()
    month = int(parts.get("month") or 3 * int(parts.get("quarter") or 1) - 2)
    year = int(parts["year"])
    if grain == "decade":
        year = max(year, date.min.year)
    if not (1 <= month <= 12 and year >= date.min.year):
        return None
    return grain, date(year, month, 1), match.group()
