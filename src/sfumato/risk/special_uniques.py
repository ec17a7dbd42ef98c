"""Records that are unique on few keys: SUDA, and the unsafe combinations of μ-Argus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.contract import Release, Score, Snooper, param
from sfumato.data.classes import Classes, Missing
from sfumato.errors import NotApplicable, count_of, unknown_name
from sfumato.lazy import pd
from sfumato.risk.keys import RiskMeasure, check_sets, named, of_original, released_classes, set_counts, sets_of
from sfumato.risk.population_uniques import fraction_parameter, fraction_source, frequencies_of, sampling_fraction
from sfumato.risk.unique_matches import outside, outside_interval
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers, Whole

Points = Literal["elliot", "ihsn"]


def points(keys: int, most: int, how: Points) -> Numbers:
    """Return what a minimal sample unique of k keys adds to the score of its record, shape (most,) for k = 1, 2, …

    "elliot": ∏ (p - i) over i = k … M (Elliot et al. 2005), M being at most p - 1: with M = p the last factor would be 0 for
    all. "ihsn": (2^(p-k) - 1) / C(p, k), as in the first program of the International Household Survey Network.
    """
    if how == "ihsn":
        return np.array([(2.0 ** (keys - k) - 1) / math.comb(keys, k) for k in range(1, most + 1)])
    last = min(most, keys - 1)
    return np.array([float(math.prod(keys - i for i in range(k, last + 1))) for k in range(1, most + 1)])


@dataclass(frozen=True, eq=False)
class SpecialUniques:
    """The minimal sample uniques of a file, m of them, and the scores they make; c classes by p keys."""

    classes: Classes
    rows: Whole
    """Class of each minimal unique, a class of one record, shape (m,)."""
    members: Flags
    """Which keys each minimal unique has, shape (m, p)."""
    points: Numbers
    """What one of k keys is worth, shape (most,)."""

    @cached_property
    def sizes(self) -> Whole:
        """Number of keys of each minimal unique, shape (m,)."""
        return np.asarray(self.members.sum(axis=1), np.int64)

    @cached_property
    def contributions(self) -> Numbers:
        """What each key takes part in, of each class's score, shape (c, p); a minimal unique counts for each of its keys."""
        worth = self.points[self.sizes - 1]
        columns = [np.bincount(self.rows, worth * member, len(self.classes)) for member in self.members.T]
        return np.column_stack(columns)

    @cached_property
    def scores(self) -> Numbers:
        """SUDA score of each class, shape (c,); 0 for one without a minimal unique."""
        return np.asarray(np.bincount(self.rows, self.points[self.sizes - 1], len(self.classes)), np.float64)

    @cached_property
    def fewest(self) -> Whole:
        """Keys of the smallest minimal unique of each class, shape (c,); 0 for one without any."""
        fewest = np.full(len(self.classes), len(self.points) + 1)
        np.minimum.at(fewest, self.rows, self.sizes)
        return np.where(fewest > len(self.points), 0, fewest)


class SUDA(RiskMeasure):
    """Special uniques: the records that are unique on few keys, and how many ways there are to single them out.

    A minimal sample unique is a set of keys on which a record is unique, while it is on no set within. The fewer keys, and the
    more such sets, the higher the record's SUDA score. The measure is the share of the released records that have one of up to
    `max_size` keys, or the largest DIS-SUDA score: scores brought to the scale of the probability that a unique match is right.

    Per record: the SUDA score, or the DIS-SUDA score. Per group: the share of the file's score, in percent, that each key takes
    part in; they add up to more than 100, since a minimal unique counts for each of its keys.
    """

    max_size: int = param(default=3, doc="how many keys a minimal unique has at most", low=1, integer=True)
    summary: Literal["share", "dis"] = param(
        default="share", doc="share of records with a minimal unique, or largest DIS-SUDA score"
    )
    scores: Points = param(default="elliot", doc="points of a minimal unique: Elliot et al. 2005, or IHSN's program")
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    @override
    def label(self) -> str:
        if self.summary == "dis":
            return "largest DIS-SUDA score"
        return f"records unique on {self._few()}"

    @override
    @property
    def variant(self) -> str:
        scores = "scores of Elliot et al." if self.scores == "elliot" else "IHSN scores"
        fraction = f"{fraction_source(self.fraction)}; " if self.summary == "dis" else ""
        return f"minimal uniques of {self._few()}; {scores}; {fraction}{RULES[self.missing]}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        if self.summary == "dis":
            return f"for the record most at risk, a unique match is right with a probability of about {value:.3g}"
        return f"{100 * value:.3g} % of the records are unique on {self._few()}"

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records that have a score, or the largest DIS-SUDA score."""
        return float(values.max()) if self.summary == "dis" else float((values > 0).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the minimal uniques and score the records."""
        special = self.special_uniques(outcome, snooper)
        found, n = special.classes, int(special.classes.sizes.sum())
        at_risk = int((special.fewest > 0).sum())
        details = {
            "special uniques": float(at_risk),
            "unique records": float((found.matches == 1).sum()),
            **{
                f"records whose smallest minimal unique has {_keys(k)}": float((special.fewest == k).sum())
                for k in self._sizes(special)
            },
            **{f"minimal uniques of {_keys(k)}": float((special.sizes == k).sum()) for k in self._sizes(special)},
            "records left out": float(found.records - n),
        }
        most = len(special.points)
        few = "" if len(found.names) == 1 else "1 of " if most == 1 else f"at most {most} of "
        words = f"{count_of(at_risk, n, ('is', 'are'))} unique on {few}{', '.join(found.names)}"
        value, records = at_risk / n, special.scores
        interval: tuple[float, float] | None = None
        if self.summary == "dis":
            fraction = sampling_fraction(found, self.fraction)
            value, records, interval = 0.0, np.zeros(len(found)), (0.0, 0.0)
            if special.scores.any():
                file, (low, high) = dis(found, fraction)
                records = dis_scores(special, file)
                value = float(records.max())
                interval = float(dis_scores(special, low).max()), float(dis_scores(special, high).max())
                details["DIS of the file"] = file
                words = f"{self.words(value, outcome.original.schema)}; {words}"
            details["sampling fraction"] = fraction
        return self.result(
            value,
            words,
            interval=interval,
            details=details,
            groups=self._shares(special),
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, records),
        )

    def special_uniques(self, outcome: Release, snooper: Snooper | None = None) -> SpecialUniques:
        """Return all minimal uniques of the released file; for the custodian's eyes."""
        snooper = snooper or Snooper()
        released = released_classes(outcome, snooper, self.missing, self.summary == "dis" and self.fraction is None)
        keys = len(released.names)
        most = min(self.max_size, keys)
        check_sets(keys, most, "max_size")
        if self.summary == "dis" and keys > 27:  # the exponent of dis_scores would not be positive
            raise NotApplicable(
                f"DIS-SUDA scores are made for up to 27 keys, and there are {keys}. Name fewer with Snooper(keys=...), "
                "or use summary='share'."
            )
        memory = ("minimal uniques", released.names, self.missing, tuple(sorted(snooper.precision.items())), most)
        if memory not in outcome.memory:
            codes = np.column_stack(released.codes)
            outcome.memory[memory] = kernels.uniques.minimal_uniques(
                codes, released.sizes, most, self.missing == "wildcard", released.matches == 1
            )
        rows, sets = outcome.memory[memory]
        members = (sets[:, None] >> np.arange(keys)) & 1 == 1
        return SpecialUniques(released, rows, members, points(keys, most, self.scores))

    def contributions(self, outcome: Release, snooper: Snooper | None = None) -> pd.DataFrame:
        """Return the share of the file's score, in percent, that each value of each key takes part in, the largest first.

        The rows of a key add up to the key's own share. For the custodian's eyes: it names values that single people out.
        """
        special = self.special_uniques(outcome, snooper)
        widths = snooper.precision if snooper is not None else {}
        total, rows = special.scores.sum(), []
        for j, name in enumerate(special.classes.names):
            codes, values = special.classes.codes[j], special.classes.values[j]
            sums = np.bincount(codes + 1, special.contributions[:, j], len(values) + 1)
            for code in np.flatnonzero(sums).tolist():
                value = "missing" if code == 0 else _value(values[code - 1], widths.get(name))
                rows.append({"key": name, "value": value, "contribution": 100 * sums[code] / total})
        frame = pd.DataFrame(rows, columns=["key", "value", "contribution"])
        return frame.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)

    def _shares(self, special: SpecialUniques) -> dict[str, float]:
        total = float(special.scores.sum())
        sums = special.contributions.sum(axis=0)
        shares = {
            name: 100 * float(s) / total if total else 0.0 for name, s in zip(special.classes.names, sums, strict=True)
        }
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _sizes(self, special: SpecialUniques) -> range:
        return range(1, len(special.points) + 1)

    def _few(self) -> str:
        return "1 key" if self.max_size == 1 else f"at most {self.max_size} keys"


def dis(released: Classes, fraction: float) -> tuple[float, tuple[float, float]]:
    """Return the probability that a unique match is right, by data intrusion simulation, with its interval.

    π n₁ / (π n₁ + 2 (1 - π) n₂), n₁ and n₂ the numbers of keys that one and two records have (Skinner and Elliot 2002): take a
    record out of the file, and put it back with probability π. It matches one record, rightly, if it was unique and is put back;
    wrongly, if it was one of two and is not. The interval is that of `MatchRisk`.
    """
    seen = frequencies_of(released)
    unique = seen.at(1)
    others, variance = outside(seen, fraction)
    low, high = outside_interval(others, variance, fraction)
    return unique / (unique + others), (unique / (unique + high), unique / (unique + low))


def dis_scores(special: SpecialUniques, file: float) -> Numbers:
    """Return the DIS-SUDA score of each class, shape (c,); 0 where there is no SUDA score (Elliot and Manning 2003).

    The odds that a match is right are proportional to s^Q, s the SUDA score and Q = 1 + (8 - p) / 20, with the factor that makes
    the harmonic mean of the scores the DIS of the file.
    """
    out, some = np.zeros(len(special.scores)), special.scores > 0
    if some.any():
        weight = special.scores[some] ** (1 + (8 - len(special.classes.names)) / 20)
        odds_against = (1 / file - 1) * some.sum() / (weight * (1 / weight).sum())
        out[some] = 1 / (1 + odds_against)
    return out


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count} keys"


def _value(value: object, width: float | None) -> str:
    """Return what a code stands for; with a width it is the number of an interval."""
    return str(value) if width is None else f"{float(value) * width:g} to {(float(value) + 1) * width:g}"  # type: ignore[arg-type]


class UnsafeCombinations(RiskMeasure):
    """The share of released records that have a rare combination of values of a few keys.

    Every set of up to `dimension` keys is tabulated; a combination of values is unsafe if at most `threshold` records match it,
    or, weighted, at most `threshold` persons by the estimate of the survey weights. With identification `levels` (1 the most
    identifying) the sets are those of μ-Argus: one key of level 1, one more of level 1 or 2, one more of level 1 to 3, and so on.

    Per record: in how many unsafe combinations it takes part. Per group: the share of records that are unsafe on a set of keys.
    Source: Willenborg and de Waal 1996.
    """

    dimension: int = param(default=3, doc="how many keys are combined at most", low=1, integer=True)
    threshold: float = param(default=2, doc="a combination of at most this many is unsafe", low=0, above=True)
    weighted: bool = param(
        default=False, doc="whether persons are counted by the survey weights, instead of the file's records"
    )
    levels: Mapping[str, int] = param(
        default={},
        doc="identification level of keys, 1 the most identifying; keys without one are left out",
        columns="weights",
        low=1,
        integer=True,
    )
    missing: Missing = missing_rule()

    @override
    def label(self) -> str:
        return f"records in unsafe combinations of {self._keys()}"

    @override
    @property
    def variant(self) -> str:
        return f"{'persons by the survey weights' if self.weighted else 'records'}; {RULES[self.missing]}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"{100 * value:.3g} % of the records have a combination of {self._keys()} that {self._rare()}"

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records that have an unsafe combination; their values count theirs."""
        return float((values > 0).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Tabulate the sets of keys."""
        if self.weighted and outcome.masked.schema.one("weight") is None:
            raise NotApplicable(
                "counting persons needs survey weights, and the released file has none. "
                "Give a column the role 'weight', or count records with weighted=False."
            )
        released = released_classes(outcome, snooper, self.missing, self.weighted)
        amounts = released.weights if self.weighted and released.weights is not None else released.sizes
        n, unsafe = int(released.sizes.sum()), np.zeros(len(released))
        cells: dict[int, int] = {}
        groups: dict[str, float] = {}
        for places in self._sets(released):
            counts = set_counts(released, places, amounts)
            rare = counts.complete & (counts.matches <= self.threshold * (1 + 1e-12))
            cells[len(places)] = cells.get(len(places), 0) + int(rare.sum())
            here = rare[counts.labels]
            unsafe += here
            groups[named(released.names, places)] = float(released.sizes[here].sum()) / n
        records = int(released.sizes[unsafe > 0].sum())
        return self.result(
            records / n,
            f"{count_of(records, n, ('has', 'have'))} a combination of {self._keys()} that {self._rare()}",
            details={
                "records in unsafe combinations": float(records),
                **{f"unsafe combinations of {k} key{'s' * (k > 1)}": float(count) for k, count in cells.items()},
                "sets of keys": float(len(groups)),
                "records left out": float(released.records - n),
            },
            groups=dict(sorted(groups.items(), key=lambda item: -item[1])),
            find_records=None if not outcome.aligned else lambda: of_original(outcome, released, unsafe),
        )

    def _sets(self, released: Classes) -> Iterator[tuple[int, ...]]:
        for name in self.levels:
            if name not in released.names:
                raise NotApplicable(
                    unknown_name("key", name, released.names, "the snooper's keys, which levels are about")
                )
        if not self.levels:
            check_sets(len(released.names), self.dimension, "dimension")
            return sets_of(len(released.names), self.dimension)
        check_sets(len(self.levels), len(set(self.levels.values())), "the number of levels")
        return by_level({i: self.levels[name] for i, name in enumerate(released.names) if name in self.levels})

    def _keys(self) -> str:
        if self.levels:
            return f"{len(set(self.levels.values()))} keys by identification level"
        return "1 key" if self.dimension == 1 else f"up to {self.dimension} keys"

    def _rare(self) -> str:
        whom, verb = ("person", "is estimated to have") if self.weighted else ("record", "has")
        if self.threshold != 1:
            whom, verb = whom + "s", verb.replace("is ", "are ") if self.weighted else "have"
        return f"at most {self.threshold:g} {whom} {verb}"


def by_level(levels: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the sets that identification levels ask for: as many keys as there are levels, the i-th of the i-th level or below.

    >>> list(by_level({0: 1, 1: 2, 2: 3}))
    [(0, 1, 2)]
    >>> list(by_level({0: 1, 1: 1, 2: 2}))
    [(0, 1), (0, 2), (1, 2)]
    """
    steps = sorted(set(levels.values()))
    ordered = sorted(levels, key=lambda i: (levels[i], i))
    for chosen in combinations(ordered, len(steps)):
        if all(levels[i] <= step for i, step in zip(chosen, steps, strict=True)):
            yield tuple(sorted(chosen))
