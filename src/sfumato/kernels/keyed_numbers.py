"""Keyed random numbers as a pure function of (key, counter): ChaCha12, uniform and normal."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.typing import Numbers

Compiled = TypeVar("Compiled")
_FEW = 1_024
"""A job of at most this many numbers is small."""
_JOBS = 1_000
"""So many small jobs take about as long as loading numba with a kernel (0.4 s): who has done these will do more."""


class Warming(Generic[Compiled]):
    """Compiled loops with a twin for small jobs; both give the same numbers, bit by bit."""

    def __init__(self, load: Callable[[], Compiled]) -> None:
        self._load, self._jobs = load, 0
        self._loaded: Compiled | None = None

    def for_size(self, size: int) -> Compiled | None:
        """Return the compiled loops for a job of some size; None as long as loading them does not pay."""
        if self._loaded is None:
            self._jobs += 1
            if size > _FEW or self._jobs > _JOBS:
                self._loaded = self._load()
        return self._loaded


# --- Keyed random numbers as a pure function of (key, counter).
#
# Noise that protects people must not be invertible: whoever knows one record's true value knows that record's noise,
# and with an ordinary generator (PCG, SplitMix, Mersenne Twister) a few such values give the seed, hence everybody's
# noise. These draws are the ChaCha12 stream cipher keyed with 256 bits (Bernstein 2008), so one record's noise tells
# nothing about another's.
#
# Counter c of a key is the 64-bit word c % 8 of cipher block c // 8; neighbouring counters share a block, so runs of
# counters are cheap and any single one can be had alone.


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


def uniforms(key: bytes, counters: NDArray[np.uint64]) -> Numbers:
    """Return one number in the open interval (0, 1) per counter: the midpoint of one of 2^52 equal cells."""
    drawn = words(key, counters)
    return _midpoints(drawn, drawn.view(np.float64))  # in place: draws are many, and memory that is new is slow


def midpoints(words: NDArray[np.uint64]) -> Numbers:
    """Return the midpoint of the cell of (0, 1) that each 64-bit word falls in; 2^52 cells, so that midpoints are exact."""
    return _midpoints(words, np.empty(words.shape))


def _midpoints(words: NDArray[np.uint64], out: Numbers) -> Numbers:
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


# --- The inverse normal distribution function, fast: Wichura (1988), algorithm AS 241, about 1e-16 relative error.


def _compile() -> Callable[[Any, Any], None]:
    import numba

    made: Callable[[Any, Any], None] = numba.njit(cache=True, nogil=True)(_ppf)
    return made


_compiled_normal = Warming(_compile)


_MIDDLE_ABOVE = (
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
    13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608
)  # fmt: skip
_MIDDLE_BELOW = (
    5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
    5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0
)  # fmt: skip
_SIDE_ABOVE = (
    7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
    3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734
)  # fmt: skip
_SIDE_BELOW = (
    1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
    0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0
)  # fmt: skip
_TAIL_ABOVE = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
    0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772
)  # fmt: skip
_TAIL_BELOW = (
    2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
    0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0
)  # fmt: skip
"""Coefficients of the fractions for three ranges, from the highest power down."""


def _ppf(p: Any, out: Any) -> None:
    """Fill in the quantiles. It is run as it is, too: both ways the logarithm is the C library's, so the bits are the same."""
    for i in range(len(p)):
        q = p[i] - 0.5
        if abs(q) <= 0.425:
            r = 0.180625 - q * q
            a, b, c, d, e, f, g, h = _MIDDLE_ABOVE
            x = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
            a, b, c, d, e, f, g, h = _MIDDLE_BELOW
            y = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
            out[i] = q * x / y
            continue
        r = math.sqrt(-math.log(p[i] if q < 0.0 else 1.0 - p[i]))
        if r <= 5.0:
            r -= 1.6
            a, b, c, d, e, f, g, h = _SIDE_ABOVE
            x = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
            a, b, c, d, e, f, g, h = _SIDE_BELOW
            y = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
        else:
            r -= 5.0
            a, b, c, d, e, f, g, h = _TAIL_ABOVE
            x = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
            a, b, c, d, e, f, g, h = _TAIL_BELOW
            y = ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h
        out[i] = -x / y if q < 0.0 else x / y


def normals_from(uniforms: Numbers) -> Numbers:
    """Return the standard normal quantile of each number in (0, 1); shape as given."""
    uniforms = np.ascontiguousarray(uniforms, np.float64)
    if (compiled := _compiled_normal.for_size(uniforms.size)) is None:
        few = uniforms.ravel().tolist()
        _ppf(few, few)
        return np.array(few).reshape(uniforms.shape)
    out = np.empty(uniforms.shape)
    compiled(uniforms.ravel(), out.ravel())
    return out
