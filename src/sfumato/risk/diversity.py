"""l-diversity, (α, k)-anonymity, t-closeness, β-likeness and δ-disclosure privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.contract import CandidateClasses, ClassModel, Release, Score, Snooper, param
from sfumato.contract.class_model import ROUNDING, ClassValues
from sfumato.data import Kind
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable, ParameterError, count_of, plural
from sfumato.kernels.classes import ClassCells, classes
from sfumato.risk.class_distributions import Distributions, distributions, keys_beside
from sfumato.risk.keys import RiskMeasure, of_original
from sfumato.schema import Attribute, Scale
from sfumato.schema.hierarchy import label_of
from sfumato.typing import Flags, Numbers, Whole

DiversityKind = Literal["distinct", "entropy", "recursive"]


def entropy_diversity(cells: ClassCells) -> Numbers:
    """Return exp(entropy) of each class, shape (r,): as many values as equally frequent ones would be."""
    n = cells.totals
    logs = np.add.reduceat(cells.counts * np.log(cells.counts), cells.starts[:-1])
    return np.exp(np.log(n) - logs / n)


def recursive_diversity(cells: ClassCells, c: float) -> Numbers:
    """Return the largest l of each class with r_1 < c · (r_l + ... + r_m), shape (r,); 0 if there is none.

    r_1, ..., r_m are the counts of the class in falling order.
    """
    order = np.lexsort((-cells.counts, cells.rows))
    counts, first = cells.counts[order], cells.starts[:-1]
    before = np.cumsum(counts) - counts
    tail = np.repeat(before[first] + cells.totals, cells.distinct) - before
    most = np.repeat(counts[first], cells.distinct)
    holds = most < c * tail * (1 - ROUNDING)  # the bound is strict, and 1.1 * 10 is above 11 by rounding alone
    return np.add.reduceat(holds.astype(np.float64), first)  # tails fall, so the first l hold


class LDiversity(RiskMeasure, ClassModel):
    """The share of released records in classes whose confidential values are not l-diverse.

    A class is what a snooper finds who knows the keys: the records that match. It is l-diverse if it has l different values
    (``kind="distinct"``), if exp(entropy) of its values is at least l (``"entropy"``), or if its most frequent value is less
    than c times as frequent as the l-th, the next and so on together (``"recursive"``). Of several columns each is looked at in
    turn while the snooper knows the others too, unless ``others="ignored"``. Per record: the largest l that holds for its class.
    Source: Machanavajjhala et al. 2007.

    Examples
    --------
    >>> from sfumato import Release, Snooper
    >>> from sfumato.datasets import five
    >>> people = Release.of(five(), five(), align="rows")
    >>> LDiversity(["zip"], l=2).score(people, Snooper(keys=("sex",))).value
    0.0
    """

    sentence: ClassVar[str] = "{percent:.3g} % of the records are in classes without {self._asked}"

    over: tuple[str, ...] = param(doc="the confidential columns", columns="many", holds="anything")
    l: float = param(default=2.0, doc="how many values a class must have, in the sense of `kind`", low=1, above=True)  # noqa: E741
    kind: DiversityKind = param(
        default="distinct",
        doc="what diverse means: different values, exp(entropy), or a limit on the most frequent value",
    )
    c: float = param(
        default=3.0, doc="how many times more frequent the most frequent value may be (recursive)", low=0, above=True
    )
    others: Literal["keys", "ignored"] = param(
        default="keys", doc="of several columns, whether a snooper knows the others when he wants to learn one"
    )
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        if not self.over:
            raise ParameterError("over of l_diversity must name at least one column.")
        if self.kind != "entropy" and self.l != int(self.l):
            raise ParameterError(f"l of l_diversity must be a whole number if kind is '{self.kind}'; got {self.l:g}.")

    @override
    def label(self) -> str:
        return f"records below {self._asked} of {', '.join(self.over)}"

    @property
    def _asked(self) -> str:
        return f"({self.c:g}, {self.l:g})-diversity" if self.kind == "recursive" else f"{self.l:g}-diversity"

    @override
    @property
    def variant(self) -> str:
        several = "" if len(self.over) < 2 else f"; the other columns are {self.others}"
        return f"{self.kind}{several}; {RULES[self.missing]}"

    @override
    @property
    def confidential(self) -> tuple[str, ...]:
        return self.over

    @override
    @property
    def closed(self) -> bool:  # type: ignore[override]
        return self.kind == "distinct"

    @override
    @property
    def least(self) -> int:
        # exp(entropy) is at most the number of values, and the l-th value needs a record of its own
        return math.ceil(self.l * (1 - ROUNDING))

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        if len(self.over) > 1 and self.others == "keys":
            raise ParameterError(
                "a search cannot let the snooper know the other confidential columns. Set others = 'ignored' in l_diversity, or "
                "give one model for each column."
            )
        low = np.zeros(len(table), bool)
        for column in self.over:
            values = table.of(column)
            low[values.rows] |= values.each(self._diversity) < self.l * (1 - ROUNDING)
        return low

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records whose l is too small; their values are the l of their classes."""
        return float((values < self.l * (1 - ROUNDING)).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the l of each class, for each column."""
        keys = keys_beside(outcome, snooper, self.over)
        found, diversity = [], []
        for column in self.over:
            rest = () if self.others == "ignored" else tuple(c for c in self.over if c != column)
            by, names = (*keys, *rest), (*keys, *self.over)
            found.append(distributions(outcome, snooper, self.missing, column, by, names))
            diversity.append(found[-1].each(self._diversity))
        fine = found[0].fine  # tells records apart by all columns, so that each is counted once
        each = np.fmin.reduce([np.append(v, np.nan)[d.place] for d, v in zip(found, diversity, strict=True)])
        n = int(fine.sizes[~np.isnan(each)].sum())
        below = int(fine.sizes[each < self.l * (1 - ROUNDING)].sum())
        least = float(np.nanmin(each))
        details = {
            "records in violating classes": float(below),
            "smallest l": least,
            "records left out": float(fine.records - n),
        }
        if len(self.over) > 1:
            details |= {f"smallest l of {c}": float(d.min()) for c, d in zip(self.over, diversity, strict=True)}
        return self.result(
            below / n,
            f"{count_of(below, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self._asked}; "
            f"the least diverse class has {_amount(self.kind, least)}",
            details=details,
            find_records=(lambda: np.asarray(of_original(outcome, fine, each))) if outcome.aligned else None,
        )

    def _diversity(self, cells: ClassCells) -> Numbers:
        if self.kind == "recursive":
            return recursive_diversity(cells, self.c)
        return entropy_diversity(cells) if self.kind == "entropy" else cells.distinct.astype(np.float64)


def _amount(kind: DiversityKind, least: float) -> str:
    if kind == "distinct":
        return f"{least:,.0f} different value{'' if least == 1 else 's'}"
    return f"l = {least:.3g}"


class AlphaK(RiskMeasure, ClassModel):
    """The share of released records that are not (α, k)-anonymous.

    A record is, if at least k records match it on the keys, itself included, and none of the sensitive values has a share above α
    among those of them whose value is known. All values of the column are sensitive unless some are named: a diagnosis of flu
    may be of no concern. Per record: the largest share of a sensitive value in its class. Source: Wong et al. 2006.
    """

    title: ClassVar[str] = "records below {self._asked} of {self.column}"
    sentence: ClassVar[str] = "{percent:.3g} % of the records are in classes without {self._asked}"

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    alpha: float = param(default=0.5, doc="the largest share that a sensitive value may have in a class", low=0, high=1)
    k: int = param(default=3, doc="how many records must look the same", low=1, integer=True)
    values: tuple[str, ...] = param(default=(), doc="the sensitive values; all if none are named")
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        given: object = self.values
        if not isinstance(given, str | list | tuple):
            raise ParameterError("values of alpha_k must be a list of values of the column.")
        listed = (given,) if isinstance(given, str) else given
        object.__setattr__(self, "values", tuple(label_of(value) for value in listed))

    @override
    @property
    def confidential(self) -> tuple[str, ...]:
        return (self.column,)

    @override
    @property
    def least(self) -> int:
        return self.k

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        found = table.of(self.column)
        named = [not self.values or label_of(value) in self.values for value in found.values]
        watched, low = np.array(named, np.float64), table.sizes < self.k
        shares = found.each(lambda cells: cells.largest(cells.shares * watched[cells.values]))
        low[found.rows] |= shares > self.alpha + ROUNDING
        return low

    @property
    def _asked(self) -> str:
        return f"({self.alpha:g}, {self.k})-anonymity"

    @override
    @property
    def variant(self) -> str:
        named = "1 named value is" if len(self.values) == 1 else f"{len(self.values)} named values are"
        which = f"{named} sensitive" if self.values else "every value is sensitive"
        return f"{which}; {RULES[self.missing]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the size of each class and the largest share in it."""
        keys = keys_beside(outcome, snooper, [self.column])
        found = distributions(outcome, snooper, self.missing, self.column, keys)
        watched = self._watched(found, outcome)
        share = np.append(found.each(lambda cells: cells.largest(cells.shares * watched[cells.values])), np.nan)[
            found.place
        ]
        size = _matches(found)
        counted, sizes = ~np.isnan(size), found.fine.sizes
        n, small, frequent = int(sizes[counted].sum()), size < self.k, share > self.alpha + ROUNDING
        broken, largest, least = int(sizes[small | frequent].sum()), float(np.nanmax(share)), int(np.nanmin(size))
        return self.result(
            broken / n,
            f"{count_of(broken, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self._asked}; a sensitive value of "
            f"'{self.column}' has at most {100 * largest:.3g} % of a class, and the smallest class has {plural(least)}",
            details={
                "records in violating classes": float(broken),
                "records below k": float(sizes[small].sum()),
                "records above alpha": float(sizes[frequent].sum()),
                "largest share": largest,
                "smallest class": float(least),
                "records left out": float(found.fine.records - n),
            },
            find_records=(lambda: np.asarray(of_original(outcome, found.fine, share))) if outcome.aligned else None,
        )

    def _watched(self, found: Distributions, outcome: Release) -> Numbers:
        """Return 1 for a sensitive value and 0 for another, shape (m,)."""
        if not self.values:
            return np.ones(len(found.values))
        known = [label_of(value) for value in found.values]
        if absent := set(self.values) - set(known):
            # one that was masked away is no danger, but one that never was is a slip of the pen
            before = outcome.original.engine
            standing = before.group([self.column]).columns[self.column].codes[1] if self.column in before.kinds else ()
            if never := sorted(absent - {label_of(value) for value in standing}):
                raise NotApplicable(
                    f"no record has the value '{never[0]}' in '{self.column}', neither before nor after masking. "
                    "Look for its spelling among the column's values."
                )
        return np.array([value in self.values for value in known], np.float64)


def _matches(found: Distributions) -> Numbers:
    """Return how many records match those of each row of `fine` on the keys; NaN where the rule leaves them out."""
    fine = found.fine
    by_key = [fine.codes[fine.names.index(name)] for name in found.keys]
    row, _ = classes(by_key, len(fine))
    matches = replace(fine.among(found.keys), rule=found.rule).matches[row].astype(np.float64)
    if found.rule == "ignored":
        matches[np.any([codes < 0 for codes in by_key], axis=0)] = np.nan
    return matches


# --- t-closeness: classes whose confidential values are distributed unlike the whole file (Li, Li, Venkatasubramanian 2007).

Distance = Literal["ordered", "unordered", "hierarchical"]
_BY_SCALE: dict[Scale, Distance] = {
    Scale.ORDERED: "ordered",
    Scale.UNORDERED: "unordered",
    Scale.PARTIALLY_ORDERED: "hierarchical",
}


class TCloseness(RiskMeasure, ClassModel):
    """The largest distance between the distribution of a confidential column in a class and in the whole file, from 0 to 1.

    The distance is the earth mover's: how far shares of the values have to be moved, on average, to make one distribution the
    other. A step from one of m values in order to the next costs 1/(m - 1) (``distance="ordered"``); from any value to any other,
    1 (``"unordered"``); or as far as one has to go up the column's hierarchy until both values are one, divided by its height
    (``"hierarchical"``). If none is named, the column's scale decides. Per record: the distance of its class.
    """

    title: ClassVar[str] = "t-closeness distance of {self.column}"
    sentence: ClassVar[str] = (
        "the class that is least like the whole file is {value:.3g} away from it in '{self.column}'"
    )

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    distance: Distance | None = param(
        default=None, doc="how far apart values are; by the column's scale if none is named"
    )
    t: float = param(default=0.2, doc="the largest distance that is close enough", low=0, high=1)
    missing: Missing = missing_rule()

    @override
    @property
    def variant(self) -> str:
        return f"{self.distance or 'by the scale of the column'}; {RULES[self.missing]}"

    compares: ClassVar[bool] = True

    @override
    @property
    def confidential(self) -> tuple[str, ...]:
        return (self.column,)

    def _of_classes(self, table: CandidateClasses) -> Numbers:
        found, apart = table.of(self.column), np.zeros(len(table))
        distance = self.distance or _BY_SCALE[found.attribute.scale]
        apart[found.rows] = _apart(found, distance, found.attribute, found.kind)
        return apart

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        return self._of_classes(table) > self.t + ROUNDING

    @override
    def amount(self, table: CandidateClasses) -> float:
        return float(self._of_classes(table).max(initial=0.0))

    @override
    def urgency(self, table: CandidateClasses) -> Numbers:
        return 1.0 - self._of_classes(table)

    @override
    def allows(self, score: Score) -> bool:
        return score.value <= self.t + ROUNDING

    def of_records(self, values: Numbers) -> float:
        """Return how far the classes of some records are from the whole file at most."""
        return float(values.max())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the distance of each class."""
        keys = keys_beside(outcome, snooper, [self.column])
        distance = self.distance or _BY_SCALE[outcome.masked.schema[self.column].scale]
        found = distributions(outcome, snooper, self.missing, self.column, keys)
        apart = _apart(found, distance, outcome.masked.schema[self.column], outcome.masked.kind(self.column))
        beyond, n, largest = found.records_in(apart > self.t + ROUNDING), found.n, float(apart.max())
        score = self.result(
            largest,
            f"the class of {', '.join(keys)} that is least like the whole file is {largest:.3g} away from it in "
            f"'{self.column}'; {count_of(beyond, n, ('is', 'are'))} in classes more than {self.t:g} away",
            details={
                "records in classes beyond t": float(beyond),
                "mean distance": float(found.sizes @ apart) / n,
                "classes": float(len(found)),
                "records left out": float(found.left_out),
            },
            find_records=(lambda: found.per_original(outcome, apart)) if outcome.aligned else None,
        )
        return replace(score, variant=f"{distance}; {RULES[self.missing]}")


Spread = Distributions | ClassValues
"""The values of a column in the classes of a release, or of a candidate for one."""


def _apart(found: Spread, distance: Distance, attribute: Attribute, kind: Kind) -> Numbers:
    """Return the distance of each class from the whole file, shape (c,)."""
    whole, memory = found.whole, found.memory if isinstance(found, ClassValues) else {}
    if distance not in memory:
        memory[distance] = {"ordered": _places, "hierarchical": _nodes, "unordered": _each_its_own}[distance](
            found, attribute, kind
        )
    nodes = memory[distance]
    if distance == "ordered":
        along = np.bincount(nodes, whole).astype(np.int64)
        return found.each(lambda cells: kernels.column_pairs.ordered_distances(*_in_order(cells, nodes), along))
    return found.each(
        lambda cells: kernels.column_pairs.tree_distances(cells.starts, cells.values, cells.counts, whole, nodes)
    )


def _each_its_own(found: Spread, attribute: Attribute, kind: Kind) -> NDArray[np.int32]:
    """Return the nodes of values that have no more in common with one than with another, shape (1, m)."""
    return np.arange(len(found.whole), dtype=np.int32)[None, :]


def _places(found: Spread, attribute: Attribute, kind: Kind) -> NDArray[np.int32]:
    """Return the place of each value in the order of values, shape (m,)."""
    if kind is not Kind.CATEGORY:
        return np.arange(len(found.whole), dtype=np.int32)  # numbers, dates and yes/no come sorted
    numbers = [attribute.values.get(str(value)) for value in found.values]
    if None in numbers:
        raise NotApplicable(
            f"column '{found.column}' holds text, and the schema does not say in which order it comes. Give each of its values "
            "a number there (values = {...}), or choose distance='unordered'."
        )
    return np.unique(np.array(numbers, np.float64), return_inverse=True)[1].astype(np.int32)


def _in_order(cells: ClassCells, places: NDArray[np.int32]) -> tuple[Whole, NDArray[np.int32], Whole]:
    """Return the cells of each class in order of place."""
    here = places[cells.values]
    if (np.diff(places) > 0).all():
        return cells.starts, here, cells.counts
    order = np.lexsort((here, cells.rows))
    return cells.starts, here[order], cells.counts[order]


def _nodes(found: Spread, attribute: Attribute, kind: Kind) -> NDArray[np.int32]:
    """Return the node of each value on each level of the column's hierarchy below the root, shape (height, m)."""
    hierarchy = attribute.hierarchy
    if hierarchy is None:
        raise NotApplicable(
            f"column '{found.column}' has no hierarchy in the schema, so values have no distance in it. "
            "Give it one, or choose distance='unordered'."
        )
    levels = [hierarchy.generalise(list(found.values), level) for level in range(hierarchy.height)]
    return np.stack([np.unique(labels.astype(str), return_inverse=True)[1] for labels in levels]).astype(np.int32)


class FrequencyRule(RiskMeasure, ClassModel, abstract=True):
    """A bound on how frequent a value may be in a class, compared with the file."""

    compares: ClassVar[bool] = True
    column: str = param(doc="the confidential column", columns="one", holds="anything")

    @override
    @property
    def confidential(self) -> tuple[str, ...]:
        return (self.column,)

    @abstractmethod
    def find(self, found: Spread) -> tuple[Numbers, Flags, str, str]:
        """Return an amount for each class (c,), which classes break the rule, what the amount is called, and what to say."""

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        found, low = table.of(self.column), np.zeros(len(table), bool)
        if len(found.rows):
            low[found.rows] = self.find(found)[1]
        return low

    def score_classes(self, outcome: Release, snooper: Snooper, missing: Missing) -> Score:
        """Count the records in classes that break the rule."""
        keys = keys_beside(outcome, snooper, [self.column])
        found = distributions(outcome, snooper, missing, self.column, keys)
        amounts, breaks, name, told = self.find(found)
        broken = found.records_in(breaks)
        return self.result(
            broken / found.n,
            f"{count_of(broken, found.n, ('is', 'are'))} in classes of {', '.join(keys)} without {told}",
            details={
                "records in violating classes": float(broken),
                name: float(amounts.max()),
                "classes": float(len(found)),
                "records left out": float(found.left_out),
            },
            find_records=(lambda: found.per_original(outcome, amounts)) if outcome.aligned else None,
        )


class BetaLikeness(FrequencyRule):
    """The share of released records in classes that are not β-like: a confidential value is too much more frequent there.

    A value with share p in the file and q in a class has the gain (q - p)/p: how much more likely it has become to a snooper who
    finds the class. A class is β-like if no gain is above β (``kind="basic"``), nor above -ln p (``"enhanced"``, so that a
    frequent value cannot become certain). Per record: the largest gain in its class. Source: Cao, Karras 2012.
    """

    title: ClassVar[str] = "records below {self.beta:g}-likeness of {self.column}"
    sentence: ClassVar[str] = "{percent:.3g} % of the records are in classes without {self.kind} {self.beta:g}-likeness"

    beta: float = param(
        default=1.0, doc="how much more frequent a value may be in a class, relatively", low=0, above=True
    )
    kind: Literal["enhanced", "basic"] = param(default="enhanced", doc="whether a gain is also bounded by -ln p")
    missing: Missing = missing_rule()

    @override
    @property
    def variant(self) -> str:
        return f"{self.kind}; {RULES[self.missing]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the gains of each class."""
        return self.score_classes(outcome, snooper, self.missing)

    @override
    def find(self, found: Spread) -> tuple[Numbers, Flags, str, str]:
        shares = found.whole / found.n
        bounds = np.full(len(shares), self.beta)
        if self.kind == "enhanced":
            bounds = np.minimum(self.beta, -np.log(shares))

        def most(cells: ClassCells) -> Numbers:
            gain = cells.shares / shares[cells.values] - 1
            return np.column_stack([cells.largest(gain), cells.largest(gain - bounds[cells.values])])

        gain, excess = found.each(most).T
        return gain, excess > ROUNDING, "largest gain", (
            f"{self.kind} {self.beta:g}-likeness; at most, a value of '{self.column}' is {1 + gain.max():.3g} times as "
            "frequent in a class as in the file"
        )  # fmt: skip


class DeltaDisclosure(FrequencyRule):
    """The share of released records in classes that are not δ-disclosure private.

    A class is, if |log2(q/p)| < δ for every value of the confidential column: its share q in the class is neither 2^δ times its
    share p in the file, nor that many times less. A value that a class lacks has q = 0, which breaks every δ, as in the paper.
    With ``absent="ignored"`` only values that occur in the class are looked at, as in ARX. Per record: the largest |log2(q/p)| of
    its class. Source: Brickell, Shmatikov 2008.
    """

    title: ClassVar[str] = "records below {self.delta:g}-disclosure privacy of {self.column}"
    sentence: ClassVar[str] = "{percent:.3g} % of the records are in classes without {self.delta:g}-disclosure privacy"

    delta: float = param(default=1.0, doc="the bound on |log2(q/p)|, which must stay below", low=0, above=True)
    absent: Literal["counts", "ignored"] = param(
        default="counts", doc="whether a value that a class lacks breaks the bound"
    )
    missing: Missing = missing_rule()

    @override
    @property
    def variant(self) -> str:
        return (
            f"a value that a class lacks {'counts' if self.absent == 'counts' else 'is ignored'}; {RULES[self.missing]}"
        )

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the largest ratio of each class."""
        return self.score_classes(outcome, snooper, self.missing)

    @override
    def find(self, found: Spread) -> tuple[Numbers, Flags, str, str]:
        shares, m = found.whole / found.n, len(found.whole)

        def ratio(cells: ClassCells) -> Numbers:
            largest = cells.largest(np.abs(np.log2(cells.shares / shares[cells.values])))
            return np.where(cells.distinct < m, np.inf, largest) if self.absent == "counts" else largest

        ratios = found.each(ratio)
        most = ratios.max()
        told = "a class lacks a value altogether" if np.isinf(most) else f"the largest |log2(q/p)| is {most:.3g}"
        sentence = f"{self.delta:g}-disclosure privacy of '{self.column}'; {told}"
        return ratios, ratios >= self.delta * (1 - ROUNDING), "largest |log2(q/p)|", sentence
