"""Standardised coefficient difference: how many standard errors an analyst's coefficients move (Nowok, Raab and Dibben 2016)."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import Release, Score, Snooper
from sfumato.contract.score import digits
from sfumato.schema import Schema
from sfumato.utility.of_coefficients import OfCoefficients

APART = 3.92
"""Standard errors by which two 95 % intervals of the same length no longer meet: 2 · 1.96."""


class CoefficientDifference(OfCoefficients):
    """U = 1 - the mean over the coefficients of |β_y - β_o| / se(β_o): how many standard errors the release moves them.

    β_o and its standard error come from the original, β_y from the release; of several implicates the mean is taken. 1 is a
    file that was not changed, 0 one whose coefficients are a standard error off on average; there is no lower end.

    A coefficient that the release does not determine (a category is gone, a column is all alike) counts as if the release
    said zero, and as at least 3.92 standard errors off, where two 95 % intervals no longer meet. Terms that the original does
    not determine are left out. With survey weights the standard errors are the linearised ones.
    """

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"coefficients of {self.formula}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference."""
        return f"coefficients are {digits(1 - value)} standard errors off on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare every coefficient."""
        before, found = self.fits(outcome)
        titles = self.titles(before)
        after = np.mean([one.estimates for one in found], axis=0)
        off = np.abs(after - before.estimates) / before.errors
        gone = np.isnan(off)
        off[gone] = np.maximum(np.abs(before.estimates[gone]) / before.errors[gone], APART)
        value, worst = 1.0 - math.fsum(off) / len(off), int(off.argmax())
        words = f"{self.words(value, outcome.original.schema)}; the most, {digits(off[worst])}, is {titles[worst]}"
        details = {f"standard errors off: {name}": float(v) for name, v in zip(titles, off, strict=True)}
        return self.result(value, words, details=details)
