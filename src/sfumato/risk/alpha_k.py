"""(α, k)-anonymity: classes that are too small, or in which a confidential value is too frequent (Wong et al. 2006)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import NotApplicable, ParameterError, out_of, some
from sfumato.kernels.classes import classes
from sfumato.risk.distributions import ROUNDING, Distributions, distributions, keys_beside
from sfumato.risk.keys import RULES, missing_rule, of_original
from sfumato.schema import Schema
from sfumato.schema.hierarchy.base import label_of

Numbers = NDArray[np.float64]


class AlphaK(DirectMeasure):
    """The share of released records that are not (α, k)-anonymous.

    A record is, if at least k records match it on the keys, itself included, and none of the sensitive values has a share above α
    among those of them whose value is known. All values of the column are sensitive unless some are named: a diagnosis of flu
    may be of no concern. Per record: the largest share of a sensitive value in its class.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    alpha: float = param(default=0.5, doc="the largest share that a sensitive value may have in a class", low=0, high=1)
    k: int = param(default=3, doc="how many records must look the same", low=1, integer=True)
    values: tuple[str, ...] = param(default=(), doc="the sensitive values; all if none are named")
    missing: Missing = missing_rule()

    def validate(self) -> None:
        """Take one value or a list of values."""
        given: object = self.values
        if not isinstance(given, str | list | tuple):
            raise ParameterError("values of alpha_k must be a list of values of the column.")
        listed = (given,) if isinstance(given, str) else given
        object.__setattr__(self, "values", tuple(label_of(value) for value in listed))

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below {self._asked} of {self.column}"

    @property
    def _asked(self) -> str:
        return f"({self.alpha:g}, {self.k})-anonymity"

    @property
    def variant(self) -> str:
        """Which values are sensitive, and the rule for missing keys."""
        named = "1 named value is" if len(self.values) == 1 else f"{len(self.values)} named values are"
        which = f"{named} sensitive" if self.values else "every value is sensitive"
        return f"{which}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records are in classes without {self._asked}"

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
            f"{out_of(broken, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self._asked}; a sensitive value of "
            f"'{self.column}' has at most {100 * largest:.3g} % of a class, and the smallest class has {some(least)}",
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

    def _watched(self, found: Distributions, outcome: Release) -> NDArray[np.float64]:
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
