"""The distribution of noise with the most entropy among those with mean 0 and a given variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
_NOTHING = 1e-9  # what a linear program calls zero


def most_entropy(v: Numbers, variance: float, stay: float = 0.0, monotone: bool = False) -> Numbers | None:
    """Return the probabilities of the changes v, ascending, with mean 0 and this variance, that tell least else.

    `stay` is the least probability of no change; `monotone` asks that larger changes are never likelier than smaller ones in
    the same direction. None if there is no such distribution.

    Maximises −Σ p log p over a polytope: Newton's method with a barrier for the inequalities, from a point inside that a
    linear program finds. The moments are linear in p, so they hold to the last digit.
    """
    equal = np.vstack([np.ones_like(v), v, v**2])
    moments = np.array([1.0, 0.0, variance])
    below, bound = _inequalities(v, stay, monotone)
    space = _inside(equal, moments, below, bound)
    if space is None:
        return None
    start, possible, tight = space
    equal = np.vstack([equal, below[tight]])[:, possible]
    level = np.concatenate([moments, bound[tight]])
    below, bound = below[~tight][:, possible], bound[~tight]
    p = np.zeros_like(v)
    p[possible] = _newton(start[possible], equal, level, below, bound)
    return p


def variances(v: Numbers, stay: float = 0.0, monotone: bool = False) -> tuple[float, float] | None:
    """Return the smallest and largest variance that noise with these changes and mean 0 can have; None if it has none."""
    from scipy.optimize import linprog

    below, bound = _inequalities(v, stay, monotone)
    equal, level = np.vstack([np.ones_like(v), v]), np.array([1.0, 0.0])
    ends = []
    for sign in (1, -1):
        found = linprog(sign * v**2, A_ub=below, b_ub=bound, A_eq=equal, b_eq=level, bounds=(0, 1))
        if found.status != 0:
            return None
        ends.append(sign * float(found.fun))
    return ends[0], ends[1]


def largest_stay(v: Numbers, variance: float, monotone: bool = False) -> float | None:
    """Return the largest probability of no change that mean 0 and this variance leave room for; None if there is none."""
    from scipy.optimize import linprog

    below, bound = _inequalities(v, 0.0, monotone)
    equal, level = np.vstack([np.ones_like(v), v, v**2]), np.array([1.0, 0.0, variance])
    found = linprog(-(v == 0).astype(float), A_ub=below, b_ub=bound, A_eq=equal, b_eq=level, bounds=(0, 1))
    return -float(found.fun) if found.status == 0 else None


def _inequalities(v: Numbers, stay: float, monotone: bool) -> tuple[Numbers, Numbers]:
    """Return rows G and bounds h of G p ≤ h."""
    rows, bounds = [np.zeros(len(v))], [1.0]  # one that always holds, so that there is one
    if stay > 0 and (v == 0).any():
        rows.append(-(v == 0).astype(float))
        bounds.append(-stay)
    for k in range(len(v) - 1) if monotone else ():
        if v[k + 1] <= 0 or v[k] >= 0:  # towards no change probabilities rise, away from it they fall
            rise = 1.0 if v[k + 1] <= 0 else -1.0
            row = np.zeros(len(v))
            row[k], row[k + 1] = rise, -rise
            rows.append(row)
            bounds.append(0.0)
    return np.array(rows), np.array(bounds)


def _inside(
    equal: Numbers, level: Numbers, below: Numbers, bound: Numbers
) -> tuple[Numbers, NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Return a point inside the polytope, which probabilities can be above 0, and which inequalities are always tight."""
    from scipy.optimize import linprog

    n, m = len(equal[0]), len(bound)
    # the most that each probability and each slack can be; their mean is a point inside
    points, largest = [], np.zeros(n + m)
    for k in range(n + m):
        aim = np.zeros(n)
        if k < n:
            aim[k] = -1.0
        else:
            aim = below[k - n]
        found = linprog(aim, A_ub=below, b_ub=bound, A_eq=equal, b_eq=level, bounds=(0, 1))
        if found.status != 0:
            return None
        points.append(found.x)
        largest[k] = found.x[k] if k < n else bound[k - n] - below[k - n] @ found.x
    return np.mean(points, axis=0), largest[:n] > _NOTHING, largest[n:] <= _NOTHING


def _newton(p: Numbers, equal: Numbers, level: Numbers, below: Numbers, bound: Numbers) -> Numbers:
    """Return the point of most entropy, from a point inside; steps stay in the space that the equations leave."""
    _, sizes, right = np.linalg.svd(equal)
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    free, inverse = right[rank:].T, np.linalg.pinv(equal)
    p = p + inverse @ (level - equal @ p)

    def cost(p: Numbers, barrier: float) -> float:
        slack = bound - below @ p
        if (p <= 0).any() or (slack <= 0).any():
            return np.inf
        return float(p @ np.log(p) - barrier * np.log(slack).sum())

    for barrier in 10.0 ** -np.arange(1, 13) if free.shape[1] else ():
        for _ in range(100):
            slack = bound - below @ p
            gradient = np.log(p) + 1 + barrier * below.T @ (1 / slack)
            hessian = np.diag(1 / p) + barrier * (below.T / slack**2) @ below
            inner = free.T @ hessian @ free
            size = np.sqrt(np.diag(inner))  # rows and columns of one size, since probabilities span many orders of it
            step = -free @ (np.linalg.solve(inner / np.outer(size, size), free.T @ gradient / size) / size)
            length, now = 1.0, cost(p, barrier)
            while length > 1e-12 and cost(p + length * step, barrier) > now + 1e-4 * length * gradient @ step:
                length /= 2
            p = p + length * step if length > 1e-12 else p
            if -gradient @ step < 1e-22 or length <= 1e-12:
                break
    return np.asarray(p)
