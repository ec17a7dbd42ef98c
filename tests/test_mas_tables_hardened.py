"""Tables under the hardened policy: noise as promised, the same cell the same number, outliers that do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_people import EXACT, people, vault_of

from mas_cases import UNLIMITED
from sfumato.contract import Draws
from sfumato.mas.aggregate import CellAggregates, VariableBins
from sfumato.mas.amounts import Amount
from sfumato.mas.analyses import CrossTab, Histogram, Quantiles
from sfumato.mas.answer import Answer
from sfumato.mas.dataset import Dataset
from sfumato.mas.perturbation import Amounts, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.quantile_estimation import BinCounts, cut_at
from sfumato.mas.question import Analysis, Question
from sfumato.mas.universe import Spec, Universe
from sfumato.mas.vault import Vault, answer

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
FINE = HARDENED.with_(
    drop=EXACT.drop, rules=(), counts=HARDENED.counts.with_(base=1, least=0),
    amounts=Amounts(top_coded=True, sd=2.0),
)  # fmt: skip
"""Noise, but neither drops nor rounding."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", frame)


def asked(data: Dataset, universe: Spec, analysis: Analysis, policy: Policy, secret: int | None = None) -> pd.DataFrame:
    """Ask a data set, perhaps as if it had another secret."""
    here = data if secret is None else replace(data, secret=Secret(Draws(secret)))
    found, _ = answer(Question(here, policy, Universe.of(universe), analysis))
    assert isinstance(found, Answer)
    return found.frame()


def top_coded(values: pd.Series) -> tuple[pd.Series, float]:
    """Replace the largest half percent, at least 20, by their mean."""
    ordered = values.dropna().sort_values()
    limit = ordered.iloc[min(int(np.ceil(0.995 * len(ordered))), len(ordered) - 19) - 1]
    mean = values[values >= limit].mean()
    return values.where(~(values >= limit), mean), float(mean)


def test_the_noise_on_sums_counts_and_weighted_counts_has_the_promised_spread(
    vault: Vault, frame: pd.DataFrame
) -> None:
    data = vault.dataset("survey")
    coded, top = top_coded(frame["income"])
    large = np.sort(frame["weight"])[int(np.ceil(0.995 * len(frame))) - 1]
    sums = coded.groupby([frame["state"], frame["sex"]]).sum()
    weights = frame.groupby(["state", "sex"])["weight"].agg(["size", "sum"])
    error: dict[str, list[float]] = {"sum": [], "count": [], "weighted": []}
    for secret in range(120):
        found = asked(data, None, CrossTab(("state", "sex"), of="income"), FINE, secret).set_index(["state", "sex"])
        other = asked(data, None, CrossTab(("state", "sex"), weighted=True), FINE, secret).set_index(["state", "sex"])
        error["sum"] += list((found["sum"][sums.index] - sums) / (2 * top))
        error["count"] += list((found["count"][sums.index] - weights["size"]) / 5)
        error["weighted"] += list((other["count"][sums.index] - weights["sum"]) / (5 * large))
    table = pd.DataFrame(error)  # 960 independent standard normal numbers each
    assert np.abs(table.mean()).max() < 4 / np.sqrt(len(table))
    assert np.abs(table.std() - 1).max() < 4 / np.sqrt(2 * len(table))
    assert np.abs(np.corrcoef(table.T.to_numpy()) - np.eye(3)).max() < 4 / np.sqrt(len(table))


def test_a_mean_is_a_noisy_sum_over_a_noisy_count_and_its_error_covers_the_noise(
    vault: Vault, frame: pd.DataFrame
) -> None:
    data = vault.dataset("survey")
    coded, _ = top_coded(frame["income"])
    truth = coded.groupby(frame["state"]).mean()
    far, shown, exact = [], [], coded.groupby(frame["state"]).sem()
    for secret in range(100):
        found = asked(data, None, CrossTab(("state",), of="income"), FINE, secret).set_index("state").loc[truth.index]
        far += list(found["mean"] - truth)
        shown += list(np.sqrt(np.maximum(found["standard error"] ** 2 - exact**2, 0)))
    assert np.std(far) == pytest.approx(np.sqrt(np.mean(np.square(shown))), rel=0.2)


def test_three_digits_are_shown_of_amounts_two_of_errors_and_nothing_of_small_cells(vault: Vault) -> None:
    found = asked(vault.dataset("survey"), None, CrossTab(("state", "sick", "age", "income"), of="change"), HARDENED)
    assert found["mean"].notna().any()
    assert found["mean"].isna().any()
    for column, digits in (("mean", 3), ("sum", 3), ("standard error", 2)):
        values = found[column].dropna()
        assert all(float(f"{v:.{digits - 1}e}") == v for v in values)
    assert found.loc[found["count"].isna(), ["mean", "sum", "standard error"]].isna().all(axis=None)


def test_a_cell_has_the_same_numbers_in_every_table(vault: Vault) -> None:
    data, columns = vault.dataset("survey"), ["count", "mean", "sum", "standard error"]

    def row(universe: Spec, by: tuple[str, ...], policy: Policy, weighted: bool, **levels: str) -> list[float]:
        found = asked(data, universe, CrossTab(by, of="income", weighted=weighted), policy)
        for name, level in levels.items():
            found = found[found[name] == level]
        assert len(found) == 1
        return list(found[columns].iloc[0])

    for weighted in (False, True):
        one = row(None, ("sex",), FINE, weighted, sex="F")
        assert one == row({"sex": "F"}, ("state",), FINE, weighted, state="Total")
        assert one == row("sex != 'M'", ("age", "sick"), FINE, weighted, age="Total", sick="Total")
        # with drops, in every table of the universe
        assert row(None, ("sex", "state"), HARDENED, weighted, sex="F", state="Total") == row(
            None, ("sex",), HARDENED, weighted, sex="F"
        )


def test_where_records_are_dropped_what_two_universes_say_of_a_cell_does_not_differ_without_noise(vault: Vault) -> None:
    """A cell lacks other records in each: with one noise in all of them, fractions would be left that give the count away."""
    data, table = vault.dataset("survey"), CrossTab(("state", "sick"), of="income")
    universes = {"state": ["S00", "S01"]}, {"state": ["S00", "S02", "S03"]}

    def differences(policy: Policy) -> np.ndarray:
        def sums(universe: Spec) -> np.ndarray:
            found = [asked(data, universe, table, policy.with_(rules=()), secret) for secret in range(60)]
            return np.array([one[(one["state"] == "S00") & (one["sick"] == "yes")]["sum"].iloc[0] for one in found])

        one, other = map(sums, universes)
        return one - other

    noise = HARDENED.amounts.noise(data.variables["income"])
    ratio = differences(HARDENED).std() / (np.sqrt(2) * noise)
    assert 0.6 < ratio < 1.5  # two independent draws, and the drops; six standard errors of a deviation of 60
    assert not differences(HARDENED.with_(drop=EXACT.drop)).any()


def test_the_number_of_values_has_the_noise_of_the_universe_of_those_that_have_one(vault: Vault) -> None:
    data = vault.dataset("survey")
    question = Question(data, FINE, Universe.of({"sex": "F"}), CrossTab(("state",), of="income"))
    amount = Amount(question, data.variables["income"], None)
    values = amount.of(CellAggregates.of(question, (data.variables["state"],), amount.asked())).values
    found = asked(data, {"sex": "F", "income": {"not": ["missing"]}}, CrossTab(("state",)), FINE)
    assert found["count"][:4].to_numpy() == pytest.approx(np.round(values), abs=1e-9)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Dataset]:
    frame = people(20_000, seed=8)
    frame["income"] = frame["income"].fillna(30_000)
    frame.loc[0, ["sex", "state", "sick", "age"]] = ["F", "S03", "no", 89]

    def made(income: float) -> Dataset:
        changed = frame.assign(income=np.where(frame.index == 0, income, frame["income"]))
        return vault_of(tmp_path_factory.mktemp("planted") / "v", changed).dataset("survey")

    return made


def test_an_outlier_shows_no_more_than_another_person_would(planted: Callable[[float], Dataset]) -> None:
    inside, without = {"sex": "F", "state": "S03"}, {"sex": "F", "state": "S03", "age": ["29 or less", "30 to 44"]}
    gained = {}
    for name, income in (("outlier", 1_234_567.89), ("placebo", 24_680.0)):
        data = planted(income)
        gained[name] = []
        for secret in range(60):
            tables = [asked(data, u, CrossTab(("sex",), of="income"), HARDENED, secret) for u in (inside, without)]
            both = [t.set_index("sex").loc["F"] for t in tables]
            gained[name].append((both[0]["sum"] - both[1]["sum"], both[0]["mean"]))
    outlier, placebo = (np.array(gained[name]) for name in ("outlier", "placebo"))
    for i in range(2):  # a difference of sums, a mean
        shift = abs(outlier[:, i].mean() - placebo[:, i].mean()) / placebo[:, i].std()
        assert shift < 0.4 + 3 * np.sqrt(2 / 60)  # at most T / (2T √2) = 0.35, and what 60 secrets may show by chance


def test_keys_of_bins_found_in_one_pass_are_those_of_the_cubes(vault: Vault) -> None:
    data = vault.dataset("survey")
    for name in ("age", "income"):  # known and confidential
        question = Question(data, HARDENED, Universe.of({"sex": "F", "sick": "yes"}), Histogram(name))
        side = VariableBins.of(data.variables[name], data.variables[name].grid[::16])
        for policy in (HARDENED, HARDENED.with_(keyed="records")):
            here = replace(question, policy=policy)
            for table in CellAggregates.of(here, (data.variables["state"], side)).margins():
                cells = [here.selection.joined(table.cell(place)) for place in np.ndindex(table.counts.shape)]
                assert table.keys() == [here.key_of(cell) for cell in cells]


def test_a_histogram_of_cutpoints_has_the_counts_of_the_cross_tab(vault: Vault) -> None:
    data = vault.dataset("survey")
    bins = asked(data, {"sex": "F"}, Histogram("income"), HARDENED)
    cells = asked(data, {"sex": "F"}, CrossTab(("income",)), HARDENED).set_index("income")
    for _, row in bins.iterrows():
        assert row["count"] == cells["count"][row["income"]]


def test_quantiles_rise_with_p_are_near_the_truth_and_stay_away_from_the_ends(
    vault: Vault, frame: pd.DataFrame
) -> None:
    data = vault.dataset("survey")
    shares = (0.001, 0.01, *np.arange(0.05, 1, 0.05).round(2), 0.99, 0.999)
    off = []
    for name in ("income", "age", "change"):
        for secret in range(15):
            found = asked(data, None, Quantiles(name, p=shares, by=("sick",)), HARDENED, secret)
            assert found.loc[found["p"].isin([0.001, 0.999]), "value"].isna().all()
            for sick, part in found.groupby("sick"):
                values = part.dropna()
                assert values["value"].is_monotonic_increasing
                assert {0.25, 0.5, 0.75} <= set(values["p"])
                truth = frame if sick == "Total" else frame[frame["sick"] == sick]
                ranks = [(truth[name].dropna() <= v).mean() for v in values["value"]]
                off += list(np.array(ranks) - values["p"])
    assert np.abs(np.mean(off)) < 0.006  # half a year of age is 0.007
    assert np.quantile(np.abs(off), 0.9) < 0.03


def test_a_quantile_lies_on_a_straight_line_within_its_bin() -> None:
    spread = BinCounts(np.array([100.0, 200, 100, 100]), np.array([100.0, 200, 100, 100]), (0.0, 10.0, 20.0))
    assert cut_at(spread, 0.3, 20).value == pytest.approx(2.5)  # 150 of 500: a quarter into the second bin
    assert np.isnan(cut_at(spread, 0.1, 20).value)  # in the open bin
    assert np.isnan(cut_at(spread, 0.3, 101).value)  # too few below it
    falling = BinCounts(np.array([50.0, 60, -20, 60, 50]), np.array([50.0, 60, -20, 60, 50]), (0.0, 1.0, 2.0, 3.0))
    values = [cut_at(falling, p, 0).value for p in np.linspace(0.3, 0.7, 41)]
    assert (np.diff(values) >= 0).all()


def test_weighted_quantiles_follow_the_weights(tmp_path: Path, frame: pd.DataFrame) -> None:
    heavy = frame.assign(weight=np.where(frame["change"] > 0, 9.0, 1.0))
    data = vault_of(tmp_path / "v", heavy).dataset("survey")
    plain, weighted = (
        asked(data, None, Quantiles("change", p=(0.5,), weighted=w), HARDENED)["value"].item() for w in (False, True)
    )
    truth = np.quantile(heavy["change"], 0.5, weights=heavy["weight"], method="inverted_cdf")
    assert weighted == pytest.approx(truth, abs=3)
    assert weighted - plain > 15


def test_answers_are_the_same_bytes_again(vault: Vault) -> None:
    again = Vault.open(vault.folder)
    for analysis in (CrossTab(("state",), of="income", weighted=True), Histogram("change"), Quantiles("income")):
        answers = [v.ask("survey", {"sex": "F"}, analysis, HARDENED) for v in (vault, again)]
        assert answers[0].to_bytes() == answers[1].to_bytes()


def test_nothing_is_told_of_parts_of_a_known_cell_that_is_too_small_and_they_cost_nothing(tmp_path: Path) -> None:
    frame = people(3_000)
    frame.loc[frame.index[:22], "state"] = "S09"
    vault = vault_of(tmp_path / "v", frame)
    data, policy = vault.dataset("survey"), Policy.named("hardened")
    small = 0
    for secret in range(6):
        other = replace(data, secret=Secret(Draws(secret)), decided={})
        found, sets = answer(Question(other, policy, Universe.of(None), CrossTab(("state", "sick"))))
        rows = found.frame().set_index(["state", "sick"])["count"]
        (one,) = (s for s in sets if [v.name for v in s.sides] == ["state"] and s.split == 2)
        place = one.sides[0].levels.index("S09")
        cost = float(one.costs(policy.accounts)[place])
        if np.isnan(rows["S09", "Total"]):
            small += 1
            assert np.isnan(rows["S09", "yes"])
            assert np.isnan(rows["S09", "no"])
            assert cost == 0
        else:
            assert cost == pytest.approx(1 / (1 + one.sizes[place] / 2 / 24))
    assert 0 < small < 6  # 22 records, noise of 5, a limit of 20
