"""Unsafe combinations of a few keys: every table counted by hand, identification levels, weights and missing keys."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import as_it_is, microdata

from sfumato import Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError
from sfumato.risk import SUDA, KAnonymity, UnsafeCombinations
from sfumato.risk.special_uniques import by_level

Row = tuple[int | None, ...]


def file(rows: list[Row], weights: list[float] | None = None) -> Microdata:
    columns: dict[str, Any] = {
        f"key{j}": pa.array(column, pa.int64()) for j, column in enumerate(zip(*rows, strict=True))
    }
    if weights is None:
        return microdata(**columns)
    return microdata({"w": {"role": "weight", "scale": "ordered"}}, **columns, w=weights)


@st.composite
def files(draw: st.DrawFn) -> tuple[list[Row], list[float]]:
    keys = draw(st.integers(1, 4))
    value = st.one_of(st.integers(0, 2), st.integers(0, 2), st.none())
    rows = draw(st.lists(st.tuples(*[value] * keys), min_size=1, max_size=14))
    weights = draw(st.lists(st.integers(1, 5).map(float), min_size=len(rows), max_size=len(rows)))
    return rows, weights


@given(files(), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.sampled_from(["wildcard", "value", "ignored"]))
def test_every_combination_is_counted_over_every_record(
    drawn: tuple[list[Row], list[float]], dimension: int, threshold: int, weighted: bool, rule: Any
) -> None:
    rows, weights = drawn
    taking_part = [i for i, row in enumerate(rows) if rule != "ignored" or None not in row]
    measure = UnsafeCombinations(dimension, threshold, weighted, missing=rule)
    if not taking_part:
        with pytest.raises(NotApplicable):
            measure.score(as_it_is(file(rows, weights)))
        return
    score = measure.score(as_it_is(file(rows, weights)))
    unsafe, cells = np.zeros(len(rows)), Counter[int]()
    for k in range(1, min(dimension, len(rows[0])) + 1):
        for places in combinations(range(len(rows[0])), k):
            here: set[int] = set()
            for cell in product((0, 1, 2, None), repeat=k):
                if rule == "wildcard" and None in cell:
                    continue  # not a combination of values
                having = [i for i in taking_part if tuple(rows[i][j] for j in places) == cell]
                either = (None,) if rule == "wildcard" else ()
                matching = [
                    i
                    for i in taking_part
                    if all(rows[i][j] == v or rows[i][j] in either for j, v in zip(places, cell, strict=True))
                ]
                amount = sum(weights[i] for i in matching) if weighted else len(matching)
                if having and amount <= threshold:
                    cells[k] += 1
                    here |= set(having)
            for i in here:
                unsafe[i] += 1
            name = " × ".join(f"key{j}" for j in places)
            assert score.groups[name] == pytest.approx(len(here) / len(taking_part))
    left_out = [i for i in range(len(rows)) if i not in taking_part]
    unsafe[left_out] = np.nan
    np.testing.assert_array_equal(score.records, unsafe)
    assert score.value == np.sum(unsafe > 0) / len(taking_part)
    for k in range(1, min(dimension, len(rows[0])) + 1):
        assert score.details[f"unsafe combinations of {k} key{'s' * (k > 1)}"] == cells[k]


def test_the_combinations_of_all_keys_are_those_of_k_anonymity() -> None:
    g = np.random.default_rng(3)
    data = microdata(**{f"k{j}": g.integers(0, 4, 200) for j in range(4)})
    unsafe = UnsafeCombinations(dimension=4, threshold=2).score(as_it_is(data))
    assert (
        unsafe.value == KAnonymity(k=3).score(as_it_is(data)).value
    )  # 2 or fewer; some set is rare only if all keys are
    single = UnsafeCombinations(dimension=2, threshold=1).score(as_it_is(data))
    assert single.value == SUDA(max_size=2).score(as_it_is(data)).value


def test_levels_ask_for_the_tables_of_mu_argus() -> None:
    """One key of level 1, one of level 1 or 2, one of level 1 to 3, all different: Willenborg and de Waal's E × V × I."""
    levels = {0: 1, 1: 1, 2: 2, 3: 3, 4: 3}
    triples = {
        frozenset((e, v, i))
        for e, v, i in product(levels, repeat=3)
        if len({e, v, i}) == 3 and levels[e] <= 1 and levels[v] <= 2 and levels[i] <= 3
    }
    found = list(by_level(levels))
    assert {frozenset(s) for s in found} == triples
    assert len(found) == len(triples)
    assert list(by_level({0: 2, 1: 5})) == [(0, 1)]  # levels are an order, not a count


def test_keys_without_a_level_are_left_out() -> None:
    data = microdata(region=[1, 1, 1, 2], job=["a", "a", "b", "b"], age=[1, 2, 3, 4])
    score = UnsafeCombinations(threshold=1, levels={"region": 1, "job": 2}).score(as_it_is(data))
    assert score.groups == {"region × job": 0.5}
    assert score.details["sets of keys"] == 1
    assert score.records.tolist() == [0, 0, 1, 1]  # type: ignore[union-attr]


def test_words_say_what_was_counted() -> None:
    data = microdata({"w": {"role": "weight", "scale": "ordered"}}, a=[1, 1, 2], b=[1, 1, 1], w=[3.0, 4.0, 90.0])
    assert UnsafeCombinations(threshold=1).score(as_it_is(data)).words == (
        "1 of 3 records has a combination of up to 3 keys that at most 1 record has"
    )
    weighted = UnsafeCombinations(dimension=1, threshold=50, weighted=True).score(as_it_is(data))
    assert weighted.words == "2 of 3 records have a combination of 1 key that at most 50 persons are estimated to have"
    assert weighted.value == pytest.approx(2 / 3)


def test_what_cannot_be_counted_is_refused_in_a_sentence() -> None:
    data = microdata(a=[1, 2], b=[1, 1])
    with pytest.raises(NotApplicable, match="survey weights"):
        UnsafeCombinations(weighted=True).score(as_it_is(data))
    with pytest.raises(NotApplicable, match="Did you mean 'a'"):
        UnsafeCombinations(levels={"aa": 1, "b": 2}).score(as_it_is(data))
    with pytest.raises(NotApplicable, match="lower dimension"):
        UnsafeCombinations(dimension=20).score(as_it_is(microdata(**{f"k{j}": [0, 1] for j in range(40)})))
    with pytest.raises(ParameterError, match="true or false"):
        UnsafeCombinations(weighted="yes")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="whole number"):
        UnsafeCombinations(levels={"a": 0.5})  # type: ignore[dict-item]
    with pytest.raises(NotApplicable, match="key"):
        UnsafeCombinations().score(as_it_is(data), Snooper(keys=("nothing",)))
