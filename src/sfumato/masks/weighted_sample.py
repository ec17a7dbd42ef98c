"""Sampling with unequal probabilities, proportional to a size."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.contract import Draws, param
from sfumato.errors import DataError
from sfumato.households import unit_ids
from sfumato.masks.records import Flags, Numbers, at_key
from sfumato.masks.sample import Frame, Sampling
from sfumato.microdata import Batch
from sfumato.schema import Schema


class WeightedSample(Sampling):
    """A sample with probabilities proportional to size, drawn systematically in random order (Hartley and Rao 1962).

    The inclusion probability of a unit is exactly n times its share of the total size. Units whose share is 1/n or more are
    drawn with certainty, and the rest of the sample is drawn from the others. The size is a column, or the survey weight;
    that of a household is the sum over its members, unless the column describes the household.
    """

    by: str | None = param(
        default=None,
        doc="column of numbers that probabilities are proportional to; the survey weight if none",
        columns="one",
    )

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the size and the household number."""
        return (self._measure(schema), *super().needs(schema))

    def _measure(self, schema: Schema) -> str:
        name = self.by or schema.one("weight")
        if name is None:
            raise DataError("weighted_sample needs a size: name a column (by = ...), or give one the role 'weight'.")
        return name

    def inclusion(self, frame: Frame) -> Numbers:
        """Return min(1, c·size), with c such that the probabilities add up to the size of the sample."""
        name = self._measure(frame.batch.schema)
        size, total = frame.totals(name), self.total(frame)
        if not (np.isfinite(size) & (size >= 0)).all():
            raise DataError(
                f"some values of '{name}' are missing, negative or infinite, so they cannot be sizes. Correct "
                "them, or choose another column (by)."
            )
        positive = int((size > 0).sum())
        if self.by is not None and positive < len(size):
            raise DataError(
                f"{len(size) - positive:,} {frame.noun} have size 0 in '{name}': they would never be drawn, and no weight "
                "could stand for them. Give them a positive size."
            )
        if total > positive:
            raise DataError(f"only {positive:,} {frame.noun} have a positive size: a sample of {total:,} is too large.")
        return proportional(size, total)

    def drawn(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
        """Lay the probabilities end to end in random order, and draw where whole numbers plus a random start fall."""
        order = np.argsort(draws.uniforms(frame.units, "sample"), kind="stable")
        ends = np.cumsum(pi[order])
        ends[-1] = round(float(ends[-1]))
        start = float(draws.uniforms(np.zeros(1, np.int64), "start")[0])
        hits = np.diff(np.ceil(ends - start), prepend=0.0) > 0
        chosen = np.sort(order[hits])
        by_id = chosen[np.argsort(frame.units[chosen])]
        return frame.units[by_id], pi[by_id]

    def choice(self, batch: Batch, draws: Draws) -> tuple[Flags, Numbers]:
        """Keep the records whose unit was drawn."""
        units, pi = self.rule.facts
        at = at_key(units, unit_ids(batch, self.unit))
        return at >= 0, 1 / pi[at] if len(pi) else np.ones(len(batch))

    def design(self, frame: Frame, pi: Numbers) -> str:
        """Say what the probabilities are."""
        certain = int((pi == 1).sum())
        also = f"; {certain:,} of them with certainty" if certain else ""
        return f", with probabilities proportional to {self._measure(frame.batch.schema)}{also}"


def proportional(size: Numbers, total: int) -> Numbers:
    """Return inclusion probabilities proportional to size, at most 1, that add up to `total`."""
    pi = np.zeros(len(size))
    certain = np.zeros(len(size), bool)
    while True:
        left = total - int(certain.sum())
        rest = ~certain & (size > 0)
        pi[certain] = 1.0
        pi[rest] = left * (size[rest] / size[rest].sum()) if rest.any() else 0.0
        more = rest & (pi >= 1 - 1e-12)
        if not more.any():
            return pi
        certain |= more
