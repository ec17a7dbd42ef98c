"""Distinction and separation of sets of keys: the authors' example, every pair of records compared, and missing keys."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import as_it_is, microdata
from small_files import of_keys as file

from sfumato.errors import NotApplicable
from sfumato.risk import Distinction, Separation, distinguishing_keys

Row = tuple[int | None, ...]


def test_the_authors_example() -> None:
    """Motwani and Xu (2007), table 1: age is 0.6-distinct and separates 0.8 of the pairs; sex and state 0.8 and 0.9."""
    data = microdata(
        age=[20, 30, 40, 20, 40],
        sex=["Female", "Female", "Female", "Male", "Male"],
        state=["CA", "CA", "TX", "NY", "CA"],
    )
    apart, separated = Distinction().score(as_it_is(data)), Separation().score(as_it_is(data))
    assert apart.groups["age"] == pytest.approx(0.6)
    assert separated.groups["age"] == pytest.approx(0.8)
    assert apart.groups["sex × state"] == pytest.approx(0.8)
    assert separated.groups["sex × state"] == pytest.approx(0.9)
    assert (apart.value, separated.value) == (1, 1)


def alike(a: Row, b: Row, places: tuple[int, ...], rule: str) -> bool:
    either = (None,) if rule == "wildcard" else ()
    return all(a[j] == b[j] or a[j] in either or b[j] in either for j in places)


@given(
    st.integers(1, 4).flatmap(
        lambda keys: st.lists(
            st.tuples(*[st.one_of(st.integers(0, 2), st.integers(0, 2), st.none())] * keys), min_size=2, max_size=12
        )
    ),
    st.sampled_from(["wildcard", "value", "ignored"]),
)
def test_every_set_of_keys_agrees_with_a_look_at_every_pair(rows: list[Row], rule: Any) -> None:
    kept = [row for row in rows if rule != "ignored" or None not in row]
    release, keys = as_it_is(file(rows)), len(rows[0])
    if len(kept) < 2:
        with pytest.raises(NotApplicable):
            Separation(missing=rule).score(release)
        return
    apart, separated = Distinction(3, rule).score(release), Separation(3, rule).score(release)
    listed = distinguishing_keys(release, max_size=keys, missing=rule).set_index("keys")
    for k in range(1, keys + 1):
        for places in combinations(range(keys), k):
            name = " × ".join(f"key{j}" for j in places)
            matches = [sum(alike(row, other, places, rule) for other in kept) for row in kept]
            pairs = [alike(a, b, places, rule) for a, b in combinations(kept, 2)]
            distinct, separate = np.mean([1 / f for f in matches]), 1 - np.mean(pairs)
            assert listed.loc[name, "distinction"] == pytest.approx(distinct)
            assert listed.loc[name, "separation"] == pytest.approx(separate)
            assert listed.loc[name, "number of keys"] == k
            if k <= 3:
                assert apart.groups[name] == pytest.approx(distinct)
                assert separated.groups[name] == pytest.approx(separate)
            if k == keys:
                assert apart.value == pytest.approx(distinct)
                assert separated.value == pytest.approx(separate)
                assert separated.details["pairs alike"] == sum(pairs)
                if rule != "wildcard":
                    assert apart.details["distinct combinations"] == pytest.approx(len(set(kept)))
    assert (np.diff(listed["distinction"]) <= 1e-12).all()


def test_a_share_of_every_record_is_given() -> None:
    release = as_it_is(microdata(a=[1, 1, 2], b=[1, 1, 1]))
    assert Distinction().score(release).records.tolist() == [0.5, 0.5, 1]  # type: ignore[union-attr]
    assert Separation().score(release).records.tolist() == [0.5, 0.5, 1]  # type: ignore[union-attr]
    assert Separation().score(release).words.startswith("1 of 3 pairs")


def test_a_lone_record_makes_no_pair_and_too_many_sets_are_refused() -> None:
    with pytest.raises(NotApplicable, match="only one record"):
        Separation().score(as_it_is(microdata(a=[1])))
    with pytest.raises(NotApplicable, match="only one record"):
        distinguishing_keys(as_it_is(microdata(a=[1])))
    assert Distinction().score(as_it_is(microdata(a=[1]))).value == 1
    many = as_it_is(microdata(**{f"k{j}": [0, 1] for j in range(30)}))
    with pytest.raises(NotApplicable, match="lower max_size"):
        distinguishing_keys(many, max_size=30)
