"""Arrays as the house names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
"""Numbers; NaN where a value is missing."""
Whole = NDArray[np.int64]
"""Whole numbers: counts, ids, places."""
Codes = NDArray[np.int32]
"""Codes of categories, from 0; -1 where a value is missing."""
Coded = tuple[Codes, Sequence[Any]]
"""Codes, and the values that they stand for."""
Flags = NDArray[np.bool_]
"""Yes or no."""
Integers = NDArray[np.integer[Any]]
"""Whole numbers of any width."""
Objects = NDArray[np.object_]
"""Text, or anything."""
