"""Tables under the hardened policy: noise as promised, the same cell the same number, outliers that do not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED
from mas_people import people, vault_of

from sfumato.contract import Draws
from sfumato.mas.analyses import CrossTab
from sfumato.mas.analyses.tables import Amount
from sfumato.mas.answer import Answer
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.sums import Moment, ProtectedCells, SumsRequest, TableSums
from sfumato.mas.universe import Spec, Universe
from sfumato.mas.vault import Answering, DryRun, Vault

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
FINE = HARDENED.with_(rules=(), accounts=UNLIMITED).set(
    {"counts.base": 1, "counts.least": 0, "amounts.digits": 15, "amounts.error_digits": 15}
)
"""Noise, but no rounding."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", frame)


def seeded(data: Dataset, secret: int | None) -> Dataset:
    """Return a data set as if it had another secret."""
    return data if secret is None else replace(data, secret=Secret(Draws(secret)))


def asked(data: Dataset, universe: Spec, analysis: Analysis, policy: Policy, secret: int | None = None) -> pd.DataFrame:
    """Ask a data set, perhaps as if it had another secret."""
    here = seeded(data, secret)
    found = Answering(here, Question(here.codebook, policy, Universe.of(universe), analysis)).answer()
    assert isinstance(found, Answer), found
    return found.frame()


def cells(data: Dataset, sides: tuple[str, ...], moments: dict[str, Moment], policy: Policy = FINE) -> ProtectedCells:
    question = Question(data.codebook, policy, Universe(), DryRun())
    request = SumsRequest({"t": TableSums(tuple(data.variables[s] for s in sides), moments, "amounts")})
    return Mechanism(data, policy, question).protect(request)[0].cells("t")


def test_noise_on_each_sum_is_normal_with_the_variance_that_comes_with_it_and_independent(vault: Vault) -> None:
    data = vault.dataset("survey")
    moments = Amount(data.variables["income"], data.weight).moments()
    clipped = FINE.set({"counts.sd": 0, "amounts.sd": 0})
    exact = cells(data, ("state", "sick"), moments, clipped).sums
    standard: dict[str, list[float]] = {name: [] for name in exact}
    for secret in range(120):
        found = cells(seeded(data, secret), ("state", "sick"), moments)
        for name, values in found.sums.items():
            standard[name] += ((values - exact[name]) / np.sqrt(found.variances[name])).ravel().tolist()
    table = pd.DataFrame(standard)  # 960 independent standard normal numbers each
    assert np.abs(table.mean()).max() < 4 / np.sqrt(len(table))
    assert np.abs(table.std() - 1).max() < 4 / np.sqrt(2 * len(table))
    assert np.abs(np.corrcoef(table.T.to_numpy()) - np.eye(len(exact))).max() < 4.5 / np.sqrt(len(table))


def test_noise_is_at_least_what_one_record_can_move_times_the_setting_and_grows_with_the_set(vault: Vault) -> None:
    data = vault.dataset("survey")
    low, high = data.variables["income"].bounds or (0.0, 0.0)
    amount = Amount(data.variables["income"], None)
    parts, whole = (cells(data, by, amount.moments()).variances for by in (("state", "sex", "age"), ("sex",)))
    assert parts["s"].min() >= (FINE.amounts.sd * (high - low)) ** 2
    assert parts["n"].min() == FINE.counts.sd**2  # a count by known variables
    assert whole["s"].min() > parts["s"].max()


def test_a_mean_is_a_noisy_sum_over_a_noisy_count_and_its_error_covers_the_noise(
    vault: Vault, frame: pd.DataFrame
) -> None:
    data = vault.dataset("survey")
    clipped = frame["income"].clip(*data.variables["income"].bounds)
    truth, exact = clipped.groupby(frame["state"]).mean(), clipped.groupby(frame["state"]).sem()
    far, shown = [], []
    for secret in range(100):
        found = asked(data, None, CrossTab(("state",), of="income"), FINE, secret).set_index("state").loc[truth.index]
        far += list(found["mean"] - truth)
        shown += list(found["standard error"] ** 2 - exact**2)
    assert np.std(far) == pytest.approx(np.sqrt(np.mean(shown)), rel=0.25)


def test_three_digits_are_shown_of_amounts_two_of_errors_and_nothing_of_small_cells(vault: Vault) -> None:
    found = asked(vault.dataset("survey"), None, CrossTab(("state", "sick", "age", "income"), of="change"), HARDENED)
    assert found["mean"].notna().any()
    assert found["mean"].isna().any()
    for column, digits in (("mean", 3), ("sum", 3), ("standard error", 2)):
        values = found[column].dropna()
        assert all(float(f"{v:.{digits - 1}e}") == v for v in values)
    assert found.loc[found["count"].isna(), ["mean", "sum", "standard error"]].isna().all(axis=None)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_cell_of_known_variables_has_the_same_numbers_in_every_table(vault: Vault, weighted: bool) -> None:
    data, columns = vault.dataset("survey"), ["count", "mean", "sum", "standard error"]

    def row(universe: Spec, by: tuple[str, ...], **levels: str) -> list[float]:
        found = asked(data, universe, CrossTab(by, of="income", weighted=weighted), FINE)
        for name, level in levels.items():
            found = found[found[name] == level]
        assert len(found) == 1
        return list(found[columns].iloc[0])

    one = row(None, ("sex", "state"), sex="F", state="S01")
    assert one == row({"sex": "F"}, ("state",), state="S01")
    assert one == row("sex != 'M'", ("state", "sex"), sex="F", state="S01")
    part = row({"sex": "F"}, ("sick", "state"), sick="yes", state="S01")
    assert part == row({"state": "S01"}, ("sex", "sick"), sick="yes", sex="F")


def test_a_table_turned_round_is_the_same_and_free(vault: Vault) -> None:
    data, tables = (
        vault.dataset("survey"),
        (("sick", "income"), ("income", "sick"), ("state", "income", "sick"), ("income", "sick", "state")),
    )
    found, spent = [], []
    for by in tables:
        policy = FINE.with_(title="turned")
        answer = vault.ask("survey", None, CrossTab(by), policy, user="ann")
        assert isinstance(answer, Answer)
        found.append(answer.frame().set_index(sorted(by))["count"].sort_index())
        spent.append(vault.ledger.spent("ann", "survey", data.variables))
    assert found[0].equals(found[1])
    assert found[2].equals(found[3])
    assert spent[0] == spent[1] < spent[2] == spent[3]


@pytest.mark.parametrize("weighted", [False, True])
def test_no_value_moves_a_sum_by_more_than_its_noise_is_scaled_to(tmp_path: Path, weighted: bool) -> None:
    frame = people(3_000, seed=8)
    frame["income"] = frame["income"].fillna(30_000)
    frame.loc[0, ["sex", "state", "weight"]] = ["F", "S03", frame["weight"].max()]
    quiet = FINE.set({"counts.sd": 0, "amounts.sd": 0})
    found: list[dict[str, np.ndarray]] = []
    for i, income in enumerate((-1e9, 0.0, 24_680.0, 1_234_567.89, 1e12)):
        data = vault_of(
            tmp_path / str(i), frame.assign(income=np.where(frame.index == 0, income, frame["income"]))
        ).dataset("survey")
        if not i:
            first = data.variables["income"]
        variable = replace(data.variables["income"], bounds=first.bounds)
        amount = Amount(variable, data.weight if weighted else None)
        found.append({**cells(data, ("sex", "state"), amount.moments(), quiet).sums})
        noise = cells(data, ("sex", "state"), amount.moments()).variances
        heaviest = data.weight.heaviest / data.weight.large if weighted else 1.0
        for name, values in found[-1].items():
            moved = np.abs(values - found[0][name]).max()
            power = {"ww": 2, "ws": 2, "ss": 2}.get(name, 1) if weighted else 1
            assert moved <= np.sqrt(noise[name].min()) / 5 * heaviest**power * (1 + 1e-9), name


def test_nothing_is_told_of_parts_of_a_known_cell_that_is_too_small(tmp_path: Path) -> None:
    frame = people(3_000)
    frame.loc[frame.index[:22], "state"] = "S09"
    data = vault_of(tmp_path / "v", frame).dataset("survey")
    small = 0
    for secret in range(8):
        rows = asked(data, None, CrossTab(("state", "sick")), HARDENED, secret).set_index(["state", "sick"])["count"]
        if data.secret is not None and np.isnan(rows["S09", "Total"]):
            small += 1
            assert rows["S09"].isna().all()
        assert rows["S00"].notna().all()
    assert 0 < small < 8  # 22 records, noise of 5, a limit of 20


def test_answers_are_the_same_bytes_again(vault: Vault) -> None:
    again = Vault.open(vault.folder)
    for analysis in (CrossTab(("state",), of="income", weighted=True), CrossTab(("sick", "age"))):
        answers = [v.ask("survey", {"sex": "F"}, analysis, HARDENED) for v in (vault, again)]
        assert answers[0].to_bytes() == answers[1].to_bytes()
