"""Covariances of a file's columns, shrunk where the records are too few to tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Rows
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.moments import Moments, complete, is_constant
from sfumato.microdata import Microdata, numbers_of

Numbers = NDArray[np.float64]

ENOUGH = 10
"""With so many records for each column, shrinkage = "auto" shrinks nothing."""


def shrunk_moments(data: Microdata, names: Sequence[str], shrinkage: str | float = "auto") -> tuple[Moments, float]:
    """Return the moments of the complete records, the correlations multiplied by 1 - δ, and δ.

    `shrinkage` is δ itself, from 0 to 1, or "ledoit-wolf", which estimates the δ that is best on average (Ledoit and Wolf 2004,
    on standardised columns, so that units do not matter and variances stay), or "auto": that, if there are fewer than ten
    complete records for each column, else none. To shrink understates what exact sums among the columns give away.
    """
    moments = data.moments(names)
    if moments.count < 2:
        raise DataError(
            f"{moments.count} records have all of {listing(names)}, but a covariance needs at least two. Leave out columns that "
            "are often missing."
        )
    if not (np.isfinite(moments.mean).all() and np.isfinite(moments.covariance).all()):
        raise DataError(
            f"{listing(names)}: some values are infinite, or too large for a variance. Set them to missing."
        )
    variance = np.diag(moments.covariance)
    flat = is_constant(moments.mean, variance)
    covariance = np.where(flat[:, None] | flat[None, :], 0.0, moments.covariance)
    delta = _intensity(data, replace(moments, covariance=covariance), shrinkage)
    if delta:
        covariance = (1 - delta) * covariance + delta * np.diag(np.diag(covariance))
    return replace(moments, covariance=covariance), delta


def _intensity(data: Microdata, moments: Moments, shrinkage: str | float) -> float:
    if isinstance(shrinkage, str):
        if shrinkage not in ("auto", "ledoit-wolf"):
            raise ParameterError(
                f"shrinkage is '{shrinkage}', which is not known. Give 'auto', 'ledoit-wolf', or a number from 0 to 1."
            )
        few = moments.count < ENOUGH * len(moments.names)
        return ledoit_wolf(data, moments) if few or shrinkage == "ledoit-wolf" else 0.0
    if isinstance(shrinkage, bool) or not 0 <= shrinkage <= 1:
        raise ParameterError("shrinkage must be 'auto', 'ledoit-wolf', or a number from 0 to 1.")
    return float(shrinkage)


def ledoit_wolf(data: Microdata, moments: Moments) -> float:
    """Return the estimated best δ for the correlation matrix, shrunk towards the identity (Ledoit and Wolf 2004, section 3.3).

    δ = min(b², d²)/d², where d² = ‖R - I‖²/p and b² = Σₜ‖zₜzₜ′ - R‖²/(n²p) over the standardised records zₜ.
    """
    n = moments.count
    scale = np.sqrt(np.diag(moments.covariance) * (n - 1) / n)
    varies = scale > 0
    names = [name for name, v in zip(moments.names, varies, strict=True) if v]
    if len(names) < 2:
        return 0.0
    mean, scale, schema = moments.mean[varies], scale[varies], data.schema
    R = moments.covariance[np.ix_(varies, varies)] * (n - 1) / n / np.outer(scale, scale)

    def fourth(rows: Rows) -> Numbers:
        matrix = np.column_stack([numbers_of(rows.columns[name], schema[name]) for name in moments.names])
        z = (complete(matrix)[:, varies] - mean) / scale
        return np.array([np.square(np.square(z).sum(axis=1)).sum()])

    total = float(data.engine.reduce(fourth, list(moments.names))[0])
    far = float(np.square(R - np.eye(len(R))).sum())
    noise = (total / n - float(np.square(R).sum())) / n
    return min(max(noise, 0.0), far) / far if far > 0 else 0.0
