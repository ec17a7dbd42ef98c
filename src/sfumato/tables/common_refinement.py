"""The finest cells of linked tables, and values for parts of which only sums are known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from sfumato.errors import ParameterError
from sfumato.lazy import csgraph, optimize
from sfumato.tables.label_tree import LabelTree, strides
from sfumato.typing import Flags, Numbers, Whole

_MOST = 5_000_000


def finest(codes: Whole, trees: Sequence[LabelTree]) -> Flags:
    """Return which cells have no other cell of the table below them.

    `codes` are the positions of the cells' labels, -1 for the total, shape (cells, dimensions); no two cells are the same.
    """
    own = (codes + 1) @ strides(trees)
    order = np.argsort(own)
    bare = np.ones(len(codes), bool)
    for key in keys_above(codes, trees):
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        bare[at[(own[at] == key) & (key != own)]] = False
    return bare


def inside(parts: Whole, cells: Whole, trees: Sequence[LabelTree]) -> Whole:
    """Return the cell that contains each part, among cells that do not overlap; -1 for none."""
    own = (cells + 1) @ strides(trees)
    order = np.argsort(own)
    found = np.full(len(parts), -1, np.int64)
    for key in keys_above(parts, trees):
        at = order[np.minimum(np.searchsorted(own, key, sorter=order), len(own) - 1)]
        found = np.where(own[at] == key, at, found)
    return found


def above_any(cells: Whole, leaves: Whole, trees: Sequence[LabelTree]) -> Flags:
    """Return which cells are one of the leaves, or above one."""
    own = (cells + 1) @ strides(trees)
    found = np.zeros(len(cells), bool)
    for key in keys_above(leaves, trees):
        found |= np.isin(own, key)
    return found


def keys_above(codes: Whole, trees: Sequence[LabelTree]) -> Iterator[Whole]:
    """Iterate over the numbers of the cells that contain each cell, itself included."""
    stride = strides(trees)
    for levels in itertools.product(*(range(t.paths.shape[1] + 1) for t in trees)):
        key = np.zeros(len(codes), np.int64)
        for i, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            if level < tree.paths.shape[1]:
                key += (tree.paths[codes[:, i], level] + 1) * stride[i]
        yield key


def overlapping(codes: Whole, trees: Sequence[LabelTree]) -> tuple[int, int] | None:
    """Return two of the finest cells that overlap; None if there are none."""
    for a in np.flatnonzero(_inner(codes, trees)):
        common = _meet(codes[a], codes, trees)
        common[a] = False
        if common.any():
            return int(a), int(np.argmax(common))
    return None


def cut(leaves: Whole, cells: Whole, trees: Sequence[LabelTree]) -> Whole:
    """Return for each cell a leaf that is partly in it, -1 where every leaf is either in the cell or out of it.

    Where one part of a table is less fine than another, the value of such a cell is not known.
    """
    found = np.full(len(cells), -1, np.int64)
    for leaf in np.flatnonzero(_inner(leaves, trees)):
        common = _meet(leaves[leaf], cells, trees)
        above = np.all(
            [(cells[:, i] < 0) | np.isin(cells[:, i], t.paths[leaves[leaf, i]]) for i, t in enumerate(trees)], axis=0
        )
        found[common & ~above] = leaf
    return found


def crossed(parts: Sequence[Whole], trees: Sequence[LabelTree]) -> Whole:
    """Return the parts that the finest cells of several tables cut each other into, shape (parts, dimensions)."""
    found = parts[0]
    depth = [np.append((np.diff(t.paths, axis=1) != 0).sum(axis=1)[:-1], -1) for t in trees]
    for other in parts[1:]:
        shared = [i for i in range(len(trees)) if (found[:, i] >= 0).all() and (other[:, i] >= 0).all()]
        # labels that overlap are under the same label of the first level
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


def _inner(codes: Whole, trees: Sequence[LabelTree]) -> Flags:
    """Return which cells have a label, or the total, with others below it."""
    inner = np.zeros(len(codes), bool)
    for i, tree in enumerate(trees):
        below = np.append(np.isin(np.arange(len(tree.labels)), tree.parents), True)  # the total is last
        inner |= below[codes[:, i]]
    return inner


def _meet(a: Whole, b: Whole, trees: Sequence[LabelTree]) -> Flags:
    """Return which cells overlap: in each dimension one label is above the other, or they are the same."""
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


_ROUNDS = 500


class UnfillableSums(Exception):  # noqa: N818 - what was found, not an error of ours
    """No values have these sums; `cells` are some that cannot all be right, as (table, finest cell)."""

    def __init__(self, cells: list[tuple[int, int]]) -> None:
        super().__init__("no values have these sums")
        self.cells = cells


def fill_in(members: Sequence[Whole], values: Sequence[Numbers], leaves: int, half: float = 0.0) -> Numbers:
    """Return values of the leaves, none below zero, that have the right sum in every finest cell of every table.

    `members` is for each table the finest cell of each leaf, -1 for none. Many values would do, and only their sums are ever
    published. The most even ones are tried first (iterative proportional fitting, Deming and Stephan 1940). Where some leaves
    must be zero although no cell says so, these converge too slowly, and a linear program finds others.

    Values that were rounded by up to `half` each need not agree exactly: the sums of n cells, and of m other cells that cover
    the same leaves, may differ by n + m halves.
    """
    x = _evenest(members, values, leaves)
    rooms = _together(members, [len(v) for v in values]) if half else [np.zeros(len(v)) for v in values]
    for member, wanted, room in zip(members, values, rooms, strict=True):
        total = np.bincount(member[member >= 0], x[member >= 0], len(wanted))
        if (np.abs(total - wanted) > 1e-10 * wanted + half * room).any():
            return _any(members, values, leaves, half)
    return x


def _evenest(members: Sequence[Whole], values: Sequence[Numbers], leaves: int) -> Numbers:
    x = np.ones(leaves)
    before = np.inf
    for _ in range(_ROUNDS):
        worst = 0.0
        for member, wanted in zip(members, values, strict=True):
            within = member >= 0
            total = np.bincount(member[within], x[within], len(wanted))
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = max(worst, float(np.abs(np.where(wanted > 0, total / wanted - 1, 0.0)).max(initial=0)))
                factor = np.where(total > 0, wanted / total, 0.0)
            x = np.where(within, x * factor[member], 0.0)
        if worst <= 1e-14 or abs(worst - before) <= 1e-6 * worst:  # converged, or nearly without progress
            break
        before = worst
    return x


def _any(members: Sequence[Whole], values: Sequence[Numbers], leaves: int, half: float) -> Numbers:
    """Return some values with these sums, by a linear program for the smallest changes that make the sums possible."""
    wanted = np.concatenate(values)
    scale = max(float(wanted.max(initial=0.0)) / 1e3, 1e-300)
    rows = sparse.vstack([
        sparse.csr_array((np.ones(int((m >= 0).sum())), (m[m >= 0], np.flatnonzero(m >= 0))), shape=(len(v), leaves))
        for m, v in zip(members, values, strict=True)
    ])  # fmt: skip
    change = sparse.eye_array(len(wanted))
    found = optimize.linprog(
        np.concatenate([np.zeros(leaves), np.ones(2 * len(wanted))]),
        A_ub=sparse.vstack([sparse.hstack([rows, change, -change]), sparse.hstack([-rows, -change, change])], format="csr"),
        b_ub=np.concatenate([wanted + half, half - wanted]) / scale,
        bounds=(0, None), method="highs-ds", options={"primal_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    if found.status == 0 and float(found.fun or 0.0) <= 1e-6:
        return np.asarray(np.asarray(found.x)[:leaves] * scale, np.float64)
    # the sums that limit the changes, by the dual solution, contradict each other (Farkas' lemma)
    binding = np.zeros(0) if found.status else np.abs(found.ineqlin.marginals.reshape(2, -1)).max(axis=0) > 1e-7
    table = np.repeat(np.arange(len(values)), [len(v) for v in values])
    place = np.concatenate([np.arange(len(v)) for v in values])
    raise UnfillableSums([(int(table[i]), int(place[i])) for i in np.flatnonzero(binding)])


def _together(members: Sequence[Whole], sizes: Sequence[int]) -> list[Numbers]:
    """Count for each finest cell the cells linked to it by overlaps, itself included."""
    starts = np.cumsum([0, *sizes])
    pairs = [
        np.stack([a + starts[i], b + starts[i + 1]])[:, (a >= 0) & (b >= 0)]
        for i, (a, b) in enumerate(pairwise(members))
    ]
    one, other = np.concatenate(pairs, axis=1)
    n = int(starts[-1])
    _, group = csgraph.connected_components(
        sparse.coo_array((np.ones(len(one)), (one, other)), shape=(n, n)), directed=False
    )
    tied = np.bincount(group)[group].astype(np.float64)
    return np.split(tied, starts[1:-1])
