"""Propensities by a tree (CART) that is never asked about records it was grown on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.utility.propensity import Feature

if TYPE_CHECKING:
    from sfumato.kernels.forest import Tree

Numbers = NDArray[np.float64]
CATEGORIES = 60
"""Most categories of a column that a tree tells apart; the rarer ones are one, or two (see `feature_of`)."""
LEAVES = 200
"""A leaf holds at least one of so many parts of the records, and ten records."""
SURE = 20.0
"""A split stays if its χ² of one degree of freedom is this large, or that of a split below it: thousands are tried."""


def by_tree(
    features: Sequence[Feature], hit: Numbers, weights: Numbers, folds: NDArray[np.int64], taught: NDArray[np.bool_]
) -> Numbers:
    """Return the propensity of each record by a tree grown on the `taught` records of the other folds, shape (N,).

    Where a released record and its original are in the same fold, a file that was not changed has as many of both everywhere,
    and no split: the propensity is the share of released records. Splits that chance explains are taken back. Categories are
    ordered by the share of released records among those the tree is grown on.
    """
    from sfumato.kernels.forest import grow_tree, predict_forest

    numbers = [None if f.values is None else _bins(f) for f in features]
    out = np.full(len(hit), float(weights @ hit / weights.sum()))
    for fold in np.unique(folds):
        asked, grown = folds == fold, (folds != fold) & taught & (weights > 0)
        if not 0 < hit[grown].sum() < grown.sum():
            continue
        bins = np.column_stack(
            [_ordered(f, hit, weights, grown) if own is None else own for f, own in zip(features, numbers, strict=True)]
        )
        learned = np.ascontiguousarray(bins[grown])
        smallest = max(10, len(learned) // LEAVES)
        tree = grow_tree(learned, hit[grown].astype(np.int64), weights[grown], 2, smallest)
        pruned = tree._replace(column=np.where(_stays(tree, learned, hit[grown], weights[grown]), tree.column, -1))
        shares = predict_forest([pruned], np.ascontiguousarray(bins[asked]))
        out[asked] = shares[:, 1] / shares.sum(axis=1)
    return out


def _stays(tree: Tree, bins: NDArray[np.int64], hit: Numbers, weights: Numbers) -> NDArray[np.bool_]:
    """Return which nodes of a tree are split for good, from the last to the first, shape (nodes,)."""
    rows = {0: np.arange(len(bins))}
    surprise = np.zeros(len(tree.column))
    for node in np.flatnonzero(tree.column >= 0):
        here = rows.pop(int(node))
        left = bins[here, tree.column[node]] <= tree.cut[node]
        w, p = weights[here], float(np.average(hit[here], weights=weights[here]))
        for child, part in ((tree.left[node], left), (tree.left[node] + 1, ~left)):
            rows[int(child)] = here[part]
            if 0 < p < 1:
                surprise[node] += float(w[part] @ (hit[here[part]] - p)) ** 2 / float(w[part].sum()) / (p * (1 - p))
    stays = surprise >= SURE
    for node in np.flatnonzero(tree.column >= 0)[::-1]:
        stays[node] |= stays[tree.left[node]] or stays[tree.left[node] + 1]
    return stays


def _bins(feature: Feature) -> NDArray[np.int64]:
    """Return a number as one of at most 62 intervals with about as many records each, from 1 on; 0 is missing."""
    from sfumato.kernels.forest import BINS

    values, known = feature.values, feature.codes == 0
    assert values is not None  # noqa: S101 - asked of numbers alone
    ends = np.unique(np.quantile(values[known], np.linspace(0, 1, BINS - 1), method="inverted_cdf"))[:-1]
    return np.where(known, 1 + np.searchsorted(ends, values, side="left"), 0).astype(np.int64)


def _ordered(feature: Feature, hit: Numbers, weights: Numbers, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return categories as places in the order of their share of released records."""
    code = feature.codes[rows]
    released = np.bincount(code, (weights * hit)[rows], feature.levels)
    share = released / np.maximum(np.bincount(code, weights[rows], feature.levels), 1e-300)
    rank = np.empty(feature.levels, np.int64)
    rank[np.argsort(share, kind="stable")] = np.arange(feature.levels)
    return rank[feature.codes]
