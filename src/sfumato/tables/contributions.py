"""Who contributes how much to which leaf."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """What each contributor gave to each leaf: confidential.

    A contributor is whoever must not be disclosed: an enterprise, or the holding that owns several. `own` is what it gave,
    `grossed` the same times the survey weights; without weights the two are one. Both are leaves × contributors, and hold an
    entry (perhaps 0) wherever a contributor has a record.
    """

    own: sparse.csr_array
    grossed: sparse.csr_array
    size: Numbers | None = None
    """A measure of each contributor's size that is public, or might as well be; shape (contributors,)."""
    names: NDArray[np.object_] | None = None
    """What the file calls the contributors: for the custodian alone."""
    waived: NDArray[np.bool_] | None = None
    """Who allowed that its contribution may be found out, shape (contributors,)."""
    requests: NDArray[np.int64] | None = None
    """Who asked for protection: 0 for nobody, else the code of the request, 1 or 2; shape (contributors,)."""

    def __len__(self) -> int:
        return int(self.own.shape[1])

    def __repr__(self) -> str:
        return f"Contributions({len(self):,} contributors to {self.own.shape[0]:,} leaves)"

    @property
    def weighted(self) -> bool:
        """Whether there are survey weights."""
        return self.own is not self.grossed

    @cached_property
    def totals(self) -> Numbers:
        """What each contributor gave in all, without weights; shape (contributors,)."""
        return np.asarray(self.own.sum(axis=0), np.float64).ravel()

    @property
    def negative(self) -> bool:
        """Whether somebody contributed less than nothing."""
        return bool((self.own.data < 0).any())
