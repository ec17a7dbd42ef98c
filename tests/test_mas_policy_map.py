"""The R-U map of a policy: its risk is the bench's, its utility is what one works out from the answers, and it chooses."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers

from sfumato import Draws, Microdata
from sfumato.contract.snooper import wilson
from sfumato.datasets.analysis_survey import fine_cutpoints, survey20k
from sfumato.errors import ParameterError
from sfumato.maps import RUMap
from sfumato.mas.analyses import CrossTab
from sfumato.mas.attacks import Differencing, SkewedDifferencing
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.attacks.bench import Bench, rules_off
from sfumato.mas.attacks.reference_workload import Honest, HonestUsers, WorkloadQuestion
from sfumato.mas.drop_q import DropQ, DropRange, DropShare
from sfumato.mas.policy import Policy
from sfumato.mas.policy_trials import gain, mean, models_kept, policy_map, tables_kept
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

PRINTED, HARDENED = Policy.named("census2009"), Policy.named("hardened")
OVER = {"drop.q": [0, 20], "counts.sd": [0.0, 4.0]}


def records(n: int = 900) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "region": rng.choice(["N", "S", "W"], n, p=[0.52, 0.36, 0.12]),
        "age": rng.integers(18, 90, n), "pay": rng.normal(50, 9, n).round(1),
    })  # fmt: skip


def people() -> Microdata:
    keys = [Attribute(name, role="key", scale="unordered") for name in ("sex", "region")]
    return Microdata(records(), Schema((*keys, Attribute("age", role="key"), Attribute("pay", role="confidential"))))


ASKED = (
    WorkloadQuestion(None, CrossTab(("sex", "region")), "a"),
    WorkloadQuestion({"region": "N"}, CrossTab(("sex",)), "a"),
    WorkloadQuestion({"region": "W", "sex": "F"}, CrossTab(("region",)), "b"),
    WorkloadQuestion(None, analysis_named("ols", formula="pay ~ age"), "b"),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(survey20k(), fine_cutpoints(), tmp_path_factory.mktemp("bench"), worlds=1, trials=16)


@pytest.fixture(scope="module")
def m(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> RUMap:
    users = HonestUsers(people(), {}, tmp_path_factory.mktemp("users"), ASKED)
    return policy_map(PRINTED, OVER, bench=bench, users=users, recipes=[Differencing()], replications=2)


def value(m: RUMap, point: int, measure: str) -> float:
    frame = m.frame()
    return float(frame[(frame["point"] == point) & (frame["measure"] == measure)]["value"].iloc[0])


def test_settings_have_dotted_names_and_go_to_their_part_of_the_policy() -> None:
    changed = HARDENED.set({"drop.share": 0.2, "universe_size.gamma": 100, "counts.sd": 3, "accounts.user": 70})
    assert changed.drop == DropShare(share=0.2)
    assert changed.counts == HARDENED.counts.with_(sd=3.0)
    assert changed.rule("universe_size") == HARDENED.rule("universe_size").with_(gamma=100)  # type: ignore[union-attr]
    assert changed.accounts == HARDENED.accounts.with_(user=70.0)  # type: ignore[union-attr]
    assert changed.without("universe_size").rules == HARDENED.without("universe_size").rules
    assert HARDENED.set({}) == HARDENED


def test_a_setting_of_another_drop_brings_that_drop_and_one_of_accounts_leaves_the_other() -> None:
    assert HARDENED.set({"drop.q": 7, "accounts.user": 100, "accounts.everybody": 100}).drop == DropQ(q=7)
    assert PRINTED.set({"drop.low": 2, "drop.high": 5}).drop == DropRange(low=2, high=5)
    assert HARDENED.set({"accounts.user": 60}).accounts == HARDENED.accounts.with_(user=60.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"drop.shar": 0.1}, "drop.share"),
        ({"left_out.least": 10}, "left_out.least"),  # census2009 has no such rule
        ({"drop.q": 2, "drop.share": 0.1}, "choose one"),
        ({"counts.sd": -1}, "at least 0"),
    ],
)
def test_settings_that_a_policy_cannot_have_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        PRINTED.set(settings)


def test_the_risk_at_a_point_is_what_the_bench_says_of_that_policy(m: RUMap, bench: Bench) -> None:
    for p, (q, sd) in list(enumerate(itertools.product(*OVER.values())))[1::2]:
        policy = PRINTED.with_(drop=DropQ(q=int(q)), counts=PRINTED.counts.with_(sd=sd), title=f"own {p}")
        alone = bench.run(Differencing(), policy)
        shown, interval = m.estimate(0, p)
        assert shown == max(0.0, alone.success.rate - 0.5)
        low, high = wilson(alone.success.rate * 16, 16)
        assert interval == pytest.approx((max(0.0, low - 0.5), max(0.0, high - 0.5)))
    assert value(m, 0, "strongest attack") == 0.5  # nothing is dropped, nothing is noisy: every guess is right


def test_the_utility_at_a_point_is_worked_out_from_the_answers(m: RUMap, tmp_path: Path) -> None:
    vault = Vault(tmp_path, Draws("workload"), PRINTED)
    vault.freeze("survey", people(), {})
    policy = PRINTED.set({"drop.q": 20, "counts.sd": 4.0})
    frame = records()
    off, answered = [], []
    for question in ASKED[:3]:
        found = vault.ask("survey", question.universe, question.analysis, policy)
        answered.append(bool(found))
        if not found:
            continue
        inside = frame.query(
            " and ".join(f"{k} == '{v}'" for k, v in (question.universe or {}).items()) or "sex == sex"
        )
        for row in found.tables["cells"]:  # type: ignore[union-attr]
            here = inside
            for side in question.analysis.by:  # type: ignore[attr-defined]
                here = here if row[side] == "Total" else here[here[side] == row[side]]
            if len(here) >= 20:
                off.append(abs(row["count"] - len(here)) / len(here))
    assert sum(answered) == 2  # women of the West alone are fewer than 75, or the rule would be no rule
    first = m.points[3].seen.served[0]
    assert first.tables == pytest.approx(2 / 3)
    assert first.error == pytest.approx(np.median(off))
    assert tables_kept(first) == pytest.approx(2 / 3 * (1 - np.median(off)))
    assert value(m, 3, "tables kept") == pytest.approx(np.mean([tables_kept(s) for s in m.points[3].seen.served]))


def test_without_drops_and_noise_nothing_is_lost_but_what_is_refused(m: RUMap) -> None:
    assert value(m, 0, "accuracy of counts") == 1.0
    assert value(m, 0, "interval overlap") == pytest.approx(1.0)
    assert value(m, 0, "tables kept") == pytest.approx(2 / 3)
    assert value(m, 0, "questions answered") == 0.75


def test_points_share_their_random_numbers(m: RUMap) -> None:
    assert [s.overlap for s in m.points[0].seen.served] == [
        s.overlap for s in m.points[1].seen.served
    ]  # noise on counts is not on models
    assert [s.overlap for s in m.points[2].seen.served] == [s.overlap for s in m.points[3].seen.served]
    assert m.points[2].seen.served[0].overlap != m.points[2].seen.served[1].overlap  # other secrets, other drops


def test_a_cell_that_is_not_shown_counts_as_wholly_wrong(tmp_path: Path) -> None:
    users = HonestUsers(people(), {}, tmp_path, ASKED[:1])
    hidden = users.served(Policy.open().with_(title="hides").set({"counts.least": 300}))
    sizes = records().groupby(["sex", "region"]).size()
    assert (sizes < 300).all()  # six cells and the total of the West, of twelve
    assert hidden.error == 1.0
    assert tables_kept(hidden) == 0.0


def test_what_is_refused_counts_as_nothing_kept() -> None:
    none = Honest(2, {"universe_size": 2}, {}, {}, float("nan"), float("nan"), 0.0, 0.0)
    assert tables_kept(none) == models_kept(none) == 0.0


def test_the_strongest_attack_is_the_one_that_gains_most_and_never_less_than_nothing(bench: Bench) -> None:
    both = [bench.run(kind(), PRINTED.set({"drop.q": 0}), 12) for kind in (Differencing, SkewedDifferencing)]
    assert gain(both)[0] == 0.5
    refused = bench.run(Differencing(), HARDENED, 12)
    assert gain([refused])[0] == 0.0
    assert gain([*both, refused]) == gain(both)


def test_the_mean_of_replications_has_students_interval() -> None:
    assert mean([0.5]) == (0.5, None)
    found, interval = mean([0.4, 0.6])
    assert found == 0.5
    assert interval == pytest.approx((0.5 - 12.7062 * 0.1, 0.5 + 12.7062 * 0.1), rel=1e-5)  # t(1) = 12.7062, s/√2 = 0.1


def test_the_frontier_has_what_nothing_beats_and_the_choice_is_the_most_useful_within_the_limit(m: RUMap) -> None:
    kept = [value(m, p, "tables kept") for p in range(4)]
    front = m.frontier()
    assert front["utility"].max() == max(kept)
    assert front["risk"].is_monotonic_increasing
    assert front["utility"].is_monotonic_increasing
    free = m.choose(0.5, confirm=False)
    assert free.settings == {"policy": "census2009", "drop.q": 0, "counts.sd": 0.0}
    safe = m.choose(0.4)
    assert safe.feasible
    assert safe.method == PRINTED.set({k: v for k, v in safe.settings.items() if k != "policy"})
    assert safe.risks[0].interval is not None
    assert safe.risks[0].interval[1] <= 0.4
    assert not m.choose(0.0).feasible


def test_attacks_may_get_round_the_universe_rules(bench: Bench, tmp_path: Path) -> None:
    users = HonestUsers(people(), {}, tmp_path, ASKED[:1])
    off = policy_map(HARDENED, bench=bench, users=users, recipes=[Differencing()], rules_off=True)
    alone = bench.run(Differencing(), rules_off(HARDENED))
    assert off.points[0].seen.outcomes[0].success == alone.success
    assert off.points[0].at == "as it is"
    assert off.to_dict()["universe_rules"] is False


def test_the_chart_has_a_curve_for_each_value_of_the_outer_setting(m: RUMap) -> None:
    drawn = [row for layer in layers(m.chart(0.4).to_dict()) for row in layer[1] if "meets" in row]
    assert {row["family"] for row in drawn} == {"drop q 0", "drop q 20"}
    assert {row["settings"] for row in drawn} == {"counts sd 0", "counts sd 4"}
    best = next(row for row in drawn if (row["family"], row["settings"]) == ("drop q 0", "counts sd 0"))
    assert (best["u"], best["r"]) == (pytest.approx(2 / 3), 0.5)


def test_the_section_says_what_was_attacked_and_what_was_chosen(m: RUMap) -> None:
    section = m.section(0.0, m.choose(0.0))
    text = " ".join(section.sentences)
    assert (
        "Attacks on census2009 at 4 settings, over drop.q and counts.sd: differencing, counts, 16 times each." in text
    )
    assert "There is no answer" in text
    assert len(section.content[1].rows) == 4  # type: ignore[union-attr]


def test_a_map_needs_values_recipes_and_other_titles(bench: Bench, tmp_path: Path) -> None:
    users = HonestUsers(people(), {}, tmp_path, ASKED[:1])
    with pytest.raises(ParameterError, match="list of values"):
        policy_map(PRINTED, {"drop.q": "2"}, bench=bench, users=users)
    with pytest.raises(ParameterError, match="none twice"):
        policy_map(PRINTED, bench=bench, users=users, recipes=[Differencing(), Differencing()])
    with pytest.raises(ParameterError, match="same title"):
        policy_map([PRINTED, PRINTED], bench=bench, users=users)
    with pytest.raises(ParameterError, match="at least 1"):
        policy_map(PRINTED, bench=bench, users=users, replications=0)
