"""Where to write: labels look for a place where they cover nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sfumato.charts.theme import SIZE

_WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!()[] tfrI", 0.3),
    **dict.fromkeys("mwMW", 0.82),
    **dict.fromkeys("0123456789=−+~", 0.57),
}
"""Widths of Arial's characters, in font sizes; others are about half a font size, capitals more."""


def text_width(text: str, size: float = SIZE) -> float:
    """Return roughly how many pixels wide a text is."""
    return size * sum(_WIDTHS.get(c, 0.68 if c.isupper() else 0.53) for c in text)


class Box(NamedTuple):
    """A rectangle in pixels, from the panel's top left corner."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Spot(NamedTuple):
    """A place for a text, and how to write it there (Vega-Lite mark properties)."""

    box: Box
    style: dict[str, Any]
    text: str
    side: str = ""


def around(x: float, y: float, text: str, sides: Sequence[str], size: float = SIZE, away: float = 0) -> list[Spot]:
    """Return places for a text beside a point: "left", "right up", "left down" and so on; `away` pixels further off."""
    wide, high = text_width(text, size), size + 2.0
    spots = []
    for side in sides:
        leftwards, slant = side.startswith("left"), side.partition(" ")[2]
        gap, lift = (6.0 if slant else 8.0) + away, 4.0 + away
        left = x - gap - wide if leftwards else x + gap
        top = {"up": y - lift - high, "down": y + lift, "": y - high / 2}[slant]
        style = {
            "align": "right" if leftwards else "left", "dx": -gap if leftwards else gap,
            "baseline": {"up": "bottom", "down": "top", "": "middle"}[slant], "dy": {"up": -lift, "down": lift + 1, "": 0}[slant],
        }  # fmt: skip
        spots.append(Spot(Box(left, top, left + wide, top + high), style, text, side))
    return spots


@dataclass(eq=False)
class Clutter:
    """What is already drawn in a panel, and how much it hurts to write over it."""

    width: float
    height: float
    drawn: list[tuple[Box, float]] = field(default_factory=list)

    def add(self, box: Box, weight: float) -> None:
        """Note something drawn."""
        self.drawn.append((box, weight))

    def add_line(self, points: Iterable[tuple[float, float]], weight: float) -> None:
        """Note a curve through these pixels, in short pieces."""
        before: tuple[float, float] | None = None
        for x, y in points:
            if before is not None:
                pieces = max(1, math.ceil(math.hypot(x - before[0], y - before[1]) / 4))
                for k in range(pieces):
                    px, py = (b + (k / pieces) * (a - b) for a, b in zip((x, y), before, strict=True))
                    self.add(Box(px - 2, py - 2, px + 2, py + 2), weight)
            before = (x, y)

    def cost(self, box: Box) -> float:
        """Return how much is covered; the panel's edge counts most. A line met many times counts once for each weight."""
        outside = box.left < 4 or box.right > self.width + 4 or box.top < -2 or box.bottom > self.height
        met = {weight for other, weight in self.drawn if box.meets(other)}
        return sum(met) + (20.0 if outside else 0.0)

    def best(self, spots: Sequence[Spot]) -> tuple[Spot, float]:
        """Return the first of the cheapest places, and its cost."""
        return min(((spot, self.cost(spot.box)) for spot in spots), key=lambda pair: pair[1])


def stack(spots: Sequence[tuple[float, str]], width: float) -> list[tuple[float, int]]:
    """Place texts above a panel: for each (pixel, text) a start within the panel, and a row, so that none overlap."""
    taken: list[list[tuple[float, float]]] = []
    placed: list[tuple[float, int]] = []
    for pixel, text in spots:
        wide = text_width(text, SIZE + 1)
        start = min(max(pixel - wide / 2, 0.0), max(width - wide, 0.0))
        clear = [all(start > end + 10 or start + wide < begin - 10 for begin, end in row) for row in taken]
        row = clear.index(True) if True in clear else len(taken)
        if row == len(taken):
            taken.append([])
        taken[row].append((start, start + wide))
        placed.append((start, row))
    return placed
