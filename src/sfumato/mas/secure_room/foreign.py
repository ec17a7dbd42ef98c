"""Models that statsmodels fitted, read without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ForeignModel:
    """What is recorded of a model that was fitted elsewhere."""

    kind: str
    outcome: str
    names: tuple[str, ...]
    coefficients: pd.DataFrame
    facts: dict[str, Any]
    df_resid: float
    rsquared: float
    """NaN where the model has none."""
    columns: NDArray[np.float64] | None


_FACTS = ("nobs", "df_model", "df_resid", "rsquared", "rsquared_adj", "prsquared", "fvalue", "f_pvalue", "llf", "llnull",
          "llr", "llr_pvalue", "aic", "bic")  # fmt: skip


def foreign_model(result: Any) -> ForeignModel:
    """Return the parts of a fitted model of statsmodels that may leave; never its residuals."""
    import pandas as pd

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
