"""Axes whose ends and ticks are known before drawing, so that labels can be placed and asserted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_LOG_STEPS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


@dataclass(frozen=True)
class Axis:
    """From where to where, and whether in ratios (log) or differences."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Iterable[float], log: bool, pad: float = 0.05) -> Axis:
        """Return the axis that shows all these values; those it cannot show (infinite, or not positive on a log) are left out."""
        shown = [v for v in values if math.isfinite(v) and (not log or 1e-150 < v < 1e150)]
        if not shown:
            return cls(0.1, 10.0, True) if log else cls(0.0, 1.0, False)
        low, high = min(shown), max(shown)
        if log:
            margin = max((high / low) ** pad, 1.12)
            margin = max(margin, 2.0) if high < low * 1.02 else margin
            return cls(low / margin, high * margin, True)
        margin = (high - low) * pad or abs(high) * 0.5 or 1.0
        return cls(low - margin, high + margin, False)

    def shows(self, value: float) -> bool:
        """Whether a value lies on the axis."""
        return math.isfinite(value) and self.low <= value <= self.high

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies: 0 at its start, 1 at its end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, about: int = 6) -> list[float]:
        """Return at most `about` readable values within the axis."""
        if not self.log:
            return linear_ticks(self.low, self.high, about)
        for steps in _LOG_STEPS:
            found = _log_values(self.low, self.high, steps)
            if 3 <= len(found) <= about:
                return found
        powers = _log_values(self.low, self.high, (1.0,))
        if len(powers) > about:
            every = math.ceil(len(powers) / about)
            return [p for p in powers if round(math.log10(p)) % every == 0]
        return linear_ticks(self.low, self.high, about)


def linear_ticks(low: float, high: float, about: int) -> list[float]:
    """Return at most `about` multiples of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    for step in (power * m for m in (1, 2, 5, 10, 20)):
        values = [
            float(f"{k * step:.12g}") for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        ]
        if len(values) <= about:
            return values
    return []


def _log_values(low: float, high: float, steps: Iterable[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [float(f"{m}e{p}") for p in range(first, last + 1) for m in steps]
    return [v for v in values if low <= v <= high]


@dataclass(frozen=True)
class Floored(Axis):
    """A log axis that has a place for zero: its foot."""

    def at(self, value: float) -> float:
        """Return where a value is drawn: zero, and what lies below the axis, at its foot."""
        return max(value, self.low) if self.log else value

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies."""
        return super().share(self.at(value))

    def ticks(self, about: int = 6) -> list[float]:
        """Return readable values, with the foot first; clear of it, so that its label has room."""
        inner = [t for t in super().ticks(about - 1) if self.share(t) > 0.05]
        return [self.low, *inner]


@dataclass(frozen=True)
class Symlog(Axis):
    """An axis for numbers of both signs and zero: in ratios, but within `near` of zero in differences."""

    near: float

    @classmethod
    def around(cls, values: Iterable[float], near: float, pad: float = 0.04) -> Symlog:
        """Return the axis that shows all these values."""
        ends = [_symlog(v, near) for v in values if math.isfinite(v)]
        margin = (max(ends) - min(ends)) * pad or 1.0
        low, high = (math.copysign(near * math.expm1(abs(e)), e) for e in (min(ends) - margin, max(ends) + margin))
        return cls(low, high, False, near)

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies."""
        low, high, at = (_symlog(v, self.near) for v in (self.low, self.high, value))
        return (at - low) / (high - low)

    def ticks(self, about: int = 6) -> list[float]:
        """Return zero and powers of ten on both sides of it, far enough from each other to be read."""
        powers = _log_values(self.near, max(abs(self.low), abs(self.high), self.near), (1.0,))
        found = [0.0] if self.shows(0.0) else []
        for tick in [t for p in reversed(powers) for t in (p, -p) if self.shows(t)]:
            if all(abs(self.share(tick) - self.share(other)) > 0.7 / about for other in found):
                found.append(tick)
        return sorted(found)


def _symlog(value: float, near: float) -> float:
    return math.copysign(math.log1p(abs(value) / near), value)


def risk_axis(values: Iterable[float], ratio: float = 10.0) -> Axis:
    """Return an axis for numbers that are zero or more: log where the positive ones span more than a decade.

    Zero then stands at the foot of the axis, apart from the smallest positive number.
    """
    shown = [float(v) for v in values if math.isfinite(v)]
    positive = [v for v in shown if v > 1e-150]  # less is as good as zero
    if any(v < 0 for v in shown) or not wants_log(positive, ratio):
        top = max(shown, default=0.0)
        return Axis(min(0.0, 1.05 * min(shown, default=0.0)), 1.06 * top if top > 0 else 1.0, False)
    axis = Axis.over(positive, True)
    if len(positive) == len(shown):
        return axis
    return Floored(min(positive) * (axis.low / axis.high) ** 0.12, axis.high, True)


def use_axis(values: Iterable[float], important: Iterable[float], unmasked: float | None) -> Axis:
    """Return an axis for utilities, up to the unmasked file's; hopeless recipes far below the important are left off."""
    shown, kept = list(values), list(important)
    high = max([*shown, *([] if unmasked is None else [unmasked])], default=1.0)
    least = high - 0.05 * (abs(high) or 1.0)
    low, floor = min([least, *shown]), min([least, *(kept or shown)])
    if floor - low > 2 * (high - floor) and low < 0:
        low = min(0.0, floor)
    room = high - low
    return Axis(low - 0.04 * room, high + 0.03 * room, False)


def readable(values: Iterable[float], log: bool) -> list[list[float]]:
    """Return numbers a reader likes within the range of `values`, most liked first, in groups.

    A short or whole-number grid speaks for itself: then the groups hold its own values.
    """
    grid = sorted({float(v) for v in values if math.isfinite(v) and (v > 0 or not log)})
    if len(grid) <= 8:
        return [grid[:: max(len(grid) - 1, 1)], grid] if grid else []
    low, high = grid[0] * (1 - 1e-9), grid[-1] * (1 + 1e-9)
    if all(v == round(v) for v in grid):
        return [[grid[0], grid[-1]], [grid[len(grid) // 2]], grid]
    if log:
        return [_log_values(low, high, (m,)) for m in (1.0, 5.0, 2.0, 1.5, 3.0)]
    return [linear_ticks(low, high, n) for n in (3, 6, 12)]


def wants_log(values: Iterable[float], ratio: float) -> bool:
    """Whether positive values spread over more than this ratio."""
    shown = [float(v) for v in values if math.isfinite(v) and v > 0]
    return bool(shown) and max(shown) >= ratio * min(shown)
