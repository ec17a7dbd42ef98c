"""The points of one family in a search, with the risk and the utility that a chart of its parameters is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from sfumato.charts import marks
from sfumato.charts.searched import Point, Reading
from sfumato.charts.theme import SIZE, SOFT, WIDTH
from sfumato.charts.words import short, symbol


class Found(NamedTuple):
    """A point with its risk in the worst scenario and its utility."""

    point: Point
    risk: Reading
    utility: Reading


@dataclass(frozen=True, eq=False)
class Tried:
    """What was tried of a family: its points, and the parameters in which they differ."""

    found: tuple[Found, ...]
    free: tuple[str, ...]
    risk: str
    utility: str
    limit: float | None
    """The largest tolerable risk,"""
    alone: bool
    """and whether points are judged by it alone, because the caller set it; else by all thresholds of the search."""

    def good(self, f: Found) -> bool:
        """Whether a point meets the thresholds; without any, every point does."""
        if self.limit is None:
            return True
        return f.risk.judged <= self.limit * (1 + 1e-9) if self.alone else f.point.meets

    def numeric(self, name: str) -> bool:
        """Whether a parameter is a number at every point."""
        values = [f.point.settings.get(name) for f in self.found]
        return all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values)

    def chosen_words(self, how: str) -> list[str]:
        """Say which point is chosen, if it is of this family: "ringed: chosen, λ² = 0.1"."""
        chosen = next((f.point for f in self.found if f.point.chosen), None)
        if chosen is None:
            return []
        return [f"{how}: chosen, " + ", ".join(f"{symbol(n)} = {worded(v)}" for n, v in chosen.settings.items())]


def heading(sentences: Sequence[str], wide: float = WIDTH - 60) -> alt.Title:
    """Return sentences above a chart, each on its own lines."""
    broken = (marks.lines(s, wide) or "" for s in sentences)
    text = [line for part in broken for line in ([part] if isinstance(part, str) else part)]
    return alt.Title(text=text, fontSize=SIZE, color=SOFT, anchor="start", offset=10)


def worded(value: Any) -> str:
    """Return a parameter's value as a label shows it."""
    return str(value) if isinstance(value, str | bool) else short(float(value))
