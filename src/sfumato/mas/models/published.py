"""Coefficients as they are published: rounded, with statistics computed from the rounded numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.mas.models.numbers import Numbers
from sfumato.mas.perturbation import Models, significant

_NOTHING = 1e-9
"""Of its standard error: a smaller coefficient is 0."""


def coefficient_rows(
    titles: Sequence[str], beta: Numbers, variance: Numbers, settings: Models, df: float | None = None
) -> list[dict[str, Any]]:
    """Return one row for each coefficient; t with degrees of freedom, z without."""
    from scipy.stats import norm, t

    errors = significant(np.sqrt(np.maximum(variance, 0)), settings.error_digits)
    if settings.sd:  # what is 0 but for the last bits is 0 on every engine
        beta = np.where(np.abs(beta) < _NOTHING * errors, 0.0, beta)
    values = significant(beta, settings.digits)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = values / errors
    p = 2 * (norm.sf(np.abs(statistic)) if df is None else t.sf(np.abs(statistic), df))
    name = "z" if df is None else "t"
    return [
        {"term": title, "coefficient": float(b), "standard error": float(e), name: float(s), "p": float(q)}
        for title, b, e, s, q in zip(
            titles,
            values,
            errors,
            significant(statistic, settings.digits),
            significant(p, settings.digits),
            strict=True,
        )
    ]


def rounded(facts: Mapping[str, float], digits: int) -> dict[str, float | None]:
    """Return single numbers rounded to significant digits; None for what is not a number."""
    values = significant(np.array(list(facts.values()), np.float64), digits)
    return {name: float(v) if np.isfinite(v) else None for name, v in zip(facts, values, strict=True)}
