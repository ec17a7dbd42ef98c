"""MDAV: maximum distance to average vector, the microaggregation that most people mean by the word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers


class MDAV(Microaggregation):
    """Groups of k records that are close in all columns at once, taken from the outside in; the last has up to 2k - 1.

    While 3k or more records are left: the record farthest from their mean with its k - 1 nearest, then the record farthest from
    that one with its k - 1 nearest; of what is left at the end, one or two groups. Distances are Euclidean on standardised
    columns, and ties go to the lower record number. Domingo-Ferrer and Torra (2005), section 3; Hundepool et al. (2003).

    With `within`, or where answers are missing, each stratum or pattern of answers is a file of its own: groups differ from those
    of the whole file, and lose more, since close records on either side of the border no longer meet.
    """

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return groups of k, from the outside in."""
        from sfumato.kernels.mdav import mdav

        return mdav(x, self.k)
