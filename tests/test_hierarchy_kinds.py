"""Prefixes, intervals and dates."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hierarchies import AGES, BANDS, DATES, ZIP
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import DateHierarchy, IntervalHierarchy, PrefixHierarchy

# -- prefixes


def test_a_zip_code_loses_one_digit_per_level() -> None:
    assert ZIP.path("48201") == ("48201", "4820*", "482**", "48***", "4****", "*")
    assert ZIP.height == 5


def test_every_prefix_length_exists_so_one_common_digit_is_a_weak_change() -> None:
    # errata 4.17: (48201, 49301) share one digit, so they meet below the root; (48202, 88202) do not
    assert ZIP.common("48201", "48301") == "48***"
    assert ZIP.common("48201", "49301") == "4****"
    assert ZIP.common("48202", "88202") == "*"


@pytest.mark.parametrize("value", [501, 501.0, "501", "00501", np.int32(501), Decimal("501")])
def test_numbers_are_padded_with_zeros(value: object) -> None:
    assert ZIP.path(value)[:2] == ("00501", "0050*")


def test_generalised_codes_stand_on_their_own_level() -> None:
    assert ZIP.path("482**") == ("482**", "48***", "4****", "*")
    assert ZIP.path("482*") == ZIP.path("482**")
    assert ZIP.path("*****") == ZIP.path("*") == ("*",)
    assert ZIP.level_of("4****") == 4
    assert ZIP.contains("482**", "48201")
    assert not ZIP.contains("482**", "48301")


def test_only_the_kept_lengths_are_levels() -> None:
    h = PrefixHierarchy(4, keep=[3, 1], fill=".", alphabet=36)
    assert h.path("AB12") == ("AB12", "AB1.", "A...", "*")
    assert h.path("AB1.") == ("AB1.", "A...", "*")
    with pytest.raises(SchemaError):
        h.path("AB..")
    assert PrefixHierarchy(1).path(7) == ("7", "*")


def test_leaves_of_a_prefix_count_the_codes_that_could_exist() -> None:
    assert [ZIP.leaves(v) for v in ZIP.path("48201")] == [1, 10, 100, 1_000, 10_000, 100_000]
    assert PrefixHierarchy(2, alphabet=36).leaves("A*") == 36


def test_a_code_that_is_too_long_is_refused_with_the_length() -> None:
    with pytest.raises(SchemaError, match="1 of them have more than 5 characters") as caught:
        ZIP.generalise(["48201-1234", "48201", "ABC"], 1)
    assert "48201" not in str(caught.value)


@pytest.mark.parametrize("value", [True, -1, 4.5, "4*201", "ABC", "", " ", "*4820", "482***"])
def test_what_is_no_code_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        ZIP.path(value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"length": 0}, "length of a prefix hierarchy must be a whole number, at least 1"),
        ({"length": "5"}, "whole number"),
        ({"length": True}, "whole number"),
        ({"length": 5, "keep": [5, 3]}, "stay under the length 5"),
        ({"length": 5, "keep": [2, 3]}, "must fall from level to level"),
        ({"length": 5, "keep": [3, 3]}, "must fall from level to level"),
        ({"length": 5, "keep": [0]}, "at least 1"),
        ({"length": 5, "keep": 3}, "keep must be a list"),
        ({"length": 5, "fill": "0"}, "neither a letter, a digit nor a space"),
        ({"length": 5, "fill": "**"}, "one sign"),
        ({"length": 5, "alphabet": 1}, "at least 2"),
    ],
)
def test_wrong_parameters_of_a_prefix_hierarchy_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        PrefixHierarchy(**parameters)


# -- intervals


def test_an_age_falls_into_wider_and_wider_bands() -> None:
    assert AGES.path(22) == ("22", "[20, 25)", "[20, 30)", "[20, 40)", "*")
    assert AGES.path("22.50")[:2] == ("22.5", "[20, 25)")
    assert AGES.height == 4


def test_edges_belong_to_the_class_on_their_right() -> None:
    assert AGES.generalise([0, 5, 4.999, 99.9], 1).tolist() == ["[0, 5)", "[5, 10)", "[0, 5)", "[95, 100)"]


def test_values_outside_the_outer_edges_fall_into_open_classes() -> None:
    assert AGES.path(-3) == ("-3", "< 0", "< 0", "< 0", "*")
    assert AGES.path(100) == ("100", "≥ 100", "≥ 100", "≥ 100", "*")
    assert BANDS.path(70) == ("70", "≥ 65", "≥ 65", "≥ 18", "*")
    assert BANDS.path(12) == ("12", "[10, 18)", "< 18", "< 18", "*")
    assert BANDS.path(20) == ("20", "[18, 40)", "[18, 65)", "≥ 18", "*")


def test_without_bottom_and_top_the_bands_go_on_for_ever() -> None:
    h = IntervalHierarchy.from_widths([10, 100], start=5)
    assert h.path(4) == ("4", "[-5, 5)", "[-95, 5)", "*")
    assert h.path(1_000_005)[1:3] == ("[1000005, 1000015)", "[1000005, 1000105)")
    with pytest.raises(SchemaError, match="Give it a bottom and a top"):
        h.leaves("*")
    assert h.leaves("[-95, 5)") == 100


def test_bands_are_cut_at_bottom_and_top() -> None:
    h = IntervalHierarchy.from_widths([5, 20], bottom=3, top=90)
    assert h.path(4) == ("4", "[3, 5)", "[3, 20)", "*")
    assert h.path(88) == ("88", "[85, 90)", "[80, 90)", "*")
    assert h.path("[80, 90)") == ("[80, 90)", "*")


def test_classes_are_read_back_from_their_labels() -> None:
    assert AGES.path("[20, 30)") == ("[20, 30)", "[20, 40)", "*")
    assert AGES.path("[20,30)") == AGES.path("[20, 30)")
    assert AGES.path(">= 100") == ("≥ 100", "≥ 100", "≥ 100", "*")
    assert AGES.level_of("< 0") == 1
    assert AGES.contains("[20, 40)", "[20, 25)")
    assert not AGES.contains("[20, 25)", "[20, 40)")
    assert AGES.common("[20, 25)", 39) == "[20, 40)"
    mixed = AGES.generalise([22, "[20, 25)", "[20, 40)", "37", "*", None], 2)
    assert mixed.tolist() == ["[20, 30)", "[20, 30)", "[20, 40)", "[30, 40)", "*", None]


@pytest.mark.parametrize(
    "value", ["[20, 26)", "[21, 30)", "< 5", "≥ 50", "[20, 30]", "[a, b)", "1_000", "1,5", True, 1e300, math.inf]
)
def test_what_is_neither_a_number_nor_a_class_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        AGES.path(value)


@given(
    st.integers(-2_000, 2_000),
    st.sampled_from(["0.1", "0.05", "0.7", "2.5", "3"]),
    st.sampled_from(["0", "0.3", "-1.15"]),
)
def test_decimal_bands_agree_with_exact_fractions(k: int, width: str, start: str) -> None:
    w, s, x = Fraction(width), Fraction(start), Fraction(k, 100)
    low = s + (x - s) // w * w
    h = IntervalHierarchy.from_widths([float(width), 3 * float(width)], start=float(start))
    label = h.path(float(x))[1]
    a, b = (Fraction(part.strip()) for part in label[1:-1].split(","))
    assert (a, b) == (low, low + w)


def test_leaves_of_intervals_count_numbers_in_steps_of_the_last_decimal_place() -> None:
    assert [AGES.leaves(v) for v in AGES.path(22)] == [1, 5, 10, 20, 110]
    assert AGES.leaves("< 0") == AGES.leaves("≥ 100") == 5
    assert BANDS.leaves("[18, 65)") == 47
    assert BANDS.leaves("< 18") == 10 + 10 + 8
    assert BANDS.leaves("*") == BANDS.leaves("< 18") + BANDS.leaves("≥ 18")
    assert IntervalHierarchy.from_widths([0.5, 1.5]).leaves("[0, 1.5)") == 15
    assert IntervalHierarchy([[0.1, 0.3]]).leaves("*") == 2 + 2 + 2
    assert IntervalHierarchy([[18]]).leaves("*") == 2


edge_lists = st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True)


@given(edge_lists, st.data())
def test_the_leaves_of_an_interval_are_those_of_the_intervals_in_it(edges: list[int], data: st.DataObject) -> None:
    coarse = data.draw(st.lists(st.sampled_from(edges), min_size=1, unique=True))
    h = IntervalHierarchy([sorted(edges), sorted(coarse)])
    points = [min(edges) - 1, *edges]  # one number in every class of level 1
    fine = {h.path(x)[1]: h.path(x)[2] for x in points}
    for label in set(fine.values()):
        assert h.leaves(label) == sum(h.leaves(below) for below, above in fine.items() if above == label)
    assert h.leaves("*") == sum(h.leaves(label) for label in fine)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "either edges or widths"),
        ({"edges": [[1]], "widths": [1]}, "either edges or widths"),
        ({"edges": [0, 10]}, "one list for each level"),
        ({"edges": [[0, 10], [0, 15]]}, "level 2 has the edge 15, which level 1 does not have"),
        ({"edges": [[0, 10, 10]]}, "level 1 must rise, but 10 comes after 10"),
        ({"edges": [[0, 10], []]}, "level 2 of the hierarchy has no edges"),
        ({"edges": [[0, "x"]]}, "must be a number"),
        ({"edges": [[0, math.inf]]}, "must be a number"),
        ({"edges": [[0, 10]], "top": 5}, "top goes with widths"),
        ({"widths": [5, 12]}, "width 12 of level 2 is not 2, 3, … times the width 5 of level 1"),
        ({"widths": [5, 5]}, "width 5 of level 2"),
        ({"widths": [0]}, "greater than 0"),
        ({"widths": 5}, "widths must be a list"),
        ({"widths": [5], "bottom": 10, "top": 10}, "bottom must be the smaller one"),
    ],
)
def test_intervals_that_do_not_nest_are_refused_with_the_reason(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        IntervalHierarchy(**parameters)


def test_decimal_widths_that_nest_in_decimals_are_accepted() -> None:
    expected = ("0.3", "[0.3, 0.4)", "[0.3, 0.6)", "*")
    assert IntervalHierarchy.from_widths([0.1, 0.3]).path(0.3) == expected
    tenths = [i * 0.1 for i in range(11)]  # the float 3 * 0.1 is not 0.3
    assert IntervalHierarchy([tenths, tenths[::3]]).path(0.3) == expected


# -- dates


def test_a_date_falls_into_month_quarter_year_and_decade() -> None:
    expected = ("2026-11-16", "2026-11", "2026-Q4", "2026", "2020s", "*")
    midnight = datetime(2026, 11, 16)
    given_as = [
        "2026-11-16",
        "20261116",
        20261116,
        midnight.date(),
        midnight,
        pd.Timestamp(midnight),
        np.datetime64(midnight),
    ]
    for value in given_as:
        assert DATES.path(value) == expected
    assert DATES.generalise(pd.Series([midnight, None]), 2).tolist() == ["2026-Q4", None]
    assert DATES.generalise(np.array(["2026-11-16", "NaT"], "datetime64[ns]"), 3).tolist() == ["2026", None]


@pytest.mark.parametrize("levels", [["day", "month"], ["quarter", "decade"]])
def test_a_column_of_times_generalises_like_its_values_one_by_one(levels: list[str]) -> None:
    h = DateHierarchy(levels, years=[1960, 2030])
    times = pd.Series(pd.date_range("1969-12-30 22:15", "1970-01-02", freq="97min"))
    for level in range(h.height + 1):
        assert h.generalise(times, level).tolist() == [h.path(t)[level] for t in times]
    with pytest.raises(SchemaError, match="2 distinct values are not in this hierarchy"):
        h.generalise(pd.Series(pd.to_datetime(["1959-12-31 10:00", "1959-12-31 11:00", "1970-01-01 00:00"])), 1)


def test_a_date_with_a_time_keeps_it_on_level_0_only() -> None:
    h = DateHierarchy(["day", "year"])
    assert h.path("2026-11-16 13:45") == ("2026-11-16T13:45:00", "2026-11-16", "2026", "*")
    assert h.path(date(2026, 11, 16)) == ("2026-11-16", "2026-11-16", "2026", "*")
    assert h.contains("2026-11-16", datetime(2026, 11, 16, 13, 45))


@pytest.mark.parametrize(("month", "quarter"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (9, 3), (10, 4), (12, 4)])
def test_quarters_hold_three_months(month: int, quarter: int) -> None:
    assert DATES.path(date(2000, month, 1))[2] == f"2000-Q{quarter}"
    assert DATES.contains(f"2000-Q{quarter}", f"2000-{month:02d}")


def test_general_dates_stand_on_their_own_level() -> None:
    assert DATES.path("2026-Q4") == ("2026-Q4", "2026", "2020s", "*")
    assert DATES.path(2026) == ("2026", "2020s", "*")
    assert DATES.level_of("2020s") == 4
    assert DATES.common("2026-01-31", "2026-03-01") == "2026-Q1"
    assert DATES.common("2019-12-31", "2020-01-01") == "*"


def test_a_column_known_by_month_can_start_there() -> None:
    h = DateHierarchy(["quarter", "year"])
    assert h.path("2026-11") == ("2026-11", "2026-Q4", "2026", "*")
    with pytest.raises(SchemaError):
        DateHierarchy(["month", "year"]).path("2026-Q4")


def test_leaves_of_dates_count_days() -> None:
    assert [DATES.leaves(v) for v in ("2024-02-29", "2024-02", "2024-Q1", "2024", "2020s")] == [1, 29, 91, 366, 3653]
    assert DateHierarchy(years=[2023, 2024]).leaves("*") == 365 + 366
    assert DateHierarchy(years=[2023, 2024]).leaves("2020s") == 365 + 366
    assert DATES.leaves("9999-12") == 31
    assert DATES.leaves("0000s") == 9 * 365 + 2  # years 1 to 9, of which 4 and 8 are leap years


def test_dates_outside_the_years_are_refused() -> None:
    h = DateHierarchy(years=[1990, 2030])
    with pytest.raises(SchemaError, match=r"2 distinct values are not in this hierarchy.*of the years 1990 to 2030"):
        h.generalise([date(1989, 12, 31), date(2031, 1, 1), date(1990, 1, 1)], 1)


@pytest.mark.parametrize(
    "value", ["2026-13-01", "2026-02-30", "16.11.2026", "2026-W46", "2026-W46-1", "2026-13", "0000", 7, True]
)
def test_what_is_no_date_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        DATES.path(value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"levels": ["week", "year"]}, "weeks do not nest"),
        ({"levels": ["moth"]}, "Did you mean 'month'"),
        ({"levels": ["year", "month"]}, "in this order"),
        ({"levels": ["year", "year"]}, "each once"),
        ({"levels": []}, "some of day, month"),
        ({"levels": "year"}, "must be a list"),
        ({"years": [2030, 1990]}, "the first and the last"),
        ({"years": [1990]}, "the first and the last"),
        ({"years": [0, 1990]}, "at least 1"),
    ],
)
def test_wrong_levels_of_dates_are_refused_with_the_reason(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        DateHierarchy(**parameters)
