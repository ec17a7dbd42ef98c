"""Distributions, tests and survival under noise: levels of tests, coverage of intervals, margins, and equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.mas.analyses import (
    ANOVA,
    Cox,
    Histogram,
    Independence,
    Inequality,
    KaplanMeier,
    Quantiles,
    RankTest,
    ShareBelow,
    TTest,
)
from sfumato.mas.analyses.survival import EventCounts, _breslow, _grouped
from sfumato.mas.analyses.tests import CountTable
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

FREE = {"accounts.user": 100, "accounts.everybody": 100}
HARDENED = Policy.named("hardened").set(FREE).with_(per_minute=None)
AREAS, EACH = 200, 500


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return the records of many areas that are all alike: each is an independent sample of one population."""
    rng, n = np.random.default_rng(4), AREAS * EACH
    life, end, income = rng.exponential(10, n), rng.uniform(0, 25, n), np.exp(rng.normal(10, 0.6, n))
    return pd.DataFrame({
        "area": [f"A{i:03d}" for i in np.repeat(np.arange(AREAS), EACH)], "sex": rng.choice(["F", "M"], n),
        "work": rng.choice(["full", "none", "part"], n, p=[0.5, 0.3, 0.2]), "income": np.round(income),
        "time": np.minimum(life, end), "dead": np.where(life <= end, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    schema = Schema((
        Attribute("area", role="key", scale="unordered"), Attribute("sex", role="key", scale="unordered"),
        Attribute("work", role="confidential", scale="unordered"), Attribute("income", role="confidential"),
        Attribute("time", role="confidential"), Attribute("dead", role="confidential", scale="unordered"),
    ))  # fmt: skip
    made = Vault.create(tmp_path_factory.mktemp("vault") / "v", secret=Draws(3))
    made.freeze("areas", Microdata(frame, schema))
    return made


def answers(vault: Vault, analysis: Analysis) -> list[Answer]:
    """Return the answer of each area."""
    data = vault.dataset("areas")
    found = [vault.ask(data, {"area": f"A{i:03d}"}, analysis, HARDENED) for i in range(AREAS)]
    return [one for one in found if isinstance(one, Answer)]


# -- levels of tests


@pytest.mark.parametrize(("n", "sd"), [(300, 5.0), (5_000, 5.0), (3_000, 30.0)])
@pytest.mark.parametrize("ranks", [False, True])
def test_a_test_of_five_percent_rejects_five_percent_of_independent_tables_with_noise(
    n: int, sd: float, ranks: bool
) -> None:
    from scipy.stats import chi2

    rng, shares = np.random.default_rng(1), np.outer([0.5, 0.3, 0.2], [0.3, 0.3, 0.2, 0.2])
    noise = sd**2 + 0.25 * n * shares * (1 - shares)
    rejected, naive = [], []
    for _ in range(2_000):
        counts = rng.multinomial(n, shares.ravel()).reshape(shares.shape) + np.sqrt(noise) * rng.normal(
            size=shares.shape
        )
        value, df = CountTable((), (), counts, noise).statistic(np.arange(4.0) if ranks else None)
        rejected.append(value > chi2.ppf(0.95, df))
        plain, df = CountTable((), (), counts, 0 * noise).statistic(np.arange(4.0) if ranks else None)
        naive.append(plain > chi2.ppf(0.95, df))
    assert 0.03 <= np.mean(rejected) <= 0.07
    assert np.mean(naive) > 0.07  # as if there were no noise


@pytest.mark.parametrize(
    "analysis", [Independence(("sex", "work")), TTest("income", "sex"), ANOVA("income", "work"), RankTest("income", "work")],
    ids=lambda analysis: analysis.name,
)  # fmt: skip
def test_through_the_vault_true_hypotheses_are_rarely_rejected(vault: Vault, analysis: Analysis) -> None:
    p = np.array([answer.facts["p value"] for answer in answers(vault, analysis)])
    assert len(p) > 0.9 * AREAS
    assert np.mean(p < 0.05) <= 0.10  # 200 tests: .05 and three standard errors
    assert 0.4 <= np.mean(p) <= 0.6


def test_a_true_difference_is_found(vault: Vault) -> None:
    answer = vault.ask("areas", None, Independence(("dead", "sex")), HARDENED)
    later = vault.ask("areas", None, TTest("time", "dead"), HARDENED)
    assert answer.facts["p value"] > 0.001
    assert later.facts["p value"] < 1e-9


# -- coverage


def coverage(vault: Vault, analysis: Analysis, table: str, column: str, truth: Callable[[Any], float]) -> list[bool]:
    rows = [row for answer in answers(vault, analysis) for row in answer.tables[table]]
    told = [row for row in rows if row[column] is not None and row["standard error"] is not None]
    return [abs(row[column] - truth(row)) <= 1.96 * row["standard error"] for row in told]


def test_intervals_of_quantiles_cover_the_truth(vault: Vault) -> None:
    from scipy.stats import norm

    covered = coverage(
        vault, Quantiles("income"), "quantiles", "value", lambda row: np.exp(10 + 0.6 * norm.ppf(row["p"]))
    )
    assert len(covered) > 500
    assert 0.91 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("line", [15_000.0, None])
def test_intervals_of_shares_below_a_line_cover_the_truth(vault: Vault, line: float | None) -> None:
    from scipy.stats import norm

    at = line or 0.6 * np.exp(10)
    covered = coverage(
        vault, ShareBelow("income", line=line), "shares", "share", lambda _: norm.cdf((np.log(at) - 10) / 0.6)
    )
    assert len(covered) > 180
    assert 0.91 <= np.mean(covered) <= 1.0


def test_intervals_of_the_gini_coefficient_cover_that_of_the_clipped_amounts(vault: Vault, frame: pd.DataFrame) -> None:
    values = np.sort(np.clip(frame["income"], *vault.dataset("areas").variables["income"].bounds))
    n = len(values)
    gini = 2 * (np.arange(1, n + 1) * values).sum() / (n * values.sum()) - (n + 1) / n
    covered = coverage(vault, Inequality("income"), "inequality", "gini", lambda _: gini)
    assert len(covered) > 180
    assert 0.90 <= np.mean(covered) <= 1.0


@pytest.mark.parametrize("method", ["kaplan_meier"])
def test_intervals_of_survival_cover_the_truth(vault: Vault, frame: pd.DataFrame, method: str) -> None:
    edges = [row["up to"] for row in answers(vault, KaplanMeier("time", "dead", "yes", bins=6))[0].tables["survival"]]
    grouped = np.searchsorted(edges, frame["time"])
    dead, truth, left = frame["dead"] == "yes", {}, 1.0
    for place, edge in enumerate(edges):  # of times that are rounded up, in the whole population
        left *= 1 - (dead & (grouped == place)).sum() / (grouped >= place).sum()
        truth[edge] = left
    covered = coverage(
        vault, KaplanMeier("time", "dead", "yes", bins=6), "survival", "survival", lambda row: truth[row["up to"]]
    )
    assert len(covered) > 700
    assert 0.92 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("fit", [_breslow, _grouped])
def test_coefficients_of_coxs_model_vary_as_their_errors_say(fit: Callable[..., Any]) -> None:
    rng, edges = np.random.default_rng(2), np.array([1.5, 3.0, 5.0, 8.0, 12.0])
    x, sd, used = np.array([[0.0], [1.0]]), 8.0, np.array([True] * 5 + [False])
    found, told, plain = [], [], []
    for _ in range(400):
        life, end = rng.exponential(10, (2, 1_500)) * np.array([[1.0], [np.exp(-0.5)]]), rng.uniform(0, 25, (2, 1_500))
        bins = np.searchsorted(edges, np.minimum(life, end))
        parts = [
            np.array([np.bincount(b[c], minlength=6) for b, c in zip(bins, chosen, strict=True)])
            for chosen in (life <= end, life > end)
        ]
        noise = np.full((2, 6), sd**2)
        made = fit(EventCounts(*(p + sd * rng.normal(size=p.shape) for p in parts), noise, noise), x, used)
        found.append(made.coefficients[0])
        told.append(np.sqrt(made.inverse + made.noise)[0, 0])
        plain.append(np.sqrt(made.inverse[0, 0]))
    assert np.mean(told) == pytest.approx(np.std(found), rel=0.12)
    assert np.mean(told) > 1.1 * np.mean(plain)
    within = np.abs(np.array(found) - np.mean(found)) < 1.96 * np.array(told)
    assert 0.92 <= np.mean(within) <= 0.98


# -- margins, bytes and accounts

ALL: tuple[Analysis, ...] = (
    Histogram("income", by=("sex",)), Quantiles("income", by=("work",)),
    ShareBelow("income", by=("sex",)), Inequality("income", by=("sex",)),
    Independence(("sex", "work")), TTest("income", "sex"), ANOVA("income", "work"), RankTest("time", "work"),
    KaplanMeier("time", "dead", "yes", by=("sex",)), Cox("time", "dead", "yes", by=("sex", "work")),
)  # fmt: skip


def test_histograms_of_groups_add_up_to_that_of_all(vault: Vault) -> None:
    plain = HARDENED.set({"counts.base": 1, "counts.least": 0, "counts.beyond": 0})
    counts = vault.ask("areas", None, Histogram("income", by=("sex", "work"), bins=10), plain).frame()
    for side in ("sex", "work"):
        total = counts[counts[side] == "Total"].set_index([c for c in counts if c not in (side, "count")])["count"]
        parts = (
            counts[counts[side] != "Total"]
            .groupby([c for c in counts if c not in (side, "count")], dropna=False)["count"]
            .sum()
        )
        assert parts.sort_values().to_numpy() == pytest.approx(total.sort_values().to_numpy(), abs=2)  # rounding


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.name)
def test_other_wordings_and_users_get_the_same_bytes(vault: Vault, analysis: Analysis) -> None:
    levels = [f"A{i:03d}" for i in range(6)]
    first = vault.ask("areas", {"area": levels}, analysis, HARDENED)
    again = vault.ask(
        "areas", {"area": levels[::-1]}, type(analysis).from_dict(analysis.to_dict()), HARDENED, user="another"
    )
    text = vault.ask("areas", f"area in ({', '.join(map(repr, levels))})", analysis, HARDENED)
    assert isinstance(first, Answer)
    assert first.to_bytes() == again.to_bytes() == text.to_bytes()


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.name)
def test_every_analysis_is_charged_and_small_groups_get_answers_or_refusals(vault: Vault, analysis: Analysis) -> None:
    from sfumato.mas.vault import Answering, question_of

    data = vault.dataset("areas")
    answering = Answering(data, question_of(data, HARDENED, {"area": ["A000"]}, analysis))
    answering.answer()
    assert sum(float(loss.amounts.max()) for loss in answering.losses) > 0
