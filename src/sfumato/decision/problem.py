"""The disclosure-control problem: maximise U(φ) subject to R(φ) ≤ r (RTA paper, problem 2.2.0.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.contract import Draws, Mask, Recipe, Snooper
from sfumato.decision.certainty import Certainty, Pair, Risk, Utility
from sfumato.decision.observation import AddedNoise, Method, Parameters, check_ranges
from sfumato.decision.parameter_search import EXACT, ParameterSearch
from sfumato.decision.solution import NoSolution, Solution
from sfumato.decision.threshold import limit_certainty, noise_threshold
from sfumato.errors import ParameterError, unknown_name
from sfumato.microdata import Microdata
from sfumato.rumap import NormalPopulation

_HUGE = 1e15
"""Beyond this a parameter without an upper end is taken to reach nothing more."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Find the parameter φ of a method that maximises the utility while the risk stays at or below r.

    In the general model (section 2.4) `utility` and `risk` are a `Utility` and a `Risk`: users with priors who estimate
    targets. They may just as well be measures of a release: then `method` is a mask or a recipe, `data` a file or a
    `NormalPopulation`, `over` says which parameter to choose, as in `ru_map`, and replications can be asked for.

    Examples
    --------
    >>> from sfumato import KimNoise
    >>> from sfumato.rumap.figures import TEACHERS
    >>> found = Problem(KimNoise(), "salary", "salary", r=1 / 5**2, data=TEACHERS, over="kim_noise.lambda2").solve()
    >>> round(found.parameters["kim_noise.lambda2"], 6)
    0.141331
    """

    method: Method | Mask | Recipe
    utility: Any
    risk: Any
    r: float = 1.0
    data: Microdata | NormalPopulation | None = None
    over: Any = None
    snooper: Snooper | None = None
    replications: int = 0
    draws: Draws | int | None = None

    def __post_init__(self) -> None:
        check_threshold(self.r)
        if isinstance(self.method, Mask | Recipe):
            if self.data is None or self.over is None:
                raise ParameterError(
                    "to choose a mask's parameter, say on which data and over which parameter: "
                    'Problem(KimNoise(), "salary", "salary", r=0.04, data=file, over="kim_noise.lambda2").'
                )
        elif not isinstance(self.method, Method):
            raise ParameterError("the method must be a Method such as AddedNoise(...), a mask, or a recipe.")
        elif not isinstance(self.utility, Utility) or not isinstance(self.risk, Risk):
            raise ParameterError("a Method needs utility=Utility(targets, users) and risk=Risk(targets, users).")
        else:
            if not isinstance(self.method, AddedNoise):
                check_ranges(self.method)
            known = [t.name for t in (*self.utility.targets, *self.risk.targets)]
            for user in (*self.utility.users, *self.risk.users):
                if absent := [n for n in user.estimates or () if n not in known]:
                    raise ParameterError(unknown_name("target", absent[0], known, f"what '{user.name}' could estimate"))

    def solve(self) -> Solution | NoSolution:
        """Return the best parameters; or why there are none, with the constraint that fails and by how much.

        For a method that tells less as its one parameter grows, the smallest safe value is the best: each attacker and target
        has a threshold, in closed form for one published number with normal priors, else by bracketing. Otherwise a grid is
        searched and refined around its best safe point; that needs finite ranges. A simulated risk is judged by its upper limit.
        """
        if isinstance(self.method, Mask | Recipe):
            return self._from_map()
        return self._monotone(self.method) if self.method.monotone else self._searched(self.method)

    # -- one parameter, the more the safer

    def _monotone(self, method: Method) -> Solution | NoSolution:
        ((name, (low, _)),) = method.ranges.items()
        found = {pair: self._threshold(method, pair) for pair in self.risk.pairs()}
        if failing := [pair for pair, value in found.items() if value == math.inf]:
            left = [self._least(method, pair) for pair in failing]
            return NoSolution(tuple(sorted(left, key=lambda c: -c.high)), self.r, _end(method))
        binding, value = max(found.items(), key=lambda item: item[1])
        chosen = {name: max(value, low)}
        names = (binding[0].name, binding[1].name) if value > low else None
        how = "a threshold in closed form" if self._closed(method) else "a threshold by bracketing"
        return self._solution(method, chosen, names, how)

    def _closed(self, method: Method) -> bool:
        views = [u.sees or method for _, u in self.risk.pairs()]
        simple = all(isinstance(v, AddedNoise) and len(v.T) == 1 for v in views)
        return simple and all(self.risk.has_formula(pair, method) for pair in self.risk.pairs())

    def _threshold(self, method: Method, pair: Pair) -> float:
        """Return the smallest parameter at which one attacker is uncertain enough of one target; infinite if none is."""
        ((name, (low, high)),) = method.ranges.items()
        view = pair[1].sees or method
        if isinstance(view, AddedNoise) and len(view.T) == 1 and self.risk.has_formula(pair, method):
            value = noise_threshold(pair, view, self.risk.loss, self.r)
            return value if value <= high else math.inf
        return _bracketed(lambda value: self._excess(method, pair, {name: value}), low, high)

    def _excess(self, method: Method, pair: Pair, phi: Parameters) -> float:
        found = self.risk.of_pair(pair, method, phi)
        return 0.0 if found is None else found.high / self.r

    def _least(self, method: Method, pair: Pair) -> Certainty:
        """Return the smallest certainty that one attacker can be brought to about one target."""
        ((name, (_, high)),) = method.ranges.items()
        view = pair[1].sees or method
        if isinstance(view, AddedNoise) and high == math.inf:
            return limit_certainty(pair, self.risk, view)
        found: Certainty | None = self.risk.of_pair(pair, method, {name: min(high, _HUGE)})
        assert found is not None  # noqa: S101 - what is left out does not fail
        return found

    # -- any parameters

    def _searched(self, method: Method) -> Solution | NoSolution:
        if any(not math.isfinite(end) for ends in method.ranges.values() for end in ends):
            raise ParameterError("a search over the parameters of a method needs a finite range for each.")
        looked = ParameterSearch(self.utility, self.risk, self.r, method)
        looked.run()
        if looked.best is None:
            risk, phi = looked.least
            return NoSolution((risk,), self.r, f"the least risk that was found, at {_named(phi)}")
        return self._solution(method, looked.best[1], None, "a grid, refined around its best safe point")

    def _solution(
        self, method: Method, phi: Mapping[str, float], binding: tuple[str, str] | None, how: str
    ) -> Solution:
        return Solution(dict(phi), self.utility.at(method, phi), self.risk.at(method, phi), self.r, binding, how)

    # -- a release and its measures

    def _from_map(self) -> Solution | NoSolution:
        from sfumato.rumap import ru_map

        assert self.data is not None  # noqa: S101 - checked at construction
        assert isinstance(self.method, Mask | Recipe)  # noqa: S101
        found = ru_map(
            self.data, self.method, self.over, self.risk, self.utility, snooper=self.snooper,
            replications=self.replications, draws=self.draws,
        )  # fmt: skip
        choice = found.choose(max_risk=self.r)
        who = found.evaluator.snooper.describe()
        if not choice.feasible:
            return NoSolution((), self.r, "", choice.reason)
        pair = [
            Certainty(s.value, s.measure, user, *(s.interval or (s.value, s.value)), how)
            for s, user, how in (
                (min(choice.utilities, key=lambda s: s.value), "analyst", "as the measure defines it"),
                (max(choice.risks, key=lambda s: s.value), "snooper", who),
            )
        ]
        return Solution(dict(choice.settings), pair[0], pair[1], self.r, None, choice.reason)


def check_threshold(r: float) -> None:
    """Refuse a threshold that no risk is compared with."""
    if isinstance(r, bool) or not (isinstance(r, int | float) and 0 < r < math.inf):
        raise ParameterError("the risk threshold r must be a number above 0.")


def _bracketed(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest value with excess ≤ 1, for an excess that falls; infinite if the highest has more."""
    from scipy.optimize import brentq

    if excess(low) <= 1 + EXACT:
        return low
    top = high if math.isfinite(high) else max(2 * low, 1.0)
    while excess(top) > 1:
        if math.isfinite(high) or top > _HUGE:
            return math.inf
        top *= 4
    bottom = low
    if not low and math.isinf(high):
        small = top
        while excess(small) <= 1 and small > 1e-300:
            top, small = small, small / 4
        bottom = small
    root = float(brentq(lambda v: min(excess(v), 1e300) - 1, bottom, top, xtol=1e-300, rtol=1e-14, maxiter=200))
    step = 1e-14
    while excess(root) > 1 + EXACT:  # the safe side of the root
        root, step = (root * (1 + step) if root else 1e-300), 2 * step
    return root


def _end(method: Method) -> str:
    ((name, (_, high)),) = method.ranges.items()
    return f"at {name} = {high:g}" if math.isfinite(high) else f"however large {name} is"


def _named(phi: Mapping[str, float]) -> str:
    return ", ".join(f"{k} = {v:.4g}" for k, v in phi.items())
