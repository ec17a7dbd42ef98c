"""How much of an estimate's precision a choice keeps."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import Side
from sfumato.rumap.choice import Choice
from sfumato.rumap.rumap import RUMap
from sfumato.utility import EstimatorUtility


def precision_kept(m: RUMap, choice: Choice) -> dict[str, float]:
    """Return each utility at the chosen parameters as a share of the unmasked file's, by label; of estimates only.

    By formula where there is one. Else from the map's points, which share their random numbers with the unmasked file, so
    that the share is much less noisy than the two numbers; between points of one parameter it is interpolated.
    """
    formulas = m.evaluator.analytic([choice.settings])
    kept = {}
    for i in m.of_side(Side.UTILITY):
        if not isinstance(m.measures[i], EstimatorUtility):
            continue  # a share of the variance is no precision
        share = float(formulas[i][0]) / float(m.analytic[i][-1])
        kept[m.measures[i].label()] = _from_points(m, i, choice) if math.isnan(share) else share
    return kept


def _from_points(m: RUMap, measure: int, choice: Choice) -> float:
    whole = m.unmasked(measure)
    if not (m.replications and 0 < whole < math.inf):
        return math.nan
    for p, settings in enumerate(m.points):
        if dict(settings) == dict(choice.settings):
            return m.estimate(measure, p)[0] / whole
    if len(m.parameters) > 1:
        return math.nan
    name = m.parameters[0]
    order = sorted(range(len(m.points)), key=lambda p: float(m.points[p][name]))
    grid = np.array([float(m.points[p][name]) for p in order])
    values = [m.estimate(measure, p)[0] for p in order]
    at = float(choice.settings[name])
    if grid[0] > 0 and at > 0:
        return float(np.interp(math.log(at), np.log(grid), values)) / whole
    return float(np.interp(at, grid, values)) / whole
