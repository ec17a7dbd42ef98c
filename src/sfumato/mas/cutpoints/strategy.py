"""What every strategy shares: the least number of observations in a bin, and what becomes of the edges."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.contract import Parametric, param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.cutpoints.round_numbers import roundest
from sfumato.mas.cutpoints.tally import Tally

Edges = list[float]

SPARE = 0.05
"""The share of the bins that may be given up for round edges: none of fewer than twenty."""
_MOVE = 0.25


class CutpointStrategy(Parametric, family="cutpoint strategy", abstract=True):
    """A way to cut a numerical variable into bins of at least d observations each."""

    d: int = param(default=75, doc="the least number of observations in a bin", low=1, integer=True)
    rounding: bool = param(
        default=True, doc="whether edges are round numbers, as far as every bin keeps d observations"
    )

    @abstractmethod
    def exact(self, tally: Tally) -> Edges:
        """Return the edges as the strategy defines them, ascending."""

    @abstractmethod
    def rounded(self, tally: Tally) -> Edges:
        """Return the edges on round numbers."""

    def edges(self, tally: Tally) -> Edges:
        """Return the edges: none where there is only one bin."""
        if tally.total < 2 * self.d or tally.span == 0:
            return []
        if self.rounding:
            return self.rounded(tally)
        return distinct([float(np.floor(e)) for e in self.exact(tally)] if tally.whole else self.exact(tally))

    def why(self, tally: Tally) -> str:
        """Return why the bins are as they are, without a number from the data."""
        line = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        first = line[:1].lower() + line[1:]
        if tally.span == 0:
            return "the variable has one value only: one bin"
        return first if tally.total >= 2 * self.d else "there are too few observations for two bins: one bin"

    def cut(
        self,
        values: Any,
        counts: Any = None,
        *,
        unit: str = "",
        whole: bool | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Cutpoints:
        """Cut a variable into bins of at least d observations.

        Parameters
        ----------
        values, counts
            Distinct values and how many records have each: what a group-by returns. Without counts, the records' values.
            Missing values (NaN, None) are in no bin.
        unit
            For the labels: "dollars", "$".
        whole
            Whether the variable holds whole numbers; found out from the values if left open.
        low, high
            The smallest and largest value there can be, where everybody knows them (an age is not below 0). They replace the
            open ends in the labels; never give the smallest and largest value of the data.
        """
        return self.cut_tally(Tally.of(values, counts, whole), unit=unit, low=low, high=high)

    def cut_tally(
        self, tally: Tally, *, unit: str = "", low: float | None = None, high: float | None = None
    ) -> Cutpoints:
        """Cut a variable that was counted before."""
        if tally.total < self.d:
            raise DataError(
                "the variable has fewer observations than one bin needs. Leave it out of universes, or choose a smaller d."
            )
        edges = self.edges(tally)
        held = tally.bins(edges)
        if low is not None and high is not None and low >= high:
            raise ParameterError("the low bound of a variable must be below the high bound.")
        return Cutpoints(
            tuple(edges), tally.whole, self.d, self.name, self.why(tally), unit, low, high,
            counts=tuple(int(c) for c in held), missing=tally.missing,
        )  # fmt: skip

    # -- for the strategies

    def enough(self, tally: Tally, edges: Sequence[float]) -> bool:
        """Whether every bin holds d."""
        return bool(tally.bins(edges).min() >= self.d)

    def spared(self, bins: int) -> int:
        """Return how many bins must be left when edges are made round."""
        return bins - int(SPARE * bins)

    def settled(self, tally: Tally, edges: Edges) -> Edges:
        """Move edges to the roundest numbers near them that leave every bin its d observations, from left to right.

        An edge moves by at most a quarter of the narrower of its two bins. That is always possible: where it is already satisfies
        all that is asked, since the edge before it was moved with that in mind.
        """
        ends = [tally.low, *edges, tally.high]
        at = np.searchsorted(tally.values, edges, side="right") - 1  # the last value of each bin
        out: Edges = []
        for i, edge in enumerate(edges):
            before = tally.up_to(out[-1]) if out else 0
            after = int(tally.cumulative[at[i + 1]]) if i + 1 < len(edges) else tally.total
            first = int(np.searchsorted(tally.cumulative, before + self.d, side="left"))
            last = int(np.searchsorted(tally.cumulative, after - self.d, side="right")) - 1
            reach = _MOVE * min(edge - ends[i], ends[i + 2] - edge)
            # anywhere from one value up to the next is the same bin
            low = max(float(tally.values[first]), min(edge - reach, float(tally.values[at[i]])))
            high = min(float(tally.values[last + 1]), max(edge + reach, float(tally.values[at[i] + 1])))
            out.append(roundest(low, high, edge, tally.whole))
        return out


def distinct(edges: Sequence[float]) -> Edges:
    """Return ascending edges, each once."""
    return sorted(set(edges))
