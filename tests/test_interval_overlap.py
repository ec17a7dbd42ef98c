"""Interval overlap and standardised coefficient difference: by hand, by statsmodels, and where coefficients are lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.typing import NDArray

from sfumato import ru_map
from sfumato.contract import Draws, Measure, NoiseModel, Release
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import FullNormalSynthesis, KimNoise, NormalSynthesis
from sfumato.schema import Attribute, Schema
from sfumato.utility import CoefficientDifference, IntervalOverlap, combine
from sfumato.utility.regression import overlap

Numbers = NDArray[np.float64]
BOTH = [IntervalOverlap, CoefficientDifference]


def data_of(frame: pd.DataFrame) -> Microdata:
    schema = Schema(tuple(Attribute(n, "weight" if n == "w" else "confidential") for n in frame))  # type: ignore[arg-type]
    return Microdata(pa.Table.from_pandas(frame, preserve_index=False), schema)


def people(n: int = 300, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    x, group = g.normal(40, 9, n), g.choice(["a", "b", "c"], n)
    y = 100 + 2 * x + 5 * (group == "b") + g.normal(0, 10, n)
    yes = np.where(g.uniform(size=n) < 1 / (1 + np.exp(-(x - 40) / 6)), "yes", "no")
    return pd.DataFrame({"y": y, "x": x, "group": group, "answer": yes, "w": g.uniform(1, 5, n)})


def masked(frame: pd.DataFrame, seed: int = 9) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return frame.assign(x=frame.x + g.normal(0, 4, len(frame)), y=frame.y + g.normal(0, 6, len(frame)))


def release(before: pd.DataFrame, *after: pd.DataFrame) -> Release:
    made = [Release.of(data_of(before), data_of(a)) for a in after]
    return Release(made[0].original, tuple(m.masked for m in made), aligned=False)


def by_hand(one: Any, other: Any) -> float:
    (lo, uo), (ly, uy) = one, other
    return 0.5 * ((min(uo, uy) - max(lo, ly)) / (uo - lo) + (min(uo, uy) - max(lo, ly)) / (uy - ly))


def test_overlaps_by_hand() -> None:
    assert overlap((0, 4), (0, 4)) == 1
    assert overlap((0, 4), (1, 3)) == 0.5 * (2 / 4 + 2 / 2)
    assert overlap((0, 4), (2, 8)) == pytest.approx(0.5 * (2 / 4 + 2 / 6))
    assert overlap((0, 4), (4, 8)) == 0  # they touch
    assert overlap((0, 4), (6, 8)) == -0.5 * (2 / 4 + 2 / 2)  # two apart: negative
    assert overlap((0, 1), (1000, 1001)) == -999
    assert overlap((0, 4), (2, 2)) == 0.5  # without length, inside: as the limit of ever shorter ones
    assert overlap((0, 4), (5, 5)) == -1 / 4  # outside: by the other's length


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_the_intervals_of_a_regression_are_those_of_statsmodels(level: float) -> None:
    before, formula = people(), "y ~ x + C(group)"
    after = masked(before)
    fits = [smf.ols(formula, f).fit().conf_int(1 - level) for f in (before, after)]
    peers = {"Intercept": "Intercept", "x": "x", "C(group)[T.b]": "C(group)[b]", "C(group)[T.c]": "C(group)[c]"}
    each = {f"overlap of {mine}": by_hand(*(f.loc[peer] for f in fits)) for peer, mine in peers.items()}
    score = IntervalOverlap(formula, level=level).score(release(before, after))
    assert score.details == pytest.approx(each)
    assert score.value == pytest.approx(np.mean([*each.values()]))
    assert min(each.values()) < 0.9


def test_the_differences_are_in_standard_errors_of_the_original() -> None:
    before, formula = people(), "y ~ x + C(group)"
    after = masked(before)
    old, new = (smf.ols(formula, f).fit() for f in (before, after))
    off = np.abs(new.params - old.params) / old.bse
    score = CoefficientDifference(formula).score(release(before, after))
    assert score.value == pytest.approx(1 - off.mean())
    assert score.details["standard errors off: x"] == pytest.approx(off["x"])
    assert f"is {'x' if off['x'] > off['Intercept'] else 'Intercept'}" in score.words


def test_a_logistic_regression_is_that_of_statsmodels() -> None:
    before, formula = people(), "answer ~ x + C(group)"
    after = masked(before)
    old, new = (
        smf.logit("yes ~ x + C(group)", f.assign(yes=(f.answer == "yes").astype(int))).fit(disp=0, tol=1e-12)
        for f in (before, after)
    )
    each = [by_hand(o, y) for o, y in zip(old.conf_int().to_numpy(), new.conf_int().to_numpy(), strict=True)]
    score = IntervalOverlap(formula, "logistic").score(release(before, after))
    assert sorted(score.details.values()) == pytest.approx(sorted(each), abs=1e-5)
    difference = CoefficientDifference(formula, "logistic").score(release(before, after))
    assert difference.value == pytest.approx(1 - (np.abs(new.params - old.params) / old.bse).mean(), abs=1e-5)


def test_a_weighted_logistic_regression_has_linearised_errors() -> None:
    before = people()
    after = masked(before)
    ends = []
    for f in (before, after):
        x = sm.add_constant(f.x.to_numpy())
        hit = (f.answer == "yes").astype(float).to_numpy()
        fit = sm.GLM(hit, x, sm.families.Binomial(), freq_weights=f.w.to_numpy()).fit(tol=1e-12)
        bread = np.linalg.inv((x * (f.w * fit.mu * (1 - fit.mu)).to_numpy()[:, None]).T @ x)
        scores = x * (f.w.to_numpy() * (hit - fit.mu))[:, None]
        se = np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * 300 / 299)
        ends.append(np.column_stack([fit.params - 1.959963984540054 * se, fit.params + 1.959963984540054 * se]))
    each = [by_hand(o, y) for o, y in zip(*ends, strict=True)]
    score = IntervalOverlap("answer ~ x", "logistic", weighted=True).score(release(before, after))
    assert score.value == pytest.approx(np.mean(each), abs=1e-5)


def test_weights_are_each_files_own_and_the_score_says_so() -> None:
    before = people()
    after = masked(before).assign(w=lambda f: f.w[::-1].to_numpy())
    ends = []
    for f in (before, after):
        fit = sm.WLS(f.y, sm.add_constant(f.x), weights=f.w).fit(cov_type="HC0")
        half = 1.967956711648557 * fit.bse.to_numpy() * math.sqrt(300 / 299)  # t with 298 degrees of freedom
        ends.append(np.column_stack([fit.params - half, fit.params + half]))
    score = IntervalOverlap("y ~ x", weighted=True).score(release(before, after))
    assert score.value == pytest.approx(np.mean([by_hand(o, y) for o, y in zip(*ends, strict=True)]), abs=1e-6)
    assert "weighted" in score.variant
    assert score.value != IntervalOverlap("y ~ x").score(release(before, after)).value


def test_a_column_alone_stands_for_its_mean() -> None:
    before = people(50)
    after = before.assign(y=before.y + 3)
    score = CoefficientDifference("y").score(release(before, after))
    assert score.details == pytest.approx({"standard errors off: mean y": 3 / (before.y.std() / math.sqrt(50))})
    half = 2.0095752371292397 * before.y.std() / math.sqrt(50)  # t with 49 degrees of freedom
    assert IntervalOverlap("y").score(release(before, after)).value == pytest.approx(1 - 3 / (2 * half))
    far = before.assign(y=before.y + 300)
    assert IntervalOverlap("y").score(release(before, far)).value == pytest.approx(1 - 300 / (2 * half))  # negative
    assert "1 of 1 pair does not meet" in IntervalOverlap("y").score(release(before, far)).words


@pytest.mark.parametrize("measure", BOTH)
@pytest.mark.parametrize("formula", ["y", "y ~ x", "y ~ x * C(group)", "log(y) ~ C(group)"])
def test_a_file_that_was_not_changed_has_utility_1(measure: type[Measure], formula: str) -> None:
    before = people()
    shuffled = before.sample(frac=1, random_state=3)
    assert measure(formula).score(release(before, before)).value == 1  # type: ignore[call-arg]
    assert measure(formula).score(release(before, shuffled)).value == pytest.approx(1)  # type: ignore[call-arg]


@pytest.mark.parametrize("measure", BOTH)
def test_dependent_and_constant_terms_are_left_out(measure: type[Measure]) -> None:
    before = people().assign(twice=lambda f: 2 * f.x, one=1.0)
    after = masked(before)
    plain = measure("y ~ x").score(release(before, after))  # type: ignore[call-arg]
    for formula in ("y ~ x + twice + one", "y ~ one + x + twice"):
        assert measure(formula).score(release(before, after)).value == pytest.approx(plain.value)  # type: ignore[call-arg]


def test_a_category_that_is_gone_counts_as_zero_and_never_above_0() -> None:
    before = people()
    after = before.assign(group=before.group.replace("c", "b"))
    score = IntervalOverlap("y ~ x + C(group)").score(release(before, after))
    fit = smf.ols("y ~ x + C(group)", before).fit()
    low, high = fit.conf_int().loc["C(group)[T.c]"]
    half = (high - low) / 2
    assert score.details["overlap of C(group)[c]"] == pytest.approx(min(0, by_hand((low, high), (-half, half))))
    difference = CoefficientDifference("y ~ x + C(group)").score(release(before, after))
    expected = max(3.92, abs(fit.params["C(group)[T.c]"]) / fit.bse["C(group)[T.c]"])
    assert difference.details["standard errors off: C(group)[c]"] == pytest.approx(expected)


def test_where_the_first_category_is_gone_nothing_is_compared_with_another_baseline() -> None:
    before = people()
    after = before[before.group != "a"]
    score = CoefficientDifference("y ~ C(group)").score(release(before, after))
    assert min(score.details.values()) >= 3.92  # levels b and c are told from each other, but not from a


def test_a_new_category_does_not_move_the_others() -> None:
    before = people()
    after = before.assign(group=before.group.where(before.group != "c", "other"))
    score = CoefficientDifference("y ~ x + C(group)").score(release(before, after))
    assert score.details["standard errors off: C(group)[b]"] == pytest.approx(0, abs=1e-9)
    assert score.details["standard errors off: x"] == pytest.approx(0, abs=1e-9)


def test_a_column_that_is_all_alike_in_the_release_has_no_slope() -> None:
    before = people()
    score = CoefficientDifference("y ~ x").score(release(before, before.assign(x=40.0)))
    fit = smf.ols("y ~ x", before).fit()
    assert score.details["standard errors off: x"] == pytest.approx(max(3.92, fit.params["x"] / fit.bse["x"]))
    nobody = before.assign(x=math.nan)
    assert IntervalOverlap("y ~ x").score(release(before, nobody)).value <= 0


def test_several_implicates_are_combined_by_the_rules() -> None:
    before = people()
    versions = [masked(before, seed) for seed in (1, 2, 3)]
    fits = [smf.ols("y ~ x", f).fit() for f in versions]
    old = smf.ols("y ~ x", before).fit().conf_int().to_numpy()
    each = []
    for i, name in enumerate(["Intercept", "x"]):
        both = combine([f.params[name] for f in fits], [f.bse[name] ** 2 for f in fits], "partial")
        each.append(by_hand(old[i], both.interval()))
    assert IntervalOverlap("y ~ x").score(release(before, *versions)).value == pytest.approx(np.mean(each))
    full = IntervalOverlap("y ~ x", rules="full").score(release(before, *versions)).value
    assert full != pytest.approx(np.mean(each))
    mean = np.mean([f.params for f in fits], axis=0)
    fit = smf.ols("y ~ x", before).fit()
    off = np.abs(mean - fit.params) / fit.bse
    assert CoefficientDifference("y ~ x").score(release(before, *versions)).value == pytest.approx(1 - off.mean())


def test_the_recipe_says_which_rules() -> None:
    data = teachers(400)
    formula = "salary ~ income"
    drawn = FullNormalSynthesis(["salary", "income"], implicates=5).apply(data, Draws(1))
    partial = NormalSynthesis("salary", given=["income"], implicates=5).apply(data, Draws(1))
    estimated = FullNormalSynthesis(["salary", "income"], implicates=5, proper=False).apply(data, Draws(1))
    for made, rule in ((drawn, "full"), (partial, "partial"), (estimated, "partial")):
        same = IntervalOverlap(formula, rules=rule).score(made).value  # type: ignore[arg-type]
        assert IntervalOverlap(formula).score(made).value == same
        other = "full" if rule == "partial" else "partial"
        assert IntervalOverlap(formula, rules=other).score(made).value != same  # type: ignore[arg-type]


def test_what_cannot_be_fitted_is_refused_in_a_sentence() -> None:
    before = people()
    with pytest.raises(DataError, match=r"column 'z' is not in the data"):
        IntervalOverlap("y ~ z").score(release(before, before))
    with pytest.raises(NotApplicable, match="column 'x' is not released"):
        IntervalOverlap("y ~ x").score(release(before, before.drop(columns="x")))
    with pytest.raises(NotApplicable, match="so 'mean x' cannot be fitted"):
        IntervalOverlap("x").score(release(before, before.drop(columns="x")))
    with pytest.raises(NotApplicable, match="holds numbers in the original and text or categories in the release"):
        IntervalOverlap("y ~ x").score(release(before, before.assign(x="30-40")))
    with pytest.raises(DataError, match="fits the original without error"):
        CoefficientDifference("y").score(release(before.assign(y=3.1), before))
    with pytest.raises(DataError, match="it needs more"):
        CoefficientDifference("y ~ x").score(release(before[:3], before))
    with pytest.raises(DataError, match="a response with two values"):
        IntervalOverlap("group ~ x", "logistic").score(release(before, before))
    with pytest.raises(DataError, match="a response with two values"):
        IntervalOverlap("log(y) ~ x", "logistic").score(release(before, before))
    told = before.assign(answer=np.where(before.x > 40, "yes", "no"))
    with pytest.raises(NotApplicable, match="tell its response completely"):
        IntervalOverlap("answer ~ x", "logistic").score(release(told, told))
    whole = before.assign(k=np.arange(300) // 60)
    with pytest.raises(NotApplicable, match="too many to be categories"):
        IntervalOverlap("y ~ C(k)").score(release(whole, whole.assign(k=np.arange(300) / 7)))
    each = before.assign(k=np.arange(300), m=np.arange(300))
    with pytest.raises(NotApplicable, match="at most 500"):
        IntervalOverlap("y ~ C(k):C(m)").score(release(each, each))
    with pytest.raises(DataError, match="infinite"):
        IntervalOverlap("y ~ x").score(release(before.assign(x=math.inf), before))
    with pytest.raises(ParameterError, match="is not a formula"):
        IntervalOverlap("y ~ x +")
    with pytest.raises(ParameterError, match="must be a text"):
        IntervalOverlap(3)  # type: ignore[arg-type]


def test_subgroups_have_overlaps_of_their_own() -> None:
    data = teachers(600)
    made = KimNoise(lambda2=0.5).apply(data, Draws(1))
    score = IntervalOverlap("salary ~ income").score_by(made, "sex")
    part = Release.of(
        data.take(np.flatnonzero(data.batch(["sex"]).column("sex").codes[0] == 0)),
        made.masked.take(np.flatnonzero(made.masked.batch(["sex"]).column("sex").codes[0] == 0)),
    )
    assert next(iter(score.groups.values())) == pytest.approx(IntervalOverlap("salary ~ income").score(part).value)


def test_on_a_map_more_noise_overlaps_less_and_every_drawn_file_is_its_own_original() -> None:
    grid = {"kim_noise.lambda2": [0.02, 2.0]}
    for measure in (IntervalOverlap("salary ~ income"), CoefficientDifference("salary ~ income")):
        m = ru_map(teachers(400), KimNoise(), grid, risk="salary", utility=measure, replications=10, draws=1)
        assert m.estimate(1, 0)[0] > m.estimate(1, 1)[0]
        model = NoiseModel(("salary", "income"), np.zeros(2), np.eye(2), np.eye(2), 400)
        assert measure.prepare(teachers(400), model).reference is None
        made = KimNoise(lambda2=0.02).apply(teachers(400), Draws(1))
        one = measure.prepare(teachers(900), model).assess(made, None)  # type: ignore[arg-type]
        assert one.value == measure.score(made).value


def test_survey_weights_of_the_census_are_used() -> None:
    data = census(2_000).sample
    made = KimNoise(lambda2=0.3).apply(data, Draws(1))
    score = IntervalOverlap("salary ~ age", weighted=True).score(made)
    assert -5 < score.value < 1
    assert data.schema.one("weight") in IntervalOverlap("salary ~ age", weighted=True).columns(data.schema)


@pytest.mark.parametrize("measure", BOTH)
def test_categories_of_few_records_are_not_named(measure: type[IntervalOverlap]) -> None:
    before = people().assign(
        group=lambda f: ["lonely" if i < 9 else "ten" if i < 19 else g for i, g in enumerate(f.group)]
    )
    score = measure("y ~ x + group").score(release(before, before.assign(group="a")))
    shown = f"{score.words} {score.details}"
    assert "lonely" not in shown
    assert {"C(group)[rare 1]", "C(group)[ten]", "C(group)[b]"} <= {
        n.split(" of ")[-1].split(": ")[-1] for n in score.details
    }
    # of products it is the records in both categories that count
    crossed = before.assign(other=["v" if i % 40 == 0 else "u" for i in range(len(before))])
    score = measure("y ~ group*other").score(release(crossed, masked(crossed)))
    assert not [n for n in score.details if "[b]" in n and "[v]" in n]
    assert [n for n in score.details if "C(group)[rare" in n and ":C(other)[rare" in n]
    assert len(score.details) == len({*score.details})


def test_products_with_categories_of_a_release_without_records_are_lost_coefficients() -> None:
    before = people()
    score = IntervalOverlap("y ~ x*C(group)").score(release(before, before.iloc[:0]))
    assert max(score.details.values()) <= 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", BOTH)
def test_a_logistic_regression_does_not_mind_how_far_a_column_is_from_zero(
    measure: type[IntervalOverlap], weighted: bool
) -> None:
    before, after = people(), masked(people())
    near = measure("answer ~ x", model="logistic", weighted=weighted).score(release(before, after))
    far = [frame.assign(x=frame.x + 1e7) for frame in (before, after)]
    score = measure("answer ~ x", model="logistic", weighted=weighted).score(release(*far))
    slope = next(n for n in score.details if n.endswith("x"))
    assert score.details[slope] == pytest.approx(near.details[slope], rel=1e-6)
