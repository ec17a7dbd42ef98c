"""`sfumato vault` and `sfumato ask`: from a file to an answer, and what is asked wrongly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import document, run, shell
from typer.testing import Result

from sfumato.contract import Draws
from sfumato.mas.accounts import right_of
from sfumato.mas.analyses import CrossTab
from sfumato.mas.ledger import Ledger
from sfumato.mas.perturbation import ledger_key
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Role, Schema

N = 3_000


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vault")
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({
        "person": np.arange(N), "sex": rng.choice(["F", "M"], N), "state": rng.choice(["S1", "S2", "S3"], N),
        "age": rng.integers(18, 90, N), "income": rng.lognormal(10, 0.5, N).round(2), "sick": rng.choice(["no", "yes"], N),
    })  # fmt: skip
    frame.to_csv(folder / "people.csv", index=False)
    Schema((
        Attribute("person", role="identifier"), Attribute("sex", role="key", scale="unordered"),
        Attribute("state", role="key", scale="unordered"), Attribute("age", role="key", integer=True),
        Attribute("income", role="confidential"), Attribute("sick", role="confidential", scale="unordered"),
    )).write(folder / "people.toml")  # fmt: skip
    (folder / "recodes.toml").write_text('[[recode]]\nname = "part"\nof = "state"\ngroups = { rest = ["S2", "S3"] }\n')
    frame.assign(twin=frame["state"].str.lower()).to_csv(folder / "twins.csv", index=False)
    return folder


def added(here: Path, vault: Path, *more: object) -> Result:
    return run("vault", "add", vault, "people", here / "people.csv", "--schema", here / "people.toml", *more)


@pytest.fixture(scope="module")
def frozen(here: Path) -> Path:
    vault = here / "v"
    assert (
        added(here, vault, "--identity", "person", "--title", "People", "--recodes", here / "recodes.toml").exit_code
        == 0
    )
    assert run("vault", "cutpoints", vault, "people", "age", "--strategy", "fixed", "--least", "100").exit_code == 0
    assert run("vault", "freeze", vault, "people").exit_code == 0
    return vault


def test_adding_shows_how_every_column_is_taken_and_what_comes_next(here: Path, tmp_path: Path) -> None:
    done = added(here, tmp_path / "v")
    assert done.exit_code == 0, done.stderr
    for line in ("age     known to others", "income  confidential", "person  left out"):
        assert line in done.stdout
    assert f"sfumato vault cutpoints {tmp_path / 'v'} people age" in done.stdout
    assert f"sfumato vault freeze {tmp_path / 'v'} people\n" in done.stdout
    assert Vault.open(tmp_path / "v").policy.label == "hardened 3"


def test_marks_and_the_policy_can_be_given(here: Path, tmp_path: Path) -> None:
    told = document(added(here, tmp_path / "v", "--known", "sex,age", "--policy", "census2009", "--json"))
    assert told["records"] == N
    assert told["marks"]["state"] == "confidential"
    assert told["without_cutpoints"] == ["age", "income"]
    assert Vault.open(tmp_path / "v").policy.title == "census2009"


def test_questions_must_be_confirmed_before_freezing(here: Path, tmp_path: Path) -> None:
    vault = tmp_path / "v"
    done = run("vault", "add", vault, "twins", here / "twins.csv", "--known", "state,twin", "--identity", "person")
    assert done.exit_code == 0, done.stderr
    assert "Asked: 'state' tells 'twin' of nearly every record." in done.stdout
    refused = run("vault", "freeze", vault, "twins")
    assert refused.exit_code == 2
    assert "add --confirm" in refused.stderr
    assert run("vault", "freeze", vault, "twins", "--confirm").exit_code == 0


def test_cutpoints_are_shown_before_one_is_chosen(here: Path, tmp_path: Path) -> None:
    vault, chart = tmp_path / "v", tmp_path / "c.svg"
    added(here, vault)
    seen = run("vault", "cutpoints", vault, "people", "income", "--least", "150", "--chart", chart)
    assert seen.exit_code == 0, seen.stderr
    assert "CONFIDENTIAL" in seen.stdout
    assert chart.read_text().startswith("<svg")
    assert chart.stat().st_mode & 0o777 == 0o600
    assert not Vault.open(vault).registration("people").cutpoints
    told = document(run("vault", "cutpoints", vault, "people", "income", "--strategy", "minimum", "--json"))
    assert {row["strategy"] for row in told["strategies"]} == {
        "fixed",
        "minimum",
        "increasing",
        "partitioned",
        "hybrid",
    }
    assert min(row["smallest"] for row in told["strategies"]) >= 75
    chosen = run("vault", "cutpoints", vault, "people", "income", "--strategy", "minimum").stdout
    assert "The bins of minimum:" in chosen
    assert told["bins"][1] in chosen  # what is chosen is shown, and not what the hybrid would have been
    assert told["bins"] == list(Vault.open(vault).registration("people").cutpoints["income"].labels)


def test_the_custodian_may_bring_edges_and_they_stay_when_the_data_set_is_added_again(
    here: Path, tmp_path: Path
) -> None:
    vault, labels = tmp_path / "v", ["29 or less", "30 to 64", "65 or more"]
    assert "chosen before" not in added(here, vault).stdout
    asked = ("vault", "cutpoints", vault, "people", "age")
    told = document(run(*asked, "--edges", "29,64", "--json"))
    assert (told["chosen"], told["bins"]) == ("own", labels)
    assert "With the cutpoints that were chosen before: age." in added(here, vault).stdout
    assert list(Vault.open(vault).registration("people").cutpoints["age"].labels) == labels
    for edges, why, code in (
        ("29,old", "numbers with commas", 2), ("64,29", "ascending", 1), ("29.5", "whole numbers", 1), ("18", "fewer than 75", 1),
    ):  # fmt: skip
        wrong = run(*asked, "--edges", edges)
        assert (wrong.exit_code, why in wrong.stderr) == (code, True)
    assert "not both" in run(*asked, "--edges", "29", "--strategy", "fixed").stderr


def test_a_name_of_no_variable_is_answered_with_what_else_it_may_be(frozen: Path) -> None:
    asked = ("ask", frozen, "people", "--crosstab")
    assert "Survey weights" in run(*asked, "weight").stderr
    near = run(*asked, "stat").stderr
    assert ("Did you mean 'state'?" in near, "Survey weights" in near) == (True, False)


def test_an_answer_is_that_of_the_library_in_every_process(frozen: Path) -> None:
    asked = ("ask", frozen, "people", "--universe", "sex == 'F'", "--crosstab", "state,sick")
    told = document(run(*asked, "--json"))
    told.pop("sfumato")
    assert told == Vault.open(frozen).ask("people", {"sex": "F"}, CrossTab(("state", "sick"))).to_json()
    text = run(*asked)
    assert text.exit_code == 0
    assert "cross_tab · people 1 · hardened 3" in text.stdout
    assert shell(*asked).stdout == text.stdout


def test_residuals_are_asked_for_and_drawn(frozen: Path, tmp_path: Path) -> None:
    asked = (
        "ask",
        frozen,
        "people",
        "--analysis",
        "residuals",
        "--set",
        "formula=log(income) ~ age",
        "--set",
        "against=age",
    )
    told = document(run(*asked, "--chart", tmp_path / "a.svg", "--json"))
    assert told["facts"]["axis"] == "age"
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    text = run(*asked, "--chart", tmp_path / "a.png")
    assert "more rows" in text.stdout
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.png").stat().st_mode & 0o777 == 0o644  # an answer may be shown to others
    wrong = run("ask", frozen, "people", "--ols", "income ~ age", "--chart", tmp_path / "b.svg")
    assert wrong.exit_code == 2
    assert "residuals" in wrong.stderr


def test_a_recode_and_a_general_analysis_can_be_asked_for(frozen: Path) -> None:
    asked = ("ask", frozen, "people", "--universe", '{"part": "rest"}', "--analysis", "cross_tab")
    told = document(run(*asked, "--set", "by=age,sex", "--json"))
    (rows,) = told["tables"].values()
    assert {row["age"] for row in rows} == {*Vault.open(frozen).dataset("people").variables["age"].levels, "Total"}


def test_regressions_are_asked_for_by_formula(frozen: Path) -> None:
    told = document(run("ask", frozen, "people", "--ols", "income ~ age + C(sex)", "--json"))
    assert told["analysis"] == "ols"
    assert document(run("ask", frozen, "people", "--logit", "sick ~ age", "--json"))["analysis"] == "logistic"


def test_a_refusal_has_the_rule_the_way_forward_and_exit_code_3(frozen: Path) -> None:
    level = Vault.open(frozen).dataset("people").variables["age"].levels[0]
    asked = (
        "ask",
        frozen,
        "people",
        "--universe",
        f"sex == 'F' and state == 'S1' and age == '{level}' and sick == 'no'",
    )
    done = run(*asked, "--crosstab", "sex")
    assert done.exit_code == 3
    assert done.stdout.startswith("Refused by the ")
    told = document(run(*asked, "--crosstab", "sex", "--json"), 3)
    assert told["refused"] is True
    assert {"rule", "reason", "suggestion"} <= set(told)


def test_without_an_analysis_it_tells_what_may_be_asked(frozen: Path) -> None:
    done = run("ask", frozen, "people")
    assert done.exit_code == 0
    assert "people 1: People" in done.stdout
    assert "rest" in done.stdout
    told = document(run("ask", frozen, "people", "--json"))
    assert [v["name"] for v in told["variables"]] == ["sex", "state", "age", "income", "sick", "part"]
    assert "cross_tab" in run("ask", frozen, "people", "--list").stdout


def test_questions_are_logged_under_the_name_of_who_asks(frozen: Path) -> None:
    run("ask", frozen, "people", "--crosstab", "sex", "--user", "ann")
    assert [entry.user for entry in Vault.open(frozen).ledger.entries()][-1] == "ann"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--crosstab", "sexx"), 1, "Did you mean 'sex'"),
        (("--universe", "sex == 'X'", "--crosstab", "sex"), 1, "level 'X' is not in variable 'sex'"),
        (("--universe", "{", "--crosstab", "sex"), 1, "not JSON"),
        (("--crosstab", "sex", "--ols", "income ~ age"), 2, "give one of"),
        (("--set", "by=sex"), 2, "--set is for an analysis"),
        (("--analysis", "crosstab"), 1, "Did you mean 'cross_tab'"),
    ],
)
def test_mistakes_in_a_question_are_told_in_a_sentence(
    frozen: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    done = run("ask", frozen, "people", *args)
    assert done.exit_code == code, done.stdout
    assert said in done.stderr


def test_mistakes_in_the_names_of_vaults_and_data_sets_are_told(here: Path, frozen: Path, tmp_path: Path) -> None:
    for args, said in (
        (("ask", tmp_path / "no", "people"), "is not a vault. Make one with sfumato vault add."),
        (("ask", frozen, "peple"), "Did you mean 'people'"),
        (("vault", "freeze", frozen, "people"), "wait to be frozen"),
        (("vault", "add", tmp_path / "v", "people", here / "peple.csv"), "Did you mean 'people.csv'"),
        (("vault", "add", tmp_path / "v", "a b", here / "people.csv"), "a plain word"),
        (
            ("vault", "add", tmp_path / "w", "people", here / "people.csv", "--schema", here / "no.xml"),
            "there is no file",
        ),
    ):
        done = run(*args)
        assert done.exit_code == 1, args
        assert said in done.stderr
    assert not (tmp_path / "v").exists()
    assert not (tmp_path / "w").exists()


def test_a_codebook_describes_a_file(here: Path, tmp_path: Path) -> None:
    variables = "".join(f'<var name="{n}"><varFormat type="character"/></var>' for n in ("sex", "state", "sick"))
    numbers = "".join(f'<var name="{n}" intrvl="contin"/>' for n in ("person", "age", "income"))
    title = "<stdyDscr><citation><titlStmt><titl>A study</titl></titlStmt></citation></stdyDscr>"
    (tmp_path / "s.xml").write_text(f"<codeBook>{title}<dataDscr>{numbers}{variables}</dataDscr></codeBook>")
    done = run(
        "vault", "add", tmp_path / "v", "study", here / "people.csv", "--schema", tmp_path / "s.xml", "--identity", "person",
        "--known", "sex,state",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert Vault.open(tmp_path / "v").registration("study").title == "A study"


def test_the_custodian_sees_the_log_the_accounts_and_the_alerts(frozen: Path, tmp_path: Path) -> None:
    vault = tmp_path / "v"
    shutil.copytree(frozen, vault)
    (vault / "ledger.sqlite").unlink()
    Ledger(vault / "ledger.sqlite", ledger_key(Draws.read(vault / "secret.toml")))  # one without a line
    empty = run("vault", "log", vault)
    assert empty.exit_code == 0, empty.stderr
    assert "The log is whole: 0 lines." in empty.stdout
    for user, universe in (("ann", "sex == 'F'"), ("bob", "sex == 'F' and state == 'S1'"), ("bob", "sex == 'M'")):
        done = run("ask", vault, "people", "--universe", universe, "--crosstab", "state,sick", "--user", user)
        assert done.exit_code in (0, 3), done.stderr
    assert run("ask", vault, "people", "--crosstab", "sexx", "--user", "bob").exit_code == 1
    opened = Vault.open(vault)
    seq, head = opened.ledger.head()
    shown = run("vault", "log", vault, "--dataset", "people", "--last", 2)
    assert f"The log is whole: {seq} lines." in shown.stdout
    assert f"Its head is {seq}:{head}" in shown.stdout.replace("\n", "")
    for word in (
        "bob",
        'cross_tab by=["state", "sick"] of [{"sex": ["M"]}]',
        "The frozen file alone",
        "Overlap alerts: 0.",
    ):
        assert word in shown.stdout
    told = document(run("vault", "log", vault, "--json"))
    people = told["datasets"][0]
    assert [(u["user"], u["asked"]) for u in people["users"]] == [("ann", 1), ("bob", 2)]
    accounts = Policy.named("hardened").accounts
    assert accounts is not None
    assert people["limits"] == [accounts.user, accounts.everybody]
    variables = opened.dataset("people").variables
    told_to_all = opened.ledger.spent("", "people", variables)
    assert told_to_all > 0
    assert people["informed"] == 100 * right_of(told_to_all + opened.dataset("people").frozen_loss)
    assert 50 < people["right"] <= people["informed"]
    assert people["alerts"] == []
    assert str(opened.usage("people")).startswith("people 1, policy hardened 3.")
    assert run("vault", "log", vault, "--dataset", "peple").exit_code == 1


def test_names_and_cutpoints_that_lead_nowhere_come_with_a_way_forward(here: Path, tmp_path: Path) -> None:
    assert added(here, tmp_path / "v").exit_code == 0
    fine = run("vault", "cutpoints", tmp_path / "v", "people", "age", "--strategy", "minimum", "--least", 20)
    assert "a universe may select 8 levels of a variable, and this has" in fine.stderr
    assert run("vault", "cutpoints", tmp_path / "v", "people", "age", "--least", 1000).stderr == ""
    unknown = run("ask", tmp_path / "v", "people", "--analysis", "quantile")
    assert "the list of analyses. Did you mean 'quantiles'" in unknown.stderr


def test_a_codebook_becomes_a_schema_that_a_person_can_correct(here: Path, tmp_path: Path) -> None:
    sex = '<var name="sex"><labl>Sex</labl><catgry><catValu>F</catValu><labl>female</labl></catgry></var>'
    others = "".join(f'<var name="{n}"><varFormat type="character"/></var>' for n in ("state", "sick"))
    numbers = "".join(f'<var name="{n}" intrvl="contin"/>' for n in ("person", "age", "income"))
    (tmp_path / "s.xml").write_text(f"<codeBook><dataDscr>{numbers}{sex}{others}</dataDscr></codeBook>")
    out = tmp_path / "s.toml"
    done = run("schema", here / "people.csv", "--codebook", tmp_path / "s.xml", "--out", out)
    assert done.exit_code == 0, done.stderr
    schema = Schema.read(out)
    assert (schema["sex"].label, schema["sex"].labels) == ("Sex", {"F": "female"})
    assert schema["age"].role is Role.KEY  # guessed, since a codebook does not say it
    assert run("vault", "add", tmp_path / "v", "people", here / "people.csv", "--schema", out).exit_code == 0


def test_a_head_that_was_kept_elsewhere_shows_that_an_older_vault_was_put_back(frozen: Path, tmp_path: Path) -> None:
    vault, older = tmp_path / "v", tmp_path / "older"
    shutil.copytree(frozen, vault)
    shutil.copytree(vault, older)
    asked = run("ask", vault, "people", "--crosstab", "sex", "--user", "cleo")
    assert asked.exit_code in (0, 3), asked.stderr
    head = document(run("vault", "log", vault, "--json"))["head"]
    assert run("vault", "log", vault, "--expect", head).exit_code == 0
    back = run("vault", "log", older, "--expect", head)
    assert back.exit_code == 1
    assert "no longer holds line" in back.stderr
    assert run("vault", "log", vault, "--expect", "twelve").exit_code == 2
    (vault / "ledger.head").unlink()
    assert "vault log VAULT --expect N:HASH --seal" in run("ask", vault, "people", "--crosstab", "sex").stderr
    assert run("vault", "log", vault, "--expect", head, "--seal").exit_code == 0
    assert run("ask", vault, "people", "--crosstab", "sex", "--user", "cleo").exit_code in (0, 3)


def test_analyses_are_listed_without_a_vault_and_a_question_needs_one() -> None:
    listed = document(run("ask", "--list", "--json"))
    assert {"cross_tab", "ols", "quantiles"} <= {entry["name"] for entry in listed["analyses"]}
    refused = run("ask", "--crosstab", "sex")
    assert refused.exit_code == 2
    assert "sfumato ask VAULT DATASET" in refused.stderr
