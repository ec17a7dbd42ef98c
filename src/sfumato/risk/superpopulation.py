"""Models of how large the classes of a population are, fitted to the classes of a sample: how many have one member.

Each function takes the frequencies of frequencies n_i and the sampling fraction π, and returns the share of the population that
is unique. Sampling is Bernoulli: a class of F persons has f ~ Bin(F, π) records in the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from sfumato.errors import NotApplicable
from sfumato.risk.frequencies import Frequencies
from sfumato.risk.likelihood import Fit, fit, with_error

Numbers = NDArray[np.float64]
NONE_SEEN = 3.689
"""The largest mean of a Poisson count that is 0 with a probability of 2.5 %."""


@dataclass(frozen=True)
class Estimate:
    """A share of the population that is unique, with its 95 % interval and the fitted parameters of the model."""

    share: float
    interval: tuple[float, float]
    parameters: dict[str, float]


def zayatz(seen: Frequencies, pi: float) -> Estimate:
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
        return Estimate(share, (share * unique * pi / (unique * pi + two), share), {})
    slopes = -share * once / expected + np.where(i == 1, 2 * share / unique, 0.0)
    return Estimate(share, with_error(share, (share, share), float(seen.counts @ slopes**2)), {})


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


def pitman(seen: Frequencies, pi: float) -> Estimate:
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
    return Estimate(best.share, best.interval, {"theta": theta, "alpha": alpha})


def slide_negative_binomial(seen: Frequencies, pi: float) -> Estimate:
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


def poisson_gamma(seen: Frequencies, pi: float) -> Estimate:
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
) -> Estimate:
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
    return Estimate(best.share, with_error(best.share, best.interval, variance), parameters)


def _valid(found: Fit | None, name: str) -> Fit:
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
