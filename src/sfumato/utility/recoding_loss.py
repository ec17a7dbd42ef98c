"""What recoding and suppression lose: class sizes, discernibility, ambiguity, granularity, non-uniform entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from sfumato.contract import Need, Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data import Kind, Microdata
from sfumato.errors import NotApplicable, SchemaError, join_names
from sfumato.schema import IntervalHierarchy
from sfumato.schema.hierarchy import Hierarchy, label_of
from sfumato.typing import Codes, Flags, Numbers
from sfumato.utility.comparison import ColumnUtility, over_columns, weighted_flag, weights_of
from sfumato.utility.recoded_values import (
    DistinctRecords,
    distinct_pairs,
    distinct_records,
    each_implicate,
    hierarchies_of,
    key_columns,
    known_codes,
    known_mass,
    labels_on,
    leaves_of_root,
    leaves_of_values,
    paired_codes,
)


class AverageClassSize(ColumnUtility):
    """How many groups of records the keys still tell apart: the original's average class size over the release's.

    The literature's number, C_AVG = (records / classes) / k, stands in the details: 1 is the best that a k-anonymous file can
    have. U = C_AVG of the original / C_AVG, in which k plays no part: without suppression it is the share of the classes that
    is left. A suppressed record (not released, or every key missing or `*`) counts among the records and makes no class. A
    missing key may be any value: records with one make a class only if no others could be theirs. A key that is not released
    tells nothing apart. More classes than the original has, made by noise, gain nothing.
    Source: LeFevre, DeWitt and Ramakrishnan 2006.
    """

    title: ClassVar[str] = "classes kept"
    sentence: ClassVar[str] = "{percent_lost} % of the classes lost"
    preposition: ClassVar[str] = "by"
    keys: ClassVar[bool] = True

    over: tuple[str, ...] | None = over_columns()
    k: int = param(default=3, doc="the k of k-anonymity that C_AVG in the details is divided by", low=1, integer=True)

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the classes."""
        names = key_columns(outcome.original, self.over)
        before = distinct_records(outcome, outcome.original, names)
        if not before.classes:
            raise NotApplicable("no key is known of any original record, so there are no classes to keep.")
        after = [distinct_records(outcome, data, names) for data in outcome.implicates]
        now, old = float(np.mean([_average(found) for found in after])), _average(before)
        classes = float(np.mean([found.classes for found in after]))
        return self.result(
            min(old / now, 1.0),
            f"{_told(round(classes), now)}, in the original {_told(before.classes, old)}; C_AVG {digits(now / self.k)} for "
            f"k = {self.k}",
            details={
                "C_AVG": now / self.k,
                "C_AVG of the original": old / self.k,
                "classes": classes,
                "classes of the original": float(before.classes),
                "suppressed records": float(np.mean([found.suppressed for found in after])),
            },
        )


def _average(found: DistinctRecords) -> float:
    """Return records per class; infinite, where there is no class."""
    return found.records / found.classes if found.classes else math.inf


def _told(classes: int, average: float) -> str:
    return (
        f"{classes:,} {'class' if classes == 1 else 'classes'} of {digits(average)} records on average"
        if classes
        else "no class"
    )


class Discernibility(ColumnUtility):
    """How well records can still be told apart by the keys: DM is the sum of squared class sizes, and n for a suppressed record.

    It counts the pairs of records that look the same: DM/n² is the probability that two records drawn with replacement do.
    U = 1 for the original's own, 0 where all records look the same or are suppressed:
    U = 1 - (DM/n² - DM₀/n²)/(1 - DM₀/n²). A record is suppressed if it is not released or every key is missing or `*`. A key
    that is not released tells nothing apart; a missing one, or `*`, may be any value. A release that tells more records apart
    than the original, by noise, gains nothing. Source: Bayardo and Agrawal 2005.
    """

    title: ClassVar[str] = "discernibility"
    sentence: ClassVar[str] = "{percent_lost} % of the pairs of records that could be told apart no longer can"
    preposition: ClassVar[str] = "by"
    keys: ClassVar[bool] = True

    over: tuple[str, ...] | None = over_columns()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Square the class sizes."""
        names = key_columns(outcome.original, self.over)
        before = distinct_records(outcome, outcome.original, names)
        if not before.records:
            raise NotApplicable("the original has no records, so there is nothing to tell apart.")
        after = [distinct_records(outcome, data, names) for data in outcome.implicates]
        raw = float(np.mean([found.discernibility for found in after]))
        alike = float(np.mean([found.discernibility / found.records**2 for found in after]))
        alike_before = before.discernibility / before.records**2
        loss = max((alike - alike_before) / (1 - alike_before), 0.0) if alike_before < 1 else 0.0
        return self.result(
            1.0 - loss,
            f"two records look the same with probability {digits(alike)}, in the original with {digits(alike_before)}; "
            f"discernibility {digits(raw)}",
            details={
                "discernibility": raw,
                "discernibility of the original": before.discernibility,
                "suppressed records": float(np.mean([found.suppressed for found in after])),
            },
        )


class Ambiguity(ColumnUtility):
    """How few records a released one could stand for: AM is the mean over records of the product of leaves(value) over columns.

    leaves(value) counts the values at the bottom of the column's hierarchy that a released value stands for; a missing value,
    a record or a column that is not released could be any. AM grows by factors, so U is on a log scale: 1 for the original's
    own AM, 0 where every record could be any: U = 1 - log(AM/AM of the original) / log(all combinations/AM of the original).
    It ranks files as AM does. It looks at how much a record says, not at whether it is true. Source: Goldberger and Tassa 2010.
    """

    title: ClassVar[str] = "unambiguity"
    sentence: ClassVar[str] = "{percent_lost} % of the way, in factors, to records that could be any"
    definition: ClassVar[str] = "log scale"
    keys: ClassVar[bool] = True

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Average the products of what the values cover."""
        names = key_columns(outcome.original, self.over)
        if not len(outcome.original):
            raise NotApplicable("the original has no records, so there is nothing to lose.")
        most = sum(np.log(leaves_of_root(outcome, name)) for name in names)
        before = _log_ambiguity(outcome, outcome.original, names, self.weighted)
        each = [_log_ambiguity(one, one.masked, names, self.weighted) for one in each_implicate(outcome)]
        now, room = float(np.mean(each)), most - before
        loss = min(max((now - before) / room, 0.0), 1.0) if room > 0 else 0.0
        with np.errstate(over="ignore"):
            am, am_before, combinations = (float(np.exp(v)) for v in (now, before, most))
        return self.result(
            1.0 - loss,
            f"a released record could stand for {digits(am)} different records on average, an original one for "
            f"{digits(am_before)}, of {digits(combinations)} combinations",
            details={
                "ambiguity": am,
                "ambiguity of the original": am_before,
                "combinations": combinations,
                "share of all combinations": float(np.exp(now - most)),
            },
        )


def _log_ambiguity(outcome: Release, data: Microdata, names: tuple[str, ...], weighted: bool) -> float:
    """Return log AM; products are added up as logarithms, since they can be larger than any float."""
    products, most = np.zeros(len(data)), 0.0
    for name in names:
        root = float(np.log(leaves_of_root(outcome, name)))
        most += root
        if name in data.engine.kinds:
            sizes = np.log(leaves_of_values(outcome, data, name))
            products += np.append(sizes, root)[known_codes(data, name)]
        else:
            products += root
    weights, others = weights_of(data, weighted), weights_of(outcome.original, weighted)
    here = np.ones(len(data)) if weights is None else weights
    total = float(len(outcome.original) if others is None else others.sum())
    lost = max(total - float(here.sum()), 0.0)
    top = max(float(products.max(initial=0.0)), most if lost else 0.0)
    added = float(here @ np.exp(products - top)) + lost * float(np.exp(most - top))
    return top + float(np.log(added / max(total, float(here.sum()))))


# --- Granularity: how fine the released values still are (the loss metric of Iyengar 2002).


class Granularity(ColumnUtility):
    """How fine recoded values still are: 1 minus the mean over columns and records of (leaves(value) - 1)/(leaves(root) - 1).

    leaves(value) counts the values at the bottom of the column's hierarchy that a released value stands for. A value itself
    loses nothing; the root, a suppressed value, a record or a column that is not released loses 1; a value that was missing
    before is left out. Columns count alike. It looks at how much a value says, not at whether it is true.
    """

    title: ClassVar[str] = "granularity"
    sentence: ClassVar[str] = "{percent_lost} % of the detail is lost that the hierarchies hold"
    definition: ClassVar[str] = "plain mean over columns"
    keys: ClassVar[bool] = True

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Average what each released value covers."""
        losses, before = {}, []
        for name in key_columns(outcome.original, self.over):
            if not known_mass(outcome.original, name, self.weighted).sum():
                continue  # nothing was known, so nothing can be lost
            each = [_lost(one, one.masked, name, self.weighted) for one in each_implicate(outcome)]
            losses[name] = float(np.mean(each))
            before.append(_lost(outcome, outcome.original, name, self.weighted))
        if not losses:
            raise NotApplicable("no value of these columns is known in the original, so there is nothing to lose.")
        value = 1.0 - float(np.mean([*losses.values()]))
        details = {"loss": 1.0 - value, "granularity of the original": 1.0 - float(np.mean(before))}
        words = self.words(value, outcome.original.schema)
        return self.result(value, words, details={**details, **{f"loss of {n}": v for n, v in losses.items()}})


def _lost(outcome: Release, data: Microdata, name: str, weighted: bool) -> float:
    """Return the mean loss of one column, by LM = (leaves - 1)/(leaves of the root - 1) for each value."""
    before = float(known_mass(outcome.original, name, weighted).sum())
    if name not in data.engine.kinds:
        return 1.0
    mass, root = known_mass(data, name, weighted), leaves_of_root(outcome, name)
    known = float(mass.sum())
    share = (leaves_of_values(outcome, data, name) - 1) / max(root - 1, 1.0)
    # what was known before and is not now was suppressed, alone or with its record
    return (float(mass @ share) + max(before - known, 0.0)) / max(before, known)


class NonUniformEntropy(ColumnUtility):
    """The share of the file's bits that recoding keeps: a value a released as g loses log2(n(g)/n(a)) bits.

    n(a) is how many original records have the value, n(g) how many have one that g stands for, so that merging rare values with
    a frequent one costs little (de Waal and Willenborg 1999; for local recoding Gionis and Tassa 2009). A value that is
    suppressed, or whose record or column is not released, loses log2(n/n(a)); so does a released value that is not true of its
    record, after noise or swapping. A value that was missing before is left out. U = 1 - bits lost / bits in the file, the sum
    over the columns of n times the entropy.
    """

    title: ClassVar[str] = "entropy kept"
    sentence: ClassVar[str] = "{percent_lost} % of the bits lost"
    definition: ClassVar[str] = "non-uniform entropy"
    keys: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Add up the bits that each record loses."""
        names = key_columns(outcome.original, self.over)
        releases = list(each_implicate(outcome))
        if len(outcome.original) and any(
            len(one.masked) and one.matched[0] is not None and not len(one.matched[0]) for one in releases
        ):
            raise NotApplicable(
                "no released record came from an original one, so none can be compared with its own value."
            )
        weights = weights_of(outcome.original, self.weighted)
        count = float(len(outcome.original) if weights is None else weights.sum())
        there = {name: _bits(known_mass(outcome.original, name, self.weighted)) for name in names}
        total = sum(float(bits @ mass) for bits, mass in there.values())
        if not total > 0:
            raise NotApplicable(f"{join_names(names)}: nothing varies, so there are no bits to lose.")
        lost = {
            name: float(np.mean([_non_uniform_entropy_lost(one, name, self.weighted) for one in releases]))
            for name in names
        }
        value = 1.0 - min(sum(lost.values()) / total, 1.0)  # more is the computer's rounding
        return self.result(
            value,
            f"{digits(sum(lost.values()) / count)} of {digits(total / count)} bits per record lost "
            f"({digits(100 * (1 - value))} %)",
            details={
                "bits per record": total / count,
                "bits lost per record": sum(lost.values()) / count,
                **{f"bits lost of {name}": bits / count for name, bits in lost.items()},
            },
        )


def _bits(mass: Numbers) -> tuple[Numbers, Numbers]:
    """Return how many bits each value tells, log2(n/n(a)), and how many records have it."""
    total = float(mass.sum()) or 1.0
    return np.log2(total / np.where(mass > 0, mass, total)), mass


def _non_uniform_entropy_lost(outcome: Release, name: str, weighted: bool) -> float:
    """Return the bits that one column loses."""
    bits, mass = _bits(known_mass(outcome.original, name, weighted))
    if name not in outcome.masked.engine.kinds:
        return float(bits @ mass)
    before, after = paired_codes(outcome, name)
    weights = weights_of(outcome.original, weighted)
    known = before >= 0
    if weights is not None:
        known &= weights > 0
    before, after = before[known], after[known]
    if _both_numbers(outcome, name):
        covered, true = _same(outcome, name, before, after, mass)
    else:
        covered, true = _covered(outcome, name, before, after, mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(true, np.log2(covered[after] / mass[before]), bits[before])
    return float(loss.sum() if weights is None else loss @ weights[known])


def _both_numbers(outcome: Release, name: str) -> bool:
    """Whether a released number stands for itself alone: there is no label to look up."""
    kinds = {data.kind(name) for data in (outcome.original, outcome.masked)}
    return kinds == {Kind.NUMBER} and all(isinstance(h, IntervalHierarchy) for h in hierarchies_of(outcome, name))


def _same(outcome: Release, name: str, before: Codes, after: Codes, mass: Numbers) -> tuple[Numbers, Flags]:
    """As `_covered`, where a released number stands for itself."""
    old, new = (
        np.append(np.asarray(data.batch([name]).column(name).ranks[1], np.float64), np.nan)
        for data in (outcome.original, outcome.masked)
    )
    true, covered = old[before] == new[after], np.zeros(len(new))
    covered[after[true]] = mass[before[true]]
    return covered, true


def _levels(hierarchy: Hierarchy | None, released: Sequence[Any]) -> Sequence[int]:
    """Return the levels on which released labels stand; of intervals of many numbers, those that were used."""
    if hierarchy is None:
        return [0]
    if not isinstance(hierarchy, IntervalHierarchy):
        return range(hierarchy.height + 1)
    used = set()
    for label in released:
        with suppress(SchemaError):
            used.add(hierarchy.level_of(label))
    return sorted(used)


def _covered(outcome: Release, name: str, before: Codes, after: Codes, mass: Numbers) -> tuple[Numbers, Flags]:
    """Return n(g) for each released value, 0 last for missing, and for each record whether its released value is true of it."""
    _, values = outcome.original.batch([name]).column(name).codes
    _, released = outcome.masked.batch([name]).column(name).codes
    covered, true, left = np.zeros(len(released) + 1), np.zeros(len(before), bool), np.ones(len(released), bool)
    for hierarchy in (*hierarchies_of(outcome, name), None):  # the first that knows a label decides
        if not left.any():
            break
        labels = labels_on(hierarchy, released, 0)
        kept = set(labels) - {None} if hierarchy is not None else {label_of(value) for value in values}
        mine = left & np.array([label in kept for label in labels], bool)
        number = {label: i for i, label in enumerate(dict.fromkeys(np.array(labels, object)[mine]))}
        at = np.array([*(number[v] if m else -1 for v, m in zip(labels, mine, strict=True)), -1])
        found, below = np.zeros(len(number)), np.full(len(values), -2)
        for level in _levels(hierarchy, [v for v, m in zip(released, mine, strict=True) if m]):
            here = np.array([number.get(label, -2) for label in labels_on(hierarchy, values, level)], np.int64)
            new = (here >= 0) & (here != below)  # a label may stand on several levels
            found += np.bincount(here[new], mass[new], len(number))
            true |= here[before] == at[after]
            below = here
        covered[:-1][mine] = found[at[:-1][mine]]
        left &= ~mine
    if outcome.masked.kind(name) is Kind.CATEGORY and left.any():
        # labels of a list of old and new values stand for what was released under them
        under = np.append(left, False)[after]
        old, label = distinct_pairs(before[under], after[under], len(released))
        np.add.at(covered, label, mass[old])
        true |= under
    return covered, true
