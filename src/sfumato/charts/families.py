"""How recipe families are told apart: a colour and a shape each, in a legend that stays short however many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from sfumato.charts.placing import text_width
from sfumato.charts.theme import SERIES, SHAPES, colour_of, shape_of

OTHERS = "#8a8a8a"
"""Grey for families that have no colour of their own."""
_MOST = len(SERIES)
_SHAPES = tuple(dict.fromkeys(SHAPES))
_THEN = " then "
_ALONE = "alone"
_LEGEND = alt.Legend(orient="right", symbolSize=60, symbolOpacity=1, symbolStrokeWidth=1.4)


@dataclass(frozen=True)
class Look:
    """A family's colour and shape, and the entries of the legend that explain them."""

    colour: str
    shape: str
    first: str
    """The entry that explains the colour,"""
    second: str
    """and the one that explains the shape: the same, unless the legend has two parts."""


@dataclass(frozen=True)
class Key:
    """The look of every family."""

    looks: Mapping[str, Look]
    split: bool = False
    """Whether colours tell the first method of a sequence, and shapes what follows it."""

    @property
    def colours(self) -> dict[str, str]:
        """Colours by entry of the legend, in its order."""
        return {look.first: look.colour for look in self.looks.values()}

    @property
    def shapes(self) -> dict[str, str]:
        """Shapes by entry of the legend, in its order."""
        return {look.second: look.shape for look in self.looks.values()}

    @property
    def crowded(self) -> bool:
        """Whether the legend has fewer entries than there are families."""
        return len(self.looks) > len(self.colours)

    @property
    def width(self) -> float:
        """Pixels that the legend takes."""
        return 34 + max(map(text_width, [*self.colours, *self.shapes]))

    def fields(self, family: str) -> dict[str, str]:
        """Return what a row needs for `colour` and `shape`."""
        look = self.looks[family]
        return {"family": family, "first": look.first, "second": look.second}

    def colour(self) -> alt.Color:
        """Return the encoding of colours."""
        scale = alt.Scale(domain=list(self.colours), range=list(self.colours.values()))
        return alt.Color("first:N", scale=scale, legend=_LEGEND, title="first method" if self.split else None)

    def shape(self) -> alt.Shape:
        """Return the encoding of shapes; one legend with the colours, unless it has two parts."""
        scale = alt.Scale(domain=list(self.shapes), range=list(self.shapes.values()))
        field, title = ("second", "followed by") if self.split else ("first", None)
        return alt.Shape(f"{field}:N", scale=scale, legend=_LEGEND, title=title)


def key_of(families: Sequence[str], foremost: Sequence[str]) -> Key:
    """Return a look for each family.

    Up to eight have a colour and a shape each. More are grouped where they are sequences ("noise then pram") of few methods:
    the colour tells the first, the shape what follows. Otherwise the foremost (those on the frontier, most important
    first) have colours, and the rest are grey.

    >>> list(key_of([f"{a} then {b}" for a in "abc" for b in "xyz"], []).shapes)
    ['then x', 'then y', 'then z']
    """
    names = list(dict.fromkeys(families))
    if len(names) <= _MOST:
        return Key({n: Look(colour_of(i), shape_of(i), n, n) for i, n in enumerate(names)})
    parts = {n: n.partition(_THEN) for n in names}
    firsts = list(dict.fromkeys(p[0] for p in parts.values()))
    rests = sorted({p[2] for p in parts.values()}, key=lambda rest: (rest != "", rest))
    if len(firsts) <= _MOST and len(rests) <= len(_SHAPES):
        entry = {rest: f"then {rest}" if rest else _ALONE for rest in rests}
        return Key(
            {
                n: Look(colour_of(firsts.index(a)), _SHAPES[rests.index(b)], a, entry[b])
                for n, (a, _, b) in sorted(parts.items(), key=lambda item: rests.index(item[1][2]))
            },
            split=True,
        )
    kept = [n for n in dict.fromkeys(foremost) if n in parts][: _MOST - 2]  # without the grey of the series
    rest = f"{len(names) - len(kept)} other families"
    looks = {n: Look(colour_of(i), shape_of(i), n, n) for i, n in enumerate(kept)}
    return Key({**looks, **{n: Look(OTHERS, "circle", rest, rest) for n in names if n not in looks}})
