"""Which records are complete: a set of its own, whose count and sums have noise of their own.

With the noise of the universe, the difference of two models would have none where one has a variable more: it would tell how
many lack a value of it, or have one of which there is no logarithm, and what their outcome is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.mas.accounts import Sets
from sfumato.mas.models.design import Design
from sfumato.mas.models.moments import Moments
from sfumato.mas.models.numbers import Bounds, Number
from sfumato.mas.question import Question
from sfumato.mas.selection import Selection
from sfumato.mas.variable import MISSING, Variable


def within(question: Question, cells: Mapping[Variable, tuple[int, ...]]) -> Selection:
    """Return the records of the universe that have some levels of some variables."""
    found = question.selection
    for variable, levels in cells.items():
        found = found.joined(one_of(variable, levels))
    return found


def one_of(variable: Variable, levels: tuple[int, ...]) -> Selection:
    """Return the records that have one of some levels of a variable."""
    flags = np.zeros(len(variable.levels), bool)
    flags[list(levels)] = True
    return Selection((variable,), (flags,))


@dataclass(frozen=True, eq=False)
class Complete:
    """The records of a universe that have some of the levels of some variables, and a value of some numbers."""

    question: Question
    levels: Mapping[Variable, tuple[int, ...]]
    numbers: tuple[str, ...]
    """Names of numbers that not every record has."""

    @classmethod
    def of(
        cls, question: Question, numbers: Sequence[tuple[Number, Bounds]], levels: Mapping[Variable, tuple[int, ...]]
    ) -> Complete:
        """Make the set of records that have some numbers and levels; as in tables, where a variable has both."""
        used, names = dict(levels), []
        for number, bounds in numbers:
            if not bounds.gaps:
                continue
            variable = next(v for v in question.dataset.variables.values() if v.numbers == number.column and v.numeric)
            if not number.function and not variable.known and MISSING in variable.levels:
                used.setdefault(variable, there(variable))
            else:
                names.append(number.name)
        return cls(question, used, tuple(sorted(set(names))))

    @property
    def known(self) -> bool:
        """Whether known variables alone say who is one of them."""
        return not self.numbers and all(v.known for v in (*self.question.selection.plain.variables, *self.levels))

    @cached_property
    def key(self) -> bytes:
        """What the noise on their number hangs on."""
        return self.key_within({})

    def key_within(self, cells: Mapping[Variable, tuple[int, ...]]) -> bytes:
        """Return what the noise of those of them hangs on that have some levels, whatever universe they are taken from."""
        found = within(self.question, self.levels)
        for variable, levels in cells.items():
            found = found.joined(one_of(variable, levels))
        return self.question.key_of(found) + "".join(f"{name} has a value" for name in self.numbers).encode()

    def count(self, n: float, kept: float, about: str = "") -> Sets:
        """Return how many there are, of n that are kept out of so many, as rules and answers see it: scaled back, with noise.

        `about` names another number of records than all of them. It comes as a set for the accounts.
        """
        policy, plain = self.question.policy, self.question.selection.plain
        every = float(self.question.dataset.cubes.of(plain.variables).count(plain))
        scaled = n * (every / kept if policy.scaled and kept else 1.0)
        key = self.key + about.encode()
        noisy = policy.counts.noisy(np.array([scaled]), [key], self.question.secret)
        return Sets(plain, (), (key,), noisy.reshape(()), loss=policy.counts.loss)


def there(variable: Variable) -> tuple[int, ...]:
    """Return the levels of records that have a value."""
    return tuple(i for i, level in enumerate(variable.levels) if level != MISSING)


def hardly_varies(complete: Complete, design: Design, bounds: Sequence[Bounds], moments: Moments, least: float) -> bool:
    """Return whether a confidential number varies less than if a few records lay at the ends of its range, by noisy counts.

    Whether it varies at all would tell of the one record that is not like the others. Incomes of 500 do, as a rule.
    """
    question = complete.question
    known = {v.numbers for v in question.dataset.variables.values() if v.known}
    for number, bound, spread in zip(design.numbers, bounds, moments.spreads, strict=False):
        if number.column not in known and bound.half > 0:
            records = moments.n * (2 * float(spread) / (bound.high - bound.low)) ** 2
            varied = complete.count(records, moments.kept, f"variation of {number.name}")
            question.looked[varied.keys[0]] = varied
            if float(varied.sizes) < least:
                return True
    return False


def few_of_an_outcome(complete: Complete, moments: Moments, least: float) -> bool:
    """Return whether few records have one of the outcomes 0 and 1, by noisy counts."""
    found = []
    for outcome, weight in enumerate(moments.outcomes):
        share = float(weight) / moments.weight if moments.weight else 0.0
        found.append(complete.count(moments.n * share, moments.kept, f"outcome {outcome}"))
        complete.question.looked[found[-1].keys[0]] = found[-1]
    return any(float(one.sizes) < least for one in found)
