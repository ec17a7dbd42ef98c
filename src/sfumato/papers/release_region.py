"""The release region of a scalar target, and the bivariate illustration in closed form (sections III and V)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato import charts
from sfumato.errors import ParameterError
from sfumato.lazy import pd
from sfumato.papers.conditional import (
    ROUNDING,
    SLACK,
    Whitening,
    below,
    check_flat,
    check_threshold,
    numbers,
    real,
    square,
    whiten,
)
from sfumato.typing import Flags, Numbers

if TYPE_CHECKING:
    import altair as alt

# The bivariate illustration of the matrix-masking paper (section V), solved in closed form on the projective line.

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
    facts = rho, rho1, rho2, tau = real(rho), real(rho1), real(rho2), real(tau)
    _check(rho, rho1, rho2, tau)
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
    if not 0 < tau < math.inf:
        raise ParameterError(
            "tau must be a number above 0: no mask satisfies the strict criterion 'explained variance < 0', not even one that "
            "releases nothing."
        )
    if 1 - rho * rho - rho1 * rho1 - rho2 * rho2 + 2 * rho * rho1 * rho2 < -_ROUNDING:
        raise ParameterError(
            "no three variables have these correlations (their determinant is negative): if X1 and X2 are closely "
            "correlated, Y must correlate with both nearly alike."
        )


# The release region of a scalar target: an ellipsoid, against standards set attribute by attribute (section III).


_MOST = 16


@dataclass(frozen=True, eq=False)
class ReleaseRegion:
    """The covariances c of a target with the attributes X for which X may be released: c′ S_xx⁻ c < τ, an ellipsoid.

    The target has variance 1; its covariances with attributes of variance 1 are then correlations, and τ is a share of its
    variance. A standard set attribute by attribute, cⱼ²/Sⱼⱼ < τⱼ, is a box, and no box is the ellipsoid: it lets pass what
    discloses together, or stops what does not.

    Examples
    --------
    >>> region = ReleaseRegion(np.eye(2), tau=0.5)
    >>> region.explained([0.6, 0.6]).round(2), region.accepts([0.6, 0.6]), region.accepts_each([0.6, 0.6])
    (array([0.72]), array([False]), array([ True]))
    """

    S_xx: Any
    """Variance of the attributes, shape (p, p)."""
    tau: float

    def __post_init__(self) -> None:
        S = square(self.S_xx, "S_xx")
        whiten(S)
        object.__setattr__(self, "S_xx", S)
        object.__setattr__(self, "tau", check_threshold(self.tau))

    def explained(self, c: ArrayLike) -> Numbers:
        """Return the share of the target's variance that the attributes explain together, for rows c of shape (m, p)."""
        rows, white = self._rows(c), whiten(self.S_xx)
        check_flat(self._along_nothing(rows, white), np.ones(len(rows)))
        return np.asarray(np.square(rows @ white.root.T).sum(axis=1))

    def marginal(self, c: ArrayLike) -> Numbers:
        """Return the share that each attribute explains by itself, cⱼ²/Sⱼⱼ, shape (m, p)."""
        variance = np.diag(self.S_xx)
        rows = self._rows(c)
        return np.divide(rows**2, variance, out=np.zeros_like(rows), where=variance > 0)

    def accepts(self, c: ArrayLike) -> Flags:
        """Return which rows lie in the ellipsoid, shape (m,)."""
        return np.asarray(self.explained(c) < self.tau * (1 - ROUNDING))

    def accepts_each(self, c: ArrayLike, limits: float | Sequence[float] | None = None) -> Flags:
        """Return which rows pass attribute by attribute: every share below its τⱼ (`limits`; τ, if not given), shape (m,)."""
        limit = self._limits(limits)
        return np.asarray((self.marginal(c) < limit * (1 - ROUNDING)).all(axis=1))

    def possible(self, c: ArrayLike) -> Flags:
        """Return which rows any target of variance 1 can have: what is explained is at most 1, shape (m,)."""
        rows, white = self._rows(c), whiten(self.S_xx)
        told = np.square(rows @ white.root.T).sum(axis=1) <= 1 + 1e-9
        return np.asarray(told & (np.abs(self._along_nothing(rows, white)) <= SLACK).all(axis=1))

    def half_axes(self) -> tuple[Numbers, Numbers]:
        """Return the half-lengths √(τλ) of the ellipsoid, longest first, and their directions, shapes (p,) and (p, p)."""
        values, vectors = np.linalg.eigh(self.S_xx)
        return np.sqrt(self.tau * values[::-1].clip(min=0.0)), vectors[:, ::-1].T

    def safe_limit(self) -> float:
        """Return the largest τⱼ, the same for all attributes, with which to pass one by one is to pass together.

        What is explained is largest at a corner of the box, so it is τ / max s′R⁻¹s over signs s, R the correlations. For two
        attributes it is τ(1 - |ρ|)/2. Every larger standard lets something pass that discloses more than τ.
        """
        sd = np.sqrt(np.diag(self.S_xx))
        if whiten(self.S_xx).rank < len(sd):
            raise ParameterError(
                "the attributes are linearly dependent, so that no standard for single ones is safe however small it is. Leave "
                "out those that are sums of others."
            )
        if len(sd) > _MOST:
            raise ParameterError(f"the safe standard is worked out for at most {_MOST} attributes.")
        inverse = np.linalg.inv(self.S_xx / np.outer(sd, sd))
        signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=len(sd) - 1)])
        return float(self.tau / np.einsum("ij,jk,ik->i", signs, inverse, signs).max())

    def volume(self) -> float:
        """Return the volume of the ellipsoid."""
        p = len(self.S_xx)
        return float((math.pi * self.tau) ** (p / 2) / math.gamma(p / 2 + 1) * math.sqrt(np.linalg.det(self.S_xx)))

    def box_volume(self, limits: float | Sequence[float] | None = None) -> float:
        """Return the volume of the box that standards set one by one let pass."""
        return float(np.prod(2 * np.sqrt(self._limits(limits) * np.diag(self.S_xx))))

    def picture(
        self,
        cases: Mapping[str, Sequence[float]],
        limits: float | Sequence[float] | None = None,
        names: tuple[str, str] = ("first attribute", "second attribute"),
    ) -> RegionPicture:
        """Return the region of two attributes as outlines, and cases to mark in it, on the scale of correlations."""
        if not cases:
            raise ParameterError(
                "picture needs at least one case to mark: a name, and the covariances with the target."
            )
        if len(self.S_xx) != 2:
            raise ParameterError("only the region of two attributes can be drawn.")
        sd = np.sqrt(np.diag(self.S_xx))
        if whiten(self.S_xx).rank < 2:
            raise ParameterError("the two attributes say the same, so that the region is a line, which is not drawn.")
        turn = np.linspace(0, 2 * np.pi, 181)
        root = np.linalg.cholesky(self.S_xx / np.outer(sd, sd))
        round_ = np.stack([np.cos(turn), np.sin(turn)], axis=1) @ root.T
        a, b = np.sqrt(self._limits(limits))
        box = np.array([[a, b], [-a, b], [-a, -b], [a, -b], [a, b]])
        lines = {"possible": round_, "together": np.sqrt(self.tau) * round_, "one by one": box}
        outline = pd.concat(
            pd.DataFrame({"region": region, "order": np.arange(len(xy)), "x": xy[:, 0], "y": xy[:, 1]})
            for region, xy in lines.items()
        )
        c = self._rows(list(cases.values()))
        points = pd.DataFrame(
            {
                "case": list(cases),
                "x": c[:, 0] / sd[0],
                "y": c[:, 1] / sd[1],
                "value": self.explained(c),
                "together": self.accepts(c),
                "one_by_one": self.accepts_each(c, limits),
            }
        )
        return RegionPicture(outline, points, names, self.tau)

    def _along_nothing(self, rows: Numbers, white: Whitening) -> Numbers:
        """Return the covariances with what does not vary, shape (m, k): none has any."""
        return np.hstack([rows @ white.null.T, rows[:, np.diag(self.S_xx) == 0]])

    def _rows(self, c: ArrayLike) -> Numbers:
        rows = np.atleast_2d(numbers(c, "the covariances with the target"))
        if rows.ndim != 2 or rows.shape[1] != len(self.S_xx):
            raise ParameterError(
                f"there are {len(self.S_xx)} attributes, so there must be as many covariances with the target."
            )
        if not np.isfinite(rows).all():
            raise ParameterError("the covariances with the target hold missing or infinite numbers.")
        return rows

    def _limits(self, limits: float | Sequence[float] | None) -> Numbers:
        given = numbers(self.tau if limits is None else limits, "limits")
        if given.shape not in ((), (len(self.S_xx),)) or not (given >= 0).all():
            raise ParameterError(f"limits must be one number, or {len(self.S_xx)}, none of them negative.")
        return np.broadcast_to(given, (len(self.S_xx),))


@dataclass(frozen=True, eq=False)
class RegionPicture:
    """A release region of two attributes, ready to be drawn."""

    outline: pd.DataFrame
    """Columns region ("possible", "together", "one by one"), order, x, y."""
    points: pd.DataFrame
    """Columns case, x, y, value (share explained together), together, one_by_one (whether each rule lets it pass)."""
    names: tuple[str, str]
    tau: float

    def frame(self) -> pd.DataFrame:
        """Return the cases with their numbers."""
        return self.points

    def chart(self) -> alt.LayerChart:
        """Draw the ellipse, the box and the cases."""
        return charts.paper_charts.release_region_chart(self.outline, self.points, self.names, self.tau)
