"""The loops of `chacha`, compiled: for many numbers."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.kernels.keyed_numbers import ROUNDS


@numba.njit(cache=True, nogil=True, inline="always")
def _rotate(x, k):  # type: ignore[no-untyped-def]
    return np.uint32((x << np.uint32(k)) | (x >> np.uint32(32 - k)))


@numba.njit(cache=True, nogil=True, inline="always")
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    # numba adds 32-bit words as 64-bit ones: every sum is cut back, or its carry would enter the rotation
    a = np.uint32(a + b)
    d = _rotate(np.uint32(d ^ a), 16)
    c = np.uint32(c + d)
    b = _rotate(np.uint32(b ^ c), 12)
    a = np.uint32(a + b)
    d = _rotate(np.uint32(d ^ a), 8)
    c = np.uint32(c + d)
    b = _rotate(np.uint32(b ^ c), 7)
    return a, b, c, d


@numba.njit(cache=True, nogil=True)
def _block(key, block, work, out):  # type: ignore[no-untyped-def]
    """Write the eight 64-bit words of one cipher block into `out`."""
    start = (
        np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574),
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
        np.uint32(block & np.uint64(0xFFFFFFFF)), np.uint32(block >> np.uint64(32)), np.uint32(0), np.uint32(0),
    )  # fmt: skip
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = start
    for _ in range(ROUNDS // 2):
        a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    work[0], work[1], work[2], work[3] = a0, a1, a2, a3
    work[4], work[5], work[6], work[7] = b0, b1, b2, b3
    work[8], work[9], work[10], work[11] = c0, c1, c2, c3
    work[12], work[13], work[14], work[15] = d0, d1, d2, d3
    for i in range(8):
        low = np.uint64(np.uint32(work[2 * i] + start[2 * i]))
        high = np.uint64(np.uint32(work[2 * i + 1] + start[2 * i + 1]))
        out[i] = low | (high << np.uint64(32))


@numba.njit(cache=True, nogil=True)
def fill_words(key, counters, result):  # type: ignore[no-untyped-def]
    """Fill in the word of each counter."""
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


@numba.njit(cache=True, nogil=True)
def fill_midpoints(words, out):  # type: ignore[no-untyped-def]
    """Fill in the midpoint of the cell of each word."""
    for i in range(words.size):
        out[i] = (np.float64(words[i] >> np.uint64(12)) + 0.5) * 2.0**-52
