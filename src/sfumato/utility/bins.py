"""Bins of numbers, fixed from the original: where a distribution of numbers is compared as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import param
from sfumato.errors import DataError

Numbers = NDArray[np.float64]
Binning = Literal["quantiles", "equal widths"]


def bins_parameter(default: int) -> Any:
    """Declare the parameter `bins`."""
    return param(default=default, doc="into how many bins numbers are sorted", low=2, high=10_000, integer=True)


def binning_parameter() -> Any:
    """Declare the parameter `binning`."""
    return param(
        default="quantiles",
        doc="bins that hold the same share of the original's records, or that are equally wide",
        choices=("quantiles", "equal widths"),
    )


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins that are open below and closed above: bin i holds the numbers in (edges[i - 1], edges[i]]."""

    edges: Numbers
    """They rise, shape (b - 1,); the first and the last of the b bins have no end."""
    values: Numbers | None
    """The numbers that have a bin each, where the original has few different ones; else None."""

    def __len__(self) -> int:
        return len(self.edges) + 1

    def find(self, x: Numbers) -> NDArray[np.int64]:
        """Return the bin of each number; that of NaN means nothing."""
        return np.searchsorted(self.edges, x, side="left")


def bins_of(x: Numbers, weights: Numbers | None, bins: int, binning: Binning, name: str = "") -> Bins:
    """Fix bins from the known numbers of an original, shape (n,), none of them NaN; `weights` are theirs.

    Quantiles are those of the weighted distribution function: the smallest number that has at least the share k/bins at or below
    it. A number so frequent that several quantiles fall on it has a bin of its own. Where there are no more different numbers
    than bins, each has one, and so has what lies between two of them.

    >>> bins_of(np.arange(1.0, 9.0), None, 4, "quantiles").edges.tolist()
    [2.0, 4.0, 6.0]
    """
    from sfumato.kernels.sorting import sorted_runs  # brings the compiler, which only those who compare need

    order, begins, values = sorted_runs(x)
    if len(values) <= bins:
        return Bins(_edges(values, values), values)
    if binning == "equal widths":
        if not np.isfinite(values[[0, -1]]).all() or not np.isfinite(values[-1] - values[0]):
            raise DataError(f"column '{name}' holds infinite or huge values, which equally wide bins cannot hold.")
        return Bins(np.unique(np.linspace(values[0], values[-1], bins + 1)[1:-1]), None)
    ends = begins[1:]
    below = ends.astype(np.float64) if weights is None else np.cumsum(weights[order])[ends - 1]
    # what rounding takes from a sum must not push a quantile to the next number
    quantiles = values[np.searchsorted(below, np.arange(1, bins) * (below[-1] / bins) * (1 - 1e-12), side="left")]
    return Bins(_edges(quantiles, quantiles[1:][quantiles[1:] == quantiles[:-1]]), None)


def _edges(upper: Numbers, alone: Numbers) -> Numbers:
    """Return the upper ends of bins; the numbers in `alone` get a bin that holds nothing else."""
    return np.unique(np.concatenate([upper, np.nextafter(alone, -np.inf)]))
