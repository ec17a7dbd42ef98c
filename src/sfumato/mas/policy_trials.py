"""The R-U map of a policy: what attacks gain against what honest users keep, over its settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.charts.captions import counted, spoken, tabled
from sfumato.contract.score import Score, Section, Side
from sfumato.errors import NotApplicable, ParameterError
from sfumato.maps.choice import Choice, Estimate, named
from sfumato.maps.rumap import MapPoint, MapSubject, RUMap
from sfumato.maps.section import points_section
from sfumato.mas.attacks.base import Outcome, PolicyAttack
from sfumato.mas.attacks.bench import Bench, rules_off
from sfumato.mas.attacks.differencing import Differencing, OutlierDifferencing, SkewedDifferencing
from sfumato.mas.attacks.reference_workload import Honest, HonestUsers
from sfumato.mas.policy import Policy, check_settings

STRONGEST = "strongest attack"


@dataclass(frozen=True, eq=False)
class PolicyTrial:
    """What came of the attacks on a policy, and how it served honest users."""

    outcomes: tuple[Outcome, ...]
    """One for each recipe."""
    served: tuple[Honest, ...]
    """One for each replication."""


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

    def estimate(self, trial: PolicyTrial) -> Estimate:
        """Return the value at a point, and its 95 % interval where there is one."""
        if isinstance(self.of, str):
            return gain([one for one in trial.outcomes if self.of in ("", one.recipe)])
        return mean([self.of(one) for one in trial.served])


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


Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class PolicySubject(MapSubject):
    """Policies, attacked by some recipes on a bench and asked by honest users."""

    bench: Bench = field(repr=False)
    recipes: tuple[PolicyAttack, ...]
    measures: tuple[PolicyMeasure, ...]
    replications: int
    rules_off: bool = False
    """Whether attacks get round the universe rules."""
    noun: ClassVar[str] = "policy"
    outcome: ClassVar[str] = "policy"
    every_limit: ClassVar[bool] = False
    shown: ClassVar[tuple[str, ...]] = ("tables kept", "regressions kept", "questions answered")
    """Utilities that the table of a report has room for."""

    def attack(self, policy: Policy, stamp: str) -> tuple[Outcome, ...]:
        """Run every recipe that the data have something for; `stamp` tells the accounts of one point from another's."""
        outcomes, attacked = [], rules_off(policy) if self.rules_off else policy
        for recipe in self.recipes:
            try:
                outcomes.append(self.bench.run(recipe, attacked.with_(title=f"{stamp} {recipe.name}")))
            except NotApplicable:
                continue
        return tuple(outcomes)

    @override
    def estimate(self, measure: int, point: MapPoint) -> Estimate:
        return self.measures[measure].estimate(point.seen)

    @override
    def score(self, measure: int, point: MapPoint) -> Score:
        asked = self.measures[measure]
        value, interval = asked.estimate(point.seen)
        return Score(asked.title, asked.side, value, asked.meaning, interval)

    @override
    def columns(self, measure: int, point: MapPoint) -> dict[str, Any]:
        return {"label": point.label}

    @override
    def fresh(self) -> PolicySubject:
        return replace(self, bench=self.bench.fresh())

    @override
    def again(self, point: MapPoint, times: int) -> tuple[MapPoint, str]:
        outcomes = self.attack(point.method, _stamp(point.family, point.settings))
        return replace(point, seen=replace(point.seen, outcomes=outcomes)), ", confirmed with fresh secrets"

    @override
    def drawing(
        self, m: RUMap, max_risk: Any, choice: Choice | None, risk: str | None, utility: str | None
    ) -> dict[str, Any]:
        return {**super().drawing(m, max_risk, choice, risk, utility), "outer": m.parameters, "noun": "policy"}

    @override
    def section(self, m: RUMap, max_risk: Any, choice: Choice | None) -> Section:
        families = list(dict.fromkeys(point.family for point in m.points))
        attacks = spoken(recipe.title for recipe in self.recipes) + (
            ", with the universe rules off" if self.rules_off else ""
        )
        swept = f", over {spoken(m.parameters)}" if m.parameters else ""
        shown = [m.position(Side.RISK, None), *(m.position(Side.UTILITY, name) for name in self.shown)]
        sentences = [
            (
                f"Attacks on {spoken(families)} at {counted(len(m.points), 'setting')}{swept}: {attacks}, {self.bench.trials:,} "
                "times each."
            ),
            "Every setting saw the same planted values and secrets.",
            *(f"{self.measures[i].title.capitalize()}: {self.measures[i].meaning}." for i in shown),
            "Refused questions count as nothing kept. A cell that is not shown counts as an error of 100 %.",
        ]
        return points_section(
            m, max_risk, choice, "Risk and utility of settings", sentences, scored=lambda s: tabled(s.value), shown=shown,
            families=len(families) > 1, more="95 % intervals as bars",
        )  # fmt: skip

    @override
    def chosen_words(self, choice: Choice) -> str:
        settings = {k: v for k, v in choice.settings.items() if k != self.noun}
        return choice.family + (f" with {named(settings)}" if settings else "")

    @override
    def facts(self, m: RUMap) -> dict[str, Any]:
        same = (*m.parameters, "side", "measure", "variant", "value", "low", "high")
        columns = {"point": "point", "family": "family", "label": "label", "at": "settings", **{n: n for n in same}}
        return {
            "parameters": list(m.parameters), "recipes": [recipe.name for recipe in self.recipes],
            "universe_rules": not self.rules_off, "targets": self.bench.trials, "replications": m.replications,
            "points": m.records(columns),
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
) -> RUMap:
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
    subject = PolicySubject(bench, chosen, (), replications, rules_off)
    every = list(swept_policies(named_policies(policies), over or {}))
    points = []
    for done, (family, policy, settings) in enumerate(every):
        stamp = _stamp(family, settings)
        outcomes = subject.attack(policy, stamp)
        if not outcomes:
            raise NotApplicable(
                "the data have no target for any of the recipes; choose other recipes, or finer cutpoints."
            )
        served = tuple(users.served(policy.with_(title=stamp), r) for r in range(replications))
        at = named(settings)
        label = f"{family} ({at})" if at else family
        points.append(MapPoint(family, settings, policy, PolicyTrial(outcomes, served), at or "as it is", label))
        if progress is not None:
            progress(done + 1, len(every))
    titles = {one.recipe: one.title for point in points for one in point.seen.outcomes}
    return RUMap(replace(subject, measures=measures_of(titles)), tuple(points), tuple(over or {}))


def _stamp(family: str, settings: Mapping[str, Any]) -> str:
    """Return what tells a point from all others."""
    return f"{family} {dict(settings)!r}"
