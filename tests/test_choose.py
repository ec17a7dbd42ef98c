"""Maximise U subject to R ≤ r: the paper's example to six digits, and by replication on the upper limit of R."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from sfumato import Draws, Microdata, Snooper, ru_map
from sfumato.contract import Mask, Side, param
from sfumato.data.microdata import Batch
from sfumato.errors import ParameterError
from sfumato.maps import MapPoint, NormalPopulation, RUMap
from sfumato.maps.choice import ChoiceTask, Refinement
from sfumato.maps.replication import Evaluator
from sfumato.maps.rumap import RecipeSubject
from sfumato.masks import KimNoise, TopCode
from sfumato.papers import figure1
from sfumato.papers.ru_paper import MAX_RISK, TEACHERS
from sfumato.risk import AttributeRisk, CodedValueRisk
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope

LAMBDA2 = "kim_noise.lambda2"
SALARY = 13.3**2
NAIVE = 25 / SALARY  # 0.141331
BAYES = Snooper(strategy="bayes", parameter_published=True)
GRID = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]


def with_age(rho: float, n: int = 1000) -> NormalPopulation:
    sd = np.array([13.3, 10.5])
    return NormalPopulation({"salary": 62.0, "age": 44.0}, np.outer(sd, sd) * [[1, rho], [rho, 1]], n)


def small(n: int = 100) -> NormalPopulation:
    return NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n)


# -- by formula


def test_the_papers_example_is_solved_to_six_digits() -> None:
    for grid in (GRID, [0.01, 1.0], [0.3, 0.1]):
        m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: grid}, "salary", "salary", replications=0)
        choice = m.choose(max_risk=MAX_RISK)
        assert choice.feasible
        assert_allclose(choice.settings[LAMBDA2], NAIVE, atol=1e-9)
        assert_allclose(choice.settings[LAMBDA2], 0.141331, atol=5e-7)
        assert choice.risks[0].value <= MAX_RISK * (1 + 1e-12)
        assert_allclose(choice.utilities[0].value, 1000 / ((1 + NAIVE) * SALARY), rtol=1e-9)
        assert "by formula" in choice.reason


def test_against_a_snooper_who_shrinks_more_noise_is_needed() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: GRID}, "salary", "salary", snooper=BAYES, replications=0)
    assert_allclose(m.choose(max_risk=MAX_RISK).settings[LAMBDA2], 0.164593, atol=5e-7)
    snooper = BAYES.with_(covariates=("age",))
    m = ru_map(
        with_age(0.6),
        KimNoise(columns=("salary",)),
        {LAMBDA2: GRID},
        "salary",
        "salary",
        snooper=snooper,
        replications=0,
    )
    assert_allclose(
        m.choose(max_risk=MAX_RISK).settings[LAMBDA2], 1 / (SALARY * (0.04 - 1 / (SALARY * 0.64))), atol=1e-9
    )
    assert_allclose(m.choose(max_risk=MAX_RISK).settings[LAMBDA2], 0.181, atol=5e-4)


def test_both_utilities_of_figure_1_lead_to_the_same_choice() -> None:
    m = figure1()
    for utility in (None, "mean salary", "mean income − mean salary"):
        assert_allclose(m.choose(MAX_RISK, utility).settings[LAMBDA2], NAIVE, atol=1e-9)


def test_an_interior_optimum_is_found_where_less_noise_is_not_more_useful() -> None:
    """ERRATA 0.4: with R² = .3 and n = 200 the plain slope is most useful at λ² = 0.003413."""
    m = ru_map(
        NormalPopulation.regression(0.3, 200), KimNoise(columns=("x",)), {LAMBDA2: np.geomspace(1e-4, 1, 13).tolist()}, "x",
        Slope("y", "x"), replications=0,
    )  # fmt: skip
    assert_allclose(m.choose(max_risk=1e9).settings[LAMBDA2], 0.003413, atol=5e-7)
    assert_allclose(m.choose(max_risk=10).settings[LAMBDA2], 0.1, rtol=1e-6)  # the threshold binds: 1 / (0.1 · 1)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(1e-3, 1e3), st.floats(0.05, 0.9), st.integers(10, 500))
def test_by_formula_the_choice_is_the_constrained_optimum(max_risk: float, r2: float, n: int) -> None:
    m = ru_map(
        NormalPopulation.regression(r2, n), KimNoise(columns=("x",)), {LAMBDA2: np.geomspace(1e-4, 10, 21).tolist()}, "x",
        Slope("y", "x"), replications=0,
    )  # fmt: skip
    choice = m.choose(max_risk=max_risk)
    least = 1 / max_risk  # R = 1 / (λ² · 1)
    if least > 10:
        assert not choice.feasible
        return

    def error(l2: float) -> float:  # 1 / (4.5)
        k = 1 / (n - 3)
        return (l2 / (1 + l2) * (k + l2) + k * (1 - r2) / r2) / (1 + l2)

    low = max(least, 1e-4)
    best = minimize_scalar(error, bounds=(low, 10), options={"xatol": 1e-9})
    expected = min(error(low), error(10), float(best.fun))
    assert choice.settings[LAMBDA2] >= low * (1 - 1e-9)
    assert error(choice.settings[LAMBDA2]) <= expected * (1 + 1e-4)


# -- several risks and utilities


def test_several_risks_each_with_its_own_threshold() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: GRID}, ["salary", "income"], "salary", replications=0)
    income = 1 / (0.3 * 17.5**2)  # allows λ² = .3 and more
    choice = m.choose(max_risk={"risk for salary": MAX_RISK, "risk for income": income})
    assert_allclose(choice.settings[LAMBDA2], 0.3, rtol=1e-9)
    assert choice.max_risk == {"risk for salary": MAX_RISK, "risk for income": income}
    assert_allclose(m.choose(max_risk=MAX_RISK).settings[LAMBDA2], NAIVE, rtol=1e-9)  # one for all: salary binds
    with pytest.raises(ParameterError, match="max_risk gives no threshold for risk for income"):
        m.choose(max_risk={"risk for salary": 1.0})


def test_several_utilities_maximise_the_smallest_share_of_the_unmasked_one() -> None:
    """The plain slope would like little noise, the corrected one does not mind; the worst share decides."""
    m = ru_map(
        NormalPopulation.regression(0.3, 200), KimNoise(columns=("x",)), {LAMBDA2: np.geomspace(1e-4, 1, 13).tolist()}, "x",
        [Slope("y", "x"), Slope("y", "x", LAMBDA2)], replications=0,
    )  # fmt: skip
    k = 1 / 197

    def shares(l2: float) -> tuple[float, float]:
        rest = k * 0.7 / 0.3
        plain = (l2 / (1 + l2) * (k + l2) + rest) / (1 + l2)
        return rest / plain, rest / (k * (l2 + 0.7) / 0.3)

    levels = np.geomspace(1e-4, 1, 20_001)
    best = max(levels, key=lambda l2: min(shares(l2)))
    found = m.choose(max_risk=1e9).settings[LAMBDA2]
    assert_allclose(min(shares(found)), min(shares(best)), rtol=1e-4)
    named = m.choose(1e9, "slope of y on x").settings[LAMBDA2]
    assert_allclose(named, 0.003413, atol=5e-7)


def test_utilities_that_are_infinite_unmasked_have_no_share_so_one_must_be_named() -> None:
    utilities = [EstimatorUtility(Mean(n), target="file") for n in ("salary", "income")]
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: GRID}, "salary", utilities, replications=0)
    with pytest.raises(
        ParameterError,
        match=r"say which utility to maximise \(utility=...\), or combine them.*mean salary, mean income",
    ):
        m.choose(MAX_RISK)
    assert m.choose(MAX_RISK, "mean income").feasible


# -- what cannot be done


def test_when_no_value_suffices_it_says_how_close_one_gets_and_whether_more_would_help() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: [0.02, 0.05, 0.1]}, "salary", "salary", replications=0)
    choice = m.choose(MAX_RISK)
    assert not choice.feasible
    assert choice.settings == {}
    closest = 1 / (0.1 * SALARY)
    assert choice.reason == (
        "no value of kim_noise.lambda2 from 0.02 to 0.1 reaches the threshold. The smallest risk, at kim_noise.lambda2 = "
        f"0.1, is {closest:.4g} for risk for salary, where 0.04 is allowed. A value beyond the swept range would: widen the "
        "grid towards 1e+06."
    )
    assert str(choice) == f"infeasible: {choice.reason}"
    assert json.loads(json.dumps(choice.to_dict(), allow_nan=False))["feasible"] is False


def test_against_a_correlation_of_95_hundredths_no_noise_helps() -> None:
    m = ru_map(
        with_age(0.95), KimNoise(columns=("salary",)), {LAMBDA2: GRID}, "salary", "salary",
        snooper=BAYES.with_(covariates=("age",)), replications=0,
    )  # fmt: skip
    choice = m.choose(MAX_RISK)
    assert not choice.feasible
    assert choice.reason.endswith("No value up to 1e+06 reaches it.")
    assert m.choose(1 / (SALARY * (1 - 0.95**2)) * 1.01).reason.endswith("widen the grid towards 1e+06.")


def test_the_infeasible_case_by_replication_speaks_of_the_upper_limit() -> None:
    m = ru_map(small(), KimNoise(), {LAMBDA2: [0.05, 0.1]}, "salary", "salary", replications=10, draws=1)
    choice = m.choose(MAX_RISK, confirm=10)
    assert not choice.feasible
    assert "The smallest upper limit of the risk, at kim_noise.lambda2 = 0.1, is" in choice.reason
    assert choice.reason.endswith("widen the grid towards 1e+06.")


@pytest.mark.parametrize("wrong", [0, -1, math.nan, "0.04", None, True])
def test_a_threshold_that_is_no_positive_number_is_refused(wrong: Any) -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: GRID}, "salary", "salary", replications=0)
    with pytest.raises(
        ParameterError, match=r"max_risk must be a number above 0; got .* For an error of 5 it is 1/5² = 0\.04"
    ):
        m.choose(wrong)


def test_unknown_labels_are_refused_with_the_nearest() -> None:
    m = figure1([0.1, 0.2])
    with pytest.raises(
        ParameterError, match=r"risk measure 'risk for salry' is not in the map. Did you mean 'risk for salary'\?"
    ):
        m.choose({"risk for salry": 0.04})
    with pytest.raises(
        ParameterError, match=r"utility measure 'mean salry' is not in the map. Did you mean 'mean salary'\?"
    ):
        m.choose(0.04, "mean salry")


def test_a_confirmation_without_an_interval_is_refused() -> None:
    m = ru_map(small(), KimNoise(), {LAMBDA2: [0.1, 0.3]}, "salary", "salary", replications=5, draws=1)
    with pytest.raises(ParameterError, match="confirm must be at least 2"):
        m.choose(MAX_RISK, confirm=0)


# -- by replication


def test_by_replication_the_upper_limit_holds_with_fresh_seeds() -> None:
    source = NormalPopulation({"income": 96.0, "salary": 62.0}, TEACHERS.covariance, n=300)
    m = ru_map(source, KimNoise(), {LAMBDA2: [0.05, 0.1, 0.2, 0.4]}, "salary", "salary", replications=200, draws=4)
    choice = m.choose(MAX_RISK, confirm=200)
    assert choice.feasible
    (risk,) = choice.risks
    assert risk.interval is not None
    assert risk.interval[1] <= MAX_RISK
    assert "confirmed with 200 fresh replications" in choice.reason
    chosen = choice.settings[LAMBDA2]
    assert NAIVE < chosen < 1.1 * NAIVE  # two upper limits, each about 1 % above the estimate
    map_value = float(m.subject.evaluator.observe([choice.settings], 200)[0].mean())
    assert not math.isclose(1 / map_value, risk.value, rel_tol=1e-9)  # the map's own seeds are not used again


@pytest.mark.parametrize("seeds", [12, pytest.param(40, marks=pytest.mark.verify)])
def test_by_replication_the_true_risk_is_under_the_threshold_19_times_out_of_20(seeds: int) -> None:
    kept, levels = 0, []
    for seed in range(seeds):
        m = ru_map(
            small(60), KimNoise(), {LAMBDA2: [0.08, 0.16, 0.32]}, "salary", "salary", replications=40, draws=seed
        )
        choice = m.choose(MAX_RISK, confirm=40)
        assert choice.feasible
        levels.append(choice.settings[LAMBDA2])
        kept += levels[-1] >= NAIVE
    assert binom.cdf(kept, seeds, 0.95) > 1e-3
    assert NAIVE < np.median(levels) < 1.3 * NAIVE


def test_the_same_map_gives_the_same_choice() -> None:
    m = ru_map(small(), KimNoise(), {LAMBDA2: [0.1, 0.3]}, "salary", "salary", replications=20, draws=1)
    assert m.choose(MAX_RISK, confirm=20).settings == m.choose(MAX_RISK, confirm=20).settings


def test_without_refinement_the_choice_is_a_point_of_the_grid() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA2: GRID}, "salary", "salary", replications=0)
    assert m.choose(MAX_RISK, refine=False).settings == {LAMBDA2: 0.2}


def coded(quantiles: list[float], replications: int = 30) -> RUMap:
    g = np.random.default_rng(1)
    table = pd.DataFrame({"pay": g.gamma(3, 20, 400)})
    source = Microdata(table, Schema((Attribute("pay", role="confidential"),)))  # type: ignore[arg-type]
    return ru_map(
        source, TopCode(), {"top_code.quantile": quantiles}, CodedValueRisk("pay", average="error"), "pay",
        replications=replications, draws=1,
    )  # fmt: skip


def test_a_risk_that_rises_and_falls_with_its_parameter_is_met_at_a_safe_quantile() -> None:
    m = coded([0.5, 0.7, 0.9, 0.99])
    pay = m.subject.evaluator.source.numbers("pay")  # type: ignore[union-attr]

    def risk(quantile: float) -> float:
        code = np.quantile(pay, quantile, method="inverted_cdf")
        return 1 / float(((pay[pay > code] - code) ** 2).mean())

    limit = 1.05 * min(risk(q) for q in (0.5, 0.7, 0.9))
    choice = m.choose(limit, confirm=30)
    assert choice.feasible
    assert risk(choice.settings["top_code.quantile"]) <= limit
    assert choice.risks[0].value == pytest.approx(risk(choice.settings["top_code.quantile"]))


def test_a_step_back_stays_within_the_parameters_range() -> None:
    """The winner is near the end of the range: stepping past it must not be an error."""
    m = coded([0.9, 0.95, 0.99, 0.995], replications=5)
    task_risks = [m.estimate(0, p)[0] for p in range(4)]
    back = Refinement(ChoiceTask(m, max(task_risks), None))._step_back({"top_code.quantile": 0.995}, excess=1.5)
    assert back is None or 0 <= back["top_code.quantile"] <= 1


# -- whole numbers, texts, two parameters


class Coarsen(Mask):
    """Round to a multiple of a whole number, for the tests below."""

    columns: tuple[str, ...] = param(doc="columns", columns="many")
    base: int = param(default=5, doc="multiple", low=1, high=1000, integer=True)
    way: str = param(default="near", doc="which way", choices=("near", "up"))
    preserves_order: ClassVar[bool] = True

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        to = np.round if self.way == "near" else np.ceil
        for name in self.columns:
            values = to(batch.numbers(name) / self.base) * self.base
            batch = batch.replace(name, lambda v=values: v)  # type: ignore[misc]
        return batch


def rounded(over: dict[str, Any]) -> RUMap:
    table = pd.DataFrame({"pay": np.random.default_rng(1).normal(60, 13.3, 500)})
    source = Microdata(table, Schema((Attribute("pay", role="confidential"),)))  # type: ignore[arg-type]
    return ru_map(
        source, Coarsen(columns=("pay",)), over, "pay", EstimatorUtility("pay", target="file"), replications=3, draws=1
    )


def test_a_whole_number_parameter_stays_whole_and_on_the_grid() -> None:
    m = rounded({"coarsen.base": np.array([1, 5, 10, 20, 40])})
    risks = [m.estimate(0, p)[0] for p in range(5)]
    utilities = [m.estimate(1, p)[0] for p in range(5)]
    for limit in (0.01, 0.05, 0.3, 100.0):
        choice = m.choose(limit, confirm=2)
        safe = [p for p in range(5) if risks[p] <= limit]
        best = max(safe, key=lambda p: utilities[p])
        assert choice.settings == m.points[best].settings
        assert type(choice.settings["coarsen.base"]) is int
        assert json.dumps(choice.to_dict(), allow_nan=False)
        assert str(choice).startswith(f"coarsen.base = {choice.settings['coarsen.base']}: ")


def test_a_parameter_in_words_can_be_chosen_too() -> None:
    m = rounded({"coarsen.way": ["near", "up"]})
    risks = [m.estimate(0, p)[0] for p in range(2)]
    assert risks[0] > risks[1]  # rounding up is further off
    assert m.choose((risks[0] + risks[1]) / 2, confirm=2).settings == {"coarsen.way": "up"}
    assert m.choose(2 * risks[0], confirm=2).settings == {"coarsen.way": "near"}
    choice = m.choose(risks[1] / 2, confirm=2)
    assert not choice.feasible
    assert choice.reason.startswith(
        "no value of coarsen.way among near, up reaches the threshold. The smallest upper limit"
    )


def test_levels_by_column_can_be_chosen_too() -> None:
    levels = [{"income": 0.1, "salary": 0.2}, {"income": 0.3, "salary": 0.15}]
    m = ru_map(TEACHERS, KimNoise(columns=("income", "salary")), {LAMBDA2: levels}, "salary", "income", replications=0)
    choice = m.choose(MAX_RISK)
    assert choice.settings == {LAMBDA2: levels[0]}
    assert json.dumps(choice.to_dict())
    assert str(choice).startswith("kim_noise.lambda2 = {'income': 0.1")
    assert not m.choose(1e-6).feasible


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.floats(0.005, 0.2), st.floats(0.005, 0.2))
def test_a_choice_over_two_parameters_is_that_of_brute_force(salary: float, income: float) -> None:
    m = two_parameters()
    choice = m.choose({"risk for salary": salary, "risk for income": income})
    best = None
    for a in TWO["kim_noise.lambda2.salary"]:
        for b in TWO["kim_noise.lambda2.income"]:
            if 1 / (a * SALARY) <= salary and 1 / (b * 17.5**2) <= income:
                error = a * SALARY + b * 17.5**2 - 2 * math.sqrt(a * b) * 8.3**2 + 345.36
                best = min(best or (math.inf, 0, 0), (error, a, b))
    if best is None:
        assert not choice.feasible
        assert choice.reason.startswith(
            "no value of kim_noise.lambda2.salary from 0.05 to 2; kim_noise.lambda2.income from"
        )
    else:
        assert choice.settings == {"kim_noise.lambda2.salary": best[1], "kim_noise.lambda2.income": best[2]}
        assert_allclose(choice.utilities[0].value, 1000 / best[0])


TWO = {"kim_noise.lambda2.salary": [0.05, 0.1, 0.3, 0.7, 2.0], "kim_noise.lambda2.income": [0.02, 0.1, 0.4, 1.0]}


def two_parameters() -> RUMap:
    return ru_map(
        TEACHERS, KimNoise(columns=("income", "salary")), TWO, ["salary", "income"],
        MeanCombination({"income": 1, "salary": -1}), replications=0,
    )  # fmt: skip


def test_a_choice_over_two_parameters_by_replication_is_confirmed_too() -> None:
    m = ru_map(
        small(60), KimNoise(columns=("income", "salary")), {k: v[1:4] for k, v in TWO.items()}, ["salary", "income"],
        {"income": 1, "salary": -1}, replications=30, draws=2,
    )  # fmt: skip
    choice = m.choose({"risk for salary": 0.03, "risk for income": 0.015}, confirm=40)
    assert choice.feasible
    assert dict(choice.settings) in [dict(p.settings) for p in m.points]
    for score, limit in zip(choice.risks, (0.03, 0.015), strict=True):
        assert score.interval is not None
        assert score.interval[1] <= limit


# -- a risk that is not known


def test_a_point_whose_risk_is_not_known_is_not_chosen() -> None:
    evaluator = Evaluator(
        TEACHERS, KimNoise().as_recipe(), (AttributeRisk("salary"), AttributeRisk("income"), EstimatorUtility("salary")),
        Snooper(), Draws(1),
    )  # fmt: skip
    observed = (
        np.array([[[30.0], [31.0]], [[40.0], [41.0]], [[0.0], [0.0]]]),
        np.array([[[math.nan], [1.0]], [[50.0], [51.0]], [[0.0], [0.0]]]),  # the first point's second risk is missing
        np.array([[[0.1], [0.1]], [[0.2], [0.2]], [[0.1], [0.1]]]),
    )
    points = [MapPoint("noise", {LAMBDA2: v}, None, tuple(o[p] for o in observed)) for p, v in enumerate((0.1, 0.2))]
    unmasked = MapPoint("noise", {}, None, tuple(o[2] for o in observed))
    m = RUMap(RecipeSubject(evaluator, 2), tuple(points), (LAMBDA2,), unmasked)
    task = ChoiceTask(m, 1.0, None)
    assert not task.at(0)[0] <= 1
    assert task.at(1)[0] <= 1


def test_a_risk_without_an_interval_is_not_safe() -> None:
    measure = AttributeRisk("salary")
    value, interval = measure.estimate(np.array([[0.0], [100.0]]))  # one replication disclosed everything
    assert (value, interval) == (0.02, None)
    evaluator = Evaluator(TEACHERS, KimNoise().as_recipe(), (measure,), Snooper(), Draws(1))
    point = MapPoint("noise", {}, None, (np.array([[0.0], [100.0]]),))
    assert RecipeSubject(evaluator, 2).limit(0, point) == math.inf


def test_a_choice_for_machines_is_json() -> None:
    m = ru_map(small(), KimNoise(), {LAMBDA2: [0.1, 0.3]}, "salary", "salary", replications=10, draws=1)
    table = json.loads(json.dumps(m.choose(MAX_RISK, confirm=10).to_dict(), allow_nan=False))
    assert table["feasible"] is True
    assert table["max_risk"] == {"risk for salary": 0.04}
    assert table["risks"][0]["side"] == Side.RISK.value
    assert table["utilities"][0]["measure"] == "mean salary"


def test_a_choice_at_the_end_of_the_swept_range_says_that_a_better_one_may_lie_beyond() -> None:
    safe_everywhere = ru_map(
        TEACHERS, KimNoise(), {"kim_noise.lambda2": [0.3, 0.5, 1.0]}, "salary", "salary", replications=0
    )
    choice = safe_everywhere.choose(MAX_RISK)
    assert choice.settings == {"kim_noise.lambda2": 0.3}
    assert "kim_noise.lambda2 is at the end of the swept range" in choice.reason
    inside = ru_map(TEACHERS, KimNoise(), {"kim_noise.lambda2": [0.05, 0.5]}, "salary", "salary", replications=0)
    assert "end of the swept range" not in inside.choose(MAX_RISK).reason
