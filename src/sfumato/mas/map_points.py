"""The points of a map of policies: what attacks achieved at each, and what honest users got."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.contract import Score, Side
from sfumato.errors import ParameterError
from sfumato.mas.attacks.honest import Honest
from sfumato.mas.attacks.recipe import Outcome
from sfumato.mas.policy import Policy
from sfumato.mas.settings import check_settings
from sfumato.rumap.choice import named
from sfumato.rumap.points import Estimate, Tried

STRONGEST = "strongest attack"


@dataclass(frozen=True, eq=False)
class PolicyPoint(Tried):
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

    @property
    def label(self) -> str:
        """The policy and its settings."""
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
