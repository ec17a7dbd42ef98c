"""Propensity-score mean squared error: can a model tell released records from original ones? (Woo et al. 2009)"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import DataError, listing
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.compared import COMPARED, compared_columns, over_columns, released_kind, weighted_flag, weights_of
from sfumato.utility.folds import folds_after, folds_of
from sfumato.utility.propensity import Design, feature_of
from sfumato.utility.propensity_tree import CATEGORIES, by_tree
from sfumato.utility.synthesised import synthesised

Numbers = NDArray[np.float64]
Model = Literal["main effects", "two-way", "tree"]
Null = Literal["recipe", "estimated", "drawn", "none"]
FOLDS = 5
"""A tree is grown without the records it is asked about."""
GROWN = 200_000
"""About the most records that trees are grown on."""
RIDGE = 1e-8
"""Share of the records' information: too small to see, but a model that tells the files apart completely has an end."""


class PMSE(DirectMeasure):
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

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()
    model: Model = param(
        default="main effects", doc="the propensity model", choices=("main effects", "two-way", "tree")
    )
    null: Null = param(
        default="recipe",
        doc="how synthetic records were made, for the ratio: as the recipe says, with estimated or drawn parameters, or not",
        choices=("recipe", "estimated", "drawn", "none"),
    )
    weighted: bool = weighted_flag()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "propensity score" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """The model, and whether weights are used."""
        return f"pMSE, {self.model}" + (", weighted" if self.weighted else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return how well a model tells."""
        return f"a model tells released from original records {digits(100 * (1 - value))} % of the way (pMSE/(c(1-c)))"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns, the survey weights if they are used, and the household that a fold keeps together."""
        names = self.over or tuple(a.name for a in schema if a.role in COMPARED)
        beside = (
            schema.one("weight") if self.weighted else None,
            schema.one("household") if self.model == "tree" else None,
        )
        return (*names, *(n for n in beside if n is not None and n not in names))

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
            words.append(f"{listing(told)} {tells}, being recoded or not released (name the others in over=...)")
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
            p, terms = _by_logistic(Design(features, self.model == "two-way"), hit, weights)
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


def _by_logistic(design: Design, hit: Numbers, weights: Numbers) -> tuple[Numbers, int]:
    """Return the fitted propensities, shape (N,), and the number of coefficients that the columns determine."""
    from sfumato.kernels.least_squares import information_inverse
    from sfumato.kernels.logistic import logistic

    design.check()
    found = logistic(design.rows, hit, weights, design.width, RIDGE)
    return found.fitted, information_inverse(found.gram)[2]


def _told_by_form(outcome: Release, name: str) -> bool:
    """Whether a column was not released, holds another kind of values, or only categories that the original does not have."""
    kind = released_kind(outcome, name)
    if kind is not outcome.original.kind(name):
        return True
    if kind is not Kind.CATEGORY:
        return False
    before, after = (set(data.batch([name]).column(name).codes[1]) for data in (outcome.original, outcome.masked))
    return bool(before and after) and not before & after
