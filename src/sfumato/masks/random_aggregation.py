"""Random aggregation across records: groups drawn by lot (matrix-masking paper, section IV)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, MatrixForm
from sfumato.masks.aggregate_records import Labels, Numbers, RecordAggregation
from sfumato.microdata import Microdata


class RandomAggregation(RecordAggregation):
    """Averages over groups of k records drawn at random, one released record for each group.

    Means are kept; the variance of an average over k random records is a k-th of the original, so an analyst who knows k can
    undo that on average: correlations are those of the original records, up to sampling.
    """

    random: ClassVar[tuple[str, ...]] = ("A",)

    def order(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return a random order, keyed by record id."""
        return np.argsort(draws.uniforms(ids, "group"), kind="stable")

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A, which depends on the data only if strata or missing answers keep records apart."""
        form = super().as_matrix(data, draws)
        batch = data.batch(form.names)
        apart = bool(self.within) or any(batch.missing(name).any() for name in form.names)
        return form if apart else replace(form, depends=())
