"""Models in a secure room: the numbers of statsmodels to eight digits, and the checks of what they disclose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from sfumato.errors import DataError, ParameterError
from sfumato.room import RoomModel, SecureRoom
from sfumato.room.checks import fewest_in_saturated, leverage, set_apart

OLS = ("rsquared", "rsquared_adj", "fvalue", "f_pvalue", "llf", "aic", "bic", "ssr", "mse_resid", "scale", "nobs",
       "df_resid", "df_model", "ess")  # fmt: skip
LOGIT = ("prsquared", "llf", "llnull", "llr", "llr_pvalue", "aic", "bic", "nobs", "df_resid", "df_model")


def people(n: int = 400, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n).astype(float),
            "region": rng.choice(["north", "south", "west"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    frame["income"] = np.exp(2 + 0.02 * frame["age"] + 0.3 * (frame["sex"] == "f") + rng.normal(0, 0.5, n))
    chance = 1 / (1 + np.exp(-(-2 + 0.04 * frame["age"] + 0.5 * (frame["region"] == "west"))))
    frame["ill"] = (rng.random(n) < chance).astype(int)
    frame.loc[:9, "age"] = np.nan
    return frame


def quiet() -> SecureRoom:
    return SecureRoom(tell=None)


def agree(mine: RoomModel, theirs: Any, facts: tuple[str, ...]) -> None:
    for name in ("params", "bse", "tvalues", "pvalues"):
        found, wanted = getattr(mine, name), pd.Series(getattr(theirs, name))
        assert list(found.index) == list(wanted.index)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-14)
    intervals = pd.DataFrame(theirs.conf_int(0.1))
    np.testing.assert_allclose(mine.conf_int(0.1).loc[intervals.index], intervals, rtol=1e-8)
    covariance = pd.DataFrame(theirs.cov_params())
    np.testing.assert_allclose(
        mine.cov_params().loc[covariance.index, covariance.index], covariance, rtol=1e-8, atol=1e-14
    )
    for name in facts:
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-8, abs=1e-10), name


@pytest.mark.parametrize(
    "formula",
    [
        "income ~ age",
        "np.log(income) ~ age + C(region)",
        "income ~ age * sex + region",
        "income ~ age + sex - 1",
        "income ~ 0 + age + C(region)",
        "income ~ age + C(sex)*C(region) + age:C(sex)",
        "np.sqrt(income) ~ np.square(age) + C(region):age",
        "income ~ 1",
    ],
)
def test_least_squares_from_a_formula_is_that_of_statsmodels(formula: str) -> None:
    data = people()
    facts = tuple(f for f in OLS if formula != "income ~ 1" or f not in ("fvalue", "f_pvalue", "rsquared", "ess"))
    agree(quiet().ols(formula, data), smf.ols(formula, data).fit(), facts)


@pytest.mark.parametrize("constant", [True, False])
def test_least_squares_from_arrays_is_that_of_statsmodels(constant: bool) -> None:
    data = people().dropna()
    x = data[["age", "ill"]].rename(columns={"age": "years"})
    x = sm.add_constant(x) if constant else x
    agree(quiet().ols(data["income"], x), sm.OLS(data["income"], x).fit(), OLS)
    plain = quiet().ols(data["income"].to_numpy(), x.to_numpy())
    theirs = sm.OLS(data["income"].to_numpy(), x.to_numpy()).fit()
    np.testing.assert_allclose(plain.params, theirs.params, rtol=1e-9)
    assert list(plain.params.index) == theirs.model.exog_names


@pytest.mark.parametrize(
    "formula", ["ill ~ age", "ill ~ age + C(region) + sex", "ill ~ age:sex + region", "ill ~ sex - 1"]
)
def test_a_logistic_model_is_that_of_statsmodels(formula: str) -> None:
    data = people()
    theirs = smf.logit(formula, data).fit(disp=0, method="newton", tol=1e-14, maxiter=200)
    agree(quiet().logitr(formula, data), theirs, LOGIT)


def test_a_logistic_model_of_arrays_with_missing_values_is_that_of_statsmodels() -> None:
    data = people()
    x = sm.add_constant(data[["age"]])
    mine = quiet().logit(data["ill"], x, missing="drop")
    agree(mine, sm.Logit(data["ill"], x, missing="drop").fit(disp=0, tol=1e-14), LOGIT)
    assert mine.rsquared == mine.prsquared
    with pytest.raises(DataError, match="missing='drop'"):
        quiet().logit(data["ill"], x)


def test_a_subset_and_dropped_columns_are_those_of_statsmodels() -> None:
    data = people()
    mine = quiet().olsr("income ~ age + C(region)", data, subset=data["sex"] == "f", drop_cols=["C(region)[T.south]"])
    theirs = smf.ols("income ~ age + I(region == 'west')", data[data["sex"] == "f"]).fit()
    assert mine.params["age"] == pytest.approx(theirs.params["age"], rel=1e-9)
    assert mine.nobs == theirs.nobs


def test_columns_that_are_nearly_dependent_or_far_from_zero_keep_their_digits() -> None:
    data = people().dropna()
    data["year"] = 1e6 + data["age"]
    far = quiet().ols("income ~ year", data)
    near = quiet().ols("income ~ age", data)
    assert far.params["year"] == pytest.approx(near.params["age"], rel=1e-8)
    assert far.bse["year"] == pytest.approx(near.bse["age"], rel=1e-8)


def test_the_summary_shows_the_coefficients_and_no_residuals() -> None:
    model = quiet().ols("income ~ age", people())
    text = str(model.summary())
    assert "Intercept" in text
    assert "df_resid" in text
    assert [list(t.columns) for t in model.summary().tables] == [
        ["value"], ["coef", "std err", "t", "P>|t|", "[0.025", "0.975]"],
    ]  # fmt: skip
    for hidden, why in (("resid", "single records"), ("fittedvalues", "single records"), ("fit", "fitted already")):
        with pytest.raises(AttributeError, match=f"{why}.*params"):
            getattr(model, hidden)


# -- the checks


def test_a_model_with_nine_residual_degrees_of_freedom_fails_and_one_with_ten_passes() -> None:
    data = people(200).dropna()
    for size, status in ((11, "fail"), (12, "pass")):
        room = quiet()
        model = room.ols("income ~ age", data[:size])
        assert model.df_resid == size - 2
        assert room.last.status == status
    assert room.last.summary == "pass"


def test_a_column_that_sets_a_few_records_apart_fails() -> None:
    data = people()
    data["odd"] = 0.0
    data.loc[20:28, "odd"] = 1.0
    room = quiet()
    room.ols("income ~ age + odd", data)
    assert room.last.status == "fail"
    assert "odd" in room.last.summary
    data.loc[29, "odd"] = 1.0
    room.ols("income ~ age + odd", data)
    assert room.last.status == "pass"


def test_a_saturated_model_is_a_table_of_means_and_its_groups_are_counted() -> None:
    data = people().dropna()
    few = pd.concat(
        [data[data["region"] == "north"][:9], data[data["region"] == "south"], data[data["region"] == "west"]]
    )
    room = quiet()
    room.ols("income ~ C(region)", few)  # the reference group has no column of its own
    assert room.last.failures["why"].tolist() == ["a group has fewer than 10 records"]
    room.ols("income ~ C(region)", data)
    assert room.last.status == "pass"


def test_a_record_that_the_fit_must_pass_through_fails() -> None:
    data = people(60).dropna()
    data.loc[data.index[0], "age"] = 1e6
    room = quiet()
    room.ols("income ~ age", data)
    assert "leverage" in room.last.summary


def test_a_fit_that_tells_outcomes_is_for_a_person() -> None:
    data = people().dropna()
    data["double"] = 2 * data["income"] + np.random.default_rng(0).normal(0, 1e-6, len(data))
    room = quiet()
    room.ols("double ~ income", data)
    assert room.last.status == "review"


def test_leverage_and_groups_are_what_their_definitions_say() -> None:
    x = np.column_stack([np.ones(30), np.random.default_rng(2).normal(size=30), [1.0] * 4 + [0.0] * 26])
    np.testing.assert_allclose(leverage(x), np.diag(x @ np.linalg.inv(x.T @ x) @ x.T), rtol=1e-10)
    assert set_apart(x).tolist() == [30, 29, 4]
    assert fewest_in_saturated(x) is None
    assert fewest_in_saturated(x[:, [0, 2]]) == 4


# -- models of statsmodels


@pytest.mark.parametrize("kind", ["ols", "logit", "glm", "probit"])
def test_models_of_statsmodels_are_recorded_with_the_same_checks(kind: str) -> None:
    data = people()
    call = getattr(smf, kind)
    theirs = call("ill ~ age + region", data).fit() if kind in ("ols", "glm") else call("ill ~ age", data).fit(disp=0)
    room = quiet()
    output = room.record(theirs)
    np.testing.assert_allclose(output.tables["coefficients"]["coef"], theirs.params)
    assert output.facts["df_resid"] == theirs.df_resid
    assert output.status == ("review" if kind == "glm" else "pass")  # a GLM has no R² that is known here


def test_a_model_of_few_records_of_statsmodels_fails_and_other_objects_are_refused() -> None:
    room = quiet()
    assert room.record(smf.ols("income ~ age", people().dropna()[:8]).fit()).status == "fail"
    with pytest.raises(DataError, match="fitted model"):
        room.record({"params": 1})
    mine = room.ols("income ~ age", people())
    assert room.record(mine).status == "review"  # its columns are not with it
    several = sm.MNLogit(people()["region"].astype("category").cat.codes, sm.add_constant(people()["ill"])).fit(disp=0)
    with pytest.raises(DataError, match="one column"):
        room.record(several)


# -- bad input


@pytest.mark.parametrize(
    ("call", "formula", "words"),
    [
        ("ols", "income ~ agee", "Did you mean 'age'"),
        ("ols", "income ~ eval(age)", "not allowed"),
        ("ols", "income ~ __import__('os')", "not allowed"),
        ("ols", "income", "not a formula"),
        ("ols", "region ~ age", "one column of numbers"),
        ("ols", "income ~ age + same", "combination of others"),
        ("ols", "income ~ one", "combination of others"),
        ("ols", "one ~ age", "same for every record"),
        ("ols", "income ~ np.log(ill)", "no value for some records"),
        ("ols", "nothing ~ age", "not more records"),
        ("logit", "income ~ age", "is 0 or 1"),
        ("logit", "one ~ age", "same outcome"),
        ("logit", "ill ~ told", "perfectly"),
    ],
)
def test_a_model_that_cannot_be_is_refused_in_a_sentence(call: str, formula: str, words: str) -> None:
    data = people()
    data["same"] = 2 * data["age"]
    data["one"] = 1.0
    data["nothing"] = np.nan
    data["told"] = data["ill"] * 2.0 + 1
    room = quiet()
    with pytest.raises((DataError, ParameterError), match=words):
        getattr(room, call)(formula, data)
    assert not room.outputs


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    data = people().dropna()
    room = quiet()
    with pytest.raises(DataError, match="different indexes"):
        room.ols(data["income"], data[["age"]].sort_values("age"))
    with pytest.raises(DataError, match="as long as"):
        room.ols(np.ones(4), np.ones((5, 1)))
    with pytest.raises(DataError, match="hold numbers"):
        room.ols(data["income"], data[["region"]])
    with pytest.raises(ParameterError, match="formula"):
        room.ols(data["income"])
    with pytest.raises(ParameterError, match="formula"):
        room.ols(data["income"], data[["age"]], data=data)
    with pytest.raises(ParameterError, match="missing must be"):
        room.ols(data["income"], data[["age"]], missing="zero")
    with pytest.raises(DataError, match="data frame"):
        room.ols("income ~ age")
