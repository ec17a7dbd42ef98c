"""Search for the best safe values of several parameters: a grid, then along the constraints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sfumato.decision.certainty import Certainty, Risk, Utility
from sfumato.decision.observation import Method

EXACT = 1e-12
"""A formula's own rounding must not turn a binding constraint into a broken one."""
_GRID = {1: 65, 2: 21, 3: 11}
_ZOOMS = 8


class ParameterSearch:
    """A search over several parameters: what has been found so far."""

    def __init__(self, utility: Utility, risk: Risk, r: float, method: Method) -> None:
        self.utility, self.risk, self.r, self.method = utility, risk, r, method
        self.names = list(method.ranges)
        self.best: tuple[float, dict[str, float]] | None = None
        self.least: tuple[Certainty, dict[str, float]] = (Certainty(math.inf, "", "", math.inf, math.inf, ""), {})

    def run(self) -> None:
        """Search: a grid, then its neighbourhood."""
        self.over(self.method.ranges, _GRID.get(len(self.names), 5))
        self.polish()

    def at(self, values: Iterable[float]) -> None:
        """Look at one point."""
        phi = dict(zip(self.names, map(float, values), strict=True))
        risk = self.risk.at(self.method, phi)
        if not self.least[1] or risk.high < self.least[0].high:
            self.least = (risk, phi)
        if risk.high <= self.r * (1 + EXACT):
            gain = self.utility.at(self.method, phi).value
            if self.best is None or gain > self.best[0]:
                self.best = (gain, phi)

    def over(self, ranges: Mapping[str, tuple[float, float]], points: int) -> None:
        """Look at a grid."""
        for values in itertools.product(*(np.linspace(*ranges[n], points) for n in self.names)):
            self.at(values)

    @property
    def centre(self) -> dict[str, float]:
        """The best safe point, or the least risky one while there is none."""
        return self.least[1] if self.best is None else self.best[1]

    def polish(self) -> None:
        """Go on from the best grid point: along the constraints by quadratic programming, then on ever smaller grids."""
        limits, points = self.method.ranges, 7 if len(self.names) < 3 else 3
        steps = {n: (limits[n][1] - limits[n][0]) / 20 for n in self.names}
        for _ in range(_ZOOMS):
            self._along()
            here = dict(self.centre)
            self.over(
                {n: (max(here[n] - steps[n], limits[n][0]), min(here[n] + steps[n], limits[n][1])) for n in here},
                points,
            )
            if self.centre == here:
                steps = {n: s / 4 for n, s in steps.items()}

    def _along(self) -> None:
        from scipy.optimize import minimize

        if self.best is None or not math.isfinite(self.best[0]):
            return
        r, pairs, limits = self.r, list(self.risk.pairs()), [self.method.ranges[n] for n in self.names]
        span = np.array([high - low for low, high in limits])
        low = np.array([low for low, _ in limits])

        def phi(x: Any) -> dict[str, float]:
            return dict(zip(self.names, map(float, low + np.clip(x, 0, 1) * span), strict=True))

        def room(x: Any) -> Any:
            found = (self.risk.of_pair(pair, self.method, phi(x)) for pair in pairs)
            return np.array([1.0 if c is None else 1 - 1e-10 - min(c.high / r, 1e6) for c in found])

        def cost(x: Any) -> float:
            return -math.log(max(self.utility.at(self.method, phi(x)).value, 1e-300))

        start = (np.array([self.best[1][n] for n in self.names]) - low) / span
        ends = [(0.0, 1.0)] * len(self.names)
        made = minimize(cost, start, method="SLSQP", bounds=ends, constraints={"type": "ineq", "fun": room}, tol=1e-12)
        if np.isfinite(made.x).all():
            self.at(low + np.clip(made.x, 0, 1) * span)
