"""Graphical models of a table: the junction tree of some margins, exact inference on it, and the fit to noisy margins.

Variables are numbered from 0. A group is a rising tuple of variables; its margin is an array with one axis for each. A model is
exp(Σ θ_g) over its groups g, scaled to a total; all its margins follow by messages along the junction tree (Lauritzen and
Spiegelhalter 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sfumato.typing import Numbers, Whole

Group = tuple[int, ...]
Potentials = dict[Group, Numbers]


class JunctionTree(NamedTuple):
    """Cliques, each after its parent; neighbours share their separator, and every group lies in a clique."""

    sizes: tuple[int, ...]
    cliques: tuple[Group, ...]
    parents: tuple[int, ...]
    """-1 for the root."""
    separators: tuple[Group, ...]
    """Variables shared with the parent."""

    @property
    def cells(self) -> int:
        """The number of cells of all cliques."""
        return sum(cells_of(self.sizes, clique) for clique in self.cliques)


def cells_of(sizes: Sequence[int], group: Iterable[int]) -> int:
    """Return the number of cells of a margin."""
    return math.prod(sizes[v] for v in group)


def junction_tree(sizes: Sequence[int], groups: Iterable[Group]) -> JunctionTree:
    """Return a junction tree of these groups over all variables: the variable of the smallest clique is eliminated first.

    >>> junction_tree([2, 2, 2], [(0, 1), (1, 2)]).cliques
    ((0, 1), (1, 2))
    """
    near: dict[int, set[int]] = {v: set() for v in range(len(sizes))}
    for group in groups:
        for v in group:
            near[v] |= set(group) - {v}
    found: list[set[int]] = []
    while near:
        first = min(near, key=lambda v: (cells_of(sizes, near[v] | {v}), v))
        around = near.pop(first)
        for v in around:
            near[v] |= around - {v}
            near[v].discard(first)
        if not any(around | {first} <= other for other in found):
            found.append(around | {first})
    return _spanned(tuple(sizes), [tuple(sorted(c)) for c in found])


def _spanned(sizes: tuple[int, ...], cliques: list[Group]) -> JunctionTree:
    """Connect cliques by the tree whose separators are largest (Prim's algorithm): cliques of a triangulated graph."""
    order, parents = [0], [-1]
    separators: list[Group] = [()]
    best = [(len(set(c) & set(cliques[0])), 0) for c in cliques]
    left = set(range(1, len(cliques)))
    while left:
        new = min(left, key=lambda i: (-best[i][0], i))
        left.remove(new)
        parent = best[new][1]
        separators.append(tuple(sorted(set(cliques[new]) & set(cliques[parent]))))
        parents.append(order.index(parent))
        order.append(new)
        for i in left:
            best[i] = max(best[i], (len(set(cliques[i]) & set(cliques[new])), new), key=lambda b: b[0])
    return JunctionTree(sizes, tuple(cliques[i] for i in order), tuple(parents), tuple(separators))


def _spread_over(values: Numbers, group: Group, clique: Group) -> Numbers:
    """Return an array over a group with axes of length one for the clique's other variables."""
    return values.reshape([values.shape[group.index(v)] if v in group else 1 for v in clique])


def summed(values: Numbers, clique: Group, group: Group) -> Numbers:
    """Return the margin of a group from an array over a clique that holds it."""
    return np.asarray(values.sum(axis=tuple(i for i, v in enumerate(clique) if v not in group)))


def _log_summed(values: Numbers, clique: Group, group: Group) -> Numbers:
    over = tuple(i for i, v in enumerate(clique) if v not in group)
    if not over:
        return values
    top = values.max(axis=over, keepdims=True)
    return np.asarray(
        np.log(np.exp(values - top).sum(axis=over)) + top.reshape([values.shape[clique.index(v)] for v in group])
    )


def calibrated(tree: JunctionTree, potentials: Mapping[Group, Numbers], total: float) -> list[Numbers]:
    """Return the margin of each clique of the model with these potentials, each adding up to the total."""
    logs = [np.zeros([tree.sizes[v] for v in clique]) for clique in tree.cliques]
    for group, values in potentials.items():
        at = home_of(tree, group)
        logs[at] = logs[at] + _spread_over(values, group, tree.cliques[at])
    up: list[Numbers] = [np.zeros(())] * len(logs)
    for i in range(len(logs) - 1, 0, -1):
        up[i] = _log_summed(logs[i], tree.cliques[i], tree.separators[i])
        parent = tree.parents[i]
        logs[parent] = logs[parent] + _spread_over(up[i], tree.separators[i], tree.cliques[parent])
    for i in range(1, len(logs)):
        parent = tree.parents[i]
        down = _log_summed(logs[parent], tree.cliques[parent], tree.separators[i]) - up[i]
        logs[i] = logs[i] + _spread_over(down, tree.separators[i], tree.cliques[i])
    made = [np.exp(log - log.max()) for log in logs]
    return [total * m / m.sum() for m in made]


def home_of(tree: JunctionTree, group: Group) -> int:
    """Return the first clique that holds a group; -1 if none does."""
    wanted = set(group)
    return next((i for i, clique in enumerate(tree.cliques) if wanted <= set(clique)), -1)


def margin_of(tree: JunctionTree, margins: Sequence[Numbers], group: Group) -> Numbers:
    """Return any margin of a model from those of its cliques."""
    if (at := home_of(tree, group)) >= 0:
        return summed(margins[at], tree.cliques[at], group)
    used = {0}
    for v in group:
        at = home_of(tree, (v,))
        while at > 0:
            used.add(at)
            at = tree.parents[at]
    operands: list[object] = []
    for i in sorted(used):
        operands += [conditional(tree, margins, i), list(tree.cliques[i])]
    return np.asarray(np.einsum(*operands, list(group), optimize="greedy"))  # type: ignore[call-overload]


def conditional(tree: JunctionTree, margins: Sequence[Numbers], i: int) -> Numbers:
    """Return a clique's margin over that of its separator: the whole margin for the root."""
    if i == 0:
        return margins[0]
    shared = summed(margins[i], tree.cliques[i], tree.separators[i])
    base = _spread_over(shared, tree.separators[i], tree.cliques[i])
    return np.divide(margins[i], base, out=np.zeros_like(margins[i]), where=base > 0)


class NoisyMargin(NamedTuple):
    """A margin as it was measured."""

    group: Group
    counts: Numbers
    sigma: float
    """Standard deviation of the noise of each count."""


def total_of(measured: Sequence[NoisyMargin]) -> float:
    """Return the unbiased total of smallest variance that the measured margins tell; at least 1."""
    weights = [1 / (m.counts.size * m.sigma**2) for m in measured]
    return max(float(np.dot(weights, [m.counts.sum() for m in measured]) / sum(weights)), 1.0)


def fit_margins(
    tree: JunctionTree, measured: Sequence[NoisyMargin], potentials: Potentials, total: float, steps: int
) -> tuple[Potentials, list[Numbers]]:
    """Return potentials and clique margins that minimise Σ |margin - measured|² / σ², from these potentials on.

    Mirror descent with the entropy as distance (McKenna, Sheldon and Miklau 2019, algorithm 1): θ ← θ - step · gradient. A step
    that does not lower the loss as much as its gradient promises is halved.
    """
    theta = {m.group: potentials.get(m.group, np.zeros(m.counts.shape)) for m in measured}
    theta = {**potentials, **theta}
    margins = calibrated(tree, theta, total)
    loss, gradient, now = _loss(tree, margins, measured)
    step = 1.0 / total * min(m.sigma for m in measured) ** 2
    for _ in range(steps):
        for _ in range(30):
            trial = {g: v - step * gradient[g] if g in gradient else v for g, v in theta.items()}
            following = calibrated(tree, trial, total)
            new_loss, new_gradient, then = _loss(tree, following, measured)
            promised = sum(float((gradient[g] * (now[g] - then[g])).sum()) for g in gradient)
            if loss - new_loss >= 0.5 * promised - 1e-12 * abs(loss):
                break
            step /= 2
        else:
            break
        done = loss - new_loss <= 1e-8 * abs(loss)
        theta, margins, loss, gradient, now = trial, following, new_loss, new_gradient, then
        if done:
            break
        step *= 1.5
    return theta, margins


def _loss(
    tree: JunctionTree, margins: Sequence[Numbers], measured: Sequence[NoisyMargin]
) -> tuple[float, dict[Group, Numbers], dict[Group, Numbers]]:
    """Return half the sum of squares, its gradient in each measured margin, and these margins."""
    loss, gradient, now = 0.0, dict[Group, Numbers](), dict[Group, Numbers]()
    for m in measured:
        if m.group not in now:
            now[m.group] = margin_of(tree, margins, m.group)
            gradient[m.group] = np.zeros(m.counts.shape)
        off = (now[m.group] - m.counts) / m.sigma**2
        loss += 0.5 * float((off * (now[m.group] - m.counts)).sum())
        gradient[m.group] = gradient[m.group] + off
    return loss, gradient, now


def drawn_cells(tree: JunctionTree, margins: Sequence[Numbers], uniforms: Sequence[Numbers]) -> Whole:
    """Return cells drawn from the model, shape (variables, n), by one uniform number of each clique for each draw.

    The root's cell is drawn from its margin, then clique by clique the variables that are new, given the separator's.
    """
    out = np.zeros((len(tree.sizes), len(uniforms[0])), np.int64)
    for i, (clique, shared) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
        new = tuple(v for v in clique if v not in shared)
        order = [clique.index(v) for v in (*shared, *new)]
        table = np.transpose(margins[i], order).reshape(cells_of(tree.sizes, shared), -1)
        upto = np.cumsum(table, axis=1)
        sums = upto[:, -1:]
        upto = np.where(sums > 0, upto / np.where(sums > 0, sums, 1.0), np.linspace(0, 1, table.shape[1] + 1)[1:])
        row = np.zeros(len(uniforms[i]), np.int64)
        for v in shared:
            row = row * tree.sizes[v] + out[v]
        flat = (upto + np.arange(len(upto))[:, None]).ravel()
        cell = np.searchsorted(flat, row + uniforms[i], side="right") - row * table.shape[1]
        cell = np.clip(cell, 0, table.shape[1] - 1)
        for v in reversed(new):
            out[v] = cell % tree.sizes[v]
            cell = cell // tree.sizes[v]
    return out
