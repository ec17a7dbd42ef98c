"""Models with the interface of statsmodels: design, fit, results; and models that statsmodels fitted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from sfumato.errors import DataError, ParameterError, plural, unknown_name
from sfumato.kernels.regression import independent, least_squares, logistic_regression
from sfumato.room.pandas_calls import as_pandas
from sfumato.typing import Numbers
from sfumato.utility.estimators import frame_design, named_in


@dataclass(frozen=True, eq=False)
class RoomDesign:
    """The outcome and k columns of n records."""

    outcome: Numbers
    """Shape (n,)."""
    columns: Numbers
    """Shape (n, k)."""
    names: tuple[str, ...]
    outcome_name: str
    constant: bool
    """Whether the columns hold a constant, or add up to one."""


def from_arrays(endog: Any, exog: Any, missing: str, hasconst: bool | None) -> RoomDesign:
    """Return the design of an outcome and columns, as statsmodels takes them: a constant is a column like any other."""
    if missing not in ("none", "drop", "raise"):
        raise ParameterError(f"missing must be 'none', 'drop' or 'raise'; got '{missing}'.")
    outcome, columns = as_pandas(endog), as_pandas(exog)
    if exog is None:
        raise ParameterError("a model needs columns to explain the outcome (exog), or a formula and data.")
    indexed = [a for a in (outcome, columns) if isinstance(a, pd.Series | pd.DataFrame)]
    if len(indexed) == 2 and not indexed[0].index.equals(indexed[1].index):
        raise DataError("outcome and columns have different indexes. Take them from one data frame.")
    names = _names(columns)
    y, x = _array(outcome), _array(columns)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim == 1:
        x = x[:, None]
    if y.ndim != 1 or x.ndim != 2 or len(y) != len(x):
        raise DataError("the outcome is one column, and as long as the columns that explain it.")
    known = ~(np.isnan(y) | np.isnan(x).any(axis=1))
    if not known.all():
        if missing != "drop":
            raise DataError("the outcome or a column has missing values. Leave these records out (missing='drop').")
        y, x = y[known], x[known]
    name = getattr(outcome, "name", None)
    if name is None and isinstance(outcome, pd.DataFrame):
        name = outcome.columns[0]
    return _checked(y, x, names, str(name) if name is not None else "y", hasconst)


def from_formula(formula: str, data: Any, subset: Any = None, drop_cols: Any = None) -> RoomDesign:
    """Return the design of a formula such as ``"income ~ age + C(region)"``; records with a missing value are left out."""
    from formulaic.errors import FormulaicError

    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise DataError("a formula needs a data frame (data=...).")
    for name in named_in(re.sub(r"\bnp\.", "", formula)):  # refuses functions that are not on the list
        if name not in frame.columns:
            raise DataError(unknown_name("column", name, map(str, frame.columns), "the data"))
    if subset is not None:
        try:
            frame = frame.loc[subset]
        except (KeyError, IndexError, ValueError, TypeError, pd.errors.IndexingError):
            raise DataError("subset must select records of the data: a true or false for each, or labels.") from None
    try:
        left, right = frame_design(frame, formula)
    except (FormulaicError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(
            "the formula does not fit the data. Check that its columns hold numbers, or categories where it says C(column)."
        ) from None
    if left.shape[1] != 1:
        raise DataError("the outcome of a model is one column of numbers; make 0 and 1 of an outcome in words.")
    unwanted = [] if drop_cols is None else [drop_cols] if isinstance(drop_cols, str) else list(drop_cols)
    right = right.drop(columns=[c for c in right.columns if c in unwanted])
    y, x = left.to_numpy(np.float64)[:, 0], right.to_numpy(np.float64)
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise DataError("a function in the formula has no value for some records, such as the logarithm of 0.")
    return _checked(y, x, tuple(map(str, right.columns)), str(left.columns[0]), None)


def _array(given: Any) -> Numbers:
    try:
        if isinstance(given, pd.DataFrame | pd.Series):
            return np.asarray(given.astype("Float64").to_numpy(np.float64, na_value=np.nan))
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DataError("outcome and columns of a model hold numbers; a formula takes categories too.") from None


def _names(columns: Any) -> tuple[str, ...]:
    if isinstance(columns, pd.DataFrame):
        return tuple(map(str, columns.columns))
    if isinstance(columns, pd.Series):
        return (str(columns.name) if columns.name is not None else "x1",)
    array = np.asarray(columns)
    x = array[:, None] if array.ndim == 1 else array
    if x.ndim != 2:
        return ()
    first = int(x.dtype.kind in "fiub" and len(x) > 0 and x.shape[1] > 0 and bool((x[:, 0] == 1).all()))
    return ("const",) * first + tuple(f"x{i}" for i in range(1, x.shape[1] + 1 - first))


def _checked(y: Numbers, x: Numbers, names: tuple[str, ...], outcome: str, hasconst: bool | None) -> RoomDesign:
    if not x.shape[1]:
        raise DataError("the model has no columns.")
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise DataError("the outcome or a column holds infinite values. Correct them first.")
    if len(y) <= x.shape[1]:
        raise DataError(
            f"the model has {plural(x.shape[1], 'coefficient')}, and not more records than that with all its columns."
        )
    told = independent(x)
    if not told.all():
        raise DataError(
            f"column '{names[int(np.flatnonzero(~told)[0])]}' is a combination of others, so that their coefficients cannot be "
            "told apart. Leave it out."
        )
    constant = not bool(independent(np.column_stack([x, np.ones(len(x))]))[-1]) if hasconst is None else bool(hasconst)
    return RoomDesign(y, x, names, outcome, constant)


# --- Least squares and logistic regression, as statsmodels computes them.

_FLAT = 1e-8
"""Information below this share of what the columns could give: the likelihood has no maximum, outcomes are predicted perfectly."""


def fit_ols(design: RoomDesign) -> RoomModel:
    """Regress the outcome on the columns."""
    from scipy import stats

    y, x = design.outcome, design.columns
    n, k = x.shape
    fit = least_squares(x, y)
    left = float(n - k)
    residual = y - x @ fit.coefficients
    rss = float(residual @ residual)
    about = y - y.mean() if design.constant else y
    tss = float(about @ about)
    if tss == 0:
        raise DataError("the outcome is the same for every record, so that there is nothing to explain.")
    slopes = float(k - design.constant)
    scale = rss / left
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.float64((tss - rss) / slopes) / scale if slopes else np.nan
        llf = float(-n / 2 * (np.log(2 * np.pi) + np.log(rss / n) + 1))
    facts = {
        "rsquared_adj": float(1 - (n - design.constant) / left * (rss / tss)),
        "fvalue": float(f),
        "f_pvalue": float(stats.f.sf(f, slopes, left)) if slopes else np.nan,
        "aic": -2 * llf + 2 * k,
        "bic": -2 * llf + np.log(n) * k,
        "ssr": rss,
        "ess": tss - rss,
        "mse_resid": scale,
        "scale": scale,
    }
    params = pd.Series(fit.coefficients, design.names)
    return RoomModel(
        "OLS", design.outcome_name, params, fit.covariance, float(n), slopes, left, 1 - rss / tss, llf, facts
    )


def fit_logit(design: RoomDesign) -> RoomModel:
    """Fit the probability that the outcome is 1, by logistic regression."""
    from scipy import stats

    y = design.outcome
    if not np.isin(y, (0.0, 1.0)).all():
        raise DataError(
            "the outcome of a logistic model is 0 or 1. Make it so first, as in (data['sick'] == 'yes').astype(int)."
        )
    if y.min() == y.max():
        raise DataError("all records have the same outcome, so that there is nothing to explain.")
    n, k = design.columns.shape
    found = logistic_regression(design.columns, y, polish=True)
    if not found.converged or found.least_information < _FLAT:
        raise DataError(
            "the columns tell the outcome of some records perfectly, so that the model has no estimate. Leave out the column "
            "that does, or join its small categories."
        )
    llf = found.log_likelihood
    share = float(y.mean())
    llnull = n * (share * np.log(share) + (1 - share) * np.log(1 - share))
    slopes = float(k - design.constant)
    ratio = 2 * (llf - llnull)
    facts = {
        "prsquared": 1 - llf / llnull,
        "llnull": llnull,
        "llr": ratio,
        "llr_pvalue": float(stats.chi2.sf(ratio, slopes)) if slopes else np.nan,
        "aic": -2 * llf + 2 * k,
        "bic": -2 * llf + np.log(n) * k,
    }
    params = pd.Series(found.coefficients, design.names)
    return RoomModel(
        "Logit",
        design.outcome_name,
        params,
        found.covariance,
        float(n),
        slopes,
        float(n - k),
        1 - llf / llnull,
        llf,
        facts,
    )


# --- A fitted model with the attributes of statsmodels; residuals and fitted values stay with the records.

ModelKind = Literal["OLS", "Logit"]


_RECORDS = " Its values are of single records."
_HINTS = {
    "fit": " It is fitted already; with other standard errors, fit it with statsmodels and give the result to room.record.",
    **dict.fromkeys(("resid", "fittedvalues", "predict", "get_influence", "get_prediction", "outlier_test"), _RECORDS),
}


@dataclass(frozen=True, eq=False)
class RoomModel:
    """Coefficients and related results, under the names of statsmodels.

    `rsquared` is McFadden's pseudo-R² for a logistic model; `prsquared` is its other name there.
    """

    kind: ModelKind
    outcome: str
    params: pd.Series[float]
    covariance: Numbers
    """Covariance of the coefficients, shape (k, k)."""
    nobs: float
    df_model: float
    df_resid: float
    rsquared: float
    llf: float
    """Log-likelihood."""
    facts: dict[str, float]
    """Further numbers, by the names that statsmodels gives them."""

    def __getattr__(self, name: str) -> float:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return float(facts[name])
        hint = _HINTS.get(name, "")
        raise AttributeError(
            f"the model has no '{name}'.{hint} It has params, bse, tvalues, pvalues, conf_int(), cov_params(), nobs, df_model, "
            f"df_resid, rsquared, llf, summary(){''.join(f', {f}' for f in facts)}."
        )

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors."""
        return self._series(np.sqrt(np.diag(self.covariance)))

    @property
    def tvalues(self) -> pd.Series[float]:
        """Coefficients over standard errors: t of least squares, z of a logistic model."""
        return self.params / self.bse

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values: by Student's t for least squares, by the normal for a logistic model."""
        return self._series(2 * self._distribution().sf(np.abs(self.tvalues.to_numpy())))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence intervals of level 1 - alpha, as columns 0 and 1."""
        reach = self._distribution().ppf(1 - alpha / 2) * self.bse
        return pd.DataFrame({0: self.params - reach, 1: self.params + reach})

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients."""
        return pd.DataFrame(self.covariance, self.params.index, self.params.index)

    def coefficients(self) -> pd.DataFrame:
        """Return the table of coefficients of `summary`."""
        letter = "t" if self.kind == "OLS" else "z"
        low, high = self.conf_int()[0], self.conf_int()[1]
        return pd.DataFrame(
            {
                "coef": self.params, "std err": self.bse, letter: self.tvalues, f"P>|{letter}|": self.pvalues,
                "[0.025": low, "0.975]": high,
            }
        )  # fmt: skip

    def numbers(self) -> dict[str, Any]:
        """Return the single numbers of the model by name."""
        return {
            "model": self.kind, "outcome": self.outcome, "nobs": self.nobs, "df_model": self.df_model,
            "df_resid": self.df_resid, "rsquared": self.rsquared, "llf": self.llf, **self.facts,
        }  # fmt: skip

    def summary(self) -> ModelSummary:
        """Return the model as text and as tables."""
        return ModelSummary(self)

    def _series(self, values: Any) -> pd.Series[float]:
        return pd.Series(np.asarray(values, np.float64), self.params.index)

    def _distribution(self) -> Any:
        from scipy import stats

        return stats.t(self.df_resid) if self.kind == "OLS" else stats.norm()


@dataclass(frozen=True, eq=False)
class ModelSummary:
    """The content of `summary()` of a model."""

    model: RoomModel

    @property
    def tables(self) -> list[pd.DataFrame]:
        """The single numbers, and the coefficients."""
        facts = self.model.numbers()
        return [pd.DataFrame({"value": list(facts.values())}, index=list(facts)), self.model.coefficients()]

    def as_text(self) -> str:
        """Return the summary as text."""
        facts = self.model.numbers()
        shown = [f"{k}: {v if isinstance(v, str) else format(v, '.6g')}" for k, v in facts.items()]
        lines = ["   ".join(shown[i : i + 4]) for i in range(0, len(shown), 4)]
        return "\n".join([*lines, "", self.model.coefficients().to_string(float_format=lambda v: f"{v:.4g}")])

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__


# --- Models that statsmodels fitted, read without importing it.


@dataclass(frozen=True, eq=False)
class ForeignModel:
    """The recorded parts of a model that was fitted elsewhere."""

    kind: str
    outcome: str
    names: tuple[str, ...]
    coefficients: pd.DataFrame
    facts: dict[str, Any]
    df_resid: float
    rsquared: float
    """NaN where the model has none."""
    columns: Numbers | None


_FACTS = ("nobs", "df_model", "df_resid", "rsquared", "rsquared_adj", "prsquared", "fvalue", "f_pvalue", "llf", "llnull",
          "llr", "llr_pvalue", "aic", "bic")  # fmt: skip


def foreign_model(result: Any) -> ForeignModel:
    """Return the parts of a fitted model of statsmodels that may leave; never its residuals."""
    params, df_resid = getattr(result, "params", None), getattr(result, "df_resid", None)
    if params is None or df_resid is None or getattr(result, "bse", None) is None:
        raise DataError(
            "record takes a fitted model of statsmodels, as fit() returns it. Other results go through custom_output."
        )
    model = getattr(result, "model", None)
    if np.ndim(params) != 1:
        raise DataError(
            "record takes models with one column of coefficients. Write others to a file, for custom_output."
        )
    own = params.index if isinstance(params, pd.Series) else [f"x{i}" for i in range(1, len(params) + 1)]
    names = tuple(map(str, getattr(model, "exog_names", None) or own))
    exog = getattr(model, "exog", None)
    columns = None if exog is None or np.ndim(exog) != 2 else np.asarray(exog, np.float64)
    if len(names) != len(params):  # models with further parameters, such as a dispersion
        names = tuple(map(str, own))
        columns = None
    if columns is not None and columns.shape[1] != len(names):
        columns = None
    table = pd.DataFrame(
        {
            "coef": np.asarray(params, np.float64), "std err": np.asarray(result.bse, np.float64),
            "t": np.asarray(result.tvalues, np.float64), "P>|t|": np.asarray(result.pvalues, np.float64),
        },
        index=list(names),
    )  # fmt: skip
    facts = {name: float(value) for name in _FACTS if (value := _number(result, name)) is not None}
    fit = facts.get("rsquared", facts.get("prsquared", np.nan))
    kind = type(model).__name__ if model is not None else type(result).__name__
    outcome = str(getattr(model, "endog_names", "y"))
    return ForeignModel(
        kind, outcome, names, table, {"model": kind, "outcome": outcome, **facts}, float(df_resid), fit, columns
    )


def _number(result: Any, name: str) -> float | None:
    try:
        value = getattr(result, name, None)
        return None if value is None else float(value)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None
