"""The two rules of the matrix-masking paper, each with a threshold of its own kind (erratum 2.11)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.functionals import check_functional, of_explained, of_remaining, relative_to
from sfumato.errors import ParameterError

Numbers = NDArray[np.float64]

_EXPLAINED = {
    "trace": "the variance explained (trace of G)",
    "largest eigenvalue": "the variance explained of the most disclosed combination (largest eigenvalue of G)",
    "each target": "the variance explained of the most disclosed target (largest diagonal entry of G)",
    "log-determinant": "the fall of the log-determinant of the uncertainty",
}
_LEFT = {
    "trace": "the Bayes risk (trace of Var(Y | M))",
    "largest eigenvalue": "the variance left of the most disclosed combination (smallest eigenvalue of Var(Y | M))",
    "each target": "the variance left of the most disclosed target (smallest diagonal entry of Var(Y | M))",
    "log-determinant": "the log-determinant of Var(Y | M)",
}


ROUNDING = 1e-9
"""A value this near to its threshold has reached it: the last digits are those of the arithmetic."""


@dataclass(frozen=True)
class Verdict:
    """Whether a release is accepted, by which rule, and on what grounds."""

    rule: str
    """"explained" (equation 5.1: release if Ω{G} < τ) or "left" (section II: release if the Bayes risk > τ)."""
    functional: str
    value: float
    threshold: float
    accepted: bool
    relative: bool
    """Whether value and threshold are shares of the prior variance; else they are in squared units of the targets."""
    note: str = ""
    """What the value is only a bound for, if it is."""

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        what = (_EXPLAINED if self.rule == "explained" else _LEFT)[self.functional]
        share = ", as a share of the prior variance," if self.relative else ""
        sign = ("<" if self.accepted else "≥") if self.rule == "explained" else (">" if self.accepted else "≤")
        limit = "may be explained" if self.rule == "explained" else "must be left"
        end = {
            ("explained", True): "the mask is τ-acceptable",
            ("explained", False): "the mask is not τ-acceptable",
            ("left", True): "release",
            ("left", False): "do not release",
        }[self.rule, self.accepted]
        said = f"{what}{share} is {self.value:.4g} {sign} {self.threshold:.4g}, the threshold of what {limit}: {end}"
        return f"{said}. {self.note}" if self.note else f"{said}."

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        return self.words


def judge_explained(
    S_yy: Numbers, G: Numbers, tau: float, functional: str = "trace", relative: bool = False, note: str = ""
) -> Verdict:
    """Return whether a release is τ-acceptable: Ω{G} < τ, strictly (equation 5.1). τ bounds what is *explained*.

    Examples
    --------
    >>> print(judge_explained(np.eye(1), np.array([[0.72]]), tau=0.5))
    the variance explained (trace of G) is 0.72 ≥ 0.5, the threshold of what may be explained: the mask is not τ-acceptable.
    """
    tau, functional = check_threshold(tau), check_functional(functional)
    if relative:
        S_yy, G = np.eye(len(G_ := relative_to(S_yy, G, functional))), G_
    value = of_explained(functional, S_yy, G)
    return Verdict("explained", functional, value, tau, below(value, tau), relative, note)


def judge_left(
    S_yy: Numbers, left: Numbers, tau: float, functional: str = "trace", relative: bool = False, note: str = ""
) -> Verdict:
    """Return whether to release by the spy's Bayes risk: release if it exceeds τ (section II). τ bounds what is *left*."""
    tau = check_threshold(tau, "log" if check_functional(functional) == "log-determinant" else "")
    if relative:
        S_yy, left = np.eye(len(left_ := relative_to(S_yy, left, functional))), left_
    value = of_remaining(functional, S_yy, left)
    return Verdict("left", functional, value, tau, value > tau + abs(tau) * ROUNDING, relative, note)


def below(value: float, tau: float) -> bool:
    """Return whether a value is strictly below a threshold, beyond the rounding of either: 0.36/3.6 is not below 0.1."""
    return value < tau * (1 - ROUNDING)


def check_threshold(tau: float, kind: str = "") -> float:
    """Return a threshold as a number; variances have thresholds from 0 upwards, logarithms may have any."""
    if isinstance(tau, bool) or not isinstance(tau, int | float | np.floating | np.integer) or math.isnan(tau):
        raise ParameterError("the threshold tau must be a number.")
    if kind != "log" and tau < 0:
        raise ParameterError(
            f"the threshold tau is {tau:g}, but variances are never negative. Give 0 or more: with τ = 0 nothing at all may be "
            "explained, and no mask is strictly below that."
        )
    return float(tau)
