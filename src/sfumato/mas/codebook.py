"""The codebook of a data set: the metadata that questions, rules and analyses see. It leads to no record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.mas.variable import Variable


@dataclass(frozen=True)
class Weight:
    """Statistics of the survey weights: they are known, and set the size of noise on weighted sums."""

    scale: float
    """A power of two that no weight exceeds."""
    large: float
    """A weight that one record in 200 exceeds."""
    mean: float
    effect: float = 1.0
    """Kish's design effect of unequal weights, n Σw² / (Σw)²."""
    heaviest: float = 0.0
    """The largest weight."""


@dataclass(frozen=True)
class Codebook:
    """Names, levels, public bounds and the survey's design of a data set."""

    name: str
    version: int
    title: str
    variables: Mapping[str, Variable]
    weight: Weight | None
    units: tuple[str, ...]
    """Columns of the prepared records that identify units: "h" for households, "e" for establishments."""
    design: tuple[str, ...]
    """Columns of the prepared records that say which stratum and household a record is of."""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    @property
    def weighted(self) -> bool:
        """Whether records have survey weights."""
        return self.weight is not None

    @property
    def clustered(self) -> bool:
        """Whether records are of households, whose members may be alike."""
        return "h" in self.design
