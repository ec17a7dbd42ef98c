"""Measures of values within classes, on the Adult file that ARX ships, against cross-tabulation with pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_files import as_it_is

from sfumato import Microdata, Release, Snooper
from sfumato.risk import AlphaK, BetaLikeness, DeltaDisclosure, DeltaPresence, KMap, LDiversity, TCloseness
from sfumato.schema import Schema

ADULT = Path(__file__).parents[2] / "shared" / "data" / "arx"
KEYS = ("sex", "race", "marital-status", "education")


@pytest.fixture(scope="module")
def adult() -> pd.DataFrame:
    if not (ADULT / "adult.csv").exists():
        pytest.skip("the files of ARX are not here")
    return pd.read_csv(ADULT / "adult.csv", sep=";")


@pytest.fixture(scope="module")
def release(adult: pd.DataFrame) -> Release:
    return as_it_is(Microdata(adult, Schema.guess(adult)))


@pytest.fixture(scope="module")
def shares(adult: pd.DataFrame) -> pd.DataFrame:
    return pd.crosstab([adult[k] for k in KEYS], adult["occupation"], normalize="index")


def sizes(adult: pd.DataFrame) -> pd.Series:
    return adult.groupby(list(KEYS)).size()


SNOOPER = Snooper(keys=KEYS)


def test_diversity(adult: pd.DataFrame, release: Release, shares: pd.DataFrame) -> None:
    n = sizes(adult)
    entropy = np.exp(-(shares * np.log(shares.where(shares > 0, 1))).sum(axis=1))
    for l in (2, 5, 9):  # noqa: E741
        assert LDiversity(["occupation"], l=l).score(release, SNOOPER).value == pytest.approx(
            n[(shares > 0).sum(axis=1) < l].sum() / n.sum()
        )
        assert LDiversity(["occupation"], l=l, kind="entropy").score(release, SNOOPER).value == pytest.approx(
            n[entropy < l - 1e-9].sum() / n.sum()
        )
        counts = -np.sort(-pd.crosstab([adult[k] for k in KEYS], adult["occupation"]).to_numpy(), axis=1)
        bad = counts[:, 0] >= 1.5 * counts[:, l - 1 :].sum(axis=1)
        assert LDiversity(["occupation"], l=l, kind="recursive", c=1.5).score(release, SNOOPER).value == pytest.approx(
            n[bad].sum() / n.sum()
        )


def test_closeness(adult: pd.DataFrame, release: Release, shares: pd.DataFrame) -> None:
    whole = adult["occupation"].value_counts(normalize=True)
    apart = (shares - whole).abs().sum(axis=1) / 2
    assert TCloseness("occupation", "unordered").score(release, SNOOPER).value == pytest.approx(apart.max())
    ages = pd.crosstab([adult[k] for k in KEYS], adult["age"], normalize="index").cumsum(axis=1)
    everybody = adult["age"].value_counts(normalize=True).sort_index().cumsum()
    along = (ages - everybody).abs().sum(axis=1) / (ages.shape[1] - 1)
    score = TCloseness("age", "ordered").score(release, SNOOPER)
    assert score.value == pytest.approx(along.max())
    assert score.details["mean distance"] == pytest.approx(np.average(along, weights=sizes(adult)))


def test_likeness_and_disclosure(adult: pd.DataFrame, release: Release, shares: pd.DataFrame) -> None:
    n, ratio = sizes(adult), shares / adult["occupation"].value_counts(normalize=True)
    broken = n[(ratio - 1 > 2).any(axis=1)].sum() / n.sum()
    assert BetaLikeness("occupation", beta=2, kind="basic").score(release, SNOOPER).value == pytest.approx(broken)
    logs = np.log2(ratio.where(ratio > 0)).abs().max(axis=1)
    assert DeltaDisclosure("occupation", delta=2, absent="ignored").score(release, SNOOPER).value == pytest.approx(
        n[logs >= 2].sum() / n.sum()
    )
    assert AlphaK("occupation", alpha=0.4, k=5).score(release, SNOOPER).value == pytest.approx(
        n[(shares.max(axis=1) > 0.4) | (n < 5)].sum() / n.sum()
    )


def test_presence_of_the_research_subset(adult: pd.DataFrame, release: Release) -> None:
    """ARX's research subset of the file: the file itself is the population."""
    subset = pd.read_csv(ADULT / "adult_subset.csv", sep=";")
    part = as_it_is(Microdata(subset, release.original.schema))
    snooper = Snooper(keys=KEYS, population=release.original)
    F = sizes(adult)
    f = subset.groupby(list(KEYS)).size().reindex(F.index, fill_value=0)
    score = DeltaPresence(delta_min=0.05, delta_max=0.2).score(part, snooper)
    assert score.value == pytest.approx((f / F).max())
    assert score.details["smallest probability"] == (f / F).min()
    assert score.details["persons above delta_max"] == F[f / F > 0.2].sum()
    assert score.details["persons below delta_min"] == F[f / F < 0.05].sum()
    assert KMap(k=20).score(part, snooper).value == pytest.approx(f[F < 20].sum() / len(subset))
