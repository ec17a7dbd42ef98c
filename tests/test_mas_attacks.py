"""The attack bench: the printed rules show their weaknesses, the hardened policy withstands, and answers are the vault's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.contract.snooper import success, wilson
from sfumato.datasets.analysis_survey import coarse_cutpoints, fine_cutpoints, survey20k
from sfumato.errors import ParameterError
from sfumato.mas.accounts import right_of
from sfumato.mas.analyses import CrossTab
from sfumato.mas.attacks import (  # fmt: skip
    Differencing,
    EqualAnswers,
    ModelDifferencing,
    OutlierDifferencing,
    PaddedPairs,
    Probes,
    RefusalOracle,
    Rewording,
    SkewedDifferencing,
    WholeBudget,
)
from sfumato.mas.attacks.base import HALF, RARE, AttackTarget, BaseData, balanced, leaks, numbers, yes_or_no
from sfumato.mas.attacks.bench import HEADS, Bench, all_recipes, cost, cutpoints_of, recipe_named, rules_off, table
from sfumato.mas.attacks.reference_workload import HonestUsers, ordinary_questions
from sfumato.mas.models.linear import OLS
from sfumato.mas.policy import Policy
from sfumato.schema import Attribute, Schema

PRINTED, HARDENED = Policy.named("census2009"), Policy.named("hardened")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(survey20k(), fine_cutpoints(), tmp_path_factory.mktemp("bench"), worlds=2, trials=60)


def test_every_target_is_alone_in_the_difference_of_its_universes(bench: Bench) -> None:
    codes, levels = bench.ground.codes, {v.name: v.levels for v in bench.ground.variables}

    def rows(piece: dict[str, tuple[str, ...]]) -> set[int]:
        inside = np.ones(20_000, bool)
        for name, texts in piece.items():
            inside &= np.isin(codes[name], [levels[name].index(t) for t in texts])
        return set(np.flatnonzero(inside).tolist())

    for conditions in (2, 4):
        for target in bench.targets[conditions][::7]:
            assert (
                rows(target.universe) - rows(target.without)
                == {target.row}
                == rows(target.alone()) & rows(target.universe)
            )
            assert rows(target.without) < rows(target.universe)
            assert not any(rows(pad) & rows(target.universe) for pad in target.pads[:5])


def test_planted_attributes_have_their_shares_and_targets_toss_a_coin_for_the_rare_one(bench: Bench) -> None:
    truths = bench.frozen[0].truths
    assert truths[HALF].mean() == pytest.approx(0.5, abs=0.02)
    rows = np.unique([t.row for some in bench.targets.values() for t in some])
    assert truths[RARE][rows].mean() == pytest.approx(0.5, abs=0.2)
    assert np.delete(truths[RARE], rows).mean() == pytest.approx(0.02, abs=0.005)


@pytest.mark.parametrize("targets", [60, pytest.param(200, marks=pytest.mark.verify)])
def test_differencing_succeeds_under_the_printed_rules_as_often_as_drops_leave_the_difference_clean(
    bench: Bench, targets: int
) -> None:
    # q = 2 drops from each universe; of an attribute that half have, k of two are dropped with 1/4, 1/2, 1/4: e = difference of
    # two such numbers, and a guess by the sign is right with P(e <= 0) = (1 + P(e = 0)) / 2 = (1 + 3/8) / 2 = 0.6875
    found = bench.run(Differencing(), PRINTED, targets)
    low, high = wilson(0.6875 * targets, targets, 0.999)
    assert low < found.success.rate < high
    assert not found.held


def test_differencing_where_nearly_all_are_alike_succeeds_nearly_always_under_the_printed_rules(bench: Bench) -> None:
    assert bench.run(SkewedDifferencing(), PRINTED).success.rate > 0.85


def test_fifty_padded_pairs_settle_it_under_the_printed_rules(bench: Bench) -> None:
    assert bench.run(PaddedPairs(pairs=50), PRINTED, 2).success.rate > 0.85


def test_an_outliers_amount_is_found_under_the_printed_rules_by_sums_and_by_coefficients(bench: Bench) -> None:
    assert bench.run(OutlierDifferencing(), PRINTED, 20).success.rate > 0.9
    assert bench.run(ModelDifferencing(), PRINTED, 20).success.rate > 0.9


def test_equal_answers_prove_equal_sets_where_noise_hangs_on_records(bench: Bench) -> None:
    assert bench.run(EqualAnswers(), rules_off(PRINTED), 30).success.rate == 1.0
    assert bench.run(EqualAnswers(), rules_off(HARDENED), 30).success.rate < 0.8


@pytest.mark.parametrize("kind", [OutlierDifferencing, ModelDifferencing])
def test_the_hardened_policy_hides_an_outlier_even_without_its_universe_rules(bench: Bench, kind: type) -> None:
    found = bench.run(kind(), rules_off(HARDENED), 40)
    assert found.success.rate <= found.success.baseline + 0.25  # 40 targets; the bench itself takes 400


def test_the_hardened_policy_refuses_universes_that_differ_by_one_person(bench: Bench) -> None:
    found = bench.run(Differencing(), HARDENED)
    assert found.held
    assert found.refusal_rate > 0.9


def test_rewording_gives_the_same_bytes(bench: Bench) -> None:
    for policy in (rules_off(PRINTED), rules_off(HARDENED)):
        found = bench.run(Rewording(), policy, 6)
        assert found.success.rate == 0.0


def test_formulas_that_single_out_are_refused_without_quoting_data(bench: Bench) -> None:
    found = bench.run(Probes(), HARDENED, 2)
    assert found.success.rate == 0.0
    assert found.success.targets > 30


def test_refusals_do_not_tell_under_the_hardened_policy(bench: Bench) -> None:
    assert bench.run(RefusalOracle(), HARDENED).success.rate < 0.7


def test_an_account_is_spent_before_long(bench: Bench) -> None:
    found = bench.run(WholeBudget(tries=60, models=False), HARDENED, 2)
    assert found.refused["accounts"] >= 2
    assert 0.5 < found.calculated < found.formal < 0.75


def test_guesses_are_scored_by_sign_and_coins() -> None:
    scored = success(yes_or_no([1, 2, 3, 4], [0.5, -2.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]))
    assert scored.rate == (1 + 1 + 0 + 0.5) / 4
    even = success(balanced(yes_or_no([1, 2, 3, 4], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0])))
    assert even.rate == pytest.approx(0.5)  # always yes is right on every yes, and on no no
    assert success(leaks([True, False])).rate == 0.5


def test_numbers_are_scored_against_a_placebo() -> None:
    truths = [100.0, 1_000.0, 10_000.0]
    scored = success(numbers([1, 2, 3], [119.0, 1_300.0, float("nan")], truths))
    assert scored.rate == pytest.approx(1 / 3)
    assert scored.baseline == 0.0
    same = success(numbers([1, 2, 3], [5.0, 5.0, 5.0], [5.0, 5.0, 5.0]))
    assert same.rate == same.baseline == 1.0  # a value that all have is no secret of one


def test_the_workload_is_200_questions_with_40_regressions_and_always_the_same() -> None:
    asked = ordinary_questions()
    tables = [q for q in asked if isinstance(q.analysis, CrossTab)]
    assert len(asked) == 200
    assert len(tables) == 160
    assert {len(q.analysis.by) for q in tables} == {1, 2, 3}
    assert sum(isinstance(q.analysis, OLS) for q in asked) > 20
    assert asked == ordinary_questions()


def test_a_shelf_answers_the_tables_whose_variables_it_has_and_one_user_alone_asks_first(tmp_path: Path) -> None:
    users = HonestUsers(survey20k(1_000), coarse_cutpoints(), tmp_path)
    tables = [q for q in users.asked if isinstance(q.analysis, CrossTab) and q.analysis.of is None]
    for most in (1, 2, 3):
        counted = sum(len({*q.analysis.by, *(q.universe or {})}) <= most for q in tables)  # type: ignore[attr-defined]
        assert users.on_shelf(most) == counted / 200
    alone = users.alone(HARDENED.with_(rules=()), most=4)
    assert alone.asked == 4
    assert alone.told > 0.5


def test_the_hardened_policy_answers_four_fifths_of_the_workload_and_small_cells_suffer_most(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = cost(HARDENED, tmp_path_factory.mktemp("honest"), survey20k(), coarse_cutpoints())
    assert found.asked == 200
    assert found.answered >= 0.8
    errors = list(found.errors.values())
    assert errors == sorted(errors, reverse=True)
    assert found.errors["100 to 300"] < 0.03
    assert found.overlap > 0.7
    assert 1 < found.precision < 1.6  # noise is in the standard errors
    assert found.coverage >= 0.94
    assert 0.5 < found.told < 0.75 < found.formal < 1


def test_a_table_of_outcomes_has_a_row_for_each_recipe(bench: Bench) -> None:
    rows = table([bench.run(Differencing(), HARDENED, 10)])
    assert len(rows) == 1
    assert len(rows[0]) == len(HEADS)
    assert rows[0][-1] == "withstood"


def test_a_misspelt_recipe_is_told_with_the_nearest_name() -> None:
    with pytest.raises(ParameterError, match="differencing"):
        recipe_named("diferencing")
    assert len(all_recipes()) >= 15


def test_the_formal_limit_is_what_the_ledger_says_was_told(bench: Bench) -> None:
    found = bench.run(Differencing(), rules_off(HARDENED), 4)
    # two tables by yes and no of about a hundred records or more, each at most 1 / 4.8²
    assert 0.5 < found.formal <= right_of(2 / 4.8**2) + 1e-9
    assert bench.run(Differencing(), PRINTED, 4).formal == 1.0


def test_cutpoints_for_data_of_ones_own_are_quantiles_of_known_numbers() -> None:
    found = cutpoints_of(survey20k(1_000))
    assert list(found) == ["age"]
    assert len(found["age"]) == 10


def _coded(n: int = 3_000, lone: bool = False) -> Microdata:
    """A file as archives have it: categories as numbers, a code for "no answer", and a column without a value."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "sex": rng.integers(1, 3, n), "region": rng.integers(1, 5, n).astype(float), "age": rng.integers(18, 80, n),
        "group": rng.integers(1, 4, n), "gone": np.full(n, np.nan),
    })  # fmt: skip
    frame.loc[:99, "region"] = 9
    frame.loc[100:149, "region"] = np.nan
    if lone:  # one person in one cell of three variables; every cell of two of them has many
        frame.loc[(frame["sex"] == 1) & (frame["region"] == 1) & (frame["group"] == 1), "group"] = 2
        frame.loc[frame.index[(frame["sex"] == 1) & (frame["region"] == 1)][0], "group"] = 1
    schema = Schema((
        Attribute("sex", role="key", scale="unordered"),
        Attribute("region", role="key", scale="unordered", missing=(9,)),
        Attribute("age", role="other" if lone else "key"), Attribute("group", role="key", scale="unordered"),
        Attribute("gone", role="other" if lone else "key"),
    ))  # fmt: skip
    return Microdata(frame, schema)


def test_categories_that_are_coded_as_numbers_can_be_attacked(tmp_path: Path) -> None:
    data = _coded()
    found = cutpoints_of(data)
    assert list(found) == ["age"]
    ground = BaseData(data, found)
    world = ground.world(tmp_path, 0, [AttackTarget(0, {"sex": ("1",)}, {"sex": ("2",)}, ())])
    counts = world.vault.ask(world.dataset, None, CrossTab(("region",)), Policy.open()).frame()
    told = counts.set_index("region")["count"].drop("Total")
    levels = next(v.levels for v in ground.variables if v.name == "region")
    assert told["missing"] == 150
    assert [told[level] for level in levels] == np.bincount(ground.codes["region"]).tolist()


def test_names_and_levels_that_are_no_plain_words_can_be_attacked(tmp_path: Path) -> None:
    names = {"age": "age (years)", "race": "2nd race", "state": 'st"ate'}
    survey = survey20k(3_000)
    frame = survey.to_native().rename(columns=names)
    frame["2nd race"] = frame["2nd race"].astype(str) + "'s"
    data = Microdata(frame, Schema(tuple(a.with_(name=names.get(a.name, a.name)) for a in survey.schema)))
    bench = Bench(data, cutpoints_of(data), tmp_path, worlds=1, trials=10)
    recipes = [
        recipe_named(n)()
        for n in ("model_differencing", "rewording", "saturated_model", "probes", "picture_differencing")
    ]
    found = bench.all(HARDENED, recipes)
    assert [o.recipe for o in found] == [r.name for r in recipes]
    assert all(o.success.rate == 0 for o in found if o.recipe in ("rewording", "probes"))


def test_a_person_who_is_alone_in_a_cell_of_many_variables_is_attacked_where_no_two_tell_anybody_apart(
    tmp_path: Path,
) -> None:
    data = _coded(lone=True)
    bench = Bench(data, cutpoints_of(data), tmp_path, worlds=1, trials=10)
    assert list(bench.targets) == [4]
    assert [len(target.universe) for target in bench.targets[4]] == [3] * len(bench.targets[4])
    assert [o.recipe for o in bench.all(HARDENED, [Differencing(), Differencing(conditions=4)])] == ["differencing"]
