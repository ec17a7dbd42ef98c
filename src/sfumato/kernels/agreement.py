"""On which columns the records of two files agree, counted over all pairs, and what agreement says about a pair.

A pattern has one entry per column: 1 the two records agree, 0 they do not, -1 it was not compared. Pairs are those of records
in one block.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sfumato.kernels.classes import classes
from sfumato.typing import Numbers, Whole

Patterns = NDArray[np.int8]

LEAST = 1e-6
"""No probability is taken for smaller, or for nearer to 1: a pair that has never been seen is not impossible."""


def exact_patterns(a: Whole, b: Whole, blocks: tuple[Whole, Whole]) -> tuple[Patterns, Numbers]:
    """Return the patterns (c, k) of two files of codes, (m, k) and (n, k), and how many pairs have each, (c,).

    Columns agree where codes are equal; a code of -1 is not compared. No pair is looked at: the pairs that agree at least on
    some columns are counted by joining classes, and those that agree on these alone by inclusion and exclusion.
    """
    k = a.shape[1]
    totals: dict[int, Numbers] = {}
    here, there = (_by_gaps(*_distinct(codes, block)) for codes, block in zip((a, b), blocks, strict=True))
    for bits_a, codes_a, block_a, size_a in here:
        for bits_b, codes_b, block_b, size_b in there:
            compared = (2**k - 1) & ~(bits_a | bits_b)
            counts = totals.setdefault(compared, np.zeros(2**k))
            sizes = np.zeros((2, len(size_a) + len(size_b)))
            sizes[0, : len(size_a)], sizes[1, len(size_a) :] = size_a, size_b
            # columns with many values first: without them, records are soon the same
            columns = sorted((j for j in range(k) if compared >> j & 1), key=lambda j: -int(a[:, j].max(initial=0)))
            _join(np.vstack([codes_a, codes_b]), np.concatenate([block_a, block_b]), sizes, columns, 0, counts)
    patterns, amounts = [], []
    for compared, counts in totals.items():
        for j in range(k):  # of those that agree at least here, take away those that agree also on j
            if compared >> j & 1:
                pairs = counts.reshape(-1, 2, 2**j)
                pairs[:, 0] -= pairs[:, 1]
        for agree in np.flatnonzero(counts):
            patterns.append([(agree >> j & 1) if compared >> j & 1 else -1 for j in range(k)])
            amounts.append(counts[agree])
    return np.array(patterns, np.int8).reshape(-1, k), np.array(amounts, np.float64)


def _distinct(codes: Whole, block: Whole) -> tuple[Whole, Whole, Whole]:
    """Return the distinct records of a file, their blocks, and how often each occurs."""
    labels, sizes = classes([block, *codes.T], len(codes))
    first = np.empty(len(sizes), np.int64)
    first[labels] = np.arange(len(labels))
    return codes[first], block[first], sizes


def _by_gaps(codes: Whole, block: Whole, sizes: Whole) -> list[tuple[int, Whole, Whole, Whole]]:
    """Return the records that lack each set of columns, which is given as bits."""
    bits = (codes < 0) @ (1 << np.arange(codes.shape[1]))
    return [(int(one), codes[bits == one], block[bits == one], sizes[bits == one]) for one in np.unique(bits)]


def _join(codes: Whole, label: Whole, sizes: Numbers, columns: list[int], agree: int, counts: Numbers) -> None:
    """Add to counts[s] the pairs that agree at least on s, for every s that adds some of the columns to `agree`.

    `sizes` (2, r) says how many records of each file a row stands for.
    """
    _, label = np.unique(label, return_inverse=True)
    here, there = (np.bincount(label, size) for size in sizes)
    counts[agree] += float(here @ there)
    both = ((here > 0) & (there > 0))[label]  # nobody else is in a pair
    if not both.any():
        return
    codes, label, sizes = codes[both], label[both], sizes[:, both]
    for place, j in enumerate(columns):
        finer = label * (int(codes[:, j].max()) + 1) + codes[:, j]
        rest = columns[place + 1 :]
        _join(codes, finer, sizes, rest, agree | 1 << j, counts)
        same, _ = classes([label, *codes[:, rest].T], len(codes))
        first = np.empty(int(same.max()) + 1, np.int64)
        first[same] = np.arange(len(same))
        codes, label, sizes = codes[first], label[first], np.array([np.bincount(same, size) for size in sizes])


@numba.njit(cache=True, nogil=True)
def _count(a, b, starts_a, starts_b, limits, wildcard, counts):  # type: ignore[no-untyped-def]
    k = a.shape[1]
    for block in range(starts_a.size - 1):
        for i in range(starts_a[block], starts_a[block + 1]):
            for l in range(starts_b[block], starts_b[block + 1]):  # noqa: E741
                pattern, digit = 0, 1
                for j in range(k):
                    x, y = a[i, j], b[l, j]
                    if x == -np.inf or y == -np.inf:
                        pattern += digit * (2 if wildcard else 1 if x == y else 0)
                    elif abs(x - y) <= limits[j]:
                        pattern += digit
                    digit *= 3
                counts[pattern] += 1.0


def near_patterns(
    a: Numbers, b: Numbers, limits: Numbers, blocks: tuple[Whole, Whole], wildcard: bool
) -> tuple[Patterns, Numbers]:
    """Return the same where columns agree if they differ by no more than a limit (k,): every pair is looked at.

    A value of minus infinity is missing: not compared (`wildcard`), or a value that agrees with itself alone.
    """
    k = a.shape[1]
    counts = np.zeros(3**k)
    order_a, order_b = np.argsort(blocks[0], kind="stable"), np.argsort(blocks[1], kind="stable")
    shared = np.unique(np.concatenate([blocks[0], blocks[1]]))
    starts = [np.searchsorted(np.sort(part), np.append(shared, shared[-1:] + 1)) for part in blocks]
    here, there = starts
    _count(a[order_a], b[order_b], here, there, np.asarray(limits, np.float64), wildcard, counts)
    seen = np.flatnonzero(counts)
    digits = seen[:, None] // 3 ** np.arange(k) % 3
    return np.where(digits == 2, -1, digits).astype(np.int8), counts[seen]


class AgreementModel(NamedTuple):
    """Probabilities of a pair: of agreeing on each column (k,) if it is a match and if it is not, and of being a match."""

    m: Numbers
    u: Numbers
    share: float

    @property
    def agreement(self) -> Numbers:
        """Weight of agreement on each column, log(m / u), shape (k,); 0 where matches agree no more often than others."""
        return np.maximum(np.log(self.m / self.u), 0.0)

    @property
    def disagreement(self) -> Numbers:
        """Weight of disagreement, log((1 - m) / (1 - u)), shape (k,); 0 where it would be positive."""
        return np.minimum(np.log((1 - self.m) / (1 - self.u)), 0.0)


def fit(patterns: Patterns, counts: Numbers, matches: float, rounds: int = 2000, close: float = 1e-8) -> AgreementModel:
    """Estimate m and u by expectation and maximisation (Fellegi and Sunter 1969; Winkler 1988), given the number of matches.

    Columns agree independently among matches and among other pairs; what was not compared says nothing. At each step the prior
    odds are set so that as many matches are expected as there are: left free, the estimate settles on any group of records
    that are alike, children say, and not on the few pairs that are one person (Winkler 1993 bounds the share likewise).
    It starts with matches of which nine in ten agree on each column, and stops when no estimate moves by more than `close`.
    """
    agree, compared = (patterns == 1).astype(np.float64), (patterns >= 0).astype(np.float64)
    differ, total = compared - agree, float(counts.sum())
    matches = min(matches, 0.999 * total)
    u, prior = _rates(counts, agree, compared), 0.0
    m = np.full(len(u), 0.9)
    for _ in range(rounds):
        weight = agree @ np.log(m / u) + differ @ np.log((1 - m) / (1 - u))
        prior, likely = _with_matches(weight, counts, matches)
        before = np.concatenate([m, u])
        m, u = _rates(likely, agree, compared), _rates(counts - likely, agree, compared)
        if np.abs(np.concatenate([m, u]) - before).max() < close:
            break
    return AgreementModel(m, u, float(expit(prior)))


def true_model(
    a: Numbers, b: Numbers, limits: Numbers, patterns: Patterns, counts: Numbers, wildcard: bool
) -> AgreementModel:
    """Return the model where the matches are known: row i of a (r, k) and of b is one; u is that of all the other pairs."""
    gap_a, gap_b = np.isneginf(a), np.isneginf(b)
    compared = ~(gap_a | gap_b) if wildcard else np.ones(a.shape, bool)
    with np.errstate(invalid="ignore"):
        agree = compared & np.where(gap_a | gap_b, gap_a & gap_b, np.abs(a - b) <= limits)
    others_agree = counts @ (patterns == 1) - agree.sum(axis=0)
    others = counts @ (patterns >= 0) - compared.sum(axis=0)
    share = min(len(a) / float(counts.sum()), 0.999)
    return AgreementModel(_share_of(agree.sum(axis=0), compared.sum(axis=0)), _share_of(others_agree, others), share)


def _with_matches(weight: Numbers, counts: Numbers, matches: float) -> tuple[float, Numbers]:
    """Return the prior log odds under which `matches` matches are expected, and their number for each pattern, (c,).

    By Newton's method on the logarithm of their number: it is concave in the odds, so from below no step goes too far.
    """
    prior = float(np.log(matches) - _log_sum(weight, counts))  # below: expit(x) is at most exp(x)
    for _ in range(200):
        chance = expit(weight + prior)
        likely = counts * chance
        total = float(likely.sum())
        step = np.log(total / matches) * total / float(likely @ (1 - chance))
        prior -= step
        if abs(step) < 1e-12 * max(1.0, abs(prior)):
            break
    return prior, counts * expit(weight + prior)


def _log_sum(weight: Numbers, counts: Numbers) -> float:
    """Return log(sum(counts * exp(weight))), in the steps of scipy's logsumexp, which takes five times as long for few numbers."""
    weight = np.where(counts == 0, -np.inf, weight)
    top = weight.max()
    largest = weight == top
    others = counts * np.exp(np.where(largest, -np.inf, weight) - top)
    most = (counts * largest).sum()
    return float(np.log1p(others.sum() / most) + np.log(most) + top)


def _rates(counts: Numbers, agree: Numbers, compared: Numbers) -> Numbers:
    return _share_of(counts @ agree, counts @ compared)


def _share_of(part: Numbers, total: Numbers) -> Numbers:
    share = np.divide(part, total, out=np.full(len(total), 0.5), where=total > 0)
    return np.asarray(np.clip(share, LEAST, 1 - LEAST))
