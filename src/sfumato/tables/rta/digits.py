"""From adjusted leaves to the digits that are published: whole units, quality bands, whole numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import sparse

from sfumato.errors import DataError, ParameterError
from sfumato.lazy import special
from sfumato.tables.cells import Cells
from sfumato.tables.rta.priors import AttackerKnowledge
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Objects, Whole

# Round adjusted leaves to the published digits: whole units that add up exactly, and are not below zero.
#
# Why none of this lowers the protection. Let y be the adjusted leaves and x = f(y) the result of rounding, raising to zero, or
# moving units between leaves; f depends on y, the variances and public information, never on the true values. For any
# contribution d, by the law of total variance,
#
#     Var(d | x) = E[Var(d | y) | x] + Var(E[d | y] | x)  ≥  min over y of Var(d | y),
#
# and for normal priors Var(d | y) is the same for every y: it is what the audit bounds. So the audit of y holds for x and any
# function of it, for every outcome. (Noise that is redrawn until y is not below zero is no function of y: its distribution
# depends on the true value, and it is biased.)

_MOST_DECIMALS = 6


def published_decimals(table: Table, asked: int | None = None) -> int:
    """Return the number of decimals to publish: `asked`, else that of the table, else as many as its leaves have.

    Leaves with endless decimals get 6, or four significant digits where they are small. Whole numbers stay whole.
    """
    if asked is not None:
        if table.integer and asked > 0:
            raise ParameterError(
                f"'{table.variable or 'records'}' is a whole number: leave decimals out, or give 0 or less to round to tens."
            )
        return asked
    if table.integer:
        return min(table.decimals or 0, 0)
    if table.decimals is not None:
        return table.decimals
    for decimals in range(_MOST_DECIMALS):
        scaled = table.totals * 10.0**decimals
        if (np.abs(scaled - np.rint(scaled)) <= np.minimum(1e-6, 1e-6 * np.abs(scaled)) + 1e-12 * np.abs(scaled)).all():
            return decimals
    sizes = np.abs(table.totals[table.totals != 0])
    needed = 3 - math.floor(math.log10(float(np.median(sizes)))) if len(sizes) else 0
    return min(max(_MOST_DECIMALS, needed), 15)


def round_up(variance: Numbers, digits: int = 4) -> Numbers:
    """Return variances with `digits` significant digits, rounded up: a smaller one would break the guarantee (ERRATA 3.2).

    >>> round_up(np.array([77.0833333, 0.0, 77.1]), 4).tolist()
    [77.09, 0.0, 77.1]
    """
    places = digits - 1 - np.floor(np.log10(np.where(variance > 0, variance, 1.0)))
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)  # whole powers of ten
    scaled = variance * up / down
    near = np.rint(scaled)
    exact = np.abs(near - scaled) <= 1e-12 * scaled  # it has that few digits already, up to floating-point error
    return np.asarray(np.where(exact, near * down / up, np.maximum(np.ceil(scaled) * down / up, variance)), np.float64)


def unit(decimals: int) -> float:
    """Return the value of one unit in the last digit: 0.01 for two decimals, 1000 for minus three."""
    return float(f"1e{-decimals}")


def rounded(leaves: Numbers, decimals: int) -> Whole:
    """Round each leaf to the nearest whole number of units; refuse where the sum would not be exact."""
    scaled = leaves * 10.0**decimals if decimals >= 0 else leaves / 10.0**-decimals
    if not np.abs(scaled).sum() < 2.0**52:
        raise ParameterError(
            f"values with {decimals} digits after the point are too long to add up exactly. Publish fewer decimals."
        )
    return np.rint(scaled).astype(np.int64)


def rounded_to(leaves: Numbers, decimals: int, group: Whole, sums: Whole, nonnegative: bool = False) -> Whole:
    """Round leaves to whole units such that each group has the given sum, by largest remainders.

    `group` is the group of each leaf, shape (leaves,); `sums` is in units, shape (groups,). With `nonnegative` leaves of at
    least 0 stay at least 0; sums must then be at least 0.

    >>> rounded_to(np.array([1.4, 1.3, 1.3, 5.0]), 0, np.array([0, 0, 0, 1]), np.array([4, 5])).tolist()
    [2, 1, 1, 5]
    """
    whole = rounded(leaves, decimals)
    short = sums - np.bincount(group, whole, len(sums)).astype(np.int64)
    left = leaves / unit(decimals) - whole  # in (-1/2, 1/2): the leaf rounded down furthest comes first
    for g in np.flatnonzero(short):
        members, way, todo = np.flatnonzero(group == g), int(np.sign(short[g])), abs(int(short[g]))
        members = members[np.argsort(-way * left[members], kind="stable")]
        while todo:
            movable = members[whole[members] > 0] if nonnegative and way < 0 else members
            if not len(movable):
                raise DataError(
                    "what was published of some cells is below 0, and their parts cannot be. Is the record damaged?"
                )
            turns = todo // len(movable)
            if nonnegative and way < 0:
                turns = min(turns, int(whole[movable].min()))
            moved = movable if turns else movable[:todo]
            whole[moved] += way * max(turns, 1)
            todo -= len(moved) * max(turns, 1)
    return whole


def values_of(sums: Whole, decimals: int) -> Numbers:
    """Convert whole units to numbers: the nearest double to each decimal."""
    return np.asarray(sums / 10.0**decimals if decimals >= 0 else sums * 10.0**-decimals, np.float64)


def not_below_zero(values: Numbers, variance: Numbers) -> Numbers:
    """Return the likeliest leaves that are at least 0 and have the same total, given adjusted leaves; shape (leaves,).

    This is the nearest point, in units of the noise, with the total of the adjusted leaves. The other leaves compensate for
    raised leaves in proportion to their variances, so that margins do not drift upwards. Leaves without noise stay.

    >>> not_below_zero(np.array([-3.0, 10.0, 7.0]), np.array([1.0, 2.0, 0.0])).tolist()
    [0.0, 7.0, 7.0]
    """
    noisy = np.flatnonzero(variance > 0)
    y, w = values[noisy], variance[noisy]
    if not len(noisy) or (y >= 0).all():
        return values
    found = values.copy()
    total = y.sum()
    if total <= 1e-12 * np.abs(y).sum():  # floating-point error of a cancellation
        found[noisy] = 0.0
        return found
    order = np.argsort(-y / w, kind="stable")
    level = (np.cumsum(y[order]) - total) / np.cumsum(w[order])
    last = int(np.flatnonzero(level < y[order] / w[order]).max())
    found[noisy] = np.maximum(y - level[last] * w, 0.0)
    return found


# How variances are published: exactly, or as quality bands; and what each would disclose by itself.
#
# Where the priors come from the contributors' own values, so do the variances. In a leaf with one or two contributors ω = k d²,
# with k = ε²η²/(ε² - η²): whoever reads ω knows the largest contribution d. The first contributor can then work out the value
# of a third. A band gives an interval for ω, and so for d.


CUTPOINTS = (0.05, 0.10, 0.15, 0.25)
"""Coefficients of variation that separate the bands A to E."""
KEPT = 0.95
"""Share of the guaranteed standard deviation that must remain when an attacker truncates his posterior to a band."""


def letters(values: Numbers, variance: Numbers, cutpoints: tuple[float, ...] = CUTPOINTS) -> Objects:
    """Return the quality band of every cell from its published value and variance: A is best.

    The coefficient of variation is that of the published value, since that of the true value would help to find it.

    >>> letters(np.array([100.0, 100, 0, 7]), np.array([9.0, 400, 4, 0])).tolist()
    ['A', 'D', 'E', 'A']
    """
    return np.array([chr(ord("A") + i) for i in range(len(cutpoints) + 1)], object)[_band(values, variance, cutpoints)]


def _band(values: Numbers, variance: Numbers, cutpoints: tuple[float, ...]) -> Whole:
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.where(variance > 0, np.sqrt(variance) / np.abs(values), 0.0)
    return np.searchsorted(np.array(cutpoints), cv, side="right")


def implied(
    cells: Cells, values: Numbers, variance: Numbers, leaf_variance: Numbers, cutpoints: tuple[float, ...]
) -> tuple[Numbers, Numbers]:
    """Return bounds of each leaf's variance for a reader who sees the bands; two arrays of shape (leaves,).

    He is assumed to know the variance of everything else in each cell, so that the bands of all cells with the leaf count.
    """
    band = _band(values, variance, cutpoints)
    edges = np.array([0.0, *cutpoints, np.inf]) ** 2
    with np.errstate(invalid="ignore"):
        low, high = edges[band] * values**2, np.where(values == 0, np.inf, edges[band + 1] * values**2)
    cell = np.repeat(np.arange(len(cells)), cells.sizes)
    leaf = cells.incidence.indices
    others = variance[cell] - leaf_variance[leaf]
    least, most = np.zeros(cells.leaves), np.full(cells.leaves, np.inf)
    np.maximum.at(least, leaf, low[cell] - others)
    np.minimum.at(most, leaf, high[cell] - others)
    return least, most


def sd_kept(
    loading: sparse.csr_array, prior: Numbers, base: Numbers, sizes: Numbers,
    leaf_variance: Numbers, least: Numbers, most: Numbers,
) -> Numbers:  # fmt: skip
    """Return the share of his standard deviation that the contributor who determines a leaf's noise keeps, shape (leaves,).

    That is the contributor h with the largest m²v²/(v - w²): with v = ε²d² and w = ηd, ω = k m²d² - rest. An interval for ω
    gives one for d, and the knowledge of d, normal with the standard deviation ηd, is truncated to it. Any other value changes
    ω less, in units of its own protection. `sizes` are the d, one for each unknown. A leaf without noise gets 1.
    """
    kept = np.ones(len(leaf_variance))
    leaf = np.repeat(np.arange(len(leaf_variance)), np.diff(loading.indptr))
    v, w2 = prior[loading.indices], base[loading.indices]
    guarded = (w2 > 0) & (v > w2)
    slope = np.where(guarded, loading.data**2 * v * w2 / np.where(guarded, v - w2, 1.0), 0.0)  # k m²d²
    order = np.lexsort((slope, leaf))
    top = order[np.flatnonzero(np.diff(leaf[order], append=-1))]
    top = top[(leaf_variance[leaf[top]] > 0) & (slope[top] > 0)]
    at, k = leaf[top], slope[top]
    # in units of d; the rest is taken as known
    low = np.sqrt(np.maximum(1 + (least[at] - leaf_variance[at]) / k, 0.0))
    high = np.sqrt(np.maximum(1 + (most[at] - leaf_variance[at]) / k, 0.0))
    base_cv = np.sqrt(w2[top]) / np.maximum(sizes[loading.indices[top]], 1e-300)
    kept[at] = cut_sd((low - 1) / base_cv, (high - 1) / base_cv)
    return kept


def cut_sd(low: Numbers, high: Numbers) -> Numbers:
    """Return the standard deviation of a standard normal number truncated to the interval from `low` ≤ 0 to `high` ≥ 0.

    >>> cut_sd(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf])).round(4).tolist()
    [1.0, 0.6028]
    """
    inside = special.ndtr(high) - special.ndtr(low)
    density = [np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi) for e in (low, high)]
    ends = [np.where(np.isinf(e), 0.0, e) * d for e, d in zip((low, high), density, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = 1 + (ends[0] - ends[1]) / inside - ((density[0] - density[1]) / inside) ** 2
    narrow = high - low < 1e-3  # where the formula cancels: a uniform number
    return np.sqrt(np.where(narrow, (high - low) ** 2 / 12, np.maximum(variance, 0.0)))


def bounds(published: Numbers, leaf_variance: Numbers, table: Table, factor: float) -> Numbers:
    """Return an upper bound of each leaf's variance from its published value alone; shape (leaves,), 0 without noise.

    No leaf needs more than k times the square of its largest contribution, hence of its total.
    """
    return np.where(leaf_variance > 0, factor * published**2 + float(table.integer), 0.0)


def worked_out(cells: Cells) -> Flags:
    """Return which leaves follow from their cells by repeated subtraction; shape (leaves,)."""
    known = np.zeros(cells.leaves, bool)
    while True:
        unknown = cells.sums((~known).astype(np.float64))
        alone = sparse.csr_array(cells.incidence[np.flatnonzero(unknown == 1)])
        found = np.unique(alone.indices[~known[alone.indices]])
        if not len(found):
            return known
        known[found] = True


# Attackers who know that contributions are whole numbers: how much more noise is needed for the same uncertainty.
#
# Around a whole number, a normal distribution on whole numbers with the parameter p has the variance
#
#     V(p) = Σ k² q^(k²) / Σ q^(k²),  q = exp(-1/2p),
#
# which is about p where p is large, and nearly 0 where p is small: an attacker who knows that a contribution is whole, and
# knows it to within 0.3, knows it exactly. A leaf's total is whole too, so that the uncertainty about a contribution has
# several parts (about the total, given what is published; about its division, given the total), and each of them may be on
# whole numbers. The required p solves
#
#     min over a₁ + … + a_k = p of V(a₁) + … + V(a_k) = w²,
#
# with one part where only an attacker shares the leaf, up to three otherwise; w² + 0.09 (k - 1) where w² is large. The tests
# enumerate what attackers find in small leaves.


_GRID = np.linspace(0.0, 4.0, 4001)
_MOST_PARTS = 3
_ROOM = 0.9
"""Largest required share of the prior variance: beyond it noise grows without limit."""


def whole_variance(p: Numbers) -> Numbers:
    """Return V(p), the variance of a normal distribution on whole numbers around one of them.

    >>> whole_variance(np.array([0.09, 0.25, 4.0])).round(4).tolist()
    [0.0077, 0.215, 4.0]
    """
    k2 = np.arange(1, 30) ** 2
    small = np.clip(p, 1e-3, _GRID[-1])
    q = np.exp(-k2 / (2 * small[..., None]))
    found = 2 * (k2 * q).sum(axis=-1) / (1 + 2 * q.sum(axis=-1))
    return np.where(p >= _GRID[-1], p, np.minimum(np.where(p <= 1e-3, 0.0, found), p))


@cache
def _least(parts: int) -> Numbers:
    """Return the smallest sum of V over divisions of each grid value into `parts` parts."""
    alone = whole_variance(_GRID)
    if parts == 1:
        return alone
    rest = _least(parts - 1)
    return np.array([(alone[: i + 1] + rest[i::-1]).min() for i in range(len(_GRID))])


def for_whole_numbers(required: Numbers, parts: int = 1) -> Numbers:
    """Return the posterior variance to require, so that an attacker who knows that a contribution is whole is left `required`.

    >>> for_whole_numbers(np.array([0.0, 0.0225, 4.5])).round(3).tolist()
    [0.0, 0.112, 4.5]
    """
    least = _least(parts)
    found = _GRID[np.minimum(np.searchsorted(least, required), len(_GRID) - 1)]
    return np.where(required <= 0, 0.0, np.where(required > least[-1], required + (_GRID[-1] - least[-1]), found))


def on_whole_numbers(known: AttackerKnowledge) -> AttackerKnowledge:
    """Return requirements raised for whole numbers; unchanged for unknowns that attackers know too well already."""
    crowd = np.diff(known.loading.indptr) - 1
    rows = np.repeat(np.arange(len(crowd)), np.diff(known.loading.indptr))
    parts = np.ones(len(known), np.int64)
    np.maximum.at(parts, known.loading.indices, crowd[rows])
    parts[known.leaves_of > 1] = _MOST_PARTS
    parts = np.minimum(parts, _MOST_PARTS)
    wanted = np.zeros(len(known))
    for k in range(1, _MOST_PARTS + 1):
        wanted = np.where(parts == k, for_whole_numbers(known.required, k), wanted)
    v = np.where(np.isinf(known.given_variance), np.inf, whole_variance(known.given_variance))
    possible = for_whole_numbers(known.required, 1) <= _ROOM * v
    return replace(known, given_variance=v, required=np.where(possible, np.minimum(wanted, _ROOM * v), 0.0))
