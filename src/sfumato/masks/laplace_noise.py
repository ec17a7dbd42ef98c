"""The Laplace mechanism on single values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.masks.local_privacy import LocalPrivacy

Numbers = NDArray[np.float64]


class LaplaceNoise(LocalPrivacy):
    """Laplace noise of scale sensitivity/ε on each value: ε-differential privacy of the value (Dwork et al. 2006).

    The noise has variance 2 (sensitivity/ε)². State the sensitivity; nothing is learned from the data. To hide any difference,
    give the column's range (`low`, `high`, or bounds in the schema) and its width as sensitivity.
    """

    distribution: ClassVar[str] = "Laplace noise"

    def scale(self, epsilon: float, sensitivity: float) -> float:
        """Return sensitivity/ε."""
        return sensitivity / epsilon

    def quantile(self, u: Numbers) -> Numbers:
        """Return the quantile function: log 2u below the median, -log 2(1-u) above."""
        tail = np.minimum(u, 1 - u)
        return np.asarray(np.where(u < 0.5, 1.0, -1.0) * np.log(2 * tail))

    @property
    def variance(self) -> float:
        """Return the variance of the noise of scale 1."""
        return 2.0
