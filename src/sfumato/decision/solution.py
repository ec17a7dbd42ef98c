"""What solving a disclosure-control problem gives: the parameters, or the constraints that no parameter meets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.contract.score import digits, number
from sfumato.decision.certainty import Certainty


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
