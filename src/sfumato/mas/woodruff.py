"""Standard errors of quantiles: the share that lies below is uncertain, and the quantile moves with it (Woodruff 1952)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from sfumato.mas.dataset import Weight
from sfumato.mas.distribution import Cut, Spread, rising
from sfumato.mas.grouped import Grouped, Numbers
from sfumato.mas.perturbation import purpose_of
from sfumato.mas.variable import Variable

_Z = 1.959963984540054


def quantile_error(value_at: Callable[[float], float], p: float, error: float) -> float:
    """Return the standard error of the quantile at p, where the share below it has a standard error; NaN where none is known.

    It is the length of the interval between the quantiles at p ± 1.96 errors, divided by as many errors; where one end is not
    known, the half of it.

    >>> round(quantile_error(lambda share: 100 * share, 0.5, 0.02), 9)
    2.0
    """
    far = _Z * error
    low, high = (value_at(end) if 0 < end < 1 else math.nan for end in (p - far, p + far))
    sides = 2.0
    if math.isnan(low) or math.isnan(high):
        low, high, sides = (low, value_at(p), 1.0) if math.isnan(high) else (value_at(p), high, 1.0)
    return (high - low) / (sides * _Z)


def noise_variance(spread: Spread, p: float, noise: float) -> float:
    """Return what noise adds to the variance of the share below a quantile that is read off noisy bins.

    With one standard deviation on each of B bins, k of them below, it is (1 − p)² k + p² (B − k) times its square over the
    total's.
    """
    weights = rising(spread.weights)
    below = int((weights < p * weights[-1]).sum()) + 1
    added = (1 - p) ** 2 * below + p**2 * (len(weights) - below)
    return added * (noise / max(float(weights[-1]), 1.0)) ** 2


def design_squares(
    table: Grouped, variable: Variable, weight: Weight | None, p: Sequence[float], cuts: Sequence[Sequence[Cut]]
) -> Numbers:
    """Return the variances under the survey's design of Σ w(z − p), z what lies below the cut at p; shape (cells, shares).

    `cuts` has one row for each cell of the table, raveled. Over the squared weight of the cell's values that is the variance of
    the share below. Where counts have noise, it has keyed noise, too.
    """
    question, shape, columns = table.question, table.counts.shape, table.question.dataset.design.columns
    cells = [f"c{i}" for i in range(len(shape))]
    place = " + ".join(f"{cell} * {int(np.prod(shape[i + 1 :], dtype=int))}" for i, cell in enumerate(cells)) or "0"
    limits = np.array([[(cut.low, cut.high, cut.part) for cut in row] for row in cuts]).reshape(len(cuts), -1)
    shown = np.flatnonzero(np.isfinite(limits[:, ::3]).any(axis=1))  # a quantile that is not shown has no limits
    told = [f"({i}, {', '.join(f'({x:.17e})' for x in np.nan_to_num(limits[i]))})" for i in shown]
    if not len(shown):
        return np.zeros((len(cuts), len(p)))
    names = ", ".join(["cell", *(f"low{i}, high{i}, part{i}" for i in range(len(p)))])
    scores = [
        f"w * (CASE WHEN v <= low{i} THEN 1.0E0 WHEN v <= high{i} THEN part{i} ELSE 0.0E0 END - ({share:.17e})) AS g{i}"
        for i, share in enumerate(p)
    ]
    kept = table.records({"w": "w" if weight else "1.0E0", "v": variable.numbers})
    source = (
        f"SELECT {', '.join([*cells, *columns, *scores])} FROM ({kept}) AS kept "  # noqa: S608 - our own names
        f"JOIN (VALUES {', '.join(told)}) AS cuts({names}) ON {place} = cell WHERE v IS NOT NULL"
    )
    scale, large = (weight.scale, weight.large) if weight else (1.0, 1.0)
    design, sd = question.dataset.design, question.policy.counts.sd
    found = design.covariances(source, np.eye(len(p)), scale**2 * np.eye(len(p)), shape=shape)
    if not sd:
        return found
    for i, share in enumerate(p):
        about = purpose_of(f"design squares of {variable.name} at {share!r}{' weighted' if weight else ''}", sd)
        found[:, i] += sd * design.largest * large**2 * question.secret.normals(table.thinned_keys(), about)
    return found
