"""The shape of every sensitivity rule: which cells would disclose a contributor, and how wide they must be hidden."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Parametric
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Which cells a rule calls unsafe, and how far from the value an attacker's interval must reach.

    What an attacker works out for an unsafe cell must reach at least `upper` above its value, at least `lower` below it, and
    be at least `width` long.
    """

    unsafe: NDArray[np.bool_]
    """Shape (cells,)."""
    upper: Numbers
    """Shape (cells,); 0 for a safe cell. So are the other two."""
    lower: Numbers
    width: Numbers
    reasons: NDArray[np.object_]
    """For each cell the rule that it breaks, in words; empty for a safe one."""

    @classmethod
    def of(cls, unsafe: NDArray[np.bool_], upper: Numbers, lower: Numbers, reason: str) -> Sensitivity:
        """Return what one rule found; protection levels of safe cells are set to 0."""
        zero = np.zeros(len(unsafe))
        return cls(
            unsafe,
            np.where(unsafe, upper, 0.0),
            np.where(unsafe, lower, 0.0),
            zero,
            np.where(unsafe, reason, "").astype(object),
        )

    def because(self, reason: str) -> Sensitivity:
        """Return the same with another reason."""
        return replace(self, reasons=np.where(self.unsafe, reason, "").astype(object))

    def __or__(self, other: Sensitivity) -> Sensitivity:
        """Return what both rules ask for together: a cell is unsafe if either says so, and the wider levels count."""
        reasons = np.where(self.reasons == "", other.reasons, self.reasons)
        return Sensitivity(
            self.unsafe | other.unsafe, np.maximum(self.upper, other.upper), np.maximum(self.lower, other.lower),
            np.maximum(self.width, other.width), reasons.astype(object),
        )  # fmt: skip


class SensitivityRule(Parametric, family="rule", abstract=True):
    """A rule that finds the cells of a table which disclose a contributor."""

    @abstractmethod
    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""

    @abstractmethod
    def label(self) -> str:
        """Return the rule in a few words, with its parameters: "p% rule, p = 10"."""
