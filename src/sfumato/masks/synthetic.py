"""What fully synthetic files have in common: new records, and a check that none of them is an old one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def copied(synthetic: Batch, original: Batch, names: Sequence[str]) -> NDArray[np.int64]:
    """Return how many original records each synthetic one agrees with in all these columns, missing values included."""
    prints, counts = np.unique(_prints(original, names), return_counts=True)
    wanted = _prints(synthetic, names)
    at = np.minimum(np.searchsorted(prints, wanted), len(prints) - 1)
    return np.where(prints[at] == wanted, counts[at], 0) if len(prints) else np.zeros(len(synthetic), np.int64)


def _prints(batch: Batch, names: Sequence[str]) -> NDArray[np.uint64]:
    """Return a 64-bit number per record from all its values."""
    made = np.zeros(len(batch), np.uint64)
    for name in names:
        values = np.where(batch.missing(name), 0, batch.column(name).hashes)
        made = mix64(made * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64) + np.uint64(1))
    return made
