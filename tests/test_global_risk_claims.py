"""Global risk: the same on every engine, and what the paper says of the measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import Draws, Microdata, Release, Snooper, ru_map
from sfumato.datasets import billing
from sfumato.errors import DataError
from sfumato.masks import (
    MDAV,
    PRAM,
    DataSwap,
    Generalise,
    IndependentNoise,
    RandomOrder,
    RankSwap,
    RecodeRare,
    Sample,
    SuppressValues,
)
from sfumato.risk import GlobalRisk
from sfumato.risk.classification import EqualWeights, UniqueWeights
from sfumato.utility import VarianceKept
from tests.global_risk_files import KEYS, File, files, release

# -- elsewhere


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    data = billing(300)
    return {name: mask.apply(data, Draws(1)) for name, mask in MASKS.items()}


MASKS: dict[str, Any] = {
    "noise": IndependentNoise(columns=("age",), lambda2=0.1),
    "recoded": RecodeRare(("zip",), least=4),
    "sample": Sample(fraction=0.4),
    "suppressed": SuppressValues(("zip", "age"), where="sex == 'male'"),
}
SNOOPERS = {"all he can": Snooper(), "ages roughly": Snooper(precision={"age": 10})}


def check_same(there: Release, local: Release) -> None:
    for snooper in SNOOPERS.values():
        for measure in (GlobalRisk(), GlobalRisk(kind="min", missing="value"), GlobalRisk(missing="ignored")):
            a, b = measure.score(there, snooper), measure.score(local, snooper)
            assert a.value == pytest.approx(b.value, abs=1e-12)
            assert a.words == b.words
            assert dict(a.details) == pytest.approx(dict(b.details), abs=1e-12)
            assert a.records is not None
            assert b.records is not None
            np.testing.assert_allclose(a.records, b.records, atol=1e-12)


@pytest.mark.parametrize("name", MASKS)
def test_the_same_counts_come_from_duckdb(name: str, here: dict[str, Release]) -> None:
    duckdb = pytest.importorskip("duckdb")
    data = billing(300)
    frame = data.batch().rows.to_arrow()
    relation = duckdb.connect().from_arrow(frame)
    there = MASKS[name].apply(Microdata(relation, data.schema), Draws(1))
    assert there.original.engine.name == "DuckDB"
    check_same(there, here[name])


def test_the_same_counts_come_from_spark_without_collecting_the_records(
    spark: Any, here: dict[str, Release], monkeypatch: Any
) -> None:
    data = billing(300)
    there = {
        name: MASKS[name].apply(Microdata(spark.createDataFrame(data.batch().rows.to_arrow()), data.schema), Draws(1))
        for name in ("noise", "sample")
    }
    for (name, outcome), snooper in zip(there.items(), SNOOPERS.values(), strict=True):
        assert outcome.original.engine.name == "Spark"
        with monkeypatch.context() as patch:
            patch.setattr(type(outcome.original.engine), "collect", None)
            patch.setattr(type(outcome.original.engine), "batches", None)
            a, b = GlobalRisk().score(outcome, snooper), GlobalRisk().score(here[name], snooper)
            assert a.value == pytest.approx(b.value, abs=1e-12)
            assert dict(a.details) == pytest.approx(dict(b.details), abs=1e-12)
    np.testing.assert_allclose(
        GlobalRisk().score(there["sample"]).records, GlobalRisk().score(here["sample"]).records, atol=1e-12
    )
    engine = there["noise"].original.engine
    with pytest.raises(DataError, match="more than 20 combinations"):
        engine.cross(there["noise"].masked.engine, ["age", "zip"], most=20)


# -- what the paper says of the measures


@given(files(missing=True), st.sampled_from(["min", "max", "weighted"]), st.sets(st.sampled_from(KEYS), min_size=1))
@settings(max_examples=100, deadline=None)
def test_a_snooper_who_knows_fewer_keys_never_finds_more(file: File, kind: Any, keys: set[str]) -> None:
    measure, outcome = GlobalRisk(kind=kind), release(file)
    fewer = Snooper(keys=tuple(k for k in KEYS if k in keys))
    # every subset of fewer keys is one of all keys; left out is a record for any of all keys, so not "ignored"
    assert measure.score(outcome, fewer).value <= measure.score(outcome).value + 1e-12


def test_a_snooper_who_knows_a_key_less_exactly_may_find_more() -> None:
    """He is not misled by changes within an interval: the bound is over fewer keys, not over vaguer ones."""
    original, masked = (
        [(30, "f", "111"), (31, "f", "111"), (39, "f", "111")],
        [(31, "f", "111"), (30, "f", "111"), (39, "f", "111")],
    )
    outcome, exact_age = release((original, masked, [0, 1, 2])), Snooper(keys=("age",))
    vague = Snooper(keys=("age",), precision={"age": 5})
    assert GlobalRisk().score(outcome, exact_age).value == pytest.approx(1 / 3)
    assert GlobalRisk().score(outcome, vague).value == pytest.approx(2 / 3)


def test_masking_what_is_no_key_does_not_change_the_risk() -> None:
    data = billing(300)
    plain = GlobalRisk().score(RandomOrder().apply(data, Draws(1))).value
    assert GlobalRisk().score(IndependentNoise(columns=("amount_billed",)).apply(data, Draws(1))).value == plain


@given(files(missing=True))
@settings(max_examples=100, deadline=None)
def test_any_change_of_a_key_without_order_makes_its_factor_positive(file: File) -> None:
    details = GlobalRisk().score(release(file)).details
    original, masked, align = file
    for k, name in ((1, "sex"), (2, "zip")):
        changed = any(a >= 0 and original[a][k] != m[k] for a, m in zip(align, masked, strict=True))
        assert (details[f"change of {name}"] > 0) == changed


@pytest.mark.parametrize(
    ("mask", "key"),
    [(RankSwap(columns=("age",), p=0.2), "age"), (DataSwap(("sex",), rate=0.3), "sex"), (RecodeRare(("zip",), least=5), "zip"),
     (PRAM(("zip",), pd=0.5), "zip"), (IndependentNoise(columns=("age",)), "age")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)  # fmt: skip
def test_the_factors_cover_swapping_recoding_and_randomisation(mask: Any, key: str) -> None:
    score = GlobalRisk().score(mask.apply(billing(400), Draws(1)))
    assert score.details[f"change of {key}"] > 0
    assert all(score.details[f"change of {other}"] == 0 for other in KEYS if other != key)


@pytest.mark.parametrize(
    "mask", [MDAV(columns=("age",), k=40), Generalise(("zip",), 2), RecodeRare(("zip",), least=20)]
)
def test_microaggregated_ages_and_recoded_zip_codes_lower_the_risk(mask: Any) -> None:
    data = billing(1_000)
    plain = GlobalRisk().score(RandomOrder().apply(data, Draws(1))).value
    assert GlobalRisk().score(mask.apply(data, Draws(1))).value < 0.95 * plain


@given(files())
@settings(max_examples=50, deadline=None)
def test_minimal_and_maximal_risk_are_weighted_ones_for_particular_weights(file: File) -> None:
    outcome = release(file)
    for kind, w in (("min", UniqueWeights()), ("max", EqualWeights())):
        assert GlobalRisk(kind=kind).score(outcome).value == GlobalRisk(kind="weighted", weights=w).score(outcome).value  # type: ignore[arg-type]


def test_the_risk_is_drawn_against_the_information_that_is_kept() -> None:
    grid = {"independent_noise.lambda2": [0.1, 0.4, 1.6]}
    m = ru_map(
        billing(300),
        IndependentNoise(columns=("age",)),
        grid,
        risk=GlobalRisk(),
        utility=VarianceKept(("age",)),
        replications=3,
        draws=1,
    )
    risk, kept = (m.frame().query(f"masked and side == '{side}'")["value"].to_numpy() for side in ("risk", "utility"))
    assert (np.diff(risk) < 0).all()
    assert (np.diff(kept) < 0).all()
