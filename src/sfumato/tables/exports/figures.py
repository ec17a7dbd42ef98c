"""Figures as text: with the digits that are published, and nothing where nothing is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.published import PublishedTable


def figure(value: float, decimals: int | None = None) -> str:
    """Return a number as text, empty for NaN.

    Without `decimals`, fifteen digits: those after them are what adding up on a computer leaves, and differ from run to run.

    >>> figure(12.5), figure(12.0), figure(12.5, 2), figure(1e21), figure(float("nan")), figure(-0.001, 1), figure(0.1 + 0.2)
    ('12.5', '12', '12.50', '1000000000000000000000', '', '0.0', '0.3')
    """
    if math.isnan(value):
        return ""
    if decimals is not None:
        return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"
    if float(value := fifteen(value)).is_integer():
        return str(int(value))
    return repr(value)


def fifteen(value: float) -> float:
    """Return a number with its first fifteen digits."""
    return float(f"{value:.15g}")


def number(value: float, decimals: int | None = None) -> float | int | None:
    """Return a number for JSON: None for NaN, whole numbers as such."""
    if math.isnan(value):
        return None
    rounded = fifteen(value) if decimals is None else round(value, decimals)
    return int(rounded) if float(rounded).is_integer() else float(rounded)


def variances(published: PublishedTable) -> NDArray[np.float64] | None:
    """Return the published variances, NaN where the cell itself is not published."""
    if published.variance is None:
        return None
    return np.where(np.isnan(published.values), np.nan, published.variance)


def qualities(published: PublishedTable) -> list[str] | None:
    """Return the quality codes as text, empty where there is none."""
    if published.quality is None:
        return None
    return ["" if code is None else str(code) for code in published.quality]
