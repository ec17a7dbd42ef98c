"""Top and bottom coding: what becomes of values beyond a threshold, and of their order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_files import amounts as microdata
from small_files import column_of_numbers as numbers
from small_files import release, values

from sfumato.contract import Draws
from sfumato.errors import DataError
from sfumato.masks import BottomCode, TopCode
from sfumato.masks.coding import Coding

Numbers = NDArray[np.float64]
CODINGS: list[type[Coding]] = [TopCode, BottomCode]
X = [5.0, 1.0, 9.0, 7.0, 7.0, 3.0, 10.0, 2.0, 8.0, 6.0]


def test_values_above_a_threshold_become_the_threshold() -> None:
    assert numbers(TopCode(value=7), microdata(x=X), "x").tolist() == [5, 1, 7, 7, 7, 3, 7, 2, 7, 6]


def test_values_below_a_threshold_become_the_threshold() -> None:
    assert numbers(BottomCode(value=3), microdata(x=X), "x").tolist() == [5, 3, 9, 7, 7, 3, 10, 3, 8, 6]


def test_values_beyond_a_threshold_become_their_mean() -> None:
    top = numbers(TopCode(value=7, replace="mean"), microdata(x=X), "x")
    assert top.tolist() == [5, 1, 9, 7, 7, 3, 9, 2, 9, 6]  # (9 + 10 + 8) / 3
    bottom = numbers(BottomCode(value=5, replace="mean"), microdata(x=X), "x")
    assert bottom.tolist() == [5, 2, 9, 7, 7, 2, 10, 2, 8, 6]  # (1 + 3 + 2) / 3


@pytest.mark.parametrize("threshold", [8, 9])
def test_a_mean_of_one_or_two_values_would_tell_them_and_is_refused(threshold: float) -> None:
    with pytest.raises(DataError, match="fewer than 3 records, and would tell what they are"):
        numbers(TopCode(value=threshold, replace="mean"), microdata(x=X), "x")


def test_replacing_by_the_mean_keeps_the_total() -> None:
    x = np.random.default_rng(1).lognormal(size=1000)
    for mask in (TopCode(quantile=0.9, replace="mean"), BottomCode(quantile=0.1, replace="mean")):
        assert numbers(mask, microdata(x=x), "x").sum() == pytest.approx(x.sum(), rel=1e-12)


@pytest.mark.parametrize(("quantile", "threshold"), [(0.8, 8.0), (0.81, 9.0), (0.5, 6.0), (1.0, 10.0), (0.0, 1.0)])
def test_a_quantile_is_a_value_that_some_record_has_with_that_share_at_or_below_it(
    quantile: float, threshold: float
) -> None:
    assert sum(v <= threshold for v in X) >= quantile * len(X)
    assert numbers(TopCode(quantile=quantile), microdata(x=X), "x").tolist() == [min(v, threshold) for v in X]
    assert numbers(BottomCode(quantile=quantile), microdata(x=X), "x").tolist() == [max(v, threshold) for v in X]


@pytest.mark.parametrize("coding", CODINGS)
def test_without_a_threshold_one_percent_is_coded(coding: type[Coding]) -> None:
    x = np.random.default_rng(1).permutation(1000).astype(float)
    assert (numbers(coding(), microdata(x=x), "x") != x).sum() == (10 if coding is TopCode else 9)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("replace", ["threshold", "mean"])
def test_a_threshold_beyond_all_values_changes_nothing(coding: type[Coding], replace: Any) -> None:
    value = 100 if coding is TopCode else -100
    release_ = release(coding(value=value, replace=replace), microdata(x=X))
    assert release_.masked.numbers("x").tolist() == X


def inversions(x: Numbers, y: Numbers) -> int:
    return sum(bool(a < b and c > d) for (a, c), (b, d) in itertools.permutations(zip(x, y, strict=True), 2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-20, 20) | st.floats(-20, 20), min_size=2, max_size=30),
    st.sampled_from(CODINGS),
    st.sampled_from(["threshold", "mean"]),
    st.booleans(),
    st.one_of(st.tuples(st.just("quantile"), st.floats(0, 1)), st.tuples(st.just("value"), st.floats(-25, 25))),
)
def test_coding_never_turns_two_records_round(
    x: list[float], coding: type[Coding], replace: Any, integer: bool, where: tuple[str, float]
) -> None:
    array = np.array(x, float).round() if integer else np.array(x, float)
    data = microdata({"x": {"integer": integer}}, x=array)
    mask = coding(replace=replace, **{where[0]: where[1]})
    by_value = where[0] == "value"
    threshold = where[1] if by_value else float(np.quantile(array, where[1], method="inverted_cdf"))
    beyond = (array > threshold).sum() if coding is TopCode else (array < threshold).sum()
    if replace == "mean" and 0 < beyond < 3:
        with pytest.raises(DataError, match="fewer than 3 records"):
            numbers(mask, data, "x")
    else:
        assert inversions(array, numbers(mask, data, "x")) == 0


def test_ties_stay_ties() -> None:
    x = [3.0, 3.0, 3.0, 9.0, 9.0, 9.0, 1.0]
    after = numbers(TopCode(value=5, replace="mean"), microdata(x=x), "x")
    assert after.tolist() == [3, 3, 3, 9, 9, 9, 1]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_constant_column_stays_constant(coding: type[Coding]) -> None:
    assert numbers(coding(quantile=0.5), microdata(x=[4.0] * 5), "x").tolist() == [4.0] * 5


def test_thresholds_by_column() -> None:
    data = microdata(x=X, y=[10 * v for v in X])
    after = release(TopCode(value={"x": 7, "y": 55}), data).masked
    assert after.numbers("x").max() == 7
    assert after.numbers("y").max() == 55
    after = release(BottomCode(columns=("y",), quantile={"y": 0.5}), data).masked
    assert after.numbers("x").tolist() == X
    assert after.numbers("y").min() == 60


def test_coding_leaves_missing_values_and_codes_alone() -> None:
    x = pa.array([5.0, None, float("nan"), 99.0, 30.0, 20.0, 25.0], from_pandas=False)
    data = microdata({"x": {"missing": (99,)}}, x=x)
    after = release(TopCode(value=10, replace="mean"), data).masked
    assert values(after, "x") == [5.0, None, "NaN", 99.0, 25.0, 25.0, 25.0]


def test_whole_numbers_stay_whole_when_coded_to_a_mean() -> None:
    data = microdata({"x": {"integer": True}}, x=[1, 2, 8, 9, 8, 9])
    after = release(TopCode(value=3, replace="mean"), data).masked
    assert values(after, "x") == [1, 2, 8, 8, 8, 8]  # 8.5, to the even neighbour
    assert pa.types.is_integer(after.batch(["x"]).column("x").arrow.type)


def test_coding_states_what_it_has_checked() -> None:
    made = release(TopCode(value=7), microdata(x=X))
    assert [(g.step, g.verified) for g in made.guarantees][-1] == ("top_code", "all released values checked")
    assert (
        made.guarantees[-1].says
        == f"no value above the code is released; coded: x: {sum(v > 7 for v in X)} of {len(X)}"
    )


def test_a_fitted_top_code_uses_the_threshold_and_mean_it_learned_on_new_data() -> None:
    fitted = TopCode(quantile=0.7, replace="mean").fit(microdata(x=X), Draws(1))
    after = numbers(fitted, microdata(x=[1.0, 7.0, 7.5, 1000.0]), "x")
    assert after.tolist() == [1, 7, 9, 9]  # threshold 7, mean of 9, 10 and 8
