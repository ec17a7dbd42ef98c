"""A fitted model with the attributes that statsmodels users know; residuals and fitted values stay with the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
ModelKind = Literal["OLS", "Logit"]


_RECORDS = " Its values are of single records."
_HINTS = {
    "fit": " It is fitted already; with other standard errors, fit it with statsmodels and give the result to room.record.",
    **dict.fromkeys(("resid", "fittedvalues", "predict", "get_influence", "get_prediction", "outlier_test"), _RECORDS),
}


@dataclass(frozen=True, eq=False)
class Model:
    """Coefficients and what goes with them, under the names of statsmodels.

    `rsquared` is McFadden's pseudo-R² of a logistic model, where `prsquared` is its other name.
    """

    kind: ModelKind
    outcome: str
    params: pd.Series[float]
    covariance: Numbers
    """Of the coefficients, shape (k, k)."""
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
        import pandas as pd

        reach = self._distribution().ppf(1 - alpha / 2) * self.bse
        return pd.DataFrame({0: self.params - reach, 1: self.params + reach})

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients."""
        import pandas as pd

        return pd.DataFrame(self.covariance, self.params.index, self.params.index)

    def coefficients(self) -> pd.DataFrame:
        """Return the table of coefficients of `summary`."""
        import pandas as pd

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
        import pandas as pd

        return pd.Series(np.asarray(values, np.float64), self.params.index)

    def _distribution(self) -> Any:
        from scipy import stats

        return stats.t(self.df_resid) if self.kind == "OLS" else stats.norm()


@dataclass(frozen=True, eq=False)
class ModelSummary:
    """What `summary()` of a model shows."""

    model: Model

    @property
    def tables(self) -> list[pd.DataFrame]:
        """The single numbers, and the coefficients."""
        import pandas as pd

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
