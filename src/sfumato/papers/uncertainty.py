"""Posterior uncertainty in closed form and by Monte Carlo, and relative certainties U(φ) and R(φ) (RTA paper, section 2.3)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract.draws import Draws
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.lazy import stats
from sfumato.papers.conditional import conditional_variance
from sfumato.papers.disclosure_model import (
    AddedNoise,
    DisclosureMethod,
    Kind,
    Linear,
    Loss,
    Normal,
    Observation,
    Parameters,
    Quadratic,
    Sampled,
    Target,
    User,
)
from sfumato.typing import Flags, Numbers

# Posterior uncertainty in closed form: normal priors, linear targets, normal noise (RTA paper, sections 2.3.3 and 3.1.3).


@dataclass(frozen=True, eq=False)
class Posterior:
    """X | Z = z ~ N(mean(z), variance): what a user knows of a target after publication (definition 2.3.2.2).

    The variance does not depend on z. It is infinite, and there is no mean, if what is published says too little about a
    target of which nothing was known.
    """

    prior_mean: float
    weights: Numbers
    """a of the mean m + a'(z - Tm), shape (m,)."""
    centre: Numbers
    """The published numbers that the user expected, Tm."""
    variance: float

    def mean(self, z: ArrayLike) -> float:
        """Return the user's best estimate Θ(X | Z = z)."""
        if self.variance == math.inf:
            return math.nan
        return float(self.prior_mean + self.weights @ (np.atleast_1d(np.asarray(z, np.float64)) - self.centre))


def posterior(user: User, target: Target, published: Linear) -> Posterior:
    """Return what a user with a normal prior knows of a linear target once T D + ε is published.

    With D ~ N(m, V): E(c'D | z) = c'm + c'VT'(TVT' + Σ)⁻(z - Tm), and the variance c'Vc - c'VT'(TVT' + Σ)⁻TVc. Where nothing
    is known of some of D, the limit for a prior variance that grows: the best unbiased linear estimate.

    >>> g = User("g", Normal([50, 50, 5], [500, 0, 50]))
    >>> known = posterior(g, Target("1", [1, 0, 0], base=100), Linear([[1, 1, 1]], 75))
    >>> known.mean(83), round(known.variance, 9)
    (32.4, 100.0)
    """
    prior = user.prior
    if not isinstance(prior, Normal) or target.weights is None:
        raise NotApplicable(
            f"what '{user.name}' knows of '{target.name}' has a formula only for a normal prior and a linear target."
        )
    c, T, V = target._fitting(prior.size), published.T, prior.covariance
    published.check_size(prior.size)
    W, k, own = T @ V @ T.T + published.noise, T @ V @ c, float(c @ V @ c)
    start, free = np.zeros(len(T)), np.eye(len(T))
    if prior.flat.size:
        unbiased = _unbiased(T @ prior.flat, prior.flat.T @ c)
        if unbiased is None:
            return Posterior(math.nan, start, T @ prior.mean, math.inf)
        start, free = unbiased
    left = float(own - 2 * start @ k + start @ W @ start)  # the error of the first unbiased estimate
    with_free, among = free.T @ (k - W @ start), free.T @ W @ free
    if not free.shape[1]:
        return Posterior(float(c @ prior.mean), start, T @ prior.mean, max(left, 0.0))
    variance = float(conditional_variance(left, with_free, among)[0, 0])
    weights = start + free @ np.linalg.lstsq(among, with_free, rcond=1e-12)[0]
    return Posterior(float(c @ prior.mean), weights, T @ prior.mean, variance)


def posterior_uncertainty(user: User, target: Target, published: Linear, loss: Loss | None = None) -> float:
    """Return Ψ(X | Z = z), the same for every z (definition 2.3.3.5); certainty is its reciprocal.

    >>> g = User("g", Normal([50, 40, 5], [500, 200, 50]))
    >>> round(posterior_uncertainty(g, Target("1", [1, 0, 0], base=100), Linear([[1, 1, 1]])), 3)
    166.667
    """
    return (loss or Quadratic()).normal(posterior(user, target, published).variance)


def _unbiased(drift: Numbers, wanted: Numbers) -> tuple[Numbers, Numbers] | None:
    """Return one a with drift'a = wanted, and all directions that keep it so (m, free); None if there is none."""
    u, s, vt = np.linalg.svd(drift.T)
    rank = int((s > 1e-12 * s.max(initial=0.0)).sum())
    a = vt[:rank].T @ ((u[:, :rank].T @ wanted) / s[:rank])
    if np.abs(drift.T @ a - wanted).max(initial=0.0) > 1e-9 * max(float(np.abs(wanted).max(initial=0.0)), 1e-300):
        return None
    return a, vt[rank:].T


Over = Literal["worst", "expected"]
_FEWEST = 30
"""Least number of draws of the data that fit a published value, counted by their weights."""
_MORE = 10
"""Factor on the number of draws for the most extreme z: it lies where the data are rare."""
_LEAST = 2_000
_AT_ONCE = 2_000_000
"""Largest number of weights in memory at once."""


@dataclass(frozen=True)
class SimulatedEstimate:
    """A simulated number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Simulation:
    """How uncertainty is simulated. With a prior that is not normal it depends on what is published, z.

    Published values z are drawn as the user expects them. For each, draws of the data from his prior are weighted by how well
    they fit z, and the loss of the best estimate is averaged. ``over="worst"`` then takes the most extreme of the simulated z,
    which is what the paper's inf and sup over z become: more extreme z that were not simulated stay possible. The extreme z is
    chosen with some draws and judged with others, so that it is not extreme by luck. ``over="expected"`` takes
    the mean over z instead.
    """

    draws: Draws = field(default_factory=Draws.secret)
    published: int = 200
    """Number of values z that are simulated."""
    data: int = 20_000
    """Number of draws of the data that are weighted for each z."""
    over: Over = "worst"

    def __post_init__(self) -> None:
        if not isinstance(self.draws, Draws):
            raise ParameterError("draws must be Draws(seed), or Draws.secret().")
        if self.over not in ("worst", "expected"):
            raise ParameterError(f"over must be 'worst' or 'expected'; got '{self.over}'.")
        if self.published < 2 or self.data < _LEAST:
            raise ParameterError(f"a simulation needs at least 2 published values and {_LEAST:,} draws of the data.")

    @property
    def words(self) -> str:
        """The simulation in words."""
        what = f"{self.published:,} simulated values of what is published"
        return f"the most extreme of {what}" if self.over == "worst" else f"the mean over {what}"

    def posterior(
        self, user: User, target: Target, published: Observation, loss: Loss, largest: bool
    ) -> SimulatedEstimate:
        """Return Ψ(X | Z) for the z at which it is largest (or smallest), or its mean over z, with an interval.

        Random numbers do not depend on the method's parameter, so neighbouring values of it can be compared.
        """
        own = self.draws.child("posterior", user.name, target.name)
        truth = user.prior.sample(own.generator("data"), self.published)
        z = published.sample(truth, own.generator("published"))
        first = _Draws.of(user, target, own.generator("first draws"), self.data)
        found = first.uncertainty(published, z, loss)
        if self.over == "expected":
            between = float(found.psi.std(ddof=1)) / math.sqrt(len(z))
            return _around(float(found.psi.mean()), math.hypot(between, found.error), min(len(z), found.fitting))
        at = int(found.psi.argmax() if largest else found.psi.argmin())
        second = _Draws.of(user, target, own.generator("second draws"), _MORE * self.data)
        judged = second.uncertainty(published, z[at : at + 1], loss)
        return _around(float(judged.psi[0]), judged.error, judged.fitting)

    def base(self, target: Target, loss: Loss) -> SimulatedEstimate:
        """Return Ψ(Y) of a target's base distribution, exactly where there is a formula."""
        exact = target.base_uncertainty(loss)
        if exact is not None:
            return SimulatedEstimate(exact, exact, exact)
        assert isinstance(target.base, Sampled)  # noqa: S101 - the others have a formula
        y = target.base.sample(self.draws.child("base", target.name).generator("data"), self.data)
        if y.shape[1] != 1:
            raise ParameterError(f"the base of target '{target.name}' must be a distribution of one number.")
        values = np.sort(y[:, 0])
        theta, psi = loss.best(values, np.full((1, len(values)), 1 / len(values)))
        spread = float(loss(values, theta[0]).std()) / math.sqrt(len(values))
        return _around(float(psi[0]), spread, len(values))


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the data in rising order of the target's value."""

    data: Numbers
    values: Numbers
    half: Flags
    """Which half of the draws one is in, whatever its value."""

    @classmethod
    def of(cls, user: User, target: Target, generator: np.random.Generator, count: int) -> _Draws:
        data = user.prior.sample(generator, count)
        values = target.values(data)
        order = np.argsort(values, kind="stable")
        return cls(data[order], values[order], order % 2 == 0)

    def uncertainty(self, published: Observation, z: Numbers, loss: Loss) -> _Posteriors:
        """Return Ψ(X | Z = z) for each z; refuse it where too few draws fit, counted by their weights."""
        found, apart, pull = np.empty(len(z)), np.empty(len(z)), np.zeros(len(self.data))
        step = max(1, _AT_ONCE // len(self.data))
        fewest = math.inf
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            fit = published.log_density(z[part], self.data)
            with np.errstate(invalid="ignore"):
                weights = np.exp(fit - fit.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
            fewest = min(fewest, float((1 / np.square(weights).sum(axis=1)).min()))
            if not fewest >= _FEWEST:  # also where nothing fits, which is no number
                raise DataError(
                    f"fewer than {_FEWEST} draws of the data fit what would be published, too few to say what a user knows then. "
                    f"Use more draws, Simulation(data={10 * len(self.data):,}), or a less precise publication."
                )
            found[part], apart[part], pulled = self._best(loss, weights)
            pull += pulled
        return _Posteriors(found, apart, pull, fewest)

    def _best(self, loss: Loss, weights: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return Ψ for each row of weights (j,), how far two estimates of it are apart (j,), and each draw's pull (count,).

        The estimate that is best for the draws does too well on them. One that is best for one half of them, on the other, does
        too badly; a mean of both losses has neither fault to first order (`Loss.optimism`).
        """
        theta, own = loss.best(self.values, weights)
        crossed = np.zeros(len(weights))
        for here in (self.half, ~self.half):
            fitted = weights[:, here]
            sums = fitted.sum(axis=1, keepdims=True)
            other, _ = loss.best(self.values[here], fitted / np.where(sums > 0, sums, 1.0))
            crossed += (weights[:, ~here] * loss(self.values[~here], other[:, None])).sum(axis=1)
        psi = loss.optimism * crossed + (1 - loss.optimism) * own
        # what is minimised does not move with the estimate, so only the weighted losses vary
        pull = (weights * (loss(self.values, theta[:, None]) - own[:, None])).sum(axis=0)
        return psi, crossed - own, pull


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """Ψ for some z, and what the draws of the data make it vary."""

    psi: Numbers
    apart: Numbers
    """Difference of the two losses whose mean is Ψ: Ψ varies about as much by the choice of the estimate."""
    pull: Numbers
    """Influence of each draw of the data on the sum of Ψ."""
    fitting: float
    """Number of draws that fit the z that fewest fit."""

    @property
    def error(self) -> float:
        """The standard error of the mean over z, from the draws of the data: the delta method, and the choice of estimates."""
        return float(np.sqrt(np.square(self.pull).sum() + np.square(self.apart).sum())) / len(self.psi)


def _around(value: float, error: float, draws: float) -> SimulatedEstimate:
    """Return a value with the interval of a standard error from `draws` draws, on the logarithm."""
    reach = math.exp(float(stats.t.ppf(0.975, draws - 1)) * error / value) if value > 0 else 1.0
    return SimulatedEstimate(value, value / reach, value * reach)


# Utility and risk as relative certainties: U(φ) the smallest of analysts, R(φ) the largest of attackers (RTA paper, 2.4).


Pair = tuple[Target, User]


@dataclass(frozen=True)
class Certainty:
    """The certainty of a user about a target after publication, relative to the base: Ψ(Y) / Ψ(X | Z = z)."""

    value: float
    target: str
    user: str
    low: float
    high: float
    how: str
    """"by formula", or what was simulated."""

    @property
    def reciprocal(self) -> float:
        """Cost, if this is a utility; safety, if it is a risk (definitions 2.4.0.8 and 2.4.0.9)."""
        return math.inf if self.value == 0 else 1 / self.value

    def __str__(self) -> str:
        interval = "" if self.low == self.high else f" (95 % interval {self.low:.4g} to {self.high:.4g})"
        about = f"; {self.user} about {self.target}" if self.target else ""
        return f"{self.value:.4g}{interval}{about}, {self.how}"


def relative(base: float, left: float) -> float | None:
    """Return Ψ(Y) / Ψ(X | Z): None, to be left out, if both are zero; infinite if only the latter is (section 2.4).

    >>> relative(100, 50), relative(100, 0), relative(0, 50), relative(0, 0)
    (2.0, inf, 0.0, None)
    """
    if left == 0:
        return None if base == 0 else math.inf
    return base / left


@dataclass(frozen=True, eq=False)
class RelativeCertainties(ABC):
    """The relative certainties of users about targets, of which one counts.

    By formula where priors are normal, targets linear and published numbers linear with normal noise; else `simulation` says
    how to draw.
    """

    targets: Sequence[Target]
    users: Sequence[User]
    loss: Loss = field(default_factory=Quadratic)
    simulation: Simulation | None = None

    kind: ClassVar[Kind]
    largest: ClassVar[bool]

    def __post_init__(self) -> None:
        what = type(self).__name__
        if not self.targets or not self.users:
            raise ParameterError(f"{what} needs at least one target and one user.")
        if wrong := [t.name for t in self.targets if t.kind != self.kind]:
            raise ParameterError(f"{what} is about {self.kind} targets; {join_names(wrong)} is not.")
        for names in ([t.name for t in self.targets], [u.name for u in self.users]):
            if len(set(names)) < len(names):
                raise ParameterError(f"{what} needs a different name for each target and each user.")
        if not any(True for _ in self.pairs()):
            raise ParameterError(f"no user of {what} estimates any of its targets.")

    def pairs(self) -> Iterator[Pair]:
        """Yield every target with every user who estimates it."""
        return ((t, u) for t in self.targets for u in self.users if u.estimates_target(t))

    def has_formula(self, pair: Pair, method: DisclosureMethod) -> bool:
        """Whether nothing has to be drawn; another method than noise is asked at the lowest value of its parameters."""
        target, user = pair
        if not isinstance(user.prior, Normal) or target.weights is None or target.base_uncertainty(self.loss) is None:
            return False
        view = user.sees or method
        if isinstance(view, AddedNoise):
            return True
        return isinstance(view.observation({name: low for name, (low, _) in view.ranges.items()}), Linear)

    def of_pair(self, pair: Pair, method: DisclosureMethod, phi: Parameters) -> Certainty | None:
        """Return the relative certainty of one user about one target at φ; None if it is left out (0/0)."""
        target, user = pair
        published = (user.sees or method).observation(phi)
        base = target.base_uncertainty(self.loss)
        if (
            base is not None
            and isinstance(published, Linear)
            and isinstance(user.prior, Normal)
            and not callable(target.of)
        ):
            found = relative(base, posterior_uncertainty(user, target, published, self.loss))
            return None if found is None else Certainty(found, target.name, user.name, found, found, "by formula")
        if self.simulation is None:
            raise NotApplicable(
                f"what '{user.name}' knows of '{target.name}' has no formula: the prior or the base is not normal, or something "
                "is not linear. Say how to simulate it: simulation=Simulation(Draws(1))."
            )
        basis = self.simulation.base(target, self.loss)
        # a large certainty is a small uncertainty: the worst z for risk is where least is uncertain
        left = self.simulation.posterior(user, target, published, self.loss, largest=not self.largest)
        found = relative(basis.value, left.value)
        if found is None:
            return None
        low, high = relative(basis.low, left.high), relative(basis.high, left.low)
        return Certainty(
            found, target.name, user.name, low or 0.0, math.inf if high is None else high, self.simulation.words
        )

    def all_at(self, method: DisclosureMethod, phi: Parameters) -> list[Certainty]:
        """Return every relative certainty at φ that is not left out."""
        return [c for pair in self.pairs() if (c := self.of_pair(pair, method, phi)) is not None]

    def at(self, method: DisclosureMethod, phi: Parameters) -> Certainty:
        """Return the one that counts at φ; over no certainties at all, utility is infinite and risk is 0."""
        found = self.all_at(method, phi)
        if not found:
            empty = 0.0 if self.largest else math.inf
            return Certainty(empty, "", "", empty, empty, "every ratio is 0/0 and left out")
        extreme = max if self.largest else min
        chosen = extreme(found, key=lambda c: c.value)
        # another pair, simulated less precisely, may be the extreme one: the limits are those of the largest (smallest) of all
        return replace(chosen, low=extreme(c.low for c in found), high=extreme(c.high for c in found))


@dataclass(frozen=True, eq=False)
class Utility(RelativeCertainties):
    """U(φ) = inf over analytical targets, analysts and z of Ψ(Y) / Ψ(X | Z(φ) = z) (definition 2.4.0.8)."""

    kind: ClassVar[Kind] = "analytical"
    largest: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Risk(RelativeCertainties):
    """R(φ) = sup over confidential targets, attackers and z of Ψ(Y) / Ψ(X | Z(φ) = z) (definition 2.4.0.9)."""

    kind: ClassVar[Kind] = "confidential"
    largest: ClassVar[bool] = True
