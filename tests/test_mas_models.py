"""Models of the analysis system without perturbation are those of statsmodels, and of slow twins where it has none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED
from mas_survey import microdata, survey

from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import OLS, CrossTab, Logistic, Multinomial
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault

smf = pytest.importorskip("statsmodels.formula.api")
sm = pytest.importorskip("statsmodels.api")

EXACT = Policy.open().with_(title="exact")
FORMULA = "log(income) ~ year + z*age + race*C(sex)"
RACE, SEX = "C(race, Treatment('W'))", "C(sex, Treatment('M'))"
TERMS = [
    ("C(race)", RACE), ("C(sex)", SEX), ("C(race):C(sex)", f"{RACE}:{SEX}"), ("age", "age"), ("year", "year"), ("z", "z"),
    ("age:z", "age:z"),
]  # fmt: skip
PATSY = f"np.log(income) ~ {RACE} * {SEX} + age + year + z + age:z"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return survey()


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    vault.freeze("survey", microdata(frame, design=False))
    return vault


def ask(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = EXACT) -> Answer:
    answer = vault.ask("survey", universe, analysis, policy)
    assert isinstance(answer, Answer), str(answer)
    return answer


def patsy_name(term: str) -> str:
    """Return what statsmodels calls a coefficient."""
    out = []
    for part in term.split(":"):
        found = re.fullmatch(r"C\((\w+)\)\[(\w+)\]", part)
        out.append(f"{RACE if found[1] == 'race' else SEX}[T.{found[2]}]" if found else part)
    return ":".join(out)


def same(answer: Answer, fitted: Any, rel: float = 1e-8) -> None:
    """Compare coefficients and standard errors with those of statsmodels, to 8 digits."""
    table = answer.frame("coefficients")
    names = [patsy_name(term) for term in table["term"]]
    assert sorted(names) == sorted(fitted.params.index)
    for name, value, error in zip(names, table["coefficient"], table["standard error"], strict=True):
        assert value == pytest.approx(fitted.params[name], rel=rel, abs=1e-8 * fitted.bse[name])
        assert error == pytest.approx(fitted.bse[name], rel=rel)


# -- least squares


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0"), ("hc1", "HC1")])
@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_are_those_of_statsmodels(
    vault: Vault, frame: pd.DataFrame, weighted: bool, errors: str, kind: str
) -> None:
    complete = frame.dropna(subset=["z"])
    model = smf.wls(PATSY, complete, weights=complete["weight"]) if weighted else smf.ols(PATSY, complete)
    answer = ask(vault, OLS(FORMULA, weighted=weighted, errors=errors))
    same(answer, model.fit(cov_type=kind))
    plain = model.fit()
    assert answer.facts["n"] == len(complete)
    assert answer.facts["R²"] == pytest.approx(plain.rsquared, rel=1e-8)
    assert answer.facts["adjusted R²"] == pytest.approx(plain.rsquared_adj, rel=1e-8)
    assert answer.facts["F"] == pytest.approx(plain.fvalue, rel=1e-8)
    assert answer.facts["p of F"] == pytest.approx(plain.f_pvalue, rel=1e-6)


def test_the_analysis_of_variance_is_that_of_statsmodels(vault: Vault, frame: pd.DataFrame) -> None:
    from statsmodels.stats.anova import anova_lm

    fitted = smf.ols(PATSY, frame.dropna(subset=["z"])).fit()
    expected = anova_lm(fitted, typ=1)
    table = ask(vault, OLS(FORMULA)).frame("anova").set_index("source")
    for ours, theirs in {**dict(TERMS), "Residual": "Residual"}.items():
        assert table.loc[ours, "sum of squares"] == pytest.approx(expected.loc[theirs, "sum_sq"], rel=1e-8, abs=1e-9)
        assert table.loc[ours, "df"] == expected.loc[theirs, "df"]
        if ours != "Residual":
            assert table.loc[ours, "F"] == pytest.approx(expected.loc[theirs, "F"], rel=1e-7, abs=1e-9)
            assert table.loc[ours, "p"] == pytest.approx(expected.loc[theirs, "PR(>F)"], rel=1e-6)
    assert table.loc["Regression", "sum of squares"] == pytest.approx(fitted.ess, rel=1e-8)
    assert table.loc["Total", "sum of squares"] == pytest.approx(fitted.centered_tss, rel=1e-8)
    assert table.loc["Residual", "mean square"] == pytest.approx(fitted.mse_resid, rel=1e-8)


def test_the_weighted_analysis_of_variance_is_that_of_nested_models(vault: Vault, frame: pd.DataFrame) -> None:
    complete = frame.dropna(subset=["z"])
    table = ask(vault, OLS(FORMULA, weighted=True, errors="classical")).frame("anova").set_index("source")
    formula = "np.log(income) ~ 1"
    before = smf.wls(formula, complete, weights=complete["weight"]).fit().ssr  # anova_lm leaves the weights out
    assert table.loc["Total", "sum of squares"] == pytest.approx(before, rel=1e-8)
    for ours, theirs in TERMS:
        formula += f" + {theirs}"
        after = smf.wls(formula, complete, weights=complete["weight"]).fit().ssr
        assert table.loc[ours, "sum of squares"] == pytest.approx(before - after, rel=1e-6, abs=1e-8 * before)
        before = after
    assert table.loc["Residual", "sum of squares"] == pytest.approx(before, rel=1e-8)


def test_a_model_without_intercept_is_that_of_statsmodels(vault: Vault, frame: pd.DataFrame) -> None:
    answer = ask(vault, OLS("income ~ 0 + age + z:C(sex)"))
    complete = frame.dropna(subset=["z"])
    fitted = smf.ols("income ~ 0 + age + z:C(sex)", complete).fit()
    table = answer.frame("coefficients").set_index("term")
    for ours, theirs in {"age": "age", "C(sex)[F]:z": "z:C(sex)[F]", "C(sex)[M]:z": "z:C(sex)[M]"}.items():
        assert table.loc[ours, "coefficient"] == pytest.approx(fitted.params[theirs], rel=1e-8)
        assert table.loc[ours, "standard error"] == pytest.approx(fitted.bse[theirs], rel=1e-8)
    assert answer.facts["R²"] == pytest.approx(fitted.rsquared, rel=1e-8)


def test_indicators_that_add_up_to_an_intercept_count_as_one(vault: Vault, frame: pd.DataFrame) -> None:
    answer = ask(vault, OLS("income ~ 0 + C(sex) + age"))
    fitted = smf.ols("income ~ 0 + C(sex) + age", frame).fit()
    assert answer.facts["R²"] == pytest.approx(fitted.rsquared, rel=1e-8)
    assert answer.facts["adjusted R²"] == pytest.approx(fitted.rsquared_adj, rel=1e-8)
    assert answer.facts["F"] == pytest.approx(fitted.fvalue, rel=1e-8)
    assert answer.facts["df model"] == fitted.df_model
    errors = ask(vault, OLS("z ~ 0 + C(sex)")).frame()["standard error"].to_numpy()
    assert errors == pytest.approx(smf.ols("z ~ 0 + C(sex)", frame).fit().bse.to_numpy(), rel=1e-8)
    binary = ask(vault, Logistic("sick ~ 0 + C(sex) + age"))
    twin = smf.logit("flag ~ 0 + C(sex) + age", frame).fit(disp=0)
    assert binary.facts["p"] == pytest.approx(twin.llr_pvalue, rel=1e-6)


def test_a_product_with_a_standardised_number_needs_no_lower_term(vault: Vault, frame: pd.DataFrame) -> None:
    answer = ask(vault, OLS("log(income) ~ z + standardise(age):z"))
    complete = frame.dropna(subset=["z"]).assign(a=lambda d: (d["age"] - d["age"].mean()) / d["age"].std(ddof=0))
    fitted = smf.ols("np.log(income) ~ z + z:a", complete).fit()
    table = answer.frame("coefficients").set_index("term")
    for ours, theirs in {"Intercept": "Intercept", "standardise(age):z": "z:a", "z": "z"}.items():
        assert table.loc[ours, "coefficient"] == pytest.approx(fitted.params[theirs], rel=1e-8)
        assert table.loc[ours, "standard error"] == pytest.approx(fitted.bse[theirs], rel=1e-8)


def test_the_levels_of_a_recode_in_a_universe_are_those_that_it_chooses(frame: pd.DataFrame, tmp_path: Any) -> None:
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", microdata(frame, design=False), recodes=[LevelRecode("race3", "race", {"AO": ["A", "O"]})])
    answer = ask(vault, Logistic("C(race3) ~ age"), {"race": ["W", "B"]})
    some = frame[frame["race"].isin(["W", "B"])]
    fitted = smf.logit("white ~ age", some.assign(white=1.0 * (some["race"] == "W"))).fit(disp=0)
    assert abs(answer.frame()["coefficient"].to_numpy()) == pytest.approx(abs(fitted.params.to_numpy()), rel=1e-7)
    assert not any("Too few records" in note for note in answer.notes)


def test_standardised_and_transformed_terms_are_those_of_statsmodels(vault: Vault, frame: pd.DataFrame) -> None:
    answer = ask(vault, OLS("standardise(income) ~ standardise(age) + square(age) + sqrt(z) + log1p(z)"))
    complete = frame.dropna(subset=["z"]).assign(
        age_=lambda d: (d["age"] - d["age"].mean()) / d["age"].std(ddof=0), square=lambda d: d["age"] ** 2,
        income_=lambda d: (d["income"] - d["income"].mean()) / d["income"].std(ddof=0),
    )  # fmt: skip
    fitted = smf.ols("income_ ~ age_ + square + np.sqrt(z) + np.log1p(z)", complete).fit()
    names = {
        "Intercept": "Intercept",
        "standardise(age)": "age_",
        "square(age)": "square",
        "sqrt(z)": "np.sqrt(z)",
        "log1p(z)": "np.log1p(z)",
    }
    table = answer.frame("coefficients").set_index("term")
    for ours, theirs in names.items():
        assert table.loc[ours, "coefficient"] == pytest.approx(fitted.params[theirs], rel=1e-8)
        assert table.loc[ours, "standard error"] == pytest.approx(fitted.bse[theirs], rel=1e-8)
    assert answer.frame("anova").set_index("source").loc["Total", "sum of squares"] == pytest.approx(
        fitted.centered_tss, rel=1e-8
    )


@pytest.mark.parametrize(
    "formula",
    ["race:sex", "race + race:sex", "age:race", "age + age:race:sex", "0 + race + sex",
     "0 + race*sex", "race:sex:age + z", "0 + race:age"],
)  # fmt: skip
def test_categories_are_coded_so_that_the_model_is_that_of_statsmodels(
    vault: Vault, frame: pd.DataFrame, formula: str
) -> None:
    answer = ask(vault, OLS(f"income ~ {formula}"))
    fitted = smf.ols(f"income ~ {formula}", frame.dropna(subset=["z"]) if "z" in formula else frame).fit()
    assert len(answer.tables["coefficients"]) == len(fitted.params)
    table = answer.frame("anova").set_index("source")
    assert table.loc["Residual", "sum of squares"] == pytest.approx(fitted.ssr, rel=1e-9)


def test_a_fully_interacted_model_of_indicators_is_the_table_of_means(vault: Vault, frame: pd.DataFrame) -> None:
    table = ask(vault, OLS("income ~ race*sex")).frame("coefficients").set_index("term")["coefficient"]
    means = frame.groupby(["race", "sex"])["income"].mean()
    rebuilt = table["Intercept"] + table["C(race)[B]"] + table["C(sex)[F]"] + table["C(race)[B]:C(sex)[F]"]
    assert rebuilt == pytest.approx(means["B", "F"], rel=1e-10)


def design_matrix(frame: pd.DataFrame) -> np.ndarray:
    columns = [
        np.ones(len(frame)),
        *((frame["race"] == r) * 1.0 for r in "ABO"),
        (frame["sex"] == "F") * 1.0,
        frame["age"],
    ]
    return np.column_stack(columns)


# -- logistic models


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0"), ("hc1", "HC1")])
def test_logistic_models_are_those_of_statsmodels(vault: Vault, frame: pd.DataFrame, errors: str, kind: str) -> None:
    formula = f"flag ~ {RACE}*{SEX} + age + z"
    complete = frame.dropna(subset=["z"])
    fitted = smf.logit(formula, complete).fit(disp=0, tol=1e-13, maxiter=100, cov_type=kind)
    for outcome in ("sick", "C(sick)", "flag"):
        answer = ask(vault, Logistic(f"{outcome} ~ z + C(race)*sex + age", errors=errors))
        same(answer, fitted)
        assert answer.facts["log-likelihood"] == pytest.approx(fitted.llf, rel=1e-8)
        assert answer.facts["null log-likelihood"] == pytest.approx(fitted.llnull, rel=1e-8)
        assert answer.facts["pseudo-R²"] == pytest.approx(fitted.prsquared, rel=1e-8)
        assert answer.facts["p"] == pytest.approx(fitted.llr_pvalue, rel=1e-6)


def test_weighted_logistic_models_are_those_of_statsmodels(vault: Vault, frame: pd.DataFrame) -> None:
    fitted = sm.GLM(
        frame["flag"], design_matrix(frame), family=sm.families.Binomial(), freq_weights=frame["weight"]
    ).fit(tol=1e-13)
    answer = ask(vault, Logistic("sick ~ age + race + sex", weighted=True, errors="classical"))
    table = answer.frame("coefficients")
    assert table["coefficient"].to_numpy() == pytest.approx(fitted.params.to_numpy(), rel=1e-8)
    assert table["standard error"].to_numpy() == pytest.approx(fitted.bse.to_numpy(), rel=1e-8)
    assert answer.facts["log-likelihood"] == pytest.approx(fitted.llf, rel=1e-8)


def test_the_other_event_turns_the_signs(vault: Vault) -> None:
    yes, no = (ask(vault, Logistic("sick ~ age", event=event)).frame("coefficients") for event in ("yes", "no"))
    assert no["coefficient"].tolist() == [-b for b in yes["coefficient"]]
    assert no["standard error"].tolist() == yes["standard error"].tolist()


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0")])
def test_multinomial_models_are_those_of_statsmodels(vault: Vault, frame: pd.DataFrame, errors: str, kind: str) -> None:
    codes = frame["work"].map({"full": 0, "none": 1, "part": 2})  # full is the most frequent
    fitted = sm.MNLogit(codes, design_matrix(frame)).fit(disp=0, tol=1e-14, maxiter=100, cov_type=kind)
    answer = ask(vault, Multinomial("work ~ sex + age + race", errors=errors))
    table = answer.frame("coefficients")
    for i, outcome in enumerate(["work = none", "work = part"]):
        rows = table[table["outcome"] == outcome]
        assert rows["coefficient"].to_numpy() == pytest.approx(np.asarray(fitted.params)[:, i], rel=1e-7, abs=1e-10)
        assert rows["standard error"].to_numpy() == pytest.approx(np.asarray(fitted.bse)[:, i], rel=1e-8)
    assert answer.facts["log-likelihood"] == pytest.approx(fitted.llf, rel=1e-10)
    assert answer.facts["null log-likelihood"] == pytest.approx(fitted.llnull, rel=1e-8)
    assert answer.facts["pseudo-R²"] == pytest.approx(fitted.prsquared, rel=1e-7)


def test_a_weighted_multinomial_model_is_that_of_repeated_records(vault: Vault, tmp_path: Any) -> None:
    data = survey(900)
    data["weight"] = np.random.default_rng(0).integers(1, 4, len(data)).astype(float)
    other = Vault.create(tmp_path / "v")
    other.freeze("survey", microdata(data, design=False))
    again = data.loc[data.index.repeat(data["weight"].astype(int))]
    codes = again["work"].map({"full": 0, "none": 1, "part": 2})
    fitted = sm.MNLogit(codes, sm.add_constant(again[["age"]])).fit(disp=0, tol=1e-14, maxiter=100)
    table = ask(other, Multinomial("work ~ age", weighted=True, errors="classical")).frame("coefficients")
    assert table["coefficient"].to_numpy() == pytest.approx(np.asarray(fitted.params).T.ravel(), rel=1e-7)
    assert table["standard error"].to_numpy() == pytest.approx(np.asarray(fitted.bse).T.ravel(), rel=1e-8)


# -- wording and universes


def test_a_model_over_a_universe_uses_its_records_and_its_most_frequent_level(
    vault: Vault, frame: pd.DataFrame
) -> None:
    answer = ask(vault, OLS("income ~ race"), {"race": ["A", "B", "O"], "sex": "F"})
    chosen = frame[(frame["race"] != "W") & (frame["sex"] == "F")]
    table = answer.frame("coefficients").set_index("term")["coefficient"]
    means = chosen.groupby("race")["income"].mean()
    assert "The reference level of race is B, the most frequent one." in answer.notes
    assert table["Intercept"] == pytest.approx(means["B"], rel=1e-10)
    assert table["C(race)[O]"] == pytest.approx(means["O"] - means["B"], rel=1e-10)


@pytest.mark.parametrize("policy", ["exact", "hardened"])
def test_a_formula_in_other_words_gives_the_same_bytes(vault: Vault, policy: str) -> None:
    formulas = [
        "income~C(sex):race+ age+race + sex",
        "income ~ race*sex + age",
        "income ~ age + 1 + C(race)*C(sex) + race:sex",
    ]
    chosen = EXACT if policy == "exact" else Policy.named(policy).with_(accounts=UNLIMITED, per_minute=None)
    answers = {ask(vault, OLS(f), policy=chosen).to_bytes() for f in formulas}
    assert len(answers) == 1
    events = {ask(vault, Logistic("sick ~ age", event=event), policy=chosen).to_bytes() for event in (None, "yes")}
    assert len(events) == 1


# -- what cannot be answered


def refusal(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = EXACT) -> str:
    found = vault.ask("survey", universe, analysis, policy)
    assert isinstance(found, Refusal), str(found)
    assert not re.search(r"\d{2,}", str(found)), "a refusal tells no count"
    return found.rule


def test_what_cannot_be_computed_is_refused_with_a_way_forward(vault: Vault) -> None:
    assert refusal(vault, OLS("income ~ age + standardise(age)")) == "collinearity"
    assert refusal(vault, Logistic("sick ~ age"), {"sick": "yes"}) == "one_outcome"
    assert refusal(vault, Multinomial("work ~ age"), {"work": "part"}) == "one_outcome"
    assert refusal(vault, Logistic("sick ~ flag")) == "separation"
    assert refusal(vault, Logistic("C(sick) ~ flag + age")) == "separation"


def test_formulas_that_are_not_allowed_are_refused_before_anything_is_read(vault: Vault) -> None:
    for formula in (
        "income ~ exp(age)",
        "income ~ I(age**20)",
        "income ~ __import__('os').system('x')",
        "income ~ 1/(abs(age-89)+1e-6)",
        "income ~ 1/(age-89)",
        "income ~ age**20",
        "income ~ log(age) ^ 2",
        "income ~ ",
        "~ age",
        "income",
    ):
        with pytest.raises(ParameterError):
            OLS(formula)
    with pytest.raises(DataError, match="Did you mean 'income'"):
        ask(vault, OLS("incme ~ age"))
    with pytest.raises(DataError, match="no public bounds"):
        ask(vault, OLS("income ~ empty"))
    with pytest.raises(DataError, match="does not hold numbers"):
        ask(vault, OLS("income ~ log(race)"))
    with pytest.raises(DataError, match="has no levels"):
        ask(vault, OLS("income ~ C(age)"))
    with pytest.raises(ParameterError, match="must be a number"):
        ask(vault, OLS("sick ~ age"))
    with pytest.raises(ParameterError, match="event="):
        ask(vault, Logistic("work ~ age"))
    with pytest.raises(DataError, match="0 and 1"):
        ask(vault, Logistic("income ~ age"))
    for flag in ("no", 1):
        with pytest.raises(ParameterError, match="weighted of"):
            CrossTab(("sick",), weighted=flag)
    with pytest.raises(DataError, match="level '7' is not in"):
        ask(vault, Logistic("C(sick) ~ age", event=7))
