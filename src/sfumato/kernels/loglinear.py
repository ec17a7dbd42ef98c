"""Log-linear models of tables of counts: the cells that a model allows, iterative proportional fitting, and margins.

A model is a list of margins that the fitted table must have. All margins stand one after the other in one array, margin g from
`starts[g]` on; `places[g, k]` is where in it cell k is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.typing import Codes, Flags, Numbers, Whole


def layout(levels: Sequence[int], margins: Sequence[tuple[int, ...]]) -> tuple[Whole, Whole, Whole]:
    """Return `members` and `strides`, shape (g, m), and `starts`, shape (g + 1,), of margins over keys with these numbers of levels.

    >>> members, strides, starts = layout([2, 3, 4], [(0, 1), (2,)])
    >>> starts.tolist()
    [0, 6, 10]
    """
    width = max(len(m) for m in margins)
    members, strides = np.full((len(margins), width), -1, np.int64), np.zeros((len(margins), width), np.int64)
    starts = np.zeros(len(margins) + 1, np.int64)
    for g, margin in enumerate(margins):
        size = 1
        for j, key in enumerate(margin):
            members[g, j], strides[g, j] = key, size
            size *= levels[key]
        starts[g + 1] = starts[g] + size
    return members, strides, starts


def places_of(codes: Codes, members: Whole, strides: Whole, starts: Whole) -> NDArray[np.int32]:
    """Return where each cell is counted in all margins together, shape (g, k); codes of shape (k, keys)."""
    places = np.empty((len(members), len(codes)), np.int32)
    for g in range(len(members)):
        places[g] = starts[g]
        for key, stride in zip(members[g], strides[g], strict=True):
            if key >= 0:
                places[g] += (codes[:, key] * stride).astype(np.int32)
    return places


@numba.njit(cache=True, nogil=True)
def gather(places: NDArray[np.int32], amounts: Numbers, size: int) -> Numbers:
    """Return the sums of an amount per cell over every margin, shape (size,)."""
    sums = np.zeros(size)
    for g in range(len(places)):
        for k in range(len(amounts)):
            sums[places[g, k]] += amounts[k]
    return sums


@numba.njit(cache=True, nogil=True)
def spread(places: NDArray[np.int32], values: Numbers) -> Numbers:
    """Return for each cell the sum of a value per margin cell over the margins it is counted in, shape (k,)."""
    total = np.zeros(places.shape[1])
    for g in range(len(places)):
        for k in range(len(total)):
            total[k] += values[places[g, k]]
    return total


@numba.njit(cache=True, nogil=True)
def proportional_fit(
    places: NDArray[np.int32], targets: Numbers, starts: Whole, tolerance: float, cycles: int
) -> tuple[Numbers, float]:
    """Return the fitted table, shape (k,), and the largest difference of a margin from its target, over the target's root.

    Deming and Stephan (1940): the table is scaled to each margin in turn, until all fit to within the tolerance.
    """
    table = np.ones(places.shape[1])
    sums, factors = np.zeros(len(targets)), np.zeros(len(targets))
    for k in range(len(table)):
        sums[places[0, k]] += 1.0
    worst = np.inf
    for _ in range(cycles):
        worst = 0.0
        for g in range(len(places)):
            for i in range(starts[g], starts[g + 1]):
                if targets[i] > 0:
                    worst = max(worst, abs(sums[i] - targets[i]) / np.sqrt(targets[i]))
                    factors[i] = targets[i] / sums[i]
            following = (g + 1) % len(places)  # scaled and summed in one pass: half the way through memory
            sums[starts[following] : starts[following + 1]] = 0.0
            for k in range(len(table)):
                table[k] *= factors[places[g, k]]
                sums[places[following, k]] += table[k]
        if worst <= tolerance:
            break
    return table, worst


@numba.njit(cache=True, nogil=True)
def _walk(
    levels: Whole,
    members: Whole,
    strides: Whole,
    starts: Whole,
    allowed: Flags,
    cells: Codes,
    limit: int,
) -> int:
    """Count the cells whose every margin is allowed, stopping after `limit`, and write them to `cells` as far as it has room.

    Depth first, key by key; margins whose last key is `depth` are looked at there. Margins list their keys rising.
    """
    keys = len(levels)
    last = np.empty(len(members), np.int64)
    for g in range(len(members)):
        for j in range(members.shape[1]):
            if members[g, j] >= 0:
                last[g] = members[g, j]
    code = np.full(keys, -1, np.int32)
    depth, count = 0, 0
    while depth >= 0:
        code[depth] += 1
        if code[depth] == levels[depth]:
            code[depth] = -1
            depth -= 1
            continue
        fits = True
        for g in range(len(members)):
            if last[g] == depth:
                place = starts[g]
                for j in range(members.shape[1]):
                    if members[g, j] >= 0:
                        place += code[members[g, j]] * strides[g, j]
                if not allowed[place]:
                    fits = False
                    break
        if not fits:
            continue
        if depth < keys - 1:
            depth += 1
            continue
        if count < len(cells):
            for j in range(keys):
                cells[count, j] = code[j]
        count += 1
        if count > limit:
            break
    return count


def feasible_cells(levels: Sequence[int], seen: Codes, margins: Sequence[tuple[int, ...]], limit: int) -> Codes | None:
    """Return the cells that a log-linear model gives a positive count, shape (k, keys).

    `seen` holds the cells that occur, shape (c, keys): a cell is feasible if each of its margins occurs. None if there are more
    than `limit` cells, or ten times as many places in the margins.
    """
    parts = sorted(
        {m[:i] for m in margins for i in range(1, len(m) + 1)}, key=len
    )  # what is over fewer keys cuts off sooner
    members, strides, starts = layout(levels, parts)
    if starts[-1] > 10 * limit:
        return None
    allowed = gather(places_of(seen, members, strides, starts), np.ones(len(seen)), starts[-1]) > 0
    sizes = np.asarray(levels, np.int64)
    room = np.empty((limit, len(levels)), np.int32)  # only what is written to takes memory
    count = _walk(sizes, members, strides, starts, allowed, room, limit)
    if count > limit:
        return None
    return room[:count].copy()


def fitted_variance(places: NDArray[np.int32], table: Numbers, slopes: Numbers, size: int, cycles: int = 500) -> float:
    """Return the variance of Σ slopes × log(fitted count), by the information matrix of Poisson counts.

    That is aᵀX(XᵀWX)⁻Xᵀa, X the indicators of the margins and W the fitted counts, by conjugate gradients; shapes (k,).
    """
    right = gather(places, slopes, size)
    scale = np.sqrt(gather(places, table, size))
    scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 1e-150)
    residual = right * scale
    way, solution = residual.copy(), np.zeros_like(residual)
    left = first = float(residual @ residual)
    for _ in range(cycles):
        if left <= 1e-12 * first:
            break
        image = gather(places, spread(places, way * scale) * table, size) * scale
        step = left / float(way @ image)
        solution += step * way
        residual -= step * image
        left, before = float(residual @ residual), left
        way = residual + left / before * way
    return float(solution @ (right * scale))


@numba.njit(cache=True, nogil=True)
def slopes_of_exponential(g: float) -> tuple[float, float]:
    """Return the first two derivatives of e⁻ᵍ."""
    value = np.exp(-g)
    return -value, value


@numba.njit(cache=True, nogil=True)
def slopes_of_mean_exponential(g: float) -> tuple[float, float]:
    """Return the first two derivatives of (1 - e⁻ᵍ)/g; by their series near 0."""
    if g < 1e-2:
        return -1 / 2 + g / 3 - g**2 / 8, 1 / 3 - g / 4 + g**2 / 10
    tail = np.exp(-g)
    return (tail * (1 + g) - 1) / g**2, (2 - tail * (g**2 + 2 * g + 2)) / g**3


@numba.njit(cache=True, nogil=True)
def expansion(f: Numbers, mu: Numbers, scale: float, mean: bool) -> tuple[float, float]:
    """Return Σ μe^(-μ)·{-r'·(f-μ) + r''·[(f-μ)² - f]/2} over cells and its variance if f is Poisson with mean μ.

    r(μ) is e⁻ᵍ, or with `mean` (1 - e⁻ᵍ)/g, of g = scale·μ. f - μ and (f-μ)² - f are uncorrelated, with variance μ and 2μ².
    """
    total = variance = 0.0
    for k in range(len(mu)):
        m = mu[k]
        first, second = slopes_of_mean_exponential(scale * m) if mean else slopes_of_exponential(scale * m)
        weight = m * np.exp(-m)
        a, b = -weight * scale * first, weight * scale**2 * second / 2
        total += a * (f[k] - m) + b * ((f[k] - m) ** 2 - f[k])
        variance += a**2 * m + 2 * b**2 * m**2
    return total, variance
