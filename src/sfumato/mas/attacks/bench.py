"""The bench: every recipe against a policy, with its universe rules and without them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.contract.parameters import registered
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.mas.attacks.base import (
    AttackTarget,
    AttackTrials,
    BaseData,
    Outcome,
    PlantedDataset,
    PolicyAttack,
    find_targets,
    outcome,
)
from sfumato.mas.attacks.reference_workload import Honest, HonestUsers
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.policy import Policy
from sfumato.mas.rules import NoMarginal, SetRule, UniverseForm
from sfumato.mas.value_counts import count_numbers, deciles
from sfumato.schema.attribute import Role

_NOBODY = "no record of these data is alone in the difference of two universes: there is nobody to attack."
HEADS = (
    "recipe",
    "targets",
    "right",
    "95 % interval",
    "baseline",
    "bar",
    "calculated",
    "formal limit",
    "μ",
    "refused",
    "",
)
"""Calculated is what the attacker expects. The formal limit holds for guesses between two values by whoever knows everything else:
Φ(μ/2) of what was told."""


@dataclass(frozen=True, eq=False)
class Bench:
    """Data to attack, in a few worlds that differ by the planted values.

    Attributes are planted, so that no real value is attacked. Every trial has its own secret and accounts, and the answers are
    the vault's.
    """

    data: Microdata
    cutpoints: Mapping[str, Cutpoints]
    folder: Path
    worlds: int = 6
    trials: int = 400
    first: int = 0
    """The number of the first world: benches with other numbers have new plantings and secrets."""

    def fresh(self) -> Bench:
        """Return the same bench with unused worlds and secrets."""
        return dataclasses.replace(self, first=self.first + self.worlds)

    @cached_property
    def ground(self) -> BaseData:
        """The data and their known variables."""
        return BaseData(self.data, self.cutpoints)

    @cached_property
    def targets(self) -> Mapping[int, Sequence[AttackTarget]]:
        """Targets of universes of two and of four variables, if there are any (all of them, if fewer than requested)."""
        ground = self.ground
        most = len(ground.variables)
        every = {k: find_targets(ground.variables, ground.codes, min(k, most), most=self.trials) for k in (2, 4)}
        found = {k: some for k, some in every.items() if some}
        if not found:
            raise NotApplicable(_NOBODY)
        return found

    def _targets(self, conditions: int) -> Sequence[AttackTarget]:
        if conditions not in self.targets:
            raise NotApplicable(_NOBODY)
        return self.targets[conditions]

    @cached_property
    def frozen(self) -> tuple[PlantedDataset, ...]:
        """The worlds."""
        every = [target for some in self.targets.values() for target in some]
        return tuple(
            self.ground.world(self.folder / str(i), i, every) for i in range(self.first, self.first + self.worlds)
        )

    def run(self, recipe: PolicyAttack, policy: Policy, trials: int | None = None) -> Outcome:
        """Run one recipe."""
        return outcome(recipe, AttackTrials(self.frozen, self._targets, policy, trials or self.trials))

    def all(
        self,
        policy: Policy,
        recipes: Sequence[PolicyAttack] | None = None,
        tell: Callable[[str, int, int], None] | None = None,
    ) -> list[Outcome]:
        """Run every recipe, or those given; skip recipes that the data cannot support."""
        out = []
        chosen = [cls() for cls in all_recipes().values()] if recipes is None else recipes
        for i, recipe in enumerate(chosen):
            if tell is not None:
                tell(f"attacks on {policy.title}", i, len(chosen))
            try:
                out.append(self.run(recipe, policy))
            except NotApplicable:
                continue
        return out


def all_recipes() -> dict[str, type[PolicyAttack]]:
    """Return every recipe by name."""
    return {name: cls for name, cls in registered("attack recipe").items() if issubclass(cls, PolicyAttack)}


def rules_off(policy: Policy) -> Policy:
    """Return a policy without its universe rules: shows what protects when they are bypassed."""
    names = [rule.name for rule in policy.rules if isinstance(rule, UniverseForm | SetRule | NoMarginal)]
    return policy.without(*names).with_(title=f"{policy.title}, universe rules off")


def table(outcomes: Sequence[Outcome]) -> list[tuple[Any, ...]]:
    """Return the rows of a table of outcomes, under `HEADS`."""
    return [
        (
            one.title, one.success.targets, f"{one.success.rate:.3f}",
            "{:.2f} to {:.2f}".format(*one.success.interval), f"{one.success.baseline:.2f}", f"{one.limit:.2f}",
            "" if math.isnan(one.calculated) else f"{one.calculated:.2f}", f"{one.formal:.2f}", f"{one.mu:.2f}",
            f"{100 * one.refusal_rate:.0f} %", one.verdict,
        )
        for one in outcomes
    ]  # fmt: skip


def recipe_named(name: str) -> type[PolicyAttack]:
    """Return a recipe by name; the nearest name is offered."""
    known = all_recipes()
    if name not in known:
        raise ParameterError(unknown_name("recipe", name, known, "the attack bench"))
    return known[name]


def cutpoints_of(data: Microdata) -> dict[str, Cutpoints]:
    """Return cutpoints for the known numerical variables: deciles, until a custodian sets better ones."""
    made = deciles(count_numbers(data))
    return {name: cut for name, cut in made.items() if data.schema[name].role is Role.KEY}


def cost(policy: Policy, folder: Path, data: Microdata, cutpoints: Mapping[str, Cutpoints]) -> Honest:
    """Return what a policy costs the users of the reference workload."""
    return HonestUsers(data, cutpoints, folder).served(policy)
