"""The choice of a search: the recipe with its risk and utility, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.contract import Recipe, Side
from sfumato.contract.score import number
from sfumato.errors import listing
from sfumato.rumap.choice import Choice, named

if TYPE_CHECKING:
    from sfumato.decision.best_recipe.finals import Confirmed
    from sfumato.decision.best_recipe.result import SearchResult


@dataclass(frozen=True)
class SearchChoice(Choice):
    """The chosen recipe with its risk and utility, or the reason why there is none."""

    family: str = ""
    recipe: Recipe | None = field(default=None, compare=False)
    limits: Mapping[str, float] = field(default_factory=dict)
    """By risk: the value below which 95 % of the releases stay."""

    def __str__(self) -> str:
        if not self.feasible:
            return f"infeasible: {self.reason}"
        with_ = f" with {named(self.settings)}" if self.settings else ""
        return f"{self.family}{with_}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for machines."""
        limits = {k: number(v) for k, v in self.limits.items()}
        return {**super().to_dict(), "family": self.family, "limits": limits}


def choice_of(found: SearchResult) -> SearchChoice:
    """Return the most useful recipe within the thresholds, confirmed with fresh seeds; or why there is none.

    Risks, utilities and limits are all of the fresh releases.
    """
    allowed = {found.titles[i]: r for i, r in found.judge.thresholds.items()}
    if found.winner is None:
        return SearchChoice(False, {}, _why_not(found), max_risk=allowed)
    return _chosen(found, found.winner, allowed)


def _chosen(found: SearchResult, winner: Confirmed, allowed: Mapping[str, float]) -> SearchChoice:
    look = winner.look
    scores = [
        replace(m.to_score(o, found.data.schema), measure=title)
        for m, o, title in zip(found.measures, look.observed, found.titles, strict=True)
    ]
    reason = (
        f"the most useful release whose risk holds; masked {look.replications:,} times with fresh seeds, 95 % of the "
        "releases stay within the threshold"
    )
    return SearchChoice(
        True, look.settings, reason,
        tuple(scores[i] for i in found.of_side(Side.RISK)), tuple(scores[i] for i in found.of_side(Side.UTILITY)),
        allowed, look.family.name, look.family.recipe.with_(look.settings),
        {found.titles[i]: found.judge.limit(look, i, own=True) for i in found.judge.thresholds},
    )  # fmt: skip


def _why_not(found: SearchResult) -> str:
    """Return which point came nearest, and by how much it misses."""
    judge = found.judge
    judged = [(judge.verdict(look, own=fresh), look, fresh) for look, fresh in found.points]
    if not judged:
        return "no recipe could be judged on the whole file."
    tried = listing((f.name for f in found.families if f.name not in found.refused), 6)
    if any(v.excess <= 0 and not v.safe for v, _, _ in judged) and not any(v.safe for v, _, _ in judged):
        uses = listing(found.titles[i] for i in judge.anchors)
        return (
            f"where the risk of the recipes ({tried}) holds, they leave nothing to work out {uses} from. Allow more risk, or "
            "measure another utility."
        )
    # what fresh seeds have shown not to hold is nearer to the truth than what a few of the search's own say
    fresh_first = [j for j in judged if j[2]] or judged
    _, look, fresh = min(fresh_first, key=lambda j: j[0].excess)
    closest = ", and ".join(
        f"{found.titles[i]} stays below {judge.limit(look, i, fresh):.4g} in 95 % of the releases, where {r:.4g} is allowed"
        for i, r in judge.thresholds.items()
    )
    settings = f" at {named(look.settings)}" if look.settings else ""
    return (
        f"none of the recipes ({tried}) reaches the threshold. Nearest is {look.family.name}{settings}: {closest}. "
        "Allow more risk, widen the ranges, or add a stronger recipe."
    )
