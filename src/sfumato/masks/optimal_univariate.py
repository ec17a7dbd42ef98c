"""Optimal univariate microaggregation: each column cut into groups of at least k with the least loss possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.masks.individual_ranking import UnivariateMicroaggregation
from sfumato.masks.microaggregation import Labels, Numbers


class OptimalUnivariate(UnivariateMicroaggregation):
    """Each column on its own, in groups of at least k with the least sum of squares about the means (Hansen, Mukherjee 2003).

    Group sizes run from k to 2k - 1: a gap between the values is not bridged where that can be helped. Never loses more than
    individual ranking. The optimum is that of means; medians and modes are released for the same groups.
    """

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the groups on the shortest path through the values, which come sorted."""
        from sfumato.kernels.optimal_groups import optimal_groups

        return optimal_groups(x[:, 0], self.k)
