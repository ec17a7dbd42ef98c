"""When to load compiled loops: not for a few numbers, since loading takes longer than many small jobs without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Compiled = TypeVar("Compiled")
_FEW = 1_024
"""A job of so many numbers is small."""
_JOBS = 1_000
"""So many small jobs take about as long as loading numba with a kernel (0.4 s): who has done these will do more."""


class Warming(Generic[Compiled]):
    """Compiled loops with a twin for small jobs; both give the same numbers, bit by bit."""

    def __init__(self, load: Callable[[], Compiled]) -> None:
        self._load, self._jobs = load, 0
        self._loaded: Compiled | None = None

    def for_size(self, size: int) -> Compiled | None:
        """Return the compiled loops for a job of some size; None as long as loading them does not pay."""
        if self._loaded is None:
            self._jobs += 1
            if size > _FEW or self._jobs > _JOBS:
                self._loaded = self._load()
        return self._loaded
