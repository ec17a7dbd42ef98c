"""Inference: what is not known of a person is read off the closest released record (Giomi et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.controlled import ControlledAttack, some_of
from sfumato.attacks.keys import key_names
from sfumato.attacks.points import as_points, coded, comparable, is_number
from sfumato.contract import Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import DataError, NotApplicable
from sfumato.microdata import Microdata

Numbers = NDArray[np.float64]


class Wanted(Parametric, abstract=True):
    """What the snooper wants to know: shared by the attack and the measure that scores it."""

    column: str = param(doc="the column he wants to know", columns="one", holds="anything")
    tolerance: float = param(default=0.05, doc="how near a number must be, as a share of the true value", low=0)


class InferValue(ControlledAttack, Wanted):
    """The snooper takes the value of the released record that is closest to what he knows of a person, his keys.

    A number is right within a share of the true value; a category if it is the same. Where several released records are equally
    close, the probability of being right is the share of them that are. People whose value is missing are no targets, and
    released records without a value are not looked at. The baseline is the value of a random released record.
    """

    def names(self, outcome: Release, snooper: Snooper, people: Microdata) -> tuple[str, ...]:
        """Return what he knows of a person: his keys without the column that he wants to know."""
        names = tuple(n for n in key_names(outcome, snooper) if n != self.column)
        if not names:
            raise NotApplicable(
                f"to infer '{self.column}' the snooper must know something else of a person. Name it with Snooper(keys=...)."
            )
        return comparable(outcome, names, people)

    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Infer the value of each target."""
        names = self.names(outcome, snooper, people)
        released_at, targets_at = as_points(names, outcome.masked, people, precision=snooper.precision)
        released, truth = secrets(self.column, outcome, people)
        number = is_number(outcome.masked, self.column) and is_number(people, self.column)
        there, known = np.flatnonzero(~np.isnan(released)), np.flatnonzero(~np.isnan(truth))
        if not len(there) or not len(known):
            raise NotApplicable(
                f"column '{self.column}' has no values in the release, or in the people to be attacked."
            )
        ids = people.batch([]).ids[known]
        rows = some_of(ids, self.attacks, draws)
        ids, truth, targets_at = ids[rows], truth[known[rows]], targets_at.take(known[rows])
        released, released_at = released[there], released_at.take(there)
        near = self.tolerance * np.abs(truth) if number else np.zeros(len(truth))
        low, high = truth - near, truth + near
        right = targets_at.votes(released_at, released, low, high)
        first = targets_at.near(released_at).rows[:, 0]
        ordered = np.sort(released)
        chance = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
        return Guesses(ids, released[first], truth, right, chance / len(ordered))


def secrets(name: str, outcome: Release, people: Microdata) -> tuple[Numbers, Numbers]:
    """Return the values of a column in the release and of some people: numbers, or codes that are the same; NaN is missing."""
    comparable(outcome, (name,), people)
    files = outcome.masked, people
    if all(is_number(data, name) for data in files):
        one, two = (data.numbers(name) for data in files)
        if np.isinf(one).any() or np.isinf(two).any():
            raise DataError(f"column '{name}' holds infinite values, which cannot be compared. Set them to missing.")
        return one, two
    one, two = (np.where(part < 0, np.nan, part) for part in coded(name, files))
    return one, two
