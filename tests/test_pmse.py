"""pMSE: against statsmodels, by algebra, and its expectation by Monte Carlo under synthesis, drawn parameters and noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from sfumato.contract import Draws, Release
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, teachers
from sfumato.errors import DataError, NotApplicable
from sfumato.masks import CopulaSynthesis, FullNormalSynthesis, KimNoise, KimTransformation, RankSwap, SuppressColumns
from sfumato.schema import Attribute, Schema
from sfumato.utility import PMSE
from sfumato.utility.propensity import expectation

Numbers = NDArray[np.float64]
MODELS = ("main effects", "two-way", "tree")


def data_of(frame: pd.DataFrame, **facts: Any) -> Microdata:
    schema = Schema(tuple(Attribute(n, "weight" if n == "w" else "confidential", **facts) for n in frame))
    return Microdata(pa.Table.from_pandas(frame, preserve_index=False), schema)


def people(n: int = 400, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    x = g.normal(40, 9, n)
    frame = pd.DataFrame({"x": x, "y": 3 * x + g.normal(0, 20, n), "group": g.choice(["a", "b", "c"], n)})
    return frame.assign(w=g.uniform(1, 5, n))


def moved(frame: pd.DataFrame, seed: int = 5) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return frame.assign(
        x=frame.x + g.normal(1, 5, len(frame)),
        group=np.where(g.uniform(size=len(frame)) < 0.2, "a", frame.group),
    ).sample(frac=0.7, random_state=1)


def scored(before: pd.DataFrame, after: pd.DataFrame, *args: Any, align: Any = None, **named: Any) -> Any:
    return PMSE(*args, **named).score(Release.of(data_of(before), data_of(after), align))


def by_statsmodels(
    before: pd.DataFrame, after: pd.DataFrame, two_way: bool, weighted: bool
) -> tuple[float, float, int]:
    both = pd.concat([before, after])
    z = (both[["x", "y"]] - both[["x", "y"]].mean()).assign(b=both.group == "b", c=both.group == "c").astype(float)
    if two_way:
        pairs = [("x", "y"), ("x", "b"), ("x", "c"), ("y", "b"), ("y", "c"), ("x", "x"), ("y", "y")]
        z = z.assign(**{f"{i}{j}": z[i] * z[j] for i, j in pairs})
    hit = np.repeat([0.0, 1.0], [len(before), len(after)])
    w = both.w.to_numpy() if weighted else np.ones(len(both))
    design = sm.add_constant((z / z.std()).to_numpy())
    p = sm.GLM(hit, design, sm.families.Binomial(), freq_weights=w).fit(tol=1e-13).mu
    c = float(w @ hit / w.sum())
    return float(w @ (p - c) ** 2 / w.sum()), c, design.shape[1]


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_that_of_a_logistic_regression_by_statsmodels(two_way: bool, weighted: bool) -> None:
    before = people()
    after = moved(before)
    pmse, c, k = by_statsmodels(before, after, two_way, weighted)
    score = scored(before, after, model="two-way" if two_way else "main effects", weighted=weighted)
    assert score.details["pMSE"] == pytest.approx(pmse, rel=1e-5)
    assert score.details["share of released records (c)"] == pytest.approx(c)
    assert score.details["coefficients (k)"] == k
    assert score.value == pytest.approx(1 - pmse / (c * (1 - c)))
    assert ("weighted" in score.variant) == weighted


@pytest.mark.parametrize("model", MODELS)
def test_a_file_that_was_not_changed_cannot_be_told(model: Any) -> None:
    before = people()
    score = scored(before, before, model=model, align="rows")
    assert score.value == 1
    assert score.details["pMSE"] == pytest.approx(0, abs=1e-20)
    again = scored(before, before.sample(frac=1, random_state=2), model=model)
    assert again.value == pytest.approx(1, abs=0.05 if model == "tree" else 1e-9)  # a tree does not know who is who


@pytest.mark.parametrize("model", MODELS)
def test_files_that_are_told_completely_have_no_utility(model: Any) -> None:
    before = people()
    for after in (before.assign(x=before.x + 1000), before.drop(columns="x"), before.assign(x=None)):
        assert scored(before, after, model=model).value == pytest.approx(0, abs=1e-4)


def test_the_words_say_which_columns_tell_every_record() -> None:
    before = people()
    words = "x tells every record by itself, being recoded or not released"
    assert words in scored(before, before.drop(columns="x")).words
    assert words in scored(before, before.assign(x="30-40")).words
    assert "x, group tell every record by themselves" in scored(before, before.assign(group="any", x="30")).words
    assert "tell every" not in scored(before, before).words
    assert scored(before, before.drop(columns="x"), ["y"]).value == 1


def test_suppressed_values_are_told_by_their_absence() -> None:
    before = people()
    values = [before.assign(x=before.x.where(np.arange(400) % 10 >= k)) for k in (0, 1, 5)]
    utilities = [scored(before, v).value for v in values]
    assert utilities[0] == 1
    assert utilities == sorted(utilities, reverse=True)
    # no other column differs, so p is (1 - s)/(2 - s) where x is there and 1 where it is not, s the share suppressed
    s = 0.5
    pmse = ((2 - s) * ((1 - s) / (2 - s) - 0.5) ** 2 + s * 0.25) / 2
    assert 1 - scored(before, values[2], ["x"]).value == pytest.approx(pmse / 0.25, abs=0.01)


def test_categories_have_a_closed_form() -> None:
    # with one column the fitted propensity of a category is its share of released records
    before = pd.DataFrame({"group": ["a"] * 30 + ["b"] * 50 + ["c"] * 20})
    after = pd.DataFrame({"group": ["a"] * 40 + ["b"] * 35 + ["c"] * 5})
    c, pmse = 80 / 180, 0.0
    for old, new in ((30, 40), (50, 35), (20, 5)):
        pmse += (old + new) * (new / (old + new) - c) ** 2 / 180
    score = scored(before, after)
    assert score.details["pMSE"] == pytest.approx(pmse, rel=1e-6)
    assert score.details["coefficients (k)"] == 3


def test_rare_categories_are_taken_together() -> None:
    before = pd.DataFrame({"code": np.repeat(np.arange(25), np.arange(100, 75, -1)).astype(str)})
    after = before.assign(code=before.code.replace({"23": "22", "22": "23"}))
    score = scored(before, after)
    assert score.details["coefficients (k)"] == 21  # 20 categories and the rest
    assert score.value == pytest.approx(1)  # what happened among the rare ones is not seen
    assert scored(before, after.assign(code=after.code.replace("0", "24"))).value < 0.99


def test_numbers_that_the_schema_calls_unordered_are_categories() -> None:
    g = np.random.default_rng(1)
    before = pd.DataFrame({"code": g.integers(1, 4, 300)})
    after = before.assign(code=before.code.map({1: 2, 2: 1, 3: 2}))
    plain = scored(before, after).details["coefficients (k)"]
    named = PMSE().score(Release.of(data_of(before, scale="unordered"), data_of(after, scale="unordered")))
    assert (plain, named.details["coefficients (k)"]) == (2, 3)


def test_dependent_and_constant_columns_are_not_counted() -> None:
    before = people()
    after = moved(before)
    score = scored(before, after, ["x", "y"])
    wide = [f.assign(twice=f.x * 2, one=3.0, same=f.x) for f in (before, after)]
    again = scored(*wide, ["x", "y", "twice", "one", "same"])
    assert again.details["pMSE"] == pytest.approx(score.details["pMSE"], rel=1e-5)
    assert again.details["coefficients (k)"] == score.details["coefficients (k)"] == 3
    assert 0 <= scored(*wide, ["x", "y", "twice", "one", "same"], model="two-way").value <= 1


def normal(n: int, g: np.random.Generator, p: int = 4) -> Numbers:
    return g.normal(size=(n, p)) @ np.linalg.cholesky(0.5 * np.eye(p) + 0.5).T


def matrix(x: Numbers) -> Microdata:
    return data_of(pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])]))


def ratios(make: Any, times: int, n: int = 300, **named: Any) -> Numbers:
    """Return pMSE over its expectation for fitted-model synthesis, for files that `make` makes of originals."""
    out = []
    for seed in range(times):
        g = np.random.default_rng(seed)
        data = matrix(normal(n, g))
        details = PMSE(**named).score(make(data, g)).details
        c, k = details["share of released records (c)"], details["coefficients (k)"]
        out.append(details["pMSE"] / ((k - 1) * (1 - c) ** 2 * c / (n / (1 - c))))
    return np.array(out)


@pytest.mark.parametrize(("size", "model"), [(None, "main effects"), (150, "main effects"), (None, "two-way")])
def test_a_correct_synthesis_from_a_fitted_model_has_the_expected_pmse(size: int | None, model: Any) -> None:
    def make(data: Microdata, g: np.random.Generator) -> Release:
        mask = FullNormalSynthesis(data.schema.names(), size=size, proper=False)
        return mask.apply(data, Draws(int(g.integers(1 << 40))))

    found = ratios(make, 60, model=model)
    degrees = 4 if model == "main effects" else 14
    assert found.mean() == pytest.approx(1, abs=4 * math.sqrt(2 / degrees / 60) + 0.05)


def test_drawn_parameters_and_independent_samples_have_the_expectation_of_two_samples() -> None:
    def drawn(data: Microdata, g: np.random.Generator) -> Release:
        return FullNormalSynthesis(data.schema.names()).apply(data, Draws(int(g.integers(1 << 40))))

    def another(data: Microdata, g: np.random.Generator) -> Release:
        return Release.of(data, matrix(normal(len(data), g)))

    for make in (drawn, another):
        assert ratios(make, 60).mean() == pytest.approx(2, abs=8 * math.sqrt(2 / 4 / 60) + 0.1)  # 1/(1 - c)
    mean, spread = expectation(5, 0.5, 600, drawn=True)
    assert mean == pytest.approx(4 * 0.25 / 600)
    assert spread == pytest.approx(math.sqrt(8) * 0.25 / 600)
    assert expectation(5, 0.4, 600, drawn=False)[0] == pytest.approx(4 * 0.6**2 * 0.4 / 600)


@pytest.mark.parametrize("lambda2", [0.01, 0.3])
def test_masked_records_have_a_ratio_near_the_noise_variance_ratio_and_not_1(lambda2: float) -> None:
    # the files' means differ by the mean of the noise alone, whose variance is λ² of the sampling variance
    def make(data: Microdata, g: np.random.Generator) -> Release:
        return KimNoise(data.schema.names(), lambda2=lambda2).apply(data, Draws(int(g.integers(1 << 40))))

    expected = lambda2 / (1 + lambda2 / 2)  # the covariance of both files together has half the noise in it
    assert ratios(make, 60).mean() == pytest.approx(expected, rel=4 * math.sqrt(2 / 4 / 60))


def test_the_ratio_is_given_for_synthesis_alone_and_the_words_say_why_not() -> None:
    data = teachers(500)
    over = ["salary", "income"]
    made = FullNormalSynthesis(over, proper=False).apply(data, Draws(1))
    score = PMSE(over).score(made)
    k, n = 3, 1000
    expected = (k - 1) * 0.5**3 / n
    assert score.details["pMSE expected"] == pytest.approx(expected)
    assert score.details["pMSE ratio"] == pytest.approx(score.details["pMSE"] / expected)
    spread = math.sqrt(2 * (k - 1)) * 0.5**3 / n
    assert score.details["pMSE standardised"] == pytest.approx((score.details["pMSE"] - expected) / spread)
    assert "times what a correct synthesis gives" in score.words
    proper = PMSE(over).score(FullNormalSynthesis(over).apply(data, Draws(1)))
    assert proper.details["pMSE expected"] == pytest.approx(2 * expected)
    assert "pMSE ratio" in PMSE(over).score(CopulaSynthesis(over).apply(data, Draws(1))).details
    for mask in (KimNoise(), RankSwap()):
        masked = PMSE(over).score(mask.apply(data, Draws(1)))
        assert "pMSE ratio" not in masked.details
        assert "it holds for synthesis from a fitted model alone" in masked.words
    assert "pMSE ratio" not in PMSE(over, null="estimated").score(KimNoise().apply(data, Draws(1))).details
    assert "pMSE ratio" not in PMSE(over, null="none").score(made).details


def test_of_a_file_synthesised_elsewhere_the_user_says_how() -> None:
    before, after = people(), people(seed=2)
    assert "pMSE ratio" not in scored(before, after).details
    drawn = scored(before, after, null="drawn").details["pMSE ratio"]
    assert scored(before, after, null="estimated").details["pMSE ratio"] == pytest.approx(2 * drawn)
    assert "pMSE ratio" not in scored(before, after, null="drawn", align="rows").details  # they are masked originals
    assert "none is known for weighted records" in scored(before, after, null="drawn", weighted=True).words


def test_noise_is_seen_by_squares_and_trees_but_not_by_main_effects() -> None:
    data = matrix(normal(3000, np.random.default_rng(1)))
    kept = KimTransformation(columns=data.schema.names(), lambda2=0.5).apply(data, Draws(1))
    swapped = RankSwap(columns=data.schema.names(), p=0.5).apply(data, Draws(1))
    for release, least in ((KimNoise(data.schema.names(), lambda2=0.5).apply(data, Draws(1)), 0.02), (swapped, 0.02)):
        main, two, tree = (PMSE(model=m).score(release).value for m in MODELS)
        assert main > 0.999
        assert two < 1 - least
        assert tree < 1 - least
    assert PMSE(model="two-way").score(kept).value > 0.99  # its covariance is kept


def test_a_tree_is_never_asked_about_records_it_was_grown_on() -> None:
    # independent samples of the same people: an in-sample tree with small leaves would tell them apart
    g = np.random.default_rng(3)
    release = Release.of(matrix(normal(3000, g)), matrix(normal(3000, g)))
    assert PMSE(model="tree").score(release).value > 0.95


def test_several_implicates_are_averaged() -> None:
    before = people()
    one, two = (Release.of(data_of(before), data_of(moved(before, s))) for s in (1, 2))
    both = PMSE().score(Release(one.original, (one.masked, two.masked), aligned=False))
    assert both.value == pytest.approx(np.mean([PMSE().score(r).value for r in (one, two)]))
    assert both.details["pMSE"] == pytest.approx(np.mean([PMSE().score(r).details["pMSE"] for r in (one, two)]))


def test_what_cannot_be_compared_is_refused_in_a_sentence() -> None:
    before = people()
    with pytest.raises(DataError, match="column 'z' is not in the data"):
        scored(before, before, ["z"])
    with pytest.raises(DataError, match="needs records in the original and in the release"):
        scored(before, before[:0])
    with pytest.raises(DataError, match="infinite"):
        scored(before.assign(x=math.inf), before)
    g = np.random.default_rng(1)
    wide = pd.DataFrame({f"c{j}": g.integers(0, 20, 300).astype(str) for j in range(3)})
    with pytest.raises(NotApplicable, match="terms, and has at most 300"):
        scored(wide, wide, model="two-way")
    with pytest.raises(DataError, match="needs survey weights"):
        scored(before.drop(columns="w"), before, weighted=True)


def test_extremes_of_data_survive() -> None:
    before = people(20)
    assert scored(before[:1], before[:1]).value == 1
    assert scored(before.assign(x=None, y=None), before.assign(x=None, y=None)).value == 1
    assert scored(before.assign(x=5.0), before.assign(x=5.0)).value == 1
    huge = before.assign(x=before.x * 1e290)
    assert scored(huge, huge).value == 1


def test_subgroups_and_mixed_files_of_the_census() -> None:
    data = census(2_000).sample
    made = (KimNoise() >> SuppressColumns(["tract", "district"])).apply(data, Draws(1))
    over = ["age", "sex", "salary", "rent", "education"]
    score = PMSE(over, weighted=True).score_by(made, "sex")
    assert len(score.groups) >= 2
    assert all(0.5 < v <= 1 for v in score.groups.values())
    assert PMSE().score(made).value == pytest.approx(0, abs=1e-3)  # tracts were not released


@pytest.mark.parametrize("model", MODELS)
def test_a_recoded_column_of_hundreds_of_categories_tells_every_record(model: Any) -> None:
    before = people(2000).assign(group=lambda f: [f"z{i % 300}" for i in range(len(f))])
    after = before.assign(group=[f"prefix {i % 100}" for i in range(len(before))])
    assert scored(before, after, ["group"], model=model).value == pytest.approx(0, abs=1e-3)
    # half of the records, by algebra: 2 of 3 records that are not told are original ones, p = 1/3, and of the others p is 1
    half = before.assign(
        group=[a if i % 2 else b for i, (a, b) in enumerate(zip(after.group, before.group, strict=True))]
    )
    assert scored(before, half, ["group"], model="main effects").value == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize("model", MODELS)
def test_dates_that_were_shifted_are_told_by_how_far(model: Any) -> None:
    days = np.random.default_rng(3).integers(0, 20_000, 2000)
    born = [pd.DataFrame({"born": np.datetime64("1950-01-01") + (days + more)}) for more in (0, 2_000, 7_300, 30_000)]
    found = [scored(born[0], after, ["born"], model=model).value for after in born]
    assert found[0] == 1
    assert sorted(found, reverse=True) == found
    assert found[3] == pytest.approx(0, abs=1e-3)
    numbers = scored(pd.DataFrame({"born": days}), pd.DataFrame({"born": days + 7_300}), ["born"], model=model)
    assert found[2] == pytest.approx(numbers.value)
