"""The attacker who weighs many overlapping counts together: against Bayes by enumeration, and on a vault."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato.datasets.analysis_survey import fine_cutpoints, survey20k
from sfumato.mas.attacks import (  # fmt: skip
    DominantContributor,
    EverybodysBudget,
    IndividualTracker,
    MovedCutpoints,
    PictureDifferencing,
    RepeatedPicture,
)
from sfumato.mas.attacks.base import HALF, AttackTrials, PolicyAttack
from sfumato.mas.attacks.bench import Bench
from sfumato.mas.attacks.linear_questions import (
    JointReadings,
    KnownCells,
    LinearQuestion,
    Planner,
    QuestionOrder,
    Reading,
    evidence,
)
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.policy import Policy
from sfumato.mas.sums import ProtectedSums, SumsRequest

PRINTED, HARDENED = Policy.named("census2009"), Policy.named("hardened")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(survey20k(), fine_cutpoints(), tmp_path_factory.mktemp("bench"), worlds=2, trials=20)


def known(sizes: list[int], amounts: np.ndarray | None = None) -> KnownCells:
    """Return cells of some sizes; record 0 is in the first one."""
    place = np.repeat(np.arange(len(sizes)), sizes)
    return KnownCells((), place, np.arange(len(sizes))[None, :], np.zeros(len(place)) if amounts is None else amounts)


def reading(cells: list[int], variance: float, value: float = 0.0, a: float = 1.0, b: float = 0.0) -> Reading:
    return Reading(np.array(cells, bool), variance, a, b, offset=value)


def test_the_weight_of_evidence_is_that_of_bayes_where_counts_are_normal() -> None:
    """The likelihood of overlapping noisy counts, summed over what the others may have."""
    share, sizes = 0.5, (31, 20, 40)
    readings = [reading([1, 1, 0], 9.0, 27.0), reading([0, 1, 1], 4.0, 33.0), reading([1, 1, 1], 6.0, 44.0)]
    total = {1: 0.0, 0: 0.0}
    others = (30, 20, 40)
    pmf = [[math.comb(n, k) * share**n for k in range(n + 1)] for n in others]
    for has in itertools.product(*(range(n + 1) for n in others)):
        chance = math.prod(pmf[i][k] for i, k in enumerate(has))
        for target in total:
            sums = [sum(k for k, c in zip(has, r.inside, strict=True) if c) + target * r.inside[0] for r in readings]
            z = sum((r.offset - s) ** 2 / r.variance for s, r in zip(sums, readings, strict=True))
            total[target] += chance * math.exp(-z / 2)
    found = evidence(known(list(sizes)), readings, 0, share)
    assert found.ratio == pytest.approx(math.log(total[1] / total[0]), abs=0.02)


def test_sums_of_a_known_amount_weigh_as_bayes_says() -> None:
    rng = np.random.default_rng(6)
    amounts = rng.uniform(0.5, 1.5, 12)
    amounts[0] = 2.0
    cells = known([5, 4, 3], amounts)
    readings = [
        reading([1, 1, 0], 9.0, 6.0, 0.0, 1.0), reading([1, 0, 1], 16.0, 4.0, -0.8, 1.0), reading([0, 1, 1], 12.0, 3.5)
    ]  # fmt: skip
    total = {0: 0.0, 1: 0.0}
    weights = np.stack([cells.weights(r) for r in readings])
    for has in itertools.product((0, 1), repeat=12):
        z = sum((r.offset - w @ np.array(has)) ** 2 / r.variance for r, w in zip(readings, weights, strict=True))
        total[has[0]] += math.exp(-z / 2)
    assert evidence(cells, readings, 0, 0.5).ratio == pytest.approx(math.log(total[1] / total[0]), abs=0.03)


def test_covariances_by_cells_are_those_of_every_record() -> None:
    rng = np.random.default_rng(3)
    amounts = rng.exponential(5, 40)
    cells = known([15, 5, 20], amounts)
    readings = [reading([1, 1, 0], 2.0, a=-3.0, b=1.0), reading([0, 1, 1], 1.0), reading([1, 0, 1], 4.0, a=0.0, b=1.0)]
    weights = np.stack([cells.weights(r) for r in readings])
    joint = JointReadings.of(cells, readings, 0, 0.3)
    assert joint.signal == pytest.approx(weights[:, 0])
    assert joint.covariance == pytest.approx(np.diag([2.0, 1.0, 4.0]) + 0.21 * weights[:, 1:] @ weights[:, 1:].T)
    for r, w in zip(readings, weights, strict=True):
        assert cells.total(r) == pytest.approx(w.sum())
        assert cells.square(r) == pytest.approx(w @ w)


def test_who_knows_the_others_weighs_each_answer_by_its_own_noise() -> None:
    truths = np.array([1.0, 0.0, 1.0, 1.0])
    cells = known([1, 1, 1, 1], np.array([3.0, 1.0, 2.0, 5.0]))
    told = [reading([1, 1, 1, 0], 4.0, 4.0, 0.0, 1.0), reading([1, 0, 0, 1], 9.0, 2.0)]
    # the others add 2 to the first and 1 to the second: 3 (4 - 2 - 1.5)/4 + 1 (2 - 1 - .5)/9
    found = evidence(cells, told, 0, 0.5, truths)
    assert found.ratio == pytest.approx(3 * 0.5 / 4 + 0.5 / 9)
    assert found.information == pytest.approx(9 / 4 + 1 / 9)


def test_what_is_learned_is_what_is_left_less() -> None:
    cells = known([31, 20, 40])
    readings = [reading([1, 1, 0], 9.0), reading([0, 1, 1], 4.0), reading([1, 0, 1], 6.0)]
    joint = JointReadings.of(cells, readings, 0, 0.5)
    whole = joint.gain([0, 1, 2])
    steps = 0.0
    for i in (2, 0, 1):
        steps += joint.gain([i])
        joint.learn([i])
    assert steps == pytest.approx(whole, rel=1e-6)


def test_a_set_without_the_target_tells_something_once_his_company_is_in_it() -> None:
    joint = JointReadings.of(known([31, 20]), [reading([1, 1], 9.0), reading([0, 1], 4.0)], 0, 0.5)
    assert joint.gain([1]) == 0
    joint.learn([0])
    assert joint.gain([1]) > 0.005


def planned(bench: Bench, policy: Policy) -> tuple[Planner, list[LinearQuestion]]:
    target = bench.targets[2][0]
    field = AttackTrials(bench.frozen, lambda _: [target], policy)
    server, world, _ = next(iter(field.each(2, 1)))
    planner = Planner(KnownCells.of(world.ground), target.row, server, HALF, 0.5, np.random.default_rng(1))
    return planner, planner.questions(("count",), 60)


def test_each_question_is_the_one_that_tells_most_for_its_price(bench: Bench) -> None:
    planner, questions = planned(bench, HARDENED)
    order, chosen = QuestionOrder(planner, questions, False, 0.005), list[int]()

    def information(some: list[int]) -> float:
        blocks = [r for i in some for r in order.left[i].readings[:7]]
        return JointReadings.of(planner.known, blocks, planner.row, 0.5).gain(range(len(blocks))) if some else 0.0

    for place, _ in itertools.islice(order, 4):
        left = [i for i in range(len(order.left)) if i not in chosen]
        worth = {i: (information([*chosen, i]) - information(chosen)) / (order.price(i) + 0.005) for i in left}
        assert worth[place] == pytest.approx(max(worth.values()), rel=1e-5)
        order.answered(place)
        chosen.append(place)


@pytest.mark.parametrize("name", ["hardened", "guaranteed"])
def test_the_noise_and_the_price_of_a_table_are_those_of_the_mechanism(
    bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, questions = planned(bench, Policy.named(name))
    question = next(q for q in questions if len(q.sides) == 1)
    caught: list[tuple[ProtectedSums, float]] = []
    real = Mechanism.protect

    def protect(self: Mechanism, request: SumsRequest) -> object:
        sums, losses = real(self, request)
        caught.append((sums, float(max(loss.amounts.max() for loss in losses))))
        return sums, losses

    monkeypatch.setattr(Mechanism, "protect", protect)
    assert planner.server.ask(question.universe, question.analysis())
    sums, dearest = caught[0]
    variances = sums.cells("cells").variances["n"]
    first = question.readings[0]
    levels = planner.server.dataset.variables[question.sides[0]].levels
    rounding = (planner.server.policy.counts.base**2 - 1) / 12
    assert first.variance - rounding - 0.01 == pytest.approx(variances[levels.index(first.cell[0])].max(), rel=0.02)
    assert question.loss == pytest.approx(1 / variances[levels.index(first.cell[0])].max(), rel=0.02)
    assert question.dearest <= dearest


def test_all_users_together_spend_more_than_one(bench: Bench) -> None:
    one, three = (bench.run(EverybodysBudget(targets=2, users=users, tries=60), HARDENED, 2) for users in (1, 3))
    assert three.limit == 0.65
    assert three.calculated > one.calculated
    assert three.formal > one.formal


def test_a_dominant_contributor_is_found_under_the_printed_rules_and_not_under_the_hardened_ones(bench: Bench) -> None:
    assert bench.run(DominantContributor(), PRINTED, 15).success.rate > 0.8
    assert bench.run(DominantContributor(), HARDENED, 15).success.rate < 0.4


@pytest.mark.parametrize("recipe", [IndividualTracker(), MovedCutpoints(), PictureDifferencing()], ids=lambda r: r.name)
def test_trackers_moved_cutpoints_and_pictures_gain_nothing_under_the_hardened_policy(
    bench: Bench, recipe: PolicyAttack
) -> None:
    found = bench.run(recipe, HARDENED, 20)
    assert found.success.rate == found.success.baseline
    assert found.refusal_rate > 0.3


def test_a_picture_asked_for_again_is_the_same(bench: Bench) -> None:
    assert bench.run(RepeatedPicture(times=3), HARDENED, 1).success.rate == 0
