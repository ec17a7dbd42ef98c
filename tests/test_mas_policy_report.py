"""The report on a policy: its sections say what the policy, the bench and the ledger say, and name no user."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from commands import document, run

from sfumato import Microdata
from sfumato.contract.snooper import Success
from sfumato.mas.analyses import CrossTab
from sfumato.mas.attacks.base import Outcome
from sfumato.mas.attacks.reference_workload import Honest
from sfumato.mas.policy import Policy
from sfumato.mas.policy_sections import OPEN_STATEMENT
from sfumato.mas.vault import Vault
from sfumato.reports import policy_report
from sfumato.schema import Attribute, Schema

HARDENED = Policy.named("hardened")
HELD = Outcome(
    "differencing", "differencing, counts", Success(400, 0.51, (0.46, 0.56), 0.5), 0.55, 0.97, {"left_out": 9}
)
UNCLEAR = Outcome("separation", "one outcome", Success(10, 0.6, (0.31, 0.83), 0.5), 0.55, 1.0, {})
BROKEN = Outcome("padded_pairs", "padded pairs", Success(400, 0.81, (0.77, 0.85), 0.5), 0.55, 0.0, {})
SERVED = Honest(200, {"no_marginal": 9}, {"20 to 50": 0.107}, {"20 to 50": 0.9}, 0.91)

RNG = np.random.default_rng(1)
FRAME = pd.DataFrame({c: RNG.choice(list(v), 3_000) for c, v in {"sex": "FM", "state": "ABC", "sick": "ny"}.items()})


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    roles = {"sick": "confidential"}
    schema = Schema(tuple(Attribute(name, role=roles.get(name, "key"), scale="unordered") for name in FRAME))
    made = Vault.create(tmp_path / "vault")
    made.freeze("survey", Microdata(FRAME, schema))
    return made


def test_every_rule_and_every_change_of_the_policy_is_in_the_report() -> None:
    section = policy_report(HARDENED).sections[0]
    rules, done = section.content
    assert [row[0] for row in rules.rows] == [rule.title for rule in HARDENED.rules]  # type: ignore[union-attr]
    explained = HARDENED.explain()
    for table in (rules, done):
        assert all(row[-1] in explained for row in table.rows)  # type: ignore[union-attr]


def test_the_report_always_says_what_is_not_promised() -> None:
    last = policy_report(Policy.open().with_(title="mine")).sections[-1]
    assert last.sentences == OPEN_STATEMENT
    assert last.sentences[0].startswith("With noise and accounts, what all answers tell")
    assert "without noise or accounts there is none" in " ".join(last.sentences)


def test_attacks_stand_against_their_bar_and_the_broken_ones_are_named() -> None:
    report = policy_report(
        HARDENED, attacks={"hardened": [HELD], "hardened, universe rules off": [HELD, BROKEN]}, served=SERVED
    )
    attacks, cost = report.sections[1:3]
    assert attacks.sentences[2:] == (
        "Hardened withstood all 1 attack.", "Hardened, universe rules off did not withstand padded pairs.",
    )  # fmt: skip
    assert [row[-1] for row in attacks.content[1].rows] == ["withstood", "BROKEN"]  # type: ignore[union-attr]
    assert cost.sentences[0] == "200 ordinary questions: 95.5 % were answered."
    assert cost.content[0].rows == (("20 to 50", "90 %", "10.7 %"),)  # type: ignore[union-attr]
    assert report.to_dict()["data"]["attacks"]["hardened"][0]["held"] is True


def test_a_policy_is_not_called_broken_by_what_chance_does_with_few_targets() -> None:
    """Of 10 coins 6 and more are right in 38 of 100 cases; of 10 targets 10 are not."""
    sure = dataclasses.replace(UNCLEAR, success=Success(10, 1.0, (0.72, 1.0), 0.5))
    assert [o.verdict for o in (HELD, UNCLEAR, sure, BROKEN)] == ["withstood", "not clear", "BROKEN", "BROKEN"]
    said = policy_report(HARDENED, attacks={"hardened": [UNCLEAR], "mine": [BROKEN, UNCLEAR]}).sections[1].sentences
    assert said[2] == "Hardened was attacked with too few targets to tell about one outcome."
    assert said[3] == (
        "Mine did not withstand padded pairs and was attacked with too few targets to tell about one outcome."
    )


def test_what_was_told_is_that_of_the_counts_that_were_answered_and_of_the_frozen_file(vault: Vault) -> None:
    vault.ask("survey", None, CrossTab(("state",)), user="bob")
    vault.ask("survey", None, CrossTab(("sick",)), user="ann")
    data, accounts, counts = vault.dataset("survey"), HARDENED.accounts, HARDENED.counts
    n, p = len(FRAME), np.array(data.variables["sick"].shares)
    loss = 1 / (
        counts.sd**2 + counts.growth * n * float((p * (1 - p)).mean())
    )  # one count goes down, and the other follows
    right = 100 * NormalDist().cdf(math.sqrt(loss + data.frozen_loss) / 2)
    usage = vault.usage("survey")
    assert usage.informed == pytest.approx(right, abs=0.05)
    assert 50 < usage.right <= usage.informed
    text = " ".join(policy_report(HARDENED, standing=usage).sections[1].sentences)
    assert (
        f"in at most {usage.right:.1f} of 100 cases with all answers to one user (the limit is {accounts.user:g})"
        in text
    )
    assert f"and in {usage.right:.1f} with those to all users together (the limit is {accounts.everybody:g})" in text
    assert "2 users asked 2 questions" in text


def test_without_accounts_there_is_no_bound(vault: Vault) -> None:
    vault.set_policy(Policy.open())
    text = " ".join(policy_report(Policy.open(), standing=vault.usage("survey")).sections[1].sentences)
    assert "there is no bound" in text


def test_alerts_are_shown_by_line_and_users_are_not_named(vault: Vault) -> None:
    open_ = Policy.open()
    frame = pd.DataFrame({"sex": ["F"] * 200 + ["M"] * 5, "state": ["A", "B"] * 102 + ["A"]})
    schema = Schema(tuple(Attribute(name, role="key", scale="unordered") for name in frame))
    vault.freeze("small", Microdata(frame, schema))
    vault.ask("small", None, CrossTab(("state",)), open_, user="ann-the-first")
    vault.ask("small", {"sex": "F"}, CrossTab(("state",)), open_, user="ann-the-first")  # all but five men
    report = policy_report(HARDENED, standing=vault.usage("small"))
    assert report.sections[1].content[0].rows == (("2", "1", True),)  # type: ignore[union-attr]
    assert "1 question came within 20 records of others" in " ".join(report.sections[1].sentences)
    assert "ann-the-first" not in report.to_json()
    assert "ann-the-first" not in report.html()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """Data of one's own, as the command takes them."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(2)
    n = 2_500
    frame = pd.DataFrame({
        "job": rng.choice(["clerk", "nurse"], n), "state": rng.choice(list("ABCDEFGHIJ"), n), "age": rng.integers(18, 90, n),
    })  # fmt: skip
    frame.loc[frame.groupby("state").head(1).index, "job"] = "judge"  # alone in every state
    frame.to_csv(folder / "people.csv", index=False)
    keys = [Attribute(name, role="key", scale="unordered") for name in ("job", "state")]
    Schema((*keys, Attribute("age", role="key", integer=True))).write(folder / "schema.toml")
    return "--data", folder / "people.csv", "--schema", folder / "schema.toml", "--targets", 10


def test_the_command_writes_the_report_and_the_same_for_machines(
    vault: Vault, own: tuple[object, ...], tmp_path: Path
) -> None:
    out, where = tmp_path / "report.html", vault.folder / "survey"
    told = ("--recipe", "probes", "--rules-on", "--vault", where, "--out", out, "--json")
    found = document(run("attack", "hardened", *own, *told))
    assert found["report"] == str(out)
    assert list(found["attacks"]) == ["hardened"]
    assert found["workload"]["asked"] == 6  # three variables: three tables of one, three of two
    assert "With noise and accounts, what all answers tell" in out.read_text("utf-8")
    titles = [section["title"] for section in json.loads(out.with_suffix(".json").read_text("utf-8"))["sections"]]
    assert titles == [
        "The policy hardened 3", "What it withstands", "What it costs honest users", "What was asked of survey 1",
        "What is not promised",
    ]  # fmt: skip


def test_the_command_draws_a_map_of_settings_and_says_when_nothing_is_safe_enough(
    own: tuple[object, ...], tmp_path: Path
) -> None:
    chart = tmp_path / "map.svg"
    told = ("--recipe", "differencing", "--map", "drop.q=0,2", "--max-risk", 0, "--chart", chart, "--json")
    found = document(run("attack", "census2009", *own, *told), 3)
    assert [row["drop.q"] for row in found["points"] if row["measure"] == "strongest attack"] == [0, 2]
    assert found["choice"]["feasible"] is False
    assert "strongest attack" in chart.read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--map", "counts.sdd=2"), "counts.sd"),
        (("--map", "drop.q=2,3", "--map", "drop.q=5"), "twice"),
        (("--max-risk", "0.1"), "--map"),
        (("--vault", "somewhere/survey"), "--out"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_attacked(args: tuple[str, ...], words: str) -> None:
    done = run("attack", "hardened", *args)
    assert done.exit_code != 0
    assert words in done.output
