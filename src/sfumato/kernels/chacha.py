"""Keyed random numbers as a pure function of (key, counter).

Noise that protects people must not be invertible: whoever knows one record's true value knows that record's noise,
and with an ordinary generator (PCG, SplitMix, Mersenne Twister) a few such values give the seed, hence everybody's
noise. These draws are the ChaCha12 stream cipher keyed with 256 bits (Bernstein 2008), so one record's noise tells
nothing about another's.

Counter c of a key is the 64-bit word c % 8 of cipher block c // 8; neighbouring counters share a block, so runs of
counters are cheap and any single one can be had alone.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

_ROUNDS = 12


@numba.njit(cache=True, nogil=True, inline="always")
def _rotate(x, k):  # type: ignore[no-untyped-def]
    return np.uint32((x << np.uint32(k)) | (x >> np.uint32(32 - k)))


@numba.njit(cache=True, nogil=True)
def _block(key, block, work, out):  # type: ignore[no-untyped-def]
    """Write the eight 64-bit words of one cipher block into `out`."""
    start = (
        np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574),
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
        np.uint32(block & np.uint64(0xFFFFFFFF)), np.uint32(block >> np.uint64(32)), np.uint32(0), np.uint32(0),
    )  # fmt: skip
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = start
    for _ in range(_ROUNDS // 2):
        a0 += b0; d0 = _rotate(d0 ^ a0, 16); c0 += d0; b0 = _rotate(b0 ^ c0, 12)  # noqa: E702
        a0 += b0; d0 = _rotate(d0 ^ a0, 8); c0 += d0; b0 = _rotate(b0 ^ c0, 7)  # noqa: E702
        a1 += b1; d1 = _rotate(d1 ^ a1, 16); c1 += d1; b1 = _rotate(b1 ^ c1, 12)  # noqa: E702
        a1 += b1; d1 = _rotate(d1 ^ a1, 8); c1 += d1; b1 = _rotate(b1 ^ c1, 7)  # noqa: E702
        a2 += b2; d2 = _rotate(d2 ^ a2, 16); c2 += d2; b2 = _rotate(b2 ^ c2, 12)  # noqa: E702
        a2 += b2; d2 = _rotate(d2 ^ a2, 8); c2 += d2; b2 = _rotate(b2 ^ c2, 7)  # noqa: E702
        a3 += b3; d3 = _rotate(d3 ^ a3, 16); c3 += d3; b3 = _rotate(b3 ^ c3, 12)  # noqa: E702
        a3 += b3; d3 = _rotate(d3 ^ a3, 8); c3 += d3; b3 = _rotate(b3 ^ c3, 7)  # noqa: E702
        a0 += b1; d3 = _rotate(d3 ^ a0, 16); c2 += d3; b1 = _rotate(b1 ^ c2, 12)  # noqa: E702
        a0 += b1; d3 = _rotate(d3 ^ a0, 8); c2 += d3; b1 = _rotate(b1 ^ c2, 7)  # noqa: E702
        a1 += b2; d0 = _rotate(d0 ^ a1, 16); c3 += d0; b2 = _rotate(b2 ^ c3, 12)  # noqa: E702
        a1 += b2; d0 = _rotate(d0 ^ a1, 8); c3 += d0; b2 = _rotate(b2 ^ c3, 7)  # noqa: E702
        a2 += b3; d1 = _rotate(d1 ^ a2, 16); c0 += d1; b3 = _rotate(b3 ^ c0, 12)  # noqa: E702
        a2 += b3; d1 = _rotate(d1 ^ a2, 8); c0 += d1; b3 = _rotate(b3 ^ c0, 7)  # noqa: E702
        a3 += b0; d2 = _rotate(d2 ^ a3, 16); c1 += d2; b0 = _rotate(b0 ^ c1, 12)  # noqa: E702
        a3 += b0; d2 = _rotate(d2 ^ a3, 8); c1 += d2; b0 = _rotate(b0 ^ c1, 7)  # noqa: E702
    work[0], work[1], work[2], work[3] = a0, a1, a2, a3
    work[4], work[5], work[6], work[7] = b0, b1, b2, b3
    work[8], work[9], work[10], work[11] = c0, c1, c2, c3
    work[12], work[13], work[14], work[15] = d0, d1, d2, d3
    for i in range(8):
        low = np.uint64(np.uint32(work[2 * i] + start[2 * i]))
        high = np.uint64(np.uint32(work[2 * i + 1] + start[2 * i + 1]))
        out[i] = low | (high << np.uint64(32))


@numba.njit(cache=True, nogil=True)
def _words(key, counters, result):  # type: ignore[no-untyped-def]
    work = np.empty(16, np.uint32)
    out = np.empty(8, np.uint64)
    current = np.uint64(0)
    fresh = False
    for i in range(counters.size):
        block = counters[i] >> np.uint64(3)
        if not fresh or block != current:
            _block(key, block, work, out)
            current, fresh = block, True
        result[i] = out[counters[i] & np.uint64(7)]


def words(key: bytes, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit word of each counter under a 32-byte key; shape as `counters`."""
    counters = np.ascontiguousarray(counters, np.uint64)
    result = np.empty(counters.shape, np.uint64)
    _words(np.frombuffer(key, "<u4").astype(np.uint32), counters.ravel(), result.ravel())
    return result


def uniforms(key: bytes, counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return one number in the open interval (0, 1) per counter: the midpoint of one of 2^53 equal cells."""
    cells = words(key, counters) >> np.uint64(11)
    return (cells.astype(np.float64) + 0.5) * 2.0**-53
