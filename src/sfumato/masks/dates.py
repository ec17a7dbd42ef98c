"""Dates: moved by one keyed number of days for all dates of a person, or replaced by the age at a date."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, learned, param
from sfumato.data import Column, Kind
from sfumato.data.microdata import Batch, Microdata, missing_of
from sfumato.errors import DataError, ParameterError, did_you_mean, join_names, plural
from sfumato.schema import Attribute, Level, Scale, Schema
from sfumato.typing import Flags, Whole

_EPOCH = datetime.date(1970, 1, 1)
_EXAMPLE = "'2026-11-16'"
_SOME = 1_000
"""Texts that are looked at to say how their dates are written."""
_WRITTEN = {
    r"\d{4}-\d\d-\d\d([T ].*)?": "Its texts look like dates in ISO form: turn them into dates (pandas.to_datetime) before.",
    r"\d{1,2}[.]\d{1,2}[.](\d\d|\d{4})( .+)?": "Its texts look like dates written day.month.year, which are read as text",
    r"\d{1,2}[/]\d{1,2}[/](\d\d|\d{4})( .+)?": "Its texts look like dates with slashes, day or month first, which are read as text",
    r"\d{1,2}-\d{1,2}-(\d\d|\d{4})( .+)?": "Its texts look like dates with the year last, which are read as text",
    r"\d{4}[./]\d{1,2}[./]\d{1,2}( .+)?": "Its texts look like dates with points or slashes, which are read as text",
    r"\d{8}": "Its values look like dates written in eight digits, which are no dates to a reader of files",
}
_FORWARD = ": write them as 2024-05-17 in the file, or turn them into dates before (pandas.to_datetime with the format they have)."


def days_of(text: object, what: str) -> int:
    """Return a date in days since 1970, from ISO text or Python's date."""
    if isinstance(text, datetime.date) and not isinstance(text, datetime.datetime):
        return (text - _EPOCH).days
    try:
        day = datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", str(text)) else None  # type: ignore[arg-type]
    except ValueError:  # the thirtieth of February
        day = None
    if day is None:
        raise ParameterError(f"{what} must be a date as year, month and day, such as {_EXAMPLE}.")
    return (day - _EPOCH).days


def check_date_columns(data: Microdata, names: Iterable[str]) -> None:
    """Refuse a column that holds no dates; say how its texts are written where they look like dates."""
    for name in names:
        if (kind := data.kind(name)) is Kind.DATE:
            continue
        if kind is Kind.OTHER and data.engine.count() == data.batch([name]).column(name).null.sum():
            raise DataError(f"column '{name}' has no values at all, so it holds no dates. Leave it out.")
        others = [n for n, k in data.engine.kinds.items() if k is Kind.DATE]
        raise DataError(
            f"column '{name}' holds {kind}, where dates are needed.{_how_written(data, name)} "
            f"Columns of dates: {join_names(others)}."
        )


def _how_written(data: Microdata, name: str) -> str:
    rows = next(iter(data.engine.batches([name])), None)
    if rows is None or data.kind(name) not in (Kind.CATEGORY, Kind.NUMBER):
        return ""
    some = rows.columns[name].take(np.flatnonzero(~rows.columns[name].missing)[:_SOME])
    texts = [f"{v:.0f}" if isinstance(v, float) else str(v).strip() for v in some.codes[1]]
    for pattern, says in _WRITTEN.items():
        if texts and all(re.fullmatch(pattern, text) for text in texts):
            return f" {says}{'' if says.endswith('.') else _FORWARD}"
    return ""


# --- Shifts


class ShiftDates(Mask):
    """Move all dates of a person by one random number of days: intervals between them stay as they were.

    The shift is uniform on the whole numbers from −days to days, and keyed: it depends on the seed, the step's name and the
    value of `together`, so that other files with the same seed, step and person numbers are moved by the same shifts. Times of
    day stay. Bounds restrict a person's shifts to those that keep all of their dates inside, which is the distribution of
    shifts drawn again until they do. Date shifting as in Hripcsak et al. (2016), Preserving temporal relations in clinical
    data while maintaining privacy, J. Am. Med. Inform. Assoc. 23, 1040-1045.
    """

    no_matrix: ClassVar[str] = "dates are no numbers"

    columns: tuple[str, ...] = param(doc="columns of dates, all of which move together", columns="many", holds="dates")
    together: str | None = param(
        default=None,
        doc="column whose equal values move together, such as a person or household number; each record by itself if none",
        columns="one",
        holds="categories",
    )
    days: int = param(default=365, doc="largest shift, in days", low=1, high=36_525, integer=True, scale="log")
    zero: Literal["possible", "never"] = param(default="possible", doc="whether a shift may be 0 days")
    weekdays: Literal["change", "kept"] = param(
        default="change", doc="kept: shifts are whole weeks, so that the day of the week stays"
    )
    earliest: str | None = param(default=None, doc="no date before this one is released, such as '1900-01-01'")
    latest: str | None = param(default=None, doc="no date after this one is released, such as the day of the release")
    limits: Any = learned("columns", "together", "days", "zero", "weekdays", "earliest", "latest", default=None)
    """Units that bounds restrict, sorted, with their smallest and largest shift; shape (u,) each."""

    @override
    def validate(self) -> None:
        if self.together is not None and self.together in self.columns:
            raise ParameterError(f"'{self.together}' says whose dates move together, so it cannot be moved itself.")
        if self.weekdays == "kept" and self.days < 7:
            raise ParameterError("days of shift_dates must be at least 7 if weekdays are kept: shifts are whole weeks.")
        for name in ("earliest", "latest"):
            if (text := getattr(self, name)) is not None:
                days_of(text, f"{name} of {self.name}")
                object.__setattr__(self, name, str(text))
        if self.earliest is not None and self.latest is not None and self.earliest > self.latest:
            raise ParameterError(f"earliest of {self.name} is after latest. Exchange them.")

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return (*self.columns, *([] if self.together is None else [self.together]))

    def fit(self, data: Microdata, draws: Draws) -> ShiftDates:
        """Learn which persons the bounds restrict; refuse those whom they leave no choice of a shift."""
        self._check(data)
        found: list[tuple[Whole, Whole, Whole]] = []
        for rows in data.engine.batches(self.touches(data.schema)):
            batch = Batch(rows, data.schema)
            _check_calendar(batch, self.columns, self.days)
            low, high = self._own_limits(batch)
            bound = (low > -self.days) | (high < self.days)
            found.append((self._units(batch)[bound], low[bound], high[bound]))
        units, low, high = (np.concatenate([one[i] for one in found] or [np.zeros(0, np.int64)]) for i in range(3))
        order = np.argsort(units, kind="stable")
        units, first = np.unique(units[order], return_index=True)
        if len(units):
            low, high = np.maximum.reduceat(low[order], first), np.minimum.reduceat(high[order], first)
        if stuck := int((self._choices(low, high)[0] < 2).sum()):
            raise DataError(
                f"the dates of {self._counted(stuck)} leave fewer than two shifts that keep them within the bounds (earliest, "
                "latest). Widen the bounds, or suppress these dates before (suppress_values)."
            )
        none = np.zeros(0, np.int64)
        return self.learn(limits=(none, none, none) if self.together is None else (units, low, high))

    def _check(self, data: Microdata) -> None:
        if self.together is not None and self.together not in data.schema:
            raise DataError(
                f"column '{self.together}' is not in the data.{did_you_mean(self.together, data.schema.names())} If it is an "
                "identifier, it was removed: keep it as a pseudonym in the step 'identifiers' (pseudonyms = "
                f"['{self.together}']), and leave it out after this step (suppress_columns)."
            )
        check_date_columns(data, self.columns)
        home = data.schema.one("household")
        shared = [n for n in self.columns if data.schema[n].level is Level.HOUSEHOLD]
        if home is not None and shared and self.together != home:
            raise DataError(
                f"{join_names(shared)} describes the household, so its members must move together: use together = '{home}', or "
                "set level = 'person' in the schema."
            )

    def _counted(self, count: int) -> str:
        """Return a number of those whose dates move together, in words."""
        return plural(count) if self.together is None else f"{plural(count, 'value')} of '{self.together}'"

    def _units(self, batch: Batch) -> Whole:
        """Return what each record's shift is keyed with; a record without a person number stands for itself."""
        if self.together is None:
            return batch.ids
        number = batch.column(self.together)
        return np.where(missing_of(number, batch.schema[self.together]), batch.ids, number.hashes)

    def _own_limits(self, batch: Batch) -> tuple[Whole, Whole]:
        """Return the smallest and the largest shift that keep the dates of each record within the bounds, shape (n,)."""
        low, high = (np.full(len(batch), sign * self.days, np.int64) for sign in (-1, 1))
        for column in (batch.column(name) for name in self.columns):
            if self.earliest is not None:
                room = days_of(self.earliest, "earliest") - column.calendar_days
                low = np.where(column.null, low, np.maximum(low, room))
            if self.latest is not None:
                room = days_of(self.latest, "latest") - column.calendar_days
                high = np.where(column.null, high, np.minimum(high, room))
        return low, high

    def _choices(self, low: Whole, high: Whole) -> tuple[Whole, Whole, Flags]:
        """Return how many shifts are possible, the smallest in its step (a day or a week), and whether 0 is left out."""
        step = 7 if self.weekdays == "kept" else 1
        first, last = -(-low // step), high // step
        skip = (self.zero == "never") & (first <= 0) & (last >= 0)
        return last - first + 1 - skip, first, skip

    def shifts(self, batch: Batch, draws: Draws) -> Whole:
        """Return the days by which each record's dates are moved, shape (n,)."""
        units = self._units(batch)
        low, high = self._limits_of(batch, units)
        count, first, skip = self._choices(low, high)
        step = first + np.floor(draws.uniforms(units, "shift") * count).astype(np.int64)
        return (step + (skip & (step >= 0))) * (7 if self.weekdays == "kept" else 1)

    def _limits_of(self, batch: Batch, units: Whole) -> tuple[Whole, Whole]:
        if self.together is None:
            return self._own_limits(batch)
        bound, low, high = self.limits
        at = np.searchsorted(bound, units)
        hit = np.zeros(len(units), bool) if not len(bound) else bound[np.minimum(at, len(bound) - 1)] == units
        at = np.where(hit, at, 0)
        if not len(bound):
            low, high = np.array([-self.days]), np.array([self.days])
        return np.where(hit, low[at], -self.days), np.where(hit, high[at], self.days)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Move the dates of each record."""
        shifts = self.shifts(batch, draws)
        return batch.with_columns({name: batch.column(name).shifted(shifts) for name in self.columns})

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterable[Guarantee]:
        """Verify that every person's dates moved by one number of days, which is allowed, and say what is not kept."""
        names = self.touches(before.schema)
        old, new = (b.keep(np.argsort(b.ids, kind="stable")) for b in (before.batch(names), after.batch(names)))
        distinct, place = np.unique(self._units(old), return_inverse=True)
        moved, dated = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), bool)
        for name in self.columns:
            was, now = old.column(name), new.column(name)
            known = ~(was.null | now.null)
            moved[place[known]] = (now.calendar_days - was.calendar_days)[known]
            dated[place[known]] = True
        same = all(old.column(n).shifted(moved[place]).equals(new.column(n)) for n in self.columns)
        if not same or not self._allowed(new, moved[dated]):
            raise DataError(
                "the dates were not moved as the method says, as when it was fitted to other records; nothing is released."
            )
        yield from self._said(before, old, place, step)

    def _allowed(self, new: Batch, moved: Whole) -> bool:
        low, high = self._own_limits(new)  # a date that is inside leaves a shift of 0 days
        inside = bool(((low <= 0) & (high >= 0)).all())
        weeks = self.weekdays == "change" or not (moved % 7).any()
        near = not (np.abs(moved) > self.days).any()
        return inside and weeks and near and (self.zero == "possible" or bool(moved.all()))

    def _said(self, before: Microdata, old: Batch, place: Whole, step: str) -> Iterable[Guarantee]:
        whose = "each record" if self.together is None else f"all records with one value of '{self.together}'"
        weeks = self.weekdays == "kept"
        kept = "intervals between them" + (", times of day and days of the week" if weeks else " and times of day")
        bounds = [f"not before {self.earliest}"] * (self.earliest is not None)
        bounds += [f"not after {self.latest}"] * (self.latest is not None)
        within = f"; released dates are {' and '.join(bounds)}" if bounds else ""
        yield Guarantee(
            step,
            f"{join_names(self.columns)}: the dates of {whose} are moved by one number of days, at most {self.days:,}; {kept} are "
            f"those of the original, and missing dates stay missing{within}",
            "every date of the original moved by the days of its record or person, and compared with the released one",
        )
        left = [n for n, kind in before.engine.kinds.items() if kind is Kind.DATE and n not in self.columns]
        others = "two records" if self.together is None else f"two values of '{self.together}'"
        apart = f"; not moved: {join_names(left)}" if left else ""
        yield Guarantee(
            step,
            f"not kept: the dates themselves, seasons and ages, and which of two dates of {others} is the earlier. Who knows one "
            f"true date can work out the others that moved with it{apart}",
            "it follows from the method",
        )
        low, high = self._own_limits(old)
        first, last = np.full(place.max(initial=-1) + 1, -self.days), np.full(place.max(initial=-1) + 1, self.days)
        np.maximum.at(first, place, low)
        np.minimum.at(last, place, high)
        tight = (first > -self.days) | (last < self.days)
        if tight.any():
            fewest = int(self._choices(first[tight], last[tight])[0].min())
            says = f"the bounds leave fewer shifts, at least {fewest:,}, to {self._counted(int(tight.sum()))}"
            yield Guarantee(step, says, "possible shifts counted for each")


def _check_calendar(batch: Batch, names: Iterable[str], days: int) -> None:
    """Refuse dates at the ends of the calendar, such as 9999-12-31 for "open": they are no dates, and would tell the shift."""
    for name in names:
        column = batch.column(name)
        first, last = column.first_and_last_day
        known = column.calendar_days[~column.null]
        if ((known < first + days) | (known > last - days)).any():
            raise DataError(
                f"column '{name}' has dates at the end of the calendar, such as 9999-12-31, which stand for 'none' or "
                "'open': moved, they would tell everybody's shift. Make them missing in a step before (suppress_values, "
                f"where = \"{name} > '9000-01-01'\")."
            )


# --- Ages


class AgeAt(Mask):
    """Replace a date of birth by the age at a date, in whole years.

    Somebody is a year older on the day of the year on which they were born; who was born on 29 February, on 1 March in years
    without that day. The column keeps its name and holds whole numbers. Combine it with `TopCode` for high ages.
    """

    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "dates are no numbers"

    columns: tuple[str, ...] = param(doc="columns of dates of birth", columns="many", holds="dates")
    at: str = param(
        doc="the date at which the age is counted, such as '2026-11-16', or a column of dates",
        columns="one",
        holds="dates",
    )

    @override
    def check_parameters(self) -> None:
        at: object = self.at
        if isinstance(at, datetime.date):  # TOML has dates of its own
            object.__setattr__(self, "at", at.isoformat())
        super().check_parameters()

    @override
    def validate(self) -> None:
        if self.at in self.columns:
            raise ParameterError(f"'{self.at}' is itself replaced by an age: name another column, or a date, in at.")

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return (*self.columns, *([self.at] if self.at in schema else []))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with whole numbers of years in place of dates."""
        for name in self.columns:
            schema[name]  # an unknown name is refused, and the nearest one suggested
        shared = self.at not in schema or schema[self.at].level is Level.HOUSEHOLD
        where = f"on the date in '{self.at}'" if self.at in schema else f"on {self.at}"

        def aged(a: Attribute) -> Attribute:
            return a.with_(
                scale=Scale.ORDERED, hierarchy=None, bounds=(0, None), integer=True, missing=(), values={}, labels={},
                unit="years", label=f"age {where}" + (f" ({a.label})" if a.label else ""),
                level=a.level if shared else Level.PERSON,
            )  # fmt: skip

        return Schema(tuple(aged(a) if a.name in self.columns else a for a in schema))

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Replace the dates; refuse births after the date at which the age is counted."""
        names = self.touches(data.schema)
        check_date_columns(data, names)
        self._day(data.schema)
        for name in self.columns:
            late = sum(int((self._ages(Batch(r, data.schema), name)[0] < 0).sum()) for r in data.engine.batches(names))
            if late:
                raise DataError(
                    f"in {plural(late)} the date in '{name}' is after the date at which the age is counted ({self.at}). Correct "
                    "them, or make them missing before (suppress_values)."
                )
        return super().run(data, draws, function)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Replace each date by the age."""
        made = {}
        for name in self.columns:
            ages, gap = self._ages(batch, name)
            made[name] = Column.from_numbers(ages.astype(np.float64), gap, integer=True)
        return batch.with_columns(made)

    def _day(self, schema: Schema) -> int | None:
        """Return the date at which the age is counted, in days since 1970; None if it stands in a column."""
        if self.at in schema:
            return None
        try:
            return days_of(self.at, "at")
        except ParameterError:
            raise ParameterError(
                f"at of {self.name} is '{self.at}', which is neither a date such as {_EXAMPLE} nor a column of the data."
                f"{did_you_mean(self.at, schema.names())}"
            ) from None

    def _ages(self, batch: Batch, name: str) -> tuple[Whole, Flags]:
        """Return the ages, 0 where they are missing, and where that is, shape (n,) each."""
        born = batch.column(name)
        day, gap = self._day(batch.schema), born.null
        if day is None:
            gap = gap | batch.column(self.at).null
        now = batch.column(self.at).calendar_days if day is None else np.full(len(batch), day, np.int64)
        (year, *rest), (year_now, *rest_now) = _calendar(born.calendar_days), _calendar(now)
        before = rest_now[0] * 32 + rest_now[1] < rest[0] * 32 + rest[1]
        return np.where(gap, 0, year_now - year - before), gap

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterable[Guarantee]:
        """Verify every age by the two birthdays between which the date lies, and say how many more are missing."""
        names = self.touches(before.schema)
        old, new = (b.keep(np.argsort(b.ids, kind="stable")) for b in (before.batch(names), after.batch(self.columns)))
        where = f"on the date in '{self.at}'" if self.at in before.schema else f"on {self.at}"
        for name in self.columns:
            gap = self._ages(old, name)[1]
            ages, born = new.numbers(name), old.column(name).calendar_days[~gap]
            day = self._day(old.schema)
            now = old.column(self.at).calendar_days[~gap] if day is None else np.int64(day)
            held = ages[~gap].astype(np.int64) if not np.isnan(ages[~gap]).any() else np.full(len(born), -1)
            right = (_birthday(born, held) <= now) & (now < _birthday(born, held + 1)) & (held >= 0)
            if not (right.all() and np.isnan(ages[gap]).all()):
                raise DataError(f"some ages in '{name}' are not those of the dates of birth; nothing is released.")
            more = int((gap & ~old.column(name).null).sum())
            lost = f"; missing for {plural(more, 'more record')}, where that date is missing" if more else ""
            says = f"{name}: the age {where} in whole years; no date of birth is in this column{lost}"
            yield Guarantee(step, says, "each age checked by the two birthdays between which the date lies")


def _calendar(days: Whole) -> tuple[Whole, Whole, Whole]:
    """Return year, month and day of days since 1970, shape (n,) each."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    count = months.astype(np.int64)
    return 1970 + count // 12, count % 12 + 1, (dates - months).astype(np.int64) + 1


def _birthday(born: Whole, years: Whole) -> Whole:
    """Return the day, in days since 1970, on which somebody becomes that many years old; 29 February is followed by 1 March."""
    dates = born.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    later = (months + 12 * years).astype("datetime64[D]") + (dates - months)
    found: Whole = later.astype(np.int64)
    return found
