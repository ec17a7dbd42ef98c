"""Linkability: two files about the same people, joined through the release (Giomi et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.controlled import ControlledAttack, some_of
from sfumato.attacks.keys import key_names
from sfumato.attacks.points import Points, as_points, comparable
from sfumato.contract import Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable, ParameterError, some
from sfumato.microdata import Microdata

Rows = NDArray[np.int64]


class TwoFiles(Parametric, abstract=True):
    """Which columns stand in which of the snooper's files: shared by the attack and the measure that scores it."""

    left: tuple[str, ...] = param(
        default=(), doc="columns of one file; the snooper's keys if none", columns="many", holds="anything"
    )
    right: tuple[str, ...] = param(
        default=(), doc="columns of the other; all that are left if none", columns="many", holds="anything"
    )
    k: int = param(default=1, doc="how many of the closest released records he looks at", low=1, integer=True)

    def validate(self) -> None:
        """No column can be in both files: it would link them by itself."""
        if both := set(self.left) & set(self.right):
            raise ParameterError(f"column '{min(both)}' is in both files, which would link them without the release.")


class LinkColumns(ControlledAttack, TwoFiles):
    """The snooper has two files with different columns of the same people, and finds out which records belong together.

    He looks for the k released records closest to a record of one file, and for the k closest to one of the other. If a
    released record is among both, he takes the two for one person. Of records that are equally close he takes random ones,
    drawn for each file on its own. The baseline are k random released records for each.
    """

    def split(self, outcome: Release, snooper: Snooper, people: Microdata) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of the two files."""
        every = comparable(outcome, (), people)
        keys = key_names(outcome, snooper) if snooper.keys else outcome.original.schema.names(role="key")
        left = self.left or tuple(n for n in keys if n in every or snooper.keys)  # what he names must be there
        left = left or tuple(n for n in every if n not in self.right)[: max(len(every) // 2, 1)]
        left = tuple(n for n in left if n not in self.right)
        right = self.right or tuple(n for n in every if n not in left)
        if not left or not right:
            raise NotApplicable("linking two files takes at least two columns of the release, one for each.")
        return comparable(outcome, left, people), comparable(outcome, right, people)

    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Link the two halves of each target's record."""
        count = len(outcome.masked)
        if count <= self.k:
            raise NotApplicable(
                f"the release has no more than {some(self.k)}, so that the closest of them tell nothing."
            )
        ids = people.batch([]).ids
        rows = some_of(ids, self.attacks, draws)
        sides = []
        for side, names in zip(("left", "right"), self.split(outcome, snooper, people), strict=True):
            released, targets = as_points(names, outcome.masked, people, precision=snooper.precision)
            sides.append(_closest(targets.take(rows), released, self.k, draws.generator(side)))
        shared = sides[0][:, :, None] == sides[1][:, None, :]
        linked = shared.any(axis=(1, 2))
        target = ids[rows]
        chance = np.full(len(rows), random_overlap(count, self.k))
        return Guesses(target, np.where(linked, target, -1), target, linked.astype(np.float64), chance)


def _closest(targets: Points, released: Points, k: int, g: np.random.Generator) -> Rows:
    """Return the k closest released records of each target, shape (m, k); random ones among those that are equally close."""
    order = g.permutation(len(released))
    return np.asarray(order[targets.near(released.take(order), k).rows])


def random_overlap(count: int, k: int) -> float:
    """Return the probability that two random sets of k records of `count` have one in common: 1 - C(n-k, k) / C(n, k).

    >>> random_overlap(10, 1)
    0.1
    """
    apart = 1.0
    for i in range(k):
        apart *= max(count - k - i, 0) / (count - i)
    return round(1 - apart, 15)
