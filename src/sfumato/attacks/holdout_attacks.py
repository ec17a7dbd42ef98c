"""Attacks that are also run on people who are not in the release: singling out, linkability, inference, membership."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import (
    Points,
    as_points,
    category_codes,
    comparable,
    exact_tables,
    is_number,
    key_names,
)
from sfumato.contract import Attack, Draws, Guesses, Parametric, Release, Snooper, param
from sfumato.data import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, plural
from sfumato.lazy import special
from sfumato.typing import Flags, Numbers, Whole


class Repeated(Parametric, abstract=True):
    """How often an attack is made: shared by the attacks and the measures that score them."""

    attacks: int = param(default=2_000, doc="how many guesses he makes at most", low=1, high=1e6, integer=True)


class ControlledAttack(Attack, Repeated, abstract=True):
    """An attack on random people of the original, which can be repeated on people of the holdout (Giomi et al. 2022)."""

    @abstractmethod
    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack some people by means of the release."""

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack people of the original."""
        return self.against(outcome.original, outcome, snooper, draws)

    def control(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack people of the holdout in the same way."""
        return self.against(holdout_of(outcome), outcome, snooper, draws)


def holdout_of(outcome: Release) -> Microdata:
    """Return the records that were set aside before masking; refuse if there are none."""
    if outcome.holdout is None:
        raise NotApplicable(
            "this attack is compared with the same on people who are not in the release: set some records aside before masking, "
            "with hold_out, and give them with release.with_holdout(held)."
        )
    if not len(outcome.holdout):
        raise NotApplicable("the holdout has no records.")
    return outcome.holdout


def sample_rows(ids: Whole, count: int, draws: Draws) -> Whole:
    """Return row numbers of at most `count` records, drawn at random by their ids; all of them if there are no more."""
    if len(ids) <= count:
        return np.arange(len(ids))
    return np.sort(np.argsort(draws.uniforms(ids, "targets"), kind="stable")[:count])


# --- Singling out: a description that fits exactly one person (GDPR, recital 26; Giomi et al. 2022).

Describe = Literal["one column", "several columns"]
_LOWEST, _HIGHEST = np.finfo(np.float64).min, np.finfo(np.float64).max
_TRIES = 50
"""How many descriptions are tried at most for each that is wanted."""


class Descriptions(NamedTuple):
    """Descriptions of a person as boxes: the lowest and highest value of each column, shape (a, p).

    Missing values are minus infinity, and below the lowest number; an open column reaches from -inf to inf.
    """

    low: Numbers
    high: Numbers

    def take(self, rows: Whole) -> Descriptions:
        """Return some of them."""
        return Descriptions(self.low[rows], self.high[rows])

    def distinct(self) -> Descriptions:
        """Return each once, in the order in which they first occur."""
        _, first = np.unique(np.hstack([self.low, self.high]), axis=0, return_index=True)
        return self.take(np.sort(first))

    def counts(self, people: Numbers) -> tuple[Whole, Whole]:
        """Return how many people fit each description, and the row of one of them; shape (a,) each."""
        return kernels.boxes.box_counts(people, self.low, self.high)


class Describing(Parametric, abstract=True):
    """How people are described: shared by the attack and the measure that scores it."""

    describe: Describe = param(default="several columns", doc="what a description consists of")
    width: int = param(default=3, doc="how many columns a description has, for several columns", low=1, integer=True)
    using: tuple[str, ...] = param(
        default=(), doc="columns he uses; all that can be compared if none", columns="many", holds="anything"
    )


class SingleOut(ControlledAttack, Describing):
    """The snooper looks in the release for descriptions that fit one record alone, and claims that they fit one person.

    With "one column" he uses values that occur once, and the smallest and largest number of a column. With "several columns" he
    takes a random released record and some of its columns: categories as they are, numbers as "at least" (above the median) or
    "at most" this. He guesses that one person fits; the truth is how many do. The baseline are random descriptions.
    """

    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Count the people who fit each description; of a larger holdout, in a random part as large as the original."""
        names = comparable(outcome, self.using, people)
        size = len(outcome.original)
        if len(people) < size:
            raise NotApplicable(
                "one person is singled out more easily in a smaller file, so the holdout must have as many records as the "
                "original. Set half of the file aside: hold_out(data, 0.5, draws)."
            )
        released, persons = exact_tables(names, outcome.masked, people)
        numbers = np.array([is_number(outcome.masked, n) and is_number(people, n) for n in names])
        g = draws.generator("descriptions")
        found = self.descriptions(released, numbers, g)
        counts, row = found.counts(persons)
        right = alone(counts, len(people), size)
        random, _ = self._random(released, numbers, len(found.low), g).counts(persons)
        target = np.where(counts == 1, people.batch([]).ids[row], -1)
        return Guesses(target, np.ones(len(counts), np.int64), counts, right, alone(random, len(people), size))

    def descriptions(self, released: Numbers, numbers: Flags, g: np.random.Generator) -> Descriptions:
        """Return descriptions that fit one released record alone, in random order; there may be none."""
        if self.describe == "one column":
            return _of_one_column(released, numbers, self.attacks, g)
        return self._of_several(released, numbers, g)

    def _of_several(self, released: Numbers, numbers: Flags, g: np.random.Generator) -> Descriptions:
        t, p = released.shape
        median = np.array([np.median(c[c > -np.inf]) if (c > -np.inf).any() else 0.0 for c in released.T])
        found = Descriptions(np.empty((0, p)), np.empty((0, p)))
        for _ in range(_TRIES):
            value = released[g.integers(0, t, self.attacks)]
            used = _some_columns(self.attacks, p, self.width, g)
            at_most, at_least = (numbers & (value > -np.inf) & side for side in (value <= median, value > median))
            low = np.where(used, np.where(at_most, _LOWEST, value), -np.inf)
            high = np.where(used, np.where(at_least, _HIGHEST, value), np.inf)
            one = kernels.boxes.holds_one(released, low, high)
            before = len(found.low)
            found = Descriptions(np.vstack([found.low, low[one]]), np.vstack([found.high, high[one]])).distinct()
            if len(found.low) >= self.attacks or len(found.low) - before < self.attacks / 100:  # hardly any is new
                break
        return found.take(np.arange(min(len(found.low), self.attacks)))

    def _random(self, released: Numbers, numbers: Flags, count: int, g: np.random.Generator) -> Descriptions:
        """Return random descriptions: of columns, of "equal", "at least" or "at most", of values within the range."""
        p = released.shape[1]
        width = 1 if self.describe == "one column" else self.width
        used = _some_columns(count, p, width, g)
        value = np.empty((count, p))
        for j in range(p):
            known = np.unique(released[:, j])
            finite = known[np.isfinite(known)]
            if numbers[j] and len(finite):
                value[:, j] = g.uniform(0, 1, count) * (finite[-1] - finite[0]) + finite[0]
            else:
                value[:, j] = known[g.integers(0, len(known), count)]
        how = g.integers(0, 3, (count, p))
        low = np.where(used, np.where(numbers & (how == 1), _LOWEST, value), -np.inf)
        high = np.where(used, np.where(numbers & (how == 2), _HIGHEST, value), np.inf)
        return Descriptions(low, high)


def _some_columns(count: int, columns: int, width: int, g: np.random.Generator) -> Flags:
    """Return `count` random choices of `width` columns, or of all if there are no more; shape (count, columns)."""
    rank = g.random((count, columns)).argsort(axis=1).argsort(axis=1)
    return np.asarray(rank < width)


def _of_one_column(released: Numbers, numbers: Flags, most: int, g: np.random.Generator) -> Descriptions:
    """Return at most `most` of the values that occur once, and of the ends of a column where one record alone is."""
    parts: list[tuple[Any, Any, Any]] = []
    for j in range(released.shape[1]):
        values, counts = np.unique(released[:, j], return_counts=True)
        once = values[counts == 1]
        parts += [(np.full(len(once), j), once, once)]
        finite = np.isfinite(values)
        if numbers[j] and finite.any():
            first, last = np.flatnonzero(finite)[[0, -1]]
            parts += [([j], [_LOWEST], values[[first]])] if counts[first] == 1 else []
            parts += [([j], values[[last]], [_HIGHEST])] if counts[last] == 1 else []
    column, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    some = g.permutation(len(column))[:most]
    used = np.arange(released.shape[1]) == column[some, None]
    return Descriptions(np.where(used, low[some, None], -np.inf), np.where(used, high[some, None], np.inf))


def alone(counts: Whole, people: int, size: int) -> Numbers:
    """Return the probability that exactly one of `counts` people is in a random part of `size` of all people, shape (a,).

    Hypergeometric; without a smaller part it is 1 where the count is 1, and 0 elsewhere.
    """
    if size == people:
        return np.asarray(counts == 1, np.float64)
    k = np.asarray(counts, np.float64)
    possible = (k >= 1) & (people - k >= size - 1)
    k = np.where(possible, k, 1.0)
    # k · C(people - k, size - 1) / C(people, size)
    ways = special.gammaln(people - k + 1) - special.gammaln(float(size)) - special.gammaln(people - k - size + 2)
    every = special.gammaln(people + 1.0) - special.gammaln(size + 1.0) - special.gammaln(people - size + 1.0)
    return np.asarray(np.where(possible, np.clip(k * np.exp(ways - every), 0.0, 1.0), 0.0), np.float64)


# --- Linkability: two files about the same people, joined through the release (Giomi et al. 2022).


class TwoFiles(Parametric, abstract=True):
    """Which columns stand in which of the snooper's files: shared by the attack and the measure that scores it."""

    left: tuple[str, ...] = param(
        default=(), doc="columns of one file; the snooper's keys if none", columns="many", holds="anything"
    )
    right: tuple[str, ...] = param(
        default=(), doc="columns of the other; all that are left if none", columns="many", holds="anything"
    )
    k: int = param(default=1, doc="how many of the closest released records he looks at", low=1, integer=True)

    @override
    def validate(self) -> None:
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
                f"the release has no more than {plural(self.k)}, so that the closest of them tell nothing."
            )
        ids = people.batch([]).ids
        rows = sample_rows(ids, self.attacks, draws)
        sides = []
        for side, names in zip(("left", "right"), self.split(outcome, snooper, people), strict=True):
            released, targets = as_points(names, outcome.masked, people, precision=snooper.precision)
            # the k closest released records of each target, shape (m, k); random ones among those that are equally close
            order = draws.generator(side).permutation(len(released))
            sides.append(np.asarray(order[targets.take(rows).near(released.take(order), self.k).rows]))
        shared = sides[0][:, :, None] == sides[1][:, None, :]
        linked = shared.any(axis=(1, 2))
        target = ids[rows]
        chance = np.full(len(rows), random_overlap(count, self.k))
        return Guesses(target, np.where(linked, target, -1), target, linked.astype(np.float64), chance)


def random_overlap(count: int, k: int) -> float:
    """Return the probability that two random sets of k records of `count` have one in common: 1 - C(n-k, k) / C(n, k).

    >>> random_overlap(10, 1)
    0.1
    """
    apart = 1.0
    for i in range(k):
        apart *= max(count - k - i, 0) / (count - i)
    return round(1 - apart, 15)


# --- Inference: what is not known of a person is read off the closest released record (Giomi et al. 2022).


class InferenceTarget(Parametric, abstract=True):
    """What the snooper wants to know: shared by the attack and the measure that scores it."""

    column: str = param(doc="the column he wants to know", columns="one", holds="anything")
    tolerance: float = param(default=0.05, doc="how near a number must be, as a share of the true value", low=0)


class InferValue(ControlledAttack, InferenceTarget):
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
        rows = sample_rows(ids, self.attacks, draws)
        ids, truth, targets_at = ids[rows], truth[known[rows]], targets_at.take(known[rows])
        released, released_at = released[there], released_at.take(there)
        near = self.tolerance * np.abs(truth) if number else np.zeros(len(truth))
        low, high = truth - near, truth + near
        first, right = targets_at.votes(released_at, released, low, high)
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
    one, two = (np.where(part < 0, np.nan, part) for part in category_codes(name, files))
    return one, two


# --- Membership: is this person's record behind the release? (Homer et al. 2008; Chen et al. 2020 for distances).

Evidence = Literal["distance", "relative distance"]


class Telling(Parametric, abstract=True):
    """What speaks for a member: shared by the attack and the measure that scores it."""

    evidence: Evidence = param(default="distance", doc="what speaks for a member")
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
            rows = sample_rows(every, self.targets, draws)
            ids.append(every[rows])
            scores.append(-self.distance(points.take(rows), released))
        truth = np.repeat([1, 0], [len(part) for part in ids])
        sure = np.concatenate(scores)
        # the probability of being among the `count` largest, shape (m,): ties at the limit share what is left
        count = int(truth.sum())
        limit = np.sort(sure)[::-1][count - 1]
        above, tied = sure > limit, sure == limit
        says = np.where(above, 1.0, np.where(tied, (count - above.sum()) / tied.sum(), 0.0))
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
