"""Membership: is this person's record behind the release? (Homer et al. 2008; Chen et al. 2020 for distances)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.controlled import holdout_of, some_of
from sfumato.attacks.points import Points, as_points, comparable
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric

Numbers = NDArray[np.float64]
Evidence = Literal["distance", "relative distance"]


class Telling(Parametric, abstract=True):
    """What speaks for a member: shared by the attack and the measure that scores it."""

    evidence: Evidence = param(
        default="distance", doc="what speaks for a member", choices=("distance", "relative distance")
    )
    using: tuple[str, ...] = param(
        default=(), doc="columns he knows; all that can be compared if none", columns="many", holds="anything"
    )
    targets: int = param(
        default=10_000, doc="how many members, and how many others, he looks at, at most", low=1, high=1e9, integer=True
    )


class TellMembers(Attack, Telling):
    """The snooper has people's full records, and tells by the release alone who is behind it.

    He takes a record for a member the closer it is to a released record: by its distance, or by that relative to how far this
    released record is from the next one, so that people in thinly populated regions, who are exposed most, are compared fairly.
    Targets are members (the original) and non-members (the holdout). The guess is 1 for the closest, as many as there are
    members; `sure` is minus the distance. The baseline guesses at random.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Rank members and others together."""
        held = holdout_of(outcome)
        names = comparable(outcome, self.using, held)
        released, members, others = as_points(names, outcome.masked, outcome.original, held)
        ids, scores = [], []
        for people, points in ((outcome.original, members), (held, others)):
            every = people.batch([]).ids
            rows = some_of(every, self.targets, draws)
            ids.append(every[rows])
            scores.append(-self.distance(points.take(rows), released))
        truth = np.repeat([1, 0], [len(part) for part in ids])
        sure = np.concatenate(scores)
        says = _closest(sure, int(truth.sum()))
        share = float(truth.mean())
        return Guesses(
            np.concatenate(ids), (says >= 0.5).astype(np.int64), truth, np.where(truth == 1, says, 1 - says),
            np.where(truth == 1, share, 1 - share), sure,
        )  # fmt: skip

    def distance(self, targets: Points, released: Points) -> Numbers:
        """Return how far each target is from the release, shape (m,)."""
        if self.evidence == "distance" or len(released) < 2:
            return targets.distances(released)[:, 0]
        found = targets.near(released)
        far = found.distances[:, 0]
        asked, place = np.unique(found.rows[:, 0], return_inverse=True)
        apart = released.take(asked).distances(released, 2)[:, 1]  # the closest record to a released one is itself
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = far / apart[place]
        return np.where(far == 0, 0.0, relative)


def _closest(sure: Numbers, count: int) -> Numbers:
    """Return the probability of being among the `count` largest, shape (m,): ties at the limit share what is left."""
    limit = np.sort(sure)[::-1][count - 1]
    above, tied = sure > limit, sure == limit
    return np.where(above, 1.0, np.where(tied, (count - above.sum()) / tied.sum(), 0.0))
