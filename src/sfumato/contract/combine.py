"""Several measures as one: a weighted sum, or the worst (R-U paper, section 6)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.measure import Design, Measure
from sfumato.contract.model import NoiseModel, ReleaseModel
from sfumato.contract.parameters import param
from sfumato.contract.release import Release
from sfumato.contract.score import Side
from sfumato.contract.snooper import Snooper
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class Combination(Measure, abstract=True):
    """Several measures of one side, combined after each has been estimated.

    Numbers in different units must not be mixed unawares: give `scales` (what each is divided by: its own threshold,
    or its value for the unmasked file) unless all parts have the same unit.
    """

    parts: tuple[Measure, ...] = param(doc="measures of one side")
    scales: tuple[float, ...] | None = param(default=None, doc="what each part is divided by; nothing if not given")

    def validate(self) -> None:
        """All parts must be measures of one side and one design."""
        parts = tuple(self.parts) if isinstance(self.parts, list | tuple) else (self.parts,)
        if not parts or not all(isinstance(p, Measure) for p in parts):
            raise ParameterError(f"{self.name} needs a list of measures, at least one.")
        object.__setattr__(self, "parts", parts)
        if len({p.side for p in self.parts}) > 1:
            raise ParameterError(f"{self.name} cannot mix risk and utility.")
        if len({p.design for p in self.parts}) > 1:
            raise ParameterError(f"{self.name} cannot mix target = population and target = file.")
        if self.scales is not None:
            scales = _numbers(self.scales)
            if len(scales) != len(self.parts) or not all(s > 0 for s in scales):
                raise ParameterError(f"{self.name} needs one positive scale for each of its {len(self.parts)} parts.")
            object.__setattr__(self, "scales", scales)

    @property
    def side(self) -> Side:  # type: ignore[override]
        """The parts' side."""
        return self.parts[0].side

    @property
    def design(self) -> Design:
        """The parts' design."""
        return self.parts[0].design

    @property
    def size(self) -> int:
        """How many numbers all parts observe."""
        return sum(p.size for p in self.parts)

    @property
    def replications(self) -> int:
        """As many as the part that needs most."""
        return max(p.replications for p in self.parts)

    @property
    def variant(self) -> str:
        """What is combined."""
        return "; ".join(p.label() for p in self.parts)

    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        """Return the columns of all parts."""
        names = [p.columns(schema) for p in self.parts]
        if any(n is None for n in names):
            return None
        return tuple(dict.fromkeys(n for part in names for n in part or ()))

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Prepare every part."""
        return self.with_(parts=tuple(p.prepare(data, model) for p in self.parts))

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Check every part."""
        for p in self.parts:
            p.check(outcome, snooper)

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the observations of all parts, one after the other."""
        return np.concatenate([np.atleast_1d(p.observe(outcome, snooper)) for p in self.parts])

    def value(self, means: Numbers) -> Numbers:
        """Combine the parts' values."""
        ends = np.cumsum([p.size for p in self.parts])
        values = [p.value(means[..., end - p.size : end]) for p, end in zip(self.parts, ends, strict=True)]
        return self.combine(np.stack(values, axis=-1) / np.array(self.scales or [1.0] * len(self.parts)))

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Combine the parts' formulas, if all have one."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Combine the parts' formulas, if all have one."""
        values = [p.by_formula(model, snooper) for p in self.parts]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        return float(self.combine(np.array(known) / np.array(self.scales or [1.0] * len(known))))

    @abstractmethod
    def combine(self, values: Numbers) -> Numbers:
        """Return one value from the parts' (scaled) values, shape (..., parts) to (...)."""


class Weighted(Combination):
    """A weighted sum of measures of one side."""

    weights: tuple[float, ...] = param(
        default=(), doc="one weight for each part; equal weights that sum to 1 if none are given"
    )

    def validate(self) -> None:
        """One non-negative weight for each part."""
        super().validate()
        none = isinstance(self.weights, list | tuple) and not len(self.weights)
        weights = (1 / len(self.parts),) * len(self.parts) if none else _numbers(self.weights)
        if len(weights) != len(self.parts) or any(w < 0 for w in weights) or not sum(weights) > 0:
            raise ParameterError(f"weighted needs one weight of at least 0 for each of its {len(self.parts)} parts.")
        object.__setattr__(self, "weights", weights)

    def combine(self, values: Numbers) -> Numbers:
        """Return Σ weight × value; a part with weight 0 does not count."""
        used = np.array(self.weights) > 0
        return np.asarray((values[..., used] * np.array(self.weights)[used]).sum(axis=-1))

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"weighted {self.side} of {len(self.parts)}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the weights in words."""
        return " + ".join(f"{w:g} × {p.label()}" for w, p in zip(self.weights, self.parts, strict=True))


class Worst(Combination):
    """The worst of several measures: the largest risk, or the smallest utility."""

    def combine(self, values: Numbers) -> Numbers:
        """Return the largest risk or the smallest utility."""
        return np.asarray(values.max(axis=-1) if self.side is Side.RISK else values.min(axis=-1))

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"worst {self.side} of {len(self.parts)}"

    def words(self, value: float, schema: Schema) -> str:
        """Return what the worst is taken over."""
        kind = "largest" if self.side is Side.RISK else "smallest"
        return f"the {kind} of: " + ", ".join(p.label() for p in self.parts)


def _numbers(given: Sequence[float]) -> tuple[float, ...]:
    """Return finite numbers; nothing if some are not, or if it is no list."""
    try:
        numbers = tuple(float(g) for g in given)
    except (TypeError, ValueError):
        return ()
    return numbers if all(math.isfinite(n) for n in numbers) else ()
