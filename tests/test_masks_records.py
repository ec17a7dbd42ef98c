"""Sampling: sizes, inclusion probabilities, weights, households, strata, nesting, engines; and every refusal."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_files import release

from sfumato.contract import Draws, Recipe
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.masks import Sample, StratifiedSample, WeightedSample
from sfumato.masks.sampling import Frame, Sampling, allocate, proportional
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
ROLES: dict[str, dict[str, Any]] = {
    "home": {"role": "household"},
    "area": {"role": "stratum", "scale": "unordered", "level": "household"},
    "rooms": {"role": "key", "level": "household", "integer": True},
    "pay": {"role": "confidential"},
    "sex": {"role": "key", "scale": "unordered"},
    "weight": {"role": "weight"},
}


def microdata(**columns: Any) -> Microdata:
    table = pa.table({n: pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **ROLES.get(n, {})) for n in columns)))


def people(households: int = 40, seed: int = 3) -> Microdata:
    """Households of one to five persons, in three areas of different sizes, with unequal weights."""
    g = np.random.default_rng(seed)
    size = g.integers(1, 6, households)
    home = np.repeat(1000 + g.permutation(households), size)
    n = len(home)
    return microdata(
        home=home,
        area=np.repeat(np.array(["a", "b", "c"])[g.choice(3, households, p=[0.6, 0.3, 0.1])], size),
        rooms=np.repeat(g.integers(1, 9, households), size),
        pay=g.gamma(2, 500, n),
        sex=np.array(["f", "m"])[g.integers(0, 2, n)],
        weight=np.repeat(g.uniform(50, 150, households), size),
    )


def alone(n: int = 30, **columns: Any) -> Microdata:
    g = np.random.default_rng(8)
    return microdata(**{"pay": g.gamma(2, 500, n), "weight": g.uniform(1, 9, n), **columns})


def kept(mask: Sampling, data: Microdata, seeds: range) -> NDArray[np.bool_]:
    """Return which records are released, for each seed; shape (seeds, n)."""
    out = []
    for seed in seeds:
        batch, draws = data.batch(), Draws(seed)
        fitted = mask.fit(data, draws)
        out.append(fitted.choice(batch, draws)[0])
    return np.array(out)


def homes(data: Microdata) -> NDArray[Any]:
    return np.array(data.batch(["home"]).column("home").arrow.to_pylist())


def assert_rates(found: NDArray[np.bool_], truth: Numbers, z: float = 4.5) -> None:
    """Every unit is drawn about as often as it should be: binomial error."""
    error = np.sqrt(truth * (1 - truth) / len(found))
    assert (np.abs(found.mean(axis=0) - truth) <= z * error + 1e-12).all()


# Simple random samples


@pytest.mark.parametrize(
    ("setting", "size"), [({"fraction": 0.25}, 8), ({"size": 11}, 11), ({}, 3), ({"fraction": 1.0}, 30)]
)
def test_a_simple_sample_has_exactly_the_size_that_was_asked_for(setting: dict[str, Any], size: int) -> None:
    data = alone()
    assert {len(release(Sample(**setting), data, seed).masked) for seed in range(20)} == {size}


def test_every_record_and_every_pair_is_equally_likely_in_a_simple_sample() -> None:
    n, size, seeds = 12, 4, 6000
    found = kept(Sample(size=size), alone(n), range(seeds))
    assert_rates(found, np.full(n, size / n))
    together = np.array([found[:, i] & found[:, j] for i, j in itertools.combinations(range(n), 2)]).T
    assert_rates(together, np.full(together.shape[1], size * (size - 1) / (n * (n - 1))))


def test_a_smaller_sample_is_part_of_a_larger_one_for_the_same_seed() -> None:
    data = people(60)
    for make in (lambda s: Sample(size=s), lambda s: StratifiedSample(within=("area",), size=s)):
        before: set[int] = set()
        for size in range(5, 60, 3):
            now = set(release(make(size), data).align.tolist())
            assert before <= now
            before = now


def test_another_seed_draws_another_sample() -> None:
    a, b = (release(Sample(size=10), alone(), seed).align.tolist() for seed in (1, 2))
    assert a != b


@pytest.mark.parametrize(
    "mask",
    [
        Sample(size=9),
        StratifiedSample(within=("area",), size=9),
        WeightedSample(size=9),
        WeightedSample(by="rooms", size=9),
    ],
)
def test_households_are_drawn_whole_and_counted_as_units(mask: Sampling) -> None:
    data = people()
    before, after = homes(data), homes(release(mask, data).masked)
    assert len(set(after.tolist())) == 9
    for home in set(after.tolist()):
        assert (after == home).sum() == (before == home).sum()


def test_with_records_as_units_households_are_split() -> None:
    data = people()
    after = homes(release(Sample(size=20, unit="record"), data).masked)
    assert len(after) == 20
    assert any((after == home).sum() < (homes(data) == home).sum() for home in set(after.tolist()))


def test_a_record_whose_household_is_not_known_is_a_household_of_its_own() -> None:
    data = microdata(home=pa.array([1, 1, None, None, 2]), pay=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert len(Frame.of(data.batch(), "household").units) == 4


# Weights


@pytest.mark.parametrize(
    "mask",
    [
        Sample(size=10), Sample(size=25, unit="record"), StratifiedSample(within=("area",), size=10),
        StratifiedSample(within=None, allocation="equal", size=10), StratifiedSample(within=("area",), neyman="pay", size=10),
        WeightedSample(size=10), WeightedSample(by="rooms", size=10), WeightedSample(by="pay", size=30, unit="record"),
    ],
)  # fmt: skip
def test_weighted_totals_are_unbiased(mask: Sampling) -> None:
    """Horvitz and Thompson (1952): the sum of weight × value over the sample has the full sum as its mean."""
    data = people()
    pay, weight, seeds = data.numbers("pay"), data.numbers("weight"), 500
    totals = np.array([(m.numbers("pay") * m.numbers("weight")).sum() for m in _made(mask, data, seeds)])
    assert abs(totals.mean() - (pay * weight).sum()) <= 4.5 * totals.std(ddof=1) / np.sqrt(seeds)


def _made(mask: Sampling, data: Microdata, seeds: int) -> list[Any]:
    made = []
    for seed in range(seeds):
        draws = Draws(seed)
        made.append(mask.fit(data, draws).transform(data.batch(), draws))
    return made


def test_weights_are_divided_by_the_sampling_fraction() -> None:
    data = people()
    made = release(Sample(size=10), data)
    before = dict(zip(data.batch([]).ids.tolist(), data.numbers("weight").tolist(), strict=True))
    expected = [before[i] * 4 for i in made.align.tolist()]  # ten of forty households
    np.testing.assert_allclose(made.masked.numbers("weight"), expected)


def test_a_sample_proportional_to_the_weights_has_equal_weights() -> None:
    data = alone(50)
    weights = release(WeightedSample(size=10), data).masked.numbers("weight")
    np.testing.assert_allclose(weights, data.numbers("weight").sum() / 10)


def test_no_weight_is_invented_and_the_release_says_so() -> None:
    data = microdata(pay=np.arange(20.0))
    made = release(Sample(size=5), data)
    assert made.masked.schema.names() == ("pay",)
    assert any("none was invented" in g.says for g in made.guarantees)


def test_whole_bounded_weights_become_any_numbers() -> None:
    data = microdata(pay=np.arange(7.0), weight=[10] * 7)
    data = data.with_schema(data.schema.change("weight", integer=True, bounds=(1, 12)))
    made = release(Sample(size=3), data).masked
    np.testing.assert_allclose(made.numbers("weight"), 70 / 3)
    assert not made.schema["weight"].integer
    assert made.schema["weight"].bounds == (0, None)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
@pytest.mark.parametrize("mask", [Sample(size=3), WeightedSample(size=3), StratifiedSample(within=("area",), size=6)])
def test_bad_weights_are_refused(mask: Sampling, bad: float) -> None:
    data = people()
    weight = data.numbers("weight").copy()
    weight[4] = bad
    columns = {n: data.batch().column(n).arrow for n in data.schema.names()}
    with pytest.raises(DataError, match=r"missing, negative or infinite"):
        release(mask, microdata(**{**columns, "weight": weight}))


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(DataError, match="are zero, so no record counts"):
        release(Sample(size=3), alone(weight=np.zeros(30)))


# Strata


def strata_counts(data: Microdata, name: str = "area") -> dict[str, int]:
    """Return the number of households in each area."""
    areas = data.batch([name]).column(name).arrow.to_pylist()
    return {a: len(set(homes(data)[[x == a for x in areas]].tolist())) for a in sorted(set(areas))}


def test_proportional_allocation_is_proportional_up_to_rounding_and_adds_up() -> None:
    data = people(200)
    units = strata_counts(data)
    for size in (10, 23, 57, 100):
        drawn = strata_counts(release(StratifiedSample(within=("area",), size=size), data).masked)
        assert sum(drawn.values()) == size
        assert all(abs(drawn[a] - size * units[a] / 200) < 1 for a in units)


def test_equal_allocation_is_equal_and_takes_a_small_stratum_whole() -> None:
    data = people(200)
    units = strata_counts(data)
    drawn = strata_counts(release(StratifiedSample(within=("area",), allocation="equal", size=30), data).masked)
    assert set(drawn.values()) == {10}
    drawn = strata_counts(release(StratifiedSample(within=("area",), allocation="equal", size=150), data).masked)
    assert drawn["c"] == units["c"] < 50
    assert drawn["a"] + drawn["b"] + drawn["c"] == 150
    assert abs(drawn["a"] - drawn["b"]) <= 1 or drawn["b"] == units["b"]


def test_neyman_allocation_is_proportional_to_size_times_spread() -> None:
    g = np.random.default_rng(5)
    area, sd = np.repeat(["a", "b", "c"], [500, 300, 200]), np.repeat([1.0, 5.0, 20.0], [500, 300, 200])
    data = microdata(area=area, pay=100 + sd * g.standard_normal(1000))
    pay = data.numbers("pay")
    measure = np.array([(area == a).sum() * pay[area == a].std(ddof=1) for a in "abc"])
    made = release(StratifiedSample(within=None, neyman="pay", size=120), data).masked
    drawn = [made.batch(["area"]).column("area").arrow.to_pylist().count(a) for a in "abc"]
    assert sum(drawn) == 120
    assert np.abs(drawn - 120 * measure / measure.sum()).max() < 1


@pytest.mark.parametrize("times", [500, pytest.param(3000, marks=pytest.mark.verify)])
def test_every_stratum_has_its_own_inclusion_probability(times: int) -> None:
    data = people(30, seed=11)
    units = strata_counts(data)
    found = kept(StratifiedSample(within=("area",), size=10), data, range(times))
    drawn = strata_counts(release(StratifiedSample(within=("area",), size=10), data).masked)
    area = data.batch(["area"]).column("area").arrow.to_pylist()
    assert_rates(found, np.array([drawn[a] / units[a] for a in area]))


def slow_allocation(total: int, measure: Numbers, least: int, most: NDArray[np.int64]) -> list[int]:
    """One at a time, to the stratum with the largest measure / (given + 1/2)."""
    given = [least] * len(measure)
    for _ in range(total - sum(given)):
        open_ = [h for h in range(len(given)) if given[h] < most[h]]
        best = max(open_, key=lambda h: (measure[h] / (given[h] + 0.5), -h))
        given[best] += 1
    return given


@settings(max_examples=200)
@given(st.data())
def test_allocation_equals_the_slow_rule_and_never_shrinks(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    most = np.array(data.draw(st.lists(st.integers(2, 40), min_size=count, max_size=count)))
    least = data.draw(st.integers(1, 2))
    measure = np.array(data.draw(st.lists(st.floats(0.01, 100), min_size=count, max_size=count)))
    measure = np.round(measure, 3) + 0.001 * np.arange(count)
    total = data.draw(st.integers(least * count, int(most.sum())))
    found = allocate(total, measure, least, most)
    assert found.tolist() == slow_allocation(total, measure, least, most)
    assert found.sum() == total
    if total < most.sum():
        assert (allocate(total + 1, measure, least, most) >= found).all()


def test_strata_without_spread_still_get_the_least() -> None:
    assert allocate(6, np.array([0.0, 8.0]), 1, np.array([10, 10])).tolist() == [1, 5]
    assert allocate(15, np.array([0.0, 8.0]), 1, np.array([10, 10])).tolist() == [5, 10]


# Unequal probabilities


@settings(max_examples=200)
@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=15), st.data())
def test_probabilities_add_up_to_the_size_and_are_proportional_below_one(
    sizes: list[float], data: st.DataObject
) -> None:
    size = np.array(sizes)
    total = data.draw(st.integers(1, len(sizes)))
    pi = proportional(size, total)
    assert pi.sum() == pytest.approx(total)
    assert ((pi > 0) & (pi <= 1)).all()
    below = pi < 1
    ratio = pi[below] / size[below]
    assert np.allclose(ratio, ratio[:1])
    if below.any():  # who is certain would have had a probability of one or more
        assert (size[~below] * ratio[0] >= 1 - 1e-9).all()


def test_a_weighted_sample_has_the_inclusion_probabilities_of_its_design() -> None:
    size = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 55.0])  # the last is drawn with certainty
    data = microdata(pay=size)
    found = kept(WeightedSample(by="pay", size=4), data, range(6000))
    truth = np.append(3 * size[:9] / 45, 1.0)
    assert (found.sum(axis=1) == 4).all()
    assert_rates(found, truth)


def test_systematic_drawing_equals_a_walk_along_the_probabilities() -> None:
    """Lay the probabilities end to end in the random order, step by step, and draw whoever holds start, start + 1, …"""
    data = microdata(pay=np.random.default_rng(4).gamma(1, 1, 25))
    mask = WeightedSample(by="pay", size=7)
    pi = mask.inclusion(Frame.of(data.batch(), "record"))
    for seed in range(60):
        draws = Draws(seed)
        order = np.argsort(draws.uniforms(np.arange(25), "sample"))
        point, end, drawn = float(draws.uniforms(np.zeros(1, np.int64), "start")[0]), 0.0, set()
        for unit in order:
            end += pi[unit]
            while point < end - 1e-12:
                drawn.add(int(unit))
                point += 1
        assert set(np.flatnonzero(kept(mask, data, range(seed, seed + 1))[0]).tolist()) == drawn


def test_the_size_of_a_household_is_that_of_its_members_together() -> None:
    data = microdata(home=[1, 1, 2, 3, 3, 3], pay=[1.0, 2.0, 4.0, 1.0, 1.0, 1.0], rooms=[2, 2, 5, 3, 3, 3])
    frame = Frame.of(data.batch(), "household")
    by_home = dict(zip(homes(data)[frame.first].tolist(), frame.totals("pay").tolist(), strict=True))
    assert by_home == {1: 3.0, 2: 4.0, 3: 3.0}
    by_home = dict(zip(homes(data)[frame.first].tolist(), frame.totals("rooms").tolist(), strict=True))
    assert by_home == {1: 2.0, 2: 5.0, 3: 3.0}


def test_all_units_can_be_drawn() -> None:
    data = alone()
    for mask in (WeightedSample(size=30), Sample(size=30)):
        np.testing.assert_allclose(release(mask, data).masked.numbers("weight"), data.numbers("weight"))


# Refusals


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (Sample(size=41), r"size = 41 is more than the 40 households there are"),
        (Sample(fraction=0.001), r"a share of 0.001 of 40 households is none at all"),
        (StratifiedSample(within=("area",), size=2), r"cannot have at least 1 in each of 3 strata"),
        (StratifiedSample(within=("area",), size=30, least=20), r"strata have fewer than least = 20 households"),
        (StratifiedSample(within=("sex",), size=10), r"households lie in different strata"),
        (StratifiedSample(within=("aera",), size=10), r"column 'aera' is not in the data. Did you mean 'area'\?"),
        (StratifiedSample(within=("area",), neyman="sex", size=10), r"column 'sex' holds text"),
        (WeightedSample(by="sex", size=10), r"column 'sex' holds text"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused(mask: Sampling, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        release(mask, people())


def test_sizes_that_are_no_sizes_are_refused() -> None:
    for bad, sentence in ((np.nan, "missing, negative or infinite"), (-2.0, "negative"), (0.0, "have size 0")):
        with pytest.raises(DataError, match=sentence):
            release(WeightedSample(by="pay", size=3), microdata(pay=[1.0, 2.0, 3.0, bad, 5.0]))
    with pytest.raises(DataError, match="only 2 records have a positive size"):
        release(WeightedSample(size=3), alone(4, weight=[0.0, 0.0, 1.0, 2.0]))
    with pytest.raises(DataError, match="needs a size"):
        release(WeightedSample(size=3), microdata(pay=np.arange(9.0)))
    with pytest.raises(DataError, match="no column has the role 'stratum'"):
        release(StratifiedSample(within=None, size=3), alone())
    with pytest.raises(DataError, match="does not vary in any stratum"):
        release(StratifiedSample(within=None, neyman="pay", size=3), microdata(pay=[1.0] * 9, area=["a"] * 9))


def test_parameters_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ParameterError, match="a fraction or a size, not both"):
        Sample(fraction=0.1, size=5)
    with pytest.raises(ParameterError, match="not both"):
        StratifiedSample(within=("area",), allocation="equal", neyman="pay")


def test_a_sample_that_is_not_the_planned_one_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Sample.choice
    monkeypatch.setattr(
        Sample, "choice", lambda self, batch, draws: (np.ones(len(batch), bool), whole(self, batch, draws)[1])
    )
    with pytest.raises(DataError, match="nothing is released"):
        release(Sample(size=5), people())


# What it says, where it runs, and running it again


def test_the_release_states_the_sampling_fraction() -> None:
    says = " ".join(g.says for g in release(StratifiedSample(within=("area",), size=10), people()).guarantees)
    assert "10 of 40 households are released, a fraction of 0.25" in says
    assert "in each of the 3 strata of area" in says
    assert "weighted totals are unbiased" in says


@pytest.mark.parametrize("mask", [StratifiedSample(within=("area",), size=11), WeightedSample(by="rooms", size=11)])
def test_the_same_households_are_drawn_on_every_engine(mask: Sampling, spark: Any) -> None:
    data = people()
    here = release(mask, data)
    table = data.to_native()
    connection = duckdb.connect()
    connection.from_arrow(table).create("people")
    for frame in (connection.table("people"), spark.createDataFrame(table).repartition(3).sortWithinPartitions("pay")):
        there = Microdata(frame, data.schema)
        if there.engine.name == "DuckDB":
            np.testing.assert_array_equal(there.batch([]).ids, data.batch([]).ids)
            made = release(mask, there)
            np.testing.assert_array_equal(np.sort(made.align), np.sort(here.align))
        else:  # in another order records have other ids, but households have the same numbers
            made = release(mask, there)
        assert sorted(set(homes(made.masked).tolist())) == sorted(set(homes(here.masked).tolist()))
        np.testing.assert_allclose(np.sort(made.masked.numbers("weight")), np.sort(here.masked.numbers("weight")))


def test_a_fitted_sample_draws_anew_from_other_data_and_with_other_draws() -> None:
    mask, data, other = Sample(size=10), people(), people(77, seed=9)
    fitted = mask.fit(data, Draws(1))
    assert fitted.run(data, Draws(1)).digest() == mask.fit(data, Draws(1)).run(data, Draws(1)).digest()
    assert fitted.run(data, Draws(2)).digest() == mask.fit(data, Draws(2)).run(data, Draws(2)).digest()
    assert fitted.run(other, Draws(1)).digest() == mask.fit(other, Draws(1)).run(other, Draws(1)).digest()
    sent = pickle.loads(pickle.dumps(fitted))
    assert sent.run(data, Draws(1)).digest() == fitted.run(data, Draws(1)).digest()
    assert not fitted.with_(size=5).is_fitted
    assert len(Recipe.of(fitted).apply(other, Draws(4)).masked) > 0


def test_sampling_is_a_matrix_of_zeros_and_ones() -> None:
    data = people()
    form = Sample(size=10).as_matrix(data, Draws(1))
    assert form.names == form.released == ("home", "rooms", "pay")
    assert form.random == ("A",)
    dense = form.A.toarray()  # type: ignore[union-attr]
    assert (dense.sum(axis=1) == 1).all()
    assert set(np.unique(dense)) == {0.0, 1.0}
    x = np.column_stack([data.numbers(n) for n in form.names])
    made = Sample(size=10).apply(data, Draws(1)).masked
    np.testing.assert_array_equal(form.apply(x), np.column_stack([made.numbers(n) for n in form.names]))


def test_a_stratum_key_of_many_levels_is_sampled() -> None:
    data = microdata(area=[f"area {i % 20_000}" for i in range(60_000)], pay=np.arange(60_000.0))
    made = release(StratifiedSample(within=None, size=30_000), data).masked
    assert len(made) == 30_000
    assert len(set(made.batch(["area"]).column("area").arrow.to_pylist())) == 20_000
