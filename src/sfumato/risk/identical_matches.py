"""Identical match share: released records that are exact copies of original ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.controlled import holdout_of
from sfumato.attacks.points import comparable, exact_tables
from sfumato.contract import DirectMeasure, Need, Release, Score, Side, Snooper, param, wilson
from sfumato.errors import out_of
from sfumato.kernels.classes import classes, number_codes
from sfumato.risk.per_record import in_id_order
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class IMS(DirectMeasure):
    """The share of released records that are exact copies of an original record, less the same for the holdout.

    Where few columns with few values are released, records agree by chance: the holdout tells how often. A larger holdout
    counts as a random part of it, as large as the original, would on average; a smaller one agrees less often, so that the value
    is too high rather than too low. Per original record: how many released records are the same.
    """

    side: ClassVar[Side] = Side.RISK
    needs: ClassVar[frozenset[Need]] = frozenset({Need.HOLDOUT})

    using: tuple[str, ...] = param(
        default=(), doc="columns to compare; all that can be compared if none", columns="many", holds="anything"
    )

    def label(self) -> str:
        """Return a few words for a legend."""
        return "exact copies of original records (IMS)"

    @property
    def variant(self) -> str:
        """What is subtracted, and what a missing value is."""
        return "above the share in the holdout; missing is a value of its own"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return (
            f"{100 * value:.3g} % of the released records, more than by chance, are exact copies of an original record"
        )

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
        free = min(independent(copies, released), independent(chance, released))
        (low, high), (lower, upper) = wilson(a * free, free), wilson(b * free, free)
        found = out_of(int(copies.sum()), count, ("is an exact copy", "are exact copies"), "released record")
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


def same_records(tables: tuple[Numbers, ...]) -> list[NDArray[np.int64]]:
    """Return labels that are the same for records that are the same, in all tables (n, p) together; shape (n,) each."""
    every = np.vstack(tables)
    labels, _ = classes([number_codes(column) for column in every.T], len(every))
    return np.split(np.asarray(labels, np.int64), np.cumsum([len(t) for t in tables])[:-1])


def independent(hits: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Return how many released records there are in effect: those that are the same are copies together or not at all.

    Their number over the design effect of clusters: the variance of a mean of clusters over that of single records.

    >>> independent(np.array([1, 1, 0, 0]), np.array([0, 1, 2, 3])), independent(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1]))
    (4.0, 2.0)
    """
    errors = hits - hits.mean()
    sums = np.bincount(labels, errors)
    total = float(sums @ sums)
    return len(hits) * min(float(errors @ errors) / total, 1.0) if total > 0 else float(len(hits))


def any_of(counts: NDArray[np.int64], people: int, size: int) -> Numbers:
    """Return the probability that at least one of `counts` people is in a random part of `size` of all people."""
    from scipy.special import gammaln

    if size == people:
        return (counts > 0).astype(np.float64)
    left = people - np.asarray(counts, np.float64)
    possible = (left >= size) & (counts > 0)
    left = np.where(possible, left, float(people))
    none = gammaln(left + 1) - gammaln(left - size + 1) - gammaln(people + 1.0) + gammaln(people - size + 1.0)
    return np.where(possible, np.clip(-np.expm1(none), 0.0, 1.0), counts > 0)
