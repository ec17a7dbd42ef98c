"""How sure it is that a point is on the frontier: risk and utility of every point as they might have come out instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Measure
from sfumato.decision.best_recipe.frontier import non_dominated, reweighted
from sfumato.decision.best_recipe.trials import Look

Numbers = NDArray[np.float64]
_DRAWS = 1_000
_UNLIKELY = 0.05


@dataclass(frozen=True, eq=False)
class Chances:
    """What the search itself saw at each of q points, with the same seeds everywhere, so that points can be compared."""

    measures: tuple[Measure, ...]
    looks: Sequence[Look]
    draws: Draws

    @cached_property
    def drawn(self) -> list[Numbers]:
        """Each measure at every point, shape (draws + 1, q): the estimate, then what might have come out instead."""
        groups, rows = [look.family.name for look in self.looks], []
        for i, measure in enumerate(self.measures):
            observed = [look.observed[i] for look in self.looks]
            with np.errstate(divide="ignore", invalid="ignore"):
                now = np.array([float(measure.value(o.mean(axis=0))) for o in observed])
            generator = self.draws.generator("frontier")  # the same weights for every measure
            rows.append(np.vstack([now, reweighted(measure, observed, groups, generator, _DRAWS)]))
        return rows

    @cached_property
    def intervals(self) -> list[Numbers]:
        """Each measure's estimate and 95 % interval at every point, shape (3, q)."""
        return [np.vstack([d[:1], *between(d)]) for d in self.drawn]

    def plane(self, risks: Sequence[int], uses: Mapping[int, float]) -> tuple[Numbers, Numbers]:
        """Return risk and utility of every point, shape (draws + 1, q) each, the estimates first.

        Of several risks the worst counts, of several utilities the smallest share of what each is divided by.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.max([self.drawn[i] for i in risks], axis=0)
            u = np.min([self.drawn[i] / a for i, a in uses.items()], axis=0)
        return r, u


def between(drawn: Numbers) -> tuple[Numbers, Numbers]:
    """Return the ends of the 95 % interval of what might have come out, shape (q,) each; `drawn` has the estimates first."""
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn[1:], [0.025, 0.975], axis=0)
    return low, high


def chance_of(risk: Numbers, utility: Numbers) -> Numbers:
    """Return the probability that a point is not dominated, shape (q,); NaN where that is unlikely.

    `risk` and `utility` have the estimates first, shape (draws + 1, q).
    """
    known = np.isfinite(risk).all(axis=0) & np.isfinite(utility).all(axis=0)
    chance = np.full(risk.shape[1], np.nan)
    if known.any():
        flags = non_dominated(risk[:, known], utility[:, known])
        share = flags[1:].mean(axis=0)
        chance[known] = np.where(flags[0] | (share > _UNLIKELY), share, np.nan)
    return chance
