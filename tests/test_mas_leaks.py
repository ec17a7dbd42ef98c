"""Leaks that no noise covers: the recipes find what they look for where nothing protects, and what they plant is what they say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from mas_farms import FARM_CUTS, farms

from sfumato.contract.snooper import success
from sfumato.datasets.analysis_survey import fine_cutpoints, survey20k
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks import (  # fmt: skip
    InformedBudget,
    InformedEverybody,
    KnownAmountSlopes,
    KnownAmountSums,
    KnownAmountSumsEverybody,
    RefusalReasons,
    RefusalReasonsCombined,
    TopCodeTable,
    VersionAmounts,
    VersionDifferencing,
)
from sfumato.mas.attacks.base import AttackTrials, PolicyAttack, numbers, yes_or_no
from sfumato.mas.attacks.bench import Bench, all_recipes
from sfumato.mas.attacks.leaks import (
    CORRECTED,
    LATE,
    VersionTarget,
    group_targets,
    learned,
    tail_targets,
    version_targets,
)
from sfumato.mas.attacks.linear_attacks import FLAG, LAND, YES, richest
from sfumato.mas.attacks.linear_questions import Kind, KnownCells, Planner
from sfumato.mas.policy import Policy

OPEN = Policy.open()
FILES = {"survey": lambda: (survey20k(5_000, seed=77), fine_cutpoints()), "farms": lambda: (farms(3_000), FARM_CUTS)}


@pytest.fixture(scope="module", params=FILES)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(*FILES[request.param](), tmp_path_factory.mktemp("bench"), worlds=1, trials=12)


@pytest.mark.parametrize(
    "recipe", [RefusalReasons(), RefusalReasonsCombined(), VersionDifferencing(), VersionAmounts(), TopCodeTable()]
)
def test_a_leak_is_found_where_no_answer_has_noise(bench: Bench, recipe: PolicyAttack) -> None:
    found = bench.run(recipe, OPEN)
    assert found.success.targets == 12
    assert found.success.rate >= 0.9
    assert not found.held


@pytest.mark.parametrize(
    "recipe", [InformedBudget(questions=6, tries=30), InformedEverybody(users=2, questions=3, tries=30)]
)
def test_who_knows_the_others_is_always_right_where_no_answer_has_noise(bench: Bench, recipe: PolicyAttack) -> None:
    assert bench.run(recipe, OPEN, 8).success.rate == 1.0


@pytest.mark.parametrize(
    ("recipe", "least"),
    [
        (KnownAmountSums(questions=40, tries=60), 0.85),
        (KnownAmountSumsEverybody(users=2, questions=20, tries=60), 0.85),
        (KnownAmountSlopes(questions=40, tries=60), 0.6),
    ],
)
def test_an_attribute_is_found_from_sums_without_noise(tmp_path: Path, recipe: PolicyAttack, least: float) -> None:
    # models need 600 records, and of these others have most of the amount, too: their attributes are not known; 8 targets
    bench = Bench(survey20k(5_000, seed=77), fine_cutpoints(), tmp_path, worlds=1, trials=8)
    assert bench.run(recipe, OPEN).success.rate >= least


def test_every_recipe_is_on_the_bench() -> None:
    wanted = {
        "refusal_reasons", "refusal_reasons_combined", "version_differencing", "version_account", "version_amounts",
        "top_code_table",
        "known_amount_sums", "known_amount_sums_everybody", "known_amount_correlations", "known_amount_slopes",
        "informed_budget", "informed_everybody",
    }  # fmt: skip
    assert wanted <= set(all_recipes())


# --- what is planted


def test_nobody_else_of_a_group_has_a_claim_and_half_of_the_targets_have_one(bench: Bench) -> None:
    targets = group_targets(bench.frozen[0])
    assert len(targets) >= 8
    for target in targets:
        claims = target.planted.base.data.numbers(target.claim)
        others = target.planted.inside({target.by: (target.level,)})
        others[target.row] = False
        assert not claims[others].any()
        assert (claims[target.row] > 0) == target.has
        assert all(target.planted.inside(piece).sum() >= 500 for piece, _ in target.models(3))
    every = [target.has for target in targets]
    assert 0.2 < np.mean(every) < 0.8


@pytest.mark.parametrize("amounts", [False, True])
def test_one_value_of_a_universe_changes_between_versions(bench: Bench, amounts: bool) -> None:
    # that at least 20 of all change is what freezing demands
    targets = version_targets(bench.frozen[0], amounts)
    assert len(targets) >= 8
    for target in targets:
        known = [v.name for v in target.planted.base.variables if v.name != target.by]
        counts, sums = cell_changes(target, known, amounts)
        if amounts:
            assert not counts.any()
            assert sums[np.abs(sums) > 1e-6] == pytest.approx([target.truth])
        else:
            assert sorted(counts[counts != 0].tolist()) == [-1.0, 1.0]


def cell_changes(target: VersionTarget, known: list[str], amounts: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much the cells of a target's universe differ between the versions: counts, and sums of the amount."""
    analysis = CrossTab(tuple(known), of=LATE) if amounts else CrossTab((*known, CORRECTED))
    found = []
    for dataset in target.planted.versions:
        answer = target.planted.world.vault.ask(dataset, {target.by: (target.level,)}, analysis, OPEN)
        assert isinstance(answer, Answer)
        sides = analysis.by
        rows = [row for row in answer.tables["cells"] if "Total" not in [row[side] for side in sides]]
        found.append(
            np.array([[float(row[name] or 0) for name in ("count", *(["sum"] if amounts else []))] for row in rows])
        )
    change = np.nan_to_num(found[1]) - np.nan_to_num(found[0])
    return change[:, 0], change[:, -1]


def test_one_person_has_most_of_what_lies_above_the_top_code(bench: Bench) -> None:
    for target in tail_targets(bench.frozen[0]):
        amounts = np.sort(target.planted.base.data.numbers(target.amount))
        above = amounts[-round(0.005 * len(amounts)) :]
        assert above[-1] == target.value > above.sum() / 2
        others = amounts[:-1].sum()
        assert target.usual == pytest.approx(others, rel=0.05)


def test_a_right_guess_of_another_persons_amount_is_as_rare_as_the_planted_spread_says(bench: Bench) -> None:
    # logarithms are uniform over L = ln 10, and a guess is right within -ln 0.8 = a below and ln 1.2 = b above:
    # (a + b)/L - (a² + b²)/2L² = 0.168
    a, b, spread = -math.log(0.8), math.log(1.2), math.log(10)
    share = (a + b) / spread - (a * a + b * b) / (2 * spread**2)
    rng = np.random.default_rng(4)
    drawn = np.exp(rng.uniform(math.log(4), math.log(40), 4_000)).tolist()
    scored = success(numbers(range(4_000), drawn, drawn))
    assert scored.rate == 1.0
    assert scored.baseline == pytest.approx(share, abs=0.02)
    planted = [target.value for target in tail_targets(bench.frozen[0])]
    assert max(planted) / min(planted) < 10.5


# --- what replies mean


def test_replies_that_do_not_depend_on_the_attribute_are_worth_a_coin() -> None:
    rng = np.random.default_rng(2)
    truths = np.tile([1.0, 1.0, 0.0, 0.0], 100).tolist()  # as many yes as no in each half
    same = [["refused"]] * 400
    assert success(yes_or_no(range(400), learned(same, truths), truths)).rate == 0.5
    noise = [[str(rng.integers(3)), str(rng.integers(3))] for _ in range(400)]
    assert abs(success(yes_or_no(range(400), learned(noise, truths), truths)).rate - 0.5) < 0.1


def test_the_meaning_of_replies_is_learned_from_other_persons() -> None:
    truths = [1.0, 1.0, 0.0, 0.0] * 10
    seen = [["leverage" if truth else "collinearity"] for truth in truths]
    assert success(yes_or_no(range(40), learned(seen, truths), truths)).rate == 1.0
    alone = [[f"reply {i}"] for i in range(40)]  # what nobody else got means nothing
    assert learned(alone, truths) == [0.0] * 40


# --- sums


def planner_of(bench: Bench) -> tuple[Planner, np.ndarray]:
    field = AttackTrials(bench.frozen, lambda _: (), OPEN)
    target = richest(bench.frozen[0])[0]
    server, known = target.planted.servers(field, 0)[0], KnownCells.of(target.planted.base, LAND)
    return Planner(known, target.row, server, YES, 0.5, np.random.default_rng(3), LAND, FLAG), target.truths


@pytest.mark.parametrize(("kind", "within"), [("count", 1e-9), ("sum", 1e-9), ("slope", 1e-6)])
def test_an_answer_without_noise_is_the_weighted_sum_of_the_attribute(bench: Bench, kind: Kind, within: float) -> None:
    planner, truths = planner_of(bench)
    questions = planner.questions((kind,), 60)[:8]
    assert questions
    for question in questions:
        found = planner.server.ask(question.universe, question.analysis())
        assert isinstance(found, Answer)
        told = question.told(found, 15)
        assert told
        for reading in told:
            assert reading.offset == pytest.approx(planner.known.weights(reading) @ truths, rel=within, abs=1e-6)


def test_the_first_reading_holds_the_target(bench: Bench) -> None:
    planner, _ = planner_of(bench)
    at = planner.known.place[planner.row]
    questions = planner.questions(("count", "sum", "slope"), 60)
    assert {q.kind for q in questions} == {"count", "sum", "slope"}
    assert all(q.readings[0].inside[at] for q in questions)


def test_those_who_have_most_of_the_known_amount_are_attacked(bench: Bench) -> None:
    targets = richest(bench.frozen[0])
    amounts = targets[0].planted.base.numbers[LAND]
    share = amounts[[target.row for target in targets]].sum() / amounts.sum()
    assert len(targets) == round(0.005 * len(amounts))
    assert share > 0.3
