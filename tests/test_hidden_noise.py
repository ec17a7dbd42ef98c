"""Noise that the spy is not told, among other masks: against the formula of the whole release, written out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sfumato import Recipe
from sfumato.contract import Mask
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import NotApplicable
from sfumato.masks import (
    AggregateColumns,
    CorrectedNoise,
    IndependentNoise,
    KimNoise,
    LaplaceNoise,
    MatrixMask,
    MultiplyRecords,
    RandomAggregation,
    RandomOrder,
    Sample,
    StructuredNoise,
    SuppressColumns,
)
from sfumato.papers import best_mask, inferential_risk
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
NAMES = ("a", "b", "c")
COLUMNS = ("age", "experience", "salary")


def of(n: int = 400) -> Microdata:
    g = np.random.default_rng(5)
    frame = pd.DataFrame(g.normal(size=(n, 3)) @ g.normal(size=(3, 3)) * [1.0, 100.0, 0.01], columns=list(NAMES))
    return Microdata(frame, Schema(tuple(Attribute(name, "confidential") for name in NAMES)))


def covariance(data: Microdata) -> Numbers:
    return np.cov(np.column_stack([data.numbers(n) for n in NAMES]), rowvar=False)


def share(S: Numbers, B: Numbers, N: Numbers) -> float:
    """Return the share of the first column's variance that M = XB + C explains: R² of the population regression."""
    link = S[0] @ B
    return float(link @ np.linalg.solve(B.T @ S @ B + N, link) / S[0, 0])


@pytest.mark.parametrize("kind", ["both", "attributes", "displacing"])
@pytest.mark.parametrize("functional", ["trace", "largest eigenvalue", "each target"])
def test_the_best_mask_is_judged_from_the_file_as_its_certificate_says(kind: str, functional: str) -> None:
    data = teachers(2_000)
    best = best_mask(data, ["income", "salary"], 0.3, columns=COLUMNS, kind=kind, functional=functional)
    risk = inferential_risk(data, ["income", "salary"], best.mask)
    assert risk.exact
    np.testing.assert_allclose(risk.shares, best.shares, rtol=1e-6)
    verdict = risk.acceptable(0.3, functional, relative=True)
    assert verdict
    assert verdict.value == pytest.approx(best.disclosed, rel=1e-6)


def test_noise_is_carried_through_the_masks_that_follow() -> None:
    data = of()
    S = covariance(data)
    total, two = np.array([[1.0], [1.0], [0.0]]), np.eye(3)[:, 1:]
    mix, own = np.array([[1.0, 0.5], [0.0, 1.0], [2.0, -1.0]]), np.array([[3.0, 0.5], [0.5, 2.0]])
    cases: list[tuple[Mask | Recipe, Numbers, Numbers]] = [
        (SuppressColumns(["a"]) >> KimNoise(("b", "c"), lambda2=0.5), two, 0.5 * two.T @ S @ two),
        (
            KimNoise(NAMES, lambda2=0.5) >> AggregateColumns(["a", "b"]) >> SuppressColumns(["c"]),
            total,
            0.5 * total.T @ S @ total,
        ),
        (
            SuppressColumns(["c"]) >> IndependentNoise(("a", "b"), lambda2=0.5) >> AggregateColumns(["a", "b"]),
            total,
            np.array([[0.5 * (S[0, 0] + S[1, 1])]]),
        ),
        (
            KimNoise(NAMES, lambda2=0.5)
            >> MatrixMask(NAMES, B=mix, released=("m", "n"))
            >> StructuredNoise(("m", "n"), own),
            mix,
            0.5 * mix.T @ S @ mix + own,
        ),
    ]
    for recipe, B, N in cases:
        found = inferential_risk(data, "a", recipe)
        assert found.exact
        assert found.shares[0] == pytest.approx(share(S, B, N), rel=1e-9)


def test_corrected_noise_explains_as_much_as_noise_that_is_not_drawn_back() -> None:
    """M = (X + ε)/√(1 + λ²) + a constant, ε ~ N(0, λ²Σ)."""
    found = inferential_risk(of(), ["a", "b", "c"], CorrectedNoise(NAMES, lambda2=0.25))
    np.testing.assert_allclose(found.shares, 0.8, rtol=1e-9)
    assert found.exact


def test_noise_before_a_sample_is_the_noise_of_the_records_in_it() -> None:
    found = inferential_risk(of(), "a", KimNoise(NAMES, lambda2=0.25) >> Sample(fraction=0.1))
    assert found.exact
    shares, counts = np.unique(found.per_record().round(9), return_counts=True)
    np.testing.assert_allclose(shares, [0.0, 0.8])
    assert counts.tolist() == [360, 40]


def test_a_sample_of_noisy_records_whose_members_are_hidden_explains_a_share_in_n() -> None:
    """Cov(yᵢ, Mⱼ) = Σ/n for each of r independent records of variance 1.25 Σ: G/Σ = r/(1.25 n²)."""
    recipe = KimNoise(NAMES, lambda2=0.25) >> Sample(fraction=0.1)
    found = inferential_risk(of(), "a", recipe, revealed=("B",))
    assert found.shares[0] == pytest.approx(40 / (1.25 * 400**2))
    assert not found.exact


def test_groups_of_different_sizes_have_noise_as_it_was_drawn() -> None:
    """401 records in groups of 4, one of them larger: the mean over 4 of X + ε explains 1/(4 · 1.5)."""
    found = inferential_risk(of(401), "a", KimNoise(NAMES, lambda2=0.5) >> RandomAggregation(NAMES, k=4))
    assert not found.exact
    assert np.median(found.per_record()) == pytest.approx(1 / 6, rel=0.15)


def test_noise_that_is_not_normal_is_told_as_the_best_linear_prediction() -> None:
    assert not inferential_risk(of(), "a", LaplaceNoise(1.0, columns=NAMES, epsilon=1.0)).exact


def test_a_random_order_leaves_the_noise_as_it_is() -> None:
    for recipe in (KimNoise(NAMES, lambda2=0.25) >> RandomOrder(), RandomOrder() >> KimNoise(NAMES, lambda2=0.25)):
        found = inferential_risk(of(), "a", recipe)
        np.testing.assert_allclose(found.per_record(), 0.8, rtol=1e-9)


def test_what_has_no_noise_is_revealed_exactly() -> None:
    data = of()
    records, columns = inferential_risk(data, "a", KimNoise(["a"])).revealed()
    assert (records.tolist(), columns) == ([True], ("b", "c"))
    # noise along one line: a + b has none, so c, and nothing else, can be computed
    along = StructuredNoise(("a", "b"), [[1.0, -1.0], [-1.0, 1.0]])
    assert inferential_risk(data, "a", along).revealed()[1] == ("c",)
    # with the exact total beside it, which is another combination, a and b are revealed as well
    both = MatrixMask(NAMES, B=np.array([[1.0, 0, 1], [0, 1, 2], [0, 0, 0]]), released=("x", "y", "z")) >> (
        StructuredNoise(("x", "y"), [[1.0, -1.0], [-1.0, 1.0]])
    )
    assert inferential_risk(data, "a", both).revealed()[1] == ("a", "b")
    assert inferential_risk(data, "a", KimNoise(NAMES)).revealed()[1] == ()


def test_columns_without_hidden_factors_are_revealed_and_the_others_are_not() -> None:
    found = inferential_risk(of(), "a", MultiplyRecords(["a"]), revealed=("B", "C"))
    records, columns = found.revealed()
    assert (records.all(), columns) == (True, ("b", "c"))


def test_hidden_factors_of_noisy_records_are_not_worked_out() -> None:
    with pytest.raises(NotApplicable, match="not worked out for multiply_records"):
        inferential_risk(of(), "a", KimNoise(NAMES) >> MultiplyRecords(NAMES), revealed=("B",))
