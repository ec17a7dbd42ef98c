"""How many persons are unique in the population: sampling fraction, frequencies of frequencies, superpopulation models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, gammaln, logit
from typing_extensions import override

from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.contract import CandidateClasses, ClassModel, Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data.classes import Classes, Missing
from sfumato.errors import NotApplicable, count_of, plural
from sfumato.lazy import optimize
from sfumato.risk.keys import RiskMeasure, released_classes
from sfumato.typing import Flags, Numbers


def fraction_parameter() -> Any:
    """Declare the parameter `fraction`, which every estimator of population risk has."""
    return param(
        default=None,
        doc="records of the file for each person of the population; told by the survey weights if it is not given",
        low=0,
        above=True,
        high=1,
    )


def fraction_source(given: float | None) -> str:
    """Return where the sampling fraction comes from, for a measure's variant."""
    return "sampling fraction from the weights" if given is None else f"sampling fraction {given:g}"


def sampling_fraction(released: Classes, given: float | None) -> float:
    """Return records / persons of the population: as given, or the number of records over the sum of their weights.

    Refuse in a sentence where neither is known. The classes must have been counted with weights.
    """
    if given is not None:
        return given
    if released.weights is None:
        raise NotApplicable(
            "how large a share of the population the file holds is not known. "
            "Say so with fraction=..., or give the column of survey weights the role 'weight'."
        )
    fraction = float(released.sizes.sum() / released.weights.sum())
    if fraction > 1 + 1e-9:
        raise NotApplicable(
            "the survey weights add up to fewer persons than there are records, so they do not say how large the "
            "population is. Correct them, or say how large a share of it the file is, with fraction=0.1 for a tenth."
        )
    return min(fraction, 1.0)


def household_warning(outcome: Release) -> str:
    """Return what a reader must know where whole households may have been drawn, which is not Bernoulli sampling of persons.

    Members who look alike come into the file together, as if many persons outside it looked like a record.
    """
    if outcome.masked.schema.one("household") is None:
        return ""
    return "; far too low if whole households were drawn and their members look alike"


@dataclass(frozen=True, eq=False)
class Frequencies:
    """n_i, the number of keys that occur i times, for every i that occurs.

    Where a missing key matches anything, a record counts in i the records that match it, and n_i is the number of such
    records over i: without missing keys that is the number of classes of i records.
    """

    sizes: Numbers
    """i, rising, shape (m,)."""
    counts: Numbers
    """n_i, shape (m,)."""

    @property
    def records(self) -> float:
        """n = Σ i·n_i."""
        return float(self.sizes @ self.counts)

    @property
    def classes(self) -> float:
        """Σ n_i, the number of keys that occur."""
        return float(self.counts.sum())

    def at(self, size: int) -> float:
        """Return n_i of one i.

        >>> Frequencies(np.array([1.0, 3.0]), np.array([5.0, 2.0])).at(3)
        2.0
        """
        return float(self.counts[self.sizes == size].sum())


def frequencies_of(released: Classes) -> Frequencies:
    """Return the frequencies of frequencies of a file's classes."""
    sizes, place = np.unique(released.matches, return_inverse=True)
    records = np.bincount(place, released.sizes, len(sizes))
    return Frequencies(sizes.astype(np.float64), records / sizes)


# --- Maximum likelihood with two parameters, and the likelihood interval of a share that they imply.

Z = 1.959963984540054
"""Normal quantile of a 95 % interval; Z²/2 is how far the log-likelihood may fall."""
EDGE = 15.0
"""Parameters are transformed to the line; beyond ±15 a model equals its limit (e⁻¹⁵ is 3·10⁻⁷)."""


@dataclass(frozen=True)
class LikelihoodFit:
    """The maximum of a likelihood, and what a share is in the region where the likelihood is not much lower."""

    x: Numbers
    share: float
    interval: tuple[float, float]


def fit(
    log_likelihood: Callable[[Numbers], float], share: Callable[[Numbers], float], start: Numbers
) -> LikelihoodFit | None:
    """Maximise a log-likelihood of two transformed parameters; None where there is no proper maximum.

    The interval is the range of `share` over the parameters whose log-likelihood is within Z²/2 of the largest: it needs no
    curvature, so it holds where the maximum is at the edge of the model too.
    The region is searched slice by slice of the first parameter.
    """

    def loss(x: Numbers) -> float:
        value = -log_likelihood(np.clip(x, -EDGE, EDGE))
        return value if math.isfinite(value) else 1e300

    tries = [
        optimize.minimize(
            loss, s, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-8, "maxiter": 2000, "maxfev": 2000}
        )
        for s in (start, start + np.array([-3.0, 1.0]))
    ]
    best = min(tries, key=lambda found: float(found.fun))
    settled = any(
        found.success and found.fun < best.fun + 1e-4 for found in tries
    )  # at the edge rounding may keep one going
    x = np.clip(np.asarray(best.x, np.float64), -EDGE, EDGE)
    value = share(x)
    if not settled or not math.isfinite(value) or not 0 < value <= 1:
        return None
    return LikelihoodFit(x, value, _region(loss, share, x))


def _region(loss: Callable[[Numbers], float], share: Callable[[Numbers], float], x: Numbers) -> tuple[float, float]:
    """Return the smallest and largest share where the loss is within Z²/2 of its minimum at x."""
    limit = loss(x) + Z**2 / 2
    found = [share(x)]

    def slice_at(first: float, second: float) -> float | None:
        """Note the shares at both ends of the region where the first parameter is `first`; return the best second one there."""
        best = optimize.minimize_scalar(
            lambda v: loss(np.array([first, v])), bracket=(second - 0.1, second + 0.1), tol=1e-4
        )
        if not best.fun <= limit:
            return None
        for way in (1.0, -1.0):
            far = float(best.x) + way * _reach(loss, np.array([first, float(best.x)]), np.array([0.0, way]), limit)
            found.append(share(np.clip([first, far], -EDGE, EDGE)))
        return float(best.x)

    for way in (1.0, -1.0):
        first, second, step = float(x[0]), float(x[1]), 0.1
        slice_at(first, second)
        while step > 1e-3 and abs(first) < EDGE:
            ahead = float(np.clip(first + way * step, -EDGE, EDGE))
            at = slice_at(ahead, second)
            first, second, step = (first, second, step / 3) if at is None else (ahead, at, step * 1.4)
    return min(found), max(found)


def _reach(loss: Callable[[Numbers], float], x: Numbers, way: Numbers, limit: float) -> float:
    """Return how far one may go from x before the loss exceeds the limit, or the edge is passed."""
    near, far = 0.0, 1e-3
    while far < 2 * EDGE and loss(x + far * way) <= limit:
        near, far = far, 2 * far
    while far - near > 1e-2 * far:
        middle = (near + far) / 2
        near, far = (middle, far) if loss(x + middle * way) <= limit else (near, middle)
    return near


def with_error(share: float, interval: tuple[float, float], variance: float) -> tuple[float, float]:
    """Return the interval of a share widened for what varies besides, on the scale of the logit."""
    if not 0 < share < 1:
        return interval
    scale = share * (1 - share)
    middle, extra = float(logit(share)), (Z * math.sqrt(variance) / scale) ** 2
    low, high = (float(logit(min(max(end, 1e-300), 1 - 1e-16))) - middle for end in interval)
    return float(expit(middle - math.sqrt(low**2 + extra))), float(expit(middle + math.sqrt(high**2 + extra)))


# --- Models of how large the classes of a population are, fitted to the classes of a sample: how many have one member.
#
# Each function takes the frequencies of frequencies n_i and the sampling fraction π, and returns the share of the population that
# is unique. Sampling is Bernoulli: a class of F persons has f ~ Bin(F, π) records in the file.


NONE_SEEN = 3.689
"""The largest mean of a Poisson count that is 0 with a probability of 2.5 %."""


@dataclass(frozen=True)
class UniquesEstimate:
    """A share of the population that is unique, with its 95 % interval and the fitted parameters of the model."""

    share: float
    interval: tuple[float, float]
    parameters: dict[str, float]


def zayatz(seen: Frequencies, pi: float) -> UniquesEstimate:
    """Return the estimate of the equivalence class model (Zayatz 1991): population classes are as large as the sample's.

    P(F=1 | f=1) = n₁P(f=1|F=1) / Σ n_i P(f=1|F=i) by Bayes' rule, P(f=1|F=i) hypergeometric, and there are n₁/π times as many
    unique persons. The variance takes the n_i as independent Poisson counts; it says nothing of the assumption.
    """
    n = seen.records
    i, once = seen.sizes, _seen_once(seen.sizes, n, n / pi)
    unique, expected = seen.at(1), float(seen.counts @ once)
    share = unique / n * min(unique * pi / expected, 1.0)
    if len(i) == 1:  # no class of two was seen, though up to 3.69 could have been expected
        two = NONE_SEEN * float(_seen_once(np.array([2.0]), n, n / pi)[0])
        return UniquesEstimate(share, (share * unique * pi / (unique * pi + two), share), {})
    slopes = -share * once / expected + np.where(i == 1, 2 * share / unique, 0.0)
    return UniquesEstimate(share, with_error(share, (share, share), float(seen.counts @ slopes**2)), {})


def _seen_once(i: Numbers, n: float, total: float) -> Numbers:
    """Return P(f=1) of classes of i persons if n of all are drawn: i·n/N·Π (N-n-k)/(N-1-k) over k < i-1, shape (m,)."""
    once = np.zeros(len(i))
    fits = i < total - n + 1.5
    others = i[fits] - 1
    logs = _log_falling(np.maximum(total - n, others), others) - _log_falling(total - 1, others)
    once[fits] = i[fits] * n / total * np.exp(logs)
    return once


def _log_falling(x: Numbers | float, m: Numbers) -> Numbers:
    """Return log x(x-1)...(x-m+1), which does not lose its digits where x is very large and m is not."""
    y = np.asarray(x, np.float64) + 1
    rest = y - m
    far = np.maximum(rest, 100.0)
    # Stirling's series of both log gammas, what is equal in them left out
    series = m * np.log(y) - (far - 0.5) * np.log1p(-np.minimum(m / y, 1 - 1e-16)) - m
    series += (1 / y - 1 / far) / 12 - (1 / y**3 - 1 / far**3) / 360
    return np.where(rest >= 100, series, gammaln(y) - gammaln(np.maximum(rest, 1e-9)))


def pitman(seen: Frequencies, pi: float) -> UniquesEstimate:
    """Return the estimate of Pitman's sampling formula with parameters θ and α (Hoshino 2001), by maximum likelihood.

    The expected share of unique persons among N is Π_{i<N} (θ+α+i-1)/(θ+i), which for large N is Γ(θ+1)/Γ(θ+α)·N^(α-1).
    """
    _several_sizes(seen, "pitman")
    n, u, total = seen.records, seen.classes, seen.records / pi

    def unpack(x: Numbers) -> tuple[float, float]:
        alpha = float(expit(x[1]))
        return math.exp(x[0]) - alpha, alpha  # θ > -α

    def log_likelihood(x: Numbers) -> float:
        theta, alpha = unpack(x)
        return _rising(theta + alpha, u - 1, alpha) - _rising(theta + 1, n - 1, 1.0) + float(
            seen.counts @ (gammaln(seen.sizes - alpha) - gammaln(1 - alpha))
        )  # fmt: skip

    def share(x: Numbers) -> float:
        theta, alpha = unpack(x)
        return math.exp(_rising(theta + alpha, total - 1, 1.0) - _rising(theta + 1, total - 1, 1.0))

    best = _valid(fit(log_likelihood, share, np.array([math.log(max(u / 2, 1.0)), 0.0])), "pitman")
    theta, alpha = unpack(best.x)
    return UniquesEstimate(best.share, best.interval, {"theta": theta, "alpha": alpha})


def dirichlet_multinomial(seen: Frequencies, pi: float) -> UniquesEstimate:
    """Return the estimate of the Dirichlet-multinomial model with K keys and κ (Takemura 1999), by maximum likelihood.

    It is Pitman's formula with a negative α = -κ and θ = Kκ, so the same expected share of unique persons: that of F = 1 in K
    keys, each with F ~ BetaBin(N, κ, κ(K - 1)). K is estimated, and may lie between whole numbers.
    """
    _several_sizes(seen, "dirichlet_multinomial")
    n, u, total = seen.records, seen.classes, seen.records / pi

    def unpack(x: Numbers) -> tuple[float, float]:
        return math.exp(x[0]), u + math.exp(x[1])

    def log_likelihood(x: Numbers) -> float:
        kappa, keys = unpack(x)
        chosen_keys = (u - 1) * math.log(kappa) + float(_log_falling(keys - 1, np.array([u - 1]))[0])
        within = float(seen.counts @ (gammaln(seen.sizes + kappa) - gammaln(1 + kappa)))
        return chosen_keys - _rising(kappa * keys + 1, n - 1, 1.0) + within

    def share(x: Numbers) -> float:
        kappa, keys = unpack(x)
        return math.exp(_rising(kappa * (keys - 1), total - 1, 1.0) - _rising(kappa * keys + 1, total - 1, 1.0))

    start = np.array([-1.0, math.log(max(u, 2.0))])
    best = _valid(fit(log_likelihood, share, start), "dirichlet_multinomial")
    kappa, keys = unpack(best.x)
    return UniquesEstimate(best.share, best.interval, {"kappa": kappa, "keys of the population": keys})


def slide_negative_binomial(seen: Frequencies, pi: float) -> UniquesEstimate:
    """Return the estimate of the slide negative binomial model (Chen and Keller-McNulty 1998): F - 1 ~ NegBin(a, p).

    In the file f is a Bernoulli(π) plus a NegBin(a, p/(p+(1-p)π)). a and p maximise the likelihood of the classes seen,
    given that they are (f > 0); there are K = classes / P(f>0) classes in the population, and K·p^a unique persons.
    """
    _several_sizes(seen, "snb")
    i = seen.sizes

    def seen_once(a: float, p: float) -> tuple[Numbers, float, float]:
        thinned = p / (p + (1 - p) * pi)
        after = _negative_binomial(i - 1, a, thinned) + math.log(pi)
        full = _negative_binomial(i, a, thinned) + (math.log1p(-pi) if pi < 1 else -math.inf)
        empty = (1 - pi) * math.exp(a * math.log(thinned))
        return np.logaddexp(after, full), empty, math.exp(a * math.log(p))

    return _mixture(seen, pi, seen_once, "snb")


def poisson_gamma(seen: Frequencies, pi: float) -> UniquesEstimate:
    """Return the estimate of the Poisson-gamma model (Bethlehem, Keller and Pannekoek 1990): F ~ NegBin(a, p).

    In the file f ~ NegBin(a, p/(p+(1-p)π)). a and p maximise the likelihood of the classes seen, given that they are (f > 0),
    so that the number of keys that could occur need not be known; there are a·p^a·(1-p)·classes / P(f>0) unique persons.
    """
    _several_sizes(seen, "poisson_gamma")
    i = seen.sizes

    def seen_once(a: float, p: float) -> tuple[Numbers, float, float]:
        thinned = p / (p + (1 - p) * pi)
        empty = math.exp(a * math.log(thinned))
        return _negative_binomial(i, a, thinned), empty, a * (1 - p) * math.exp(a * math.log(p))

    return _mixture(seen, pi, seen_once, "poisson_gamma")


def _mixture(
    seen: Frequencies, pi: float, seen_once: Callable[[float, float], tuple[Numbers, float, float]], name: str
) -> UniquesEstimate:
    """Fit class sizes with parameters a and p: log P(f=i) of each i, P(f=0) and P(F=1) come from `seen_once`."""
    n, classes = seen.records, seen.classes
    total = n / pi

    def unpack(x: Numbers) -> tuple[float, float]:
        a, mean = math.exp(x[0]), math.exp(x[1])
        return a, a / (a + mean)

    def log_likelihood(x: Numbers) -> float:
        logs, empty, _ = seen_once(*unpack(x))
        return float(seen.counts @ logs) - classes * math.log1p(-min(empty, 1 - 1e-16))

    def share(x: Numbers) -> float:
        _, empty, unique = seen_once(*unpack(x))
        return classes * unique / (1 - min(empty, 1 - 1e-16)) / total

    start = np.array([0.0, math.log(max(total / classes - 1, 0.1))])
    best = _valid(fit(log_likelihood, share, start), name)
    a, p = unpack(best.x)
    logs, empty, unique = seen_once(a, p)
    # the number of unique persons varies about what the model expects: those in the file, and those in classes unseen
    known = pi * unique / math.exp(float(logs[seen.sizes == 1][0]))
    unseen = classes * (1 - pi) * unique / (1 - empty)
    variance = (seen.at(1) * known * (1 - known) + unseen + unseen**2 / classes) / total**2
    parameters = {"a": a, "p": p, "classes of the population": classes / (1 - empty)}
    return UniquesEstimate(best.share, with_error(best.share, best.interval, variance), parameters)


def _valid(found: LikelihoodFit | None, name: str) -> LikelihoodFit:
    if found is None:
        raise NotApplicable(f"the model '{name}' has no valid estimate for these classes. Try another model.")
    return found


def _negative_binomial(y: Numbers, a: float, p: float) -> Numbers:
    """Return log P(Y = y) of NegBin(a, p), of mean a(1-p)/p."""
    return np.asarray(gammaln(y + a) - gammaln(a) - gammaln(y + 1) + a * math.log(p) + y * math.log1p(-p))


def _rising(start: float, terms: float, step: float) -> float:
    """Return Σ log(start + k·step), k = 0 .. terms-1."""
    if step * terms < 1e-4 * start:
        return terms * (math.log(start) + step * (terms - 1) / (2 * start))
    first = start / step
    return terms * math.log(step) + float(gammaln(first + terms) - gammaln(first))


def _several_sizes(seen: Frequencies, name: str) -> None:
    if len(seen.sizes) < 2:
        raise NotApplicable(
            f"all keys of the file are shared by the same number of records, which does not tell the parameters of the model "
            f"'{name}'. Try another model, or fewer keys."
        )


Model = Literal["dankar", "zayatz", "pitman", "snb", "poisson_gamma", "dirichlet_multinomial"]
MODELS: dict[str, Callable[[Frequencies, float], UniquesEstimate]] = {
    "zayatz": zayatz,
    "pitman": pitman,
    "snb": slide_negative_binomial,
    "poisson_gamma": poisson_gamma,
    "dirichlet_multinomial": dirichlet_multinomial,
}
NAMES = {
    "dankar": "rule of Dankar et al.",
    "zayatz": "equivalence class model of Zayatz",
    "pitman": "model of Pitman",
    "snb": "slide negative binomial model",
    "poisson_gamma": "Poisson-gamma model",
    "dirichlet_multinomial": "Dirichlet-multinomial model",
}
SMALL = 0.1
"""Sampling fraction up to which the rule of Dankar et al. takes Pitman's model."""


class PopulationUniques(RiskMeasure, ClassModel):
    """The share of persons whose keys nobody else in the population has, estimated from the released file as a sample.

    The same share of the released records is expected to be unique in the population: whoever knows their keys, and that the
    person is in the file or not, cannot mistake them. The models differ in what they assume of the sizes of the population's
    classes; "dankar" chooses between three of them by the sampling fraction and by their estimates.
    """

    title: ClassVar[str] = "records unique in the population"
    sentence: ClassVar[str] = "about {percent_digits} % of the records are unique in the population"

    model: Model = param(
        default="dankar",
        doc="what is assumed of the sizes of the population's classes; 'dankar' chooses between the models",
    )
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    needs_limit: ClassVar[bool] = True

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        return np.asarray(table.sizes == 1)

    @override
    def amount(self, table: CandidateClasses) -> float:
        sizes, counts = np.unique(table.sizes, return_counts=True)
        seen, n = Frequencies(sizes.astype(np.float64), counts.astype(np.float64)), float(table.sizes.sum())
        if self.fraction is None and table.total is None:
            raise NotApplicable(
                "how large a share of the population the file holds is not known. Say so with fraction=0.1."
            )
        pi = min(n / table.total, 1.0) if self.fraction is None and table.total else self.fraction or 1.0
        if not seen.at(1):
            return 0.0
        return seen.at(1) / n if pi == 1 else chosen(self.model, seen, pi)[1].share

    @override
    @property
    def variant(self) -> str:
        return f"{NAMES[self.model]}; {fraction_source(self.fraction)}; {RULES[self.missing]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit the model to the sizes of the released classes."""
        released = released_classes(outcome, snooper, self.missing, weighted=self.fraction is None)
        pi = sampling_fraction(released, self.fraction)
        seen = frequencies_of(released)
        n, unique = seen.records, seen.at(1)
        if unique == 0:
            raise NotApplicable(
                "no released record is unique on the keys, so none of them is unique in the population either, and nothing tells "
                "how many other persons are. Try more keys."
            )
        used, estimate = (
            ("", UniquesEstimate(unique / n, (unique / n,) * 2, {})) if pi == 1 else chosen(self.model, seen, pi)
        )
        share = estimate.share
        how = f" ({NAMES[used]})" if used else " (the file is the whole population)"
        score = self.result(
            share,
            f"{count_of(round(unique), round(n), ('is', 'are'))} unique in the file; about {digits(share * n)} of them would be "
            f"unique among the {plural(round(n / pi), 'person')} of the population{how}"
            f"{household_warning(outcome) if pi < 1 else ''}",
            interval=estimate.interval,
            details={
                "unique records": unique,
                "released records unique in the population": share * n,
                "persons unique in the population": share * n / pi,
                "sampling fraction": pi,
                **estimate.parameters,
            },
        )
        return score if used in ("", self.model) else replace(score, variant=f"{self.variant}; took the {NAMES[used]}")


def chosen(model: str, seen: Frequencies, pi: float) -> tuple[str, UniquesEstimate]:
    """Return a model's estimate and its name; "dankar" chooses (Dankar, El Emam, Neisa and Roffey 2012).

    Up to a sampling fraction of 0.1: Pitman. Beyond: the lower of Zayatz and SNB. Where a model has no valid estimate the rule
    falls back on Zayatz, whose formula always has one.
    """
    if model != "dankar":
        return model, MODELS[model](seen, pi)
    first = "pitman" if pi <= SMALL else "snb"
    fallback = zayatz(seen, pi)
    try:
        estimate = MODELS[first](seen, pi)
    except NotApplicable:
        return "zayatz", fallback
    return ("zayatz", fallback) if first == "snb" and fallback.share < estimate.share else (first, estimate)
