"""Stratified sampling: a simple random sample in each stratum."""

from __future__ import annotations

import heapq
from dataclasses import KW_ONLY
from typing import Literal

import numpy as np

from sfumato.contract import param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.masks.records import Flags, Numbers
from sfumato.masks.sample import Counts, Frame, StratifiedDraw
from sfumato.schema import Schema


class StratifiedSample(StratifiedDraw):
    """A simple random sample in each stratum, with sizes allocated to the strata (Cochran 1977, chapter 5).

    Allocation is proportional to the units of a stratum, equal, or by Neyman's rule: proportional to N·S, with S the
    standard deviation of a column there. Sizes are rounded by the Sainte-Laguë rule, so that they add up exactly and none
    shrinks when the sample grows.
    """

    _: KW_ONLY
    within: tuple[str, ...] | None = param(
        default=None,
        doc="columns of the strata; those with the role stratum if none",
        columns="many",
        holds="categories",
    )
    allocation: Literal["proportional", "equal"] = param(
        default="proportional", doc="how the sample is divided among strata", choices=("proportional", "equal")
    )
    neyman: str | None = param(
        default=None, doc="column whose mean is to be as precise as can be: Neyman allocation", columns="one"
    )
    least: int = param(default=1, doc="smallest number drawn in a stratum", low=1, high=1e9, integer=True)

    def validate(self) -> None:
        """Refuse two ways of allocation at once."""
        super().validate()
        if self.neyman is not None and self.allocation != "proportional":
            raise ParameterError("allocation is equal, or by Neyman's rule (neyman = a column), not both.")

    def by(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata that are named, or the schema's."""
        names = self.within or schema.names(role="stratum")
        if not names:
            raise DataError("no column has the role 'stratum'. Name the columns of the strata (within = [...]).")
        return names

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata, the column of Neyman's rule, and the household number."""
        return (*super().needs(schema), *filter(None, [self.neyman]))

    def sizes(self, frame: Frame, stratum: Counts, units: Counts) -> Counts:
        """Allocate the sample to the strata."""
        total, least = self.total(frame), self.least
        if small := int((units < least).sum()):
            raise DataError(
                f"{small:,} of {len(units):,} strata have fewer than least = {least} {frame.noun}. Merge strata, or lower least."
            )
        if total < least * len(units):
            raise DataError(
                f"a sample of {total:,} {frame.noun} cannot have at least {least} in each of {len(units):,} strata. "
                "Draw more, or use coarser strata."
            )
        if self.neyman is not None:
            measure = units * self._spread(frame, stratum, len(units))
        else:
            measure = np.ones(len(units)) if self.allocation == "equal" else units.astype(np.float64)
        return allocate(total, measure, least, units)

    def _spread(self, frame: Frame, stratum: Counts, count: int) -> Numbers:
        """Return the standard deviation of the column among the units of each stratum, 0 where there is none."""
        name = str(self.neyman)
        values = frame.totals(name)
        known = np.isfinite(values)
        at, x = stratum[known], values[known]
        n = np.bincount(at, minlength=count)
        mean = np.bincount(at, x, count) / np.maximum(n, 1)
        spread: Numbers = np.sqrt(np.bincount(at, (x - mean[at]) ** 2, count) / np.maximum(n - 1, 1))
        if not spread.any():
            raise DataError(
                f"column '{name}' does not vary in any stratum, so Neyman's rule allocates nothing. Leave it out."
            )
        return spread

    def check(self, frame: Frame, pi: Numbers, drawn: Flags) -> None:
        """Verify the number drawn in each stratum."""
        _, stratum, units = self.grouped(frame)
        planned = np.bincount(stratum, pi, len(units))
        if not np.allclose(np.bincount(stratum[drawn], minlength=len(units)), planned, atol=1e-6):
            raise DataError("a stratum has another number of units than was allocated to it; nothing is released.")

    def design(self, frame: Frame, pi: Numbers) -> str:
        """Say how many strata there are."""
        _, stratum, units = self.grouped(frame)
        smallest = round(float(np.bincount(stratum, pi, len(units)).min()))
        names = listing(self.by(frame.batch.schema))
        return f"; at least {smallest:,} in each of the {len(units):,} strata of {names}"


def allocate(total: int, measure: Numbers, least: int, most: Counts) -> Counts:
    """Return whole numbers between `least` and `most` that add up to `total`, in proportion to `measure` (Sainte-Laguë).

    The next one always goes where measure / (given + 1/2) is largest, so no number shrinks when the total grows.
    """

    def given(scale: float) -> Counts:
        return np.clip(np.floor(np.minimum(scale * measure, 2.0**62) + 0.5), least, most).astype(np.int64)

    low, high = 0.0, (float(most.max(initial=0)) + 1) / max(float(measure[measure > 0].min(initial=np.inf)), 1e-300)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if given(middle).sum() <= total else (low, middle)
    counts = given(low)
    next_ones = [(-measure[h] / (counts[h] + 0.5), h) for h in np.flatnonzero(counts < most).tolist()]
    heapq.heapify(next_ones)
    for _ in range(total - int(counts.sum())):
        _, h = heapq.heappop(next_ones)
        counts[h] += 1
        if counts[h] < most[h]:
            heapq.heappush(next_ones, (-measure[h] / (counts[h] + 0.5), h))
    return counts
