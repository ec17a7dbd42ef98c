"""Matrix masks: M = AXB + C (matrix-masking paper, section IV)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MatrixForm:
    """A mask as a triple (A, B, C): the released numbers are M = AXB + C.

    X holds the numbers of the original's columns `names`, shape (n, p), records in the order of the data; M has the columns
    `released`, shape (r, c). What is not given is the identity (A, B) or zero (C). Confidential: with it, X can be computed
    back in part or in whole.
    """

    names: tuple[str, ...]
    released: tuple[str, ...]
    A: csr_array | Numbers | None = None
    """Record-transforming, shape (r, n)."""
    B: Numbers | None = None
    """Attribute-transforming, shape (p, c)."""
    C: Numbers | None = None
    """Displacing, shape (r, c)."""
    random: tuple[str, ...] = ()
    """Which of "A", "B", "C" are random."""
    depends: tuple[str, ...] = ()
    """Which of "A", "B", "C" depend on the data; criterion (5.1) then does not apply."""

    def apply(self, x: Numbers) -> Numbers:
        """Return AXB + C for X of shape (n, p)."""
        m: Any = x
        if self.A is not None:
            m = self.A @ m
        if self.B is not None:
            m = m @ self.B
        return np.asarray(m if self.C is None else m + self.C, np.float64)
