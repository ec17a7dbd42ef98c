"""Simple random tabular adjustment: one cell total with a normal adjustment (RTA paper, section 3), solved in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract.draws import Draws
from sfumato.errors import ParameterError
from sfumato.papers.conditional import numbers, real
from sfumato.papers.disclosure_model import AddedNoise, Linear, Normal, Target, User
from sfumato.papers.disclosure_problem import NoSolution, Problem, Solution, check_threshold
from sfumato.papers.uncertainty import Certainty, Posterior, Risk, Utility, posterior
from sfumato.typing import Flags, Numbers, Whole

TOTAL = "total"
_OUTSIDER = "an outsider"


@dataclass(frozen=True)
class Published:
    """An adjusted total, and the variance of the adjustment: both are published."""

    total: float
    sigma2: float


@dataclass(frozen=True, eq=False)
class SimpleRTA:
    """A cell total published as Σ d_i + Δ, Δ ~ N(0, σ²), so that no user learns too much of a contribution.

    `prior` holds the variances v_gh² of what user g knows of contributor h, shape (users, contributors); `base` the base
    variances w_h², shape (contributors,); 0 for a contribution that is not confidential. Contributors are numbered from 1.
    With `own`, `prior` holds one variance r_h² for each contributor: every contributor is a user who knows his own value, and
    of the others what the variances say (section 3.3); a single contributor is attacked by an outsider (ERRATA 3.5).

    Examples
    --------
    >>> SimpleRTA([[500, 200, 50]], base=[100, 0, 0]).solve().parameters
    {'sigma2': 0.0}
    >>> SimpleRTA([[500, 0, 50]], base=[100, 0, 0]).solve().parameters
    {'sigma2': 75.0}
    >>> round(SimpleRTA.from_sizes([40, 30, 15], prior_cv=1 / 2, base_cv=1 / 4).solve().parameters["sigma2"], 5)
    77.08333
    """

    prior: Numbers
    base: Numbers
    means: Numbers | None
    own: bool

    def __init__(self, prior: ArrayLike, base: ArrayLike, means: ArrayLike | None = None, own: bool = False) -> None:
        v, w = numbers(prior, "the prior variances"), np.atleast_1d(numbers(base, "the base variances"))
        v = np.atleast_1d(v) if own else np.atleast_2d(v)
        n = v.shape[-1]
        if v.ndim != (1 if own else 2) or w.shape != (n,) or not n or not v.size:
            raise ParameterError(
                "a cell needs one base variance for each contributor, and for each user one prior variance per contributor."
            )
        if not all(np.isfinite(a).all() and (a >= 0).all() for a in (v, w)):
            raise ParameterError("prior and base variances must be finite numbers of at least 0.")
        m = None if means is None else numbers(means, "the means")
        if m is not None:
            if m.shape not in ((), v.shape, v.shape[-1:]) or not np.isfinite(m).all():
                raise ParameterError(
                    "a cell needs one finite mean for each contributor, or one for each user and contributor."
                )
            m = np.broadcast_to(m, v.shape)
        for field, value in (("prior", v), ("base", w), ("means", m), ("own", bool(own))):
            object.__setattr__(self, field, value)

    @classmethod
    def from_sizes(cls, sizes: ArrayLike, prior_cv: float, base_cv: float) -> SimpleRTA:
        """Return the cell whose contributors know each other to within a coefficient of variation.

        r_i² = ε²s_i² and w_i² = η²s_i², with ε = `prior_cv` and η = `base_cv`: nobody may come to know another's contribution
        better than to η, as far as he did not know it before.
        """
        s = np.atleast_1d(numbers(sizes, "sizes"))
        if s.ndim != 1 or not np.isfinite(s).all():
            raise ParameterError("sizes must be a list of finite numbers, one for each contributor.")
        for name, cv in (("prior_cv", prior_cv), ("base_cv", base_cv)):
            if not 0 <= real(cv) < math.inf:
                raise ParameterError(f"{name} must be a number of at least 0.")
        with np.errstate(over="ignore"):  # variances that are not finite are refused
            return cls((real(prior_cv) * s) ** 2, (real(base_cv) * s) ** 2, own=True)

    @property
    def contributors(self) -> int:
        """Number of contributors to the cell."""
        return len(self.base)

    # -- the closed form

    def solve(self, r: float = 1.0) -> Solution | NoSolution:
        """Return the smallest σ² with risk at or below r: σ² = max(0, sup of v_gh⁴/(v_gh² - w_h²/r) - v_g*²).

        For contributors who know their own, in time proportional to their number: only pairs with g the largest r_g² or h the
        largest r_h⁴/(r_h² - w_h²) matter (ERRATA 3.3, 3.7). No solution if v_gh² ≤ w_h²/r for some w_h > 0 (ERRATA 3.10). To
        publish a rounded σ², round up: 77 in place of 77.08333 breaks the constraint (ERRATA 3.2).
        """
        r = check_threshold(r)
        guarded = self.base > 0
        with np.errstate(over="ignore"):
            known = self.prior <= self.base / r
        if (known & guarded).any():
            return NoSolution(tuple(self._failing(known & guarded)), r, "however large sigma2 is")
        sigma2, g, h = self._own_level(r) if self.own else self._level(r)
        binding = (_contribution(h), self._user(g)) if sigma2 > 0 else None
        sigma2 = max(sigma2, 0.0)
        return Solution({"sigma2": sigma2}, self.utility(sigma2), self.risk(sigma2), r, binding, "a closed form")

    def _needed(self, variance: Numbers, r: float) -> Numbers:
        """Return v⁴/(v² - w²/r) by contributor, minus infinity where nothing is to be guarded."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(self.base > 0, variance**2 / (variance - self.base / r), -np.inf)

    def _level(self, r: float) -> tuple[float, int, int]:
        needed = self._needed(self.prior, r) - self.prior.sum(axis=1, keepdims=True)
        g, h = np.unravel_index(int(needed.argmax()), needed.shape)
        return float(needed[g, h]), int(g), int(h)

    def _own_level(self, r: float) -> tuple[float, int, int]:
        needed, total = self._needed(self.prior, r), float(self.prior.sum())
        if self.contributors == 1:
            return float(needed[0]) - total, -1, 0
        g, h = int(self.prior.argmax()), int(needed.argmax())
        others = np.where(np.arange(self.contributors) == g, -np.inf, needed)
        users = np.where(np.arange(self.contributors) == h, -np.inf, self.prior)
        best = max(
            (needed[h] + users.max(), int(users.argmax()), h), (others.max() + self.prior[g], g, int(others.argmax()))
        )
        return float(best[0]) - total, best[1], best[2]

    # -- utility and risk

    def utility(self, sigma2: float) -> Certainty:
        """Return U(σ²): infinite at σ² = 0, where the total is known exactly (ERRATA 3.12)."""
        totals = self._totals()
        added = _checked(sigma2)
        left = np.where(totals > 0, _ratio(totals * added, totals + added), 0.0)
        ratio = _ratio(np.full(len(totals), self.base.sum()), left)  # NaN where both are zero: left out
        if np.isnan(ratio).all():
            return Certainty(math.inf, TOTAL, "", math.inf, math.inf, "every ratio is 0/0 and left out")
        g = int(np.where(np.isnan(ratio), np.inf, ratio).argmin())
        value = float(ratio[g])
        return Certainty(value, TOTAL, self._user(g), value, value, "by formula")

    def risk(self, sigma2: float) -> Certainty:
        """Return R(σ²), over users g and contributors h; g ≠ h for contributors who know their own (ERRATA 3.3)."""
        if self.own:
            attackers, variance = self._worst_attackers(), self.prior
            total = self.prior.sum() - np.where(attackers < 0, 0.0, self.prior[attackers])
        else:
            attackers, variance = np.arange(len(self.prior))[:, None], self.prior
            total = self.prior.sum(axis=1, keepdims=True)
        seen = total + _checked(sigma2)
        # v² - v⁴/seen, written so that nothing cancels
        left = np.where(seen > 0, variance * _ratio(np.maximum(seen - variance, 0.0), seen), variance)
        ratio = _ratio(np.broadcast_to(self.base, left.shape), left)
        if np.isnan(ratio).all():
            return Certainty(0.0, "", "", 0.0, 0.0, "every ratio is 0/0 and left out")
        at = np.unravel_index(int(np.where(np.isnan(ratio), -np.inf, ratio).argmax()), ratio.shape)
        value, h = float(ratio[at]), int(at[-1])
        g = int(attackers[h]) if self.own else int(at[0])
        return Certainty(value, _contribution(h), self._user(g), value, value, "by formula")

    def _worst_attackers(self) -> Whole:
        """Return for each contributor the other one whose own contribution is least known: the best informed attacker."""
        if self.contributors == 1:
            return np.array([-1])
        order = np.argsort(self.prior, kind="stable")
        worst = np.full(self.contributors, order[-1])
        worst[order[-1]] = order[-2]
        return worst

    def _totals(self) -> Numbers:
        """Return v_g*² of each user, shape (users,)."""
        if not self.own:
            return np.asarray(self.prior.sum(axis=1))
        return np.asarray(self.prior.sum() - (self.prior if self.contributors > 1 else np.zeros(1)))

    def posterior(self, sigma2: float, user: int = 1, contributor: int | None = None) -> Posterior:
        """Return what a user knows after publication of a contribution, or of the total; users and contributors count from 1."""
        known, h = self._users(), None if contributor is None else contributor - 1
        if not 1 <= user <= len(known) or (h is not None and not 0 <= h < self.contributors):
            raise ParameterError(
                f"there are {len(known):,} users and {self.contributors:,} contributors, counted from 1."
            )
        weights = np.ones(self.contributors) if h is None else np.eye(self.contributors)[h]
        published = Linear(np.ones((1, self.contributors)), _checked(sigma2))
        return posterior(known[user - 1], Target("", weights, base=0.0), published)

    # -- the general model

    def problem(self, r: float = 1.0) -> Problem:
        """Return the same as an instance of the general model: targets, users, priors. It looks at every pair."""
        n, users = self.contributors, self._users()
        confidential = [Target(_contribution(h), np.eye(n)[h], float(self.base[h])) for h in range(n)]
        total = Target(TOTAL, np.ones(n), float(self.base.sum()), kind="analytical")
        return Problem(AddedNoise(np.ones((1, n))), Utility([total], users), Risk(confidential, users), r)

    def _users(self) -> list[User]:
        n = self.contributors
        means = np.zeros_like(self.prior) if self.means is None else self.means
        if not self.own:
            return [User(self._user(g), Normal(means[g], v)) for g, v in enumerate(self.prior)]
        if n == 1:
            return [User(_OUTSIDER, Normal(means, self.prior))]
        made = []
        for g in range(n):
            others = (*(_contribution(h) for h in range(n) if h != g), TOTAL)
            made.append(User(self._user(g), Normal(means, np.where(np.arange(n) == g, 0.0, self.prior)), others))
        return made

    def _user(self, g: int) -> str:
        if not self.own:
            return f"user {g + 1}"
        return _OUTSIDER if g < 0 or self.contributors == 1 else f"contributor {g + 1}"

    def _failing(self, known: Flags) -> list[Certainty]:
        """Return the constraints that nothing meets, worst first: what is known already, relative to the base."""
        ratio = _ratio(np.broadcast_to(self.base, self.prior.shape), self.prior)
        attackers = self._worst_attackers() if self.own else None
        made = []
        for at in np.argwhere(known):
            g, value = int(at[0]) if attackers is None else int(attackers[at[-1]]), float(ratio[tuple(at)])
            how = "what is known before publication"
            made.append(Certainty(value, _contribution(int(at[-1])), self._user(g), value, value, how))
        return sorted(made, key=lambda c: -c.value)

    def publish(self, total: float, sigma2: float, draws: Draws) -> Published:
        """Draw an adjustment and add it to the total; publish both what comes out and σ²."""
        if not math.isfinite(total):
            raise ParameterError("the total must be a finite number.")
        delta = math.sqrt(_checked(sigma2)) * float(draws.normals(np.zeros(1, np.int64), "adjustment")[0])
        return Published(float(total) + delta, float(sigma2))


def _contribution(h: int) -> str:
    return f"contribution {h + 1}"


def _checked(sigma2: float) -> float:
    if not 0 <= (added := real(sigma2)) < math.inf:
        raise ParameterError("sigma2 must be a number of at least 0.")
    return added


def _ratio(a: Numbers, b: Numbers) -> Numbers:
    """Return a / b: infinite where only b is zero, NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(a / b)
