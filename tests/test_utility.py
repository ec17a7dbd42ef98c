"""Utility as 1 / mean squared error: its two targets, the estimators, and what is refused."""

from __future__ import annotations

import json
import math
import traceback
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sfumato import Draws, Microdata, Release, Snooper, ru_map
from sfumato.contract import NoiseModel, Side
from sfumato.errors import DataError, ParameterError
from sfumato.maps import NormalPopulation
from sfumato.masks import Identity, KimNoise
from sfumato.papers.ru_paper import TEACHERS
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Formula, Function, Mean, MeanCombination, Slope, as_estimator

SALARY = 13.3**2


def data(table: Any, **facts: dict[str, object]) -> Microdata:
    names = list(table.columns)
    return Microdata(table, Schema(tuple(Attribute(n, **facts.get(n, {})) for n in names)))  # type: ignore[arg-type]


def survey(n: int = 300, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    age = g.normal(45, 10, n)
    salary = 40 + 0.5 * age + g.normal(0, 8, n)
    return pd.DataFrame(
        {"age": age, "salary": salary, "income": salary + g.gamma(2, 10, n), "sex": g.choice(["f", "m"], n)}
    )


def within(observations: np.ndarray[Any, Any], expected: float, z: float = 4.0) -> bool:
    """Whether an expected mean squared error lies within z standard errors of the replications' mean."""
    return abs(observations.mean() - expected) < z * observations.std() / math.sqrt(observations.size)


# -- target = population and target = file


def both_targets(source: Any, replications: int) -> Any:
    utilities = [EstimatorUtility("salary"), EstimatorUtility("salary", target="file")]
    return ru_map(
        source, KimNoise(), {"kim_noise.lambda2": [0.15]}, "salary", utilities, replications=replications, draws=11
    )


def test_a_mean_at_15_hundredths_has_utility_4_9_for_the_population_and_37_for_the_file() -> None:
    m = both_targets(TEACHERS, 0)
    population, file = (float(m.analytic[i][0]) for i in m.of_side(Side.UTILITY))
    assert_allclose(population, 1000 / (1.15 * SALARY))
    assert_allclose(file, 1000 / (0.15 * SALARY))
    assert round(population, 1) == 4.9
    assert int(file) == 37
    assert m.analytic[1][1] == pytest.approx(1000 / SALARY)
    assert m.analytic[2][1] == math.inf


def test_both_targets_by_replication_of_a_population() -> None:
    m = both_targets(TEACHERS, 1500)
    assert within(m.observations[1][0], 1.15 * SALARY / 1000)
    assert within(m.observations[2][0], 0.15 * SALARY / 1000)
    assert within(m.observations[1][1], SALARY / 1000)
    assert m.unmasked(2) == math.inf


def test_both_targets_by_replication_of_a_file() -> None:
    table = survey(400)[["salary", "income"]]
    source = data(table, salary={"role": "confidential"}, income={"role": "confidential"})
    m = both_targets(source, 600)
    drawn, scale = table["salary"].var(ddof=0) / 400, table["salary"].var() / 400  # resampling; the noise
    assert within(m.observations[1][0], drawn + 0.15 * drawn)  # the noise is scaled by each resample's variance
    assert within(m.observations[1][1], drawn)
    assert within(m.observations[2][0], 0.15 * scale)
    assert m.unmasked(2) == math.inf


def test_both_targets_stand_apart_in_the_frame_and_can_be_named() -> None:
    m = both_targets(TEACHERS, 0)
    rows = m.frame()[m.frame()["side"] == "utility"]
    assert set(rows["variant"]) == {"target = population", "target = file"}
    assert m.position(Side.UTILITY, "mean salary (target = file)") == 2
    assert m.position(Side.UTILITY, "mean salary") == 1


def test_one_release_tells_the_masks_error_only_and_says_so() -> None:
    table = survey()
    release = KimNoise(columns=("salary",)).apply(data(table), Draws(1))
    score = EstimatorUtility("salary").score(release)
    error = release.masked.numbers("salary").mean() - table["salary"].mean()
    assert_allclose(score.value, 1 / error**2)
    assert score.variant == "target = file"
    assert EstimatorUtility("salary", truth=60.0).score(release).variant == "target = population"
    assert_allclose(
        EstimatorUtility("salary", truth=60.0).score(release).value,
        1 / (release.masked.numbers("salary").mean() - 60) ** 2,
    )


def test_an_unmasked_file_has_infinite_utility_for_itself() -> None:
    score = EstimatorUtility("salary", target="file").score(Identity().apply(data(survey()), Draws(1)))
    assert score.value == math.inf
    assert score.words == "the estimate is exact"
    assert json.dumps(score.to_dict(), allow_nan=False)


def test_utility_is_told_in_the_unit_of_the_estimate() -> None:
    table = pd.DataFrame({"x": [1.0, 3.0]})
    schema = Schema((Attribute("x", unit="dollars"),))
    release = Release.of(Microdata(table, schema), Microdata(table + 4, schema), align="rows")
    assert EstimatorUtility("x").score(release).words == "the estimate is typically off by 4 dollars"
    assert EstimatorUtility("x").words(0.0, schema) == "the estimate is useless"
    assert EstimatorUtility("x").score(release).direction == "higher is more useful"


def test_implicates_are_averaged_before_the_error_is_taken() -> None:
    table = pd.DataFrame({"x": [1.0, 3.0]})
    implicates = tuple(data(pd.DataFrame({"x": [v, v]})) for v in (1.0, 5.0, 9.0))  # mean 5, truth 2
    assert_allclose(EstimatorUtility("x").score(Release(data(table), implicates)).value, 1 / 9)


# -- estimators against NumPy and statsmodels


def test_means_and_their_combinations() -> None:
    table = survey()
    known = data(table)
    assert_allclose(Mean("salary").estimate(known, {}), table["salary"].mean())
    difference = MeanCombination({"income": 1, "salary": -1})
    assert_allclose(difference.estimate(known, {}), (table["income"] - table["salary"]).mean())
    assert difference.label() == "mean income − mean salary"
    assert MeanCombination({"income": -0.5, "salary": 2}).label() == "− 0.5 × mean income + 2 × mean salary"
    assert difference.columns() == ("income", "salary")


def test_missing_values_are_left_out_case_by_case() -> None:
    table = survey()
    table.loc[:19, "salary"] = np.nan
    table.loc[10:29, "income"] = np.nan
    known = data(table)
    whole = table.dropna()
    assert_allclose(Mean("salary").estimate(known, {}), table["salary"].mean())
    found = MeanCombination({"income": 1, "salary": -1}).estimate(known, {})
    assert_allclose(found, (whole["income"] - whole["salary"]).mean())
    slope = smf.ols("salary ~ income", whole).fit().params["income"]
    assert_allclose(Slope("salary", "income").estimate(known, {}), slope)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(4, 60), st.floats(-1e4, 1e4))
def test_a_slope_is_that_of_statsmodels(seed: int, n: int, shift: float) -> None:
    table = survey(n, seed)
    table["age"] += shift
    assert_allclose(
        Slope("salary", "age").estimate(data(table), {}), smf.ols("salary ~ age", table).fit().params["age"], rtol=1e-7
    )


def test_a_corrected_slope_is_multiplied_by_1_plus_lambda2() -> None:
    known = data(survey())
    plain = Slope("salary", "age").estimate(known, {})
    corrected = Slope("salary", "age", corrected_by="noise.lambda2")
    assert_allclose(corrected.estimate(known, {"noise.lambda2": 0.15}), 1.15 * plain)
    assert_allclose(corrected.estimate(known, {"noise.lambda2": {"age": 0.3, "salary": 0.1}}), 1.3 * plain)
    assert_allclose(corrected.estimate(known, {"noise.lambda2": {"salary": 0.1}}), plain)
    assert_allclose(corrected.estimate(known, {}), plain)  # nothing is published of an unmasked file
    assert corrected.label() == "slope of salary on age, corrected"


def test_a_correction_by_a_parameter_that_is_not_published_is_refused() -> None:
    wrong = Slope("salary", "age", corrected_by="noise.lambda2")
    with pytest.raises(
        ParameterError,
        match=r"parameter 'noise.lambda2' is not in what is published. Did you mean 'kim_noise.lambda2'\?",
    ):
        ru_map(
            data(survey()),
            KimNoise(columns=("age",)),
            "kim_noise.lambda2",
            "age",
            EstimatorUtility(wrong),
            replications=0,
        )


def test_shorthands_for_estimators() -> None:
    assert as_estimator("salary") == Mean("salary")
    assert as_estimator("salary ~ age") == Formula("salary ~ age")
    assert as_estimator({"income": 1, "salary": -1}) == MeanCombination({"income": 1, "salary": -1})
    assert isinstance(as_estimator(len), Function)
    assert as_estimator(Mean("salary")) == Mean("salary")
    with pytest.raises(ParameterError, match="an estimator is a formula such as"):
        as_estimator(3)


# -- a function of one's own


def test_a_function_sees_a_frame_of_the_kind_that_came_in() -> None:
    def median(frame: Any) -> float:
        seen.append(type(frame).__module__.partition(".")[0])
        return float(frame["salary"].median())

    table = survey()
    for source, module in ((table, "pandas"), (pl.from_pandas(table), "polars")):
        seen: list[str] = []
        known = data(source)
        assert_allclose(Function(median).estimate(known, {}), table["salary"].median())
        ru_map(
            known, KimNoise(columns=("salary",)), {"kim_noise.lambda2": [0.1]}, "salary",
            [EstimatorUtility(median), EstimatorUtility(Function(median, "again"), target="file")], replications=2, draws=1,
        )  # fmt: skip
        assert set(seen) == {module}


class SensitiveError(Exception):
    """An error that quotes data."""


def quote(frame: pd.DataFrame) -> float:
    raise SensitiveError(f"cannot digest {frame['salary'].iloc[0]}")


def text(frame: pd.DataFrame) -> Any:
    return f"{frame['salary'].iloc[0]} dollars"


def missing(frame: pd.DataFrame) -> float:
    return float(frame["salary"].iloc[0]) * math.nan


@pytest.mark.parametrize(
    ("function", "says"),
    [(quote, "failed with SensitiveError"), (text, "failed with ValueError"), (missing, "returned NaN")],
)
def test_a_failing_function_does_not_quote_the_data_anywhere(function: Any, says: str) -> None:
    table = survey()
    table.loc[0, "salary"] = 123456.789
    source = data(table)
    for run in (
        lambda: EstimatorUtility(function).prepare(source),
        lambda: ru_map(
            source, KimNoise(columns=("age",)), "kim_noise.lambda2", "age", function, replications=2, draws=1
        ),
    ):
        with pytest.raises(DataError, match=f"the estimator '{function.__name__}' {says}") as failure:
            run()
        shown = "".join(traceback.format_exception(failure.value))
        error: BaseException | None = failure.value
        while error is not None:
            shown += repr(error)
            assert error.__cause__ is None
            error = error.__context__
        assert "123456" not in shown


def test_a_function_has_a_name_and_cannot_be_written() -> None:
    assert Function(quote).label() == "quote"
    assert Function(quote, title="median salary").label() == "median salary"
    with pytest.raises(ParameterError, match="a Python function cannot be written to a file"):
        EstimatorUtility(quote).to_dict()
    with pytest.raises(ParameterError, match="must be a Python function"):
        Function(3)  # type: ignore[arg-type]


# -- what is refused


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_slope_needs_more_than_three_records(n: int) -> None:
    with pytest.raises(DataError, match=f"its variance is infinite for 3 or fewer. There are {n}"):
        Slope("salary", "age").estimate(data(survey(10).iloc[:n]), {})


def test_a_constant_has_no_slope() -> None:
    table = survey().assign(age=40.0)
    with pytest.raises(DataError, match="'age' is constant, so it has no slope"):
        EstimatorUtility(Slope("salary", "age")).prepare(data(table))
    model = NoiseModel(("x", "y"), np.zeros(2), np.diag([0.0, 1.0]), np.zeros((2, 2)), 10)
    with pytest.raises(DataError, match="'x' is constant in the model"):
        Slope("y", "x").mse(model, "population")


def test_text_columns_are_refused_with_the_ones_that_hold_numbers() -> None:
    for estimator in (Mean("sex"), MeanCombination({"sex": 1}), Slope("salary", "sex")):
        with pytest.raises(
            DataError, match=r"column 'sex' holds text or categories.*Columns of numbers: age, salary, income"
        ):
            EstimatorUtility(estimator).prepare(data(survey()))


def test_unknown_columns_are_refused_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"column 'salry' is not in the data. Did you mean 'salary'\?"):
        EstimatorUtility("salry").prepare(data(survey()))


def test_columns_without_values_are_refused() -> None:
    table = survey().assign(salary=np.nan)
    with pytest.raises(DataError, match="mean salary: no record has a value"):
        EstimatorUtility("salary").prepare(data(table, salary={"role": "other"}))


def test_wrong_estimators_are_refused() -> None:
    with pytest.raises(ParameterError, match="a slope needs two different columns"):
        Slope("x", "x")
    for weights in ({}, {"x": 0}):
        with pytest.raises(ParameterError, match="needs a weight other than zero"):
            MeanCombination(weights)
    with pytest.raises(ParameterError, match="target of estimator_utility must be one of 'population', 'file'"):
        EstimatorUtility("x", target="world")  # type: ignore[arg-type]


# -- formulas for files and populations


def test_a_population_needs_a_known_truth() -> None:
    source = NormalPopulation.regression(0.3, 30)
    with pytest.raises(ParameterError, match=r"the true value of 'y ~ square\(x\): square\(x\)' .* is not known"):
        ru_map(source, KimNoise(columns=("x",)), "kim_noise.lambda2", "x", "y ~ square(x)", replications=2)
    m = ru_map(
        source, KimNoise(columns=("x",)), {"kim_noise.lambda2": [0.1]}, "x",
        EstimatorUtility("y ~ square(x)", truth=0.0), replications=2, draws=1,
    )  # fmt: skip
    assert math.isfinite(m.estimate(1, 0)[0])


def test_a_formula_in_a_population_is_held_against_the_true_slope() -> None:
    m = ru_map(
        NormalPopulation.regression(0.5, 50, beta=2.0), KimNoise(columns=("y",)), {"kim_noise.lambda2": [0.5]}, "y",
        [EstimatorUtility("y ~ x"), EstimatorUtility(Slope("y", "x"))], replications=400, draws=5,
    )  # fmt: skip
    assert_allclose(m.observations[1], m.observations[2], rtol=1e-6, atol=1e-18)
    assert within(m.observations[1][0], 4 * (0.5 + 0.5) / (47 * 0.5))  # (4.7)


def test_by_formula_only_records_with_an_answer_count() -> None:
    table = survey(400)[["salary", "income"]]
    table.loc[::2, "salary"] = np.nan
    table.loc[1:100:4, "income"] = np.nan
    source = data(table, salary={"role": "confidential"}, income={"role": "confidential"})
    m = ru_map(
        source, KimNoise(columns=("salary",)), {"kim_noise.lambda2": [0.2]}, "salary",
        ["salary", "income", {"income": 1, "salary": -1}], replications=300, draws=3,
    )  # fmt: skip
    assert_allclose(m.analytic[1][0], 200 / (1.2 * table["salary"].var()))
    both = table.dropna()
    assert_allclose(m.analytic[2][1], table["income"].count() / table.dropna()["income"].var())
    assert_allclose(m.analytic[3][1], len(both) / (both["income"] - both["salary"]).var())
    for i in (1, 2, 3):  # and replications agree, up to their error and to the number of answers varying
        value, interval = m.estimate(i, 0)
        assert interval is not None
        assert interval[0] / 1.1 < m.analytic[i][0] < interval[1] * 1.1, value


def test_a_measure_is_written_and_read_as_a_table() -> None:
    for estimator in (
        Mean("x"),
        MeanCombination({"x": 1, "y": -2}),
        Slope("y", "x", "noise.lambda2"),
        Formula("y ~ x"),
    ):
        measure = EstimatorUtility(estimator, target="file", truth=1.5)
        assert EstimatorUtility.from_dict(measure.to_dict()) == measure


def test_a_prepared_measure_forgets_its_reference_when_the_target_changes() -> None:
    ready = EstimatorUtility("salary").prepare(data(survey()))
    assert ready.reference is not None
    assert ready.with_(target="file").reference is None
    with pytest.raises(AttributeError):
        ready.target = "file"  # type: ignore[misc]


def test_observations_have_the_shape_that_a_measure_declares() -> None:
    release = KimNoise(columns=("salary",)).apply(data(survey()), Draws(1))
    ready = EstimatorUtility("salary").prepare(release.original)
    assert ready.observe(release, Snooper()).shape == (ready.size,) == (1,)
