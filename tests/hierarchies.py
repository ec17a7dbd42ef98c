"""A hierarchy of each kind, and values that it knows."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import strategies as st

from sfumato.schema import DateHierarchy, Hierarchy, IntervalHierarchy, PrefixHierarchy, TreeHierarchy

WORK = TreeHierarchy(
    [
        ["nurse", "carer", "health", "*"],
        ["midwife", "carer", "health", "*"],
        ["surgeon", "doctor", "health", "*"],
        ["farmer", "farmer", "other", "*"],
        ["fisher", "fisher", "other", "*"],
    ]
)
ZIP = PrefixHierarchy(5)
AGES = IntervalHierarchy.from_widths([5, 10, 20], bottom=0, top=100)
BANDS = IntervalHierarchy([[0, 10, 18, 40, 65], [18, 65], [18]])
DATES = DateHierarchy()
KINDS: dict[str, Hierarchy] = {"tree": WORK, "prefix": ZIP, "widths": AGES, "edges": BANDS, "date": DATES}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tree": st.sampled_from(WORK.values),
    "prefix": st.integers(0, 99_999) | st.text("0123456789", min_size=5, max_size=5),
    "widths": st.integers(-20, 130) | st.floats(-20, 130),
    "edges": st.integers(-20, 130) | st.floats(-20, 130),
    "date": st.dates(date(1995, 1, 1), date(2035, 12, 31)) | st.datetimes(datetime(1995, 1, 1), datetime(2035, 1, 1)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
