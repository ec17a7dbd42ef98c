"""Covariances of a file: shrinkage against sklearn, weights against numpy, copies of records and brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.masks import KimNoise, SuppressColumns
from sfumato.papers import best_mask, inferential_risk
from sfumato.papers.file_covariance import file_covariance
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
NAMES = ("a", "b", "c")


def of(names: list[str], n: int = 60, weights: Numbers | None = None, seed: int = 3) -> Microdata:
    """Return generated data with columns of numbers, all confidential, and survey weights if given."""
    g = np.random.default_rng(seed)
    frame = pd.DataFrame(g.normal(size=(n, len(names))) @ g.normal(size=(len(names),) * 2), columns=names)
    schema = [Attribute(n, "confidential") for n in names]
    if weights is not None:
        frame["w"] = weights
        schema.append(Attribute("w", "weight"))
    return Microdata(frame, Schema(tuple(schema)))


def matrix(data: Microdata, names: tuple[str, ...] = NAMES) -> Numbers:
    return np.column_stack([data.numbers(n) for n in names])


def test_the_shrinkage_is_that_of_sklearn_on_standardised_columns() -> None:
    from sklearn.covariance import ledoit_wolf

    for n, names in ((60, ["a", "b", "c"]), (60, list("abcdefgh"))):
        data = of(names).take(np.arange(n // 2))
        x = np.column_stack([data.numbers(name) for name in names])
        z = (x - x.mean(axis=0)) / x.std(axis=0)
        expected, delta = ledoit_wolf(z)
        found = file_covariance(data, names, "ledoit-wolf")
        assert found.shrinkage == pytest.approx(delta)
        sd = x.std(axis=0, ddof=1)
        np.testing.assert_allclose(found.matrix, expected * np.outer(sd, sd), rtol=1e-9)


def test_shrinkage_does_not_hang_on_units() -> None:
    data = of(["a", "b", "c"])
    x = np.column_stack([data.numbers(n) for n in "abc"]) * [1e-6, 1.0, 1e6] + 5.0
    scaled = Microdata(pd.DataFrame(x, columns=list("abc")), data.schema)
    assert file_covariance(scaled, list("abc"), "ledoit-wolf").shrinkage == pytest.approx(
        file_covariance(data, list("abc"), "ledoit-wolf").shrinkage, rel=1e-6
    )


def test_enough_records_are_not_shrunk_and_few_are() -> None:
    data = of(["a", "b", "c"])
    assert file_covariance(data, ["a", "b", "c"]).shrinkage == 0
    few = data.take(np.arange(12))
    assert 0 < file_covariance(few, ["a", "b", "c"]).shrinkage < 1
    assert file_covariance(few, ["a", "b", "c"], 0.25).shrinkage == 0.25
    # with as many columns as records a regression explains all, whatever it regresses on
    small = data.take(np.arange(3))
    assert inferential_risk(small, "a", SuppressColumns(["a"]), shrinkage=0.0).shares[0] == pytest.approx(1)
    assert inferential_risk(small, "a", SuppressColumns(["a"])).shares[0] < 0.99


@pytest.mark.parametrize("bad", ["oas", -0.1, 1.5, True])
def test_an_unknown_shrinkage_is_refused(bad: object) -> None:
    with pytest.raises(ParameterError, match="shrinkage"):
        file_covariance(of(["a", "b"]), ["a", "b"], bad)  # type: ignore[arg-type]


def test_weighted_covariances_are_those_of_numpy() -> None:
    w = np.random.default_rng(1).uniform(0, 5, 60)
    w[::7] = 0.0
    data = of(list(NAMES), weights=w)
    found = file_covariance(data, NAMES, weighted=True)
    np.testing.assert_allclose(found.matrix, np.cov(matrix(data), rowvar=False, aweights=w), rtol=1e-12)
    np.testing.assert_allclose(found.mean, np.average(matrix(data), axis=0, weights=w), rtol=1e-12)
    assert (found.records, found.shrinkage) == (int((w > 0).sum()), 0.0)
    assert found.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_equal_weights_change_nothing() -> None:
    data = of(list(NAMES), weights=np.full(60, 250.0))
    plain, weighted = (file_covariance(data, NAMES, "ledoit-wolf", w) for w in (False, True))
    np.testing.assert_allclose(weighted.matrix, plain.matrix, rtol=1e-12)
    assert weighted.shrinkage == pytest.approx(plain.shrinkage)


def test_a_record_of_weight_two_explains_as_two_records_do() -> None:
    """R² has no divisor, so that whole weights are copies."""
    w = np.random.default_rng(2).integers(0, 4, 60).astype(float)
    data = of(list(NAMES), weights=w)
    copies = Microdata(
        pd.DataFrame(np.repeat(matrix(data), w.astype(int), axis=0), columns=list(NAMES)), of(list(NAMES)).schema
    )
    mask = SuppressColumns(["a"])
    found = inferential_risk(data, "a", mask, weighted=True).shares[0]
    assert found == pytest.approx(inferential_risk(copies, "a", mask).shares[0], rel=1e-9)
    assert found != pytest.approx(inferential_risk(data, "a", mask).shares[0], rel=1e-3)


def test_gaps_and_weights_leave_out_the_same_records_as_by_hand() -> None:
    w = np.random.default_rng(1).uniform(0, 5, 60)
    data = of(list(NAMES), weights=w)
    frame = pd.DataFrame(matrix(data), columns=list(NAMES)).assign(w=w)
    frame.loc[::5, "b"] = np.nan
    whole = frame.dropna()
    found = file_covariance(Microdata(frame, data.schema), NAMES, weighted=True)
    expected = np.cov(whole[list(NAMES)].to_numpy(), rowvar=False, aweights=whole["w"])
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-12)
    assert found.records == len(whole)


def test_the_weighted_shrinkage_is_that_of_its_definition() -> None:
    w = np.random.default_rng(4).uniform(0.1, 5, 15)
    data = of(list(NAMES), n=15, weights=w)
    x, p = matrix(data), w / w.sum()
    z = x - p @ x
    z = z / np.sqrt(p @ z**2)
    R = (z * p[:, None]).T @ z
    noise = sum(p[i] ** 2 * np.square(np.outer(z[i], z[i]) - R).sum() for i in range(15))
    far = np.square(R - np.eye(3)).sum()
    assert file_covariance(data, NAMES, weighted=True).shrinkage == pytest.approx(min(noise / far, 1.0))


def test_a_few_heavy_weights_count_as_few_records() -> None:
    """60 records, of which two have nearly all the weight."""
    w = np.ones(60)
    w[:2] = 1e4
    data = of(list(NAMES), weights=w)
    assert file_covariance(data, NAMES).shrinkage == 0
    assert file_covariance(data, NAMES, "auto", True).effective < 3


def test_a_file_on_disk_has_the_same_weighted_covariances(tmp_path: Path) -> None:
    w = np.random.default_rng(1).uniform(0, 5, 60)
    data = of(list(NAMES), weights=w)
    data.write(tmp_path / "file.parquet")
    stored = Microdata.read(tmp_path / "file.parquet", data.schema, engine="duckdb")
    found, expected = (file_covariance(d, NAMES, "ledoit-wolf", True) for d in (stored, data))
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-12)


def test_the_best_mask_is_found_for_the_same_covariances() -> None:
    w = np.random.default_rng(1).uniform(0, 5, 60)
    data = of(list(NAMES), weights=w)
    V = np.cov(matrix(data), rowvar=False, aweights=w)
    names = list(NAMES)
    expected = best_mask(pd.DataFrame(V, names, names), "a", 0.1)
    found = best_mask(data, "a", 0.1, weighted=True)
    assert found.lost == pytest.approx(expected.lost, rel=1e-9)
    sd = np.sqrt(np.diag(V))
    shrunk = 0.6 * V + 0.4 * np.diag(sd**2)
    expected = best_mask(pd.DataFrame(shrunk, names, names), "a", 0.1)
    found = best_mask(data, "a", 0.1, weighted=True, shrinkage=0.4)
    assert found.lost == pytest.approx(expected.lost, rel=1e-9)
    assert found.shrinkage == 0.4
    assert "shrunk by 40%" in found.words


def test_shrinkage_is_told_wherever_it_was_used() -> None:
    few = of(list(NAMES)).take(np.arange(12))
    risk = inferential_risk(few, "a", SuppressColumns(["a"]))
    assert "shrunk" in risk.words
    assert "shrunk" in risk.acceptable(0.5).words
    assert "shrunk" not in inferential_risk(of(list(NAMES)), "a", SuppressColumns(["a"])).words


def test_noise_is_drawn_by_the_covariances_of_the_file_whatever_the_spy_believes() -> None:
    """C ~ N(0, λ²S) with the file's S, while the spy's covariances V are shrunk, or weighted."""
    w = np.random.default_rng(1).uniform(0, 5, 60)
    data = of(list(NAMES), weights=w)
    S = np.cov(matrix(data), rowvar=False)
    for V, how in (
        (0.5 * S + 0.5 * np.diag(np.diag(S)), {"shrinkage": 0.5}),
        (np.cov(matrix(data), rowvar=False, aweights=w), {"weighted": True}),
    ):
        found = inferential_risk(data, "a", KimNoise(NAMES, lambda2=0.3), **how).shares[0]  # type: ignore[arg-type]
        assert found == pytest.approx(V[0] @ np.linalg.solve(V + 0.3 * S, V[0]) / V[0, 0], rel=1e-9)


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="role 'weight'"):
        inferential_risk(of(list(NAMES)), "a", weighted=True)
    with pytest.raises(DataError, match="negative"):
        best_mask(of(list(NAMES), weights=np.full(60, -1.0)), "a", 0.1, weighted=True)
    with pytest.raises(DataError, match="all survey weights"):
        best_mask(of(list(NAMES), weights=np.zeros(60)), "a", 0.1, weighted=True)
    one = np.zeros(60)
    one[3] = 1.0
    with pytest.raises(DataError, match=r"^1 record has all of a, b, c, but"):
        inferential_risk(of(list(NAMES), weights=one), "a", weighted=True)
    with pytest.raises(ParameterError, match="true or false"):
        inferential_risk(of(list(NAMES)), "a", weighted="yes")  # type: ignore[arg-type]


def test_a_given_covariance_matrix_is_neither_weighted_nor_shrunk() -> None:
    S = pd.DataFrame(np.eye(2) + 0.5, list("ab"), list("ab"))
    for wrong in ({"weighted": True}, {"shrinkage": 0.2}):
        with pytest.raises(ParameterError, match="a covariance matrix is given"):
            best_mask(S, "a", 0.1, **wrong)  # type: ignore[arg-type]


def test_no_mask_is_called_safe_because_records_are_too_few_to_tell() -> None:
    """With as many columns as records the estimated shrinkage may be complete, and everything would seem harmless."""
    few = of(list(NAMES)).take(np.arange(3))
    for shrinkage in ("auto", "ledoit-wolf", 0.0):
        with pytest.raises(DataError, match=r"^3 records have all of a, b, c: too few"):
            best_mask(few, "a", 0.1, shrinkage=shrinkage)  # type: ignore[arg-type]
    assert best_mask(few, "a", 0.1, shrinkage=0.5).shrinkage == 0.5
