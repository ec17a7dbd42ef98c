"""The finest cells that a table gives: its leaves, unless tables that are linked cut across each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.tables.additivity import strides
from sfumato.tables.tree import Tree

Whole = NDArray[np.int64]
_MOST = 5_000_000


def finest(codes: Whole, trees: Sequence[Tree]) -> NDArray[np.bool_]:
    """Return which cells have no other cell of the table below them.

    `codes` are the positions of the cells' labels, -1 for the total, shape (cells, dimensions); no two cells are the same.
    """
    own = (codes + 1) @ strides(trees)
    order = np.argsort(own)
    bare = np.ones(len(codes), bool)
    for key in _keys_above(codes, trees):
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        bare[at[(own[at] == key) & (key != own)]] = False
    return bare


def inside(parts: Whole, cells: Whole, trees: Sequence[Tree]) -> Whole:
    """Return for each part the cell that it lies in, of cells that do not overlap; -1 for none."""
    own = (cells + 1) @ strides(trees)
    order = np.argsort(own)
    found = np.full(len(parts), -1, np.int64)
    for key in _keys_above(parts, trees):
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        found = np.where(own[at] == key, at, found)
    return found


def above_any(cells: Whole, leaves: Whole, trees: Sequence[Tree]) -> NDArray[np.bool_]:
    """Return which cells are one of the leaves, or above one."""
    own = (cells + 1) @ strides(trees)
    found = np.zeros(len(cells), bool)
    for key in _keys_above(leaves, trees):
        found |= np.isin(own, key)
    return found


def _keys_above(codes: Whole, trees: Sequence[Tree]) -> Iterator[Whole]:
    """Go through the numbers of the cells that each cell stands in, itself among them."""
    stride = strides(trees)
    for levels in itertools.product(*(range(t.paths.shape[1] + 1) for t in trees)):
        key = np.zeros(len(codes), np.int64)
        for i, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            if level < tree.paths.shape[1]:
                key += (tree.paths[codes[:, i], level] + 1) * stride[i]
        yield key


def overlapping(codes: Whole, trees: Sequence[Tree]) -> tuple[int, int] | None:
    """Return two of the finest cells that have a part in common; None if there are none."""
    for a in np.flatnonzero(_inner(codes, trees)):
        common = _meet(codes[a], codes, trees)
        common[a] = False
        if common.any():
            return int(a), int(np.argmax(common))
    return None


def cut(leaves: Whole, cells: Whole, trees: Sequence[Tree]) -> Whole:
    """Return for each cell a leaf that is partly in it, -1 where every leaf is either in the cell or out of it.

    Where one part of a table is not as fine as another, the value of such a cell is not known.
    """
    found = np.full(len(cells), -1, np.int64)
    for leaf in np.flatnonzero(_inner(leaves, trees)):
        common = _meet(leaves[leaf], cells, trees)
        above = np.all(
            [(cells[:, i] < 0) | np.isin(cells[:, i], t.paths[leaves[leaf, i]]) for i, t in enumerate(trees)], axis=0
        )
        found[common & ~above] = leaf
    return found


def crossed(parts: Sequence[Whole], trees: Sequence[Tree]) -> Whole:
    """Return the parts that the finest cells of several tables cut each other into, shape (parts, dimensions)."""
    found = parts[0]
    depth = [np.append((np.diff(t.paths, axis=1) != 0).sum(axis=1)[:-1], -1) for t in trees]
    for other in parts[1:]:
        shared = [i for i in range(len(trees)) if (found[:, i] >= 0).all() and (other[:, i] >= 0).all()]
        # labels with a part in common are under the same label of the first level
        tops = [
            np.column_stack([np.zeros(len(x), np.int64), *(trees[i].paths[x[:, i], -1] for i in shared)])
            for x in (found, other)
        ]
        _, group = np.unique(np.concatenate(tops), axis=0, return_inverse=True)
        group = group.ravel()
        left, right = _by_group(group[: len(found)]), _by_group(group[len(found) :])
        pieces = [np.zeros((0, len(trees)), np.int64)]
        if sum(len(left[k]) * len(right[k]) for k in left.keys() & right.keys()) > _MOST:
            raise ParameterError(
                f"the linked tables cut each other into more than {_MOST:,} parts. Link tables that have dimensions in common, "
                "or fewer of them."
            )
        for key in left.keys() & right.keys():
            a, b = found[left[key]][:, None], other[right[key]][None, :]
            one, two = np.nonzero(_meet(a, b, trees))
            x, y = a[one, 0], b[0, two]
            pieces.append(
                np.column_stack([np.where(d[x[:, i]] > d[y[:, i]], x[:, i], y[:, i]) for i, d in enumerate(depth)])
            )
        found = np.unique(np.concatenate(pieces), axis=0)
    return found


def _by_group(group: Whole) -> dict[int, Whole]:
    order = np.argsort(group, kind="stable")
    keys, start = np.unique(group[order], return_index=True)
    return dict(zip(keys.tolist(), np.split(order, start[1:]), strict=True))


def _inner(codes: Whole, trees: Sequence[Tree]) -> NDArray[np.bool_]:
    """Return which cells have a label, or the total, that others stand under."""
    inner = np.zeros(len(codes), bool)
    for i, tree in enumerate(trees):
        below = np.append(np.isin(np.arange(len(tree.labels)), tree.parents), True)  # the total is last
        inner |= below[codes[:, i]]
    return inner


def _meet(a: Whole, b: Whole, trees: Sequence[Tree]) -> NDArray[np.bool_]:
    """Return which cells have a part in common: in each dimension one label is above the other, or they are the same."""
    found = np.ones(np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), bool)
    for i, tree in enumerate(trees):
        one, other = a[..., i], b[..., i]
        found &= (
            (one < 0)
            | (other < 0)
            | (tree.paths[one] == other[..., None]).any(axis=-1)
            | (tree.paths[other] == one[..., None]).any(axis=-1)
        )
    return found
