"""Several measures as one (R-U paper, section 6): a weighted sum, or the worst."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sfumato import Draws, Microdata, Release, Snooper, ru_map
from sfumato.contract import Need, Side, Weighted, Worst
from sfumato.errors import NotApplicable, ParameterError
from sfumato.maps import NormalPopulation
from sfumato.masks import KimNoise, TopCode
from sfumato.papers.ru_paper import TEACHERS
from sfumato.risk import AttributeRisk, CodedValueRisk
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility

RISKS = (AttributeRisk("income"), AttributeRisk("salary"))
MEANS = (EstimatorUtility("income"), EstimatorUtility("salary"))
L2 = 0.2


def release() -> Release:
    before = pd.DataFrame({"income": [90.0, 100.0, 120.0], "salary": [50.0, 60.0, 75.0]})
    after = pd.DataFrame({"income": [93.0, 100.0, 114.0], "salary": [50.0, 62.0, 74.0]})
    schema = Schema(tuple(Attribute(n, role="confidential") for n in before.columns))  # type: ignore[arg-type]
    return Release.of(Microdata(before, schema), Microdata(after, schema), align="rows")


BY_HAND = (3 / (9 + 0 + 36), 3 / (0 + 4 + 1))  # risks for income and salary


def test_a_weighted_risk_by_hand() -> None:
    assert_allclose(Weighted(RISKS).score(release()).value, (BY_HAND[0] + BY_HAND[1]) / 2)
    assert_allclose(Weighted(RISKS, weights=(3, 1)).score(release()).value, 3 * BY_HAND[0] + BY_HAND[1])
    scaled = Weighted(RISKS, scales=(0.04, 0.5), weights=(3, 1)).score(release())
    assert_allclose(scaled.value, 3 * BY_HAND[0] / 0.04 + BY_HAND[1] / 0.5)


def test_the_worst_risk_is_the_largest_and_the_worst_utility_the_smallest() -> None:
    assert_allclose(Worst(RISKS).score(release()).value, max(BY_HAND))
    assert_allclose(Worst(RISKS, scales=(0.01, 1)).score(release()).value, BY_HAND[0] / 0.01)
    errors = (-3 / 3) ** 2, (1 / 3) ** 2  # masked means are off by -1 and by 1/3
    assert_allclose(Worst(MEANS).score(release()).value, 1 / max(errors))


def test_means_are_averaged_before_they_are_combined() -> None:
    ready = Worst(RISKS)
    observed = np.array([[1.0, 4.0], [3.0, 2.0]])  # mean squared errors 2 and 3: risks 1/2 and 1/3
    assert_allclose(ready.estimate(observed)[0], 0.5)
    assert_allclose(Weighted(RISKS).estimate(observed)[0], (1 / 2 + 1 / 3) / 2)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.01, 100), min_size=6, max_size=6), st.tuples(st.floats(0, 5), st.floats(0.1, 5)))
def test_any_observations_agree_with_the_parts_taken_one_by_one(
    values: list[float], weights: tuple[float, float]
) -> None:
    observed = np.array(values).reshape(3, 2)
    parts = [part.estimate(observed[:, [i]])[0] for i, part in enumerate(RISKS)]
    assert_allclose(Weighted(RISKS, weights=weights).estimate(observed)[0], np.dot(weights, parts))
    assert_allclose(Worst(RISKS).estimate(observed)[0], max(parts))


def test_combinations_may_be_combined_and_hold_measures_of_some_targets() -> None:
    top = AttributeRisk("salary", low=0.5)
    nested = Weighted((Worst(RISKS), top), weights=(1, 10))
    expected = max(BY_HAND) + 10 * 2 / (4 + 1)  # the two larger salaries
    assert nested.size == 4
    assert_allclose(nested.score(release()).value, expected)


def test_a_part_with_weight_zero_does_not_count_even_if_infinite() -> None:
    assert Weighted(RISKS, weights=(0, 1)).combine(np.array([math.inf, 2.0])) == 2
    assert Weighted(RISKS, weights=(1, 1)).combine(np.array([math.inf, 2.0])) == math.inf


def test_formulas_are_combined_where_every_part_has_one() -> None:
    m = ru_map(
        TEACHERS, KimNoise(), {"kim_noise.lambda2": [L2]}, [Worst(RISKS), Weighted(RISKS, weights=(1, 2))],
        [Worst(MEANS), Weighted(MEANS, scales=(1 / 17.5**2, 1 / 13.3**2))], replications=0,
    )  # fmt: skip
    risks = 1 / (L2 * 17.5**2), 1 / (L2 * 13.3**2)
    assert_allclose(m.analytic[0][0], risks[1])
    assert_allclose(m.analytic[1][0], risks[0] + 2 * risks[1])
    assert_allclose(m.analytic[2][0], 1000 / ((1 + L2) * 17.5**2))
    assert_allclose(m.analytic[3][0], 1000 / (1 + L2))
    assert_allclose(m.analytic[2][1], 1000 / 17.5**2)


def test_there_is_no_formula_if_a_part_has_none() -> None:
    parts = (EstimatorUtility("y"), EstimatorUtility("y ~ square(x)", truth=0.0))
    source = NormalPopulation.regression(0.5, 20)
    m = ru_map(source, KimNoise(), {"kim_noise.lambda2": [0.1]}, "x", Worst(parts), replications=3, draws=1)
    assert np.isnan(m.analytic[1]).all()
    assert math.isfinite(m.estimate(1, 0)[0])


def test_replications_of_a_combination_agree_with_its_formula() -> None:
    m = ru_map(
        TEACHERS, KimNoise(), {"kim_noise.lambda2": [L2]}, Worst(RISKS), Weighted(MEANS), replications=400, draws=1
    )
    for i in (0, 1):
        _, interval = m.estimate(i, 0)
        assert interval is not None
        low, high = interval
        assert low * (low / high) < m.analytic[i][0] < high * (high / low)  # three times as wide as the 95 % interval


def test_a_combination_says_what_it_is_made_of() -> None:
    worst, weighted = Worst(RISKS), Weighted(MEANS, weights=(0.25, 0.75))
    assert worst.label() == "worst risk of 2"
    assert worst.variant == "risk for income; risk for salary"
    assert worst.score(release()).words == "the largest of: risk for income, risk for salary"
    assert weighted.label() == "weighted utility of 2"
    assert weighted.score(release()).words == "0.25 × mean income + 0.75 × mean salary"
    assert Worst(MEANS).score(release()).words == "the smallest of: mean income, mean salary"
    assert weighted.side is Side.UTILITY
    assert worst.columns(release().original.schema) == ("income", "salary")


def test_a_combination_needs_what_its_parts_need() -> None:
    loose = Release.of(release().original, release().masked)
    with pytest.raises(NotApplicable, match="which released record came from which original record"):
        Worst(RISKS).score(loose)
    assert Need.ALIGNMENT in RISKS[0].needs


def test_what_cannot_be_combined_is_refused_in_a_sentence() -> None:
    with pytest.raises(ParameterError, match="cannot mix risk and utility"):
        Worst((RISKS[0], MEANS[0]))
    with pytest.raises(ParameterError, match="cannot mix target = population and target = file"):
        Weighted((EstimatorUtility("x"), EstimatorUtility("x", target="file")))
    with pytest.raises(ParameterError, match="worst needs a list of measures, at least one"):
        Worst(())
    with pytest.raises(ParameterError, match="weighted needs a list of measures"):
        Weighted(("salary",))  # type: ignore[arg-type]
    for weights in ((1,), (1, -1), (0, 0), (1, math.nan)):
        with pytest.raises(ParameterError, match="weighted needs one weight of at least 0 for each of its 2 parts"):
            Weighted(RISKS, weights=weights)
    for scales in ((1.0,), (1.0, 0.0), (1.0, -2.0)):
        with pytest.raises(ParameterError, match="worst needs one positive scale for each of its 2 parts"):
            Worst(RISKS, scales=scales)


def test_a_combination_is_written_and_read_as_a_table() -> None:
    for measure in (Weighted(RISKS, weights=(1, 2), scales=(3, 4)), Worst(MEANS)):
        assert type(measure).from_dict(measure.to_dict()) == measure


def test_coded_values_of_several_columns() -> None:
    original = release().original
    coded = TopCode(columns=("income", "salary"), value={"income": 100, "salary": 60}).apply(original, Draws(1))
    measure = Worst((CodedValueRisk("income"), CodedValueRisk("salary")))
    assert_allclose(measure.score(coded, Snooper()).value, max(1 / 20**2, 1 / 15**2))
