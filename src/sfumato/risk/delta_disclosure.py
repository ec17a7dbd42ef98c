"""δ-disclosure privacy: values much more or much less frequent in a class than in the file (Brickell, Shmatikov 2008)."""

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


class DeltaDisclosure(DirectMeasure):
    """The share of released records in classes that are not δ-disclosure private.

    A class is, if |log2(q/p)| < δ for every value of the confidential column: its share q in the class is neither 2^δ times its
    share p in the file, nor that many times less. A value that a class lacks has q = 0, which breaks every δ, as in the paper.
    With ``absent="ignored"`` only values that occur in the class are looked at, as in ARX. Per record: the largest |log2(q/p)| of
    its class.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    delta: float = param(default=1.0, doc="the bound on |log2(q/p)|, which must stay below", low=0, above=True)
    absent: Literal["counts", "ignored"] = param(
        default="counts", doc="whether a value that a class lacks breaks the bound", choices=("counts", "ignored")
    )
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below {self.delta:g}-disclosure privacy of {self.column}"

    @property
    def variant(self) -> str:
        """What absent values do, and the rule for missing keys."""
        return (
            f"a value that a class lacks {'counts' if self.absent == 'counts' else 'is ignored'}; {RULES[self.missing]}"
        )

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records are in classes without {self.delta:g}-disclosure privacy"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the largest ratio of each class."""
        keys = keys_beside(outcome, snooper, [self.column])
        found = distributions(outcome, snooper, self.missing, self.column, keys)
        shares, n, m = found.whole / found.n, found.n, len(found.whole)

        def ratio(cells: Cells) -> Numbers:
            largest = cells.largest(np.abs(np.log2(cells.shares / shares[cells.values])))
            return np.where(cells.distinct < m, np.inf, largest) if self.absent == "counts" else largest

        ratios = found.each(ratio)
        broken, largest = found.records_in(ratios >= self.delta * (1 - ROUNDING)), float(ratios.max())
        most = "a class lacks a value altogether" if np.isinf(largest) else f"the largest |log2(q/p)| is {largest:.3g}"
        return self.result(
            broken / n,
            f"{out_of(broken, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self.delta:g}-disclosure privacy of "
            f"'{self.column}'; {most}",
            details={
                "records in violating classes": float(broken),
                "largest |log2(q/p)|": largest,
                "classes": float(len(found)),
                "records left out": float(found.left_out),
            },
            find_records=(lambda: found.per_original(outcome, ratios)) if outcome.aligned else None,
        )
