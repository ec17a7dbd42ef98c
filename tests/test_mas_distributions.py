"""Histograms, quantiles, inequality and shares below a line, without noise, against NumPy and slow twins; their wordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import Histogram, Inequality, Quantiles, ShareBelow
from sfumato.mas.analyses.distributions import BinCounts, DistributionCurve
from sfumato.mas.answer import Answer
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

OPEN = Policy.open()
BEYOND = OPEN.set({"counts.beyond": 20})


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return survey().assign(year=lambda d: np.round(d["year"] * 1000) - 1e9)  # whole numbers, some below 0


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    made = Vault.create(tmp_path_factory.mktemp("vault") / "v", policy=OPEN)
    made.freeze("survey", microdata(frame, design=False), {"income": Cutpoints((3_000.0, 6_000.0, 12_000.0))})
    return made


def found(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = OPEN) -> Answer:
    answer = vault.ask("survey", universe, analysis, policy)
    assert isinstance(answer, Answer)
    return answer


def group(frame: pd.DataFrame, row: Any, by: tuple[str, ...]) -> pd.DataFrame:
    """Return the records of a row of an answer."""
    for side in by:
        frame = frame if row[side] == "Total" else frame[frame[side] == row[side]]
    return frame


# -- quantiles


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variable", ["income", "z", "age", "year"])
def test_quantiles_are_the_inverse_of_the_distribution_function(
    vault: Vault, frame: pd.DataFrame, variable: str, weighted: bool
) -> None:
    shares = (0.1, 0.25, 0.5, 0.975)
    answer = found(vault, Quantiles(variable, p=shares, by=("sex",), weighted=weighted), {"sick": "yes"})
    for row in answer.tables["quantiles"]:
        part = group(frame[frame["sick"] == "yes"], row, ("sex",)).dropna(subset=variable)
        weights = {"weights": part["weight"].to_numpy()} if weighted else {}
        wanted = np.quantile(part[variable].to_numpy(), row["p"], method="inverted_cdf", **weights)
        assert row["value"] == pytest.approx(wanted, rel=1e-14)


def test_a_quantile_of_a_confidential_group_is_among_its_values_whatever_the_sign(
    vault: Vault, frame: pd.DataFrame
) -> None:
    rows = found(vault, Quantiles("year", p=(0.01, 0.5), by=("work",))).tables["quantiles"]
    for row in rows:
        wanted = np.quantile(group(frame, row, ("work",))["year"], row["p"], method="inverted_cdf")
        assert row["value"] == wanted
    assert min(row["value"] for row in rows) < 0


def woodruff(values: np.ndarray, p: float, variance: float) -> float:
    far = 1.959963984540054 * np.sqrt(variance)
    low, high = (np.quantile(values, end, method="inverted_cdf") for end in (p - far, p + far))
    return float((high - low) / (2 * 1.959963984540054))


def test_errors_of_quantiles_are_woodruffs(vault: Vault, frame: pd.DataFrame) -> None:
    for row in found(vault, Quantiles("income", p=(0.2, 0.5, 0.9), by=("race",))).tables["quantiles"]:
        values = group(frame, row, ("race",))["income"].to_numpy()
        wanted = woodruff(values, row["p"], row["p"] * (1 - row["p"]) / len(values))
        assert row["standard error"] == pytest.approx(wanted, rel=1e-11)


def test_no_quantile_has_fewer_records_beyond_it_than_the_policy_says(vault: Vault, frame: pd.DataFrame) -> None:
    rows = found(vault, Quantiles("income", p=(0.001, 0.1, 0.999), by=("race",)), policy=BEYOND).tables["quantiles"]
    for row in rows:
        n = len(group(frame, row, ("race",)))
        assert (row["value"] is None) == (n * min(row["p"], 1 - row["p"]) < 20)


def test_where_one_end_is_not_known_the_other_serves_and_without_both_there_is_no_error() -> None:
    nothing = BinCounts(np.ones(2), np.ones(2), np.zeros(2), (1.0,))
    line = DistributionCurve(lambda share: 100 * share if share < 0.52 else float("nan"), nothing)
    assert line.error(0.5, 0.02**2) == pytest.approx(2.0)
    assert np.isnan(DistributionCurve(lambda _: float("nan"), nothing).error(0.5, 0.02**2))


@pytest.mark.parametrize(("n", "sd"), [(1_000, 5.0), (1_000, 0.0), (20_000, 20.0)])
def test_quantiles_of_noisy_bins_vary_as_their_errors_say(n: int, sd: float) -> None:
    rng = np.random.default_rng(3)
    edges = tuple(np.arange(60.0, 141.0, 5.0))
    values, told = [], []
    for _ in range(400):
        counts = np.histogram(rng.normal(100, 15, n), [-np.inf, *edges, np.inf])[0] + sd * rng.normal(
            size=len(edges) + 1
        )
        spread = BinCounts(counts, counts, np.full(len(counts), sd**2), edges)
        values.append(spread.value_at(0.3, 20))
        told.append(DistributionCurve(lambda share, s=spread: s.value_at(share, 20), spread).error(0.3, 0.3 * 0.7 / n))
    assert np.mean(told) == pytest.approx(np.std(values), rel=0.15)


# -- histograms


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_have_the_counts_of_the_cutpoints(vault: Vault, frame: pd.DataFrame, weighted: bool) -> None:
    rows = found(vault, Histogram("income", weighted=weighted), {"sex": "F"}).frame()
    part = frame[frame["sex"] == "F"]
    weights = part["weight"] if weighted else None
    wanted = np.histogram(-part["income"], [-np.inf, -12_000, -6_000, -3_000, np.inf], weights=weights)[0][::-1]
    assert rows["count"].to_numpy(float) == pytest.approx(wanted, rel=1e-12)
    assert rows["up to"].tolist()[:3] == [3_000, 6_000, 12_000]


def test_a_variable_without_cutpoints_has_a_histogram_of_round_edges(vault: Vault, frame: pd.DataFrame) -> None:
    rows = found(vault, Histogram("z", by=("work",), bins=8)).frame()
    assert 4 <= rows["z"].nunique() <= 8
    for _, row in rows.iterrows():
        part = group(frame, row, ("work",))["z"]
        inside = (part > (row["over"] if row["over"] == row["over"] else -np.inf)) & (
            part <= (row["up to"] if row["up to"] == row["up to"] else np.inf)
        )
        assert row["count"] == inside.sum()


def test_ends_of_a_histogram_are_merged_until_enough_records_lie_beyond(vault: Vault, frame: pd.DataFrame) -> None:
    rows = found(vault, Histogram("z", by=("race", "work"), bins=30), {"sex": "F"}, BEYOND).frame()
    grouped = rows.groupby(["race", "work"])["count"]
    assert (grouped.first() >= 20).all()
    assert (grouped.last() >= 20).all()
    assert (
        (rows.groupby(["race", "work"])["count"].sum()["Total", "Total"])
        == frame.loc[frame["sex"] == "F", "z"].notna().sum()
    )


# -- shares below a line


@pytest.mark.parametrize("weighted", [False, True])
def test_the_share_below_a_line_is_that_of_the_records(vault: Vault, frame: pd.DataFrame, weighted: bool) -> None:
    for row in found(vault, ShareBelow("income", line=5_000, by=("sex", "work"), weighted=weighted)).tables["shares"]:
        part = group(frame, row, ("sex", "work"))
        weights = part["weight"] if weighted else np.ones(len(part))
        share = np.average(part["income"] <= 5_000, weights=weights)
        effect = len(frame) * (frame["weight"] ** 2).sum() / frame["weight"].sum() ** 2 if weighted else 1.0
        assert row["share"] == pytest.approx(share, rel=1e-11)
        assert row["standard error"] == pytest.approx(np.sqrt(effect * share * (1 - share) / len(part)), rel=1e-9)


def test_a_line_at_a_share_of_the_median_follows_the_median(vault: Vault, frame: pd.DataFrame) -> None:
    answer = found(vault, ShareBelow("income", of_median=0.5, by=("sex",)))
    median = np.quantile(frame["income"], 0.5, method="inverted_cdf")
    assert answer.facts["line"] == pytest.approx(median / 2, rel=1e-14)
    for row in answer.tables["shares"]:
        assert row["share"] == pytest.approx((group(frame, row, ("sex",))["income"] <= median / 2).mean(), rel=1e-12)


def test_the_error_of_a_share_below_half_the_median_is_that_of_the_bootstrap(vault: Vault, frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(1)
    drawn = [frame.iloc[rng.integers(0, len(frame), len(frame))] for _ in range(400)]
    for row in found(vault, ShareBelow("income", of_median=0.8, by=("sex",))).tables["shares"]:
        again = [(group(d, row, ("sex",))["income"] <= 0.8 * d["income"].median()).mean() for d in drawn]
        assert row["standard error"] == pytest.approx(np.std(again), rel=0.15)


# -- inequality


def grouped_gini(values: np.ndarray, edges: np.ndarray) -> float:
    """Return the Gini coefficient where values are spread evenly about the mean of their bin, by the mean absolute difference."""
    bins = np.searchsorted(edges, values)
    ends = np.r_[-np.inf, edges, np.inf]
    parts = [(np.sum(bins == i), values[bins == i].mean(), i) for i in range(len(edges) + 1) if (bins == i).any()]
    n, mean = len(values), values.mean()
    difference = sum(a * b * abs(x - y) for a, x, _ in parts for b, y, _ in parts) / n**2
    within = sum((a / n) ** 2 * 2 * min(x - ends[i], ends[i + 1] - x) / 3 for a, x, i in parts)
    return float((difference + within) / (2 * mean))


def test_the_gini_coefficient_is_that_of_the_bins_and_near_that_of_the_records(
    vault: Vault, frame: pd.DataFrame
) -> None:
    grid = np.array(vault.dataset("survey").variables["income"].grid)
    for row in found(vault, Inequality("income", by=("sex",))).tables["inequality"]:
        values = np.sort(group(frame, row, ("sex",))["income"].to_numpy())
        n = len(values)
        exact = 2 * (np.arange(1, n + 1) * values).sum() / (n * values.sum()) - (n + 1) / n
        assert row["gini"] == pytest.approx(grouped_gini(values, grid), rel=1e-9)
        assert row["gini"] == pytest.approx(exact, abs=0.003)


def test_equal_parts_hold_the_shares_of_the_total_that_the_records_have(vault: Vault, frame: pd.DataFrame) -> None:
    rows = found(vault, Inequality("income", parts=4)).tables["shares"]
    values = np.sort(frame["income"].to_numpy())
    wanted = [part.sum() / values.sum() for part in np.array_split(values, 4)]
    assert [row["share"] for row in rows] == pytest.approx(wanted, abs=0.001)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0, rel=1e-12)


def test_errors_of_inequality_are_those_of_the_bootstrap(vault: Vault, frame: pd.DataFrame) -> None:
    rng, values = np.random.default_rng(2), frame["income"].to_numpy()
    ginis, tops = [], []
    for _ in range(400):
        x = np.sort(values[rng.integers(0, len(values), len(values))])
        n = len(x)
        ginis.append(2 * (np.arange(1, n + 1) * x).sum() / (n * x.sum()) - (n + 1) / n)
        tops.append(x[4 * n // 5 :].sum() / x.sum())
    answer = found(vault, Inequality("income"))
    assert answer.tables["inequality"][0]["standard error"] == pytest.approx(np.std(ginis), rel=0.2)
    assert answer.tables["shares"][-1]["standard error"] == pytest.approx(np.std(tops), rel=0.2)


# -- calls


def test_bad_calls_are_refused_in_sentences(vault: Vault) -> None:
    with pytest.raises(ParameterError, match="above 0 and below 1"):
        Quantiles("income", p=(0.5, 1.0))
    with pytest.raises(ParameterError, match="twice"):
        Histogram("income", by=("sex", "sex"))
    with pytest.raises(ParameterError, match="number"):
        ShareBelow("income", line=float("nan"))
    with pytest.raises(DataError, match="does not hold numbers"):
        vault.ask("survey", None, Quantiles("sick"), OPEN)
    with pytest.raises(DataError, match="negative"):
        vault.ask("survey", None, Inequality("year"), OPEN)
    for analysis in (Quantiles("empty"), Histogram("empty"), Inequality("empty")):
        with pytest.raises(DataError, match="values"):
            vault.ask("survey", None, analysis, OPEN)
    with pytest.raises(ParameterError, match="no survey weights"):
        vault.ask(plain(vault), None, Quantiles("x", weighted=True), OPEN)


def plain(vault: Vault) -> str:
    """Freeze a data set without weights, and return its name."""
    schema = Schema((Attribute("sex", role="key", scale="unordered"), Attribute("x", role="confidential")))
    vault.freeze("plain", Microdata(pd.DataFrame({"sex": ["F", "M"] * 200, "x": np.arange(400.0)}), schema))
    return "plain"


def test_the_same_shares_in_another_order_are_the_same_question() -> None:
    assert Quantiles("income", p=(0.5, 0.25, 0.5)).wording() == Quantiles("income", p=[0.25, 0.5]).wording()
    assert ShareBelow("income", line=5_000).wording() == ShareBelow("income", line=5_000.0).wording()


def test_ends_of_noisy_bins_lie_on_a_straight_line(tmp_path: Path) -> None:
    spread = BinCounts(
        np.array([30.0, -4.0, 50.0, 24.0]), np.array([30.0, -4.0, 50.0, 24.0]), np.zeros(4), (1.0, 2.0, 4.0)
    )
    shares = np.linspace(0.01, 0.99, 99)
    values = np.array([spread.value_at(share, 0) for share in shares])
    there = ~np.isnan(values)
    assert (np.diff(values[there]) >= 0).all()
    assert values[there].min() >= 1.0
    assert values[there].max() <= 4.0
    assert spread.share_below(spread.value_at(0.5, 0)) == pytest.approx(0.5)
