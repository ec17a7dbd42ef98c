"""The one secret of a vault: what it decides is the same for every user, process and engine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.mas.prepare import BITS

_RANGE = 2**BITS
_REMEMBERED = 200_000


@dataclass(frozen=True, eq=False)
class Secret:
    """Keyed randomness of a family of data sets."""

    draws: Draws
    _drawn: dict[tuple[str, bytes], float] = field(default_factory=dict, repr=False)
    """Noise that was drawn before: rules and tables ask for that of the same sets again and again."""

    def normals(self, keys: list[bytes], purpose: str) -> NDArray[np.float64]:
        """Return a standard normal number for each key and purpose, shape (len(keys),)."""
        named = [(purpose, key) for key in keys]
        found = {name: self._drawn[name] for name in named if name in self._drawn}
        if new := [name for name in dict.fromkeys(named) if name not in found]:
            made = self.draws.child("noise").normals(_numbers([key for _, key in new]), purpose)
            found |= zip(new, made.tolist(), strict=True)
            if len(self._drawn) > _REMEMBERED:
                self._drawn.clear()
            self._drawn.update((name, found[name]) for name in new)
        return np.array([found[name] for name in named])

    def uniforms(self, keys: list[bytes], purpose: str) -> NDArray[np.float64]:
        """Return a number in (0, 1) for each key and purpose, shape (len(keys),)."""
        return self.draws.child("noise").uniforms(_numbers(keys), purpose)

    def order(self, key: bytes) -> str:
        """Return the SQL expression of a record's place in the order of drops of a set: a whole number below 2^31.

        Records have independent uniform numbers r, and r -> (a r + b) mod 2^31 with a odd maps them onto uniform numbers again:
        in one set the places are independent and uniform, and those of two sets differ, since a and b hang on the set.
        """
        a, b = (int(x * _RANGE) for x in self.draws.child("drops").uniforms(_numbers([key, key + b"b"]), "order"))
        return f"((CAST(r AS BIGINT) * {a | 1} + {b}) & {_RANGE - 1})"

    def kept(self, key: bytes, share: float) -> str:
        """Return the SQL condition that a record is not dropped, where each is dropped with a probability."""
        return f"{self.order(key)} >= {round(share * _RANGE)}"

    def citation(self, *parts: str) -> str:
        """Return a short id that nobody can compute without the secret."""
        return self.draws.digest("\x1f".join(parts).encode())


def ledger_key(secret: Draws) -> bytes:
    """Return the key of the ledger's hashes."""
    return bytes.fromhex(secret.digest(b"\x00ledger"))


def _numbers(keys: list[bytes]) -> NDArray[np.int64]:
    """Return a 64-bit number for each key."""
    hashed = [hashlib.blake2b(key, digest_size=8).digest() for key in keys]
    return np.array([int.from_bytes(h, "little", signed=True) for h in hashed], np.int64)
