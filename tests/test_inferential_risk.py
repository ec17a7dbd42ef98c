"""Inferential disclosure from data: against regressions on what was released, and the twin that writes everything down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sfumato import Draws, Recipe
from sfumato.contract import Mask, MatrixForm
from sfumato.data.microdata import Microdata
from sfumato.datasets import five, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import (
    AggregateColumns,
    AggregateRecords,
    Displace,
    IndependentNoise,
    KimNoise,
    MatrixMask,
    MultiplyColumns,
    MultiplyRecords,
    RandomAggregation,
    RandomOrder,
    RankSwap,
    Sample,
    StratifiedSample,
    SuppressColumns,
    SuppressExtremes,
)
from sfumato.papers.conditional import FUNCTIONALS
from sfumato.papers.file_disclosure import inferential_risk
from sfumato.schema import Attribute, Role, Schema

Numbers = NDArray[np.float64]
NUMBERS = ("age", "experience", "salary", "income")


@pytest.fixture(scope="module")
def data() -> Microdata:
    return teachers(4_000)


def r_squared(y: Numbers, columns: list[Numbers]) -> float:
    """Return R² of the least-squares regression with a constant."""
    design = np.column_stack([np.ones(len(y)), *columns])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(1 - rest.var() / y.var())


def of(names: list[str], **more: object) -> Microdata:
    """Return generated data with columns of numbers, all confidential."""
    g = np.random.default_rng(3)
    frame = pd.DataFrame(g.normal(size=(60, len(names))) @ g.normal(size=(len(names),) * 2), columns=names)
    for name, values in more.items():
        frame[name] = values
    return Microdata(frame, Schema(tuple(Attribute(n, Role.CONFIDENTIAL) for n in frame.columns)))


# -- against regressions


def test_a_suppressed_column_is_explained_as_well_as_a_regression_on_the_others_does(data: Microdata) -> None:
    found = inferential_risk(data, "salary", SuppressColumns(["salary"]))
    others = [data.numbers(n) for n in ("age", "experience", "income")]
    assert found.shares[0] == pytest.approx(r_squared(data.numbers("salary"), others), rel=1e-9)
    sd = data.numbers("salary").std(ddof=1)
    row = found.frame().iloc[0]
    assert (row["sd_before"], row["sd_after"]) == pytest.approx((sd, sd * np.sqrt(1 - found.shares[0])))
    assert "salary of a record in the file" in found.words


@pytest.mark.parametrize(
    "mask",
    [
        KimNoise(lambda2=0.5),
        IndependentNoise(["salary"], lambda2=0.3),
        KimNoise(lambda2=0.5) >> AggregateColumns(["salary", "income"]),
        AggregateColumns(["salary", "income"]),
    ],
    ids=lambda m: "recipe" if isinstance(m, Recipe) else m.name,
)
def test_a_masked_column_is_explained_as_well_as_a_regression_on_the_release_does(mask: Mask | Recipe) -> None:
    data = teachers(40_000)
    released = mask.apply(data, Draws(4)).masked
    columns = [released.numbers(n) for n in released.schema.names() if n in (*NUMBERS, "total")]
    found = inferential_risk(data, ["salary", "income"], mask)
    for share, name in zip(found.shares, found.targets, strict=True):
        assert share == pytest.approx(r_squared(data.numbers(name), columns), abs=0.015)


def test_kim_noise_alone_leaves_the_share_of_its_level(data: Microdata) -> None:
    """Y = X + ε with ε ~ N(0, λ²Σ) explains Σ/(1 + λ²), whatever Σ."""
    found = inferential_risk(data, None, KimNoise(lambda2=0.25), beside=())
    assert found.targets == ("salary", "income")
    np.testing.assert_allclose(found.shares, 0.8, rtol=1e-12)
    np.testing.assert_allclose(found.file.explained()[0], 0.8 * found.prior, rtol=1e-9)
    assert found.exact


def test_averages_over_random_groups_explain_one_part_in_k(data: Microdata) -> None:
    found = inferential_risk(data, "salary", RandomAggregation(NUMBERS, k=4))
    np.testing.assert_allclose(found.per_record(), 0.25, rtol=1e-9)


def test_noise_before_the_averages_adds_to_what_they_hide() -> None:
    """Averages over k of X + ε, ε ~ N(0, λ²Σ), explain 1/(k(1 + λ²))."""
    data = teachers(20_000)
    recipe = KimNoise(NUMBERS, lambda2=0.5) >> RandomAggregation(NUMBERS, k=4)
    found = inferential_risk(data, "salary", recipe)
    np.testing.assert_allclose(found.per_record(), 1 / 6, rtol=1e-9)
    assert found.exact


def test_a_sample_discloses_the_records_that_are_in_it(data: Microdata) -> None:
    mask = Sample(fraction=0.1)
    found = inferential_risk(data, "salary", mask)
    share = found.per_record()[:, 0]
    assert set(share.round(12)) == {0.0, 1.0}
    assert share.sum() == 400
    assert found.frame()["mean_share"].iloc[0] == pytest.approx(0.1)
    records, columns = found.revealed()
    np.testing.assert_array_equal(records, share == 1)
    assert set(columns) == set(NUMBERS)


def test_factors_of_records_hide_nothing_once_they_are_revealed(data: Microdata) -> None:
    mask = MultiplyRecords(NUMBERS)
    assert inferential_risk(data, "salary", mask).shares[0] == 1
    hidden = inferential_risk(data, "salary", mask, revealed=())
    assert 0 < hidden.shares[0] < 1
    assert not hidden.exact
    assert "at least as much" in hidden.words


@pytest.mark.parametrize("mask", [MultiplyRecords(["salary"], factor_variance=0.1), MultiplyColumns(["salary"])])
def test_hidden_factors_hide_only_the_columns_that_they_multiply(mask: Mask) -> None:
    found = inferential_risk(teachers(500), ["salary", "income"], mask, revealed=())
    assert found.shares[0] < 1
    assert found.shares[1] == 1


def test_hidden_factors_of_records_explain_what_a_regression_on_the_release_does() -> None:
    data = teachers(40_000)
    mask = MultiplyRecords(["salary", "income"], factor_variance=0.05)
    released = mask.apply(data, Draws(5)).masked
    found = inferential_risk(data, "salary", mask, revealed=())
    assert found.shares[0] == pytest.approx(
        r_squared(data.numbers("salary"), [released.numbers(n) for n in NUMBERS]), abs=0.015
    )


def test_a_random_order_that_is_not_revealed_leaves_a_single_record_hidden(data: Microdata) -> None:
    recipe = KimNoise(lambda2=0.25) >> RandomOrder()
    assert inferential_risk(data, "salary", recipe).shares[0] > 0.8
    lost = inferential_risk(data, "salary", recipe, revealed=())
    assert lost.shares[0] < 1 / len(data)


def test_a_fixed_displacement_is_taken_off(data: Microdata) -> None:
    assert inferential_risk(data, "salary", Displace({"salary": 3.0})).shares[0] == 1


def test_revealed_noise_hides_nothing(data: Microdata) -> None:
    assert inferential_risk(data, "salary", KimNoise(), revealed=("A", "B", "C")).shares[0] == 1


def test_the_release_as_it_is_discloses_everything(data: Microdata) -> None:
    found = inferential_risk(data)
    assert found.shares.tolist() == [1, 1]
    assert not found.acceptable(1.0, "largest eigenvalue", relative=True)
    assert found.uncertain(0.0).value == pytest.approx(0.0, abs=1e-9)
    assert found.revealed()[0].tolist() == [True]


# -- records outside the file, and between records


def test_of_a_record_outside_the_file_only_what_is_common_is_learned(data: Microdata) -> None:
    assert inferential_risk(data, "salary", outside=True).shares[0] == 0
    share, n = 0.02, len(data)
    found = inferential_risk(data, "salary", outside=True, between=share)
    # K = ρV: c = ρ for each of n records with variance 1 and correlation ρ, so c′S⁻¹c = nρ²/(1 + (n - 1)ρ)
    assert found.shares[0] == pytest.approx(n * share**2 / (1 + (n - 1) * share))
    assert found.per_record().shape == (1, 1)
    assert "not in the file" in found.words


def test_the_covariance_between_records_may_be_a_matrix() -> None:
    data = of(["a", "b"])
    V = data.moments(["a", "b"]).covariance
    whole = inferential_risk(data, "a", between=0.3 * V, outside=True).shares
    assert whole == pytest.approx(inferential_risk(data, "a", between=0.3, outside=True).shares)
    with pytest.raises(ParameterError, match="2 × 2"):
        inferential_risk(data, "a", between=np.eye(3))
    with pytest.raises(ParameterError, match="from -1 to 1"):
        inferential_risk(data, "a", between=2.0)
    with pytest.raises(ParameterError, match="Make K smaller"):
        inferential_risk(data, "a", between=-0.5)


# -- verdicts over all records


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("relative", [False, True])
def test_the_verdict_is_about_the_record_that_shows_most(functional: str, relative: bool) -> None:
    """Records are multiplied by known factors before noise is added: each shows differently; all are looked at in turn."""
    from sfumato.papers.conditional import judge_explained, judge_left

    data = of(["a", "b", "c"])
    factors = np.linspace(0.2, 3.0, len(data))
    C = np.random.default_rng(1).normal(size=(len(data), 3))
    form = MatrixForm(("a", "b", "c"), ("a", "b", "c"), A=np.diag(factors), C=C, random=("C",))
    found = inferential_risk(data, ["a", "c"], form)
    V, N = found.prior, np.cov(C, rowvar=False)
    moments = data.moments(["a", "b", "c"]).covariance
    each = [f**2 * moments[[0, 2]] @ np.linalg.inv(f**2 * moments + N) @ moments[:, [0, 2]] for f in factors]
    most = max(judge_explained(V, G, 0.5, functional, relative).value for G in each)
    least = min(judge_left(V, V - G, 0.5, functional, relative).value for G in each)
    assert found.acceptable(0.5, functional, relative=relative).value == pytest.approx(most, rel=1e-6)
    assert found.uncertain(0.5, functional, relative=relative).value == pytest.approx(least, rel=1e-6)
    shares = np.array([np.diag(G) for G in each]) / np.diag(V)
    np.testing.assert_allclose(found.per_record(), shares, rtol=1e-8)


def test_a_matrix_mask_is_judged_as_its_matrices_are() -> None:
    data = of(["a", "b"])
    B = [[1.0], [2.0]]
    found = inferential_risk(data, ["a", "b"], MatrixMask(["a", "b"], B=B))
    V, b = data.moments(["a", "b"]).covariance, np.array(B)
    G = V @ b @ b.T @ V / (b.T @ V @ b)
    np.testing.assert_allclose(found.file.explained()[0], G, rtol=1e-9)


def test_a_column_that_is_released_beside_its_total_counts() -> None:
    data = of(["a", "b", "c"])
    total = inferential_risk(data, "a", AggregateColumns(["a", "b"]))
    assert total.shares[0] < 1
    both = inferential_risk(data, "a", AggregateColumns(["a", "b"]), beside=["b"])
    assert both.shares[0] == 1  # the total less b


def test_a_file_on_disk_is_told_the_same(tmp_path: Path) -> None:
    data = of(["a", "b", "c"])
    data.write(tmp_path / "file.parquet")
    stored = Microdata.read(tmp_path / "file.parquet", data.schema, engine="duckdb")
    for shrinkage in (0.0, "ledoit-wolf"):
        here, there = (inferential_risk(d, None, KimNoise(["a"]), shrinkage=shrinkage) for d in (data, stored))
        np.testing.assert_allclose(here.shares, there.shares, rtol=1e-9)


def test_household_numbers_and_weights_are_no_measurements() -> None:
    found = inferential_risk(five(), "salary", shrinkage=0.5)
    assert set(found.mask.names) == {"age", "rent", "salary"}


# -- refusals


def test_what_the_criterion_does_not_apply_to_is_refused(data: Microdata) -> None:
    for mask in (AggregateRecords(), SuppressExtremes(["salary"], upper_quantile=0.99)):
        with pytest.raises(NotApplicable, match=r"criterion \(5.1\) does not apply"):
            inferential_risk(data, "salary", mask)
    with pytest.raises(NotApplicable, match="rank_swap is not a matrix mask"):
        inferential_risk(data, "salary", RankSwap(["salary"]))


def test_a_belief_that_is_not_known_is_refused(data: Microdata) -> None:
    with pytest.raises(NotApplicable, match="Count A as revealed, which is safe"):
        inferential_risk(data, "salary", StratifiedSample(fraction=0.5, within=["region"]), revealed=())
    with pytest.raises(NotApplicable, match="Count A as revealed, which is safe"):  # its members come together
        inferential_risk(five(), "salary", Sample(fraction=0.5), revealed=())
    form = MatrixForm(("salary",), ("salary",), B=np.eye(1), random=("B",))
    with pytest.raises(NotApplicable, match="not known from the matrices alone"):
        inferential_risk(data, "salary", form, revealed=())
    shared = MatrixForm(("salary",), ("salary",), C=np.ones((1, 1)), random=("C",))
    with pytest.raises(NotApplicable, match="single row"):
        inferential_risk(data, "salary", shared)


def test_columns_that_a_record_mask_leaves_alone_are_not_forgotten(data: Microdata) -> None:
    with pytest.raises(NotApplicable, match="age, experience would be released as they are"):
        inferential_risk(data, "salary", MultiplyRecords(["salary", "income"]))
    assert inferential_risk(data, "salary", MultiplyRecords(["salary", "income"]), beside=()).shares[0] == 1


def test_bad_targets_and_parts_are_refused(data: Microdata) -> None:
    with pytest.raises(DataError, match="numbers are needed"):
        inferential_risk(data, "region")
    with pytest.raises(DataError, match="not in the data"):
        inferential_risk(data, "salry")
    with pytest.raises(ParameterError, match="none twice"):
        inferential_risk(data, ["salary", "salary"])
    with pytest.raises(ParameterError, match="at least one"):
        inferential_risk(data, [])
    with pytest.raises(ParameterError, match="no part of a mask"):
        inferential_risk(data, "salary", revealed=("X",))
    with pytest.raises(ParameterError, match="threshold tau is -1"):
        inferential_risk(data, "salary").acceptable(-1)
    with pytest.raises(ParameterError, match="not known"):
        inferential_risk(data, "salary").acceptable(1, "norm")
    harmless = data.with_schema(Schema(tuple(a.with_(role=Role.OTHER) for a in data.schema)))
    with pytest.raises(DataError, match="Name the target"):
        inferential_risk(harmless)


@pytest.mark.parametrize(("rows", "says"), [(0, "0 records have"), (1, "1 record has")])
def test_too_few_records_are_refused(rows: int, says: str) -> None:
    data = of(["a", "b"]).take(np.arange(rows))
    with pytest.raises(DataError, match=f"{says} all of a, b"):
        inferential_risk(data, "a")


def test_infinite_and_missing_values() -> None:
    gaps = of(["a", "b"], c=np.where(np.arange(60) < 30, np.nan, np.arange(60.0)))
    assert inferential_risk(gaps, "a").complete == 30
    with pytest.raises(DataError, match="infinite"):
        inferential_risk(of(["a"], b=np.full(60, np.inf)), "a")


def test_constant_columns_say_nothing_and_hide_nothing() -> None:
    data = of(["a", "b"], c=np.full(60, 0.1))
    assert inferential_risk(data, "c").shares[0] == 0
    for functional in FUNCTIONALS:
        for relative in (False, True):
            assert inferential_risk(data, "c").acceptable(0.1, functional, relative=relative)
            assert not inferential_risk(data, "c").uncertain(0.1, functional, relative=relative)
    plain = inferential_risk(of(["a", "b"]), "a", SuppressColumns(["a"])).shares
    assert inferential_risk(data, "a", SuppressColumns(["a"])).shares == pytest.approx(plain)
