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
from sfumato.mas.attacks.bench import Bench
from sfumato.mas.attacks.budget import Ask, Joint, SetCount, best_first
from sfumato.mas.policy import Policy

PRINTED, HARDENED = Policy.named("census2009"), Policy.named("hardened")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(survey20k(), fine_cutpoints(), tmp_path_factory.mktemp("bench"), worlds=2, trials=20)


def reading(cells: list[int], n: float, holds: bool, variance: float) -> SetCount:
    return SetCount(np.array(cells, np.float32), n, holds, variance)


def test_the_weight_of_evidence_is_that_of_bayes_where_counts_are_normal() -> None:
    """The likelihood of two overlapping noisy counts, summed over what the others may have."""
    counts, share = np.array([30.0, 20.0, 40.0], np.float32), 0.5
    readings = [
        reading([1, 1, 0], 51, True, 9.0),
        reading([0, 1, 1], 60, False, 4.0),
        reading([1, 1, 1], 91, True, 6.0),
    ]
    values = [27.0, 33.0, 44.0]
    joint = Joint(counts, share)
    for one, value in zip(readings, values, strict=True):
        joint.add(one, value)
    total = {1: 0.0, 0: 0.0}
    pmf = [[math.comb(int(n), k) * share ** int(n) for k in range(int(n) + 1)] for n in counts]
    for others in itertools.product(*(range(int(n) + 1) for n in counts)):
        chance = math.prod(pmf[i][k] for i, k in enumerate(others))
        for target in total:
            sums = [sum(k for k, c in zip(others, r.inside, strict=True) if c) + target * r.holds for r in readings]
            z = sum((v - s) ** 2 / r.variance for v, s, r in zip(values, sums, readings, strict=True))
            total[target] += chance * math.exp(-z / 2)
    assert joint.evidence() == pytest.approx(math.log(total[1] / total[0]), abs=0.02)


def test_what_a_candidate_would_add_is_what_it_adds() -> None:
    counts = np.array([30.0, 20.0, 40.0], np.float32)
    joint = Joint(counts, 0.5)
    joint.add(reading([1, 1, 0], 51, True, 9.0), 20.0)
    new = reading([0, 1, 1], 60, False, 4.0)
    across = joint.shared(new.inside[None, :], joint.chosen[0])[:, None]
    before, gain = joint.information(), float(joint.gains([new], across)[0])
    joint.add(new, 30.0)
    assert joint.information() == pytest.approx(before + gain, rel=1e-9)


def test_the_question_that_tells_most_for_its_cost_comes_first() -> None:
    small, large = reading([1, 0], 21, True, 9.0), reading([1, 1], 101, True, 9.0)
    joint = Joint(np.array([20.0, 80.0], np.float32), 0.5)
    asks = [Ask({}, None, "", False, one, cost) for one, cost in ((large, 1.0), (small, 1.0), (small, 100.0))]
    assert next(iter(best_first(asks, joint))) is asks[1]


def test_all_users_together_spend_more_than_one(bench: Bench) -> None:
    found = bench.run(EverybodysBudget(targets=3, users=3), HARDENED, 3)
    assert found.refused["accounts"] >= 3 * 3
    assert found.limit == 0.65


def test_a_dominant_contributor_is_found_under_the_printed_rules_and_not_under_the_hardened_ones(bench: Bench) -> None:
    assert bench.run(DominantContributor(), PRINTED, 15).success.rate > 0.8
    assert bench.run(DominantContributor(), HARDENED, 15).success.rate < 0.4


@pytest.mark.parametrize("recipe", [IndividualTracker(), MovedCutpoints(), PictureDifferencing()], ids=lambda r: r.name)
def test_trackers_moved_cutpoints_and_pictures_gain_nothing_under_the_hardened_policy(
    bench: Bench, recipe: object
) -> None:
    found = bench.run(recipe, HARDENED, 20)  # type: ignore[arg-type]
    assert found.success.rate == found.success.baseline
    assert found.refusal_rate > 0.3


def test_a_picture_asked_for_again_is_the_same(bench: Bench) -> None:
    assert bench.run(RepeatedPicture(times=3), HARDENED, 1).success.rate == 0
