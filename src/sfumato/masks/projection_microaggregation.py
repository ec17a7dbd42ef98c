"""Projection microaggregation: records are sorted along one line, and taken k at a time."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, param
from sfumato.errors import ParameterError, unknown_name
from sfumato.kernels.groups import consecutive
from sfumato.kernels.robust import principal_axes
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers
from sfumato.microdata import Microdata

_LINES = ("pca", "zscores")


class ProjectionMicroaggregation(Microaggregation):
    """Records are sorted by their first principal component, sum of z-scores, or one column, and taken k at a time.

    Defays and Nanopoulos (1993); Mateo-Sanz and Domingo-Ferrer (1998). As fast as sorting; the groups are tight along the line
    and loose across it, so it suits columns that go together. The component is that of each stratum.
    """

    by: str = param(
        default="pca",
        doc="what to sort by: 'pca' (first principal component), 'zscores' (their sum), or a masked column",
        of_data="nothing",
    )

    def validate(self) -> None:
        """Refuse a column to sort by that is not masked."""
        super().validate()
        if not isinstance(self.by, str) or not self.by:
            raise ParameterError(f"by of {self.name} must be 'pca', 'zscores' or the name of a masked column.")
        if self.columns is not None:
            self._check_by(self.columns)

    def _check_by(self, names: tuple[str, ...]) -> None:
        if self.by not in (*_LINES, *names):
            raise ParameterError(unknown_name("by", self.by, (*_LINES, *names), "what records can be sorted by"))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the scale of each column."""
        fitted = super().fit(data, draws)
        self._check_by(fitted.names)
        return fitted

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Sort by the column where these records have it (else, and of another level, by the component)."""
        if self.by in names and self.by not in _LINES:
            return consecutive(np.argsort(x[:, names.index(self.by)], kind="stable"), self.k)
        return self.groups(x, ids, draws)

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return runs of k along the line."""
        score = x.sum(axis=1) if self.by == "zscores" else first_component(x)
        return consecutive(np.argsort(score, kind="stable"), self.k)


def first_component(x: Numbers) -> Numbers:
    """Return the first principal component of x (n, p), shape (n,); its sign is fixed."""
    if x.shape[1] == 1:
        return x[:, 0]
    centred = x - x.mean(axis=0)
    _, axes = principal_axes(centred.T @ centred)
    return np.asarray(centred @ axes[:, 0])
