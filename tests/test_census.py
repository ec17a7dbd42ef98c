"""The generated census: a plausible population, and a sample of it that a survey statistician would recognise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato.contract import Draws, Recipe
from sfumato.datasets import Census, census
from sfumato.datasets.household_census import NO_ANSWER
from sfumato.errors import ParameterError
from sfumato.schema import Level, Role, Schema


@pytest.fixture(scope="module")
def data() -> Census:
    return census(households=20_000, fraction=0.05, seed=7)


@pytest.fixture(scope="module")
def people(data: Census) -> pd.DataFrame:
    return data.population.to_native().to_pandas()


@pytest.fixture(scope="module")
def sample(data: Census) -> pd.DataFrame:
    return data.sample.to_native().to_pandas()


def test_the_same_seed_gives_the_same_census_and_another_seed_another_one(data: Census) -> None:
    again, other = census(20_000, 0.05, seed=7), census(20_000, 0.05, seed=8)
    assert again.sample.digest() == data.sample.digest()
    assert again.population.digest() == data.population.digest()
    assert other.population.digest() != data.population.digest()


# The design of the sample


def test_the_sample_holds_whole_households_of_the_population(people: pd.DataFrame, sample: pd.DataFrame) -> None:
    sizes = people.groupby("household").size()
    drawn = sample.groupby("household").size()
    assert (sizes[drawn.index] == drawn).all()
    assert (sample["size"] == drawn[sample.household].to_numpy()).all()
    assert set(sample.person) <= set(people.person)
    assert people.person.is_unique


def test_weights_are_the_reciprocal_of_the_share_of_households_drawn_in_the_stratum(
    people: pd.DataFrame, sample: pd.DataFrame
) -> None:
    there = people.groupby("stratum").household.nunique()
    drawn = sample.groupby("stratum").household.nunique()
    assert len(drawn) == 8
    np.testing.assert_allclose(sample.weight, (there / drawn)[sample.stratum])
    heads = sample[sample.relationship == "head"]
    assert heads.weight.sum() == pytest.approx(20_000)
    assert len(heads) == pytest.approx(1_000, abs=8)


def test_small_strata_are_drawn_more_densely_by_the_root_of_their_size(
    people: pd.DataFrame, sample: pd.DataFrame
) -> None:
    there = people.groupby("stratum").household.nunique()
    drawn = sample.groupby("stratum").household.nunique()
    wanted = 1_000 * np.sqrt(there) / np.sqrt(there).sum()
    assert (abs(drawn - wanted) <= 0.5).all()


@pytest.mark.parametrize("seed", range(5))
def test_weighted_totals_estimate_the_population_within_their_sampling_error(seed: int) -> None:
    made = census(households=8_000, fraction=0.1, seed=seed)
    people, sample = (d.to_native().to_pandas() for d in (made.population, made.sample))
    for column in ("size", "rooms"):
        truth = people[people.relationship == "head"][column].sum()
        heads = sample[sample.relationship == "head"]
        within = heads.groupby("stratum")[column].agg(["var", "count"])
        there = people[people.relationship == "head"].groupby("stratum").size()
        variance = (there**2 * (1 - within["count"] / there) * within["var"] / within["count"]).sum()
        assert abs((heads.weight * heads[column]).sum() - truth) < 4.5 * np.sqrt(variance), column


# Plausible people


def test_every_household_has_one_head_and_at_most_one_spouse_or_partner(people: pd.DataFrame) -> None:
    counts = pd.crosstab(people.household, people.relationship)
    assert (counts["head"] == 1).all()
    assert (counts["spouse"] + counts["partner"] <= 1).all()


def test_spouses_are_grown_up_and_married_to_each_other(people: pd.DataFrame) -> None:
    pairs = people[people.relationship.isin(["spouse", "partner"])]
    assert pairs.age.min() >= 18
    heads = people[people.relationship == "head"].set_index("household")
    assert heads.age.min() >= 18
    spouses = people[people.relationship == "spouse"]
    assert (spouses.marital == "married").all()
    assert (heads.marital[spouses.household] == "married").all()
    with_spouse = heads.index.isin(spouses.household)
    assert not (heads.marital[~with_spouse] == "married").any()


def test_parents_are_at_least_seventeen_years_older_than_their_children(people: pd.DataFrame) -> None:
    heads = people[people.relationship == "head"].set_index("household")
    children = people[people.relationship == "child"]
    gap = heads.age[children.household].to_numpy() - children.age.to_numpy()
    assert gap.min() >= 17
    second = people[people.relationship.isin(["spouse", "partner"])].set_index("household").age
    known = children[children.household.isin(second.index)]
    assert (second[known.household].to_numpy() - known.age.to_numpy()).min() >= 17
    elders = people[people.relationship == "parent"]
    assert len(elders) > 100
    assert (elders.age.to_numpy() - heads.age[elders.household].to_numpy()).min() >= 17
    assert people.age.between(0, 110).all()


def test_children_neither_work_nor_marry(people: pd.DataFrame) -> None:
    young = people[people.age < 16]
    assert (young.employment == "child").all()
    assert (young.marital == "never married").all()
    assert young.occupation.isna().all()
    assert (young[["salary", "business", "interest", "benefits"]] == 0).to_numpy().all()
    assert (young.education == "none").all()


def test_income_goes_with_work(people: pd.DataFrame) -> None:
    assert ((people.salary > 0) == (people.employment == "employed")).all()
    assert ((people.business != 0) <= (people.employment == "self-employed")).all()
    works = people.employment.isin(["employed", "self-employed"])
    assert (people.occupation.notna() == works).all()
    assert (people.business < 0).any()


def test_salaries_rise_with_education_and_have_a_heavy_tail(people: pd.DataFrame) -> None:
    employed = people[people.employment == "employed"]
    order = ["compulsory", "secondary", "vocational", "bachelor", "master"]
    medians = employed.groupby("education").salary.median()[order]
    assert medians.is_monotonic_increasing
    young, middle = (employed[employed.age.between(*ages)].salary.median() for ages in ((20, 29), (40, 55)))
    assert middle > 1.2 * young
    z = (employed.salary - employed.salary.mean()) / employed.salary.std()
    assert (z**4).mean() > 10  # 3 for a normal distribution
    assert (people.interest == 0).mean() > 0.3


def test_what_describes_a_household_is_the_same_for_all_its_members(data: Census, sample: pd.DataFrame) -> None:
    shared = [a.name for a in data.sample.schema if a.level is Level.HOUSEHOLD]
    assert {"tract", "rent", "size"} <= set(shared)
    assert (sample.groupby("household")[shared].nunique(dropna=False) == 1).to_numpy().all()
    assert (sample.rent.isna() == (sample.tenure == "owner")).all()


# The schema


def test_the_schema_can_be_written_and_read(data: Census) -> None:
    schema = data.sample.schema
    assert Schema.from_toml(schema.to_toml()) == schema
    assert [a.name for a in schema if a.role is Role.WEIGHT] == ["weight"]
    assert data.population.schema.one("weight") is None
    assert set(data.population.schema.names()) == set(schema.names()) - {"weight"}


def test_every_hierarchy_covers_all_values(data: Census) -> None:
    for attribute in data.population.schema:
        if attribute.hierarchy is not None:
            _, values = data.population.batch([attribute.name]).column(attribute.name).codes
            for level in range(attribute.hierarchy.height + 1):
                assert attribute.hierarchy.generalise(values, level).all(), attribute.name


def test_tracts_lie_in_districts_and_districts_in_regions(data: Census, people: pd.DataFrame) -> None:
    hierarchy = data.population.schema["tract"].hierarchy
    assert hierarchy is not None
    assert (hierarchy.generalise(people.tract, 1) == people.district).all()
    assert (hierarchy.generalise(people.tract, 2) == people.region_name).all()


def test_columns_that_follow_another_are_a_function_of_it(data: Census, people: pd.DataFrame) -> None:
    follows = {a.name: a.follows for a in data.population.schema if a.follows}
    assert follows == {"region": "district", "region_name": "region", "district": "tract", "area": "tract"}
    for name, key in follows.items():
        assert (people.groupby(key)[name].nunique() == 1).all(), name


def test_missing_answers_are_null_or_a_declared_code(data: Census, sample: pd.DataFrame) -> None:
    for name in ("salary", "business", "interest", "rent"):
        coded = (sample[name] == NO_ANSWER).mean()
        assert 0.005 < coded < 0.08, name
        assert data.sample.schema[name].missing == (NO_ANSWER,)
        known = data.sample.numbers(name)
        assert np.nanmax(known) < NO_ANSWER
    assert 0.002 < sample.age.isna().mean() < 0.01
    assert 0.005 < sample.education.isna().mean() < 0.03


def test_answers_that_are_not_missing_are_those_of_the_population(people: pd.DataFrame, sample: pd.DataFrame) -> None:
    truth = people.set_index("person").loc[sample.person].reset_index()
    for name in people.columns:
        asked = sample[name].notna() & (sample[name] != NO_ANSWER)
        assert (sample[name][asked] == truth[name][asked]).all(), name


def test_the_census_can_be_masked(data: Census) -> None:
    release = Recipe(()).apply(data.sample, Draws(1))
    assert "person" not in release.masked.schema


@pytest.mark.parametrize("households", [1, 2, 30])
def test_a_small_census_works_too(households: int) -> None:
    made = census(households, fraction=0.5)
    assert 0 < len(made.sample) <= len(made.population)
    whole = census(households, fraction=1.0)
    assert len(whole.sample) == len(whole.population)
    assert (whole.sample.numbers("weight") == 1).all()


@pytest.mark.parametrize(("households", "fraction"), [(0, 0.1), (10, 0.0), (10, 1.5)])
def test_a_census_of_nobody_is_refused(households: int, fraction: float) -> None:
    with pytest.raises(ParameterError, match="at least one household"):
        census(households, fraction)
