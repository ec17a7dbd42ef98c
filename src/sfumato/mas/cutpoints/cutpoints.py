"""Cutpoints: the bins that a numerical variable is offered in, frozen by the custodian."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, unknown_name
from sfumato.mas.cutpoints.tally import numbers_of

_CURRENCIES = "$€£¥"
_GROUPED = 10_000
"""From here on digits come in groups of three; below, 1998 may be a year."""


@dataclass(frozen=True)
class Cutpoints:
    """Bins of a numerical variable. Bin i holds what is above edge i − 1 and at most edge i; the end bins are open.

    The smallest and the largest value are in no edge and no label. `counts` is confidential: it is not shown, not compared and
    not written.

    >>> Cutpoints((28_500, 62_000), whole=True, unit="$").labels
    ('$28,500 or less', '$28,501 to $62,000', '$62,001 or more')
    """

    edges: tuple[float, ...]
    """Ascending; one fewer than there are bins."""
    whole: bool = False
    """Whether the variable holds whole numbers, so that the next bin begins one higher."""
    d: int = 1
    """How many observations every bin held at least, when the edges were made."""
    strategy: str = ""
    why: str = ""
    """In words, without numbers from the data."""
    unit: str = ""
    low: float | None = None
    """The smallest value there can be, where everybody knows it; it is not taken from the data."""
    high: float | None = None
    counts: tuple[int, ...] | None = field(default=None, repr=False, compare=False)
    """How many observations each bin held when the edges were made; confidential, None once written and read."""
    missing: int | None = field(default=None, repr=False, compare=False)
    """How many were missing; confidential."""

    def __post_init__(self) -> None:
        try:
            edges = tuple(float(e) for e in self.edges)
        except (TypeError, ValueError):
            edges = (math.nan,)
        if not all(np.isfinite(edges)) or any(a >= b for a, b in itertools.pairwise(edges)):
            raise ParameterError("the edges of cutpoints must be finite numbers in ascending order, each once.")
        if self.whole and any(e % 1 for e in edges):
            raise ParameterError("the edges of a variable of whole numbers must be whole numbers.")
        inside = (self.low is None or not edges or self.low <= edges[0]) and (
            self.high is None or not edges or self.high > edges[-1]
        )
        if not inside:
            raise ParameterError("the known bounds of a variable must lie outside its edges.")
        object.__setattr__(self, "edges", tuple(int(e) for e in edges) if self.whole else edges)

    def __len__(self) -> int:
        return len(self.edges) + 1

    # -- values to bins

    def codes(self, values: Any) -> NDArray[np.int64]:
        """Return the bin of each value, from 0; −1 where it is missing. It is the number of edges below the value.

        >>> Cutpoints((10, 20)).codes([10, 10.5, None, 99]).tolist()
        [0, 1, -1, 2]
        """
        x = numbers_of(values)
        found = np.searchsorted(np.asarray(self.edges, np.float64), x, side="left").astype(np.int64)
        found[np.isnan(x)] = -1
        return found

    # -- words

    @property
    def labels(self) -> tuple[str, ...]:
        """What each bin is called."""
        if not self.edges:
            return ("all values",) if self.low is None or self.high is None else (self._range(self.low, self.high),)
        over = "" if self.whole else "over "
        begin, end = self._after(self.edges[-1]), self.edges[0]
        first = f"{self._number(end)} or less" if self.low is None else self._range(self.low, end)
        middle = (over + self._range(self._after(a), b) for a, b in itertools.pairwise(self.edges))
        more = self._number(begin) + (" or more" if self.whole else "")
        last = over + (more if self.high is None else self._range(begin, self.high))
        return (first, *middle, last)

    def _after(self, edge: float) -> float:
        return edge + 1 if self.whole else edge

    def _range(self, a: float, b: float) -> str:
        return self._number(a) if a == b else f"{self._number(a, alone=False)} to {self._number(b)}"

    def _number(self, x: float, alone: bool = True) -> str:
        ends = (self.edges[0], self.edges[-1]) if self.edges else ()
        grouped = "," if max(abs(e) for e in (*ends, self.low or 0, self.high or 0)) >= _GROUPED else ""
        text = f"{abs(x):{grouped}.0f}" if float(x).is_integer() and abs(x) < 1e15 else f"{abs(x):{grouped}.12g}"
        sign = "-" if x < 0 else ""
        if self.unit in _CURRENCIES and self.unit:
            return f"{sign}{self.unit}{text}"
        return f"{sign}{text}{f' {self.unit}' if self.unit and alone else ''}"

    # -- files

    def to_dict(self) -> dict[str, Any]:
        """Return what may be written and published: no counts."""
        out: dict[str, Any] = {"edges": list(self.edges), "whole": self.whole, "d": self.d}
        texts = {"strategy": self.strategy, "why": self.why, "unit": self.unit}
        bounds = {"low": self.low, "high": self.high}
        return out | {k: v for k, v in texts.items() if v} | {k: v for k, v in bounds.items() if v is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Cutpoints:
        """Build from a TOML table; the inverse of `to_dict`."""
        known = ("edges", "whole", "d", "strategy", "why", "unit", "low", "high")
        for name in table:
            if name not in known:
                raise ParameterError(unknown_name("entry", name, known, "cutpoints"))
        try:
            return cls(**{**table, "edges": tuple(float(e) for e in table["edges"])})
        except (KeyError, TypeError, ValueError):
            raise ParameterError("cutpoints need a list of numbers under 'edges'.") from None
