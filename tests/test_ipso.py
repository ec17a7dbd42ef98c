"""IPSO and its hybrid: the released file has exactly the moments of the original, by arithmetic of its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError
from sfumato.masks import GADP, IPSO
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


def business(n: int = 400, seed: int = 1) -> Microdata:
    """Skewed and dependent: nothing about it is normal."""
    g = np.random.default_rng(seed)
    staff, kind = g.gamma(2, 10, n), g.integers(0, 4, n)
    sales = staff * g.gamma(3, 5, n) + 30 * kind
    wages = 0.4 * sales + g.gamma(1, 40, n)
    table = pa.table({"staff": staff, "kind": np.array([*"abcd"])[kind], "sales": sales, "wages": wages})
    return Microdata(
        table,
        Schema((
            Attribute("staff", "key"), Attribute("kind", "key", "unordered"),  # type: ignore[arg-type]
            Attribute("sales", "confidential"), Attribute("wages", "confidential"),  # type: ignore[arg-type]
        )),
    )  # fmt: skip


def design(data: Microdata) -> Numbers:
    kind = np.array(data.batch(["kind"]).column("kind").arrow.to_pylist())
    return np.column_stack([np.ones(len(data)), data.numbers("staff"), *(kind == k for k in "bcd")]).astype(float)


def masked(data: Microdata) -> Numbers:
    return np.column_stack([data.numbers("sales"), data.numbers("wages")])


@pytest.mark.parametrize("similarity", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_mean_covariance_and_regression_is_exactly_that_of_the_original(similarity: float, seed: int) -> None:
    data = business()
    made = IPSO(similarity=similarity).apply(data, Draws(seed)).masked
    s, x, y = design(data), masked(data), masked(made)
    np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(np.cov(y.T), np.cov(x.T), rtol=1e-9)
    np.testing.assert_allclose(s.T @ y, s.T @ x, rtol=1e-9)
    for one, two in (
        (x, y),
        (x[:, ::-1], y[:, ::-1]),
    ):  # a column on the keys and the other, with its residual variance
        fits = [np.linalg.lstsq(np.column_stack([s, v[:, 1]]), v[:, 0]) for v in (one, two)]
        np.testing.assert_allclose(fits[1][0], fits[0][0], rtol=1e-7)
        np.testing.assert_allclose(fits[1][1], fits[0][1], rtol=1e-8)


@pytest.mark.parametrize("similarity", [0.4, 0.9])
def test_the_hybrid_has_exactly_its_similarity_in_the_sample(similarity: float) -> None:
    """The correlation of what the keys leave of X and of Y is κ for each column, and the same for every seed."""
    data = business()
    for seed in (1, 2):
        y = masked(IPSO(similarity=similarity).apply(data, Draws(seed)).masked)
        s = design(data)
        left = [v - s @ np.linalg.lstsq(s, v)[0] for v in (masked(data), y)]
        for j in range(2):
            assert np.corrcoef(left[0][:, j], left[1][:, j])[0, 1] == pytest.approx(similarity, abs=1e-9)


def test_ipso_says_nothing_of_a_record_beyond_its_keys() -> None:
    """The correlation of what the keys leave of X and of Y scatters about zero as that of independent numbers does."""
    found = []
    for seed in range(40):
        data = business(200, seed)
        s = design(data)
        left = [
            v - s @ np.linalg.lstsq(s, v)[0] for v in (masked(data), masked(IPSO().apply(data, Draws(seed)).masked))
        ]
        found.append(np.corrcoef(left[0][:, 0], left[1][:, 0])[0, 1])
    assert abs(np.mean(found)) < 4.5 / np.sqrt(200 * 40)
    assert np.std(found) == pytest.approx(1 / np.sqrt(200), rel=0.5)


def test_moments_scatter_with_gadp_and_not_with_ipso() -> None:
    data = teachers(500)
    for mask, most in ((IPSO("salary", given=["age", "sex"]), 1e-9), (GADP("salary", given=["age", "sex"]), 1.0)):
        off = [
            abs(mask.apply(data, Draws(s)).masked.numbers("salary").var() / data.numbers("salary").var() - 1)
            for s in (1, 2)
        ]
        assert max(off) < most
        assert bool(min(off) > 1e-4) is (mask.name == "gadp")


def test_gaps_stay_and_moments_are_those_of_the_records_that_answered() -> None:
    data = business()
    gap = np.arange(400) % 7 == 3
    table = data.to_native().set_column(2, "sales", pa.array(data.numbers("sales"), mask=gap))
    data = Microdata(table, data.schema)
    release = IPSO().apply(data, Draws(1))
    x, y = masked(data), masked(release.masked)
    assert (np.isnan(y) == np.isnan(x)).all()
    np.testing.assert_allclose(np.cov(y[~gap].T), np.cov(x[~gap].T), rtol=1e-9)
    assert (y[gap, 1] != x[gap, 1]).all()
    assert "exactly those of the file" in release.guarantees[1].says


def test_rounding_and_bounds_are_said_to_disturb_the_moments() -> None:
    data = business()
    schema = data.schema.change("sales", integer=True, bounds=(0, None))
    release = IPSO().apply(data.with_schema(schema), Draws(1))
    assert "up to rounding, bounds" in release.guarantees[1].says
    sales = release.masked.numbers("sales")
    assert (sales == np.round(sales)).all()
    assert sales.min() >= 0


def test_too_few_records_for_exact_moments_are_refused() -> None:
    data = business(4)
    with pytest.raises(DataError, match="too few"):
        IPSO().apply(data, Draws(1))
