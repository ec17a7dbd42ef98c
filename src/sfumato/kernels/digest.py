"""A digest of columns that may come in pieces: sums of row hashes, so the order of the pieces does not matter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_LIMB = np.uint64(0xFFFF)


class _Column(Protocol):
    @property
    def hashes(self) -> NDArray[np.int64]: ...


def mix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a well-mixed 64-bit number for each (one step of SplitMix64); 0 does not stay 0."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def row_digest(ids: NDArray[np.int64], columns: Mapping[str, _Column]) -> NDArray[np.float64]:
    """Return the sum over rows of two 64-bit row hashes, as eight sums of 16-bit limbs (exact up to 2^37 rows)."""
    totals = row_hashes(ids, columns, (b"a", b"b"))
    return np.array(
        [float(((total >> np.uint64(16 * i)) & _LIMB).sum(dtype=np.uint64)) for total in totals for i in range(4)]
    )


def row_hashes(
    ids: NDArray[np.int64], columns: Mapping[str, _Column], halves: tuple[bytes, ...] = (b"a",)
) -> list[NDArray[np.uint64]]:
    """Return 64-bit hashes of an id and the values of each row, one array per half; shape (n,) each."""
    totals = [mix64(ids.view(np.uint64) + _seed(half, "")) for half in halves]
    for name, column in columns.items():
        hashes = column.hashes.view(np.uint64)
        totals = [mix64(total ^ mix64(hashes + _seed(half, name))) for half, total in zip(halves, totals, strict=True)]
    return totals


def _seed(half: bytes, name: str) -> Any:
    raw = hashlib.blake2b(name.encode(), digest_size=8, salt=half).digest()
    return np.uint64(int.from_bytes(raw, "little"))


def combine(names: Iterable[str], count: int, limbs: NDArray[np.float64]) -> bytes:
    """Return 32 bytes from the column names, the number of rows and the summed limbs."""
    text = "\x1f".join([*names, str(count), *(str(int(x)) for x in limbs)])
    return hashlib.blake2b(text.encode(), digest_size=32).digest()
