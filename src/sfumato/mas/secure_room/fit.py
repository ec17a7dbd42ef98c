"""Least squares and logistic regression, as statsmodels computes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.kernels.least_squares import least_squares, orthonormal
from sfumato.kernels.logistic import logistic
from sfumato.mas.secure_room.design import Design
from sfumato.mas.secure_room.model import Model

Numbers = NDArray[np.float64]
_FLAT = 1e-8
"""Information below this share of what the columns could give: the likelihood does not end, outcomes are told perfectly."""


def fit_ols(design: Design) -> Model:
    """Regress the outcome on the columns."""
    import pandas as pd
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
    return Model("OLS", design.outcome_name, params, fit.covariance, float(n), slopes, left, 1 - rss / tss, llf, facts)


def fit_logit(design: Design) -> Model:
    """Fit the probability that the outcome is 1."""
    import pandas as pd
    from scipy import stats

    y = design.outcome
    if not np.isin(y, (0.0, 1.0)).all():
        raise DataError(
            "the outcome of a logistic model is 0 or 1. Make it so first, as in (data['sick'] == 'yes').astype(int)."
        )
    if y.min() == y.max():
        raise DataError("all records have the same outcome, so that there is nothing to explain.")
    basis = orthonormal(design.columns)
    q = basis.columns
    n, k = q.shape
    found = logistic(lambda start, stop: q[start:stop], y, np.ones(n), k, intercept=False)
    b, information, p = found.coefficients, found.information, found.fitted
    if not found.converged or np.linalg.eigvalsh(information)[0] < _FLAT:
        raise DataError(
            "the columns tell the outcome of some records perfectly, so that the model has no estimate. Leave out the column "
            "that does, or join its small categories."
        )
    b = b + np.linalg.solve(information, q.T @ (y - p))  # one more step of Newton's: to the last digit
    eta = q @ b
    p = 1 / (1 + np.exp(-eta))
    z = q * np.sqrt(p * (1 - p))[:, None]
    llf = float(y @ eta - np.logaddexp(0.0, eta).sum())
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
    covariance = basis.back @ np.linalg.inv(z.T @ z) @ basis.back.T
    params = pd.Series(basis.back @ b, design.names)
    return Model(
        "Logit", design.outcome_name, params, covariance, float(n), slopes, float(n - k), 1 - llf / llnull, llf, facts
    )
