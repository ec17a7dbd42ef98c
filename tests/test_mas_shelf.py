"""The shelf: tables for everybody, against dense least squares, an optimiser, and all values of one record."""

from __future__ import annotations

import itertools
import json
import math
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_neighbours import contributions, frozen, schema, survey, values_of
from scipy.optimize import minimize
from typer.testing import CliRunner

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints
from sfumato.mas import shelf as shelves
from sfumato.mas.accounts import loss_of
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.shelf import Effects, Names, ShelfTable, all_tables, error_of, precisions, published, workload
from sfumato.mas.sums import TableSums
from sfumato.mas.vault import Vault, cell_counts

HARDENED = Policy.named("hardened")
LENGTHS = {"a": 2, "b": 3, "c": 4}


def people(n: int = 3_000) -> pd.DataFrame:
    return survey(n, 5, weighted=False)


def vault_of(folder: Path, policy: Policy = HARDENED, n: int = 3_000) -> Vault:
    folder.mkdir(parents=True, exist_ok=True)
    vault, frame = Vault(folder, Draws("shelf"), policy), people(n)
    recodes = (LevelRecode("job", "work", {"paid": ["full", "part"], "other": ["none"]}),)
    vault.freeze("tiny", Microdata(frame, schema(frame)), {"age": Cutpoints((40, 65), whole=True)}, recodes=recodes)
    return vault


def made_vault(folder: Path) -> Vault:
    """A vault with a secret of its own, that can be opened again."""
    vault, frame = Vault.create(folder, HARDENED), people()
    vault.freeze("tiny", Microdata(frame, schema(frame)), {"age": Cutpoints((40, 65), whole=True)})
    return vault


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """A vault whose shelf has all two-way tables, one three-way table, and sums of pay."""
    made = vault_of(tmp_path_factory.mktemp("shelf"))
    tables = [*all_tables(made.dataset("tiny").variables), CrossTab(("sex", "sick", "work"), of="pay")]
    made.shelve("tiny", tables, right=58)
    return made


def asked(vault: Vault, tab: CrossTab, universe: Any = None, **settings: Any) -> Answer:
    found = vault.ask("tiny", universe, tab, settings.pop("policy", None), **settings)
    assert isinstance(found, Answer), found
    return found


def cells(answer: Answer, *names: str) -> dict[tuple[Any, ...], float]:
    return {tuple(row[name] for name in names): row["count"] for row in answer.tables["cells"]}


# --- least squares


def dense(
    tables: dict[Names, np.ndarray], variances: dict[Names, float], wanted: Names
) -> tuple[np.ndarray, np.ndarray]:
    """A table and its covariances by weighted least squares on the cells of the table of all variables."""
    every = tuple(LENGTHS)
    full = np.indices(tuple(LENGTHS.values())).reshape(3, -1)

    def margin(names: Names) -> np.ndarray:
        shape = [LENGTHS[n] for n in names]
        at = (
            np.ravel_multi_index([full[every.index(n)] for n in names], shape)
            if names
            else np.zeros(full.shape[1], int)
        )
        return np.eye(int(np.prod(shape, dtype=int)))[at].T

    design = np.vstack([margin(names) / np.sqrt(variances[names]) for names in tables])
    seen = np.concatenate([tables[names].ravel() / np.sqrt(variances[names]) for names in tables])
    inverse = np.linalg.pinv(design.T @ design)
    to = margin(wanted)
    return to @ inverse @ design.T @ seen, to @ inverse @ to.T


@pytest.mark.parametrize("seed", range(12))
def test_tables_are_those_of_dense_least_squares_with_its_variances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    possible = [names for size in range(4) for names in itertools.combinations("abc", size)]
    chosen = [possible[i] for i in rng.choice(8, rng.integers(1, 7), replace=False)]
    tables = {names: rng.normal(100, 30, [LENGTHS[n] for n in names]) for names in chosen}
    variances = {names: float(rng.uniform(1, 50)) for names in chosen}
    found = Effects.of(tables, variances)
    for wanted in found.values:
        lengths = [LENGTHS[n] for n in wanted]
        values, covariances = dense(tables, variances, wanted)
        assert found.table(wanted, lengths).ravel() == pytest.approx(values)
        sums = rng.integers(-1, 3, lengths)
        functional = np.array([(sums.ravel() == i).astype(float) for i in range(3)])
        expected = np.diag(functional @ covariances @ functional.T)
        assert found.variance(wanted, lengths, np.asarray(sums), 3) == pytest.approx(expected, abs=1e-9)


def test_no_cell_and_no_total_has_a_larger_error_than_the_sum_of_cells_of_its_own_table() -> None:
    rng = np.random.default_rng(4)
    names = [("a", "b"), ("b", "c"), ("a", "c"), ("a",)]
    variances = {some: float(rng.uniform(1, 50)) for some in names}
    found = Effects.of({some: np.zeros([LENGTHS[n] for n in some]) for some in names}, variances)
    for some in names:
        lengths = [LENGTHS[n] for n in some]
        for sums in (np.arange(np.prod(lengths)).reshape(lengths), np.zeros(lengths, int), np.indices(lengths)[0]):
            each = np.bincount(sums.ravel())
            assert (found.variance(some, lengths, sums, len(each)) <= each * variances[some] * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_split_as_an_optimiser_does_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [("a",), ("c",), ("a", "b"), ("b", "c"), ("a", "c")]
    tables = [
        ShelfTable("n", some, tuple(LENGTHS[n] for n in some), float(rng.choice([1, 2])), float(rng.uniform(0.2, 5)))
        for some in names
    ]
    tables.append(ShelfTable("n", ("b",), (3,), 0.0, 1.0, fixed=0.04))
    loss, costs = 0.3, np.array([t.cost for t in tables])
    chosen = precisions(tables, loss)
    assert costs @ chosen == pytest.approx(loss)

    def error(logs: np.ndarray) -> float:
        spent = np.exp(logs)
        paid = loss * spent / spent.sum() / costs[:5]
        return error_of(tables, np.array([*paid, 0.04]))

    best = min((minimize(error, rng.normal(0, 1, 5), method="L-BFGS-B") for _ in range(3)), key=lambda found: found.fun)
    assert error_of(tables, chosen) == pytest.approx(best.fun, rel=1e-4)
    even = loss / 5 / costs[:5]
    assert error_of(tables, chosen) < error_of(tables, np.array([*even, 0.04]))


# --- what it tells


def test_no_confidential_value_of_a_record_moves_the_shelf_by_more_than_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = survey(12, 4, weighted=False)
    dataset = frozen(tmp_path, frame)
    policy = Policy.open().set({"counts.sd": 3.0, "amounts.sd": 3.0, "models.sd": 3.0})
    tables = dict.fromkeys(all_tables(dataset.variables), 1.0)
    tables |= {CrossTab(("sex", "sick"), of="pay"): 2.0, CrossTab(("sex",), of="pay"): 1.0}
    kept = []
    plain = shelves._noisy

    def noted(mechanism: Any, table: ShelfTable, moment: Any, precision: float) -> Any:
        found = plain(mechanism, table, moment, precision)
        kept.append((table, moment, found))
        return found

    monkeypatch.setattr(shelves, "_noisy", noted)
    made = published(dataset, policy, tables, 60)
    assert made.loss == pytest.approx(loss_of(0.60), rel=1e-4)
    assert made.loss <= loss_of(0.60)
    shares = []
    for who in range(len(frame)):
        variants = pd.DataFrame([{**frame.iloc[who], **values} for values in values_of(dataset, True)])
        told = np.zeros((len(variants), len(variants)))
        for table, moment, (_, _, variance) in kept:
            part = TableSums(tuple(dataset.variables[n] for n in table.names), {"m": moment}, "amounts")
            added = contributions(variants, dataset, None, part, np.ones(len(variants)))[
                "n" if table.measure == "n" else "m"
            ]
            told += np.square(added[:, None] - added[None]).sum(axis=-1) / variance
        assert told.max() <= made.loss * (1 + 1e-9)
        shares.append(told.max() / made.loss)
    assert max(shares) > 0.6


def test_the_noise_of_the_shelf_has_the_variance_that_it_says(tmp_path: Path) -> None:
    frame = survey(40, 4, weighted=False)
    dataset = frozen(tmp_path, frame)
    policy = Policy.open().set({"counts.sd": 3.0, "amounts.sd": 3.0, "models.sd": 3.0})
    tables = {CrossTab(("sick", "work"), of="pay"): 1.0, CrossTab(("sick",)): 1.0, CrossTab(("sex", "work")): 1.0}
    runs = [published(replace(dataset, secret=Secret(Draws(f"{i}"))), policy, tables, 60) for i in range(100)]
    for measure, names, lengths in (("n", ("sick", "work"), (2, 3)), ("n", ("sex",), (2,)), ("s pay", ("work",), (3,))):
        values = np.array([one.effects[measure].table(names, lengths) for one in runs]).reshape(100, -1)
        count = values.shape[1]
        said = runs[0].effects[measure].variance(names, lengths, np.arange(count).reshape(lengths), count)
        assert np.var(values, axis=0, ddof=1) / said == pytest.approx(1.0, abs=5 * np.sqrt(2 / 100))


# --- what it answers


def test_margins_of_different_tables_add_up(vault: Vault) -> None:
    shelf = vault.shelf("tiny")
    assert shelf is not None
    effects, v = shelf.effects["n"], vault.dataset("tiny").variables
    pairs = (("age", "sick"), ("sex", "sick"), ("sick", "work"))
    whole = [effects.table(names, [len(v[n].levels) for n in names]) for names in pairs]
    sick = effects.table(("sick",), [2])
    for table, axis in zip(whole, (0, 0, 1), strict=True):
        assert table.sum(axis=axis) == pytest.approx(sick, rel=1e-12)
    one, two = asked(vault, CrossTab(("sex", "sick"))), asked(vault, CrossTab(("sick", "age")))
    told = cells(one, "sex", "sick")
    assert told["Total", "yes"] == cells(two, "sick", "age")["yes", "Total"]
    assert told["F", "yes"] + told["M", "yes"] == pytest.approx(
        told["Total", "yes"], abs=0.11
    )  # rounded to one decimal
    assert "From the shelf" in one.notes[0]
    assert one.policy == "shelf (58 of 100)"


def test_counts_and_means_are_near_those_of_the_file(vault: Vault) -> None:
    frame = people()
    told = asked(vault, CrossTab(("sick", "work"), of="pay")).frame().set_index(["sick", "work"])
    assert (
        told.xs("yes")["count"].drop("Total") - frame[frame["sick"] == "yes"].groupby("work").size()
    ).abs().max() < 60
    clipped = frame["pay"].clip(20, 100)
    means = clipped.groupby([frame["sick"], frame["work"]]).mean()
    for key, mean in means.items():
        assert abs(told.loc[key, "mean"] - mean) < 4 * told.loc[key, "standard error"] + 1e-9


def test_universes_and_recodes_are_answered_from_the_tables_that_have_their_variables(vault: Vault) -> None:
    table = cells(asked(vault, CrossTab(("sick", "work"))), "sick", "work")
    inside = cells(asked(vault, CrossTab(("work",)), {"sick": "yes"}), "work")
    assert all(inside[w,] == table["yes", w] for w in ("full", "none", "part"))
    job = cells(asked(vault, CrossTab(("job", "sick"))), "job", "sick")
    assert job["paid", "no"] == pytest.approx(table["no", "full"] + table["no", "part"], abs=0.11)
    union = cells(asked(vault, CrossTab(("sick",)), [{"sick": "yes"}, {"work": "none"}]), "sick")
    assert union["no",] == table["no", "none"]
    assert union["yes",] == table["yes", "Total"]
    refused = vault.ask(
        "tiny", {"sex": "F", "age": vault.dataset("tiny").variables["age"].levels[0]}, CrossTab(("sick",))
    )
    assert (
        not isinstance(refused, Answer) or "shelf" not in refused.policy
    )  # a three-way table that is not on the shelf


def test_the_shelf_is_free_unlimited_and_not_logged(vault: Vault) -> None:
    dataset = vault.dataset("tiny")
    before, lines = vault.ledger.spent("student", "tiny", dataset.variables), vault.ledger.head()
    first = asked(vault, CrossTab(("sick", "sex")), user="student").to_bytes()
    assert HARDENED.per_minute is not None
    for _ in range(HARDENED.per_minute + 5):
        assert asked(vault, CrossTab(("sick", "sex")), user="student").to_bytes() == first
    assert vault.ledger.spent("student", "tiny", dataset.variables) == before
    assert vault.ledger.head() == lines
    mine = vault.ask("tiny", None, CrossTab(("sick", "sex")), Policy.open())
    assert isinstance(mine, Answer)
    assert mine.policy.startswith("open")


def test_everybody_pays_for_the_shelf_once(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    frozen_loss = vault.dataset("tiny").frozen_loss
    with pytest.raises(ParameterError, match="more would be told"):
        vault.shelve(
            "tiny", right=HARDENED.accounts.user
        )  # the policy allows a user as much, and some is spent at freezing
    made = vault.shelve("tiny", [("sex", "sick"), ("work",)], right=57)
    assert made.loss == pytest.approx(loss_of(0.57), rel=1e-4)
    assert vault._told_to_all(vault.dataset("tiny")) == pytest.approx(frozen_loss + made.loss)
    room = HARDENED.accounts.limit(user=True) - frozen_loss - made.loss
    known = HARDENED.accounts.with_(others="known")
    spent, policy = 0.0, HARDENED.with_(rules=(), per_minute=None, accounts=known)
    for name in ("full", "none", "part"):
        for i in range(1, 8):
            # noise that was not asked for before
            other = policy.set({"counts.sd": 5.0 + i / 100, "counts.growth": 0.0})
            vault.ask("tiny", {"work": name}, CrossTab(("sick", "age")), other)
            spent = vault.ledger.spent("custodian", "tiny", vault.dataset("tiny").variables)
            assert spent <= room
    assert spent > room - 0.1  # so the account is what limits
    with pytest.raises(DataError, match="a shelf already"):
        vault.shelve("tiny", right=55)
    assert [e.content["outcome"] for e in vault.ledger.entries() if e.content["analysis"] == "shelf"] == ["published"]


def test_accounts_for_whoever_knows_all_others_are_kept_beside_those_for_who_does_not(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    dataset, policy = vault.dataset("tiny"), HARDENED.with_(rules=(), per_minute=None)
    for levels in (["full"], ["none"], ["full", "part"]):
        asked(vault, CrossTab(("age",)), {"work": levels}, policy=policy.set({"counts.growth": 0.0}))
    hidden = vault.ledger.spent("custodian", "tiny", dataset.variables, cell_counts(dataset, HARDENED))
    formal = vault.ledger.spent("custodian", "tiny", dataset.variables)
    assert formal == pytest.approx(3 / HARDENED.counts.sd**2, rel=1e-5)
    assert 0 < hidden < formal
    assert vault.ledger.spent("custodian", "tiny", dataset.variables, cell_counts(dataset, HARDENED)) == pytest.approx(
        hidden
    )


def test_a_shelf_lies_in_private_files_and_is_read_again_bit_by_bit(tmp_path: Path) -> None:
    vault = made_vault(tmp_path / "v")
    vault.shelve("tiny", right=57)
    again, tab = Vault.open(tmp_path / "v"), CrossTab(("age", "sick"))
    assert asked(again, tab).to_bytes() == asked(vault, tab).to_bytes()
    folder = tmp_path / "v" / "datasets" / "tiny" / "1"
    for name in ("shelf.toml", "shelf.npz"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    (folder / "shelf.npz").write_bytes(b"other")
    with pytest.raises(DataError, match="damaged"):
        asked(Vault.open(tmp_path / "v"), tab)


def test_what_cannot_be_on_a_shelf_is_said(vault: Vault, tmp_path: Path) -> None:
    dataset = vault.dataset("tiny")
    with pytest.raises(ParameterError, match="recode"):
        published(dataset, HARDENED, {CrossTab(("job",)): 1.0}, 57)
    with pytest.raises(ParameterError, match="no noise"):
        published(dataset, Policy.open(), {CrossTab(("sick",)): 1.0}, 57)
    with pytest.raises(ParameterError, match="above 50"):
        vault_of(tmp_path).shelve("tiny", right=50)


def test_the_log_says_what_to_put_on_the_shelf(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    for _ in range(2):
        vault.ask("tiny", {"sex": "F"}, CrossTab(("sick",)))
    vault.ask("tiny", None, CrossTab(("job",), of="pay"))
    found = workload(vault.ledger.entries(), vault.dataset("tiny"))
    assert found == {CrossTab(("sex", "sick")): 2.0, CrossTab(("work",), of="pay"): 1.0}
    vault.shelve("tiny", found, right=57)
    assert "shelf" in asked(vault, CrossTab(("sick",)), {"sex": "F"}).policy
    assert "shelf" in asked(vault, CrossTab(("job",), of="pay")).policy


def test_tables_of_three_variables_answer_questions_about_a_level_of_a_third_one(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    with pytest.raises(ParameterError, match="1, 2 or 3"):
        vault.shelve("tiny", right=57, sides=4)
    shelf = vault.shelve("tiny", right=57, sides=3)
    names = [v.name for v in vault.dataset("tiny").variables.values() if v.levels and v.base is None]
    assert len(shelf.tables) == sum(math.comb(len(names), k) for k in (1, 2, 3))
    assert shelf.loss == pytest.approx(loss_of(0.57), rel=1e-4)
    assert "shelf" in asked(vault, CrossTab(("sick", "work")), {"sex": "F"}).policy


def test_the_command_line_publishes_a_shelf_and_lists_it(tmp_path: Path) -> None:
    from sfumato.cli.command_line import app

    made_vault(tmp_path / "v")
    run, where = CliRunner(), [str(tmp_path / "v"), "tiny"]
    assert "no shelf" in run.invoke(app, ["vault", "shelf", *where]).output
    made = run.invoke(
        app, ["vault", "shelf", *where, "--right", "57", "--tables", "sick+sex,work", "--of", "pay", "--json"]
    )
    assert made.exit_code == 0, made.output
    said = json.loads(made.stdout)
    assert len(said["tables"]) == 2
    assert said["loss"] == pytest.approx(loss_of(0.57), rel=1e-4)
    assert json.loads(run.invoke(app, ["vault", "shelf", *where, "--json"]).stdout) == said
    assert "shelf" in asked(Vault.open(tmp_path / "v"), CrossTab(("sick", "sex"), of="pay")).policy
