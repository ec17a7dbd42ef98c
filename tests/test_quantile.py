"""The quantile of a column: by NumPy, by statsmodels' weighted definition, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from sfumato import ru_map
from sfumato.contract import Draws, NoiseModel, Release
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.masks import KimNoise
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Quantile
from sfumato.utility.estimator_utility import quantile

SHARES = (0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.99, 1.0)


def frame(x: object, w: object | None = None) -> Microdata:
    columns = {"x": x} if w is None else {"x": x, "w": w}
    roles = {"x": "confidential", "w": "weight"}
    return Microdata(pa.table(columns), Schema(tuple(Attribute(n, roles[n]) for n in columns)))  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 997])
def test_without_weights_it_is_the_averaged_inverse_of_the_distribution_function(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n).round(1)
    for share in SHARES:
        assert quantile(x, share) == pytest.approx(np.quantile(x, share, method="averaged_inverted_cdf"))


def test_the_median_is_the_usual_one() -> None:
    for n in (9, 10):
        x = np.random.default_rng(n).normal(size=n)
        assert Quantile("x").estimate(frame(x), {}) == pytest.approx(np.median(x))


def test_with_weights_it_is_that_of_statsmodels() -> None:
    g = np.random.default_rng(1)
    x, w = g.normal(size=200), g.integers(1, 9, 200).astype(float)
    peer = DescrStatsW(x, weights=w)
    for share in SHARES[1:-1]:
        mine = Quantile("x", share, weighted=True).estimate(frame(x, w), {})
        assert mine == pytest.approx(float(peer.quantile([share], return_pandas=False)[0])), share


def test_a_whole_weight_counts_as_so_many_records() -> None:
    g = np.random.default_rng(3)
    x, w = g.normal(size=40), g.integers(0, 5, 40)
    for share in SHARES:
        mine = Quantile("x", share, weighted=True).estimate(frame(x, w.astype(float)), {})
        assert mine == pytest.approx(quantile(np.repeat(x, w), share))
    assert Quantile("x", 0.3, weighted=True).estimate(frame(x, np.full(40, 0.1)), {}) == quantile(x, 0.3)


def test_records_without_a_value_are_left_out_and_none_at_all_is_refused() -> None:
    assert Quantile("x", 0.5).estimate(frame([1.0, None, 3.0]), {}) == 2.0
    with pytest.raises(DataError, match="no record has a value"):
        Quantile("x", 0.5).estimate(frame([math.nan, math.nan]), {})
    with pytest.raises(DataError, match="no record has a value"):
        Quantile("x", 0.5, weighted=True).estimate(frame([1.0, math.nan], [0.0, 1.0]), {})
    with pytest.raises(DataError, match="needs survey weights"):
        Quantile("x", 0.5, weighted=True).estimate(frame([1.0, 2.0]), {})
    with pytest.raises(ParameterError, match="share of quantile must be a number of at least 0 and at most 1"):
        Quantile("x", 1.5)
    with pytest.raises(ParameterError, match="weighted of quantile must be true or false"):
        Quantile("x", 0.5, weighted="yes")  # type: ignore[arg-type]


def test_the_utility_of_a_quantile_is_the_reciprocal_of_its_squared_error() -> None:
    data = teachers(500)
    release = KimNoise(lambda2=0.2).apply(data, Draws(1))
    off = np.quantile(release.masked.numbers("income"), 0.9, method="averaged_inverted_cdf") - np.quantile(
        data.numbers("income"), 0.9, method="averaged_inverted_cdf"
    )
    score = EstimatorUtility(Quantile("income", 0.9)).score(release)
    assert score.value == pytest.approx(1 / off**2)
    assert score.measure == "0.9 quantile of income"
    assert EstimatorUtility(Quantile("income", 0.9)).score(Release.as_it_is(data)).value == math.inf


def test_a_quantile_on_a_map_loses_utility_as_noise_grows() -> None:
    grid = {"kim_noise.lambda2": [0.05, 0.8]}
    measure = EstimatorUtility(Quantile("income", 0.9))
    m = ru_map(teachers(300), KimNoise(), grid, risk="salary", utility=measure, replications=40, draws=1)
    assert m.estimate(1, 0)[0] > m.estimate(1, 1)[0]


def test_in_a_normal_population_it_is_the_normal_quantile() -> None:
    model = NoiseModel(("x",), np.array([10.0]), np.array([[4.0]]), np.array([[1.0]]), 100)
    assert Quantile("x", 0.975).true_value(model) == pytest.approx(10 + 2 * 1.959963984540054)
    assert Quantile("x", 0.5).true_value(model) == pytest.approx(10)
