"""The way from a question to an answer, on the paper's own table and on a survey of random records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

EDGES = (28_500, 39_500, 45_000, 53_500, 62_000, 70_500)
TABLE = {"male": (20, 97, 49, 92, 38, 49, 11), "female": (26, 99, 42, 64, 45, 37, 8)}
"""Table 3.2.1 of the paper."""


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    middle = [20_000, *(e + 100 for e in EDGES)]
    frame = pd.DataFrame(
        [(sex, x) for sex, counts in TABLE.items() for x, n in zip(middle, counts, strict=True) for _ in range(n)],
        columns=["gender", "income"],
    )
    schema = Schema((
        Attribute("gender", role="key", scale="unordered"), Attribute("income", role="confidential", integer=True),
    ))  # fmt: skip
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v", "census2009")
    bins = {"income": Cutpoints(EDGES, whole=True, unit="$", low=0, high=120_000)}
    vault.freeze("census", Microdata(frame, schema), bins)
    return vault


def test_the_disjoint_universe_of_the_paper_is_rejected_by_the_75_rule(census: Vault) -> None:
    universe = "gender == 'female' and income == '28,501-39,500' or gender == 'male' and income == '62,001-120,000'"
    refused = census.ask("census", universe, CrossTab(("gender",)))
    assert isinstance(refused, Refusal)
    assert refused.rule == "universe_size"  # 49 + 11 = 60


def test_the_joint_universe_of_the_paper_is_rejected_by_the_75_rule(census: Vault) -> None:
    refused = census.ask("census", [{"gender": "female"}, {"income": "62,001-120,000"}], CrossTab(("gender",)))
    assert isinstance(refused, Refusal)
    assert refused.rule == "universe_size"  # the shared cells hold 37 + 8 = 45


def test_a_universe_that_passes_loses_two_records(census: Vault) -> None:
    answered = census.ask("census", {"gender": "female"}, CrossTab(("gender",)))
    assert isinstance(answered, Answer)
    counts = answered.frame().set_index("gender")["count"]
    assert counts["Total"] == 321 - 2
    assert counts["female"] == 319


def test_the_same_records_asked_for_in_other_words_give_the_same_bytes(census: Vault) -> None:
    forms = [{"gender": "female"}, "gender != 'male'", [{"gender": "female"}, {"gender": ["female"]}]]
    answers = {census.ask("census", form, CrossTab(("income",))).to_bytes() for form in forms[:2]}
    assert len(answers) == 1


def test_a_range_that_does_not_end_at_cutpoints_is_refused_with_the_levels(census: Vault) -> None:
    with pytest.raises(DataError, match="does not begin and end at cutpoints"):
        census.ask("census", {"income": "28,501-39,000"}, CrossTab(("gender",)))


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, pd.DataFrame]:
    rng = np.random.default_rng(3)
    n = 6_000
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice([f"S{i:02}" for i in range(5)], n),
        "race": rng.choice(list("WBAO"), n, p=[0.6, 0.2, 0.15, 0.05]), "sick": rng.choice(["no", "yes"], n, p=[0.8, 0.2]),
        "weight": rng.uniform(1, 9, n),
    })  # fmt: skip
    roles = {"sick": "confidential", "weight": "weight"}
    schema = Schema(tuple(
        Attribute(c, role=roles.get(c, "key"), scale="ordered" if c == "weight" else "unordered") for c in frame
    ))  # fmt: skip
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    vault.freeze("survey", Microdata(frame, schema))
    return vault, frame


EXACT = Policy.open().with_(title="exact")


def test_without_perturbation_counts_and_weighted_counts_are_those_of_pandas(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, frame = survey
    chosen = frame[(frame["sex"] == "F") & (frame["sick"] == "yes")]
    universe = {"sex": "F", "sick": "yes"}
    plain = vault.ask("survey", universe, CrossTab(("state", "race")), EXACT).frame().set_index(["state", "race"])
    weighted = vault.ask("survey", universe, CrossTab(("state", "race"), weighted=True), EXACT).frame()
    expected = chosen.groupby(["state", "race"])["weight"].agg(["size", "sum"])
    for (state, race), row in expected.iterrows():
        assert plain.loc[(state, race), "count"] == row["size"]
        got = weighted.query("state == @state and race == @race")["count"].item()
        assert got == pytest.approx(row["sum"], rel=1e-13)
    assert plain.loc[("Total", "Total"), "count"] == len(chosen)
    assert plain.loc[("S01", "Total"), "count"] == (chosen["state"] == "S01").sum()


def test_hardened_counts_are_near_the_truth_multiples_of_five_and_the_same_again(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, frame = survey
    answers = [vault.ask("survey", None, CrossTab(("state", "sick"))) for _ in range(2)]
    assert answers[0].to_bytes() == answers[1].to_bytes()
    found = answers[0].frame().query("state != 'Total' and sick != 'Total'")
    truth = frame.groupby(["state", "sick"]).size()
    error = [row["count"] - truth[row["state"], row["sick"]] for _, row in found.iterrows()]
    assert (found["count"] % 5 == 0).all()
    assert 2 < np.std(error) < 25


def test_a_cell_has_the_same_noise_in_every_table_that_shows_it(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    data, policy = vault.dataset("survey"), vault.policy.with_(per_minute=None)
    one = vault.ask("survey", None, CrossTab(("sex", "sick")), policy, user="ann")
    spent = vault.ledger.spent("ann", "survey", data.variables)
    two = vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), policy, user="ann")
    three = vault.ask("survey", {"sex": "F", "state": ["S00", "S01"]}, CrossTab(("sick", "state")), policy, user="ann")
    four = vault.ask("survey", {"sex": "F", "state": "S01"}, CrossTab(("sick",)), policy, user="ann")
    whole = one.frame().query("sex == 'F' and sick == 'yes'")["count"].item()
    assert whole == two.frame().query("sick == 'yes'")["count"].item()
    part = three.frame().query("state == 'S01' and sick == 'yes'")["count"].item()
    assert part == four.frame().query("sick == 'yes'")["count"].item()
    assert spent == pytest.approx(float(1 / (25 + 0.25 * 0.16 * 3_000) * 2), rel=0.1)
    assert vault.ledger.spent("ann", "survey", data.variables) > spent  # for the states; the rest was free


def test_a_vault_opened_again_gives_the_same_bytes(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    again = Vault.open(vault.folder)
    asked = ("survey", {"sex": "F"}, CrossTab(("state", "sick")))
    assert again.ask(*asked).to_bytes() == vault.ask(*asked).to_bytes()
    assert Path(vault.folder / "secret.toml").stat().st_mode & 0o077 == 0


def test_a_confidential_value_changes_neither_the_drops_nor_the_noise_of_known_sets(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 900), "sick": rng.choice(["no", "yes"], 900)})
    other = frame.assign(sick=np.where(frame.index == 17, "yes", frame["sick"]), sex=frame["sex"])
    other.loc[18, "sick"] = "no" if frame.loc[18, "sick"] == "yes" else "yes"
    schema = Schema(
        (Attribute("sex", role="key", scale="unordered"), Attribute("sick", role="confidential", scale="unordered"))
    )
    vault = Vault.create(tmp_path / "v")
    asked = (None, CrossTab(("sex",)))
    first = vault.ask(vault.freeze("survey", Microdata(frame, schema)), *asked)
    folder = vault.folder / "datasets" / "survey" / "1"
    kept = pd.read_parquet(folder / "records.parquet")["r"]
    changed = Vault(tmp_path / "v", vault._secret, vault.policy)
    from sfumato.mas.preparation import find_variables, prepare

    data = Microdata(other, schema)
    prepare(data, find_variables(data, {}), vault._family("survey").draws, tmp_path / "o.parquet")
    again = pd.read_parquet(tmp_path / "o.parquet")["r"]
    assert (kept == again).all()
    assert first.to_bytes() == changed.ask("survey", *asked).to_bytes()


_KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np, pandas as pd
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema
import sfumato.mas.registration, sfumato.data.duckdb_engine, sfumato.data.warehouse, pyarrow.parquet

home = Path(sys.argv[1])
rng = np.random.default_rng(1)
frame = pd.DataFrame({c: rng.choice(["x", "y"], 300) for c in "abc"})
schema = Schema(tuple(Attribute(c, role="key", scale="unordered") for c in "abc"))
left = [0]

def vault(folder):
    return Vault.open(folder) if (folder / "secret.toml").is_file() else Vault.create(folder)

def add(folder):
    vault(folder).add("people", frame, schema)

def freeze(folder):
    Vault.open(folder).freeze("people", confirm=True)

def hook(event, args):
    writes = event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "sqlite3.connect")
    writes = writes or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR))
    if left[0] and writes and str(home) in repr(args[:2]):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)

def in_a_process(act, folder, step=0):
    child = os.fork()
    if not child:
        left[0] = step
        try:
            act(folder)
        except BaseException as error:
            print(act.__name__, step, type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for act in (add, freeze):
    for step in range(1, 200, 4) if act is add else (5, 12, 20, 25, 26, 27, 28, 29, 30, 31, 32, 33):
        folder = home / f"{act.__name__}{step}"
        if act is freeze:
            assert in_a_process(add, folder) == 0
        died = in_a_process(act, folder, step)
        assert died in (0, -signal.SIGKILL), died
        if not died:
            break
        assert in_a_process(act, folder) == 0, (act.__name__, step)
        found = [str(p) for p in home.rglob(".*")]
        assert not found, (act.__name__, step, found)
        assert (folder / "registered" / "people").exists() == (act is add)
        print(act.__name__, step)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_adding_and_freezing_that_were_killed_at_any_step_succeed_when_they_are_run_again_and_leave_nothing(
    tmp_path: Path,
) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("add") > 8
    assert done.stdout.count("freeze") > 8
