"""Released records that are closest to, or copies of, original ones: DCR, NNDR and identical matches."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.attacks.attacker_file import Closest, Points, as_points, comparable, exact_tables
from sfumato.attacks.holdout_attacks import holdout_of
from sfumato.contract import Draws, Need, Release, Score, Snooper, param, wilson
from sfumato.errors import NotApplicable, count_of, plural
from sfumato.kernels.classes import classes, number_codes
from sfumato.lazy import special
from sfumato.risk.keys import RiskMeasure, in_id_order
from sfumato.schema import Schema
from sfumato.typing import Numbers, Whole

# --- Are released records closer to the original than to people who are not in it? (Platzer and Reutterer 2021).

NO_MEMBERSHIP = "it says nothing of whether a person's presence in the file can be told"


class ClosestRecords(RiskMeasure, abstract=True):
    """A comparison of released records with the original, and with records that were set aside before masking."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.HOLDOUT})

    using: tuple[str, ...] = param(
        default=(), doc="columns to compare; all that can be compared if none", columns="many", holds="anything"
    )
    sample: int = param(
        default=10_000, doc="how many released records are looked at, at most", low=1, high=1e9, integer=True
    )
    seed: int = param(default=1, doc="seed of the sample of released records", low=0, integer=True)

    @override
    @property
    def variant(self) -> str:
        return "numbers in standard deviations of the original, categories 0 or 1, missing is a value of its own"

    def points(self, outcome: Release) -> tuple[Points, Points, Points]:
        """Return the original, the holdout, and the released records that are looked at."""
        held = holdout_of(outcome)
        key = ("closest records", self.using)
        if key not in outcome.memory:
            names = comparable(outcome, self.using, held)
            outcome.memory[key] = as_points(names, outcome.original, held, outcome.masked)
        original, held_at, released = outcome.memory[key]
        if len(released) > self.sample:
            drawn = Draws(self.seed).generator("sample").choice(len(released), self.sample, replace=False)
            released = released.take(np.sort(drawn))
        return original, held_at, released

    def closest(self, outcome: Release) -> tuple[Closest, Closest]:
        """Return the two closest records of each released one, in the original and in the holdout."""
        key = ("closest pairs", self.using, self.sample, self.seed)
        if key not in outcome.memory:
            original, held, released = self.points(outcome)
            outcome.memory[key] = released.near(original, 2), released.near(held, 2)
        near, far = outcome.memory[key]
        return near, far


class DCR(ClosestRecords):
    """Distance to the closest record: the share of released records whose closest record is an original one, above one half.

    Of several records that are equally close each counts the same. The share s is corrected for files of different size, so
    that one half is ideal: s/N / (s/N + (1-s)/M) for N original and M held-out records. The value is this less one half: 0 if
    the release favours neither file, 1/2 for an exact copy. Per original record: its distance from the closest released one.
    """

    title: ClassVar[str] = "closer to the original than to others (DCR)"

    @override
    def words(self, value: float, schema: Schema) -> str:
        share = 100 * (value + 0.5)
        return f"{share:.3g} % of the released records are closest to an original record, where 50 % is ideal; {NO_MEMBERSHIP}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the closest record of each released one."""
        inside, outside = self.closest(outcome)
        sizes, count = (len(outcome.original), len(holdout_of(outcome))), len(inside.rows)
        share = float(nearest_share(inside, outside).mean())
        free = independent(inside, outside)
        low, high = wilson(share * free, free)
        value, ends = corrected(share, *sizes) - 0.5, (corrected(low, *sizes) - 0.5, corrected(high, *sizes) - 0.5)
        near, far = (float(np.quantile(found.distances[:, 0], 0.05)) for found in (inside, outside))
        return self.result(
            value,
            f"{100 * (value + 0.5):.3g} % of {plural(count, 'released record')} {'is' if count == 1 else 'are'} closest to an "
            f"original record rather than to one that was set aside, where 50 % is ideal; {NO_MEMBERSHIP}",
            interval=(min(ends[0], value), max(ends[1], value)),
            details={
                "share closest to the original": value + 0.5,
                "share before correction for size": share,
                "5th percentile of distance to the original": near,
                "5th percentile of distance to the holdout": far,
                "released records looked at": float(count),
            },
            find_records=lambda: self._distances(outcome),
        )

    def _distances(self, outcome: Release) -> Numbers:
        original, _, released = outcome.memory[("closest records", self.using)]
        return in_id_order(outcome, np.asarray(original.distances(released)[:, 0]))


class NNDR(ClosestRecords):
    """Nearest-neighbour distance ratio: how much closer the closest record is than the second closest.

    The ratio is near 0 for a released record that stands beside one record alone. The value is 1 - a/b, where a is the mean ratio
    to original records and b that to held-out ones: 0 if the release favours neither, 1 for an exact copy of records that are
    all different. For numbers the ratio hardly depends on the size of a file; for categories it does, since a larger file has
    more records that are equally close. So of a larger holdout a random part is taken, as large as the original, and a smaller
    one is refused if there are categories.
    """

    title: ClassVar[str] = "beside one original record (NNDR)"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return (
            f"the distance ratio to the two closest records is {100 * value:.3g} % smaller for original records than for others, "
            f"where 0 is ideal; {NO_MEMBERSHIP}"
        )

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the ratios; the interval is that of a ratio of means (delta method), clustered by closest record."""
        if min(len(outcome.original), len(holdout_of(outcome)), len(outcome.masked)) < 2:
            raise NotApplicable(
                "ratios of distances need at least two records in the original, in the holdout and in the release."
            )
        inside, outside = self.closest_of_equal_files(outcome)
        near, other = ratios(inside.distances), ratios(outside.distances)
        a, b, count = float(near.mean()), float(other.mean()), len(near)
        if b == 0:
            raise NotApplicable(
                "every released record is a copy of one record of the holdout, so there is nothing to compare."
            )
        half = _t_quantile(inside, outside) * float(np.sqrt(clustered(near - a / b * other, inside, outside))) / b
        value = 1 - a / b
        return self.result(
            value,
            f"over {plural(count, 'released record')} the closest record is on average {a:.3g} times as far as the second closest "
            f"in the original, and {b:.3g} times in the holdout; {NO_MEMBERSHIP}",
            interval=(value - half, min(value + half, 1.0)),
            details={
                "mean ratio, original": a,
                "mean ratio, holdout": b,
                "5th percentile of the ratio, original": float(np.quantile(near, 0.05)),
                "5th percentile of the ratio, holdout": float(np.quantile(other, 0.05)),
                "released records looked at": float(count),
            },
        )

    def closest_of_equal_files(self, outcome: Release) -> tuple[Closest, Closest]:
        """Return the two closest records of each released one, in the original and in as many records of the holdout."""
        original, held, released = self.points(outcome)
        if len(held) < len(original) and held.numbers < held.x.shape[1]:
            raise NotApplicable(
                "where categories are compared, records of a larger file are equally close more often, so the holdout must have "
                "as many records as the original. Set half of the file aside: hold_out(data, 0.5, draws)."
            )
        inside, outside = self.closest(outcome)
        if len(held) <= len(original):
            return inside, outside
        part = Draws(self.seed).generator("part of the holdout").choice(len(held), len(original), replace=False)
        return inside, released.near(held.take(np.sort(part)), 2)


def nearest_share(near: Closest, far: Closest) -> Numbers:
    """Return for each released record which share of its closest records, in both files together, is original; shape (t,)."""
    one, two = near.distances[:, 0], far.distances[:, 0]
    return np.where(one == two, near.ties / (near.ties + far.ties), one < two)


def independent(near: Closest, far: Closest) -> float:
    """Return how many released records there are in effect: those with the same closest record say the same.

    1 / Σ p², where p is the share of the released records whose closest record is this one.
    """
    original = near.distances[:, 0] <= far.distances[:, 0]
    closest = np.where(original, near.rows[:, 0], -1 - far.rows[:, 0])
    return 1 / float(((np.unique(closest, return_counts=True)[1] / len(closest)) ** 2).sum())


def clustered(errors: Numbers, near: Closest, far: Closest) -> float:
    """Return the variance of a mean whose terms share closest records, in either file (Cameron, Gelbach and Miller 2011)."""
    sums = [np.bincount(found.rows[:, 0], errors) for found in (near, far)]
    own = float(errors @ errors)
    total = sum(float(part @ part) for part in sums) - own
    return max(total, own) / len(errors) ** 2


def _t_quantile(near: Closest, far: Closest) -> float:
    """Return how many standard errors a 95 % interval reaches: Student's, for as many terms as there are closest records."""
    clusters = min(len(np.unique(found.rows[:, 0])) for found in (near, far))
    return float(special.stdtrit(max(clusters - 1, 1), 0.975))


def corrected(share: float, size: int, other: int) -> float:
    """Return the share that files of equal size would give: its odds are divided by the odds of their sizes.

    >>> corrected(0.8, 400, 100), corrected(1.0, 400, 100)
    (0.5, 1.0)
    """
    mine, theirs = share / size, (1 - share) / other
    return mine / (mine + theirs)


def ratios(distances: Numbers) -> Numbers:
    """Return closest / second closest, shape (t,); 1 where both coincide with the record."""
    first, second = distances[:, 0], distances[:, 1]
    return np.divide(first, second, out=np.ones(len(first)), where=second > 0)


# --- Identical match share: released records that are exact copies of original ones.


class IMS(RiskMeasure):
    """The share of released records that are exact copies of an original record, less the same for the holdout.

    Where few columns with few values are released, records agree by chance: the holdout tells how often. A larger holdout
    counts as a random part of it, as large as the original, would on average; a smaller one agrees less often, so that the value
    is too high rather than too low. Per original record: how many released records are the same.
    """

    title: ClassVar[str] = "exact copies of original records (IMS)"
    sentence: ClassVar[str] = (
        "{percent:.3g} % of the released records, more than by chance, are exact copies of an original record"
    )
    needs: ClassVar[frozenset[Need]] = frozenset({Need.HOLDOUT})

    using: tuple[str, ...] = param(
        default=(), doc="columns to compare; all that can be compared if none", columns="many", holds="anything"
    )

    @override
    @property
    def variant(self) -> str:
        return "above the share in the holdout; missing is a value of its own"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the copies; the interval of the difference is Newcombe's (1998, method 10)."""
        held = holdout_of(outcome)
        files = outcome.masked, outcome.original, held
        released, original, other = same_records(exact_tables(comparable(outcome, self.using, held), *files))
        size = int(max(part.max() for part in (released, original, other))) + 1
        n, m = len(original), len(other)
        copies = np.bincount(original, minlength=size)[released] > 0
        chance = any_of(np.bincount(other, minlength=size), m, min(n, m))[released]
        a, b, count = float(copies.mean()), float(chance.mean()), len(released)
        free = min(independent_copies(copies, released), independent_copies(chance, released))
        (low, high), (lower, upper) = wilson(a * free, free), wilson(b * free, free)
        found = count_of(int(copies.sum()), count, ("is an exact copy", "are exact copies"), "released record")
        words = f"{found} of an original record, {100 * b:.3g} % would be by chance"
        return self.result(
            a - b,
            words + ("; the holdout is smaller than the original, so chance is underrated" if m < n else ""),
            interval=(a - b - math.hypot(a - low, upper - b), a - b + math.hypot(high - a, b - lower)),
            details={"copies of original records": float(copies.sum()), "share": a, "share in the holdout": b},
            find_records=lambda: in_id_order(
                outcome, np.bincount(released, minlength=size)[original].astype(np.float64)
            ),
        )


def same_records(tables: tuple[Numbers, ...]) -> list[Whole]:
    """Return labels that are the same for records that are the same, in all tables (n, p) together; shape (n,) each."""
    every = np.vstack(tables)
    labels, _ = classes([number_codes(column) for column in every.T], len(every))
    return np.split(np.asarray(labels, np.int64), np.cumsum([len(t) for t in tables])[:-1])


def independent_copies(hits: NDArray[Any], labels: Whole) -> float:
    """Return how many released records there are in effect: those that are the same are copies together or not at all.

    Their number over the design effect of clusters: the variance of a mean of clusters over that of single records.

    >>> right = np.array([1, 1, 0, 0])
    >>> independent_copies(right, np.array([0, 1, 2, 3])), independent_copies(right, np.array([0, 0, 1, 1]))
    (4.0, 2.0)
    """
    errors = hits - hits.mean()
    sums = np.bincount(labels, errors)
    total = float(sums @ sums)
    return len(hits) * min(float(errors @ errors) / total, 1.0) if total > 0 else float(len(hits))


def any_of(counts: Whole, people: int, size: int) -> Numbers:
    """Return the probability that at least one of `counts` people is in a random part of `size` of all people."""
    if size == people:
        return (counts > 0).astype(np.float64)
    left = people - np.asarray(counts, np.float64)
    possible = (left >= size) & (counts > 0)
    left = np.where(possible, left, float(people))
    none = (
        special.gammaln(left + 1)
        - special.gammaln(left - size + 1)
        - special.gammaln(people + 1.0)
        + special.gammaln(people - size + 1.0)
    )
    return np.where(possible, np.clip(-np.expm1(none), 0.0, 1.0), counts > 0)
