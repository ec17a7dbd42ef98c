"""Closing in on the best safe point of a family: a local model, a trust region, one new point at a time.

Around the best point so far, risk (on the logarithm) and utility are taken to be linear in the coordinates of the unit cube;
near points count more. The next point is where that model has the most utility among what it holds to be safe, within reach.
Where the point is no better than the best so far, the reach shrinks; the new point improves the model all the same. In one
dimension this is the secant method on the edge of what is safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.best_recipe.judge import Standing
from sfumato.decision.best_recipe.space import Family, Point, Values

Numbers = NDArray[np.float64]
_CANDIDATES = 600
_CLIP = 6.0
"""Logarithms of risk over threshold beyond this are all the same: far."""
_MARGIN = 2e-3
"""How far below the threshold the model aims."""


@dataclass(frozen=True)
class Reach:
    """Where the next point may lie: within `radius` of the best one, in each coordinate."""

    radius: float = 0.3
    least: float = 8e-3

    def after(self, better: bool) -> Reach:
        """Return the reach after a point that was better than the best so far, or was not."""
        return Reach(min(self.radius * 1.3, 0.5) if better else self.radius * 0.55, self.least)

    @property
    def spent(self) -> bool:
        """Whether there is nothing left to gain."""
        return self.radius < self.least


def propose(
    family: Family,
    points: Sequence[Point],
    verdicts: Sequence[Standing],
    reach: Reach,
    generator: np.random.Generator,
) -> Point | None:
    """Return the next point to look at; None if every point within reach has been looked at."""
    best = max(range(len(points)), key=lambda i: verdicts[i].rank)
    centre = np.array(points[best])
    candidates = _candidates(family, centre, reach, generator)
    tried = {str(family.settings(p)) for p in points}
    x = np.array(points)
    apart = np.abs(np.array(candidates)[:, None, :] - x[None, :, :]).max(axis=2).min(axis=1)
    fresh = [
        c for c, far in zip(candidates, apart, strict=True)
        if far > reach.radius / 12 and str(family.settings(c)) not in tried
    ]  # fmt: skip
    if not fresh:
        return None
    new = np.array(fresh)
    weight = np.exp(-0.5 * (np.abs(x - centre).max(axis=1) / reach.radius) ** 2) + 1e-5
    excess = np.clip([v.excess for v in verdicts], -_CLIP, _CLIP)
    gain = np.array([v.gain for v in verdicts])
    known = np.isfinite(gain)
    risk = _linear(x, excess, weight, centre, reach.radius, new)
    use = _linear(x[known], gain[known], weight[known], centre, reach.radius, new) if known.any() else -risk
    safe = risk <= -_MARGIN
    if safe.any() and verdicts[best].safe:
        return fresh[int(np.argmax(np.where(safe, use, -np.inf)))]
    return fresh[int(np.argmin(np.abs(risk + _MARGIN)))] if safe.any() else fresh[int(np.argmin(risk))]


def _candidates(family: Family, centre: Numbers, reach: Reach, generator: np.random.Generator) -> list[Point]:
    """Return points within reach: at random, and along each axis. Listed values stay those of the best point."""
    d = len(centre)
    steps = generator.uniform(-1, 1, (_CANDIDATES, d))
    along = np.concatenate([np.outer(np.linspace(-1, 1, 41), np.eye(d)[j]) for j in range(d)])
    fixed = np.array([isinstance(axis, Values) for axis in family.axes])
    moved = centre + reach.radius * np.where(fixed, 0.0, np.concatenate([along, steps]))
    return list(dict.fromkeys(family.snapped(row) for row in moved))


def _linear(x: Numbers, y: Numbers, weight: Numbers, centre: Numbers, radius: float, new: Numbers) -> Numbers:
    """Return the prediction at new points of a weighted linear fit with a slight ridge on the slopes; shape (new,)."""
    design = np.column_stack([np.ones(len(x)), (x - centre) / radius])
    at = np.column_stack([np.ones(len(new)), (new - centre) / radius])
    ridge = np.diag([0.0, *[1e-3 * weight.sum()] * x.shape[1]])
    normal = design.T @ (design * weight[:, None]) + ridge
    return np.asarray(at @ np.linalg.lstsq(normal, design.T @ (weight * y), rcond=None)[0])
