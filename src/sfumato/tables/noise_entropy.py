"""The distribution of noise with the largest entropy among those with mean 0 and a given variance."""

from __future__ import annotations

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.lazy import optimize
from sfumato.typing import Flags, Numbers

_NOTHING = 1e-9  # what counts as zero in a linear program
_END = 1e-7  # moments closer than this are near convergence


def most_entropy(v: Numbers, variance: float, stay: float = 0.0, monotone: bool = False) -> Numbers | None:
    """Return the probabilities of the changes v, ascending, with mean 0, this variance and the largest entropy.

    `stay` is the smallest probability of no change; `monotone` requires that larger changes are never likelier than smaller
    ones in the same direction. None if there is no such distribution.

    Such a distribution is an exponential family, p ∝ exp(a v + b v² + …) with a term for each binding inequality: Newton's
    method finds the coefficients, and inequalities are added and dropped until the right ones bind.
    """
    equal = np.vstack([v, v**2])
    moments = np.array([0.0, variance])
    below, bound = _inequalities(v, stay, monotone)
    space = _inside(np.vstack([np.ones_like(v), equal]), np.concatenate([[1.0], moments]), below, bound)
    if space is None:
        return None
    possible, tight = space
    binding = np.zeros(len(bound), bool)
    p, slope = np.zeros_like(v), np.zeros(0)
    for _ in range(10 * len(bound)):
        held = tight | binding
        rows = np.vstack([equal, below[held]])[:, possible]
        p[possible], slope = _family(rows, np.concatenate([moments, bound[held]]))
        pushes = np.zeros(len(bound))
        pushes[held] = slope[2:]
        excess = np.where(held, 0.0, below @ p - bound)
        if (pushes[binding] > 1e-12).any():  # wrong sign of the multiplier: it does not bind
            binding[np.flatnonzero(binding)[pushes[binding].argmax()]] = False
        elif excess.max() > 1e-13:
            binding[excess.argmax()] = True
        else:
            break
    off = np.abs(equal @ p - moments) / np.maximum(np.abs(equal).max(axis=1), 1e-300)
    if not (max(off.max(), abs(p.sum() - 1), (below @ p - bound).max()) < 1e-9):
        raise SfumatoError(
            f"noise with a variance of {variance:g} could not be computed. Choose another variance, or another largest change."
        )
    return p


def variances(v: Numbers, stay: float = 0.0, monotone: bool = False) -> tuple[float, float] | None:
    """Return the smallest and largest variance of noise with these changes and mean 0; None if there is no such noise."""
    below, bound = _inequalities(v, stay, monotone)
    equal, level = np.vstack([np.ones_like(v), v]), np.array([1.0, 0.0])
    least, most = (_program(sign * v**2, below, bound, equal, level) for sign in (1, -1))
    return None if least is None or most is None else (least[0], 0.0 - most[0])


def largest_stay(v: Numbers, variance: float, monotone: bool = False) -> float:
    """Return the largest probability of no change that mean 0 and this variance allow."""
    below, bound = _inequalities(v, 0.0, monotone)
    equal, level = np.vstack([np.ones_like(v), v, v**2]), np.array([1.0, 0.0, variance])
    found = _program(-(v == 0).astype(float), below, bound, equal, level)
    return 0.0 if found is None else -found[0]


def _program(
    aim: Numbers, below: Numbers, bound: Numbers, equal: Numbers, level: Numbers
) -> tuple[float, Numbers] | None:
    """Return the smallest value of aim · p over 0 ≤ p ≤ 1 with the (in)equalities, and its p; None if infeasible."""
    found = optimize.linprog(aim, A_ub=below, b_ub=bound, A_eq=equal, b_eq=level, bounds=(0, 1))
    return None if found.status != 0 or found.x is None else (float(aim @ found.x), np.asarray(found.x))


def _inequalities(v: Numbers, stay: float, monotone: bool) -> tuple[Numbers, Numbers]:
    """Return rows G and bounds h of G p ≤ h."""
    rows, bounds = [np.zeros(len(v))], [1.0]  # one that always holds, so that there is at least one
    if stay > 0 and (v == 0).any():
        rows.append(-(v == 0).astype(float))
        bounds.append(-stay)
    for k in range(len(v) - 1) if monotone else ():
        if v[k + 1] <= 0 or v[k] >= 0:  # probabilities increase towards no change, and decrease away from it
            rise = 1.0 if v[k + 1] <= 0 else -1.0
            row = np.zeros(len(v))
            row[k], row[k + 1] = rise, -rise
            rows.append(row)
            bounds.append(0.0)
    return np.array(rows), np.array(bounds)


def _inside(equal: Numbers, level: Numbers, below: Numbers, bound: Numbers) -> tuple[Flags, Flags] | None:
    """Return which probabilities can be above 0, and which inequalities are always tight; None if infeasible."""
    n, m = len(equal[0]), len(bound)
    # the largest distance of a point from all borders: if some point is inside all of them, nothing is tight
    wider = np.hstack([np.vstack([-np.eye(n), below]), np.ones((n + m, 1))])
    room = np.concatenate([np.zeros(n), bound])
    best = _program(-np.eye(n + 1)[n], wider, room, np.hstack([equal, np.zeros((len(equal), 1))]), level)
    if best is None:
        return None
    if best[1][n] > _NOTHING:
        return np.ones(n, bool), np.zeros(m, bool)
    reach = []
    for aim, most in [*((-row, 0.0) for row in np.eye(n)), *zip(below, bound, strict=True)]:
        found = _program(aim, below, bound, equal, level)
        reach.append(found is not None and most - found[0] > _NOTHING)
    return np.array(reach[:n]), ~np.array(reach[n:])


def _family(rows: Numbers, means: Numbers) -> tuple[Numbers, Numbers]:
    """Return the p ∝ exp(slope · rows) for which rows · p are these means, and the slope.

    It minimises log Σ exp(slope · rows) − slope · means, which is convex.
    """
    size = np.maximum(np.abs(rows).max(axis=1), 1e-300)
    rows, means = rows / size[:, None], means / size
    slope = np.zeros(len(rows))

    def at(slope: Numbers) -> tuple[float, Numbers]:
        power = slope @ rows
        top = power.max()
        weight = np.exp(power - top)
        return float(top + np.log(weight.sum()) - slope @ means), weight / weight.sum()

    now, p = at(slope)
    for _ in range(500):
        miss = means - rows @ p
        centred = rows - (rows @ p)[:, None]
        step = np.linalg.lstsq((centred * p) @ centred.T, miss, rcond=1e-15)[0]
        length = 1.0
        while length > 1e-10:
            then, q = at(slope + length * step)
            if then <= now - 1e-4 * length * (miss @ step):
                break
            # near convergence only the moments show which point is better
            if np.abs(miss).max() < _END and np.abs(means - rows @ q).max() < 0.9 * np.abs(miss).max():
                break
            length /= 2
        if length <= 1e-10 or np.abs(miss).max() < 1e-16:
            break
        slope, now, p = slope + length * step, then, q
    return p, slope / size
