"""A whole account spent on one person: questions in the best order, until accounts refuse, and the best guess from all answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.contract.snooper import Guesses
from sfumato.mas.accounts import loss_of
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import HALF, SHARES, AttackTrials, PolicyAttack, Server, balanced, yes_or_no
from sfumato.mas.attacks.linear_questions import (
    AnswerEvidence,
    Kind,
    LinearQuestion,
    Planner,
    QuestionOrder,
    Reading,
    evidence,
    known_cells,
)
from sfumato.typing import Numbers

_STOP = 8
"""After this many refusals in a row the attacker considers an account spent: smaller questions may still be answered."""


@dataclass(frozen=True, eq=False)
class Victim:
    """A person whose attribute is attacked, and what the attacker knows and asks."""

    server: Server
    planner: Planner
    kinds: Sequence[Kind]
    truths: Numbers
    """The attribute of everybody, 1 or 0."""

    @property
    def row(self) -> int:
        """The person's row."""
        return self.planner.row


class AccountAttack(PolicyAttack, abstract=True):
    """Accounts spent on questions about one person: each time the one that adds most information for its price, given the answers.

    The attacker has a register of the known variables of everybody, and combines all answers by generalised least squares.
    """

    bar = 0.60
    informed: ClassVar[bool] = False
    """Whether the attacker knows the attribute of everybody else."""
    users: int = param(default=1, doc="how many users spend their accounts together", low=1, integer=True)
    targets: int = param(default=200, doc="most targets", low=1, integer=True)
    questions: int = param(default=60, doc="most questions of a user about a target", low=1, integer=True)
    tries: int = param(
        default=250, doc="universes that the questions are chosen from, for each user", low=1, integer=True
    )

    @abstractmethod
    def victims(self, field: AttackTrials) -> Iterator[Victim]:
        """Yield a person for each trial, with new accounts."""

    @override
    def run(self, field: AttackTrials) -> Guesses:
        rows, scores, truths, share = [], [], [], 0.5
        for one in self.victims(field):
            share = one.planner.share
            found = self.spend(one)
            field.tally.information.append(found.information)
            rows.append(one.row)
            scores.append(found.ratio)
            truths.append(float(one.truths[one.row]))
        guesses = yes_or_no(rows, scores, truths, max(share, 1 - share))
        return balanced(guesses) if share == 0.5 else guesses

    def spend(self, victim: Victim) -> AnswerEvidence:
        """Ask until the accounts are spent; return the evidence of the answers."""
        planner, server = victim.planner, victim.server
        fixed = loss_of(min(server.policy.accounts.user / 100, 0.99)) / self.questions
        order = QuestionOrder(
            planner, planner.questions(victim.kinds, self.tries * min(self.users, 3)), self.informed, fixed
        )
        user = refused = asked = 0
        one, told = server.as_user("user 0"), dict[tuple[bytes, float, str], Reading]()
        for place, question in order:
            found = one.ask(question.universe, question.analysis())
            asked += 1
            if isinstance(found, Answer):
                refused = 0
                order.answered(place)
                told.update(_read(question, found, server))
            elif found.rule == "accounts":
                refused += 1
            if refused >= _STOP or asked >= self.questions:
                user, refused, asked = user + 1, 0, 0
                one = server.as_user(f"user {user}")
            if user >= self.users:
                break
        others = victim.truths if self.informed else None
        return evidence(planner.known, list(told.values()), planner.row, planner.share, others)


def _read(
    question: LinearQuestion, found: Answer, server: Server
) -> Iterator[tuple[tuple[bytes, float, str], Reading]]:
    """Yield what is read off an answer by what its noise is drawn for: the same set in another table has the same noise."""
    table = question.kind in ("count", "sum")
    digits = server.policy.amounts.digits if table else server.policy.models.digits
    for reading in question.told(found, digits):
        yield (
            (
                reading.inside.tobytes(),
                reading.b,
                "" if table else repr((question.kind, question.universe, question.sides)),
            ),
            reading,
        )


class WholeBudget(AccountAttack):
    """One account, spent on tables and models of a person's groups, and of those beside him."""

    title = "one account, 50/50"
    attribute: str = param(default=HALF, doc="the planted attribute", choices=(HALF, "planted_thirty"))
    models: bool = param(default=True, doc="whether models are asked for, and not only tables")

    @override
    def victims(self, field: AttackTrials) -> Iterator[Victim]:
        kinds: tuple[Kind, ...] = ("count", "logit") if self.models else ("count",)
        for trial, (server, world, target) in enumerate(field.each(4, min(self.targets, field.trials))):
            rng = Draws("company").child(trial).generator("sets")
            known = known_cells(world.ground)
            planner = Planner(known, target.row, server, self.attribute, SHARES[self.attribute], rng)
            yield Victim(server, planner, kinds, world.truths[self.attribute])


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
