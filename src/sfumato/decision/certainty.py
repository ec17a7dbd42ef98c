"""Utility and risk as relative certainties: U(φ) the smallest of analysts, R(φ) the largest of attackers (RTA paper, 2.4)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from sfumato.decision.loss import Loss, Quadratic
from sfumato.decision.observation import AddedNoise, Linear, Method, Parameters
from sfumato.decision.prior import Normal
from sfumato.decision.simulation import Simulation
from sfumato.decision.target import Kind, Target, User
from sfumato.decision.uncertainty import posterior_uncertainty
from sfumato.errors import NotApplicable, ParameterError, listing

Pair = tuple[Target, User]


@dataclass(frozen=True)
class Certainty:
    """How certain a user is of a target after publication, relative to the base: Ψ(Y) / Ψ(X | Z = z)."""

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
class RelativeCertainty(ABC):
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
            raise ParameterError(f"{what} is about {self.kind} targets; {listing(wrong)} is not.")
        for names in ([t.name for t in self.targets], [u.name for u in self.users]):
            if len(set(names)) < len(names):
                raise ParameterError(f"{what} needs a different name for each target and each user.")
        if not any(True for _ in self.pairs()):
            raise ParameterError(f"no user of {what} estimates any of its targets.")

    def pairs(self) -> Iterator[Pair]:
        """Yield every target with every user who estimates it."""
        return ((t, u) for t in self.targets for u in self.users if u.estimates_target(t))

    def has_formula(self, pair: Pair, method: Method) -> bool:
        """Whether nothing has to be drawn; another method than noise is asked at the lowest value of its parameters."""
        target, user = pair
        if not isinstance(user.prior, Normal) or target.weights is None or target.base_uncertainty(self.loss) is None:
            return False
        view = user.sees or method
        if isinstance(view, AddedNoise):
            return True
        return isinstance(view.observation({name: low for name, (low, _) in view.ranges.items()}), Linear)

    def of_pair(self, pair: Pair, method: Method, phi: Parameters) -> Certainty | None:
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

    def all_at(self, method: Method, phi: Parameters) -> list[Certainty]:
        """Return every relative certainty at φ that is not left out."""
        return [c for pair in self.pairs() if (c := self.of_pair(pair, method, phi)) is not None]

    def at(self, method: Method, phi: Parameters) -> Certainty:
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
class Utility(RelativeCertainty):
    """U(φ) = inf over analytical targets, analysts and z of Ψ(Y) / Ψ(X | Z(φ) = z) (definition 2.4.0.8)."""

    kind: ClassVar[Kind] = "analytical"
    largest: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Risk(RelativeCertainty):
    """R(φ) = sup over confidential targets, attackers and z of Ψ(Y) / Ψ(X | Z(φ) = z) (definition 2.4.0.9)."""

    kind: ClassVar[Kind] = "confidential"
    largest: ClassVar[bool] = True
