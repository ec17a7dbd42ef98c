"""The bivariate illustration of the matrix-masking paper (section V), solved in closed form on the projective line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sfumato.decision.verdict import below
from sfumato.errors import ParameterError

_ROUNDING = 1e-12
"""How far correlations may miss being possible, by rounding."""


@dataclass(frozen=True)
class BivariateMask:
    """The best release M = a X₁ + b X₂ of two attributes with unit variances, where b = 1 unless the best a is infinite."""

    a: float
    b: float
    kept: float
    """tr Var X - tr Var(X | M): the variance of X₁ and X₂ that M explains, of 2 in all. A supremum, if it is not attained."""
    disclosed: float
    """The share of Y's variance that M explains; equal to τ where the best is only approached."""
    attained: bool
    """Whether [a, b] itself satisfies the strict "<"; if not, masks near it do, as near to `kept` as one likes: see `inside`."""
    indifferent: bool
    """Whether every acceptable mask keeps the same (ρ = 0)."""
    rho: float
    rho1: float
    rho2: float
    tau: float

    @property
    def lost(self) -> float:
        """tr Var(X | M), between 0 and 2."""
        return 2.0 - self.kept

    def inside(self, closeness: float = 1e-6) -> BivariateMask:
        """Return a mask that is τ-acceptable and keeps within about `closeness` of the most; itself, if that is attained."""
        if self.attained:
            return self
        if not 0 < closeness < 1:
            raise ParameterError("closeness must be a number above 0 and below 1, such as 1e-6.")
        near = best_bivariate(self.rho, self.rho1, self.rho2, self.tau * (1 - closeness))
        share = disclosed(near.a, near.b, self.rho, self.rho1, self.rho2)
        return replace(near, tau=self.tau, disclosed=share, attained=True)


def kept(a: float, b: float, rho: float) -> float:
    """Return the variance of (X₁, X₂) that a X₁ + b X₂ explains: the paper's objective, repaired (errata 2.1, 2.2).

    ((1 + ρ²)a² + 4ρab + (1 + ρ²)b²)/(a² + 2ρab + b²); zero where M does not vary.
    """
    variance = a * a + 2 * rho * a * b + b * b
    if variance <= _ROUNDING * (a * a + b * b):
        return 0.0
    return ((1 + rho * rho) * (a * a + b * b) + 4 * rho * a * b) / variance


def disclosed(a: float, b: float, rho: float, rho1: float, rho2: float) -> float:
    """Return the share of Y's variance that a X₁ + b X₂ explains, (ρ₁a + ρ₂b)²/(a² + 2ρab + b²): the paper's constraint."""
    variance = a * a + 2 * rho * a * b + b * b
    if variance <= _ROUNDING * (a * a + b * b):
        return 0.0
    return (rho1 * a + rho2 * b) ** 2 / variance


def best_bivariate(rho: float, rho1: float, rho2: float, tau: float) -> BivariateMask:
    """Return the τ-acceptable M = a X₁ + b X₂ that keeps most: minimal tr Var(X | M) (matrix-masking paper, section V).

    X₁ and X₂ have unit variances and correlation ρ; Y correlates ρ₁ and ρ₂ with them. In the uncorrelated coordinates
    s = (a + b)√((1 + ρ)/2), d = (a - b)√((1 - ρ)/2) a mask is an angle θ between 0 and π, with (s, d) ∝ (cos θ, sin θ). It keeps
    1 + ρ cos 2θ, largest at θ = 0 (a = b) for ρ > 0 and at π/2 (a = -b) for ρ < 0. It discloses |g|² cos²(θ - θ_g), where
    g = ((ρ₁ + ρ₂)/√(2 + 2ρ), (ρ₁ - ρ₂)/√(2 - 2ρ)): the acceptable masks are an arc about the direction orthogonal to g. So the
    best is a = sign ρ if that is acceptable, else the end of the arc that is nearer to it, which "<" itself leaves out. The ends
    are the roots of (ρ₁² - τ)a² + 2(ρ₁ρ₂ - τρ)a + (ρ₂² - τ) = 0 with a = ∞ among them (erratum 2.6).

    Examples
    --------
    >>> best = best_bivariate(rho=0.5, rho1=0.6, rho2=0.2, tau=0.1)
    >>> round(best.a, 3), round(best.kept, 3), best.attained
    (0.281, 1.405, False)
    >>> best_bivariate(rho=-0.5, rho1=0.0, rho2=0.0, tau=0.1).a
    -1.0
    """
    _check(rho, rho1, rho2, tau)
    facts = (rho, rho1, rho2, tau)
    sign = -1.0 if rho < 0 else 1.0
    if abs(rho) == 1.0:  # X₂ = ±X₁: either all is released, or nothing, by a mask that cancels them
        return _mask(1.0, sign if below(rho1 * rho1, tau) else -sign, True, facts)
    if rho != 0 and below(disclosed(sign, 1.0, rho, rho1, rho2), tau):
        return _mask(sign, 1.0, True, facts)
    if rho == 0:  # all keep as much: take the one that discloses nothing; the sum, if none discloses anything
        return _mask(rho2, -rho1, True, facts) if rho1 or rho2 else _mask(1.0, 1.0, True, facts)
    g = (rho1 + rho2) / math.sqrt(2 + 2 * rho), (rho1 - rho2) / math.sqrt(2 - 2 * rho)
    towards = math.atan2(g[1], g[0])
    width = math.acos(min(math.sqrt(tau) / math.hypot(*g), 1.0))
    best = 0.0 if rho > 0 else math.pi / 2
    theta = min((towards - width, towards + width), key=lambda t: abs(math.sin(t - best)))
    s, d = math.cos(theta) / math.sqrt(1 + rho), math.sin(theta) / math.sqrt(1 - rho)
    return _mask(s + d, s - d, False, facts)


def _mask(a: float, b: float, attained: bool, facts: tuple[float, float, float, float]) -> BivariateMask:
    rho, rho1, rho2, tau = facts
    a, b = (1.0, 0.0) if abs(b) <= _ROUNDING * abs(a) else (a / b + 0.0, 1.0)
    share = disclosed(a, b, rho, rho1, rho2) if attained else tau
    return BivariateMask(a, b, kept(a, b, rho), share, attained, rho == 0, rho, rho1, rho2, tau)


def _check(rho: float, rho1: float, rho2: float, tau: float) -> None:
    for name, value in (("rho", rho), ("rho1", rho1), ("rho2", rho2)):
        if not -1 <= value <= 1:
            raise ParameterError(f"{name} must be a correlation, from -1 to 1.")
    if not (math.isfinite(tau) and tau > 0):
        raise ParameterError(
            "tau must be a number above 0: no mask satisfies the strict criterion 'explained variance < 0', not even one that "
            "releases nothing."
        )
    if 1 - rho * rho - rho1 * rho1 - rho2 * rho2 + 2 * rho * rho1 * rho2 < -_ROUNDING:
        raise ParameterError(
            "no three variables have these correlations (their determinant is negative): if X1 and X2 are closely "
            "correlated, Y must correlate with both nearly alike."
        )
