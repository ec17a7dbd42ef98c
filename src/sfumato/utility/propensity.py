"""Propensity-score mean squared error: can a model tell released records from original ones?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data import Batch, Kind, Microdata
from sfumato.data.classes import common_codes
from sfumato.data.households import unit_ids
from sfumato.errors import DataError, NotApplicable, join_names
from sfumato.kernels.classes import mix64
from sfumato.schema import Scale, Schema
from sfumato.typing import Codes, Flags, Numbers, Whole
from sfumato.utility.comparison import (
    ColumnUtility,
    compared_columns,
    over_columns,
    released_kind,
    weighted_flag,
    weights_of,
)
from sfumato.utility.recoded_values import column_numbers
from sfumato.utility.regression import synthesised

if TYPE_CHECKING:
    from sfumato.kernels.forest import ForestTree


def folds_of(original: Microdata, count: int) -> Whole:
    """Return the fold of each original record, shape (n,): by a hash of its household's number, or of its hidden id."""
    household = original.schema.one("household")
    units = unit_ids(original.batch([] if household is None else [household]), "household")
    return _hashed(units, count)


def folds_after(original: Microdata, released: Microdata, folds: Whole, count: int) -> Whole:
    """Return the fold of each released record, shape (t,): its original's; simulated ones are put anywhere."""
    ids, mine = original.batch([]).ids, released.batch([]).ids
    if len(ids) == len(mine) and np.array_equal(ids, mine):
        return folds
    order = np.argsort(ids, kind="stable")
    at = order[np.searchsorted(ids, mine, sorter=order).clip(max=max(len(ids) - 1, 0))] if len(ids) else mine[:0]
    out = _hashed(mine, count)
    if len(ids):
        known = ids[at] == mine
        out[known] = folds[at[known]]
    return out


def _hashed(numbers: Whole, count: int) -> Whole:
    """Return a fold that looks random, the same in every run and on every engine."""
    return np.asarray(mix64(numbers.astype(np.int64).view(np.uint64)) % np.uint64(count), np.int64)


# --- Two files in one, as the columns of a propensity model: numbers, categories, and what is missing.

LEVELS = 20
"""Most categories of a column that a logistic model tells apart; the rarer ones are one, or two (see `_category`)."""
TERMS = 300
"""Most columns of a logistic model."""


@dataclass(frozen=True, eq=False)
class Feature:
    """One column of N records, those of the original first."""

    name: str
    values: Numbers | None
    """Standardised numbers or dates, 0 where missing, shape (N,); None for categories, and for numbers that are all alike."""
    codes: Codes
    """Of categories, from the most frequent one on, with the missing as the last one; of numbers 1 where missing; shape (N,)."""
    levels: int
    """How many codes there are."""

    @property
    def width(self) -> int:
        """Columns of the design; the first code is in the intercept."""
        return (self.values is not None) + self.levels - 1

    def block(self, start: int, stop: int) -> Numbers:
        """Return rows of the design, shape (stop - start, width)."""
        code = self.codes[start:stop]
        dummies = (code[:, None] == np.arange(1, self.levels, dtype=np.int32)).astype(np.float64)
        return dummies if self.values is None else np.column_stack([self.values[start:stop], dummies])


@dataclass(frozen=True, eq=False)
class PropensityDesign:
    """The columns of a logistic model: an intercept, main effects and, if asked for, all products of two."""

    features: Sequence[Feature]
    products: bool

    @property
    def width(self) -> int:
        """How many columns there are."""
        widths = [f.width for f in self.features]
        main = 1 + sum(widths)
        if not self.products:
            return main
        return main + sum(a * b for a, b in combinations(widths, 2)) + sum(f.values is not None for f in self.features)

    def rows(self, start: int, stop: int) -> Numbers:
        """Return some rows, shape (stop - start, width)."""
        blocks = [f.block(start, stop) for f in self.features]
        out = [np.ones((stop - start, 1)), *blocks]
        if self.products:
            out += [(a[:, :, None] * b[:, None, :]).reshape(stop - start, -1) for a, b in combinations(blocks, 2)]
            out += [f.values[start:stop, None] ** 2 for f in self.features if f.values is not None]
        return np.concatenate(out, axis=1)

    def check(self) -> None:
        """Refuse more columns than a model can be fitted with in reasonable time."""
        if self.width > TERMS:
            raise NotApplicable(
                f"the propensity model would have {self.width:,} terms, and has at most {TERMS}. Name fewer columns, or "
                "choose another model."
            )


def feature_of(original: Microdata, released: Microdata, name: str, weights: Numbers, most: int = LEVELS) -> Feature:
    """Read a column of both files, shape (N,) in all; `weights` (N,) are used to standardise numbers.

    A column that was not released is missing in every released record. One that holds numbers here and categories there is
    compared as categories, of which none is in both files.
    """
    before = original.batch([name])
    after = released.batch([name]) if name in released.engine.kinds else None
    if after is not None and released.kind(name) is Kind.OTHER and after.missing(name).all():
        after = None  # a column without any value has no kind
    kinds = {original.kind(name)} | ({released.kind(name)} if after is not None else set())
    if Kind.OTHER in kinds:
        raise NotApplicable(
            f"column '{name}' holds {Kind.OTHER}, which cannot be compared. Name the other columns (over=...)."
        )
    if kinds == {Kind.DATE} or (kinds == {Kind.NUMBER} and original.schema[name].scale is Scale.ORDERED):
        theirs = np.full(len(released), np.nan) if after is None else _numbers(after, name)
        return _number(name, np.concatenate([_numbers(before, name), theirs]), weights)
    given = (np.full(len(released), -1, np.int32), []) if after is None else after.codes(name)
    (old, new), _ = common_codes(before.codes(name), given)
    return _category(name, old, new, most)


def _numbers(batch: Batch, name: str) -> Numbers:
    return np.where(batch.missing(name), np.nan, column_numbers(batch, name))


def _number(name: str, x: Numbers, weights: Numbers) -> Feature:
    gap = np.isnan(x)
    if np.isinf(x).any():
        raise DataError(f"column '{name}' holds infinite values, which cannot be compared. Set them to missing.")
    codes, levels = gap.astype(np.int32), 1 + int(gap.any())
    known = ~gap & (weights > 0)
    if not known.any():
        return Feature(name, None, codes, levels)
    z = x / (float(np.abs(x[known]).max()) or 1.0)  # the squares of huge numbers have no room
    w = weights[known]
    mean = float(np.average(z[known], weights=w))
    spread = float(np.sqrt(np.average((z[known] - mean) ** 2, weights=w)))
    if spread <= 1e-12:
        return Feature(name, None, codes, levels)
    return Feature(name, np.where(gap, 0.0, (z - mean) / spread), codes, levels)


def _category(name: str, before: Codes, after: Codes, most: int) -> Feature:
    """Number the categories by frequency, from the most frequent on; those after the first `most` are one.

    Values that only the release has are kept apart from it, since the original's analyst never saw them: a column that was
    recoded is told by its labels, however many there are.
    """
    size = max(int(before.max(initial=-1)), int(after.max(initial=-1))) + 1
    old, new = (np.bincount(codes[codes >= 0], minlength=size) for codes in (before, after))
    place = np.full(size + 1, most + 2)  # the last one is for missing values, whose code is -1
    place[np.argsort(-(old + new), kind="stable")] = np.arange(size)
    place[:-1] = np.where(place[:-1] < most, place[:-1], most + (old == 0))
    placed = place[np.concatenate([before, after])]
    used = np.bincount(placed, minlength=most + 3) > 0
    return Feature(name, None, (np.cumsum(used) - 1)[placed].astype(np.int32), int(used.sum()))


CATEGORIES = 60
"""Most categories of a column that a tree tells apart; the rarer ones are one, or two (see `feature_of`)."""
LEAVES = 200
"""A leaf holds at least the records divided by this number, and at least ten."""
SURE = 20.0
"""A split stays if its χ² of one degree of freedom is this large, or that of a split below it: thousands are tried."""


def by_tree(features: Sequence[Feature], hit: Numbers, weights: Numbers, folds: Whole, taught: Flags) -> Numbers:
    """Return the propensity of each record by a tree grown on the `taught` records of the other folds, shape (N,).

    Where a released record and its original are in the same fold, a file that was not changed has as many of both everywhere,
    and no split: the propensity is the share of released records. Splits that chance explains are taken back. Categories are
    ordered by the share of released records among those the tree is grown on.
    """
    numbers = [None if f.values is None else _bins(f) for f in features]
    out = np.full(len(hit), float(weights @ hit / weights.sum()))
    for fold in np.unique(folds):
        asked, grown = folds == fold, (folds != fold) & taught & (weights > 0)
        if not 0 < hit[grown].sum() < grown.sum():
            continue
        bins = np.column_stack(
            [_ordered(f, hit, weights, grown) if own is None else own for f, own in zip(features, numbers, strict=True)]
        )
        learned = np.ascontiguousarray(bins[grown])
        smallest = max(10, len(learned) // LEAVES)
        tree = kernels.forest.grow_tree(learned, hit[grown].astype(np.int64), weights[grown], 2, smallest)
        pruned = tree._replace(column=np.where(_stays(tree, learned, hit[grown], weights[grown]), tree.column, -1))
        shares = kernels.forest.predict_forest([pruned], np.ascontiguousarray(bins[asked]))
        out[asked] = shares[:, 1] / shares.sum(axis=1)
    return out


def _stays(tree: ForestTree, bins: Whole, hit: Numbers, weights: Numbers) -> Flags:
    """Return which nodes of a tree are split for good, from the last to the first, shape (nodes,)."""
    rows = {0: np.arange(len(bins))}
    surprise = np.zeros(len(tree.column))
    for node in np.flatnonzero(tree.column >= 0):
        here = rows.pop(int(node))
        left = bins[here, tree.column[node]] <= tree.cut[node]
        w, p = weights[here], float(np.average(hit[here], weights=weights[here]))
        for child, part in ((tree.left[node], left), (tree.left[node] + 1, ~left)):
            rows[int(child)] = here[part]
            if 0 < p < 1:
                surprise[node] += float(w[part] @ (hit[here[part]] - p)) ** 2 / float(w[part].sum()) / (p * (1 - p))
    stays = surprise >= SURE
    for node in np.flatnonzero(tree.column >= 0)[::-1]:
        stays[node] |= stays[tree.left[node]] or stays[tree.left[node] + 1]
    return stays


def _bins(feature: Feature) -> Whole:
    """Return a number as one of at most 62 intervals with about as many records each, from 1 on; 0 is missing."""
    values, known = feature.values, feature.codes == 0
    assert values is not None  # noqa: S101 - asked of numbers alone
    ends = np.unique(np.quantile(values[known], np.linspace(0, 1, kernels.forest.BINS - 1), method="inverted_cdf"))[:-1]
    return np.where(known, 1 + np.searchsorted(ends, values, side="left"), 0).astype(np.int64)


def _ordered(feature: Feature, hit: Numbers, weights: Numbers, rows: Flags) -> Whole:
    """Return categories as places in the order of their share of released records."""
    code = feature.codes[rows]
    released = np.bincount(code, (weights * hit)[rows], feature.levels)
    share = released / np.maximum(np.bincount(code, weights[rows], feature.levels), 1e-300)
    rank = np.empty(feature.levels, np.int64)
    rank[np.argsort(share, kind="stable")] = np.arange(feature.levels)
    return rank[feature.codes]


Model = Literal["main effects", "two-way", "tree"]
Null = Literal["recipe", "estimated", "drawn", "none"]
FOLDS = 5
"""A tree is grown without the records it is asked about."""
GROWN = 200_000
"""About the most records that trees are grown on."""
RIDGE = 1e-8
"""Share of the records' information: too small to see, but a model that tells the files apart completely has an end."""


class PMSE(ColumnUtility):
    """U = 1 - pMSE/(c(1 - c)), where pMSE = (1/N) Σ (p̂ - c)²: how badly a model tells released records from original ones.

    Both files are put together, N records in all, of which c are released. p̂ is a record's propensity: the probability, by a
    model of all the compared columns, that it is a released one. If the files cannot be told apart, p̂ is c for everybody and
    U is 1; if they can be told apart completely, pMSE is c(1 - c) and U is 0.

    The model is a logistic regression of main effects (Woo et al. 2009), or of main effects, squares and products of two
    columns; or a tree, grown without the fold of records it is asked about, in which a released record and its original are
    together. A missing value is a category of its own; of a column's categories the 20 most frequent are told apart, and of
    the rarer ones those that only the release has. Dates count as numbers of days. A column that was not released, or was
    recoded, tells every record: U is 0, and the words say which columns do.

    The ratio of pMSE to its expectation under a correct model is in the details for synthesis from a fitted model alone: of
    masked records it means nothing, since they share their originals' sampling error.
    """

    title: ClassVar[str] = "propensity score"
    sentence: ClassVar[str] = "a model tells released from original records {percent_lost} % of the way (pMSE/(c(1-c)))"
    definition: ClassVar[str] = "pMSE, {self.model}"

    over: tuple[str, ...] | None = over_columns()
    model: Model = param(default="main effects", doc="the propensity model")
    null: Null = param(
        default="recipe",
        doc="how synthetic records were made, for the ratio: as the recipe says, with estimated or drawn parameters, or not",
    )
    weighted: bool = weighted_flag()

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        names = super().columns(schema)
        household = schema.one("household") if self.model == "tree" else None
        return names if household is None or household in names else (*names, household)

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit the model to each implicate beside the original."""
        names = compared_columns(outcome.original, self.over)
        found = [self._apart(outcome.original, data, names) for data in outcome.implicates]
        pmse, share, terms, count = (float(np.mean(each)) for each in zip(*found, strict=True))
        value = max(1.0 - float(np.mean([p / (c * (1 - c)) for p, c, _, _ in found])), 0.0)
        details = {"pMSE": pmse, "share of released records (c)": share}
        words = [f"{self.words(value, outcome.original.schema)}; pMSE {digits(pmse)}"]
        if told := [n for n in names if _told_by_form(outcome, n)]:
            tells = "tells every record by itself" if len(told) == 1 else "tell every record by themselves"
            words.append(f"{join_names(told)} {tells}, being recoded or not released (name the others in over=...)")
        if self.model != "tree":
            details["coefficients (k)"] = terms
            why = self._no_ratio(outcome)
            if not why and terms > 1:
                expected, spread = expectation(terms, share, count, self._parameters(outcome) == "drawn")
                details |= {"pMSE expected": expected, "pMSE ratio": pmse / expected}
                if len(found) == 1:
                    details["pMSE standardised"] = (pmse - expected) / spread
                words.append(f"{digits(pmse / expected)} times what a correct synthesis gives")
            elif why:
                words.append(f"no ratio to its expectation: {why}")
        return self.result(value, "; ".join(words), details=details)

    def _parameters(self, outcome: Release) -> str | None:
        """Return how the synthetic records were made: as the recipe says, or else as the user does of records of no original."""
        if outcome.recipe is not None or self.null in ("recipe", "none"):
            return synthesised(outcome)
        masked = outcome.aligned and any((data.batch([]).ids >= 0).any() for data in outcome.implicates)
        return None if masked else self.null

    def _no_ratio(self, outcome: Release) -> str:
        """Return why pMSE is not compared with its expectation; an empty text if it is."""
        if self.null == "none":
            return "none was asked for"
        if self.weighted:
            return "none is known for weighted records"
        if self._parameters(outcome) is None:
            return "it holds for synthesis from a fitted model alone, and masked records share their originals' sampling error"
        return ""

    def _apart(self, original: Microdata, released: Microdata, names: tuple[str, ...]) -> tuple[float, float, int, int]:
        """Return pMSE, the share of released records, the number of coefficients, and the number of records."""
        n, t = len(original), len(released)
        if not n or not t:
            raise DataError(
                "a propensity score needs records in the original and in the release, and one of them has none."
            )
        weights = np.ones(n + t)
        if self.weighted:
            weights[:n], weights[n:] = weights_of(original, True), weights_of(released, True)
        weights /= weights.mean()
        hit = np.repeat([0.0, 1.0], [n, t])
        share = float(weights @ hit) / (n + t)
        if self.model == "tree":
            features = [feature_of(original, released, name, weights, CATEGORIES) for name in names]
            parts = FOLDS * -(-(n + t) // GROWN)
            folds = folds_of(original, parts)
            both = np.concatenate([folds, folds_after(original, released, folds, parts)])
            p, terms = by_tree(features, hit, weights, both % FOLDS, both < FOLDS), 0
        else:
            features = [feature_of(original, released, name, weights) for name in names]
            p, terms = _by_logistic(PropensityDesign(features, self.model == "two-way"), hit, weights)
        return float(weights @ (p - share) ** 2) / (n + t), share, terms, n + t


def expectation(k: float, c: float, records: float, drawn: bool) -> tuple[float, float]:
    """Return mean and standard deviation of pMSE if the synthetic records come from a correct model fitted to the original.

    If the files hardly differ, pMSE = c²(1 - c)² d'S⁻¹d, where d is the difference of the two files' means of the k - 1
    columns of the model, and S their covariance. Synthetic means scatter about the fitted ones, which are the original's:
    d has covariance S/(cN), so pMSE is c(1 - c)²/N times a χ² of k - 1 degrees of freedom (Snoke et al. 2018, theorem 1). Where
    parameters are drawn from their posterior, S/((1 - c)N) comes on top, as if the files were two samples: c(1 - c)/N times χ².
    """
    unit = c * (1 - c) * (1.0 if drawn else 1 - c) / records
    return (k - 1) * unit, math.sqrt(2 * (k - 1)) * unit


def _by_logistic(design: PropensityDesign, hit: Numbers, weights: Numbers) -> tuple[Numbers, int]:
    """Return the fitted propensities, shape (N,), and the number of coefficients that the columns determine."""
    design.check()
    found = kernels.regression.logistic(design.rows, hit, weights, design.width, RIDGE)
    return found.fitted, kernels.regression.information_inverse(found.gram)[2]


def _told_by_form(outcome: Release, name: str) -> bool:
    """Whether a column was not released, holds another kind of values, or only categories that the original does not have."""
    kind = released_kind(outcome, name)
    if kind is not outcome.original.kind(name):
        return True
    if kind is not Kind.CATEGORY:
        return False
    before, after = (set(data.batch([name]).column(name).codes[1]) for data in (outcome.original, outcome.masked))
    return bool(before and after) and not before & after
