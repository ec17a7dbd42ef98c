"""Keyed randomness of a vault, and what is done to numbers before they leave: noise, rounding, and the least that is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parametric, param
from sfumato.mas.cutpoints import steps
from sfumato.mas.preparation import BITS
from sfumato.typing import Numbers

# --- secrets
# The one secret of a vault: what it decides is the same for every user, process and engine.

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


# --- perturbation
# What is done to numbers before they leave: noise, rounding, and the least that is shown.


class Perturbation(Parametric, family="perturbation", abstract=True):
    """Settings for one kind of number."""


class Noise(Perturbation, abstract=True):
    """Normal noise on bounded sums: a floor for small sets, and a part that grows with the sampling error of large ones."""

    sd: float = param(
        default=0.0,
        doc="least standard deviation of the noise, in units of what one record's confidential values can move",
        low=0,
    )
    growth: float = param(
        default=0.0, doc="variance of the noise beyond that, as a share of the sampling variance of the sum", low=0
    )

    def variance(self, reach: Numbers | float, grown: Numbers | float) -> Numbers:
        """Return the variance of the noise on sums that one record moves by `reach`, with a nominal sampling variance `grown`."""
        return np.asarray(
            np.square(self.sd * np.asarray(reach)) + self.growth * np.asarray(grown) * (self.sd > 0), np.float64
        )

    def wording(self) -> str:
        """Return what noise is drawn for. Other settings draw other noise: the same one twice would cancel."""
        return f"standard deviation {self.sd!r}, growth {self.growth!r}"


class Counts(Noise):
    """Counts of records: noise, rounding, and the least that is shown."""

    base: int = param(default=1, doc="counts are rounded to multiples of this", low=1, integer=True)
    least: int = param(default=0, doc="smaller counts are not shown", low=0, integer=True)
    beyond: int = param(
        default=20,
        low=0,
        integer=True,
        doc="fewest observations beyond a quantile, and beyond each edge of a histogram",
    )

    def noisy(self, counts: Numbers, keys: Sequence[bytes], secret: Secret, purpose: str) -> Numbers:
        """Return counts by known variables with the noise of their sets."""
        if not self.sd:
            return np.asarray(counts, np.float64)
        return counts + self.sd * secret.normals(list(keys), f"{purpose}{self.wording()}")

    def shown_weighted(self, noisy: Numbers, mean: float) -> Numbers:
        """Return noisy weighted counts as they are published: rounded to a round number of about `base` mean weights."""
        if self.base == 1:
            return np.asarray(noisy, np.float64)
        step = next(steps(self.base * mean, self.base * mean / 10, whole=False))
        return np.array([max(step.times(round(v / step.size)), 0.0) if np.isfinite(v) else np.nan for v in noisy])

    def shown(self, noisy: Numbers) -> Numbers:
        """Return noisy counts as they are published: rounded, NaN where they are too small."""
        rounded = np.round(noisy / self.base) * self.base
        return np.where(noisy >= self.least, np.maximum(rounded, 0), np.nan)


class Amounts(Noise):
    """Sums and means: clipping to public bounds, noise, and significant digits."""

    clip: bool = param(default=False, doc="whether numbers are clipped to the public bounds of their variable")
    digits: int = param(default=15, doc="significant digits that are published", low=1, high=17, integer=True)
    error_digits: int = param(default=15, doc="significant digits of standard errors", low=1, high=17, integer=True)


class Models(Noise):
    """Models: noise on the sums that they are made of, and significant digits."""

    digits: int = param(default=15, doc="significant digits of coefficients", low=1, high=17, integer=True)
    error_digits: int = param(default=15, doc="significant digits of standard errors", low=1, high=17, integer=True)


def significant(values: Numbers, digits: int) -> Numbers:
    """Return numbers rounded to significant digits.

    >>> significant(np.array([0.0123456, -98765.4, 0.0, np.nan]), 3)
    array([ 1.23e-02, -9.88e+04,  0.00e+00,       nan])
    """
    return np.array([float(f"{v:.{digits - 1}e}") if np.isfinite(v) else np.nan for v in np.ravel(values)]).reshape(
        np.shape(values)
    )
