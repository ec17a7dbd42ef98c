"""How certain an attacker becomes of a contribution, for every method on one scale."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, ParameterError, out_of
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.contributor_posterior import ContributorPosterior, contributor_posterior
from sfumato.tables.published import PublishedTable
from sfumato.tables.rta import priors

Numbers = NDArray[np.float64]
_KNOWN: WeakKeyDictionary[PublishedTable, dict[tuple[float, bool], ContributorPosterior]] = WeakKeyDictionary()


class RelativeCertainty(TableMeasure):
    """Largest certainty of an attacker about a contribution, relative to the certainty that is tolerated.

    R = max w²/V, with V the variance that the best attacker is left with and w the standard deviation he must be left with
    (Stinner, definition 2.4.0.9). At most 1 is safe; infinite where a contribution is known exactly. Attackers are outsiders
    and the other contributors, who know what they contributed; before publication all know every contribution to within the
    coefficient of variation ε. Suppression, rounding and noise are judged alike: an interval counts with its variance.
    """

    side: ClassVar[Side] = Side.RISK

    prior_cv: float = priors.prior_cv()
    base_cv: float = priors.base_cv()
    of: str = param(
        default="largest", doc="the largest relative certainty, or the share of contributors of whom too much is known",
        choices=("largest", "share"),
    )  # fmt: skip
    intervals: bool = param(
        default=True,
        doc="whether attackers also work out intervals from bounds, such as that nobody contributes less than nothing",
    )

    def validate(self) -> None:
        """Refuse a demand that the prior does not meet."""
        if self.base_cv >= self.prior_cv:
            raise ParameterError(
                f"base_cv must be below prior_cv ({self.prior_cv:g}): with {self.base_cv:g} too much is known before anything "
                "is published."
            )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the largest relative certainty, or the share of contributors above 1."""
        ratio = self.ratios(outcome)
        above, largest = int((ratio > 1 + 1e-6).sum()), float(ratio.max(initial=0.0))
        share = above / len(ratio) if len(ratio) else 0.0
        details = {
            "largest": largest, "contributors above 1": float(above), "contributors": float(len(ratio)),
            "known exactly": float(np.isinf(ratio).sum()),
        }  # fmt: skip
        told = (
            f"{out_of(above, len(ratio), ('is', 'are'), 'contributor')} known better than to {100 * self.base_cv:.3g} %"
        )
        if self.of == "share":
            return self.result(share, told, details=details)
        return self.result(largest, f"{self.words(largest)}; {told}", details=details)

    def ratios(self, outcome: PublishedTable) -> Numbers:
        """Return w²/V for every contributor who gave something, shape (contributors with a size,)."""
        found = self.posterior(outcome)
        some = found.prior > 0
        required = found.prior[some] * (self.base_cv / self.prior_cv) ** 2
        with np.errstate(divide="ignore"):
            return np.asarray(required / found.variance[some])

    def posterior(self, outcome: PublishedTable) -> ContributorPosterior:
        """Return what the best attacker of each contributor is left with."""
        table = outcome.source(self.label())
        if table.contributions is None or table.is_count:
            raise NotApplicable(
                f"{self.label()} is about the amounts that contributors gave, and "
                + ("a table of counts has none" if table.is_count else "the table does not say who contributed")
                + ". Measure cell_certainty, which is about cells."
            )
        kept = _KNOWN.setdefault(outcome, {})
        key = (self.prior_cv, self.intervals)
        if key not in kept:
            kept[key] = contributor_posterior(outcome, self.prior_cv, self.intervals)
        return kept[key]

    def words(self, value: float) -> str:
        """Return what a certainty means, as a coefficient of variation."""
        if self.of == "share":
            return f"{100 * value:.3g} % of the contributors are known better than to {100 * self.base_cv:.3g} %"
        if np.isinf(value):
            return "a contribution is known exactly"
        if value == 0:
            return "nothing is known of any contribution"
        share = digits(100 * self.base_cv / np.sqrt(value))
        return f"an attacker knows some contribution to within {share} % (standard deviation)"

    @property
    def variant(self) -> str:
        """The prior and the demand."""
        return f"known to {100 * self.prior_cv:.3g} % before, to {100 * self.base_cv:.3g} % at most after"

    def label(self) -> str:
        """Return what is measured."""
        return "relative certainty" if self.of == "largest" else "contributors at risk"
