"""What a choice says: the parameters with their risk and utility, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.contract import Score


@dataclass(frozen=True)
class Choice:
    """The chosen parameters with their risk and utility, or the reason why there are none."""

    feasible: bool
    settings: Mapping[str, Any]
    reason: str
    risks: tuple[Score, ...] = ()
    utilities: tuple[Score, ...] = ()
    max_risk: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.feasible:
            return f"infeasible: {self.reason}"
        return f"{named(self.settings)}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for machines."""
        return {
            "feasible": self.feasible, "settings": dict(self.settings), "reason": self.reason,
            "max_risk": dict(self.max_risk), "risks": [s.to_dict() for s in self.risks],
            "utilities": [s.to_dict() for s in self.utilities],
        }  # fmt: skip


def named(settings: Mapping[str, Any]) -> str:
    """Return settings in words: ``noise.lambda2 = 0.1413``."""
    return ", ".join(f"{k} = {_shown(v)}" for k, v in settings.items())


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
