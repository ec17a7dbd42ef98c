"""What distances between numbers share: suppressed values, the unit, and columns that do not vary."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.engines import Kind
from sfumato.microdata import Microdata
from sfumato.utility.columnwise import Columnwise
from sfumato.utility.compared import NUMBER, over_columns, weights_of
from sfumato.utility.moments import check_finite, check_size, spread, with_gaps
from sfumato.utility.samples import gaps, original_sample, released_sample

if TYPE_CHECKING:
    from sfumato.kernels.ecdf import Gaps


class NumbersApart(Columnwise, abstract=True):
    """U = 1 - the mean over columns of a distance between the known numbers of both files.

    A suppressed value loses 1, or the distance of those that are there, where that is more: d + (1 - kept) · max(0, 1 - d), where
    `kept` is the share of values known in the release divided by that in the original. A column
    without any value is as if it had not been released: it loses 1. Numbers released as intervals are spread evenly over them.
    """

    kinds: ClassVar[frozenset[Kind]] = NUMBER
    scaled: ClassVar[bool] = True
    """Whether the distance is in standard deviations of the original."""

    over: tuple[str, ...] | None = over_columns("numbers")

    @abstractmethod
    def apart(self, found: Gaps, unit: float) -> float:
        """Return the distance of the known numbers, from how far the distribution functions are apart; `unit` is the sd."""

    def has_values(self, original: Microdata, name: str) -> bool:
        """Whether a number is known in the original."""
        known, weights = ~np.isnan(original.numbers(name)), weights_of(original, self.weighted)
        return bool((known if weights is None else known & (weights > 0)).any())

    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return the loss of one column."""
        before = original_sample(original, name, self.weighted)
        after = released_sample(original, released, name, self.weighted)
        if not after.known:
            return 1.0
        found, unit = gaps(before, after), 1.0
        if self.scaled:
            check_finite(name, after.values[[0, -1]])
            unit = spread(original, name, weights_of(original, self.weighted)).variance ** 0.5
        # without a standard deviation to measure it in, any change loses all
        distance = self.apart(found, unit) if unit else float(found.area > 0.0)
        check_size(name, distance)
        return float(with_gaps(np.array(distance), np.array(min(after.known / before.known, 1.0))))
