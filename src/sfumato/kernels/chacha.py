"""Keyed random numbers as a pure function of (key, counter).

Noise that protects people must not be invertible: whoever knows one record's true value knows that record's noise,
and with an ordinary generator (PCG, SplitMix, Mersenne Twister) a few such values give the seed, hence everybody's
noise. These draws are the ChaCha12 stream cipher keyed with 256 bits (Bernstein 2008), so one record's noise tells
nothing about another's.

Counter c of a key is the 64-bit word c % 8 of cipher block c // 8; neighbouring counters share a block, so runs of
counters are cheap and any single one can be had alone.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.warming import Warming

ROUNDS = 12
_START = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_Row = NDArray[np.uint32]
_compiled = Warming(lambda: import_module("sfumato.kernels.chacha_compiled"))


def words(key: bytes, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit word of each counter under a 32-byte key; shape as `counters`."""
    if len(key) != 32:
        raise ValueError("a ChaCha key has 32 bytes.")
    counters = np.asarray(counters, np.uint64, order="C")
    keyed = np.frombuffer(key, "<u4").astype(np.uint32)
    if (compiled := _compiled.for_size(counters.size)) is None:
        return _few_words(keyed, counters.ravel()).reshape(counters.shape)
    result = np.empty(counters.shape, np.uint64)
    compiled.fill_words(keyed, counters.ravel(), result.ravel())
    return result


def uniforms(key: bytes, counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return one number in the open interval (0, 1) per counter: the midpoint of one of 2^52 equal cells."""
    drawn = words(key, counters)
    return _midpoints(drawn, drawn.view(np.float64))  # in place: draws are many, and memory that is new is slow


def midpoints(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the midpoint of the cell of (0, 1) that each 64-bit word falls in; 2^52 cells, so that midpoints are exact."""
    return _midpoints(words, np.empty(words.shape))


def _midpoints(words: NDArray[np.uint64], out: NDArray[np.float64]) -> NDArray[np.float64]:
    if (compiled := _compiled.for_size(words.size)) is None:
        out[...] = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    else:
        compiled.fill_midpoints(words.ravel(), out.ravel())
    return out


def _few_words(key: NDArray[np.uint32], counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of counters of shape (n,): all blocks at once, four columns or diagonals of the state at a time."""
    blocks = counters >> np.uint64(3)
    state = np.zeros((4, 4, counters.size), np.uint32)
    state[:3] = np.concatenate([_START, key]).reshape(3, 4, 1)
    state[3, 0], state[3, 1] = blocks.astype(np.uint32), blocks >> np.uint64(32)
    a, b, c, d = state.copy()
    for _ in range(ROUNDS // 2):
        a, b, c, d = _quarters(a, b, c, d)
        a, b, c, d = _quarters(a, b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]])
        b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
    made = (np.stack([a, b, c, d]) + state).reshape(8, 2, -1).astype(np.uint64)
    every = made[:, 0] | (made[:, 1] << np.uint64(32))
    return np.asarray(every[(counters & np.uint64(7)).astype(np.intp), np.arange(counters.size)])


def _quarters(a: _Row, b: _Row, c: _Row, d: _Row) -> tuple[_Row, _Row, _Row, _Row]:
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


def _rotated(x: _Row, k: int) -> _Row:
    return (x << np.uint32(k)) | (x >> np.uint32(32 - k))
