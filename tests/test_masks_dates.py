"""Dates that move together, and ages in place of dates of birth: against slow twins and enumeration, on every engine."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from small_files import column as values

from sfumato.contract import Draws, Recipe
from sfumato.data.columns import Column
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import AgeAt, RemoveIdentifiers, ShiftDates, SuppressColumns, SuppressValues, TopCode
from sfumato.schema import Attribute, Schema

DAY = dt.timedelta(days=1)
N = 600
EPOCH = dt.date(1970, 1, 1)


def table(n: int = N) -> pa.Table:
    """Visits of people: three records each, some without a person number, with gaps among the dates."""
    g, i = np.random.default_rng(3), np.arange(n)
    person = i // 3
    born = [EPOCH + DAY * int(d) for d in g.integers(-15_000, 11_000, n // 3 + 1)]
    seen = [dt.datetime(2024, 1, 1, 8, 30) + DAY * int(d) for d in g.integers(0, 330, n)]
    return pa.table({
        "person": pa.array(person, mask=i % 30 == 4),
        "born": pa.array([born[p] for p in person], mask=i % 11 == 2),
        "seen": pa.array(seen, pa.timestamp("us"), mask=i % 13 == 3),
        "pay": i * 1.5,
    })  # fmt: skip


SCHEMA = Schema(tuple(Attribute(n, "other") for n in ("person", "born", "seen", "pay")))  # type: ignore[arg-type]


def here(n: int = N) -> Microdata:
    return Microdata(table(n), SCHEMA)


def days_moved(data: Microdata, masked: Microdata, name: str) -> list[int | None]:
    """Return by how many days each record's date moved; None where there is none."""
    pairs = zip(values(data, name), values(masked, name), strict=True)
    moved = [None if a is None and b is None else b - a for a, b in pairs]
    assert all(m is None or m % DAY == dt.timedelta(0) for m in moved)  # times of day stay
    return [None if m is None else m // DAY for m in moved]


def shifts_by_person(data: Microdata, masked: Microdata) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for name in ("born", "seen"):
        for i, (who, moved) in enumerate(zip(values(data, "person"), days_moved(data, masked, name), strict=True)):
            if moved is not None:
                found.setdefault(("alone", i) if who is None else who, set()).add(moved)
    return found


# --- shifts


def test_all_dates_of_a_person_move_by_one_number_of_days_and_other_people_by_others() -> None:
    data = here()
    mask = ShiftDates(["born", "seen"], together="person", days=40)
    found = shifts_by_person(data, mask.apply(data, Draws(1)).masked)
    assert all(len(shifts) == 1 for shifts in found.values())
    assert len({shift for shifts in found.values() for shift in shifts}) > 60  # of the 81 from -40 to 40


def test_without_a_person_number_each_record_moves_by_itself() -> None:
    data = here()
    masked = ShiftDates(["born", "seen"], days=300).apply(data, Draws(1)).masked
    born, seen = (days_moved(data, masked, name) for name in ("born", "seen"))
    assert all(a == b for a, b in zip(born, seen, strict=True) if a is not None and b is not None)
    assert len(set(born)) > 250


@pytest.mark.parametrize(
    ("settings", "possible"),
    [
        ({"days": 5}, set(range(-5, 6))),
        ({"days": 5, "zero": "never"}, set(range(-5, 6)) - {0}),
        ({"days": 20, "weekdays": "kept"}, {-14, -7, 0, 7, 14}),
        ({"days": 20, "weekdays": "kept", "zero": "never"}, {-14, -7, 7, 14}),
    ],
)
def test_shifts_are_uniform_on_the_days_that_are_allowed(settings: dict[str, Any], possible: set[int]) -> None:
    """Counts of 22,000 shifts lie within 4.5 standard errors of a multinomial distribution with equal shares."""
    n = 22_000
    data = Microdata(pa.table({"when": pa.array(np.full(n, 18_000, np.int32), pa.date32())}))
    masked = ShiftDates(["when"], **settings).apply(data, Draws(2)).masked
    moved = masked.batch().column("when").calendar_days - 18_000
    found, counts = np.unique(moved, return_counts=True)
    share = 1 / len(possible)
    assert set(found.tolist()) == possible
    assert (np.abs(counts - n * share) < 4.5 * np.sqrt(n * share * (1 - share))).all()


def test_bounds_leave_the_shifts_that_keep_all_dates_of_a_person_inside_each_equally_likely() -> None:
    """The possible shifts of one person are enumerated; draws with 600 seeds take each of them, about equally often."""
    dates = [dt.date(2024, 3, 5), dt.date(2024, 3, 20), dt.date(2024, 2, 27)]
    data = Microdata(pa.table({"person": [7, 7, 7], "when": dates}), Schema((Attribute("person"), Attribute("when"))))
    mask = ShiftDates(["when"], together="person", days=9, earliest="2024-02-24", latest="2024-03-23", zero="never")
    first, last = dt.date(2024, 2, 24), dt.date(2024, 3, 23)
    possible = [s for s in range(-9, 10) if s and all(first <= d + s * DAY <= last for d in dates)]
    drawn = [(values(mask.apply(data, Draws(seed)).masked, "when")[0] - dates[0]).days for seed in range(600)]
    counts = [drawn.count(s) for s in possible]
    assert possible == [-3, -2, -1, 1, 2, 3]
    assert sum(counts) == 600
    assert all(abs(c - 100) < 4.5 * np.sqrt(600 * 5 / 36) for c in counts)


def test_bounds_hold_for_every_released_date_and_the_release_says_for_whom_they_leave_fewer_shifts() -> None:
    data = here()
    mask = ShiftDates(["born", "seen"], together="person", days=60, latest="2024-12-05")
    made = mask.apply(data, Draws(4))
    assert max(d for d in values(made.masked, "seen") if d is not None) < dt.datetime(2024, 12, 6)
    assert all(len(shifts) == 1 for shifts in shifts_by_person(data, made.masked).values())
    latest: dict[Any, dt.date] = {}
    for i, (who, seen) in enumerate(zip(values(data, "person"), values(data, "seen"), strict=True)):
        key = i + 0.5 if who is None else who
        latest[key] = max(latest.get(key, dt.date.min), dt.date.min if seen is None else seen.date())
    room = [(dt.date(2024, 12, 5) - day).days for day in latest.values()]
    fewest, people = min(min(r, 60) + 61 for r in room), sum(r < 60 for r in room)
    assert (
        made.guarantees[-1].says == f"the bounds leave fewer shifts, at least {fewest}, to {people} values of 'person'"
    )
    assert "not after 2024-12-05" in made.guarantees[-3].says
    assert "not kept" in made.guarantees[-2].says


def test_the_release_names_dates_that_did_not_move() -> None:
    made = ShiftDates(["seen"], together="person").apply(here(), Draws(1))
    assert "not moved: born" in made.guarantees[-1].says


def test_a_person_whom_bounds_leave_no_choice_is_counted_and_refused() -> None:
    data = Microdata(pa.table({"when": [dt.date(2024, 1, 1), dt.date(2024, 6, 1), dt.date(2024, 12, 31)]}))
    with pytest.raises(DataError, match="2 records leave fewer than two shifts") as refused:
        ShiftDates(["when"], days=10, earliest="2024-05-30", latest="2024-12-31").with_(latest="2024-06-20").apply(
            data, Draws(1)
        )
    assert "2024-01-01" not in str(refused.value)
    spread = Microdata(pa.table({"person": [1, 1], "when": [dt.date(2020, 1, 1), dt.date(2024, 1, 1)]}))
    spread = spread.with_schema(spread.schema.roles(other=["person"]))
    with pytest.raises(DataError, match="1 value of 'person' leave"):
        ShiftDates(["when"], together="person", earliest="2020-01-01", latest="2024-01-01").apply(spread, Draws(1))


def test_files_of_the_same_people_move_by_the_same_shifts_with_one_seed_and_step() -> None:
    data, part = here(), Microdata(table().slice(300, 90), SCHEMA)
    mask = ShiftDates(["born", "seen"], together="person", days=200)
    whole, some = (shifts_by_person(d, mask.apply(d, Draws(6)).masked) for d in (data, part))
    known = [who for who in some if not isinstance(who, tuple)]
    assert len(known) == 30
    assert all(some[who] == whole[who] for who in known)


@pytest.mark.parametrize("rows", [2**17, 64, 7])
def test_duckdb_gives_the_same_dates_in_any_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.data.duckdb_engine._ROWS", rows)
    connection = duckdb.connect()
    connection.from_arrow(table()).create("visits")
    there = Microdata(connection.table("visits"), SCHEMA)
    mask = ShiftDates(["born", "seen"], together="person", days=60, latest="2024-12-05") >> AgeAt(["born"], at="seen")
    one, two = (mask.apply(d, Draws(5)) for d in (here(), there))
    assert one.masked.digest() == two.masked.digest()
    assert [g.says for g in one.guarantees] == [g.says for g in two.guarantees]


MOMENTS = [dt.datetime(2024, 2, 29, 23, 59, 59), None, dt.datetime(1931, 7, 1, 0, 0, 1)]
TYPES = [
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(u) for u in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "Europe/Rome"),
]


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
def test_every_type_of_date_keeps_its_type_its_time_of_day_and_its_gaps(arrow_type: pa.DataType) -> None:
    old = pa.array(
        [None if m is None else m.date() for m in MOMENTS] if pa.types.is_date(arrow_type) else MOMENTS, arrow_type
    )
    made = Column(pa.chunked_array([old])).shifted(np.array([1, 5, -366])).arrow
    assert made.type == arrow_type
    days = [1, None, -366]
    twin = [None if v is None else v.astimezone(dt.UTC) + d * DAY if getattr(v, "tzinfo", None) else v + d * DAY
            for v, d in zip(old.to_pylist(), days, strict=True)]  # fmt: skip
    assert made.to_pylist() == twin


def test_dates_that_stand_for_none_would_tell_the_shift_and_are_refused_until_they_are_missing() -> None:
    for kind, last in ((pa.date32(), dt.date(9999, 12, 31)), (pa.timestamp("ns"), dt.datetime(2262, 4, 11))):
        data = Microdata(pa.table({"until": pa.array([last.replace(year=2024), last, None], kind)}))
        with pytest.raises(DataError, match="end of the calendar"):
            ShiftDates(["until"]).apply(data, Draws(1))
        recipe = SuppressValues(["until"], where="until > '2200-01-01'") >> ShiftDates(["until"], days=10)
        assert values(recipe.apply(data, Draws(1)).masked, "until")[1] is None


def test_a_removed_person_number_can_be_kept_as_a_pseudonym_for_this_step() -> None:
    data = Microdata(table(), SCHEMA.roles(identifier="person"))
    mask = ShiftDates(["born", "seen"], together="person", days=40)
    with pytest.raises(DataError, match=r"If it is an identifier, it was removed.*pseudonyms = \['person'\]"):
        mask.apply(data, Draws(1))
    recipe = Recipe.of(RemoveIdentifiers(pseudonyms=["person"]), mask, SuppressColumns(["person"]))
    masked = recipe.apply(data, Draws(1)).masked
    assert "person" not in masked.schema
    both = {"person": values(data, "person"), **{n: values(masked, n) for n in ("born", "seen")}}
    assert all(
        len(s) == 1
        for s in shifts_by_person(data, Microdata(pa.table(both), SCHEMA.keep(lambda a: a.name != "pay"))).values()
    )


def test_dates_of_a_household_move_with_the_household_only() -> None:
    rows = pa.table({"home": [1, 1, 2], "moved": [dt.date(2020, 1, 1)] * 2 + [dt.date(2021, 1, 1)]})
    schema = Schema((Attribute("home", "household"), Attribute("moved", level="household")))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="together = 'home'"):
        ShiftDates(["moved"]).apply(Microdata(rows, schema), Draws(1))
    moved = values(ShiftDates(["moved"], together="home").apply(Microdata(rows, schema), Draws(1)).masked, "moved")
    assert moved[0] == moved[1] != dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"days": 6, "weekdays": "kept"}, "at least 7"),
        ({"together": "when"}, "cannot be moved itself"),
        ({"latest": "31.12.2024"}, "year, month and day"),
        ({"latest": "2023-02-30"}, "year, month and day"),
        ({"earliest": "2024-01-02", "latest": "2024-01-01"}, "after latest"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_at_once(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        ShiftDates(["when"], **settings)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["17.05.2024", "1.2.1990"], "written day.month.year, which are read as text: write them as 2024-05-17"),
        (["17.05.2024 08:30", None], "written day.month.year"),
        (["05/17/2024", "1/2/90"], "with slashes"),
        (["2024-05-17", "soon"], "where dates are needed. Columns of dates"),
        ([20240517, 20240518], "eight digits"),
    ],
)
def test_texts_that_look_like_dates_are_refused_with_what_to_do(texts: list[Any], says: str) -> None:
    data = Microdata(pa.table({"when": texts}))
    for mask in (ShiftDates(["when"]), AgeAt(["when"], at="2024-01-01")):
        with pytest.raises(SfumatoError, match=says) as refused:
            mask.apply(data.with_schema(data.schema.roles(other="when")), Draws(1))
        assert "1990" not in str(refused.value)


def test_a_csv_file_gives_dates_in_iso_form_and_a_sentence_for_others(tmp_path: Path) -> None:
    (tmp_path / "iso.csv").write_text("born,seen\n1980-02-29,2024-02-28 10:30:00\n,2024-06-01 08:00:00\n")
    (tmp_path / "german.csv").write_text("born,seen\n29.02.1980,28.02.2024 10:30:00\n,01.06.2024 08:00:00\n")
    mask = ShiftDates(["born", "seen"])
    masked = mask.apply(Microdata.read(tmp_path / "iso.csv"), Draws(1)).masked
    assert isinstance(values(masked, "born")[0], dt.date)
    assert values(masked, "seen")[0].time() == dt.time(10, 30)
    with pytest.raises(DataError, match=r"day\.month\.year"):
        mask.apply(Microdata.read(tmp_path / "german.csv"), Draws(1))


# --- ages


def age_by_birthdays(born: dt.date, at: dt.date) -> int:
    """Count the birthdays up to a day, one year at a time; 29 February is 1 March in years without it."""
    age, year = -1, born.year
    while True:
        try:
            birthday = born.replace(year=year)
        except ValueError:
            birthday = dt.date(year, 3, 1)
        if birthday > at:
            return age
        age, year = age + 1, year + 1


def test_ages_are_the_birthdays_that_have_passed() -> None:
    leap = [
        dt.date(1896, 2, 29),
        dt.date(1980, 2, 29),
        dt.date(2000, 2, 29),
        dt.date(2000, 2, 28),
        dt.date(1980, 12, 31),
    ]
    days = [dt.date(y, m, d) for y in (2000, 2001, 2004, 2100) for m, d in ((2, 28), (3, 1), (12, 30), (12, 31))]
    pairs = [(b, a) for b in leap for a in [*days, dt.date(2004, 2, 29), dt.date(2024, 2, 29)] if b <= a]
    g = np.random.default_rng(8)
    pairs += [(EPOCH + DAY * int(b), EPOCH + DAY * int(b + more)) for b, more in zip(
        g.integers(-30_000, 20_000, 500), g.integers(0, 40_000, 500), strict=True)]  # fmt: skip
    frame = pa.table({"born": [b for b, _ in pairs], "at": pa.array([a for _, a in pairs]).cast(pa.timestamp("ms"))})
    made = AgeAt(["born"], at="at").apply(Microdata(frame), Draws(1)).masked
    assert values(made, "born") == [age_by_birthdays(b, a) for b, a in pairs]


def test_who_was_born_on_29_february_is_a_year_older_on_1_march() -> None:
    data = Microdata(pa.table({"born": [dt.date(2000, 2, 29)]}))
    ages = [values(AgeAt(["born"], at=at).apply(data, Draws(1)).masked, "born")[0]
            for at in ("2018-02-28", "2018-03-01", "2020-02-28", "2020-02-29")]  # fmt: skip
    assert ages == [17, 18, 19, 20]


def test_the_column_holds_whole_numbers_afterwards_and_can_be_top_coded() -> None:
    data = here()
    release = (AgeAt(["born"], at="2024-12-31") >> TopCode(["born"], value=60)).apply(data, Draws(1))
    attribute = release.masked.schema["born"]
    assert (attribute.integer, attribute.unit, attribute.label) == (True, "years", "age on 2024-12-31")
    twin = [None if b is None else min(age_by_birthdays(b, dt.date(2024, 12, 31)), 60) for b in values(data, "born")]
    assert values(release.masked, "born") == twin
    again = Recipe.from_toml(release.recipe.to_toml())  # type: ignore[union-attr]
    assert again.apply(data, Draws(1)).masked.digest() == release.masked.digest()


def test_an_age_is_missing_where_one_of_the_dates_is_and_the_release_counts_it() -> None:
    data = here()
    release = AgeAt(["born"], at="seen").apply(data, Draws(1))
    born, seen, ages = (values(d, n) for d, n in ((data, "born"), (data, "seen"), (release.masked, "born")))
    assert ages == [
        None if b is None or s is None else age_by_birthdays(b, s.date()) for b, s in zip(born, seen, strict=True)
    ]
    lost = sum(b is not None and s is None for b, s in zip(born, seen, strict=True))
    assert f"missing for {lost} more records" in release.guarantees[-1].says


def test_a_birth_after_the_date_is_counted_and_refused() -> None:
    data = Microdata(pa.table({"born": [dt.date(1980, 1, 1), dt.date(2024, 5, 2), None]}))
    with pytest.raises(DataError, match="in 1 record the date in 'born' is after the date"):
        AgeAt(["born"], at="2024-05-01").apply(data, Draws(1))
    assert values(AgeAt(["born"], at="2024-05-02").apply(data, Draws(1)).masked, "born") == [44, 0, None]


def test_the_date_of_an_age_is_a_date_or_a_column_of_dates() -> None:
    data = here()
    with pytest.raises(ParameterError, match=r"neither a date such as '2026-11-16' nor a column.*Did you mean 'seen'"):
        AgeAt(["born"], at="sen").apply(data, Draws(1))
    with pytest.raises(DataError, match="'pay' holds numbers, where dates are needed"):
        AgeAt(["born"], at="pay").apply(data, Draws(1))
    with pytest.raises(ParameterError, match="is itself replaced"):
        AgeAt(["born"], at="born")


def test_a_recipe_may_hold_dates_of_toml() -> None:
    steps = "[[step]]\nmask = 'shift_dates'\ncolumns = ['seen']\nlatest = 2024-12-31\n"
    steps += "[[step]]\nmask = 'age_at'\ncolumns = ['born']\nat = 2024-12-31\n"
    assert Recipe.from_toml(steps) == ShiftDates(("seen",), latest="2024-12-31") >> AgeAt(("born",), at="2024-12-31")


def test_a_year_of_birth_that_follows_the_date_stays_only_where_the_age_tells_it() -> None:
    born = [dt.date(1980, 1, 5), dt.date(1950, 7, 7), dt.date(1951, 1, 5)]
    schema = Schema((Attribute("born"), Attribute("year", follows="born")))
    data = Microdata(pa.table({"born": born, "year": [b.year for b in born]}), schema)
    masked = AgeAt(["born"], at="2000-06-01").apply(data, Draws(1)).masked
    assert values(masked, "born") == [20, 49, 49]
    assert values(masked, "year") == [1980, None, None]
