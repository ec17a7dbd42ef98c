"""β-likeness: values whose share in a class is too far above their share in the file (Cao, Karras 2012)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import out_of
from sfumato.risk.distributions import ROUNDING, Cells, distributions, keys_beside
from sfumato.risk.keys import RULES, missing_rule
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class BetaLikeness(DirectMeasure):
    """The share of released records in classes that are not β-like: a confidential value is too much more frequent there.

    A value with share p in the file and q in a class has the gain (q - p)/p: how much more likely it has become to a snooper who
    finds the class. A class is β-like if no gain is above β (``kind="basic"``), nor above -ln p (``"enhanced"``, so that a
    frequent value cannot become certain). Per record: the largest gain in its class.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    beta: float = param(
        default=1.0, doc="how much more frequent a value may be in a class, relatively", low=0, above=True
    )
    kind: Literal["enhanced", "basic"] = param(
        default="enhanced", doc="whether a gain is also bounded by -ln p", choices=("enhanced", "basic")
    )
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below {self.beta:g}-likeness of {self.column}"

    @property
    def variant(self) -> str:
        """The kind and the rule for missing keys."""
        return f"{self.kind}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records are in classes without {self.kind} {self.beta:g}-likeness"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the gains of each class."""
        keys = keys_beside(outcome, snooper, [self.column])
        found = distributions(outcome, snooper, self.missing, self.column, keys)
        shares, n = found.whole / found.n, found.n
        bounds = np.minimum(self.beta, -np.log(shares)) if self.kind == "enhanced" else np.full(len(shares), self.beta)

        def most(cells: Cells) -> Numbers:
            gain = cells.shares / shares[cells.values] - 1
            return np.column_stack([cells.largest(gain), cells.largest(gain - bounds[cells.values])])

        gain, excess = found.each(most).T
        broken, largest = found.records_in(excess > ROUNDING), float(gain.max())
        return self.result(
            broken / n,
            f"{out_of(broken, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self.kind} {self.beta:g}-likeness; "
            f"at most, a value of '{self.column}' is {1 + largest:.3g} times as frequent in a class as in the file",
            details={
                "records in violating classes": float(broken),
                "largest gain": largest,
                "classes": float(len(found)),
                "records left out": float(found.left_out),
            },
            find_records=(lambda: found.per_original(outcome, gain)) if outcome.aligned else None,
        )
