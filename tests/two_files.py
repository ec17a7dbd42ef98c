"""Pairs of small files of numbers, for comparisons of an original with a release; and noise that obeys algebra exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.data.microdata import Microdata
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


def numbers(weights: Any = None, **columns: Any) -> Microdata:
    """Return a file of confidential columns, with survey weights if given."""
    attributes = [Attribute(name, "confidential") for name in columns]  # type: ignore[arg-type]
    if weights is not None:
        attributes.append(Attribute("w", "weight"))  # type: ignore[arg-type]
        columns = {**columns, "w": weights}
    return Microdata(pa.table(columns), Schema(tuple(attributes)))


def file_of(x: Numbers, weights: Any = None) -> Microdata:
    """Return a file with a column c0, c1, ... for each column of an array; NaN is missing."""
    return numbers(weights, **{f"c{j}": pa.array(column, from_pandas=True) for j, column in enumerate(x.T)})


def release(before: Microdata, *after: Microdata, aligned: bool = True) -> Release:
    """Return a release of one or several implicates, record by record."""
    if not aligned:
        return Release(before, after, aligned=False)
    return Release(before, tuple(Release.of(before, file, "rows").masked for file in after))


def exact(n: int, correlation: Numbers, lambda2: float, seed: int = 1) -> tuple[Numbers, Numbers]:
    """Return records whose sample correlation is exactly this, and the same with noise of exactly λ² times the variances.

    In the sample, not only on average: the noise has mean 0, and no correlation with the records or between its columns.
    """
    k = len(correlation)
    z = np.random.default_rng(seed).normal(size=(n, 2 * k))
    q = np.linalg.qr(z - z.mean(axis=0))[0] * np.sqrt(n - 1)  # columns of mean 0 and variance 1, uncorrelated
    x = q[:, :k] @ np.linalg.cholesky(correlation).T
    return x, x + np.sqrt(lambda2) * q[:, k:]
