"""The R-U map of a policy: what attacks gain against what honest users keep, over its settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from sfumato.charts.captions import counted, short, spoken, tabled
from sfumato.contract.score import Figure, Score, Section, Side
from sfumato.errors import NotApplicable, ParameterError
from sfumato.maps.choice import Choice, named
from sfumato.maps.points import Estimate, MapTrial, PointMap, best, limits_of, nothing, points_table
from sfumato.mas.attacks.base import Outcome, PolicyAttack
from sfumato.mas.attacks.bench import Bench, rules_off
from sfumato.mas.attacks.differencing import Differencing, OutlierDifferencing, SkewedDifferencing
from sfumato.mas.attacks.reference_workload import Honest, HonestUsers
from sfumato.mas.policy import Policy, check_settings

if TYPE_CHECKING:
    import altair as alt

# --- map points
# The points of a map of policies: what attacks achieved at each, and what honest users got.

STRONGEST = "strongest attack"


@dataclass(frozen=True, eq=False)
class PolicyPoint(MapTrial):
    """One policy with its settings, what came of the attacks on it, and how it served honest users."""

    policy: Policy
    outcomes: tuple[Outcome, ...]
    """One for each recipe."""
    served: tuple[Honest, ...]
    """One for each replication."""

    @property
    def at(self) -> str:
        """The settings in words."""
        return named(self.settings) or "as it is"

    @override
    @property
    def label(self) -> str:
        return f"{self.family} ({self.at})" if self.settings else self.family


@dataclass(frozen=True)
class PolicyMeasure:
    """A number about a policy: the gain of an attack, or what honest users keep."""

    title: str
    side: Side
    of: Callable[[Honest], float] | str
    """What to take of how users were served; for a risk the name of a recipe, or nothing for the strongest of all."""
    meaning: str
    variant: str = ""

    def label(self) -> str:
        """Return its name on the map."""
        return self.title

    def estimate(self, point: PolicyPoint) -> Estimate:
        """Return the value at a point, and its 95 % interval where there is one."""
        if isinstance(self.of, str):
            return gain([one for one in point.outcomes if self.of in ("", one.recipe)])
        return mean([self.of(one) for one in point.served])

    def score(self, point: PolicyPoint) -> Score:
        """Return the value at a point with its meaning."""
        value, interval = self.estimate(point)
        return Score(self.title, self.side, value, self.meaning, interval)


def gain(outcomes: Sequence[Outcome]) -> Estimate:
    """Return by how much the most successful of some attacks is right more often than without asking, at least 0.

    The ends of the interval are the largest of the lower and of the upper limits (Wilson's, less the baseline). The upper one
    holds: it is not below that of the attack which is truly the strongest.
    """
    if not outcomes:
        return math.nan, None
    gains = [[bound - one.success.baseline for bound in (one.success.rate, *one.success.interval)] for one in outcomes]
    value, low, high = (max(0.0, *column) for column in zip(*gains, strict=True))
    return value, (low, high)


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean of replications and Student's interval; none for one replication."""
    from scipy.special import stdtrit

    found = np.array(values)
    value = float(found.mean())
    if len(found) < 2 or math.isnan(value):
        return value, None
    half = float(stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / math.sqrt(len(found)))
    return value, (value - half, value + half)


def tables_kept(served: Honest) -> float:
    """Return the share of tables that were answered, times 1 less the median relative error of their counts."""
    return _times(served.tables, max(0.0, 1 - served.error))


def models_kept(served: Honest) -> float:
    """Return the share of regressions that were answered, times the median overlap of their intervals."""
    return _times(served.models, served.overlap)


def _times(answered: float, kept: float) -> float:
    return 0.0 if answered == 0 else answered * kept


USES = (
    PolicyMeasure(
        "tables kept", Side.UTILITY, tables_kept,
        "share of tables answered, times 1 less the median relative error of their counts",
    ),
    PolicyMeasure(
        "regressions kept", Side.UTILITY, models_kept,
        "share of regressions answered, times the median overlap of confidence intervals",
    ),
    PolicyMeasure("questions answered", Side.UTILITY, lambda served: served.answered, "share of questions answered"),
    PolicyMeasure(
        "accuracy of counts", Side.UTILITY, lambda served: max(0.0, 1 - served.error),
        "1 less the median relative error of counts in answered tables",
    ),
    PolicyMeasure(
        "interval overlap", Side.UTILITY, lambda served: served.overlap,
        "median overlap of confidence intervals in answered regressions",
    ),
)  # fmt: skip
"""What honest users keep; the first two count a refusal as nothing kept."""


def measures_of(outcomes: Mapping[str, str]) -> tuple[PolicyMeasure, ...]:
    """Return the measures of a map whose recipes have these titles: the strongest attack, each one, and what users keep."""
    words = "right answers above the baseline"
    each = [
        PolicyMeasure(recipe, Side.RISK, recipe, f"{words}: {title}")
        for recipe, title in (outcomes.items() if len(outcomes) > 1 else ())
    ]
    return (PolicyMeasure(STRONGEST, Side.RISK, "", f"{words}, of the attack that gains most"), *each, *USES)


def named_policies(given: Policy | Sequence[Policy] | Mapping[str, Policy]) -> dict[str, Policy]:
    """Return the policies by name: their own title, unless another is given."""
    if isinstance(given, Mapping):
        found = dict(given)
    else:
        several = [given] if isinstance(given, Policy) else list(given)
        found = {policy.title: policy for policy in several}
        if len(found) < len(several):
            raise ParameterError("two of the policies have the same title. Give them by names of your own.")
    if not found:
        raise ParameterError('give at least one policy, such as Policy.named("hardened").')
    return found


def swept_policies(
    policies: Mapping[str, Policy], over: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Policy, dict[str, Any]]]:
    """Yield every policy at every combination of the swept settings; all are refused before one is run."""
    for name, values in over.items():
        if isinstance(values, str | Mapping) or not len(list(values)):
            raise ParameterError(f"give a list of values for {name}, such as [2, 5, 10].")
    made = []
    for family, policy in policies.items():
        check_settings(policy, over)
        for values in itertools.product(*over.values()):
            settings = {n: v.item() if isinstance(v, np.generic) else v for n, v in zip(over, values, strict=True)}
            made.append((family, policy.set(settings), settings))
    yield from made


# --- map section
# A map of policies as a section of a report.


_SHOWN = ("tables kept", "regressions kept", "questions answered")
"""Utilities that the table of a report has room for."""


def policy_map_section(map: PolicyMap, max_risk: float | None = None, choice: Choice | None = None) -> Section:
    """Return a map as a section, for a given threshold and what was chosen under it; nothing is computed anew."""
    said = [] if choice is None else _choice(choice)
    policies = spoken(dict.fromkeys(point.family for point in map.points))
    recipes = spoken(recipe.title for recipe in map.attackers.recipes)
    rules = ", with the universe rules off" if map.attackers.rules_off else ""
    swept = f", over {spoken(map.parameters)}" if map.parameters else ""
    several = len({point.family for point in map.points}) > 1
    trials = map.attackers.bench.trials
    shown = [map.position(Side.RISK, None), *(map.position(Side.UTILITY, name) for name in _SHOWN)]
    said += [
        f"Attacks on {policies} at {counted(len(map.points), 'setting')}{swept}: {recipes}{rules}, {trials:,} times each.",
        "Every setting saw the same planted values and secrets.",
        *(f"{map.measures[i].title.capitalize()}: {map.measures[i].meaning}." for i in shown),
        "Refused questions count as nothing kept. A cell that is not shown counts as an error of 100 %.",
    ]
    risk, use = (map.measures[map.of_side(side)[0]].label() for side in (Side.RISK, Side.UTILITY))
    limit = "" if max_risk is None else f" Dashed level line: the largest tolerable risk, {short(max_risk)}."
    caption = f"R-U confidentiality map: {risk} against {use}, 95 % intervals as bars.{limit}"
    figure = Figure(map.chart(max_risk, choice).to_dict(), caption)
    return Section(
        "Risk and utility of settings", tuple(said), (figure, points_table(map, "policy" if several else None, shown))
    )


def _choice(choice: Choice) -> list[str]:
    limits = spoken(f"{label} at most {short(limit)}" for label, limit in choice.max_risk.items())
    said = [f"What was asked: the most useful policy with {limits}."]
    if not choice.feasible:
        return [*said, f"There is no answer: {choice.reason}"]
    settings = {k: v for k, v in choice.settings.items() if k != "policy"}
    words = spoken(f"{s.measure} {tabled(s.value)}" for s in (*choice.risks, *choice.utilities))
    at = f" with {named(settings)}" if settings else ""
    return [*said, f"The answer is {choice.settings['policy']}{at}: {choice.reason}. There, {words}."]


# --- policy map
# The R-U map of a policy: what attacks gain against what honest users keep, over q, Γ, the drop share and the noise.


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PolicyChoice(Choice):
    """A chosen policy with its risk and utility, or the reason why there is none."""

    policy: Policy | None = None


@dataclass(frozen=True, eq=False)
class Attackers:
    """Those who attack every point of a map: some recipes on a bench."""

    bench: Bench = field(repr=False)
    recipes: tuple[PolicyAttack, ...]
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

    @override
    def estimate(self, measure: int, point: int) -> Estimate:
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
        from sfumato.charts.point_map import policy_map_chart

        r, u = (self.measures[self.position(s, n)].label() for s, n in ((Side.RISK, risk), (Side.UTILITY, utility)))
        if choice is not None and choice.feasible and max_risk is None:
            max_risk = choice.max_risk.get(r)
        return policy_map_chart(self.frame, self.parameters, r, u, max_risk, self.marked(choice, "policy"))

    def report(self, max_risk: float | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""

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
    recipes: Sequence[PolicyAttack] | None = None,
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
