"""Refusals, and what is left out of answers, depend on noisy numbers: one record's confidential value does not decide them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mas_cases import UNLIMITED
from mas_survey import microdata, survey

from sfumato.contract import Draws
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Counts, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, Vault

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    """The same records twice, but that one woman of race O is sick, and has the largest income, in the second."""
    frame = survey().drop(columns=["empty", "house", "region", "flag"])
    changed, made = frame.copy(), []
    woman = frame.index[(frame["race"] == "O") & (frame["sex"] == "F") & (frame["sick"] == "no")][3]
    changed.loc[woman, ["sick", "income"]] = ["yes", frame["income"].max()]
    for i, one in enumerate((frame, changed)):
        vault = Vault.create(tmp_path_factory.mktemp(str(i)) / "v", secret=Draws(7))
        vault.freeze("survey", microdata(one))
        made.append(vault)
    return made[0], made[1]


def answered(vault: Vault, analysis: Analysis, policy: Policy, seed: int) -> tuple[Answer, Answering]:
    data = replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
    answering = Answering(data, Question(data.codebook, policy, Universe(), analysis))
    found = answering.answer()
    assert isinstance(found, Answer), str(found)
    return found, answering


def test_a_sum_is_not_hidden_because_one_contribution_is_large(vaults: tuple[Vault, Vault]) -> None:
    table = CrossTab(("race", "sex"), of="income")
    hidden = []
    for seed in range(10):
        tables = [answered(vault, table, HARDENED, seed)[0].frame() for vault in vaults]
        hidden += [tuple(one["sum"].isna()) for one in tables]
    assert len(set(hidden)) == 1


def test_two_policies_do_not_scale_the_same_noise(vaults: tuple[Vault, Vault]) -> None:
    counts = [
        answered(vaults[0], CrossTab(("race", "sex")), Policy.open().with_(counts=Counts(sd=sd)), 1)[0]
        .frame()["count"]
        .to_numpy()
        for sd in (0.0, 5.0, 10.0)
    ]
    noise = counts[1] - counts[0], counts[2] - counts[0]
    assert np.abs(2 * noise[0] - noise[1]).mean() > 4


def test_every_confidential_sum_of_a_table_is_charged(vaults: tuple[Vault, Vault]) -> None:
    """By the definition: a change of the income moves its sum and the sum of its squares, each over the sd of its noise."""
    _, answering = answered(vaults[0], CrossTab(("sex",), of="income"), HARDENED.with_(rules=()), 1)
    (loss,) = answering.losses
    assert [v.name for v in loss.sides] == ["sex"]
    x = vaults[0].dataset("survey").variables["income"]
    assert x.bounds is not None
    low, high = x.bounds
    half, sizes = (high - low) / 2, survey()["sex"].value_counts()[["F", "M"]].to_numpy()
    moments = (2 * half, (x.spread * 2 * half) ** 2 + (x.middle - (low + half)) ** 2), (half**2, 0.0)
    wanted = np.zeros(2)
    for (reach, square), power in zip(moments, (1, 2), strict=True):
        rms = square if power == 1 else min(3 * moments[0][1] ** 2, half**4)
        wanted += reach**2 / ((HARDENED.amounts.sd * reach) ** 2 + HARDENED.amounts.growth * sizes * rms)
    assert loss.amounts == pytest.approx(wanted)


def test_an_answer_of_known_variables_alone_costs_nothing(vaults: tuple[Vault, Vault]) -> None:
    _, answering = answered(vaults[0], CrossTab(("sex", "race"), of="age"), HARDENED, 1)
    assert not answering.losses
