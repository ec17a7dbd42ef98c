"""From a file to a frozen data set: what is kept, what the custodian is asked, and what a new version may be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode, foretold
from sfumato.mas.registration import records_changed
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

EXACT = Policy.open().with_(title="exact")


def people(n: int = 2_000, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "person": np.arange(n), "sex": rng.choice(["F", "M"], n), "state": rng.choice([f"S{i}" for i in range(6)], n),
        "age": rng.integers(0, 90, n), "income": rng.lognormal(10, 1, n).round(2),
        "sick": rng.choice(["no", "yes"], n, p=[0.8, 0.2]), "weight": rng.uniform(1, 9, n),
    })  # fmt: skip


def schema_of(frame: pd.DataFrame, **roles: str) -> Schema:
    usual = {"person": "identifier", "income": "confidential", "sick": "confidential", "weight": "weight"} | roles
    return Schema(tuple(
        Attribute(
            c, role=usual.get(c, "key"), integer=c == "age",
            scale="ordered" if frame[c].dtype.kind in "if" and c != "code" else "unordered",
        )
        for c in frame
    ))  # fmt: skip


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault.create(tmp_path / "v")


def modes(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mode & 0o777 for p in sorted(folder.rglob("*"))}


# -- add, cutpoints, freeze


def test_a_registration_goes_from_file_to_frozen_records_and_leaves_no_copy(vault: Vault, tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    schema_of(frame).write(tmp_path / "people.toml")
    added = vault.add("people", tmp_path / "people.csv", tmp_path / "people.toml", title="People", identity="person")
    assert added.marks["age"] == "known to others"
    assert added.marks["sick"] == "confidential"
    assert added.marks["person"] == "left out"
    assert added.without_levels == ("age", "income")
    assert vault.names() == []
    shown = vault.cutpoints("people", "income", "minimum", d=100)
    assert "hybrid" in shown.cutpoints
    frozen = Vault.open(vault.folder).freeze("people")
    assert frozen.title == "People"
    assert frozen.variables["income"].cutpoints == shown.choose("minimum")
    assert not frozen.variables["age"].levels
    assert vault.registered() == []
    assert not list(vault.folder.rglob("data.parquet"))
    counts = vault.ask("people", None, CrossTab(("income",)), EXACT).frame().set_index("income")["count"]
    truth = np.bincount(shown.choose("minimum").codes(frame["income"].to_numpy()))
    assert counts.drop(["Total", "missing"]).tolist() == truth.tolist()
    assert counts["missing"] == 0  # whether anybody has no income is not told by the levels
    assert truth.min() >= 100


def test_folders_and_files_of_a_vault_can_be_read_by_their_owner_only(vault: Vault) -> None:
    frame = people(300)
    vault.add("people", frame, schema_of(frame))
    assert {k: v for k, v in modes(vault.folder).items() if k.startswith("registered")} == {
        "registered": 0o700, "registered/people": 0o700,
        "registered/people/data.parquet": 0o600, "registered/people/registration.toml": 0o600,
    }  # fmt: skip
    assert vault.folder.stat().st_mode & 0o077 == 0
    vault.freeze("people")
    assert {k: v for k, v in modes(vault.folder).items() if k.startswith("datasets/")} == {
        "datasets/people": 0o700, "datasets/people/1": 0o700,
        "datasets/people/1/records.parquet": 0o600, "datasets/people/1/dataset.toml": 0o600,
        "datasets/people/1/cube.npz": 0o600,
    }  # fmt: skip


def test_what_was_added_gives_the_same_bytes_as_what_was_frozen_at_once(vault: Vault) -> None:
    frame = people(900)
    data = Microdata(frame, schema_of(frame))
    vault.add("people", data)
    vault.freeze("people")
    (vault.folder / "other").mkdir()
    direct = Vault(vault.folder / "other", vault._secret, vault.policy)
    direct.freeze("people", data)
    asked = ({"sex": "F"}, CrossTab(("state",)))
    first, second = vault.ask("people", *asked), direct.ask("people", *asked)
    assert isinstance(first, Answer)
    assert first.to_bytes() == second.to_bytes()


def test_a_freeze_that_fails_leaves_nothing_behind(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = people(300)
    vault.add("people", frame, schema_of(frame))
    before = modes(vault.folder)
    import sfumato.mas.registration as freezing

    def broken(*_: object) -> None:
        raise DataError("the disk is full.")

    monkeypatch.setattr(freezing, "save", broken)
    with pytest.raises(DataError, match="disk is full"):
        vault.freeze("people")
    after = modes(vault.folder)
    assert {k for k in after if k not in before} <= {"datasets", "datasets/people"}
    assert vault.names() == []
    monkeypatch.undo()
    assert vault.freeze("people").version == 1


def test_an_add_that_fails_keeps_the_registration_before_it(vault: Vault) -> None:
    frame = people(300)
    vault.add("people", frame, schema_of(frame), title="first")
    with pytest.raises(DataError, match="positive"):
        vault.add("people", frame.assign(weight=0.0), schema_of(frame))
    assert vault.registration("people").title == "first"


@pytest.mark.parametrize("identity", ["state", "gone"])
def test_an_identity_that_does_not_tell_records_apart_is_refused(vault: Vault, identity: str) -> None:
    frame = people(500).assign(gone=None).astype({"gone": "float"})
    with pytest.raises(DataError, match=f"the column '{identity}' does not tell records apart"):
        vault.freeze("people", Microdata(frame, schema_of(frame, gone="identifier")), identity=identity)
    assert vault.names() == []


@pytest.mark.parametrize("bad", [0.0, -2.0, np.nan, np.inf])
def test_weights_that_are_not_positive_numbers_are_refused(vault: Vault, bad: float) -> None:
    frame = people(300)
    frame.loc[7, "weight"] = bad
    for attempt in (vault.add, vault.freeze):
        with pytest.raises(DataError, match="survey weights in 'weight' must be positive numbers, without gaps"):
            attempt("people", Microdata(frame, schema_of(frame)))
    assert vault.names() == vault.registered() == []


def test_a_weight_far_above_all_others_must_be_trimmed_or_confirmed(vault: Vault) -> None:
    frame = people()
    assert vault.add("people", frame, schema_of(frame)).questions() == []
    frame.loc[7, "weight"] = 19.0  # twice what nearly all stay below is 18
    assert "survey weights" in " ".join(vault.add("people", frame, schema_of(frame)).questions())
    with pytest.raises(DataError, match="trim them"):
        vault.freeze("people")
    assert vault.freeze("people", confirm=True).weighted


def test_cutpoints_of_the_custodian_are_refused_if_a_bin_is_too_small(vault: Vault) -> None:
    frame = people(300)
    vault.add("people", frame, schema_of(frame))
    with pytest.raises(DataError, match="fewer than 75 records in a bin"):
        vault.cutpoints("people", "age", Cutpoints((1, 40), whole=True))
    shown = vault.cutpoints("people", "age", Cutpoints((39,), whole=True))
    assert "The bins of own:" in str(shown)
    assert shown.bins("own")["bin"].tolist() == ["39 or less", "40 or more"]
    with pytest.raises(ParameterError, match="Cutpoints"):
        vault.cutpoints("people", "age", [39])  # type: ignore[arg-type]
    assert vault.freeze("people").variables["age"].levels == ("39 or less", "40 or more")


def test_cutpoints_that_were_chosen_stay_when_the_data_set_is_added_again_where_they_fit(vault: Vault) -> None:
    frame = people(900)
    vault.add("people", frame, schema_of(frame))
    for name in ("age", "income"):
        vault.cutpoints("people", name, "hybrid", d=100)
    chosen = vault.registration("people").cutpoints
    more = pd.concat([frame, people(900, seed=2)])
    assert vault.add("people", more, schema_of(more)).cutpoints == chosen
    high = frame.assign(income=frame["income"].max(), age=frame["age"] + 0.5)
    with pytest.raises(DataError, match="'age' is said to hold whole numbers, and does not"):
        vault.add("people", high, schema_of(high))
    parts = schema_of(high).change("age", integer=False)
    assert vault.add("people", high, parts).without_levels == (
        "age",
        "income",
    )  # an empty bin, and no whole numbers
    (vault.folder / "registered" / "people" / "registration.toml").write_text("no TOML")
    assert vault.add("people", frame, schema_of(frame)).without_levels == ("age", "income")


@pytest.mark.parametrize("name", ["incme", "sex", "weight", "person"])
def test_a_variable_that_takes_no_cutpoints_is_refused_with_those_that_do(vault: Vault, name: str) -> None:
    frame = people(300)
    vault.add("people", frame, schema_of(frame))
    with pytest.raises(DataError, match="It has: age, income"):
        vault.cutpoints("people", name)


def test_names_that_are_no_words_or_not_there_are_refused(vault: Vault) -> None:
    with pytest.raises(ParameterError, match="plain word"):
        vault.add("../people", people(30))
    with pytest.raises(DataError, match="wait to be frozen"):
        vault.freeze("people")


def test_what_users_see_of_a_data_set_has_no_count_and_no_value(vault: Vault) -> None:
    frame = people()
    schema = schema_of(frame).change("sex", labels={"F": "female", "M": "male"}, label="Sex")
    part = LevelRecode("part", "state", {"north": ["S0", "S1"], "south": ["S2", "S3", "S4", "S5"]})
    vault.add("people", frame, schema, recodes=[part])
    told = vault.freeze("people").describe()
    by_name = {v["name"]: v for v in told["variables"]}
    assert by_name["sex"] == {
        "name": "sex", "label": "Sex", "unit": "", "numbers": False, "levels": ["F", "M"], "meanings": ["female", "male"],
    }  # fmt: skip
    assert by_name["part"]["groups"] == "state"
    assert by_name["income"]["levels"] == []
    text = repr(told)
    assert not any(str(v) in text for v in frame["income"].nlargest(5))
    assert "2000" not in text


def test_a_level_may_be_named_by_its_label(vault: Vault) -> None:
    frame = people().assign(code=lambda f: np.where(f["sex"] == "F", 1, 2))
    schema = schema_of(frame).change("code", labels={"1": "female", "2": "male"})
    vault.freeze("people", Microdata(frame, schema))
    answers = {vault.ask("people", {"code": level}, CrossTab(("state",))).to_bytes() for level in ("female", 1, "1")}
    assert len(answers) == 1
    with pytest.raises(DataError, match="Did you mean 'female'"):
        vault.ask("people", {"code": "femal"}, CrossTab(("state",)))
    counts = vault.ask("people", {"code": "female"}, CrossTab(("sex",)), EXACT).frame().set_index("sex")["count"]
    assert counts["F"] == (frame["sex"] == "F").sum()


def test_bins_serve_universes_and_analyses_use_the_values_as_they_are(vault: Vault) -> None:
    frame = people()
    data = Microdata(frame, schema_of(frame))
    vault.freeze("people", data, {"income": Cutpoints((20_000, 40_000)), "age": Cutpoints((29, 59), whole=True)})
    asked = CrossTab(("sex",), of="income")
    found = vault.ask("people", {"age": "30-59", "income": "over 40,000"}, asked, EXACT)
    rows = found.frame().set_index("sex")
    chosen = frame[frame["age"].between(30, 59) & (frame["income"] > 40_000)]
    truth = chosen.groupby("sex")["income"].mean()
    assert rows.loc["F", "mean"] == pytest.approx(truth["F"], rel=1e-12)
    assert rows.loc["Total", "mean"] == pytest.approx(chosen["income"].mean(), rel=1e-12)


# -- questions to the custodian


def test_how_much_one_variable_tells_of_another_is_that_of_a_slow_twin() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 30, 400)
    b = np.where(rng.random(400) < 0.8, a % 3, rng.integers(0, 3, 400))
    right = 0
    for i in range(400):
        others = [b[j] for j in range(400) if j != i and a[j] == a[i]]
        sizes = sorted((others.count(level) for level in range(3)), reverse=True)
        right += others.count(b[i]) == sizes[0] and sizes[0] > sizes[1]
    most = np.bincount(b).max()
    table = np.zeros((30, 3))
    np.add.at(table, (a, b), 1)
    assert foretold(table) == pytest.approx(max(right - most, 0) / (400 - most))


def test_nearly_dependent_variables_are_found_and_must_be_confirmed(vault: Vault) -> None:
    rng = np.random.default_rng(5)
    frame = people()
    frame["county"] = [f"{s}-{i}" for s, i in zip(frame["state"], rng.integers(0, 4, len(frame)), strict=True)]
    frame["wealth"] = (frame["income"] * 12).round(2)
    added = vault.add("people", frame, schema_of(frame, county="key", wealth="confidential"))
    pairs = {(d.one, d.other) for d in added.dependent}
    assert pairs == {("county", "state"), ("income", "wealth"), ("wealth", "income")}
    with pytest.raises(DataError, match=r"'county' tells 'state'.*confirm=True"):
        vault.freeze("people")
    assert vault.freeze("people", confirm=True).version == 1


def test_a_rare_answer_or_many_small_levels_do_not_look_dependent(vault: Vault) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({
        "town": [f"T{i}" for i in rng.integers(0, 300, 600)], "sex": rng.choice(["F", "M"], 600),
        "ill": rng.choice(["no", "yes"], 600, p=[0.97, 0.03]),
    })  # fmt: skip
    added = vault.add("people", frame, schema_of(frame, ill="confidential"))
    assert added.dependent == ()
    assert "town" in added.rare  # about two records each: users would see the names of levels
    vault.add("people", frame, schema_of(frame, ill="confidential"), keep_rare=True)
    with pytest.raises(DataError, match="Very few records have some levels of 'town'"):
        vault.freeze("people")


def test_a_known_variable_that_tells_a_confidential_one_is_told_apart(vault: Vault) -> None:
    frame = people().assign(ward=lambda f: np.where(f["sick"] == "yes", "hospital", "home"))
    added = vault.add("people", frame, schema_of(frame))
    assert any("marked confidential: mark it as known" in q for q in added.questions())


# -- versions


def test_a_version_with_the_same_records_is_refused_and_so_is_one_that_differs_by_few(vault: Vault) -> None:
    frame = people(600)
    vault.freeze("people", Microdata(frame, schema_of(frame)), identity="person")
    with pytest.raises(DataError, match="nothing new"):
        vault.freeze("people", Microdata(frame.sample(frac=1, random_state=1), schema_of(frame)), identity="person")
    more = people(700, seed=9).iloc[600:]
    for n in (1, 19):
        with pytest.raises(DataError, match="at least 20 records"):
            vault.freeze("people", Microdata(pd.concat([frame, more[:n]]), schema_of(frame)), identity="person")
        with pytest.raises(DataError, match="at least 20 records"):
            vault.freeze("people", Microdata(frame[n:], schema_of(frame)), identity="person")
    changed = frame.copy()
    changed.loc[:18, "sex"] = changed.loc[:18, "sex"].map(
        {"F": "M", "M": "F"}
    )  # known; test_mas_versions.py has confidential ones
    with pytest.raises(DataError, match="at least 20 records"):
        vault.freeze("people", Microdata(changed, schema_of(frame)), identity="person")
    assert vault.versions("people") == [1]
    assert (
        vault.freeze("people", Microdata(pd.concat([frame, more[:20]]), schema_of(frame)), identity="person").version
        == 2
    )
    with pytest.raises(DataError, match="nearer to version 1"):  # far from version 2, but not from version 1
        vault.freeze("people", Microdata(pd.concat([frame, more[40:45]]), schema_of(frame)), identity="person")


@pytest.mark.parametrize(("gone", "come", "changed"), [(0, 0, 0), (3, 0, 0), (0, 25, 4), (40, 10, 15), (300, 300, 0)])
def test_the_records_that_differ_are_counted_as_by_a_slow_twin(
    vault: Vault, gone: int, come: int, changed: int
) -> None:
    frame, more = people(600), people(300, seed=9)
    new = pd.concat([frame[gone:], more[:come]], ignore_index=True)
    new.loc[100 : 100 + changed - 1, "sick"] = "perhaps" if changed else None
    new["sick"] = new["sick"].fillna("no")
    old = vault.freeze("old", Microdata(frame, schema_of(frame)))
    other = vault.freeze("new", Microdata(new, schema_of(new)))
    same = [n for n in old.variables if n != "sick" or not changed]  # with another level it is another variable
    kept = [*(n for n in same), "weight"]
    before, after = (Counter(map(tuple, f[kept].to_numpy().tolist())) for f in (frame, new))
    truth = max((before - after).total(), (after - before).total())
    found = records_changed(other.warehouse, other.variables, old, same)
    assert truth - truth**2 / 500 <= found <= truth


def test_another_column_does_not_hide_that_few_records_differ(vault: Vault) -> None:
    frame = people(600)
    vault.freeze("people", Microdata(frame, schema_of(frame)))
    wider = frame.assign(dummy="x")
    with pytest.raises(DataError, match="at least 20 records"):
        vault.freeze("people", Microdata(wider[1:], schema_of(wider)))
    assert vault.freeze("people", Microdata(wider, schema_of(wider))).version == 2


def test_cutpoints_moved_past_few_records_are_refused(vault: Vault) -> None:
    frame = people(600)
    both = pd.concat([frame, people(700, seed=9).iloc[600:]])
    vault.freeze("people", Microdata(frame, schema_of(frame)), {"age": Cutpoints((29, 59), whole=True)})
    data = Microdata(both, schema_of(both))
    with pytest.raises(DataError, match="cutpoint of 'age' lies so near"):
        vault.freeze("people", data, {"age": Cutpoints((30, 59), whole=True)})
    assert vault.freeze("people", data, {"age": Cutpoints((39, 59), whole=True)}).version == 2


def test_cutpoints_carry_over_to_the_next_version_and_so_do_accounts(vault: Vault) -> None:
    frame = people()
    vault.add("people", frame, schema_of(frame), identity="person")
    vault.cutpoints("people", "age", "fixed", d=100)
    first = vault.freeze("people")
    assert isinstance(vault.ask("people", {"sex": "F"}, CrossTab(("state", "sick")), user="ann"), Answer)
    spent = vault.ledger.spent("ann", "people", first.variables)
    assert spent > 0
    more = pd.concat([frame, people(2_100, seed=8).iloc[2_000:]])
    added = vault.add("people", more, schema_of(more), identity="person")
    assert added.without_levels == ("income",)
    second = vault.freeze("people")
    assert second.variables["age"].levels == first.variables["age"].levels
    assert vault.ledger.spent("ann", "people", second.variables) == spent


# -- units


def test_persons_households_and_establishments_may_be_linked(vault: Vault) -> None:
    frame = people(600).assign(home=lambda f: f["person"] // 3, firm=lambda f: f["person"] % 7, rooms="4")
    schema = schema_of(frame, home="household", firm="contributor").change("rooms", level="household")
    frozen = vault.freeze("people", Microdata(frame, schema))
    assert frozen.units == ("h", "e")
    told = frozen.describe()
    assert told["linked"] == ["households", "establishments"]
    found = frozen.warehouse.ask("SELECT count(DISTINCT h) AS h, count(DISTINCT e) AS e FROM records")
    assert (found["h"][0], found["e"][0]) == (200, 7)
    with pytest.raises(DataError, match="describes households"):
        vault.freeze("other", Microdata(frame, schema.change("home", role="identifier")))
