"""V-MDAV: MDAV with groups of variable size, which follow clusters in the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, param
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers


class VMDAV(Microaggregation):
    """Groups of k records, taken from the outside in, that take in further records which are close to them: up to 2k - 1.

    While k or more records are left: the record farthest from the mean of all with its k - 1 nearest. The free record closest to
    the group joins it if its distance to the group is below gamma times its distance to the next free record. Fewer than k at the
    end go to the group with the closest mean. Solanas and Martínez-Ballesté (2006), who advise gamma = 0.2 for scattered data and
    1.1 for data in clusters. Distances, ties and strata as in MDAV.
    """

    gamma: float = param(
        default=0.2,
        doc="how readily a group takes in a further record: 0 never, 0.2 for scattered data, 1.1 for clusters",
        low=0,
        high=10,
    )

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return groups of k to 2k - 1, from the outside in, and what is left over with the closest."""
        from sfumato.kernels.mdav_variable import v_mdav

        return v_mdav(x, self.k, self.gamma)
