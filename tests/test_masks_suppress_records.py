"""Suppression of records and the adding of simulated ones: which, what weights make of it, and every refusal."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from small_files import column as values
from small_files import release

from sfumato.contract import Draws, Mask, Recipe
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.masks import (
    AddSimulatedRecords,
    RandomOrder,
    Sample,
    StratifiedSample,
    SuppressExtremes,
    SuppressRecords,
    SuppressSmallAreas,
)
from sfumato.schema import Attribute, Schema

ROLES: dict[str, dict[str, Any]] = {
    "home": {"role": "household"},
    "stratum": {"role": "stratum", "scale": "unordered"},
    "region": {"role": "key", "scale": "unordered", "follows": "town"},
    "town": {"role": "key", "scale": "unordered"},
    "age": {"role": "key", "integer": True, "bounds": (0, 110)},
    "rent": {"role": "confidential", "level": "household", "bounds": (0, None)},
    "pay": {"role": "confidential", "missing": (9999.0,)},
    "weight": {"role": "weight"},
}


def microdata(**columns: Any) -> Microdata:
    table = pa.table({n: pa.array(v, from_pandas=False) for n, v in columns.items()})
    names = set(columns)
    facts = {n: {k: v for k, v in ROLES.get(n, {}).items() if k != "follows" or v in names} for n in columns}
    return Microdata(table, Schema(tuple(Attribute(n, **facts[n]) for n in columns)))


def survey(**changes: Any) -> Microdata:
    columns: dict[str, Any] = {
        "home": [1, 1, 2, 3, 3, 4, 5, 6],
        "stratum": ["a", "a", "a", "a", "a", "b", "b", "b"],
        "age": pa.array([34, 36, 95, 70, 8, 91, None, 12]),
        "pay": [10.0, 20.0, 30.0, 500.0, 0.0, 50.0, 9999.0, 70.0],
        "weight": [1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0],
    }
    return microdata(**{**columns, **changes})


# Suppression by a condition


def test_records_that_a_condition_picks_are_not_released() -> None:
    made = release(SuppressRecords("age > 90", unit="record"), survey())
    assert made.align.tolist() == [0, 1, 3, 4, 6, 7]  # a missing age is not above 90


def test_whole_households_go_with_a_picked_member() -> None:
    made = release(SuppressRecords("age < 10"), survey())
    assert made.align.tolist() == [0, 1, 2, 5, 6, 7]
    made = release(SuppressRecords("age < 10", unit="record"), survey())
    assert made.align.tolist() == [0, 1, 2, 3, 5, 6, 7]


def test_weights_keep_the_weighted_total_of_each_stratum() -> None:
    made = release(SuppressRecords("age > 90", unit="record"), survey()).masked
    # stratum a: 10 in all, 8 are left; stratum b: 15 in all, 11 are left
    expected = [10 / 8 * w for w in (1, 1, 3, 3)] + [15 / 11 * w for w in (5, 6)]
    np.testing.assert_allclose(made.numbers("weight"), expected)


def test_without_strata_weights_keep_the_overall_total() -> None:
    data = survey()
    data = data.with_schema(data.schema.roles(other="stratum"))
    made = release(SuppressRecords("age > 90", unit="record"), data).masked
    np.testing.assert_allclose(made.numbers("weight"), np.array([1, 1, 3, 3, 5, 6]) * 25 / 19)


def test_without_weights_none_is_invented_and_the_release_says_so() -> None:
    made = release(SuppressRecords("age > 90"), survey().local({"home", "age", "pay"}))
    assert "weight" not in made.masked.schema
    assert any("no survey weight is adjusted" in g.says for g in made.guarantees)


def test_the_release_counts_what_was_suppressed() -> None:
    says = [g.says for g in release(SuppressRecords("age > 90"), survey()).guarantees]
    assert "2 of 8 records are suppressed: those with age > 90, with all members of their households" in says
    assert "the survey weights of the released records add up to those of all records in each of the 2 strata" in says
    says = [g.says for g in release(SuppressRecords("age > 105"), survey()).guarantees]
    assert any("0 of 8 records are suppressed" in s for s in says)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (SuppressRecords("age >= 0 or age is missing"), "all records would be suppressed"),
        (SuppressRecords("stratum == 'b'"), "1 of 2 strata would lose all their records"),
        (SuppressRecords("aeg > 5"), r"column 'aeg' is not in the data. Did you mean 'age'\?"),
        (SuppressRecords("stratum > 5"), "column 'stratum' holds text"),
        (SuppressSmallAreas(columns=("stratum",), least=7), "all records would be suppressed"),
        (SuppressExtremes(columns=("stratum",)), "column 'stratum' holds text"),
        (SuppressExtremes(high={"pya": 3}), r"column 'pya' is not in the data. Did you mean 'pay'\?"),
    ],
)
def test_a_suppression_that_cannot_be_is_refused(mask: Mask, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        release(mask, survey())


def test_bad_weights_are_refused() -> None:
    for bad, sentence in ((np.nan, "missing, negative or infinite"), (-1.0, "negative")):
        with pytest.raises(DataError, match=sentence):
            release(SuppressRecords("age > 90"), survey(weight=[1.0] * 7 + [bad]))
    with pytest.raises(DataError, match="only records with survey weight 0 would be left"):
        release(SuppressRecords("age > 90", unit="record"), survey(weight=[1.0] * 5 + [4.0, 0.0, 0.0]))


def test_a_condition_is_read_at_once() -> None:
    with pytest.raises(ParameterError, match="is not understood"):
        SuppressRecords("age >")
    with pytest.raises(ParameterError, match="a condition is a text"):
        SuppressRecords(where=5)  # type: ignore[arg-type]


def test_suppression_is_the_same_on_duckdb_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.data.duckdb_engine._ROWS", 3)
    data = survey()
    connection = duckdb.connect()
    connection.from_arrow(data.to_native()).create("people")
    there = Microdata(connection.table("people"), data.schema)
    for mask in (
        SuppressRecords("age < 10"),
        SuppressExtremes(upper_quantile=0.8),
        SuppressSmallAreas(columns=("stratum",), least=2),
    ):
        a, b = release(mask, data).masked, release(mask, there).masked
        assert a.digest() == b.digest()


# Extremes


def test_records_beyond_a_quantile_are_suppressed() -> None:
    data = microdata(pay=np.arange(1.0, 101.0), rent=np.arange(100.0, 0.0, -1.0))
    made = release(SuppressExtremes(columns=("pay",), lower_quantile=0.05, upper_quantile=0.9), data).masked
    assert values(made, "pay") == list(np.arange(5.0, 91.0))
    made = release(SuppressExtremes(), data).masked  # above the 0.99 quantile of either: one record each
    assert values(made, "pay") == list(np.arange(2.0, 100.0))
    made = release(SuppressExtremes(upper_quantile={"pay": 0.5, "rent": 0.9}), data).masked
    assert values(made, "pay") == list(np.arange(11.0, 51.0))


def test_records_beyond_a_limit_are_suppressed_and_missing_ones_are_not() -> None:
    made = release(SuppressExtremes(high={"pay": 60.0}, low={"age": 10}, unit="record"), survey()).masked
    assert values(made, "pay") == [10.0, 20.0, 30.0, 50.0, 9999.0]
    made = release(
        SuppressExtremes(columns=("pay",), upper_quantile=0.99, high={"pay": 60.0}, unit="record"), survey()
    ).masked
    assert 500.0 not in values(made, "pay")
    assert 70.0 not in values(made, "pay")


def test_extremes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ParameterError, match="for each column"):
        SuppressExtremes(high=5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="give lower_quantile or upper_quantile too"):
        SuppressExtremes(columns=("pay",), high={"pay": 5})
    with pytest.raises(ParameterError, match="name different columns"):
        SuppressExtremes(lower_quantile={"pay": 0.1}, upper_quantile={"rent": 0.9})
    with pytest.raises(ParameterError, match="for each of the columns"):
        SuppressExtremes(columns=("pay",), upper_quantile={"rent": 0.9})
    with pytest.raises(DataError, match="has no quantiles"):
        release(SuppressExtremes(columns=("pay",)), microdata(pay=[np.nan, np.nan]))


def test_no_records_at_all_are_said_to_be_none() -> None:
    for mask in (SuppressRecords("pay > 1"), Sample(fraction=0.5), AddSimulatedRecords(count=2)):
        with pytest.raises(DataError, match="the data have no records"):
            release(mask, microdata(pay=np.zeros(0)))


# Small areas


def test_areas_with_too_few_records_are_suppressed() -> None:
    town = ["x"] * 5 + ["y"] * 3 + ["z"] * 2 + [None] * 4
    data = microdata(town=town, pay=np.arange(14.0))
    made = release(SuppressSmallAreas(columns=("town",), least=4), data)
    assert values(made.masked, "town") == ["x"] * 5 + [None] * 4
    assert any("those of small areas of town, with fewer than 4 records (2 such)" in g.says for g in made.guarantees)


def test_an_area_may_be_a_combination_of_columns() -> None:
    data = microdata(town=["x", "x", "x", "y", "y"], sex=["f", "f", "m", "f", "f"], pay=np.arange(5.0))
    made = release(SuppressSmallAreas(columns=("town", "sex"), least=2), data).masked
    assert values(made, "pay") == [0.0, 1.0, 3.0, 4.0]


def test_areas_are_counted_in_households_and_one_may_pull_down_another() -> None:
    # household 1 lives in x and y; x has one household only, so it goes, and then y has one household left
    data = microdata(home=[1, 1, 2, 2, 3, 4], town=["x", "y", "y", "y", "z", "z"], pay=np.arange(6.0))
    made = release(SuppressSmallAreas(columns=("town",), least=2), data).masked
    assert values(made, "pay") == [4.0, 5.0]
    made = release(SuppressSmallAreas(columns=("town",), least=2, unit="record"), data).masked
    assert values(made, "pay") == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_key_with_many_levels_is_counted() -> None:
    data = microdata(town=[f"t{i // 2}" for i in range(200_000)] + ["big"] * 10, pay=np.zeros(200_010))
    assert len(release(SuppressSmallAreas(columns=("town",), least=3), data).masked) == 10


# Simulated records


def population(n: int = 600) -> Microdata:
    g = np.random.default_rng(6)
    home = np.repeat(np.arange(n // 3), 3)[:n]
    rent = np.repeat(g.gamma(4, 200, n // 3), 3)[:n]
    town = np.array(["x", "y", "z"])[g.integers(0, 3, n)]
    return microdata(
        home=home,
        town=town,
        region=np.where(town == "z", "south", "north"),
        age=pa.array(np.clip(g.normal(40, 20, n).round(), 0, 110).astype(int), mask=g.random(n) < 0.05),
        rent=rent,
        pay=np.round(1000 + 2 * rent + g.normal(0, 100, n), 1),
        weight=g.uniform(1, 3, n),
    )


@pytest.mark.parametrize("model", ["independent", "normal"])
def test_simulated_records_come_with_negative_ids_after_the_real_ones(model: Any) -> None:
    data = population()
    made = release(AddSimulatedRecords(share=0.1, model=model), data)
    assert made.align.tolist() == [*range(600), *range(-1, -61, -1)]
    for name in ("home", "town", "region", "age", "rent", "pay"):
        assert values(made.masked, name)[:600] == values(data, name)
    assert len(release(AddSimulatedRecords(count=7, model=model), data).masked) == 607


@pytest.mark.parametrize("model", ["independent", "normal"])
def test_simulated_households_are_consistent_and_have_new_numbers(model: Any) -> None:
    made = release(AddSimulatedRecords(count=200, model=model), population()).masked
    home, rent = np.array(values(made, "home")), np.array(values(made, "rent"))
    assert not set(home[600:]) & set(home[:600])
    sizes = np.unique(home[600:], return_counts=True)[1]
    assert set(sizes.tolist()) <= {3, 2}  # 200 records in threes, and the last two
    assert all(len(set(rent[home == h])) == 1 for h in set(home[600:]))
    region = {"x": "north", "y": "north", "z": "south"}
    assert values(made, "region") == [region[t] for t in values(made, "town")]


@pytest.mark.parametrize("model", ["independent", "normal"])
def test_no_simulated_record_is_a_copy_and_all_are_valid(model: Any) -> None:
    made = release(AddSimulatedRecords(count=300, model=model), population()).masked
    names = ("town", "region", "age", "rent", "pay")
    records = list(zip(*(values(made, n) for n in names), strict=True))
    assert not set(records[:600]) & set(records[600:])
    ages = [a for a in values(made, "age") if a is not None]
    assert all(isinstance(a, int) and 0 <= a <= 110 for a in ages)
    assert min(values(made, "rent")) >= 0
    assert 9999.0 not in values(made, "pay")


def test_the_sum_of_the_weights_stays() -> None:
    data = population()
    made = release(AddSimulatedRecords(share=0.5), data).masked
    assert made.numbers("weight").sum() == pytest.approx(data.numbers("weight").sum())
    ratio = made.numbers("weight")[:600] / data.numbers("weight")
    np.testing.assert_allclose(ratio, ratio[0])
    assert 0.6 < ratio[0] < 0.75  # 600 of 900 records: about two thirds
    assert (made.numbers("weight") > 0).all()


def test_independent_columns_keep_their_margins_and_lose_their_relations() -> None:
    data = teachers(4000)
    made = release(AddSimulatedRecords(count=4000), data).masked
    new = {n: made.numbers(n)[4000:] for n in ("salary", "income")}
    assert set(new["salary"]) <= set(data.numbers("salary"))
    for name, numbers in new.items():
        old = data.numbers(name)
        assert abs(numbers.mean() - old.mean()) < 4.5 * old.std() / np.sqrt(4000)
    assert abs(np.corrcoef(new["salary"], new["income"])[0, 1]) < 4.5 / np.sqrt(4000)


def test_normal_numbers_keep_means_and_covariances() -> None:
    data, n = teachers(4000), 4000
    made = release(AddSimulatedRecords(count=n, model="normal"), data).masked
    both = ("salary", "income")
    old, new = (
        np.column_stack([m.numbers(c)[s] for c in both]) for m, s in ((data, slice(None)), (made, slice(n, None)))
    )
    truth = np.cov(old, rowvar=False)
    diagonal = np.diag(truth)
    assert (np.abs(new.mean(axis=0) - old.mean(axis=0)) < 4.5 * np.sqrt(diagonal / n)).all()
    error = np.sqrt((np.outer(diagonal, diagonal) + truth**2) / n)
    assert (np.abs(np.cov(new, rowvar=False) - truth) < 4.5 * error).all()
    # categories come from one record: their combinations are real ones
    pairs = [set(zip(values(m, "region"), values(m, "school"), strict=True)) for m in (data, made)]
    assert pairs[1] <= pairs[0]


def test_more_records_begin_with_the_fewer() -> None:
    few, many = (release(AddSimulatedRecords(count=c), population()).masked for c in (30, 60))
    assert values(many, "pay")[600:630] == values(few, "pay")[600:]


def test_the_order_of_the_real_records_does_not_matter() -> None:
    data, mask = population(), AddSimulatedRecords(count=50)
    mixed = data.reorder(lambda ids: np.cos(ids.astype(float)))
    a, b = release(mask, data).masked, release(mask, mixed).masked
    assert values(a, "pay")[600:] == values(b, "pay")[600:]
    twice = Recipe.of(mask, RandomOrder(), AddSimulatedRecords(count=5)).apply(data, Draws(1))
    assert sorted(twice.align.tolist())[:55] == list(range(-55, 0))


def test_text_household_numbers_get_texts() -> None:
    data = microdata(home=["a", "1", "1", "b"], pay=[1.0, 2.0, 3.0, 4.0], rent=[5.0, 6.0, 6.0, 8.0])
    made = release(AddSimulatedRecords(count=3), data).masked
    assert set(values(made, "home")[4:]) <= {"2", "3", "4"}


def test_simulated_records_are_a_matrix_mask() -> None:
    data = population(30)
    form = AddSimulatedRecords(count=5).as_matrix(data, Draws(1))
    assert form.A.shape == (35, 30)  # type: ignore[union-attr]
    assert (form.A.sum(axis=1)[30:] == 0).all()  # type: ignore[union-attr]
    assert (form.C[:30] == 0).all()  # type: ignore[index]
    assert form.random == form.depends == ("C",)


@pytest.mark.parametrize(
    ("mask", "data", "sentence"),
    [
        (AddSimulatedRecords(share=0.001), survey(), "make none"),
        (AddSimulatedRecords(), microdata(pay=pa.array([], pa.float64())), "the data have no records"),
        (AddSimulatedRecords(count=2), microdata(town=["x", "y"] * 5), "copies of real ones in all of 100 attempts"),
        (AddSimulatedRecords(count=2, model="normal"), microdata(pay=[1.0, np.inf, 2.0]), "no normal distribution"),
        (AddSimulatedRecords(count=2), survey(weight=[-1.0] * 8), "negative"),
    ],
)
def test_what_cannot_be_simulated_is_refused(mask: Mask, data: Microdata, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        release(mask, data)


def test_a_share_and_a_count_together_are_refused() -> None:
    with pytest.raises(ParameterError, match="a share or a count, not both"):
        AddSimulatedRecords(share=0.1, count=5)


# Columns that follow


def towns(n: int = 60) -> Microdata:
    town = [f"t{i % 7}" for i in range(n)]
    return microdata(
        town=town, region=["south" if t in ("t1", "t3") else "north" for t in town], pay=np.arange(float(n))
    )


@pytest.mark.parametrize(
    "mask",
    [
        SuppressSmallAreas(columns=("town",), least=9),
        SuppressRecords("town == 't1'"),
        StratifiedSample(within=("town",), size=20),
        AddSimulatedRecords(count=20),
        AddSimulatedRecords(count=20, model="normal"),
    ],
)
def test_a_column_that_follows_another_still_does(mask: Mask) -> None:
    data = towns()
    connection = duckdb.connect()
    connection.from_arrow(data.to_native()).create("people")
    fitted = mask.fit(towns(90), Draws(9))  # a fitted method is applied to other data
    made = [
        release(m, d).masked for m in (mask, fitted) for d in (data, Microdata(connection.table("people"), data.schema))
    ]
    assert len({m.digest() for m in made}) == 1
    assert 0 < len(made[0]) != 60
    for town, region in zip(values(made[0], "town"), values(made[0], "region"), strict=True):
        assert region == ("south" if town in ("t1", "t3") else "north")
