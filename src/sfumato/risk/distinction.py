"""Distinction and separation: how well sets of keys tell records apart (Motwani and Xu 2007)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from sfumato.attacks.attacker_file import missing_rule
from sfumato.contract import Release, Score, Snooper, param
from sfumato.data.classes import Classes, Missing
from sfumato.errors import NotApplicable, plural
from sfumato.lazy import pd
from sfumato.risk.keys import (
    RiskMeasure,
    SetCounts,
    check_sets,
    named,
    of_original,
    released_classes,
    set_counts,
    sets_of,
)


def distinction(counts: SetCounts) -> float:
    """Return the mean over the records of 1 / f, f the records that match: without missing keys, combinations per record."""
    return float((counts.sizes / counts.matches).sum() / counts.sizes.sum())


def pairs_alike(counts: SetCounts) -> float:
    """Return how many pairs of records match: Σ f (f - 1) / 2 over the combinations, if no key is missing."""
    return float((counts.sizes * (counts.matches - 1)).sum() / 2)


def separation(counts: SetCounts) -> float:
    """Return the share of pairs of records that differ."""
    n = counts.sizes.sum()
    return float(1 - pairs_alike(counts) / (n * (n - 1) / 2))


class Distinction(RiskMeasure):
    """The number of distinct combinations of the snooper's keys, as a share of the number of records.

    1 if every record is unique, 1/n if all are alike. Where a missing key matches anything, combinations are not distinct or
    alike once and for all, and the mean over the records of 1 / f is taken, f the records that match: the same number if no
    key is missing. Per group: the distinction of every set of up to `max_size` keys. Per record: 1 / f.
    """

    title: ClassVar[str] = "distinction"
    sentence: ClassVar[str] = "there are {percent:.3g} % as many distinct combinations of the keys as records"

    max_size: int = param(default=2, doc="list sets of at most this many keys beside all keys", low=1, integer=True)
    missing: Missing = missing_rule()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the distinct combinations."""
        released = released_classes(outcome, snooper, self.missing)
        whole, n = _all_keys(released), int(released.sizes.sum())
        value = distinction(whole)
        about = "" if np.array_equal(whole.sizes, whole.matches) else "about "
        return self.result(
            value,
            f"{', '.join(released.names)} {'takes' if len(released.names) == 1 else 'take'} "
            f"{about}{plural(round(value * n), 'distinct combination')} in {plural(n)}",
            details={"distinct combinations": value * n, "records left out": float(released.records - n)},
            groups={
                named(released.names, places): distinction(counts)
                for places, counts in _listed(released, self.max_size)
            },
            find_records=None if not outcome.aligned else lambda: of_original(outcome, released, 1 / released.matches),
        )


class Separation(RiskMeasure):
    """The share of pairs of records that the snooper's keys tell apart.

    1 if every record is unique, 0 if all are alike. Per group: the separation of every set of up to `max_size` keys. Per record:
    the share of the other records that differ from it.
    """

    title: ClassVar[str] = "separation"
    sentence: ClassVar[str] = "{percent:.4g} % of the pairs of records differ on the keys"

    max_size: int = param(default=2, doc="list sets of at most this many keys beside all keys", low=1, integer=True)
    missing: Missing = missing_rule()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the pairs that differ."""
        released = released_classes(outcome, snooper, self.missing)
        n, whole = _pairs(released), _all_keys(released)
        alike = pairs_alike(whole)
        return self.result(
            separation(whole),
            f"{alike:,.0f} of {plural(n * (n - 1) // 2, 'pair')} of records {'is' if alike == 1 else 'are'} alike on "
            f"{', '.join(released.names)}, and the others differ",
            details={"pairs alike": alike, "records left out": float(released.records - n)},
            groups={
                named(released.names, places): separation(counts) for places, counts in _listed(released, self.max_size)
            },
            find_records=None
            if not outcome.aligned
            else lambda: of_original(outcome, released, (n - released.matches) / (n - 1)),
        )


def distinguishing_keys(
    outcome: Release, snooper: Snooper | None = None, max_size: int = 3, missing: Missing = "wildcard"
) -> pd.DataFrame:
    """Return the distinction and separation of every set of up to `max_size` of the snooper's keys, the most distinct first.

    Examples
    --------
    >>> from sfumato import Release
    >>> from sfumato.datasets import five
    >>> people = five()
    >>> distinguishing_keys(Release.of(people, people), max_size=1)[["keys", "distinction", "separation"]]
      keys  distinction  separation
    0  age          1.0         1.0
    1  zip          0.6         0.8
    2  sex          0.4         0.6
    """
    released = released_classes(outcome, snooper or Snooper(), missing)
    _pairs(released)
    rows = [
        {
            "keys": named(released.names, places),
            "number of keys": len(places),
            "distinction": distinction(counts),
            "separation": separation(counts),
        }
        for places, counts in _listed(released, max_size)
    ]
    order = ["distinction", "separation", "number of keys"]
    return pd.DataFrame(rows).sort_values(order, ascending=[False, False, True], kind="stable", ignore_index=True)


def _all_keys(released: Classes) -> SetCounts:
    sizes = np.asarray(released.sizes, np.float64)
    labels, complete = np.arange(len(sizes)), np.ones(len(sizes), bool)
    return SetCounts(labels, sizes, np.asarray(released.matches, np.float64), complete)


def _listed(released: Classes, size: int) -> Iterator[tuple[tuple[int, ...], SetCounts]]:
    check_sets(len(released.names), size, "max_size")
    return ((places, set_counts(released, places, released.sizes)) for places in sets_of(len(released.names), size))


def _pairs(released: Classes) -> int:
    n = int(released.sizes.sum())
    if n < 2:
        raise NotApplicable("separation compares pairs of records, and there is only one record.")
    return n
