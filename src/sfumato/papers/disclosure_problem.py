"""The disclosure-control problem: maximise U(φ) subject to R(φ) ≤ r (RTA paper, problem 2.2.0.2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sfumato.contract import Draws, Mask, Recipe, Snooper
from sfumato.contract.score import digits, number
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError, refuse_unknown
from sfumato.lazy import linalg, optimize
from sfumato.maps import NormalPopulation, ru_map
from sfumato.papers.conditional import real
from sfumato.papers.disclosure_model import (
    AddedNoise,
    DisclosureMethod,
    Linear,
    Loss,
    Normal,
    Publication,
    Quadratic,
    Target,
    User,
    check_ranges,
    prior_uncertainty,
)
from sfumato.papers.uncertainty import Certainty, Pair, Risk, Utility, posterior, relative
from sfumato.typing import Numbers


@dataclass(frozen=True)
class Solution:
    """The parameters that maximise U subject to R ≤ r, with U and R there."""

    parameters: Mapping[str, Any]
    utility: Certainty
    risk: Certainty
    r: float
    binding: tuple[str, str] | None
    """Target and attacker that set the parameter; None if the method is safe at its mildest, or if a grid was searched."""
    how: str

    feasible: ClassVar[bool] = True

    @property
    def cost(self) -> float:
        """The reciprocal of the utility."""
        return self.utility.reciprocal

    @property
    def safety(self) -> float:
        """The reciprocal of the risk."""
        return self.risk.reciprocal

    def __str__(self) -> str:
        named = ", ".join(
            f"{k} = {v:.6g}" if isinstance(v, int | float) else f"{k} = {v}" for k, v in self.parameters.items()
        )
        return f"{named}: U = {digits(self.utility.value, 4)}, R = {digits(self.risk.value, 4)} where {self.r:g} is allowed"

    def to_dict(self) -> dict[str, Any]:
        """Return the solution for machines."""
        return {
            "feasible": True, "parameters": dict(self.parameters), "utility": number(self.utility.value),
            "risk": number(self.risk.value), "r": self.r, "binding": None if self.binding is None else list(self.binding),
            "how": self.how,
        }  # fmt: skip


@dataclass(frozen=True)
class NoSolution:
    """No parameter is safe: the constraints that fail, worst first, each with the least certainty that can be reached."""

    failing: tuple[Certainty, ...]
    r: float
    where: str
    """Where the least certainty is reached."""
    said: str = ""
    """The reason in other words, where it does not come from users and targets."""

    feasible: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """Which constraint fails, and by how much."""
        if not self.failing:
            return self.said
        worst = self.failing[0]
        more = len(self.failing) - 1
        others = (
            f" {more:,} further constraint{'s' if more > 1 else ''} fail{'' if more > 1 else 's'} too." if more else ""
        )
        if worst.value < self.r < worst.high:
            by = (
                f"was simulated as {digits(worst.value, 4)} with an upper limit of {digits(worst.high, 4)}, where {self.r:g} is "
                "allowed; more draws would narrow that"
            )
        elif math.isclose(worst.value, self.r, rel_tol=1e-12):
            by = f"comes as near to {self.r:g} as one likes, but never reaches it"
        else:
            by = f"stays at {digits(worst.value, 4)} or more, where {self.r:g} is allowed"
        return f"the certainty of {worst.user} about {worst.target} {by}, {self.where}.{others}"

    def __str__(self) -> str:
        return f"no solution: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the reason for machines."""
        failing = [{"target": c.target, "user": c.user, "least": number(c.value)} for c in self.failing]
        return {"feasible": False, "r": self.r, "failing": failing, "reason": self.reason}


EXACT = 1e-12
"""A formula's own rounding must not turn a binding constraint into a broken one."""
_GRID = {1: 65, 2: 21, 3: 11}
_ZOOMS = 8


class ParameterSearch:
    """A search over several parameters: what has been found so far."""

    def __init__(self, utility: Utility, risk: Risk, r: float, method: DisclosureMethod) -> None:
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
        made = optimize.minimize(
            cost, start, method="SLSQP", bounds=ends, constraints={"type": "ineq", "fun": room}, tol=1e-12
        )
        if np.isfinite(made.x).all():
            self.at(low + np.clip(made.x, 0, 1) * span)


# How much noise makes one attacker uncertain enough of one target (RTA paper, section 3.2; ERRATA 3.10, 3.11).


def noise_threshold(pair: Pair, method: AddedNoise, loss: Loss, r: float) -> float:
    """Return the smallest φ at which Ψ(Y) / Ψ(X | Z) ≤ r, for one published number; infinite if there is none, 0 if any will do.

    With target variance v², covariance b with the exact number and its variance μ, the posterior variance is
    v² - b²/(μ + φs): it reaches w² at φ = (b²/(v² - w²) - μ)/s. For a contribution b = v², so v⁴/(v² - w²) - v_*² as printed.
    """
    target, user = pair
    base = target.base_uncertainty(loss)
    assert base is not None  # noqa: S101 - where there is a formula
    assert isinstance(user.prior, Normal)  # noqa: S101
    assert target.weights is not None  # noqa: S101
    if base == 0:
        return 0.0  # a target that needs no protection sets no constraint
    wanted = loss.normal_variance(base / r)
    if wanted == 0:
        raise NotApplicable(
            f"'{user.name}' with a normal prior never hits '{target.name}' exactly, so a zero-one loss without a tolerance says "
            "nothing. Give one: ZeroOne(5)."
        )
    V, t = user.prior.covariance, method.T[0]
    if (t @ user.prior.flat).any():
        return _flat_threshold(pair, method, wanted)
    if (target.weights @ user.prior.flat).any():
        return 0.0  # nothing is known of it, and nothing that is published is about it
    v, b, mu = float(target.weights @ V @ target.weights), float(target.weights @ V @ t), float(t @ V @ t)
    if b == 0:
        return 0.0 if v >= wanted else math.inf
    if not v > wanted:
        return math.inf  # at v² = w² it is only approached
    return _level(b**2 / (v - wanted) - mu, method)


def _flat_threshold(pair: Pair, method: AddedNoise, wanted: float) -> float:
    """Return the same where nothing is known of some numbers: the variance is then a straight line in φ, or does not move."""
    target, user = pair
    none, one = (posterior(user, target, Linear(method.T, noise)).variance for noise in (0.0, 1.0))
    if one in (none, math.inf):
        return 0.0 if none >= wanted else math.inf
    return _level((wanted - none) / (one - none), method)


def _level(noise: float, method: AddedNoise) -> float:
    """Return the φ that gives this noise variance in all."""
    missing = noise - float(method.fixed[0, 0])
    if missing <= 0:
        return 0.0
    return missing / float(method.shape[0, 0]) if method.shape[0, 0] > 0 else math.inf


def limit_certainty(pair: Pair, risk: Risk, method: AddedNoise) -> Certainty:
    """Return the certainty that is left however much noise there is: from the numbers that carry none, and the prior."""
    target, user = pair
    still = linalg.null_space(method.shape).T  # combinations of the published numbers that the noise does not reach
    if len(still):
        last: DisclosureMethod = Publication(
            lambda never: Linear(still @ method.T, still @ method.fixed @ still.T), {"never": (0, 1)}
        )
        found = risk.of_pair((target, replace(user, sees=last)), last, {"never": 0.0})
        value, low, high = (math.inf,) * 3 if found is None else (found.value, found.low, found.high)
        return Certainty(value, target.name, user.name, low, high, "what is known however much noise there is")
    base = target.base_uncertainty(risk.loss)
    if base is not None and isinstance(user.prior, Normal) and target.weights is not None:
        left = prior_uncertainty(user, target, risk.loss)
    else:
        assert risk.simulation is not None  # noqa: S101 - what has no formula is simulated
        draws = risk.simulation.draws.child("prior", user.name, target.name).generator("data")
        left = risk.loss.uncertainty(target.values(user.prior.sample(draws, risk.simulation.data)))
        base = risk.simulation.base(target, risk.loss).value
    ratio = relative(base, left)
    value = math.inf if ratio is None else ratio
    return Certainty(value, target.name, user.name, value, value, "what is known before publication")


# The disclosure-control problem: maximise U(φ) subject to R(φ) ≤ r (RTA paper, problem 2.2.0.2).


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
    >>> from sfumato.masks import KimNoise
    >>> from sfumato.papers.ru_paper import TEACHERS
    >>> found = Problem(KimNoise(), "salary", "salary", r=1 / 5**2, data=TEACHERS, over="kim_noise.lambda2").solve()
    >>> round(found.parameters["kim_noise.lambda2"], 6)
    0.141331
    """

    method: DisclosureMethod | Mask | Recipe
    utility: Any
    risk: Any
    r: float = 1.0
    data: Microdata | NormalPopulation | None = None
    over: Any = None
    snooper: Snooper | None = None
    replications: int = 0
    draws: Draws | int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", check_threshold(self.r))
        if isinstance(self.method, Mask | Recipe):
            if self.data is None or self.over is None:
                raise ParameterError(
                    "to choose a mask's parameter, say on which data and over which parameter: "
                    'Problem(KimNoise(), "salary", "salary", r=0.04, data=file, over="kim_noise.lambda2").'
                )
        elif not isinstance(self.method, DisclosureMethod):
            raise ParameterError("the method must be a Method such as AddedNoise(...), a mask, or a recipe.")
        elif not isinstance(self.utility, Utility) or not isinstance(self.risk, Risk):
            raise ParameterError("a Method needs utility=Utility(targets, users) and risk=Risk(targets, users).")
        else:
            if not isinstance(self.method, AddedNoise):
                check_ranges(self.method)
            known = [t.name for t in (*self.utility.targets, *self.risk.targets)]
            for user in (*self.utility.users, *self.risk.users):
                refuse_unknown("target", known, f"what '{user.name}' could estimate", *(user.estimates or ()))

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

    def _monotone(self, method: DisclosureMethod) -> Solution | NoSolution:
        ((name, (low, high)),) = method.ranges.items()
        found = {pair: self._threshold(method, pair) for pair in self.risk.pairs()}
        if failing := [pair for pair, value in found.items() if value == math.inf]:
            left = [self._least(method, pair) for pair in failing]
            where = f"at {name} = {high:g}" if math.isfinite(high) else f"however large {name} is"
            return NoSolution(tuple(sorted(left, key=lambda c: -c.high)), self.r, where)
        binding, value = max(found.items(), key=lambda item: item[1])
        chosen = {name: max(value, low)}
        names = (binding[0].name, binding[1].name) if value > low else None
        how = "a threshold in closed form" if self._closed(method) else "a threshold by bracketing"
        return self._solution(method, chosen, names, how)

    def _closed(self, method: DisclosureMethod) -> bool:
        views = [u.sees or method for _, u in self.risk.pairs()]
        simple = all(isinstance(v, AddedNoise) and len(v.T) == 1 for v in views)
        return simple and all(self.risk.has_formula(pair, method) for pair in self.risk.pairs())

    def _threshold(self, method: DisclosureMethod, pair: Pair) -> float:
        """Return the smallest parameter at which one attacker is uncertain enough of one target; infinite if none is."""
        ((name, (low, high)),) = method.ranges.items()
        view = pair[1].sees or method
        if isinstance(view, AddedNoise) and len(view.T) == 1 and self.risk.has_formula(pair, method):
            value = noise_threshold(pair, view, self.risk.loss, self.r)
            return value if value <= high else math.inf

        def excess(value: float) -> float:
            found = self.risk.of_pair(pair, method, {name: value})
            return 0.0 if found is None else found.high / self.r

        return _bracketed(excess, low, high)

    def _least(self, method: DisclosureMethod, pair: Pair) -> Certainty:
        """Return the smallest certainty that one attacker can be brought to about one target."""
        ((name, (_, high)),) = method.ranges.items()
        view = pair[1].sees or method
        if isinstance(view, AddedNoise) and high == math.inf:
            return limit_certainty(pair, self.risk, view)
        found: Certainty | None = self.risk.of_pair(pair, method, {name: min(high, _HUGE)})
        assert found is not None  # noqa: S101 - what is left out does not fail
        return found

    # -- any parameters

    def _searched(self, method: DisclosureMethod) -> Solution | NoSolution:
        if any(not math.isfinite(end) for ends in method.ranges.values() for end in ends):
            raise ParameterError("a search over the parameters of a method needs a finite range for each.")
        looked = ParameterSearch(self.utility, self.risk, self.r, method)
        looked.run()
        if looked.best is None:
            risk, phi = looked.least
            where = ", ".join(f"{k} = {v:.4g}" for k, v in phi.items())
            return NoSolution((risk,), self.r, f"the least risk that was found, at {where}")
        return self._solution(method, looked.best[1], None, "a grid, refined around its best safe point")

    def _solution(
        self, method: DisclosureMethod, phi: Mapping[str, float], binding: tuple[str, str] | None, how: str
    ) -> Solution:
        return Solution(dict(phi), self.utility.at(method, phi), self.risk.at(method, phi), self.r, binding, how)

    # -- a release and its measures

    def _from_map(self) -> Solution | NoSolution:
        assert self.data is not None  # noqa: S101 - checked at construction
        assert isinstance(self.method, Mask | Recipe)  # noqa: S101
        found = ru_map(
            self.data, self.method, self.over, self.risk, self.utility, snooper=self.snooper,
            replications=self.replications, draws=self.draws,
        )  # fmt: skip
        choice = found.choose(max_risk=self.r)
        who = found.subject.evaluator.snooper.describe()
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


def check_threshold(r: float) -> float:
    """Return a threshold as a float; refuse one that no risk is compared with."""
    if isinstance(r, bool) or not 0 < real(r) < math.inf:
        raise ParameterError("the risk threshold r must be a number above 0.")
    return real(r)


def _bracketed(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest value with excess ≤ 1, for an excess that falls; infinite if the highest has more."""
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
    root = float(
        optimize.brentq(lambda v: min(excess(v), 1e300) - 1, bottom, top, xtol=1e-300, rtol=1e-14, maxiter=200)
    )
    step = 1e-14
    while excess(root) > 1 + EXACT:  # the safe side of the root
        root, step = (root * (1 + step) if root else 1e-300), 2 * step
    return root


# The noise of the R-U paper as an instance of the general model: attackers of a record, analysts of means.


@dataclass(frozen=True, eq=False)
class NoisyRecords:
    """n records of a normal population, released with additive noise of covariance λ²·shape (R-U paper, equation 3.1).

    The snooper of the paper, who takes the released value as it is, is the attacker of whom nothing more is known: his prior is
    flat, and his posterior variance λ²σ². One who shrinks has the population as his prior. Analysts have a flat prior of the
    means. With base uncertainties of 1 the relative certainties are the paper's U = 1/MSE and R = 1/MSE.

    Examples
    --------
    >>> from sfumato.masks import KimNoise
    >>> from sfumato.papers.ru_paper import TEACHERS
    >>> records = NoisyRecords.of(TEACHERS, KimNoise())
    >>> round(records.problem("salary", error=5).solve().parameters["lambda2"], 6)
    0.141331
    >>> round(records.problem("salary", error=5, attacker="shrinks").solve().parameters["lambda2"], 6)
    0.164593
    """

    population: NormalPopulation
    shape: Numbers
    """Covariance of the noise at λ² = 1, zero for columns that are not masked, shape (k, k)."""

    @classmethod
    def of(cls, population: NormalPopulation, mask: Mask | Recipe) -> NoisyRecords:
        """Take the shape of the noise from a mask with a level `lambda2`, whatever level it is at."""
        steps = mask.as_recipe().steps if isinstance(mask, Mask) else mask.steps
        levels = [f"{s.name}.lambda2" for s in steps if "lambda2" in s.mask.parameters()]
        if len(levels) != 1:
            raise NotApplicable("the mask must be additive noise with one level, lambda2, such as KimNoise().")
        recipe = (mask.as_recipe() if isinstance(mask, Mask) else mask).with_({levels[0]: 1.0})
        shape = recipe.noise(tuple(population.means), population.covariance, population.schema)
        if shape is None:
            raise NotApplicable(
                "the mask is not additive noise, so its records are not the data plus something normal."
            )
        return cls(population, shape)

    @property
    def method(self) -> AddedNoise:
        """What is published of one record: all its columns, those that are masked with noise."""
        return AddedNoise(np.eye(len(self.shape)), self.shape, name="lambda2")

    def attacker(self, prior: Literal["flat", "shrinks"] = "flat") -> User:
        """Return who attacks a record that he found: knowing nothing more, or the population it comes from."""
        means = np.array(list(self.population.means.values()), np.float64)
        if prior == "flat":
            return User("snooper", Normal.unknown(len(means)))
        if prior != "shrinks":
            raise ParameterError(f"an attacker's prior is 'flat' or 'shrinks'; got '{prior}'.")
        return User("snooper who shrinks", Normal(means, self.population.covariance))

    def value(self, column: str, base: float = 1.0) -> Target:
        """Return a person's value in a column as a confidential target."""
        return Target(column, self._weights({column: 1.0}), base)

    def analyst(self) -> User:
        """Return who estimates means from n released records, and knows nothing before: sampling is noise to him, too."""
        n, k = self.population.n, len(self.shape)
        seen = AddedNoise(np.eye(k), self.shape / n, self.population.covariance / n, name="lambda2")
        return User("analyst", Normal.unknown(k), sees=seen)

    def mean(self, weights: str | Mapping[str, float], base: float = 1.0) -> Target:
        """Return a mean, or a combination of means, as an analytical target."""
        named = {weights: 1.0} if isinstance(weights, str) else weights
        title = " ".join(f"{w:+g} mean {n}" for n, w in named.items())
        return Target(title, self._weights(named), base, kind="analytical")

    def problem(
        self,
        column: str,
        error: float,
        means: str | Mapping[str, float] | None = None,
        attacker: Literal["flat", "shrinks"] = "flat",
        loss: Loss | None = None,
    ) -> Problem:
        """Return: maximise the certainty of means while a snooper is off by `error` or more about a column.

        `error` is the root of the expected loss under quadratic loss, the expected loss itself under another one.
        """
        if not 0 < error < math.inf:
            raise ParameterError("the error must be a number above 0, in the column's unit.")
        measured = loss or Quadratic()
        base = error**2 if isinstance(measured, Quadratic) else error
        risk = Risk([self.value(column, base)], [self.attacker(attacker)], measured)
        utility = Utility([self.mean(means if means is not None else column)], [self.analyst()])
        return Problem(self.method, utility, risk, 1.0)

    def _weights(self, named: Mapping[str, float]) -> Numbers:
        names = list(self.population.means)
        refuse_unknown("column", names, "the population", *named)
        return np.array([float(named.get(name, 0.0)) for name in names])
