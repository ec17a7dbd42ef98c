"""What a measure says, and what a part of the system says to a review board."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from sfumato.typing import Numbers


class Side(StrEnum):
    """Which axis of the map a measure belongs to."""

    RISK = "risk"
    """Lower is safer."""
    UTILITY = "utility"
    """Higher is more useful."""


@dataclass(frozen=True)
class Score:
    """A measure's answer: the number, its direction, what it means in words, and how sure it is.

    `records` has one value per original record, in id order (NaN where the measure says nothing of it), and is for the
    custodian's eyes only: it is neither shown nor written. It is worked out by `find_records` when first looked at. `groups`
    has the value per subgroup where the measure was asked for it; `details` holds companions of the number ("share known
    exactly").
    """

    measure: str
    side: Side
    value: float
    words: str
    interval: tuple[float, float] | None = None
    level: float = 0.95
    variant: str = ""
    groups: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)
    find_records: Callable[[], Numbers] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def records(self) -> Numbers | None:
        """The value of each original record, shape (n,); None where the measure has none."""
        return None if self.find_records is None else self.find_records()

    @property
    def direction(self) -> str:
        """Which way is good, in words."""
        return "lower is safer" if self.side is Side.RISK else "higher is more useful"

    def __str__(self) -> str:
        interval = ""
        if self.interval is not None:
            low, high = self.interval
            interval = f" ({100 * self.level:g} % interval {digits(low, 4)} to {digits(high, 4)})"
        variant = f" [{self.variant}]" if self.variant else ""
        return f"{self.measure}{variant}: {digits(self.value, 4)}{interval}; {self.words}"

    def to_dict(self) -> dict[str, Any]:
        """Return what may be written for machines; the per-record vector is not in it. Infinity is the text "inf"."""
        return {
            "measure": self.measure, "side": self.side.value, "direction": self.direction, "value": number(self.value),
            "interval": None if self.interval is None else [number(v) for v in self.interval], "level": self.level,
            "variant": self.variant, "words": self.words,
            "groups": {k: number(v) for k, v in self.groups.items()},
            "details": {k: number(v) for k, v in self.details.items()},
        }  # fmt: skip


def number(value: float) -> float | str | None:
    """Return a number that JSON can hold: infinities become text, NaN becomes null."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def digits(value: float, count: int = 3) -> str:
    """Return a number for people: `count` significant digits, thousands apart, ∞ and – where there is none.

    >>> digits(5.0149), digits(11_093_000.0), digits(8.1e-15), digits(float("inf"))
    ('5.01', '11,100,000', '8.1 × 10⁻¹⁵', '∞')
    """
    if math.isnan(value):
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    rounded = float(f"{value:.{count}g}")
    if 10.0**count <= abs(rounded) < 1e15:
        return f"{rounded:,.0f}"
    figures, _, power = f"{rounded:.{count}g}".partition("e")
    return f"{figures} × 10{str(int(power)).translate(_RAISED)}" if power else figures


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class TextTable:
    """A small table for people: column heads and rows of text or numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart as a Vega-Lite specification, and what it shows in words (also its text alternative)."""

    spec: Mapping[str, Any]
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, sentences, then tables and figures, in order."""

    title: str
    sentences: tuple[str, ...] = ()
    content: Sequence[TextTable | Figure] = ()
