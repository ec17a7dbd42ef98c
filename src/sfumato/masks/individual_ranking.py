"""Individual ranking: each column is sorted and averaged on its own, k values at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.kernels.groups import consecutive, consecutive_within
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers
from sfumato.schema import Schema


class UnivariateMicroaggregation(Microaggregation, abstract=True):
    """Each column is grouped on its own, in the order of its values, so a record has other companions in every column.

    Groups hold neighbours in the order, so the order is kept, unless strata are aggregated apart.
    """

    @property
    def preserves_order(self) -> bool:  # type: ignore[override]
        """Whether one order goes through all records."""
        return not self.within

    def together(self, names: tuple[str, ...], schema: Schema) -> list[tuple[str, ...]]:
        """Return each column by itself."""
        return [(name,) for name in names]

    def labels(self, x: Numbers, names: tuple[str, ...], block: Labels, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the group of each unit; they are sorted here, as standard units may be too coarse to tell values apart."""
        order = np.lexsort([x[:, 0], block])
        labels = np.empty(len(x), np.int64)
        labels[order] = super().labels(x[order], names, block[order], ids[order], draws)
        return labels


class IndividualRanking(UnivariateMicroaggregation):
    """The values of a column are sorted and taken k at a time; the middle group has up to 2k - 1 (Defays and Nanopoulos 1993).

    The larger group stands where values lie closest: at the upper end, of money, it would lose most of what is lost. Equal
    values are taken in the order of the records. It keeps most of the information and, as a snooper sees nearly the original
    value, protects least: a value is hidden only between its neighbours.
    """

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return runs of k along the sorted values."""
        return consecutive(np.argsort(x[:, 0], kind="stable"), self.k)

    def labels(self, x: Numbers, names: tuple[str, ...], block: Labels, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the runs of all blocks at once: a file may have a hundred thousand strata."""
        return consecutive_within(np.lexsort([x[:, 0], block]), block, self.k)
