"""Rounding: values are released as multiples of a base."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sfumato.contract import Draws, Guarantee, Mask, learned, numeric_targets, param
from sfumato.data import Batch, Microdata
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.masks.column_settings import numeric_columns, of_column, replace_numbers
from sfumato.schema import Attribute
from sfumato.typing import Flags, Numbers

_EXACT = 2.0**53  # beyond it, floats no longer separate neighbouring whole numbers


class Rounding(Mask, abstract=True):
    """Values are moved to one of the two multiples of a base on either side; multiples stay.

    If the schema's bounds or its codes for missing rule out one of the two, the other is taken.
    """

    base: float | Mapping[str, float] = param(
        doc="values are released as multiples of this", low=0, above=True, high=1e6, scale="log", per_column=True
    )
    columns: tuple[str, ...] | None = numeric_columns("round")
    names: Any = learned("columns", "base", default=None)

    @abstractmethod
    def goes_up(self, batch: Batch, name: str, share: Numbers, draws: Draws) -> Flags:
        """Return which values go to the multiple above, given their relative position (0 to 1) between the two; shape (n,)."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns are rounded, and check that their bases suit them."""
        names = numeric_targets(self.columns, data)
        if isinstance(self.base, Mapping) and set(self.base) != set(names):
            raise ParameterError(
                f"base of {self.name} must name the columns that are rounded, {join_names(names)}, and no others."
            )
        for name in names:
            base, attribute = self._base(name), data.schema[name]
            if attribute.integer and base != round(base):
                raise ParameterError(
                    f"'{name}' holds whole numbers, so its base must be a whole number too; it is {base:g}."
                )
            low, high = _limits(attribute, base)
            if low > high:
                raise ParameterError(
                    f"no multiple of {base:g} lies within the bounds that the schema gives '{name}'. Choose a smaller base."
                )
        return self.learn(names=names)

    def _base(self, name: str) -> float:
        return float(of_column(self.base, name))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Round every value."""
        return replace_numbers(batch, self.names, partial(self._rounded, batch, draws))

    def _rounded(self, batch: Batch, draws: Draws, name: str) -> Numbers:
        x, base, attribute = batch.numbers(name), self._base(name), batch.schema[name]
        if np.isinf(x).any():
            raise DataError(f"column '{name}' holds infinite values, which cannot be rounded. Set them to missing.")
        k = below(x, base)
        share = (x - multiple(k, base)) / base
        new = k + (self.goes_up(batch, name, share, draws) & (share > 0))
        new = np.clip(new, *_limits(attribute, base))
        if codes := [c for c in attribute.missing if isinstance(c, int | float)]:
            taken = np.isin(multiple(new, base), codes) & ~np.isnan(x)
            new = np.where(taken, np.where(new > k, k, k + 1), new)
        return multiple(new, base)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that every released value is a multiple of the base, less than a base away from its original."""
        for name in self.names:
            base = self._base(name)
            x, y = np.clip(before.numbers(name), *_bounds(before.schema[name])), after.numbers(name)
            known = ~np.isnan(y)
            x, y = x[known], y[known]
            nearest = multiple(np.round(y / base), base)
            far = np.abs(y - x) >= base * (1 + 1e-9) + 1e-9 * np.abs(x)
            if wrong := int(((nearest != y) | far).sum()):
                raise DataError(
                    f"{wrong:,} values of '{name}' could not be rounded to a multiple of {base:g} beside them; "
                    "nothing is released."
                )
        bases = ", ".join(f"{name} (base {self._base(name):g})" for name in self.names)
        says = f"{bases}: every released value is a multiple of the base beside the original value"
        return (Guarantee(step, says, "all released values checked against the originals"),)


class Round(Rounding):
    """Rounding to the nearest multiple of a base, or always up or down. Order is kept; halves go to the even multiple."""

    preserves_order: ClassVar[bool] = True
    no_matrix: ClassVar[str] = "each value is rounded by itself, which is not linear"

    how: Literal["nearest", "up", "down"] = param(default="nearest", doc="which of the two multiples beside a value")

    def goes_up(self, batch: Batch, name: str, share: Numbers, draws: Draws) -> Flags:
        """Return the values past the middle (nearest), all (up) or none (down)."""
        if self.how != "nearest":
            return np.full(len(share), self.how == "up")
        x, base = batch.numbers(name), self._base(name)
        k = below(x, base)
        middle = multiple(
            2 * k + 1, base / 2
        )  # 0.015 is midway between 0.014 and 0.016, though its float share is slightly less
        return np.asarray((x > middle) | ((x == middle) & (k % 2 == 1)), bool)


class RandomRound(Rounding):
    """Random rounding: up or down by chance, so that a released value tells less than the nearest multiple would.

    `unbiased`: the closer multiple is more likely, so that each released value is right on average (Fellegi and
    Phillips 1974). `equal`: up or down with probability one half.
    """

    no_matrix: ClassVar[str] = "each value is rounded by itself (random rounding, matrix-masking paper, section IV)"

    how: Literal["unbiased", "equal"] = param(
        default="unbiased", doc="up with a probability by closeness, or up and down alike"
    )

    def goes_up(self, batch: Batch, name: str, share: Numbers, draws: Draws) -> Flags:
        """Return the values whose draw is below the probability of going up."""
        return draws.uniforms(batch.units(name), name) < (share if self.how == "unbiased" else 0.5)


def multiple(k: Numbers, base: float) -> Numbers:
    """Return k times the base in decimal arithmetic: 3 times 0.1 is 0.3."""
    decimals = _decimals(base)
    made = np.asarray(k * base, np.float64)
    if not decimals:
        return made
    return np.where(np.abs(made) < _EXACT / 10.0**decimals, np.round(made, decimals), made)


def below(x: Numbers, base: float) -> Numbers:
    """Return the index of the largest multiple not above x: 0.3 is the third of 0.1, though 0.3 / 0.1 is less than 3."""
    k = np.floor(x / base)
    k = k + (x >= multiple(k + 1, base))
    return np.asarray(k - (x < multiple(k, base)), np.float64)


def _decimals(base: float) -> int:
    """Return the decimal places of a base; 0 for whole numbers and for those with no short decimal form, such as 1/3."""
    places = -int(Decimal(repr(base)).as_tuple().exponent)
    return places if 0 < places <= 12 and base != round(base) else 0


def _bounds(attribute: Attribute) -> tuple[float, float]:
    low, high = attribute.bounds
    return -math.inf if low is None else low, math.inf if high is None else high


def _limits(attribute: Attribute, base: float) -> tuple[float, float]:
    """Return the smallest and the largest multiple, counted in bases, within the schema's bounds."""
    low, high = _bounds(attribute)
    bottom, top = (float(below(np.array([b]), base)[0]) if math.isfinite(b) else b for b in (low, high))
    if math.isfinite(low) and multiple(np.array([bottom]), base)[0] < low:
        bottom += 1
    return bottom, top
