"""Attribute risk and coded-value risk, against a slow twin, statsmodels, and simulation."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from sfumato import Draws, Microdata, Release, Snooper
from sfumato.contract import NoiseModel, Score, Side
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import BottomCode, Identity, KimNoise, TopCode
from sfumato.risk import AttributeRisk, CodedValueRisk
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
BAYES = Snooper(strategy="bayes", parameter_published=True)


def schema(frame: pd.DataFrame) -> Schema:
    roles = {"x": {"role": "confidential", "unit": "thousand dollars"}}
    return Schema(tuple(Attribute(n, **roles.get(n, {})) for n in frame.columns))  # type: ignore[arg-type]


def pair(before: pd.DataFrame, y: Numbers) -> Release:
    """Return a release in which only column x was masked."""
    after = before.assign(x=y)
    return Release.of(Microdata(before, schema(before)), Microdata(after, schema(after)), align="rows")


def records(n: int = 60, seed: int = 1, noise: float = 5.0) -> tuple[pd.DataFrame, Numbers]:
    """Return x with covariates z, w and g, and a masked x."""
    g = np.random.default_rng(seed)
    z = g.normal(0, 1, n)
    group = g.integers(0, 3, n)
    x = 60 + 8 * z + 4.0 * group + g.normal(0, 6, n)
    frame = pd.DataFrame({"x": x, "z": z, "w": g.normal(10, 2, n), "g": np.array(["a", "b", "c"])[group]})
    return frame, x + g.normal(0, noise, n)


# -- a slow twin: every linkage outcome of every record, one by one


def slow_prediction(snooper: Snooper, x: Numbers, y: Numbers, z: Numbers) -> list[tuple[float, float, Numbers]]:
    """Return (constant, weight of the released value, weights of z) of each prediction open to the snooper."""
    q, m = z.shape[1], snooper.match_probability
    if snooper.strategy == "naive":
        return [(0.0, 1.0, np.zeros(q))]
    from_z = np.linalg.lstsq(np.column_stack([np.ones(len(x)), z]), x, rcond=None)[0]
    if not snooper.parameter_published:
        return [(0.0, 1.0, np.zeros(q)), (from_z[0], 0.0, from_z[1:])]
    # moments of (x, linked y, z), one term at a time: a wrong link is a stranger, so its covariances vanish
    known = np.column_stack([y, z])
    size, n = 1 + q, len(x)
    matrix, target = np.zeros((size, size)), np.zeros(size)
    for i, j in itertools.product(range(size), repeat=2):
        share = m if (i == 0) != (j == 0) else 1.0
        matrix[i, j] = share * sum((known[:, i] - known[:, i].mean()) * (known[:, j] - known[:, j].mean())) / n
    for i in range(size):
        target[i] = (m if i == 0 else 1.0) * sum((known[:, i] - known[:, i].mean()) * (x - x.mean())) / n
    weights = np.linalg.solve(matrix, target)
    constant = x.mean() - weights[0] * y.mean() - weights[1:] @ z.mean(axis=0)
    return [(constant, weights[0], weights[1:])]


def slow_errors(snooper: Snooper, x: Numbers, y: Numbers, z: Numbers) -> Numbers:
    n, m = len(x), snooper.match_probability
    found = []
    for a, b, c in slow_prediction(snooper, x, y, z):
        errors = np.zeros(n)
        for i in range(n):
            for j in range(n):
                guess = a + b * y[j] + c @ z[i]
                errors[i] += (m if j == i else (1 - m) / (n - 1)) * (guess - x[i]) ** 2
        found.append(errors)
    return min(found, key=lambda e: float(e.mean()))


SNOOPERS = [
    Snooper(),
    Snooper(match_probability=0.7),
    Snooper(match_probability=0.0),
    Snooper(strategy="bayes"),
    Snooper(strategy="bayes", match_probability=0.6),
    Snooper(strategy="bayes", covariates=("z",)),
    BAYES,
    Snooper(strategy="bayes", parameter_published=True, match_probability=0.7),
    Snooper(strategy="bayes", parameter_published=True, covariates=("z", "w")),
    Snooper(strategy="bayes", parameter_published=True, covariates=("z", "w"), match_probability=0.7),
]


@pytest.mark.parametrize("snooper", SNOOPERS, ids=lambda s: s.describe())
@pytest.mark.parametrize("targets", [(0.0, 1.0), (0.75, 1.0), (0.2, 0.6)])
@pytest.mark.parametrize("gaps", [False, True])
def test_each_records_risk_is_that_of_the_slow_twin(snooper: Snooper, targets: tuple[float, float], gaps: bool) -> None:
    frame, y = records(14)
    if gaps:
        frame.loc[[2, 5], "x"] = np.nan
        frame.loc[[7], "z"] = np.nan
        y[2] = np.nan
    known = frame["x"].notna().to_numpy()
    ends = np.quantile(frame["x"].to_numpy()[known], targets)
    if snooper.covariates:
        known = known & frame["z"].notna().to_numpy()
    x, z = frame["x"].to_numpy(), frame[list(snooper.covariates)].to_numpy()
    expected = np.full(len(x), np.nan)
    expected[known] = slow_errors(snooper, x[known], y[known], z[known])
    expected[~((x >= ends[0]) & (x <= ends[1]))] = np.nan
    score = AttributeRisk("x", *targets).score(pair(frame, y), snooper)
    assert score.records is not None
    assert_allclose(score.records, 1 / expected, rtol=1e-9)
    assert_allclose(score.value, 1 / np.nanmean(expected), rtol=1e-9)
    assert_allclose(score.details["rms error"] ** 2, np.nanmean(expected), rtol=1e-9)
    assert score.details["targets"] == np.isfinite(expected).sum()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0.1, 30))
def test_any_file_and_match_probability_agree_with_the_slow_twin(seed: int, m: float, noise: float) -> None:
    frame, y = records(9, seed, noise)
    for base in (Snooper(), Snooper(strategy="bayes", parameter_published=True, covariates=("z",))):
        snooper = base.with_(match_probability=m)
        z = frame[list(snooper.covariates)].to_numpy()
        expected = slow_errors(snooper, frame["x"].to_numpy(), y, z)
        assert_allclose(AttributeRisk("x").score(pair(frame, y), snooper).records, 1 / expected, rtol=1e-7)


# -- against statsmodels


def residual_square(formula: str, frame: pd.DataFrame) -> float:
    return float((smf.ols(formula, frame).fit().resid ** 2).mean())


def test_a_bayes_snooper_is_a_regression_of_the_original_on_what_he_knows() -> None:
    frame, y = records()
    release, together = pair(frame, y), frame.assign(y=y)
    assert_allclose(AttributeRisk("x").score(release, BAYES).value, 1 / residual_square("x ~ y", together))
    snooper = BAYES.with_(covariates=("z", "w", "g"))
    expected = smf.ols("x ~ y + z + w + C(g)", together).fit().resid ** 2
    score = AttributeRisk("x").score(release, snooper)
    assert_allclose(score.value, 1 / expected.mean())
    assert_allclose(score.records, 1 / expected, rtol=1e-7)


def test_a_snooper_who_is_not_told_the_noise_level_uses_the_better_of_release_and_covariates() -> None:
    snooper = Snooper(strategy="bayes", covariates=("z", "g"))
    frame, little = records(noise=3.0)
    naive = 1 / ((little - frame["x"]) ** 2).mean()
    assert_allclose(AttributeRisk("x").score(pair(frame, little), snooper).value, naive)
    frame, much = records(noise=40.0)
    from_rest = 1 / residual_square("x ~ z + C(g)", frame)
    assert_allclose(AttributeRisk("x").score(pair(frame, much), snooper).value, from_rest)
    assert_allclose(
        AttributeRisk("x").score(pair(frame, much), snooper.with_(covariates=())).value, 1 / frame["x"].var(ddof=0)
    )


def test_not_answering_is_a_category_of_its_own_to_a_snooper() -> None:
    frame, y = records(80)
    frame.loc[frame.index % 5 == 0, "g"] = None
    expected = residual_square("x ~ y + C(g)", frame.assign(y=y, g=frame["g"].fillna("none")))
    assert_allclose(AttributeRisk("x").score(pair(frame, y), BAYES.with_(covariates=("g",))).value, 1 / expected)


def test_the_units_of_the_columns_do_not_matter() -> None:
    frame, y = records()
    snooper = BAYES.with_(covariates=("z",))
    plain = AttributeRisk("x").score(pair(frame, y), snooper).value
    scaled = frame.assign(x=frame["x"] * 1e6, z=frame["z"] * 1e-6)
    assert_allclose(AttributeRisk("x").score(pair(scaled, y * 1e6), snooper).value, plain * 1e-12)


def test_a_covariate_that_repeats_another_changes_nothing() -> None:
    frame, y = records()
    twice = frame.assign(again=frame["z"] * 3 - 1)
    alone = AttributeRisk("x").score(pair(frame, y), BAYES.with_(covariates=("z",))).value
    assert_allclose(AttributeRisk("x").score(pair(twice, y), BAYES.with_(covariates=("z", "again"))).value, alone)


def test_better_informed_snoopers_are_the_greater_risk() -> None:
    frame, y = records(500)
    release = pair(frame, y)
    ladder = [
        Snooper(match_probability=0.5), Snooper(), BAYES, BAYES.with_(covariates=("z",)), BAYES.with_(covariates=("z", "g")),
    ]  # fmt: skip
    risks = [AttributeRisk("x").score(release, s).value for s in ladder]
    assert risks == sorted(risks)


# -- which records, which vector


def test_the_vector_has_one_place_for_every_original_record_whatever_was_released() -> None:
    before = pd.DataFrame({"x": [10.0, 20.0, 30.0, 40.0, 50.0]})
    after = pd.DataFrame({"x": [33.0, 11.0, 7.0, 54.0]})
    original, masked = Microdata(before, schema(before)), Microdata(after, schema(after))
    score = AttributeRisk("x").score(Release.of(original, masked, align=[2, 0, -1, 4]))  # -1: a simulated record
    assert_allclose(score.records, [1, np.nan, 1 / 9, np.nan, 1 / 16])
    assert_allclose(score.value, 3 / (1 + 9 + 16))


def test_risk_by_group_of_targets() -> None:
    frame, y = records(101)
    score = AttributeRisk("x", edges=(0, 0.5, 1)).score(pair(frame, y))
    x = frame["x"].to_numpy()
    low = x < np.median(x)
    errors = (y - x) ** 2
    assert_allclose(list(score.groups.values()), [1 / errors[low].mean(), 1 / errors[~low].mean()])


def test_a_range_of_quantiles_without_records_is_not_applicable() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    with pytest.raises(NotApplicable, match=r"no record of 'x' lies between quantiles 0.6 and 0.7"):
        AttributeRisk("x", 0.6, 0.7).score(pair(frame, np.array([1.0, 2.0, 4.0])))


def test_without_alignment_the_risk_is_not_applicable() -> None:
    frame, y = records()
    loose = Release.of(Microdata(frame, schema(frame)), Microdata(frame.assign(x=y), schema(frame)))
    for measure in (AttributeRisk("x"), CodedValueRisk("x")):
        with pytest.raises(NotApplicable, match="which released record came from which original record"):
            measure.score(loose)


def test_a_covariate_that_the_recipe_masks_is_refused() -> None:
    frame, _ = records()
    release = KimNoise(columns=("x", "z")).apply(Microdata(frame, schema(frame)), Draws(1))
    with pytest.raises(NotApplicable, match="said to know 'z' exactly, but the recipe masks it"):
        AttributeRisk("x").score(release, BAYES.with_(covariates=("z",)))


def test_no_common_value_is_not_applicable() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan]})
    with pytest.raises(NotApplicable, match="no record has 'x' both before and after masking"):
        AttributeRisk("x").score(pair(frame, np.array([np.nan, 2.0])))


def test_wrong_parameters_and_columns_are_refused_in_a_sentence() -> None:
    frame, y = records()
    release = pair(frame, y)
    with pytest.raises(ParameterError, match=r"targets from quantile 0.9 to 0.1: the range is empty"):
        AttributeRisk("x", 0.9, 0.1)
    with pytest.raises(ParameterError, match="edges must be rising quantiles"):
        AttributeRisk("x", edges=(0.5, 0.1))
    with pytest.raises(DataError, match=r"column 'g' holds text or categories, where numbers are needed"):
        AttributeRisk("g").score(release)
    with pytest.raises(DataError, match=r"column 'xx' is not in the data. Did you mean 'x'\?"):
        AttributeRisk("xx").score(release)
    with pytest.raises(
        ParameterError, match="match_probability of snooper must be a number of at least 0 and at most 1"
    ):
        Snooper(match_probability=1.2)
    with pytest.raises(ParameterError, match="strategy of snooper must be one of 'naive', 'bayes'"):
        Snooper(strategy="clever")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="parameter_published of snooper must be true or false"):
        Snooper(parameter_published="yes")  # type: ignore[arg-type]


# -- the ends of the scale, and words


@pytest.mark.parametrize("snooper", [s for s in SNOOPERS if s.match_probability == 1], ids=lambda s: s.describe())
def test_when_nothing_is_masked_the_risk_is_infinite(snooper: Snooper) -> None:
    frame, _ = records()
    data = Microdata(frame, schema(frame))
    for release in (Identity().apply(data, Draws(1)), KimNoise(columns=("x",), lambda2=0).apply(data, Draws(1))):
        for measure in (AttributeRisk("x"), AttributeRisk("x", low=0.9)):
            score = measure.score(release, snooper)
            assert score.value == math.inf
            assert score.interval == (math.inf, math.inf)
            assert score.words == "a snooper is typically off by nothing at all"
            assert json.loads(json.dumps(score.to_dict(), allow_nan=False))["value"] == "inf"


def test_the_risk_is_told_in_the_columns_unit() -> None:
    frame = pd.DataFrame({"x": [10.0, 20.0]})
    score = AttributeRisk("x").score(pair(frame, np.array([15.0, 15.0])))
    assert score.words == "a snooper is typically off by 5 thousand dollars"
    assert score.side is Side.RISK
    assert score.direction == "lower is safer"
    assert str(score).startswith("risk for x: 0.04 (95 % interval 0.04 to 0.04); a snooper is typically off by 5")


def test_a_score_can_be_written_as_json_and_leaves_the_records_out() -> None:
    frame, y = records()
    score = AttributeRisk("x", low=0.5, edges=(0.5, 0.9, 1)).score(pair(frame, y))
    table = json.loads(json.dumps(score.to_dict(), allow_nan=False))
    assert "records" not in table
    assert table["variant"] == "targets between quantiles 0.5 and 1"
    assert table["value"] == score.value
    odd = Score("m", Side.RISK, math.nan, "", (-math.inf, math.inf), details={"a": math.nan})
    table = json.loads(json.dumps(odd.to_dict(), allow_nan=False))
    assert (table["value"], table["interval"], table["details"]) == (None, ["-inf", "inf"], {"a": None})


def test_the_interval_from_records_covers_the_true_risk() -> None:
    covered = 0
    for seed in range(200):
        frame, y = records(150, seed)
        interval = AttributeRisk("x").score(pair(frame, y)).interval
        assert interval is not None
        covered += interval[0] <= 1 / 25 <= interval[1]  # noise of standard deviation 5
    assert covered >= 179  # Binomial(200, .95) falls below with probability 2e-4; the jackknife is a little too short


# -- coded values: five records by hand


def five() -> Release:
    frame = pd.DataFrame({"x": [10.0, 20.0, 30.0, 40.0, 50.0]})
    return TopCode(columns=("x",), value=30).apply(Microdata(frame, schema(frame)), Draws(1))


def test_coded_values_of_five_records_by_hand() -> None:
    score = CodedValueRisk("x").score(five())
    assert_array_equal(five().masked.numbers("x"), [10, 20, 30, 30, 30])
    assert_allclose(score.records, [math.inf, math.inf, math.inf, 1 / 100, 1 / 400])
    assert_allclose(score.value, (1 / 100 + 1 / 400) / 2)
    assert score.details["share known exactly"] == 3 / 5
    assert score.details["coded records"] == 2
    assert score.variant == "mean risk of coded records"
    assert score.words.endswith("3 of 5 records are known exactly")


def test_the_other_average_is_the_reciprocal_of_the_coded_records_mean_squared_error() -> None:
    score = CodedValueRisk("x", average="error").score(five())
    assert_allclose(score.value, 1 / 250)
    assert score.words.startswith("for a coded value a snooper is typically off by 15.8 thousand dollars")
    assert_allclose(score.records, [math.inf, math.inf, math.inf, 1 / 100, 1 / 400])


def test_bottom_coding_and_missing_values() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 4.0]})
    release = BottomCode(columns=("x",), value=2).apply(Microdata(frame, schema(frame)), Draws(1))
    score = CodedValueRisk("x").score(release)
    assert_allclose(score.records, [1, math.inf, np.nan, math.inf])
    assert score.value == 1
    assert score.details["share known exactly"] == 2 / 3


def test_when_no_value_is_coded_the_risk_is_infinite() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    release = TopCode(columns=("x",), value=9).apply(Microdata(frame, schema(frame)), Draws(1))
    for average in ("risk", "error"):
        score = CodedValueRisk("x", average=average).score(release)  # type: ignore[arg-type]
        assert score.value == math.inf
        assert score.words.startswith("no value was coded: every value is known exactly")
        assert json.dumps(score.to_dict(), allow_nan=False)
    with pytest.raises(ParameterError, match="average of coded_value_risk must be one of 'risk', 'error'"):
        CodedValueRisk("x", average="median")  # type: ignore[arg-type]


# -- analytic values for some targets only, by integration and by simulation


def model(l2: float, rho: float = 0.6) -> NoiseModel:
    """Return salary with a covariate: mean 62, variance 13.3²; mean 44, variance 10.5²."""
    sd = np.array([13.3, 10.5])
    covariance = np.outer(sd, sd) * np.array([[1, rho], [rho, 1]])
    return NoiseModel(("x", "z"), np.array([62.0, 44.0]), covariance, np.diag([l2 * 13.3**2, 0]), 1000)


@pytest.mark.parametrize(("low", "high"), [(0.99, 1.0), (0.0, 0.1), (0.25, 0.75), (0.9, 0.99)])
@pytest.mark.parametrize("m", [1.0, 0.6, 0.0])
def test_the_naive_snoopers_risk_for_some_targets_by_integration(low: float, high: float, m: float) -> None:
    l2, sigma2 = 0.2, 13.3**2
    second = quad(lambda u: u**2 * norm.pdf(u), max(norm.ppf(low), -12), min(norm.ppf(high), 12), epsabs=1e-13)[0]
    spread = second / (high - low)  # E of squared standardised distance from the mean, over the targets
    wrong = spread * sigma2 + (1 + l2) * sigma2  # a stranger's released value: mean μ, variance (1 + λ²)σ²
    expected = 1 / (m * l2 * sigma2 + (1 - m) * wrong)
    assert_allclose(
        AttributeRisk("x", low, high).analytic(model(l2), Snooper(match_probability=m)), expected, rtol=1e-8
    )


@pytest.mark.parametrize(("low", "high"), [(0.99, 1.0), (0.25, 0.75), (0.0, 1.0)])
@pytest.mark.parametrize("covariates", [(), ("z",)])
def test_the_bayes_snoopers_risk_for_some_targets_by_simulation(
    low: float, high: float, covariates: tuple[str, ...]
) -> None:
    g, n, l2, rho = np.random.default_rng(5), 400_000, 0.3, 0.6
    x = 13.3 * norm.ppf(g.uniform(low, high, n))  # about the mean
    z = rho * 10.5 / 13.3 * x + 10.5 * math.sqrt(1 - rho**2) * g.standard_normal(n)
    y = x + math.sqrt(l2) * 13.3 * g.standard_normal(n)
    prior_mean, prior = (rho * 13.3 / 10.5 * z, 13.3**2 * (1 - rho**2)) if covariates else (0.0, 13.3**2)
    noise = l2 * 13.3**2
    guess = (prior_mean / prior + y / noise) / (1 / prior + 1 / noise)  # posterior mean: precisions as weights
    errors = (guess - x) ** 2
    snooper = BAYES.with_(covariates=covariates)
    risk = AttributeRisk("x", low, high).analytic(model(l2), snooper)
    assert risk is not None
    assert abs(errors.mean() - 1 / risk) < 4 * errors.std() / math.sqrt(n)


@pytest.mark.parametrize("m", [0.8, 0.3])
def test_an_imperfectly_linking_bayes_snooper_is_the_best_linear_one_by_simulation(m: float) -> None:
    g, n, l2, rho = np.random.default_rng(6), 400_000, 0.3, 0.6
    x = 13.3 * g.standard_normal(n)
    z = rho * 10.5 / 13.3 * x + 10.5 * math.sqrt(1 - rho**2) * g.standard_normal(n)
    right, stranger = x + math.sqrt(l2) * 13.3 * g.standard_normal(n), math.sqrt(1 + l2) * 13.3 * g.standard_normal(n)
    linked = np.where(g.random(n) < m, right, stranger)
    errors = sm.OLS(x, sm.add_constant(np.column_stack([linked, z]))).fit().resid ** 2
    risk = AttributeRisk("x").analytic(model(l2), BAYES.with_(covariates=("z",), match_probability=m))
    assert risk is not None
    assert abs(errors.mean() - 1 / risk) < 4 * errors.std() / math.sqrt(n)


def test_there_is_no_formula_for_unknown_columns_or_masked_covariates() -> None:
    both = NoiseModel(("x", "z"), np.zeros(2), np.eye(2), 0.1 * np.eye(2), 10)
    assert AttributeRisk("x").analytic(both, BAYES.with_(covariates=("z",))) is None
    assert AttributeRisk("x").analytic(both, BAYES.with_(covariates=("race",))) is None
    assert AttributeRisk("y").analytic(both, Snooper()) is None


def test_a_measure_is_written_and_read_as_a_table() -> None:
    for measure in (AttributeRisk("x", 0.9, 0.99, edges=(0.9, 1)), CodedValueRisk("x", average="error")):
        table: dict[str, Any] = measure.to_dict()
        assert type(measure).from_dict(table) == measure


# -- the salary example: an error of 5 thousand dollars, salaries with a standard deviation of 13.3 (MEASURES.md)


def salary_example(lambda2: float, rho: float, seed: int) -> tuple[Release, Snooper]:
    """Salaries, an unmasked covariate of correlation rho, and a release with noise of variance λ²σ²."""
    g = np.random.default_rng(seed)
    x, other, noise = g.normal(0, 1, (3, 200_000))
    frame = pd.DataFrame({"x": 60 + 13.3 * x, "z": rho * x + math.sqrt(1 - rho**2) * other})
    return pair(frame, frame["x"].to_numpy() + math.sqrt(lambda2) * 13.3 * noise), BAYES.with_(covariates=("z",))


@pytest.mark.parametrize(
    ("lambda2", "strategy", "rho"), [(0.1413, "naive", 0.0), (0.1646, "bayes", 0.0), (0.181, "bayes", 0.6)]
)
def test_the_published_noise_levels_leave_an_error_of_5_thousand_dollars(
    lambda2: float, strategy: str, rho: float
) -> None:
    release, knows = salary_example(lambda2, rho, 11)
    snooper = {"naive": Snooper(), "bayes": knows if rho else BAYES}[strategy]
    score = AttributeRisk("x").score(release, snooper)
    assert_allclose(
        score.details["rms error"], 5, rtol=0.006
    )  # the standard error of the root of a mean of 200,000 squares
    # precision = prior precision + 1 / (λ²σ²), with prior variance σ²(1 - ρ²)
    variance = 13.3**2
    expected = (
        lambda2 * variance if strategy == "naive" else 1 / (1 / (variance * (1 - rho**2)) + 1 / (lambda2 * variance))
    )
    assert_allclose(score.details["rms error"], math.sqrt(expected), rtol=0.006)


def test_above_a_correlation_of_927_no_noise_leaves_an_error_of_5_thousand_dollars() -> None:
    drowned, knows = salary_example(1000.0, 0.929, 12)
    assert AttributeRisk("x").score(drowned, knows).details["rms error"] < 5
    drowned, knows = salary_example(1000.0, 0.925, 13)
    assert AttributeRisk("x").score(drowned, knows).details["rms error"] > 5
