"""Accounts spent on answers that add up a confidential attribute with weights that the attacker knows: hectares, for instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param, registered
from sfumato.data.columns import Column
from sfumato.errors import NotApplicable
from sfumato.mas.attacks.base import AttackTrials, PlantedDataset, yes_no
from sfumato.mas.attacks.budget import AccountAttack, Victim
from sfumato.mas.attacks.leaks import LeakDataset, confidential, confidential_yes_no, cycle, plant
from sfumato.mas.attacks.linear_questions import Kind, Planner, known_cells
from sfumato.mas.cutpoints import Cutpoints
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.typing import Numbers

# --- planting
# A known amount of which a few have most, and a confidential attribute that half of all persons have.


LAND, YES, FLAG = "planted_land", "planted_yes", "planted_flag"
"""A known amount; a confidential attribute, as yes and no, and as a number."""
_MOST = 200_000.0
"""No amount is larger: its public bound."""
_ABOVE = 0.005
"""Share of the records that have most of the known amount: the targets."""


@dataclass(frozen=True, eq=False)
class LandTarget:
    """A person whose attribute is attacked through the known amount."""

    planted: LeakDataset
    row: int
    truths: Numbers
    """The attribute of everybody, 1 or 0; shape (n,)."""


def land(world: PlantedDataset) -> tuple[LeakDataset, Numbers]:
    """Plant the known amount and the attribute; return the data set and the attribute of everybody."""
    ground, rng = world.ground, Draws(f"world {world.number}").generator("land")
    n = len(ground.data)
    amounts = np.round(np.minimum(10.0 * (1 - rng.random(n)) ** (-1 / 0.8), _MOST), 1)  # Pareto's law
    truths = (rng.random(n) < 0.5).astype(np.float64)
    edges = np.unique(np.round(np.quantile(amounts, np.arange(1, 10) / 10)))
    columns = {LAND: Column.from_numbers(amounts), YES: yes_no(truths), FLAG: Column.from_numbers(truths)}
    marks = [
        Attribute(LAND, role=Role.KEY, scale=Scale.ORDERED, bounds=(0, _MOST)),
        confidential_yes_no(YES),
        confidential(FLAG, 1.0),
    ]
    return plant(world, "land", [(columns, marks)], {LAND: Cutpoints(tuple(edges.tolist()))}), truths


def richest(world: PlantedDataset) -> list[LandTarget]:
    """Return those who have most of the known amount as targets."""
    planted, truths = land(world)
    order = np.argsort(-planted.base.numbers[LAND], kind="stable")[: round(_ABOVE * len(truths))]
    return [LandTarget(planted, int(row), truths) for row in order]


def anybody(world: PlantedDataset) -> list[LandTarget]:
    """Return 100 persons as targets, whatever they have."""
    planted, truths = land(world)
    rows = Draws(f"world {world.number}").generator("anybody").permutation(len(truths))[:100]
    return [LandTarget(planted, int(row), truths) for row in rows]


# --- attacks


class LinearAttack(AccountAttack, abstract=True):
    """Accounts spent on questions of some kinds about persons of the planted data."""

    kinds: ClassVar[tuple[Kind, ...]]

    def persons(self, world: PlantedDataset) -> list[LandTarget]:
        """Return the persons who are attacked in a world."""
        return richest(world)

    @override
    def victims(self, field: AttackTrials) -> Iterator[Victim]:
        kinds = tuple(kind for kind in self.kinds if kind != "correlation" or "correlation" in registered("analysis"))
        if not kinds:
            raise NotApplicable("there is no analysis of correlations.")
        for trial, target in cycle(field, self.persons, self.targets):
            (server,) = target.planted.servers(field, trial)
            known = known_cells(target.planted.base, LAND)
            rng = Draws("linear").child(trial).generator("universes")
            yield Victim(server, Planner(known, target.row, server, YES, 0.5, rng, LAND, FLAG), kinds, target.truths)


class KnownAmountSums(LinearAttack):
    """Sums of a known amount by a confidential attribute, for those who have most of the amount: noise that does not grow with
    it hides them less than others.
    """

    title = "sums of a known amount, one account"
    kinds = ("sum",)


class KnownAmountSumsEverybody(KnownAmountSums):
    """The same by many users, until the account of everybody is spent."""

    title = "sums of a known amount, all accounts"
    bar = 0.65
    users: int = param(default=20, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)


class KnownAmountCorrelations(LinearAttack):
    """Correlations of a known amount with a confidential attribute, for those who have most of the amount."""

    title = "correlations with a known amount, one account"
    kinds = ("correlation",)
    questions: int = param(default=100, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(default=400, doc="universes that the questions are chosen from", low=1, integer=True)


class KnownAmountSlopes(LinearAttack):
    """Slopes of a confidential attribute on a known amount, for those who have most of the amount."""

    title = "slopes on a known amount, one account"
    kinds = ("slope",)


class InformedBudget(LinearAttack):
    """One account, spent by an attacker who knows the attribute of everybody but the target: counts, sums and models."""

    title = "one account, all others known"
    kinds = ("count", "sum", "correlation", "slope")
    informed = True

    @override
    def persons(self, world: PlantedDataset) -> list[LandTarget]:
        return [one for pair in zip(anybody(world), richest(world), strict=False) for one in pair]


class InformedEverybody(InformedBudget):
    """All accounts, spent by an attacker who knows the attribute of everybody but the target."""

    title = "all accounts, all others known"
    bar = 0.65
    users: int = param(default=8, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)
