"""Keyed noise: the same leaf gets the same adjustment, in canonical order."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.contract.draws import Draws
from sfumato.errors import ParameterError
from sfumato.lazy import csgraph
from sfumato.schema.hierarchy import label_of
from sfumato.tables.cells import TOTAL, Cells
from sfumato.tables.rta.priors import AttackerKnowledge
from sfumato.tables.table import Table, significant
from sfumato.typing import Numbers, Objects, Whole

# Canonical order, so that noise does not depend on the order of rows, on formulas or on types of labels.
#
# Noise of leaves that share contributors is found by an iteration, whose result may depend on the last bits of its start. Those
# depend on the order in which records are summed, and leaves and contributors are listed.


def in_order(table: Table, known: AttackerKnowledge) -> tuple[AttackerKnowledge, Whole]:
    """Return the attackers' knowledge with leaves and unknowns in canonical order, and the position of each leaf in it."""
    ids = leaf_ids(table)
    leaves = np.argsort(ids, kind="stable")
    place = np.argsort(leaves)
    unknowns = _order(table, known, place)
    loading = sparse.csr_array(known.loading[leaves][:, unknowns])
    loading.sort_indices()
    loading.data = significant(loading.data)
    return (
        replace(
            known, loading=loading, given_variance=significant(known.given_variance[unknowns]),
            required=significant(known.required[unknowns]), means=None if known.means is None else known.means[unknowns],
            owner=np.unique(known.owner[unknowns], return_inverse=True)[1].ravel(), attacks=known.attacks[unknowns],
            contributor=known.contributor[unknowns],
        ),
        place,
    )  # fmt: skip


def _order(table: Table, known: AttackerKnowledge, place: Whole) -> Whole:
    """Sort unknowns by their first leaf, their contributor's name, and what is known of them."""
    by = known.by_unknown
    inside = np.diff(by.indptr) > 0
    rows = place[by.indices]
    first = np.full(len(known), len(place))
    np.minimum.at(first, np.repeat(np.arange(len(known)), np.diff(by.indptr)), rows)
    given = table.contributions
    named = np.zeros(len(known), np.int64)
    if given is not None and given.names is not None:
        texts = np.array(["" if name is None else label_of(name) for name in given.names])
        named = np.unique(texts, return_inverse=True)[1].ravel()[known.contributor]
    entry = np.zeros(len(known))
    entry[inside] = by.data[by.indptr[:-1][inside]]
    keys = [significant(a) for a in (entry, known.required, known.given_variance)]
    return np.lexsort((*keys, named, first))


# Noise is a function of its leaf: the same leaf gets the same adjustment, whenever and wherever it is drawn.
#
# The noise of a leaf is a Brownian path whose time is the variance: a pure function of (secret seed, records of the leaf,
# variable, period, variance). At one variance a re-run gives the same number, so that averaging gains nothing. At two variances
# the larger noise is the smaller one plus an independent part: whoever sees both publications learns from them what the less
# noisy one reveals, and no more. (One normal number scaled by two standard deviations would disclose the value.)


_FIRST, _LAST = -80, 240
"""Exponents of two: variances in this range have noise."""
SMALLEST = 2.0**_FIRST
_BITS = 52
"""Bits of a double's fraction: after this many halvings the middle is the variance itself."""
_AT_ONCE = 10_000


def leaf_labels(cells: Cells) -> list[str]:
    """Return a text of each leaf's labels that does not depend on the order of cells, rows or dimensions.

    In a hierarchy only the finest label counts, and a dimension that merely groups the labels of another (regions in groups of
    regions) is left out: a table with groups and one without them have the same leaves.
    """
    incidence = cells.incidence.tocsc()
    leaf = np.repeat(np.arange(cells.leaves), np.diff(incidence.indptr))
    described = []
    for position in np.argsort(cells.dimensions, kind="stable"):
        known, code = np.unique(cells.labels[:, position].astype(str), return_inverse=True)
        code = code.ravel()
        label = code[incidence.indices]
        held = np.bincount(np.unique(leaf * len(known) + label) % len(known), minlength=len(known))
        first = np.full(len(known), len(cells))
        np.minimum.at(first, code, np.arange(len(cells)))  # a group of one label comes after it
        order = np.lexsort((first, held, known == TOTAL))
        rank = np.argsort(order)
        finest = np.full(cells.leaves, len(known) - 1)
        np.minimum.at(finest, leaf, rank[label])
        described.append((cells.dimensions[position], known.astype(object)[order][finest]))
    kept = [d for d in described if not any(_groups(d[1], other[1]) for other in described)]
    parts = [[f"{name}\x1e{text}" for text in texts] for name, texts in kept]
    return ["\x1f".join(leaf_parts) for leaf_parts in zip(*parts, strict=True)] if parts else [""] * cells.leaves


def _groups(coarse: Objects, fine: Objects) -> bool:
    """Whether every label of `fine` is under one of `coarse`, and not the other way round.

    A single label is not a group: a table of one region has the same leaves as that region in the table of all regions.
    """
    pairs, a, b = len(set(zip(coarse, fine, strict=True))), len(set(coarse)), len(set(fine))
    return pairs == b > a > 1


def leaf_ids(table: Table) -> Whole:
    """Return a 64-bit number for each leaf, from the records that it holds; shape (leaves,).

    Two tables of different populations may have leaves with the same labels: with the same noise, their difference would be
    exact. Where the data have an identifier, a leaf is the set of its records, under any name. Otherwise it is identified by
    its labels and its contributors' names, or, where they have none, by their contributions. Values are used in the last case
    only: elsewhere a corrected value is published with its earlier noise, so that revisions cannot be averaged.
    """
    members = _identified(table)
    texts = leaf_labels(table.cells)
    if members is None:
        texts = ["\x1c".join(parts) for parts in zip(texts, _members(table), strict=True)]
    else:
        texts = [f"{who}\x1crecords" if who else labels for labels, who in zip(texts, members, strict=True)]
    ids = np.frombuffer(b"".join(hashlib.blake2b(t.encode(), digest_size=8).digest() for t in texts), np.int64).copy()
    if len(np.unique(ids)) < len(ids):
        raise ParameterError(
            "two leaves of the table have the same labels. Give the tables' dimensions so that their cells differ by labels."
        )
    return ids


def _identified(table: Table) -> list[str] | None:
    """Return a text for the records of each leaf, empty for none; None where no identifier distinguishes the records."""
    records = table.records
    if records is None or records.identifier is None or records.identifier.missing.any():
        return None
    codes, values = records.identifier.codes
    if len(np.unique(codes)) < len(codes) or len(codes) != int(np.nansum(table.counts)):
        return None
    names = b"".join(hashlib.blake2b(label_of(v).encode(), digest_size=16).digest() for v in values)
    halves = np.frombuffer(names, np.uint64).reshape(-1, 2)[codes]
    sums = np.zeros((table.cells.leaves, 2), np.uint64)
    np.add.at(sums, records.leaf, halves)  # in any order
    return [
        "" if not count else f"{int(count)}:{a:x}:{b:x}"
        for count, (a, b) in zip(table.counts, sums.tolist(), strict=True)
    ]


def _members(table: Table) -> list[str]:
    given = table.contributions
    if given is None:
        return [str(int(count)) for count in table.counts]
    rows = list(pairwise(given.own.indptr))
    if given.names is None:
        amounts = given.own.data + 0.0  # no negative zero
        return ["\x1d".join(f"{value:.15g}" for value in np.sort(amounts[a:b]).tolist()) for a, b in rows]
    names = np.array(["" if name is None else label_of(name) for name in given.names], object)
    return [
        "\x1d".join([str(int(count)), *sorted(names[given.own.indices[a:b]])])
        for count, (a, b) in zip(table.counts, rows, strict=True)
    ]


def leaf_draws(draws: Draws, variable: str, period: str) -> Draws:
    """Return the draws of one variable in one period, wherever it is published."""
    return draws.child("rta", variable, period)


def brownian(variance: Numbers, ids: Whole, draws: Draws) -> Numbers:
    """Return the Brownian path of each id at time `variance`; both of shape (leaves,). Time 0 gives 0.

    The path is fixed at powers of two by independent increments, and between them by halving (Lévy's construction), down to
    the last bit of the variance.

    >>> b = brownian(np.array([2.0, 2.0, 5.0]), np.array([1, 2, 1]), Draws(7))
    >>> bool(b[0] == brownian(np.array([2.0]), np.array([1]), Draws(7))[0])
    True
    """
    if not ((variance >= 0) & (variance < 2.0**_LAST)).all():
        raise ParameterError("the variances of the noise are not finite numbers of at least 0. Use a smaller unit.")
    noise = np.zeros(len(variance))
    noisy = np.flatnonzero(variance > 0)
    for first in range(0, len(noisy), _AT_ONCE):
        at = noisy[first : first + _AT_ONCE]
        noise[at] = _path(np.maximum(variance[at], SMALLEST), np.asarray(ids, np.int64)[at], draws)
    return noise


def _path(time: Numbers, who: Whole, draws: Draws) -> Numbers:
    octave = np.frexp(time)[1] - 1  # 2^octave <= time < 2^(octave + 1)
    powers = np.arange(_FIRST, int(octave.max()) + 2)
    steps = np.sqrt(2.0 ** np.append(_FIRST, powers[:-1]))
    fixed = np.cumsum(
        steps[:, None] * _normals(draws, who, np.repeat(2.0 ** powers[:, None], len(who), axis=1)), axis=0
    )
    each = np.arange(len(who))
    low, high = fixed[octave - _FIRST, each], fixed[octave - _FIRST + 1, each]
    # the time determines in advance which halves are visited: all their middles are drawn at once
    half = np.ldexp(1.0, octave - np.arange(1, _BITS + 1)[:, None])
    middle = np.floor(time / (2 * half)) * (2 * half) + half
    between = np.sqrt(half / 2) * _normals(draws, who, middle)
    for level in range(_BITS):
        centre = (low + high) / 2 + between[level]
        right = time >= middle[level]
        low, high = np.where(right, centre, low), np.where(right, high, centre)
    return np.asarray(low)


def correlated(covariance: sparse.csr_array, ids: Whole, draws: Draws) -> Numbers:
    """Return noise with a given covariance, leaves × leaves: single leaves follow their path, blocks are drawn together.

    A block's noise is the symmetric root of its covariance times a keyed normal number for each leaf, in any order. Another
    covariance has other numbers: with the same ones, two publications could be solved for the values.
    """
    variance = covariance.diagonal()
    noise = brownian(variance, ids, draws)
    block = csgraph.connected_components(covariance, directed=False)[1]
    for b in np.flatnonzero(np.bincount(block) > 1):
        members = np.flatnonzero(block == b)
        members = members[np.argsort(ids[members])]
        dense = covariance[members][:, members].toarray()
        values, vectors = np.linalg.eigh(dense)
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        name = hashlib.blake2b(np.round(dense / dense.max(), 9).tobytes(), digest_size=8).hexdigest()
        noise[members] = root @ draws.normals(ids[members], f"block {name} {np.log2(dense.max()):.9f}")
    return noise


def _normals(draws: Draws, who: Whole, time: Numbers) -> Numbers:
    """Return a standard normal number for each (id, point of time); `time` has shape (k, ids) or (ids,)."""
    return draws.normals(
        kernels.classes.mix64(kernels.classes.mix64(who.view(np.uint64)) ^ time.view(np.uint64)).view(np.int64), "path"
    )
