"""Noise restricted to bounds: drawn given that the result lies inside, so that nothing is heaped on the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, check_numbers, learned, param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.masks.noise_level import NoiseLevel, check_by_column, spread_of
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class BoundedNoise(NoiseLevel):
    """Independent normal noise of level λ², conditioned on the masked value lying in [low, high] (truncated normal).

    Bounds are given here or in the schema; a column without any gets ordinary noise. Masked values are drawn from the normal
    distribution about the value, truncated to the bounds: they do not pile up there, as clipped noise does. Near a bound they are
    drawn to the inside, so the mean of values near it is biased inwards and the noise there is smaller than λ² says. A value that
    lies outside the bounds is first moved to the nearer one.
    """

    no_matrix: ClassVar[str] = "the noise of a value depends on how far the value is from its bounds"

    low: float | Mapping[str, float] | None = param(
        default=None,
        doc="lowest value; that of the schema if none",
        low=-1e300,
        high=1e300,
        per_column=True,
        of_data="numbers",
    )
    high: float | Mapping[str, float] | None = param(
        default=None,
        doc="highest value; that of the schema if none",
        low=-1e300,
        high=1e300,
        per_column=True,
        of_data="numbers",
    )
    names: Any = learned("columns", default=None)
    scale: Any = learned("columns", default=None)

    def validate(self) -> None:
        """Refuse bounds that leave no room."""
        super().validate()
        check_range(self.low, self.high, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the standard deviation of each column; at least one column must have a bound."""
        names = self.targets(data)
        for field, setting in (("low", self.low), ("high", self.high)):
            check_by_column(field, "bound", setting, names)
        if all(bounds_of(self.low, self.high, data.schema, n) == (-math.inf, math.inf) for n in names):
            raise ParameterError(
                f"{listing(names)}: no bounds are given, here (low=, high=) or in the schema. For noise without bounds use "
                "independent_noise."
            )
        return self.learn(names=names, scale=np.sqrt(spread_of(data, names)[1]))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw each value from the truncated normal distribution about it."""
        check_numbers(batch, self.names)
        out = batch
        for name, level, scale in zip(self.names, self._level(self.names), self.scale, strict=True):
            low, high = bounds_of(self.low, self.high, batch.schema, name)
            out = out.replace(name, partial(_drawn, batch, draws, name, level * scale, low, high))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that all released values are inside, and count those that were not before."""
        said, bounded = [], []
        for name in self.names:
            low, high = bounds_of(self.low, self.high, before.schema, name)
            if (low, high) == (-math.inf, math.inf):
                continue
            bounded.append(name)
            y, x = after.numbers(name), before.numbers(name)
            if ((y < low) | (y > high)).any():
                raise DataError(f"some released values of '{name}' lie outside its bounds; nothing is released.")
            if outside := int(((x < low) | (x > high)).sum()):
                says = (
                    f"{name}: {outside:,} values lay outside the bounds and were moved to them before noise was drawn"
                )
                said.append(Guarantee(step, says, "original values counted"))
        says = f"{listing(bounded)}: every released value is within bounds; noise near them points inwards, which biases means"
        return (Guarantee(step, says, "all released values checked"), *said)


def bounds_of(low: Any, high: Any, schema: Schema, name: str) -> tuple[float, float]:
    """Return the bounds of a column: those given, else the schema's, else infinite; whole for a column of whole numbers."""
    attribute = schema[name]
    given = [setting.get(name) if isinstance(setting, Mapping) else setting for setting in (low, high)]
    found = [theirs if ours is None else ours for ours, theirs in zip(given, attribute.bounds, strict=True)]
    bottom = -math.inf if found[0] is None else float(found[0])
    top = math.inf if found[1] is None else float(found[1])
    if attribute.integer:
        bottom = math.ceil(bottom) if math.isfinite(bottom) else bottom
        top = math.floor(top) if math.isfinite(top) else top
    if bottom > top:
        raise ParameterError(f"the bounds of '{name}' leave no room: the lowest value is above the highest.")
    return bottom, top


def check_range(low: Any, high: Any, columns: tuple[str, ...] | None) -> None:
    """Refuse bounds by column that are not given for the masked columns, and a lowest value above the highest."""
    if columns is not None:
        check_by_column("low", "bound", low, columns)
        check_by_column("high", "bound", high, columns)
    given = [setting for setting in (low, high) if isinstance(setting, Mapping)]
    names = {name for setting in given for name in setting} or {""}
    for name in names:
        bottom, top = (s.get(name) if isinstance(s, Mapping) else s for s in (low, high))
        if bottom is not None and top is not None and bottom >= top:
            raise ParameterError("low must be below high: the lowest and the highest value that may be released.")


def _drawn(batch: Batch, draws: Draws, name: str, sigma: float, low: float, high: float) -> Numbers:
    """Return x + σε given low <= x + σε <= high, by the inverse distribution function at one uniform number per unit."""
    from scipy.special import ndtr, ndtri

    x = np.clip(batch.numbers(name), low, high)
    if sigma == 0:
        return x
    # a whole number stands for all that is rounded to it, so the end ones are as wide as the others
    margin = 0.5 if batch.schema[name].integer else 0.0
    below, above = ndtr((low - margin - x) / sigma), ndtr((high + margin - x) / sigma)
    drawn = x + sigma * ndtri(below + draws.uniforms(batch.units(name), name) * (above - below))
    return np.clip(np.round(drawn) if margin else drawn, low, high)
