"""The R-U map of a policy: what attacks gain against what honest users keep, over q, Γ, the drop share and the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.contract import Section, Side
from sfumato.errors import NotApplicable, ParameterError
from sfumato.mas.attacks.amounts import OutlierDifferencing
from sfumato.mas.attacks.bench import Bench, rules_off
from sfumato.mas.attacks.differencing import Differencing
from sfumato.mas.attacks.honest_users import HonestUsers
from sfumato.mas.attacks.recipe import Outcome, Recipe
from sfumato.mas.attacks.skewed import SkewedDifferencing
from sfumato.mas.map_points import PolicyMeasure, PolicyPoint, measures_of, named_policies, swept_policies
from sfumato.mas.policy import Policy
from sfumato.rumap.choice import Choice
from sfumato.rumap.point_choice import best, limits_of, nothing
from sfumato.rumap.points import Estimate, PointMap

if TYPE_CHECKING:
    import altair as alt

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PolicyChoice(Choice):
    """A chosen policy with its risk and utility, or the reason why there is none."""

    policy: Policy | None = None


@dataclass(frozen=True, eq=False)
class Attackers:
    """Those who attack every point of a map: some recipes on a bench."""

    bench: Bench = field(repr=False)
    recipes: tuple[Recipe, ...]
    rules_off: bool = False
    """Whether they get round the universe rules."""

    def attack(self, policy: Policy, stamp: str, bench: Bench | None = None) -> tuple[Outcome, ...]:
        """Run every recipe that the data have something for; `stamp` tells the accounts of one point from another's."""
        found, attacked = [], rules_off(policy) if self.rules_off else policy
        for recipe in self.recipes:
            try:
                found.append((bench or self.bench).run(recipe, attacked.with_(title=f"{stamp} {recipe.name}")))
            except NotApplicable:
                continue
        return tuple(found)


@dataclass(frozen=True, eq=False)
class PolicyMap(PointMap):
    """Risk and utility of a policy at several settings, or of several policies; made by `policy_map`."""

    points: tuple[PolicyPoint, ...]
    measures: tuple[PolicyMeasure, ...]
    parameters: tuple[str, ...]
    """The settings that were swept."""
    attackers: Attackers

    def estimate(self, measure: int, point: int) -> Estimate:
        """Return a measure's value and its 95 % interval at a point."""
        return self.measures[measure].estimate(self.points[point])

    def choose(
        self, max_risk: float | Mapping[str, float], utility: str | None = None, *, confirm: bool = True
    ) -> PolicyChoice:
        """Return the policy with the largest utility among those whose risk stays at or below `max_risk`.

        A number is the limit of the strongest attack, and so of every one; a mapping limits single recipes by name. A risk is
        judged on the upper end of its 95 % interval. The winner is attacked again in worlds with other coins and secrets; if its
        risk does not hold there, the next best is taken.
        """
        limits = limits_of(self, max_risk, every=False)
        allowed = {self.measures[i].label(): limit for i, limit in limits.items()}
        bench = self.attackers.bench.fresh() if confirm else None

        def again(p: int) -> tuple[PolicyPoint, list[Estimate]]:
            point = self.points[p]
            if bench is not None:
                outcomes = self.attackers.attack(point.policy, _stamp(point.family, point.settings), bench)
                point = PolicyPoint(point.family, point.settings, point.policy, outcomes, point.served)
            return point, [measure.estimate(point) for measure in self.measures]

        found = best(self, limits, self.position(Side.UTILITY, utility), again)
        if found is None:
            return PolicyChoice(False, {}, nothing(self, limits, "policy"), max_risk=allowed)
        point = found[1]
        how = ", confirmed with fresh secrets" if confirm else ""
        risks, uses = (tuple(self.measures[i].score(point) for i in self.of_side(side)) for side in Side)
        return PolicyChoice(
            True, {"policy": point.family, **point.settings}, f"the most useful policy within the risk threshold{how}",
            risks, uses, allowed, point.policy,
        )  # fmt: skip

    def chart(
        self,
        max_risk: float | None = None,
        choice: Choice | None = None,
        risk: str | None = None,
        utility: str | None = None,
    ) -> alt.TopLevelMixin:
        """Draw risk against utility: a curve along the last swept setting for each value of the others."""
        from sfumato.charts.policy_map import policy_map_chart

        r, u = (self.measures[self.position(s, n)].label() for s, n in ((Side.RISK, risk), (Side.UTILITY, utility)))
        if choice is not None and choice.feasible and max_risk is None:
            max_risk = choice.max_risk.get(r)
        return policy_map_chart(self.frame, self.parameters, r, u, max_risk, self.marked(choice, "policy"))

    def report(self, max_risk: float | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""
        from sfumato.mas.map_section import policy_map_section

        return policy_map_section(self, max_risk, choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the map for machines."""
        recipes = [recipe.name for recipe in self.attackers.recipes]
        return {
            "parameters": list(self.parameters), "recipes": recipes, "universe_rules": not self.attackers.rules_off,
            "targets": self.attackers.bench.trials, "replications": len(self.points[0].served), "points": self.records(),
        }  # fmt: skip


def policy_map(
    policies: Policy | Sequence[Policy] | Mapping[str, Policy],
    over: Mapping[str, Sequence[Any]] | None = None,
    *,
    bench: Bench,
    users: HonestUsers,
    recipes: Sequence[Recipe] | None = None,
    rules_off: bool = False,
    replications: int = 1,
    progress: Progress | None = None,
) -> PolicyMap:
    """Attack a policy at several settings, and ask honest questions at the same.

    Every point sees the same worlds, targets and secrets, so that neighbouring points differ by their settings alone.

    Parameters
    ----------
    policies
        What to try: one policy, several, or several by a name of your own.
    over
        Values of settings to sweep: ``{"drop.share": [0.05, 0.1], "counts.sd": [2, 5, 10]}``; see `Policy.set`. Of several, all
        combinations. The policies as they are, if nothing is given.
    bench
        The data to attack, and how many targets.
    users
        The data that honest users ask, and their questions.
    recipes
        The attacks; differencing of counts, the same where nearly all are alike, and of an outlier's amount if not given.
    rules_off
        Whether attacks get round the universe rules: what drops and noise withstand alone. Honest users always ask under
        the policy as it is.
    replications
        With how many secrets the honest questions are asked; intervals of utility need two.
    progress
        Told after each point how many are done, and of how many.
    """
    if isinstance(replications, bool) or not isinstance(replications, int) or replications < 1:
        raise ParameterError("replications must be a whole number of at least 1; 2 or more give intervals.")
    chosen = (Differencing(), SkewedDifferencing(), OutlierDifferencing()) if recipes is None else tuple(recipes)
    if len({recipe.name for recipe in chosen}) < len(chosen) or not chosen:
        raise ParameterError("give at least one recipe, and none twice.")
    attackers = Attackers(bench, chosen, rules_off)
    every = list(swept_policies(named_policies(policies), over or {}))
    points = []
    for done, (family, policy, settings) in enumerate(every):
        stamp = _stamp(family, settings)
        outcomes = attackers.attack(policy, stamp)
        if not outcomes:
            raise NotApplicable(
                "the data have no target for any of the recipes; choose other recipes, or finer cutpoints."
            )
        served = tuple(users.served(policy.with_(title=stamp), r) for r in range(replications))
        points.append(PolicyPoint(family, settings, policy, outcomes, served))
        if progress is not None:
            progress(done + 1, len(every))
    titles = {one.recipe: one.title for point in points for one in point.outcomes}
    return PolicyMap(tuple(points), measures_of(titles), tuple(over or {}), attackers)


def _stamp(family: str, settings: Mapping[str, Any]) -> str:
    """Return what tells a point from all others."""
    return f"{family} {dict(settings)!r}"
