"""How much noise makes one attacker uncertain enough of one target (RTA paper, section 3.2; ERRATA 3.10, 3.11)."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.decision.certainty import Certainty, Pair, Risk, relative
from sfumato.decision.loss import Loss
from sfumato.decision.observation import AddedNoise, Linear, Method, Publication
from sfumato.decision.prior import Normal
from sfumato.decision.target import prior_uncertainty
from sfumato.decision.uncertainty import posterior
from sfumato.errors import NotApplicable


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
    from scipy.linalg import null_space

    target, user = pair
    still = null_space(method.shape).T  # combinations of the published numbers that the noise does not reach
    if len(still):
        last: Method = Publication(
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
