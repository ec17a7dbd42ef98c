"""What fully synthetic files have in common: new records, and a check that none of them is an old one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Rows
from sfumato.kernels.digest import mix64
from sfumato.microdata import Batch
from sfumato.schema import Level, Schema


def new_ids(start: int, count: int) -> NDArray[np.int64]:
    """Return ids of simulated records: negative, counted down from -1."""
    return -1 - np.arange(start, start + count, dtype=np.int64)


def synthetic_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """Return the schema of synthetic records with these columns: they belong to no household."""
    kept = schema.keep(lambda a: a.name in names)
    return Schema(tuple(a.with_(level=Level.PERSON) for a in kept))


@dataclass(frozen=True, eq=False)
class Originals:
    """The original records by a 64-bit number each, made from all their values, and how many records have it."""

    names: tuple[str, ...]
    prints: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, batch: Batch, names: Sequence[str]) -> Originals:
        """Take these columns of the original records."""
        return cls(tuple(names), *np.unique(_prints(batch, names), return_counts=True))

    def copied(self, synthetic: Batch) -> NDArray[np.int64]:
        """Return how many originals each synthetic record agrees with in all the columns, missing values included."""
        if not len(self.prints):
            return np.zeros(len(synthetic), np.int64)
        wanted = _prints(synthetic, self.names)
        at = np.minimum(np.searchsorted(self.prints, wanted), len(self.prints) - 1)
        return np.where(self.prints[at] == wanted, self.counts[at], 0)


def _prints(batch: Batch, names: Sequence[str]) -> NDArray[np.uint64]:
    """Return a 64-bit number per record from all its values; column by column, leaving nothing behind in memory."""
    made = np.zeros(len(batch), np.uint64)
    for name in names:
        one = alone(batch, name)
        values = np.where(one.missing(name), 0, one.column(name).hashes)
        made = mix64(made * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64) + np.uint64(1))
    return made


def alone(batch: Batch, name: str) -> Batch:
    """Return one column by itself: what is worked out from it (codes, numbers) goes with it, and is not kept with the file."""
    return Batch(Rows(batch.ids, {name: batch.column(name).bare()}), batch.schema)
