"""A whole account, spent on one person: many sets that the person is in, each with other company, taken together."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sfumato.contract import Draws, param
from sfumato.contract.attack import Guesses
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.joint import Joint
from sfumato.mas.attacks.plan import Ask, Planner
from sfumato.mas.attacks.recipe import Field, Recipe, balanced, yes_or_no
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.world import HALF, SHARES

_STOP = 3
"""Refusals in a row after which the attacker takes an account for spent."""
_FREE = 0.3
"""What a question without the target is counted as: it takes nothing from its account, but from those of its company."""


class WholeBudget(Recipe):
    """One account, spent on tables and models of sets that hold the target, and of the same sets without.

    The attacker has a register of what is known of everybody. Each next question is the one that tells most for what it costs,
    given those before; all answers are weighed together.
    """

    title = "one account, 50/50"
    bar = 0.60
    users: int = param(default=1, doc="how many users spend their accounts together", low=1, integer=True)
    attribute: str = param(default=HALF, doc="the planted attribute", choices=(HALF, "planted_thirty"))
    targets: int = param(default=200, doc="most targets", low=1, integer=True)
    questions: int = param(default=60, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(
        default=150, doc="universes that the questions are chosen from, for each user", low=1, integer=True
    )
    models: bool = param(default=True, doc="whether models are asked for, and not only tables")

    def run(self, field: Field) -> Guesses:
        """Spend the accounts on each target, and weigh what the answers say for and against."""
        share = SHARES[self.attribute]
        rows, scores, truths = [], [], []
        for trial, (server, world, target) in enumerate(field.each(4, min(self.targets, field.trials))):
            rng = Draws("company").child(trial).generator("sets")
            planner = Planner(target, world, server, self.attribute, rng, self.models)
            rows.append(target.row)
            scores.append(self._spend(server, planner, Joint(planner.others, share)).evidence())
            truths.append(float(world.truths[self.attribute][target.row]))
        if self.attribute == HALF:
            return balanced(yes_or_no(rows, scores, truths))
        return yes_or_no(rows, scores, truths, 1 - share)

    def _spend(self, server: Server, planner: Planner, joint: Joint) -> Joint:
        """Ask until the accounts are spent."""
        user, refused, asked = 0, 0, 0
        one = server.as_user("user 0")
        for ask in best_first(planner.asks(self.tries * self.users), joint):
            found = one.ask(ask.universe, ask.analysis(self.attribute))
            asked += 1
            if isinstance(found, Answer):
                refused = 0
                if not math.isnan(value := ask.told(found, self.attribute)):
                    joint.add(ask.reading, value)
            elif found.rule == "accounts" and ask.reading.holds:
                refused += 1
            if refused >= _STOP or asked >= self.questions:
                user, refused, asked = user + 1, 0, 0
                one = server.as_user(f"user {user}")
            if user >= self.users:
                break
        return joint


def best_first(asks: list[Ask], joint: Joint) -> Iterator[Ask]:
    """Yield questions, each time the one that adds most information for its cost to the readings so far."""
    costs = np.array([ask.cost or _FREE for ask in asks])
    readings = [ask.reading for ask in asks]
    cells = np.stack([reading.inside for reading in readings]) if readings else np.zeros((0, 0), np.float32)
    across = np.zeros((len(asks), 0))
    left = np.ones(len(asks), bool)
    while left.any():
        new = joint.chosen[across.shape[1] :]
        across = np.column_stack([across, *(joint.shared(cells, one)[:, None] for one in new)])
        worth = np.where(left, joint.gains(readings, across) / costs, -1.0)
        best = int(np.argmax(worth))
        left[best] = False
        yield asks[best]


class WholeBudgetSkewed(WholeBudget):
    """One account, spent on an attribute that three in ten have."""

    title = "one account, 70/30"
    bar, above = 0.05, "baseline"
    attribute: str = param(default="planted_thirty", doc="the planted attribute", choices=(HALF, "planted_thirty"))


class EverybodysBudget(WholeBudget):
    """All users together, until the account of everybody is spent."""

    title = "all accounts, 50/50"
    bar = 0.65
    users: int = param(default=8, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=100, doc="most targets", low=1, integer=True)
