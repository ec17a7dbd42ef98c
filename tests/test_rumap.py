"""The R-U map: grid, replication with common random numbers, intervals, frontier, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from sfumato import Draws, Microdata, Recipe, Snooper, ru_map
from sfumato.contract import Mask, Measure, Need, NoiseModel, Release, Side, Weighted, Worst, param
from sfumato.datasets.teacher_survey import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError, RecipeError
from sfumato.maps import NormalPopulation, Overlay, RUMap
from sfumato.maps.replication import Evaluator
from sfumato.maps.rumap import MapPoint, RecipeSubject
from sfumato.masks import MDAV, IndependentNoise, KimNoise, Round, TopCode
from sfumato.papers.ru_paper import TEACHERS
from sfumato.risk import AttributeRisk, CodedValueRisk
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope, VarianceKept

LAMBDA2 = "kim_noise.lambda2"
MONEY = ("salary", "income")
SMALL = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=40)


def frame(n: int = 200, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    values = g.multivariate_normal([96, 62], TEACHERS.covariance, n)
    return pd.DataFrame({"income": values[:, 0], "salary": values[:, 1], "sex": g.choice(["f", "m"], n)})


def schema() -> Schema:
    money = [Attribute(n, role="confidential", unit="thousand dollars") for n in ("income", "salary")]  # type: ignore[arg-type]
    return Schema((*money, Attribute("sex", role="key")))  # type: ignore[arg-type]


def file(n: int = 200, seed: int = 1) -> Microdata:
    return Microdata(frame(n, seed), schema())


def quick(source: Any = None, **options: Any) -> RUMap:
    given = {"replications": 20, "draws": 7, **options}
    return ru_map(
        source if source is not None else file(), KimNoise(), {LAMBDA2: [0.05, 0.1, 0.4]}, "salary", "salary", **given
    )


# -- what the R-U paper proposes for later: maps of microaggregation and of binning, on values that are evenly spread


def evenly_spread(step: float) -> Microdata:
    values = step * (np.arange(120) + 0.5)
    return Microdata(pd.DataFrame({"x": values}), Schema((Attribute("x", role="confidential"),)))


def curves(mask: Mask, grid: dict[str, list[float]], data: Microdata) -> tuple[list[float], list[float]]:
    m = ru_map(data, mask, grid, AttributeRisk("x"), VarianceKept(("x",)), replications=2, draws=1)
    (risk,), (kept,) = m.of_side(Side.RISK), m.of_side(Side.UTILITY)
    return [m.estimate(risk, i)[0] for i in range(len(m.points))], [
        m.estimate(kept, i)[0] for i in range(len(m.points))
    ]


def test_the_map_of_microaggregation_has_the_error_of_groups_of_k_neighbours() -> None:
    k = np.array([2, 3, 4, 6, 10, 20])  # k whole numbers in a row have variance (k² - 1)/12, and all 120 (120² - 1)/12
    risk, kept = curves(MDAV(("x",), k=3), {"mdav.k": k.tolist()}, evenly_spread(1.0))
    np.testing.assert_allclose(risk, 12 / (k**2 - 1))
    np.testing.assert_allclose(kept, 1 - (k**2 - 1) / (120**2 - 1))


def test_the_map_of_binning_has_the_error_of_a_value_anywhere_in_its_bin() -> None:
    width = np.array([1.0, 2.0, 4.0])  # 10, 20 and 40 values in a row, 0.1 apart, in a bin
    risk, kept = curves(Round(base={"x": 1}), {"round.base": width.tolist()}, evenly_spread(0.1))
    np.testing.assert_allclose(risk, 12 / (width**2 - 0.01))
    np.testing.assert_allclose(kept, 1 - (width**2 - 0.01) / (0.01 * (120**2 - 1)))


# -- the grid


def test_an_unknown_parameter_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ParameterError, match=r"parameter 'kim_noise.lamda2' is not in the recipe. Did you mean 'kim_noise.lambda2'\?"
    ):
        ru_map(TEACHERS, KimNoise(), "kim_noise.lamda2", "salary", "salary")
    with pytest.raises(ParameterError, match="parameter 'lambda2' is not in the recipe"):
        ru_map(TEACHERS, KimNoise(), "lambda2", "salary", "salary")


def test_negative_noise_and_other_values_out_of_range_are_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"lambda2 of kim_noise must be a number of at least 0 and at most 1e\+06; got -0\.1"
    ):
        ru_map(TEACHERS, KimNoise(), {LAMBDA2: [0.1, -0.1]}, "salary", "salary")
    with pytest.raises(ParameterError, match="quantile of top_code must be"):
        ru_map(file(), TopCode(), {"top_code.quantile": [1.5]}, "salary", "salary")


@pytest.mark.parametrize("values", [0.15, "0.15", {"salary": 0.1}])
def test_values_that_are_no_list_are_refused(values: Any) -> None:
    with pytest.raises(ParameterError, match=r"give a list of values for kim_noise\.lambda2"):
        ru_map(TEACHERS, KimNoise(), {LAMBDA2: values}, "salary", "salary")


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"no values are given for kim_noise\.lambda2"):
        ru_map(TEACHERS, KimNoise(), {LAMBDA2: []}, "salary", "salary")
    with pytest.raises(ParameterError, match="name at least one parameter to sweep"):
        ru_map(TEACHERS, KimNoise(), {}, "salary", "salary")


@pytest.mark.parametrize("replications", [1, -1, 2.5])
def test_a_number_of_replications_without_an_interval_is_refused(replications: Any) -> None:
    with pytest.raises(ParameterError, match=r"replications must be 0 \(formulas alone\), or at least 2"):
        quick(replications=replications)


def test_a_parameters_name_alone_is_swept_over_25_values_from_a_hundredth_to_one() -> None:
    m = ru_map(TEACHERS, KimNoise(), LAMBDA2, "salary", "salary", replications=0)
    values = [p.settings[LAMBDA2] for p in m.points]
    assert len(values) == 25
    assert_allclose([values[0], values[-1]], [0.01, 1])
    assert_allclose(np.diff(np.log(values)), np.log(100) / 24)


def test_numpy_values_become_plain_numbers() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: np.array([0.1, 0.2])}, "salary", "salary", replications=0)
    assert all(type(p.settings[LAMBDA2]) is float for p in m.points)


# -- measures


def test_unknown_columns_and_measures_on_the_wrong_side_are_refused() -> None:
    with pytest.raises(DataError, match=r"column 'salry' is not in the data. Did you mean 'salary'\?"):
        ru_map(file(), KimNoise(), LAMBDA2, "salry", "salary")
    with pytest.raises(DataError, match=r"column 'salry' is not in the data. Did you mean 'salary'\?"):
        ru_map(TEACHERS, KimNoise(), LAMBDA2, "salary", "salry")
    with pytest.raises(ParameterError, match="risk must be a column's name or a risk measure"):
        ru_map(TEACHERS, KimNoise(), LAMBDA2, EstimatorUtility("salary"), "salary")
    with pytest.raises(ParameterError, match="utility must be an estimator or a utility measure"):
        ru_map(TEACHERS, KimNoise(), LAMBDA2, "salary", AttributeRisk("salary"))
    with pytest.raises(ParameterError, match="two measures are called 'risk for salary'"):
        ru_map(TEACHERS, KimNoise(), LAMBDA2, ["salary", "salary"], "salary")


def test_a_map_needs_a_risk_and_a_utility() -> None:
    for source in (TEACHERS, file()):
        with pytest.raises(NotApplicable, match="no risk measure applies; a map needs one"):
            ru_map(source, KimNoise(), LAMBDA2, [], "salary")
        with pytest.raises(NotApplicable, match="no utility measure applies; a map needs one"):
            ru_map(source, KimNoise(), LAMBDA2, "salary", [])


class HoldoutRisk(Measure):
    """A measure that needs a holdout, for the test below."""

    side = Side.RISK
    needs = frozenset({Need.HOLDOUT})
    column: str = param(doc="a column", columns="one")

    def observe(self, outcome: Release, snooper: Snooper) -> Any:
        raise AssertionError("must not be asked")

    def words(self, value: float, schema: Schema) -> str:
        return ""

    def label(self) -> str:
        return "holdout risk"


def test_a_measure_that_does_not_apply_is_named_before_anything_runs() -> None:
    m = ru_map(
        file(), KimNoise(), {LAMBDA2: [0.1]}, [HoldoutRisk("salary"), "salary"], "salary", replications=2, draws=1
    )
    assert m.refused == {
        "holdout risk": "'holdout risk' needs records set aside before masking; set some aside before masking."
    }
    assert [x.label() for x in m.measures] == ["risk for salary", "mean salary"]
    with pytest.raises(NotApplicable, match=r"no risk measure applies.*records set aside before masking"):
        ru_map(file(), KimNoise(), {LAMBDA2: [0.1]}, HoldoutRisk("salary"), "salary")


def test_several_risks_and_utilities_and_their_combinations() -> None:
    risks = [
        AttributeRisk("salary"),
        AttributeRisk("income"),
        Worst((AttributeRisk("salary"), AttributeRisk("income"))),
    ]
    utilities = [EstimatorUtility(Mean("salary")), Weighted((EstimatorUtility("salary"), EstimatorUtility("income")))]
    m = ru_map(file(), KimNoise(), {LAMBDA2: [0.1, 0.3]}, risks, utilities, replications=15, draws=2)
    assert m.of_side(Side.RISK) == (0, 1, 2)
    assert m.of_side(Side.UTILITY) == (3, 4)
    for p in range(2):
        assert_allclose(m.estimate(2, p)[0], max(m.estimate(0, p)[0], m.estimate(1, p)[0]))
        assert_allclose(m.analytic[2][p], max(m.analytic[0][p], m.analytic[1][p]))
    assert m.position(Side.RISK, "risk for income") == 1
    with pytest.raises(
        ParameterError, match=r"risk measure 'risk for incme' is not in the map. Did you mean 'risk for income'\?"
    ):
        m.position(Side.RISK, "risk for incme")


# -- the tidy frame


def test_the_frame_has_one_row_per_point_measure_and_source() -> None:
    m = quick()
    table = m.frame()
    assert list(table.columns) == [
        "point", "family", "settings", LAMBDA2, "masked", "side", "measure", "variant", "source", "value", "low", "high",
        "limit",
    ]  # fmt: skip
    assert len(table) == (3 + 1) * 2 * 2
    assert set(table["source"]) == {"empirical", "analytic"}
    unmasked = table[~table["masked"]]
    assert unmasked[LAMBDA2].isna().all()
    assert (unmasked[unmasked["side"] == "risk"]["value"] == math.inf).all()
    masked = table[table["masked"]]
    assert ((masked["low"] <= masked["value"]) & (masked["value"] <= masked["high"])).all()
    for side, i in (("risk", 0), ("utility", 1)):
        rows = masked[(masked["side"] == side) & (masked["source"] == "empirical")]
        assert_allclose(rows["value"], [m.estimate(i, p)[0] for p in range(3)])
        rows = masked[(masked["side"] == side) & (masked["source"] == "analytic")]
        assert_allclose(rows["value"], m.analytic[i][:-1])


def test_without_replications_there_are_formulas_alone() -> None:
    table = quick(replications=0).frame()
    assert set(table["source"]) == {"analytic"}
    assert_allclose(table["low"], table["value"])


def test_a_recipe_without_formula_gives_empirical_rows_only() -> None:
    m = ru_map(
        file(), TopCode(columns=("salary",)), {"top_code.quantile": [0.8, 0.9, 0.99]}, CodedValueRisk("salary"),
        ["salary", {"salary": 1, "income": -1}], replications=10, draws=1,
    )  # fmt: skip
    assert set(m.frame()["source"]) == {"empirical"}
    with pytest.raises(
        RecipeError,
        match="there is no formula for coded-value risk for salary, mean salary with this recipe; ask for replications",
    ):
        ru_map(
            file(), TopCode(columns=("salary",)), {"top_code.quantile": [0.8]}, CodedValueRisk("salary"), "salary",
            replications=0,
        )  # fmt: skip


def test_a_deterministic_mask_of_a_file_has_an_exact_risk() -> None:
    source = file()
    m = ru_map(
        source, TopCode(columns=("salary",)), {"top_code.value": [60.0]}, CodedValueRisk("salary", average="error"), "salary",
        replications=5, draws=1,
    )  # fmt: skip
    beyond = source.numbers("salary")
    beyond = beyond[beyond > 60]
    value, interval = m.estimate(0, 0)
    assert_allclose(value, 1 / ((beyond - 60) ** 2).mean())
    assert_allclose(interval, (value, value))


def test_a_map_for_machines_is_json() -> None:
    for m in (quick(), quick(replications=0), quick(SMALL)):
        table = json.loads(json.dumps(m.to_dict(), allow_nan=False))
        assert table["parameters"] == [LAMBDA2]
        assert len(table["points"]) == len(m.frame())
        first = table["points"][0]
        assert first[LAMBDA2] == 0.05
        assert isinstance(first["value"], float)
        assert "inf" in {row["value"] for row in table["points"] if not row["masked"]}
    assert json.loads(json.dumps(quick().to_dict()))["snooper"].startswith("knows which record is the target's")


# -- common random numbers


def test_the_same_seed_gives_the_same_map_and_another_seed_another() -> None:
    for source in (file(), SMALL):
        a, b, c = quick(source), quick(source), quick(source, draws=8)
        for i in range(2):
            assert_array_equal(a.observations[i], b.observations[i])
            assert (a.observations[i][0] != c.observations[i][0]).all()


def test_a_seed_that_is_not_given_is_fresh() -> None:
    a, b = quick(draws=None), quick(draws=None)
    assert (a.observations[0][0] != b.observations[0][0]).all()


def test_the_number_of_workers_does_not_change_anything() -> None:
    for source in (file(), SMALL):
        for snooper in (Snooper(), Snooper(strategy="bayes", parameter_published=True, match_probability=0.9)):
            one, two = (quick(source, workers=w, snooper=snooper) for w in (1, 2))
            for a, b in zip(one.observations, two.observations, strict=True):
                assert_array_equal(a, b)


@pytest.mark.parametrize("source", [file(), SMALL], ids=["file", "population"])
@pytest.mark.parametrize("mask", [KimNoise(), IndependentNoise()], ids=lambda m: m.name)
def test_neighbouring_points_share_noise_so_the_risk_curve_is_exactly_1_over_lambda2(source: Any, mask: Any) -> None:
    grid = [0.01, 0.15, 0.3, 2.0]
    m = ru_map(source, mask, {f"{mask.name}.lambda2": grid}, "salary", "salary", replications=10, draws=3)
    curve = np.array([m.estimate(0, p)[0] for p in range(4)])
    assert_allclose(curve * grid, curve[0] * 0.01, rtol=1e-9)
    assert_allclose(
        m.observations[0][:-1, :, 0] / np.array(grid)[:, None], m.observations[0][[0] * 4, :, 0] / 0.01, rtol=1e-9
    )


def test_a_point_gives_the_same_numbers_whatever_other_points_are_in_the_map() -> None:
    wide = quick()
    alone = ru_map(file(), KimNoise(), {LAMBDA2: [0.1]}, "salary", "salary", replications=20, draws=7)
    for i in range(2):
        assert_array_equal(wide.observations[i][1], alone.observations[i][0])
        assert_array_equal(wide.observations[i][-1], alone.observations[i][-1])


def test_more_replications_only_add_to_those_there_are() -> None:
    few, many = quick(replications=5), quick(replications=20)
    for i in range(2):
        assert_array_equal(few.observations[i], many.observations[i][:, :5])


def test_progress_is_told_after_every_replication() -> None:
    seen: list[tuple[int, int]] = []
    quick(replications=6, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 6) for k in range(1, 7)]


# -- where the data live


def test_a_map_of_data_in_duckdb_is_that_of_the_same_data_in_pandas() -> None:
    table = frame()
    connection = duckdb.connect()
    connection.register("survey", table)
    stored = Microdata(connection.sql("select * from survey"), schema())
    measures = [Slope("income", "salary"), MeanCombination({"income": 1, "salary": -1})]
    snooper = Snooper(strategy="bayes", parameter_published=True, covariates=("sex",))
    maps = [
        ru_map(
            source, KimNoise(columns=("salary",)), {LAMBDA2: [0.1, 0.2]}, "salary", measures, snooper=snooper,
            replications=12, draws=5,
        )
        for source in (Microdata(table, schema()), stored)
    ]  # fmt: skip
    for a, b in zip(maps[0].observations, maps[1].observations, strict=True):
        assert_allclose(a, b, rtol=1e-12)
    pd.testing.assert_frame_equal(maps[0].frame(), maps[1].frame())


# -- resampling, populations, noise


def test_with_target_population_the_error_includes_sampling() -> None:
    source = file(100)
    m = quick(source, replications=800)
    sampling = source.numbers("salary").var() / 100
    squares = m.observations[1][-1]
    assert abs(squares.mean() - sampling) < 4 * squares.std() / math.sqrt(800)  # the unmasked file
    squares = m.observations[1][2]
    assert abs(squares.mean() - 1.4 * sampling) < 4 * squares.std() / math.sqrt(800)


def test_a_populations_noise_is_scaled_by_its_own_covariance_not_by_each_samples() -> None:
    few = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=5)
    for mask in (
        KimNoise(),
        IndependentNoise(),
        KimNoise(columns=("salary",)) >> IndependentNoise(columns=("income",)),
    ):
        fitted = few.fit(mask if isinstance(mask, Recipe) else mask.as_recipe())
        names, covariance = ("income", "salary"), few.covariance
        total = np.zeros((2, 2))
        for step in fitted.steps[1:]:
            root = np.zeros((2, len(step.mask.names)))  # type: ignore[attr-defined]
            for row, name in zip(step.mask.root, step.mask.names, strict=True):  # type: ignore[attr-defined]
                root[names.index(name)] = row
            total += 0.15 * root @ root.T
        assert_allclose(total, fitted.noise(names, covariance, few.schema), rtol=1e-12)


def test_two_steps_of_noise_add_up() -> None:
    recipe = Recipe.of(first=KimNoise(columns=("salary",)), second=KimNoise(columns=("salary",), lambda2=0.5))
    source = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=30)
    m = ru_map(source, recipe, {"first.lambda2": [0.2]}, "salary", "salary", replications=800, draws=1)
    noise = 0.2 * 13.3**2 + 0.5 * 1.2 * 13.3**2  # the second is scaled by what the first made
    assert_allclose(m.analytic[0][0], 1 / noise)
    squares = m.observations[0][0]
    assert abs(squares.mean() - noise) < 4 * squares.std() / math.sqrt(800)


def test_noise_before_a_step_without_formula_is_the_populations_too() -> None:
    recipe = KimNoise(columns=("salary",)) >> TopCode(columns=("salary",), value=62.0)
    source = NormalPopulation({"salary": 62.0}, [[13.3**2]], n=4)
    m = ru_map(source, recipe, {LAMBDA2: [1.0]}, "salary", "salary", replications=1500, draws=1)
    g = np.random.default_rng(1)
    x, noise = 13.3 * g.standard_normal((2, 400_000))
    squares = (np.minimum(x + noise, 0) - x) ** 2
    observed = m.observations[0][0]
    gap = abs(observed.mean() - squares.mean())
    assert gap < 4 * math.hypot(observed.std() / math.sqrt(1500), squares.std() / math.sqrt(400_000))


def test_a_wrong_population_is_refused_in_a_sentence() -> None:
    with pytest.raises(ParameterError, match="2 columns need a covariance matrix of 2 × 2 numbers"):
        NormalPopulation({"a": 0, "b": 0}, [[1.0]], n=5)
    with pytest.raises(ParameterError, match="the covariance matrix is not symmetric"):
        NormalPopulation({"a": 0, "b": 0}, [[1.0, 0.5], [0.2, 1.0]], n=5)
    with pytest.raises(ParameterError, match="the covariance matrix of a, b is not positive semi-definite"):
        NormalPopulation({"a": 0, "b": 0}, [[1.0, 2.0], [2.0, 1.0]], n=5)
    with pytest.raises(ParameterError, match="missing or infinite entries"):
        NormalPopulation({"a": 0}, [[math.nan]], n=5)
    with pytest.raises(ParameterError, match="a sample needs at least one record"):
        NormalPopulation({"a": 0}, [[1.0]], n=0)
    for r2 in (0, 1):
        with pytest.raises(ParameterError, match="r2 must lie between 0 and 1"):
            NormalPopulation.regression(r2, 10)
    with pytest.raises(ParameterError, match="a model of 1 columns needs a mean of 1 numbers and 1 × 1 matrices"):
        NoiseModel(("a",), np.zeros(2), np.eye(1), np.eye(1), 5)


def test_samples_of_a_population_have_its_moments() -> None:
    many = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=200_000)
    sample = many.sample(np.random.default_rng(3))
    values = np.column_stack([sample.numbers("income"), sample.numbers("salary")])
    assert_allclose(values.mean(axis=0), [96, 62], atol=4 * 17.5 / math.sqrt(200_000))
    assert_allclose(np.cov(values.T), TEACHERS.covariance, rtol=0.03)
    singular = NormalPopulation({"a": 1.0, "b": 2.0}, [[1.0, 2.0], [2.0, 4.0]], n=10).sample(np.random.default_rng(1))
    assert_allclose(singular.numbers("b") - 2, 2 * (singular.numbers("a") - 1))


# -- two parameters


def test_a_map_over_two_parameters_has_all_combinations() -> None:
    m = ru_map(
        TEACHERS, KimNoise(columns=MONEY), {"kim_noise.lambda2.salary": [0.1, 0.2], "kim_noise.lambda2.income": [0.3, 0.4, 0.5]},
        ["salary", "income"], {"income": 1, "salary": -1}, replications=0,
    )  # fmt: skip
    assert len(m.points) == 6
    c = np.array([1.0, -1.0])
    for p, point in enumerate(m.points):
        a, b = point.settings["kim_noise.lambda2.salary"], point.settings["kim_noise.lambda2.income"]
        root = np.sqrt([b, a])
        noise = TEACHERS.covariance * np.outer(root, root)
        assert_allclose(m.analytic[0][p], 1 / (a * 13.3**2))
        assert_allclose(m.analytic[1][p], 1 / (b * 17.5**2))
        assert_allclose(m.analytic[2][p], 1000 / (c @ (TEACHERS.covariance + noise) @ c))
    assert list(m.frame().columns[3:5]) == ["kim_noise.lambda2.salary", "kim_noise.lambda2.income"]


def test_two_steps_can_be_swept_together_and_replications_agree_with_formulas() -> None:
    recipe = Recipe.of(a=KimNoise(columns=("salary",)), b=IndependentNoise(columns=("income",)))
    m = ru_map(
        SMALL, recipe, {"a.lambda2": [0.1, 1.0], "b.lambda2": [0.2, 0.6]}, ["salary", "income"], Slope("income", "salary"),
        replications=500, draws=4,
    )  # fmt: skip
    for p in range(4):
        for i in range(3):
            squares = m.observations[i][p]
            assert abs(squares.mean() - 1 / m.analytic[i][p]) < 4.5 * squares.std() / math.sqrt(500)


# -- intervals


def test_the_interval_of_a_constant_is_a_point_and_of_one_replication_there_is_none() -> None:
    measure = AttributeRisk("x")
    assert measure.estimate(np.full((5, 1), 4.0)) == (0.25, (0.25, 0.25))
    assert measure.estimate(np.zeros((5, 1))) == (math.inf, (math.inf, math.inf))
    assert measure.estimate(np.array([[4.0]])) == (0.25, None)
    value, interval = measure.estimate(np.array([[0.0], [4.0]]))  # leaving one out leaves nothing to divide by
    assert (value, interval) == (0.5, None)


def test_the_interval_is_that_of_the_jackknife_on_the_logarithm() -> None:
    g = np.random.default_rng(1)
    errors = g.chisquare(1, 12)
    value, interval = AttributeRisk("x").estimate(errors[:, None])
    assert_allclose(value, 1 / errors.mean())
    logs = np.array([-math.log(np.delete(errors, i).mean()) for i in range(12)])
    half = 2.200985160082949 * math.sqrt(11 / 12 * ((logs - logs.mean()) ** 2).sum())  # t with 11 degrees of freedom
    assert_allclose(interval, (value * math.exp(-half), value * math.exp(half)))


@pytest.mark.parametrize("seeds", [80, pytest.param(200, marks=pytest.mark.verify)])
def test_95_percent_intervals_of_utility_cover_the_truth(seeds: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A squared error is far from normal, so 50 replications cover a little less than 95 %."""
    few = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=30)
    covered = {"risk": 0, "utility": 0}
    for seed in range(seeds):
        m = ru_map(few, KimNoise(), {LAMBDA2: [0.15]}, "salary", "salary", replications=50, draws=seed, workers=1)
        for i, truth in ((0, 1 / (0.15 * 13.3**2)), (1, 30 / (1.15 * 13.3**2))):
            _, interval = m.estimate(i, 0)
            assert interval is not None
            covered[m.measures[i].side.value] += interval[0] <= truth <= interval[1]
    with capsys.disabled():
        print(f"\n95 % intervals from 50 replications, {seeds} seeds: {covered} cover the truth")
    assert binom.cdf(covered["utility"], seeds, 0.93) > 1e-3
    assert binom.cdf(covered["risk"], seeds, 0.95) > 1e-3
    assert covered["utility"] >= (0.88 if seeds >= 200 else 0.84) * seeds  # three standard errors of 80 below 93 %


# -- the frontier


def fake(risks: list[float], utilities: list[float]) -> RUMap:
    """Return a map with given values."""
    evaluator = Evaluator(
        TEACHERS, KimNoise().as_recipe(), (AttributeRisk("salary"), EstimatorUtility("salary")), Snooper(), Draws(1)
    )
    pairs = enumerate(zip(risks, utilities, strict=True))
    points = tuple(MapPoint("noise", {LAMBDA2: 0.1 + k}, None, formulas=pair) for k, pair in pairs)
    unmasked = MapPoint("noise", {}, None, formulas=(math.inf, 1.0))
    return RUMap(RecipeSubject(evaluator, 0), points, (LAMBDA2,), unmasked)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_frontier_is_what_brute_force_finds(pairs: list[tuple[int, int]]) -> None:
    m = fake([float(r) for r, _ in pairs], [float(u) for _, u in pairs])
    found = m.frontier()
    expected = []
    for k, (r, u) in enumerate(pairs):
        beaten = False
        for other, (c, d) in enumerate(pairs):
            no_worse, better = c <= r and d >= u, c < r or d > u
            beaten = beaten or (other != k and no_worse and better)
        if not beaten:
            expected.append((r, u, 0.1 + k))
    assert sorted(zip(found["risk"], found["utility"], found[LAMBDA2], strict=True)) == sorted(expected)
    assert found["risk"].is_monotonic_increasing
    assert len(found) >= 1


def test_on_figure_1_every_point_is_on_the_frontier() -> None:
    m = ru_map(TEACHERS, KimNoise(), LAMBDA2, "salary", "salary", replications=0)
    assert len(m.frontier()) == len(m.points)


def test_the_frontier_drops_noise_that_serves_nobody() -> None:
    """ERRATA 0.4: below λ² = 0.003413 more noise is both safer and more useful."""
    m = ru_map(
        NormalPopulation.regression(0.3, 200), KimNoise(columns=("x",)), {LAMBDA2: [0.0005, 0.001, 0.002, 0.0034, 0.01, 0.1]},
        "x", Slope("y", "x"), replications=0,
    )  # fmt: skip
    assert_allclose(sorted(m.frontier()[LAMBDA2]), [0.0034, 0.01, 0.1])


# -- a survey as a newcomer has it


def test_a_map_of_the_teacher_survey_follows_the_papers_formula() -> None:
    source = teachers(2000)
    m = ru_map(
        source, KimNoise(), {LAMBDA2: [0.05, 0.15, 0.5]}, "salary", ["salary", {"income": 1, "salary": -1}],
        replications=60, draws=1,
    )  # fmt: skip
    salary, income = source.numbers("salary"), source.numbers("income")
    for p, l2 in enumerate((0.05, 0.15, 0.5)):
        assert_allclose(m.analytic[0][p], 1 / (l2 * salary.var(ddof=1)))
        assert_allclose(m.analytic[1][p], 2000 / ((1 + l2) * salary.var(ddof=1)))
        assert_allclose(m.analytic[2][p], 2000 / ((1 + l2) * (income - salary).var(ddof=1)))
        value, interval = m.estimate(0, p)
        assert interval is not None
        assert_allclose(value, m.analytic[0][p], rtol=0.02)


def test_a_snooper_with_a_categorical_covariate_has_no_formula_but_replications() -> None:
    snooper = Snooper(strategy="bayes", parameter_published=True, covariates=("sex",))
    m = ru_map(file(), KimNoise(), {LAMBDA2: [0.1]}, "salary", "salary", snooper=snooper, replications=5, draws=1)
    assert math.isnan(m.analytic[0][0])
    assert m.estimate(0, 0)[0] > 0
    with pytest.raises(RecipeError, match="there is no formula for risk for salary"):
        ru_map(file(), KimNoise(), {LAMBDA2: [0.1]}, "salary", "salary", snooper=snooper, replications=0)


def test_targets_that_a_small_sample_may_lack_are_counted_over_all_replications() -> None:
    m = ru_map(
        SMALL, KimNoise(), {LAMBDA2: [0.2]}, AttributeRisk("salary", low=0.99), "salary",
        snooper=Snooper(match_probability=0.9), replications=1500, draws=2,
    )  # fmt: skip
    observed = m.observations[0][0]
    assert (observed[:, 1] == 0).mean() > 0.5  # most samples of 40 have nobody above the 99th percentile
    value, interval = m.estimate(0, 0)
    assert interval is not None
    assert_allclose(value, observed[:, 1].sum() / observed[:, 0].sum())
    assert interval[0] * 0.95 < m.analytic[0][0] < interval[1] * 1.05


def test_maps_are_laid_over_one_another_only_if_swept_over_the_same_parameter() -> None:
    kim, independent = (
        ru_map(
            TEACHERS,
            Recipe.of(noise=mask()),
            {"noise.lambda2": [0.1, 0.4]},
            "salary",
            {"income": 1, "salary": -1},
            replications=0,
        )
        for mask in (KimNoise, IndependentNoise)
    )
    both = Overlay({"Kim": kim, "independent": independent})
    table = both.frame().query("masked and side == 'utility'").set_index(["map", "noise.lambda2"])["value"]
    # c'(Σ + λ²Σ)c against c'(Σ + λ² diag Σ)c: positively correlated noise cancels in a difference
    assert table["Kim", 0.4] == pytest.approx(1000 / (1.4 * 345.36))
    assert table["independent", 0.4] == pytest.approx(1000 / (345.36 + 0.4 * (17.5**2 + 13.3**2)))
    assert both["Kim"] is kim
    other = ru_map(TEACHERS, KimNoise(), {"kim_noise.lambda2": [0.1]}, "salary", "salary", replications=0)
    with pytest.raises(ParameterError, match="same parameter"):
        Overlay({"a": kim, "b": other})
    with pytest.raises(ParameterError, match="at least one map"):
        Overlay({})
