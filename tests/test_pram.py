"""PRAM: matrices that keep their promises, draws that follow the matrix, and the analyst's correction."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from sfumato.contract import Draws, Recipe
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.kernels.swapping import moved
from sfumato.masks import PRAM, published_matrix
from sfumato.masks.pram_matrix import invariant_form, retention, toned_down
from sfumato.schema import Attribute, Schema
from sfumato.utility.estimator_utility import pram_correction

Numbers = NDArray[np.float64]
ALPHA = 1e-4
KEY = {"role": "key", "scale": "unordered"}
N = 60_000


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v) for n, v in columns.items()})
    facts = facts or {}
    return Microdata(table, Schema(tuple(Attribute(n, **{**KEY, **facts.get(n, {})}) for n in columns)))  # type: ignore[arg-type]


def values(data: Microdata, name: str) -> list[Any]:
    return data.batch([name]).column(name).arrow.to_pylist()


def of_counts(counts: list[int]) -> Microdata:
    return microdata(x=np.repeat(np.arange(len(counts)), counts))


def survey(n: int = N) -> Microdata:
    g = np.random.default_rng(1998)
    area = g.integers(0, 3, n)
    edu = np.array([0, 1, 2, 3])[np.minimum(g.geometric(0.5, n) - 1 + (area == 2), 3)]
    return microdata(
        area=np.array(["N", "S", "W"])[area].tolist(), edu=edu, sex=np.array(["f", "m"])[g.integers(0, 2, n)].tolist()
    )


# Matrices


@given(
    st.lists(st.integers(1, 5_000), min_size=2, max_size=12),
    st.floats(0.0, 0.999),
    st.floats(0.01, 1.0),
)
@settings(max_examples=60, deadline=None)
def test_a_generated_matrix_is_invariant_and_no_diagonal_is_below_the_promise(
    counts: list[int], pd: float, alpha: float
) -> None:
    fitted = PRAM("x", pd=pd, alpha=alpha).fit(of_counts(counts), Draws(1))
    r, t = fitted.transitions["x"].matrix(), np.array(counts) / sum(counts)
    np.testing.assert_allclose(r.sum(axis=1), 1, atol=1e-12)
    assert (r >= 0).all()
    np.testing.assert_allclose(t @ r, t, atol=1e-12)
    assert np.diag(r).min() >= pd
    # the rarest category sits on the promise, unless drawing afresh from the shares keeps it more often
    assert np.diag(r).min() == pytest.approx(max(1 - alpha * (1 - pd), t.min()), abs=1e-9)
    np.testing.assert_allclose(fitted.transitions["x"].diagonal(), np.diag(r), atol=1e-12)
    assert fitted.transitions["x"].imbalance() < 1e-12


def test_the_two_stage_form_alone_would_break_the_promise_and_ours_does_not() -> None:
    """What went wrong in a peer: a diagonal of 0.8 before the step that makes the matrix invariant, and less after it."""
    counts, k, pd = np.array([900.0, 90.0, 10.0]), 3, 0.8
    p = np.full((k, k), (1 - pd) / (k - 1))
    np.fill_diagonal(p, pd)
    two_stage = invariant_form(p, counts)
    np.testing.assert_allclose(counts @ two_stage, counts)
    assert np.diag(two_stage).min() < pd
    toned = toned_down(two_stage, 1.0, pd, counts)
    np.testing.assert_allclose(counts @ toned, counts)
    assert np.diag(toned).min() >= pd
    matrix = {"x": {str(i): {str(j): float(p[i, j]) for j in range(k)} for i in range(k)}}
    data = of_counts([900, 90, 10])
    made = PRAM("x", matrix=matrix, invariant=True, pd=pd).fit(data, Draws(1)).transitions["x"].matrix()
    np.testing.assert_allclose(made, toned, atol=1e-12)
    free = PRAM("x", matrix=matrix, invariant=True).fit(data, Draws(1)).transitions["x"].matrix()
    np.testing.assert_allclose(free, two_stage, atol=1e-12)


def test_the_invariant_form_brings_back_by_bayes_rule() -> None:
    g = np.random.default_rng(2)
    p, t = g.dirichlet(np.ones(4), 4), g.integers(1, 100, 4).astype(float)
    back = np.array([[p[j, k] * t[j] / sum(p[i, k] * t[i] for i in range(4)) for j in range(4)] for k in range(4)])
    np.testing.assert_allclose(invariant_form(p, t), p @ back)
    never = np.array([[1.0, 0.0], [1.0, 0.0]])  # nothing becomes the second category
    np.testing.assert_allclose(np.array([3.0, 1.0]) @ invariant_form(never, np.array([3.0, 1.0])), [3.0, 1.0])


def test_a_matrix_that_is_not_invariant_has_the_same_diagonal_everywhere() -> None:
    r = PRAM("x", pd=0.7, invariant=False).fit(of_counts([50, 30, 20]), Draws(1)).transitions["x"].matrix()
    np.testing.assert_allclose(r, np.full((3, 3), 0.15) + 0.55 * np.eye(3), atol=1e-12)


def test_one_category_has_nowhere_to_go() -> None:
    assert retention(np.ones(1), 0.5, 1.0) == 1.0


# Draws


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_draws_are_those_of_the_slow_twin(n: int, k: int, seed: int) -> None:
    g = np.random.default_rng(seed)
    chances, stay = g.dirichlet(np.ones(k), 3), np.array([0.0, 0.6, 1.0])
    cells, rows, uniforms = g.integers(-1, k, n), g.integers(0, 3, n), g.random(n)
    expected = []
    for cell, row, u in zip(cells, rows, uniforms, strict=True):
        if cell < 0 or u < stay[row]:
            expected.append(cell)
            continue
        v, total, j = (u - stay[row]) / (1 - stay[row]), 0.0, 0
        while j < k - 1 and v >= total + chances[row, j]:
            total += chances[row, j]
            j += 1
        expected.append(j)
    cumulative = np.cumsum(chances, axis=1)
    cumulative[:, -1] = 1.0
    found = moved(cells, rows, stay, np.arange(0, 3 * k + 1, k), np.tile(np.arange(k), 3), cumulative.ravel(), uniforms)
    assert found.tolist() == expected


GIVEN = {
    "edu": {"0": {"0": 0.7, "1": 0.3}, "1": {"0": 0.1, "1": 0.8, "2": 0.1}, "2": {"1": 0.2, "2": 0.8}, "3": {"3": 1}}
}


@pytest.mark.parametrize(
    "mask",
    [PRAM("edu", pd=0.6), PRAM("edu", pd=0.0), PRAM("edu", invariant=False, pd=0.5), PRAM("edu", matrix=GIVEN),
     PRAM("edu", matrix=GIVEN, alpha=0.5), PRAM("edu", matrix=GIVEN, invariant=True)],
    ids=["generated", "fresh draws", "not invariant", "given", "toned down", "made invariant"],
)  # fmt: skip
def test_categories_change_as_often_as_the_matrix_says(mask: PRAM) -> None:
    data = survey()
    r = mask.fit(data, Draws(1)).transitions["edu"].matrix()
    before, after = (np.array(values(d, "edu")) for d in (data, mask.apply(data, Draws(3)).masked))
    for i in range(4):
        seen = np.bincount(after[before == i], minlength=4)
        possible = r[i] > 0
        assert seen[~possible].sum() == 0
        if possible.sum() > 1:
            assert stats.chisquare(seen[possible], r[i][possible] * seen.sum()).pvalue > ALPHA


def test_a_given_matrix_is_used_as_it_is() -> None:
    r = PRAM("edu", matrix=GIVEN).fit(survey(1_000), Draws(1)).transitions["edu"].matrix()
    np.testing.assert_allclose(r, [[0.7, 0.3, 0, 0], [0.1, 0.8, 0.1, 0], [0, 0.2, 0.8, 0], [0, 0, 0, 1]], atol=1e-15)


def test_a_list_of_rows_goes_by_the_order_of_its_categories() -> None:
    data = microdata(sex=["f", "m"] * 50)
    by_list = PRAM("sex", matrix={"sex": [[0.9, 0.1], [0.3, 0.7]]}, categories={"sex": ["m", "f"]})
    by_name = PRAM("sex", matrix={"sex": {"m": {"m": 0.9, "f": 0.1}, "f": {"m": 0.3, "f": 0.7}}})
    assert by_list == by_name
    np.testing.assert_allclose(by_list.fit(data, Draws(1)).transitions["sex"].matrix(), [[0.7, 0.3], [0.1, 0.9]])
    recipe = Recipe.of(by_list)
    assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_expected_counts_are_the_observed_ones() -> None:
    data, mask = survey(3_000), PRAM("edu", pd=0.5)
    fitted = mask.fit(data, Draws(1))
    t = np.bincount(values(data, "edu"), minlength=4)
    r = fitted.transitions["edu"].matrix()
    runs = np.array([np.bincount(values(fitted.apply(data, Draws(s)).masked, "edu"), minlength=4) for s in range(300)])
    # counts after PRAM have covariance Σᵢ tᵢ (diag(rᵢ) - rᵢrᵢ')
    variance = np.diag(sum(t[i] * (np.diag(r[i]) - np.outer(r[i], r[i])) for i in range(4)))
    assert (np.abs(runs.mean(axis=0) - t) <= 4.5 * np.sqrt(variance / 300)).all()
    assert runs.std(axis=0) == pytest.approx(np.sqrt(variance), rel=0.25)


# Strata and joint variables


def test_each_stratum_has_a_matrix_of_its_own_shares() -> None:
    data = survey(6_000)
    fitted = PRAM("edu", pd=0.7, within=["area"]).fit(data, Draws(1))
    move = fitted.transitions["edu"]
    area, edu = np.array(values(data, "area")), np.array(values(data, "edu"))
    for place in "NSW":
        t = np.bincount(edu[area == place], minlength=4) / (area == place).sum()
        r, there = move.matrix(place), t > 0
        np.testing.assert_allclose((t @ r)[there], t[there], atol=1e-12)
        assert np.diag(r)[there].min() == pytest.approx(0.7)
    made = fitted.apply(data, Draws(1))
    assert "at least 0.7 in each stratum" in made.guarantees[1].says
    assert (
        "expected counts equal those of the file that the matrix was made from in each stratum"
        in made.guarantees[2].says
    )
    with pytest.raises(DataError, match="no matrix for that stratum"):
        move.matrix("X")


def test_a_category_that_no_one_in_a_stratum_has_does_not_appear_there() -> None:
    data = microdata(a=["p"] * 50 + ["q"] * 50, x=[1, 2] * 25 + [3, 4] * 25)
    made = PRAM("x", pd=0.1, within=["a"]).apply(data, Draws(1)).masked
    assert set(values(made, "x")[:50]) == {1, 2}
    assert set(values(made, "x")[50:]) == {3, 4}


def test_columns_that_change_together_take_only_combinations_that_occur() -> None:
    g = np.random.default_rng(3)
    pairs = [("a", 1), ("a", 2), ("b", 2), ("c", 7)]
    data = microdata(**dict(zip("xy", zip(*(pairs[i] for i in g.integers(0, 4, 2_000)), strict=True), strict=True)))
    mask = PRAM(["x", "y"], joint=True, pd=0.5)
    made = mask.apply(data, Draws(1)).masked
    after = Counter(zip(values(made, "x"), values(made, "y"), strict=True))
    assert set(after) == set(pairs)
    move = mask.fit(data, Draws(1)).transitions["x by y"]
    assert move.categories == tuple(pairs)
    before = Counter(zip(values(data, "x"), values(data, "y"), strict=True))
    t = np.array([before[p] for p in pairs])
    np.testing.assert_allclose(t @ move.matrix(), t)
    assert np.diag(move.matrix()).min() == pytest.approx(0.5)


def test_in_joint_columns_a_missing_value_stays_and_the_others_move_among_their_like() -> None:
    g = np.random.default_rng(4)
    x: list[Any] = [None if u < 0.2 else f"x{int(u * 10) % 3}" for u in g.random(3_000)]
    y: list[Any] = [None if u < 0.2 else -9 if u < 0.4 else int(u * 10) % 4 for u in g.random(3_000)]
    data = microdata({"y": {"missing": (-9,)}}, x=x, y=y)
    made = PRAM(["x", "y"], joint=True, pd=0.2).apply(data, Draws(1)).masked
    after_x, after_y = values(made, "x"), values(made, "y")
    assert [v is None for v in after_x] == [v is None for v in x]
    assert [v in (None, -9) and (v,) for v in after_y] == [v in (None, -9) and (v,) for v in y]
    alone = [i for i in range(3_000) if x[i] is None and y[i] not in (None, -9)]
    assert any(after_y[i] != y[i] for i in alone)


def test_a_key_of_a_hundred_thousand_levels_is_randomised_without_forming_its_matrix() -> None:
    n = 100_000
    data = microdata(x=np.arange(n), y=np.arange(n) % 2)
    mask = PRAM(["x", "y"], joint=True, pd=0.8)
    fitted = mask.fit(data, Draws(1))
    made = fitted.apply(data, Draws(1))
    changed = int((data.numbers("x") != made.masked.numbers("x")).sum())
    assert abs(changed - 0.2 * n) < 4.5 * np.sqrt(n * 0.16)
    assert fitted.transitions["x by y"].diagonal().min() >= 0.8
    assert fitted.transitions["x by y"].imbalance() < 1e-9
    with pytest.raises(DataError, match="a matrix of that size is never formed"):
        fitted.transitions["x by y"].matrix()


def test_strata_and_joint_columns_come_out_the_same_from_duckdb() -> None:
    data = survey(5_000)
    connection = duckdb.connect()
    connection.from_arrow(data.to_native()).create("people")
    there = Microdata(connection.table("people"), data.schema)
    for mask in (PRAM("edu", within=["area"]), PRAM(["edu", "sex"], joint=True), PRAM("edu", matrix=GIVEN)):
        here = mask.apply(data, Draws(6)).masked
        assert mask.apply(there, Draws(6)).masked.digest() == here.digest()
        assert here.digest() != data.digest()


# Values, types, households, new data


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 3, None] * 20, pa.int8()),
        pa.array([True, False, None, True] * 20),
        pa.array(["a", "b", None, "c"] * 20).dictionary_encode(),
        pa.array([1.5, 2.5, None, 4.5] * 20),
        pa.array([0, 40, None, 10_000] * 20, pa.date32()),
    ],
    ids=["whole numbers", "yes or no", "categories", "numbers", "dates"],
)
def test_a_column_keeps_its_type_its_values_and_its_gaps(column: pa.Array) -> None:
    data = microdata(x=column)
    after = PRAM("x", pd=0.3).apply(data, Draws(1)).masked.batch(["x"]).column("x").arrow
    assert after.type == column.type
    assert set(after.to_pylist()) == set(column.to_pylist())
    assert [v is None for v in after.to_pylist()] == [v is None for v in column.to_pylist()]
    assert after.to_pylist() != column.to_pylist()


def test_codes_for_missing_are_no_category() -> None:
    x = [1, 2, -8, -9] * 50
    data = microdata({"x": {"missing": (-8, -9)}}, x=x)
    mask = PRAM("x", pd=0.1)
    after = values(mask.apply(data, Draws(1)).masked, "x")
    assert [v if v < 0 else 0 for v in after] == [v if v < 0 else 0 for v in x]
    assert mask.fit(data, Draws(1)).transitions["x"].categories == ((1,), (2,))


def test_members_of_a_household_stay_alike() -> None:
    g = np.random.default_rng(5)
    home = np.repeat(np.arange(500), 3)
    facts = {"home": {"role": "household"}, "roof": {"level": "household"}, "sex": {}}
    data = microdata(facts, home=home, roof=g.integers(0, 4, 500)[home], sex=g.integers(0, 2, 1_500))
    after = np.array(values(PRAM("roof", pd=0.5).apply(data, Draws(1)).masked, "roof")).reshape(500, 3)
    assert (after == after[:, :1]).all()
    assert (after.ravel() != np.array(values(data, "roof"))).any()
    with pytest.raises(DataError, match="whose members must stay alike"):
        PRAM("roof", within=["sex"]).apply(data, Draws(1))
    with pytest.raises(DataError, match="these cannot change together"):
        PRAM(["roof", "sex"], joint=True).apply(data, Draws(1))


def test_a_fitted_mask_takes_new_records_but_not_new_categories() -> None:
    fitted = PRAM("x", pd=0.6).fit(microdata(x=["a", "b", "c"] * 30), Draws(1))
    made = fitted.apply(microdata(x=["b", "a"] * 20), Draws(2)).masked
    assert set(values(made, "x")) <= {"a", "b", "c"}
    with pytest.raises(
        DataError, match="2 records have a category of x, or a stratum, that was not in the data"
    ) as error:
        fitted.apply(microdata(x=["a", "Zanzibar", "Zanzibar"]), Draws(2))
    assert "Zanzibar" not in str(error.value)
    within = PRAM("x", within=["s"]).fit(microdata(x=["a", "b", "a", "c"] * 9, s=[1, 1, 2, 2] * 9), Draws(1))
    within.apply(microdata(x=["a", "c"], s=[1, 2]), Draws(1))
    for x, s in (("c", 1), ("a", 3)):  # a category new to its stratum, and a stratum that is new
        with pytest.raises(DataError, match="1 records have a category of x, or a stratum"):
            within.apply(microdata(x=["a", x], s=[1, s]), Draws(1))


def test_changing_a_setting_makes_the_mask_forget_its_matrix() -> None:
    fitted = PRAM("x", pd=0.6).fit(microdata(x=["a", "b"] * 9), Draws(1))
    assert fitted.is_fitted
    assert not fitted.with_(pd=0.7).is_fitted


# Guarantees


def test_the_release_says_what_was_promised_and_how_it_was_verified() -> None:
    said = PRAM("edu", pd=0.75).apply(survey(2_000), Draws(1)).guarantees
    assert said[1].says == "edu: every category stays with a chance of at least 0.75"
    assert said[1].verified == "diagonals of the matrix: the smallest is 0.750000"
    assert said[2].says == "edu: expected counts equal those of the file that the matrix was made from"
    given_ = PRAM("edu", matrix=GIVEN).apply(survey(2_000), Draws(1)).guarantees
    assert given_[1].says == "edu: every category stays with a chance of at least 0.7"
    assert "correct them with pram_correction" in given_[2].says
    assert "records cannot change, as their category stays with a chance of 1" in given_[3].says


def test_a_given_matrix_with_less_than_the_promised_diagonal_is_not_released() -> None:
    with pytest.raises(DataError, match=r"a chance of 0\.7, less than pd = 0\.75; nothing is released\."):
        PRAM("edu", matrix=GIVEN, pd=0.75).apply(survey(2_000), Draws(1))


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"matrix": {"x": {"a": {"a": 0.9}, "b": {"b": 1}}}}, "row 'a' of the matrix of 'x' sums to 0.9, where chances must sum"),
        ({"matrix": {"x": {"a": {"a": 1.5, "b": -0.5}, "b": {"b": 1}}}}, "row 'a' .* must hold chances between 0 and 1"),
        ({"matrix": {"x": {"a": {"a": 0.5, "c": 0.5}, "b": {"b": 1}}}}, "lead.* to categories that have no row of their own: c"),
        ({"matrix": {"x": [[1.0, 0.0]]}}, "must be a square list of rows"),
        ({"matrix": {"x": [[0.5, 0.5], [0, 1]]}}, "say in categories which 2 categories"),
        ({"matrix": {"x": [[0.5, 0.5], [0, 1]]}, "categories": {"x": ["a"]}}, "say in categories which 2 categories"),
        ({"matrix": {"x": "much"}}, "must be a square list of rows"),
        ({"matrix": [[1]]}, "must be given by column"),
        ({"categories": {"x": ["a"]}}, "columns that have no matrix: x"),
        ({"matrix": {"y": {"a": {"a": 1}}}}, "matrix names columns that are not randomised: y"),
        ({"pd": 1.0}, "pd = 1 would leave every category as it is"),
        ({"pd": {"y": 0.5}}, "pd names columns that are not randomised: y"),
        ({"pd": {}, "columns": ["x", "y"], "joint": True}, "give one pd for all, and no matrix"),
        ({"alpha": 0}, "above 0"),
        ({"invariant": 1}, "invariant of pram must be yes or no"),
        ({"joint": "both"}, "joint of pram must be true or false"),
        ({"within": ["x"]}, "cannot be randomised and be a stratum at once"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        PRAM(**{"columns": ["x"], **settings_})


def test_data_that_cannot_be_randomised_are_refused() -> None:
    with pytest.raises(DataError, match="one category only"):
        PRAM("x").apply(microdata(x=["a"] * 5), Draws(1))
    with pytest.raises(DataError, match="no values at all"):
        PRAM("x").apply(microdata(x=pa.array([None, None], pa.string())), Draws(1))
    with pytest.raises(DataError, match="1 categories of 'x' have no row in its matrix"):
        PRAM("x", matrix={"x": {"a": {"a": 1.0}, "b": {"b": 1.0}}}).apply(microdata(x=["a", "z"]), Draws(1))
    with pytest.raises(DataError, match="has rows for what it cannot hold: three"):
        PRAM("x", matrix={"x": {"1": {"three": 1}, "2": {"2": 1}, "three": {"2": 1}}}).apply(
            microdata(x=[1, 2]), Draws(1)
        )
    with pytest.raises(DataError, match="two rows for one category"):
        PRAM("x", matrix={"x": {"1": {"2": 1}, "2": {"1": 1}, "1.0": {"2": 1}}}).apply(microdata(x=[1, 2]), Draws(1))
    with pytest.raises(DataError, match="no category of x can change: each stays with a chance of 1"):
        PRAM("x", matrix={"x": {"a": {"a": 1}, "b": {"b": 1}}}).apply(microdata(x=["a", "b"]), Draws(1))
    with pytest.raises(DataError, match="makes some categories missing, by a code for missing values"):
        PRAM("x", matrix={"x": {"1": {"-9": 1}, "2": {"2": 1}, "-9": {"-9": 1}}}).apply(
            microdata({"x": {"missing": (-9,)}}, x=[1, 2, -9]), Draws(1)
        )
    with pytest.raises(SfumatoError, match="not in the data"):
        PRAM("x", within=["z"]).apply(microdata(x=["a", "b"]), Draws(1))


def test_a_given_matrix_may_lead_to_a_category_of_words_that_the_data_lack() -> None:
    mask = PRAM("x", matrix={"x": {"a": {"a": 0.5, "c": 0.5}, "b": {"b": 1}, "c": {"c": 1}}})
    assert set(values(mask.apply(microdata(x=["a", "b"] * 40), Draws(1)).masked, "x")) == {"a", "b", "c"}
    mask = PRAM("x", matrix={"x": {1: {1: 0.5, 3: 0.5}, 2: {2: 1}, 3: {3: 1}}})
    assert set(values(mask.apply(microdata(x=[1, 2] * 40), Draws(1)).masked, "x")) == {1, 2, 3}


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pa.array([1, 2] * 9), ["1", "2"]),
        (pa.array([1.0, 2.0, None] * 9), [1, 2]),  # whole numbers with gaps, as pandas holds them
        (pa.array([1.0, 2.0] * 9), ["1.0", "2.0"]),
        (pa.array([True, False] * 9), [True, False]),
        (pa.array([True, False] * 9), ["true", "false"]),
    ],
)
def test_labels_of_a_matrix_are_read_as_the_categories_that_the_column_holds(
    column: pa.Array, labels: list[Any]
) -> None:
    a, b = labels
    for given_ in ({a: {b: 1}, b: {a: 1}}, np.array([[0.0, 1.0], [1.0, 0.0]])):
        names = None if isinstance(given_, dict) else {"x": labels}
        made = values(
            PRAM("x", matrix={"x": given_}, categories=names).apply(microdata(x=column), Draws(1)).masked, "x"
        )
        other = {1: 2, 2: 1, None: None} if column[1].as_py() is not False else {True: False, False: True}
        assert made == [other[v] for v in column.to_pylist()]


def test_a_singular_matrix_is_not_said_to_be_correctable() -> None:
    data = microdata(x=["a", "a", "b"] * 9)
    for mask in (PRAM("x", matrix={"x": {c: {"a": 0.5, "b": 0.5} for c in "ab"}}), PRAM("x", pd=0, invariant=False)):
        assert mask.apply(data, Draws(1)).guarantees[2].says.endswith("the matrix is singular: no correction")


def test_a_key_that_follows_another_follows_what_that_one_became() -> None:
    facts = {"region": {"follows": "tract"}}
    tracts = ["N1", "N2", "S1", "S2"] * 50
    data = microdata(facts, tract=tracts, region=[t[0] for t in tracts])
    release = PRAM(pd=0.4).apply(data, Draws(1))
    after = values(release.masked, "tract")
    assert after != tracts
    assert values(release.masked, "region") == [t[0] for t in after]
    assert not any(g.says.startswith("region:") for g in release.guarantees)


# Publishing and correcting


def test_the_matrix_is_published_on_purpose_as_a_table(tmp_path: Path) -> None:
    data = survey(2_000)
    fitted = PRAM(["edu", "sex"], pd={"edu": 0.7, "sex": 0.9}, within=["area"]).fit(data, Draws(1))
    published_matrix(fitted, "edu").write(tmp_path / "edu.csv")
    rows = pyarrow.csv.read_csv(tmp_path / "edu.csv").to_pylist()
    assert set(rows[0]) == {"stratum_1", "edu", "edu_released", "chance"}
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["stratum_1"], row["edu"]] += row["chance"]
        r = fitted.transitions["edu"].matrix(row["stratum_1"])
        assert r[row["edu"], row["edu_released"]] == pytest.approx(row["chance"])
    assert all(total == pytest.approx(1) for total in sums.values())
    with pytest.raises(ParameterError, match="has not been fitted"):
        published_matrix(PRAM("edu"), "edu")
    with pytest.raises(ParameterError, match=r"no matrix of 'area'\. There are: edu, sex"):
        published_matrix(fitted, "area")


TRUE = np.array([600.0, 300.0, 100.0])
R = np.array([[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.1, 0.2, 0.7]])


def released_counts(times: int, seed: int = 6) -> Numbers:
    g = np.random.default_rng(seed)
    parts = [g.multinomial(int(t), r, times) for t, r in zip(TRUE, R, strict=True)]
    return np.sum(parts, axis=0).astype(float)


def test_corrected_counts_are_unbiased_their_variance_is_right_and_their_intervals_cover() -> None:
    made = [pram_correction(c, R) for c in released_counts(4_000)]
    counts, errors = (np.array([getattr(m, what) for m in made]) for what in ("counts", "standard_errors"))
    spread = counts.std(axis=0)
    assert (np.abs(counts.mean(axis=0) - TRUE) <= 4.5 * spread / np.sqrt(4_000)).all()
    estimated = np.mean([m.covariance for m in made], axis=0)
    np.testing.assert_allclose(estimated, np.cov(counts, rowvar=False), rtol=0.12)
    covered = (np.abs(counts - TRUE) <= 1.96 * errors).mean(axis=0)
    assert (np.abs(covered - 0.95) < 4.5 * np.sqrt(0.95 * 0.05 / 4_000)).all()
    # without the correction the counts are off by more than their whole spread
    assert (np.abs(released_counts(4_000).mean(axis=0) - TRUE) > spread).sum() >= 2


def test_a_released_file_is_corrected_with_its_published_matrix() -> None:
    data = survey(20_000)
    fitted = PRAM("edu", matrix=GIVEN).fit(data, Draws(1))
    after = np.bincount(values(fitted.apply(data, Draws(7)).masked, "edu"), minlength=4)
    truth = np.bincount(values(data, "edu"), minlength=4)
    made = pram_correction(after, fitted.transitions["edu"].matrix())
    assert made.counts.sum() == pytest.approx(20_000)
    assert (np.abs(made.counts - truth) <= 4.5 * made.standard_errors + 1e-6).all()


def test_restricted_counts_are_never_negative_and_equal_the_others_where_none_is() -> None:
    inside = pram_correction(R.T @ TRUE, R)
    np.testing.assert_allclose(inside.counts, TRUE)
    np.testing.assert_allclose(inside.restricted, TRUE, rtol=1e-5)
    outside = pram_correction([90.0, 10.0], [[0.6, 0.4], [0.4, 0.6]])
    assert outside.counts.tolist() == pytest.approx([250.0, -150.0])
    np.testing.assert_allclose(outside.restricted, [100.0, 0.0], atol=1e-3)  # the likelihood rises up to the corner


@pytest.mark.parametrize(
    ("counts", "matrix", "sentence"),
    [
        ([1, 2], [[0.5, 0.5], [0.5, 0.5]], "the matrix is singular"),
        ([1, 2], [[0.5, 0.4], [0.5, 0.5]], "1 rows of the matrix do not sum to 1, row 1 among them"),
        ([1, 2], [[1.2, -0.2], [0.5, 0.5]], "chances between 0 and 1"),
        ([1, 2, 3], [[1, 0], [0, 1]], "do not fit"),
        ([], [], "do not fit"),
        ([1, -2], [[1, 0], [0, 1]], "at least 0"),
        ([1, float("nan")], [[1, 0], [0, 1]], "without a missing one"),
        (["a", "b"], [[1, 0], [0, 1]], "must be numbers"),
    ],
)
def test_counts_and_matrices_that_cannot_be_corrected_are_refused(counts: Any, matrix: Any, sentence: str) -> None:
    with pytest.raises((DataError, ParameterError), match=sentence):
        pram_correction(counts, matrix)
